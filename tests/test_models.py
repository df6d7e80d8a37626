"""The grader's own models and optimizers do what the exercises take for granted."""

import copy

import pytest
import torch
from torch import nn

from grader.worker.models import KnownLogits, TinyCausal, causal_model, cycle_model, sgd

IDS = torch.tensor([[3, 1, 4, 1, 5], [2, 0, 2, 6, 0], [6, 5, 3, 5, 1]])
TABLE = torch.randn(11, 7, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("model", [KnownLogits(TABLE), TinyCausal(vocab=7), TinyCausal(vocab=7, biased=True)])
def test_logits_depend_on_all_tokens_so_far_and_on_no_later_one(model: nn.Module) -> None:
    before = model(IDS)
    for place in range(IDS.shape[1]):
        changed = IDS.clone()
        changed[:, place] = (changed[:, place] + 1) % 7
        differs = (model(changed) != before).any(dim=-1)  # [B, T]
        assert not differs[:, :place].any()
        assert differs[:, place:].all()


def test_known_logits_depend_on_where_the_window_begins() -> None:
    model = KnownLogits(TABLE)
    assert not torch.equal(model(IDS)[:, -1], model(IDS[:, 1:])[:, -1])


def test_a_model_refuses_more_than_max_len_tokens() -> None:
    with pytest.raises(IndexError, match=r"max_len = 4.*T = 5"):
        KnownLogits(TABLE, max_len=4)(IDS)


def test_a_model_refuses_what_is_no_batch() -> None:
    with pytest.raises(ValueError, match=r"\[5\]"):
        KnownLogits(TABLE)(IDS[0])


def test_the_record_tells_what_was_fed_in_which_mode_and_with_gradients() -> None:
    model = KnownLogits(TABLE)
    model(IDS)
    model.eval()
    with torch.no_grad():
        model(IDS[:, :2])
    model.training = True
    model(IDS[:, :3])
    noted = model.noted()
    assert [ids.shape[1] for ids in noted["fed"]] == [5, 2, 3]
    assert noted["modes"] == ["train", "eval", "mixed"]
    assert noted["graphs"] == [True, False, True]


def test_the_record_counts_answers_that_somebody_changed() -> None:
    model = KnownLogits(TABLE)
    with torch.no_grad():
        model(IDS)
        model(IDS)[:, -1].div_(2)
    assert model.noted()["spoiled"] == 1


def test_a_copy_notes_into_the_same_record() -> None:
    model = TinyCausal(vocab=7, keeps_steps=True)
    copy.deepcopy(model)(IDS)
    assert len(model.noted()["weights"]) == 1


def test_the_same_seed_gives_the_same_weights_in_either_precision() -> None:
    single = TinyCausal(vocab=7)
    torch.set_default_dtype(torch.float64)
    try:
        double = TinyCausal(vocab=7)
    finally:
        torch.set_default_dtype(torch.float32)
    for one, other in zip(single.parameters(), double.parameters(), strict=True):
        assert torch.equal(one.double(), other)


def test_it_notes_what_came_back_and_whether_it_was_added() -> None:
    model = TinyCausal(vocab=7, keeps_steps=True)
    for clears in (True, False, True):
        logits = model(IDS)
        if clears:
            model.zero_grad()
        (3 * logits).sum().backward()
    noted = model.noted()
    assert noted["stale"] == [False, True, False]
    for gradient in noted["arrived"]:
        torch.testing.assert_close(gradient, torch.full_like(logits, 3.0))


def test_gradients_that_are_replaced_are_not_added() -> None:
    model = TinyCausal(vocab=7, keeps_steps=True)
    for _ in range(2):
        parameters = list(model.parameters())
        for parameter, gradient in zip(parameters, torch.autograd.grad(model(IDS).sum(), parameters), strict=True):
            parameter.grad = gradient
    assert model.noted()["stale"] == [False, False]


def test_a_submission_may_turn_the_model_to_double() -> None:
    model = TinyCausal(vocab=7, biased=True)
    single = model(IDS)
    double = model.double()(IDS)
    assert double.dtype is torch.float64
    torch.testing.assert_close(double.float(), single)


def test_boost_acts_in_train_mode_only() -> None:
    plain, boosted = TinyCausal(vocab=7), TinyCausal(vocab=7, boost=1.5)
    torch.testing.assert_close(boosted(IDS), 1.5 * plain(IDS))
    torch.testing.assert_close(boosted.eval()(IDS), plain(IDS))


def test_stale_gradients_are_left_in_every_parameter() -> None:
    left = [parameter.grad for parameter in causal_model(vocab=7, stale=1).parameters()]
    assert all(grad is not None and grad.isinf().sum() == 1 for grad in left)


def test_starting_over_gives_other_weights() -> None:
    model, same = TinyCausal(vocab=7), TinyCausal(vocab=7)
    torch.manual_seed(0)  # the model's own
    model.reset_parameters()
    assert not any(torch.equal(*pair) for pair in zip(model.parameters(), same.parameters(), strict=True))


def test_our_gradient_descent_is_the_librarys() -> None:
    ours, theirs = TinyCausal(vocab=7), TinyCausal(vocab=7)
    one = sgd(ours, lr=0.1, momentum=0.9, decay=0.02)
    other = torch.optim.SGD(theirs.parameters(), lr=0.1, momentum=0.9, weight_decay=0.02)
    for _ in range(3):
        for model, optimizer in ((ours, one), (theirs, other)):
            optimizer.zero_grad()
            model(IDS).square().mean().backward()
            optimizer.step()
    for mine, library in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, library)


def test_our_gradient_descent_takes_a_closure() -> None:
    model = TinyCausal(vocab=7)
    optimizer = sgd(model)

    def closure() -> torch.Tensor:
        loss = model(IDS).square().mean()
        loss.backward()
        return loss

    first = optimizer.step(closure)
    assert closure().item() < first.item()


def test_the_cycle_model_knows_the_cycle() -> None:
    model = cycle_model().eval()
    ids = (torch.arange(8)[:, None] + torch.arange(10)) % 8
    certain = model(ids).softmax(-1).max(-1)
    assert torch.equal(certain.indices, (ids + 1) % 8)
    assert certain.values.min() > 0.99
