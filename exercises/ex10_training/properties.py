"""ex10: the shift, the loss, one step, a whole training.

What a training did is read from the weights it leaves; the judge computes their losses on a model of its own.
"""

import math

import torch
from torch.nn.functional import one_hot

from grader.properties import (
    Choice,
    Float,
    Ids,
    Index,
    Seed,
    Size,
    count,
    dtype,
    equal,
    exactly,
    gradients,
    holds,
    inputs_unchanged,
    prop,
    shape,
)

# ---------------------------------------------------------------------------------------------- the shift


@prop(points=6)
def shift_pairs_each_token_with_its_next(shift, ids: Ids["B T", "V"]):
    """`shift` gives all tokens but the last as inputs, and the token after each of them as targets."""
    inputs, targets = shift(ids)
    exactly(inputs, ids[:, :-1], what="inputs")
    exactly(targets, ids[:, 1:], what="targets")
    dtype(targets, ids.dtype, what="targets")


# ----------------------------------------------------------------------------------------------- the loss


@prop(points=8)
def loss_knows_good_tables_from_bad(next_token_loss, ids: Ids["B T", "V"], V: Size["V"]):
    """A table that predicts each next token has a loss near 0, one that copies a large one, a uniform one ln V."""
    uniform = torch.zeros(*ids.shape, V)
    copying = 100 + 60 * one_hot(ids, V).float()  # says: the same token again
    perfect = copying.roll(-1, dims=1)
    changes = (ids[:, 1:] != ids[:, :-1]).double().mean()
    equal(next_token_loss(uniform, ids), math.log(V), what="uniform")
    equal(next_token_loss(perfect, ids), 0.0, zero=True, what="perfect")
    equal(next_token_loss(copying, ids), 60 * changes, what="copying", zero=True)


@prop(points=6)
def loss_is_the_mean_cross_entropy(next_token_loss, reference, logits: Float["B T V", 2.0], ids: Ids["B T", "V"]):
    """Without a pad id the loss is the mean of -log softmax at the next token: a scalar, for logits of any layout."""
    want = reference.next_token_loss(logits, ids)
    loss = next_token_loss(logits, ids)
    shape(loss, [])
    equal(loss, want)
    dtype(loss, torch.float32)
    equal(next_token_loss(logits.mT.contiguous().mT, ids.T.contiguous().T), want, what="not contiguous")
    equal(next_token_loss(logits.double(), ids), want, what="float64")


@prop(points=8)
def loss_leaves_padding_out(
    next_token_loss, reference, logits: Float["B T V", 2.0], ids: Ids["B T", "V"], pad: Index["V"]
):
    """Targets that are `pad_id` count neither in the sum nor in the number of targets, whichever id that is."""
    padded = ragged(ids, pad)
    equal(next_token_loss(logits, padded, pad), reference.next_token_loss(logits, padded, pad), what="with pad_id")
    equal(next_token_loss(logits, padded), reference.next_token_loss(logits, padded), what="without pad_id")
    crowded = padded.where(padded == pad, (pad + 1) % logits.shape[-1])  # one other id, real everywhere
    equal(next_token_loss(logits, crowded, pad_id=pad), reference.next_token_loss(logits, crowded, pad), what="one id")


@prop(points=6)
def loss_has_the_right_gradient(
    next_token_loss, reference, logits: Float["B T V", 2.0], ids: Ids["B T", "V"], pad: Index["V"], c: Float["", 30.0]
):
    """The gradient at the logits is right at every real target, and zero at padding and at the last position."""
    padded = ragged(ids, pad)
    weight = c.abs() + 30
    for arguments in ([logits, padded, pad], [logits, padded]):
        want = reference.next_token_loss.gradients(*arguments, cotangent=weight)
        gradients(next_token_loss.gradients(*arguments, cotangent=weight), want)


@prop(points=5)
def loss_without_targets_is_zero(next_token_loss, logits: Float["B T V", 2.0], ids: Ids["B T", "V"], pad: Index["V"]):
    """Where every target is a pad, the loss is 0 and its gradient is all zeros, never NaN."""
    empty = ids.clone()
    empty[:, 1:] = pad  # the first token is nobody's target
    got = next_token_loss.gradients(logits, empty, pad, cotangent=torch.tensor(1.0))
    exactly(got.value, 0.0, what="loss")
    exactly(got.inputs[0] if got.inputs else None, torch.zeros_like(logits), what="logits.grad")


@prop(points=4, cases=3)
def inputs_stay_as_they_are(
    subject, shift, next_token_loss, train_step, train, logits: Float["B T V"], ids: Ids["B T", "V"], pad: Index["V"]
):
    """Logits, ids and data are the same after the call."""
    padded = ragged(ids, pad)
    inputs_unchanged(shift, padded)
    inputs_unchanged(next_token_loss, logits, padded, pad)
    inputs_unchanged(next_token_loss, logits.requires_grad_(), padded)
    model = subject.make("causal_model", **LIVELY, vocab=logits.shape[-1])
    inputs_unchanged(train_step, model, subject.make("sgd", model=model), padded)
    inputs_unchanged(train, model, padded, 2)


# ----------------------------------------------------------------------------------------------- one step

LIVELY = {"width": 12, "max_len": 16, "spread": 1.0}  # a small model with large gradients


@prop(points=4, cases=3)
def step_lowers_the_loss(subject, train_step, reference, ids: Ids["B T", "V"], V: Size["V"], seed: Seed):
    """After `train_step`, the weights of the model have a lower loss on the same ids."""
    model = {**LIVELY, "vocab": V, "seed": seed}
    before = loss_of(reference, model, {}, ids)
    _, after = stepped(subject, model, [ids], lr=0.05)
    holds(loss_of(reference, model, after, ids) < before - 1e-3, "loss_not_lower", before=f"{before:.4f}")


@prop(points=6, cases=4)
def step_is_exactly_one(subject, train_step, reference, ids: Ids["B T", "V"], V: Size["V"], seed: Seed):
    """`train_step` moves the weights by one step of the optimizer it was given, along the gradient of the mean loss."""
    model = {**LIVELY, "vocab": V, "seed": seed}
    compare(stepped(subject, model, [ids])[1], stepped(reference, model, [ids])[1])


@prop(points=4, cases=3)
def step_reports_the_loss_before_it(subject, train_step, reference, ids: Ids["B T", "V"], V: Size["V"], seed: Seed):
    """`train_step` returns the loss that the weights had before the step, as a Python float."""
    model = {**LIVELY, "vocab": V, "seed": seed}
    losses, _ = stepped(subject, model, [ids])
    floats(losses)
    equal(losses[0], loss_of(reference, model, {}, ids))


@prop(points=5, cases=3)
def step_starts_from_fresh_gradients(subject, train_step, reference, ids: Ids["B T", "V"], V: Size["V"], seed: Seed):
    """Gradients that somebody left in the parameters make no difference to the step."""
    model = {**LIVELY, "vocab": V, "seed": seed}
    compare(stepped(subject, {**model, "stale": seed + 1}, [ids])[1], stepped(reference, model, [ids])[1])


@prop(points=4, cases=3)
def steps_follow_one_another(
    subject, train_step, reference, ids: Ids["B T", "V"], more: Ids["S T", "V"], V: Size["V"], seed: Seed
):
    """Three steps in a row: each uses the gradient of its own batch, and the optimizer remembers the earlier ones."""
    model = {**LIVELY, "vocab": V, "seed": seed}
    batches = [ids, more, ids]
    losses, after = stepped(subject, model, batches, lr=0.1)
    want_losses, want_after = stepped(reference, model, batches, lr=0.1)
    compare(after, want_after)
    equal(torch.tensor(losses), torch.tensor(want_losses), tol=1e-3)


@prop(points=5, cases=3)
def step_is_made_in_train_mode(subject, train_step, reference, ids: Ids["B T", "V"], V: Size["V"], seed: Seed):
    """A model that comes in eval mode is put into train mode before it is fed, all its parts, and stays in it."""
    settings = {**LIVELY, "vocab": V, "seed": seed, "boost": 1.5}
    model = subject.make("causal_model", **settings)
    model.eval()
    optimizer = subject.make("sgd", model=model)
    train_step(model, optimizer, ids)
    holds(model.method("mode")() == "train", "left_mode", mode=model.method("mode")())
    fed_in = model.method("noted")()["modes"]
    holds(fed_in and fed_in[-1] == "train", "fed_mode", mode=fed_in[-1] if fed_in else "-")


# ------------------------------------------------------------------------------------------ a whole training


@prop(points=7, cases=2)
def training_learns_the_cycle(subject, train, reference, steps: Choice[3, 300]):
    """On the cycle 0 1 ... 7 the loss goes from ln 8 to below 0.05 within 300 steps at the default learning rate."""
    data = (3 * torch.arange(11)[:, None] + torch.arange(13)) % 8  # [N, T]
    settings = {"vocab": 8, "max_len": 16}
    model = subject.make("causal_model", **settings)
    losses = train(model, data, steps)
    floats(losses)
    count(len(losses), steps, what="losses")
    equal(losses[0], math.log(8), tol=0.5 / (1 + math.log(8)), what="first loss")
    left = loss_of(reference, settings, weights(model), data)
    holds(left < 0.05 or steps < 300, "not_learned", loss=f"{left:.4f}")


@prop(points=3, cases=2)
def training_learns_to_alternate(subject, train, reference, steps: Choice[2, 60]):
    """On 0 1 0 1 ... the model that was handed in learns to alternate: after 60 steps it predicts every next token."""
    data = (torch.arange(5)[:, None] + torch.arange(10)) % 2  # [N, T]
    settings = {"vocab": 8, "max_len": 12}
    model = subject.make("causal_model", **settings)
    train(model, data, steps)
    wrong = logits_of(reference, settings, weights(model), data)[:, :-1].argmax(-1) != data[:, 1:]
    holds(steps < 60 or not wrong.any(), "not_alternating", wrong=int(wrong.sum()), all=wrong.numel())


@prop(points=7)
def training_reports_its_own_losses(subject, train, reference):
    """Each loss in the list is the loss of the weights that the training really had at that step, in its order."""
    row = torch.tensor([2, 0, 2, 5, 1, 2, 3, 5, 0])
    data = row.repeat(6, 1)  # all rows alike: whatever the batches are, the weights alone decide the loss
    settings = {**LIVELY, "vocab": 7, "seed": 4}
    model = subject.make("causal_model", **settings, keeps_weights=True)
    losses = train(model, data, 8, lr=0.3)
    floats(losses)
    count(len(losses), 8, what="losses")
    noted = [vector.double() for vector in model.method("noted")()["weights"]]
    start = flat(weights(reference.make("causal_model", **settings)))
    holds(noted and torch.equal(noted[0], start), "not_from_here")
    passed = [*noted, flat(weights(model))]  # the weights at each time the model was fed, and those at the end
    truth = iter([loss_of(reference, settings, parted(vector, reference, settings), data) for vector in passed])
    for step, loss in enumerate(losses):  # the losses are found among the true ones, in their order
        found = any(abs(loss - true) <= 1e-3 * (1 + true) for true in truth)
        holds(found, "no_such_loss", step=step, loss=f"{loss:.4f}")


@prop(points=4)
def training_repeats_with_its_seed(subject, train):
    """The same model, data and seed give the same losses and weights; the defaults are lr=3e-3 and seed=0."""
    data = torch.randint(9, (40, 7), generator=torch.Generator().manual_seed(1))
    settings = {**LIVELY, "vocab": 9, "seed": 5}

    def trained(**options):
        model = subject.make("causal_model", **settings)
        return torch.tensor(train(model, data, 6, **options)), flat(weights(model))

    for options in ({"seed": 3}, {"lr": 3e-3, "seed": 0}):
        first = trained(**options)
        second = trained(**options) if options["seed"] else trained()
        equal(second[0], first[0], tol=1e-5, what="losses")
        equal(second[1], first[1], tol=1e-5, what="weights")


@prop(points=4, cases=2)
def training_uses_every_row(subject, train, rows: Choice[12, 70]):
    """Every row of the data is trained on, the last ones too."""
    kinds = torch.arange(rows) if rows == 12 else (torch.arange(rows) >= 64).long()  # rows of a kind are alike
    data = 3 * kinds[:, None] + torch.arange(8) % 3  # [N, T]: three tokens that no other kind has
    settings = {"width": 16, "max_len": 10, "vocab": 36, "seed": 2, "spread": 0.3}
    model = subject.make("causal_model", **settings)
    before = weights(model)["tokens"].double()  # [V, C]: the vector of a token turns only if the token was fed
    train(model, data, 100, lr=5e-3)
    after = weights(model)["tokens"].double()
    along = (after * before).sum(1, keepdim=True) / before.square().sum(1, keepdim=True)  # weight decay shortens it
    turned = (after - along * before).norm(dim=1)[data].amin(dim=1)  # [N]
    holds(turned.min() > 2e-5, "row_not_used", row=int(turned.argmin()), rows=rows)


@prop(points=4)
def training_obeys_the_learning_rate(subject, train):
    """A learning rate a hundred times larger moves the weights much farther."""
    data = (torch.arange(5)[:, None] + torch.arange(9)) % 7
    settings = {**LIVELY, "vocab": 7, "seed": 6}

    def moved(lr):
        model = subject.make("causal_model", **settings)
        before = flat(weights(model))
        train(model, data, 3, lr=lr)
        return float((flat(weights(model)) - before).abs().max())

    slow, fast = moved(1e-4), moved(1e-2)
    holds(fast > 10 * slow > 0, "lr_ignored", slow=f"{slow:.2g}", fast=f"{fast:.2g}")


# ------------------------------------------------------------------------------------- what they are made of


def ragged(ids, pad):
    """The ids with padding: at the end of the first row, at the start of the second, then none, then by turns."""
    padded = ids.clone()
    for row in range(len(ids)):
        length = 1 + (row + ids.shape[1] // 2) % (ids.shape[1] - 1)  # real tokens, at least one, never all
        if row % 3 == 0:
            padded[row, length:] = pad
        elif row % 3 == 1:
            padded[row, :-length] = pad
    return padded


def stepped(side, settings, batches, lr=0.5):
    """The losses of one `train_step` a batch, and the weights afterwards."""
    model = side.make("causal_model", **settings)
    optimizer = side.make("sgd", model=model, lr=lr, momentum=0.9, decay=0.02)
    losses = [side.train_step(model, optimizer, ids) for ids in batches]
    return losses, weights(model)


def weights(model):
    return {name: parameter.value for name, parameter in model.parameters().items()}


def flat(named):
    return torch.cat([value.flatten().double() for value in named.values()])


def parted(vector, reference, settings):
    """A vector of all weights, as they are called in a model of these settings."""
    named = weights(reference.make("causal_model", **settings))
    pieces = vector.split([value.numel() for value in named.values()])
    return {name: piece.view_as(named[name]) for name, piece in zip(named, pieces, strict=True)}


def compare(got, want):
    for name, value in want.items():
        equal(got.get(name), value, what=name)


def logits_of(reference, settings, named, data):
    """The logits under these weights (none: those a model starts with), computed by the judge."""
    model = reference.make("causal_model", **settings)
    model.write(named)
    return model(data)


def loss_of(reference, settings, named, data):
    return float(reference.next_token_loss(logits_of(reference, settings, named, data), data))


def floats(losses):
    holds(isinstance(losses, list) and all(type(loss) is float for loss in losses), "not_floats")
