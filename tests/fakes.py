"""A batch whose grading step is quick and made up, for tests that kill it: `python tests/fakes.py OUT COUNT JOBS`."""

import contextlib
import functools
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from grader import isolation
from grader.batch import Batch, Setting, Task, graded, pending
from grader.crew import Crew
from grader.isolation import Limits, Unavailable
from grader.results import Isolation, Layer, PropertyResult, Report, Verdict
from grader.submissions import Submission
from grader.turns import Shared

TINY = Path(__file__).parent / "courses" / "tiny"
SETTING = Setting(TINY, "en", "best")
LOG = "graded.log"


def task(name: str, source: str = "x = 1\n", key: str = "k1") -> Task:
    """A task of the small exercise; what its source says, the step does."""
    submission = Submission(name, Path("x.py"), "x.py", {"x.py": source})
    return Task(name, name, "ex01_scores", submission, source, "v1", key)


def report(score: float = 100.0, verdict: Verdict = Verdict.PASSED, name: str = "") -> Report:
    result = PropertyResult("scores", verdict, score, 100.0, "It holds.")
    return Report(
        *("ex01_scores", "Scores", name, score, 100.0, verdict, [result]),
        environment={"grader": "0"},
        graded_at="2026-01-01T00:00:00+00:00",
        lang="en",
    )


def step(setting: Setting, task: Task) -> tuple[bytes, str]:
    """Notes the name in a log, and answers. A source may tell it to kill its own process, always or once."""
    with (Path(os.environ["FAKE_LOG"]) / LOG).open("a") as log:
        log.write(f"{task.student}\n")
    dies, _, until = task.source.partition(" ")
    mark = Path(os.environ["FAKE_LOG"]) / f"{task.student}.dead"
    if dies == "dies" and not (until == "once" and mark.exists()):
        mark.touch()
        os.kill(os.getpid(), 9)
    time.sleep(0.004)
    page = "<html>" + "x" * 20_000 + "</html>"
    return msgspec.json.encode(report(name=task.student)), page


def uncontained(setting: Setting, task: Task) -> tuple[bytes, str]:
    """What a machine without isolation answers."""
    raise Unavailable(Isolation("none", [Layer("files", False, "no such thing here")]))


def on_an_old_kernel(setting: Setting, task: Task) -> tuple[bytes, str]:
    """The real step where the kernel has no Landlock."""
    isolation.start = functools.partial(isolation.Zygote, Limits(), fork=True, without=["filesystem"])
    return graded(setting, task)


def on_a_busy_machine(setting: Setting, task: Task) -> tuple[bytes, str]:
    """The real step where a call has but little time as long as other judges may be at work.

    Notes in the log when this process was at work among others, and when it was alone, and on what.
    """
    _make_busy()
    _now_graded[:] = [task.student]
    return graded(setting, task)


_now_graded: list[str] = []


@functools.cache
def _make_busy() -> None:
    from grader.isolation.workers import Worker

    calm, limits = [False], {True: Limits(wall_seconds_per_call=3), False: Limits(wall_seconds_per_call=0.3)}

    def noted(how: str):
        take = getattr(Shared, how)

        @contextlib.contextmanager
        def turn(self: Shared) -> Iterator[None]:
            with take(self):
                calm[0], began = how == "alone", time.monotonic()
                try:
                    yield
                finally:
                    calm[0], ended = False, time.monotonic()
                    with (Path(os.environ["FAKE_LOG"]) / LOG).open("a") as log:
                        log.write(f"{how} {_now_graded[0]} {os.getpid()} {began} {ended}\n")

        return turn

    Shared.together, Shared.alone = noted("together"), noted("alone")
    Worker.limits = property(lambda self: limits[calm[0]], lambda self, given: None)


def main(out: Path, count: int, jobs: int) -> None:
    os.environ["FAKE_LOG"] = str(out)
    tasks = [task(f"s{number:03}") for number in range(count)]
    with Batch(out, SETTING, step) as batch:
        crew = Crew(jobs)
        for progress in batch.run(pending(tasks, batch.book), crew):
            print(progress.done, flush=True)
        crew.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
