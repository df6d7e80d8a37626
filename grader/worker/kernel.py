"""Watches the fused attention kernel while a call runs: how it was called, and what follows when its result is spoiled.

The kernel is `F.scaled_dot_product_attention`, whatever name it is called by. Calls from Python are seen by a function
mode (also under `vmap`), those from TorchScript and from inside other operations by an override in the dispatcher.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import library as operators
from torch.overrides import TorchFunctionMode

from grader.wire import KernelCall, Spoil

NAME = "scaled_dot_product_attention"
PARAMETERS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
CALLS_MAX = 10_000
KEYS = ("CPU", "AutogradCPU", *(("CUDA", "AutogradCUDA") if torch.version.cuda or torch.version.hip else ()))
_OPERATOR: Any = torch.ops.aten.scaled_dot_product_attention
KERNELS: frozenset[Any] = frozenset({torch._C._nn.scaled_dot_product_attention, _OPERATOR, _OPERATOR.default})


@contextlib.contextmanager
def watching_kernel(calls: list[KernelCall], spoil: Spoil | None) -> Iterator[None]:
    """Append each call of the kernel to `calls`, and give the caller its result spoiled."""
    watch = _Watch(calls, spoil or Spoil())
    try:
        _place.take(watch)
        with _Mode(watch):
            yield
    finally:
        _place.watch = None


def release_kernel() -> None:
    """Give the kernel its place in the dispatcher back, if a watched call still holds it."""
    _place.give_back()


class _Place:
    """The kernel's place in the dispatcher.

    Taking it costs as much as a call, so it is held from one watched call to the next, and given back before any other.
    """

    def __init__(self) -> None:
        self.watch: _Watch | None = None
        self._library: Any = None

    def take(self, watch: _Watch) -> None:
        self.watch = watch
        if self._library is None:
            library: Any = operators.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that a kernel is overridden is the point
                for key in KEYS:
                    library.impl(NAME, self._called, key)
            self._library = library

    def give_back(self) -> None:
        if self._library is not None:
            self._library._destroy()
            self._library = None

    def _called(self, *args: Any, **kwargs: Any) -> Any:
        kernel = _OPERATOR.default.decompose
        if self.watch is None or self.watch.inside:
            return kernel(*args, **kwargs)
        return self.watch.around(kernel, args, kwargs)


_place = _Place()


class _Watch:
    """Notes and spoils the outermost call; what the kernel calls inside is its own affair."""

    def __init__(self, calls: list[KernelCall], spoil: Spoil) -> None:
        self.calls = calls
        self.spoil = spoil
        self.inside = False

    def around(self, kernel: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        given = dict(zip(PARAMETERS, args, strict=False)) | kwargs
        if len(self.calls) < CALLS_MAX:
            masked, causal = given.get("attn_mask") is not None, bool(given.get("is_causal", False))
            self.calls.append(KernelCall(masked, causal, float(given.get("dropout_p", 0.0))))
        self.inside = True
        try:
            return self.spoiled(kernel(*args, **kwargs))
        finally:
            self.inside = False

    def spoiled(self, out: torch.Tensor) -> torch.Tensor:
        if self.spoil == Spoil() or out.numel() == 0:
            return out
        out = out * self.spoil.scale
        if self.spoil.add == 0:
            return out
        bump = torch.zeros(out.shape, dtype=out.dtype, device=out.device)
        bump.view(-1)[min(int(self.spoil.at * out.numel()), out.numel() - 1)] = self.spoil.add
        return out + bump


class _Mode(TorchFunctionMode):
    def __init__(self, watch: _Watch) -> None:
        super().__init__()
        self.watch = watch

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in KERNELS and not self.watch.inside:
            return self.watch.around(func, args, kwargs or {})
        return func(*args, **(kwargs or {}))
