"""What an instructor's system hands out -> one HandIn a student.

A system writes students into names of folders and files, each in its own way; `LAYOUTS` lists the ways, the most
telling first. The first that knows the folder takes it. What cannot be read becomes a Problem of that one hand-in.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from grader import archives, repositories
from grader.archives import OF_A_CLASS, PACKED, Archive, Opened, unpacked_name
from grader.exercises import Course, Exercise
from grader.files import Disk, Entry, Files, Gathered, Kind, Mount, Refused, join, readable
from grader.gradescope import Person, submitters
from grader.submissions import NOTHING_FOUND, Note, Problem, Submission, find_submission, only_folder

MOST_STUDENTS = 100_000
GRADED = (".py", ".ipynb")
METADATA = "submission_metadata.yml"
METADATA_BYTES = 200_000_000


@dataclass(frozen=True)
class HandIn:
    """What one student, or one group, handed in.

    `label` is the student as the system writes it, `folder` a name that every file system takes; both are unique.
    `ids` are those of the system: "canvas_user", "moodle_participant", "gradescope_submission", "sid", "email", ...
    `source` is where the files are, for a person. A hand-in that cannot be read at all has a `refusal`.
    """

    label: str
    source: str
    files: Files = field(compare=False)
    folder: str = ""
    layout: str = ""
    ids: Mapping[str, str] = field(default_factory=dict, compare=False)
    members: tuple[Person, ...] = ()
    late: bool = False
    refusal: tuple[str, Mapping[str, object]] | None = field(default=None, compare=False)

    def read(self, exercise: Exercise, course: Course | None = None) -> Submission | Problem:
        """What there is for one exercise. An archive that cannot be read is the reason why nothing is found."""
        if self.refusal is not None:
            key, params = self.refusal
            return _problem(self, Refused(key, **params))
        opened = Opened(self.files)
        found = find_submission(exercise, opened, course, self.label, thorough=True)
        if not isinstance(found, Problem) or found.key not in NOTHING_FOUND:
            return found
        refused = _first_refusal(opened)
        if refused is not None:
            return _problem(self, refused)
        if found.key == "submission.empty_folder":
            return _problem(self, Refused("intake.nothing_handed_in", student=self.label))
        return found


def _problem(hand_in: HandIn, refused: Refused) -> Problem:
    return Problem(hand_in.label, Path(hand_in.source), refused.verdict, refused.key, refused.params)


def _first_refusal(opened: Opened) -> Refused | None:
    try:
        return opened.refusal(only_folder(opened))
    except Refused as refused:
        return refused


def hand_ins(path: Path, course: Course) -> list[HandIn]:
    """Every hand-in at `path`, a folder or an archive as a system hands it out, sorted by label.

    Raises:
        Refused: there is nothing there, or it cannot be read. Its sentence is for the instructor.
    """
    archives.forget()
    repositories.forget()
    place = _class_folder(_root(path, course))
    for layout, recognise in LAYOUTS.items():
        found = recognise(place)
        if found:
            return _told_apart([replace(hand_in, layout=layout) for hand_in in found])
    raise Refused("intake.nothing", path=place.shown(""))


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
        return self.files.entries(join(self.folder, folder))

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

    def below(self, entry: Entry) -> Place | None:
        """The folder or the archive as a place; None where it is neither, or cannot be read."""
        path = join(self.folder, entry.name)
        if entry.kind is Kind.FOLDER:
            return replace(self, folder=path)
        if not _is_packed(entry):
            return None
        try:
            return _opened(self.files, path, self.course)
        except Refused:
            return None


def _root(path: Path, course: Course) -> Place:
    kind = Disk(path).kind("")
    if kind is None:
        raise Refused("intake.no_path", path=path)
    if kind is Kind.FOLDER:
        return Place(Disk(path, MOST_STUDENTS), "", course)
    if kind is not Kind.FILE or not PACKED.search(path.name):
        raise Refused("intake.is_file", path=path)
    return _opened(Disk(path.parent), path.name, course)


def _opened(files: Files, path: str, course: Course) -> Place:
    archive = Archive(files, path, OF_A_CLASS)
    archive.index()  # says what is wrong with it
    return Place(archive, "", course)


def _class_folder(place: Place) -> Place:
    """Goes down through folders and archives that hold nothing but one, if that one is of several students."""
    inner = place
    for _ in range(4):
        entries = inner.entries()
        below = inner.below(entries[0]) if len(entries) == 1 and not inner.is_repository(entries[0].name) else None
        if below is None:
            break
        inner = below
    return inner if _of_several(inner) else place


def _of_several(place: Place) -> bool:
    """Whether folders and files are called by students rather than by exercises."""
    entries = place.entries()
    names = [entry.name for entry in entries]
    if METADATA in names or any(MOODLE.fullmatch(name) or CANVAS.fullmatch(name) for name in names):
        return True
    students = [entry for entry in entries if _is_packed(entry) and not _is_exercise(entry.name, place.course)]
    owners = {owner(name, place.course) for name in names if name.endswith(GRADED)}
    return len(owners - {""}) > 1 or (len(students) > 1 and not owners)


def _is_packed(entry: Entry) -> bool:
    """Whether it is a folder or an archive."""
    return entry.kind is Kind.FOLDER or (entry.kind is Kind.FILE and bool(PACKED.search(entry.name)))


def _is_exercise(name: str, course: Course) -> bool:
    """Whether a name stands for an exercise and no student."""
    return name == "exercises" or owner(name, course) == ""


def owner(name: str, course: Course) -> str:
    """What is left of a file's name without the exercise: `anna` of `anna_ex05.py`, "" of `ex05_attention (1).py`."""
    stem = unpacked_name(readable(name))
    stem = re.sub(r"\.(py|ipynb)$", "", stem)
    for exercise in course.exercises:
        number, rest = int(exercise.id[2:]), re.sub("_", "[ _-]?", exercise.slug.split("_", 1)[1])
        said = rf"(?<![^\W_])(?:ex(?:ercise)?[ _-]?0*{number}(?:[ _-]?{rest})?|{rest})(?![^\W_])"
        left, count = re.subn(said, "", stem, count=1, flags=re.IGNORECASE)
        if count:
            left = left.strip(" _-.()")
            return "" if re.fullmatch(r"\d{1,2}|copy|final|new|副本|最终版?", left, re.IGNORECASE) else left
    return stem


# ---- the layouts


def gradescope(place: Place) -> list[HandIn]:
    """`submission_metadata.yml` beside `submission_123/`; group work has several submitters."""
    entries = {entry.name: entry for entry in place.entries()}
    if METADATA not in entries:
        return []
    data = place.files.read(join(place.folder, METADATA), METADATA_BYTES)
    told = submitters(data.decode("utf-8", "replace"))
    return [
        HandIn(
            label=" + ".join(_called(person) for person in told.get(name, ()) if _called(person)) or name,
            source=place.shown(name),
            files=Gathered(name, (place.entry(entries[name]),) if name in entries else ()),
            ids={"gradescope_submission": name.removeprefix("submission_"), **_ids(told.get(name, ()))},
            members=told.get(name, ()),
        )
        for name in dict.fromkeys([*told, *place.folders()])
    ]


def _called(person: Person) -> str:
    return person.name or person.email or person.sid


def _ids(people: Sequence[Person]) -> dict[str, str]:
    """Those of the one submitter; of a group, look at its members."""
    if len(people) != 1:
        return {}
    return {key: value for key, value in (("sid", people[0].sid), ("email", people[0].email)) if value}


MOODLE = re.compile(r"(?P<name>.*)_(?P<id>\d+)_assignsubmission_(?P<plugin>[a-z]+)(?:_(?P<file>.*))?", re.DOTALL)
BLIND = {"participant", "参与者", "参加者", "匿名用户", "匿名参与者", "teilnehmer/in", "participante"}


def moodle(place: Place) -> list[HandIn]:
    """`Anna Li_123_assignsubmission_file_/hw.py`, or without folders `Anna Li_123_assignsubmission_file_hw.py`."""
    found = [(entry, match) for entry in place.entries() if (match := MOODLE.fullmatch(entry.name))]
    students: dict[str, list[Mount]] = {}
    names: dict[str, str] = {}
    sources: dict[str, str] = {}
    for entry, match in found:
        mounts = students.setdefault(match["id"], [])
        names[match["id"]] = readable(match["name"])
        sources.setdefault(match["id"], entry.name)
        if match["plugin"] == "file":
            mounts.append(place.file(entry.name, match["file"]) if match["file"] else place.entry(entry))
            sources[match["id"]] = entry.name
    return [
        HandIn(
            label=f"{names[id]} {id}" if names[id].casefold() in BLIND else names[id],
            source=place.shown(sources[id]),
            files=Gathered(names[id], tuple(mounts)),
            ids={"moodle_participant": id},
        )
        for id, mounts in students.items()
    ] + (_others(place, {entry.name for entry, _ in found}) if found else [])


_WHO = r"(?:(?P<name>.*?)_)?(?P<late>LATE_)?(?P<user>\d+|anon_[A-Za-z0-9]+)_(?P<late_too>LATE_)?"
CANVAS = re.compile(rf"{_WHO}(?P<attachment>\d+)_(?P<file>.+)", re.DOTALL)
CANVAS_TEXT = re.compile(rf"{_WHO}(?P<file>text|link)\.html", re.DOTALL)


def canvas(place: Place) -> list[HandIn]:
    """`lijuan_LATE_123_456_ex05.py`: user 123, attachment 456. Of a file that was handed in again, the newest."""
    entries = place.entries()
    found = [(e, match) for e in entries if (match := CANVAS.fullmatch(e.name) or CANVAS_TEXT.fullmatch(e.name))]
    if not found or 2 * len(found) < len(entries):
        return []
    students: dict[str, list[tuple[Entry, re.Match[str]]]] = {}
    for entry, match in found:
        students.setdefault(match["user"], []).append((entry, match))
    return [
        HandIn(
            label=readable(theirs[0][1]["name"] or user),
            source=place.shown(theirs[0][0].name),
            files=Gathered(
                theirs[0][1]["name"] or user,
                tuple(place.file(name, called) for called, name in _newest(theirs).items()),
            ),
            ids={"canvas_user": user},
            late=any(match["late"] or match["late_too"] for _, match in theirs),
        )
        for user, theirs in students.items()
    ] + _others(place, {entry.name for entry, _ in found})


AGAIN = re.compile(r"-(\d{1,2})(?=(?:\.[A-Za-z0-9]+)+$)")


@dataclass(frozen=True, order=True)
class _Upload:
    """One file of a Canvas download; the larger one of two is the newer."""

    attachment: int
    again: int  # 1 of `x-1.py`, as Canvas calls an `x.py` that was handed in again
    file: str
    entry: str


def _newest(theirs: Iterable[tuple[Entry, re.Match[str]]]) -> dict[str, str]:
    """What each file is called -> its name in the download."""
    versions: dict[str, list[_Upload]] = {}
    for entry, match in theirs:
        if "attachment" in match.groupdict():
            again = AGAIN.search(match["file"])
            upload = _Upload(int(match["attachment"]), int(again[1]) if again else 0, match["file"], entry.name)
            versions.setdefault(AGAIN.sub("", match["file"]), []).append(upload)
    newest: dict[str, str] = {}
    for called, uploads in versions.items():
        if _are_parts(called, uploads):
            newest |= {upload.file: upload.entry for upload in uploads}
        else:
            newest[called] = max(uploads).entry
    return newest


def _are_parts(called: str, uploads: Sequence[_Upload]) -> bool:
    """Whether they are `part-1.py` and `part-2.py` rather than two versions of one file."""
    numbered = len(uploads) > 1 and all(upload.again for upload in uploads)
    return numbered and not re.match("ex|hw|submission", called, re.IGNORECASE)


def cloned(place: Place) -> list[HandIn]:
    """A repository a student, as a classroom's tools clone them. What was committed last counts."""
    clones = {name for name in place.folders() if place.is_repository(name)}
    if not isinstance(place.files, Disk) or not clones:
        return []
    return [_of_commit(place, place.files, name) for name in sorted(clones)] + _others(place, clones)


def _others(place: Place, told: Container[str]) -> list[HandIn]:
    """Folders and archives that stand among the recognised ones and are none: nobody is passed over in silence."""
    return [_of_folder(place, entry) for entry in place.entries() if _is_packed(entry) and entry.name not in told]


def _of_commit(place: Place, disk: Disk, folder: str) -> HandIn:
    """The label is the student's account where the folder's name tells it: `hw1-anna` in `hw1-submissions`."""
    name = readable(folder.removesuffix(".git"))
    assignment = place.name.removesuffix("-submissions")
    known = assignment != place.name and name.startswith(f"{assignment}-")
    ids = {"repository": name}
    if known:
        ids["github_user"] = name.removeprefix(f"{assignment}-")
    plain = HandIn(label=ids.get("github_user", name), source=place.shown(folder), files=Gathered(name, ()), ids=ids)
    try:
        files = repositories.last_commit(disk, join(place.folder, folder))
    except Refused as refused:
        return replace(plain, refusal=(refused.key, refused.params))
    commit = {"commit": files.hash} if isinstance(files, repositories.Commit) else {}
    return replace(plain, files=files, ids={**ids, **commit})


def one(place: Place) -> list[HandIn]:
    """The folder itself is what one student handed in: exercises stand in it, not students."""
    course = place.course
    direct = [entry for entry in place.entries() if entry.name.endswith(GRADED) or _is_packed(entry)]
    if not any(_is_exercise(entry.name, course) for entry in direct):
        return []
    others = [name for name in place.folders() if not _is_exercise(name, course)]
    if sum(any(_is_exercise(entry.name, course) for entry in place.entries(name)) for name in others[:50]) > 1:
        return []
    return [HandIn(label=place.name, source=place.shown(""), files=Gathered(place.name, (place.whole(""),)))]


def folders(place: Place) -> list[HandIn]:
    """A folder or an archive a student, or loose files with the student in their names."""
    found = [_of_folder(place, entry) for entry in place.entries() if _is_packed(entry)]
    loose: dict[str, list[str]] = {}
    for entry in place.entries():
        if entry.name.endswith(GRADED) and entry.kind is not Kind.FOLDER:
            loose.setdefault(owner(entry.name, place.course) or readable(entry.name), []).append(entry.name)
    for student, names in loose.items():
        files = Gathered(student, tuple(place.file(name) for name in names))
        found.append(HandIn(label=student, source=place.shown(names[0]), files=files))
    return found


def _of_folder(place: Place, entry: Entry) -> HandIn:
    label = readable(entry.name if entry.kind is Kind.FOLDER else unpacked_name(entry.name))
    return HandIn(label=label, source=place.shown(entry.name), files=Gathered(label, (place.entry(entry),)))


LAYOUTS: Mapping[str, Callable[[Place], list[HandIn]]] = {
    "gradescope": gradescope,
    "moodle": moodle,
    "canvas": canvas,
    "repositories": cloned,
    "one": one,
    "folders": folders,
}


# ---- names


def _told_apart(found: Iterable[HandIn]) -> list[HandIn]:
    """Sorted, with labels and folders that are unique."""
    hand_ins = list(found)
    for more in (_first_id, lambda hand_in: hand_in.source.rpartition("/")[2], lambda hand_in: hand_in.source):
        count = Counter(hand_in.label for hand_in in hand_ins)
        hand_ins = [
            replace(each, label=f"{each.label} ({more(each)})") if count[each.label] > 1 and more(each) else each
            for each in hand_ins
        ]
    names = [safe_name(hand_in.label) for hand_in in hand_ins]
    count = Counter(name.casefold() for name in names)
    hand_ins = [
        replace(each, folder=name if count[name.casefold()] == 1 else f"{name}-{_mark(each.label)}")
        for each, name in zip(hand_ins, names, strict=True)
    ]
    return sorted(hand_ins, key=lambda hand_in: (hand_in.label.casefold(), hand_in.label))


def _first_id(hand_in: HandIn) -> str:
    return next(iter(hand_in.ids.values()), "")


RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


def safe_name(label: str) -> str:
    """A name for a folder that every file system takes: letters and digits of all languages, at most 120 bytes."""
    text = unicodedata.normalize("NFC", label)
    name = re.sub(r"[^\w.-]+|_+", "_", text).strip("._-")
    short = name
    while len(short) > 60 or len(short.encode("utf-8")) > 120:
        short = short[:-1]
    if not short or short != name or RESERVED.fullmatch(short):
        return f"{short or 'student'}-{_mark(label)}"
    return short


def _mark(label: str) -> str:
    return hashlib.sha256(label.encode("utf-8", "surrogatepass")).hexdigest()[:8]


# ---- what is there, before anything is graded


@dataclass(frozen=True)
class Row:
    """What was recognised of one hand-in: exercise -> the file that counts, or the reason why there is none."""

    hand_in: HandIn
    files: Mapping[str, str]
    problems: Mapping[str, Problem]
    notes: Mapping[str, Sequence[Note]]

    @property
    def missing(self) -> list[str]:
        """The exercises for which nothing was handed in."""
        return [slug for slug, problem in self.problems.items() if problem.absent]


def describe(found: Iterable[HandIn], course: Course) -> Iterator[Row]:
    """Who was recognised as whom, by which layout, and what there is for each exercise. Nothing is run."""
    for hand_in in found:
        read = {exercise.slug: hand_in.read(exercise, course) for exercise in course.exercises}
        there = {slug: each for slug, each in read.items() if isinstance(each, Submission)}
        yield Row(
            hand_in,
            files={slug: each.path.as_posix() for slug, each in there.items()},
            problems={slug: each for slug, each in read.items() if isinstance(each, Problem)},
            notes={slug: each.notes for slug, each in there.items() if each.notes},
        )
