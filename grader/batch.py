"""Many submissions, once, without babysitting: plan, grade, keep, show.

Work goes to a `concurrent.futures` executor, one judge with one zygote in each of its processes; what comes back is
kept by this process alone, one transaction each. Start it again after any end, and it goes on where it was.
"""

from __future__ import annotations

import functools
import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent import futures
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import msgspec

from grader import __version__
from grader.exercises import Course, Exercise
from grader.gradebook import Entry, Gradebook, gradebook_csv
from grader.grading import Grader, failed_report
from grader.isolation import Mode, Unavailable
from grader.reporters import REPORTERS
from grader.results import Report, Verdict
from grader.submissions import Problem, Submission
from grader.workspace import write

TRIES = 3  # of a submission whose judge was killed, before it is written down as an error of the grader's own
AHEAD = 2  # submissions handed out a process, so that none waits and memory stays flat
DATABASE = "results.sqlite"


@dataclass(frozen=True)
class Task:
    """One submission of one exercise. `folder` is the name its reports stand under."""

    student: str
    folder: str
    exercise: str
    submission: Submission | Problem
    key: str


@dataclass(frozen=True)
class Setting:
    """What every process needs to know to grade alike."""

    course: Path
    lang: str
    mode: Mode


@dataclass(frozen=True)
class Progress:
    """How far a run is: `entry` is what has just been kept, None at the start."""

    entry: Entry | None
    done: int
    total: int
    failures: int
    seconds: float

    @property
    def rate(self) -> float:
        """Submissions a second, of this run."""
        return self.done / self.seconds if self.seconds else 0.0

    @property
    def left(self) -> float:
        """Seconds that the rest is going to take at this rate."""
        return (self.total - self.done) / self.rate if self.rate else 0.0


def key_of(submission: Submission | Problem, exercise: Exercise, lang: str) -> str:
    """The digest of all that a result depends on: content, exercise, grader, course, language."""
    digest = hashlib.blake2b(digest_size=16)
    for part in (exercise.slug, __version__, course_version(exercise.folder, exercise.solution), lang):
        digest.update(part.encode() + b"\0")
    if isinstance(submission, Problem):
        digest.update(submission.key.encode() + repr(sorted(submission.params.items())).encode())
    else:
        digest.update(submission.main.encode())
        for path, source in sorted(submission.files.items()):
            digest.update(b"\0" + path.encode() + b"\0" + source.encode())
    return digest.hexdigest()


@functools.cache
def course_version(*folders: Path | None) -> str:
    """The digest of every file in an exercise's folders."""
    digest = hashlib.blake2b(digest_size=8)
    for folder in folders:
        files = sorted(folder.rglob("*")) if folder is not None else ()
        for path in files:
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


# ---- in a process of the executor


def graded(setting: Setting, task: Task) -> tuple[bytes, str]:
    """Grade one task: the report as JSON, and as HTML. The submission's code runs in a worker, never here."""
    grader, course = _grader(setting)
    exercise = course.find(task.exercise)
    try:
        report = grader.grade(exercise, task.submission)
    except Unavailable:
        raise
    except Exception as error:
        report = failed_report(exercise, task.submission, f"{type(error).__name__}: {error}", setting.lang)
    report = msgspec.structs.replace(report, submission=task.student)
    return msgspec.json.encode(report), REPORTERS["html"](report)


@functools.cache
def _grader(setting: Setting) -> tuple[Grader, Course]:
    """This process's judge and its zygote, made once."""
    course = Course.open(setting.course)
    return Grader(course, setting.lang, setting.mode), course


def local(jobs: int) -> futures.Executor:
    """An executor of `jobs` processes on this machine."""
    os.environ["OMP_NUM_THREADS"] = "1"  # inherited; torch reads it when it is imported
    return futures.ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))


# ---- in the process that keeps


class Batch:
    """One run over many tasks. `executor` makes the executor, again where its processes were killed."""

    def __init__(self, out: Path, setting: Setting, executor: Callable[[], futures.Executor], jobs: int) -> None:
        self.book = Gradebook(out / DATABASE)
        self._out = out
        self._setting = setting
        self._make = executor
        self._room = AHEAD * jobs

    def run(self, tasks: Sequence[Task]) -> Iterator[Progress]:
        """Grade the tasks and keep each result as it comes; yields after each."""
        began, done, failures = time.monotonic(), 0, 0
        yield Progress(None, 0, len(tasks), 0, 0.0)
        for task, report, page in self._graded(tasks):
            entry = self._keep(task, report, page)
            done, failures = done + 1, failures + (report.score < report.max_score)
            yield Progress(entry, done, len(tasks), failures, time.monotonic() - began)

    def _graded(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Report, str]]:
        """Hand out a bounded number of tasks at a time. Those whose process was killed are handed out again."""
        waiting = [(task, 1) for task in reversed(tasks)]
        running: dict[futures.Future[tuple[bytes, str]], tuple[Task, int]] = {}
        executor = self._make()
        try:
            while waiting or running:
                try:
                    while waiting and len(running) < self._room:
                        task, tries = waiting[-1]
                        running[executor.submit(graded, self._setting, task)] = (task, tries)
                        waiting.pop()
                    finished, _ = futures.wait(running, return_when=futures.FIRST_COMPLETED)
                except BrokenProcessPool:
                    finished = set(running)
                broken = False
                for future in finished:
                    task, tries = running.pop(future)
                    try:
                        encoded, page = future.result()
                    except (BrokenProcessPool, futures.CancelledError):
                        broken = True
                        if tries < TRIES:
                            waiting.append((task, tries + 1))
                        else:
                            yield self._given_up(task)
                        continue
                    yield task, msgspec.json.decode(encoded, type=Report), page
                if broken:
                    waiting += [(task, tries) for task, tries in running.values()]
                    running.clear()
                    executor.shutdown(wait=False, cancel_futures=True)
                    executor = self._make()
        finally:
            executor.shutdown(wait=False, cancel_futures=True)

    def _given_up(self, task: Task) -> tuple[Task, Report, str]:
        exercise = Course.open(self._setting.course).find(task.exercise)
        report = failed_report(exercise, task.submission, "the judge was killed", self._setting.lang)
        report = msgspec.structs.replace(report, submission=task.student)
        return task, report, REPORTERS["html"](report)

    def _keep(self, task: Task, report: Report, page: str) -> Entry:
        """Write the reports, whole or not at all, then the row: a row's reports are always there."""
        source = task.submission.files[task.submission.main] if isinstance(task.submission, Submission) else ""
        if report.verdict is not Verdict.GRADER_ERROR or not self.book.has_grade(task.student, report.exercise):
            folder = self._out / "reports" / task.folder
            write(folder / f"{report.exercise}.html", page)
            write(folder / f"{report.exercise}.json", REPORTERS["json"](report))
        return self.book.put(task.student, task.folder, task.key, report, source)

    def finish(self) -> None:
        """Write what is made of all results: the gradebook and the page on the class."""
        write(self._out / "gradebook.csv", gradebook_csv(self.book))


def pending(tasks: Iterable[Task], book: Gradebook, regrade: bool = False) -> list[Task]:
    """The tasks that have not been graded as they are now; all of them with `regrade`."""
    return [task for task in tasks if regrade or not book.settled(task.student, task.exercise, task.key)]


def shard(tasks: Iterable[Task], index: int, count: int) -> list[Task]:
    """Part `index` of `count` (from 1), by student, so that it is the same on every machine."""
    return [task for task in tasks if int(hashlib.blake2b(task.student.encode()).hexdigest(), 16) % count == index - 1]
