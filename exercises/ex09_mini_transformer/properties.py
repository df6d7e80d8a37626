"""ex09: a whole model is right whichever way its blocks are built; their layout is found, not prescribed."""

from __future__ import annotations

import math
from functools import partial

import torch

from grader import layouts
from grader.claims import measured
from grader.properties import (
    Choice,
    Ids,
    Index,
    Seed,
    Violation,
    count,
    depends,
    dtype,
    equal,
    finite,
    given_weights,
    gradients,
    holds,
    inputs_unchanged,
    prop,
    raises,
    refilled,
    shape,
)
from grader.subject import Gradients

MODES = ("eval", "train")
TRIES = 8  # throws of a program's own dice
RARE = 120  # the same of those that drop a whole block, once in fifty times
NAMES = ("vocab", "d_model", "n_heads", "n_layers", "max_len", "d_ff")
DEFAULTS = dict(zip(NAMES, (50, 32, 4, 2, 32, 64), strict=True))
SMALL = {"vocab": 13, "d_model": 10, "n_heads": 2, "n_layers": 2, "max_len": 17, "d_ff": 11}
SHALLOW = SMALL | {"n_layers": 1}
WIDE = {"vocab": 11, "d_model": 15, "n_heads": 3, "n_layers": 1, "max_len": 12, "d_ff": 8}
DEEP = {"vocab": 7, "d_model": 6, "n_heads": 1, "n_layers": 4, "max_len": 9, "d_ff": 5}
MANY_HEADS = {"vocab": 9, "d_model": 20, "n_heads": 10, "n_layers": 1, "max_len": 150, "d_ff": 7}
TINY = {"vocab": 3, "d_model": 6, "n_heads": 1, "n_layers": 1, "max_len": 1, "d_ff": 2}
TALL = {"vocab": 5, "d_model": 6, "n_heads": 2, "n_layers": 7, "max_len": 70, "d_ff": 3}
LONG = {"vocab": 529, "d_model": 6, "n_heads": 2, "n_layers": 1, "max_len": 530, "d_ff": 5}  # beyond 128, 256, 512
SIZES = {"B": (3, 4), "T": (6, 8)}  # differ from each other and from all of the above
OUTER = ("tok_emb.weight", "pos_emb.weight", "ln.weight", "ln.bias", "head.weight", "head.bias")
ACTIVATIONS = ({"by": "GELU"}, {"by": "GELU", "approximate": "tanh"}, {"by": "ReLU"})


# ---- models and their weights


def right_models(reference, config):
    """The reference with each activation that the text allows."""
    models = [reference.MiniTransformer(**config) for _ in ACTIVATIONS]
    return [
        reference.make("replaced", module=model, old="GELU", **activation)
        for model, activation in zip(models, ACTIVATIONS, strict=True)
    ]


def filled(MiniTransformer, reference, config, seed, factor=1.0, mode="eval"):
    """A model with weights in it, whatever the names of its blocks are. Matrices are multiplied by `factor`."""
    model = MiniTransformer(**config)
    weights = given_weights(reference.MiniTransformer(**config), seed)
    if model.write(scaled(weights, factor)) is not None:
        model.write(scaled(layouts.any_weights(model, seed), factor))
    in_mode(model, mode)
    return model


def scaled(weights, factor):
    return {name: factor ** (value.dim() > 1) * value for name, value in weights.items()}


def loud(weights):
    """Weights with which scores reach hundreds, and what runs through the blocks and the logits is large."""
    return multiplied(weights, tok_emb=50.0, pos_emb=50.0, qkv=12.0, mlp=5.0, head=40.0)


def even(weights):
    """Weights with which each position attends to all others much alike, and what it finds there counts."""
    return multiplied(weights, tok_emb=0.2, pos_emb=0.2, qkv=0.3)


def multiplied(weights, **factors):
    return {
        name: value * math.prod(factors.get(part, 1.0) for part in name.split(".")) for name, value in weights.items()
    }


def quiet(weights):
    """Weights with which all that comes to a norm has a variance near its eps."""
    kept = {"n1", "n2", "ln", "head"}
    return {name: value if kept & set(name.split(".")) else 0.01 * value for name, value in weights.items()}


def matched(MiniTransformer, reference, config, ids):
    """A model of the submission's, how its weights are laid out, and the right model that it agrees with at `ids`.

    All of them are left with the same weights.
    Beside the one with tanh GELU stands the one with exact GELU: nn.TransformerEncoderLayer takes nn.GELU("tanh") for
    that where no gradients are wanted.
    """
    model, models = MiniTransformer(**config), right_models(reference, config)
    model.eval()
    found = layouts.find(model, models, [ids], fixed=OUTER)
    if found is None:
        tell_how_far(model, models, ids)
    layout, right = found
    return model, layout, [right, models[0]] if right is models[1] else [right]


def give(model, layout, rights, weights):
    """The same weights to all. Where two of the submission's parameters are one, two of ours are equal from the first."""
    held = {name: entry.value for name, entry in rights[0].parameters().items()}
    first = {name: next(other for other in held if torch.equal(held[other], held[name])) for name in held}
    own = {name: weights[first[name]] for name in held}
    holds(model.write(layout.theirs_from(own)) is None, "no_write")
    for right in rights:
        right.write(own)
    return own


def in_train_mode(subject, model, ids, ask, otherwise):
    """Ask the model in train mode, torch's own dropouts set to 0. If it still leaves something to chance, ask otherwise."""
    model.train()
    subject.make("without_dropout", module=model)
    try:
        with measured():  # what dice do is no error
            ask()
    except Violation:
        if not throws_dice(model, ids):
            raise
        otherwise()


def throws_dice(model, ids):
    """Whether the same ids give other logits: a dropout by hand."""
    many, few = ids.repeat(16, 1), ids[:1, :1]  # a whole row may be dropped, seldom, and a whole block
    return any(
        not torch.equal(model.without_grad(some), first)
        for some, times in ((many, TRIES), (few, RARE))
        for first in [model.without_grad(some)]
        for _ in range(times)
    )


def stays(subject, model, ids, changed, unmoved, what):
    """In train mode these logits stay as they were, whatever a dropout, which is allowed, drops: the same in both."""
    with subject.one_seed():
        before, after = model(ids), model(changed)
        unmoving = layouts.close(after[unmoved], before[unmoved])
        if unmoving or torch.equal(model(ids), before):  # else its dice have no seed
            same(after[unmoved], before[unmoved], what=f"train mode, {what}")


def in_mode(model, mode):
    model.train() if mode == "train" else model.eval()


def every_id(vocab, *size):
    """Ids in which each token of the vocabulary occurs."""
    number = torch.arange(size[0] * size[1])
    return (5 * number + number // vocab).remainder(vocab).reshape(size)


def name_of(tensors, part, *last):
    """The name of the parameter of a part of the model whose last axes are these, or that has no gradient."""
    alike = {name: tensor for name, tensor in tensors.items() if name.split(".")[0] == part}
    names = [name for name, tensor in alike.items() if tensor is None or tensor.shape[-len(last) :] == last]
    holds(len(names) == 1, "no_table", name=part)
    return names[0]


def same(got, want, what):
    """Two answers of the submission are equal, and not because it always answers zero."""
    finite(want, what)
    holds(want.abs().max() > 0.01, "only_zeros")
    equal(got, want, what=what)


# ---- shape and count


@prop(points=4)
def logits_have_their_shape(MiniTransformer):
    """The model answers [B, T, V] finite numbers in float32, for every T from 1 to max_len."""
    model = MiniTransformer(**WIDE)
    for length in (1, 12):
        logits = model(every_id(11, 2, length))
        shape(logits, 2, length, 11)
        finite(logits)
        dtype(logits, torch.float32)


@prop(points=11)
def parameters_add_up(MiniTransformer, reference):
    """MiniTransformer() has 21,426 parameters, and other sizes have theirs; each is counted once and can be trained."""
    for config in (DEFAULTS, TALL, TINY):
        parameters = MiniTransformer(**config).parameters()
        right = layouts.shapes(reference.MiniTransformer(**config))
        got, want = groups(layouts.shapes_of(parameters, tuple(right))), groups(right)
        difference = sum(got.values()) - sum(want.values())
        holds(
            difference == 0,
            f"count.{cause(parameters, got, want, config)}",
            got=f"{sum(got.values()):,}",
            want=f"{sum(want.values()):,}",
            difference=f"{difference:+,}",
            table=table(got, want),
        )
        frozen = [f"`{name}`" for name, parameter in parameters.items() if not parameter.requires_grad]
        holds(not frozen, "frozen", names=", ".join(frozen))


def groups(shapes):
    """The number of parameters of each part of the model."""
    found = dict.fromkeys(("tok_emb", "pos_emb", "blocks", "ln", "head"), 0)
    for name, size in shapes.items():
        part = name.split(".")[0]
        part = "blocks" if part == "encoder" else part
        found[part] = found.get(part, 0) + size.numel()
    return found


def table(got, want):
    lines = [
        f"  {part:<10} {want.get(part, 0):>7,} -> {number:>7,}  {number - want.get(part, 0):+,}"
        for part, number in got.items()
    ]
    return "\n".join(lines)


def cause(parameters, got, want, config):
    """The likely reason of a difference: the part in which it is, and how large it is there."""
    shared = {name: other.same_as for name, other in parameters.items() if other.same_as}
    if any({"head", "tok_emb"} == {name.split(".")[0], first.split(".")[0]} for name, first in shared.items()):
        return "tied_head"
    off = {part: number - want.get(part, 0) for part, number in got.items() if number != want.get(part, 0)}
    width, layers, hidden = config["d_model"], config["n_layers"], config["d_ff"]
    block = want["blocks"] // layers
    known = {
        ("ln", -2 * width): "no_final_norm",
        ("pos_emb", -want["pos_emb"]): "no_positions",
        ("head", -config["vocab"]): "no_head_bias",
        ("blocks", -want["blocks"]): "no_blocks",
        ("blocks", -(layers - 1) * block): "one_block",
        ("blocks", layers * (4 * width - hidden) * (2 * width + 1)): "four_times",
        ("blocks", -3 * width * layers): "no_qkv_bias",
        ("blocks", -width * layers): "no_bias",
        ("blocks", -2 * width * layers): "one_norm",
        ("blocks", -4 * width * layers): "no_norms",
        ("blocks", -(hidden + width) * layers): "no_mlp_bias",
        ("blocks", -(5 * width + hidden) * layers): "no_bias_at_all",
        ("blocks", -width * (width + 1) * layers): "no_proj",
        ("blocks", 2 * width): "two_final_norms",
        ("tok_emb", -width): "one_row_short",
        ("pos_emb", -width): "one_row_short",
    }
    if len(off) == 1 and next(iter(off.items())) in known:
        return known[next(iter(off.items()))]
    if off.get("blocks", 0) and off["blocks"] % block == 0 and len(off) == 1:
        return "other_depth"
    if any(part not in want for part in off):
        return "other_parts"
    return "missing" if sum(off.values()) < 0 else "extra"


@prop(points=3)
def names_are_as_asked(MiniTransformer, reference):
    """The parts are called tok_emb, pos_emb, blocks or encoder, ln and head."""
    model = MiniTransformer(**SHALLOW)
    parts = {name.split(".")[0] for name in model.parameters()}
    wanted = {"tok_emb", "pos_emb", "ln", "head"} - parts
    if not wanted and parts & {"blocks", "encoder"}:
        return
    missing = [*sorted(wanted), *(["blocks / encoder"] if not parts & {"blocks", "encoder"} else [])]
    model.eval()
    found = layouts.find(model, right_models(reference, SHALLOW), [every_id(13, 4, 8)], fixed=OUTER)
    renames = renamed(found[0].holders() if found else {}, missing)
    holds(not renames, "rename", renames=renames)
    holds(False, "no_such_names", names=", ".join(f"`{name}`" for name in missing))


def renamed(holders, missing):
    """What the missing parts are called instead."""
    lines = []
    for part in missing:
        theirs = {
            name.split(".")[0]
            for ours, names in holders.items()
            for name in names
            if ours.split(".")[0] == part.split(" ")[0]
        }
        lines += [f"`{other}` -> `{part}`" for other in sorted(theirs)]
    return "; ".join(lines)


@prop(points=2)
def max_len_is_an_attribute(MiniTransformer):
    """The model keeps max_len as an attribute."""
    models = [(config, MiniTransformer(**config)) for config in (WIDE, TINY)]
    for config, model in models:
        count(number(model.attribute("max_len")), config["max_len"], what="model.max_len")


def number(value):
    """A buffer of one number is as good as the number."""
    return int(value) if isinstance(value, torch.Tensor) and value.numel() == 1 else value


@prop(points=3)
def defaults_are_as_asked(MiniTransformer, reference):
    """MiniTransformer() is MiniTransformer(50, 32, 4, 2, 32, 64), by position or by name."""
    default, right = MiniTransformer(), reference.MiniTransformer()
    default.eval()
    weights = given_weights(right, 5)
    if default.write(weights) is not None:
        weights = layouts.any_weights(default, 5)
        default.write(weights)
    ids = every_id(50, 3, 11)
    other = MiniTransformer(*DEFAULTS.values())
    other.eval()
    holds(other.write(weights) is None, "other_defaults")
    same(other(ids), default(ids), what="MiniTransformer(50, 32, 4, 2, 32, 64)")
    count(number(default.attribute("max_len")), 32, what="MiniTransformer().max_len")


# ---- values and gradients


@prop(points=14)
def logits_agree(subject, MiniTransformer, reference):
    """With the submission's own weights the logits equal those of the reference, with ReLU, exact GELU or tanh GELU."""
    model, layout, rights = matched(MiniTransformer, reference, MANY_HEADS, every_id(9, 4, 8))
    give(model, layout, rights, even(given_weights(rights[0], 11)))
    agree(model, rights, [every_id(9, 130, 5)])
    agree(model, rights, [every_id(9, 1, 150)], [False])
    ids = every_id(7, 3, 9)
    model, layout, rights = matched(MiniTransformer, reference, DEEP, ids)
    agree(model, rights, [ids], [False])
    ids = every_id(13, 4, 17)
    ids[:, 0], ids[:, -2:] = 12, 0  # which might be taken for a start, and for padding
    model, layout, rights = matched(MiniTransformer, reference, SMALL, ids)
    weights = follow_weights_and_ids(model, layout, rights, ids, "eval")
    other = MiniTransformer(**SMALL)  # never in eval mode before
    ask = partial(follow_weights_and_ids, other, layout, rights, ids, "train")
    in_train_mode(subject, other, ids, ask, partial(keeps_its_rules, subject, MiniTransformer, reference))
    other.eval()
    agree(other, rights, [ids], [True], "the logits in eval mode after train mode")
    MiniTransformer(**TINY)
    for right in rights:
        right.write(weights)
    agree(model, rights, [ids[:1]], [True], "the logits of a model after others were made")
    for name, value in layout.ours_from({name: entry.value for name, entry in model.parameters().items()}).items():
        equal(value, weights[name], tol=1e-9, zero=True, what=f"after all calls, {name}")


def keeps_its_rules(subject, MiniTransformer, reference):
    """Whatever a dropout by hand drops: no future is seen, rows stay apart, and nothing is done to the head's scores."""
    model = filled(MiniTransformer, reference, SMALL | {"n_layers": 3}, seed=23, mode="train")
    ids, rows = every_id(13, 4, 17), torch.arange(4)[:, None]
    other = (ids + 1).remainder(13)
    past, rest = torch.arange(17) <= 4 * rows, (rows > 0).expand(4, 17)
    for _ in range(TRIES):
        stays(subject, model, ids, torch.where(past, ids, other), past, "the logits before the first other token")
        stays(subject, model, ids, torch.where(rest, ids, other), rest, "the rows other than 0")
    adds_the_bias(subject, model, ids, "train")


def agree(model, rights, inputs, grads=(True, False), what="the logits"):
    """The logits of these inputs, one after the other, with gradients and under no_grad."""
    for grad in grads:
        for ids in inputs:
            got = model(ids) if grad else model.without_grad(ids)
            equal(got, wanted(rights, ids, got, grad), what=what if grad else f"{what} under no_grad")


def wanted(rights, ids, got, grad):
    """What the right model answers; where no gradients are wanted, either of two may be the one that is met."""
    want = rights[0](ids)
    return rights[-1](ids) if not grad and not layouts.close(got, want) else want


def follow_weights_and_ids(model, layout, rights, ids, mode):
    """Other weights and other ids are heeded at once, also ids like the last ones in shape, sum or beginning.

    The last weights are handed back.
    """
    back, what = ids.flip(1), f"the logits in {mode} mode"
    again = back[:, :6] if mode == "eval" else back[:, :5]  # longer than the last ids by one, or the same
    changed = f"{what}, when the weights have changed since the last call,"
    for grad, seed, few in ((True, 13, ids), (False, 17, ids[:1])):
        one = [few[:, :1], few[:, 1:2]] if mode == "eval" else [few[:, :1]]  # two in a row, as when they are generated
        give(model, layout, rights, given_weights(rights[0], seed))
        agree(model, rights, [ids, ids[:2, :2], *one, back[:, :5]], [grad], what)
        weights = give(model, layout, rights, loud(given_weights(rights[0], seed + 1)))
        agree(model, rights, [again], [grad], changed)
        if mode == "eval":
            weights = give(model, layout, rights, quiet(given_weights(rights[0], seed + 2)))
            agree(model, rights, [again], [grad], changed)
        # in eval mode these are the first of those to come, in train mode they have not been there before
        last, earlier = (ids, back) if mode == "eval" else (back, ids)
        got = refilled(model, last, earlier=[earlier], grad=grad)
        equal(got, wanted(rights, last, got, grad), what=f"{what}, when the same tensor holds other ids,")
    return weights


def tell_how_far(model, models, ids):
    """No layout agrees: say how far the likeliest one is, or that there is none."""
    closest = layouts.nearest(model, models, [ids], layouts.likely(model, models[0]))
    if closest is not None:
        layout, right, _ = closest
        model.write(layout.theirs_from(given_weights(right, 11)))
        right.write(layout.ours_from({name: entry.value for name, entry in model.parameters().items()}))
        equal(model(ids), right(ids))
    holds(False, "no_layout")


@prop(points=7, follows_from=["parameters_add_up", "logits_agree"])
def every_argument_acts(MiniTransformer, reference):
    """Each argument of the constructor acts: on the number of parameters, on the lengths, and n_heads on the result."""
    two, five = (filled(MiniTransformer, reference, SHALLOW | {"n_heads": heads}, seed=3) for heads in (2, 5))
    base = total(two)
    for name, value in {"vocab": 17, "d_model": 14, "n_layers": 2, "d_ff": 31, "max_len": 40}.items():
        model = MiniTransformer(**SHALLOW | {name: value})
        larger = total(model)
        holds(larger > base, "no_effect", name=name, before=SHALLOW[name], after=value, count=f"{base:,}")
    shape(model(every_id(13, 3, 40)), 3, 40, 13, what="the logits of 40 tokens with max_len=40")  # the last of them
    ids = every_id(13, 4, 8)
    depends(two(ids), five(ids), what="n_heads=5 instead of 2")


def total(model):
    return sum(groups(layouts.shapes(model)).values())


@prop(points=6, needs=["logits_agree"])
def gradients_agree(subject, MiniTransformer, reference):
    """The gradient of every parameter equals that of the reference, at every call, in train and eval mode."""
    model, layout, rights = matched(MiniTransformer, reference, LONG, every_id(529, 4, 8))
    give(model, layout, rights, even(given_weights(rights[0], 11)))
    agree(model, rights, [every_id(529, 1, 530)], [False])
    same_gradients(model, layout, rights[0], every_id(529, 2, 270))
    ids = every_id(529, 1, 150)
    in_train_mode(subject, model, ids, partial(agree, model, rights, [ids], [True]), lambda: None)
    nothing_is_silent(filled(MiniTransformer, reference, TINY, seed=19), TINY, every_id(3, 4, 1))
    ids = every_id(13, 6, 17)
    model, layout, rights = matched(MiniTransformer, reference, SMALL | {"n_layers": 4}, ids)
    for some in (ids, ids[:1]):
        same_gradients(model, layout, rights[0], some)
    ask = partial(same_gradients, model, layout, rights[0], ids)
    in_train_mode(subject, model, ids, ask, partial(nothing_is_silent, model, SMALL, ids, dice=True))


def same_gradients(model, layout, right, ids):
    """The gradients of both models at these ids, large ones, as no clamp leaves them."""
    cotangent = 1000 * torch.randn(right(ids).shape, generator=torch.Generator().manual_seed(17))
    got, want = model.gradients(ids, cotangent=cotangent), right.gradients(ids, cotangent=cotangent)
    for name in layout.places:
        holds(got.parameters.get(name) is not None, "no_gradient", name=name)
    equal(got.value, want.value, what="the logits")
    gradients(Gradients(got.value, [], layout.ours_from(got.parameters)), want)


@prop(points=6, follows_from=["gradients_agree"])
def every_parameter_gets_a_gradient(subject, MiniTransformer, reference):
    """Every parameter gets a gradient; in the two tables every row that is used, id 0 and position 0 included."""
    for config, size, mode in ((SMALL, (4, 17), "train"), (TINY, (4, 1), "eval"), (LONG, (1, 530), "eval")):
        model = filled(MiniTransformer, reference, config, seed=19, mode=mode)
        subject.make("without_dropout", module=model)
        nothing_is_silent(model, config, every_id(config["vocab"], *size), dice=mode == "train")


def nothing_is_silent(model, config, ids, dice=False):
    """Each parameter has a gradient, and each row of the tables, all of which these ids use.

    Where `dice` may be thrown it comes in one of several calls: a whole block may have been dropped.
    """
    found = gradients_of(model, ids, config["vocab"])
    try:
        with measured():
            every_one_is_heard(found, config, ids)
    except Violation:
        if not (dice and throws_dice(model, ids)):
            raise
        for _ in range(4 * TRIES):
            for name, gradient in gradients_of(model, ids, config["vocab"]).items():
                if gradient is not None:
                    found[name] = gradient.abs() if found[name] is None else found[name].abs() + gradient.abs()
        every_one_is_heard(found, config, ids)


def every_one_is_heard(found, config, ids):
    for name, gradient in found.items():
        holds(gradient is not None, "no_gradient", name=name)
        may_be_zero = gradient.dim() == 1 or ids.shape[1] == 1  # a key bias's is, and those of q and k for one token
        holds(may_be_zero or bool((gradient != 0).any()), "no_gradient", name=name)
    no_row_is_silent(found, "tok_emb", config["vocab"], config["d_model"])
    no_row_is_silent(found, "pos_emb", config["max_len"], config["d_model"])


def gradients_of(model, ids, vocab, at=None):
    """The gradients of all parameters; with `at`, those of the logits at these positions only, one of each row."""
    cotangent = torch.randn(*ids.shape, vocab, generator=torch.Generator().manual_seed(23))
    if at is not None:
        for row, t in enumerate(at):
            cotangent[row, :t], cotangent[row, t + 1 :] = 0, 0
    found = model.gradients(ids, cotangent=cotangent)
    shape(found.value, cotangent.shape)
    return found.parameters


def no_row_is_silent(found, part, rows, width):
    """Each row of a table has a gradient."""
    name = name_of(found, part, width)
    silent = [row for row, has in enumerate(heard(found[name], width)) if row < rows and not has]
    holds(not silent, "no_row_gradient", name=part, rows=brief(silent))


def heard(gradient, width):
    """Of each row of a table, whether it has a gradient; none has where the table is not used."""
    holds(gradient is not None, "table_unused")
    return (gradient.reshape(-1, width) != 0).any(1).tolist()


# ---- what depends on what


@prop(points=9, follows_from=["logits_agree", "gradients_agree"], cases=2, sizes=SIZES)
def past_ignores_future(
    subject, MiniTransformer, reference, idx: Ids["B T", "12"], other: Ids["B T", "12"],
    t: Index["T-1"], seed: Seed, layers: Choice[1, 3],
):  # fmt: skip
    """Changing tokens after t leaves the logits up to t as they were, in train and eval mode; a prefix gives a prefix."""
    model = filled(MiniTransformer, reference, SMALL | {"n_layers": layers}, seed, mode="train")
    changed = torch.cat([idx[:, : t + 1], (idx + 1 + other).remainder(12)[:, t + 1 :]], dim=1)
    unmoved = (torch.arange(idx.shape[1]) <= t).expand(idx.shape)
    stays(subject, model, idx, changed, unmoved, f"the logits up to position {t}")
    model.eval()
    before, after = model.without_grad(idx), model.without_grad(changed)
    same(after[:, : t + 1], before[:, : t + 1], what=f"under no_grad, the logits up to position {t}")
    before, after = model(idx), model(changed)
    same(after[:, : t + 1], before[:, : t + 1], what=f"eval mode, the logits up to position {t}")
    same(model(idx[:, : t + 1].contiguous()), before[:, : t + 1], what=f"the logits of the first {t + 1} tokens alone")


@prop(points=4, follows_from=["logits_agree", "gradients_agree"], cases=1, sizes=SIZES)
def sees_all_of_the_past(MiniTransformer, reference, idx: Ids["B T", "12"], seed: Seed):
    """Changing the token at j changes the logits at every t >= j, with a single layer too; of 300 tokens, t hears all up to t."""
    B, T = idx.shape
    ids = idx.repeat(T + 1, 1, 1)  # [T + 1, B, T]: in the sequences ids[j] the token at j is changed, in the last none
    for j in range(T):
        ids[j, :, j] = (idx[:, j] + 4).remainder(12)
    logits = filled(MiniTransformer, reference, SHALLOW, seed, factor=0.6)(ids.flatten(0, 1))
    shape(logits, (T + 1) * B, T, 13)
    logits = logits.unflatten(0, (T + 1, B))
    for j in range(T):
        for t in range(j, T):
            depends(logits[T, :, t], logits[j, :, t], what=f"output {t} when token {j} changes")
    sees_exactly_the_past(filled(MiniTransformer, reference, LONG | {"vocab": 600}, seed), (150, 299))


def sees_exactly_the_past(model, positions):
    """In two long sequences without a token in common the logits at a position hear every token up to it, and none after."""
    ids = torch.arange(600).reshape(2, 300)
    found = gradients_of(model, ids, 600, at=positions)
    rows = heard(found[name_of(found, "tok_emb", 600, 6)], 6)
    for row, t in enumerate(positions):
        unseen = [s for s in range(t + 1) if not rows[300 * row + s]]
        seen = [s for s in range(t + 1, 300) if rows[300 * row + s]]
        holds(not unseen, "far_past", t=t, rows=brief(unseen))
        holds(not seen, "far_future", t=t, rows=brief(seen))


def brief(positions):
    """The first and the last of some positions."""
    return ", ".join(map(str, positions[:3])) + (f" .. {positions[-1]}" if len(positions) > 3 else "")


@prop(points=5, follows_from=["logits_agree"], cases=1, sizes=SIZES)
def order_of_tokens_matters(MiniTransformer, reference, idx: Ids["B T", "12"], seed: Seed):
    """Exchanging two earlier tokens changes the last logits, and one token repeated gives other logits at each position."""
    model = filled(MiniTransformer, reference, SHALLOW, seed)
    idx[:, 0], idx[:, 2] = 3, 8
    exchanged = idx[:, [2, 1, 0, *range(3, idx.shape[1])]]
    depends(model(idx)[:, -1], model(exchanged)[:, -1], what="the last logits when two earlier tokens are exchanged")
    repeated = model(torch.full_like(idx, 5))
    for t in range(1, idx.shape[1]):
        depends(repeated[:, t - 1], repeated[:, t], what=f"position {t} against {t - 1} when all tokens are alike")


@prop(points=4, follows_from=["logits_agree"], cases=1, sizes=SIZES)
def rows_are_independent(subject, MiniTransformer, reference, idx: Ids["B T", "12"], seed: Seed):
    """Changing one sequence of the batch changes no other, and a sequence alone gives what it gives in the batch."""
    model = filled(MiniTransformer, reference, SMALL, seed)
    changed = idx.clone()
    changed[0] = (idx[0] + 3).remainder(12)
    before = model(idx)
    same(model(changed)[1:], before[1:], what="the rows other than 0, which has changed,")
    same(model(idx[-1:])[0], before[-1], what="the last row alone")
    same(model(idx.repeat(23, 1))[-len(idx) :], before, what=f"the last {len(idx)} rows of {23 * len(idx)}")
    model.train()
    rest = (torch.arange(len(idx)) > 0)[:, None].expand(idx.shape)
    stays(subject, model, idx, changed, rest, "the rows other than 0")


@prop(points=4, follows_from=["max_len_is_an_attribute", "logits_agree"], cases=1, sizes=SIZES)
def two_calls_agree(MiniTransformer, reference, idx: Ids["B T", "12"], other: Ids["B 3", "12"], seed: Seed):
    """In eval mode two calls with the same ids give the same, whatever was called or made in between; weights stay."""
    model = filled(MiniTransformer, reference, SMALL, seed)
    weights = {name: parameter.value for name, parameter in model.parameters().items()}
    first = model(idx)
    same(model(idx), first, what="the second call")
    same(model.without_grad(idx), model.without_grad(idx), what="the second call under no_grad")
    model(other)
    model(idx[:, 1:2])
    same(model(idx[:, :1]), first[:, :1], what="T = 1, after another call of T = 1")
    model.train()
    model(idx)
    model.eval()
    same(model(idx), first, what="after other calls")
    filled(MiniTransformer, reference, SMALL, seed + 1)(idx)
    MiniTransformer(**WIDE)
    same(model(idx), first, what="after two other models were made")
    count(number(model.attribute("max_len")), SMALL["max_len"], what="model.max_len after two other models were made")
    for name, parameter in model.parameters().items():
        equal(parameter.value, weights[name], tol=1e-9, zero=True, what=f"the parameter {name}")


@prop(points=4, follows_from=["logits_agree"], cases=1, sizes=SIZES)
def every_id_is_ordinary(MiniTransformer, reference, idx: Ids["B T", "13"], seed: Seed):
    """Renaming the tokens, ids and rows of tok_emb alike, changes nothing: no id is special, 0 and V - 1 included."""
    model = filled(MiniTransformer, reference, SHALLOW, seed)
    found = model.parameters()
    values = {name: parameter.value for name, parameter in found.items()}
    table = name_of(values, "tok_emb", 13, 10)
    if any(entry.same_as == table for entry in found.values()):
        return  # a tied head is named by the count
    idx[:, 0], idx[:, 1], idx[:, -1] = 0, 12, 0  # the last 0 might be taken for padding, all rows have it
    before = model(idx)
    model.write({table: values[table].roll(5, dims=0)})
    same(model((idx + 5).remainder(13)), before, what="the logits of the renamed tokens")


# ---- at the edges


@prop(points=6)
def fills_its_length_and_no_more(MiniTransformer):
    """T = max_len works; T > max_len raises ValueError or IndexError with both numbers in the message."""
    model = MiniTransformer(**SHALLOW | {"max_len": 23})
    for mode in MODES:
        in_mode(model, mode)
        shape(model(every_id(13, 3, 23)), 3, 23, 13, what="the logits of T = max_len = 23")
        for length in (24, 150):
            for number in (length, 23):
                raises(model, every_id(13, 3, length), error=(ValueError, IndexError), mentions=[number])
            raises(model.without_grad, every_id(13, 1, length), error=(ValueError, IndexError), mentions=[23])


@prop(points=5, follows_from=["logits_agree"], cases=1, sizes=SIZES)
def logits_are_raw_scores(subject, MiniTransformer, reference, idx: Ids["B T", "12"], seed: Seed):
    """Logits, not probabilities: what is added to the head's bias is added to the logits, token by token."""
    model = filled(MiniTransformer, reference, SHALLOW, seed, mode="train")
    for mode in reversed(MODES):
        in_mode(model, mode)
        adds_the_bias(subject, model, idx, mode)


def adds_the_bias(subject, model, ids, mode):
    """Numbers added to the head's bias are added to the logits, or where it has none, 3 times its weight is 3 times them."""
    values = {name: parameter.value for name, parameter in model.parameters().items()}
    biases = [name for name in values if name.split(".")[0] == "head" and values[name].dim() == 1]
    changed = biases[0] if biases else name_of(values, "head", 13, 10)
    more = torch.arange(13) - 5.0
    how = "with the numbers -5 .. 7 added to the head's bias" if biases else "with 3 times the head's weight"
    with subject.one_seed():  # a dropout, which is allowed, drops the same in both
        before = model(ids)
        finite(before)
        model.write({changed: values[changed] + more if biases else 3 * values[changed]})
        after, want = model(ids), (before + more if biases else 3 * before)
        if mode == "eval" or layouts.close(after, want) or torch.equal(model(ids), after):  # else its dice have no seed
            equal(after, want, what=f"{mode} mode, the logits {how}")
        model.write({changed: values[changed]})


@prop(points=3, cases=1, sizes=SIZES)
def inputs_stay_as_they_were(MiniTransformer, reference, idx: Ids["B T", "12"], seed: Seed):
    """The ids are not changed, and may be non-contiguous, expanded or a slice."""
    model = filled(MiniTransformer, reference, SHALLOW, seed)
    idx[:, 0], idx[:, -1] = 12, 0
    idx = idx[:1].repeat(len(idx), 1)  # all rows alike, so that every kind below holds the same ids
    kinds = {
        "a slice, non-contiguous": torch.cat([idx, idx], dim=1).T.contiguous().T[:, idx.shape[1] :],
        "expanded": idx[:1].expand(idx.shape),
    }
    want = inputs_unchanged(model, idx).value
    for kind, value in kinds.items():
        same(inputs_unchanged(model, value).value, want, what=f"ids: {kind}")
    many = every_id(13, 26, 9)
    many[:, 0] = many[:, -1] = torch.arange(26).remainder(13)  # each id begins a row, and ends one
    inputs_unchanged(model, many, grad=False)
    model.train()
    inputs_unchanged(model, many)
