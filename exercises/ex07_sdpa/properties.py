"""ex07: the fused kernel does the work; masks, alignment and blind queries are up to you."""

import functools

import torch

from grader.properties import (
    Choice,
    Float,
    Index,
    Seed,
    SubmissionRaised,
    Violation,
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
LARGE = {  # q, k and v
    # more than a table of 512 keys, 32 queries at once, 65536 scores or numbers of the keys, 1000 of the output
    "long": ((2, 2, 34, 31), (2, 2, 530, 31), (2, 2, 530, 9)),
    "square and long": ((2, 2, 66, 6), (2, 2, 66, 6), (2, 2, 66, 5)),  # more than a table of 64
    "many rows and heads, wide": (
        (9, 5, 3, 130),
        (9, 5, 4, 130),
        (9, 5, 4, 129),
    ),  # more than 8 rows, 4 heads, 128 numbers
}


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


def shuffled(padding):
    """The padding, its inner tokens moved on by one: as many real ones in each row, and the same first and last."""
    return torch.cat([padding[..., :1], padding[..., 1:-1].roll(1, -1), padding[..., -1:]], -1)


def resized(kind, q, k, v, seed):
    """q, k and v cut to the size that `kind` names, or new ones of that size."""
    if kind == "one row, v as wide as k":
        return q[:1], k[:1], k[:1].flip(-2) + 0.5
    if kind == "one head":
        return q[:, :1], k[:, :1], v[:, :1]
    if kind == "one head, heads last, float64":
        return tuple(x[:, :1].transpose(1, 2).contiguous().transpose(1, 2).double() for x in (q, k, v))
    if kind == "one query":
        return q[:, :, -1:], k, v
    if kind == "one key":
        return q[:, :, -1:], k[:, :, -1:], v[:, :, -1:]
    if kind == "one key for all queries and heads":
        return q, k[:, :1, :1].expand(-1, q.shape[1], -1, -1), v[:, :, :1]
    if kind == "more queries than keys, of width 1":
        return q[..., :1], k[:, :, :3, :1], v[:, :, :3, :1]
    if kind == "as many queries as keys":
        return as_many(q, k, v)
    if kind in LARGE:
        generator = torch.Generator().manual_seed(seed)
        return tuple(torch.randn(axes, generator=generator) for axes in LARGE[kind])
    return q, k, v


def options_for_size(kind, q, k, seed):
    """The combinations of causal and padding asked of this size: all; none and both alone where a size is costly or
    special; without causal where there are more queries than keys."""
    options = options_for(q, k, seed, blind=kind not in LARGE)  # of two rows, one blind, too few keys would be left
    if kind == "long":  # one row's first queries are blind with both
        options[-1]["padding"] = options[-1]["padding"].clone()
        options[-1]["padding"][..., 0] = False
    elif kind == "square and long":
        return [*options[:2], options[3]]
    elif kind in LARGE or kind == "one head, heads last, float64":
        return options[::3]
    return options if k.shape[-2] >= q.shape[-2] else options[::2]


def as_many(q, k, v):
    """q, k and v cut to as many queries as keys."""
    length = min(q.shape[-2], k.shape[-2])
    return q[:, :, :length], k[:, :, :length], v[:, :, :length]


def same(got, before, tol=1e-5, what=""):
    """The submission's answer is the one it gave before (which may be wrong: that is another property's business)."""
    finite(before)
    varied(before)
    equal(got, before, tol, what, zero=True)


def varied(answer):
    """Not one number everywhere, or agreement would say nothing."""
    holds(answer.numel() < 2 or bool(answer.max() - answer.min() > 1e-3), "constant")


def right(got, want, what=""):
    """The answer is what is wanted, in float32."""
    equal(got, want, what=what)
    dtype(got, torch.float32, what)


def right_or_its_own(claim, wanted, own):
    """The claim holds of what is wanted, or of what the submission itself gives (if wrong, another property says so).

    `own` asks for that, and is called only where the claim does not hold of what is wanted.
    """
    try:
        claim(wanted)
    except Violation:
        claim(own())


def cotangent_for(q, v, seed):
    return torch.randn((*q.shape[:-1], v.shape[-1]), generator=torch.Generator().manual_seed(seed))


def options_for(q, k, seed, blind=True):
    """Every combination of causal and padding."""
    padding = ragged(q, k, seed, blind)
    return {}, {"causal": True}, {"padding": padding}, {"causal": True, "padding": padding}


def ways(q, k, v, seed):
    """Keys, values and options: every combination of these, and the causal ones for as many queries as keys as well."""
    _, short_k, short_v = as_many(q, k, v)
    plain, *short = [(short_k, short_v, options) for options in options_for(q, short_k, seed)]
    return [plain, *((k, v, options) for options in options_for(q, k, seed) if options), *short]


@prop(points=8, cases=2, sizes={"D": (3, 6), "E": (7, 9)})
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
    for given in ((q, k, v), (q * 3, -k, w), (q[:1, :, -1:], k[:1], v[:1]), (q, k[:, :, :1], v[:, :, :1])):
        right(fused_attention(*given), reference.fused_attention(*given))
    square = as_many(q, k, k.flip(-2) + 0.5)
    right(fused_attention(*square, causal=False, padding=None), reference.fused_attention(*square))
    right(
        refilled(fused_attention, q, k, v, earlier=[q.flip(0), k, w], grad=grad),
        reference.fused_attention(q, k, v),
        what="v.copy_(...); fused_attention(q, k, v)",
    )
    right(
        fused_attention.without_grad(q, k, w),
        reference.fused_attention(q, k, w),
        what="with torch.no_grad(): fused_attention(q, k, w)",
    )


@prop(points=7, cases=2, sizes={"T": (9, 9)})
def causal_hides_the_future(
    fused_attention, reference, q: Float["B H T D"], k: Float["B H T D"], v: Float["B H T E"], t: Index["T-1"]
):
    """With as many queries as keys, query t sees keys 0 to t, itself included: later keys and values change nothing."""
    want = reference.fused_attention(q, k, v, causal=True)
    right(
        fused_attention.without_grad(q, k, v, causal=True),
        want,
        what="with torch.no_grad(): fused_attention(q, k, v, causal=True)",
    )
    later_k, later_v = k.clone(), v.clone()
    later_k[:, :, t + 1 :] = FAR
    later_v[:, :, t + 1 :] = 20.0
    changed = fused_attention(q, later_k, later_v, causal=True)
    shape(changed, want.shape)
    equal(changed[:, :, : t + 1], want[:, :, : t + 1], what="out[:, :, :t + 1]")


@prop(points=10, cases=1)
def causal_is_aligned_at_the_last_key(
    fused_attention, reference, q: Float["B H T D"], k: Float["B H T+S D"], v: Float["B H T+S E"]
):
    """With fewer queries than keys the last query sees every key, the one before it all but the last, and so on."""
    for last in (q.shape[-2], 1, 2):
        newest = q[:, :, -last:]
        right(fused_attention(newest, k, v, causal=True), reference.fused_attention(newest, k, v, causal=True))
    one_more = k[:, :, : q.shape[-2] + 1], v[:, :, : q.shape[-2] + 1]
    right(fused_attention(q, *one_more, causal=True), reference.fused_attention(q, *one_more, causal=True))
    sees_no_last_key(fused_attention, reference, q, k, v)


def sees_no_last_key(fused_attention, reference, q, k, v, tol=1e-4):
    """The last key, far out, is seen by the last query alone."""
    want = reference.fused_attention(q, k, v, causal=True)[:, :, :-1]
    last_k, last_v = k.clone(), v.clone()
    last_k[:, :, -1], last_v[:, :, -1] = FAR, 20.0
    equal(fused_attention(q, last_k, last_v, causal=True)[:, :, :-1], want, tol=tol, what="out[:, :, :-1]")


@prop(points=8, cases=2)
def padding_hides_what_is_not_real(
    fused_attention, reference, q: Float["B H T D"], k: Float["B H S D"], v: Float["B H S E"], seed: Seed
):
    """Where padding is False a key is seen by no query of its row: True means "may attend". Padded values change nothing."""
    padding = ragged(q, k, seed, blind=False)
    first_row = torch.arange(len(q))[:, None, None, None] == 0  # in which nothing is hidden
    square = as_many(q, k, k.flip(-2) + 0.5)
    again = functools.partial(refilled, fused_attention, earlier=[-q, k, v.flip(0), padding], grad=False)
    for given, real, ask in (
        ((q, k, v), padding, fused_attention),
        ((q, k, v), shuffled(padding), again),
        ((q, k, v), torch.ones_like(padding), fused_attention),
        ((q[:, :, -1:], k, v), padding | first_row, fused_attention),
        (square, ragged(*square[:2], seed, blind=False), fused_attention),
    ):
        want = reference.fused_attention(*given, padding=real)
        right(ask(*far_where_hidden(*given, real), padding=real), want)


def far_where_hidden(q, k, v, padding):
    """q, k and v, with other keys and values where padding hides them."""
    hidden = ~padding.transpose(-2, -1)
    return q, k.masked_fill(hidden, FAR), v.masked_fill(hidden, 30.0)


@prop(points=8, cases=2)
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
        other = shuffled(padding)
        want = reference.fused_attention(q, keys, values, causal=True, padding=padding)
        given = far_where_hidden(q, keys, values, padding)
        got = fused_attention.gradients(  # for the call with another mask in between; its gradients are not looked at
            *given, cotangent=want, to_inputs=False, later=[-q, keys, values, other], causal=True, padding=padding
        )
        right(got.value, want)
        want = reference.fused_attention(q, keys, values, causal=True, padding=other)
        given = far_where_hidden(q, keys, values, other)
        right(fused_attention.without_grad(*given, causal=True, padding=other), want)
    everything = torch.ones_like(padding)  # for T < S
    want = reference.fused_attention(q, keys, values, causal=True)
    right(fused_attention(q, keys, values, causal=True, padding=everything), want)
    row = torch.arange(len(q))
    as_few = everything.clone()
    as_few[row, 0, 0, -1 - row] = False  # as many real tokens in every row, and not the same
    want = reference.fused_attention(q, keys, values, causal=True, padding=as_few)
    right(fused_attention(q, keys, values, causal=True, padding=as_few), want)


@prop(points=8, cases=1)
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


@prop(points=6, cases=2, sizes={"D": (3, 5), "E": (7, 9)})
def gradients_are_right(
    fused_attention,
    reference,
    q: Float["B H T D"],
    k: Float["B H T+S D"],
    v: Float["B H T+S E"],
    seed: Seed,
    kind: Choice["expanded", "float64, transposed"],
):
    """The gradients at q, k and v are right for every combination of causal and padding, in float64, and at one alone."""
    if kind != "expanded":
        q, k, v = (x.double().transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v))
    else:
        q, k, v = q[:1].expand(q.shape), k[:, :1].expand(k.shape), v[:, :1].expand(v.shape)
    cotangent = cotangent_for(q, v, seed)
    plain, causal, padded, both, *short = ways(q, k, v, seed)  # each of them keys, values and options
    for keys, values, options in (plain, causal, padded, both) if kind == "expanded" else (plain, causal, *short):
        want = reference.fused_attention.gradients(q, keys, values, cotangent=cotangent, **options)
        later = [-q, keys.flip(0), 2 * values, *(x for x in options.values() if isinstance(x, torch.Tensor))]
        got = fused_attention.gradients(q, keys, values, cotangent=cotangent, later=later, **options)
        equal(got.value, want.value)
        dtype(got.value, q.dtype)
        gradients(got, want)
    several = [(alone, options) for *_, options in (both, causal) for alone in "qkv"]
    for alone, options in several if kind == "expanded" else [("k", {})]:
        one = [x.clone().requires_grad_(name == alone) for name, x in zip("qkv", (q, k, v), strict=True)]
        want = reference.fused_attention.gradients(*one, cotangent=cotangent, **options)
        got = fused_attention.gradients(*one, cotangent=cotangent, **options)
        dtype(got.value, q.dtype)
        gradients(got, want)


@prop(points=5, cases=9)
def every_size_is_ordinary(
    fused_attention,
    attention_error,
    reference,
    q: Float["B H T D"],
    k: Float["B H T+S D"],
    v: Float["B H T+S E"],
    seed: Seed,
    kind: Choice[
        "one row, v as wide as k",
        "one head",
        "one query",
        "one key",
        "long",
        "square and long",
        "many rows and heads, wide",
        "more queries than keys, of width 1",
        "nothing is real",
    ],
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
    asked = options_for_size(kind, q, k, seed)
    for options in asked:
        want = reference.fused_attention.gradients(q, k, v, cotangent=cotangent, **options)
        got = fused_attention.gradients(q, k, v, cotangent=cotangent, **options)
        equal(got.value, want.value, zero=True)
        dtype(got.value, torch.float32)
        if kind in LARGE:
            equal(fused_attention.without_grad(q, k, v, **options), want.value, zero=True, what="no_grad, out")
        for name, mine, gradient in zip("qkv", got.inputs, want.inputs, strict=True):
            if mine is not None or bool(gradient.any()):  # where nothing is seen, None is as good as zeros
                equal(mine, gradient, zero=True, what=f"{name}.grad")
    flags = {options.get("causal", False) for options in asked}
    for causal in [True] if kind == "one key" else sorted(flags):
        by_hand = reference.fused_attention(q, k, v, causal=causal)
        spoiled(attention_error, fused_attention, by_hand, q, k, v, causal=causal, by=0.01, at=float(causal))


@prop(
    points=4,
    follows_from=[
        "attention_has_the_right_values",
        "causal_is_aligned_at_the_last_key",
        "padding_hides_what_is_not_real",
        "causal_and_padding_hold_together",
        "gradients_are_right",
        "every_size_is_ordinary",
    ],
    cases=1,
)
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


@prop(points=7, cases=10, sizes={"D": (3, 5), "E": (7, 9)})
def kernel_does_the_work(
    fused_attention,
    q: Float["B H T D"],
    k: Float["B H T+S D"],
    v: Float["B H T+S E"],
    seed: Seed,
    kind: Choice[
        "as many queries as keys",
        "one query",
        "one row, v as wide as k",
        torch.float16,
        torch.bfloat16,
        "one head, heads last, float64",
        "one key for all queries and heads",
        "long",
        "square and long",
        "many rows and heads, wide",
    ],
):
    """The output is made by F.scaled_dot_product_attention, in every combination of options, for every size and dtype."""
    q, k, v = resized(kind, q, k, v, seed)
    if isinstance(kind, torch.dtype):
        q, k, v = (x.to(kind) for x in (as_many(q, k, v) if kind is torch.float16 else (q, k, v)))
    inference = kind in ("as many queries as keys", "one head, heads last, float64")
    asked = options_for(q, k, seed)[::3] if kind == "long" else options_for_size(kind, q, k, seed)
    once = kind in ("one key for all queries and heads", "square and long", "many rows and heads, wide")
    for index, options in enumerate(asked[:1] if once else asked):
        twice = index == (0 if kind == torch.bfloat16 else len(asked) - 1)  # with gradients and without
        for grad in [False] if inference else [True, False] if twice else [True]:
            given = q.detach().requires_grad_(grad)
            silenced = fused_attention.with_kernel(given, k, v, scale=0.0, grad=grad, **options)
            holds(silenced.calls, "kernel_not_run")
            holds(bool((silenced.value == 0).all()), "kernel_ignored")
            dtype(silenced.value, q.dtype)


@prop(points=3, cases=1)
def mask_and_flag_never_meet(
    fused_attention, attention_error, q: Float["B H T D"], k: Float["B H T D"], v: Float["B H T D"], seed: Seed
):
    """No call of the kernel gets a mask and is_causal=True at once."""
    late = torch.ones(len(q), 1, 1, q.shape[2], dtype=torch.bool)  # pads at the end alone: everyone sees key 0
    late[1:, ..., -1] = False
    for given in (q, q.clone().requires_grad_()):
        _never_both(fused_attention.with_kernel(given, k, v, causal=True, padding=late).calls)
    # values are as wide as the keys: for others this kernel refuses such a call by itself
    for keys, values in ((k, v), (torch.cat([k, k], 2), torch.cat([v, v], 2))):
        for padding in (None, ragged(q, keys, seed)):
            calls = fused_attention.with_kernel(q, keys, values, causal=True, padding=padding).calls
            holds(calls, "kernel_not_run")
            _never_both(calls)
        _never_both(attention_error.with_kernel(q, keys, values, causal=True).calls)


def _never_both(calls):
    holds(not any(call.masked and call.is_causal for call in calls), "mask_and_flag")


@prop(points=3, cases=1)
def nothing_is_dropped(
    fused_attention,
    attention_error,
    q: Float["B H T D"],
    k: Float["B H T+S D"],
    v: Float["B H T+S E"],
    seed: Seed,
):
    """Dropout is never active in the kernel; two calls give the same, whatever came between, with gradients or without."""
    answers = []
    for keys, values, options in ways(q, k, v, seed):
        first = fused_attention.with_kernel(q.clone().requires_grad_(), keys, values, **options)
        holds(first.calls, "kernel_not_run")
        _drops_nothing(first.calls)
        answers.append((keys, values, options, first.value))
    for keys, values, options, value in reversed(answers[:4]):
        again = fused_attention.without_grad(q, keys, values, **options)
        same(again, value, what="fused_attention(...); with torch.no_grad(): fused_attention(...)")
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
    plain, causal, padded, both, *square = ways(q, k, v, seed)  # plain is square, too
    asked = {
        torch.float16: [(k, v, {}), causal, padded, both, square[0]],
        torch.bfloat16: [plain, *square, both],
    }
    for keys, values, options in asked[kind]:
        options["cotangent"] = cotangent
        ask = functools.partial(fused_attention.gradients, **options)
        got = ask(q, keys, values)
        dtype(got.value, kind)
        finite(got.value)
        right_or_its_own(
            functools.partial(_agrees_as_far_as_it_can, got, kind),
            reference.fused_attention.gradients(q, keys, values, **options),
            functools.partial(ask, q.float(), keys.float(), values.float()),
        )
    large = v * 2.0 ** {torch.float16: 12, torch.bfloat16: 60}[kind]  # each dtype has its own largest number
    equal(fused_attention(q, k, large), reference.fused_attention(q, k, large), tol=HALF[kind])
    long = [(factor * x).to(kind) for factor, x in zip((1, 1, 16), resized("long", q, k, v, seed), strict=True)]
    equal(fused_attention(*long), reference.fused_attention(*long), tol=HALF[kind])
    sees_no_last_key(fused_attention, reference, *long, tol=HALF[kind])


def _agrees_as_far_as_it_can(got, kind, wide):
    same(got.value, wide.value, tol=HALF[kind])
    for name, mine, gradient in zip("qkv", got.inputs, wide.inputs, strict=True):
        equal(mine, gradient, tol=2 * HALF[kind], what=f"{name}.grad", zero=True)


@prop(points=5, cases=1)
def inputs_are_any_tensors_and_stay(
    fused_attention,
    attention_error,
    reference,
    q: Float["B T H D"],
    k: Float["B T+S H D"],
    v: Float["B T+S H E"],
    seed: Seed,
):
    """Transposed, expanded and float64 inputs work, the dtype stays, and no argument nor the caller's grad mode changes."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    padding = ragged(q, k, seed)
    one_head = k[:, :1].expand(k.shape), v[:, :1].expand(v.shape)
    one_mask = padding[:1].expand(padding.shape)
    _, short_k, short_v = as_many(q, k, v)
    for keys, values, mask in (
        (k, v, padding),
        (*one_head, one_mask),
        (short_k.clone().requires_grad_(), short_v, None),
    ):
        for causal in (False, True):
            effects = inputs_unchanged(fused_attention, q, keys, values, padding=mask, causal=causal)
            agrees_with_the_plain(fused_attention, reference, effects.value, q, keys, values, mask, causal)
    exact = fused_attention(q.double(), k.double(), v.double(), causal=True, padding=padding)
    dtype(exact, torch.float64)
    agrees_with_the_plain(fused_attention, reference, exact, q, k, v, padding, causal=True)
    for causal, wanted in ((False, True), (True, True), (True, False)):
        effects = inputs_unchanged(attention_error, q.clone().requires_grad_(wanted), *one_head, causal=causal)
    holds(effects.keeps_grad_mode, "grad_mode_left")
    q, k, v = (x.contiguous() for x in (q, k, v))
    short = as_many(q, k, v)
    newest = q[:, :, -1:].contiguous()
    for given, options, grad in (
        (short, {"padding": ragged(*short[:2], seed)}, False),
        (short, {"padding": ragged(*short[:2], seed)}, True),
        ((newest, k, v), {"padding": padding, "causal": True}, False),
        ((newest, k, v), {"padding": padding}, True),
        ((q, k, v), {"padding": padding, "causal": True}, True),
        ((q.half(), k.half(), v.half()), {}, True),
    ):
        inputs_unchanged(fused_attention, *given, grad=grad, **options)
    for grad in (True, False):
        inputs_unchanged(attention_error, q, k, v, causal=grad, grad=grad)
    inputs_unchanged(attention_error, *short)


def agrees_with_the_plain(fused_attention, reference, got, q, k, v, padding, causal):
    """The answer is the one for the same numbers in plain contiguous tensors."""
    plain = [x.detach().contiguous() for x in (q, k, v)]
    options = {"causal": causal, "padding": None if padding is None else padding.contiguous()}
    right_or_its_own(
        functools.partial(same, got),
        reference.fused_attention(*plain, **options),
        functools.partial(fused_attention, *plain, **options),
    )


@prop(points=5, cases=1)
def error_compares_with_attention_by_hand(
    fused_attention, attention_error, reference, q: Float["B H T D"], k: Float["B H T+S D"], v: Float["B H T+S E", 2.0]
):
    """attention_error is a float, and one of its sides is a right attention by hand, for small scores and for low ones."""
    _, short_k, short_v = as_many(q, k, k.flip(-2) + 0.5)
    for keys, values in ((k, v), (short_k, short_v)):
        for options in ({}, {"causal": True}):
            by_hand = reference.fused_attention(q, keys, values, **options)
            ask = functools.partial(measures, attention_error, fused_attention, by_hand, q, keys, values, **options)
            ask(spoil={"scale": 0.0, "grad": "causal" in options}, what=", kernel * 0")
            ask()
    low = scores_are_low(q, short_k, short_v)
    by_hand = reference.fused_attention(*low, causal=True)
    measures(attention_error, fused_attention, by_hand, *low, causal=True, tol=1e-3, what=", scores near -60")
    again = refilled(attention_error, q, k, v, earlier=[q, k, 1e6 * v])
    equal(again, 0.0, tol=2e-5, zero=True, what="v.copy_(...); attention_error(q, k, v)")


def scores_are_low(q, k, v):
    """All scores are near -60: a mask has to be lower still."""
    level = k[..., :1] - 60
    return torch.ones_like(q), (level / q.shape[-1] ** 0.5).expand(k.shape), v  # a query of ones scores `level`


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
        given = [(x.double() if at == 0.37 else x.clone()).requires_grad_(at > 0.5) for x in (q, k, v)]
        spoiled(attention_error, fused_attention, by_hand, *given, causal, by, 1 - at if causal else at)
    error = attention_error.with_kernel(q, k, v, causal=causal, scale=1e39).value  # more than float32 holds
    is_float(error)
    holds(not error < 1e30, "error_leaves_infinity_out", error=f"{error:g}")
    q, k, v = (x.to(torch.bfloat16 if causal else torch.float16) for x in (q, k, v))
    try:
        error = attention_error.with_kernel(q, k, v, causal=causal, add=4.0, at=float(causal)).value
    except SubmissionRaised:
        return  # the side by hand may need float32
    is_float(error)
    equal(error, 4.0, tol=0.05, what="attention_error(...), kernel + 4")


def is_float(error):
    holds(isinstance(error, float), "error_is_no_float", type=type(error).__name__)


def spoiled(attention_error, fused_attention, by_hand, q, k, v, causal, by, at):
    """With `by` added to one element of the kernel's result, the error is what comes of it."""
    spoil = {"add": by, "at": at}
    measures(attention_error, fused_attention, by_hand, q, k, v, spoil, what=f", kernel + {by:g}", causal=causal)


def measures(attention_error, fused_attention, by_hand, q, k, v, spoil=None, tol=2e-5, what="", **options):
    """The error is the largest difference between what fused_attention gives, spoiled alike, and what is right."""
    spoil = spoil or {}

    def ask(function):
        if spoil:
            return function.with_kernel(q, k, v, **spoil, **options).value
        return function(q, k, v, **options)

    def is_the_difference(fused):
        shape(fused, by_hand.shape, what="fused_attention(...)")
        finite(fused, what="fused_attention(...)")
        equal(error, (fused.double() - by_hand).abs().max(), tol=tol, zero=True, what=f"attention_error(...){what}")

    error = ask(attention_error)
    is_float(error)
    wanted = by_hand * spoil.get("scale", 1.0) + spoil.get("add", 0.0)  # added everywhere: no larger a difference
    right_or_its_own(is_the_difference, wanted, functools.partial(ask, fused_attention))


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
