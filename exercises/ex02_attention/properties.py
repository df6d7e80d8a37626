"""ex02: what must be true of scaled dot-product attention.

`attention` answers two tensors, the output [..., T, E] and the weights [..., T, S].
"""

import torch

from grader.properties import (
    Choice,
    Float,
    Index,
    Seed,
    avoids,
    dtype,
    equal,
    finite,
    holds,
    inputs_unchanged,
    prop,
    refilled,
    shape,
    sums_to_one,
)

LONG = {"S": (2, 24)}  # enough keys that a window over the nearest ones shows


@prop(points=5, cases=6)
def shapes(
    attention_scores,
    attention,
    q: Float["B H T D"],
    k: Float["B H S D"],
    v: Float["B H S E"],
    one: Choice["nothing", "B", "T", "S", "D", "E"],
):
    """Scores and weights are [..., T, S] and the output is [..., T, E], also where one of the sizes is 1."""
    q, k, v = cut(q, "BHTD", one), cut(k, "BHSD", one), cut(v, "BHSE", one)
    shape(attention_scores(q, k), *q.shape[:-1], k.shape[-2], what="attention_scores(q, k)")
    out, weights = attention(q, k, v)
    shape(out, *q.shape[:-1], v.shape[-1], what="out")
    shape(weights, *q.shape[:-1], k.shape[-2], what="weights")


@prop(points=10)
def scores_value(attention_scores, reference, q: Float["B T D"], k: Float["B S D"]):
    """A score is the dot product of one query and one key, divided by the square root of D, however large it is."""
    equal(attention_scores(q, k), reference.attention_scores(q, k), what="attention_scores(q, k)")
    large = attention_scores(1000 * q, k)
    equal(large, reference.attention_scores(1000 * q, k), what="attention_scores(1000 * q, k)")


@prop(points=11)
def value(attention, reference, q: Float["B T D"], k: Float["B S D"], v: Float["B S E"]):
    """The weights are the softmax of the scores over the keys, and the output is the weighted sum of the values."""
    same_as_reference(attention, reference, q, k, v)


@prop(points=8, needs=["shapes"])
def weights_are_a_distribution(attention, q: Float["B T D", 2.0], k: Float["B S D", 2.0], v: Float["B S E"]):
    """Every weight is at least 0, and the weights of one query sum to 1 over its keys."""
    _, weights = attention(q, k, v)
    shape(weights, *q.shape[:-1], k.shape[-2], what="weights")
    finite(weights, what="weights")
    holds(weights.min() >= 0, "negative_weight", least=f"{weights.min():.4g}")
    sums_to_one(weights, -1, what="weights")


@prop(points=6, cases=4, sizes={"T": (20, 22), "S": (25, 27), "D": (400, 500)})
def scores_keep_their_spread(
    attention_scores, reference, q: Float["T D"], k: Float["S D"], width: Choice[16, 64, 150, 400]
):
    """With q and k of variance 1, the scores have a variance near 1 however wide the head is."""
    q, k = standardized(q[:, :width]), standardized(k[:, :width])
    scores = attention_scores(q, k)
    shape(scores, len(q), len(k), what="attention_scores(q, k)")
    spread = scores.double().var()
    holds(0.6 < spread < 1.6, "spread", width=width, got=f"{spread:.3g}")
    equal(scores, reference.attention_scores(q, k), what="attention_scores(q, k)")


@prop(points=6, needs=["shapes"])
def order_of_keys_does_not_matter(attention, q: Float["B T D"], k: Float["B S D"], v: Float["B S E"], seed: Seed):
    """Permuting the keys together with their values leaves the output as it is; the weights move along."""
    order = shuffled(k.shape[-2], seed)
    out, weights = attention(q, k, v)
    out_after, weights_after = attention(q, k[:, order], v[:, order])
    unchanged(out_after, out, what="out")
    unchanged(weights_after, weights[..., order], what="weights")


@prop(points=4, needs=["shapes"])
def order_of_queries_is_kept(attention, q: Float["B T D"], k: Float["B S D"], v: Float["B S E"], seed: Seed):
    """Permuting the queries permutes the rows of output and weights, and does nothing else."""
    order = shuffled(q.shape[-2], seed)
    out, weights = attention(q, k, v)
    out_after, weights_after = attention(q[:, order], k, v)
    unchanged(out_after, out[:, order], what="out")
    unchanged(weights_after, weights[:, order], what="weights")


@prop(points=5, needs=["shapes"], sizes={"D": (9, 14), "S": (5, 8)})
def matching_key_takes_the_weight(
    attention, noise: Float["B S D", 0.3], v: Float["B S E", 3.0], rows: Float["T"], seed: Seed
):
    """A key that equals the query and lies far from all the others takes nearly all the weight."""
    keys, width = noise.shape[1:]
    k = noise + 10 * torch.eye(keys, width)  # every key points along an axis of its own
    chosen = torch.cat([shuffled(keys, seed), shuffled(keys, seed + 1)])[: len(rows)]
    out, weights = attention(k[:, chosen], k, v)
    taken = weights[:, torch.arange(len(chosen)), chosen]
    holds(taken.min() > 0.999, "match", got=f"{taken.min():.4g}")
    equal(out, v[:, chosen], tol=1e-2, what="out")


@prop(points=4, needs=["shapes"])
def output_stays_among_the_values(attention, q: Float["B T D", 2.0], k: Float["B S D", 2.0], v: Float["B S E", 3.0]):
    """In every channel the output lies between the smallest and the largest value."""
    v = v + 10  # no channel has 0 between its smallest and its largest value
    out, _ = attention(q, k, v)
    shape(out, *q.shape[:-1], v.shape[-1], what="out")
    finite(out, what="out")
    low, high = v.amin(dim=-2, keepdim=True), v.amax(dim=-2, keepdim=True)
    outside = torch.maximum(low - out, out - high).max()
    holds(outside < 1e-4, "outside", by=f"{outside:.3g}")


@prop(points=7, needs=["shapes"])
def large_scores_stay_finite(
    attention,
    reference,
    q: Float["B T D", 100.0],
    k: Float["B S D", 100.0],
    v: Float["B S E"],
    kind: Choice["both signs", "rows far apart"],
):
    """Scores around 10,000 give no NaN, weights still sum to 1, and a clear winner takes all the weight."""
    if kind == "rows far apart":  # every score of a query is near +10,000, or every one near -10,000
        sign = torch.tensor([1.0, -1.0]).repeat(q.shape[1])[: q.shape[1], None]
        q, k = sign * (60 + q / 10), 60 + k / 10
    out, weights = attention(q, k, v)
    finite(weights, what="weights")
    finite(out, what="out")
    sums_to_one(weights, -1, tol=5e-3, what="weights")  # float32 itself knows scores of 10,000 to three decimals
    holds(weights.min() >= 0, "negative_weight", least=f"{weights.min():.4g}")
    best = reference.attention_scores(q, k).topk(2, dim=-1).values
    clear = best[..., 0] - best[..., 1] > 50  # nearer ties are beyond float32
    expected, expected_weights = reference.attention(q, k, v)
    equal(torch.where(clear[..., None], weights, expected_weights), expected_weights, what="weights")
    equal(torch.where(clear[..., None], out, expected), expected, what="out")
    got = attention.gradients(q, k, v, cotangent=[torch.ones_like(out), torch.zeros_like(weights)])
    for name, gradient in zip("qkv", got.inputs, strict=True):
        finite(gradient, what=f"{name}.grad")


@prop(points=8, needs=["value"])
def gradients_are_right(
    attention_scores,
    attention,
    reference,
    q: Float["B H T D"],
    k: Float["B H S D"],
    v: Float["B H S E"],
    to_scores: Float["B H T S"],
    to_out: Float["B H T E"],
    to_weights: Float["B H T S"],
    axes: Choice[2, 3, 4],
):
    """The gradients that reach q, k and v, through the output and through the weights, are right, also of one of them alone."""
    q, k, v, to_scores, to_out, to_weights = (last(x, axes) for x in (q, k, v, to_scores, to_out, to_weights))
    same_gradients(attention_scores, reference.attention_scores, q, k, cotangent=to_scores)
    same_gradients(attention, reference.attention, q, k, v, cotangent=[to_out, 0 * to_weights])
    other = [x.flip(0) + 1.0 for x in (q, k, v)]  # a second call before the first one's backward pass
    same_gradients(attention, reference.attention, q, k, v, cotangent=[to_out, to_weights], later=other)
    one = [x.clone().requires_grad_(at == axes - 2) for at, x in enumerate((q, k, v))]
    same_gradients(attention, reference.attention, *one, cotangent=[to_out, to_weights])


@prop(points=5, needs=["value"])
def leading_axes_are_free(
    attention_scores,
    attention,
    reference,
    q: Float["B H T D"],
    k: Float["B H S D"],
    v: Float["B H S E"],
    axes: Choice[2, 3, 4, 5],
):
    """The same code works for [T, D], [B, T, D], [B, H, T, D] and with more axes in front; rows of a batch never mix."""
    q, k, v = last(q, axes), last(k, axes), last(v, axes)
    equal(attention_scores(q, k), reference.attention_scores(q, k), what="attention_scores(q, k)")
    same_as_reference(attention, reference, q, k, v)


@prop(points=4, needs=["value"])
def zero_vectors_are_ordinary(
    attention_scores,
    attention,
    reference,
    q: Float["B T D"],
    k: Float["B S D"],
    v: Float["B S E"],
    to_out: Float["B T E"],
    kind: Choice["one key", "one query", "all keys", "all queries", "one value", "right angles"],
    t: Index["T"],
    s: Index["S"],
):
    """A zero vector is a vector like any other, and a score of exactly 0 is a score like any other."""
    if kind == "right angles":
        q, k = q.clone(), k.clone()
        q[..., 0], k[..., s, 1:] = 0, 0  # key s keeps only the channel in which every query is 0
    q = emptied(q, {"one query": [t], "all queries": range(q.shape[1])}.get(kind, []))
    k = emptied(k, {"one key": [s], "all keys": range(k.shape[1])}.get(kind, []))
    v = emptied(v, {"one value": [s]}.get(kind, []))
    equal(attention_scores(q, k), reference.attention_scores(q, k), zero=True, what="attention_scores(q, k)")
    same_as_reference(attention, reference, q, k, v)
    silent = torch.zeros(*q.shape[:-1], k.shape[-2])
    same_gradients(attention, reference.attention, q, k, v, cotangent=[to_out, silent], zero=True)


@prop(points=3, needs=["shapes"], sizes=LONG)
def every_key_counts(
    attention, q: Float["1 T D", 0.3], k: Float["1 S D", 0.3], v: Float["1 S E", 2.0], toward: Float["D"]
):
    """Changing any one key changes the output of every query."""
    keys = k.shape[1]
    toward = toward.sign() + 0.5 * (toward == 0)
    q = q + toward
    moved = k - 0.5 * toward * torch.eye(keys)[:, :, None]  # [S, S, D]: in row s, key s has moved away
    q, k, v = q.repeat(keys, 1, 1), k.repeat(keys, 1, 1), v.repeat(keys, 1, 1)
    before, _ = attention(q, k, v)
    after, _ = attention(q, moved, v)
    shape(after, keys, q.shape[1], v.shape[2], what="out")
    finite(before, what="out")
    finite(after, what="out")
    effects = (after - before).abs().amax(dim=-1)
    s, t = divmod(int(effects.argmin()), effects.shape[1])
    holds(effects[s, t] > 1e-3, "key_ignored", query=t, changed=s)
    _, weights = attention(3 * q, 3 * k, v)
    holds(weights.min() > 0, "weight_dropped")


@prop(points=2, needs=["value"])
def any_sizes(
    attention_scores,
    attention,
    reference,
    q: Float["6 270 9"],
    k: Float["6 270 9"],
    v: Float["6 270 9"],
    sizes: Choice[
        (3, 5, 5, 7, 6),  # T = S: self-attention
        (3, 5, 6, 7, 7),  # D = E
        (5, 5, 5, 5, 5),
        (3, 1, 6, 5, 7),  # one query, as in generation
        (3, 5, 1, 7, 6),  # one key
        (1, 5, 6, 7, 9),  # a batch of one
        (3, 5, 7, 1, 4),  # a width of one
        (2, 67, 8, 9, 5),  # many queries
        (2, 5, 270, 8, 7),  # many keys
    ],
):
    """Sizes that happen to be equal, sizes of 1 and long sequences are treated like all others."""
    batch, queries, keys, width, value_width = sizes
    q, k, v = q[:batch, :queries, :width], k[:batch, :keys, :width], v[:batch, :keys, :value_width]
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    equal(attention_scores(q, k), reference.attention_scores(q, k), what="attention_scores(q, k)")
    same_as_reference(attention, reference, q, k, v)
    if queries == keys:  # queries and keys may even be the same vectors
        same_as_reference(attention, reference, q, q, v)


@prop(points=2, needs=["value"])
def any_tensor_is_an_input(
    attention_scores,
    attention,
    reference,
    q: Float["B H T 2*D"],
    k: Float["B H S 2*D"],
    v: Float["B H S 2*E"],
    kind: Choice[
        "every other channel",
        "stored as [B, T, H, D]",
        "stored transposed",
        "expanded",
        "requires_grad",
        "no gradient recorded",
    ],
):
    """Transposed, sliced and expanded tensors are as good as others, with gradients recorded or without."""
    q, k, v = (arranged(x, kind) for x in (q, k, v))
    equal(attention_scores(q, k), reference.attention_scores(q, k), what="attention_scores(q, k)")
    same_as_reference(attention.without_grad if kind == "no gradient recorded" else attention, reference, q, k, v)
    to_out, to_weights = torch.ones(*q.shape[:-1], v.shape[-1]).cumsum(-1), torch.zeros(*q.shape[:-1], k.shape[-2])
    same_gradients(attention, reference.attention, q, k, v, cotangent=[to_out, to_weights])


@prop(points=2)
def inputs_stay_as_they_were(
    attention_scores,
    attention,
    q: Float["B H T D"],
    k: Float["B H S D"],
    v: Float["B H S E"],
    kind: Choice["[B, T, D]", "[T, D]", "[B, H, T, D]", "float64", "float16"],
):
    """The tensors that were handed in are the same afterwards."""
    axes = {"[T, D]": 2, "[B, H, T, D]": 4}.get(kind, 3)
    kept = {"float64": torch.float64, "float16": torch.float16}.get(kind, torch.float32)
    q, k, v = (last(x, axes).to(kept) for x in (q, k, v))
    for grad in (True, False):
        inputs_unchanged(attention_scores, q, k, grad=grad)
        inputs_unchanged(attention, q, k, v, grad=grad)


@prop(points=2, needs=["value"])
def dtype_is_kept(
    attention_scores,
    attention,
    reference,
    q: Float["B T D"],
    k: Float["B S D"],
    v: Float["B S E"],
    kind: Choice[torch.float16, torch.bfloat16, torch.float64],
):
    """What comes out has the dtype of what went in: half precision stays half, double stays double."""
    q, k, v = q.to(kind), k.to(kind), v.to(kind)
    near = {torch.float16: 1e-2, torch.bfloat16: 5e-2, torch.float64: 1e-4}[kind]
    scores = attention_scores(q, k)
    out, weights = attention(q, k, v)
    for name, answer in {"attention_scores(q, k)": scores, "out": out, "weights": weights}.items():
        dtype(answer, kind, what=name)
    expected, expected_weights = reference.attention(q, k, v)
    equal(scores, reference.attention_scores(q, k), tol=near, what="attention_scores(q, k)")
    equal(weights, expected_weights, tol=near, what="weights")
    equal(out, expected, tol=near, what="out")


@prop(points=1, cases=3)
def each_call_stands_alone(
    attention_scores,
    attention,
    reference,
    q: Float["2 B T D"],
    k: Float["2 B S D"],
    v: Float["2 B S E"],
    grad: Choice[True, False],
):
    """The answer to a call follows from its own arguments and what they hold: earlier calls leave no trace."""
    for turn in (0, 1, 0):
        equal(attention_scores(q[turn], k[turn]), reference.attention_scores(q[turn], k[turn]))
        same_as_reference(attention, reference, q[turn], k[turn], v[turn])
    scores = refilled(attention_scores, q[1], k[1], earlier=[q[0], k[0]], grad=grad)
    equal(scores, reference.attention_scores(q[1], k[1]), what="q.copy_(...); attention_scores(q, k)")
    out, weights = refilled(attention, q[1], k[1], v[1], earlier=[q[0], k[0], v[0]], grad=grad)
    expected, expected_weights = reference.attention(q[1], k[1], v[1])
    equal(weights, expected_weights, what="q.copy_(...); weights")
    equal(out, expected, what="q.copy_(...); out")


@prop(points=5)
def written_by_hand(
    attention_scores,
    attention,
    forbidden,
    q: Float["B H T D"],
    k: Float["B H S D"],
    v: Float["B H S E"],
    kind: Choice["[T, D]", "[B, T, D]", "[B, H, T, D]", "float16", "requires_grad", "q = k = v"],
):
    """Neither the library's fused attention nor its attention module runs."""
    axes = {"[T, D]": 2, "[B, H, T, D]": 4}.get(kind, 3)
    q, k, v = last(q, axes), last(k, axes), last(v, axes)
    if kind == "float16":
        q, k, v = q.half(), k.half(), v.half()
    if kind == "q = k = v":
        k = v = q
    q, k, v = (x.clone().requires_grad_(kind == "requires_grad") for x in (q, k, v))
    avoids(attention_scores.effects(q, k), forbidden)
    avoids(attention.effects(q, k, v), forbidden)


# ------------------------------------------------------------------------------------------ parts of the equations


def same_as_reference(function, reference, q, k, v):
    """Output and weights are those of the reference."""
    out, weights = function(q, k, v)
    expected, expected_weights = reference.attention(q, k, v)
    equal(weights, expected_weights, what="weights")
    equal(out, expected, what="out")


def same_gradients(function, reference, *inputs, cotangent, later=None, zero=False):
    """What arrives at each input is what arrives at the reference's."""
    got = function.gradients(*inputs, cotangent=cotangent, later=later)
    want = reference.gradients(*inputs, cotangent=cotangent)
    for answer, expected in zip(listed(got.value), listed(want.value), strict=True):
        shape(answer, *expected.shape)
    for name, mine, expected in zip("qkv", got.inputs, want.inputs, strict=False):
        if expected is not None:  # it was wanted
            equal(mine, expected, what=f"{name}.grad", zero=zero)


def listed(value):
    """The answers of a function that has one or several."""
    return value if isinstance(value, list) else [value]


def unchanged(got, want, what):
    """Two answers of the submission are the same, and are no mere zeros."""
    finite(want, what=what)
    holds(want.abs().max() > 1e-2, "all_zero", what=what)
    equal(got, want, what=what)


def standardized(x):
    """Vectors whose numbers are 1 in the mean of their squares: a few of them have a known spread already."""
    return x / x.square().mean(-1, keepdim=True).sqrt()


def cut(x, axes, letter):
    """x with the axis of that letter cut down to a size of 1."""
    return x.narrow(axes.index(letter), 0, 1).contiguous() if letter in axes else x


def last(x, axes):
    """The last two, three or four axes of a tensor of four, or all with a fifth in front."""
    return torch.stack([x, x.flip(0)]) if axes == 5 else x[(0,) * (4 - axes)]


def shuffled(size, seed):
    """A permutation of 0 .. size - 1 that moves something."""
    order = torch.randperm(size, generator=torch.Generator().manual_seed(seed))
    return order if (order != torch.arange(size)).any() else order.flip(0)


def emptied(x, rows):
    """x with zero vectors in these rows."""
    x = x.clone()
    for row in rows:
        x[:, row] = 0
    return x


def arranged(x, kind):
    """Half of the channels of x, in the kind of tensor that is asked for."""
    width = x.shape[-1] // 2
    if kind == "every other channel":
        return x[..., ::2]
    x = x[..., :width].contiguous()
    if kind == "stored as [B, T, H, D]":
        return x.transpose(1, 2).contiguous().transpose(1, 2)
    if kind == "stored transposed":
        return x.mT.contiguous().mT
    if kind == "expanded":
        return x[:1].expand_as(x)
    return x.requires_grad_(kind == "requires_grad")
