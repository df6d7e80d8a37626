"""The bench: what it takes to judge submissions of one exercise, made once and used for each of them."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Mapping, Sequence

import torch

from grader.diagnosis import Witness, names_of
from grader.exercises import CourseError, Exercise
from grader.explain import Explainer
from grader.isolation import WorkerEnded
from grader.judge import Judge, LocalWorker, Session, Source, Testimony, Worker, loaded
from grader.properties import Property
from grader.replay import Transcripts
from grader.results import Diagnosis, PropertyResult, Verdict
from grader.runner import run, run_without_pytest
from grader.subject import Subject, SubmissionRaised, WrongAnswer
from grader.submissions import Submission
from grader.turns import Turns

POINTS = 100
TELLING = (Verdict.FAILED, Verdict.RAISED)  # the verdicts after which answers tell something about the mistake

Testimonies = Mapping[tuple[str, int], Testimony]


@dataclasses.dataclass(frozen=True)
class Judged:
    """What came of one submission: the result of each property that ran, and what the submission answered."""

    results: Mapping[str, PropertyResult]
    testimonies: Testimonies

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """The verdict on each property."""
        return {name: result.verdict for name, result in self.results.items()}


class Bench:
    """One exercise, ready to judge: its properties with their cases, its reference, its mistakes' answers."""

    def __init__(self, exercise: Exercise, turns: Turns | None = None) -> None:
        self.exercise = exercise
        self._turns = turns
        self._transcripts = Transcripts()
        self.properties = properties_of(exercise)
        self.reference = Source({exercise.module: exercise.reference}, exercise.module) if exercise.reference else None
        self.named = {mistake.name: mistake for mistake in exercise.mistakes()}

    @functools.cached_property
    def exact(self) -> Subject | None:
        """The reference in float64, which says what is wanted."""
        return loaded(LocalWorker(torch.float64), self.reference, remember=True) if self.reference else None

    @functools.cached_property
    def plain(self) -> Subject | None:
        """The reference as if it were a submission."""
        return loaded(LocalWorker(), self.reference, remember=True) if self.reference else None

    def judge(
        self,
        start: Callable[[], Worker],
        submission: Source | Submission,
        lang: str,
        arguments: Sequence[str] | None = (),
    ) -> Judged:
        """Judge the properties that pytest selects with `arguments`; where that is None all of them, without pytest."""
        session = Session(start, submission)
        judge = Judge(
            session,
            self.exact,
            self.plain,
            self.exercise.forbidden,
            turns=self._turns,
            transcripts=self._transcripts,
        )
        explainer = Explainer(self.exercise, submission, lang)

        def result(property: Property) -> PropertyResult:
            return explainer.result(judge.judge(property))

        try:
            if arguments is None:
                return Judged(run_without_pytest(self.properties, result), judge.testimonies)
            path = self.exercise.folder / "properties.py"
            return Judged(run(path, self.properties, result, arguments), judge.testimonies)
        finally:
            session.close()

    def diagnoses(
        self, start: Callable[[], Worker], submission: Source | Submission, judged: Judged, lang: str
    ) -> list[Diagnosis]:
        """The named mistakes of a submission that failed properties."""
        session = Session(start, submission)
        try:
            names = self.names_of(session, judged.verdicts, judged.testimonies)
        except (WorkerEnded, SubmissionRaised, WrongAnswer):
            return []
        finally:
            session.close()
        return [Diagnosis(name, self.named[name].says(lang), self.named[name].why(lang)) for name in names]

    def names_of(self, session: Session, verdicts: Mapping[str, Verdict], known: Testimonies) -> list[str]:
        """The names alone. What was skipped tells nothing, what follows from other properties holds; of the rest the
        submission is asked what is not known.

        Raises:
            WorkerEnded, SubmissionRaised, WrongAnswer: it did not answer that.
        """
        failed = [name for name, verdict in verdicts.items() if verdict in TELLING]
        if not failed:
            return []
        follow = {p.name for p in self._asked if verdicts.get(p.name) is Verdict.PASSED and (p.name, 0) not in known}
        asked = [p for p in self._asked if verdicts.get(p.name) is not Verdict.SKIPPED and p.name not in follow]
        held = {p.name for p in asked if all(_holds(known, p, index) for index in range(len(p.cases())))} | follow
        possible = {name: mistake for name, mistake in self._mistakes.items() if self.named[name].caught_by not in held}
        return names_of(self._witness(session.subject, known), possible, asked, failed, held)

    def learn(self, name: str, known: Testimonies) -> None:
        """A named mistake has been judged itself."""
        self._mistakes[name].learn(known)

    @functools.cached_property
    def _mistakes(self) -> Mapping[str, Witness]:
        def load(name: str) -> Subject:
            return loaded(LocalWorker(), self.mistaken(name))

        return {name: self._witness(functools.partial(load, name)) for name in self.named}

    def _witness(self, load: Callable[[], Subject], known: Testimonies | None = None) -> Witness:
        return Witness(load, self.exact, self.exercise.forbidden, known)

    def on_devices(self) -> list[str]:
        """The properties that need a device: where it is not to be had, their points are shared out."""
        return [p.name for p in self.properties if p.device != "cpu"]

    @property
    def _asked(self) -> list[Property]:
        """The properties that can be asked here."""
        return [p for p in self.properties if p.device == "cpu" and (self.exact or not p.needs_reference)]

    def mistaken(self, name: str) -> Source:
        """The reference with a named mistake in it."""
        assert self.reference is not None
        main = self.reference.main
        return Source({main: self.named[name].apply(self.reference.files[main])}, main)


def _holds(known: Testimonies, property: Property, index: int) -> bool:
    testimony = known.get((property.name, index))
    return testimony is not None and testimony.holds


def properties_of(exercise: Exercise) -> list[Property]:
    """The properties in the order of the file.

    Raises:
        CourseError: there are none, their points do not add to 100, or one needs a later or unknown one.
    """
    module = exercise.properties()
    found = [value for value in vars(module).values() if isinstance(value, Property)]
    try:
        record = exercise.cases()
        for p in found:
            p.deal(record.get(p.name, {}))
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise CourseError("course.does_not_load", file=exercise.record, error=repr(error)) from error
    path = exercise.folder / "properties.py"
    if sum(p.points for p in found) != POINTS:
        raise CourseError("course.points", file=path, points=sum(p.points for p in found))
    earlier: set[str] = set()
    for p in found:
        for needed in (*p.needs, *p.follows_from):
            if needed not in earlier:
                raise CourseError("course.needs", file=path, property=p.name, needed=needed)
        earlier.add(p.name)
    return found


def record_of(exercise: Exercise) -> str:
    """What cases.json has to be: the cases on record, and fresh ones for the properties whose signature has changed."""
    rows = (f"{json.dumps(p.name)}: {json.dumps(p.record())}" for p in properties_of(exercise))
    return "{\n" + ",\n".join(rows) + "\n}\n"
