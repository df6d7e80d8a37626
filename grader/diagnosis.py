"""Diagnosis: which named mistake answers exactly like this submission.

The submission and each mistake are asked the same questions, those that the properties ask. A mistake is named when
it answers alike in every case up to the first that the submission fails, and in the first case of what holds, fails
nothing that holds, and no other mistake does so. No name is better than a wrong name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

from grader import wire
from grader.claims import TOLERANCE
from grader.isolation import WorkerEnded
from grader.judge import Testimony
from grader.properties import Property
from grader.subject import Exchange, Subject


class Witness:
    """One program, asked case by case; each question is put once, and only when the answer matters."""

    def __init__(
        self,
        load: Callable[[], Subject],
        reference: Subject | None,
        forbidden: Sequence[str],
        known: Mapping[tuple[str, int], Testimony] | None = None,
    ) -> None:
        self._load = load
        self._reference = reference
        self._forbidden = forbidden
        self._subject: Subject | None = None
        self._known: dict[tuple[str, int], Testimony] = dict(known or {})

    def testimony(self, property: Property, index: int) -> Testimony:
        """The answers in one case.

        Raises:
            SubmissionRaised: it cannot be loaded.
            WorkerEnded: it did not survive the question.
        """
        key = (property.name, index)
        if key not in self._known:
            self._known[key] = self._ask(property, index)
        return self._known[key]

    def _ask(self, property: Property, index: int) -> Testimony:
        if self._subject is None:
            self._subject = self._load()
        holds = True
        try:
            property.check(self._subject, self._reference, property.cases()[index], self._forbidden)
        except WorkerEnded:
            raise
        except Exception:
            holds = False
        return Testimony(tuple(self._subject.exchanges), holds)

    def learn(self, testimonies: Mapping[tuple[str, int], Testimony]) -> None:
        """What the program answered elsewhere in cases that hold for it, so that it is not asked that again."""
        self._known.update((key, testimony) for key, testimony in testimonies.items() if testimony.holds)

    def fails(self, property: Property) -> bool:
        """Whether the property does not hold in some case."""
        return not all(self.testimony(property, index).holds for index in range(len(property.cases())))

    def answers_like(self, other: Witness, properties: Iterable[Property], every: bool = False) -> bool:
        """Whether both answer alike in the first cases of these properties, up to one that `other` fails, or in every
        case."""
        return all(
            _alike(self.testimony(property, index), other.testimony(property, index))
            for property in properties
            for index in (range(len(property.cases())) if every else other._first(property))
        )

    def _first(self, property: Property) -> Iterable[int]:
        """The first case, and those up to the first that is known to fail."""
        failed = [index for name, index in self._known if name == property.name and not self._known[name, index].holds]
        return range(1 + min(failed, default=0))


def names_of(
    submission: Witness,
    mistakes: Mapping[str, Witness],
    properties: Sequence[Property],
    failed: Collection[str],
    held: Collection[str],
) -> list[str]:
    """The mistakes that a submission makes, as far as that is certain.

    `failed` names the properties it failed, `held` those that hold for it in every case.

    Properties that ask the same names of the submission are looked at together, so that two mistakes in two functions
    do not hide each other. A mistake that agrees there must not be known to fail where the submission does not.
    """
    telling = [p for p in properties if p.name in failed]
    telling.sort(key=lambda p: len(submission.testimony(p, 0).exchanges))  # most mistakes are ruled out by the cheapest
    rest = [p for p in properties if p.name not in failed]
    good = [p for p in properties if p.name in held]
    exact = [name for name, mistake in mistakes.items() if mistake.answers_like(submission, [*telling, *rest])]
    exact = [name for name in exact if not any(mistakes[name].fails(p) for p in good)]
    if len(exact) > 1:  # every case decides between them
        exact = [name for name in exact if mistakes[name].answers_like(submission, telling, every=True)]
        return exact if len(exact) == 1 else []
    if exact:
        return exact
    found: list[str] = []
    for asked in dict.fromkeys(frozenset(p.subjects) for p in telling):
        together = [p for p in [*telling, *rest] if frozenset(p.subjects) == asked]
        candidates = [
            name
            for name, mistake in mistakes.items()
            if mistake.answers_like(submission, together, every=True) and not any(mistake.fails(p) for p in rest)
        ]
        if len(candidates) == 1 and candidates[0] not in found:
            found.append(candidates[0])
    return found


def _alike(mine: Testimony, theirs: Testimony) -> bool:
    if mine.holds != theirs.holds or len(mine.exchanges) != len(theirs.exchanges):
        return False
    pairs = list(zip(_told(mine.exchanges), _told(theirs.exchanges), strict=True))
    right, last = (pairs, []) if mine.holds else (pairs[:-1], pairs[-1:])  # a case ends where it fails
    return all(_same_but_for_words(*pair) for pair in right) and all(same(*pair) for pair in last)


def _told(exchanges: Sequence[Exchange]) -> Iterator[Any]:
    """The replies, without what is left to everyone's taste: the values that a new module starts with."""
    trained: set[int] = set()  # the modules that calls were given, and may have changed
    for exchange in exchanges:
        request, reply = exchange.request, exchange.reply
        if isinstance(request, wire.Call):
            given = (*request.args, *request.kwargs.values())
            trained.update(value.id for value in given if isinstance(value, wire.Handle))
        if isinstance(request, wire.Parameters) and isinstance(reply, wire.Answer) and request.handle not in trained:
            rows = reply.value if isinstance(reply.value, list) else []
            named = [row for row in rows if isinstance(row, dict)]
            reply = [{**row, "value": list(getattr(row.get("value"), "shape", ()))} for row in named]
        yield reply


def _same_but_for_words(mine: Any, theirs: Any) -> bool:
    """As `same`, but everyone words an error that the property asks for in their own way."""
    if isinstance(mine, wire.Raised) and isinstance(theirs, wire.Raised):
        return mine.type == theirs.type
    return same(mine, theirs)


def same(mine: Any, theirs: Any) -> bool:
    """Whether two replies say the same, numbers within the tolerance of the course."""
    if type(mine) is not type(theirs):
        return _number(mine) and _number(theirs) and _close(torch.tensor(float(mine)), torch.tensor(float(theirs)))
    if isinstance(mine, torch.Tensor):
        return bool(mine.shape == theirs.shape and mine.dtype == theirs.dtype) and _close(mine, theirs)
    if isinstance(mine, float):
        return _close(torch.tensor(mine), torch.tensor(theirs))
    if isinstance(mine, list):
        return len(mine) == len(theirs) and all(map(same, mine, theirs))
    if isinstance(mine, dict):
        return bool(mine.keys() == theirs.keys()) and all(same(mine[key], theirs[key]) for key in mine)
    if isinstance(mine, wire.Raised):
        return (mine.type, mine.message) == (theirs.type, theirs.message)
    if isinstance(mine, wire.Answer):
        return same(mine.value, theirs.value) and same(mine.inputs, theirs.inputs) and _same_gradients(mine, theirs)
    if isinstance(mine, wire.Handle | wire.Opaque):
        return bool(mine.type == theirs.type)
    return bool(mine == theirs) or isinstance(mine, wire.Loaded)


def _same_gradients(mine: wire.Answer, theirs: wire.Answer) -> bool:
    if mine.gradients is None or theirs.gradients is None:
        return mine.gradients is theirs.gradients
    one, other = mine.gradients, theirs.gradients
    return same(one.inputs, other.inputs) and same(one.parameters, other.parameters)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _close(mine: torch.Tensor, theirs: torch.Tensor) -> bool:
    if torch.equal(mine, theirs):
        return True
    if not theirs.is_floating_point():
        return False
    one, other = mine.double(), theirs.double()
    finite = torch.isfinite(other)
    if not torch.equal(torch.isfinite(one), finite) or not torch.equal(one.isnan(), other.isnan()):
        return False
    if not bool(finite.any()):
        return True
    return float((one - other)[finite].abs().max()) <= TOLERANCE * (1 + float(other[finite].abs().max()))
