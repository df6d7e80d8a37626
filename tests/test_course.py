"""The course that comes with the program keeps its promises, exercise by exercise."""

import dataclasses
import re
import string

import engine
import pytest

from grader import isolation, wire
from grader.bench import Bench, properties_of, record_of
from grader.exercises import Course
from grader.judge import Judge, Session, Source
from grader.replay import Transcripts
from grader.results import Verdict
from grader.selftest import selftest

EXERCISES = Course.open().exercises
GOOD = {Verdict.PASSED, Verdict.NOT_RUN}
each_exercise = pytest.mark.parametrize("exercise", EXERCISES, ids=[exercise.id for exercise in EXERCISES])


@each_exercise
def test_no_defect_shows_in_its_folders(exercise):
    assert [str(defect) for defect in exercise.defects()] == []


@each_exercise
def test_it_has_what_every_exercise_has(exercise):
    assert len(properties_of(exercise)) >= 8
    assert len(exercise.mistakes()) >= 8
    assert len(exercise.variants) >= 4
    assert len(exercise.hints("en")) == 3
    assert 3 <= len(exercise.quiz("zh")) <= 5


@each_exercise
def test_points_add_to_100(exercise):
    assert sum(one.points for one in properties_of(exercise)) == 100


@each_exercise
def test_its_cases_are_on_record(exercise):
    assert exercise.record.read_text(encoding="utf-8") == record_of(exercise), "run `grade author cases`"


@each_exercise
def test_the_next_submission_is_asked_in_one_go(exercise):
    """A property that writes into what it has asked with asks something else each time, and all is asked twice."""
    bench, transcripts = Bench(exercise), Transcripts()
    for _ in range(2):
        session = Session(engine.Framed, bench.reference)
        judge = Judge(session, bench.exact, bench.plain, exercise.forbidden, transcripts=transcripts)
        for one in bench.properties:
            judge.judge(dataclasses.replace(one, follows_from=()))
    known = {(one.name, at): transcripts.of(case) for one in bench.properties for at, case in enumerate(one.cases())}
    here = {one.name for one in bench.properties if one.device == "cpu"}
    assert [key for key, asked in known.items() if key[0] in here and not (asked and asked.held)] == []


@each_exercise
def test_right_ones_pass_where_submissions_run(exercise):
    """The self-test runs them in its own process, where nothing is forbidden."""
    bench = Bench(exercise)
    with isolation.start() as zygote:
        for name, text in {"reference": exercise.reference, **exercise.variants}.items():
            judged = bench.judge(zygote.worker, Source({exercise.module: text}, exercise.module), "en")
            bad = {one: result.message for one, result in judged.results.items() if result.verdict not in GOOD}
            assert not bad, name


@each_exercise
def test_every_property_speaks_both_languages(exercise):
    for one in properties_of(exercise):
        assert one.statement, one.name
        assert "  " not in one.statement, one.name
        assert exercise.statement(one.name, "zh"), one.name
        assert exercise.look(one.name, "en"), one.name
        assert exercise.look(one.name, "zh"), one.name


@each_exercise
def test_no_text_is_left_over_from_a_property_of_old(exercise):
    assert set(exercise.texts.get("properties", {})) <= {one.name for one in properties_of(exercise)}


@each_exercise
def test_messages_have_the_same_places_in_both_languages(exercise):
    def places(template):
        return {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}

    for key, message in exercise.texts.get("messages", {}).items():
        assert set(message) == {"en", "zh"}, key
        assert places(message["en"]) == places(message["zh"]), key


@each_exercise
def test_every_mistake_speaks_both_languages(exercise):
    names = [mistake.name for mistake in exercise.mistakes()]
    assert len(set(names)) == len(names)
    for mistake in exercise.mistakes():
        assert all(mistake.en), mistake.name
        assert all(mistake.zh), mistake.name
        assert any("\u4e00" <= letter <= "\u9fff" for letter in mistake.zh[0] + mistake.zh[1]), mistake.name


@each_exercise
def test_every_variant_says_what_is_unusual(exercise):
    for name, source in exercise.variants.items():
        assert re.match(r'"""\S', source), name


@each_exercise
def test_inputs_are_looked_at_with_gradients_and_without(exercise):
    """An input that is overwritten only under no_grad() is overwritten."""
    bench = Bench(exercise)
    modes = set()
    for p in bench.properties:
        if "inputs_unchanged" not in p.body.__code__.co_names:
            continue
        for case in p.cases():
            p.check(bench.plain, bench.exact, case, exercise.forbidden)
            calls = [e.request for e in bench.plain.exchanges if isinstance(e.request, wire.Call)]
            modes |= {call.grad for call in calls if "inputs" in call.observe}
    assert modes == {True, False}


@pytest.mark.promises
@each_exercise
def test_its_promises_hold(exercise):
    assert list(selftest(exercise).broken()) == []
