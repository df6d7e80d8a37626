"""Layouts: where a learner's module keeps the numbers that the reference keeps under names of its own.

Weights are given by name. A module that computes the same with other names, or with its numbers in other places (a
fused projection kept as three matrices, a matrix transposed, heads stored first), is as right as the reference, but
it must be given its weights in its own layout. `find` looks for it in three steps, the cheapest first: equal names;
parts of equal shapes, in their order; and by behaviour alone, without looking at names and shapes at all.

The last one is colour refinement, the way one tests whether two graphs are the same. All elements begin as one
class. Elements of a class get the same number on both sides, so nothing is assumed about who is who; the gradients
of the two modules must then be the same numbers in another order, and elements whose gradients differ are of
different classes. With new numbers the classes get finer, until each is one element. Where only a symmetry is left
(the hidden units of a layer may be renumbered), any choice is right: one pair is set apart, and it goes on.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections import deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from grader.subject import Module, Parameter, given_weights

AGREE = 1e-4  # two modules agree up to this, relative to 1 + the largest answer
NOISE = 1e-4  # float32 gradients are right up to this share of the largest in their class ...
FLOOR = 2e-6  # ... and this share of the largest of all
ROUNDS_MAX = 400
ATTEMPTS = 3  # an unlucky choice of numbers may drown in float32 noise
CHECKS = 3  # rounds that a guess of several pairs at once must survive
REMEMBERED = 64  # kinds of modules, by their shapes, of which the layouts found by behaviour are tried first
QUIET = 8  # rounds without a gradient, after which a class is taken to have none: a ReLU may be off for a while


@dataclasses.dataclass(frozen=True)
class Layout:
    """For each element of their parameters, its place among all elements of ours, laid end to end in our order.

    An element of ours may have several places of theirs (a tied weight) or none.
    """

    ours: Mapping[str, torch.Size]
    places: Mapping[str, Tensor]

    def theirs_from(self, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Our weights in their layout."""
        flat = torch.cat([values[name].reshape(-1) for name in self.ours])
        return {name: flat[place] for name, place in self.places.items()}

    def ours_from(self, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Their weights, or gradients, in our layout."""
        pieces = {name: values[name] for name in self.places}
        flat = torch.zeros(_total(self.ours), dtype=next(iter(pieces.values())).dtype)
        for name, piece in pieces.items():
            flat[self.places[name].reshape(-1)] = piece.reshape(-1)
        return _pieces(flat, self.ours)

    def named(self, names: Iterable[str]) -> Layout:
        """The same for a module that calls its parameters otherwise."""
        return Layout(self.ours, dict(zip(names, self.places.values(), strict=True)))

    def holders(self) -> dict[str, list[str]]:
        """Our names, and which of their parameters hold elements of each."""
        names = [name for name, shape in self.ours.items() for _ in range(shape.numel())]
        found: dict[str, list[str]] = {name: [] for name in self.ours}
        for theirs, place in self.places.items():
            for name in dict.fromkeys(names[index] for index in place.reshape(-1).tolist()):
                found[name].append(theirs)
        return found


def shapes(module: Module, preferred: Sequence[str] = ()) -> dict[str, torch.Size]:
    """The shapes of a module's parameters by name; a shared one once, under a preferred name if it has one."""
    return shapes_of(module.parameters(), preferred)


def shapes_of(parameters: Mapping[str, Parameter], preferred: Sequence[str] = ()) -> dict[str, torch.Size]:
    """The same of parameters that have been asked for already."""
    names: dict[str, str] = {}
    for name, parameter in parameters.items():
        first = parameter.same_as or name
        if first not in names or name in preferred:
            names[first] = name
    return {name: parameters[name].value.shape for name in names.values()}


def find(
    theirs: Module, models: Sequence[Module], inputs: Sequence[Any], *, fixed: Sequence[str] = (), seed: int = 0
) -> tuple[Layout, Module] | None:
    """The layout of `theirs`, and the one of our `models` that it agrees with; None when it agrees with none.

    The models have the same parameters and differ in what the text leaves open, such as the activation. `inputs`
    is what they are called with. Parameters whose names are `fixed`, where theirs has them, are taken at their word.
    Where one agrees, all are left with the same weights.
    """
    sure = nearest(theirs, models, inputs, likely(theirs, models[0]), seed)
    if sure is not None and sure[2]:
        return sure[:2]
    our_shapes = shapes(models[0])
    here, ours = _Flat(theirs, shapes(theirs, tuple(our_shapes))), [_Flat(model, our_shapes) for model in models]
    if here.total != ours[0].total:
        return None
    before = _found_before(tuple(here.shapes.values()), tuple(our_shapes.items()))
    sure = nearest(theirs, models, inputs, [layout.named(here.shapes) for layout in before], seed)
    if sure is not None and sure[2]:
        return sure[:2]
    for attempt, there in itertools.product(range(ATTEMPTS), ours):
        found = _Refinement(here, there, inputs, seed + attempt).run(fixed)
        sure = nearest(theirs, models, inputs, [found], seed) if found is not None else None
        if sure is not None and sure[2]:
            before.append(sure[0])
            return sure[:2]
    return None


@functools.lru_cache(REMEMBERED)
def _found_before(theirs: tuple[torch.Size, ...], ours: tuple[tuple[str, torch.Size], ...]) -> deque[Layout]:
    """What was found for modules of these shapes: whoever builds one alike, under whichever names, is asked that first.

    A layout is taken only for what it does, so it makes no difference to a verdict who came before.
    """
    return deque(maxlen=4)


def nearest(
    theirs: Module, models: Sequence[Module], inputs: Sequence[Any], candidates: Iterable[Layout], seed: int = 0
) -> tuple[Layout, Module, bool] | None:
    """Of some layouts and our `models` the pair that comes closest, and whether it agrees.

    The first layout that agrees is taken; of the models always the closest, for two may agree within the tolerance.
    """
    tried: list[tuple[float, Layout, Module, bool]] = []
    for layout in candidates:
        if theirs.write(layout.theirs_from(given_weights(models[0], seed))) is None:
            own = layout.ours_from({name: entry.value for name, entry in theirs.parameters().items()})
            got = theirs(*inputs)
            for model in models:
                model.write(own)
                want = model(*inputs)
                tried.append((_distance(got, want), layout, model, close(got, want)))
        if any(agrees for *_, agrees in tried):
            break
    return min(tried, key=lambda one: one[0])[1:] if tried else None


def _distance(got: Any, want: Tensor) -> float:
    if not isinstance(got, Tensor) or got.shape != want.shape:
        return math.inf
    return float((got.double() - want.double()).abs().max().nan_to_num(nan=math.inf))


def any_weights(module: Module, seed: int) -> dict[str, Tensor]:
    """Weights for a module whose layout nobody knows, by the course's rule: what begins as ones is a norm's weight."""
    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for name, parameter in module.parameters().items():
        noise = torch.randn(parameter.value.shape, generator=generator)
        if parameter.same_as is None:
            weights[name] = 1 + 0.2 * noise if bool((parameter.value == 1).all()) else 0.4 * noise
    return weights


def close(got: Any, want: Tensor) -> bool:
    """Whether an answer is the wanted one, up to the noise of float32."""
    return _distance(got, want) <= AGREE * (1 + float(want.abs().max()))


# ---- by names, by shapes


def likely(theirs: Module, ours: Module) -> Iterator[Layout]:
    """All names equal; else equal names kept and the rest paired by shapes; else all paired by shapes."""
    our_shapes, aliases = shapes(ours), theirs.parameters()
    their_shapes = shapes_of(aliases, tuple(our_shapes))
    kept = {
        name: [name] for name, shape in our_shapes.items() if name in aliases and aliases[name].value.shape == shape
    }
    if len(kept) == len(our_shapes):
        yield renamed(kept, our_shapes)
    for same in [kept, {}] if kept else [kept]:
        rest = by_shapes(_without(their_shapes, same), _without(our_shapes, same))
        if rest:
            yield renamed({**same, **rest}, our_shapes)


def _without(shapes: Mapping[str, torch.Size], names: Container[str]) -> dict[str, torch.Size]:
    return {name: shape for name, shape in shapes.items() if name not in names}


def renamed(names: Mapping[str, Sequence[str]], ours: Mapping[str, torch.Size]) -> Layout:
    """The layout in which their parameters `names[name]`, one after the other, are our parameter `name`."""
    places = _pieces(torch.arange(_total(ours)), ours)
    parts = {name: torch.chunk(places[name], len(theirs)) for name, theirs in names.items()}
    return Layout(ours, {other: part for name in ours for other, part in zip(names[name], parts[name], strict=True)})


def by_shapes(theirs: Mapping[str, torch.Size], ours: Mapping[str, torch.Size]) -> dict[str, list[str]] | None:
    """Our names to theirs, if their parts (a layer's weight and bias) pair up with ours in their order.

    Where no part of theirs has the shapes of one of ours, several in a row may make it up, as q, k and v do.
    """
    left = _parts(theirs)
    names: dict[str, list[str]] = {}
    for part in _parts(ours):
        shapes = [ours[name] for name in part]
        found = _first_run(left, theirs, shapes)
        if found is None:
            return None
        names |= {name: [other[index] for other in found] for index, name in enumerate(part)}
        left = [other for other in left if other not in found]
    return names if not left else None


def _first_run(
    parts: list[list[str]], shapes: Mapping[str, torch.Size], wanted: Sequence[torch.Size]
) -> list[list[str]] | None:
    """The first part of the wanted shapes, else the first run of parts that have them when stacked."""
    for length in range(1, len(parts) + 1):
        for start in range(len(parts) - length + 1):
            run = parts[start : start + length]
            stacked = [[(shapes[name][0] * length, *shapes[name][1:]) for name in part if shapes[name]] for part in run]
            if all(part == [tuple(shape) for shape in wanted] for part in stacked):
                return run
    return None


def _parts(shapes: Mapping[str, torch.Size]) -> list[list[str]]:
    """The parameters of each innermost module; a bias comes after what is none."""
    modules: dict[str, list[str]] = {}
    for name in shapes:
        modules.setdefault(name.rpartition(".")[0], []).append(name)
    return [
        sorted(names, key=lambda name: (-shapes[name].numel(), "bias" in name or "beta" in name))
        for names in modules.values()
    ]


# ---- by behaviour


class _Refinement:
    """The layout under which one module computes what another does, found from values and gradients alone.

    Each element of either has the number of its class. What has the same number has not been told apart so far; a
    class has as many elements of theirs as of ours.
    """

    def __init__(self, theirs: _Flat, ours: _Flat, inputs: Sequence[Any], seed: int) -> None:
        self.theirs, self.ours, self.inputs = theirs, ours, inputs
        self.answer_shape = ours.module(*inputs).shape
        self.generator = torch.Generator().manual_seed(seed)
        self.their_class = torch.zeros(theirs.total, dtype=torch.int64)
        self.our_class = torch.zeros(ours.total, dtype=torch.int64)
        self.quiet = torch.zeros(1, dtype=torch.int64)  # of each class: rounds in a row in which its gradient was zero

    def run(self, fixed: Sequence[str]) -> Layout | None:
        """Refine until every class that matters is one element; None when the modules cannot be the same."""
        for name in fixed:
            here, there = self.theirs.place(name), self.ours.place(name)
            if here is not None and there is not None and len(here) == len(there):
                self._set_apart(here, there)
        alive = self._refine()
        for _ in range(ROUNDS_MAX):
            before = self._count()
            alive = alive and self._refine()
            if not alive:
                return None
            if self._count() > before:
                continue
            members = self._smallest()
            if members is not None:
                alive = self._break_symmetry(*members)
            elif bool((self.quiet[self._open()] >= QUIET).all()):
                return self._layout()
        return None

    def _count(self) -> int:
        return len(self.quiet)

    def _refine(self) -> bool:
        """One round of new numbers, one a class. False when the two sides cannot be the same module."""
        size = 0.15 + 0.3 * torch.rand(self._count(), generator=self.generator)
        numbers = size * torch.where(torch.rand(self._count(), generator=self.generator) < 0.5, -1.0, 1.0)
        cotangent = torch.randn(self.answer_shape, generator=self.generator)
        got, mine = self.theirs.answer(numbers[self.their_class], self.inputs, cotangent)
        want, exact = self.ours.answer(numbers[self.our_class], self.inputs, cotangent)
        return close(got, want) and len(mine) == len(exact) and self._split(mine, exact)

    def _split(self, mine: Tensor, exact: Tensor) -> bool:
        """Elements of a class whose gradients differ go separate ways; False where the two sides do not match."""
        their_order, our_order = _by_class(self.their_class, mine), _by_class(self.our_class, exact)
        got, want, old = mine[their_order], exact[our_order], self.our_class[our_order]
        largest = torch.zeros(self._count(), dtype=want.dtype).scatter_reduce(0, old, want.abs(), "amax")
        floor = FLOOR * float(want.abs().max())
        noise = (NOISE * largest + floor)[old]
        if bool(((got - want).abs() > noise).any()):
            return False
        cuts = (old.diff() > 0) | (want.diff() > 4 * noise[1:])
        new = torch.cat([torch.zeros(1, dtype=torch.int64), cuts.cumsum(0)])
        self.their_class[their_order] = self.our_class[our_order] = new
        quiet = torch.where(largest <= 4 * floor, self.quiet + 1, 0)
        self.quiet = torch.zeros(int(new[-1]) + 1, dtype=torch.int64)
        self.quiet[new] = quiet[old]
        return True

    def _open(self) -> Tensor:
        """The classes of several elements."""
        return (self.our_class.bincount(minlength=self._count()) > 1).nonzero()[:, 0]

    def _smallest(self) -> tuple[Tensor, Tensor] | None:
        """The members of the smallest open class that has a gradient."""
        loud = [one for one in self._open().tolist() if self.quiet[one] == 0]
        if not loud:
            return None
        sizes = self.our_class.bincount()
        smallest = min(loud, key=lambda one: int(sizes[one]))
        return (self.their_class == smallest).nonzero()[:, 0], (self.our_class == smallest).nonzero()[:, 0]

    def _break_symmetry(self, here: Tensor, there: Tensor) -> bool:
        """Nothing splits any more: members of a class are alike. Pair them all at once; if that goes too far, one."""
        saved = self.their_class.clone(), self.our_class.clone(), self.quiet.clone()
        self._set_apart(here, there)
        if all(self._refine() for _ in range(CHECKS)):
            return True
        self.their_class, self.our_class, self.quiet = saved
        self._set_apart(here[:1], there[:1])
        return self._refine()

    def _set_apart(self, here: Tensor, there: Tensor) -> None:
        """Pair these elements one by one, each pair a class of its own."""
        self.their_class[here] = self.our_class[there] = self._count() + torch.arange(len(here))
        self.quiet = torch.cat([self.quiet, torch.zeros(len(here), dtype=torch.int64)])

    def _layout(self) -> Layout:
        places = torch.empty(self.theirs.total, dtype=torch.int64)
        places[self.their_class.argsort()] = self.our_class.argsort()
        return Layout(self.ours.shapes, _pieces(places, self.theirs.shapes))


def _by_class(classes: Tensor, values: Tensor) -> Tensor:
    """The order by class, and by value inside a class."""
    order = values.argsort()
    return order[classes[order].argsort(stable=True)]


class _Flat:
    """A module whose parameters are one long vector."""

    def __init__(self, module: Module, shapes: Mapping[str, torch.Size]) -> None:
        self.module = module
        self.shapes = shapes
        self.total = _total(shapes)

    def place(self, name: str) -> Tensor | None:
        """The places of `name`, or of the one parameter there is below its first word."""
        alike = [other for other in self.shapes if other.split(".")[0] == name.split(".")[0]]
        found = name if name in self.shapes else alike[0] if len(alike) == 1 else None
        return _pieces(torch.arange(self.total), self.shapes)[found].reshape(-1) if found is not None else None

    def answer(self, flat: Tensor, inputs: Sequence[Any], cotangent: Tensor) -> tuple[Any, Tensor]:
        """The value, and the gradient of every element (empty where an answer has none)."""
        self.module.write(_pieces(flat, self.shapes))
        found = self.module.gradients(*inputs, cotangent=cotangent)
        pieces = [found.parameters.get(name) for name in self.shapes]
        tensors = [piece.reshape(-1).double() for piece in pieces if isinstance(piece, Tensor)]
        gradient = torch.cat(tensors) if len(tensors) == len(pieces) else torch.empty(0)
        return found.value, gradient if bool(torch.isfinite(gradient).all()) else torch.empty(0)


def _total(shapes: Mapping[str, torch.Size]) -> int:
    return sum(shape.numel() for shape in shapes.values())


def _pieces(flat: Tensor, shapes: Mapping[str, torch.Size]) -> dict[str, Tensor]:
    """One long vector as tensors of these shapes."""
    parts = torch.split(flat, [shape.numel() for shape in shapes.values()])
    return {name: part.reshape(shape) for part, (name, shape) in zip(parts, shapes.items(), strict=True)}
