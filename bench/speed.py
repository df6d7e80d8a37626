"""How long `grade` takes, as ratios to what nobody can save: importing torch.

    python bench/speed.py [RUNS]

Runs the commands in turn (A B A B ...), so that a machine whose speed drifts slows both, and prints the median of the
ratios of each pair. A bare `python -c "import torch"` is the floor: judge and worker import it side by side.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from grader.exercises import Course

TORCH = [sys.executable, "-c", "import torch"]
GRADE = [sys.executable, "-m", "grader"]


def measure(command: list[str], folder: Path) -> tuple[float, float]:
    """Wall and CPU seconds of one run, its children included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment())
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def pairs(command: list[str], folder: Path, runs: int) -> list[tuple[float, float]]:
    """Wall seconds of `import torch` and of `command`, run in turn."""
    measure(TORCH, folder), measure(command, folder)  # warm the file cache
    return [(measure(TORCH, folder)[0], measure(command, folder)[0]) for _ in range(runs)]


def report(name: str, found: list[tuple[float, float]]) -> None:
    ratio = statistics.median(ours / torch for torch, ours in found)
    over = statistics.median(ours - 1.5 * torch for torch, ours in found)
    torch, ours = (statistics.median(column) for column in zip(*found, strict=True))
    print(f"{name:32} {ours:6.2f} s = {ratio:4.2f} x import torch ({torch:.2f} s) = 1.5 x {over:+.2f} s (promise: +1)")


def main(runs: int) -> None:
    course = Course.open()
    exercise = course.find("ex04")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        helped = [measure([*GRADE, "--help"], path)[1] for _ in range(runs)]
        print(f"{'grade --help':32} {statistics.median(helped) * 1000:6.0f} ms of CPU (promise: 150 ms)")
        wrong = exercise.mistakes()[0].apply(exercise.reference or "")
        for name, source in (("stub", exercise.stub), ("right", exercise.reference or ""), ("wrong", wrong)):
            (path / exercise.module).write_text(source, encoding="utf-8")
            report(f"grade ex04, {name}", pairs([*GRADE, "ex04", str(path)], path, runs))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
