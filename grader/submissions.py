"""A path -> Submission, or a Problem that says what was expected, what was found and what to do.

A submission is one file, the *main* one, and every other Python file beside and below it (helper modules). Nothing
is imported or run here: files are read (grader/files.py), decoded and parsed.
"""

from __future__ import annotations

import ast
import codecs
import difflib
import io
import itertools
import re
import tokenize
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from unicodedata import east_asian_width

from grader import messages, notebooks
from grader.archives import unpacked_name
from grader.exercises import Course, CourseError, Exercise, defined_names
from grader.files import MOST_ENTRIES, Disk, Entry, Files, Kind, Refused, join, not_regular, readable
from grader.results import Location, Verdict

FILE_BYTES = 1_000_000  # one Python file
NOTEBOOK_BYTES = 20_000_000  # with the pictures in it
ALL_BYTES = 4_000_000  # a submission with its helper modules
MOST_FILES = 100
DEEPEST = 4  # folders below the main file's
NOBODYS = re.compile(r"(test_.*|__\w+__|conftest|setup|properties)\.py")  # what comes with a course or a template


NOTHING_FOUND = tuple(f"submission.{key}" for key in ("not_found", "not_found_meant", "empty_folder", "only_notebook"))


@dataclass(frozen=True)
class Note:
    """Something worth telling that did not stop the grading."""

    key: str
    params: dict[str, object] = field(default_factory=dict)

    def sentence(self, lang: str) -> str:
        return messages.text(self.key, lang, **self.params)


@dataclass(frozen=True)
class Submission:
    """What a learner handed in: `files` maps paths relative to the main file's folder to source text."""

    label: str
    path: Path
    main: str
    files: dict[str, str]
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True)
class Problem:
    """Why there is nothing to grade. `verdict` is MISSING or SYNTAX_ERROR."""

    label: str
    path: Path
    verdict: Verdict
    key: str
    params: dict[str, object] = field(default_factory=dict)
    location: Location | None = None

    @property
    def absent(self) -> bool:
        """Whether nothing is there that could be meant for the exercise."""
        return self.key in ("submission.not_found", "submission.empty_folder", "intake.nothing_handed_in")

    def sentence(self, lang: str) -> str:
        return messages.text(self.key, lang, **self.params)


def read_submission(
    exercise: Exercise, path: Path, course: Course | None = None, label: str | None = None
) -> Submission | Problem:
    """The submission of `exercise` at `path`, a file or a folder. `course` is asked whose file a wrong one is."""
    disk = Disk(path)
    try:
        kind = disk.kind("")
        if kind is None:
            raise _not_there(exercise, path)
        if kind is not Kind.FILE and kind is not Kind.FOLDER:
            raise not_regular(kind, disk.shown(""))
    except Refused as refused:
        return _problem(refused, disk, label)
    if kind is Kind.FILE:
        return find_submission(exercise, Disk(path.parent), course, label, main=path.name)
    return find_submission(exercise, disk, course, label)


def find_submission(
    exercise: Exercise,
    files: Files,
    course: Course | None = None,
    label: str | None = None,
    *,
    main: str | None = None,
    thorough: bool = False,
) -> Submission | Problem:
    """The submission of `exercise` among `files`; `main` is its main file where that is known.

    `thorough` also looks into all folders and archives, and at notebooks.
    """
    others = tuple(other for other in (course.exercises if course else ()) if other.slug != exercise.slug)
    try:
        path, notes = (main, []) if main is not None else locate(exercise, files, others, thorough)
        source, more = read_code(files, path)
        name = readable(_name(path))
        tree = parse(source, name)
        check_owner(exercise, tree, name, others)
        module = f"{_stem(name)}.py"
        beside, left_out = helpers(files, path, source, tree)
        return Submission(
            label=label or files.shown(path),
            path=Path(files.shown(path)),
            main=module,
            files={module: source, **beside},
            notes=(*notes, *more, *left_out),
        )
    except Refused as refused:
        return _problem(refused, files, label, main or "")


def _problem(refused: Refused, files: Files, label: str | None, path: str = "") -> Problem:
    shown = files.shown(path)
    return Problem(label or shown, Path(shown), refused.verdict, refused.key, refused.params, refused.location)


# ---- which file


def locate(
    exercise: Exercise, files: Files, others: Iterable[Exercise], thorough: bool = False
) -> tuple[str, list[Note]]:
    """The main file. A file in the right place under nearly the right name is taken, with a note."""
    folder = only_folder(files)
    places = _places(exercise, files, folder)
    for place in places:
        candidate = join(place, exercise.module)
        kind = files.kind(candidate)
        if kind is not None:
            if kind is Kind.FOLDER:
                raise Refused("submission.folder_in_place", file=files.shown(candidate), module=exercise.module)
            return candidate, []
    found = [path for place in places for path in _walk(files, place, deepest=0)]
    near = _meant(exercise, files, found, others)
    if not near and thorough:
        found = list(_walk(files, folder, DEEPEST, thorough=True))
        near = _nearest(exercise, found) or _meant(exercise, files, found, others)
        near = near or _meant(exercise, files, _walk(files, folder, DEEPEST, ".ipynb", thorough=True), others)
        near = _in_its_folder(exercise, near) or near or _in_its_folder(exercise, found)
    if thorough:
        near = _without_copies(files, near)
    near = _itself(exercise, near)
    if len(near) == 1:
        same = _says(exercise, _stem(near[0]))
        return near[0], [] if same else [_renamed(exercise, _name(near[0]))]
    if near:
        names = ", ".join(sorted(readable(path if thorough else _name(path)) for path in near)[:5])
        raise Refused("submission.several", found=names, module=exercise.module)
    raise _nothing_found(exercise, files, folder, found, thorough)


BESIDE = re.compile(r"_(tests?|utils?|helpers?|old|backup|drafts?|notes|demo)$")


def _itself(exercise: Exercise, near: list[str]) -> list[str]:
    """The one that says nothing but the exercise, if all others say that they stand beside it: `ex04_test.py`."""
    said = [path for path in near if _says(exercise, _stem(path))]
    others = [path for path in near if path not in said]
    return said if len(said) == 1 and all(BESIDE.search(_plain(_stem(path))) for path in others) else near


def _without_copies(files: Files, near: list[str]) -> list[str]:
    """One of each text."""
    if len(near) < 2:
        return near
    texts: dict[str, str] = {}
    for path in sorted(near, key=lambda path: (len(_name(path)), path)):
        try:
            texts.setdefault(read_code(files, path)[0], path)
        except Refused:
            return near
    return list(texts.values())


def _renamed(exercise: Exercise, name: str) -> Note:
    return Note("submission.renamed", {"found": readable(name), "module": exercise.module})


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _stem(path: str) -> str:
    return _name(path).rpartition(".")[0]


def _places(exercise: Exercise, files: Files, folder: str) -> list[str]:
    """Folders in which the main file may stand, the nearest first."""
    below = ("", exercise.slug, f"exercises/{exercise.slug}", "exercises")
    places = [folder, *(join(folder, place) for place in below[1:])]
    return [place for place in places if files.kind(place) in (Kind.FOLDER, Kind.ARCHIVE)]


def only_folder(files: Files) -> str:
    """Goes down through folders that hold nothing but one folder, as an unpacked archive has them."""
    folder = ""
    for _ in range(4):
        entries = files.entries(folder)
        if len(entries) != 1 or entries[0].kind not in (Kind.FOLDER, Kind.ARCHIVE) or entries[0].name.endswith(".py"):
            break
        folder = join(folder, entries[0].name)
    return folder


def _walk(files: Files, folder: str, deepest: int, suffix: str = ".py", thorough: bool = False) -> Iterator[str]:
    """Regular files of a folder and of `deepest` levels below it, the nearest first; links are not followed.

    `thorough` goes into archives, and names links and pipes too: whoever reads one is told what it is.
    """
    for path, kind in everything(files, folder, deepest, archives=thorough):
        if path.lower().endswith(suffix) and (thorough or kind is Kind.FILE):
            yield path


def everything(
    files: Files, folder: str = "", deepest: int = DEEPEST, archives: bool = True
) -> Iterator[tuple[str, Kind]]:
    """What there is in a folder and `deepest` levels below it, the nearest first, that is none itself."""
    inside = (Kind.FOLDER, Kind.ARCHIVE) if archives else (Kind.FOLDER,)
    level, looked_at = [folder], 0
    for depth in range(deepest + 1):
        below: list[str] = []
        for place in level:
            entries = files.entries(place) if depth == 0 else _entries_or_none(files, place)
            looked_at += len(entries)
            for entry in entries:
                if entry.kind in inside:
                    below.append(join(place, entry.name))
                else:
                    yield join(place, entry.name), entry.kind
            if looked_at > MOST_ENTRIES:
                return
        level = below


def _entries_or_none(files: Files, folder: str) -> list[Entry]:
    """What a folder holds; nothing for a virtual environment or a folder that cannot be read."""
    try:
        entries = files.entries(folder)
    except Refused:
        return []
    return [] if any(entry.name == "pyvenv.cfg" for entry in entries) else entries


def _nearest(exercise: Exercise, found: Iterable[str]) -> list[str]:
    """The files that have the right name and stand in the fewest folders."""
    exact = [path for path in found if _name(path) == exercise.module]
    return [path for path in exact if path.count("/") == exact[0].count("/")]


def _in_its_folder(exercise: Exercise, paths: Iterable[str]) -> list[str]:
    """The files below a folder that is called by the exercise, such as `ex05/solution.py`."""
    number, rest = int(exercise.id[2:]), exercise.slug.split("_", 1)[1]
    called = re.compile(rf"(?:ex|exercise)[ _-]?0*{number}(?!\d).*|{rest}", re.IGNORECASE)
    return [
        path
        for path in paths
        if any(called.fullmatch(unpacked_name(part)) for part in path.split("/")[:-1])
        and not NOBODYS.fullmatch(_name(path))
    ]


def _meant(exercise: Exercise, files: Files, found: Iterable[str], others: Iterable[Exercise]) -> list[str]:
    """The files that are meant for this exercise by their name, else by what they define."""
    found = list(found)
    return [path for path in found if _means(exercise, _stem(path))] or _by_names(exercise, files, found, others)


def _plain(stem: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", stem.lower()).strip("_")


def _says(exercise: Exercise, stem: str) -> bool:
    """Whether a file called `stem` says the exercise and nothing else: `ex04`, `ex4`, `causal_mask`."""
    number, rest = int(exercise.id[2:]), exercise.slug.split("_", 1)[1]
    return bool(re.fullmatch(rf"(ex|exercise)?_?0*{number}(_{rest})?|{rest}", _plain(stem)))


def _means(exercise: Exercise, stem: str) -> bool:
    """Whether a file called `stem` is meant for this exercise: `ex04`, `ex4`, `causal_mask`, `ex04_causal_mask (1)`."""
    if _says(exercise, stem):
        return True
    name, number, rest = _plain(stem), int(exercise.id[2:]), exercise.slug.split("_", 1)[1]
    said = re.match(r"(?:ex|exercise)_?0*(\d+)(?!\d)", name)
    if said:
        return int(said[1]) == number
    return rest in name or difflib.SequenceMatcher(None, name, exercise.slug).ratio() > 0.85


def _by_names(exercise: Exercise, files: Files, found: Iterable[str], others: Iterable[Exercise]) -> list[str]:
    """Files that define most of what this exercise asks for, whatever they are called.

    A notebook may hold several: it counts for each of which it defines most. So does a file that is called by none,
    where there is no better one.
    """
    every = [exercise, *others]
    kept, shared, size = [], [], 0
    for path in itertools.islice(found, MOST_FILES):
        try:
            source = read_code(files, path)[0]
            size += len(source)
            if size > ALL_BYTES:
                break
            if not any(name in source for name in exercise.names):  # parsing is slow
                continue
            tree = parse(source, _name(path))
        except Refused:
            continue
        most = _share(exercise, set(defined_names(tree))) > 0.5
        if whose(tree, every) == exercise or (most and path.lower().endswith(".ipynb")):
            kept.append(path)
        elif most and not any(_means(other, _stem(path)) for other in every):
            shared.append(path)
    return kept or shared


def _not_there(exercise: Exercise, path: Path) -> Refused:
    beside = Disk(path.parent)
    names = [entry.name for entry in beside.entries("")] if beside.kind("") is Kind.FOLDER else []
    close = difflib.get_close_matches(path.name, names, n=1) or [name for name in names if name == exercise.module]
    shown = Disk(path).shown("")
    if close:
        return Refused("submission.no_path_meant", path=shown, meant=beside.shown(close[0]))
    return Refused("submission.no_path", path=shown)


def _nothing_found(exercise: Exercise, files: Files, folder: str, found: list[str], thorough: bool) -> Refused:
    entries = files.entries(folder)
    names = sorted({readable(_name(path)) for path in found} or {readable(entry.name) for entry in entries})
    where = {"module": exercise.module, "folder": files.shown(folder)}
    notebooks = [name for name in names if name.lower().endswith(".ipynb")]
    if notebooks and not found and not thorough:  # else they have been looked into, and are of other exercises
        return Refused("submission.only_notebook", notebook=notebooks[0], **where)
    if not names:
        return Refused("submission.empty_folder", **where)
    listed = ", ".join(names[:5]) + (f", ... ({len(names)})" if len(names) > 5 else "")
    close = difflib.get_close_matches(exercise.module, names, n=1, cutoff=0.7)
    if close:
        return Refused("submission.not_found_meant", found=listed, meant=close[0], **where)
    return Refused("submission.not_found", found=listed, **where)


# ---- its text


def read_code(files: Files, path: str) -> tuple[str, list[Note]]:
    """The text of a Python file, or the code of a notebook, with "\\n" line ends."""
    if not path.lower().endswith(".ipynb"):
        return read_python(files, path)
    code = notebooks.code(files.read(path, NOTEBOOK_BYTES), readable(_name(path)))
    return code, [Note("submission.from_notebook", {"notebook": readable(_name(path))})]


def read_python(files: Files, path: str) -> tuple[str, list[Note]]:
    """The text of a Python file with "\\n" line ends. Never follows a link and never blocks."""
    name = readable(_name(path))
    text, notes = decode(files.read(path, FILE_BYTES), name)
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise Refused("submission.nul_bytes", Verdict.SYNTAX_ERROR, file=name, line=line)
    return text.replace("\r\n", "\n").replace("\r", "\n"), notes


MARKS = (  # the longer ones first: UTF-32's little-endian mark begins like UTF-16's
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
DECLARABLE = re.compile(r"utf|ascii|iso|latin|cp\d|gb|big5|euc|shift_jis|koi8|mac|hz|johab|kz|ptcp|tis")


def decode(data: bytes, name: str) -> tuple[str, list[Note]]:
    """By byte order mark, by PEP 263, else UTF-8; a guess is taken where only comments and texts depend on it."""
    for mark, encoding in MARKS:
        if data.startswith(mark):
            try:
                text = data.decode(encoding)
            except UnicodeDecodeError:
                raise Refused("submission.not_text", Verdict.SYNTAX_ERROR, file=name, kind=encoding.upper()) from None
            return text, [Note("submission.saved_as", {"file": name, "encoding": encoding.upper()})]
    kind = _other_kind(data)
    if kind:
        raise Refused("submission.not_text", Verdict.SYNTAX_ERROR, file=name, kind=kind)
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        known = DECLARABLE.match(codecs.lookup(encoding).name)
        return data.decode(encoding if known else "utf-8-sig"), []
    except (SyntaxError, LookupError, ValueError):  # UnicodeDecodeError is a ValueError
        return _guessed(data, name)


def _other_kind(data: bytes) -> str | None:
    """What a file that is no Python source is, told by how it begins."""
    kinds = {b"PK\x03\x04": "ZIP", b"%PDF": "PDF", b"\x7fELF": "ELF", b"\x1f\x8b": "GZIP", b"\x89PNG": "PNG"}
    for start, kind in kinds.items():
        if data.startswith(start):
            return kind
    if re.match(rb'\s*\{\s*"(cells|metadata|nbformat)"', data):
        return "Jupyter"
    return "HTML" if re.match(rb"\s*<(!doctype|html)", data, re.IGNORECASE) else None


def _guessed(data: bytes, name: str) -> tuple[str, list[Note]]:
    """A file that is not what it says: read as GB18030 or Latin-1 where that leaves the code itself the same."""
    for encoding in ("gb18030", "latin-1"):
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        if _code_is_ascii(text):
            shown = "GBK" if encoding == "gb18030" else "Latin-1"
            return text, [Note("submission.saved_as", {"file": name, "encoding": shown})]
    line = next((n for n, row in enumerate(data.split(b"\n"), start=1) if not row.isascii()), 1)
    raise Refused("submission.encoding", Verdict.SYNTAX_ERROR, file=name, line=line)


def _code_is_ascii(text: str) -> bool:
    quiet = {tokenize.COMMENT, tokenize.STRING}
    quiet |= {getattr(tokenize, name, -1) for name in ("FSTRING_MIDDLE", "TSTRING_MIDDLE")}  # from Python 3.12, 3.14
    try:
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        return all(token.type in quiet or token.string.isascii() for token in tokens)
    except (tokenize.TokenError, SyntaxError):
        return False


# ---- is it code, and whose


def parse(source: str, name: str) -> ast.Module:
    """The file's syntax tree. Refuses an empty file and one that Python cannot read, with the line and a caret."""
    if not source.strip("\ufeff \t\n\f"):
        raise Refused("submission.empty_file", file=name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source, name)
    except SyntaxError as error:
        raise _syntax(error, source, name) from None
    except (RecursionError, MemoryError):
        raise Refused("submission.nested", Verdict.SYNTAX_ERROR, file=name) from None
    except ValueError as error:
        raise Refused("submission.cannot_parse", Verdict.SYNTAX_ERROR, file=name, error=str(error)) from None
    if not tree.body:
        raise Refused("submission.only_comments", file=name)
    return tree


def _syntax(error: SyntaxError, source: str, name: str) -> Refused:
    lines = source.split("\n")
    line = min(max(error.lineno or 1, 1), len(lines))
    column = max(error.offset or 1, 1)
    start = max(0, column - 40)
    shown = lines[line - 1][start : start + 60].replace("\t", " ")
    caret = "".join("  " if east_asian_width(letter) in "WF" else " " for letter in shown[: column - 1 - start]) + "^"
    found = Refused(
        "submission.syntax", Verdict.SYNTAX_ERROR, file=name, line=line, reason=error.msg, shown=shown, caret=caret
    )
    first = max(1, line - 2)
    found.location = Location(name, line, "", first, [text[:200] for text in lines[first - 1 : line + 2]])
    return found


def check_owner(exercise: Exercise, tree: ast.Module, name: str, others: Iterable[Exercise]) -> None:
    """Refuses a file in which nothing belongs to this exercise and most of another one does."""
    bound = _bound(tree)
    if "*" in bound or bound & set(exercise.names):
        return
    other = whose(tree, others)
    if other is not None:
        raise Refused("submission.other_exercise", file=name, other=other.slug, slug=exercise.slug)


def whose(tree: ast.Module, exercises: Iterable[Exercise]) -> Exercise | None:
    """The exercise most of whose names the file defines, None where there is no clear one."""
    defined = set(defined_names(tree))
    ranked = sorted(((_share(exercise, defined), exercise) for exercise in exercises), key=lambda pair: -pair[0])
    if not ranked or ranked[0][0] <= 0.5 or (len(ranked) > 1 and ranked[0][0] == ranked[1][0]):
        return None
    return ranked[0][1]


def _share(exercise: Exercise, defined: set[str]) -> float:
    try:
        names = set(exercise.names)
    except CourseError:  # a defect of another exercise is told when that one is graded
        return 0.0
    return len(defined & names) / max(1, len(names))


def _bound(tree: ast.Module) -> set[str]:
    """Names that a file may bind: definitions, imports ("*" too), assignments, strings as in `globals()["name"]`."""
    bound: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            bound.add(node.value)
    return bound


# ---- helper modules


def helpers(files: Files, main: str, source: str, tree: ast.Module) -> tuple[dict[str, str], list[Note]]:
    """The other Python files beside and below the main one; those it imports come first where there are too many."""
    root = main.rpartition("/")[0]
    wanted = _imported(tree)
    below = [path.removeprefix(f"{root}/") if root else path for path in _walk(files, root, DEEPEST) if path != main]
    below.sort(key=lambda path: (not wanted & set(path.removesuffix(".py").split("/")), path))
    found: dict[str, str] = {}
    left_out: list[str] = []
    size = len(source)
    for path in below:
        if len(found) >= MOST_FILES or size >= ALL_BYTES:
            left_out.append(path)
            continue
        try:
            text, _ = read_python(files, join(root, path))
        except Refused:
            left_out.append(path)
            continue
        found[readable(path)] = text
        size += len(text)
    needed = [readable(path) for path in left_out if wanted & set(path.removesuffix(".py").split("/"))]
    notes = [Note("submission.left_out", {"count": len(needed), "files": ", ".join(needed[:3])})] if needed else []
    return found, notes


def _imported(tree: ast.Module) -> set[str]:
    """Every part of every module name that the file imports."""
    parts: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            parts.update(part for alias in node.names for part in alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            parts.update((node.module or "").split("."), (alias.name for alias in node.names))
    return parts - {""}
