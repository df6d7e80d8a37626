"""Layouts: the numbers of a module are found under other names, in other places, and never where they are not."""

import pytest
import torch

from grader import layouts, wire
from grader.subject import Subject, given_weights
from grader.worker.serve import Interpreter

OURS = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(6, 18)
        self.proj = nn.Linear(6, 6)

    def forward(self, x):
        q, k, v = self.qkv(x).split(6, dim=-1)
        return self.proj((q @ k.mT).softmax(-1) @ v).tanh()
"""
RENAMED = OURS.replace("self.qkv", "self.inner").replace("self.proj", "self.outer")
APART = OURS.replace(
    "self.qkv = nn.Linear(6, 18)", "self.q, self.k, self.v = (nn.Linear(6, 6) for _ in range(3))"
).replace("self.qkv(x).split(6, dim=-1)", "self.q(x), self.k(x), self.v(x)")
SCATTERED = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.everything = nn.Parameter(torch.zeros(4, 7, 6))

    def forward(self, x):
        weights, biases = self.everything[:, :6].flip(0), self.everything[:, 6]
        v, proj, k, q = (x @ w + b if i != 1 else (w, b) for i, (w, b) in enumerate(zip(weights, biases)))
        return ((q @ k.mT).softmax(-1) @ v @ proj[0] + proj[1]).tanh()
"""
WRONG = OURS.replace("q, k, v =", "q, v, k =").replace(".softmax(-1)", ".softmax(-2)")


def model(source: str, dtype: torch.dtype | None = None):
    subject = Subject(Interpreter(dtype).handle)
    subject.load({"model.py": source}, "model.py")
    return subject.Model()


@pytest.fixture
def ours():
    return model(OURS, torch.float64)


@pytest.fixture
def x():
    return torch.randn(3, 5, 6, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("source", [OURS, RENAMED, APART, SCATTERED])
def test_weights_written_through_the_layout_give_our_values_and_gradients(source, ours, x):
    theirs = model(source)
    layout, found = layouts.find(theirs, [ours], [x])
    weights = given_weights(ours, seed=7)
    assert theirs.write(layout.theirs_from(weights)) is None
    found.write(weights)
    cotangent = torch.ones(3, 5, 6)
    mine, right = theirs.gradients(x, cotangent=cotangent), found.gradients(x, cotangent=cotangent)
    assert torch.allclose(mine.value.double(), right.value, atol=1e-5)
    for name, gradient in layout.ours_from(mine.parameters).items():
        assert torch.allclose(gradient.double(), right.parameters[name], atol=1e-4), name


def test_a_wrong_module_has_no_layout(ours, x):
    assert layouts.find(model(WRONG), [ours], [x]) is None


def test_a_module_built_like_one_before_is_asked_for_no_gradients(ours, x):
    layouts.find(model(SCATTERED), [ours], [x])
    again = model(SCATTERED.replace("everything", "all_of_it"))
    layout, _ = layouts.find(again, [ours], [x])
    assert list(layout.places) == ["all_of_it"]
    asked = [exchange.request for exchange in again._subject.exchanges]
    assert not [call for call in asked if isinstance(call, wire.Call) and call.cotangent is not None]
    other = SCATTERED.replace("v, proj, k, q =", "q, proj, k, v =")  # of the same shapes, laid out otherwise
    assert layouts.find(model(other), [ours], [x]) is not None


def test_a_renamed_module_is_told_by_its_holders(ours, x):
    layout, _ = layouts.find(model(RENAMED), [ours], [x])
    assert layout.holders()["qkv.weight"] == ["inner.weight"]


def test_stacked_parts_are_told_by_their_holders(ours, x):
    layout, _ = layouts.find(model(APART), [ours], [x])
    assert layout.holders()["qkv.bias"] == ["q.bias", "k.bias", "v.bias"]


def test_of_two_models_the_one_that_fits_is_found(x):
    other = model(OURS.replace(".tanh()", ".sigmoid()"), torch.float64)
    right = model(OURS, torch.float64)
    assert layouts.find(model(SCATTERED), [other, right], [x])[1] is right


def test_what_begins_as_ones_is_given_the_weight_of_a_norm():
    weights = layouts.any_weights(model("from torch import nn\nModel = lambda: nn.LayerNorm(500)"), seed=1)
    assert 0.9 < float(weights["weight"].mean()) < 1.1
    assert float(weights["bias"].abs().max()) > 0
