"""Processes of ours: how they are started clean, watched from outside, and ended."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Protocol

from grader.worker import zygote


class Process(Protocol):
    """A worker's process, forked or fresh."""

    pid: int

    def kill(self) -> None: ...

    def gone(self, patience: float) -> bool:
        """Whether it has ended, waiting for that up to `patience` seconds."""

    def reap(self) -> zygote.Ended: ...


class Owner(Protocol):
    """The zygote, as its children's keeper. Another `process` is another zygote, started after one that was killed."""

    process: subprocess.Popen[bytes] | None

    def alive(self) -> bool: ...

    def reap(self, pid: int) -> zygote.Ended: ...


class Forked:
    """A child of the zygote, which reaps it for us; until then its process id is nobody else's."""

    def __init__(self, owner: Owner, pid: int, pidfd: int | None) -> None:
        self.owner, self.pid, self.pidfd = owner, pid, pidfd
        self._parent = owner.process
        self._ended: zygote.Ended | None = None

    def kill(self) -> None:
        if self._ended is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            if self.pidfd is not None:
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
            elif self._parent is self.owner.process and self.owner.alive():
                os.kill(self.pid, signal.SIGKILL)

    def gone(self, patience: float) -> bool:
        if self.pidfd is not None:
            poll = select.poll()  # not select, which stops at descriptor 1024
            poll.register(self.pidfd, select.POLLIN)
            return bool(poll.poll(patience * 1000))
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


class Spawned:
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


def python(arguments: list[str], sockets: list[socket.socket], errors: Any) -> subprocess.Popen[bytes]:
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
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",  # with large pages a fork takes a third, an end a fifth
        "MALLOC_ARENA_MAX": "1",  # an arena for each thread would eat the memory limit
        "MALLOC_MMAP_THRESHOLD_": str(32 << 20),  # large tensors too come from memory that was used before: in a
        "MALLOC_TRIM_THRESHOLD_": str(128 << 20),  # long sequence the faults on fresh pages are nearly half of the work
        "TORCHDYNAMO_DISABLE": "1",
        "TORCHINDUCTOR_CACHE_DIR": tempfile.gettempdir(),  # one that is there: half of torch makes it if it is not
        "KINETO_LOG_LEVEL": "99",
        "PYTHONHASHSEED": "0",  # the same submission, the same order of its sets
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUTF8": "1",
        "LANG": "C.UTF-8",
        zygote.LIBRARIES: os.pathsep.join(_libraries()),
    }


def _libraries() -> list[str]:
    """Where this process finds installed packages: a user's own folder and PYTHONPATH included."""
    return [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]


class Clock:
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


def threads(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[17])
    except (OSError, IndexError, ValueError):
        return 0
