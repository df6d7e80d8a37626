"""Starts workers, holds them to their limits, ends them, and says in one word how each one ended.

    with isolation.start(Limits()) as zygote, zygote.worker() as worker:
        reply = worker.ask(wire.Load(files, main))

The judge owns the clock: a worker is never asked how long it took, and whatever ends it has a verdict that is
decided here (`WorkerEnded`). Where fork is safe (Linux), workers are forked from a zygote in milliseconds; elsewhere
each is a fresh process, the first of which is started at once, while the judge is still importing. Importing this
package does not import torch; the first `worker()` does.
"""

from grader.isolation.ladder import CONTAINED, LIMITS_ONLY, NONE, none
from grader.isolation.limits import IsolationError, Limits, Unavailable, WorkerEnded
from grader.isolation.source import Mode, Zygote, describe, start

__all__ = [
    "CONTAINED",
    "LIMITS_ONLY",
    "NONE",
    "IsolationError",
    "Limits",
    "Mode",
    "Unavailable",
    "WorkerEnded",
    "Zygote",
    "describe",
    "none",
    "start",
]
