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
from grader.archives import PACKED, Opened, unpacked_name
from grader.exercises import Course, Exercise
from grader.files import Disk, Entry, Files, Gathered, Kind, Mount, Refused, join, not_regular, readable
from grader.gradescope import Person, submitters
from grader.places import (
    CANVAS,
    CANVAS_TEXT,
    METADATA,
    MOODLE,
    Place,
    class_at,
    is_code,
    is_exercise,
    is_packed,
    read_homework,
    read_name,
    sections,
    work_by_exercise,
)
from grader.submissions import (
    NOBODYS,
    NOTHING_FOUND,
    Note,
    Problem,
    Submission,
    everything,
    find_submission,
    only_folder,
)

METADATA_BYTES = 200_000_000
DEEPEST = 4  # sections of sections
OTHER_SUFFIX = re.compile(r"\.\w{1,5}$")
AS_TEXT = re.compile(r"(\.py)?\.(txt|pdf|docx?|rtf|odt|pyc)$", re.IGNORECASE)


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
        refused = _first_refusal(opened) or _only_a_link(opened)
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


def _only_a_link(opened: Opened) -> Refused | None:
    """A link in a hand-in that has nothing else to grade."""
    found = list(everything(opened, only_folder(opened)))
    links = [path for path, kind in found if kind is Kind.LINK and not OTHER_SUFFIX.search(path)]
    if links and not any(is_code(path) for path, _ in found):
        return Refused("intake.folder_is_link", folder=opened.shown(links[0]))
    return None


def hand_ins(path: Path, course: Course) -> list[HandIn]:
    """Every hand-in at `path`, a folder or an archive as a system hands it out, sorted by label.

    Raises:
        Refused: there is nothing there, or it cannot be read. Its sentence is for the instructor.
    """
    archives.forget()
    repositories.forget()
    place = class_at(path, course)
    found = _recognised(place)
    if not found:
        raise Refused("intake.nothing", path=place.shown(""))
    return _told_apart(found)


def _recognised(place: Place, depth: int = 0) -> list[HandIn]:
    """The hand-ins of a place, and of the sections and exercises that its students lie below."""
    if depth < DEEPEST:
        for below in (_by_exercise, _by_section):
            found = below(place, depth + 1)
            if found:
                return found
    for layout, recognise in LAYOUTS.items():
        found = recognise(place)
        if found:
            return [replace(hand_in, layout=layout) for hand_in in found]
    return []


def _by_section(place: Place, depth: int) -> list[HandIn]:
    """`section A/anna/`, `section B/ben.zip`, or the download of a system for each."""
    known = sections(place)
    people: dict[tuple[str, ...], list[tuple[str, HandIn]]] = {}
    for entry, inner in known:
        section = readable(unpacked_name(entry.name))
        for number, each in enumerate(_recognised(inner, depth)):
            person = _person(each) or (entry.name, str(number))
            people.setdefault(person, []).append((entry.name, replace(each, ids={**each.ids, "section": section})))
    found = [theirs[0][1] if len(theirs) == 1 else _of_exercises(theirs) for theirs in people.values()]
    return found + (_others(place, {entry.name for entry, _ in known}) if found else [])


def _person(hand_in: HandIn) -> tuple[str, ...]:
    """By what a system knows somebody in all of its downloads; nothing where it gives a number to each hand-in."""
    return next(((key, hand_in.ids[key]) for key in ("canvas_user", "sid", "email") if hand_in.ids.get(key)), ())


def _alike(label: str) -> str:
    """A name in its one spelling: systems differ in how they write an umlaut, and people in capitals and blanks."""
    return " ".join(unicodedata.normalize("NFC", label).casefold().split())


def _by_exercise(place: Place, depth: int) -> list[HandIn]:
    """`ex05/anna.py`, `ex06/anna/attention.py`: what a student handed in for all exercises is one hand-in."""
    known = work_by_exercise(place)
    every = [(entry, _recognised(inner, depth)) for entry, _, inner in known]
    apart = {spelled for _, found in every for spelled in _told_by_spelling(found)}
    parts: dict[tuple[str, ...], list[tuple[str, HandIn]]] = {}
    for entry, found in every:
        count = Counter(hand_in.label for hand_in in found)
        for each in found:
            name = each.label if _alike(each.label) in apart else _alike(each.label)
            told = (_first_id(each), entry.name) if count[each.label] > 1 or each.refusal else ()
            parts.setdefault(_person(each) or (name, _section(each), *told), []).append((entry.name, each))
    merged = [_of_exercises(theirs) for theirs in parts.values()]
    return merged + (_others(place, {entry.name for entry, *_ in known}) if merged else [])


def _told_by_spelling(found: Iterable[HandIn]) -> set[str]:
    """The names that two have who are told apart by capitals alone, such as `li na` and `Li Na`."""
    count = Counter(_alike(label) for label in {hand_in.label for hand_in in found})
    return {name for name, times in count.items() if times > 1}


def _of_exercises(parts: Sequence[tuple[str, HandIn]]) -> HandIn:
    """One hand-in that has what was handed in for each exercise in a folder called by it."""
    return _together(parts, [Mount(unpacked_name(name), each.files, "") for name, each in parts])


def _together(parts: Sequence[tuple[str, HandIn]], mounts: Sequence[Mount]) -> HandIn:
    first = parts[0][1]
    return replace(
        first,
        files=Gathered(first.label, tuple(mounts)),
        ids={key: value for _, each in reversed(parts) for key, value in each.ids.items()},
        late=any(each.late for _, each in parts),
    )


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
    ] + _others(place, {METADATA, *told, *place.folders()})


def _called(person: Person) -> str:
    return person.name or person.email or person.sid


def _ids(people: Sequence[Person]) -> dict[str, str]:
    """Those of the one submitter; of a group, look at its members."""
    if len(people) != 1:
        return {}
    return {key: value for key, value in (("sid", people[0].sid), ("email", people[0].email)) if value}


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
    found = [(name, _of_commit(place, place.files, name)) for name in sorted(clones)]
    return _joined(place, found) + _others(place, clones)


def _of_commit(place: Place, disk: Disk, folder: str) -> HandIn:
    """The label is the student's account where the folder's name tells it: `hw1-anna` in `hw1-submissions`."""
    name = readable(folder.removesuffix(".git"))
    assignment = place.name.removesuffix("-submissions")
    known = assignment != place.name and name.startswith(f"{assignment}-")
    ids = {"repository": name}
    if known:
        ids["github_user"] = name.removeprefix(f"{assignment}-")
    label = ids.get("github_user") or read_homework(name, place.course)[1] or name
    plain = HandIn(label=label, source=place.shown(folder), files=Gathered(name, ()), ids=ids)
    try:
        files = repositories.last_commit(disk, join(place.folder, folder))
    except Refused as refused:
        return replace(plain, refusal=(refused.key, refused.params))
    commit = {"commit": files.hash} if isinstance(files, repositories.Commit) else {}
    return replace(plain, files=files, ids={**ids, **commit})


def one(place: Place) -> list[HandIn]:
    """The folder itself is what one student handed in: exercises stand in it, not students."""
    course = place.course
    direct = [entry for entry in place.entries() if is_code(entry.name) or is_packed(entry)]
    if not any(is_exercise(entry.name, course) for entry in direct):
        return []
    others = [name for name in place.folders() if not is_exercise(name, course)]
    if sum(any(is_exercise(entry.name, course) for entry in place.entries(name)) for name in others[:50]) > 1:
        return []
    return [HandIn(label=place.name, source=place.shown(""), files=Gathered(place.name, (place.whole(""),)))]


def folders(place: Place) -> list[HandIn]:
    """A folder or an archive a student, or loose files with the student in their names."""
    return _others(place, ())


def _others(place: Place, told: Container[str]) -> list[HandIn]:
    """All that may be somebody's and was not told yet: nobody is passed over in silence."""
    left = [entry for entry in place.entries() if entry.name not in told]
    found = [
        (entry.name, _of_entry(place, entry))
        for entry in left
        if is_packed(entry) or (entry.kind is Kind.FILE and is_code(entry.name))
    ]
    return _joined(place, found) + [each for entry in left if (each := _not_taken(place, entry))]


def _of_entry(place: Place, entry: Entry) -> HandIn:
    """The label is what the name tells beside the exercise: `anna` of `anna_ex05.py`, of `ex05-anna.zip`."""
    name = readable(entry.name if entry.kind is not Kind.FILE else unpacked_name(entry.name))
    label = read_homework(name, place.course)[1] or name
    return HandIn(label=label, source=place.shown(entry.name), files=Gathered(label, (place.entry(entry),)))


def _joined(place: Place, found: Sequence[tuple[str, HandIn]]) -> list[HandIn]:
    """Those of one student together, if all names but one at most tell an exercise, and no two spellings the same."""
    people: dict[str, list[tuple[str, HandIn]]] = {}
    for name, each in found:
        people.setdefault(_alike(each.label), []).append((name, each))
    joined: list[HandIn] = []
    for theirs in people.values():
        told = Counter(read_homework(name, place.course)[0] for name, _ in theirs)
        spellings = {each.label for _, each in theirs}
        unclear = told[None] > 1 or (len(spellings) > 1 and max(told.values()) > 1)
        if len(theirs) == 1 or unclear or any(each.refusal for _, each in theirs):
            joined += [each for _, each in theirs]
        else:
            joined.append(_together(theirs, [mount for name, each in theirs for mount in _below(name, each.files)]))
    return joined


def _below(name: str, files: Files) -> Sequence[Mount]:
    """Files beside those of other entries: a loose one as it is, all others in a folder."""
    if isinstance(files, Gathered) and all(mount.at for mount in files.mounts):
        return files.mounts
    return [Mount(name, files, "")]


def _not_taken(place: Place, entry: Entry) -> HandIn | None:
    """A link, a pipe, or code that was saved as a text, where a hand-in would be."""
    exercise, student = read_homework(AS_TEXT.sub("", entry.name), place.course)
    shown = place.shown(entry.name)
    as_code = is_code(entry.name) or bool(PACKED.search(entry.name))
    if entry.kind is Kind.FILE:
        refused = Refused("intake.as_text", file=shown) if is_code_as_text(entry.name, exercise) else None
    elif entry.kind is Kind.FOLDER or (OTHER_SUFFIX.search(entry.name) and not as_code):
        refused = None
    elif entry.kind is Kind.LINK and not as_code:
        refused = Refused("intake.folder_is_link", folder=shown)
    else:
        refused = not_regular(entry.kind, shown)
    if refused is None:
        return None
    label = student or readable(entry.name)
    return HandIn(label, shown, Gathered(label, ()), refusal=(refused.key, refused.params))


def is_code_as_text(name: str, exercise: Exercise | None) -> bool:
    """Whether a file is an exercise's code in a form that nobody can run: `ex05.py.txt`, `exercise 5.pdf`."""
    return bool(AS_TEXT.search(name)) and (exercise is not None or ".py." in name.lower())


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
    for more in (_section, _first_id, _file_name, lambda hand_in: hand_in.source):
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


def _section(hand_in: HandIn) -> str:
    return hand_in.ids.get("section", "")


def _first_id(hand_in: HandIn) -> str:
    return next(iter(hand_in.ids.values()), "")


def _file_name(hand_in: HandIn) -> str:
    return hand_in.source.rpartition("/")[2]


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
    """What was recognised of one hand-in: exercise -> the file that counts, or the reason why there is none.

    `left` are files that look like code of an exercise and count for none.
    """

    hand_in: HandIn
    files: Mapping[str, str]
    problems: Mapping[str, Problem]
    notes: Mapping[str, Sequence[Note]]
    left: Sequence[str]

    @property
    def missing(self) -> list[str]:
        """The exercises for which nothing was handed in."""
        return [slug for slug, problem in self.problems.items() if problem.absent]


def describe(found: Iterable[HandIn], exercises: Sequence[Exercise], course: Course) -> Iterator[Row]:
    """Who was recognised as whom, by which layout, and what there is for each exercise. Nothing is run."""
    for hand_in in found:
        read = {exercise.slug: hand_in.read(exercise, course) for exercise in course.exercises}
        wanted = {exercise.slug: read[exercise.slug] for exercise in exercises}
        there = {slug: each for slug, each in wanted.items() if isinstance(each, Submission)}
        yield Row(
            hand_in,
            files={slug: each.path.as_posix() for slug, each in there.items()},
            problems={slug: each for slug, each in wanted.items() if isinstance(each, Problem)},
            notes={slug: each.notes for slug, each in there.items() if each.notes},
            left=list(_left(hand_in, list(read.values()), course)),
        )


def _left(hand_in: HandIn, read: Sequence[Submission | Problem], course: Course) -> Iterator[str]:
    """Files that no submission has, and no problem speaks of."""
    opened = Opened(hand_in.files)
    submissions = [each for each in read if isinstance(each, Submission)]
    taken = {each.path.as_posix() for each in submissions}
    taken |= {(each.path.parent / name).as_posix() for each in submissions for name in _used(each)}
    problems = [each for each in read if isinstance(each, Problem) and not each.absent]
    values = [str(value) for each in problems for value in each.params.values()]
    said = {name for value in values for apart in (r"[/\\,\s]+", r"[/\\]|, ") for name in re.split(apart, value)}
    for path in _paths(opened):
        name = readable(path.rpartition("/")[2])
        code = is_code(name) and not NOBODYS.fullmatch(name)
        if not code and not is_code_as_text(name, read_name(name, course)[0]):
            continue
        if opened.shown(path) not in taken and name not in said:
            yield readable(path)


def _used(submission: Submission) -> Iterator[str]:
    """The helper modules that another file of the submission speaks of."""
    words = {name: set(re.findall(r"\w+", source)) for name, source in submission.files.items()}
    for name in submission.files:
        *folders, module = name.removesuffix(".py").split("/")
        imported = folders[-1] if module == "__init__" and folders else module
        if any(imported in said for other, said in words.items() if other != name):
            yield name


def _paths(opened: Opened) -> list[str]:
    try:
        return [path for path, _ in everything(opened)]
    except Refused:  # the problem says so
        return []
