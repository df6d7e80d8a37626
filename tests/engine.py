"""A small course for the tests of the engine, judged in this process."""

from pathlib import Path

from grader import wire
from grader.bench import Bench
from grader.exercises import Course
from grader.judge import LocalWorker, Source
from grader.results import PropertyResult

TINY = Path(__file__).parent / "courses" / "tiny"
MAIN = "ex01_scores.py"


class Framed(LocalWorker):
    """Takes frames as a worker process does."""

    def ask_all(self, frames):
        return [wire.encode(self.ask(wire.decode_request(frame))) for frame in frames]


def tiny_bench() -> Bench:
    return Bench(Course.open(TINY).exercises[0])


def changed(bench: Bench, *edits: tuple[str, str]) -> Source:
    """The reference of the small exercise with some of its text replaced."""
    source = bench.reference.files[MAIN]
    for old, new in edits:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return Source({MAIN: source}, MAIN)


def judged(bench: Bench, source: Source, lang: str = "en", *arguments: str) -> dict[str, PropertyResult]:
    return dict(bench.judge(LocalWorker, source, lang, arguments).results)
