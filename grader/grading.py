"""Grading one submission of one exercise: start a worker, judge, diagnose, report.

torch is imported only once it is clear that there is something to run, here and in the worker side by side.
"""

from __future__ import annotations

import ast
import datetime
import functools
import platform
import time
from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction
from importlib import metadata
from typing import TYPE_CHECKING, Self

import msgspec

from grader import __version__
from grader import isolation as isolating
from grader.exercises import Course, Exercise, read_source
from grader.messages import text
from grader.results import Diagnosis, Isolation, PropertyResult, Report, Verdict
from grader.submissions import Problem, Submission
from grader.turns import Turns, Unshared, machine

if TYPE_CHECKING:
    from grader.bench import Bench
    from grader.properties import Property

PASSED_OVER = (Verdict.PASSED, Verdict.SKIPPED, Verdict.NOT_RUN)


class Grader:
    """Grades submissions one after the other: one zygote, and a bench for each exercise.

    `mode` is "best" (as good as this machine can) or "require" (refuse to run less than contained). The zygote is
    started by the first submission that is fit to run. `shared` tells that other judges are at work on this machine.
    """

    def __init__(self, course: Course, lang: str = "en", mode: isolating.Mode = "best", shared: bool = False) -> None:
        self._course = course
        self._lang = lang
        self._mode = mode
        self._shared = shared
        self._turns: Turns = machine() if shared else Unshared()
        self._hidden = [course.folder / "exercises", course.folder / "solutions"]
        self._zygote: isolating.Zygote | None = None
        self._benches: dict[str, Bench] = {}

    def grade(
        self, exercise: Exercise, submission: Submission | Problem, select: str = "", arguments: Sequence[str] = ()
    ) -> Report:
        """Grade one submission. `select` is pytest's -k, `arguments` are further ones of pytest's.

        Raises:
            CourseError: the exercise itself is broken.
            isolation.Unavailable: "require" cannot be had here.
        """
        began = time.monotonic()
        if isinstance(submission, Problem):
            return _report(exercise, submission, _unread(exercise, submission, self._lang), self._lang, began)
        zygote = self._started()
        bench = self._bench(exercise)
        chosen = ["-k", select] if select else []
        asked = [*chosen, *arguments]
        judged = bench.judge(zygote.worker, submission, self._lang, asked if asked or not self._shared else None)
        results = [judged.results.get(p.name) or _unselected(exercise, p, self._lang) for p in bench.properties]
        diagnoses = bench.diagnoses(zygote.worker, submission, judged, self._lang)
        isolation, shared = zygote.describe(self._lang), [name for name in bench.on_devices() if name in judged.results]
        report = _report(exercise, submission, results, self._lang, began, diagnoses, isolation, shared)
        return msgspec.structs.replace(report, next_step=self._next_step(exercise, report.verdict))

    def _next_step(self, exercise: Exercise, verdict: Verdict) -> str:
        following = self._course.after(exercise)
        if verdict is Verdict.PASSED and following is not None:
            return text("next.exercise", self._lang, id=following.id, title=following.title(self._lang))
        kinds = {Verdict.PASSED: "end", Verdict.NOT_IMPLEMENTED: "begin"}
        return text(f"next.{kinds.get(verdict, 'hint')}", self._lang, id=exercise.id)

    def _started(self) -> isolating.Zygote:
        if self._zygote is None:
            self._zygote = isolating.start(mode=self._mode, hidden=self._hidden)
        return self._zygote

    def _bench(self, exercise: Exercise) -> Bench:
        from grader.bench import Bench  # imports torch, while the zygote does the same

        if exercise.slug not in self._benches:
            self._benches[exercise.slug] = Bench(exercise, self._turns)
        return self._benches[exercise.slug]

    def close(self) -> None:
        """End the zygote and every worker."""
        if self._zygote is not None:
            self._zygote.close()
        self._zygote = None
        self._turns.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _unselected(exercise: Exercise, property: Property, lang: str) -> PropertyResult:
    statement = exercise.statement(property.name, lang) or property.statement
    message = text("verdict.not_run.unselected", lang)
    return PropertyResult(property.name, Verdict.NOT_RUN, 0, property.points, statement, message)


def _unread(exercise: Exercise, problem: Problem, lang: str) -> list[PropertyResult]:
    """A row for each property of a submission that could not be read, without importing torch for it."""
    return [
        PropertyResult(name, problem.verdict, 0, points, exercise.statement(name, lang) or statement)
        for name, points, statement in outline(read_source(exercise.folder / "properties.py"))
    ]


def outline(source: str) -> Iterator[tuple[str, int, str]]:
    """Name, points and statement of each property of a properties.py, read without running it."""
    for node in ast.parse(source).body:
        if not isinstance(node, ast.FunctionDef):
            continue
        for call in node.decorator_list:
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "prop":
                given = {keyword.arg: keyword.value for keyword in call.keywords}
                points = ast.literal_eval(given["points"]) if "points" in given else ast.literal_eval(call.args[0])
                yield node.name, points, (ast.get_docstring(node) or "").replace("\n", " ")


def _report(
    exercise: Exercise,
    submission: Submission | Problem,
    results: Sequence[PropertyResult],
    lang: str,
    started: float,
    diagnoses: Sequence[Diagnosis] = (),
    isolation: Isolation | None = None,
    shared: Collection[str] = (),
) -> Report:
    score, max_score = scored(results, shared)
    if isinstance(submission, Problem):
        verdict, message = submission.verdict, submission.sentence(lang)
    else:
        verdict = overall(results)
        said = [note.sentence(lang) for note in submission.notes]
        if verdict is Verdict.NOT_IMPLEMENTED and not score:
            said.insert(0, text("verdict.nothing_yet", lang))
        message = " ".join(said)
    return Report(
        exercise=exercise.slug,
        title=exercise.title(lang),
        submission=submission.label,
        score=score,
        max_score=max_score,
        verdict=verdict,
        properties=list(results),
        mistakes=[diagnosis.name for diagnosis in diagnoses],
        diagnoses=list(diagnoses),
        message=message,
        lang=lang,
        environment=environment(),
        isolation=isolation,
        seconds=round(time.monotonic() - started, 3),
        graded_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


def failed_report(exercise: Exercise, submission: Submission | Problem, error: str, lang: str) -> Report:
    """The report on a submission that the grader itself failed on: nothing is charged, nothing is known."""
    message = text("verdict.grader_error", lang, error=error)
    rows = outline(read_source(exercise.folder / "properties.py"))
    results = [
        PropertyResult(
            name, Verdict.GRADER_ERROR, 0, points, exercise.statement(name, lang) or statement, message=message
        )
        for name, points, statement in rows
    ]
    return _report(exercise, submission, results, lang, time.monotonic())


def scored(results: Sequence[PropertyResult], shared: Collection[str] = ()) -> tuple[float, float]:
    """Score and maximum, of the properties that were run.

    The points of those named in `shared`, which need a device this machine lacks, and of those on which the grader
    itself failed, are shared out among the others in proportion.
    """
    unknown = (Verdict.NOT_RUN, Verdict.GRADER_ERROR)
    run = [result for result in results if result.verdict not in unknown]
    judged = sum(Fraction(result.max_points) for result in run)
    passed = sum(Fraction(result.max_points) for result in run if result.verdict is Verdict.PASSED)
    lost = [
        result
        for result in results
        if result.verdict is Verdict.GRADER_ERROR or (result.verdict is Verdict.NOT_RUN and result.name in shared)
    ]
    extra = sum(Fraction(result.max_points) for result in lost)
    if not judged:
        return 0.0, 0.0
    return round(float(passed * (judged + extra) / judged), 2), round(float(judged + extra), 2)


def overall(results: Sequence[PropertyResult]) -> Verdict:
    """The first cause: the verdict of the first property that did not pass; an error of the grader's own above all."""
    if any(result.verdict is Verdict.GRADER_ERROR for result in results):
        return Verdict.GRADER_ERROR
    return next((result.verdict for result in results if result.verdict not in PASSED_OVER), Verdict.PASSED)


@functools.cache
def environment() -> dict[str, str]:
    """What a report says of where it was made."""
    return {
        "grader": __version__,
        "python": platform.python_version(),
        "torch": metadata.version("torch"),
        "hypothesis": metadata.version("hypothesis"),
        "platform": f"{platform.system()} {platform.machine()}",
    }
