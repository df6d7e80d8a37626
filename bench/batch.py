"""What a class costs: the batch beside a fresh `python -m pytest` per submission, and the judge's memory.

    python bench/batch.py pairs [PAIRS] [EXERCISE]      throughput, as ratios in pairs
    python bench/batch.py cores [PAIRS] [EXERCISE]      two judges on two cores beside one on one
    python bench/batch.py memory [SUBMISSIONS]          the judge's memory over many submissions, a worker's own
    python bench/batch.py page [STUDENTS]               the page on a class, built and opened in a browser

The peer is what others do: a fresh process a submission, which imports torch and the same properties and judges the
submission inside itself, on the same cases and with the same shrinking, but without isolation, diagnosis or reports.
Both are given one and the same core, in turn, so that a machine whose speed drifts slows both. CPU seconds tell the
same story where others use the machine as well. Every submission has another content.
"""

import contextlib
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from grader import prelude

prelude.begin()

from grader.batch import Batch, Setting, Task, _grader, graded, version_of  # noqa: E402 - torch must find one thread
from grader.crew import Crew, usable_cores  # noqa: E402
from grader.exercises import Course, Exercise  # noqa: E402
from grader.submissions import Submission  # noqa: E402

OURS_A_PAIR = 6  # submissions of ours beside one of the peer's: its share of what a pair takes is large enough
PEER = """
import sys
import pytest
from pathlib import Path
from grader import prelude
prelude.begin()
from grader.bench import Bench
from grader.exercises import Course
from grader.judge import Judge, LocalWorker, Session, Source
from grader.results import Verdict

bench = Bench(Course.open().find({exercise!r}))
source = Source({{"main.py": Path({path!r}).read_text()}}, "main.py")
judge = Judge(Session(LocalWorker, source), bench.exact, bench.plain, bench.exercise.forbidden)

@pytest.mark.parametrize("property", bench.properties, ids=lambda p: p.name)
def test(property):
    assert judge.judge(property).verdict is Verdict.PASSED
"""


class Class:
    """Submissions of one exercise, right ones or wrong ones, no two with the same content."""

    def __init__(self, exercise: Exercise, right: bool) -> None:
        self.exercise, self.right, self.count = exercise, right, 0
        self.mistakes = exercise.mistakes()[::7]  # a class has its favourites

    def source(self) -> str:
        self.count += 1
        reference = self.exercise.reference or ""
        wrong = self.mistakes[self.count % len(self.mistakes)]
        return (reference if self.right else wrong.apply(reference)) + f"\n# submission {self.count}\n"

    def task(self) -> Task:
        files = {self.exercise.module: self.source()}
        name = f"s{self.count}"
        submission = Submission(name, Path(self.exercise.module), self.exercise.module, files)
        return Task(name, name, self.exercise.slug, submission, "", version_of(self.exercise), "")


def peer(some: Class, folder: Path) -> tuple[float, float]:
    """Wall and CPU seconds of one submission in a fresh pytest."""
    (folder / "main.py").write_text(some.source())
    (folder / "test_it.py").write_text(PEER.format(exercise=some.exercise.slug, path=str(folder / "main.py")))
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), "test_it.py"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - began, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ours(some: Class, setting: Setting) -> tuple[float, float]:
    """Wall and CPU seconds a submission in this warm judge: isolation, diagnosis, both reports included."""
    before, began = cpu(setting), time.perf_counter()
    for _ in range(OURS_A_PAIR):
        graded(setting, some.task())
    return (time.perf_counter() - began) / OURS_A_PAIR, (cpu(setting) - before) / OURS_A_PAIR


def cpu(setting: Setting) -> float:
    """CPU seconds of this process, its zygote and the workers that have ended."""
    fields = Path(f"/proc/{zygote(setting)}/stat").read_text().rpartition(")")[2].split()
    return time.process_time() + sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def zygote(setting: Setting) -> int:
    process = _grader(setting)[0]._started().process
    assert process is not None
    return process.pid


def pairs(count: int, word: str) -> None:
    """Prints the median ratios, for right and for wrong submissions."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    course = Course.open()
    setting = Setting(course.folder, "en", "best")
    for right, promise in ((True, 20), (False, 10)):
        some = Class(course.find(word), right)
        for _ in range(1 if right else len(some.mistakes)):
            graded(setting, some.task())  # what is learnt once a class
        with tempfile.TemporaryDirectory() as folder:
            found = [(peer(some, Path(folder)), ours(some, setting)) for _ in range(count)]
        wall, used = (statistics.median(theirs[at] / mine[at] for theirs, mine in found) for at in (0, 1))
        mine = [statistics.median(pair[1][at] for pair in found) for at in (0, 1)]
        name = "right" if right else "wrong"
        print(
            f"{word} {name}: {wall:5.1f} x the throughput, {used:5.1f} x by CPU time (promise: {promise} x);", end=" "
        )
        print(f"{mine[0]:.3f} s a submission, {mine[1]:.3f} s of CPU", flush=True)


def cores(count: int, word: str) -> None:
    """Prints how much more a batch does on two cores than on one, whole runs with gradebook and reports, in pairs; and
    how much more two processes do there that share nothing, which is all that two halves of one core have to give."""
    course = Course.open()
    setting = Setting(course.folder, "en", "best")
    two = usable_cores()[:2]
    for right in (True, False):
        some = Class(course.find(word), right)
        with tempfile.TemporaryDirectory() as folder:
            rates: dict[int, list[float]] = {1: [], 2: []}
            crews = {size: crew(two[:size]) for size in rates}
            batches = {size: Batch(Path(folder) / str(size), setting) for size in rates}
            for number in range(count + 1):  # the first is what is learnt once a class
                for size in rates:
                    tasks = [some.task() for _ in range(48 * size)]  # so many that waiting for the last is little
                    with kept_to(two[:size]):
                        began = time.perf_counter()
                        for _ in batches[size].run(tasks, crews[size]):
                            pass
                        took = time.perf_counter() - began
                    if number:
                        rates[size].append(len(tasks) / took)
            for size in rates:
                batches[size].close()
                crews[size].shutdown()
        ratio = statistics.median(more / one for one, more in zip(rates[1], rates[2], strict=True))
        bare = statistics.median(bare_ratio(two) for _ in range(count))
        shown = ", ".join(f"{statistics.median(rates[size]):.1f}/s on {size}" for size in rates)
        print(f"{word} {'right' if right else 'wrong'}: {ratio:.2f} x on two cores (promise: 1.8 x),", end=" ")
        print(f"bare loops {bare:.2f} x; {shown}", flush=True)


def bare_ratio(two: list[int]) -> float:
    """The work that two processes do on two cores, beside what one does on one."""
    loop = "import torch; x = torch.randn(40, 40); [x.softmax(-1) @ x for _ in range(60_000)]"
    command = [sys.executable, "-W", "ignore", "-c", loop]
    seconds = []
    for used in (two[:1], two):
        began = time.perf_counter()
        started = [subprocess.Popen(["taskset", "-c", str(core), *command]) for core in used]
        for process in started:
            process.wait()
        seconds.append(time.perf_counter() - began)
    return 2 * seconds[0] / seconds[1]


def crew(cores: list[int]) -> Crew:
    """Processes that grade, one on each of these cores."""
    with kept_to(cores):
        made = Crew(len(cores))
    while len(made.pids()) < len(cores):
        time.sleep(0.02)
    return made


@contextlib.contextmanager
def kept_to(cores: list[int]) -> Iterator[None]:
    """This process, and what it starts, keeps to these cores."""
    all_of_them = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, all_of_them)


def memory(count: int) -> None:
    """Prints the judge's memory as it goes, and what a worker has of its own."""
    course = Course.open()
    setting = Setting(course.folder, "en", "best")
    classes = [Class(course.find("ex04"), right) for right in (True, False)]
    for number in range(count):
        graded(setting, classes[number % 2].task())
        if number % max(1, count // 10) == 0 or number == count - 1:
            print(f"{number + 1:5} submissions  judge {status('self', 'VmRSS'):4} MB", flush=True)
    worker = _grader(setting)[0]._started().worker()
    with worker:
        print(f"a worker's own memory, before its submission: {private(worker._process.pid):.1f} MB")


def page(students: int) -> None:
    """Prints what the page on a made-up class takes, and its size."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    import classes

    from grader.insight import class_page

    course = Course.open()
    with tempfile.TemporaryDirectory() as folder, classes.made(Path(folder), course, students) as book:
        began, cpu = time.perf_counter(), time.process_time()
        text = class_page(book, course, "en")
        took, cpu = time.perf_counter() - began, time.process_time() - cpu
        (Path(folder) / "class.html").write_text(text, encoding="utf-8")
        opens = opening(Path(folder) / "class.html")
    print(
        f"class.html of {students} students, {len(course.exercises)} exercises: {took:.1f} s, {cpu:.1f} s of CPU",
        end="",
    )
    print(f" (promise for 2000: 5 s); {len(text.encode()) / 1e6:.1f} MB; {opens}")


def opening(file: Path) -> str:
    """How long a browser takes until the first rows are painted, where one is installed."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        chromium = None
    if chromium is None:
        return "not opened: no browser"
    seconds = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for _ in range(5):
            visited = browser.new_page()
            began = time.perf_counter()
            visited.goto(file.as_uri())
            visited.locator(".all tbody tr").first.wait_for()
            visited.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            seconds.append(time.perf_counter() - began)
            visited.close()
        browser.close()
    return f"opens in {statistics.median(seconds):.2f} s (promise: 2 s), slowest of 5 {max(seconds):.2f} s"


def status(pid: str, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) // 1024


def private(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


if __name__ == "__main__":
    mode, *more = sys.argv[1:] or ["pairs"]
    if mode == "memory":
        memory(int(more[0]) if more else 2000)
    elif mode == "cores":
        cores(int(more[0]) if more else 5, more[1] if len(more) > 1 else "ex04")
    elif mode == "page":
        page(int(more[0]) if more else 2000)
    else:
        pairs(int(more[0]) if more else 5, more[1] if len(more) > 1 else "ex04")
