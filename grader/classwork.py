"""A gradebook -> what a class did, as plain data. Students and exercises are spoken of by their place in it."""

from __future__ import annotations

import functools
import re
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch

from grader import similarity
from grader.exercises import Course, CourseError, Exercise
from grader.gradebook import Entry, Gradebook, Outcome, PropertyOutcome
from grader.grading import outline
from grader.reporters.harmless import visible
from grader.results import Verdict

BARS = 10  # of a histogram, below the one for full marks
JUDGED_MIN = 10  # hand-ins without which a correlation says nothing
SEPARATES = {"well": 0.3, "somewhat": 0.15, "hardly": -0.1}  # the words for a discrimination, from what value on
EYE = (
    *(Verdict.GRADER_ERROR, Verdict.TAMPERED, Verdict.EXITED),
    *(Verdict.TIMEOUT, Verdict.OUT_OF_MEMORY, Verdict.OUTPUT_FLOOD),
)  # verdicts that a person should look at, the most urgent first
UNREAD, LOWERED = "unread", "lowered"
REASONS = (*(verdict.value for verdict in EYE), UNREAD, LOWERED)  # to look at a hand-in, in this order
UNKNOWN = (Verdict.NOT_RUN, Verdict.GRADER_ERROR)  # verdicts that say nothing about the submission
TOGETHER_MAX = 12  # a larger group says nothing about any two in it
NAME_MAX = 120
JOINERS = re.compile("([\u200c\u200d])")  # part of how names and emoji are spelled


@dataclass(frozen=True)
class Student:
    """`name` is safe to show; `folder` is where the reports stand below `reports/`, "" where there are none."""

    name: str
    folder: str


@dataclass(frozen=True)
class Cell:
    """What became of one hand-in. `share` of the points it could have; `told` names its REASONS."""

    score: float
    share: float
    verdict: Verdict
    seconds: float
    told: tuple[str, ...]


@dataclass(frozen=True)
class PropertyInsight:
    """How the class did on one property. `outcomes` has one letter a student: 1 passes, 0 does not, a blank unknown."""

    name: str
    statement: str
    outcomes: str
    discrimination: float | None

    @property
    def judged(self) -> int:
        return len(self.outcomes) - self.outcomes.count(" ")

    @property
    def passed(self) -> int:
        return self.outcomes.count("1")

    @property
    def share(self) -> float:
        return self.passed / self.judged if self.judged else 0.0

    @property
    def separates(self) -> str:
        """The word for `discrimination`."""
        if self.discrimination is None:
            return "unknown"
        return next((word for word, low in SEPARATES.items() if self.discrimination >= low), "against")


@dataclass(frozen=True)
class ExerciseInsight:
    """One exercise: a cell a student (None: no hand-in), and who was asked for one that did not come."""

    slug: str
    title: str
    max_score: float
    cells: tuple[Cell | None, ...]
    absent: tuple[int, ...]
    properties: tuple[PropertyInsight, ...]
    alike: tuple[similarity.Group[int], ...]

    @property
    def id(self) -> str:
        return self.slug.split("_", 1)[0]

    @property
    def graded(self) -> list[tuple[int, Cell]]:
        """Student and cell of every hand-in."""
        return [(at, cell) for at, cell in enumerate(self.cells) if cell is not None]

    @property
    def known(self) -> list[Cell]:
        """The hand-ins that have a score: not those on which the grader itself failed."""
        return [cell for _, cell in self.graded if cell.verdict is not Verdict.GRADER_ERROR]

    @property
    def bars(self) -> list[int]:
        """How many have 0 to 10 % of the points, 10 to 20 %, ..., and all of them."""
        heights = [0] * (BARS + 1)
        for cell in self.known:
            heights[min(BARS, int(cell.share * BARS + 1e-9))] += 1
        return heights


@dataclass(frozen=True)
class MistakeInsight:
    """A named mistake and who made it."""

    exercise: int
    name: str
    says: str
    why: str
    students: tuple[int, ...]


@dataclass(frozen=True)
class Together:
    """Two students who are in one group in several exercises."""

    students: tuple[int, int]
    exercises: tuple[int, ...]


@dataclass(frozen=True)
class Classwork:
    """All that is known about a class. `notices` maps one of REASONS to (exercise, student)s."""

    students: tuple[Student, ...]
    exercises: tuple[ExerciseInsight, ...]
    mistakes: tuple[MistakeInsight, ...]
    notices: Mapping[str, tuple[tuple[int, int], ...]]
    together: tuple[Together, ...]
    graders: tuple[str, ...]
    first: str
    last: str

    @property
    def shares(self) -> list[float]:
        """Each student's share of all points; what was not handed in counts nothing."""
        whole = sum(exercise.max_score for exercise in self.exercises)
        scores = [0.0] * len(self.students)
        for exercise in self.exercises:
            for at, cell in exercise.graded:
                scores[at] += cell.share * exercise.max_score
        return [score / whole if whole else 0.0 for score in scores]

    @property
    def nothing(self) -> list[int]:
        """Students who have handed in nothing at all."""
        return [at for at in range(len(self.students)) if all(e.cells[at] is None for e in self.exercises)]


# ---- from the gradebook


@dataclass(frozen=True)
class _Read:
    """The gradebook, read once: everything by exercise and student."""

    entries: Mapping[str, Mapping[int, Entry]]
    results: Mapping[str, Mapping[int, list[PropertyOutcome]]]
    sketches: Mapping[str, Mapping[int, bytes]]
    said: Mapping[tuple[str, str], tuple[str, str]]  # (exercise, mistake) -> says, why
    titles: Mapping[str, str]
    statement: Callable[[str, int, str], str]  # exercise, a student, property -> what that report says of it


def read_class(book: Gradebook, course: Course, lang: str) -> Classwork:
    """What the gradebook tells about the class, in `lang` where the course has it."""
    everything = list(book.all_rows())
    rows = [row for row in everything if not row.absent]
    absences = [(row.student, row.exercise) for row in everything if row.absent]
    labels = sorted({row.student for row in rows} | {student for student, _ in absences})
    place = {label: at for at, label in enumerate(labels)}
    missing: dict[str, set[int]] = defaultdict(set)
    for student, slug in absences:
        missing[slug].add(place[student])
    read = _read(book, rows, place)
    slugs = _in_order(course, set(read.entries) | set(missing))
    rest = _totals(read)
    with ThreadPoolExecutor() as threads:  # torch does the work, and lets go of the interpreter
        alike = threads.map(lambda slug: _alike(_of(course, slug), read.sketches.get(slug, {})), slugs)
    exercises = tuple(
        _exercise(_of(course, slug), slug, read, sorted(missing[slug]), rest, len(labels), same, lang)
        for slug, same in zip(slugs, alike, strict=True)
    )
    folders = {place[row.student]: row.folder for row in rows}
    dates = sorted(row.graded_at for row in rows if row.graded_at)
    return Classwork(
        students=tuple(Student(shown_name(label), folders.get(at, "")) for at, label in enumerate(labels)),
        exercises=exercises,
        mistakes=tuple(_mistakes(course, slugs, read, lang)),
        notices=_notices(slugs, exercises, read),
        together=tuple(_together(exercises)),
        graders=tuple(sorted({row.grader_version for row in rows if row.grader_version})),
        first=dates[0] if dates else "",
        last=dates[-1] if dates else "",
    )


def _read(book: Gradebook, rows: Iterable[Entry], place: Mapping[str, int]) -> _Read:
    entries: dict[str, dict[int, Entry]] = defaultdict(dict)
    for row in rows:
        entries[row.exercise][place[row.student]] = row
    results: dict[str, dict[int, list[PropertyOutcome]]] = defaultdict(dict)
    sketches: dict[str, dict[int, bytes]] = defaultdict(dict)
    said: dict[tuple[str, str], tuple[str, str]] = {}
    titles: dict[str, str] = {}
    for student, exercise, outcome, sketch in book.outcomes():
        at = place.get(student)
        if at in entries[exercise]:
            results[exercise][place[student]] = outcome.properties
            sketches[exercise][place[student]] = sketch
            titles[exercise] = outcome.title
            said.update(_said(exercise, outcome))
    return _Read(entries, results, sketches, said, titles, functools.partial(_statement, book, list(place)))


def _statement(book: Gradebook, labels: Sequence[str], exercise: str, at: int, name: str) -> str:
    report = book.report(labels[at], exercise)
    return next((each.statement for each in report.properties if each.name == name), "") if report else ""


def _said(exercise: str, outcome: Outcome) -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    for name, (says, why) in outcome.said.items():
        yield (exercise, name), (visible(says), visible(why))


def _in_order(course: Course, slugs: set[str]) -> list[str]:
    """The exercises of the course in its order, then those it does not know (any more)."""
    known = [exercise.slug for exercise in course.exercises if exercise.slug in slugs]
    return known + sorted(slugs.difference(known))


def _of(course: Course, slug: str) -> Exercise | None:
    return next((exercise for exercise in course.exercises if exercise.slug == slug), None)


def _totals(read: _Read) -> dict[int, tuple[float, float]]:
    """Student -> points and most points, of all that was judged."""
    totals: dict[int, tuple[float, float]] = {}
    for by_student in read.results.values():
        for at, results in by_student.items():
            points, most = totals.get(at, (0.0, 0.0))
            for result in results:
                if result.verdict not in UNKNOWN:
                    points, most = points + result.points, most + result.max_points
            totals[at] = points, most
    return totals


def _exercise(
    exercise: Exercise | None,
    slug: str,
    read: _Read,
    absent: list[int],
    totals: Mapping[int, tuple[float, float]],
    students: int,
    alike: Sequence[similarity.Group[int]],
    lang: str,
) -> ExerciseInsight:
    entries, results = read.entries.get(slug, {}), read.results.get(slug, {})
    most = [entry.max_score for entry in entries.values() if entry.max_score]
    return ExerciseInsight(
        slug=slug,
        title=_title(exercise, lang) or visible(read.titles.get(slug, slug)),
        max_score=statistics.mode(most) if most else 100.0,
        cells=tuple(_cell(entries[at], results.get(at, [])) if at in entries else None for at in range(students)),
        absent=tuple(absent),
        properties=tuple(_properties(exercise, slug, read, totals, students, lang)),
        alike=tuple(alike),
    )


def _title(exercise: Exercise | None, lang: str) -> str:
    try:
        return exercise.title(lang) if exercise else ""
    except CourseError:
        return ""


def _cell(entry: Entry, results: Sequence[PropertyOutcome]) -> Cell:
    found = {entry.verdict, *(result.verdict for result in results)}
    unread = bool(results) and found == {Verdict.MISSING}  # locked, too large, or several that could be meant
    told = (*(verdict for verdict in EYE if verdict in found), *([UNREAD] * unread), *([LOWERED] * entry.lowered))
    share = entry.score / entry.max_score if entry.max_score else 0.0
    return Cell(entry.score, min(1.0, max(0.0, share)), entry.verdict, entry.seconds, told)


def _alike(exercise: Exercise | None, sketches: Mapping[int, bytes]) -> list[similarity.Group[int]]:
    drawn = {at: sketch for at, sketch in sketches.items() if sketch}
    try:
        return similarity.groups(drawn, exercise.stub if exercise else "")
    except CourseError:
        return similarity.groups(drawn, "")


def _properties(
    exercise: Exercise | None,
    slug: str,
    read: _Read,
    totals: Mapping[int, tuple[float, float]],
    students: int,
    lang: str,
) -> Iterator[PropertyInsight]:
    """In the order in which the reports have them."""
    by_name: dict[str, dict[int, PropertyOutcome]] = defaultdict(dict)
    for at, of_student in read.results.get(slug, {}).items():
        for result in of_student:
            by_name[result.name][at] = result
    statements = _statements(exercise, lang)
    for name, of_students in by_name.items():
        judged = {at: result for at, result in of_students.items() if result.verdict not in UNKNOWN}
        letters = [" "] * students
        for at, result in judged.items():
            letters[at] = "1" if result.verdict is Verdict.PASSED else "0"
        said = statements.get(name) or visible(read.statement(slug, next(iter(of_students)), name)) or name
        yield PropertyInsight(name, said, "".join(letters), _discrimination(judged, totals))


def _statements(exercise: Exercise | None, lang: str) -> dict[str, str]:
    """What each property says in `lang`; English stands beside the property itself."""
    if exercise is None:
        return {}
    try:
        rows = list(outline((exercise.folder / "properties.py").read_text(encoding="utf-8")))
        english = {name: statement for name, _, statement in rows} if lang == "en" else {}
        return {name: exercise.statement(name, lang) or english.get(name, "") for name, _, _ in rows}
    except (OSError, ValueError, SyntaxError, CourseError):
        return {}


def _discrimination(judged: Mapping[int, PropertyOutcome], totals: Mapping[int, tuple[float, float]]) -> float | None:
    """Point-biserial correlation between passing a property and the share of all other points that a student has."""
    pairs = []
    for at, result in judged.items():
        points, most = totals[at]
        if most > result.max_points:
            passes = float(result.verdict is Verdict.PASSED)
            pairs.append((passes, (points - result.points) / (most - result.max_points)))
    return correlation(pairs)


def correlation(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Pearson's r; None where there are too few pairs, or one side is always the same."""
    if len(pairs) < JUDGED_MIN:
        return None
    given = torch.tensor(pairs, dtype=torch.float64)
    apart = given - given.mean(0)
    spread = apart.square().sum(0)
    return float(apart.prod(1).sum() / spread.prod().sqrt()) if bool((spread > 1e-12).all()) else None


def _mistakes(course: Course, slugs: Sequence[str], read: _Read, lang: str) -> list[MistakeInsight]:
    """The mistakes, those that most students made first."""
    found = []
    for at, slug in enumerate(slugs):
        made: dict[str, list[int]] = defaultdict(list)
        for student, entry in sorted(read.entries.get(slug, {}).items()):
            for name in dict.fromkeys(entry.mistakes):
                made[name].append(student)
        words = _mistake_words(_of(course, slug), lang) if made else {}
        for name, students in made.items():
            says, why = words.get(name) or read.said.get((slug, name)) or (name.replace("_", " "), "")
            found.append(MistakeInsight(at, name, says, why, tuple(students)))
    return sorted(found, key=lambda mistake: (-len(mistake.students), mistake.exercise, mistake.name))


def _mistake_words(exercise: Exercise | None, lang: str) -> dict[str, tuple[str, str]]:
    try:
        known = exercise.mistakes() if exercise else []
    except CourseError:
        return {}
    return {mistake.name: (mistake.says(lang), mistake.why(lang)) for mistake in known}


def _notices(
    slugs: Sequence[str], exercises: Sequence[ExerciseInsight], read: _Read
) -> dict[str, tuple[tuple[int, int], ...]]:
    found: dict[str, list[tuple[int, int]]] = {reason: [] for reason in REASONS}
    for at, exercise in enumerate(exercises):
        for student, cell in exercise.graded:
            for reason in cell.told:
                found[reason].append((at, student))
    return {reason: tuple(places) for reason, places in found.items() if places}


def _together(exercises: Sequence[ExerciseInsight]) -> list[Together]:
    """Pairs that are in one group more than once, the most often first."""
    met: dict[tuple[int, int], list[int]] = defaultdict(list)
    for at, exercise in enumerate(exercises):
        for group in exercise.alike:
            members = sorted(group.authors)
            if len(members) <= TOGETHER_MAX:
                for one in range(len(members)):
                    for other in members[one + 1 :]:
                        met[members[one], other].append(at)
    pairs = [Together(students, tuple(often)) for students, often in met.items() if len(often) > 1]
    return sorted(pairs, key=lambda pair: (-len(pair.exercises), pair.students))


def shown_name(label: str) -> str:
    """A student's name as it is written, on one line, with nothing invisible in it that could deceive."""
    parts = (part if JOINERS.fullmatch(part) else visible(part) for part in JOINERS.split(label[:NAME_MAX]))
    name = "".join(parts).replace("\n", "\\n") + ("…" if len(label) > NAME_MAX else "")
    return name if name.strip() and not JOINERS.fullmatch(name) else f"“{name}”"
