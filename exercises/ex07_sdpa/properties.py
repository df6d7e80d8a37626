"""ex07: the fused kernel does the work; masks, alignment and blind queries are up to you."""

import torch

from grader.properties import (
    Choice,
    Float,
    Index,
    Seed,
    SubmissionRaised,
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
)

HALF = {torch.float16: 5e-3, torch.bfloat16: 4e-2}  # a few units in the last place of each dtype
FAR = 1e3  # a hidden key this far out has the largest score of many a query


def ragged(q, k, seed, blind=True):
    """A padding mask [B, 1, 1, S]: rows padded left, padded right, not padded at all, and with holes, from any row on.

    With `blind`, one row of several has no real token at all; without it the first key is always real, also for causal.
    For every other seed the last key is real in no row.
    """
    B, S = q.shape[0], k.shape[-2]
    generator = torch.Generator().manual_seed(seed)
    key = torch.arange(S)
    rows = [key >= S - 2, key <= S // 2, key >= 0]
    for _ in range(3, B):
        rows.append(torch.rand(S, generator=generator) < 0.5)
        rows[-1][int(torch.randint(S, (), generator=generator))] = True
    real = torch.stack(rows[:B])
    if blind and B > 1:
        real[-1] = False
    real[:, S - seed % 2 :] = False
    if not blind:
        real[:, 0] = True
    return real.roll(seed, 0)[:, None, None, :]


def resized(kind, q, k, v, seed):
    """q, k and v cut to the size that `kind` names, or new ones of that size."""
    if kind == "one row":
        return q[:1], k[:1], v[:1]
    if kind == "one head":
        return q[:, :1], k[:, :1], v[:, :1]
    if kind == "one query":
        return q[:, :, -1:], k, v
    if kind == "one key":
        return q[:, :, -1:], k[:, :, -1:], v[:, :, -1:]
    if kind == "as many queries as keys":
        return q, k[:, :, : q.shape[-2]], v[:, :, : q.shape[-2]]
    if kind == "v as wide as k":
        return q, k, k.flip(-2) + 0.5
    if kind == "long":
        generator = torch.Generator().manual_seed(seed)
        return tuple(torch.randn(2, 2, *axes, generator=generator) for axes in ((37, 50), (530, 50), (530, 7)))
    return q, k, v


def same(got, before, tol=1e-5, what=""):
    """The submission's answer is the one it gave before (which may be wrong: that is another property's business)."""
    finite(before)
    varied(before)
    equal(got, before, tol, what, zero=True)


def varied(answer):
    """Not one number everywhere, or agreement would say nothing."""
    holds(answer.numel() < 2 or bool(answer.max() - answer.min() > 1e-3), "constant")


def cotangent_for(q, v, seed):
    return torch.randn((*q.shape[:-1], v.shape[-1]), generator=torch.Generator().manual_seed(seed))


def options_for(q, k, seed):
    """Every combination of causal and padding."""
    padding = ragged(q, k, seed)
    return {}, {"causal": True}, {"padding": padding}, {"causal": True, "padding": padding}


@prop(points=4, cases=2)
def shape_is_that_of_the_queries_and_values(
    fused_attention, q: Float["B H T D"], k: Float["B H T+S D"], v: Float["B H T+S E"], seed: Seed
):
    """The output has the shape [B, H, T, E] for every combination of causal and padding, also for a single query or row."""
    for given in (q, q[:, :, :1]):
        for options in options_for(q, k, seed):
            got = fused_attention(given, k, v, **options)
            shape(got, *given.shape[:-1], v.shape[-1])
            dtype(got, torch.float32)
    shape(fused_attention(q[:1], k[:1], v[:1], causal=True), 1, *q.shape[1:-1], v.shape[-1])


@prop(points=8, cases=4, sizes={"D": (3, 6), "E": (7, 9)})
def attention_has_the_right_values(
    fused_attention,
    reference,
    q: Float["B H T D"],
    k: Float["B H S D"],
    v: Float["B H S E"],
    w: Float["B H S E", 99.0],
    grad: Choice[True, False],
):
    """Without masks the output is softmax(q k^T / sqrt(D)) v: every query sees every key, whatever T and S are."""
    equal(fused_attention(q, k, v), reference.fused_attention(q, k, v))
    equal(fused_attention(q * 3, k, w), reference.fused_attention(q * 3, k, w))
    equal(fused_attention(q, k, v, causal=False, padding=None), reference.fused_attention(q, k, v))
    equal(
        refilled(fused_attention, q, k, v, earlier=[q.flip(0), k, w], grad=grad),
        reference.fused_attention(q, k, v),
        what="v.copy_(...); fused_attention(q, k, v)",
    )
    equal(
        fused_attention.without_grad(q, k, w),
        reference.fused_attention(q, k, w),
        what="with torch.no_grad(): fused_attention(q, k, w)",
    )


@prop(points=7, cases=4)
def causal_hides_the_future(
    fused_attention, reference, q: Float["B H T D"], k: Float["B H T D"], v: Float["B H T E"], t: Index["T-1"]
):
    """With as many queries as keys, query t sees keys 0 to t, itself included: later keys and values change nothing."""
    got = fused_attention(q, k, v, causal=True)
    equal(got, reference.fused_attention(q, k, v, causal=True))
    later_k, later_v = k.clone(), v.clone()
    later_k[:, :, t + 1 :] = FAR
    later_v[:, :, t + 1 :] = 20.0
    changed = fused_attention(q, later_k, later_v, causal=True)
    same(changed[:, :, : t + 1], got[:, :, : t + 1], what="out[:, :, :t + 1]")
    depends(changed[:, :, t + 1 :], got[:, :, t + 1 :], what="out[:, :, t + 1:]")


@prop(points=10, cases=4)
def causal_is_aligned_at_the_last_key(
    fused_attention, reference, q: Float["B H T D"], k: Float["B H T+S D"], v: Float["B H T+S E"]
):
    """With fewer queries than keys the last query sees every key, the one before it all but the last, and so on."""
    for last in (q.shape[-2], 1, 2):
        newest = q[:, :, -last:]
        equal(fused_attention(newest, k, v, causal=True), reference.fused_attention(newest, k, v, causal=True))
    one_more = k[:, :, : q.shape[-2] + 1], v[:, :, : q.shape[-2] + 1]
    equal(fused_attention(q, *one_more, causal=True), reference.fused_attention(q, *one_more, causal=True))


@prop(points=8, cases=4)
def padding_hides_what_is_not_real(
    fused_attention, reference, q: Float["B H T D"], k: Float["B H S D"], v: Float["B H S E"], seed: Seed
):
    """Where padding is False a key is seen by no query of its row: True means "may attend". Padded values change nothing."""
    padding = ragged(q, k, seed, blind=False)
    got = fused_attention(q, k, v, padding=padding)
    equal(got, reference.fused_attention(q, k, v, padding=padding))
    hidden = ~padding.transpose(-2, -1)
    other_k, other_v = k.masked_fill(hidden, FAR), v.masked_fill(hidden, 30.0)
    same(fused_attention(q, other_k, other_v, padding=padding), got)
    everything = torch.ones_like(padding)
    equal(fused_attention(q, k, v, padding=everything), reference.fused_attention(q, k, v))


@prop(points=8, cases=4)
def causal_and_padding_hold_together(
    fused_attention,
    reference,
    q: Float["B H T D"],
    k: Float["B H T D"],
    v: Float["B H T E"],
    old_k: Float["B H S D"],
    old_v: Float["B H S E"],
    seed: Seed,
):
    """With both, a query sees a key only if both allow it, for T == S and for T < S."""
    q = 3 * q
    for keys, values in ((k, v), (torch.cat([old_k, k], 2), torch.cat([old_v, v], 2))):
        padding = ragged(q, keys, seed, blind=False)
        keys = keys.masked_fill(~padding.transpose(-2, -1), FAR)
        options = {"causal": True, "padding": padding}
        equal(fused_attention(q, keys, values, **options), reference.fused_attention(q, keys, values, **options))


@prop(points=8, cases=4)
def blind_queries_give_zeros(
    fused_attention, q: Float["B H T D"], k: Float["B H T D"], v: Float["B H T E", 3.0], seed: Seed
):
    """A query with no allowed key gives zeros exactly, and no gradient becomes NaN or passes between what is hidden."""
    padding = ragged(q, k, seed)
    cotangent = cotangent_for(q, v, seed)
    T = q.shape[-2]
    past = torch.ones(T, T, dtype=torch.bool).tril()
    for options, seen in (
        ({"padding": padding}, padding.expand(-1, -1, T, -1)),
        ({"padding": padding, "causal": True}, padding & past),
    ):
        got = fused_attention.gradients(q, k, v, cotangent=cotangent, **options)
        shape(got.value, cotangent.shape)
        finite(got.value)
        varied(got.value)
        blind, unseen = ~seen.any(-1), ~seen.any(-2)  # [B, 1, T]
        _zero_where(blind, got.value, "out")
        for name, gradient, hidden in zip("qkv", got.inputs, (blind, unseen, unseen), strict=True):
            finite(gradient, what=f"{name}.grad")
            _zero_where(hidden, gradient, f"{name}.grad")


def _zero_where(hidden, tensor, what):
    rows = tensor[hidden.expand(tensor.shape[:-1])]
    exactly(
        rows.float(), torch.zeros(rows.shape), what=f"{what}[blind]" if what in ("out", "q.grad") else f"{what}[unseen]"
    )


@prop(points=6, cases=4)
def gradients_are_right(
    fused_attention,
    reference,
    q: Float["B H T D"],
    k: Float["B H T+S D"],
    v: Float["B H T+S E"],
    seed: Seed,
    kind: Choice["contiguous", "transposed", "expanded", "float64"],
):
    """The gradients at q, k and v are right for every combination of causal and padding, in float64, and at one alone."""
    if kind == "float64":
        q, k, v = q.double(), k.double(), v.double()
    if kind == "transposed":
        q, k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v))
    if kind == "expanded":
        k, v = k[:, :1].expand(k.shape), v[:, :1].expand(v.shape)
    cotangent = cotangent_for(q, v, seed)
    same_length = k[:, :, : q.shape[-2]], v[:, :, : q.shape[-2]]
    for keys, values in ((k, v), same_length):
        for options in options_for(q, keys, seed):
            want = reference.fused_attention.gradients(q, keys, values, cotangent=cotangent, **options)
            later = [-q, keys.flip(0), 2 * values, *(x for x in options.values() if isinstance(x, torch.Tensor))]
            got = fused_attention.gradients(q, keys, values, cotangent=cotangent, later=later, **options)
            dtype(got.value, q.dtype)
            gradients(got, want)
    for alone in "qkv" if kind == "contiguous" else "":
        one = [x.clone().requires_grad_(name == alone) for name, x in zip("qkv", (q, k, v), strict=True)]
        want = reference.fused_attention.gradients(*one, cotangent=cotangent, causal=True)
        gradients(fused_attention.gradients(*one, cotangent=cotangent, causal=True), want)


@prop(points=5, cases=7)
def every_size_is_ordinary(
    fused_attention,
    attention_error,
    reference,
    q: Float["B H T D"],
    k: Float["B H T+S D"],
    v: Float["B H T+S E"],
    seed: Seed,
    kind: Choice["one row", "one head", "one query", "one key", "v as wide as k", "long", "nothing is real"],
):
    """Values, gradients and attention_error are right for every size: 1 and 530, v narrower, wider or as wide as k."""
    q, k, v = resized(kind, q, k, v, seed)
    if kind == "nothing is real":
        padding = torch.zeros(k.shape[0], 1, 1, k.shape[-2], dtype=torch.bool)
        for causal in (False, True):
            got = fused_attention(q, k, v, padding=padding, causal=causal)
            exactly(got, torch.zeros(*q.shape[:-1], v.shape[-1]))
        return
    cotangent = cotangent_for(q, v, seed)
    for options in options_for(q, k, seed):
        want = reference.fused_attention.gradients(q, k, v, cotangent=cotangent, **options)
        got = fused_attention.gradients(q, k, v, cotangent=cotangent, **options)
        equal(got.value, want.value, zero=True)
        for name, mine, gradient in zip("qkv", got.inputs, want.inputs, strict=True):
            if mine is not None or bool(gradient.any()):  # where nothing is seen, None is as good as zeros
                equal(mine, gradient, zero=True, what=f"{name}.grad")
    for causal in (False, True):
        by_hand = reference.fused_attention(q, k, v, causal=causal)
        spoiled(fused_attention, attention_error, by_hand, q, k, v, causal, by=0.5, at=float(causal))


@prop(points=7, cases=8)
def kernel_does_the_work(
    fused_attention,
    q: Float["B H T D"],
    k: Float["B H T+S D"],
    v: Float["B H T+S E"],
    seed: Seed,
    kind: Choice[
        "more keys than queries",
        "as many queries as keys",
        "one query",
        "v as wide as k",
        "float16",
        "bfloat16",
        "q wants a gradient",
        "long",
    ],
):
    """The output is made by F.scaled_dot_product_attention, in every combination of options, for every size and dtype."""
    half = {"float16": torch.float16, "bfloat16": torch.bfloat16}.get(kind, torch.float32)
    q, k, v = (x.to(half) for x in resized(kind, q, k, v, seed))
    q.requires_grad_(kind == "q wants a gradient")
    for options in options_for(q, k, seed):
        grad = kind != "as many queries as keys"
        silenced = fused_attention.with_kernel(q, k, v, scale=0.0, grad=grad, **options)
        holds(silenced.calls, "kernel_not_run")
        holds(bool((silenced.value == 0).all()), "kernel_ignored")


@prop(points=3, cases=1)
def mask_and_flag_never_meet(
    fused_attention,
    attention_error,
    q: Float["B H T D"],
    k: Float["B H T D"],
    v: Float["B H T E"],
    narrow: Float["B H T D"],
    seed: Seed,
):
    """No call of the kernel gets a mask and is_causal=True at once."""
    # values as wide as the keys first: for them this kernel does not refuse such a call
    for keys, values in ((k, narrow), (k, v), (torch.cat([k, k], 2), torch.cat([v, v], 2))):
        for options in options_for(q, keys, seed):
            calls = fused_attention.with_kernel(q, keys, values, **options).calls
            holds(calls, "kernel_not_run")
            _never_both(calls)
        _never_both(attention_error.with_kernel(q, keys, values, causal=True).calls)
    late = torch.ones(len(q), 1, 1, q.shape[2], dtype=torch.bool)  # pads at the end alone: everyone sees key 0
    late[1:, ..., -1] = False
    _never_both(fused_attention.with_kernel(q, k, narrow, causal=True, padding=late).calls)


def _never_both(calls):
    holds(not any(call.masked and call.is_causal for call in calls), "mask_and_flag")


@prop(points=3, cases=2)
def nothing_is_dropped(
    fused_attention,
    attention_error,
    q: Float["B H T D"],
    k: Float["B H T+S D"],
    v: Float["B H T+S E"],
    seed: Seed,
    kind: Choice["more keys than queries", "as many queries as keys"],
):
    """Dropout is never active in the kernel; two calls give the same, whatever came between, with gradients or without."""
    q, k, v = resized(kind, q, k, v, seed)
    answers = []
    for options in options_for(q, k, seed):
        first = fused_attention.with_kernel(q, k, v, **options)
        holds(first.calls, "kernel_not_run")
        _drops_nothing(first.calls)
        answers.append((options, first.value))
        same(fused_attention.without_grad(q, k, v, **options), first.value, what="with torch.no_grad(): out")
    for options, value in reversed(answers):
        again = fused_attention.with_kernel(q.clone().requires_grad_(), k, v, **options)
        _drops_nothing(again.calls)
        same(again.value, value)
    for causal in (False, True):
        _drops_nothing(attention_error.with_kernel(q, k, v, causal=causal).calls)


def _drops_nothing(calls):
    worst = max((call.dropout_p for call in calls), default=0.0)
    holds(worst == 0.0, "dropout_active", p=f"{worst:g}")


@prop(points=5, cases=2)
def half_precision_works(
    fused_attention,
    reference,
    q: Float["B H T D"],
    k: Float["B H T+S D"],
    v: Float["B H T+S E"],
    seed: Seed,
    kind: Choice[torch.float16, torch.bfloat16],
):
    """float16 and bfloat16 give that dtype back, no NaN, and agree with float32 as far as they can, gradients too."""
    q, k, v = q.to(kind), k.to(kind), v.to(kind)
    cotangent = 16 * cotangent_for(q, v, seed)  # far above the tolerance
    same_length = k[:, :, : q.shape[-2]], v[:, :, : q.shape[-2]]
    for keys, values in ((k, v), same_length):
        for options in options_for(q, keys, seed):
            got = fused_attention.gradients(q, keys, values, cotangent=cotangent, **options)
            wide = fused_attention.gradients(q.float(), keys.float(), values.float(), cotangent=cotangent, **options)
            dtype(got.value, kind)
            finite(got.value)
            same(got.value, wide.value, tol=HALF[kind])
            for name, mine, gradient in zip("qkv", got.inputs, wide.inputs, strict=True):
                equal(mine, gradient, tol=2 * HALF[kind], what=f"{name}.grad", zero=True)
    large = v * 2.0 ** {torch.float16: 12, torch.bfloat16: 60}[kind]  # each dtype has its own largest number
    equal(fused_attention(q, k, large), reference.fused_attention(q, k, large), tol=HALF[kind])


@prop(points=5, cases=2)
def inputs_are_any_tensors_and_stay(
    fused_attention,
    attention_error,
    q: Float["B T H D"],
    k: Float["B T H D"],
    v: Float["B T H E"],
    seed: Seed,
):
    """Transposed, expanded and float64 inputs work, the dtype stays, and no argument nor the caller's grad mode changes."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    padding = ragged(q, k, seed)
    one_head = k[:, :1].expand(k.shape), v[:, :1].expand(v.shape)
    one_mask = padding[:1].expand(padding.shape)
    for keys, values, mask in ((k, v, padding), (*one_head, one_mask), (k.clone().requires_grad_(), v, None)):
        for causal in (False, True):
            effects = inputs_unchanged(fused_attention, q, keys, values, padding=mask, causal=causal)
            plain = [x.detach().contiguous() for x in (q, keys, values)]
            plain_mask = None if mask is None else mask.contiguous()
            same(effects.value, fused_attention(*plain, padding=plain_mask, causal=causal))
    exact = fused_attention(q.double(), k.double(), v.double(), causal=True, padding=padding)
    dtype(exact, torch.float64)
    same(exact, fused_attention(q, k, v, causal=True, padding=padding))
    for causal, wanted in ((False, True), (True, True), (True, False)):
        effects = inputs_unchanged(attention_error, q.clone().requires_grad_(wanted), *one_head, causal=causal)
    for grad in (True, False):
        inputs_unchanged(attention_error, *plain, grad=grad)
        inputs_unchanged(fused_attention, *plain, padding=padding.contiguous(), grad=grad)
    holds(effects.keeps_grad_mode, "grad_mode_left")


@prop(points=5, cases=2)
def error_compares_with_attention_by_hand(
    fused_attention, attention_error, reference, q: Float["B H T D"], k: Float["B H T+S D"], v: Float["B H T+S E", 2.0]
):
    """attention_error is a float, and one of its sides is a right attention by hand, for small scores and for low ones."""
    short_k, short_v = k[:, :, : q.shape[-2]], v[:, :, : q.shape[-2]]
    for keys, values in ((k, v), (short_k, short_v)):
        for options in ({}, {"causal": True}):
            by_hand = reference.fused_attention(q, keys, values, **options)
            fused = fused_attention.with_kernel(q, keys, values, scale=0.0, **options).value
            error = attention_error.with_kernel(q, keys, values, scale=0.0, **options).value
            _measures(error, fused, by_hand, "attention_error(...), kernel * 0")
            fused = fused_attention(q, keys, values, **options)
            _measures(attention_error(q, keys, values, **options), fused, by_hand, "attention_error(...)")
    scores_are_low(fused_attention, attention_error, reference, q, short_k, short_v)
    again = refilled(attention_error, q, k, v, earlier=[q, k, 1e6 * v])
    equal(again, 0.0, tol=2e-5, zero=True, what="v.copy_(...); attention_error(q, k, v)")


def scores_are_low(fused_attention, attention_error, reference, q, k, v):
    """Where all scores are near -60, a mask has to be lower still."""
    level = k[..., :1] - 60
    q, k = torch.ones_like(q), (level / q.shape[-1] ** 0.5).expand(k.shape)  # a query of ones scores `level`
    by_hand = reference.fused_attention(q, k, v, causal=True)
    fused = fused_attention(q, k, v, causal=True)
    what = "attention_error(...), scores near -60"
    _measures(attention_error(q, k, v, causal=True), fused, by_hand, what, tol=1e-3)


@prop(points=4, cases=2)
def error_is_measured(
    fused_attention,
    attention_error,
    reference,
    q: Float["B H T D"],
    k: Float["B H T+S D"],
    v: Float["B H T+S E"],
    causal: Choice[False, True],
):
    """When one element of the kernel's result is off, upwards or downwards, attention_error is off by exactly that."""
    by_hand = reference.fused_attention(q, k, v, causal=causal)
    for at, by in ((0.0, 0.25), (0.37, -0.25), (0.71, -0.0005), (1.0, 1000.0)):
        q = q.detach().requires_grad_(at > 0.5)
        spoiled(fused_attention, attention_error, by_hand, q, k, v, causal, by, 1 - at if causal else at)
    error = attention_error.with_kernel(q, k, v, causal=causal, scale=1e39).value  # more than float32 holds
    holds(isinstance(error, float), "error_is_no_float", type=type(error).__name__)
    holds(not error < 1e30, "error_leaves_infinity_out", error=f"{error:g}")
    q, k, v = (x.detach().to(torch.bfloat16 if causal else torch.float16) for x in (q, k, v))
    try:
        error = attention_error.with_kernel(q, k, v, causal=causal, add=4.0, at=float(causal)).value
    except SubmissionRaised:
        return  # the side by hand may need float32
    holds(isinstance(error, float), "error_is_no_float", type=type(error).__name__)
    equal(error, 4.0, tol=0.05, what="attention_error(...), kernel + 4")


def spoiled(fused_attention, attention_error, by_hand, q, k, v, causal, by, at):
    """With `by` added to one element of the kernel's result, the error is what comes of it."""
    fused = fused_attention.with_kernel(q, k, v, causal=causal, add=by, at=at).value
    error = attention_error.with_kernel(q, k, v, causal=causal, add=by, at=at).value
    _measures(error, fused, by_hand, f"attention_error(...), kernel + {by:g}")


def _measures(error, fused, by_hand, what, tol=2e-5):
    """The error is the largest difference between what fused_attention gives and what is right."""
    holds(isinstance(error, float), "error_is_no_float", type=type(error).__name__)
    shape(fused, by_hand.shape, what="fused_attention(...)")
    finite(fused, what="fused_attention(...)")
    equal(error, (fused.double() - by_hand).abs().max(), tol=tol, zero=True, what=what)


@prop(points=4, cases=1, device="cuda", sizes={"B": (2, 2), "H": (8, 8), "T": (128, 128), "D": (64, 64)})
def cuda_half_agrees(
    fused_attention, reference, q: Float["B H T D"], k: Float["B H T D"], v: Float["B H T D"], seed: Seed
):
    """On a GPU, float16 inputs of shape [2, 8, 128, 64] give no NaN and agree with float32."""
    half = q.half(), k.half(), v.half()
    for options in options_for(q, k, seed):
        got = fused_attention(*half, **options)
        shape(got, q.shape)
        dtype(got, torch.float16)
        finite(got)
        equal(got, reference.fused_attention(*half, **options), tol=HALF[torch.float16])
