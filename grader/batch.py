"""Many submissions, once, without babysitting: plan, grade, keep, show.

Work goes to a `concurrent.futures` executor, one judge with one zygote in each of its processes; what comes back is
kept by this process alone, one transaction each. Start it again after any end, and it goes on where it was.
"""

from __future__ import annotations

import atexit
import contextlib
import fnmatch
import functools
import hashlib
import re
import threading
import time
import unicodedata
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent import futures
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from grader import __version__, prelude
from grader.crew import Killed
from grader.exercises import Course, Exercise
from grader.gradebook import DATABASE, Entry, Gradebook, gradebook_csv
from grader.grading import Grader, failed_report
from grader.intake import HandIn
from grader.isolation import Mode, Unavailable
from grader.messages import text
from grader.reporters import REPORTERS
from grader.results import Report, Verdict
from grader.submissions import Problem, Submission
from grader.workspace import write

TRIES = 3  # of a submission whose judge was killed, before it is written down as an error of the grader's own
HALF_WRITTEN = re.compile(r"\..+\.(html|json|csv)\.\w{8}")  # what `write` calls a file that is not whole yet
Which = Literal["new", "changed", "failed", "all"]


@dataclass(frozen=True)
class Task:
    """One submission of one exercise. `folder` is the name its reports stand under.

    `content` is the digest of the submission, `version` that of the exercise, `key` that of all a result depends on.
    """

    student: str
    folder: str
    exercise: str
    submission: Submission | Problem
    content: str
    version: str
    key: str

    @property
    def absent(self) -> bool:
        """Whether nothing was handed in."""
        return isinstance(self.submission, Problem) and self.submission.absent

    @property
    def source(self) -> str:
        """The main file's text."""
        return "" if isinstance(self.submission, Problem) else self.submission.files[self.submission.main]


@dataclass(frozen=True)
class Setting:
    """What every process needs to know to grade alike."""

    course: Path
    lang: str
    mode: Mode


@dataclass(frozen=True)
class Progress:
    """How far a run is: `entry` is what has just been kept, None at the start.

    `failures` counts what did not get all points, `errors` those of the grader's own.
    """

    entry: Entry | None
    done: int
    total: int
    failures: int
    errors: int
    seconds: float

    @property
    def rate(self) -> float:
        """Submissions a second, of this run."""
        return self.done / self.seconds if self.seconds else 0.0

    @property
    def left(self) -> float:
        """Seconds that the rest is going to take at this rate."""
        return (self.total - self.done) / self.rate if self.rate else 0.0


class OtherCourse(Exception):
    """A process that grades elsewhere has another course, or another version of it."""


class Busy(Exception):
    """Another run is at work on the same gradebook."""


# ---- the plan


def plan(hand_ins: Iterable[HandIn], exercises: Sequence[Exercise], course: Course, lang: str) -> list[Task]:
    """A task for each student and exercise. Exercises that nobody has handed in are left out."""
    tasks: list[Task] = []
    begun: set[str] = set()
    for hand_in in hand_ins:
        first = len(tasks)
        for exercise in exercises:
            found = hand_in.read(exercise, course)
            content, version = content_of(found), version_of(exercise)
            key = _digest(content, exercise.slug, __version__, version, lang)
            tasks.append(Task(hand_in.label, hand_in.folder, exercise.slug, found, content, version, key))
        begun |= _meant(tasks[first:])
    begun = begun or {task.exercise for task in tasks if not task.absent}
    return [task for task in tasks if task.exercise in begun]


def _meant(tasks: Sequence[Task]) -> set[str]:
    """The exercises that a student has handed in. What is wrong for most of them alike says nothing of any."""
    problems = Counter(task.submission.key for task in tasks if isinstance(task.submission, Problem))
    common = {key for key, count in problems.items() if 2 * count > len(tasks) > 1}
    return {
        task.exercise
        for task in tasks
        if not task.absent and not (isinstance(task.submission, Problem) and task.submission.key in common)
    }


def content_of(submission: Submission | Problem) -> str:
    """The digest of what was handed in."""
    if isinstance(submission, Problem):
        return _digest(submission.key, *(f"{name}={value}" for name, value in sorted(submission.params.items())))
    files = (part for path, source in sorted(submission.files.items()) for part in (path, source))
    notes = (f"{note.key} {sorted(note.params.items())}" for note in submission.notes)
    return _digest(submission.main, *files, *notes)


def version_of(exercise: Exercise) -> str:
    """The digest of every file in an exercise's folders."""
    return _version(exercise.folder, exercise.solution)


@functools.cache
def _version(*folders: Path | None) -> str:
    parts: list[str | bytes] = []
    for folder in folders:
        for path in sorted(folder.rglob("*")) if folder is not None else ():
            if path.is_file() and "__pycache__" not in path.parts:
                parts += [path.name, path.read_bytes()]
    return _digest(*parts)


def _digest(*parts: str | bytes) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def pending(tasks: Iterable[Task], book: Gradebook, which: Which = "new") -> list[Task]:
    """Those of the tasks that are to be graded now.

    "new": not graded as they are now, by this grader and this course. "changed": never graded, or the student has
    handed in something else since. "failed": graded, and not passed. "all": all.
    """
    rows = {(entry.student, entry.exercise): entry for entry in book.all_rows()}
    return [task for task in tasks if _wanted(task, rows.get((task.student, task.exercise)), which)]


def _wanted(task: Task, row: Entry | None, which: Which) -> bool:
    if row is None:
        return which != "failed"
    if task.absent and row.graded:
        return False  # the grade stays
    if which == "failed":
        return row.verdict is not Verdict.PASSED and not (task.absent and row.absent)
    if which == "changed":
        return row.content != task.content
    return which == "all" or row.key != task.key or row.verdict is Verdict.GRADER_ERROR


def shard(tasks: Iterable[Task], index: int, count: int) -> list[Task]:
    """Part `index` of `count` (from 1), by student, so that it is the same on every machine."""
    return [task for task in tasks if int(_digest(task.student), 16) % count == index - 1]


def named(hand_ins: Iterable[HandIn], wanted: Sequence[str]) -> tuple[list[HandIn], list[str]]:
    """The hand-ins that the words name, by label, name, folder, id or pattern, and the words that name none."""
    found, idle = [], set(wanted)
    for hand_in in hand_ins:
        names = {_composed(name) for name in _names(hand_in)}
        means = {word for word in wanted if _is_among(names, _composed(word))}
        idle -= means
        if means:
            found.append(hand_in)
    return found, [word for word in wanted if word in idle]


def _is_among(names: set[str], word: str) -> bool:
    return word in names or any(fnmatch.fnmatchcase(name, word) for name in names)


def _composed(name: str) -> str:
    """A name with its accents as keyboards type them; macOS and archives made there take letters and accents apart."""
    return unicodedata.normalize("NFC", name)


def _names(hand_in: HandIn) -> set[str]:
    """All that a hand-in may be called: a group also by each member, a namesake also without what was added."""
    names = {hand_in.label, hand_in.folder, *hand_in.ids.values()}
    names |= {name for person in hand_in.members for name in (person.name, person.sid, person.email) if name}
    added = {*hand_in.ids.values(), hand_in.source, hand_in.source.rpartition("/")[2]}
    plain = hand_in.label
    while ends := [f" ({each})" for each in added if plain.endswith(f" ({each})")]:
        plain = plain.removesuffix(max(ends, key=len))
        names.add(plain)
    return names


def not_among(hand_ins: Iterable[HandIn], book: Gradebook) -> list[str]:
    """The students of the book who have no hand-in, not even an empty one."""
    here = {hand_in.label for hand_in in hand_ins}
    return [student for student in dict.fromkeys(entry.student for entry in book.all_rows()) if student not in here]


# ---- in a process that grades


class Step(Protocol):
    """Grades one task: the report as JSON, and as HTML."""

    def __call__(self, setting: Setting, task: Task) -> tuple[bytes, str]: ...


_one_at_a_time = threading.Lock()  # where a process grades in several threads, as Dask's do


def graded(setting: Setting, task: Task) -> tuple[bytes, str]:
    """The step that a batch takes. The submission's code runs in a worker, never here.

    Raises:
        Unavailable: the isolation that is required is not to be had.
        OtherCourse: this process would grade by another course.
    """
    with _one_at_a_time:
        grader, course = _grader(setting)
        exercise = course.find(task.exercise)
        if version_of(exercise) != task.version:
            raise OtherCourse(str(course.folder))
        try:
            report = grader.grade(exercise, task.submission)
        except Unavailable:
            raise
        except Exception as error:
            report = failed_report(exercise, task.submission, f"{type(error).__name__}: {error}", setting.lang)
        return _shown(report, task)


def _shown(report: Report, task: Task) -> tuple[bytes, str]:
    report = msgspec.structs.replace(report, submission=task.student)
    return msgspec.json.encode(report), REPORTERS["html"](report)


@functools.cache
def _grader(setting: Setting) -> tuple[Grader, Course]:
    """This process's judge and its zygote, made once. Elsewhere, the course is the one that is installed there."""
    prelude.begin()
    course = Course.open(setting.course if setting.course.is_dir() else None)
    grader = Grader(course, setting.lang, setting.mode, shared=True)
    atexit.register(grader.close)
    return grader, course


# ---- in the process that keeps


class Batch:
    """One run over many tasks, kept in `out`. Close it, or use it as a context manager.

    Raises:
        Busy: another run is at work there.
    """

    def __init__(self, out: Path, setting: Setting, step: Step = graded) -> None:
        out.mkdir(parents=True, exist_ok=True)
        self.out, self._setting, self._step = out, setting, step
        self._claim = _claim(out / ".lock")
        try:
            self.book = Gradebook(out / DATABASE)
        except BaseException:
            self._claim.close()
            raise
        self._restore()

    def run(self, tasks: Sequence[Task], executor: futures.Executor) -> Iterator[Progress]:
        """Grade the tasks on the executor and keep each result as it comes; yields after each."""
        began, done, failures, errors = time.monotonic(), 0, 0, 0
        yield Progress(None, 0, len(tasks), 0, 0, 0.0)
        for task, (encoded, page) in _results(tasks, executor, self._call, self._given_up):
            report = msgspec.json.decode(encoded, type=Report)
            entry = self._keep(task, report, page)
            done, failures = done + 1, failures + (report.verdict is not Verdict.PASSED)
            errors += report.verdict is Verdict.GRADER_ERROR
            yield Progress(entry, done, len(tasks), failures, errors, time.monotonic() - began)

    def _call(self, executor: futures.Executor, task: Task) -> futures.Future[tuple[bytes, str]]:
        return executor.submit(self._step, self._setting, task)

    def _given_up(self, task: Task) -> tuple[bytes, str]:
        exercise = Course.open(self._setting.course).find(task.exercise)
        error = text("batch.killed", self._setting.lang, times=TRIES)
        return _shown(failed_report(exercise, task.submission, error, self._setting.lang), task)

    def _keep(self, task: Task, report: Report, page: str) -> Entry:
        """Write the reports, whole or not at all, then the row: a row's reports are always there."""
        if not self.book.has_grade(task.student, report.exercise) or _says_more(task, report):
            self._write(task.folder, report, page)
        return self.book.put(task.student, task.folder, task.key, report, task.source, task.content, task.absent)

    def _write(self, folder: str, report: Report, page: str) -> None:
        for kind, content in (("html", page), ("json", REPORTERS["json"](report))):
            write(self._report_path(folder, report.exercise, kind), content)

    def _report_path(self, folder: str, exercise: str, kind: str) -> Path:
        return self.out / "reports" / folder / f"{exercise}.{kind}"

    def _restore(self) -> None:
        """Sweep away what a killed run was writing, and write again every report that the book has and the disk not."""
        for left in self.out.rglob(".*"):
            if HALF_WRITTEN.fullmatch(left.name):
                left.unlink(missing_ok=True)
        for entry in self.book.all_rows():
            paths = [self._report_path(entry.folder, entry.exercise, kind) for kind in ("html", "json")]
            if not all(path.is_file() and path.stat().st_size for path in paths):
                report = self.book.report(entry.student, entry.exercise)
                if report is not None:
                    self._write(entry.folder, report, REPORTERS["html"](report))

    def merge(self, others: Iterable[Path]) -> None:
        """Take over the results of other folders; their reports are made again from the books."""
        for other in others:
            self.book.merge(other / DATABASE)
        self._restore()

    def finish(self) -> None:
        """Write what is made of all results: the gradebook, and the page on the class."""
        from grader.insight import class_page  # imports torch, which nothing else here needs

        write(self.out / "gradebook.csv", gradebook_csv(self.book))
        course = Course.open(self._setting.course)
        write(self.out / "class.html", class_page(self.book, course, self._setting.lang))

    def close(self) -> None:
        self.book.close()
        self._claim.close()

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _says_more(task: Task, report: Report) -> bool:
    return report.verdict is not Verdict.GRADER_ERROR and not task.absent


def _claim(path: Path) -> contextlib.ExitStack:
    """Holds the folder for this run; the system lets go of it when this process ends, however it ends."""
    stack = contextlib.ExitStack()
    try:
        import fcntl
    except ImportError:  # Windows: nobody is kept out
        return stack
    file = stack.enter_context(path.open("w"))
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        stack.close()
        raise Busy(str(path.parent)) from None
    except OSError:  # a file system without locks
        pass
    return stack


# ---- handing out, and what becomes of killed processes


def _results(
    tasks: Sequence[Task],
    executor: futures.Executor,
    submit: Callable[[futures.Executor, Task], futures.Future[tuple[bytes, str]]],
    given_up: Callable[[Task], tuple[bytes, str]],
) -> Iterator[tuple[Task, tuple[bytes, str]]]:
    """Hand out a bounded number of tasks at a time. One whose process was killed is handed out again, behind all
    others; after the last try it is given up.

    Raises:
        BrokenExecutor: an executor that does not replace its killed processes has lost one. What is kept stays.
    """
    waiting = deque(tasks)
    kills: dict[str, int] = {}
    running: dict[futures.Future[tuple[bytes, str]], Task] = {}
    while waiting or running:
        while waiting and len(running) < getattr(executor, "room", 8):
            task = waiting.popleft()
            running[submit(executor, task)] = task
        finished, _ = futures.wait(running, return_when=futures.FIRST_COMPLETED)
        for future in finished:
            task = running.pop(future)
            try:
                yield task, future.result()
            except Killed as killed:
                name = f"{task.exercise} {task.student}"
                kills[name] = TRIES if killed.last else kills.get(name, 0) + 1
                if kills[name] < TRIES:
                    waiting.append(task)
                else:
                    yield task, given_up(task)
