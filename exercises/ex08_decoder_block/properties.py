"""ex08: a decoder block is right in its values, its gradients, and its parameters, one by one."""

from __future__ import annotations

import torch

from grader import layouts
from grader.properties import (
    Float,
    Index,
    Seed,
    Size,
    SubmissionRaised,
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

MODES = ("train", "eval")
LONG = 2050  # longer than the largest mask that people put into a buffer


# ---- weights


def share(theirs, ours, weights, *inputs):
    """Write the same weights into both. The layout of theirs where it has other names, None where it has ours."""
    ours.write(weights)
    if theirs.write(weights) is None:
        return None
    found = layouts.find(theirs, [ours], inputs)
    holds(found is not None, "no_place", names=listed(missing_names(theirs, ours)))
    share_others(theirs, ours, found[0], weights)
    return found[0]


def share_others(theirs, ours, layout, weights):
    """Write other weights into both, where `share` has told the layout."""
    theirs.write(weights if layout is None else layout.theirs_from(weights))
    ours.write(weights)


def loud(weights):
    """The same weights with queries so large that scores of 100 come up, and an MLP that answers as much."""
    louder = {name: value.clone() for name, value in weights.items() if "qkv." in name or "mlp.2." in name}
    for name, value in louder.items():
        value[: len(value) // 3 if "qkv." in name else None] *= 8
    return weights | louder


def low(weights, x, heads):
    """The same weights with k = -q: a position's own score is far below zero, down to -2000 somewhere in x."""
    query, _, value = weights["qkv.weight"].chunk(3)
    longest = (x @ query.T).unflatten(-1, (heads, -1)).square().sum(-1).max()
    query = query * (2000 * (x.shape[-1] / heads) ** 0.5 / longest) ** 0.5
    return weights | {"qkv.weight": torch.cat([query, -query, value]), "qkv.bias": 0 * weights["qkv.bias"]}


def silent(weights, *names):
    """The same weights with zeros in those that begin so."""
    return weights | {name: 0 * value for name, value in weights.items() if name.startswith(names)}


def fill(theirs, ours, seed, factor=1.0):
    """Write weights into theirs, whatever its names are. Matrices are multiplied by `factor`."""
    weights = {name: factor ** (value.dim() > 1) * value for name, value in given_weights(ours, seed).items()}
    if theirs.write(weights) is not None:
        theirs.write(layouts.any_weights(theirs, seed))


def missing_names(theirs, ours):
    found = theirs.parameters()
    return [
        name
        for name, parameter in ours.parameters().items()
        if name not in found or found[name].value.shape != parameter.value.shape
    ]


def listed(names):
    return ", ".join(f"`{name}`" for name in names)


def in_mode(module, mode):
    module.train() if mode == "train" else module.eval()


def in_use(module, mode):
    """The module as it is used: in train mode with gradients, in eval mode without."""
    in_mode(module, mode)
    return module if mode == "train" else module.without_grad


def same(got, want, what, tol=1e-4):
    """Two answers of the submission are equal, and not because it always answers zero."""
    finite(want, what)
    holds(want.abs().max() > 0.01, "only_zeros")
    equal(got, want, tol, what=what)


def both(subject, dim, heads):
    return [subject.CausalSelfAttention(dim, heads), subject.DecoderBlock(dim, heads)]


# ---- values


@prop(points=3, cases=1)
def shape_stays(subject, reference, x: Float["B T H*D"], heads: Size["H"], seed: Seed):
    """Attention and block answer [B, T, C] for an input [B, T, C], finite and in the input's dtype."""
    for module, right in zip(both(subject, x.shape[-1], heads), both(reference, x.shape[-1], heads), strict=True):
        fill(module, right, seed, factor=0.5)
        out = module(x)
        shape(out, x.shape)
        dtype(out, x.dtype)
        finite(out)
        module.method("to")(torch.float64)
        wide = module(x.double())
        dtype(wide, torch.float64)
        same(wide, out, what="in float64", tol=1e-5)
        module.method("to")(torch.float32)  # where blocks share a module by mistake, the next one finds it as it was
    narrow = {kind: answer_in(module, x, kind) for kind in (torch.bfloat16, torch.float16)}  # the block's
    if narrow[torch.bfloat16] is not None:
        same(narrow[torch.bfloat16], out, what="in bfloat16", tol=0.1)
    module.method("to")(torch.float32)
    for kind, answer in narrow.items():
        if answer is None:  # perhaps as its attention has answered in another dtype
            attention = subject.CausalSelfAttention(x.shape[-1], heads)
            answer_in(attention, x, kind)


def answer_in(module, x, kind):
    """What a module of this dtype answers, in this dtype. None where it raises: a mask of -1e9 does not fit float16."""
    module.method("to")(kind)
    try:
        out = module(x.to(kind))
    except SubmissionRaised:
        return None
    dtype(out, kind)
    return out


@prop(points=9, cases=1, sizes={"H": (3, 3)})
def attention_values(
    CausalSelfAttention, reference, x: Float["B T H*D"], y: Float["B T H*D"], heads: Size["H"], seed: Seed
):
    """CausalSelfAttention equals the reference with the same weights, in train and in eval mode, also when they change."""
    attention, right = (make(x.shape[-1], heads) for make in (CausalSelfAttention, reference.CausalSelfAttention))
    first, second, third = (given_weights(right, seed + step) for step in range(3))
    second = low(second, torch.cat([x, y]), heads)
    values_agree(attention, right, (first, second, third), x, y, "attention", tol=1e-3, alone=True)
    end_sees_start(CausalSelfAttention)


@prop(points=9, cases=1, sizes={"H": (3, 3)})
def block_values(DecoderBlock, reference, x: Float["B T H*D"], y: Float["B T H*D"], heads: Size["H"], seed: Seed):
    """DecoderBlock equals the reference with the same weights, in train and in eval mode, also when they change."""
    block, right = (make(x.shape[-1], heads) for make in (DecoderBlock, reference.DecoderBlock))
    first, second, third = (given_weights(right, seed + step) for step in range(3))
    values_agree(block, right, (first, silent(second, "attn.proj."), loud(third)), x, y, "block")


def values_agree(module, right, weights, x, y, name, tol=1e-4, alone=False):
    """The values are right in either mode, with gradients and without, for rows many or few, inputs large or small, at
    any length, and nothing is kept from earlier numbers. `tol` is for the second of three weights. An attention `alone`
    is asked less in eval mode, where it is seen in its block, and the block less in train mode."""
    rows = torch.cat([scale * side for scale in (1, 0.003, -1) for side in (x, y)])
    moved = rows[[0, *range(len(rows) - 2, 0, -1), -1]]  # the same in another order, the first and the last apart
    long = rows.reshape(2, -1, rows.shape[-1])  # T = 90
    first, second, third = weights
    layout = share(module, right, first, x)
    in_mode(module, "train")
    equal(module(x), right(x), what=f"{name}.train()(x)")
    equal(module(long), right(long), what=f"{name}.train()(long)")
    if not alone:
        longer = torch.cat([long, 1 - long.flip(0), long.roll(1, -1)], dim=1)  # T = 270
        equal(module.without_grad(longer), right(longer), what=f"{name}.train()(longer), no_grad")
    if alone:
        lengths_agree(module, right, x, f"{name}.train()")
    else:
        equal(module(x[:, :1]), right(x[:, :1]), what=f"{name}.train()(x[:, :1])")
    refills_agree(module, right, moved, rows, f"{name}.train()")
    share_others(module, right, layout, second)
    for mode in ["train"] if alone else MODES:
        in_mode(module, mode)
        equal(module(rows), right(rows), tol, what=f"{name}.{mode}()(rows), other weights")
        equal(module.without_grad(rows), right(rows), tol, what=f"{name}.{mode}()(rows), other weights, no_grad")
    in_mode(module, "eval")
    share_others(module, right, layout, third)
    equal(module.without_grad(rows), right(rows), what=f"{name}.eval()(rows), weights changed in eval mode, no_grad")
    refills_agree(module, right, rows, moved, f"{name}.eval()")
    if not alone:
        equal(module.without_grad(long), right(long), what=f"{name}.eval()(long), no_grad")
        lengths_agree(module.without_grad, right, x, f"{name}.eval()")
    all_trainable(module.parameters())


def refills_agree(module, right, earlier, rows, name):
    """The values are right where the same tensor has held others before."""
    for grad in (True, False):
        what = f"{name}(rows); rows.copy_(...); {name}(rows){'' if grad else ', no_grad'}"
        equal(refilled(module, rows, earlier=[earlier], grad=grad), right(rows), what=what)


def lengths_agree(ask, right, x, name):
    """The values are right for the shortest inputs."""
    asked = {
        "T = 2": x[:, :2],
        "T = 1": x.flip(0)[:, :1],
        "T = 1 once more": x[:, :1],
        "T = 1, B = 1": x[:1, :1],
    }
    for kind, value in asked.items():
        equal(ask(value), right(value), what=f"{name}, {kind}")


def end_sees_start(CausalSelfAttention):
    """With q and k at zero, v = x + 1 and proj(v) = 2 - v, 1 - output is the mean of the inputs so far. Of LONG inputs
    the first alone is not zero: t + 1 times that mean is the first. One channel shows it, at the least cost."""
    attention = CausalSelfAttention(1, 1)
    weights = {
        "qkv.weight": torch.tensor([[0.0], [0.0], [1.0]]),
        "qkv.bias": torch.tensor([0.0, 0.0, 1.0]),
        "proj.weight": -torch.ones(1, 1),
        "proj.bias": 2 * torch.ones(1),
    }
    if attention.write(weights) is not None:
        return  # other names: the values speak for themselves
    first = torch.zeros(1, LONG, 1)
    first[:, 0] = LONG
    for mode, ask, length in (
        ("train", attention.without_grad, LONG),
        ("eval", attention, 520),
    ):  # 520: past a mask of 512
        in_mode(attention, mode)
        out = ask(first[:, :length])
        shape(out, 1, length, 1)
        number = torch.arange(1.0, length + 1).reshape(out.shape)
        equal(
            number * (1 - out) / LONG,
            torch.ones(1, length, 1),
            what=f"the mean of t + 1 inputs of {length}, {mode} mode",
        )


@prop(points=4, cases=1, follows_from=["block_values"])
def small_inputs_feel_eps(DecoderBlock, reference, x: Float["B T H*D"], heads: Size["H"], seed: Seed):
    """Inputs of a variance near 1e-5 show that both norms have eps = 1e-5, inside the root."""
    small = 0.003 * x
    block, right = (make(x.shape[-1], heads) for make in (DecoderBlock, reference.DecoderBlock))
    weights = given_weights(right, seed)
    layout = share(block, right, weights, x)
    equal(block(small), right(small), what="block(small)")
    block.eval()
    equal(block.without_grad(small), right(small), what="block.eval()(small), no_grad")
    share_others(block, right, layout, silent(weights, "attn.proj."))
    equal(block.without_grad(small), right(small), what="block.eval()(small), attn.proj at zero, no_grad")
    block.train()
    equal(block(small), right(small), what="block(small), attn.proj at zero")


@prop(points=4, cases=1)
def the_gelu_is_exact(DecoderBlock, reference, x: Float["B T H*D", 0.1], heads: Size["H"], seed: Seed):
    """The MLP's GELU is the exact one, not the tanh approximation: a case in which the difference adds up."""
    block, right = (make(x.shape[-1], heads) for make in (DecoderBlock, reference.DecoderBlock))
    weights = given_weights(right, seed)
    weights = silent(weights, "mlp.0.weight", "attn.proj.")
    weights["mlp.0.bias"] = torch.full_like(weights["mlp.0.bias"], -2.7)  # the two forms differ most here
    weights["mlp.2.weight"] = torch.ones_like(weights["mlp.2.weight"])
    share(block, right, weights, 10 * x)
    equal(block(x), right(x))


# ---- what depends on what


@prop(points=7, cases=1, follows_from=["attention_values", "block_values"])
def past_ignores_future(
    CausalSelfAttention, DecoderBlock, reference, x: Float["B T H*D"], later: Float["B T H*D", 3.0],
    heads: Size["H"], seed: Seed,
):  # fmt: skip
    """Changing x after position t leaves the outputs up to t as they were, in train and in eval mode."""
    t = x.shape[1] // 2
    changed = torch.cat([x[:, : t + 1], later[:, t + 1 :]], dim=1)
    block, right = (make(x.shape[-1], heads) for make in (DecoderBlock, reference.DecoderBlock))
    fill(block, right, seed)
    for mode in MODES:
        in_mode(block, mode)
        same(block(changed)[:, : t + 1], block(x)[:, : t + 1], what=f"{mode} mode, up to position {t}")
    low_scores_do_not_leak(CausalSelfAttention, reference, x, changed, heads, t, seed)


def low_scores_do_not_leak(CausalSelfAttention, reference, x, changed, heads, t, seed):
    """The future must stay out also where it scores higher than all that may be seen."""
    attention, right = (make(x.shape[-1], heads) for make in (CausalSelfAttention, reference.CausalSelfAttention))
    if attention.write(low(given_weights(right, seed), changed, heads)) is None:
        same(attention(changed)[:, : t + 1], attention(x)[:, : t + 1], what=f"low scores, up to position {t}")


@prop(points=5, cases=1, follows_from=["attention_values"])
def sees_all_of_the_past(CausalSelfAttention, reference, x: Float["B T H*D"], heads: Size["H"], seed: Seed):
    """Changing x at position j changes the attention's output at every t >= j, t = j included, in both modes."""
    length = x.shape[1]
    attention = CausalSelfAttention(x.shape[-1], heads)
    fill(attention, reference.CausalSelfAttention(x.shape[-1], heads), seed, factor=0.5)
    versions = x.repeat(length + 1, 1, 1, 1)  # [T + 1, B, T, C]: position j of version j changes, none of the last
    for j in range(length):
        versions[j, :, j] = 3 - versions[j, :, j]
    for mode in MODES:
        in_mode(attention, mode)
        out = attention(versions.flatten(0, 1))
        shape(out, versions.flatten(0, 1).shape)
        *after, before = out.unflatten(0, (length + 1, -1))
        for j in range(length):
            for t in range(j, length):
                depends(before[:, t], after[j][:, t], what=f"{mode} mode, output {t} when input {j} changes")


@prop(points=4, cases=1, follows_from=["attention_values", "block_values"])
def rows_are_independent(
    subject, reference, CausalSelfAttention, DecoderBlock, x: Float["B T H*D"], other: Float["T H*D"],
    heads: Size["H"], row: Index["B"], seed: Seed,
):  # fmt: skip
    """Changing one row of the batch changes no other, and a row alone gives what it gives in the batch."""
    changed = x.clone()
    changed[row] = other
    rest = [index for index in range(len(x)) if index != row]
    for module, right in zip(both(subject, x.shape[-1], heads), both(reference, x.shape[-1], heads), strict=True):
        fill(module, right, seed)
        out = module.without_grad(x)
        same(module.without_grad(x[row : row + 1])[0], out[row], what=f"row {row} alone")
        many = module.without_grad(torch.cat([changed, *[x] * 8]))
        same(many[: len(x)][rest], out[rest], what=f"the rows other than {row}")
        same(many[-len(x) :], out, what=f"the last {len(x)} of {len(many)} rows")


@prop(points=4, cases=1)
def the_number_of_heads_matters(CausalSelfAttention, reference, x: Float["B T 30"], seed: Seed):
    """The same weights give another result with 2 heads than with 3, and the right one with 1, 2, 3 and C."""
    width, found = x.shape[-1], {}
    made = {
        heads: (CausalSelfAttention(width, heads), reference.CausalSelfAttention(width, heads))
        for heads in (1, 2, 3, width)
    }
    for heads, (attention, right) in made.items():
        share(attention, right, given_weights(right, seed), x)
        found[heads] = attention(x)
        equal(found[heads], right(x), what=f"with {heads} heads")
    depends(found[2], found[3], what="2 heads instead of 3")


@prop(points=4, cases=1, follows_from=["attention_values", "block_values"])
def any_length_works(
    CausalSelfAttention, DecoderBlock, subject, reference, x: Float["B T H*D"], heads: Size["H"], seed: Seed
):
    """One module takes T = 1, 2, 70 and 2,050 one after the other; a prefix gives what it gives in the whole, and the end sees the start."""
    more = torch.randn(len(x), 70 - x.shape[1], x.shape[2], generator=torch.Generator().manual_seed(seed))
    long = torch.cat([x, more], dim=1)  # longer than a mask of 64
    modes = (("train",), MODES)  # in eval mode it is the block whose attention is seen
    pairs = zip(both(subject, x.shape[-1], heads), both(reference, x.shape[-1], heads), modes, strict=True)
    for module, right, modes in pairs:
        fill(module, right, seed, factor=0.5)
        for mode in modes:
            ask = in_use(module, mode)
            short = ask(x)
            same(ask(long)[:, : x.shape[1]], short, what=f"{mode} mode, the start of T = 70")
            same(ask(x[:, :2]), short[:, :2], what=f"{mode} mode, T = 2, a short input after a long one")
            same(ask(x.flip(0)[:, :1]), short.flip(0)[:, :1], what=f"{mode} mode, T = 1")
            same(ask(x[:, :1]), short[:, :1], what=f"{mode} mode, T = 1, after another call of T = 1")
            same(ask(x[:1, :1]), short[:1, :1], what=f"{mode} mode, T = 1, B = 1")
    end_sees_start(CausalSelfAttention)


@prop(points=5, cases=1, follows_from=["block_values", "the_gelu_is_exact"])
def zeroed_sublayers_give_the_identity(DecoderBlock, reference, x: Float["B T H*D"], heads: Size["H"], seed: Seed):
    """With all weights of the attention and of the MLP at zero the block gives back its input."""
    block, right = (make(x.shape[-1], heads) for make in (DecoderBlock, reference.DecoderBlock))
    weights = given_weights(right, seed)
    zeroed = silent(weights, "attn.", "mlp.")
    if block.write(zeroed) is not None and not zero_by_prefix(block, seed):
        share(block, right, zeroed, x)
    equal(block(x), x, tol=1e-6)


def zero_by_prefix(block, seed):
    """Zero what is called attn. and mlp. where only a name inside them is missing."""
    weights = layouts.any_weights(block, seed)
    inner = [name for name in weights if name.startswith(("attn.", "mlp."))]
    block.write(weights | {name: 0 * weights[name] for name in inner})
    return {name.partition(".")[0] for name in inner} == {"attn", "mlp"}


@prop(points=4, cases=1)
def inputs_stay_as_they_were(
    subject, reference, CausalSelfAttention, DecoderBlock, x: Float["B T H*D"], heads: Size["H"], seed: Seed
):
    """The input is not changed, and may be non-contiguous, expanded, a slice, or one that requires gradients."""
    kinds = [  # "one row" and "plain" are contiguous: .contiguous() makes no copy, and what is written there shows
        ("one row", lambda x: x[:1], "train", True),  # contiguous with B and T exchanged, too
        ("one row", lambda x: x[:1], "train", False),
        ("plain", lambda x: x, "eval", True),
        ("plain", lambda x: x, "eval", False),
        ("channels first", lambda x: x.transpose(1, 2).contiguous().transpose(1, 2), "eval", True),
        ("requires_grad", lambda x: x.requires_grad_(), "train", True),
    ]
    expanded = x[:1].expand(x.shape)
    for module, right in zip(both(subject, x.shape[-1], heads), both(reference, x.shape[-1], heads), strict=True):
        fill(module, right, seed)
        want = module(x)
        for step, (kind, made_of, mode, grad) in enumerate(kinds, start=1):
            in_mode(module, mode)
            given = made_of(x.roll(step, 0))  # rows in another order each time: no answer to an earlier call fits
            what = f"input: {kind}, {mode} mode{'' if grad else ', no_grad'}"
            same(inputs_unchanged(module, given, grad=grad).value, want.roll(step, 0)[: len(given)], what=what)
        repeated = module.without_grad(expanded)  # which cannot be written to
        same(repeated, want[:1].expand(want.shape), what="input: expanded, train mode, no_grad")


# ---- gradients and training


@prop(points=7, cases=1, sizes={"T": (6, 6)})  # an even length, beside the odd ones
def gradients_agree(
    subject, reference, CausalSelfAttention, DecoderBlock, x: Float["B T 24"], cotangent: Float["B T 24"], seed: Seed
):
    """The gradients of the input and of every parameter equal those of the reference, in both modes and at any length."""
    generator = torch.Generator().manual_seed(seed)
    long, weighed = torch.randn(2, 1, 41, x.shape[-1], generator=generator)  # an odd length
    channels_first = x.transpose(1, 2).contiguous().transpose(1, 2)
    for kind, heads in (("CausalSelfAttention", 3), ("DecoderBlock", 2)):  # of width 8 and 12
        module, right = (getattr(side, kind)(x.shape[-1], heads) for side in (subject, reference))
        layout = share(module, right, given_weights(right, seed), x)
        later = [x.flip(0) - 1.0]  # of a second call, before the first one's backward pass
        same_gradients(module, right, layout, channels_first, cotangent, later=later)
        if kind == "CausalSelfAttention":
            same_gradients(module, right, layout, long, weighed, to_inputs=False)
    same_gradients(module, right, layout, x[:, :1], cotangent[:, :1])  # the block, and with it its attention
    module.eval()
    same_gradients(module, right, layout, x[:, :1], cotangent[:, :1])
    same_gradients(module, right, layout, long, weighed)


def same_gradients(module, right, layout, x, cotangent, **options):
    """The gradients of theirs, in our layout, equal ours."""
    got, want = (side.gradients(x, cotangent=cotangent, **options) for side in (module, right))
    if layout is not None:
        held = {name: got.parameters.get(name) for name in layout.places}
        zeros = {name: torch.zeros(place.shape) for name, place in layout.places.items()}
        named = layout.ours_from({name: zeros[name] if held[name] is None else held[name] for name in held})
        got = Gradients(got.value, got.inputs, named)
    gradients(got, want)


@prop(points=5, cases=1)
def three_blocks_train(
    DecoderBlock, subject, x: Float["B T H*D"], target: Float["B T H*D"], heads: Size["H"], seed: Seed
):
    """Three blocks in a row share nothing, gradients reach every parameter of each, and a step down the slope lowers the loss."""
    stack = subject.make("sequential", modules=[DecoderBlock(x.shape[-1], heads) for _ in range(3)])
    weights = layouts.any_weights(stack, seed)
    holds(stack.write(weights) is None, "no_write")
    found = stack.gradients(x, cotangent=target, to_inputs=False)
    before = loss(found.value, target)
    weights = after_a_step(weights, found.parameters)
    holds(stack.write(weights) is None, "no_write")
    after = loss(stack(x), target)
    share_nothing(stack, weights)  # at the end: a call may tie parameters, too
    holds(after < before, "loss_does_not_fall", before=f"{before:.5g}", after=f"{after:.5g}")


def loss(out, target):
    shape(out, target.shape)
    return float((out * target).sum())


def share_nothing(stack, weights):
    """No parameter belongs to two blocks, and what was written into one has not come out in another of its shape."""
    held = stack.parameters()
    for name, parameter in held.items():
        first = parameter.same_as or name
        holds(first.split(".")[0] == name.split(".")[0], "shared_blocks", name=name, first=first)
    for name, value in weights.items():
        for other in weights:
            if other != name and value.shape == weights[other].shape and not torch.equal(held[name].value, value):
                holds(not torch.equal(held[name].value, weights[other]), "shared_blocks", name=other, first=name)


def after_a_step(weights, slope):
    """The weights after a step of length 0.03 down the slope, which no matrix may be without."""
    for name, value in weights.items():
        arrives = slope.get(name) is not None
        may_be_zero = value.dim() == 1  # that of the keys' bias is
        holds(arrives and (may_be_zero or bool((slope[name] != 0).any())), "no_gradient", name=name)
    length = float(sum(slope[name].square().sum() for name in weights)) ** 0.5
    return {name: value - 0.03 / (length + 1e-9) * slope[name] for name, value in weights.items()}


# ---- parameters


@prop(points=7)
def parameters_add_up(subject, reference, CausalSelfAttention, DecoderBlock):
    """CausalSelfAttention has 4C*C + 4C parameters, DecoderBlock has 12C*C + 13C, each counted once and trainable."""
    for width, heads in ((12, 3), (15, 5), (130, 5)):
        modules = zip(both(subject, width, heads), both(reference, width, heads), strict=True)
        for kind, (module, right) in zip(("CausalSelfAttention", "DecoderBlock"), modules, strict=True):
            held, ours = module.parameters(), layouts.shapes(right)
            theirs = layouts.shapes_of(held, tuple(ours))
            got, want = total(theirs), total(ours)
            holds(
                got == want,
                f"count.{cause(held, theirs, got - want, width)}",
                module=f"{kind}({width}, {heads})",
                got=f"{got:,}",
                want=f"{want:,}",
                difference=f"{got - want:+,}",
                table=comparison(theirs, ours),
            )
            all_trainable(held)


def all_trainable(held):
    frozen = [name for name, parameter in held.items() if not parameter.requires_grad]
    holds(not frozen, "frozen", names=listed(frozen))


def total(shapes):
    return sum(shape.numel() for shape in shapes.values())


def comparison(theirs, ours):
    """A table of what is missing, extra or of another size, one parameter a line."""
    lines = []
    for name in dict.fromkeys([*ours, *theirs]):
        want, got = ours.get(name), theirs.get(name)
        if want != got:
            sizes = [str(list(side)) if side is not None else "-" for side in (want, got)]
            difference = (got.numel() if got is not None else 0) - (want.numel() if want is not None else 0)
            lines.append(f"  {name:<18} {sizes[0]:>10} -> {sizes[1]:<10} {difference:+,}")
    return "\n".join(lines)


def cause(held, theirs, difference, width):
    """The likely reason of a difference."""
    aliases = [name for name, parameter in held.items() if parameter.same_as]
    if difference == -2 * width and any(name.startswith(("n1", "n2")) for name in aliases):
        return "one_norm"
    if not theirs:
        return "nothing"
    reasons = {
        -3 * width: "no_qkv_bias",
        -4 * width: "no_norms_or_biases",
        -width: "no_bias",
        -2 * width: "one_norm",
        -5 * width: "no_mlp_bias",
        -9 * width: "no_bias_at_all",
        -(width * width + width): "no_proj",
        -(4 * width * width + 2 * width): "twice",
        -(7 * width * width + 4 * width): "one_linear",
        -(8 * width * width + 5 * width): "no_mlp",
    }
    return reasons.get(difference, "missing" if difference < 0 else "extra")


@prop(points=4)
def names_are_as_asked(subject, reference, CausalSelfAttention, DecoderBlock):
    """Parameters and arguments have the names of the docstring: qkv and proj, n1, attn, n2 and mlp; dim and num_heads."""
    x = torch.randn(3, 5, 10, generator=torch.Generator().manual_seed(1))
    modules = [make(dim=10, num_heads=2) for make in (CausalSelfAttention, DecoderBlock)]
    for module, right in zip(modules, both(reference, 10, 2), strict=True):
        if module.write(given_weights(right, 2)) is not None:
            found = layouts.find(module, [right], [x])
            holds(found is not None, "no_such_names", names=listed(missing_names(module, right)))
            renames = misnamed(found[0].holders())
            text = "; ".join(f"{listed(theirs)} -> `{ours}`" for ours, theirs in renames.items())
            holds(not renames, "rename", renames=text)


def misnamed(holders):
    """Our modules whose numbers theirs keeps elsewhere: name -> the modules that hold them. Inside mlp any name is right."""
    found = {}
    for name, theirs in holders.items():
        place = "mlp" if name.startswith("mlp.") else name.rpartition(".")[0]
        wrong = [other for other in theirs if not other.startswith(f"{place}.")]
        for other in wrong:
            where = other.rpartition(".")[0] or other
            if where not in found.setdefault(place, []):
                found[place].append(where)
    return found


# ---- counting


@prop(points=7)
def counts_parameters(count_parameters, subject):
    """Tied parameters count once, frozen ones only with trainable_only=False, buffers never; the count is an int."""
    model = subject.make(
        "tree",
        parameters={
            "emb.weight": [7, 3],
            "a.weight": [5, 3],
            "a.bias": [5],
            "b.deep.weight": [2, 5, 2],
            "b.deep.bias": [5],
            "b.twin.weight": [2, 5, 2],
            "c.weight": [8, 3],
            "scale": [],
        },
        frozen=["a.weight", "c.weight"],
        tied={"head.weight": "emb.weight", "b.weight": "a.weight"},
        buffers={"b.mean": [11], "mask": [6, 6]},
    )
    trainable, frozen = 7 * 3 + 5 + 2 * 5 * 2 + 5 + 2 * 5 * 2 + 1, 5 * 3 + 8 * 3
    model.write({"b.deep.weight": torch.ones(2, 5, 2), "b.deep.bias": torch.ones(5)})  # now only shapes are alike
    count(count_parameters(model, True), trainable, what="count_parameters(model, True)")
    count(count_parameters(model), trainable, what="count_parameters(model)")
    count(count_parameters(model, trainable_only=False), trainable + frozen, what="trainable_only=False")
    count(count_parameters(model, False), trainable + frozen, what="count_parameters(model, False)")
    flags = {name: parameter.requires_grad for name, parameter in model.parameters().items()}
    holds(not flags["a.weight"] and flags["a.bias"], "flags_changed")
    model.eval()
    model.method("to")(torch.float64)
    count(count_parameters(model), trainable, what="count_parameters(model.eval().double())")
    nothing = subject.make("tree", parameters={}, frozen=[], tied={}, buffers={"mask": [6, 6]})
    count(count_parameters(nothing, trainable_only=False), 0, what="a module of buffers alone")
    sizes = {"w": [2, 3], "b": [4], "twin": [4]}
    leaf = subject.make("tree", parameters=sizes, frozen=["w"], tied={}, buffers={"mean": [5]})
    count(count_parameters(leaf), 8, what="a module without modules inside")
    model.method("requires_grad_")(False)
    count(count_parameters(model), 0, what="all parameters frozen")
    counts_a_block(count_parameters, subject)


def counts_a_block(count_parameters, subject):
    """A block of the submission's own, where it has one, is counted as any module is: frozen, it has 0."""
    try:
        block = subject.DecoderBlock(6, 2)
        held = block.parameters().values()
    except SubmissionRaised:
        return
    every = sum(parameter.value.numel() for parameter in held if parameter.same_as is None)
    block.method("requires_grad_")(False)
    count(count_parameters(block), 0, what="a frozen DecoderBlock")
    count(count_parameters(block, False), every, what="a frozen DecoderBlock, trainable_only=False")


@prop(points=3)
def the_formula_counts_a_block(decoder_block_parameters):
    """decoder_block_parameters(C) is the int 12C*C + 13C, however large C is."""
    for width in (6, 7, 32, 768, 1, 2_001):
        count(decoder_block_parameters(width), 12 * width**2 + 13 * width, what=f"decoder_block_parameters({width})")


@prop(points=5)
def an_indivisible_width_raises(CausalSelfAttention, DecoderBlock):
    """Both constructors raise ValueError when H does not divide C, and the message contains one of the two numbers."""
    for make in (CausalSelfAttention, DecoderBlock):
        for dim, heads in ((58, 17), (66, 44), (68, 51), (29, 83), (43, 21)):
            raises(make, dim, heads, error=ValueError, mentions=[dim, heads])
