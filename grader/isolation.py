"""Starts workers, holds them to their limits, ends them, and says in one word how each one ended.

    with isolation.start(Limits()) as zygote, zygote.worker() as worker:
        reply = worker.ask(wire.Load(files, main))

The judge owns the clock: a worker is never asked how long it took, and whatever ends it has a verdict that is
decided here (`WorkerEnded`). Where fork is safe (Linux), workers are forked from a zygote in milliseconds; elsewhere
each is a fresh process, the first of which is started at once, while the judge is still importing.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Protocol, Self

import msgspec

from grader import wire
from grader.messages import text
from grader.results import Isolation, Layer, Verdict
from grader.worker import lockdown, zygote

Mode = Literal["best", "require"]
CONTAINED, LIMITS_ONLY, NONE = "contained", "limits_only", "none"

_SLICE = 0.1  # seconds between two looks at the clock of a busy worker
_GRACE = 0.5  # seconds for a worker that hung up to end on its own
_CHUNK = 1 << 18
_HELLO_MAX = 1 << 16
_RESTARTS = 3


class Limits(msgspec.Struct, frozen=True):
    """What a submission may use. Times count from when the worker is ready, one call at a time."""

    cpu_seconds_per_call: float = 10.0
    wall_seconds_per_call: float = 30.0
    startup_seconds: float = 90.0  # for our own imports; never charged to a submission
    memory_bytes: int = 2 << 30
    output_bytes_kept: int = 20_000
    output_bytes_max: int = 64 << 20
    open_files: int = 64
    threads: int = 64
    cpu_seconds_of_a_worker: int = 3600


class WorkerEnded(Exception):
    """The worker is gone. `verdict` says how; `detail` has what a sentence about it needs:

    `call` (what was asked), `seconds` and `cpu_seconds` (measured), and by verdict `limit` and `clock` ("cpu" or
    "wall"), `signal` (its name), `code` (of the exit), `cause` (a word of our own).
    """

    def __init__(self, verdict: Verdict, detail: dict[str, Any]) -> None:
        super().__init__(f"{verdict.value}: {detail}")
        self.verdict = verdict
        self.detail = detail


class IsolationError(Exception):
    """No worker can be had: our fault, or the machine's, never the submission's."""


class IsolationUnavailable(IsolationError):
    """The machine does not give the isolation that was required; `isolation` says which layers are missing."""

    def __init__(self, isolation: Isolation) -> None:
        missing = ", ".join(f"{layer.name} ({layer.detail})" for layer in isolation.layers if not layer.enforced)
        super().__init__(f"the isolation that was required is not to be had here; missing: {missing}")
        self.isolation = isolation


# -------------------------------------------------------------------------------------------- processes


class _Process(Protocol):
    """A worker's process, forked or fresh."""

    pid: int

    def kill(self) -> None: ...

    def gone(self, patience: float) -> bool:
        """Whether it has ended, waiting for that up to `patience` seconds."""

    def reap(self) -> zygote.Ended: ...


class _Forked:
    """A child of the zygote, which reaps it for us; until then its process id is nobody else's."""

    def __init__(self, owner: Zygote, pid: int, pidfd: int | None) -> None:
        self.owner, self.pid, self.pidfd = owner, pid, pidfd
        self._ended: zygote.Ended | None = None

    def kill(self) -> None:
        if self._ended is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            if self.pidfd is not None:
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
            elif self.owner.alive():
                os.kill(self.pid, signal.SIGKILL)

    def gone(self, patience: float) -> bool:
        if self.pidfd is not None:
            return bool(select.select([self.pidfd], [], [], patience)[0])
        deadline = time.monotonic() + patience
        while not _is_zombie(self.pid):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.002)
        return True

    def reap(self) -> zygote.Ended:
        if self._ended is None:
            self._ended = self.owner.reap(self.pid)
            if self.pidfd is not None:
                os.close(self.pidfd)
                self.pidfd = None
        return self._ended


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


class _Spawned:
    """A process of its own, a child of the judge."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process, self.pid = process, process.pid

    def kill(self) -> None:
        self.process.kill()

    def gone(self, patience: float) -> bool:
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            return False
        return True

    def reap(self) -> zygote.Ended:
        return zygote.Ended(self.process.wait() if self.gone(5.0) else None)


def _python(arguments: list[str], sockets: list[socket.socket], errors: Any) -> subprocess.Popen[bytes]:
    """A clean interpreter on the zygote's script: no path but its own, a scrubbed environment, no other descriptor."""
    command = [sys.executable, "-s", "-P", zygote.__file__, *arguments]
    options: dict[str, Any] = {"env": _environment(), "stdout": errors, "stderr": errors}
    if os.name == "posix":
        numbers = [one.fileno() for one in sockets]
        command += [str(number) for number in numbers]
        return subprocess.Popen(command, pass_fds=numbers, stdin=subprocess.DEVNULL, **options)
    process = subprocess.Popen(command, stdin=subprocess.PIPE, **options)
    assert process.stdin is not None
    for one in sockets:
        shared: bytes = one.share(process.pid)  # type: ignore[attr-defined,unused-ignore]
        process.stdin.write(len(shared).to_bytes(4, "little") + shared)
    process.stdin.close()
    return process


def _environment() -> dict[str, str]:
    kept = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "TEMP", "TMP", "USERPROFILE")
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    return {
        **{name: os.environ[name] for name in kept if name in os.environ},
        **one_thread,
        "MALLOC_ARENA_MAX": "1",  # an arena for each thread would eat the memory limit
        "TORCHDYNAMO_DISABLE": "1",
        "KINETO_LOG_LEVEL": "99",
        "PYTHONHASHSEED": "0",  # the same submission, the same order of its sets
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUTF8": "1",
        "LANG": "C.UTF-8",
    }


# ----------------------------------------------------------------------------------------------- zygote


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
        mode: with "require", `worker()` raises IsolationUnavailable unless every layer holds.
        hidden: folders and files that no worker may read, wherever they are (the course's solutions).
        fork: False makes each worker a fresh process, as where fork is not to be had.
        without: layers to leave out, in tests of the ladder.
    """
    return Zygote(limits or Limits(), mode, hidden, sys.platform == "linux" if fork is None else fork, without)


class Zygote:
    """Where workers come from. Close it, or use it as a context manager. Threads may share it."""

    def __init__(
        self, limits: Limits, mode: Mode, hidden: Iterable[str | Path], fork: bool, without: Iterable[str]
    ) -> None:
        self.limits, self.mode, self.forks = limits, mode, fork
        bounds = lockdown.Bounds(limits.memory_bytes, limits.cpu_seconds_of_a_worker, limits.open_files)
        self._setup = zygote.Setup(bounds, [str(Path(path).resolve()) for path in hidden], list(without))
        self._lock = threading.RLock()
        self._process: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None
        self._errors: Any = None
        self._spare: _Fresh | None = None
        self._closed = False
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
        if self.mode == "require" and made.isolation().level != CONTAINED:
            made.close()
            raise IsolationUnavailable(made.isolation())
        _remember(made.layers)
        return made

    def alive(self) -> bool:
        """Whether the zygote's process runs."""
        return self._process is not None and self._process.poll() is None

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
            self._process = _python(["zygote"], [theirs], self._errors)
        self._line = ours
        self._ready = False
        zygote.send(ours, self._setup)

    def _end_process(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
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
            data = msgspec.msgpack.encode(zygote.Fork())
            descriptors = [their_line.fileno(), their_output.fileno()]
            socket.send_fds(self._line, [len(data).to_bytes(4, "little") + data], descriptors)
        size, pidfds, _, _ = socket.recv_fds(self._line, 4, 1)
        if len(size) < 4:
            raise ConnectionError("the zygote ended")
        forked = msgspec.msgpack.decode(self._line.recv(int.from_bytes(size, "little")), type=zygote.Forked)
        return Worker(_Forked(self, forked.pid, pidfds[0] if pidfds else None), line, output, self.limits)

    def _spawn(self) -> Worker:
        fresh, self._spare = self._spare or _Fresh(self._setup), None
        return Worker(_Spawned(fresh.process), fresh.line, fresh.output, self.limits)

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
            self.process = _python(["single"], [their_line, their_output], subprocess.DEVNULL)
        zygote.send(self.line, setup)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.line.close()
        self.output.close()


# ----------------------------------------------------------------------------------------------- worker


class Worker:
    """One submission's process. `ask` answers or raises WorkerEnded; `close` ends it without a trace."""

    def __init__(self, process: _Process, line: socket.socket, output: socket.socket, limits: Limits) -> None:
        self._process, self._line, self._output, self.limits = process, line, output, limits
        self._kept = bytearray()
        self._printed = 0
        self._end: WorkerEnded | None = None
        try:
            self.layers = self._await_hello()
        except BaseException:
            self.close()
            raise
        line.setblocking(False)
        output.setblocking(False)

    def isolation(self, lang: str = "en") -> Isolation:
        """What stands between this worker and the machine."""
        return _described(self.layers, lang)

    def ask(self, request: wire.Request, wall_seconds: float | None = None) -> wire.Reply:
        """Sends a request and waits for its reply.

        Raises:
            WorkerEnded: the worker ended, or was ended, instead of answering; also on every later call.
            wire.FrameTooLarge: the request itself does not fit into a frame.
        """
        if self._end is not None:
            raise self._end
        frame = wire.encode(request)
        exchange = _Exchange(_named(request), _Clock(self._process.pid), wall_seconds or self.limits.wall_seconds_per_call)
        try:
            self._must_be_quiet()
            self._send_and_receive(frame, exchange)
            return wire.decode_reply(exchange.received)
        except wire.MalformedFrame as error:
            raise self._ended(Verdict.TAMPERED, exchange, cause=str(error)) from None
        except _HungUp:
            raise self._hung_up(exchange) from None
        except _Over as over:
            raise self._ended(over.verdict, exchange, **over.detail) from None

    def take_output(self) -> tuple[str, bool]:
        """What was printed since the last call of this, and whether it was cut."""
        if self._end is None:
            with contextlib.suppress(_Over):
                self._drain()
        said, cut = self._kept.decode("utf-8", "replace"), self._printed > len(self._kept)
        self._kept.clear()
        self._printed = 0
        return said, cut

    def close(self) -> None:
        """Kills the worker, if it still runs. Nothing survives it."""
        if self._end is None:
            self._end = WorkerEnded(Verdict.GRADER_ERROR, {"cause": "closed"})
        self._stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _await_hello(self) -> list[lockdown.Layer]:
        self._line.settimeout(self.limits.startup_seconds)
        try:
            hello = zygote.receive(self._line, zygote.Hello)
        except msgspec.DecodeError as error:
            raise ConnectionError(str(error)) from None
        if hello is None:
            raise ConnectionError("the worker ended before it was ready")
        return list(hello.layers)

    # ------------------------------------------------------------------------------------- the exchange

    def _must_be_quiet(self) -> None:
        """A worker that speaks without being asked is not ours."""
        try:
            early = self._line.recv(1)
        except BlockingIOError:
            return
        except ConnectionError:
            raise _HungUp from None
        if not early:
            raise _HungUp
        raise wire.MalformedFrame("an answer that nobody asked for")

    def _send_and_receive(self, frame: bytes, exchange: _Exchange) -> None:
        unsent = memoryview(frame)
        while True:
            if unsent:
                unsent = unsent[self._send(unsent) :]
            if self._receive(exchange):
                self._drain()
                return
            if self._wait(bool(unsent), exchange.patience(self.limits)):
                self._drain()
            self._check_limits(exchange)

    def _send(self, unsent: memoryview) -> int:
        try:
            return self._line.send(unsent)
        except BlockingIOError:
            return 0
        except ConnectionError:
            raise _HungUp from None

    def _receive(self, exchange: _Exchange) -> bool:
        """Takes what has come; True when the frame is complete."""
        while True:
            try:
                part = self._line.recv(_CHUNK)
            except BlockingIOError:
                return False
            except ConnectionError:
                raise _HungUp from None
            if not part:
                raise _HungUp
            exchange.received += part
            if exchange.complete():
                return True

    def _wait(self, sending: bool, patience: float) -> bool:
        """Waits for either socket; True when something was printed."""
        if not hasattr(select, "poll"):  # Windows
            readable, _, _ = select.select([self._line, self._output], [self._line] if sending else [], [], patience)
            return self._output in readable
        poll = select.poll()
        poll.register(self._line, select.POLLIN | (select.POLLOUT if sending else 0))
        poll.register(self._output, select.POLLIN)
        return any(number == self._output.fileno() for number, _ in poll.poll(patience * 1000))

    def _drain(self) -> None:
        """Takes what was printed; keeps its beginning, counts the rest."""
        while True:
            try:
                part = self._output.recv(_CHUNK)
            except (BlockingIOError, ConnectionError, OSError):
                return
            if not part:
                return
            room = self.limits.output_bytes_kept - len(self._kept)
            self._kept += part[: max(room, 0)]
            self._printed += len(part)
            if self._printed > self.limits.output_bytes_max:
                raise _Over(Verdict.OUTPUT_FLOOD, limit=self.limits.output_bytes_max)

    def _check_limits(self, exchange: _Exchange) -> None:
        limits = self.limits
        if exchange.cpu() > limits.cpu_seconds_per_call:
            raise _Over(Verdict.TIMEOUT, limit=limits.cpu_seconds_per_call, clock="cpu")
        if exchange.seconds() > exchange.wall_limit:
            raise _Over(Verdict.TIMEOUT, limit=exchange.wall_limit, clock="wall")
        if exchange.seconds() > _SLICE / 2 and _threads(self._process.pid) > limits.threads:
            raise _Over(Verdict.OUT_OF_MEMORY, limit=limits.threads, cause="threads")

    # --------------------------------------------------------------------------------------- the ending

    def _hung_up(self, exchange: _Exchange) -> WorkerEnded:
        """The line is cut: the worker ended on its own, or cut it."""
        if not self._process.gone(_GRACE):
            return self._ended(Verdict.TAMPERED, exchange, cause="hung up")
        code = self._process.reap().code
        if code is None:  # whoever could tell us is gone too: nothing that a submission can bring about
            return self._ended(Verdict.GRADER_ERROR, exchange, cause="zygote")
        verdict, detail = _of_exit(code, self.limits)
        return self._ended(verdict, exchange, **detail)

    def _ended(self, verdict: Verdict, exchange: _Exchange, **detail: object) -> WorkerEnded:
        """Ends the worker for good, and says how it ended."""
        measured = {"call": exchange.call, "seconds": exchange.seconds(), "cpu_seconds": exchange.cpu()}
        self._end = WorkerEnded(verdict, {**measured, **detail})
        self._stop()
        return self._end

    def _stop(self) -> None:
        self._process.kill()
        self._process.gone(5.0)
        self._process.reap()
        self._output.setblocking(False)
        if self._output.fileno() >= 0:
            with contextlib.suppress(_Over):
                self._drain()
        self._line.close()
        self._output.close()


class _HungUp(Exception):
    """The worker's end of the line is closed."""


class _Over(Exception):
    """A limit was passed."""

    def __init__(self, verdict: Verdict, **detail: object) -> None:
        super().__init__(verdict)
        self.verdict, self.detail = verdict, detail


class _Clock:
    """The CPU time that another process has used, where the system tells; else None."""

    def __init__(self, pid: int) -> None:
        self._id = (~pid << 3) | 2 if sys.platform == "linux" else None

    def seconds(self) -> float | None:
        if self._id is None:
            return None
        try:
            return time.clock_gettime(self._id)
        except OSError:
            return None  # it has ended


class _Exchange:
    """One request and what has come back so far."""

    def __init__(self, call: str, clock: _Clock, wall_limit: float) -> None:
        self.call, self.clock, self.wall_limit = call, clock, wall_limit
        self.received = bytearray()
        self._wanted: int | None = None
        self._began, self._cpu_began = time.monotonic(), clock.seconds()
        self._cpu = 0.0

    def complete(self) -> bool:
        """Whether the whole frame is here. Raises MalformedFrame for more than that, or for lengths out of bounds."""
        if self._wanted is None and len(self.received) >= wire.PREFIX.size:
            lengths = wire.lengths(bytes(self.received[: wire.PREFIX.size]), wire.REPLY_HEADER_MAX)
            self._wanted = wire.PREFIX.size + sum(lengths)
        if self._wanted is not None and len(self.received) > self._wanted:
            raise wire.MalformedFrame("more than one answer")
        return len(self.received) == self._wanted

    def seconds(self) -> float:
        return time.monotonic() - self._began

    def cpu(self) -> float:
        """CPU seconds of this call; what was measured last, where the process has ended since."""
        now = self.clock.seconds()
        if now is not None and self._cpu_began is not None:
            self._cpu = now - self._cpu_began
        return self._cpu

    def patience(self, limits: Limits) -> float:
        """How long to wait before the next look at the clocks."""
        left = min(self.wall_limit - self.seconds(), limits.cpu_seconds_per_call - self._cpu)
        return max(0.001, min(left, _SLICE))


def _threads(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[17])
    except (OSError, IndexError, ValueError):
        return 0


def _of_exit(code: int, limits: Limits) -> tuple[Verdict, dict[str, object]]:
    """The verdict on a process that ended without our doing."""
    if code >= 0:
        return Verdict.EXITED, {"code": code}
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    if name == "SIGXCPU":
        return Verdict.TIMEOUT, {"signal": name, "limit": limits.cpu_seconds_of_a_worker, "clock": "cpu"}
    if name == "SIGKILL":  # not by us: the kernel, for want of memory
        return Verdict.OUT_OF_MEMORY, {"signal": name, "limit": limits.memory_bytes}
    return Verdict.EXITED, {"signal": name}


def _named(request: wire.Request) -> str:
    """What was asked, in words for a person: a function, a class, a method, or the kind of the request."""
    if isinstance(request, wire.Call):
        return request.method or request.name or "forward"
    return type(request).__name__.lower()


# ------------------------------------------------------------------------------------------- the ladder

_MUST_HOLD = (lockdown.LIMITS, lockdown.PRIVILEGES, lockdown.FILES, lockdown.DESCRIPTORS, lockdown.CALLS)
_last: list[lockdown.Layer] | None = None


def _remember(layers: list[lockdown.Layer]) -> None:
    global _last
    _last = layers


def describe(lang: str = "en", limits: Limits | None = None) -> Isolation:
    """What stands between a submission and this machine, as the last worker found it; a worker is started if need be."""
    if _last is None:
        with start(limits) as made, made.worker():
            pass
    return _described(_last or [], lang)


def none(lang: str = "en") -> Isolation:
    """The isolation of a submission that runs in the judge's own process, for debugging: none."""
    return Isolation(NONE, [], [text("isolation.open.everything", lang)])


def _described(layers: list[lockdown.Layer], lang: str) -> Isolation:
    enforced = {layer.name for layer in layers if layer.enforced}
    level = CONTAINED if enforced.issuperset(_MUST_HOLD) else LIMITS_ONLY
    shown = [Layer(layer.name, layer.enforced, _detail(layer, lang)) for layer in layers]
    opened = [text(f"isolation.open.{name}", lang) for name in _MUST_HOLD if name not in enforced]
    always = [text(f"isolation.never.{name}", lang) for name in ("kernel", "inputs", "timing")]
    return Isolation(level, shown, opened + always)


def _detail(layer: lockdown.Layer, lang: str) -> str:
    if layer.enforced:
        return text(f"isolation.layer.{layer.name}", lang)
    return text("isolation.missing", lang, reason=layer.detail)
