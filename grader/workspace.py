"""A learner's folder: begin it, see what has been begun, wait for the next save."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from grader.exercises import LESSONS, Exercise
from grader.files import REPORTS
from grader.submissions import Submission


def begin(exercises: Iterable[Exercise], folder: Path, force: bool = False) -> Iterator[tuple[Path, str]]:
    """Writes stub and lessons of each exercise to `folder/exNN_slug/`; yields each file and what became of it.

    That is "written", "same" (nothing to do), or "kept": it differs and `force` was not given.
    """
    for exercise in exercises:
        for name, content in _files(exercise):
            path = folder / exercise.slug / name
            yield path, _place(path, content, force)


def _files(exercise: Exercise) -> Iterator[tuple[str, str]]:
    yield exercise.module, exercise.stub
    for name in LESSONS.values():
        if (exercise.folder / name).is_file():
            yield name, (exercise.folder / name).read_text(encoding="utf-8")


def _place(path: Path, content: str, force: bool) -> str:
    if path.exists():
        if path.is_file() and path.read_bytes() == content.encode():
            return "same"
        if not force:
            return "kept"
    write(path, content)
    return "written"


def write(path: Path, content: str) -> None:
    """Writes UTF-8 text as a whole or not at all, and the folders it stands in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(content)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def begun(exercise: Exercise, submission: Submission) -> bool:
    """Whether anything differs from the stub."""
    return submission.files[submission.main].strip() != exercise.stub.strip()


def report_folder() -> Path:
    """Where reports go that nobody asked for elsewhere: `grade-reports` here, or a temporary folder if that fails."""
    here = Path(REPORTS)
    try:
        here.mkdir(exist_ok=True)
        if os.access(here, os.W_OK):
            return here
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix=f"{REPORTS}-"))


def saves(path: Path, every: float = 0.5) -> Iterator[None]:
    """Yields after each change of a Python file at or below `path`.

    It compares times and sizes, so that it also works on network and container mounts that announce no changes.
    """
    seen = _stamps(path)
    for _ in _pauses(path, every):
        now = _stamps(path)
        if now != seen:
            seen = now
            yield


def _pauses(path: Path, every: float) -> Iterator[None]:
    """Yields after `every` seconds, sooner where watchfiles (the extra `watch`) is told of a change."""
    try:
        from watchfiles import watch
    except ImportError:
        while True:
            time.sleep(every)
            yield
    yield from (None for _ in watch(path, rust_timeout=int(1000 * every), yield_on_timeout=True))


def _stamps(path: Path) -> dict[str, tuple[int, int]]:
    stamps: dict[str, tuple[int, int]] = {}
    files = [path] if path.is_file() else (file for depth in ("*", "*/*", "*/*/*") for file in path.glob(f"{depth}.py"))
    for file in files:
        try:
            found = file.stat()
        except OSError:
            continue
        stamps[str(file)] = (found.st_mtime_ns, found.st_size)
    return stamps
