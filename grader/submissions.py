"""A path -> Submission, or a Problem that says what was expected, what was found and what to do.

A submission is one file, the *main* one, and every other Python file beside and below it (helper modules). Nothing
is imported or run here: files are opened without following links or blocking, read, decoded and parsed.
"""

from __future__ import annotations

import ast
import codecs
import difflib
import io
import itertools
import os
import re
import stat
import tokenize
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from unicodedata import east_asian_width

from grader import messages
from grader.exercises import Course, CourseError, Exercise, defined_names
from grader.results import Location, Verdict

FILE_BYTES = 1_000_000  # one Python file
ALL_BYTES = 4_000_000  # a submission with its helper modules
MOST_FILES = 100
DEEPEST = 4  # folders below the main file's
MOST_ENTRIES = 5_000  # names looked at in one folder, and in all of them together
SKIPPED_FOLDERS = {"__MACOSX", "__pycache__", "site-packages", "node_modules", "venv"}


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
        return self.key in ("submission.not_found", "submission.empty_folder")

    def sentence(self, lang: str) -> str:
        return messages.text(self.key, lang, **self.params)


class _Found(Exception):
    """Carries a Problem's parts out of the step that met it."""

    def __init__(self, key: str, verdict: Verdict = Verdict.MISSING, /, **params: object) -> None:
        super().__init__(key)
        self.key, self.verdict, self.params = key, verdict, params
        self.location: Location | None = None


def read_submission(
    exercise: Exercise, path: Path, course: Course | None = None, label: str | None = None
) -> Submission | Problem:
    """The submission of `exercise` at `path`, a file or a folder. `course` is asked whose file a wrong one is."""
    others = tuple(other for other in (course.exercises if course else ()) if other.slug != exercise.slug)
    try:
        main, notes = locate(exercise, path, others)
        source, more = read_python(main)
        tree = parse(source, main.name)
        check_owner(exercise, tree, main.name, others)
        files, left_out = helpers(main, source, tree)
        return Submission(
            label=label or _shown(main),
            path=main,
            main=main.name,
            files={main.name: source, **files},
            notes=(*notes, *more, *left_out),
        )
    except _Found as found:
        return Problem(label or _shown(path), path, found.verdict, found.key, found.params, found.location)


def _shown(path: Path) -> str:
    """The path as a person would type it here; a folder's own name for `.`."""
    try:
        relative = path.absolute().relative_to(Path.cwd())
        return relative.as_posix() if relative.name else path.absolute().name or "/"
    except (ValueError, OSError):
        return path.as_posix()


# ---- which file


def locate(exercise: Exercise, path: Path, others: Iterable[Exercise]) -> tuple[Path, list[Note]]:
    """The main file. A file in the right place under nearly the right name is taken, with a note."""
    mode = _mode(path)
    if mode is None:
        raise _not_there(exercise, path)
    if stat.S_ISREG(mode):
        return path, []
    if not stat.S_ISDIR(mode):
        raise _not_regular(path, mode)
    folder = _only_folder(path)
    for place in _places(exercise, folder):
        candidate = place / exercise.module
        mode = _mode(candidate)
        if mode is not None:
            if stat.S_ISDIR(mode):
                raise _Found("submission.folder_in_place", file=_shown(candidate), module=exercise.module)
            return candidate, []
    found = [file for place in _places(exercise, folder) for file in _python_files(place, deepest=0)]
    renamed = [file for file in found if _means(exercise, file.stem)] or _by_names(exercise, found, others)
    if len(renamed) == 1:
        return renamed[0], [Note("submission.renamed", {"found": renamed[0].name, "module": exercise.module})]
    if renamed:
        names = ", ".join(sorted(file.name for file in renamed)[:5])
        raise _Found("submission.several", found=names, module=exercise.module)
    raise _nothing_found(exercise, folder, found)


def _mode(path: Path) -> int | None:
    """What kind of file it is, links not followed; None where there is none."""
    try:
        return os.lstat(path).st_mode
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise _Found("submission.unreadable", file=_shown(path), error=_reason(error)) from None


def _places(exercise: Exercise, folder: Path) -> list[Path]:
    """Folders in which the main file may stand, the nearest first."""
    below = (folder, folder / exercise.slug, folder / "exercises" / exercise.slug, folder / "exercises")
    return [place for place in below if (mode := _mode(place)) is not None and stat.S_ISDIR(mode)]


def _only_folder(folder: Path) -> Path:
    """Goes down through folders that hold nothing but one folder, as an unpacked archive has them."""
    for _ in range(3):
        entries = _entries(folder)
        folders = [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
        if len(folders) != 1 or len(entries) != 1 or folders[0].name.endswith(".py"):
            break
        folder = Path(folders[0].path)
    return folder


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """What a folder holds, sorted, without hidden files, `__MACOSX`, virtual environments and the like."""
    kept: list[os.DirEntry[str]] = []
    try:
        with os.scandir(folder) as entries:
            for looked_at, entry in enumerate(entries):
                if looked_at >= MOST_ENTRIES:
                    break
                if not entry.name.startswith(".") and entry.name not in SKIPPED_FOLDERS:
                    kept.append(entry)
    except OSError as error:
        raise _Found("submission.unreadable", file=_shown(folder), error=_reason(error)) from None
    return sorted(kept, key=lambda entry: entry.name)


def _python_files(folder: Path, deepest: int) -> Iterator[Path]:
    """Regular `.py` files of a folder and of `deepest` levels below it, the nearest first; links are not followed."""
    level, looked_at = [folder], 0
    for depth in range(deepest + 1):
        below: list[Path] = []
        for place in level:
            entries = _entries(place) if depth == 0 else _entries_or_none(place)
            looked_at += len(entries)
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    below.append(Path(entry.path))
                elif entry.name.endswith(".py") and entry.is_file(follow_symlinks=False):
                    yield Path(entry.path)
            if looked_at > MOST_ENTRIES:
                return
        level = below


def _entries_or_none(folder: Path) -> list[os.DirEntry[str]]:
    """As `_entries`; nothing for a virtual environment or a folder that cannot be read."""
    try:
        entries = _entries(folder)
    except _Found:
        return []
    return [] if any(entry.name == "pyvenv.cfg" for entry in entries) else entries


def _means(exercise: Exercise, stem: str) -> bool:
    """Whether a file called `stem` is meant for this exercise: `ex04`, `ex4`, `causal_mask`, `ex04_causal_mask (1)`."""
    name = re.sub(r"[^a-z0-9]+", "_", stem.lower()).strip("_")
    number, rest = int(exercise.id[2:]), exercise.slug.split("_", 1)[1]
    if re.fullmatch(rf"(ex|exercise)?_?0*{number}", name) or name == rest:
        return True
    said = re.match(r"(?:ex|exercise)_?0*(\d+)(?!\d)", name)
    if said:
        return int(said[1]) == number
    return rest in name or difflib.SequenceMatcher(None, name, exercise.slug).ratio() > 0.85


def _by_names(exercise: Exercise, files: Iterable[Path], others: Iterable[Exercise]) -> list[Path]:
    """Files that define most of what this exercise asks for, whatever they are called."""
    every = [exercise, *others]
    kept = []
    for file in itertools.islice(files, MOST_FILES):
        try:
            if whose(parse(read_python(file)[0], file.name), every) == exercise:
                kept.append(file)
        except _Found:
            continue
    return kept


def _not_there(exercise: Exercise, path: Path) -> _Found:
    parent = path.parent if _mode(path.parent) is not None else None
    names = [entry.name for entry in _entries(parent)] if parent and parent.is_dir() else []
    close = difflib.get_close_matches(path.name, names, n=1) or [name for name in names if name == exercise.module]
    if close:
        return _Found("submission.no_path_meant", path=_shown(path), meant=_shown(path.parent / close[0]))
    return _Found("submission.no_path", path=_shown(path))


def _nothing_found(exercise: Exercise, folder: Path, found: list[Path]) -> _Found:
    names = sorted({file.name for file in found} or {entry.name for entry in _entries(folder)})
    where = {"module": exercise.module, "folder": _shown(folder)}
    notebooks = [name for name in names if name.endswith(".ipynb")]
    if notebooks and not found:
        return _Found("submission.only_notebook", notebook=notebooks[0], **where)
    links = [entry.name for entry in _entries(folder) if entry.is_symlink()]
    if exercise.module in links:
        return _not_regular(folder / exercise.module, stat.S_IFLNK)
    if not names:
        return _Found("submission.empty_folder", **where)
    listed = ", ".join(names[:5]) + (f", ... ({len(names)})" if len(names) > 5 else "")
    close = difflib.get_close_matches(exercise.module, names, n=1, cutoff=0.7)
    if close:
        return _Found("submission.not_found_meant", found=listed, meant=close[0], **where)
    return _Found("submission.not_found", found=listed, **where)


def _not_regular(path: Path, mode: int) -> _Found:
    kinds = {stat.S_IFLNK: "link", stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket"}
    return _Found(f"submission.is_{kinds.get(stat.S_IFMT(mode), 'device')}", file=_shown(path))


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


# ---- its text


def read_python(path: Path) -> tuple[str, list[Note]]:
    """The text of a Python file with "\\n" line ends. Never follows a link and never blocks."""
    data = _read_regular(path)
    text, notes = decode(data, path.name)
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise _Found("submission.nul_bytes", Verdict.SYNTAX_ERROR, file=path.name, line=line)
    return text.replace("\r\n", "\n").replace("\r", "\n"), notes


def _read_regular(path: Path) -> bytes:
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    mode = _mode(path)
    if mode is not None and not stat.S_ISREG(mode):
        raise _not_regular(path, mode)
    try:
        descriptor = os.open(path, flags | getattr(os, "O_BINARY", 0))
    except OSError as error:
        raise _Found("submission.unreadable", file=_shown(path), error=_reason(error)) from None
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise _not_regular(path, found.st_mode)
        if found.st_size > FILE_BYTES:
            raise _Found("submission.too_large", file=path.name, size=found.st_size, most=FILE_BYTES)
        return file.read(FILE_BYTES + 1)[:FILE_BYTES]


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
                raise _Found("submission.not_text", Verdict.SYNTAX_ERROR, file=name, kind=encoding.upper()) from None
            return text, [Note("submission.saved_as", {"file": name, "encoding": encoding.upper()})]
    kind = _other_kind(data)
    if kind:
        raise _Found("submission.not_text", Verdict.SYNTAX_ERROR, file=name, kind=kind)
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
    raise _Found("submission.encoding", Verdict.SYNTAX_ERROR, file=name, line=line)


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
        raise _Found("submission.empty_file", file=name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source, name)
    except SyntaxError as error:
        raise _syntax(error, source, name) from None
    except (RecursionError, MemoryError):
        raise _Found("submission.nested", Verdict.SYNTAX_ERROR, file=name) from None
    except ValueError as error:
        raise _Found("submission.cannot_parse", Verdict.SYNTAX_ERROR, file=name, error=str(error)) from None
    if not tree.body:
        raise _Found("submission.only_comments", file=name)
    return tree


def _syntax(error: SyntaxError, source: str, name: str) -> _Found:
    lines = source.split("\n")
    line = min(max(error.lineno or 1, 1), len(lines))
    column = max(error.offset or 1, 1)
    start = max(0, column - 40)
    shown = lines[line - 1][start : start + 60].replace("\t", " ")
    caret = "".join("  " if east_asian_width(letter) in "WF" else " " for letter in shown[: column - 1 - start]) + "^"
    found = _Found(
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
        raise _Found("submission.other_exercise", file=name, other=other.slug, slug=exercise.slug)


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


def helpers(main: Path, source: str, tree: ast.Module) -> tuple[dict[str, str], list[Note]]:
    """The other Python files beside and below the main one; those it imports come first where there are too many."""
    root = main.parent
    wanted = _imported(tree)
    candidates = [file for file in _python_files(root, DEEPEST) if file != main]
    candidates.sort(key=lambda file: (not wanted & set(file.relative_to(root).with_suffix("").parts), str(file)))
    files: dict[str, str] = {}
    left_out: list[str] = []
    size = len(source)
    for file in candidates:
        relative = file.relative_to(root).as_posix()
        if len(files) >= MOST_FILES or size >= ALL_BYTES:
            left_out.append(relative)
            continue
        try:
            text, _ = read_python(file)
        except _Found:
            left_out.append(relative)
            continue
        files[relative] = text
        size += len(text)
    needed = [name for name in left_out if wanted & set(name.removesuffix(".py").split("/"))]
    notes = [Note("submission.left_out", {"count": len(needed), "files": ", ".join(needed[:3])})] if needed else []
    return files, notes


def _imported(tree: ast.Module) -> set[str]:
    """Every part of every module name that the file imports."""
    parts: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            parts.update(part for alias in node.names for part in alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            parts.update((node.module or "").split("."), (alias.name for alias in node.names))
    return parts - {""}
