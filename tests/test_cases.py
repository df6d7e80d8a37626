"""Cases: from a signature to sizes and tensors."""

import json
import subprocess
import sys

import hypothesis
import hypothesis.strategies as st
import pytest
import torch

from grader.cases import Bool, Case, Choice, Float, Ids, Index, Quantifier, Seed, Size, value_of
from grader.drawing import draw, smallest_failure
from grader.properties import prop


def quantifier(**variables):
    return Quantifier(variables, {})


def test_every_axis_has_its_own_size():
    q = quantifier(x=Float["B T 3*H*D"], ids=Ids["B T", "V"])
    for case in draw(q, 20):
        axes = [value_of(axis, case.sizes) for axis in ("B", "T", "H", "D", "V", "3*H*D")]
        assert len(set(axes)) == len(axes)
        assert 1 not in axes
        assert case.sizes["B"] >= 3
        assert case.sizes["H"] >= 2
        assert case.sizes["D"] != 4


def test_the_cases_are_the_same_every_time():
    first, second = (draw(quantifier(x=Float["B T"], t=Index["T"]), 8) for _ in range(2))
    assert [(c.sizes, c.seed, c.plain) for c in first] == [(c.sizes, c.seed, c.plain) for c in second]


DRAW = """
import sys
sys.path.insert(0, sys.argv[1])
if sys.argv[2] == "imported":
    import numbers_galore
from grader.cases import Float, Quantifier, Seed
from grader.drawing import draw
cases = draw(Quantifier({"x": Float["B T"], "s": Seed}, {}), 200)
print([(case.sizes, case.seed, case.plain) for case in cases])
"""


def test_the_cases_do_not_depend_on_what_is_imported(tmp_path):
    (tmp_path / "numbers_galore.py").write_text(f"NUMBERS = {list(range(100, 60_000, 997))}", encoding="utf-8")
    draws = [
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", DRAW, str(tmp_path), how], capture_output=True, text=True, check=True
        ).stdout
        for how in ("imported", "alone")
    ]
    assert draws[0] == draws[1]


def test_the_first_case_is_the_smallest():
    cases = draw(quantifier(x=Float["B T"]), 6)
    assert cases[0].sizes == {"B": 3, "T": 5}
    assert len(cases) == 6


def test_values_are_fresh_and_follow_from_the_seed():
    q = quantifier(x=Float["B T"], y=Float["B T"], mask=Bool["B 1 1 T"], n=Size["2*T"], s=Seed)
    case = draw(q, 2)[1]
    one, other = q.values(case), q.values(case)
    assert torch.equal(one["x"], other["x"])
    assert one["x"] is not other["x"]
    assert not torch.equal(one["x"], one["y"])
    assert one["mask"].shape == (case.sizes["B"], 1, 1, case.sizes["T"])
    assert one["mask"].dtype == torch.bool
    assert one["n"] == 2 * case.sizes["T"]
    assert one["s"] == case.plain["s"]


def test_floats_have_two_decimals_so_that_they_can_be_pasted():
    x = quantifier(x=Float["B T", 10.0]).values(Case({"B": 3, "T": 5}, 0, {}))["x"]
    assert torch.equal((x * 100).round() / 100, x)
    assert x.std() > 3


def test_every_choice_and_both_ends_of_an_index_are_among_the_cases():
    cases = draw(quantifier(x=Float["T"], t=Index["T"], kind=Choice[1, 2, 3, 4, 5, 6, 7, 8]), 4)
    assert [case.plain["kind"] for case in cases] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert cases[0].plain["t"] == 0
    assert cases[1].plain["t"] == cases[1].sizes["T"] - 1


def test_two_choices_of_the_same_length_do_not_go_in_step():
    cases = draw(quantifier(a=Choice[0, 1], b=Choice[0, 1]), 4)
    assert {(case.plain["a"], case.plain["b"]) for case in cases} == {(0, 0), (0, 1), (1, 0), (1, 1)}


def test_a_record_gives_back_the_cases():
    q = quantifier(x=Float["B T"], t=Index["T"], kind=Choice[1, True, None, "x", 1.0], s=Seed)
    for case in draw(q, 8):
        again = q.read(json.loads(json.dumps(q.written(case))))
        assert (again.sizes, again.seed) == (case.sizes, case.seed)
        assert again.plain == case.plain
        assert type(again.plain["kind"]) is type(case.plain["kind"])


def property_of(scale, count):
    @prop(points=1, cases=count)
    def some(f, x: Float["B T", scale]):  # noqa: F722 - an axis is no type
        """Something."""

    return some


@pytest.mark.parametrize(("scale", "count"), [(2.0, 3), (1.0, 4)])
def test_a_record_of_another_signature_is_not_used(scale, count):
    record = property_of(1.0, 3).record()
    record["cases"][0][1] = 12345
    same, other = property_of(1.0, 3), property_of(scale, count)
    same.deal(record)
    other.deal(record)
    assert same.cases()[0].seed == 12345
    assert other.cases()[0].seed != 12345
    assert len(other.cases()) == count


def test_a_record_with_fewer_cases_than_the_property_has_is_refused():
    record = property_of(1.0, 3).record()
    record["cases"].pop()
    with pytest.raises(ValueError, match="2 cases of some, not 3"):
        property_of(1.0, 3).deal(record)


def test_a_property_may_choose_its_sizes():
    q = Quantifier({"x": Float["T"]}, {"T": (40, 42)})
    assert all(40 <= case.sizes["T"] <= 42 for case in draw(q, 6))


def test_a_failure_shrinks_to_the_smallest_case():
    q = quantifier(x=Float["B T D"])
    known = draw(q, 6)[-1]
    smallest = smallest_failure(q, lambda case: case.sizes["T"] >= 3, known, relaxed=True, budget=60)
    assert smallest.sizes == {"B": 1, "T": 3, "D": 1}


def test_a_failure_that_comes_and_goes_still_gives_the_smallest_seen():
    q = quantifier(x=Float["B T D"])
    coin = iter(range(10_000))
    known = draw(q, 6)[-1]
    smallest = smallest_failure(q, lambda case: next(coin) % 3 == 0, known, relaxed=True, budget=60)
    assert smallest.weight <= known.weight


def test_the_search_is_bounded():
    asked = []
    smallest_failure(
        quantifier(x=Float["B T D"]),
        lambda case: asked.append(case) or False,
        Case({"B": 9, "T": 9, "D": 9}, 0, {}),
        relaxed=True,
        budget=30,
    )
    assert len(asked) <= 30


@hypothesis.settings(derandomize=True, database=None, deadline=None, max_examples=50)
@hypothesis.given(st.integers(1, 50), st.integers(1, 50))
def test_expressions_in_shapes_are_arithmetic(h, d):
    assert value_of("3*H*D+1", {"H": h, "D": d}) == 3 * h * d + 1


def test_an_unknown_letter_is_an_error():
    with pytest.raises(NameError):
        value_of("Q", {"T": 3})
