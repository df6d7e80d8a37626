"""Diagnosis: the right name or none."""

import pytest
import torch

from grader import judge, wire
from grader.diagnosis import Witness, names_of
from grader.judge import LocalWorker
from grader.subject import Exchange
from tests.engine import changed, tiny_bench


@pytest.fixture(scope="module")
def bench():
    return tiny_bench()


def names(bench, source):
    judged = bench.judge(LocalWorker, source, "en")
    return [diagnosis.name for diagnosis in bench.diagnoses(LocalWorker, source, judged, "en")]


def named(bench, *edits):
    return names(bench, changed(bench, *edits))


def test_every_mistake_is_named(bench):
    for name in bench.named:
        assert names(bench, bench.mistaken(name)) == [name]


def test_the_same_mistake_in_other_words_is_named(bench):
    assert named(bench, ("q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5", "(k @ q.transpose(1, 2)).mT")) == [
        "forgets_to_scale"
    ]


def test_two_mistakes_in_two_functions_are_both_named(bench):
    edits = (" / q.shape[-1] ** 0.5", ""), ("if x.shape[-1] % 2:", "if False:")
    assert sorted(named(bench, *edits)) == ["accepts_an_odd_width", "forgets_to_scale"]


def test_two_mistakes_in_one_function_are_not_taken_for_another(bench):
    assert (
        named(
            bench, ("q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5", "2 * q @ k.transpose(-2, -1) / q.shape[-2] ** 0.5")
        )
        == []
    )


@pytest.mark.parametrize(
    ("type", "holds", "alike"),
    [("ValueError", True, True), ("TypeError", True, False), ("ValueError", False, False)],
)
def test_an_error_that_was_asked_for_may_be_worded_in_any_way(bench, type, holds, alike):
    asked = bench.properties[0]

    def witness(type, message):
        exchange = Exchange(wire.Forget(), wire.Raised(type, [], message, []))
        answers = {(asked.name, n): judge.Testimony((exchange,), holds) for n in range(len(asked.cases()))}
        return Witness(lambda: None, None, [], answers)

    assert witness("ValueError", "7 is odd").answers_like(witness(type, "odd: 7"), [asked]) is alike


@pytest.mark.parametrize(("trained", "alike"), [(False, True), (True, False)])
def test_weights_count_once_a_call_may_have_changed_them(bench, trained, alike):
    asked = bench.properties[0]

    def witness(weight):
        row = {"name": "weight", "value": torch.tensor([weight]), "requires_grad": True, "same_as": None}
        calls = [Exchange(wire.Call(name="train", args=[wire.Handle(1, "Model")]), wire.Answer())] if trained else []
        exchanges = (*calls, Exchange(wire.Parameters(1), wire.Answer(value=[row])))
        answers = {(asked.name, n): judge.Testimony(exchanges, True) for n in range(len(asked.cases()))}
        return Witness(lambda: None, None, [], answers)

    assert witness(0.5).answers_like(witness(0.7), [asked]) is alike
    assert witness(0.5).answers_like(witness(0.5), [asked])


def test_an_unknown_mistake_has_no_name(bench):
    assert named(bench, ("/ q.shape[-1] ** 0.5", "/ q.shape[-1] ** 0.6")) == []


def test_what_is_right_has_no_mistake(bench):
    assert names(bench, bench.reference) == []


def test_a_mistake_that_fails_what_holds_for_the_submission_is_not_its_name(bench):
    failed, held = bench.properties[0], bench.properties[2]
    wrong = judge.Testimony((Exchange(wire.Forget(), wire.Answer(value=1)),), False)
    right = judge.Testimony((Exchange(wire.Forget(), wire.Answer(value=2)),), True)

    def witness(last):
        answers = {(failed.name, n): wrong for n in range(len(failed.cases()))} | {
            (held.name, n): right for n in range(len(held.cases()))
        }
        return Witness(lambda: None, None, [], answers | {(held.name, len(held.cases()) - 1): last})

    def named(mistake):
        return names_of(witness(right), {"it": mistake}, [failed, held], [failed.name], [held.name])

    assert named(witness(right)) == ["it"]
    assert named(witness(wrong)) == []
