"""What it costs to keep a submission apart: a worker, forked and locked down, and one question.

    python bench/isolation.py [RUNS]

Prints milliseconds: medians of a worker's start and of the lock-down inside it, by the worker's own clocks from the
first layer until all were tried; the mean of a question.
"""

import statistics
import sys
import time

from grader import isolation

LOAD_NOTHING = {"empty.py": ""}


def spawned(zygote: isolation.Zygote) -> float:
    """Milliseconds from asking for a worker until it is ready for a submission."""
    began = time.perf_counter()
    worker = zygote.worker()
    took = time.perf_counter() - began
    worker.close()
    return 1000 * took


def locked_down(zygote: isolation.Zygote) -> tuple[float, float]:
    """Milliseconds of a worker's lock-down, and of these the ones in which it had the processor."""
    with zygote.worker() as worker:
        return 1000 * worker.hello.seconds, 1000 * worker.hello.cpu_seconds


def asked(zygote: isolation.Zygote, count: int) -> float:
    """Milliseconds of one small question and its answer."""
    from grader import wire

    with zygote.worker() as worker:
        worker.ask(wire.Load(LOAD_NOTHING, "empty.py"))
        began = time.perf_counter()
        for _ in range(count):
            worker.ask(wire.Forget())
        return 1000 * (time.perf_counter() - began) / count


def main(runs: int) -> None:
    with isolation.start() as contained:
        spawned(contained)  # the zygote is ready
        ready = statistics.median(spawned(contained) for _ in range(runs))
        print(f"isolation here: {contained.describe().level}")
        print(f"a worker, forked and locked down {ready:6.1f} ms (promise: 15)")
        wall, cpu = (
            statistics.median(column) for column in zip(*(locked_down(contained) for _ in range(runs)), strict=True)
        )
        print(f"  of it the lock-down            {wall:6.2f} ms, {cpu:.2f} ms of CPU (promise: 3)")
        print(f"a question and its answer        {asked(contained, 10 * runs):6.2f} ms")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
