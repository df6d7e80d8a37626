"""Who may use this machine: judges side by side, or one of them alone.

A time limit that was reached counts only if it is reached again while no other judge is at work (`alone`). Two files
are locked: whoever begins passes the gate, and whoever wants to be alone keeps it shut, so that nobody is overtaken
for ever. The system lets go of the locks of a process that ends, however it ends.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

LONGEST_WAIT = 60.0  # seconds; a judge that was stopped must not stop the others for ever


class Turns(Protocol):
    """What a judge asks before it puts a question."""

    def together(self) -> contextlib.AbstractContextManager[None]: ...

    def alone(self) -> contextlib.AbstractContextManager[None]: ...

    def close(self) -> None: ...


class Unshared:
    """The turns of a judge that is the only one."""

    def together(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def alone(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def close(self) -> None:
        pass


class Shared:
    """The turns of all judges of one user on this machine, as files in `folder`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._gate = (folder / "gate").open("ab")
        self._work = (folder / "work").open("ab")

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Inside, others may be at work, and nobody is alone."""
        _lock(self._gate, exclusive=False)
        _lock(self._work, exclusive=False)
        _unlock(self._gate)
        try:
            yield
        finally:
            _unlock(self._work)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Inside, no other judge is at work; it waits for what they have begun, and they wait for it."""
        _lock(self._gate, exclusive=True)
        _lock(self._work, exclusive=True)
        try:
            yield
        finally:
            _unlock(self._work)
            _unlock(self._gate)

    def close(self) -> None:
        self._gate.close()
        self._work.close()


def machine() -> Turns:
    """The turns of this machine; nobody waits where its system has no such locks."""
    try:
        import fcntl  # noqa: F401

        return Shared(Path(tempfile.gettempdir()) / f"grade-turns-{os.getuid()}")
    except (ImportError, OSError):
        return Unshared()


def _lock(file: Any, exclusive: bool) -> None:
    import fcntl

    kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
    deadline = time.monotonic() + LONGEST_WAIT
    while time.monotonic() < deadline:
        try:
            return fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.005)


def _unlock(file: Any) -> None:
    import fcntl

    fcntl.flock(file, fcntl.LOCK_UN)
