"""A worker as the judge sees it: asked, timed, listened to, ended; every ending gets its verdict here."""

from __future__ import annotations

import contextlib
import select
import signal
import socket
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import msgspec

from grader import wire
from grader.isolation import ladder
from grader.isolation.limits import Limits, WorkerEnded
from grader.isolation.processes import Clock, Process, threads
from grader.results import Isolation, Verdict
from grader.worker import lockdown, zygote

_SLICE = 0.1  # seconds between two looks at the clock of a busy worker
_GRACE = 0.5  # seconds for a worker that hung up to end on its own
_CHUNK = 1 << 18


class Worker:
    """One submission's process. `ask` answers or raises WorkerEnded; `close` ends it without a trace."""

    def __init__(self, process: Process, line: socket.socket, output: socket.socket, limits: Limits) -> None:
        self._process, self._line, self._output, self.limits = process, line, output, limits
        self._kept = bytearray()
        self._printed = 0
        self._end: WorkerEnded | None = None
        try:
            self.hello = self._await_hello()
        except BaseException:
            self.close()
            raise
        line.setblocking(False)
        output.setblocking(False)

    @property
    def layers(self) -> list[lockdown.Layer]:
        """What of the lock-down holds."""
        return list(self.hello.layers)

    def isolation(self, lang: str = "en") -> Isolation:
        """What stands between this worker and the machine."""
        return ladder.described(self.layers, lang)

    def ask(self, request: wire.Request, wall_seconds: float | None = None) -> wire.Reply:
        """Sends a request and waits for its reply.

        Raises:
            WorkerEnded: the worker ended, or was ended, instead of answering; also on every later call.
            wire.FrameTooLarge: the request itself does not fit into a frame.
        """
        if self._end is not None:
            raise self._end
        frame = wire.encode(request)
        exchange = _Exchange(
            _named(request), Clock(self._process.pid), wall_seconds or self.limits.wall_seconds_per_call
        )
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

    def ask_all(self, frames: Sequence[bytes]) -> list[bytes]:
        """Sends several requests at once, as frames, and waits for all replies, as frames that nobody has read yet.

        Each call has its limits, as if it were asked alone.

        Raises:
            WorkerEnded: the worker ended, or was ended, instead of answering.
        """
        if self._end is not None:
            raise self._end
        unsent, received, replies = memoryview(b"".join(frames)), bytearray(), list[bytes]()
        exchange = self._next_exchange()
        try:
            self._must_be_quiet()
            while len(replies) < len(frames):
                if unsent:
                    unsent = unsent[self._send(unsent) :]
                if self._receive_into(received):
                    whole = wire.whole_frames(received, wire.REPLY_HEADER_MAX)
                    replies += whole
                    exchange = self._next_exchange() if whole else exchange
                    self._drain()
                elif self._wait(bool(unsent), exchange.patience(self.limits)):
                    self._drain()
                self._check_limits(exchange)
            if received or len(replies) > len(frames):
                raise wire.MalformedFrame("more than was asked for")
            return replies
        except wire.MalformedFrame as error:
            raise self._ended(Verdict.TAMPERED, exchange, cause=str(error)) from None
        except _HungUp:
            raise self._hung_up(exchange) from None
        except _Over as over:
            raise self._ended(over.verdict, exchange, **over.detail) from None

    def _next_exchange(self) -> _Exchange:
        return _Exchange("", Clock(self._process.pid), self.limits.wall_seconds_per_call)

    def _receive_into(self, received: bytearray) -> bool:
        """Takes what has come; False when nothing has."""
        try:
            part = self._line.recv(_CHUNK)
        except BlockingIOError:
            return False
        except ConnectionError:
            raise _HungUp from None
        if not part:
            raise _HungUp
        received += part
        return True

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

    def _await_hello(self) -> zygote.Hello:
        self._line.settimeout(self.limits.startup_seconds)
        try:
            hello: zygote.Hello | None = zygote.receive(self._line, zygote.Hello)
        except msgspec.DecodeError as error:
            raise ConnectionError(str(error)) from None
        if hello is None:
            raise ConnectionError("the worker ended before it was ready")
        return hello

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
        if exchange.seconds() > _SLICE / 2 and threads(self._process.pid) > limits.threads:
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


class _Exchange:
    """One request and what has come back so far."""

    def __init__(self, call: str, clock: Clock, wall_limit: float) -> None:
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
