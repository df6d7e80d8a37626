"""Diagnosis: which named mistake answers exactly like this submission.

The submission and each mistake are asked the same questions, those that the properties ask. A mistake is named when
it answers alike wherever the submission fails, in everything the properties ask of the same names, and no other
mistake does. No name is better than a wrong name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from grader import wire
from grader.claims import TOLERANCE
from grader.isolation import WorkerEnded
from grader.properties import Property
from grader.subject import Exchange, Subject

Transcript = list[list[Exchange]]  # a property's cases, each until the first claim that does not hold


@dataclasses.dataclass(frozen=True)
class Transcripts:
    """What one program answers in every case of every property, by the property's name.

    `failed` names the properties that do not hold for it.
    """

    answers: Mapping[str, Transcript]
    failed: frozenset[str]


def transcribe(
    subject: Subject, reference: Subject | None, properties: Iterable[Property], forbidden: Sequence[str]
) -> Transcripts:
    """Ask every case of every property and keep what is answered.

    Raises:
        WorkerEnded: the program did not survive a question.
    """
    answers: dict[str, Transcript] = {}
    failed = set()
    for property in properties:
        if property.needs_reference and reference is None:
            continue
        answers[property.name] = []
        for case in property.cases():
            try:
                property.check(subject, reference, case, forbidden)
            except WorkerEnded:
                raise
            except Exception:
                failed.add(property.name)
            answers[property.name].append(list(subject.exchanges))
    return Transcripts(answers, frozenset(failed))


def names_of(
    submission: Transcripts, mistakes: Mapping[str, Transcripts], groups: Mapping[str, frozenset[str]]
) -> list[str]:
    """The mistakes that this submission makes, as far as that is certain.

    `groups` maps a property to the names of the submission that it asks: properties that ask the same names are
    judged together, so that two mistakes in two functions do not hide each other. A mistake that only shows in
    some groups must fail everywhere it is known to fail.
    """
    exact = [name for name, theirs in mistakes.items() if _alike(submission, theirs, submission.answers)]
    if exact:
        return exact if len(exact) == 1 else []
    found: list[str] = []
    for group in dict.fromkeys(groups[name] for name in sorted(submission.failed)):
        inside = [name for name in submission.answers if groups[name] == group]
        candidates = [
            name
            for name, theirs in mistakes.items()
            if theirs.failed & set(inside) and theirs.failed <= submission.failed and _alike(submission, theirs, inside)
        ]
        if len(candidates) == 1 and candidates[0] not in found:
            found.append(candidates[0])
    return found


def _alike(mine: Transcripts, theirs: Transcripts, properties: Iterable[str]) -> bool:
    return all(
        (name in mine.failed) == (name in theirs.failed)
        and len(mine.answers[name]) == len(theirs.answers[name])
        and all(map(_same_exchanges, mine.answers[name], theirs.answers[name]))
        for name in properties
    )


def _same_exchanges(mine: Sequence[Exchange], theirs: Sequence[Exchange]) -> bool:
    return len(mine) == len(theirs) and all(
        same(one.reply, other.reply) for one, other in zip(mine, theirs, strict=True)
    )


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
    if not theirs.is_floating_point():
        return torch.equal(mine, theirs)
    one, other = mine.double(), theirs.double()
    finite = torch.isfinite(other)
    if not torch.equal(torch.isfinite(one), finite) or not torch.equal(one.isnan(), other.isnan()):
        return False
    if not bool(finite.any()):
        return True
    return float((one - other)[finite].abs().max()) <= TOLERANCE * (1 + float(other[finite].abs().max()))
