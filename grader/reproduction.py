"""A failing case as code: what was asked of the submission, in Python that can be pasted and does the same."""

from __future__ import annotations

import collections
import itertools
import keyword
import re
import struct
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

import torch

from grader import wire
from grader.subject import Exchange

CODE_MAX = 8_000  # characters that somebody may want to paste
SHORTEST = len("0, ")  # what an element of a tensor takes at least
SINGLE = struct.Struct("f")
KERNEL = "torch.nn.functional.scaled_dot_product_attention"


class Script:
    """Exchanges as lines of Python. `named` are the tensors of the case by the name of their argument."""

    def __init__(self, main: str, named: Mapping[str, Any], exchanges: Sequence[Exchange]) -> None:
        self._module = PurePosixPath(main).stem
        self._known = [(name, value) for name, value in named.items() if isinstance(value, torch.Tensor)]
        self._complete = True
        self._length = 0  # of what was written of tensors
        self._defined: set[str] = set()
        self._used: list[str] = []
        self._lines: list[str] = []
        self._handles: dict[int, str] = {}
        self._fresh = (f"x{number}" for number in itertools.count(1))
        self._objects: collections.Counter[str] = collections.Counter()
        self._outputs = (f"out{number or ''}" for number in itertools.count())
        for exchange in exchanges:
            self._tell(exchange)

    @property
    def code(self) -> str:
        """The whole script, imports first; "" where it could not be run, or would be too long to paste."""
        names = ", ".join(dict.fromkeys(self._used))
        head = ["import torch"]
        if names:
            head.append(f"from {self._module} import {names}")
        code = "\n".join([*head, "", *self._lines])
        return code if self._complete and len(code) <= CODE_MAX else ""

    def inputs(self, exchange: Exchange) -> list[tuple[str, torch.Tensor]]:
        """The tensors that a call was given, by the names they have here."""
        request = exchange.request
        given = _tensors(request) if isinstance(request, wire.Call) else []
        return [(self._name_of(value) or "x", value) for value in given]

    def used(self) -> set[str]:
        """The names of the tensors that occur in it."""
        return set(self._defined)

    def call(self, exchange: Exchange) -> str:
        """The call of one exchange as an expression, without defining anything."""
        request = exchange.request
        if not isinstance(request, wire.Call):
            return type(request).__name__.lower()
        arguments = [self._short(value) for value in request.args]
        arguments += [f"{name}={self._short(value)}" for name, value in request.kwargs.items()]
        return f"{self._target(request)}({', '.join(arguments)})"

    def _short(self, value: Any) -> str:
        """An argument in a few characters, for a sentence."""
        if isinstance(value, torch.Tensor):
            return self._name_of(value) or (str(value.item()) if value.dim() == 0 else f"<{list(value.shape)}>")
        if isinstance(value, wire.Handle):
            return self._handles.get(value.id, value.type)
        if isinstance(value, wire.Stream):
            return "generator"
        if isinstance(value, list):
            return "[" + ", ".join(self._short(item) for item in value) + "]"
        return repr(value)

    def _target(self, request: wire.Call) -> str:
        if request.handle is None:
            return request.name or ""
        owner = self._handles.get(request.handle, "module")
        return owner if request.method is None else f"{owner}.{request.method}"

    def _tell(self, exchange: Exchange) -> None:
        request, reply = exchange.request, exchange.reply
        if isinstance(request, wire.Call):
            self._tell_call(request, reply)
        elif isinstance(request, wire.Write):
            self._lines.append("with torch.no_grad():")
            owner = self._handles.get(request.handle, "module")
            for name, value in request.values.items():
                self._lines.append(f'    {owner}.get_parameter("{name}").copy_({self._literal(value)})')
        elif isinstance(request, wire.Mode):
            owner = self._handles.get(request.handle, "module")
            self._lines.append(f"{owner}.{'train' if request.training else 'eval'}()")
        elif isinstance(request, wire.Attribute):
            self._lines.append(f"print({self._handles.get(request.handle, 'module')}.{request.name})")
        elif isinstance(request, wire.Make):
            self._keep(getattr(reply, "value", None))
            self._complete = False  # an object of the grader's own

    def _tell_call(self, request: wire.Call, reply: Any) -> None:
        holders = self._holders(request)
        call = self._written(request, holders)
        if request.handle is None and request.name:
            self._used.append(request.name)
        first = next(self._outputs) if holders else ""
        if first:
            line = f"{first} = {call}"
            self._lines += [line] if request.grad else ["with torch.no_grad():", f"    {line}"]
            self._lines.append(f"print({first})")
        for value in _tensors(request) if holders else []:
            self._lines.append(f"{holders[id(value)]}.copy_({self._argument(value)})")
        kept = self._keep(getattr(reply, "value", None))
        output = kept or next(self._outputs)
        if request.cotangent is not None:
            tensors = _tensors(request)
            wanting = [value for value in tensors if value.requires_grad] or tensors
            learning = wanting if request.to_inputs else []
            leaves = [self._argument(value) for value in learning if value.is_floating_point()]
            self._lines += [f"{leaf}.requires_grad_()" for leaf in leaves]
            self._lines.append(f"{output} = {call}")
            if request.later is not None:
                self._lines.append(self._written(request.again(), {}))
            cotangent = self._argument(request.cotangent)
            outputs = f"list({output})" if isinstance(request.cotangent, list) else output
            self._lines.append(f"torch.autograd.backward({outputs}, {cotangent})")
            self._lines += [f"print({leaf}.grad)" for leaf in leaves]
        else:
            spoil = None if request.spoil == wire.Spoil() else request.spoil
            self._lines += _spoiling(spoil) if spoil else []
            line = f"{output} = {call}"
            self._lines += [line] if request.grad else ["with torch.no_grad():", f"    {line}"]
            self._lines += [f"{KERNEL} = kernel"] if spoil else []
            if kept is None:
                self._lines.append(f"print({output})")
            if "ops" in request.observe:
                self._lines += ["with torch.no_grad():", f"    {call}"]
        if first:
            self._lines.append(f"print({first})  # the same as above?")

    def _written(self, request: wire.Call, holders: Mapping[int, str]) -> str:
        """The call as an expression; what it is given is defined above."""
        arguments = [holders.get(id(value)) or self._argument(value) for value in request.args]
        arguments += [
            f"{name}={holders.get(id(value)) or self._argument(value)}" for name, value in request.kwargs.items()
        ]
        return f"{self._target(request)}({', '.join(arguments)})"

    def _holders(self, request: wire.Call) -> dict[int, str]:
        """Variables that hold the numbers of an earlier call, by the identity of the argument that they become."""
        holders: dict[int, str] = {}
        for now, before in zip(_tensors(request), request.earlier or [], strict=False):
            known = self._argument(before)
            holders[id(now)] = name = next(self._fresh)
            self._lines.append(f"{name} = {known}.clone()")
        return holders

    def _keep(self, value: Any) -> str | None:
        if not isinstance(value, wire.Handle):
            return None
        if value.id not in self._handles:
            name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", value.type).lower()
            self._objects[name] += 1
            self._handles[value.id] = name if self._objects[name] == 1 else f"{name}{self._objects[name]}"
        return self._handles[value.id]

    def _argument(self, value: Any) -> str:
        """An argument as an expression; tensors become variables, defined above at their first use."""
        if isinstance(value, torch.Tensor):
            name = self._name_of(value)
            if name is None:
                name = next(self._fresh)
                self._known.append((name, value))
            if name not in self._defined:
                self._defined.add(name)
                self._lines.append(f"{name} = {self._literal(value)}")
            return name
        if isinstance(value, wire.Handle):
            return self._handles.get(value.id, "module")
        if isinstance(value, wire.Stream):
            return f"torch.Generator().manual_seed({value.seed})"
        if isinstance(value, list):
            return "[" + ", ".join(self._argument(item) for item in value) + "]"
        if isinstance(value, float) and value in (float("inf"), float("-inf")):
            return f'float("{value}")'
        return repr(value)

    def _literal(self, value: torch.Tensor) -> str:
        self._complete = self._complete and self._length + SHORTEST * value.numel() <= CODE_MAX
        text = literal(value) if self._complete else ""
        self._length += len(text)
        return text

    def _name_of(self, value: torch.Tensor) -> str | None:
        for name, known in self._known:
            same = known.shape == value.shape and known.dtype == value.dtype and known.stride() == value.stride()
            if same and torch.equal(known, value) and not keyword.iskeyword(name):
                return name
        return None


def _tensors(request: wire.Call) -> list[torch.Tensor]:
    return [value for value in (*request.args, *request.kwargs.values()) if isinstance(value, torch.Tensor)]


def _spoiling(spoil: wire.Spoil) -> list[str]:
    """Lines that put a kernel in place whose result is spoiled, for code that looks it up when it is called."""
    return [
        f"kernel = {KERNEL}",
        "",
        "def spoiled(*args, **kwargs):",
        "    out = kernel(*args, **kwargs)",
        "    bump = torch.zeros(out.numel())",
        f"    bump[min(int({spoil.at:g} * out.numel()), out.numel() - 1)] = {spoil.add:g}",
        f"    return out * {spoil.scale:g} + bump.view(out.shape)",
        "",
        f"{KERNEL} = spoiled",
    ]


def literal(tensor: torch.Tensor) -> str:
    """A tensor as Python: exact, and with its layout where that is unusual."""
    shape = list(tensor.shape)
    steps = zip(shape, tensor.stride(), strict=True)
    expanded = [axis for axis, (size, step) in enumerate(steps) if size > 1 and step == 0]
    if expanded:
        base = tensor
        for axis in expanded:
            base = base.narrow(axis, 0, 1)
        return f"{literal(base.contiguous())}.expand({shape})"
    text = f"torch.tensor({_nested(tensor.tolist(), tensor.dtype)}{_suffix(tensor)})"
    if tensor.numel() == 0:
        return f"torch.zeros({shape}{_suffix(tensor)})"
    if not tensor.is_contiguous():
        made = f"torch.empty_strided({shape}, {list(tensor.stride())}{_suffix(tensor)})"
        return f"{made}.copy_({text})"
    return text


def _suffix(tensor: torch.Tensor) -> str:
    plain = (torch.float32, torch.int64, torch.bool)
    return "" if tensor.dtype in plain else f", dtype={tensor.dtype}"


def _nested(value: Any, dtype: torch.dtype) -> str:
    if isinstance(value, list):
        return "[" + ", ".join([_nested(item, dtype) for item in value]) + "]"
    return _number(value, dtype)


def _number(value: Any, dtype: torch.dtype) -> str:
    """The shortest text that gives back this number."""
    if not isinstance(value, float):
        return repr(value)
    if value != value or value in (float("inf"), float("-inf")):
        return f'float("{value}")'
    if dtype is torch.float64:
        return repr(value)
    drawn = round(value, 2)  # the numbers of a case have two decimals
    if abs(value) < 1e4 and _float32(drawn) == value:
        return repr(drawn)
    for digits in range(6, 10):  # six may be shorter: :g leaves the last zeros out
        text = f"{value:.{digits}g}"
        if _float32(float(text)) == value:
            break
    return text if any(mark in text for mark in ".en") else text + ".0"


def _float32(value: float) -> float:
    return float(SINGLE.unpack(SINGLE.pack(value))[0])
