"""ex03: what must be true of splitting into heads, attending in each, and merging.

`split_heads(x, H)` is [B, H, T, D], `merge_heads` undoes it, `multi_head_attention(qkv, H)` is [B, T, C].
"""

import torch

from grader.properties import (
    Choice,
    Float,
    Index,
    Seed,
    Size,
    count,
    dtype,
    equal,
    exactly,
    finite,
    holds,
    inputs_unchanged,
    prop,
    raises,
    refilled,
    shape,
)

ANY_H = {"H": (2, 4)}
ALL_VALUES = ["head_owns_its_channels", "merged_heads_stand_side_by_side", "value"]
LONG = {"T": (2, 21)}  # long enough that a window over the nearest positions shows


@prop(points=5, sizes=ANY_H)
def shapes(
    split_heads,
    merge_heads,
    multi_head_attention,
    x: Float["B T H*D"],
    heads: Float["B H T D"],
    qkv: Float["B T 3*H*D"],
):
    """Splitting gives [B, H, T, D], merging [B, T, C], and attention on [B, T, 3C] gives [B, T, C]."""
    number = heads.shape[1]
    shape(split_heads(x, number), *heads.shape, what="split_heads(x, H)")
    shape(merge_heads(heads), *x.shape, what="merge_heads(x)")
    shape(multi_head_attention(qkv, number), *x.shape, what="multi_head_attention(qkv, H)")


@prop(points=6, sizes=ANY_H)
def merging_undoes_splitting(split_heads, merge_heads, x: Float["B T H*D"], heads: Float["B H T D"]):
    """Splitting and then merging gives back x, and so does merging and then splitting."""
    number = heads.shape[1]
    exactly(merge_heads(split_heads(x, number)), x, what="merge_heads(split_heads(x, H))")
    exactly(split_heads(merge_heads(heads), number), heads, what="split_heads(merge_heads(x), H)")


@prop(points=10, sizes=ANY_H)
def head_owns_its_channels(split_heads, x: Float["B T H*D"], heads: Float["B H T D"]):
    """Head h of the split holds the channels h*D up to (h+1)*D of x, at every position."""
    number, width = heads.shape[1], heads.shape[3]
    split = split_heads(x, number)
    shape(split, *heads.shape, what="split_heads(x, H)")
    for h in range(number):
        exactly(split[:, h], x[:, :, h * width : (h + 1) * width], what=f"split_heads(x, H)[:, {h}]")


@prop(points=10, sizes=ANY_H)
def merged_heads_stand_side_by_side(merge_heads, heads: Float["B H T D"]):
    """Merging puts head h into the channels h*D up to (h+1)*D, at every position."""
    batch, number, length, width = heads.shape
    merged = merge_heads(heads)
    shape(merged, batch, length, number * width, what="merge_heads(x)")
    for h in range(number):
        got = merged[:, :, h * width : (h + 1) * width]
        exactly(got, heads[:, h], what=f"merge_heads(x)[:, :, {h * width}:{(h + 1) * width}]")


@prop(points=13, sizes=ANY_H)
def value(multi_head_attention, reference, qkv: Float["B T 3*H*D"], number: Size["H"]):
    """Every head is softmax(q k^T / sqrt(D)) v on its own thirds of qkv, and the heads are merged."""
    equal(
        multi_head_attention(qkv, number),
        reference.multi_head_attention(qkv, number),
        what="multi_head_attention(qkv, H)",
    )


@prop(points=6, needs=["shapes"], sizes=ANY_H)
def head_works_as_if_alone(multi_head_attention, qkv: Float["B T 3*H*D"], number: Size["H"]):
    """Each head's part of the output is what attention with one head gives on that head's q, k and v."""
    together = multi_head_attention(qkv, number)
    for h, block in enumerate(blocks(qkv, number)):
        alone = multi_head_attention(qkv[..., block].contiguous(), 1)
        unchanged(
            part(together, number, h), alone, what=f"multi_head_attention(qkv, H)[..., {span(together, number, h)}]"
        )


@prop(points=6, needs=["shapes"], sizes=ANY_H)
def heads_do_not_mix(multi_head_attention, qkv: Float["B T 3*H*D"], other: Float["B T 3*H*D"], number: Size["H"]):
    """Changing the channels of one head changes the output of that head, and of no other."""
    before = multi_head_attention(qkv, number)
    for h, block in enumerate(blocks(qkv, number)):
        changed = qkv.clone()
        changed[..., block] = other[..., block]
        after = multi_head_attention(changed, number)
        for g in range(number):
            one, two = part(before, number, g), part(after, number, g)
            if g == h:
                moves(one, two, "head_unmoved", head=h)
            else:
                stays(one, two, "head_mixes", changed=h, head=g)


@prop(points=5, needs=["shapes"], sizes=ANY_H)
def thirds_are_queries_keys_values(
    multi_head_attention, qkv: Float["B T 3*H*D"], other: Float["B T H*D"], number: Size["H"], t: Index["T"]
):
    """The first third asks: a changed query changes its own position only. The last third answers: with equal
    scores the output is the mean of the values."""
    width = other.shape[-1]
    before = multi_head_attention(qkv, number)
    asked = qkv.clone()
    asked[:, t, :width] = other[:, t]
    after = multi_head_attention(asked, number)
    moves(before[:, t], after[:, t], "query_unheard", position=t)
    for position in range(qkv.shape[1]):
        if position != t:
            stays(before[:, position], after[:, position], "query_elsewhere", changed=t, position=position)
    silent = qkv.clone()
    silent[..., :width] = 0
    mean = qkv[..., 2 * width :].double().mean(dim=1, keepdim=True).expand_as(other)
    equal(multi_head_attention(silent, number), mean)


@prop(points=5, needs=["shapes"], sizes={**ANY_H, **LONG})
def every_position_counts(multi_head_attention, qkv: Float["1 T 3*H*D", 0.5], away: Float["3*H*D"], number: Size["H"]):
    """The output of every head at every position changes with the input at any one position. There is no mask."""
    length, width = qkv.shape[1], qkv.shape[2] // 3
    qkv = qkv.repeat(length, 1, 1)
    away = away.sign() + 0.5 * (away == 0)
    away[width : 2 * width] *= 0.5
    away[:width] = 0
    moved = qkv + away * torch.eye(length)[:, :, None]  # [T, T, 3C]: in row j, the key and value at j have moved
    before, after = multi_head_attention(qkv, number), multi_head_attention(moved, number)
    shape(after, length, length, width, what="multi_head_attention(qkv, H)")
    for h in range(number):
        one, two = part(before, number, h), part(after, number, h)
        j, t = least((two - one).abs().amax(dim=-1))
        moves(one[j, t], two[j, t], "position_ignored", by=1e-3, head=h, position=t, changed=j)


@prop(points=4, needs=["shapes"], sizes=ANY_H)
def rows_do_not_mix(
    multi_head_attention, qkv: Float["B T 3*H*D"], other: Float["T 3*H*D"], number: Size["H"], b: Index["B"]
):
    """Changing one row of the batch changes the output of that row, and of no other."""
    changed = qkv.clone()
    changed[b] = other
    before, after = multi_head_attention(qkv, number), multi_head_attention(changed, number)
    for row in range(len(qkv)):
        if row == b:
            moves(before[row], after[row], "row_unmoved", row=row)
        else:
            stays(before[row], after[row], "row_mixes", changed=b, row=row)


@prop(points=2, needs=["shapes"], sizes=ANY_H)
def order_of_positions_is_kept(multi_head_attention, qkv: Float["B T 3*H*D"], number: Size["H"], seed: Seed):
    """Permuting the positions permutes the output alike: attention knows no order of its own."""
    order = torch.randperm(qkv.shape[1], generator=torch.Generator().manual_seed(seed))
    order = order if (order != torch.arange(len(order))).any() else order.flip(0)
    before, after = multi_head_attention(qkv, number), multi_head_attention(qkv[:, order], number)
    unchanged(after, before[:, order], what="multi_head_attention(qkv, H)")


@prop(points=8, needs=ALL_VALUES, sizes=ANY_H)
def gradients_are_right(
    split_heads,
    merge_heads,
    multi_head_attention,
    reference,
    x: Float["B T H*D"],
    heads: Float["B H T D"],
    qkv: Float["B T 3*H*D"],
    to_split: Float["B H T D"],
    to_merged: Float["B T H*D"],
):
    """The gradients that reach the inputs of all three functions are right."""
    number = heads.shape[1]
    same_gradients(split_heads, reference.split_heads, x, number, cotangent=to_split, what="x.grad")
    same_gradients(merge_heads, reference.merge_heads, heads, cotangent=to_merged, what="x.grad")
    whole, exact = multi_head_attention, reference.multi_head_attention
    other = [qkv.flip(0) + 1.0]  # for a second call before the first one's backward pass
    same_gradients(whole, exact, qkv, number, cotangent=to_merged, what="qkv.grad", later=other)


@prop(points=4)
def uneven_heads_are_refused(
    split_heads,
    multi_head_attention,
    x: Float["3 5 14"],
    qkv: Float["3 5 42"],
    bad: Choice[(10, 3), (10, 4), (8, 6), (14, 5), (13, 2), (7, 14), (6, 9), (9, 27)],
):
    """When H does not divide C, a ValueError names H or C; three times C being divisible does not help."""
    width, number = bad
    named = [number, width, 3 * width]
    raises(split_heads, x[..., :width].contiguous(), number, error=ValueError, mentions=named[:2])
    raises(multi_head_attention, qkv[..., : 3 * width].contiguous(), number, error=ValueError, mentions=named)


@prop(points=4, needs=ALL_VALUES)
def any_sizes(
    split_heads,
    merge_heads,
    multi_head_attention,
    reference,
    qkv: Float["6 130 48"],
    sizes: Choice[
        (3, 5, 1, 7),  # one head
        (3, 5, 7, 1),  # as many heads as channels
        (3, 1, 2, 5),  # one position
        (1, 6, 2, 5),  # a batch of one
        (1, 5, 1, 7),  # a batch of one with one head
        (3, 3, 3, 3),
        (2, 4, 4, 4),
        (3, 2, 5, 2),  # B = H+1, T = D
        (5, 2, 2, 7),  # T = H
        (2, 130, 4, 3),  # long
    ],
):
    """Sizes that happen to be equal, sizes of 1, long sequences and large scores are treated like all others."""
    batch, length, number, width = sizes
    qkv = qkv[:batch, :length, : 3 * number * width].contiguous()
    x = qkv[..., : number * width].contiguous()
    heads = reference.split_heads(x, number).float()
    exactly(split_heads(x, number), heads, what="split_heads(x, H)")
    exactly(merge_heads(heads), x, what="merge_heads(x)")
    mine, exact = multi_head_attention(qkv, number), reference.multi_head_attention(qkv, number)
    equal(mine, exact, what="multi_head_attention(qkv, H)")
    far = far_from_zero(qkv, number)
    mine, exact = multi_head_attention(far, number), reference.multi_head_attention(far, number)
    equal(mine, exact, what="multi_head_attention(qkv, H)")


@prop(points=3, needs=ALL_VALUES, sizes=ANY_H)
def any_tensor_is_an_input(
    split_heads,
    merge_heads,
    multi_head_attention,
    reference,
    x: Float["B T H*D"],
    heads: Float["B H T D"],
    qkv: Float["B T 3*H*D"],
    kind: Choice[
        "every other channel",
        "time before batch",
        "stored transposed",
        "expanded",
        "requires_grad",
        "no gradient recorded",
    ],
):
    """Transposed, sliced and expanded tensors are as good as others, with gradients recorded or without."""
    number = heads.shape[1]
    x, heads, qkv = (arranged(tensor, kind) for tensor in (x, heads, qkv))
    mine = [split_heads, merge_heads, multi_head_attention]
    if kind == "no gradient recorded":
        mine = [function.without_grad for function in mine]
    exactly(mine[0](x, number), reference.split_heads(x, number), what="split_heads(x, H)")
    exactly(mine[1](heads), reference.merge_heads(heads), what="merge_heads(x)")
    equal(mine[2](qkv, number), reference.multi_head_attention(qkv, number), what="multi_head_attention(qkv, H)")
    to_split, to_merged = torch.ones(heads.shape).cumsum(-1), torch.ones(x.shape).cumsum(-1)
    same_gradients(split_heads, reference.split_heads, x, number, cotangent=to_split, what="x.grad")
    same_gradients(merge_heads, reference.merge_heads, heads, cotangent=to_merged, what="x.grad")
    whole, exact = multi_head_attention, reference.multi_head_attention
    same_gradients(whole, exact, qkv, number, cotangent=to_merged, what="qkv.grad")


@prop(points=2, sizes=ANY_H)
def inputs_stay_as_they_were(
    split_heads,
    merge_heads,
    multi_head_attention,
    x: Float["B T H*D"],
    heads: Float["B H T D"],
    qkv: Float["B T 3*H*D"],
    kind: Choice[torch.float32, torch.float64, torch.float16],
):
    """The tensors that were handed in are the same afterwards."""
    number = heads.shape[1]
    for grad in (True, False):
        inputs_unchanged(split_heads, x.to(kind), number, grad=grad)
        inputs_unchanged(merge_heads, heads.to(kind), grad=grad)
        inputs_unchanged(multi_head_attention, qkv.to(kind), number, grad=grad)


@prop(points=2, needs=ALL_VALUES, sizes=ANY_H)
def dtype_is_kept(
    split_heads,
    merge_heads,
    multi_head_attention,
    reference,
    x: Float["B T H*D"],
    heads: Float["B H T D"],
    qkv: Float["B T 3*H*D"],
    to_merged: Float["B T H*D"],
    kind: Choice[torch.float16, torch.bfloat16, torch.float64],
):
    """What comes out has the dtype of what went in, half precision or double, and its gradient is right."""
    number = heads.shape[1]
    x, heads, qkv = x.to(kind), heads.to(kind), qkv.to(kind)
    near = {torch.float16: 1e-2, torch.bfloat16: 5e-2, torch.float64: 1e-4}[kind]
    split, merged, out = split_heads(x, number), merge_heads(heads), multi_head_attention(qkv, number)
    for name, answer in {
        "split_heads(x, H)": split,
        "merge_heads(x)": merged,
        "multi_head_attention(qkv, H)": out,
    }.items():
        dtype(answer, kind, what=name)
    exactly(split, reference.split_heads(x, number), what="split_heads(x, H)")
    exactly(merged, reference.merge_heads(heads), what="merge_heads(x)")
    equal(out, reference.multi_head_attention(qkv, number), tol=near, what="multi_head_attention(qkv, H)")
    whole, exact = multi_head_attention, reference.multi_head_attention
    same_gradients(whole, exact, qkv, number, cotangent=to_merged, what="qkv.grad", tol=near)


@prop(points=1, cases=2, sizes=ANY_H)
def each_call_stands_alone(
    split_heads,
    merge_heads,
    multi_head_attention,
    reference,
    qkv: Float["2 B T 3*H*D"],
    number: Size["H"],
    grad: Choice[True, False],
):
    """The answer to a call follows from its own arguments and what they hold: earlier calls leave no trace."""
    batch, length, width = qkv.shape[1], qkv.shape[2], qkv.shape[3] // 3
    for turn in (0, 1, 0):
        whole = qkv[turn]
        x, heads = whole[..., :width].contiguous(), whole[..., :width].reshape(batch, number, length, -1)
        equal(split_heads(x, number), reference.split_heads(x, number))
        equal(merge_heads(heads), reference.merge_heads(heads))
        equal(multi_head_attention(whole, number), reference.multi_head_attention(whole, number))
    xs = qkv[..., :width].contiguous()
    heads = reference.split_heads(xs.flatten(0, 1), number).float().unflatten(0, (2, batch))
    split = refilled(split_heads, xs[1], number, earlier=[xs[0]], grad=grad)
    equal(split, heads[1], what="x.copy_(...); split_heads(x, H)")
    merged = refilled(merge_heads, heads[1], earlier=[heads[0]], grad=grad)
    equal(merged, xs[1], what="x.copy_(...); merge_heads(x)")
    out = refilled(multi_head_attention, qkv[1], number, earlier=[qkv[0]], grad=grad)
    equal(out, reference.multi_head_attention(qkv[1], number), what="qkv.copy_(...); multi_head_attention(qkv, H)")


# ------------------------------------------------------------------------------------------ the size of the scores


@prop(points=4)
def score_count_is_right(
    score_count, sizes: Choice[(3, 5, 2), (2, 7, 3), (1, 1, 1), (5, 1, 3), (8, 128, 4), (8, 128, 8), (3, 1367, 3)]
):
    """The score tensor has one number for every pair of positions, in every head of every row of the batch."""
    batch, length, number = sizes
    count(score_count(batch, length, number), batch * number * length * length, what=f"score_count{sizes}")


# ------------------------------------------------------------------------------------------ parts of the equations


def blocks(qkv, number):
    """For every head the channels of qkv that belong to it: its block in each of the thirds."""
    width = qkv.shape[-1] // 3
    head = width // number
    for h in range(number):
        yield [third * width + h * head + d for third in range(3) for d in range(head)]


def far_from_zero(qkv, number, by=80.0):
    """All keys of a head moved by the same vector: the scores of a query all move alike, by a hundred and more."""
    qkv, width = qkv.clone(), qkv.shape[-1] // 3
    qkv[..., width : 2 * width] += by * (1 - 2 * (torch.arange(width) * number // width % 2))
    return qkv


def part(out, number, h):
    """What head h contributed to a merged output."""
    width = out.shape[-1] // number
    return out[..., h * width : (h + 1) * width]


def span(out, number, h):
    """The channels of head h in a merged output, as they are written in an index."""
    width = out.shape[-1] // number
    return f"{h * width}:{(h + 1) * width}"


def moves(one, two, key, by=1e-2, **params):
    """The two answers differ."""
    holds(difference(one, two) > by, key, **params)


def stays(one, two, key, **params):
    """The two answers are the same."""
    apart = difference(one, two)
    holds(apart <= 1e-4 * (1 + one.abs().max()), key, by=f"{apart:.2g}", **params)


def difference(one, two):
    finite(one)
    finite(two)
    return float((one - two).abs().max())


def least(effects):
    """Where a matrix has its smallest element."""
    return divmod(int(effects.argmin()), effects.shape[1])


def unchanged(got, want, what):
    """Two answers of the submission are the same, and are no mere zeros."""
    finite(want, what=what)
    holds(want.abs().max() > 1e-2, "all_zero", what=what)
    equal(got, want, what=what)


def same_gradients(function, exact, *args, cotangent, what, later=None, tol=1e-4):
    """What arrives at the input is what arrives at the reference's."""
    got = function.gradients(*args, cotangent=cotangent, later=later)
    want = exact.gradients(*args, cotangent=cotangent)
    shape(got.value, *cotangent.shape)
    equal(got.inputs[0], want.inputs[0], tol=tol, what=what)


def arranged(x, kind):
    """A tensor of the same shape as x, of the kind that is asked for."""
    if kind == "every other channel":
        return x.repeat_interleave(2, dim=-1)[..., ::2]
    if kind == "time before batch":  # for x [B, H, T, D]: stored as [B, T, H, D], as split_heads leaves it
        first = x.dim() - 3
        return x.transpose(first, first + 1).contiguous().transpose(first, first + 1)
    if kind == "stored transposed":
        return x.mT.contiguous().mT
    if kind in ("expanded", "no gradient recorded"):  # where nothing is recorded, this shows what writes into its input
        return x[:1].expand_as(x)
    return x.clone().requires_grad_(kind == "requires_grad")
