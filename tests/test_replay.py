"""What is asked in one go is judged as what is asked one by one."""

import engine
import pytest

from grader import isolation, wire
from grader.bench import Bench
from grader.exercises import Course
from grader.judge import LocalWorker, Source
from grader.properties import Property
from grader.replay import Diverged, Fetched
from grader.results import Verdict


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
        assert told(warm, engine.Framed, source) == told(Bench(exercise), LocalWorker, source)


def test_what_held_before_is_not_looked_at_again_in_however_many_ways_a_class_answers(monkeypatch):
    warm = engine.tiny_bench()
    root = "q.shape[-1] ** 0.5"
    ways = [engine.changed(warm, (root, f"({root} * {1 + number * 1e-6})")) for number in range(12)]
    told(warm, engine.Framed, warm.reference)  # now its questions are known
    first = [told(warm, engine.Framed, way) for way in ways]
    assert {verdict for each in first for verdict, _ in each.values()} == {Verdict.PASSED}
    checked = []
    monkeypatch.setattr(Property, "check", lambda *_: checked.append(_))
    assert [told(warm, engine.Framed, way) for way in ways] == first
    assert not checked


def test_a_question_that_was_not_foreseen_is_not_answered():
    asked, other = (wire.encode(wire.Attribute(handle=number, name="x")) for number in (1, 2))
    reply = wire.encode(wire.Answer(value=3))
    assert Fetched([asked], [reply]).ask(wire.Attribute(handle=1, name="x")).value == 3
    for frames, replies in (([other], [reply]), ([], []), ([asked], [b"junk"])):
        with pytest.raises(Diverged):
            Fetched(frames, replies).ask(wire.Attribute(handle=1, name="x"))


def test_an_end_in_the_midst_of_many_questions_gets_the_verdict_it_gets_one_by_one():
    """With real workers: the end takes along the replies that had not gone out."""
    exercise = Course.open(engine.TINY).exercises[0]
    warm = Bench(exercise)
    ending = "import os\n" + warm.reference.files[engine.MAIN].replace(
        "    if x.shape[-1] % 2:", "    if x.shape[-1] > 2:\n        os._exit(3)\n    if x.shape[-1] % 2:"
    )
    source = Source({engine.MAIN: ending}, engine.MAIN)
    told(warm, LocalWorker, warm.reference)  # now its questions are known
    with isolation.start() as zygote:
        together = told(warm, zygote.worker, source)
        assert together == told(Bench(exercise), zygote.worker, source)
    assert Verdict.EXITED in {verdict for verdict, _ in together.values()}
