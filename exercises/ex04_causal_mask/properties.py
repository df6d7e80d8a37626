"""ex04: what must be true of masks, and of a softmax that respects them."""

import torch

from grader.properties import (
    Bool,
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
    gradients,
    holds,
    inputs_unchanged,
    prop,
    refilled,
    shape,
    sums_to_one,
)

HALVES = {torch.float16: 5e-3, torch.bfloat16: 4e-2}


def open_rows(mask, kept):
    """The mask with key `kept` of every row allowed and the next one blocked: no row is empty, none is full."""
    mask = mask.clone()
    mask[..., kept] = True
    mask[..., kept - 1] = False
    return mask


def ragged(padding, first=0):
    """A padding mask in which every sequence has a pad somewhere after `first`, and no pad at `first`."""
    padding = padding.clone()
    padding[..., first] = True
    padding[..., -1] = False
    padding[0, ..., -1] = True
    padding[0, ..., first + 1] = False
    return padding


def changed(x, where, by):
    """x with `by` added at the positions `where` of its axis T."""
    return x + by * where.view(-1, 1)


@prop(points=7)
def causal_mask_is_the_lower_triangle(causal_mask, T: Size["T"], other: Choice[1, 2, 40, 1100]):
    """causal_mask(T) is bool [T, T], True exactly where key j <= query t, for any T from 1 on."""
    for length in (T, other):
        mask = causal_mask(length)
        shape(mask, length, length)
        dtype(mask, torch.bool)
        t, j = torch.arange(length)[:, None], torch.arange(length)[None, :]
        exactly(mask, j <= t)


@prop(points=6)
def padding_mask_is_true_for_real_tokens(padding_mask, ids: Ids["B T", "V"], pad: Index["V"]):
    """padding_mask(ids, pad_id) is bool [B, 1, 1, T], False exactly where the id is pad_id, whatever pad_id is."""
    ids[0, -2:], ids[1], ids[2, :2] = pad, pad, pad
    ids[2, 2] = (pad + 1) % 7
    far = ids + 256 * (ids == pad)  # no pad at all, unless somebody keeps ids in one byte
    for row, pad_id in (
        (ids, pad),
        (ids.int(), pad),
        (ids[:, :1], pad),
        (ids - pad, 0),
        (ids - 5, -1),
        (ids, 99),
        (far, pad),
    ):
        mask = padding_mask(row, pad_id)
        shape(mask, len(row), 1, 1, row.shape[1])
        dtype(mask, torch.bool)
        exactly(mask[:, 0, 0], row != pad_id)


@prop(points=6, cases=2)
def combined_masks_all_allow(
    combine_masks, a: Bool["T T"], b: Bool["B 1 1 T"], c: Bool["B 1 T T"], d: Bool["H T T"], H: Size["H"]
):
    """combine_masks allows a key where each of its masks, one or more, allows it; it is bool and broadcasts."""
    full = (b.shape[0], H, *a.shape)
    for masks in ((a, b), (b, a), (a,), (b,), (c, a, b), (a, b, c, d), (a, a.t(), b), (d, b), (a, b.mT)):
        got = combine_masks(*masks)
        dtype(got, torch.bool)
        holds(broadcasts(got.shape, full), "not_broadcastable", got=list(got.shape), want=list(full))
        exactly(got.expand(full), torch.stack([mask.expand(full) for mask in masks]).all(0))


def broadcasts(shape, full):
    """Whether a tensor of this shape broadcasts to `full`."""
    return len(shape) <= len(full) and all(
        size in (1, target) for size, target in zip(reversed(shape), reversed(full), strict=False)
    )


@prop(points=7)
def weights_share_out_one(
    masked_softmax, scores: Float["B H T S", 2.0], wide: Bool["T S"], deep: Bool["B 1 T S"], kept: Index["S"]
):
    """In every row the weights of the allowed keys are positive and sum to 1, those of the blocked are exactly 0."""
    for mask in (open_rows(wide, kept), open_rows(deep, kept)):
        weights = masked_softmax(scores, mask)
        shape(weights, *scores.shape)
        sums_to_one(weights, axis=-1)
        blocked = ~mask.expand(scores.shape)
        exactly(weights[blocked], torch.zeros(int(blocked.sum())), what="weights[~mask]")
        holds((weights[~blocked] > 0).all(), "not_positive")


@prop(points=7, cases=2)
def masked_softmax_has_the_right_value(
    masked_softmax,
    reference,
    scores: Float["B H T S", 2.0],
    wide: Bool["T S"],
    keys: Bool["B 1 1 S"],
    deep: Bool["B 1 T S"],
    full: Bool["B H T S"],
    kept: Index["S"],
):
    """masked_softmax is right for masks [T, S], [B, 1, 1, S], [H, T, S], [B, H, T, S] and so on, with T < S and T > S."""
    masks = [
        wide,
        keys,
        deep,
        full,
        full[0],
        full[:1, :, :, :1],
        torch.ones_like(wide),
        *(open_rows(m, kept) for m in (wide, keys, full)),
    ]
    for mask in masks:
        equal(masked_softmax(scores, mask), reference.masked_softmax(scores, mask), zero=True)
    square = scores[..., : min(scores.shape[2:]), : min(scores.shape[2:])]
    mask = wide[: square.shape[-1], : square.shape[-1]]
    equal(masked_softmax(square, mask), reference.masked_softmax(square, mask), zero=True)
    for some in (scores[:, :, :1], scores[:, :1], scores.double()):
        equal(masked_softmax(some, keys), reference.masked_softmax(some, keys), zero=True)
    equal(masked_softmax(scores[:1], keys[:1]), reference.masked_softmax(scores[:1], keys[:1]), zero=True)
    for some, mask in ((scores[:1].expand_as(scores), deep), (scores, deep[:1].expand_as(deep))):  # shows who writes
        equal(masked_softmax.without_grad(some, mask), reference.masked_softmax(some, mask), zero=True)


@prop(points=8, cases=2)
def attention_has_the_right_value(
    causal_attention,
    reference,
    q: Float["B H T D"],
    k: Float["B H T D"],
    v: Float["B H T E"],
    padding: Bool["B 1 1 T"],
):
    """causal_attention equals causal scaled dot-product attention, with padding and without; E may differ from D."""
    for part in (slice(None), slice(1)), (slice(1), slice(None)):
        some, mask = [x[part] for x in (q, k, v)], ragged(padding)[1:2] if part[0].stop else ragged(padding)
        equal(causal_attention(*some), reference.causal_attention(*some))
        equal(causal_attention(*some, mask), reference.causal_attention(*some, mask), zero=True)
    first = [x[:, :, :1] for x in (q, k, v)]
    equal(causal_attention(*first), reference.causal_attention(*first))
    for mask in (padding[..., :1], torch.zeros_like(padding[..., :1])):
        equal(causal_attention(*first, mask), reference.causal_attention(*first, mask), zero=True)
    long = [torch.cat([x[:1, :1] * by for by in torch.linspace(0.5, 1.5, 60)], dim=2) for x in (q, k, v)]
    equal(causal_attention(*long), reference.causal_attention(*long))
    wide = [x.double() for x in (q, k, v)]
    equal(causal_attention(*wide, padding), reference.causal_attention(*wide, padding), zero=True)
    shared = [x[:1].expand_as(x) for x in (q, k, v, ragged(padding))]  # cannot be written into
    equal(causal_attention.without_grad(*shared), reference.causal_attention(*shared))
    broad = [x.repeat(1, 1, 1, 12) for x in (q, k)]
    equal(causal_attention(*broad, v), reference.causal_attention(*broad, v))
    for mask in (ragged(padding), padding, torch.ones_like(padding), ragged(padding, 2)):
        want = reference.causal_attention(q, k, v, mask)
        equal(causal_attention(q, k, v, mask), want, zero=True)
        equal(causal_attention(q, k, v, padding=mask), want, zero=True)


@prop(points=7)
def past_ignores_future(
    causal_attention,
    q: Float["B H T D"],
    k: Float["B H T D"],
    v: Float["B H T E"],
    padding: Bool["B 1 1 T"],
    t: Index["T-1"],
    by: Choice[3.0, -5.0],
):
    """Changing the tokens after position t leaves the outputs up to t as they were, with padding and without."""
    later = torch.arange(q.shape[2]) > t
    other = [changed(x, later, by) for x in (q, k, v)]
    for mask in ((), (torch.ones_like(padding),), (ragged(padding),)):
        before, after = causal_attention(q, k, v, *mask), causal_attention(*other, *mask)
        equal(after[:, :, : t + 1], before[:, :, : t + 1], tol=1e-5, zero=True)


@prop(points=5, cases=2)
def present_depends_on_the_past(
    causal_attention, q: Float["B H T D", 0.5], k: Float["B H T D", 0.5], v: Float["B H T E"], t: Index["T"]
):
    """The output at t changes when any one token j <= t does, t itself included."""
    out = causal_attention(q, k, v)
    everyone = torch.ones(len(q), 1, 1, q.shape[2], dtype=torch.bool)
    for j in range(t + 1):
        other = changed(v, torch.arange(q.shape[2]) == j, 20.0)
        for again in (causal_attention(q, k, other), causal_attention(q, k, other, everyone)):
            effect = (again - out)[:, :, t].abs().amax(-1)
            holds((effect > 1e-3).all(), "not_seen", t=t, j=j)


@prop(points=5)
def pads_influence_nothing(
    causal_attention,
    q: Float["B H T D"],
    k: Float["B H T D"],
    v: Float["B H T E"],
    padding: Bool["B 1 1 T"],
    first: Choice[0, 1],
):
    """Whatever stands at a pad (a False in padding), the outputs stay as they were; real tokens still count."""
    mask = ragged(padding, first)
    pads = ~mask[:, 0, 0, None, :, None]
    before = causal_attention(q, k, v, mask)
    equal(causal_attention(q, k + 8.0 * pads, v - 30.0 * pads, mask), before, tol=1e-5, zero=True)
    depends(causal_attention(q, k, v - 30.0 * ~pads, mask), before)


@prop(points=6, cases=2)
def blocked_rows_are_zero(
    masked_softmax,
    causal_attention,
    scores: Float["B H T S"],
    mask: Bool["B 1 T S"],
    q: Float["B H T D"],
    v: Float["B H T E"],
    r: Index["T"],
):
    """A row with no allowed key gives all zeros and never NaN, in float32, float16 and bfloat16."""
    mask = open_rows(mask, 1)
    mask[1:, :, r] = False
    padding = torch.ones(len(q), 1, 1, q.shape[2], dtype=torch.bool)
    padding[0], padding[1, ..., : r + 1] = False, False
    for kind in (torch.float32, torch.float16, torch.bfloat16):
        weights = masked_softmax(scores.to(kind), mask)
        finite(weights)
        exactly(weights[1:, :, r], torch.zeros_like(weights[1:, :, r]), what=f"weights[1:, :, {r}]")
        sums_to_one(weights[:1], axis=-1, tol=1e-5 if kind is torch.float32 else 2e-2)
        out = causal_attention(q.to(kind), q.to(kind), v.to(kind), padding)
        finite(out)
        exactly(out[0], torch.zeros_like(out[0]), what="out[0]")
        exactly(out[1, :, : r + 1], torch.zeros_like(out[1, :, : r + 1]), what=f"out[1, :, :{r + 1}]")
    blocked = torch.zeros_like(mask[:1, :1])
    for none in (blocked, blocked[..., :1, :], blocked[0, 0]):
        exactly(masked_softmax(scores, none), torch.zeros_like(scores))


@prop(points=5)
def blocked_rows_get_no_gradient(
    masked_softmax,
    causal_attention,
    reference,
    scores: Float["B H T S"],
    mask: Bool["B 1 T S"],
    flow: Float["B H T S"],
    q: Float["B H T D"],
    k: Float["B H T D"],
    v: Float["B H T E"],
    back: Float["B H T E"],
    r: Index["T-1"],
):
    """A row with no allowed key gets a gradient of zeros and never NaN, and spoils no other row's gradient."""
    mask = open_rows(mask, 1)
    mask[1:, :, r] = False
    got = masked_softmax.gradients(scores, mask, cotangent=flow).inputs
    want = reference.masked_softmax.gradients(scores, mask, cotangent=flow).inputs
    equal(got[0] if got else None, want[0], what="scores.grad")
    exactly(got[0][1:, :, r], torch.zeros_like(got[0][1:, :, r]), what=f"scores.grad[1:, :, {r}]")
    padding = torch.ones(len(q), 1, 1, q.shape[2], dtype=torch.bool)
    padding[0, ..., : r + 1], padding[1] = False, False
    got = causal_attention.gradients(q, k, v, padding, cotangent=back).inputs
    want = reference.causal_attention.gradients(q, k, v, padding, cotangent=back).inputs
    for name, mine, expected in zip("qkv", got or [None] * 3, want, strict=True):
        equal(mine, expected, what=f"{name}.grad")
    exactly(got[0][0, :, : r + 1], torch.zeros_like(got[0][0, :, : r + 1]), what=f"q.grad[0, :, :{r + 1}]")


@prop(points=5, cases=2)
def extreme_scores_survive(
    masked_softmax,
    causal_attention,
    reference,
    scores: Float["B H T S"],
    mask: Bool["T S"],
    q: Float["B H T D"],
    v: Float["B H T E"],
    low: Float["B H T"],
):
    """A blocked key that scores +200, and allowed keys that all score about -300, leave the weights right."""
    mask = open_rows(mask, 2)
    for blocked, allowed in ((200.0, 0.0), (0.0, -300.0), (200.0, -300.0), (0.0, 300.0)):
        extreme = torch.where(mask, scores + allowed, scores + blocked)
        equal(masked_softmax(extreme, mask), reference.masked_softmax(extreme, mask))
        for kind in HALVES:  # near 300 a number in half precision is too coarse to pin single weights
            weights = masked_softmax(extreme.to(kind), mask)
            sums_to_one(weights, axis=-1, tol=2e-2)
            exactly(weights.masked_fill(mask, 0.0), torch.zeros_like(weights), what="weights[~mask]")
    extreme = torch.where(mask, scores, scores + 200.0)
    got = masked_softmax.gradients(extreme, mask, cotangent=scores).inputs
    want = reference.masked_softmax.gradients(extreme, mask, cotangent=scores).inputs
    equal(got[0] if got else None, want[0], what="scores.grad")
    width = q.shape[-1]
    for future, past in ((200.0, 0.0), (200.0, -300.0), (0.0, -300.0)):
        level = low + past
        level[..., -1] += future - past
        k = (level / width**0.5).unsqueeze(-1).expand(q.shape)  # a query of ones scores `level` with this key
        equal(
            causal_attention(torch.ones_like(q), k, v), reference.causal_attention(torch.ones_like(q), k, v), tol=1e-3
        )


@prop(points=3, cases=4)
def zero_scores_are_ordinary(
    masked_softmax,
    causal_attention,
    reference,
    scores: Float["B H T S"],
    mask: Bool["T S"],
    q: Float["B H T D"],
    k: Float["B H T D"],
    v: Float["B H T E"],
    t: Index["T"],
):
    """A score of exactly 0 is an allowed score like any other, and so is a vector of zeros."""
    mask = open_rows(mask, 3)
    scores[..., 3], scores[0] = 0.0, 0.0
    equal(masked_softmax(scores, mask), reference.masked_softmax(scores, mask))
    q[:, :, t], k[:, :, 0] = 0.0, 0.0
    equal(causal_attention(q, k, v), reference.causal_attention(q, k, v))
    equal(causal_attention(0 * q, k, v), reference.causal_attention(0 * q, k, v))


@prop(points=5, cases=2)
def half_precision_works(
    masked_softmax,
    causal_attention,
    reference,
    scores: Float["B H T S"],
    mask: Bool["T S"],
    q: Float["B H T D"],
    k: Float["B H T D"],
    v: Float["B H T E"],
    padding: Bool["B 1 1 T"],
):
    """float16 and bfloat16 scores, queries, keys and values work and stay finite; values and gradients are right."""
    mask, padding = open_rows(mask, 1), ragged(padding)
    for kind, tol in HALVES.items():
        weights = masked_softmax(scores.to(kind), mask)
        finite(weights)
        equal(weights, reference.masked_softmax(scores.to(kind), mask), tol=tol)
        some_empty = mask & (torch.arange(len(mask)) > 0)[:, None]
        flow, back = 16 * scores, 16 * v  # gradients far above what half precision can tell from zero
        low = scores - 40.0 * (torch.arange(len(mask)) == 0)[:, None]  # where nothing is allowed
        got = masked_softmax.gradients(low.to(kind), some_empty, cotangent=flow).inputs
        want = reference.masked_softmax.gradients(low.to(kind), some_empty, cotangent=flow).inputs
        equal(got[0] if got else None, want[0], tol=2 * tol, what="scores.grad")
        inputs = q.to(kind), k.to(kind), v.to(kind)
        late = torch.arange(q.shape[2]) > torch.arange(len(q)).view(-1, 1, 1, 1)  # empty rows at the start
        got = causal_attention.gradients(*inputs, late, cotangent=back).inputs
        want = reference.causal_attention.gradients(*inputs, late, cotangent=back).inputs
        for name, mine, expected in zip("qkv", got or [None] * 3, want, strict=True):
            equal(mine, expected, tol=2 * tol, what=f"{name}.grad")
        for padded in ((), (padding,)):
            out = causal_attention(*inputs, *padded)
            finite(out)
            equal(out, reference.causal_attention(*inputs, *padded), tol=tol)


@prop(points=2, cases=2)
def keeps_the_dtype(
    masked_softmax,
    causal_attention,
    scores: Float["B H T S"],
    mask: Bool["T S"],
    q: Float["B H T D"],
    v: Float["B H T E"],
    padding: Bool["B 1 1 T"],
):
    """float32, float64, float16 and bfloat16 inputs give outputs of the same dtype."""
    for kind in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        dtype(masked_softmax(scores.to(kind), mask), kind)
        dtype(causal_attention(q.to(kind), q.to(kind), v.to(kind)), kind)
        dtype(causal_attention(q.to(kind), q.to(kind), v.to(kind), ragged(padding)), kind)


@prop(points=3)
def softmax_gradient_has_the_right_value(
    masked_softmax, reference, scores: Float["B H T S"], mask: Bool["B 1 T S"], flow: Float["B H T S"]
):
    """Gradients flow back through masked_softmax to the allowed scores; blocked scores get none."""
    mask = open_rows(mask, 1)
    later = [-scores, ~mask]  # of a second call, before the first one's backward pass
    got = masked_softmax.gradients(scores, mask, cotangent=flow, later=later).inputs
    want = reference.masked_softmax.gradients(scores, mask, cotangent=flow).inputs
    equal(got[0] if got else None, want[0], what="scores.grad")


@prop(points=3)
def attention_gradient_has_the_right_value(
    causal_attention,
    reference,
    q: Float["B H T D"],
    k: Float["B H T D"],
    v: Float["B H T E"],
    padding: Bool["B 1 1 T"],
    back: Float["B H T E"],
    alone: Choice["q", "k", "v"],
):
    """The gradients of queries, keys and values are right, with padding and without, also of one of them alone."""
    for mask in ((), (ragged(padding),)):
        got = causal_attention.gradients(q, k, v, *mask, cotangent=back).inputs
        want = reference.causal_attention.gradients(q, k, v, *mask, cotangent=back).inputs
        for name, mine, expected in zip("qkv", got or [None] * 3, want, strict=True):
            equal(mine, expected, what=f"{name}.grad")
    one = [x.clone().requires_grad_(name == alone) for name, x in zip("qkv", (q, k, v), strict=True)]
    gradients(
        causal_attention.gradients(*one, cotangent=back), reference.causal_attention.gradients(*one, cotangent=back)
    )


@prop(points=4, cases=3, sizes={"H": (5, 6), "T": (7, 9), "S": (7, 11), "D": (3, 6), "E": (3, 6)})
def no_full_mask_is_made(
    masked_softmax,
    causal_attention,
    scores: Float["B H T S"],
    wide: Bool["T S"],
    keys: Bool["B 1 1 S"],
    q: Float["B H T D"],
    k: Float["B H T D"],
    v: Float["B H T E"],
    padding: Bool["B 1 1 T"],
    kind: Choice[torch.float32, torch.float16, torch.bfloat16],
    grad: Choice[False, True],
):
    """No mask of B*H*T*S elements is made on the way, neither of bool nor of two float values: masks broadcast."""
    scores, q, k, v = scores.to(kind), q.to(kind), k.to(kind), v.to(kind)
    for mask in (open_rows(wide, 1), open_rows(keys, 1), open_rows(keys & wide, 1)):
        no_mask_of(scores.numel(), masked_softmax.effects(scores, mask), grad)
    for mask in ((), (ragged(padding),)):
        no_mask_of(q.shape[0] * q.shape[1] * q.shape[2] ** 2, causal_attention.effects(q, k, v, *mask), grad)


def no_mask_of(elements, effects, grad):
    """No tensor of so many elements, and of just two different values, was allocated."""
    for made in effects.allocations_with_grad if grad else effects.allocations:
        two_valued = made.stored >= elements and made.distinct == 2 and "empty" not in made.op
        holds(not two_valued, "full_mask", shape=made.shape, dtype=made.dtype, op=made.op)


@prop(points=2, cases=2)
def leaves_its_inputs_alone(
    padding_mask,
    combine_masks,
    masked_softmax,
    causal_attention,
    scores: Float["B H T S"],
    mask: Bool["B 1 T S"],
    wide: Bool["T S"],
    ids: Ids["B T", "V"],
    q: Float["B H T D"],
    k: Float["B H T D"],
    v: Float["B H T E"],
    padding: Bool["B 1 1 T"],
    grad: Choice[True, False],
):
    """No function changes the scores, masks, ids, queries, keys or values it is given."""
    inputs_unchanged(padding_mask, ids, 2, grad=grad)
    inputs_unchanged(combine_masks, mask, wide, grad=grad)
    inputs_unchanged(combine_masks, wide, mask, grad=grad)
    inputs_unchanged(combine_masks, wide, ~wide | wide.flip(0), grad=grad)
    inputs_unchanged(masked_softmax, scores, mask, grad=grad)
    inputs_unchanged(masked_softmax, scores, wide, grad=grad)
    inputs_unchanged(causal_attention, q, k, v, grad=grad)
    inputs_unchanged(causal_attention, q, k, v, padding, grad=grad)
    inputs_unchanged(causal_attention, q, k, v, torch.zeros_like(padding), grad=grad)
    inputs_unchanged(masked_softmax, scores, torch.zeros_like(mask), grad=grad)


@prop(points=2, cases=2)
def takes_tensors_of_any_layout(
    padding_mask,
    combine_masks,
    masked_softmax,
    causal_attention,
    reference,
    scores: Float["S T H B"],
    mask: Bool["S T"],
    ids: Ids["T B", "V"],
    q: Float["B T H D"],
    k: Float["B T 1 D"],
    v: Float["E T H B"],
    padding: Bool["1 1 1 T"],
):
    """Transposed, sliced and expanded tensors, and those that are part of a graph, are inputs like any other."""
    exactly(padding_mask(ids.t(), 2), (ids.t() != 2)[:, None, None, :])
    scores, mask = scores.permute(3, 2, 1, 0), open_rows(mask.t(), 1)
    for view in (mask, mask.expand(scores.shape), mask[:, 1:2].expand_as(mask), mask[:1].expand_as(mask)):
        equal(masked_softmax(scores, view), reference.masked_softmax(scores, view))
    some = masked_softmax(scores[..., ::2], mask[:, ::2])
    equal(some, reference.masked_softmax(scores[..., ::2], mask[:, ::2]), zero=True)
    both = combine_masks(mask.expand(len(scores), 1, -1, -1), mask[:1].expand_as(mask))
    exactly(both.expand(len(scores), 1, *mask.shape), (mask & mask[:1]).expand(len(scores), 1, -1, -1))
    q, v = q.transpose(1, 2), v.permute(3, 2, 1, 0)
    k = k.transpose(1, 2).expand(q.shape)
    padding = ragged(padding.expand(len(q), 1, 1, -1).clone())[:1].expand(len(q), 1, 1, -1)
    want = reference.causal_attention(q, k, v, padding)
    equal(causal_attention(q, k, v, padding), want)
    graph = [x.detach().clone().requires_grad_() for x in (q, k, v)]
    equal(causal_attention(*graph, padding), want)
    equal(masked_softmax(scores.clone().requires_grad_(), mask), reference.masked_softmax(scores, mask))


@prop(points=2, cases=2)
def answers_each_call_afresh(
    causal_mask,
    padding_mask,
    combine_masks,
    masked_softmax,
    causal_attention,
    reference,
    q: Float["B H T D"],
    k: Float["B H T D"],
    v: Float["B H T E"],
    one: Bool["B 1 1 T"],
    other: Bool["B 1 1 T"],
    ids: Ids["B T", "V"],
    T: Size["T"],
    grad: Choice[True, False],
):
    """A call depends on its own arguments and what they hold: other padding, then none, then a shorter sequence."""
    triangle = torch.arange(T) <= torch.arange(T)[:, None]
    exactly(causal_mask(T), triangle)
    one, other = ragged(one), ragged(~one | other, 2)
    for mask in ((one,), (other,), (), (one,)):
        equal(causal_attention(q, k, v, *mask), reference.causal_attention(q, k, v, *mask), zero=True)
    shorter = [x[:, :, : T - 2] for x in (q, k, v)]
    equal(causal_attention(*shorter), reference.causal_attention(*shorter))
    scores = q @ k.mT
    for mask in (one, other):
        equal(masked_softmax(scores, mask), reference.masked_softmax(scores, mask), zero=True)
    exactly(causal_mask(T), triangle)
    exactly(refilled(padding_mask, ids, 2, earlier=[ids + 1]), (ids != 2)[:, None, None, :])
    exactly(refilled(combine_masks, one, other, earlier=[~one, other]), one & other)
    weights = refilled(masked_softmax, scores, one, earlier=[-scores, other], grad=grad)
    equal(weights, reference.masked_softmax(scores, one), zero=True, what="scores.copy_(...); masked_softmax(...)")
    out = refilled(causal_attention, q, k, v, one, earlier=[k, q, -v, other], grad=grad)
    equal(out, reference.causal_attention(q, k, v, one), zero=True, what="q.copy_(...); causal_attention(...)")
