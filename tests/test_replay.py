"""What is asked in one go is judged as what is asked one by one."""

import engine
import pytest

from grader import wire
from grader.bench import Bench
from grader.exercises import Course
from grader.judge import LocalWorker, Source
from grader.replay import Diverged, Fetched


class Framed(LocalWorker):
    """Takes frames as a worker process does."""

    def ask_all(self, frames):
        return [wire.encode(self.ask(wire.decode_request(frame))) for frame in frames]


def variants(bench: Bench) -> list[Source]:
    folder = bench.exercise.solution / "variants"
    return [Source({engine.MAIN: path.read_text()}, engine.MAIN) for path in sorted(folder.glob("*.py"))]


def told(bench: Bench, start, source: Source) -> dict[str, tuple]:
    return {name: (result.verdict, result.message) for name, result in bench.judge(start, source, "en").results.items()}


def test_every_submission_gets_the_verdicts_it_gets_one_by_one():
    exercise = Course.open(engine.TINY).exercises[0]
    warm = Bench(exercise)
    right = [warm.reference, *variants(warm)]
    sources = [*right, *(warm.mistaken(name) for name in warm.named), *right]
    for source in sources:
        assert told(warm, Framed, source) == told(Bench(exercise), LocalWorker, source)


def test_a_question_that_was_not_foreseen_is_not_answered():
    asked, other = (wire.encode(wire.Attribute(handle=number, name="x")) for number in (1, 2))
    reply = wire.encode(wire.Answer(value=3))
    assert Fetched([asked], [reply]).ask(wire.Attribute(handle=1, name="x")).value == 3
    for frames, replies in (([other], [reply]), ([], []), ([asked], [b"junk"])):
        with pytest.raises(Diverged):
            Fetched(frames, replies).ask(wire.Attribute(handle=1, name="x"))
