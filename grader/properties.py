"""Properties: what must be true of a submission, written like mathematics. An exercise needs only the names here.

    @prop(points=15, needs=["shapes"])
    def past_ignores_future(causal_attention, q: Float["B H T D"], ..., t: Index["T-1"]):
        '''Changing the keys and values after position t leaves the outputs up to t as they were.'''

Arguments without annotation are names of the submission, or `reference` (the same names, run in float64), `subject`
(the whole submission) and `forbidden` (the operations the exercise forbids). Annotated ones are "for all".
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from grader.cases import Bool, Case, Choice, Float, Ids, Index, Quantifier, Seed, Size, Variable
from grader.claims import (
    Violation,
    avoids,
    count,
    depends,
    divergence,
    dtype,
    equal,
    exactly,
    finite,
    gradients,
    holds,
    inputs_unchanged,
    raises,
    refilled,
    shape,
    sums_to_one,
)
from grader.subject import Subject, SubmissionRaised, given_weights
from grader.wire import Stream

__all__ = [
    "Bool",
    "Choice",
    "Float",
    "Ids",
    "Index",
    "Property",
    "Seed",
    "Size",
    "Stream",
    "SubmissionRaised",
    "Violation",
    "avoids",
    "count",
    "depends",
    "divergence",
    "dtype",
    "equal",
    "exactly",
    "finite",
    "given_weights",
    "gradients",
    "holds",
    "inputs_unchanged",
    "prop",
    "raises",
    "refilled",
    "shape",
    "sums_to_one",
]

OURS = ("reference", "subject", "forbidden")


@dataclasses.dataclass(frozen=True)
class Property:
    """One property of an exercise: its name, its sentence, its points, and the function that checks one case.

    `needs` names properties that must have passed before; `follows_from` names some from which, where they have all
    passed, this one follows; `device` is "cuda" where it needs one.
    """

    name: str
    statement: str
    points: int
    needs: tuple[str, ...]
    follows_from: tuple[str, ...]
    device: str
    body: Callable[..., None]
    bare: tuple[str, ...]
    quantifier: Quantifier
    case_count: int
    _cases: list[Case] = dataclasses.field(default_factory=list, compare=False)

    def cases(self) -> list[Case]:
        """The cases everyone is judged on, as they are on record; drawn here where there is no record of them."""
        if not self._cases:
            from grader.drawing import draw  # imports Hypothesis, which takes its time

            self._cases.extend(draw(self.quantifier, self.case_count))
        return self._cases

    def deal(self, record: Mapping[str, Any]) -> None:
        """Take the cases from what `record` made of them, unless the signature has changed since."""
        if record.get("of") == self.quantifier.mark(self.case_count):
            self._cases[:] = map(self.quantifier.read, record["cases"])
            if len(self._cases) < self.case_count:
                raise ValueError(f"{len(self._cases)} cases of {self.name}, not {self.case_count}")

    def record(self) -> dict[str, Any]:
        """The cases as plain data, for cases.json."""
        return {"of": self.quantifier.mark(self.case_count), "cases": list(map(self.quantifier.written, self.cases()))}

    @property
    def subjects(self) -> tuple[str, ...]:
        """The names of the submission it speaks of."""
        return tuple(name for name in self.bare if name not in OURS)

    @property
    def needs_reference(self) -> bool:
        return "reference" in self.bare

    def check(self, subject: Subject, reference: Subject | None, case: Case, forbidden: Sequence[str] = ()) -> None:
        """Check one case.

        Raises:
            Violation: a claim does not hold.
            SubmissionRaised: the submission raised.
        """
        subject.begin(case.seed, self.device)
        ours: dict[str, Any] = {"reference": reference, "subject": subject, "forbidden": forbidden}
        if reference is not None:
            reference.begin(case.seed)
        named = {name: ours[name] if name in OURS else getattr(subject, name) for name in self.bare}
        self.body(**named, **self.quantifier.values(case))


def prop(
    points: int,
    needs: Sequence[str] = (),
    follows_from: Sequence[str] = (),
    cases: int = 4,
    sizes: Mapping[str, tuple[int, int]] | None = None,
    device: str = "cpu",
) -> Callable[[Callable[..., None]], Property]:
    """Make a property of a function; its docstring is what learners read.

    What answers like the reference everywhere has whatever relations the reference's answers have. A property that
    states such a relation, for a learner to see which one is broken, `follows_from` the one that compares the answers,
    provided that this one asks in the same ways (mode, gradients, sizes): then it is not asked where that one holds.

    `cases` is how many cases everyone is judged on, more where a choice has more options; `sizes` overrides the range
    (inclusive) of a letter.
    """

    def mark(body: Callable[..., None]) -> Property:
        parameters = inspect.signature(body, eval_str=True).parameters
        variables = {name: p.annotation for name, p in parameters.items() if isinstance(p.annotation, Variable)}
        return Property(
            name=body.__name__,
            statement=" ".join((body.__doc__ or "").split()),
            points=points,
            needs=tuple(needs),
            follows_from=tuple(follows_from),
            device=device,
            body=body,
            bare=tuple(name for name in parameters if name not in variables),
            quantifier=Quantifier(variables, sizes or {}),
            case_count=cases if variables else 1,
        )

    return mark
