"""The judge's end of the pipe: a submission that answers as if it were local.

`subject.causal_attention(q, k, v)` is one message to the worker and one answer. What comes back are tensors and plain
data; a module stays in the worker and is known here by its handle. The same proxies serve the reference, which runs
in the judge itself and in float64.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from grader import wire

SEEDS_PER_CASE = 10_000


class SubmissionRaised(Exception):
    """The submission raised: `type`, `message` and the `frames` of its own files, outermost first."""

    def __init__(self, raised: wire.Raised) -> None:
        super().__init__(f"{raised.type}: {raised.message}")
        self.type = raised.type
        self.bases = raised.bases
        self.message = raised.message
        self.frames = raised.frames

    @property
    def not_implemented(self) -> bool:
        return "NotImplementedError" in self.bases

    @property
    def out_of_memory(self) -> bool:
        return "MemoryError" in self.bases or "DefaultCPUAllocator: can't allocate memory" in self.message


class WrongAnswer(Exception):
    """The worker's answer is not one that the request can have."""


@dataclasses.dataclass(frozen=True)
class Exchange:
    """One request and what came of it."""

    request: Any
    reply: Any


@dataclasses.dataclass(frozen=True)
class Gradients:
    """`inputs`: one gradient per floating tensor argument (None where there is none); `parameters`: by name."""

    value: Any
    inputs: list[Any]
    parameters: dict[str, Any]


class Effects:
    """What a call does. Each kind of watching has its cost, so each is a call of its own, made when it is asked for."""

    def __init__(self, watch: Callable[..., wire.Answer], received: Callable[[Any], Any], grad: bool) -> None:
        self._watch = watch
        self._received = received
        self._grad = grad

    @functools.cached_property
    def value(self) -> Any:
        """What it answers."""
        return self._received(self._plainly.value)

    @property
    def inputs(self) -> list[Any]:
        """The tensor arguments as they are after the call."""
        return self._plainly.inputs or []

    @property
    def requires_grad(self) -> list[bool]:
        """Whether each of `inputs` wants a gradient."""
        return self._plainly.requires_grad or []

    @functools.cached_property
    def _plainly(self) -> wire.Answer:
        return self._watch(observe=["inputs"], grad=self._grad)

    @functools.cached_property
    def ops(self) -> list[str]:
        """The operations that ran, such as "aten::embedding", and the functions of torch that called them.

        In two calls, with gradients and under no_grad.
        """
        return self._watch(observe=["ops"]).ops or []

    @functools.cached_property
    def allocations(self) -> list[wire.Allocation]:
        """The tensors that were made."""
        return self._watch(observe=["allocations"], grad=False).allocations or []

    @functools.cached_property
    def allocations_with_grad(self) -> list[wire.Allocation]:
        """The tensors that were made while gradients were on."""
        return self._watch(observe=["allocations"]).allocations or []

    @functools.cached_property
    def keeps_grad_mode(self) -> bool:
        """Whether gradients are on, or off, for the caller as they were before."""
        return all(self._watch(grad=on).grad_mode is on for on in (True, False))


@dataclasses.dataclass(frozen=True)
class Refilled:
    """The `value` of a second call, and whether it `kept` the answer of the first as it was."""

    value: Any
    kept: bool


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A call that may have used the fused attention kernel: its `value`, and the kernel's `calls` in order."""

    value: Any
    calls: list[wire.KernelCall]


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One entry of `named_parameters`; `same_as` is the first name of a shared parameter, else None."""

    value: torch.Tensor
    requires_grad: bool
    same_as: str | None


class Subject:
    """A submission behind a transport; `ask` sends one request and returns one reply.

    `exchanges` are all messages since `begin`, which starts a case and seeds it.
    """

    def __init__(self, ask: Callable[[Any], Any]) -> None:
        self._ask = ask
        self._seed = 0
        self._same_seed = False
        self._device = "cpu"
        self._names: list[str] | None = None
        self._said: list[Exchange] = []
        self.exchanges: Sequence[Exchange] = self._said

    def load(self, files: Mapping[str, str], main: str) -> None:
        """Load the submission's files.

        Raises:
            SubmissionRaised: its import raised.
            WrongAnswer: this is no answer to a request to load something.
        """
        self.exchanges = self._said = []
        reply = self._send(wire.Load(files=dict(files), main=main))
        if not isinstance(reply, wire.Loaded):
            raise WrongAnswer(type(reply).__name__)
        self._names = reply.names

    def names(self) -> list[str]:
        """The public names that the submission defines."""
        return list(self._names or [])

    def begin(self, seed: int, device: str = "cpu") -> None:
        """Start a case on `device`: forget the modules of the one before, let random numbers follow from `seed`."""
        if self.exchanges:
            self._ask(wire.Forget())
        self.exchanges = self._said = []
        self._seed = (seed % 2**16) * SEEDS_PER_CASE
        self._device = device

    @contextlib.contextmanager
    def one_seed(self) -> Iterator[None]:
        """Inside, all calls draw the same random numbers: a dropout drops the same elements each time."""
        self._same_seed = True
        try:
            yield
        finally:
            self._same_seed = False

    @contextlib.contextmanager
    def answered_by(self, ask: Callable[[Any], Any]) -> Iterator[None]:
        """Inside, `ask` answers instead of the transport."""
        transport, self._ask = self._ask, ask
        try:
            yield
        finally:
            self._ask = transport
            self.exchanges = self.exchanges or [Exchange(wire.Forget(), wire.Answer())]  # there is something to forget

    @contextlib.contextmanager
    def asked_at_most(self, count: int) -> Iterator[None]:
        """Inside, a question after the first `count` ends the block."""
        left = iter(range(count))

        def ask(request: Any) -> Any:
            if not isinstance(request, wire.Forget) and next(left, None) is None:
                raise _Enough
            return transport(request)

        transport, self._ask = self._ask, ask
        try:
            yield
        except _Enough:
            pass
        finally:
            self._ask = transport

    def __getattr__(self, name: str) -> Function:
        if name.startswith("_"):
            raise AttributeError(name)
        return Function(self, {"name": name, "handle": None, "method": None})

    def make(self, kind: str, **kwargs: Any) -> Any:
        """An object of the grader's own that lives in the worker: a mock model, an optimizer."""
        return self.received(self._send(wire.Make(kind=kind, kwargs=self.sent(kwargs))).value)

    def call(self, target: Mapping[str, Any], args: Any, kwargs: Any, **options: Any) -> wire.Answer:
        self._seed += not self._same_seed
        options |= {"seed": self._seed, "device": self._device}
        request = wire.Call(**target, args=self.sent(list(args)), kwargs=self.sent(kwargs), **options)
        answer = self._send(request)
        if not isinstance(answer, wire.Answer):
            raise WrongAnswer(type(answer).__name__)
        return answer

    def tell(self, request: Any) -> Any:
        """Send a request about a module, and unwrap its answer."""
        return self.received(self._send(request).value)

    def _send(self, request: Any) -> Any:
        reply = self._ask(request)
        self._said.append(Exchange(request, reply))
        if isinstance(reply, wire.Raised):
            raise SubmissionRaised(reply)
        return reply

    def sent(self, value: Any) -> Any:
        """What goes out: proxies become handles."""
        if isinstance(value, Module):
            return value.handle
        if isinstance(value, (list, tuple)):
            return [self.sent(item) for item in value]
        if isinstance(value, dict):
            return {key: self.sent(item) for key, item in value.items()}
        return value

    def received(self, value: Any) -> Any:
        """What comes in: handles become proxies."""
        if isinstance(value, wire.Handle):
            return Module(self, value)
        if isinstance(value, list):
            return [self.received(item) for item in value]
        if isinstance(value, dict):
            return {key: self.received(item) for key, item in value.items()}
        return value


class _Enough(BaseException):
    """No further question is wanted. No property may catch this."""


class Function:
    """A function or class of the submission, or a method of one of its modules."""

    def __init__(self, subject: Subject, target: Mapping[str, Any]) -> None:
        self._subject = subject
        self._target = target

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._subject.received(self._subject.call(self._target, args, kwargs).value)

    def without_grad(self, *args: Any, **kwargs: Any) -> Any:
        """The value, computed under `torch.no_grad()`."""
        return self._subject.received(self._subject.call(self._target, args, kwargs, grad=False).value)

    def refilled(self, *args: Any, earlier: Sequence[torch.Tensor], grad: bool = True, **kwargs: Any) -> Refilled:
        """Call it twice: before, the very same tensors held the numbers of `earlier`."""
        answer = self._subject.call(self._target, args, kwargs, earlier=list(earlier), grad=grad)
        return Refilled(self._subject.received(answer.value), answer.earlier_kept)

    def gradients(
        self,
        *args: Any,
        cotangent: Any,
        later: Sequence[torch.Tensor] | None = None,
        to_inputs: bool = True,
        **kwargs: Any,
    ) -> Gradients:
        """The gradients of `sum(output * cotangent)`; a list of cotangents goes with a list of outputs.

        All floating tensors get one, or those alone that require it where some do, or none but the parameters. With
        `later`, it is called again, with these tensors in place of its own, before the backward pass.
        """
        options = {"later": None if later is None else list(later), "to_inputs": to_inputs}
        answer = self._subject.call(self._target, args, kwargs, cotangent=cotangent, **options)
        if answer.gradients is None:
            return Gradients(answer.value, [], {})
        return Gradients(self._subject.received(answer.value), answer.gradients.inputs, answer.gradients.parameters)

    def effects(self, *args: Any, grad: bool = True, **kwargs: Any) -> Effects:
        """What a call does; it is made when that is looked at, without `grad` under `torch.no_grad()`."""
        watch = functools.partial(self._subject.call, self._target, args, kwargs)
        return Effects(watch, self._subject.received, grad)

    def with_kernel(
        self, *args: Any, scale: float = 1.0, add: float = 0.0, at: float = 0.0, grad: bool = True, **kwargs: Any
    ) -> Kernel:
        """Call it, watch how it calls the fused attention kernel, and spoil what the kernel hands back.

        The kernel's result is multiplied by `scale`, and `add` is added to one element, which lies at the share `at`
        (0 up to 1) of the whole way through it. Without `grad`, all this happens under `torch.no_grad()`.
        """
        spoil = wire.Spoil(float(scale), float(add), float(at))
        answer = self._subject.call(self._target, args, kwargs, observe=["kernel"], spoil=spoil, grad=grad)
        return Kernel(self._subject.received(answer.value), answer.kernel or [])


class Module(Function):
    """A module (or another object) that lives in the worker."""

    def __init__(self, subject: Subject, handle: wire.Handle) -> None:
        super().__init__(subject, {"name": None, "handle": handle.id, "method": None})
        self.handle = handle

    def parameters(self) -> dict[str, Parameter]:
        """Its parameters by name, in their order, shared ones under each of their names."""
        entries = self._subject.tell(wire.Parameters(handle=self.handle.id))
        return {e["name"]: Parameter(e["value"], e["requires_grad"], e["same_as"]) for e in entries}

    def buffers(self) -> dict[str, torch.Tensor]:
        """Its buffers by name."""
        entries = self._subject.tell(wire.Buffers(handle=self.handle.id))
        return {entry["name"]: entry["value"] for entry in entries}

    def write(self, values: Mapping[str, torch.Tensor]) -> dict[str, Any] | None:
        """Write parameters in place, by name.

        Returns:
            None when all were written; else what is in the way, `missing` names and `shapes` that differ, and
            nothing has been written.
        """
        problem: dict[str, Any] | None = self._subject.tell(wire.Write(handle=self.handle.id, values=dict(values)))
        return problem

    def train(self) -> None:
        self._subject.tell(wire.Mode(handle=self.handle.id, training=True))

    def eval(self) -> None:
        self._subject.tell(wire.Mode(handle=self.handle.id, training=False))

    def attribute(self, name: str) -> Any:
        return self._subject.tell(wire.Attribute(handle=self.handle.id, name=name))

    def method(self, name: str) -> Function:
        return Function(self._subject, {"name": None, "handle": self.handle.id, "method": name})


def given_weights(module: Module, seed: int) -> dict[str, torch.Tensor]:
    """Weights for a module of the reference, by the course's rule.

    Matrices have a standard deviation of 0.4, biases are non-zero, and other vectors (the weights of norms) are
    1 + 0.2 randn: never all ones, or an affine part left out would not show. They are not to be written into.
    """
    own = {name: entry.value.shape for name, entry in module.parameters().items() if entry.same_as is None}
    return dict(_drawn(tuple(own.items()), seed))


@functools.lru_cache(maxsize=256)  # a class is asked the same questions, submission by submission
def _drawn(shapes: tuple[tuple[str, torch.Size], ...], seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    weights: dict[str, torch.Tensor] = {}
    for name, shape in shapes:
        noise = torch.randn(shape, generator=generator)
        norm_weight = len(shape) == 1 and not name.endswith("bias")
        weights[name] = 1 + 0.2 * noise if norm_weight else 0.4 * noise
    return weights
