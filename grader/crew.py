"""Processes that grade: executors whose processes may be killed, on this machine or on a Dask cluster.

`Crew` is a `concurrent.futures` executor of single processes. When one of them is killed, it is replaced, and only
the submission that it was grading has failed (`Killed`); the others' judges, and what stood in its queue, go on.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import queue
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import Any

from grader import prelude

PATIENCE = 20  # seconds for a scheduler to answer
AHEAD = 2  # submissions handed out a process, so that none waits and memory stays flat


def usable_cores() -> list[int]:
    """The numbers of the cores that this process may use."""
    try:
        return sorted(os.sched_getaffinity(0))
    except AttributeError:  # macOS, Windows
        return list(range(os.cpu_count() or 1))


class Killed(Exception):
    """The process that was at work on this was killed. `last` tells that it was tried often enough already."""

    def __init__(self, last: bool = False) -> None:
        super().__init__(last)
        self.last = last


@dataclass(eq=False)
class _Job:
    call: Callable[[], Any]
    future: futures.Future[Any]


@dataclass(eq=False)
class _Lane:
    """One process, and what it has been given, the running job first."""

    core: int | None
    pool: futures.ProcessPoolExecutor
    pid: futures.Future[int]
    jobs: list[_Job] = field(default_factory=list)


class Crew(futures.Executor):
    """An executor of `size` processes on this machine, each of which is replaced when it is killed.

    As many as there are usable cores are kept to one core each: a judge and its workers talk to each other in turn, and
    where they wander between cores, each answer waits for the other core to wake up.
    """

    def __init__(self, size: int) -> None:
        prelude.begin()  # inherited
        self._lock = threading.RLock()
        self._closed = False
        self.room = AHEAD * size
        cores = usable_cores()
        self._lanes = [_lane(core) for core in (cores if len(cores) == size else [None] * size)]
        self._news: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        """Sees to what has ended. The pools' own threads only tell: they hold locks of theirs while they do."""
        for news in iter(self._news.get, None):
            news()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> futures.Future[Any]:
        """The future raises Killed if its own process was killed while at work on it."""
        job = _Job(_Bound(fn, args, kwargs), futures.Future())
        with self._lock:
            self._give(min(self._lanes, key=lambda lane: len(lane.jobs)), job)
        return job.future

    def _give(self, lane: _Lane, job: _Job) -> None:
        try:
            given = lane.pool.submit(job.call)
        except BrokenProcessPool:  # found out before its running job was told
            self._replace(lane)
            given = lane.pool.submit(job.call)
        lane.jobs.append(job)
        pool = lane.pool
        given.add_done_callback(lambda done: self._news.put(lambda: self._finished(lane, pool, job, done)))

    def _finished(self, lane: _Lane, pool: futures.ProcessPoolExecutor, job: _Job, done: futures.Future[Any]) -> None:
        with self._lock:
            if lane.pool is not pool:  # it was replaced, and its jobs have been seen to
                return
            error = futures.CancelledError() if done.cancelled() else done.exception()
            if isinstance(error, BrokenProcessPool) and not self._closed:
                self._replace(lane)
                return
            lane.jobs.remove(job)
        if error is None:
            job.future.set_result(done.result())
        else:
            job.future.set_exception(Killed() if isinstance(error, BrokenProcessPool) else error)

    def _replace(self, lane: _Lane) -> None:
        """A fresh process for a lane. The first job was running; those behind it have not been begun."""
        lost, lane.jobs = lane.jobs, []
        lane.pool.shutdown(wait=False)
        fresh = _lane(lane.core)
        lane.pool, lane.pid = fresh.pool, fresh.pid
        for job in lost[1:]:
            self._give(lane, job)
        if lost:
            lost[0].future.set_exception(Killed())

    def pids(self) -> list[int]:
        """The processes that have begun."""
        pids = [lane.pid for lane in self._lanes]
        return [pid.result() for pid in pids if pid.done() and not pid.cancelled() and pid.exception() is None]

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes. With `cancel_futures` at once, whatever they are doing."""
        with self._lock:
            self._closed = True
            pids = self.pids() if cancel_futures else []
        for lane in self._lanes:
            lane.pool.shutdown(wait=False, cancel_futures=cancel_futures)
        for pid in pids:
            with contextlib.suppress(OSError):
                os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))
        for lane in self._lanes:
            lane.pool.shutdown(wait=wait)
        if wait:
            self._news.put(None)


@dataclass(frozen=True)
class _Bound:
    """A call that travels to another process."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __call__(self) -> Any:
        return self.fn(*self.args, **self.kwargs)


def _lane(core: int | None) -> _Lane:
    with _ctrl_c_ignored():
        spawn = multiprocessing.get_context("spawn")
        pool = futures.ProcessPoolExecutor(1, mp_context=spawn, initializer=_begin, initargs=(core,))
        return _Lane(core, pool, pool.submit(os.getpid))


@contextlib.contextmanager
def _ctrl_c_ignored() -> Iterator[None]:
    """What is started inside ignores Ctrl-C from its first instruction on: it is for the process that keeps."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    earlier = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, earlier)


def _begin(core: int | None) -> None:
    """In a process of the crew: keep to a core, and end when the parent does, however that ends. Its zygote follows."""
    if core is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


# ---- a Dask cluster


class Cluster(futures.Executor):
    """The workers of a Dask scheduler. It grades a lost worker's submissions elsewhere by itself."""

    def __init__(self, address: str) -> None:
        connect: Any = importlib.import_module("distributed").Client  # the extra `dask`
        self._client = connect(address, timeout=PATIENCE, set_as_default=False)
        self._executor = self._client.get_executor(pure=False)

    @property
    def room(self) -> int:
        """How much to hand out: workers may join and leave."""
        return max(1, AHEAD * len(self._client.nthreads()))

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> futures.Future[Any]:
        ours: futures.Future[Any] = futures.Future()
        self._executor.submit(fn, *args, **kwargs).add_done_callback(lambda done: _pass_on(done, ours))
        return ours

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._executor.shutdown(wait=wait and not cancel_futures)
        self._client.close(timeout=5)


def _pass_on(done: futures.Future[Any], ours: futures.Future[Any]) -> None:
    error = Killed() if done.cancelled() else done.exception()
    if error is None:
        ours.set_result(done.result())
    else:  # the scheduler has lost as many workers over this as it allows
        ours.set_exception(Killed(last=True) if type(error).__name__ == "KilledWorker" else error)
