"""Objects of the grader's own that live beside the submission: mock models that keep a record, and optimizers.

They run where the submission runs, so what they record is evidence of an honest submission only; what can be decided
from the weights, the judge recomputes on its own side. `MAKERS` is the table that a `Make` request names.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Record:
    """What a model noted, call by call. A copy of the model notes into the same record.

    `fed` the ids, `modes` "train", "eval" or "mixed", `graphs` whether the answer was part of an autograd graph,
    `answers` the logits and a copy of them. Only where asked for, of each answer with a graph: `weights` all parameters
    in one vector, `arrived` the gradient that came back to the logits, `stale` whether what came of that was added to
    gradients that the parameters still had.
    """

    def __init__(self, keeps_steps: bool = False) -> None:
        self.keeps_steps = keeps_steps
        self.fed: list[Tensor] = []
        self.modes: list[str] = []
        self.graphs: list[bool] = []
        self.weights: list[Tensor] = []
        self.arrived: list[Tensor | None] = []
        self.stale: list[bool] = []
        self.found_some: list[int] = []  # calls whose gradients came while there were others
        self.answers: list[tuple[Tensor, Tensor]] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> Record:
        return self


class Recorder(nn.Module):
    """A causal model of ids [B, T] with T <= max_len. `part` shows whether train() and eval() reach the parts."""

    def __init__(self, max_len: int, keeps_steps: bool = False) -> None:
        super().__init__()
        self.max_len = max_len
        self.part = nn.Identity()
        self.record = Record(keeps_steps)

    def forward(self, ids: Tensor) -> Tensor:
        if ids.dim() != 2:
            raise ValueError(f"the model takes ids of shape [B, T], got {list(ids.shape)}")
        if ids.shape[1] > self.max_len:
            raise IndexError(f"the model takes at most max_len = {self.max_len} tokens, got T = {ids.shape[1]}")
        logits = self.logits(ids)
        note = self.record
        note.fed.append(_unwrapped(ids.detach().clone()))
        note.modes.append(self.mode())
        note.graphs.append(logits.requires_grad)
        if note.keeps_steps and logits.requires_grad:
            note.weights.append(_unwrapped(nn.utils.parameters_to_vector(self.parameters()).detach().clone()))
            note.found_some.clear()
            note.arrived.append(None)
            note.stale.append(False)
            with contextlib.suppress(RuntimeError):  # within a transform of torch.func a tensor has no hooks
                logits.register_hook(functools.partial(self.came_back, len(note.arrived) - 1))  # type: ignore[no-untyped-call]
        return logits

    def came_back(self, call: int, gradient: Tensor) -> None:
        """Notes what came back to the logits of a call, in one backward pass or in several."""
        earlier = self.record.arrived[call]
        arrived = _unwrapped(gradient.detach().clone())
        self.record.arrived[call] = arrived if earlier is None else earlier + arrived
        if earlier is not None:
            return
        left = [parameter.grad for parameter in self.parameters() if parameter.is_leaf and parameter.grad is not None]
        if any(bool((gradient != 0).any()) for gradient in left):
            self.record.found_some.append(call)

    def was_added(self, _: Tensor) -> None:
        """Gradients were added to those that were there (who asks `torch.autograd.grad` for them may replace these)."""
        for call in self.record.found_some:
            self.record.stale[call] = True
        self.record.found_some.clear()

    def logits(self, ids: Tensor) -> Tensor:
        raise NotImplementedError

    def mode(self) -> str:
        """ "train" or "eval" where all parts agree, else "mixed"."""
        modes = {self.training, self.part.training}
        return "mixed" if len(modes) == 2 else "train" if modes == {True} else "eval"

    def trained(self) -> list[str]:
        """The modes of the calls whose answers were part of a graph."""
        return [mode for mode, graph in zip(self.record.modes, self.record.graphs, strict=True) if graph]

    def noted(self) -> dict[str, Any]:
        """The record; `spoiled` counts the answers whose numbers somebody changed afterwards."""
        note = self.record
        spoiled = sum(not torch.equal(answer, kept) for answer, kept in note.answers)
        fed = [ids.flatten(0, -2) for ids in note.fed]  # with `vmap`, one row at a time is all of them at once
        arrived = [None if gradient is None else gradient.flatten(0, -3) for gradient in note.arrived]
        lists = {"fed": fed, "modes": note.modes, "graphs": note.graphs, "weights": note.weights}
        return {**lists, "arrived": arrived, "stale": note.stale, "spoiled": spoiled}


def _unwrapped(tensor: Tensor) -> Tensor:
    """The tensor itself. Inside `torch.func.vmap` and `grad` it goes in a wrapper, which means nothing afterwards."""
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor


class KnownLogits(Recorder):
    """Answers rows of a given table [K, V]: which one, all tokens up to that position and their places decide.

    After position t it is row `(sum over j <= t of (j + 1) * ids[j]) mod K`, j counted within what was fed. A token
    more or less, another order or another position of the answer give other logits.
    """

    def __init__(self, table: Tensor, max_len: int = 32) -> None:
        super().__init__(max_len)
        self.table = nn.Parameter(table.detach().clone())

    def logits(self, ids: Tensor) -> Tensor:
        if bool(((ids < 0) | (ids >= self.table.shape[1])).any()):
            raise IndexError(f"the model takes ids from 0 to {self.table.shape[1] - 1}")
        places = torch.arange(1, ids.shape[1] + 1)  # [T]
        rows = (ids.long() * places).cumsum(1) % len(self.table)  # [B, T]
        answer = self.table[rows]  # [B, T, V]
        self.record.answers.append((answer.detach(), answer.detach().clone()))
        return answer


class TinyCausal(Recorder):
    """A trainable causal model: each token and the mean of all tokens up to it, through tanh, to a head.

    It has as few parameters as that takes, since each submission trains it for about a hundred steps; `biased`
    adds a vector to the two matrices. The weights follow from `seed`; `spread` is the standard deviation of the head,
    small for logits that start near zero. In train mode the logits are multiplied by `boost`, a stand-in for dropout
    without its dice; with a large one the model learns fast.
    """

    def __init__(
        self,
        vocab: int = 8,
        width: int = 64,
        max_len: int = 16,
        seed: int = 0,
        spread: float = 0.02,
        boost: float = 1.0,
        biased: bool = False,
        keeps_steps: bool = False,
    ) -> None:
        super().__init__(max_len, keeps_steps)
        generator = torch.Generator().manual_seed(seed)

        def weights(std: float, *shape: int) -> nn.Parameter:
            drawn = torch.randn(shape, generator=generator, dtype=torch.float32)
            return nn.Parameter((drawn * std).to(torch.get_default_dtype()))

        self.boost = boost
        self.tokens = weights(1.0, vocab, width)
        self.bias = weights(0.1, width) if biased else None
        self.head = weights(spread, vocab, width)
        if keeps_steps:
            self.head.register_post_accumulate_grad_hook(self.was_added)  # type: ignore[no-untyped-call]
        self.seen = torch.eye(max_len) + torch.ones(max_len, max_len).tril() / torch.arange(1, max_len + 1)[:, None]
        self.one_hot = torch.eye(vocab)

    def reset_parameters(self) -> None:
        """Starts over with other weights, as the layers of torch offer it."""
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.37)  # as none begins: else one seed could give the same numbers

    def hidden(self, ids: Tensor) -> Tensor:
        """[B*T, C], flat: that is cheaper, and so is to mix the tokens before there is a graph."""
        T = ids.shape[1]
        seen = (self.seen[:T, :T] @ F.embedding(ids, self.one_hot)).flatten(0, 1)  # [B*T, V]
        x = seen.to(self.tokens.dtype) @ self.tokens  # a submission may turn the model to double
        return torch.tanh(x if self.bias is None else x + self.bias)

    def logits(self, ids: Tensor) -> Tensor:
        logits = F.linear(self.hidden(ids), self.head).view(*ids.shape, -1)  # [B, T, V]
        return logits * self.boost if self.part.training else logits


def causal_model(stale: int | None = None, **settings: Any) -> TinyCausal:
    """A `TinyCausal`; with `stale`, its parameters hold gradients that somebody left there, infinite ones too."""
    model = TinyCausal(**settings)
    if stale is not None:
        generator = torch.Generator().manual_seed(stale)
        for parameter in model.parameters():
            left = torch.randn(parameter.shape, generator=generator, dtype=torch.float32)
            left.view(-1)[0] = torch.inf
            parameter.grad = left.to(parameter.dtype)
    return model


def cycle_model(vocab: int = 8, max_len: int = 10) -> TinyCausal:
    """A model that has learned the cycle 0, 1, ..., vocab - 1, 0, 1, ...: its head is fitted by least squares."""
    model = TinyCausal(vocab=vocab, max_len=max_len, seed=1)
    ids = (torch.arange(vocab)[:, None] + torch.arange(max_len)) % vocab  # [V, T], each start once
    with torch.no_grad():
        hidden = model.eval().hidden(ids)  # [V*T, C]
        wanted = 20.0 * F.one_hot((ids + 1) % vocab, vocab).flatten(0, 1).to(hidden.dtype)  # [V*T, V]
        ridge = hidden.T @ hidden + 1e-3 * torch.eye(hidden.shape[1])
        model.head.copy_(torch.linalg.solve(ridge, hidden.T @ wanted).T)
    return model


class Sgd(torch.optim.Optimizer):
    """Gradient descent with momentum and weight decay.

    It leaves the constructor of `torch.optim.Optimizer` out: that one imports torch._dynamo, more than a second.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float, momentum: float, decay: float) -> None:
        self.defaults = {"lr": lr, "momentum": momentum, "weight_decay": decay}
        self.param_groups = [{"params": list(parameters), **self.defaults}]
        self.state: dict[Tensor, Any] = {}  # type: ignore[assignment]

    def zero_grad(self, set_to_none: bool = True) -> None:
        for parameter in self.param_groups[0]["params"]:
            parameter.grad = None if set_to_none or parameter.grad is None else torch.zeros_like(parameter.grad)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        group = self.param_groups[0]
        with torch.no_grad():
            for parameter in group["params"]:
                if parameter.grad is not None:
                    change = parameter.grad + group["weight_decay"] * parameter
                    earlier = self.state.get(parameter)
                    self.state[parameter] = change if earlier is None else group["momentum"] * earlier + change
                    parameter -= group["lr"] * self.state[parameter]
        return loss


def sgd(model: nn.Module, lr: float = 0.1, momentum: float = 0.0, decay: float = 0.0) -> Sgd:
    return Sgd(model.parameters(), lr, momentum, decay)


def generator(seed: int) -> torch.Generator:
    """A generator that goes on from call to call (a `Stream` starts anew in each)."""
    return torch.Generator().manual_seed(seed)


def sequential(modules: list[nn.Module]) -> nn.Module:
    """Modules made earlier, one after the other."""
    return nn.Sequential(*modules)


def replaced(module: nn.Module, old: str, by: str, **settings: Any) -> nn.Module:
    """The module itself, in which every part of class `old` has become another layer of `torch.nn`."""
    for parent in module.modules():
        for name, part in parent.named_children():
            if type(part).__name__ == old:
                setattr(parent, name, getattr(nn, by)(**settings))
    return module


def without_dropout(module: nn.Module) -> nn.Module:
    """The module itself, with every dropout of torch's set to 0; what a function drops in its forward stays."""
    for part in module.modules():
        if isinstance(part, nn.modules.dropout._DropoutNd):
            part.p = 0.0
        elif isinstance(part, nn.MultiheadAttention):
            part.dropout = 0.0
    return module


def tree(
    parameters: dict[str, list[int]], frozen: list[str], tied: dict[str, str], buffers: dict[str, list[int]]
) -> nn.Module:
    """A module of modules with these parameters and buffers, dotted name to shape.

    The parameters in `frozen` do not require gradients; each key of `tied` is a further name of the one it maps to.
    """
    root = nn.Module()
    made = {name: nn.Parameter(torch.zeros(shape), name not in frozen) for name, shape in parameters.items()}
    for name, parameter in {**made, **{name: made[first] for name, first in tied.items()}}.items():
        _branch(root, name).register_parameter(name.rpartition(".")[2], parameter)
    for name, shape in buffers.items():
        _branch(root, name).register_buffer(name.rpartition(".")[2], torch.zeros(shape))
    return root


def _branch(root: nn.Module, name: str) -> nn.Module:
    """The module that holds `name`, grown where it is missing."""
    for part in name.split(".")[:-1]:
        if not hasattr(root, part):
            root.add_module(part, nn.Module())
        root = root.get_submodule(part)
    return root


def reaches(device: str) -> bool:
    """Whether this process can use a device. One that is locked down cannot open a GPU, though the machine has one."""
    return device == "cpu" or (device == "cuda" and torch.cuda.is_available())


MAKERS: dict[str, Callable[..., object]] = {
    "known_logits": KnownLogits,
    "causal_model": causal_model,
    "cycle_model": cycle_model,
    "sgd": sgd,
    "generator": generator,
    "identity": nn.Identity,
    "reaches": reaches,
    "sequential": sequential,
    "replaced": replaced,
    "without_dropout": without_dropout,
    "tree": tree,
}
