"""Where workers come from: a zygote that forks them, or fresh processes."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

import msgspec

from grader.isolation import ladder
from grader.isolation.limits import IsolationError, Limits, Unavailable
from grader.isolation.processes import Forked, Spawned, python
from grader.results import Isolation
from grader.worker import lockdown, zygote

if TYPE_CHECKING:
    from grader.isolation.workers import Worker

Mode = Literal["best", "require"]
_RESTARTS = 3


def start(
    limits: Limits | None = None,
    mode: Mode = "best",
    hidden: Iterable[str | Path] = (),
    fork: bool | None = None,
    without: Iterable[str] = (),
) -> Zygote:
    """Starts a zygote and returns at once; torch is imported there while the judge goes on.

    Args:
        limits: what each call may use.
        mode: with "require", `worker()` raises Unavailable unless every layer holds.
        hidden: folders and files that no worker may read, wherever they are (the course's solutions).
        fork: False makes each worker a fresh process, as where fork is not to be had.
        without: layers to leave out, in tests of the ladder.
    """
    return Zygote(limits or Limits(), mode, hidden, sys.platform == "linux" if fork is None else fork, without)


def describe(lang: str = "en", limits: Limits | None = None) -> Isolation:
    """What stands between a submission and this machine. It is tried: a worker is started for it."""
    with start(limits) as made:
        return made.describe(lang)


class Zygote:
    """Where workers come from. Close it, or use it as a context manager. Threads may share it."""

    def __init__(
        self, limits: Limits, mode: Mode, hidden: Iterable[str | Path], fork: bool, without: Iterable[str]
    ) -> None:
        self.limits, self.mode, self.forks = limits, mode, fork
        bounds = lockdown.Bounds(limits.memory_bytes, limits.cpu_seconds_of_a_worker, limits.open_files)
        self.without = list(without)
        self._setup = zygote.Setup(bounds, [str(Path(path).resolve()) for path in hidden], self.without)
        self._lock = threading.RLock()
        self.process: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None
        self._errors: Any = None
        self._spare: _Fresh | None = None
        self._closed = False
        self._layers: list[lockdown.Layer] | None = None
        if fork:
            self._launch()
        else:
            self._spare = _Fresh(self._setup)

    def worker(self) -> Worker:
        """A worker that is locked down and ready, forked or fresh. Restarts the zygote where it was killed."""
        with self._lock:
            if self._closed:
                raise IsolationError("the zygote is closed")
            made = self._fork() if self.forks else self._spawn()
        if self.mode == "require" and made.isolation().level != ladder.CONTAINED:
            made.close()
            raise Unavailable(made.isolation())
        self._layers = made.layers
        return made

    def describe(self, lang: str = "en") -> Isolation:
        """What stands between a submission and this machine; a worker is started where none has been yet."""
        if self._layers is None:
            self.worker().close()
        return ladder.described(self._layers or [], lang)

    def alive(self) -> bool:
        """Whether the zygote's process runs."""
        return self.process is not None and self.process.poll() is None

    def reap(self, pid: int) -> zygote.Ended:
        """How a worker ended; unknown where the zygote itself is gone."""
        with self._lock:
            try:
                assert self._line is not None
                zygote.send(self._line, zygote.Reap(pid))
                ended = zygote.receive(self._line, zygote.FromZygote)
            except (OSError, AssertionError):
                ended = None
            return ended if isinstance(ended, zygote.Ended) else zygote.Ended(None)

    def close(self) -> None:
        """Ends the zygote, and with it every worker that still runs."""
        with self._lock:
            self._closed = True
            self._end_process()
            if self._spare is not None:
                self._spare.close()
                self._spare = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _launch(self) -> None:
        ours, theirs = socket.socketpair()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        with theirs:
            self.process = python(["zygote"], [theirs], self._errors)
        self._line = ours
        self._ready = False
        zygote.send(ours, self._setup)

    def _end_process(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
            self._errors.close()

    def _await_ready(self) -> None:
        assert self._line is not None
        self._line.settimeout(self.limits.startup_seconds)
        if not self._ready:
            message = zygote.receive(self._line, zygote.FromZygote)
            if not isinstance(message, zygote.Ready):
                raise ConnectionError("it ended before it was ready")
            self._ready = True

    def _fork(self) -> Worker:
        reason: object = None
        for _ in range(_RESTARTS):
            if not self.alive():
                self._end_process()
                self._launch()
            try:
                self._await_ready()
                return self._fork_once()
            except (OSError, msgspec.DecodeError) as error:
                reason = f"{error}. {self._complaint()}"
                self._end_process()
        raise IsolationError(f"no worker could be started: {reason}")

    def _fork_once(self) -> Worker:
        assert self._line is not None
        line, their_line = socket.socketpair()
        output, their_output = socket.socketpair()
        with their_line, their_output:
            data = msgspec.msgpack.encode(zygote.Fork(self.without))
            descriptors = [their_line.fileno(), their_output.fileno()]
            socket.send_fds(self._line, [len(data).to_bytes(4, "little") + data], descriptors)
        size, pidfds, _, _ = socket.recv_fds(self._line, 4, 1)
        if len(size) < 4:
            raise ConnectionError("the zygote ended")
        forked = msgspec.msgpack.decode(self._line.recv(int.from_bytes(size, "little")), type=zygote.Forked)
        from grader.isolation.workers import Worker  # brings torch

        return Worker(Forked(self, forked.pid, pidfds[0] if pidfds else None), line, output, self.limits)

    def _spawn(self) -> Worker:
        fresh, self._spare = self._spare or _Fresh(self._setup), None
        from grader.isolation.workers import Worker  # brings torch

        return Worker(Spawned(fresh.process), fresh.line, fresh.output, self.limits)

    def _complaint(self) -> str:
        """The end of what the zygote wrote to stderr."""
        try:
            self._errors.seek(0)
            said: str = self._errors.read().decode("utf-8", "replace").strip()
        except (OSError, ValueError):
            return ""
        return said[-2000:]


class _Fresh:
    """A process that becomes a single worker, started and not yet used."""

    def __init__(self, setup: zygote.Setup) -> None:
        self.line, their_line = socket.socketpair()
        self.output, their_output = socket.socketpair()
        with their_line, their_output:
            self.process = python(["single"], [their_line, their_output], subprocess.DEVNULL)
        zygote.send(self.line, setup)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.line.close()
        self.output.close()
