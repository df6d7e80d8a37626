"""ex01: what must be true of a lookup table for tokens."""

from itertools import combinations, product

import torch

from grader.properties import (
    Choice,
    Float,
    Ids,
    Index,
    Size,
    avoids,
    count,
    depends,
    dtype,
    equal,
    exactly,
    holds,
    inputs_unchanged,
    prop,
    raises,
    refilled,
    shape,
)

INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
TWO = torch.tensor([[0], [1]])  # as an index: [2, 1, T] of [B, T], with two different sequences
PRODUCTS = ("mm", "mul", "mv", "dot", "einsum", "linear", "sum")


def written(module, weight):
    """The module, with `weight` written into its table."""
    problem = module.write({"weight": weight})
    holds(problem is None, "no_weight", shape=list(weight.shape))
    return module


def with_padding(weight, p):
    """A table whose row `p` is zero, as the padding row of a trained table is."""
    weight[p] = 0.0
    return weight


def start_of(embed, V, C):
    """The table that a new module starts with."""
    parameters = embed.parameters()
    holds("weight" in parameters, "no_weight", shape=[V, C])
    shape(parameters["weight"].value, V, C, what="weight")
    return parameters["weight"].value


def no_two_alike(table):
    """No two rows of the table are the same."""
    alike = [(r, s) for r, s in combinations(range(len(table)), 2) if torch.equal(table[r], table[s])]
    holds(not alike, "rows_alike", rows=list(alike[0]) if alike else [])


@prop(points=5)
def has_one_parameter(TokenEmbedding, V: Size["V"], C: Size["C"], p: Index["V"]):
    """The one parameter is weight, of shape [V, C]: V*C trainable numbers, with padding and without."""
    for embed in (TokenEmbedding(V, C), TokenEmbedding(V, C, padding_idx=p)):
        parameters = embed.parameters()
        holds("weight" in parameters, "no_weight", shape=[V, C])
        shape(parameters["weight"].value, V, C, what="weight")
        holds(parameters["weight"].requires_grad, "not_trainable")
        count(sum(entry.value.numel() for entry in parameters.values() if entry.same_as is None), V * C)


@prop(points=10)
def returns_the_row_of_each_id(TokenEmbedding, weight: Float["V C", 0.4], ids: Ids["B T", "V"], p: Index["V"]):
    """forward(ids) holds, at every place, the row of weight that the id there names, with padding and without."""
    equal(written(TokenEmbedding(*weight.shape), weight)(ids), weight[ids])
    weight, ids = with_padding(weight.clone(), p), ids.clone()
    ids[0, 0], ids[-1, -1] = p, p
    equal(written(TokenEmbedding(*weight.shape, padding_idx=p), weight)(ids), weight[ids])


@prop(points=6, cases=2)
def takes_any_leading_shape(TokenEmbedding, weight: Float["V C", 0.4], ids: Ids["B H T", "V"], p: Index["V"]):
    """ids of shape [], [T], [B, T] and [B, H, T] give [C], [T, C], [B, T, C] and [B, H, T, C]."""
    embed = written(TokenEmbedding(*weight.shape), weight)
    padded = written(TokenEmbedding(*weight.shape, padding_idx=p), with_padding(weight.clone(), p))
    for some in (ids, ids[0], ids[0, 0], ids[0, 0, 0], ids[:1, :1, :1], torch.stack((ids, ids))):
        out = embed(some)
        shape(out, *some.shape, weight.shape[1])
        equal(out, weight[some])
        equal(padded(some), with_padding(weight.clone(), p)[some], zero=True)


@prop(points=10, cases=2)
def gradient_adds_up_repeated_ids(
    TokenEmbedding, weight: Float["V C", 0.4], ids: Ids["B T", "V"], cotangent: Float["B T C"], r: Index["V"]
):
    """The gradient of row r is the sum of what flows back to all places where the id is r; other rows get 0."""
    ids[:, 1], ids[1] = r, ids[0]
    embed = written(TokenEmbedding(*weight.shape), weight)
    sums = torch.zeros_like(weight).index_add(0, ids.flatten(), cotangent.flatten(0, 1))
    for mode in (embed.train, embed.eval, embed.train):
        mode()
        equal(embed.gradients(ids, cotangent=cotangent).parameters.get("weight"), sums, what="weight.grad")
    for at in (0, (0, 0), TWO):
        some, flow = ids[at], cotangent[at]
        sums = torch.zeros_like(weight).index_add(0, some.flatten(), flow.reshape(-1, weight.shape[1]))
        equal(embed.gradients(some, cotangent=flow).parameters.get("weight"), sums, what="weight.grad")


@prop(points=6)
def padding_row_starts_at_zero(TokenEmbedding, V: Size["V"], C: Size["C"], p: Index["V"]):
    """After TokenEmbedding(V, C, padding_idx=p) the row p of weight is zero; the others are random and not zero."""
    table = start_of(TokenEmbedding(V, C, padding_idx=p), V, C)
    exactly(table[p], torch.zeros(C), what=f"weight[{p}]")
    zero = [r for r in range(V) if r != p and not table[r].any()]
    holds(not zero, "zero_row", row=zero[:1], padding=p)
    another = TokenEmbedding(V, C, padding_idx=p)
    no_two_alike(table)
    holds(not torch.equal(table, start_of(another, V, C)), "same_table_twice")


@prop(points=9, cases=2)
def padding_row_gets_no_gradient(
    TokenEmbedding, weight: Float["V C", 0.4], ids: Ids["B T", "V"], cotangent: Float["B T C"], p: Index["V"]
):
    """The gradient of the row padding_idx is exactly 0, that of every other row is what it would be without padding."""
    with_padding(weight, p)
    ids[:, 0], ids[0] = p, p
    ids[1:, 1] = q = (p + 1) % len(weight)
    weight[q] = 0.0  # an ordinary token that happens to stand at zero
    embed = written(TokenEmbedding(*weight.shape, padding_idx=p), weight)
    sums = torch.zeros_like(weight).index_add(0, ids.flatten(), cotangent.flatten(0, 1))
    sums[p] = 0.0
    for mode in (embed.train, embed.eval):
        mode()
        got = embed.gradients(ids, cotangent=cotangent).parameters.get("weight")
        equal(got, sums, what="weight.grad")
        exactly(got[p], sums[p], what=f"weight.grad[{p}]")
    for at, kind in ((1, torch.int32), (TWO, torch.int64), ((0, 0), torch.uint8)):
        got = embed.gradients(ids[at].to(kind), cotangent=cotangent[at]).parameters.get("weight")
        if got is None and bool((ids[at] == p).all()):
            continue  # nothing but padding: to have no gradient at all is as good as zeros
        holds(isinstance(got, torch.Tensor), "no_gradient")
        exactly(got[p], sums[p], what=f"weight.grad[{p}]")


@prop(points=5)
def padding_row_survives_training(
    TokenEmbedding, weight: Float["V C", 0.4], ids: Ids["B T", "V"], cotangent: Float["B T C"], p: Index["V"]
):
    """After several optimizer steps the row padding_idx is still zero, while other rows have moved."""
    ids[:, 2] = p
    embed = written(TokenEmbedding(*weight.shape, padding_idx=p), with_padding(weight, p))
    trained = weight.clone()
    for _ in range(3):
        gradient = embed.gradients(ids, cotangent=cotangent).parameters.get("weight")
        holds(isinstance(gradient, torch.Tensor), "no_gradient")
        trained = trained - 0.1 * gradient
        exactly(trained[p], torch.zeros(weight.shape[1]), what=f"weight[{p}]")
        written(embed, trained)
    ordinary = torch.arange(len(weight)) != p
    depends(trained[ordinary], weight[ordinary], what="weight")


@prop(points=5, cases=2)
def without_padding_every_row_learns(
    TokenEmbedding, weight: Float["V C", 0.4], cotangent: Float["V C"], V: Size["V"], C: Size["C"]
):
    """With padding_idx=None all rows start at random, none at zero, and every row, row 0 included, gets its gradient."""
    tables = []
    for embed in (TokenEmbedding(V, C), TokenEmbedding(V, C, padding_idx=None)):
        tables.append(start_of(embed, V, C))
        zero = [r for r in range(V) if not tables[-1][r].any()]
        holds(not zero, "zero_row_without_padding", row=zero[:1])
        every = torch.arange(V)
        equal(written(embed, weight)(every), weight)
        equal(embed.gradients(every, cotangent=cotangent).parameters.get("weight"), cotangent, what="weight.grad")
    no_two_alike(tables[0])
    no_two_alike(tables[1])
    holds(not torch.equal(*tables), "same_table_twice")


@prop(points=5, sizes={"V": (180, 220)}, cases=2)
def accepts_every_integer_dtype(TokenEmbedding, weight: Float["V C", 0.4], ids: Ids["B T", "V"], p: Index["V"]):
    """ids of dtype uint8, int8, int16, int32 and int64 are all looked up alike."""
    plain = written(TokenEmbedding(*weight.shape), weight)
    padded = written(TokenEmbedding(*weight.shape, padding_idx=p), with_padding(weight.clone(), p))
    for kind in INTEGERS:
        fitting = ids.clamp(max=torch.iinfo(kind).max)
        equal(plain(fitting.to(kind)), weight[fitting])
        equal(padded(fitting.to(kind)), with_padding(weight.clone(), p)[fitting])
    far = torch.tensor([40_000, 39_997, 32_769, 2_049, 257])  # as in a real vocabulary
    wide = torch.zeros(40_001, 2)
    wide[far] = weight[: len(far), :2]
    equal(written(TokenEmbedding(*wide.shape), wide)(far), wide[far])


@prop(points=4, cases=2)
def rejects_float_ids(TokenEmbedding, weight: Float["V C", 0.4], ids: Ids["B T", "V"]):
    """float ids raise TypeError, also when they are whole numbers; the message says what came."""
    embed = written(TokenEmbedding(*weight.shape), weight)
    ids[0, 0] = 3
    said = ("float", "Float", "double", "Double", "half", "Half", "3.")
    raises(embed, ids.float(), error=TypeError, mentions=said)
    raises(embed, ids.double(), error=TypeError, mentions=said)
    raises(embed, ids.half(), error=TypeError, mentions=said)
    raises(embed, ids.bfloat16(), error=TypeError, mentions=said)
    embed.eval()
    raises(embed, ids.float(), error=TypeError, mentions=said)
    raises(embed, ids[None].float(), error=TypeError, mentions=said)
    raises(embed, ids[0, 0].float(), error=TypeError, mentions=said)


@prop(points=6)
def rejects_ids_outside_the_table(
    TokenEmbedding,
    weight: Float["V C", 0.4],
    ids: Ids["B T", "V"],
    b: Index["B"],
    t: Index["T"],
    p: Index["V"],
    kind: Choice["ordinary", "padded", "in eval mode", "padded, in eval mode, without gradients"],
):
    """An id that is negative or not below V raises IndexError, wherever it stands; the message names it."""
    V = len(weight)
    if "padded" in kind:
        embed = written(TokenEmbedding(*weight.shape, padding_idx=p), with_padding(weight, p))
    else:
        embed = written(TokenEmbedding(*weight.shape), weight)
    if "eval" in kind:
        embed.eval()
    looked_up = embed.without_grad if "without" in kind else embed
    equal(looked_up(ids), weight[ids])

    def bad(number):
        wrong = ids.clone()
        wrong[b, t] = number
        return wrong

    for some in (torch.tensor(-3), bad(-3)[None]):
        raises(looked_up, some, error=IndexError, mentions=[-3])
    for number in (-V - 40, -V + 2, -3, V + 40, 2**32 + 1):
        raises(looked_up, bad(number), error=IndexError, mentions=[number, V] if number > 0 else [number])
    for some in (bad(V + 40).int(), bad(V + 40).byte(), bad(V + 40)[None], torch.tensor(V + 40)):
        raises(looked_up, some, error=IndexError, mentions=[V + 40, V])
    raises(looked_up, bad(-2).int(), error=IndexError, mentions=[-2])
    raises(looked_up, bad(-4).to(torch.int8), error=IndexError, mentions=[-4])
    raises(looked_up, bad(V), error=IndexError, mentions=[V])
    raises(looked_up, bad(-1), error=IndexError)


@prop(points=4, sizes={"T": (6, 9), "V": (17, 25), "C": (5, 7)}, cases=2)
def forward_builds_no_one_hot(
    TokenEmbedding, weight: Float["V C", 0.4], ids: Ids["B T", "V"], p: Index["V"], grad: Choice[True, False]
):
    """forward makes no tensor of one-hot rows [..., V] on its way."""
    V, C = weight.shape
    plain = written(TokenEmbedding(V, C), weight)
    padded = written(TokenEmbedding(V, C, padding_idx=p), with_padding(weight.clone(), p))
    plain.eval()
    for embed, some in product((plain, padded), (ids, ids.flatten(), ids[None])):
        effects = embed.effects(some)
        allocations = effects.allocations_with_grad if grad else effects.allocations
        made = [a for a in allocations if V in a.shape and C not in a.shape]
        widest = max(made, key=lambda a: a.stored, default=None)
        total = sum(a.stored for a in made)
        shown = {"shape": widest.shape if widest else [], "op": widest and widest.op}
        holds(total < some.numel() * V, "one_hot_made", **shown)


@prop(points=3, cases=2)
def leaves_ids_and_weights_alone(
    TokenEmbedding,
    one_hot_embedding,
    weight: Float["V C", 2.0],
    ids: Ids["B T", "V"],
    p: Index["V"],
    grad: Choice[True, False],
):
    """Neither the ids nor the weights are changed by a lookup."""
    inputs_unchanged(one_hot_embedding, ids, weight, grad=grad)
    for padding, table in ((None, weight), (p, with_padding(weight.clone(), p))):
        embed = TokenEmbedding(*weight.shape, padding_idx=padding)
        start_of(embed, *weight.shape)
        written(embed, table)
        for mode in (embed.train, embed.eval):
            mode()
            equal(inputs_unchanged(embed, ids, grad=grad).value, table[ids])
            exactly(embed.parameters()["weight"].value, table, what="weight")


@prop(points=3, cases=2)
def takes_ids_of_any_layout(
    TokenEmbedding, one_hot_embedding, weight: Float["V C", 0.4], ids: Ids["T B", "V"], wide: Float["C V", 0.4]
):
    """ids and weight may be transposed, strided, expanded or part of a graph: only their values count."""
    embed = written(TokenEmbedding(*weight.shape), weight)
    for view in (ids.t(), ids[:, ::2], ids[0].expand(3, -1), ids[1:, 1:], ids.t()[:, ::3]):
        equal(embed(view), weight[view])
        equal(one_hot_embedding(view, weight), weight[view])
        equal(one_hot_embedding(view, wide.t()), wide.t()[view])
    equal(one_hot_embedding(ids, weight.clone().requires_grad_()), weight[ids])
    row = weight[:1].expand(len(weight), -1)
    equal(one_hot_embedding(ids, row), row[ids])


@prop(points=3, cases=2)
def answers_each_call_afresh(
    TokenEmbedding, weight: Float["V C", 0.4], other: Float["V C", 0.4], ids: Ids["B T", "V"], more: Ids["B T", "V"]
):
    """A lookup depends on the ids and weights of now, not on earlier calls or other modules."""
    embed, second = TokenEmbedding(*weight.shape), TokenEmbedding(*weight.shape)
    written(embed, weight)
    written(second, other)
    equal(embed(ids), weight[ids])
    equal(embed(more), weight[more])
    equal(embed(ids.flip(0)), weight[ids.flip(0)])
    equal(second(ids), other[ids])
    embed.eval()
    equal(embed.without_grad(ids), weight[ids])
    written(embed, other + weight)
    equal(embed.without_grad(ids), (other + weight)[ids])
    embed.train()
    equal(embed(more), (other + weight)[more])
    equal(refilled(embed, more, earlier=[ids]), (other + weight)[more], what="ids.copy_(...); forward(ids)")


@prop(points=5)
def one_hot_equals_the_lookup(one_hot_embedding, weight: Float["V C", 0.4], ids: Ids["B H T", "V"], top: Index["V"]):
    """one_hot_embedding(ids, weight) equals the rows that the ids name, for ids of any leading shape."""
    for some in (ids, ids[0], ids[0, 0], ids[0, 0, 0], ids.clamp(max=top)):
        out = one_hot_embedding(some, weight)
        shape(out, *some.shape, weight.shape[1])
        equal(out, weight[some])


@prop(points=2, cases=2)
def one_hot_is_a_product(one_hot_embedding, weight: Float["V C", 0.4], ids: Ids["B T", "V"]):
    """one_hot_embedding multiplies and adds up instead of picking rows."""
    for some in (ids, ids[0], ids[None]):
        effects = one_hot_embedding.effects(some, weight)
        equal(effects.value, weight[some])
        ran = [op.removeprefix("aten::") for op in effects.ops if op.startswith("aten::")]
        holds(any(word in op for op in ran for word in PRODUCTS), "no_product")


@prop(points=2, cases=3)
def one_hot_passes_gradients(
    one_hot_embedding, weight: Float["V C", 0.4], ids: Ids["B T", "V"], cotangent: Float["B T C"]
):
    """one_hot_embedding gives weight the same gradient as the lookup."""
    ids[1] = ids[0]
    for at in (..., 1, (0, 0), None):
        some, flow = ids[at], cotangent[at]
        got = one_hot_embedding.gradients(some, weight, cotangent=flow).inputs
        sums = torch.zeros_like(weight).index_add(0, some.flatten(), flow.reshape(-1, weight.shape[1]))
        equal(got[0] if got else None, sums, what="weight.grad")


@prop(points=2, cases=2)
def keeps_the_dtype(TokenEmbedding, one_hot_embedding, weight: Float["V C", 0.4], ids: Ids["B T", "V"]):
    """The vectors have the dtype of the table; one_hot_embedding takes float64, float16 and bfloat16 tables as well."""
    embed = written(TokenEmbedding(*weight.shape), weight)
    dtype(embed.parameters()["weight"].value, torch.float32, what="weight")
    dtype(embed(ids), torch.float32)
    embed.method("double")()
    dtype(embed(ids), torch.float64, what="TokenEmbedding(V, C).double()(ids)")
    for kind in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        table = weight.to(kind)
        out = one_hot_embedding(ids, table)
        dtype(out, kind)
        equal(out, table[ids])


@prop(points=5, cases=2)
def written_by_hand(
    TokenEmbedding,
    one_hot_embedding,
    forbidden,
    weight: Float["V C", 0.4],
    ids: Ids["B T", "V"],
    p: Index["V"],
    kind: Choice["a batch, a row, uint8", "one id, more axes, int32"],
):
    """The library's embedding is not used, under any name."""
    batch = "batch" in kind
    shapes = (ids, ids[0], ids.byte()) if batch else (ids[0, 0], ids[None], ids.int())
    made = TokenEmbedding.effects(*weight.shape, padding_idx=p if batch else None)
    avoids(made, forbidden)
    first, padded = written(made.value, weight), written(TokenEmbedding(*weight.shape, padding_idx=p), weight)
    for some in shapes:
        avoids(first.effects(some), forbidden)
    for embed in (first, padded):
        embed.eval()
        avoids(embed.effects(ids), forbidden)
    for some in shapes[:2]:
        avoids(one_hot_embedding.effects(some, weight), forbidden)
