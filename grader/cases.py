"""Cases: sizes and a seed, and the tensors that follow from them.

The signature of a property is its quantifier: `q: Float["B H T D"]` reads "for every float tensor q of shape
[B, H, T, D]". Hypothesis chooses the sizes and the seed, a local `torch.Generator` fills the tensors. Equal letters
are equal sizes, different letters get different ones, so that no axis can be taken for another.

What was drawn is recorded in the exercise's cases.json: the cases are the same for everyone, whatever version of
Hypothesis is installed, and Hypothesis is imported only when a property has changed or has failed.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

RANGES: dict[str, tuple[int, int]] = {
    "B": (3, 5),
    "T": (5, 9),
    "S": (5, 11),
    "C": (6, 12),
    "H": (2, 3),
    "D": (3, 9),
    "E": (3, 9),
    "V": (7, 13),
    "F": (8, 16),
}
OTHER_RANGE = (2, 9)
AVOIDED = {"D": {4}}  # a head width of 4 hides a constant scale of one half
RELAXED = (1, 9)  # sizes a counterexample may shrink to: any size is fair once a failure is known
SEEDS = range(2**16 + 1)


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """One choice of sizes, seed and plain values; `tensors` follow from it alone."""

    sizes: dict[str, int]
    seed: int
    plain: dict[str, Any]

    @property
    def weight(self) -> tuple[int, int]:
        """What shrinking makes smaller: the product of the sizes, then the seed."""
        return (functools.reduce(lambda product, size: product * size, self.sizes.values(), 1), self.seed)


class Variable:
    """A quantified argument. `shape` names the axes it has, as expressions in the letters."""

    shape: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()  # further expressions it needs, such as the vocabulary of ids

    def options_for(self, sizes: Mapping[str, int]) -> Sequence[Any] | None:
        """What a plain value may be, None for a variable that is filled from the seed."""
        return None

    def fill(self, sizes: Mapping[str, int], generator: torch.Generator) -> Any:
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class FloatVariable(Variable):
    """Standard normal float32 numbers times `scale`, with two decimals, so that a person can read and paste them."""

    shape: tuple[str, ...]
    scale: float = 1.0

    def fill(self, sizes: Mapping[str, int], generator: torch.Generator) -> torch.Tensor:
        return (torch.randn(measure(self.shape, sizes), generator=generator) * self.scale).mul(100).round().div(100)


@dataclasses.dataclass(frozen=True)
class IdsVariable(Variable):
    """Whole numbers from 0 up to, not including, `extra[0]`, as int64."""

    shape: tuple[str, ...]
    extra: tuple[str, ...]

    def fill(self, sizes: Mapping[str, int], generator: torch.Generator) -> torch.Tensor:
        return torch.randint(value_of(self.extra[0], sizes), measure(self.shape, sizes), generator=generator)


@dataclasses.dataclass(frozen=True)
class BoolVariable(Variable):
    """Fair coins."""

    shape: tuple[str, ...]

    def fill(self, sizes: Mapping[str, int], generator: torch.Generator) -> torch.Tensor:
        return torch.randint(2, measure(self.shape, sizes), generator=generator).bool()


@dataclasses.dataclass(frozen=True)
class IndexVariable(Variable):
    """A position: a whole number from 0 up to, not including, the size it names."""

    extra: tuple[str, ...]

    def options_for(self, sizes: Mapping[str, int]) -> range:
        return range(max(1, value_of(self.extra[0], sizes)))


@dataclasses.dataclass(frozen=True)
class SizeVariable(Variable):
    """A size itself."""

    extra: tuple[str, ...]

    def fill(self, sizes: Mapping[str, int], generator: torch.Generator) -> int:
        return value_of(self.extra[0], sizes)


@dataclasses.dataclass(frozen=True)
class ChoiceVariable(Variable):
    """One of some values; the drawn cases take them in turn."""

    options: tuple[Any, ...]

    def options_for(self, sizes: Mapping[str, int]) -> tuple[Any, ...]:
        return self.options


@dataclasses.dataclass(frozen=True)
class SeedVariable(Variable):
    """A number to seed generators of the property's own."""

    def options_for(self, sizes: Mapping[str, int]) -> range:
        return SEEDS


class _Quantified:
    """What makes `Float["B T C"]` an annotation."""

    def __init__(self, make: Callable[..., Variable]) -> None:
        self._make = make

    def __getitem__(self, item: Any) -> Any:
        return self._make(*item) if isinstance(item, tuple) else self._make(item)


Float: Any = _Quantified(lambda shape, scale=1.0: FloatVariable(tuple(shape.split()), scale))
Ids: Any = _Quantified(lambda shape, vocab: IdsVariable(tuple(shape.split()), (vocab,)))
Bool: Any = _Quantified(lambda shape: BoolVariable(tuple(shape.split())))
Index: Any = _Quantified(lambda size: IndexVariable((size,)))
Size: Any = _Quantified(lambda size: SizeVariable((size,)))
Choice: Any = _Quantified(lambda *options: ChoiceVariable(options))
Seed: Any = SeedVariable()


@functools.cache
def _compiled(expression: str) -> tuple[Any, tuple[str, ...]]:
    return compile(expression, "<size>", "eval"), tuple(dict.fromkeys(re.findall(r"[A-Za-z_]\w*", expression)))


def value_of(expression: str, sizes: Mapping[str, int]) -> int:
    """The size that `expression`, such as "3*H*D" or "T-1", has for these sizes of the letters."""
    return int(eval(_compiled(expression)[0], {"__builtins__": {}}, dict(sizes)))


def measure(shape: Sequence[str], sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(value_of(axis, sizes) for axis in shape)


class Quantifier:
    """All the "for all" of one property, and the cases drawn from it.

    `ranges` overrides the default range (inclusive) of a letter.
    """

    def __init__(self, variables: Mapping[str, Variable], ranges: Mapping[str, tuple[int, int]]) -> None:
        self.variables = dict(variables)
        self._ranges = dict(ranges)
        expressions = [e for v in self.variables.values() for e in (*v.shape, *v.extra)]
        self.letters = tuple(dict.fromkeys(letter for e in expressions for letter in _compiled(e)[1]))
        axes = [axis for v in self.variables.values() for axis in v.shape if _compiled(axis)[1]]
        self._axes = tuple(dict.fromkeys([*self.letters, *axes]))

    def values(self, case: Case) -> dict[str, Any]:
        """The arguments of the property in this case: fresh tensors at every call."""
        generator = torch.Generator().manual_seed(case.seed)
        return {
            name: case.plain[name] if name in case.plain else variable.fill(case.sizes, generator)
            for name, variable in self.variables.items()
        }

    def names(self, kind: type[Variable]) -> list[str]:
        """The arguments of one kind."""
        return [name for name, variable in self.variables.items() if isinstance(variable, kind)]

    def axes_of(self, name: str) -> list[str] | None:
        """The letters of an argument's axes, None for what is no tensor."""
        variable = self.variables.get(name)
        return list(variable.shape) if variable is not None and variable.shape else None

    def sizes_of(self, letter: str, taken: Mapping[str, int]) -> list[int]:
        """The sizes that a letter may have beside those that others have already."""
        low, high = self._ranges.get(letter, RANGES.get(letter, OTHER_RANGE))
        avoided = AVOIDED.get(letter, set()) | set(taken.values())
        return [size for size in range(low, high + 1) if size not in avoided] or [low]

    def relaxed_sizes_of(self, letter: str) -> list[int]:
        """The sizes that a letter may have in a counterexample."""
        low, high = self._ranges.get(letter, RELAXED)
        return list(range(low, high + 1))

    def all_differ(self, sizes: Mapping[str, int]) -> bool:
        """Whether no axis can be taken for another."""
        values = [value_of(axis, sizes) for axis in self._axes]
        return len(set(values)) == len(values)

    # ---- the record

    def mark(self, count: int) -> str:
        """What `count` cases follow from, so that a record of cases drawn from something else is noticed."""
        letters = {letter: self.sizes_of(letter, {}) for letter in self.letters}
        return hashlib.blake2b(repr((self.variables, letters, count)).encode(), digest_size=8).hexdigest()

    def written(self, case: Case) -> list[Any]:
        """A case as plain data: sizes, seed, and which of its options each plain value is."""
        places = [_place(value, self._options(name, case)) for name, value in case.plain.items()]
        return [list(case.sizes.values()), case.seed, places]

    def read(self, written: list[Any]) -> Case:
        """The case that `written` made this of."""
        sizes, seed, places = written
        case = Case(dict(zip(self.letters, sizes, strict=True)), seed, {})
        names = [name for name, variable in self.variables.items() if variable.options_for(case.sizes) is not None]
        plain = {name: self._options(name, case)[at] for name, at in zip(names, places, strict=True)}
        return dataclasses.replace(case, plain=plain)

    def _options(self, name: str, case: Case) -> Sequence[Any]:
        return self.variables[name].options_for(case.sizes) or ()


def _place(value: Any, options: Sequence[Any]) -> int:
    """Where it stands; 1, 1.0 and True are three options."""
    if isinstance(options, range):
        return options.index(value)
    return next(at for at, option in enumerate(options) if option is value)
