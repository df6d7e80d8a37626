"""The clean process that workers are forked from: torch imported, one thread, nothing of a submission ever inside.

Run as a script, with a socket to the judge. As a zygote it forks a worker for each request and hands back a pidfd;
as a single worker (`single`), where fork is not to be had, it becomes the worker itself. Either way the judge's
first message is a `Setup`, and a worker's first message is a `Hello`, sent when the lock-down is complete.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import struct
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

LIBRARIES = "GRADER_LIBRARIES"  # the judge's folders of installed packages, in the environment

if __name__ == "__main__":  # nothing is on the path but Python's own and its site-packages
    sys.path.extend(path for path in os.environ.get(LIBRARIES, "").split(os.pathsep) if path not in ("", *sys.path))
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import msgspec  # noqa: E402 - the path above comes first

from grader.worker import lockdown  # noqa: E402

_SIZE = struct.Struct("<I")
LINE, OUTPUT = 3, 1  # descriptors in a worker


class Setup(msgspec.Struct, frozen=True):
    """What the judge decides about its workers."""

    bounds: lockdown.Bounds
    hidden: list[str]
    without: list[str]


class Hello(msgspec.Struct, frozen=True):
    """A worker is ready. `seconds` is what the lock-down took, `cpu_seconds` what of it the processor was at work."""

    layers: list[lockdown.Layer]
    seconds: float
    cpu_seconds: float


class Ready(msgspec.Struct, tag="ready", frozen=True):
    """The zygote is ready to fork."""

    threads: int


class Fork(msgspec.Struct, tag="fork", frozen=True):
    """Fork a worker; its line and its output come along as descriptors. `without` leaves layers out, in tests."""

    without: list[str]


class Forked(msgspec.Struct, tag="forked", frozen=True):
    """A worker was forked; its pidfd comes along where the system has one."""

    pid: int


class Reap(msgspec.Struct, tag="reap", frozen=True):
    """How did a worker end? Asked when it has ended, or is about to."""

    pid: int


class Ended(msgspec.Struct, tag="ended", frozen=True):
    """`code` is the exit code, -N for signal N, None where the worker runs on."""

    code: int | None
    cpu_seconds: float = 0.0
    memory_kib: int = 0


ToZygote = Fork | Reap
FromZygote = Ready | Forked | Ended


def send(line: socket.socket, message: msgspec.Struct) -> None:
    """A message with its length in front, on a line between the judge and a process of ours."""
    data = msgspec.msgpack.encode(message)
    line.sendall(_SIZE.pack(len(data)) + data)


def receive(line: socket.socket, kind: Any) -> Any:
    """The next message, or None where the other side has hung up."""
    size = _exactly(line, _SIZE.size)
    data = _exactly(line, min(_SIZE.unpack(size)[0], 1 << 20)) if size else None
    return msgspec.msgpack.decode(data, type=kind) if data else None


def _exactly(line: socket.socket, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        part = line.recv(size - len(data))
        if not part:
            return None
        data += part
    return data


def main(arguments: list[str]) -> None:
    """`zygote LINE`, `single LINE OUTPUT`, or `single` with both sockets shared over stdin (Windows)."""
    mode, *descriptors = arguments
    if descriptors:
        line, *output = (socket.socket(fileno=int(number)) for number in descriptors)
    else:
        line, *output = (_shared() for _ in range(2))
    os.chdir("/" if os.name == "posix" else os.environ.get("SYSTEMROOT", "C:\\"))
    setup = receive(line, Setup)
    if setup is None:
        return
    _import_and_warm()
    plan = lockdown.prepare(setup.bounds, setup.hidden, setup.without)
    if mode == "single":
        _become_worker(line, output[0], plan)
    else:
        _fork_on_request(line, plan)


def _shared() -> socket.socket:
    size = int.from_bytes(sys.stdin.buffer.read(4), "little")
    return socket.fromshare(sys.stdin.buffer.read(size))  # type: ignore[attr-defined,no-any-return,unused-ignore]


def _import_and_warm() -> None:
    """Imports all that a worker needs, once, and lets torch build what it builds on first use."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torch

        from grader.worker import serve  # noqa: F401

        torch.set_num_threads(1)
        tempfile.tempdir = tempfile.gettempdir()  # else each worker would look for one by writing
        given = torch.ones(2, 2, requires_grad=True)
        torch.nn.functional.softmax(given @ given, -1).sum().backward()  # type: ignore[no-untyped-call]
        torch.optim.AdamW([given]).step()  # the first step of any optimizer imports a module
    with suppress(ValueError):
        sys.path.remove(str(Path(__file__).resolve().parents[2]))
    gc.collect()
    gc.freeze()
    gc.disable()


def _fork_on_request(line: socket.socket, plan: lockdown.Plan) -> None:
    """Forks workers until the judge hangs up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the judge, which closes us
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads != 1:
        raise RuntimeError(f"a zygote must have one thread, not {threads}")
    with suppress(OSError):
        lockdown.hide_memory()
    send(line, Ready(threads))
    while True:
        size, descriptors, _, _ = socket.recv_fds(line, _SIZE.size, 2)
        if not size:
            return
        request = msgspec.msgpack.decode(_exactly(line, _SIZE.unpack(size)[0]) or b"", type=ToZygote)
        if isinstance(request, Reap):
            send(line, _reap(request.pid))
        else:
            plan.without = request.without
            _fork(line, descriptors, plan)


def _fork(line: socket.socket, descriptors: list[int], plan: lockdown.Plan) -> None:
    zygote = os.getpid()
    pid = os.fork()
    if pid == 0:
        _worker_after_fork(descriptors, plan, zygote)
    for descriptor in descriptors:
        os.close(descriptor)
    data = msgspec.msgpack.encode(Forked(pid))
    try:
        pidfd = [os.pidfd_open(pid)]
    except (OSError, AttributeError):
        pidfd = []
    socket.send_fds(line, [_SIZE.pack(len(data)) + data], pidfd)
    for descriptor in pidfd:
        os.close(descriptor)


def _worker_after_fork(descriptors: list[int], plan: lockdown.Plan, zygote: int) -> NoReturn:
    try:
        os.setsid()
        line, output = (socket.socket(fileno=number) for number in descriptors)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        gc.enable()
        lockdown.die_with_parent(zygote)
        _become_worker(line, output, plan, zygote)
    finally:
        os._exit(0)


def _reap(pid: int, patience: float = 5.0) -> Ended:
    deadline = time.monotonic() + patience
    while True:
        try:
            done, status, usage = os.wait4(pid, os.WNOHANG)
        except ChildProcessError:
            return Ended(None)
        if done:
            return Ended(os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, usage.ru_maxrss)
        if time.monotonic() > deadline:
            return Ended(None)
        time.sleep(0.0005)


def _become_worker(
    line: socket.socket, output: socket.socket, plan: lockdown.Plan, parent: int | None = None
) -> NoReturn:
    """Locks this process down, says hello, and serves until the judge hangs up. Never returns."""
    from grader.worker import observe, serve

    if os.name == "posix":
        line = _settle(line, output)
        _reopen_streams()
    else:
        sys.stdout = sys.stderr = output.makefile("w", encoding="utf-8", errors="backslashreplace")
    began, cpu_began = time.perf_counter(), time.process_time()
    layers = lockdown.apply(plan, parent)
    observe.locked_down = True
    send(line, Hello(layers, time.perf_counter() - began, time.process_time() - cpu_began))
    with suppress(ConnectionError):
        serve.serve(line)
    os._exit(0)


def _settle(line: socket.socket, output: socket.socket) -> socket.socket:
    """Puts nothing, output, output and the line on descriptors 0 to 3."""
    from fcntl import F_DUPFD, fcntl

    nothing = os.open(os.devnull, os.O_RDONLY)
    high = [fcntl(number, F_DUPFD, 10) for number in (nothing, output.detach(), line.detach())]
    for number, source in ((0, high[0]), (1, high[1]), (2, high[1]), (LINE, high[2])):
        os.dup2(source, number)
    return socket.socket(fileno=LINE)


def _reopen_streams() -> None:
    sys.stdout = open(1, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr  # type: ignore[misc]
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115


if __name__ == "__main__":
    main(sys.argv[1:])
