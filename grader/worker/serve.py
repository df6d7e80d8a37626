"""Executes requests on a submission: load it, call it, read and write its parameters.

`Interpreter.handle` works on Python objects, so the same code serves the worker behind the pipe and the trusted run
of references and mistakes in the judge's own process, there in float64.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import linecache
import posixpath
import random
import socket
import sys
import time
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import nn

from grader import wire
from grader.worker import dynamo, models
from grader.worker.kernel import release_kernel, watching_kernel
from grader.worker.observe import Observation, tensors_in

dynamo.defer()
CONTAINERS = (list, tuple)
TEXT_MAX = 1 << 20  # characters of a string in an answer
ITEMS_MAX = 100_000  # items of all lists and dicts of an answer
CHUNK = 1 << 18  # bytes taken from the line at once
TOGETHER = 0.02  # seconds in which replies are collected


class Interpreter:
    """One submission and the objects it made. With `dtype`, everything floating is that dtype (the trusted run).

    `copies` says that whoever asks keeps the tensors of requests and replies, so that none of them may be the
    submission's own. Behind the wire they are copies already.
    """

    def __init__(self, dtype: torch.dtype | None = None, copies: bool = True) -> None:
        self.dtype = dtype
        self.copies = copies
        self.files: frozenset[str] = frozenset()
        self.module: types.ModuleType | None = None
        self._kept: dict[int, Any] = {}
        self._next = 1
        self._finder: _Helpers | None = None
        self._device = "cpu"  # where the tensors of the present call go
        self._grad_mode = True  # as the calls so far have left it

    def handle(self, request: wire.Request) -> wire.Reply:
        """The reply to a request. What the submission raises, SystemExit included, is a reply too."""
        try:
            with _defaults(self.dtype or torch.float32, self._grad_mode, keeps_random=self.dtype is not None):
                return self._STEPS[type(request)](self, request)
        except KeyboardInterrupt:
            if self.dtype is not None:
                raise
            return self._raised(KeyboardInterrupt())
        except BaseException as error:
            return self._raised(error)

    # ------------------------------------------------------------------------------------------- steps

    def close(self) -> None:
        """Forget the submission: its files are importable no longer."""
        self._kept.clear()
        if self._finder is not None:
            self._finder.remove()

    def _load(self, request: wire.Load) -> wire.Reply:
        self.files = frozenset(request.files)
        for path, source in request.files.items():
            linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)
        if self._finder is not None:
            self._finder.remove()
        self._finder = _Helpers(request.files, request.main)
        self._finder.install()
        self.module = self._finder.load_main()
        return wire.Loaded([name for name, value in vars(self.module).items() if _is_public(name, value)])

    def _call(self, request: wire.Call) -> wire.Reply:
        target = self._target(request)
        self._device = request.device
        leaves: list[torch.Tensor] = []
        args, kwargs = self._arguments(request, leaves)
        named = _learning(target) if request.cotangent is not None else []
        observation = Observation(request.observe, self.files)
        kernel: list[wire.KernelCall] | None = [] if "kernel" in request.observe else None
        if kernel is None:
            release_kernel()
        earlier: list[torch.Tensor] = []
        with self._grad_mode_of(request):
            if request.earlier is not None:
                numbers = [leaf.detach().clone() for leaf in leaves]
                _refill(leaves, request.earlier)
                earlier = list(tensors_in(target(*args, **kwargs)))
                _refill(leaves, numbers)
            kept = [tensor.detach().clone() for tensor in earlier]
            _seed(request.seed, request.device)
            with observation.recording(), _watching(kernel, request.spoil):
                value = target(*args, **kwargs)
                if observation.ops is not None:
                    again, named_again = self._arguments(request, [])
                    with torch.no_grad():  # a submission may go another way where no gradients are wanted
                        target(*again, **named_again)
            grad_mode = torch.is_grad_enabled()
        if request.later is not None:
            others, named_others = self._arguments(request.again(), [])
            target(*others, **named_others)
        gradients = None
        if request.cotangent is not None:
            gradients = self._gradients(value, request.cotangent, leaves, named)
        return wire.Answer(
            value=self._answer(value),
            inputs=[self._told(leaf) for leaf in leaves] if "inputs" in request.observe else None,
            requires_grad=[leaf.requires_grad for leaf in leaves] if "inputs" in request.observe else None,
            gradients=gradients,
            ops=observation.ops,
            allocations=observation.allocations,
            flow=observation.flow,
            kernel=kernel,
            grad_mode=grad_mode,
            earlier_kept=all(map(_same_numbers, earlier, kept)),
        )

    @contextlib.contextmanager
    def _grad_mode_of(self, request: wire.Call) -> Iterator[None]:
        """A call without gradients is made under no_grad; of any other, what it leaves goes for the calls after it."""
        if not request.grad:
            torch.set_grad_enabled(False)
        try:
            yield
        finally:
            if request.grad:
                self._grad_mode = torch.is_grad_enabled()

    def _parameters(self, request: wire.Parameters) -> wire.Reply:
        return self._listed(self._kept[request.handle].named_parameters(remove_duplicate=False))

    def _buffers(self, request: wire.Buffers) -> wire.Reply:
        return self._listed(self._kept[request.handle].named_buffers(remove_duplicate=False))

    def _listed(self, named: Iterator[tuple[str, torch.Tensor]]) -> wire.Reply:
        first: dict[int, str] = {}
        rows = []
        for name, tensor in named:
            alias = first.setdefault(id(tensor), name)
            same_as = alias if alias != name else None
            row = {
                "name": str(name),
                "value": self._told(tensor),
                "requires_grad": tensor.requires_grad,
                "same_as": same_as,
            }
            rows.append(row)
        return wire.Answer(value=rows)

    def _write(self, request: wire.Write) -> wire.Reply:
        parameters = dict(self._kept[request.handle].named_parameters(remove_duplicate=False))
        missing = [name for name in request.values if name not in parameters]
        shapes = {
            name: list(parameters[name].shape)
            for name, value in request.values.items()
            if name in parameters and parameters[name].shape != value.shape
        }
        if missing or shapes:
            return wire.Answer(value={"missing": missing, "shapes": shapes})
        with torch.no_grad():
            for name, value in request.values.items():
                parameters[name].copy_(value)
        return wire.Answer()

    def _mode(self, request: wire.Mode) -> wire.Reply:
        self._kept[request.handle].train(request.training)
        return wire.Answer()

    def _attribute(self, request: wire.Attribute) -> wire.Reply:
        return wire.Answer(value=self._answer(getattr(self._kept[request.handle], request.name)))

    def _make(self, request: wire.Make) -> wire.Reply:
        kwargs = {name: self._given(item, [], False) for name, item in request.kwargs.items()}
        return wire.Answer(value=self._answer(models.MAKERS[request.kind](**kwargs)))

    def _forget(self, request: wire.Forget) -> wire.Reply:
        self._kept.clear()
        self._next = 1
        self._grad_mode = True
        return wire.Answer()

    _STEPS: ClassVar[dict[type, Callable[[Any, Any], wire.Reply]]] = {
        wire.Load: _load,
        wire.Call: _call,
        wire.Parameters: _parameters,
        wire.Buffers: _buffers,
        wire.Write: _write,
        wire.Mode: _mode,
        wire.Attribute: _attribute,
        wire.Make: _make,
        wire.Forget: _forget,
    }

    # --------------------------------------------------------------------------------- what goes in

    def _target(self, request: wire.Call) -> Any:
        if request.handle is None:
            return getattr(self.module, request.name or "")
        kept = self._kept[request.handle]
        return kept if request.method is None else getattr(kept, request.method)

    def _arguments(self, request: wire.Call, leaves: list[torch.Tensor]) -> tuple[list[Any], dict[str, Any]]:
        """What the submission is called with. Where gradients go to the inputs, all want one, or those that say so."""
        all_want = request.cotangent is not None and request.to_inputs
        if all_want:
            given = (*request.args, *request.kwargs.values())
            all_want = not any(isinstance(value, torch.Tensor) and value.requires_grad for value in given)
        args = [self._given(value, leaves, all_want) for value in request.args]
        return args, {name: self._given(value, leaves, all_want) for name, value in request.kwargs.items()}

    def _given(self, value: Any, leaves: list[torch.Tensor], all_want: bool) -> Any:
        """An argument as the submission gets it; tensors are fresh and are noted in `leaves`, in order."""
        if isinstance(value, torch.Tensor):
            leaf = _fresh(value, self.dtype) if self.copies else value.detach()
            leaf = leaf if self._device == "cpu" else leaf.to(self._device)
            if (all_want or value.requires_grad) and leaf.is_floating_point():
                leaf.requires_grad_()
            leaves.append(leaf)
            return leaf
        if isinstance(value, wire.Handle):
            return self._kept[value.id]
        if isinstance(value, wire.Stream):
            return torch.Generator().manual_seed(value.seed)
        if isinstance(value, CONTAINERS):
            return [self._given(item, leaves, all_want) for item in value]
        if isinstance(value, dict):
            return {key: self._given(item, leaves, all_want) for key, item in value.items()}
        return value

    def _gradients(
        self, value: Any, cotangent: Any, leaves: list[torch.Tensor], named: list[tuple[str, nn.Parameter]]
    ) -> wire.Gradients | None:
        """What arrives at inputs and parameters; None where an output has another shape than its cotangent."""
        outputs = list(value) if isinstance(value, CONTAINERS) else [value]
        cotangents = list(cotangent) if isinstance(cotangent, CONTAINERS) else [cotangent]
        pairs = [(out, cot) for out, cot in zip(outputs, cotangents, strict=False) if cot is not None]
        if len(outputs) < len(cotangents) or any(not _same_shape(out, cot) for out, cot in pairs):
            return None
        pairs = [(out, cot.to(out.dtype)) for out, cot in pairs if out.requires_grad]
        if pairs:  # as a sum, since handing cotangents to `backward` imports sympy at its first use: half a second
            torch.set_grad_enabled(True)
            functools.reduce(torch.add, [(out * cot).sum() for out, cot in pairs]).backward()
        parameters = {name: self._dense(parameter.grad) for name, parameter in named}
        for _, parameter in named:
            parameter.grad = None
        inputs = [self._dense(leaf.grad) for leaf in leaves if leaf.is_floating_point()]
        return wire.Gradients(inputs, parameters)

    # -------------------------------------------------------------------------------- what comes out

    def _answer(self, value: Any) -> Any:
        budget = _Budget()
        try:
            return self._carried(value, 0, budget)
        except _TooMuch as reason:
            return wire.Opaque(f"{_type_name(value)} {reason}")

    def _carried(self, value: Any, depth: int, budget: _Budget) -> Any:
        """A value of kinds that the wire carries. Objects are kept here, and a handle goes in their place."""
        budget.spend(items=1)
        if depth >= wire.DEPTH_MAX - 4:
            raise _TooMuch("nested too deeply")
        kind = type(value)
        if value is None or kind in (bool, float):
            return value
        if isinstance(value, torch.Tensor):
            budget.spend(elements=value.numel())
            return self._told(value)
        if kind is int:
            return value if -(1 << 63) <= value < 1 << 63 else wire.Opaque("int of more than 64 bits")
        if isinstance(value, str):
            return _text(value, TEXT_MAX)
        if kind is torch.dtype:
            return value if value in wire.DTYPE_NAMES else wire.Opaque(str(value))
        if isinstance(value, CONTAINERS):
            return [self._carried(item, depth + 1, budget) for item in value]
        if isinstance(value, dict):
            return self._carried_dict(value, depth, budget)
        return self._kept_as(value)

    def _carried_dict(self, value: dict[Any, Any], depth: int, budget: _Budget) -> Any:
        if any(type(key) not in (str, int) for key in value):
            return wire.Opaque("dict of keys that are neither str nor int")
        return {
            _text(key, wire.MESSAGE_MAX) if isinstance(key, str) else key: self._carried(item, depth + 1, budget)
            for key, item in value.items()
        }

    def _dense(self, gradient: torch.Tensor | None) -> Any:
        """A gradient's numbers. A table of many rows may get a sparse one, which is no other gradient."""
        if gradient is None:
            return None
        return self._told(gradient if gradient.layout is torch.strided else gradient.to_dense())

    def _told(self, tensor: torch.Tensor) -> Any:
        """A tensor as it is answered: a copy, unless it is about to be copied into a frame."""
        told = _plain(tensor)
        return told.clone() if self.copies and isinstance(told, torch.Tensor) else told

    def _kept_as(self, value: Any) -> Any:
        name = _type_name(value)
        if type(value).__module__.split(".")[0] in ("numpy", "builtins") and not callable(value):
            return wire.Opaque(name)
        if isinstance(value, nn.Module) and self.dtype is not None:
            value.to(self.dtype)
        for number, kept in self._kept.items():
            if kept is value:
                return wire.Handle(number, name)
        number, self._next = self._next, self._next + 1
        self._kept[number] = value
        return wire.Handle(number, name)

    def _raised(self, error: BaseException) -> wire.Raised:
        frames: list[wire.Frame] = []
        trace = error.__traceback__
        while trace is not None and len(frames) < wire.FRAMES_MAX:
            code = trace.tb_frame.f_code
            if code.co_filename in self.files:
                frames.append(wire.Frame(code.co_filename, trace.tb_lineno, code.co_qualname))
            trace = trace.tb_next
        if isinstance(error, SyntaxError) and error.filename in self.files and len(frames) < wire.FRAMES_MAX:
            frames.append(wire.Frame(str(error.filename), error.lineno or 1, "<module>"))
        bases = [_text(base.__name__, 200) for base in type(error).__mro__[:50]]
        return wire.Raised(bases[0], bases, _message(error), frames)


def _learning(target: Any) -> list[tuple[str, nn.Parameter]]:
    """The parameters of what is called, as an optimizer holds them, whatever the call puts in their place."""
    module = target if isinstance(target, nn.Module) else getattr(target, "__self__", None)
    if not isinstance(module, nn.Module):
        return []
    module.zero_grad(set_to_none=True)
    return list(module.named_parameters(remove_duplicate=False))


def _watching(calls: list[wire.KernelCall] | None, spoil: wire.Spoil | None) -> contextlib.AbstractContextManager[None]:
    """Watch the fused attention kernel where it is asked for."""
    return contextlib.nullcontext() if calls is None else watching_kernel(calls, spoil)


class _TooMuch(Exception):
    """An answer that is larger than the wire carries."""


class _Budget:
    """How much one answer may still hold."""

    def __init__(self) -> None:
        self.items, self.elements = ITEMS_MAX, wire.PAYLOAD_MAX

    def spend(self, items: int = 0, elements: int = 0) -> None:
        self.items -= items
        self.elements -= elements
        if self.items < 0 or self.elements < 0:
            raise _TooMuch("of too many items")


@contextlib.contextmanager
def _defaults(dtype: torch.dtype, grad_mode: bool, keeps_random: bool) -> Iterator[None]:
    """torch's global settings as a submission finds them, and afterwards as they were."""
    earlier = torch.get_default_dtype(), torch.is_grad_enabled()
    random_states = (torch.get_rng_state(), random.getstate()) if keeps_random else None
    if earlier[0] is not dtype:
        torch.set_default_dtype(dtype)
    torch.set_grad_enabled(grad_mode)
    if torch.are_deterministic_algorithms_enabled():
        torch.use_deterministic_algorithms(False)
    try:
        yield
    finally:
        if torch.get_default_dtype() is not earlier[0]:
            torch.set_default_dtype(earlier[0])
        torch.set_grad_enabled(earlier[1])
        if random_states is not None:
            torch.set_rng_state(random_states[0])
            random.setstate(random_states[1])


def _seed(seed: int, device: str) -> None:
    """Seeds what draws on this device. `torch.manual_seed` would queue a call, traceback included, for every other."""
    random.seed(seed)
    if device == "cpu":
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)


def _is_public(name: str, value: object) -> bool:
    return not name.startswith("_") and not isinstance(value, types.ModuleType)


def _fresh(tensor: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor:
    """A copy in memory of its own that keeps strides, also where they overlap or are 0."""
    source = tensor.detach()
    dtype = dtype if dtype is not None and source.is_floating_point() else source.dtype
    if source.is_contiguous():
        return source.to(dtype, copy=True)
    reach = sum((size - 1) * step for size, step in zip(source.shape, source.stride(), strict=True))
    flat = source.as_strided((reach + 1 if source.numel() else 0,), (1,)).to(dtype, copy=True)
    return flat.as_strided(source.shape, source.stride())


def _refill(tensors: Sequence[torch.Tensor], numbers: Sequence[torch.Tensor]) -> None:
    """Write into tensors in place, as an optimizer does."""
    with torch.no_grad():
        for tensor, new in zip(tensors, numbers, strict=True):
            tensor.copy_(new)


def _same_numbers(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors of one shape hold the same, NaNs included."""
    return bool(((one == other) | ((one != one) & (other != other))).all())


def _same_shape(output: object, cotangent: torch.Tensor) -> bool:
    return isinstance(output, torch.Tensor) and output.shape == cotangent.shape


def _plain(tensor: torch.Tensor) -> Any:
    """The tensor detached, resolved and contiguous, or Opaque where it is of a kind that the wire does not carry."""
    plain = torch.Tensor.detach(tensor)  # a plain tensor, also of a class derived from Parameter
    if type(plain) is not torch.Tensor:
        return wire.Opaque(_type_name(tensor))
    if plain.layout is not torch.strided:
        return wire.Opaque(f"tensor of layout {str(plain.layout).removeprefix('torch.')}")
    if not (plain.is_cpu or plain.is_cuda):
        return wire.Opaque(f"tensor on device {plain.device.type}")
    if plain.is_nested or plain.is_quantized or plain.dtype not in wire.DTYPE_NAMES or plain.dim() > wire.RANK_MAX:
        return wire.Opaque(f"tensor of dtype {str(plain.dtype).removeprefix('torch.')}, rank {plain.dim()}")
    if plain.nbytes > wire.PAYLOAD_MAX:
        return wire.Opaque(f"tensor of {plain.nbytes} bytes")
    if plain.is_conj() or plain.is_neg():
        plain = plain.resolve_conj().resolve_neg()
    return plain if plain.is_cpu and plain.is_contiguous() else plain.cpu().contiguous()


def _type_name(value: object) -> str:
    return _text(type(value).__name__, 200)


def _text(text: str, longest: int) -> str:
    """A real str that UTF-8 can hold, cut."""
    return str.__str__(text)[:longest].encode("utf-8", "replace").decode("utf-8")


def _message(error: BaseException) -> str:
    try:
        return _text(str(error), wire.MESSAGE_MAX)
    except BaseException as second:
        return f"(its text cannot be read: {_type_name(second)})"


# ------------------------------------------------------------------------------------- the files in memory


class _Helpers(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Imports a submission's files from memory. Last on `sys.meta_path`, so that no file shadows a real module."""

    def __init__(self, files: Mapping[str, str], main: str) -> None:
        self.main = main
        self.files = files
        self.paths = {name: path for base in ("", posixpath.dirname(main)) for name, path in _modules(files, base)}
        self.loaded: list[str] = []

    def install(self) -> None:
        """From now on these files are importable, and no longer those of another submission under the same names."""
        for name in self.paths:
            if name in sys.modules and _is_ours(sys.modules[name]):
                del sys.modules[name]
        sys.meta_path.insert(self._place(), self)

    @staticmethod
    def _place() -> int:
        """After all that finds real modules, before other submissions."""
        finders = [isinstance(finder, _Helpers) for finder in sys.meta_path]
        return finders.index(True) if True in finders else len(finders)

    def remove(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        for name in self.loaded:
            if getattr(sys.modules.get(name), "__loader__", None) is self:
                del sys.modules[name]

    def load_main(self) -> types.ModuleType:
        """Runs the main file as a module named after it, under another name where that one is taken."""
        name = posixpath.basename(self.main).removesuffix(".py")
        existing = sys.modules.get(name)
        taken = name in sys.stdlib_module_names or (existing is not None and not _is_ours(existing))
        name = f"submission_{name}" if taken or importlib.machinery.PathFinder.find_spec(name) else name
        self.paths[name] = self.main
        spec = importlib.machinery.ModuleSpec(name, self, origin=self.main)
        spec.has_location = True
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        self.loaded.append(name)
        self.exec_module(module)
        return module

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> Any:
        found = self.paths.get(fullname)
        if found is None:
            return None
        is_package = not found.endswith(".py") or posixpath.basename(found) == "__init__.py"
        spec = importlib.machinery.ModuleSpec(fullname, self, origin=found, is_package=is_package)
        spec.has_location = True
        self.loaded.append(fullname)
        return spec

    def get_source(self, fullname: str) -> str:
        return self.files.get(self.paths[fullname], "")

    def get_code(self, fullname: str) -> types.CodeType:
        return compile(self.get_source(fullname), self.paths[fullname], "exec", dont_inherit=True)

    def is_package(self, fullname: str) -> bool:
        return posixpath.basename(self.paths[fullname]) == "__init__.py"


def _is_ours(module: types.ModuleType) -> bool:
    return isinstance(inspect.getattr_static(module, "__loader__", None), _Helpers)


def _modules(files: Mapping[str, str], base: str) -> Iterator[tuple[str, str]]:
    """Dotted names of the .py files below `base`, and of the folders they are in."""
    for path in files:
        inside = posixpath.relpath(path, base) if base else path
        if inside.startswith("../") or not inside.endswith(".py"):
            continue
        parts = inside.removesuffix(".py").split("/")
        for depth in range(1, len(parts)):
            yield ".".join(parts[:depth]), posixpath.join(base, *parts[:depth])
        if parts[-1] != "__init__":
            yield ".".join(parts), path
    for path in files:
        inside = posixpath.relpath(path, base) if base else path
        if inside.endswith("/__init__.py") and not inside.startswith("../"):
            yield inside.removesuffix("/__init__.py").replace("/", "."), path


# ------------------------------------------------------------------------------------------- behind the pipe


def serve(line: socket.socket) -> None:
    """Answers requests on the line until the judge hangs up.

    Replies to requests that came together are collected for up to `TOGETHER`, and go out before the next call. A call
    that ends the worker takes those before it along; the judge asks again, one by one.
    """
    interpreter = Interpreter(copies=False)
    received, replies = bytearray(), bytearray()
    while part := line.recv(CHUNK):
        received += part
        began = time.monotonic()
        for frame in wire.whole_frames(received, wire.REQUEST_HEADER_MAX):
            replies += _reply(interpreter, frame)
            if time.monotonic() - began > TOGETHER or len(replies) > wire.PAYLOAD_MAX:
                line.sendall(replies)
                replies.clear()
                began = time.monotonic()
        line.sendall(replies)
        replies.clear()


def _reply(interpreter: Interpreter, frame: bytes) -> bytes:
    """The frame of the reply. Whatever the submission left lying (signals, exhausted memory) ends in a reply too."""
    try:
        try:
            reply = wire.encode(interpreter.handle(wire.decode_request(frame)))
        except wire.FrameTooLarge as error:
            reply = wire.encode(wire.Answer(value=wire.Opaque(f"answer of {error}")))
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        return reply
    except BaseException as error:
        name = type(error).__name__
        return wire.encode(wire.Raised(name, [name], "while the answer was being prepared", []))
