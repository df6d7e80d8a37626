"""Code that reproduces a counterexample: exact to the bit, layout included."""

import hypothesis
import hypothesis.strategies as st
import pytest
import torch

from grader import wire
from grader.reproduction import Script, literal
from grader.subject import Exchange


def run(code: str) -> torch.Tensor:
    return eval(code, {"torch": torch, "float": float})


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor([[1.5, -0.29], [0.0, 3.0]]),
        torch.tensor(0.1),
        torch.tensor([1, 2, 3]),
        torch.tensor([True, False]),
        torch.tensor([0.1, 1e-30, float("inf"), float("-inf")]),
        torch.tensor([0.1, 2.0], dtype=torch.float16),
        torch.tensor([1 / 3, 2.0], dtype=torch.float64),
        torch.zeros(2, 0),
        torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).T,
        torch.tensor([[1.0], [2.0]]).expand(2, 3),
    ],
)
def test_a_literal_is_the_tensor_itself(tensor):
    again = run(literal(tensor))
    assert torch.equal(again, tensor)
    assert again.dtype == tensor.dtype
    assert again.stride() == tensor.stride()


@hypothesis.settings(derandomize=True, database=None, deadline=None, max_examples=200)
@hypothesis.given(st.floats(width=32, allow_nan=False))
def test_every_float_comes_back(value):
    assert run(literal(torch.tensor([value]))).item() == value


@pytest.mark.parametrize("size", [10_000, 1_900])
def test_code_that_is_too_long_to_paste_is_no_code(size):
    call = wire.Call(name="f", args=[torch.full((size,), 0.123456)], kwargs={})
    assert Script("m.py", {}, [Exchange(call, wire.Answer(value=None))]).code == ""


def test_what_only_the_grader_has_cannot_be_pasted():
    made = Exchange(wire.Make(kind="table", kwargs={}), wire.Answer(value=wire.Handle(0, "Table")))
    called = Exchange(wire.Call(name="generate", args=[wire.Handle(0, "Table")]), wire.Answer(value=None))
    script = Script("m.py", {}, [made, called])
    assert script.call(called) == "generate(table)"
    assert script.code == ""


def test_calls_name_the_arguments_of_the_property():
    q = torch.tensor([1.0, 2.0])
    call = wire.Call(name="f", args=[q, torch.tensor([3.0]), 7], kwargs={"causal": True})
    exchange = Exchange(call, wire.Answer(value=q))
    script = Script("ex99_thing.py", {"q": q}, [exchange])
    assert script.call(exchange) == "f(q, x1, 7, causal=True)"
    code = script.code
    assert "from ex99_thing import f" in code
    assert "out = f(q, x1, 7, causal=True)" in code
    assert code.index("q = torch.tensor([1.0, 2.0])") < code.index("out = ")


def test_tensors_that_held_other_numbers_are_filled_twice():
    now, before, other = torch.tensor([1.0]), torch.tensor([2.0]), torch.tensor([3.0])
    request = wire.Call(name="f", args=[now], kwargs={"by": before}, earlier=[before, other])
    seen = []
    code = Script("m.py", {"x": now}, [Exchange(request, wire.Answer(value=now))]).code.replace("from m import f", "")
    exec(code, {"f": lambda x, by: seen.append((float(x), float(by))) or x})
    assert seen == [(2.0, 3.0), (1.0, 2.0)]
    assert code.count("print(out)") == 2  # the answer of the first call, before and after the second


def test_a_call_whose_operations_are_looked_at_is_made_in_both_modes():
    now, modes = torch.tensor([1.0]), []
    exchange = Exchange(wire.Call(name="f", args=[now], observe=["ops"]), wire.Answer(value=now))
    code = Script("m.py", {"x": now}, [exchange]).code.replace("from m import f", "")
    exec(code, {"f": lambda tensor: modes.append(torch.is_grad_enabled()) or tensor})
    assert modes == [True, False]


@pytest.mark.parametrize("grad", [True, False])
def test_the_earlier_call_is_made_in_the_same_grad_mode(grad):
    now, before, modes = torch.tensor([1.0]), torch.tensor([2.0]), []
    exchange = Exchange(wire.Call(name="f", args=[now], earlier=[before], grad=grad), wire.Answer(value=now))
    code = Script("m.py", {"x": now}, [exchange]).code.replace("from m import f", "")
    exec(code, {"f": lambda tensor: modes.append(torch.is_grad_enabled()) or tensor})
    assert modes == [grad, grad]


def test_a_second_call_comes_before_the_backward_pass():
    x, other, flow = torch.tensor([1.0]), torch.tensor([2.0]), torch.tensor([3.0])
    request = wire.Call(name="f", args=[x], kwargs={"by": other}, cotangent=flow, later=[other, x], to_inputs=False)
    code = Script("m.py", {"x": x, "other": other}, [Exchange(request, wire.Answer(value=x))]).code
    calls = ["out = f(x, by=other)", "f(other, by=x)", "torch.autograd.backward(out, "]
    assert sorted(calls, key=code.index) == calls
    assert "requires_grad_" not in code


def test_a_call_without_gradients_says_so():
    call = wire.Call(name="f", args=[2], kwargs={}, seed=0, grad=False)
    code = Script("main.py", {}, [Exchange(call, wire.Answer(value=0))]).code
    assert "with torch.no_grad():\n    out = f(2)\nprint(out)" in code


def test_modules_keep_their_name_and_take_their_weights():
    made = Exchange(wire.Call(name="TokenEmbedding", args=[5]), wire.Answer(value=wire.Handle(0, "TokenEmbedding")))
    written = Exchange(wire.Write(handle=0, values={"weight": torch.ones(2)}), wire.Answer())
    called = Exchange(wire.Call(handle=0, args=[torch.tensor([1])]), wire.Answer(value=torch.ones(1)))
    code = Script("ex01_embedding.py", {}, [made, written, called]).code
    assert "token_embedding = TokenEmbedding(5)" in code
    assert 'token_embedding.get_parameter("weight").copy_(torch.tensor([1.0, 1.0]))' in code
    assert "out = token_embedding(x1)" in code
