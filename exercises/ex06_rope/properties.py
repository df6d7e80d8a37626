"""ex06: what must be true of rotary positions."""

import torch

from grader.properties import (
    Choice,
    Float,
    Ids,
    Index,
    Size,
    depends,
    dtype,
    equal,
    exactly,
    finite,
    inputs_unchanged,
    prop,
    raises,
    refilled,
    shape,
)

EVEN = {"P": (3, 6)}  # D = 2P
HALVES = {torch.float16: 5e-3, torch.bfloat16: 4e-2}


def tables(reference, positions, width, base=10000.0):
    """The right tables as float32, so that turning is judged apart from making tables."""
    return [table.float() for table in reference.rope_angles(positions, width, base)]


def between_the_ends(positions):
    """The same positions in another order: the first and the last stay where they are."""
    return torch.cat((positions[:1], positions[1:-1].flip(0), positions[-1:]))


@prop(points=3, cases=3, sizes=EVEN)
def tables_have_the_right_shape(
    rope_angles,
    apply_rope,
    rope_attention_scores,
    reference,
    q: Float["B H T 2*P"],
    k: Float["B H S 2*P"],
    T: Size["T"],
    S: Size["S"],
):
    """The tables are [T, D] each (D = 2P: P pairs), turning keeps [B, H, T, D], scores are [B, H, T, S]; D may be 2."""
    for width in (q.shape[-1], 2):
        for length in (T, 1):
            pair = rope_angles(torch.arange(length) + 3, width)
            for name, table in zip(("cos", "sin"), pair, strict=True):
                shape(table, length, width, what=name)
    cos, sin = tables(reference, torch.arange(T), q.shape[-1])
    shape(apply_rope(q, cos, sin), *q.shape)
    shape(rope_attention_scores(q, k, torch.arange(T) + 3, torch.arange(S) + 3), *q.shape[:3], S)


@prop(points=6, sizes=EVEN)
def rotate_half_swaps_the_halves(rotate_half, x: Float["B H T 2*P"], n: Index["P"]):
    """Channel n of rotate_half(x) is -x at n + D/2, and channel n + D/2 is x at n, for any number of axes."""
    half = x.shape[-1] // 2
    for some in (x, x[0], x[0, 0], x[0, 0, 0], x[..., :2], torch.stack((x, -x))):
        out = rotate_half(some)
        shape(out, *some.shape)
        step, m = (half, n) if some.shape[-1] == x.shape[-1] else (1, 0)
        exactly(out[..., m], -some[..., m + step], what=f"out[..., {m}]")
        exactly(out[..., m + step], some[..., m], what=f"out[..., {m + step}]")


@prop(points=3, sizes=EVEN)
def rotate_half_twice_is_minus(rotate_half, x: Float["B H T 2*P"]):
    """Two quarter turns are a half turn: rotate_half(rotate_half(x)) == -x."""
    exactly(rotate_half(rotate_half(x)), -x)


@prop(points=9, sizes={"P": (7, 9)})  # widths that nobody has asked for yet: a cache keeps the base of this property
def tables_have_the_right_value(
    rope_angles, reference, positions: Ids["T", "50"], P: Size["P"], base: Choice[100.5, 10000.0, 500000.0]
):
    """cos and sin hold the angles positions[t] * base ** (-2n/D), for whole positions in any order and for any base."""
    for width in (2 * P, 2, 128):
        other = between_the_ends(positions)
        for at in (positions, other, other.int() - 30, positions.byte() + 150):
            got, want = rope_angles(at, width, base), reference.rope_angles(at, width, base)
            for name, mine, expected in zip(("cos", "sin"), got, want, strict=True):
                equal(mine, expected, what=name, zero=True)
    for start, tol in ((9_000, 5e-3), (90_000, 5e-2)):  # float32 knows these angles less well
        got, want = rope_angles(positions + start, 2 * P, base), reference.rope_angles(positions + start, 2 * P, base)
        for name, mine, expected in zip(("cos", "sin"), got, want, strict=True):
            equal(mine, expected, tol=tol, what=name)
    for given, meant in (((), 10000.0), ((300,), 300.0)):
        got, want = rope_angles(positions, 2 * P, *given), reference.rope_angles(positions, 2 * P, meant)
        for name, mine, expected in zip(("cos", "sin"), got, want, strict=True):
            equal(mine, expected, what=name, zero=True)


@prop(points=4, sizes=EVEN)
def positions_may_be_fractions(rope_angles, reference, quarters: Ids["T", "160"], P: Size["P"]):
    """Positions may be float numbers such as 1.5, in float32 and float64."""
    for positions in (quarters / 4, quarters.double() / 4, (quarters // 4).float(), quarters / 4 - 20):
        got, want = rope_angles(positions, 2 * P), reference.rope_angles(positions, 2 * P)
        for name, mine, expected in zip(("cos", "sin"), got, want, strict=True):
            equal(mine, expected, what=name, zero=True)


@prop(points=9, sizes=EVEN)
def turned_vectors_have_the_right_value(apply_rope, reference, x: Float["B H T 2*P"], positions: Ids["T", "50"]):
    """apply_rope(x, cos, sin) turns each pair (n, n + D/2) of the vector at t by the angle in row t."""
    cos, sin = tables(reference, positions, x.shape[-1])
    for some in (x, x[:1], x[:, :1]):
        equal(apply_rope(some, cos, sin), reference.apply_rope(some, cos, sin))
    equal(apply_rope.without_grad(x, cos, sin), reference.apply_rope(x, cos, sin))
    equal(apply_rope(x[:, :, :1], cos[:1], sin[:1]), reference.apply_rope(x[:, :, :1], cos[:1], sin[:1]))
    alike = x[:2, :2, :2], cos[:2], sin[:2]  # as many heads, and sequences, as positions
    equal(apply_rope(*alike), reference.apply_rope(*alike))
    cos, sin = tables(reference, positions, 2)
    equal(apply_rope(x[..., :2], cos, sin), reference.apply_rope(x[..., :2], cos, sin))


@prop(points=4, sizes=EVEN)
def position_0_changes_nothing(rope_angles, apply_rope, x: Float["B H T 2*P"], T: Size["T"], t: Index["T"]):
    """A vector at position 0 stays as it is, wherever it stands in the sequence."""
    equal(apply_rope(x, *rope_angles(torch.zeros(T, dtype=torch.int64), x.shape[-1])), x, tol=1e-6)
    positions = torch.arange(T) + 3
    positions[t] = 0
    out = apply_rope(x, *rope_angles(positions, x.shape[-1]))
    equal(out[:, :, t], x[:, :, t], tol=1e-6, what=f"out[:, :, {t}]")
    if t + 1 < T:
        depends(out[:, :, t + 1], x[:, :, t + 1], what=f"out[:, :, {t + 1}]")


@prop(points=5, sizes=EVEN)
def turning_keeps_lengths(rope_angles, apply_rope, reference, x: Float["B H T 2*P"], positions: Ids["T", "50"]):
    """Every vector is as long after the turn as before (its L2 norm), one of zeros too, and so is each pair of channels."""
    x[0, 1] = 0.0
    for cos, sin in (tables(reference, positions, x.shape[-1]), rope_angles(positions, x.shape[-1])):
        out = apply_rope(x, cos, sin)
        shape(out, *x.shape)
        equal(out.norm(dim=-1), x.norm(dim=-1), what="out.norm(dim=-1)")
        pairs, turned = x.unflatten(-1, (2, -1)).norm(dim=-2), out.unflatten(-1, (2, -1)).norm(dim=-2)
        equal(turned, pairs, what="the length of each pair")


@prop(points=8, sizes=EVEN, cases=2)
def scores_have_the_right_value(
    rope_attention_scores,
    reference,
    q: Float["B H T 2*P"],
    k: Float["B H S 2*P"],
    at: Ids["T", "50"],
    keys: Ids["S", "50"],
    base: Choice[10000.0, 300.0],
    grad: Choice[True, False],
):
    """The scores are those of queries at q_positions and keys at k_positions, scaled, for any positions and base."""
    equal(rope_attention_scores(q, k, at, keys, base), reference.rope_attention_scores(q, k, at, keys, base))
    equal(rope_attention_scores(q, k, at, keys), reference.rope_attention_scores(q, k, at, keys, 10000.0))
    for one, two in ((q, k), (-q, k.flip(0))):  # other numbers at the same positions
        equal(
            rope_attention_scores.without_grad(one, two, at, keys), reference.rope_attention_scores(one, two, at, keys)
        )
    earlier = [-q, k.flip(0), at + 3, keys.flip(0)]
    equal(
        refilled(rope_attention_scores, q, k, at, keys, earlier=earlier, grad=grad),
        reference.rope_attention_scores(q, k, at, keys),
        what="q.copy_(...); k.copy_(...); rope_attention_scores(q, k, ...)",
    )
    wide, many = (q.repeat(1, 1, 1, 10), k.repeat(1, 1, 1, 10)), (k.repeat(1, 1, 12, 1), keys.repeat(12).flip(0))
    for one, two, here, there in (
        (q[:1], k[:1], at, keys),
        (q[:, :1], k[:, :1], at, keys),
        (q[..., :2], k[..., :2], at, keys),
        (*wide, at, keys),
        (q, many[0], at, many[1]),
        (q, k, at.byte(), keys.byte()),
        (q, k, at.int() - 25, keys.int() - 25),
    ):
        got, want = (score(one, two, here, there) for score in (rope_attention_scores, reference.rope_attention_scores))
        equal(got, want)
    late = q, k, at + 40_000, keys + 40_000  # float32 knows these angles less well
    equal(rope_attention_scores(*late), reference.rope_attention_scores(*late), tol=2e-2)
    same, here, there = k[:, :, : q.shape[2]], at[: k.shape[2]] + 0.5, keys[: q.shape[2]].float()
    few = q[:, :, : len(here)]
    equal(
        rope_attention_scores(few, same, here, there, base=base),
        reference.rope_attention_scores(few, same, here, there, base=base),
    )


@prop(points=6, sizes=EVEN)
def scores_depend_on_the_distance_only(
    rope_attention_scores,
    q: Float["B H 1 2*P"],
    k: Float["B H 1 2*P"],
    T: Size["T"],
    S: Size["S"],
    shift: Choice[1, 7, 30],
):
    """With one q and one k repeated along time, the score of positions (m, n) depends on m - n only."""
    q, k = q.expand(-1, -1, T, -1), k.expand(-1, -1, S, -1)
    near = rope_attention_scores(q, k, torch.arange(T), torch.arange(S))
    equal(near[:, :, 1:, 1:], near[:, :, :-1, :-1], what="scores[:, :, 1:, 1:]")
    far = rope_attention_scores(q, k, torch.arange(T) + shift, torch.arange(S) + shift)
    equal(far, near, what=f"scores at positions + {shift}")


@prop(points=5, sizes=EVEN)
def scores_depend_on_the_distance(
    rope_attention_scores, q: Float["B H 1 2*P"], k: Float["B H 1 2*P"], T: Size["T"], S: Size["S"]
):
    """With one q and one k repeated along time, the score does change with the distance, on both sides."""
    q, k = q.expand(-1, -1, T, -1), k.expand(-1, -1, S, -1)
    scores = rope_attention_scores(q, k, torch.arange(T), torch.arange(S))
    for d in (1, 2):
        depends(scores[:, :, 0, d], scores[:, :, 0, 0], by=1e-2, what=f"scores[:, :, 0, {d}]")
        depends(scores[:, :, d, 0], scores[:, :, 0, 0], by=1e-2, what=f"scores[:, :, {d}, 0]")
        depends(scores[:, :, d, 0], scores[:, :, 0, d], by=1e-2, what=f"scores[:, :, {d}, 0]")


@prop(points=5, sizes=EVEN)
def scores_of_ones_follow_the_formula(
    rope_attention_scores, at: Ids["T", "40"], keys: Ids["S", "40"], P: Size["P"], base: Choice[10000.0, 50.0]
):
    """For q = k = ones the score of (i, j) is 2 * sum over n of cos((i - j) * theta_n), divided by sqrt(D)."""
    D = 2 * P
    q, k = torch.ones(2, 3, len(at), D), torch.ones(2, 3, len(keys), D)
    theta = torch.tensor([base ** (-2 * n / D) for n in range(P)], dtype=torch.float64)
    distance = (at[:, None] - keys[None, :]).double()
    want = 2 * (distance[..., None] * theta).cos().sum(-1) / D**0.5
    equal(rope_attention_scores(q, k, at, keys, base), want.expand(2, 3, -1, -1))


@prop(points=5, cases=4, sizes=EVEN)
def a_slice_of_the_table_is_the_table_of_the_slice(
    rope_angles, rope_attention_scores, q: Float["B H T 2*P"], T: Size["T"], S: Size["S"], P: Size["P"]
):
    """Positions that start after an offset, as in decoding with a cache, get the rows of the long table."""
    late = rope_angles(torch.arange(S, S + T), 2 * P)
    early = rope_angles(torch.arange(T), 2 * P)
    long = rope_angles(torch.arange(300), 2 * P)
    for name, first, last, whole in zip(("cos", "sin"), early, late, long, strict=True):
        equal(first, whole[:T], what=f"{name} of the first slice")
        equal(last, whole[S : S + T], what=f"{name} of the second slice")
    positions = torch.arange(T)
    scores = rope_attention_scores(q, q, positions, positions)
    for t in (0, T // 2, T - 1):
        step = rope_attention_scores(q[:, :, t : t + 1], q, positions[t : t + 1], positions)
        equal(step, scores[:, :, t : t + 1], what=f"scores of the query at {t} alone")


@prop(points=3, sizes=EVEN)
def turning_passes_gradients(
    apply_rope, reference, x: Float["B H T 2*P"], positions: Ids["T", "50"], back: Float["B H T 2*P"]
):
    """The gradient of x flows back through both terms of the turn."""
    cos, sin = tables(reference, positions, x.shape[-1])
    got = apply_rope.gradients(x, cos, sin, cotangent=back).inputs
    want = reference.apply_rope.gradients(x, cos, sin, cotangent=back).inputs
    equal(got[0] if got else None, want[0], what="x.grad")


@prop(points=4, sizes=EVEN)
def scores_pass_gradients(
    rope_attention_scores,
    reference,
    q: Float["B H T 2*P"],
    k: Float["B H S 2*P"],
    at: Ids["T", "50"],
    keys: Ids["S", "50"],
    back: Float["B H T S"],
    alone: Choice["q", "k"],
):
    """The gradients of q and k are right, also where one of them alone wants one."""
    later = [-q, k.flip(0), at + 3, keys.flip(0)]  # of a second call, before the first one's backward pass
    got = rope_attention_scores.gradients(q, k, at, keys, cotangent=back, later=later).inputs
    want = reference.rope_attention_scores.gradients(q, k, at, keys, cotangent=back).inputs
    for name, mine, expected in zip("qk", got or [None] * 2, want, strict=True):
        equal(mine, expected, what=f"{name}.grad")
    one = q.clone().requires_grad_(alone == "q"), k.clone().requires_grad_(alone == "k")
    got = rope_attention_scores.gradients(*one, at, keys, cotangent=back).inputs
    want = reference.rope_attention_scores.gradients(*one, at, keys, cotangent=back).inputs
    equal(got["qk".index(alone)] if got else None, want["qk".index(alone)], what=f"{alone}.grad")


@prop(points=5, cases=4, sizes=EVEN)
def half_inputs_get_precise_angles(
    apply_rope,
    rope_attention_scores,
    reference,
    q: Float["B H T 2*P"],
    k: Float["B H S 2*P"],
    start: Index["60"],
    late: Choice["queries", "keys"],
):
    """With float16 and bfloat16 vectors the positions 4000 and 4001 still differ, and scores there are right."""
    far, near = torch.arange(q.shape[2]) + 4000 + start, torch.arange(k.shape[2]) * 3 + start
    cos, sin = tables(reference, far, q.shape[-1])
    repeated = q[:, :, :1].expand(q.shape)
    for kind, tol in HALVES.items():
        turned = apply_rope(q.to(kind), cos, sin)
        finite(turned)
        equal(turned, reference.apply_rope(q.to(kind), cos, sin), tol=tol)
        one, same, other = q.to(kind), repeated.to(kind), k.to(kind)
        if late == "queries":
            scores, right = (f(one, other, far, near) for f in (rope_attention_scores, reference.rope_attention_scores))
            steps = rope_attention_scores(same, other, far, near)
        else:
            scores, right = (f(other, one, near, far) for f in (rope_attention_scores, reference.rope_attention_scores))
            steps = rope_attention_scores(other, same, near, far).transpose(-2, -1)
        equal(scores, right, tol=tol)
        depends(steps[:, :, 1], steps[:, :, 0], by=3e-2, what="scores at two neighbouring positions")


@prop(points=2, cases=4, sizes=EVEN)
def half_positions_get_precise_angles(rope_angles, reference, P: Size["P"], start: Index["40"]):
    """Positions in float16 and bfloat16 are widened before they are multiplied: the tables are as precise as ever."""
    for first, kind, tol in ((1900, torch.float16, 2e-3), (200, torch.bfloat16, 1e-2)):
        positions = (first + start + torch.arange(5)).to(kind)
        got, want = rope_angles(positions, 2 * P), reference.rope_angles(positions, 2 * P)
        for name, mine, expected in zip(("cos", "sin"), got, want, strict=True):
            equal(mine, expected, tol=tol, what=name)


@prop(points=3, cases=3)
def rotate_half_rejects_odd_widths(rotate_half, x: Float["B H T D"], D: Choice[7, 3, 11, 1]):
    """rotate_half raises ValueError for an odd last axis; the message names its size."""
    raises(rotate_half, x[..., :1].expand(-1, -1, -1, D), error=ValueError, mentions=[D])
    raises(rotate_half, torch.ones(D), error=ValueError, mentions=[D])


@prop(points=3, cases=3)
def rope_angles_rejects_odd_widths(rope_angles, T: Size["T"], D: Choice[7, 3, 11, 1]):
    """rope_angles raises ValueError for an odd head_dim; the message names it."""
    raises(rope_angles, torch.arange(T), D, error=ValueError, mentions=[D])
    raises(rope_angles, torch.arange(T).float(), D, 500.0, error=ValueError, mentions=[D])


@prop(points=3, cases=4, sizes=EVEN)
def leaves_its_inputs_alone(
    rotate_half,
    rope_angles,
    apply_rope,
    rope_attention_scores,
    reference,
    q: Float["B H T 2*P"],
    k: Float["B H S 2*P"],
    at: Ids["T", "50"],
    keys: Ids["S", "50"],
    grad: Choice[True, False],
):
    """No function changes the vectors, tables or positions it is given, whether gradients are recorded or not."""
    inputs_unchanged(rotate_half, q, grad=grad)
    inputs_unchanged(rope_angles, at, q.shape[-1], grad=grad)
    inputs_unchanged(rope_angles, at / 2, q.shape[-1], grad=grad)
    inputs_unchanged(rope_angles, at.double() / 2, q.shape[-1], grad=grad)
    inputs_unchanged(apply_rope, q, *tables(reference, at, q.shape[-1]), grad=grad)
    inputs_unchanged(rope_attention_scores, q, k, at, keys, grad=grad)
    inputs_unchanged(rope_attention_scores, q, k, at / 2, keys / 2, grad=grad)


@prop(points=3, cases=3, sizes=EVEN)
def takes_tensors_of_any_layout(
    rotate_half,
    rope_angles,
    apply_rope,
    rope_attention_scores,
    reference,
    q: Float["B T H 2*P"],
    k: Float["2*P S H B"],
    at: Ids["T 3", "50"],
    keys: Ids["S", "50"],
):
    """Transposed, strided and expanded tensors, and those that are part of a graph, are inputs like any other."""
    q, k, at = q.transpose(1, 2), k.permute(3, 2, 1, 0), at[:, 1]
    width = q.shape[-1]
    equal(rotate_half(k), reference.rotate_half(k))
    cos, sin = tables(reference, at, width)
    equal(rope_angles(at, width)[0], cos, what="cos")
    still = torch.tensor([3]).expand(len(at))
    equal(rope_angles(still, width)[1], reference.rope_angles(still, width)[1], what="sin")
    want = reference.apply_rope(q, cos, sin)
    equal(apply_rope(q, cos.t().contiguous().t(), sin), want)
    equal(apply_rope(q, torch.stack((cos, sin), -1)[..., 0], torch.stack((cos, sin), -1)[..., 1]), want)
    equal(apply_rope(q.detach().clone().requires_grad_(), cos, sin), want)
    one = q[:, :, :1].expand(q.shape)
    equal(apply_rope(one, cos, sin), reference.apply_rope(one, cos, sin))
    equal(rope_attention_scores(q, k, at, keys), reference.rope_attention_scores(q, k, at, keys))


@prop(points=2, cases=2, sizes=EVEN)
def keeps_the_dtype(
    rotate_half, apply_rope, rope_attention_scores, reference, x: Float["B H T 2*P"], at: Ids["T", "50"]
):
    """float32 stays float32 and float64 float64; half precision with float32 tables may give either of the two."""
    cos, sin = reference.rope_angles(at, x.shape[-1])
    dtype(apply_rope(x, cos.float(), sin.float()), torch.float32)
    dtype(apply_rope(x.double(), cos, sin), torch.float64)
    dtype(rope_attention_scores(x, x, at, at), torch.float32)
    dtype(rope_attention_scores(x.double(), x.double(), at, at), torch.float64)
    dtype(rotate_half(x.double()), torch.float64)
    for half in HALVES:
        dtype(rotate_half(x.to(half)), half)
        for out in (apply_rope(x.to(half), cos.float(), sin.float()), rope_attention_scores(*[x.to(half)] * 2, at, at)):
            if getattr(out, "dtype", None) != torch.float32:
                dtype(out, half)
