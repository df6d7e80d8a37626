"""Where a submission's files are: in a folder on disk, in an archive, in a commit. Names, kinds and bytes.

Paths are relative, with "/" between the parts; "" is the folder itself. Links are never followed, opening never
blocks, and nothing is written anywhere.
"""

from __future__ import annotations

import enum
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from grader import messages
from grader.results import Location, Verdict

MOST_ENTRIES = 5_000  # names looked at in one folder
REPORTS = "grade-reports"  # the folder that our own reports go to
SKIPPED_FOLDERS = {"__MACOSX", "__pycache__", "site-packages", "node_modules", "venv", REPORTS}
SKIPPED_FILES = {"thumbs.db", "desktop.ini"}


class Refused(Exception):
    """Why a file or folder is not taken: the parts of a Problem, carried out of the step that met it."""

    def __init__(self, key: str, verdict: Verdict = Verdict.MISSING, /, **params: object) -> None:
        super().__init__(key)
        self.key, self.verdict, self.params = key, verdict, params
        self.location: Location | None = None

    def sentence(self, lang: str) -> str:
        return messages.text(self.key, lang, **self.params)

    def __str__(self) -> str:
        return self.sentence("en")


class Kind(enum.StrEnum):
    """What stands at a path. An archive is a file that is shown as the folder it holds."""

    FILE = "file"
    FOLDER = "folder"
    ARCHIVE = "archive"
    LINK = "link"
    PIPE = "pipe"
    SOCKET = "socket"
    DEVICE = "device"


@dataclass(frozen=True)
class Entry:
    """One name in a folder."""

    name: str
    kind: Kind


class Files(Protocol):
    """A folder, wherever it is. Its values are compared and hashed by what they point to."""

    def shown(self, path: str) -> str:
        """The path as a person would look for it."""

    def kind(self, path: str) -> Kind | None:
        """What stands there, None where nothing does."""

    def entries(self, folder: str) -> list[Entry]:
        """What a folder holds, sorted, without what systems and editors leave behind."""

    def open(self, path: str) -> BinaryIO:
        """A regular file, to read and seek in."""

    def read(self, path: str, most: int) -> bytes:
        """The bytes of a regular file, which must not be more than `most`."""


def join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder and name else folder or name


def visible(name: str) -> bool:
    """Whether a name is more than what a system leaves behind: `.DS_Store`, `._x.py`, `.git`, `__MACOSX`, `venv`."""
    return not name.startswith(".") and name not in SKIPPED_FOLDERS and name.lower() not in SKIPPED_FILES


def readable(name: str) -> str:
    """A file name as text: one whose bytes are not UTF-8 is read as GBK, else its bytes are spelled out."""
    try:
        name.encode("utf-8")
        return name
    except UnicodeEncodeError:
        data = name.encode("utf-8", "surrogateescape")
    try:
        return data.decode("gb18030")
    except UnicodeDecodeError:
        return data.decode("utf-8", "backslashreplace")


def not_regular(kind: Kind, shown: str) -> Refused:
    return Refused(f"submission.is_{kind.value}", file=shown)


def reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


# ---- on disk


@dataclass(frozen=True)
class Disk:
    """A folder on disk."""

    root: Path
    most_entries: int = MOST_ENTRIES

    def at(self, path: str) -> Path:
        return self.root / path if path else self.root

    def shown(self, path: str) -> str:
        """Relative to the current folder where it is inside; a folder's own name for `.`."""
        place = self.at(path)
        try:
            relative = place.absolute().relative_to(Path.cwd())
            return readable(relative.as_posix() if relative.name else place.absolute().name or "/")
        except (ValueError, OSError):
            return readable(place.as_posix())

    def kind(self, path: str) -> Kind | None:
        try:
            return None if self._behind_link(path) else _kind_of(os.lstat(self.at(path)).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            raise Refused("submission.unreadable", file=self.shown(path), error=reason(error)) from None

    def _behind_link(self, path: str) -> bool:
        """Whether a folder on the way is a link, to another student's work or to the solutions."""
        parts = path.split("/")
        return any(self.at("/".join(parts[:end])).is_symlink() for end in range(1, len(parts)))

    def entries(self, folder: str) -> list[Entry]:
        kept: list[Entry] = []
        try:
            with os.scandir(self.at(folder)) as entries:
                for looked_at, entry in enumerate(entries):
                    if looked_at >= self.most_entries:
                        break
                    if visible(entry.name):
                        kept.append(Entry(entry.name, _kind_of_entry(entry)))
        except OSError as error:
            raise Refused("submission.unreadable", file=self.shown(folder), error=reason(error)) from None
        return sorted(kept, key=lambda entry: entry.name)

    def open(self, path: str) -> BinaryIO:
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
        kind = self.kind(path)
        if kind is None:
            raise Refused("submission.no_path", path=self.shown(path))
        if kind is not Kind.FILE:
            raise not_regular(kind, self.shown(path))
        try:
            descriptor = os.open(self.at(path), flags | getattr(os, "O_BINARY", 0))
        except OSError as error:
            raise Refused("submission.unreadable", file=self.shown(path), error=reason(error)) from None
        file = os.fdopen(descriptor, "rb")
        kind = _kind_of(os.fstat(descriptor).st_mode)
        if kind is not Kind.FILE:
            file.close()
            raise not_regular(kind, self.shown(path))
        return file

    def read(self, path: str, most: int) -> bytes:
        with self.open(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size > most:
                raise Refused("submission.too_large", file=readable(self.at(path).name), size=size, most=most)
            return file.read(most + 1)[:most]


def _kind_of(mode: int) -> Kind:
    kinds = {
        stat.S_IFREG: Kind.FILE,
        stat.S_IFDIR: Kind.FOLDER,
        stat.S_IFLNK: Kind.LINK,
        stat.S_IFIFO: Kind.PIPE,
        stat.S_IFSOCK: Kind.SOCKET,
    }
    return kinds.get(stat.S_IFMT(mode), Kind.DEVICE)


def _kind_of_entry(entry: os.DirEntry[str]) -> Kind:
    if entry.is_symlink():
        return Kind.LINK
    if entry.is_dir(follow_symlinks=False):
        return Kind.FOLDER
    if entry.is_file(follow_symlinks=False):
        return Kind.FILE
    try:
        return _kind_of(entry.stat(follow_symlinks=False).st_mode)
    except OSError:
        return Kind.DEVICE


# ---- from several places


@dataclass(frozen=True)
class Mount:
    """`at` is a name in the gathered folder, or "" for all that the folder at `path` of `files` holds."""

    at: str
    files: Files
    path: str


@dataclass(frozen=True)
class Gathered:
    """Files and folders from several places seen as one folder; `name` is what the whole is called."""

    name: str
    mounts: tuple[Mount, ...]

    def _find(self, path: str) -> tuple[Files, str] | None:
        head, _, rest = path.partition("/")
        for mount in self.mounts:
            if mount.at == "":
                return mount.files, join(mount.path, path)
            if mount.at == head:
                return mount.files, join(mount.path, rest)
        return None

    def shown(self, path: str) -> str:
        found = self._find(path)
        return found[0].shown(found[1]) if found else join(self.name, readable(path))

    def kind(self, path: str) -> Kind | None:
        found = self._find(path)
        return found[0].kind(found[1]) if found else (Kind.FOLDER if path == "" else None)

    def entries(self, folder: str) -> list[Entry]:
        found = self._find(folder)
        return found[0].entries(found[1]) if found else _entries_of(self.mounts)

    def open(self, path: str) -> BinaryIO:
        files, inner = self.found(path)
        return files.open(inner)

    def read(self, path: str, most: int) -> bytes:
        files, inner = self.found(path)
        return files.read(inner, most)

    def found(self, path: str) -> tuple[Files, str]:
        """The place that a path stands for."""
        found = self._find(path)
        if found is None:
            raise Refused("submission.no_path", path=self.shown(path))
        return found


def _entries_of(mounts: Iterable[Mount]) -> list[Entry]:
    kinds = ((mount.at, mount.files.kind(mount.path)) for mount in mounts)
    return sorted((Entry(at, kind) for at, kind in kinds if kind and visible(at)), key=lambda entry: entry.name)
