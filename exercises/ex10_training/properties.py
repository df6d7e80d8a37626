"""ex10: the shift, the loss, one step, a whole training.

What a training did is read from the weights it leaves; the judge computes their losses on a model of its own.
"""

import dataclasses
import itertools
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
    refilled,
    shape,
)

# ---------------------------------------------------------------------------------------------- the shift


@prop(points=6, cases=2)
def shift_pairs_each_token_with_its_next(shift, ids: Ids["B T", "V"], others: Ids["B T", "V"]):
    """`shift` gives all tokens but the last as inputs, and the token after each of them as targets."""
    pairs_up(shift(ids), ids)
    pairs_up(shift(ids[:1]), ids[:1], " of one row")
    large = (5000 * ids).int().T.contiguous().T
    pairs_up(shift(large), large, " of int32 ids, not contiguous")
    pairs_up(
        refilled(shift, ids, earlier=[torch.cat([ids[:1], others[1:]])]), ids, " of a tensor that held other ids before"
    )


# ----------------------------------------------------------------------------------------------- the loss


@prop(points=8, cases=2)
def loss_knows_good_tables_from_bad(next_token_loss, ids: Ids["B T", "V"], V: Size["V"]):
    """A table that predicts each next token has a loss near 0, one that copies a large one, a uniform one ln V."""
    uniform = (1000.0 * torch.arange(len(ids)))[:, None, None].expand(*ids.shape, V)  # of each row, far apart
    copying = 100 + 150 * one_hot(ids, V).float()  # says: the same token again
    perfect = copying.roll(-1, dims=1)
    changes = (ids[:, 1:] != ids[:, :-1]).double().mean()
    equal(next_token_loss(uniform, ids), math.log(V), what="uniform")
    equal(next_token_loss(perfect, ids), 0.0, zero=True, what="perfect")
    equal(next_token_loss(copying, ids), 150 * changes, what="copying", zero=True)


@prop(points=6, cases=1)
def loss_is_the_mean_cross_entropy(
    next_token_loss,
    reference,
    logits: Float["B T V", 2.0],
    ids: Ids["B T", "V"],
    earlier: Float["B T V", 2.0],
    others: Ids["B T", "V"],
):
    """Without a pad id the loss is the mean of -log softmax at the next token: a scalar, for any logits."""
    want = reference.next_token_loss(logits, ids)
    loss = next_token_loss(logits, ids)
    shape(loss, [])
    equal(loss, want)
    dtype(loss, torch.float32)
    equal(next_token_loss(logits.mT.contiguous().mT, ids.T.contiguous().T), want, what="not contiguous")
    equal(next_token_loss.without_grad(logits, ids), want, what="without gradients")
    equal(refilled(next_token_loss, logits, ids, earlier=[earlier, others]), want, what="second call")
    for rows, tokens in (logits[:1], ids[:1]), (logits[:, :2], ids[:, :2]), prolonged(logits, ids):
        loss = next_token_loss(rows, tokens)
        equal(loss, reference.next_token_loss(rows, tokens), what=f"B = {rows.shape[0]}, T = {rows.shape[1]}")
    for kind, tol in (torch.float64, 1e-4), (torch.bfloat16, 5e-2), (torch.float16, 1e-2):
        given = (8 * logits).to(kind)
        loss = next_token_loss(given, ids)
        equal(loss, reference.next_token_loss(given, ids), tol, what=str(kind))
        dtype(loss, kind)


@prop(points=8, cases=2)
def loss_leaves_padding_out(
    next_token_loss, reference, logits: Float["B T V", 2.0], ids: Ids["B T", "V"], lower: Index["V-2"]
):
    """Targets that are `pad_id` count neither in the sum nor in the number of targets, whichever id that is."""
    V = logits.shape[-1]
    pad = lower + 1  # neither the first id nor the last: those come below
    padded = ragged(ids, pad)
    crowded = padded.where(padded == pad, 0)  # one other id, which is real as all others are
    single = torch.full_like(ids, pad)
    single[1, 2] = 0
    around = torch.full_like(ids, pad)
    around[:2] = torch.tensor([[pad - 1], [pad + 1]])  # these come to as much as pads would
    for what, tokens, pad_id in (
        ("with pad_id", padded, pad),
        ("without pad_id", padded, None),
        ("a few pads", ids, pad),  # wherever that id happens to be
        ("one id, 0", crowded, pad),
        ("one id, 0, without pad_id", torch.zeros_like(ids), None),
        ("one id, 0, and no pads", torch.zeros_like(ids), pad),
        ("ids around pad_id", around, pad),
        ("one target", single, pad),
        ("one target, pad_id=0", (single == 0).long(), 0),
        ("pad_id=0", ragged(ids, 0), 0),
        ("the last id, not contiguous", ragged(ids, V - 1).T.contiguous().T, V - 1),
    ):
        want = reference.next_token_loss(logits, tokens, pad_id)
        equal(next_token_loss(logits, tokens, pad_id=pad_id), want, what=what)
    dtype(next_token_loss(logits.bfloat16(), padded, pad), torch.bfloat16)
    row = logits[:1], padded[:1], pad
    equal(next_token_loss(*row), reference.next_token_loss(*row), what="one row")


@prop(points=6, cases=1)
def loss_has_the_right_gradient(
    next_token_loss, reference, logits: Float["B T V", 2.0], ids: Ids["B T", "V"], pad: Index["V"], c: Float["", 30.0]
):
    """The gradient at the logits is right at every real target, and zero at padding and at the last position."""
    padded = ragged(ids, pad)
    weight = c.abs() + 30
    for arguments in [logits, padded, pad], [logits, padded], [logits[:1], ids[:1]], [logits, ragged(ids, 1), 1]:
        want = reference.next_token_loss.gradients(*arguments, cotangent=weight)
        gradients(next_token_loss.gradients(*arguments, cotangent=weight), want)


@prop(points=5, cases=1)
def loss_without_targets_is_zero(next_token_loss, logits: Float["B T V", 2.0], ids: Ids["B T", "V"], pad: Index["V"]):
    """Where every target is a pad, the loss is 0 and its gradient is all zeros, never NaN."""
    for given, pad_id in (logits, pad), (logits[:1].double(), 1):
        tokens = ids[: len(given)].clone()
        tokens[:, 1:] = pad_id  # the first token is nobody's target
        one = tokens.clone()
        one[-1, -1] = (pad_id + 1) % logits.shape[-1]
        for other in one, tokens.flip(1):  # what it says of these is not what it says of the others
            next_token_loss(given, other, pad_id)
        got = next_token_loss.gradients(given, tokens, pad_id, cotangent=torch.tensor(1.0))
        exactly(got.value, 0.0, what="loss")
        dtype(got.value, given.dtype, what="loss")
        exactly(got.inputs[0] if got.inputs else None, torch.zeros_like(given), what="logits.grad")


@prop(points=4, cases=1)
def inputs_stay_as_they_are(
    subject, shift, next_token_loss, train_step, train, logits: Float["B T V"], ids: Ids["B T", "V"], V: Size["V"]
):
    """Logits, ids and data are the same after the call."""
    for grad, pad in (True, 1), (False, V - 1):
        padded = ragged(ids, pad)
        inputs_unchanged(shift, padded, grad=grad)
        inputs_unchanged(next_token_loss, logits, padded, pad, grad=grad)
    inputs_unchanged(next_token_loss, logits[:1], ragged(ids, 0)[:1], 0)
    inputs_unchanged(next_token_loss, logits.clone().requires_grad_(), padded)
    model = subject.make("causal_model", **LIVELY, vocab=V)
    inputs_unchanged(train_step, model, subject.make("sgd", model=model), padded)
    inputs_unchanged(train, model, padded, 2)
    inputs_unchanged(train, model, padded.repeat(7, 1), 1)  # more rows than a batch is likely to have


# ----------------------------------------------------------------------------------------------- one step

AS_REPORTED = 2e-6  # of 1 + a loss: right ones come within 4e-7 of the truth, one rounded to 4 digits to 2e-5

# a small model with large gradients, which answers something else in eval mode
LIVELY = {"width": 12, "max_len": 16, "spread": 1.0, "boost": 1.5, "biased": True}


@prop(points=6, cases=5)
def step_is_exactly_one(
    subject,
    train_step,
    reference,
    ids: Ids["B T", "V"],
    V: Size["V"],
    seed: Seed,
    size: Choice["as drawn", "one row", "two tokens", "many", "known by heart"],
):
    """`train_step` moves the weights by one step of the optimizer it was given, along the gradient of the mean loss."""
    model = {**LIVELY, "vocab": V, "seed": seed, "max_len": 48}
    many = torch.randint(V, (41, 45), generator=torch.Generator().manual_seed(seed))
    batches = {"as drawn": ids, "one row": ids[:1], "two tokens": ids[:, :2], "many": many.T.contiguous().T}
    if size == "two tokens":
        model["spread"] = 32.0  # gradients, and a loss, that somebody would clip
    if size == "known by heart":  # the loss is nearly 0 already; what still moves the weights is their decay
        model["spread"] = 64.0
        batches[size] = foretold(reference, model, ids.shape[1])
    batch = batches[size]
    compare(stepped(subject, model, [batch])[1], stepped(reference, model, [batch])[1])


@prop(points=4, follows_from=["step_is_exactly_one"], cases=1)
def step_lowers_the_loss(subject, train_step, reference, ids: Ids["B T", "V"], V: Size["V"], seed: Seed):
    """After `train_step`, the weights of the model have a lower loss on the same ids."""
    model = {**LIVELY, "vocab": V, "seed": seed}
    before = loss_of(reference, model, {}, ids)
    _, after = stepped(subject, model, [ids], lr=0.02)
    holds(loss_of(reference, model, after, ids) < before - 1e-3, "loss_not_lower", before=f"{before:.4f}")


@prop(points=4, cases=2)
def step_reports_the_loss_before_it(
    subject, train_step, reference, ids: Ids["B T", "V"], V: Size["V"], seed: Seed, spread: Choice[1.0, 8.0]
):
    """`train_step` returns the loss that the weights had before the step, as a Python float."""
    model = {**LIVELY, "vocab": V, "seed": seed, "spread": spread}
    many = ids if spread == 1.0 else ids.repeat(2, 2)  # more rows, and more tokens, than 8 at a time
    losses, _ = stepped(subject, model, [many])
    floats(losses)
    equal(losses[0], loss_of(reference, model, {}, many), tol=AS_REPORTED)


@prop(points=5, cases=1)
def step_starts_from_fresh_gradients(subject, train_step, reference, ids: Ids["B T", "V"], V: Size["V"], seed: Seed):
    """Gradients that somebody left in the parameters make no difference to the step."""
    model = {**LIVELY, "vocab": V, "seed": seed}
    compare(stepped(subject, {**model, "stale": seed + 1}, [ids])[1], stepped(reference, model, [ids])[1])


@prop(points=4, cases=1)
def steps_follow_one_another(
    subject, train_step, reference, ids: Ids["B T", "V"], more: Ids["S T", "V"], V: Size["V"], seed: Seed
):
    """Three steps in a row: each uses the gradient of its own batch, and the optimizer remembers the earlier ones."""
    model = {**LIVELY, "vocab": V, "seed": seed}
    batches = [ids, more, (ids + 1) % V]
    losses, after = stepped(subject, model, batches, lr=0.1)
    want_losses, want_after = stepped(reference, model, batches, lr=0.1)
    compare(after, want_after)
    equal(torch.tensor(losses), torch.tensor(want_losses), tol=AS_REPORTED)


@prop(points=5, cases=2)
def step_is_made_in_train_mode(
    subject, train_step, ids: Ids["B T", "V"], V: Size["V"], seed: Seed, comes_in: Choice["eval", "train"]
):
    """In whichever mode the model comes, it is in train mode when it is fed, all its parts, and stays in it."""
    model = subject.make("causal_model", **LIVELY, vocab=V, seed=seed)
    if comes_in == "eval":
        model.eval()
    optimizer = subject.make("sgd", model=model)
    for _ in range(2):
        train_step(model, optimizer, ids)
        left_in = model.method("mode")()
        holds(left_in == "train", "left_mode", mode=left_in)
        fed_in = model.method("noted")()["modes"]
        holds(fed_in and fed_in[-1] == "train", "fed_mode", mode=fed_in[-1] if fed_in else "-")
        model.eval()  # somebody looks at a sample between two steps


# ------------------------------------------------------------------------------------------ a whole training


@prop(points=7)
def training_learns_the_cycle(subject, train, reference):
    """On the cycle 0 1 ... 7 the loss goes from ln 8 to below 0.05 within 300 steps at the default learning rate."""
    data = (3 * torch.arange(9)[:, None] + torch.arange(7)) % 8  # [N, T]
    # here 300 steps at the default rate take Adagrad, a row a step, to 0.044, and SGD with momentum 0.5 to 0.076
    settings = {"vocab": 8, "width": 256, "max_len": 10, "boost": 0.8}
    for steps in 51, 300:  # who has learned it in a few more than 50, or nothing at all, need not go on
        model = subject.make("causal_model", **settings)
        losses = losses_of_all(train, model, data, steps)
        equal(losses[0], math.log(8), tol=0.5 / (1 + math.log(8)), what="first loss")
        left = loss_of(reference, settings, weights(model), data)
        if left < 0.05 or left > 2.0:
            break
    holds(left < 0.05, "not_learned", loss=f"{left:.4f}")


@prop(points=3)
def training_learns_to_alternate(subject, train, reference):
    """On 0 1 0 1 ... the model that was handed in learns to alternate: within 300 steps it predicts every next token."""
    data = (torch.arange(5)[:, None] + torch.arange(10)) % 2  # [N, T]
    # learns it in a few steps, and must make the others all the same
    settings = {"vocab": 8, "width": 24, "max_len": 12, "boost": 128.0}
    for steps in 7, 60, 300:  # who has learned it by then, or after 60 nothing at all, need not go on
        model = subject.make("causal_model", **settings)
        losses_of_all(train, model, data, steps)
        wrong = logits_of(reference, settings, weights(model), data)[:, :-1].argmax(-1) != data[:, 1:]
        if not wrong.any() or (steps == 60 and wrong.all()):
            break
    holds(not wrong.any(), "not_alternating", wrong=int(wrong.sum()), all=wrong.numel())


@prop(points=7, cases=2)
def training_reports_its_own_losses(subject, train, reference, N: Choice[40, 1]):
    """Each loss in the list is the loss of the weights that the training really had at that step, on what it was fed.

    Its steps follow the gradients of these losses, each step its own. Two trainings of one model follow each other: the
    second begins where the first has ended.
    """
    width = 15 if N > 1 else 40
    data = torch.randint(7, (N, width), generator=torch.Generator().manual_seed(3))  # no two rows begin alike
    settings = {**LIVELY, "vocab": 7, "seed": 7, "max_len": 40}  # with the usual optimizers, losses that fall and rise
    model = subject.make("causal_model", **settings, keeps_steps=True)
    start = weights(model)
    losses = []
    for steps in (8, 2) if N > 1 else (3,):
        reported = train(model, data, steps, lr=0.1)
        floats(reported)
        count(len(reported), steps, what="losses")
        losses += reported
    end = weights(model)
    moments = moments_of(model.method("noted")())
    if len(moments) == len(losses) + 1 and torch.equal(moments[-1].weights, flat(end)):
        moments.pop()  # looked at once more when all was over
    for name in start:
        holds(not torch.equal(start[name], end[name]), "part_not_trained", name=name)
    holds(moments and torch.equal(moments[0].weights, flat(start)), "not_from_here")
    holds(all(any(look.mode == "train" for look in moment.looks) for moment in moments), "fed_mode", mode="eval")
    fed = sum(len(moment.looks) for moment in moments)
    holds(fed >= len(losses), "steps_missing", steps=len(losses), fed=fed)
    few = len(losses) - 4 <= len(moments) < len(losses)  # a rate of 0 at either end of a training moves nothing
    # an optimizer such as L-BFGS looks again and again in one step, and one such as SAM once more, uphill
    many = len(moments) > 2 * len(losses) or (
        len(moments) == 2 * len(losses) and climbs(reference, settings, moments, start, data)
    )
    holds(few or many or len(moments) == len(losses), "other_steps", steps=len(losses), moved=len(moments))
    at, nearest = 0, math.nan
    for step, loss in enumerate(losses):  # the losses are found among the true ones, in their order
        for later in range(at, len(moments) if few or many else at + 1):
            vector = parted(moments[later].weights, start)
            true = [loss_of(reference, settings, vector, whole(ids, data)) for ids in moments[later].fed(few)]
            nearest = min(true, key=lambda one: abs(loss - one))
            if abs(loss - nearest) <= AS_REPORTED * (1 + nearest):
                at = later if few else later + 1
                break
        else:
            holds(False, "no_such_loss", step=step, loss=f"{loss:.6g}", true=f"{nearest:.6g}")
    for step, moment in enumerate(moments):
        holds(not moment.came or not all(look.stale for look in moment.came), "gradients_kept", step=step)
    signs = set()
    for step, moment in enumerate(moments):
        named = parted(moment.weights, start)
        signs |= {scale > 0 for scale in scales(reference, settings, named, moment.came, data, step, apart=few)}
        holds(len(signs) < 2, "other_gradient", step=step)


@prop(points=4)
def training_repeats_with_its_seed(subject, train):
    """The same model, data and seed give the same losses and weights; the defaults are lr=3e-3 and seed=0."""
    data = torch.randint(9, (17, 7), generator=torch.Generator().manual_seed(1))
    settings = {**LIVELY, "vocab": 9, "seed": 5}

    model = subject.make("causal_model", **settings)
    start = weights(model)

    def trained(steps, **options):
        model.write(start)
        return torch.tensor(train(model, data, steps, **options)), flat(weights(model))

    # after 4 steps rows in batches of 6 or more have begun a second round
    for steps, options, again in (2, {"seed": 3}, {"seed": 3}), (4, {"lr": 3e-3, "seed": 0}, {}):
        first = trained(steps, **options)
        second = trained(steps, **again)
        equal(second[0], first[0], tol=1e-5, what="losses")
        equal(second[1], first[1], tol=1e-5, what="weights")


@prop(points=4, cases=3)
def training_uses_every_row(subject, train, rows: Choice[67, 23, 13]):
    """Every row of the data is trained on, the last ones too."""
    kinds = (torch.arange(rows) + 2) // 4 if rows == 67 else torch.arange(rows)  # the last row is alone of its kind
    data = 3 * kinds[:, None] + torch.arange(8) % 3  # [N, T]: three tokens that no other kind has
    settings = {"width": 16, "max_len": 10, "vocab": int(data.max()) + 1, "seed": 2, "spread": 0.3}
    for steps in 5 if rows == 67 else 3, 20, 150, 400:  # few for 16 rows a step, many for one drawn each time
        model = subject.make("causal_model", **settings)
        before = weights(model)["tokens"].double()  # [V, C]: the vector of a token turns only if the token was fed
        count(len(train(model, data, steps, lr=5e-3)), steps, what="losses")
        after = weights(model)["tokens"].double()
        along = (after * before).sum(1, keepdim=True) / before.square().sum(1, keepdim=True)  # weight decay shortens it
        turned = (after - along * before).norm(dim=1)[data].amin(dim=1)  # [N]
        if turned.min() > 2e-5 or not turned.any():
            break
    holds(turned.min() > 2e-5, "row_not_used", row=int(turned.argmin()), rows=rows)


@prop(points=4)
def training_obeys_the_learning_rate(subject, train):
    """A learning rate a hundred times larger moves the weights much farther, and one of 0 does not move them."""
    data = (torch.arange(5)[:, None] + torch.arange(9)) % 7
    model = subject.make("causal_model", **LIVELY, vocab=7, seed=6)
    places = [flat(weights(model))]
    for lr, steps in (1e-4, 3), (1e-2, 3), (0.0, 1):  # each goes on where the one before has ended
        train(model, data, steps, lr=lr)
        places.append(flat(weights(model)))
    slow, fast, none = (float((after - before).norm()) for before, after in itertools.pairwise(places))
    holds(1000 * slow > fast > 40 * slow > 0, "lr_ignored", slow=f"{slow:.2g}", fast=f"{fast:.2g}")
    holds(none == 0, "lr_zero_moves")


# ------------------------------------------------------------------------------------- what they are made of


def pairs_up(pair, ids, what=""):
    inputs, targets = pair
    for name, got, want in ("inputs", inputs, ids[:, :-1]), ("targets", targets, ids[:, 1:]):
        exactly(got, want, what=name + what)
        dtype(got, ids.dtype, what=name + what)


def prolonged(logits, ids):
    """Many rows and many tokens, each copy with other targets."""
    B, T, V = logits.shape
    copies = torch.arange(20 * T) // T + torch.arange(5 * B)[:, None] // B  # [5B, 20T]
    return logits.repeat(5, 20, 1), (ids.repeat(5, 20) + copies) % V


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


def losses_of_all(train, model, data, steps):
    """The losses of a training: as many as there are steps, and as many times the model was fed for one, to train."""
    losses = train(model, data, steps)
    floats(losses)
    count(len(losses), steps, what="losses")
    modes = model.method("trained")()
    holds(len(modes) >= steps, "steps_missing", steps=steps, fed=len(modes))
    holds(modes.count("train") >= steps, "fed_mode", mode="eval")
    return losses


def foretold(reference, settings, length):
    """Two rows [2, T] that the model would write itself, those it is surest of."""
    rows = torch.arange(settings["vocab"])[:, None]
    while rows.shape[1] < length:
        rows = torch.cat([rows, logits_of(reference, settings, {}, rows)[:, -1:].argmax(-1)], dim=1)
    losses = torch.tensor([loss_of(reference, settings, {}, row[None]) for row in rows])
    return rows[losses.argsort()[:2]]


def weights(model):
    return {name: parameter.value for name, parameter in model.parameters().items()}


def flat(named):
    return torch.cat([value.flatten().double() for value in named.values()])


def parted(vector, named):
    """A vector of all weights, as these are called."""
    pieces = vector.split([value.numel() for value in named.values()])
    return {name: piece.view_as(named[name]) for name, piece in zip(named, pieces, strict=True)}


@dataclasses.dataclass
class Look:
    """What a model was fed once, in which mode, the gradient that came back to its logits (None: nothing did), and
    whether what came of that was added to older gradients."""

    ids: torch.Tensor
    mode: str
    arrived: torch.Tensor | None
    stale: bool


@dataclasses.dataclass
class Moment:
    """The weights that a model was trained with, and all that it was fed before they moved."""

    weights: torch.Tensor
    looks: list

    @property
    def came(self):
        """The looks that something came back of."""
        return [look for look in self.looks if look.arrived is not None]

    def fed(self, few):
        """What a loss may be the loss of: all that something came back of, together.

        Or each look alone, if nothing came back, or if there were `few` moments: then this one may be that of two steps.
        """
        batches = [look.ids for look in self.came or self.looks]
        alike = len({ids.shape[1] for ids in batches}) == 1
        alone = batches if few or not self.came or not alike else []
        return [*([torch.cat(batches)] if alike else []), *alone]


def moments_of(noted):
    """What happened to a model; what it was fed without a graph is left aside."""
    moments = []
    trained = [note for *note, graph in zip(noted["fed"], noted["modes"], noted["graphs"], strict=True) if graph]
    for vector, note, *back in zip(noted["weights"], trained, noted["arrived"], noted["stale"], strict=True):
        if not moments or not torch.equal(moments[-1].weights, vector.double()):
            moments.append(Moment(vector.double(), []))
        moments[-1].looks.append(Look(*note, *back))
    return moments


def climbs(reference, settings, moments, start, data):
    """Whether every second moment was fed what the one before it was, with weights of which the loss is larger."""
    for here, there in zip(moments[::2], moments[1::2], strict=True):
        fed, again = ([whole(ids, data) for ids in moment.fed(False)] for moment in (here, there))
        if len(fed) != len(again) or not all(map(torch.equal, fed, again)):
            return False
        low, high = (
            sum(loss_of(reference, settings, parted(moment.weights, start), ids) for ids in fed)
            for moment in (here, there)
        )
        if low >= high:
            return False
    return True


def whole(fed, data):
    """The rows of the data that these are, which may have been fed without their last token."""
    width, full = fed.shape[1], data.shape[1]
    holds(width in (full - 1, full), "fed_other_width", width=width, full=full)
    same = (fed[:, None] == data[:, :width]).all(-1)  # [b, N]
    holds(same.any(1).all(), "fed_other_rows")
    return data[same.int().argmax(1)]


def scales(reference, settings, named, looks, data, step, apart):
    """What came back to the logits is the gradient of their loss, times a number: that number.

    It is one for each look if they count `apart`. A mean may be made in pieces, and climbed as its negative.
    """
    pairs = []
    for look in looks:
        holds(look.mode == "train", "fed_mode", mode=look.mode)
        tokens = whole(look.ids, data)
        logits = logits_of(reference, settings, named, tokens).double()  # [b, T, V]
        want = logits.softmax(-1) - one_hot(tokens.roll(-1, dims=1), logits.shape[-1])
        want[:, -1] = 0  # nobody's target
        pairs.append((want[:, : look.ids.shape[1]].flatten(), look.arrived.double().flatten()))
    if pairs and not apart:
        pairs = [tuple(map(torch.cat, zip(*pairs, strict=True)))]
    for want, got in pairs:
        scale = (want * got).sum() / want.square().sum()
        holds(scale != 0 and (got - scale * want).norm() < 1e-3 * got.norm(), "other_gradient", step=step)
        yield float(scale)


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
