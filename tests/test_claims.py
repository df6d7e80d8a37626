"""Claims: what they accept, what they refuse, and which element they show."""

import math

import pytest
import torch

from grader.claims import (
    Measurement,
    VacuousClaim,
    Violation,
    count,
    depends,
    divergence,
    equal,
    exactly,
    finite,
    measured,
    refilled,
    shape,
    sums_to_one,
)
from grader.subject import Subject
from grader.wire import Opaque
from grader.worker.serve import Interpreter


def violation(claim, *args, **kwargs) -> Violation:
    with pytest.raises(Violation) as caught:
        claim(*args, **kwargs)
    return caught.value


def test_equal_accepts_what_is_within_the_tolerance_of_the_largest():
    want = torch.tensor([100.0, 0.0], dtype=torch.float64)
    equal(torch.tensor([100.009, 0.009]), want)
    violation(equal, torch.tensor([100.0, 0.02]), want)


def test_equal_shows_the_worst_element_with_enough_digits():
    error = violation(equal, torch.tensor([1.0, 2.002, 3.0]), torch.tensor([1.0, 2.0, 3.0]))
    assert error.worst == (1,)
    assert error.params["got"] == "2.002"
    assert error.params["want"] == "2"
    close = violation(equal, torch.tensor([1.0000001]), torch.tensor([1.0]), tol=1e-9)
    assert close.params["got"] != close.params["want"]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_equal_never_accepts_nan_or_infinity_for_a_number(bad):
    assert violation(equal, torch.tensor([1.0, bad]), torch.tensor([1.0, 2.0])).key == "equal.finite"


def test_equal_wants_an_infinity_where_the_reference_has_one():
    want = torch.tensor([1.0, -math.inf])
    equal(torch.tensor([1.0, -math.inf]), want)
    assert violation(equal, torch.tensor([1.0, -1e9]), want).key == "equal.finite"
    assert violation(equal, torch.tensor([1.0, math.inf]), want).key == "equal.finite"


def test_equal_refuses_to_compare_with_nothing():
    with pytest.raises(VacuousClaim):
        equal(torch.zeros(3), torch.zeros(3))
    equal(torch.zeros(3), torch.zeros(3), zero=True)


@pytest.mark.parametrize("answer", [None, "text", Opaque("ndarray"), [torch.ones(2)], {"a": 1}])
def test_equal_names_the_type_of_what_is_no_tensor(answer):
    assert violation(equal, answer, torch.ones(2)).key in ("kind.none", "kind.other")


def test_equal_refuses_another_shape_even_if_it_broadcasts():
    assert violation(equal, torch.ones(1, 2), torch.ones(2)).key == "shape"


def test_equal_refuses_complex_numbers():
    assert violation(equal, torch.ones(2, dtype=torch.complex64), torch.ones(2)).key == "dtype"


def test_a_missing_gradient_is_said_to_be_missing():
    assert violation(equal, None, torch.ones(2), what="q.grad").key == "gradient.none"


def test_exactly_tells_truth_values_from_numbers():
    exactly(torch.tensor([True, False]), torch.tensor([True, False]))
    assert violation(exactly, torch.tensor([1, 0]), torch.tensor([True, False])).key == "dtype"
    assert violation(exactly, torch.tensor([1e-9]), torch.tensor([0.0])).worst == (0,)


def test_depends_wants_a_difference():
    depends(torch.tensor([1.0]), torch.tensor([1.1]))
    assert violation(depends, torch.tensor([1.0]), torch.tensor([1.0])).key == "depends"
    assert violation(depends, torch.tensor([1.0]), torch.tensor([math.nan])).key == "finite"


def test_refilled_wants_the_earlier_answer_to_stay():
    subject = Subject(Interpreter().handle)
    source = "def fresh(x):\n    return 2 * x\n\nkept = []\n\ndef stale(x):\n"
    source += "    kept.append(2 * x)\n    return kept[0].copy_(2 * x)\n"
    subject.load({"ex.py": source}, "ex.py")
    x = torch.tensor([1.0, 3.0])
    assert refilled(subject.fresh, x, earlier=[-x]).tolist() == [2, 6]
    assert violation(refilled, subject.stale, x, earlier=[-x]).key == "earlier_answer"


def test_shape_count_finite_and_sums():
    shape(torch.ones(2, 3), 2, 3)
    shape(torch.ones(2, 3), [2, 3])
    count(3, 3)
    assert violation(count, torch.tensor(3), 3).params == {"type": "Tensor"}
    assert violation(count, True, 1).key == "kind.int"
    assert violation(count, 4, 3).params["difference"] == "+1"
    assert violation(finite, torch.tensor([[0.0, math.nan]])).worst == (0, 1)
    sums_to_one(torch.tensor([[0.25, 0.75]]), -1)
    violation(sums_to_one, torch.tensor([[0.25, 0.7]]), -1)


def test_measurements_say_how_far_a_claim_was_from_its_limit():
    with measured() as ledger:
        equal(torch.tensor([1.0001]), torch.tensor([1.0]))
        depends(torch.tensor([0.0]), torch.tensor([1.0]), by=0.1)
    assert [entry.kind for entry in ledger] == ["error", "effect"]
    assert ledger[0].value == pytest.approx(0.5, rel=0.01)
    assert ledger[1] == Measurement("effect", pytest.approx(10.0))


def test_a_share_is_never_odder_than_it_is_likely():
    p, draws = 0.3, 40
    chances = [math.comb(draws, k) * p**k * (1 - p) ** (draws - k) for k in range(draws + 1)]
    for k in range(draws + 1):
        tail = sum(chances[k:]) if k >= p * draws else sum(chances[: k + 1])
        bound = math.exp(-draws * float(divergence(torch.tensor(k / draws, dtype=torch.float64), p)))
        assert tail <= bound * (1 + 1e-9) <= 100 * tail
