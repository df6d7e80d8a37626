"""The folder or archive that a class lies in, and what its names tell of students, exercises and sections.

Names decide where they can, for they are cheap to read; what a file defines decides where they tell nothing.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from grader import repositories
from grader.archives import OF_A_CLASS, PACKED, Archive, Limits, unpacked_name
from grader.exercises import Course, Exercise
from grader.files import Disk, Entry, Files, Kind, Mount, Refused, join, readable
from grader.gradebook import results_in
from grader.submissions import parse, read_code, whose

MOST_STUDENTS = 100_000
CODE = re.compile(r"\.(py|ipynb)$", re.IGNORECASE)
METADATA = "submission_metadata.yml"
SAMPLE = 12  # entries of a folder that are looked at to see what it is
LOOKED_AT = 200  # names below one of them
DEEPEST = 3  # folders below one of them
AT_A_GLANCE = Limits(OF_A_CLASS.members, OF_A_CLASS.header)  # of an archive that may be a class or one student's

MOODLE = re.compile(r"(?P<name>.*)_(?P<id>\d+)_assignsubmission_(?P<plugin>[a-z]+)(?:_(?P<file>.*))?", re.DOTALL)
_WHO = r"(?:(?P<name>.*?)_)?(?P<late>LATE_)?(?P<user>\d+|anon_[A-Za-z0-9]+)_(?P<late_too>LATE_)?"
CANVAS = re.compile(rf"{_WHO}(?P<attachment>\d+)_(?P<file>.+)", re.DOTALL)
CANVAS_TEXT = re.compile(rf"{_WHO}(?P<file>text|link)\.html", re.DOTALL)
SECTION = re.compile(
    r"(?<![^\W_])(section|sec|class|course|group|tutorial|period|cohort|kurs|gruppe)s?(?![^\W\d_])|[班组课]$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Place:
    """The folder in which the hand-ins are. Archives in it are files: each hand-in opens its own."""

    files: Files
    folder: str
    course: Course

    @property
    def name(self) -> str:
        """What the folder or archive is called."""
        return unpacked_name(self.shown("").rpartition("/")[2])

    def entries(self, folder: str = "") -> list[Entry]:
        found = self.files.entries(join(self.folder, folder))
        return [entry for entry in found if folder or entry.name not in self._results]

    @functools.cached_property
    def _results(self) -> frozenset[str]:
        """What `grade batch` has written here itself."""
        return results_in(self.files.at(self.folder)) if isinstance(self.files, Disk) else frozenset()

    def folders(self) -> list[str]:
        return [entry.name for entry in self.entries() if entry.kind is Kind.FOLDER]

    def shown(self, path: str) -> str:
        return self.files.shown(join(self.folder, path))

    def whole(self, folder: str) -> Mount:
        """All that a folder holds."""
        return Mount("", self._narrow(), join(self.folder, folder))

    def file(self, name: str, called: str = "") -> Mount:
        """One file, under its own or another name."""
        return Mount(called or name, self._narrow(), join(self.folder, name))

    def entry(self, entry: Entry) -> Mount:
        return self.whole(entry.name) if entry.kind is Kind.FOLDER else self.file(entry.name)

    def _narrow(self) -> Files:
        """A class may have more entries than what one student hands in."""
        return Disk(self.files.root) if isinstance(self.files, Disk) else self.files

    def is_repository(self, folder: str) -> bool:
        return repositories.is_repository(self.files, join(self.folder, folder))

    def below(self, entry: Entry, limits: Limits = OF_A_CLASS) -> Place | None:
        """The folder or the archive as a place; None where it is neither, or cannot be read."""
        path = join(self.folder, entry.name)
        if entry.kind is Kind.FOLDER:
            return replace(self, folder=path)
        if not is_packed(entry):
            return None
        try:
            return _opened(self.files, path, self.course, limits)
        except Refused:
            return None


def class_at(path: Path, course: Course) -> Place:
    """The place at `path`, a folder or an archive, without the folders around it that hold nothing else.

    Raises:
        Refused: it is neither, or cannot be read.
    """
    kind = Disk(path).kind("")
    if kind is None:
        raise Refused("intake.no_path", path=path)
    if kind is Kind.FOLDER:
        return class_folder(Place(Disk(path, MOST_STUDENTS), "", course))
    if kind is not Kind.FILE or not PACKED.search(path.name):
        raise Refused("intake.is_file", path=path)
    return class_folder(_opened(Disk(path.parent), path.name, course))


def _opened(files: Files, path: str, course: Course, limits: Limits = OF_A_CLASS) -> Place:
    archive = Archive(files, path, limits)
    archive.index()  # says what is wrong with it
    return Place(archive, "", course)


def class_folder(place: Place) -> Place:
    """Goes down through folders and archives that hold nothing but one, to one that is of several students."""
    inner = found = place
    for _ in range(5):
        if _of_several(inner):
            found = inner
        entries = inner.entries()
        lonely = len(entries) == 1 and not inner.is_repository(entries[0].name)
        below = inner.below(entries[0]) if lonely and not is_exercise(entries[0].name, place.course) else None
        if below is None:
            break
        inner = below
    return found


def _of_several(place: Place) -> bool:
    """Whether folders and files are called by students rather than by exercises."""
    entries, course = place.entries(), place.course
    if _is_export(entries) or work_by_exercise(place):
        return True
    students = [entry for entry in entries if is_packed(entry) and not is_exercise(entry.name, course)]
    owners = {owner(entry.name, course) for entry in entries if is_code(entry.name)}
    return len(owners - {""}) > 1 or (len(students) > 1 and not owners)


def _is_export(entries: Sequence[Entry]) -> bool:
    """Whether a system has written the students into the names."""
    names = [entry.name for entry in entries]
    uploads = sum(bool(CANVAS.fullmatch(name) or CANVAS_TEXT.fullmatch(name)) for name in names)
    return METADATA in names or any(MOODLE.fullmatch(name) for name in names) or 0 < len(names) <= 2 * uploads


def is_code(name: str) -> bool:
    """Whether a file of this name can be graded. Where names come from Windows, `EX04.PY` is one."""
    return bool(CODE.search(name))


def is_packed(entry: Entry) -> bool:
    """Whether it is a folder or an archive."""
    return entry.kind is Kind.FOLDER or (entry.kind is Kind.FILE and bool(PACKED.search(entry.name)))


# ---- what a name tells


NUMERALS = ("", "一", "二", "三", "四", "五", "六", "七", "八", "九", "十")
BEFORE = re.compile(r"^(copy of|kopie von|copie de)[ _-]+", re.IGNORECASE)
AGAIN = re.compile(
    r"((^[ _-]*|[_-]+)(copy|final|new|v\d{1,2})|[ _-]*(\(\d{1,2}\)|副本|最终版?))[ _-]*$", re.IGNORECASE
)  # a blank may come before these right after the exercise alone: elsewhere ` New` is a name


def read_name(name: str, course: Course) -> tuple[Exercise | None, str]:
    """The exercise that a name mentions, and what is left of it: `anna` of `anna_ex05.py`, "" of `ex05 (1).zip`."""
    stem = CODE.sub("", unpacked_name(readable(name)))
    for exercise in course.exercises:
        number, title = int(exercise.id[2:]), exercise.slug.split("_", 1)[1]
        found = _left(stem, rf"ex(?:ercise)?[ _-]?0*{number}", title)
        if found is not None:
            return exercise, found
    return None, stem


def read_homework(name: str, course: Course) -> tuple[Exercise | None, str]:
    """The same where exercises may be called homework 4, assignment 4 or 第四次作业: such a number may mean another."""
    exercise, left = read_name(name, course)
    if exercise is not None:
        return exercise, left
    for exercise in course.exercises:
        number = int(exercise.id[2:])
        numeral = NUMERALS[number] if number < 11 else f"十{NUMERALS[number % 10]}"
        english = rf"(?<![^\W_])(?:homework|hw|assignment)[ _-]?0*{number}(?![^\W_])"
        this, work = rf"(?:0*{number}|{numeral})", "(?:作业|练习|实验)"
        found = _tidied(left, rf"{english}|第 ?{this} ?次{work}|{work} ?{this}(?![\d{''.join(NUMERALS)}])")
        if found is not None:
            return exercise, found
    return None, left


def _left(stem: str, called: str, title: str) -> str | None:
    """What a name says beside the exercise; None where it does not mention it."""
    words = title.split("_")
    begun = "".join(rf"(?:[ _-]?{word}" for word in words) + ")?" * len(words)  # `ex04 causal` is said too
    return _tidied(stem, rf"(?<![^\W_])(?:{called}{begun}|{'[ _-]?'.join(words)})(?![^\W_])")


def _tidied(stem: str, said: str) -> str | None:
    """A name without what `said` matches, and without what says after it that this is a copy; None if nothing does."""
    found = re.search(said, stem, re.IGNORECASE)
    if found is None:
        return None
    before, after, longer = BEFORE.sub("", stem[: found.start()]), stem[found.end() :], ""
    while after != longer:
        longer, after = after, AGAIN.sub("", after)
    left = (before + after).strip(" _-.()")
    return "" if re.fullmatch(r"\d{1,2}", left) else left


def owner(name: str, course: Course) -> str:
    """Whose a file is by its name, "" where that tells the exercise alone."""
    return read_name(name, course)[1]


def is_exercise(name: str, course: Course) -> bool:
    """Whether a name stands for an exercise and no student."""
    return name == "exercises" or owner(name, course) == ""


# ---- students below sections, students below exercises


def sections(place: Place) -> list[tuple[Entry, Place]]:
    """The folders and archives that are a class each, such as the sections of a course; none where most are not."""
    several = [entry for entry in place.entries() if is_packed(entry) and not is_exercise(entry.name, place.course)]
    sample = [_section(place, entry, len(several)) for entry in several[:SAMPLE]]
    if 2 * sum(each is not None for each in sample) <= len(sample):
        return []
    found = sample + [_section(place, entry, len(several)) for entry in several[SAMPLE:]]
    opened = [(entry, place.below(entry)) for entry, each in zip(several, found, strict=True) if each]
    return [(entry, class_folder(below)) for entry, below in opened if below]


def _section(place: Place, entry: Entry, among: int) -> Place | None:
    """An entry as a class. Three students with the same exercise make one; drafts of one student are fewer."""
    fewest = 1 if SECTION.search(unpacked_name(entry.name)) else 2 if among == 1 else 3
    below = place.below(entry, AT_A_GLANCE) if not place.is_repository(entry.name) else None
    try:
        inner = class_folder(below) if below else None
        return inner if inner and _is_class(inner, fewest) else None
    except Refused:
        return None


def _is_class(place: Place, fewest: int) -> bool:
    entries = place.entries()
    clones = sum(place.is_repository(name) for name in place.folders())
    if _is_export(entries) or clones >= max(2, fewest) or work_by_exercise(place):
        return True
    if any(read_name(entry.name, place.course)[0] and is_exercise(entry.name, place.course) for entry in entries):
        return False
    by_exercise: dict[str, int] = {}
    for _, slugs in _students(place):
        for slug in slugs:
            by_exercise[slug] = by_exercise.get(slug, 0) + 1
    return max(by_exercise.values(), default=0) >= fewest


def work_by_exercise(place: Place) -> list[tuple[Entry, Exercise, Place]]:
    """The folders and archives that are called by exercises, if it is students whose work is in them."""
    found = list(_exercises_in(place, AT_A_GLANCE))
    if any(_is_export(inner.entries()) for _, _, inner in found):
        return list(_exercises_in(place, OF_A_CLASS))
    students, fewest = set[str](), 2
    for _, exercise, inner in found:
        if any(is_code(entry.name) and is_exercise(entry.name, place.course) for entry in inner.entries()):
            fewest = 3  # a file of the exercise's name is a stub, or all the rest are drafts beside it
        students |= {student for student, slugs in _students(inner, by_content=True) if exercise.slug in slugs}
    return list(_exercises_in(place, OF_A_CLASS)) if len(students) >= fewest else []


def _exercises_in(place: Place, limits: Limits) -> Iterator[tuple[Entry, Exercise, Place]]:
    named = [(entry, *read_homework(entry.name, place.course)) for entry in place.entries() if is_packed(entry)]
    often = Counter(exercise.slug for _, exercise, _ in named if exercise)
    for entry, exercise, left in named:
        if exercise is None or place.is_repository(entry.name) or (left and often[exercise.slug] > 1):
            continue
        outer = inner = place.below(entry, limits)
        for _ in range(4):
            entries = inner.entries() if inner else []
            if inner is None or len(entries) != 1:
                break
            inner = inner.below(entries[0], limits)
        inner = inner if inner and _is_export(inner.entries()) else outer
        if inner and (not left or _is_export(inner.entries())):  # `CS101-Exercise 4-98765.zip` is a system's download
            yield entry, exercise, inner


def _students(place: Place, by_content: bool = False) -> Iterator[tuple[str, set[str]]]:
    """What each of the first entries is called that may be a student, and of which exercises something is there.

    Where no name in a folder tells, `by_content` looks into its files.
    """
    entries = [entry for entry in place.entries() if is_packed(entry) or is_code(entry.name)]
    for entry in entries[:SAMPLE]:
        exercise, left = read_name(entry.name, place.course)
        if not is_packed(entry):
            yield left, {exercise.slug} if exercise else _defined(place, entry)
        elif left and entry.name != "exercises":
            below = place.below(entry, AT_A_GLANCE)
            told = set(_told_below(below)) if below else set()
            yield left, _defined_in(below) if below and by_content and not told else told


def _defined(place: Place, entry: Entry) -> set[str]:
    """The exercise most of which a file defines."""
    try:
        source = read_code(place.files, join(place.folder, entry.name))[0]
        exercise = whose(parse(source, entry.name), place.course.exercises)
    except Refused:
        return set()
    return {exercise.slug} if exercise else set()


def _defined_in(place: Place) -> set[str]:
    """The same of a folder in which no name tells anything."""
    files = [entry for entry in _entries_or_none(place) if entry.kind is Kind.FILE and is_code(entry.name)]
    return set().union(*(_defined(place, entry) for entry in files[:3]))


def _told_below(place: Place) -> Iterator[str]:
    """The exercises that the names of files, or of folders around them, tell."""
    level, looked_at = [("", place)], 0
    for _ in range(DEEPEST + 1):
        below: list[tuple[str, Place]] = []
        for told, folder in level:
            for entry in _entries_or_none(folder):
                looked_at += 1
                exercise = read_name(entry.name, place.course)[0]
                slug = exercise.slug if exercise else told
                if entry.kind is Kind.FOLDER:
                    below.append((slug, replace(folder, folder=join(folder.folder, entry.name))))
                elif slug and (is_code(entry.name) or PACKED.search(entry.name)):
                    yield slug
        if looked_at > LOOKED_AT:
            return
        level = below


def _entries_or_none(place: Place) -> list[Entry]:
    try:
        return place.entries()
    except Refused:
        return []
