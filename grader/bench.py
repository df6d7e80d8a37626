"""The bench: what it takes to judge submissions of one exercise, made once and used for each of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

import torch

from grader.diagnosis import Transcripts, names_of, transcribe
from grader.exercises import CourseError, Exercise
from grader.explain import Explainer
from grader.judge import Judge, LocalWorker, Session, Source, Worker, loaded
from grader.properties import Property
from grader.results import Diagnosis, PropertyResult
from grader.runner import run
from grader.subject import Subject
from grader.submissions import Submission

POINTS = 100


class Bench:
    """One exercise, ready to judge: its properties with their cases, its reference, its mistakes' answers."""

    def __init__(self, exercise: Exercise) -> None:
        self.exercise = exercise
        self.properties = properties_of(exercise)
        self.reference = Source({exercise.module: exercise.reference}, exercise.module) if exercise.reference else None
        self.named = {mistake.name: mistake for mistake in exercise.mistakes()}
        self.groups = {p.name: frozenset(p.subjects) for p in self.properties}

    @functools.cached_property
    def exact(self) -> Subject | None:
        """The reference in float64, which says what is wanted."""
        return loaded(LocalWorker(torch.float64), self.reference) if self.reference else None

    @functools.cached_property
    def plain(self) -> Subject | None:
        """The reference as if it were a submission."""
        return loaded(LocalWorker(), self.reference) if self.reference else None

    def judge(
        self, start: Callable[[], Worker], submission: Source | Submission, lang: str, arguments: Sequence[str] = ()
    ) -> dict[str, PropertyResult]:
        """The result of each property that pytest ran with `arguments`, by name."""
        session = Session(start, submission)
        judge = Judge(session, self.exact, self.plain, self.exercise.forbidden)
        explainer = Explainer(self.exercise, submission, lang)
        try:
            path = self.exercise.folder / "properties.py"
            return run(path, self.properties, lambda p: explainer.result(judge.judge(p)), arguments)
        finally:
            session.close()

    def diagnoses(self, start: Callable[[], Worker], submission: Source | Submission, lang: str) -> list[Diagnosis]:
        """The named mistakes of a submission that failed."""
        mine = self.transcribed(start(), submission) if self.named else None
        if mine is None:
            return []
        found = [self.named[name] for name in names_of(mine, self.mistakes, self.groups)]
        return [Diagnosis(mistake.name, mistake.says(lang), mistake.why(lang)) for mistake in found]

    @functools.cached_property
    def mistakes(self) -> Mapping[str, Transcripts]:
        """What each named mistake answers to everything that the properties ask."""
        found = {name: self.transcribed(LocalWorker(), self.mistaken(name)) for name in self.named}
        return {name: transcripts for name, transcripts in found.items() if transcripts is not None}

    def mistaken(self, name: str) -> Source:
        """The reference with a named mistake in it."""
        assert self.reference is not None
        main = self.reference.main
        return Source({main: self.named[name].apply(self.reference.files[main])}, main)

    def transcribed(self, worker: Worker, source: Source | Submission) -> Transcripts | None:
        """Everything a program answers, None when it cannot be loaded or does not survive being asked."""
        try:
            return transcribe(loaded(worker, source), self.exact, self.properties, self.exercise.forbidden)
        except Exception:
            return None
        finally:
            worker.close()


def properties_of(exercise: Exercise) -> list[Property]:
    """The properties in the order of the file.

    Raises:
        CourseError: there are none, their points do not add to 100, or one needs a later or unknown one.
    """
    module = exercise.properties()
    found = [value for value in vars(module).values() if isinstance(value, Property)]
    path = exercise.folder / "properties.py"
    if sum(p.points for p in found) != POINTS:
        raise CourseError("course.points", file=path, points=sum(p.points for p in found))
    earlier: set[str] = set()
    for p in found:
        for needed in p.needs:
            if needed not in earlier:
                raise CourseError("course.needs", file=path, property=p.name, needed=needed)
        earlier.add(p.name)
    return found
