"""A cloned repository -> the files of its last commit.

The repository was written by a student, its `.git` included, so git is never run *in* it: no configuration, hook,
filter or file system monitor of its own is read. An empty repository in a temporary folder borrows its objects, and
git only lists a commit and prints blobs. A file of the working tree that is the committed one, told by its hash, is
read from there without git.
"""

from __future__ import annotations

import functools
import hashlib
import io
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from grader.files import Disk, Entry, Files, Kind, Refused, join, not_regular, readable, visible

MOST_LISTED = 10_000_000  # bytes of the list of a commit's files
MOST_BYTES = 64_000_000  # of one file, an archive for example
SECONDS = 30
HASH = re.compile(r"[0-9a-f]{40}")
KINDS = {"100644": Kind.FILE, "100664": Kind.FILE, "100755": Kind.FILE, "120000": Kind.LINK}
QUIET = ("-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}", "-c", "safe.directory=*")


@dataclass(frozen=True)
class Blob:
    kind: Kind
    hash: str
    size: int


@dataclass(frozen=True)
class Commit:
    """The commit `hash` of the repository whose `.git` is `git`; `tree` is its working tree, None in a bare one."""

    git: Path
    hash: str
    tree: Path | None
    name: str

    def shown(self, path: str) -> str:
        return join(Disk(self.tree or self.git).shown(""), readable(path))

    def kind(self, path: str) -> Kind | None:
        blobs, folders = _listing(self)
        return Kind.FOLDER if path in folders else blobs[path].kind if path in blobs else None

    def entries(self, folder: str) -> list[Entry]:
        found = _listing(self)[1].get(folder, {})
        return [Entry(name, kind) for name, kind in sorted(found.items()) if visible(name)]

    def open(self, path: str) -> BinaryIO:
        return io.BytesIO(self.read(path, MOST_BYTES))

    def read(self, path: str, most: int) -> bytes:
        blob = _listing(self)[0].get(path)
        if blob is None:
            raise Refused("submission.no_path", path=self.shown(path))
        if blob.kind is not Kind.FILE:
            raise not_regular(blob.kind, self.shown(path))
        if blob.size > most:
            raise Refused("submission.too_large", file=readable(path.rpartition("/")[2]), size=blob.size, most=most)
        data = self._checked_out(path, blob)
        if data is None:
            data = _git(self.git, blob.size, "cat-file", "blob", blob.hash)
        if data is None or len(data) != blob.size:
            raise Refused("submission.unreadable", file=self.shown(path), error=f"git cat-file {blob.hash}")
        return data

    def _checked_out(self, path: str, blob: Blob) -> bytes | None:
        """The file of the working tree, if it is the committed one."""
        if self.tree is None:
            return None
        try:
            data = Disk(self.tree).read(path, blob.size)
        except Refused:
            return None
        header = f"blob {len(data)}\0".encode()
        return data if hashlib.sha1(header + data, usedforsecurity=False).hexdigest() == blob.hash else None


def is_repository(files: Files, folder: str) -> bool:
    """Whether a folder on disk is a clone, or a bare repository."""
    if not isinstance(files, Disk):
        return False
    return files.kind(join(folder, ".git")) is Kind.FOLDER or _is_bare(files, folder)


def _is_bare(files: Disk, folder: str) -> bool:
    wanted = {"HEAD": Kind.FILE, "objects": Kind.FOLDER, "refs": Kind.FOLDER}
    return all(files.kind(join(folder, name)) is kind for name, kind in wanted.items())


def last_commit(disk: Disk, folder: str) -> Files:
    """The commit that is checked out (the default branch's last one, in a clone or a bare repository).

    Where git is not installed or cannot read the repository, the working tree as it is.

    Raises:
        Refused: there is no commit.
    """
    place = disk.at(folder)
    bare = _is_bare(disk, folder)
    git = place if bare else place / ".git"
    commit = _head(git)
    if commit == "":
        raise Refused("intake.no_commit", folder=disk.shown(folder))
    found = Commit(git, commit or "", None if bare else place, place.name)
    if commit is None or shutil.which("git") is None or _listing(found) == ({}, {"": {}}):
        return Disk(place)
    return found


def _head(git: Path) -> str | None:
    """The hash that HEAD stands for; "" for a branch without commits, None where that cannot be told."""
    head = _line(git, "HEAD")
    if HASH.fullmatch(head):
        return head
    branch = head.removeprefix("ref: ").strip()
    if not re.fullmatch(r"refs/heads/[^\0\s~^:?*\[\\]+", branch) or ".." in branch:
        return None
    found = _line(git, branch)
    if HASH.fullmatch(found):
        return found
    for line in _text(git, "packed-refs").split("\n"):
        hash, _, name = line.partition(" ")
        if name == branch and HASH.fullmatch(hash):
            return hash
    return "" if Disk(git).kind("reftable") is None else None


def _line(git: Path, name: str) -> str:
    return _text(git, name).split("\n")[0].strip()


def _text(git: Path, name: str) -> str:
    try:
        return Disk(git).read(name, 10_000_000).decode("utf-8", "replace")
    except Refused:
        return ""


Listing = tuple[dict[str, Blob], dict[str, dict[str, Kind]]]


@functools.lru_cache(maxsize=64)
def _listing(commit: Commit) -> Listing:
    """The files of a commit, and what each folder holds; nothing where git cannot read it."""
    blobs: dict[str, Blob] = {}
    folders: dict[str, dict[str, Kind]] = {"": {}}
    listed = _git(commit.git, MOST_LISTED, "ls-tree", "-r", "-l", "-z", "--full-tree", commit.hash) or b""
    for line in listed.split(b"\0"):
        about, _, raw = line.partition(b"\t")
        mode, _, hash, size = [*about.decode("ascii", "replace").split(), "", "", "", ""][:4]
        path = raw.decode("utf-8", "surrogateescape")
        if mode not in KINDS or not size.isdigit() or ".." in path.split("/"):
            continue
        kind = KINDS[mode]
        blobs[path] = Blob(kind, hash, int(size))
        while path:
            path, _, name = path.rpartition("/")
            folders.setdefault(path, {})[name] = kind
            kind = Kind.FOLDER
    return blobs, folders


def _git(git: Path, most: int, *arguments: str) -> bytes | None:
    """What git prints, run in an empty repository that borrows the objects of `git`."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environ |= {
        "GIT_OBJECT_DIRECTORY": str((git / "objects").absolute()),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
    }
    with tempfile.TemporaryDirectory(prefix="grade-git-") as empty:
        for name in ("refs", "objects"):
            Path(empty, name).mkdir()
        Path(empty, "HEAD").write_text("ref: refs/heads/none\n", encoding="ascii")
        command = ["git", *QUIET, "--git-dir", empty, *arguments]
        return _printed(command, environ, most)


def _printed(command: Sequence[str], environ: Mapping[str, str], most: int) -> bytes | None:
    """Standard output of a command that ends well, in time and with at most so many bytes."""
    quiet = subprocess.DEVNULL
    try:
        process = subprocess.Popen(command, env=environ, stdin=quiet, stdout=subprocess.PIPE, stderr=quiet)
    except OSError:
        return None
    alarm = threading.Timer(SECONDS, process.kill)
    alarm.start()
    try:
        with process:
            printed = process.stdout.read(most + 1) if process.stdout else b""
            if len(printed) > most:
                process.kill()
    finally:
        alarm.cancel()
    return printed if process.returncode == 0 and len(printed) <= most else None


def forget() -> None:
    """Repositories may have changed since they were looked at."""
    _listing.cache_clear()
