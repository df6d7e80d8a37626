"""What a call did besides answering: the operations that ran, the tensors they made, the flow of shapes.

All of it runs inside the worker, beside the submission's code, and sees what an honest submission does. A hostile
one can switch it off; that costs it at most the properties that look at these records.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import torch
from torch.autograd.profiler import profile
from torch.utils._python_dispatch import TorchDispatchMode

from grader.wire import Allocation, Local

RECORDS_MAX = 20_000
locked_down = False  # set in a worker

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # else the profiler prints two lines to stderr at each use


@contextlib.contextmanager
def _quietly(profiler: profile) -> Iterator[None]:
    """Profiles without the complaint, where this process may not read its own name, that it could not."""
    with _muted():
        profiler.__enter__()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        with _muted():
            profiler.__exit__(None, None, None)  # type: ignore[no-untyped-call]


@contextlib.contextmanager
def _muted() -> Iterator[None]:
    if not locked_down:
        yield
        return
    kept, (reading, writing) = os.dup(2), os.pipe()
    os.dup2(writing, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        for descriptor in (kept, reading, writing):
            os.close(descriptor)


def _every_thread() -> Any:
    """Makes the profiler record all threads, where this torch can."""
    try:
        return torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    except TypeError:
        return None


class Observation:
    """The records of one call: each is None where it was not asked for."""

    def __init__(self, wanted: list[str], files: frozenset[str]) -> None:
        self.wanted = wanted
        self.ops: list[str] | None = [] if "ops" in wanted else None
        self.allocations: list[Allocation] | None = [] if "allocations" in wanted else None
        self.flow: list[Local] | None = [] if "flow" in wanted else None
        self._files = files

    def recording(self) -> contextlib.AbstractContextManager[object]:
        """Inside, the records are made."""
        if not self.wanted:
            return contextlib.nullcontext()
        stack = contextlib.ExitStack()
        if self.flow is not None:
            stack.enter_context(_tracing_locals(self.flow, self._files))
        if self.ops is not None:
            stack.enter_context(_recording_ops(self.ops))
        if self.allocations is not None:
            stack.enter_context(_Allocations(self.allocations))
        return stack


@contextlib.contextmanager
def _recording_ops(ops: list[str]) -> Iterator[None]:
    """The names the profiler records, and the Python functions of torch that ran, in this thread and in new ones."""
    functions: dict[str, None] = {}

    def watch(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            module = frame.f_globals.get("__name__", "")
            if type(module) is str and module.startswith("torch.") and len(functions) < RECORDS_MAX:
                functions[f"{module}.{frame.f_code.co_qualname}"] = None

    earlier = sys.getprofile(), threading.getprofile()
    profiler = profile(experimental_config=_every_thread())
    try:
        with _quietly(profiler):
            threading.setprofile(watch)
            sys.setprofile(watch)
            try:
                yield
            finally:
                sys.setprofile(earlier[0])
                threading.setprofile(earlier[1])
    finally:
        results = profiler.kineto_results  # the names alone: events with all they tell cost three times as much
        recorded = dict.fromkeys(str(event.name()) for event in results.events()) if results is not None else {}
        ops.extend(list(recorded)[:RECORDS_MAX])
        ops.extend(name for name in functions if not name.startswith("torch.autograd.profiler."))


class _Allocations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes every tensor that an operation returns in memory of its own, and at the end those that were written into.

    What a tensor holds between two writes is not noted: a table of weights that is filled row by row looks like a
    mask for a while.
    """

    def __init__(self, allocations: list[Allocation]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.allocations = allocations
        self._made: dict[int, torch.Tensor] = {}  # by storage; held, so that no address is used twice
        self._written: dict[int, Any] = {}  # the last operation that wrote into each

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # True would import torch._dynamo on entering: more than a second

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        given = {_storage(tensor) for tensor in tensors_in((args, kwargs))}
        for tensor in tensors_in(result):
            if _storage(tensor) not in given:
                self._made[_storage(tensor)] = tensor
                self._note(func, tensor)
        if func._schema.is_mutable:
            self._written.update(dict.fromkeys(given & self._made.keys(), func))
        return result

    def __exit__(self, *ended: Any) -> None:
        super().__exit__(*ended)  # type: ignore[no-untyped-call]
        for storage, func in self._written.items():
            self._note(func, self._made[storage])

    def _note(self, func: Any, tensor: torch.Tensor) -> None:
        if len(self.allocations) < RECORDS_MAX:
            self.allocations.append(_allocation(str(func), tensor))


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """The plain tensors in a value, also in its lists and dicts."""
    if isinstance(value, torch.Tensor):
        if value.layout is torch.strided and value.device.type == "cpu":
            yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _allocation(op: str, tensor: torch.Tensor) -> Allocation:
    stored = 1
    for size, step in zip(tensor.shape, tensor.stride(), strict=True):
        stored *= size if step != 0 else min(size, 1)
    dtype = str(tensor.dtype).removeprefix("torch.")
    return Allocation(op, dtype, list(tensor.shape), stored, _distinct(tensor))


def _distinct(tensor: torch.Tensor) -> int:
    """1, 2, or 3 for more: a mask of two values is no table of scores."""
    if tensor.numel() == 0:
        return 1
    if tensor.is_complex() or tensor.is_quantized:
        return 3
    flat = tensor.detach().reshape(-1)
    if len(set(flat[:8].tolist())) > 2:  # most tensors show it at once
        return 3
    first = flat[0]
    others = flat[flat != first]
    if others.numel() == 0:
        return 1
    return 2 if bool((others == others[0]).all()) else 3


@contextlib.contextmanager
def _tracing_locals(flow: list[Local], files: frozenset[str]) -> Iterator[None]:
    """After each line of the submission, the local variables that hold another tensor than before."""

    def enter(frame: FrameType, event: str, argument: object) -> Callable[..., Any] | None:
        if frame.f_code.co_filename not in files:
            return None
        seen: dict[str, int] = {}
        line = frame.f_code.co_firstlineno

        def step(frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
            nonlocal line
            if event in ("line", "return"):
                _note_locals(frame, line, seen, flow)
                line = frame.f_lineno
            return step

        return step

    earlier = sys.gettrace()
    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(earlier)


def _note_locals(frame: FrameType, line: int, seen: dict[str, int], flow: list[Local]) -> None:
    for name, value in frame.f_locals.items():
        if isinstance(value, torch.Tensor) and seen.get(name) != id(value) and len(flow) < RECORDS_MAX:
            seen[name] = id(value)
            dtype, code = str(value.dtype).removeprefix("torch."), frame.f_code
            flow.append(Local(code.co_filename, line, code.co_qualname, name, dtype, list(value.shape)))
