"""ex09: a whole model is right whichever way its blocks are built; their layout is found, not prescribed."""

from __future__ import annotations

import torch

from grader import layouts
from grader.properties import (
    Choice,
    Ids,
    Index,
    Seed,
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
    shape,
)
from grader.subject import Gradients

MODES = ("train", "eval")
NAMES = ("vocab", "d_model", "n_heads", "n_layers", "max_len", "d_ff")
DEFAULTS = dict(zip(NAMES, (50, 32, 4, 2, 32, 64), strict=True))
SMALL = {"vocab": 13, "d_model": 10, "n_heads": 2, "n_layers": 2, "max_len": 9, "d_ff": 11}
WIDE = {"vocab": 11, "d_model": 15, "n_heads": 3, "n_layers": 1, "max_len": 12, "d_ff": 8}
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


def filled(MiniTransformer, reference, config, seed, mode="eval", factor=1.0):
    """A model with weights in it, whatever the names of its blocks are. Matrices are multiplied by `factor`."""
    model = MiniTransformer(**config)
    weights = given_weights(reference.MiniTransformer(**config), seed)
    if model.write(scaled(weights, factor)) is not None:
        model.write(scaled(layouts.any_weights(model, seed), factor))
    in_mode(model, mode)
    return model


def scaled(weights, factor):
    return {name: factor ** (value.dim() > 1) * value for name, value in weights.items()}


def in_mode(model, mode):
    model.train() if mode == "train" else model.eval()


def every_id(vocab, *size):
    """Ids in which each token of the vocabulary occurs."""
    number = torch.arange(size[0] * size[1])
    return (5 * number + number // vocab).remainder(vocab).reshape(size)


def name_of(tensors, part, *last):
    """The name of the parameter of a part of the model whose last axes are these."""
    names = [name for name in tensors if name.split(".")[0] == part and tensors[name].shape[-len(last) :] == last]
    holds(len(names) == 1, "no_table", name=part)
    return names[0]


def same(got, want, what):
    """Two answers of the submission are equal, and not because it always answers zero."""
    finite(want, what)
    holds(want.abs().max() > 0.01, "only_zeros")
    equal(got, want, what=what)


# ---- shape and count


@prop(points=4, cases=2)
def logits_have_their_shape(MiniTransformer, config: Choice[SMALL, WIDE]):
    """The model answers [B, T, V] finite numbers in float32, for every T from 1 to max_len."""
    model = MiniTransformer(**config)
    for length in (1, 4, config["max_len"]):
        ids = every_id(config["vocab"], 3, length)
        logits = model(ids)
        shape(logits, 3, length, config["vocab"])
        finite(logits)
        dtype(logits, torch.float32)


@prop(points=11)
def parameters_add_up(MiniTransformer, reference):
    """MiniTransformer() has 21,426 parameters, and other sizes have theirs; each is counted once and can be trained."""
    for config in (DEFAULTS, SMALL):
        model = MiniTransformer(**config)
        right = layouts.shapes(reference.MiniTransformer(**config))
        theirs = layouts.shapes(model, tuple(right))
        got, want = groups(theirs), groups(right)
        difference = sum(got.values()) - sum(want.values())
        holds(
            difference == 0,
            f"count.{cause(model, got, want, config)}",
            got=f"{sum(got.values()):,}",
            want=f"{sum(want.values()):,}",
            difference=f"{difference:+,}",
            table=table(got, want),
        )
        frozen = [f"`{name}`" for name, parameter in model.parameters().items() if not parameter.requires_grad]
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


def cause(model, got, want, config):
    """The likely reason of a difference: the part in which it is, and how large it is there."""
    shared = {name: other.same_as for name, other in model.parameters().items() if other.same_as}
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
    model = MiniTransformer(**SMALL)
    model.eval()
    names = model.parameters()
    parts = {name.split(".")[0] for name in names}
    wanted = {"tok_emb", "pos_emb", "ln", "head"} - parts
    if not wanted and parts & {"blocks", "encoder"}:
        return
    missing = [*sorted(wanted), *(["blocks / encoder"] if not parts & {"blocks", "encoder"} else [])]
    found = layouts.find(model, right_models(reference, SMALL), [every_id(13, 4, 8)], fixed=OUTER)
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
    for config in (SMALL, WIDE):
        count(number(MiniTransformer(**config).attribute("max_len")), config["max_len"], what="model.max_len")


def number(value):
    """A buffer of one number is as good as the number."""
    return int(value) if isinstance(value, torch.Tensor) and value.numel() == 1 else value


@prop(points=7)
def every_argument_acts(MiniTransformer, reference):
    """Each argument of the constructor acts: on the number of parameters, on the lengths, and n_heads on the result."""
    base = total(MiniTransformer(**SMALL))
    for name, value in {"vocab": 17, "d_model": 14, "n_layers": 5, "max_len": 21, "d_ff": 31}.items():
        larger = total(MiniTransformer(**SMALL | {name: value}))
        holds(larger > base, "no_effect", name=name, before=SMALL[name], after=value, count=f"{base:,}")
    two, five = (filled(MiniTransformer, reference, SMALL | {"n_heads": heads}, seed=3) for heads in (2, 5))
    ids = every_id(13, 4, 8)
    depends(two(ids), five(ids), what="n_heads=5 instead of 2")
    long = MiniTransformer(**SMALL | {"max_len": 40})
    shape(long(every_id(13, 3, 40)), 3, 40, 13, what="the logits of 40 tokens with max_len=40")


def total(model):
    return sum(groups(layouts.shapes(model)).values())


@prop(points=3)
def defaults_are_as_asked(MiniTransformer, reference):
    """MiniTransformer() is MiniTransformer(50, 32, 4, 2, 32, 64), by position or by name."""
    default, right = MiniTransformer(), reference.MiniTransformer()
    default.eval()
    weights = given_weights(right, 5)
    if default.write(weights) is not None:
        weights = layouts.any_weights(default, 5)
        default.write(weights)
    ids = every_id(50, 5, 11)
    for other in (MiniTransformer(*DEFAULTS.values()), MiniTransformer(**dict(reversed(DEFAULTS.items())))):
        other.eval()
        holds(other.write(weights) is None, "other_defaults")
        same(other(ids), default(ids), what="MiniTransformer(50, 32, 4, 2, 32, 64)")
    count(number(default.attribute("max_len")), 32, what="MiniTransformer().max_len")


# ---- values and gradients


@prop(points=14)
def logits_agree(MiniTransformer, reference):
    """With the submission's own weights the logits equal those of the reference, with ReLU, exact GELU or tanh GELU."""
    for config, batch, length in ((SMALL, 4, 8), (WIDE, 5, 12)):
        model, models = MiniTransformer(**config), right_models(reference, config)
        model.eval()
        ids = every_id(config["vocab"], batch, length)
        found = layouts.find(model, models, [ids], fixed=OUTER)
        if found is None:
            tell_how_far(model, models, ids)
        layout, right = found
        weights = given_weights(right, 11)
        holds(model.write(layout.theirs_from(weights)) is None, "no_write")
        right.write(layout.ours_from({name: entry.value for name, entry in model.parameters().items()}))
        for shorter in (ids, ids[:, :5]):
            equal(model(shorter), right(shorter))
            equal(model.without_grad(shorter), right(shorter), what="the logits under no_grad")


def tell_how_far(model, models, ids):
    """No layout agrees: say how far the likeliest one is, or that there is none."""
    closest = layouts.nearest(model, models, [ids], layouts.likely(model, models[0]))
    if closest is not None:
        layout, right, _ = closest
        model.write(layout.theirs_from(given_weights(right, 11)))
        right.write(layout.ours_from({name: entry.value for name, entry in model.parameters().items()}))
        equal(model(ids), right(ids))
    holds(False, "no_layout")


@prop(points=6, needs=["logits_agree"])
def gradients_agree(MiniTransformer, reference):
    """The gradient of every parameter equals that of the reference."""
    model, models = MiniTransformer(**SMALL), right_models(reference, SMALL)
    model.eval()
    ids = every_id(13, 4, 8)
    found = layouts.find(model, models, [ids], fixed=OUTER)
    holds(found is not None, "no_layout")
    layout, right = found
    weights = given_weights(right, 13)
    model.write(layout.theirs_from(weights))
    right.write(weights)
    cotangent = torch.randn(4, 8, 13, generator=torch.Generator().manual_seed(17))
    got, want = model.gradients(ids, cotangent=cotangent), right.gradients(ids, cotangent=cotangent)
    for name in layout.places:
        holds(got.parameters.get(name) is not None, "no_gradient", name=name)
    gradients(Gradients(got.value, [], layout.ours_from(got.parameters)), want)


@prop(points=6)
def every_parameter_gets_a_gradient(MiniTransformer, reference):
    """Every parameter gets a gradient; in the two tables every row that is used, id 0 and position 0 included."""
    model = filled(MiniTransformer, reference, SMALL, seed=19)
    ids = every_id(13, 4, 9)
    ids[ids == 6] = 5
    cotangent = torch.randn(4, 9, 13, generator=torch.Generator().manual_seed(23))
    found = model.gradients(ids, cotangent=cotangent).parameters
    for name, gradient in found.items():
        holds(gradient is not None, "no_gradient", name=name)
        holds(gradient.dim() == 1 or bool((gradient != 0).any()), "no_gradient", name=name)  # a key bias's is zero
    tables = {"tok_emb": set(range(13)) - {6}, "pos_emb": set(range(9))}
    for part, used in tables.items():
        rows = found[name_of(found, part, 10)]
        silent = [row for row in sorted(used) if not bool((rows.reshape(-1, 10)[row] != 0).any())]
        holds(not silent, "no_row_gradient", name=part, rows=str(silent))


# ---- what depends on what


@prop(points=9, cases=4, sizes=SIZES)
def past_ignores_future(
    subject, MiniTransformer, reference, idx: Ids["B T", "12"], other: Ids["B T", "12"],
    t: Index["T-1"], seed: Seed, layers: Choice[1, 2, 3],
):  # fmt: skip
    """Changing tokens after t leaves the logits up to t as they were, in train and eval mode; a prefix gives a prefix."""
    config = SMALL | {"n_layers": layers}
    changed = torch.cat([idx[:, : t + 1], (idx + 1 + other).remainder(12)[:, t + 1 :]], dim=1)
    for mode in MODES:
        model = filled(MiniTransformer, reference, config, seed, mode)
        with subject.one_seed():  # a dropout, which is allowed, drops the same in both
            before, after = model(idx), model(changed)
        same(after[:, : t + 1], before[:, : t + 1], what=f"{mode} mode, the logits up to position {t}")
    same(model(idx[:, : t + 1]), before[:, : t + 1], what=f"the logits of the first {t + 1} tokens alone")
    same(model.without_grad(changed)[:, : t + 1], before[:, : t + 1], what=f"under no_grad, up to position {t}")


@prop(points=4, cases=2, sizes=SIZES)
def sees_all_of_the_past(MiniTransformer, reference, idx: Ids["B T", "12"], seed: Seed):
    """Changing the token at j changes the logits at every t >= j, with a single layer too."""
    model = filled(MiniTransformer, reference, SMALL | {"n_layers": 1}, seed, factor=0.6)
    before = model(idx)
    for j in range(idx.shape[1]):
        changed = idx.clone()
        changed[:, j] = (changed[:, j] + 4).remainder(12)
        after = model(changed)
        for t in range(j, idx.shape[1]):
            depends(before[:, t], after[:, t], what=f"output {t} when token {j} changes")


@prop(points=5, cases=2, sizes=SIZES)
def order_of_tokens_matters(MiniTransformer, reference, idx: Ids["B T", "12"], seed: Seed):
    """Exchanging two earlier tokens changes the last logits, and one token repeated gives other logits at each position."""
    model = filled(MiniTransformer, reference, SMALL | {"n_layers": 1}, seed)
    idx[:, 0], idx[:, 2] = 3, 8
    exchanged = idx[:, [2, 1, 0, *range(3, idx.shape[1])]]
    depends(model(idx)[:, -1], model(exchanged)[:, -1], what="the last logits when two earlier tokens are exchanged")
    repeated = model(torch.full_like(idx, 5))
    for t in range(1, idx.shape[1]):
        depends(repeated[:, t - 1], repeated[:, t], what=f"position {t} against {t - 1} when all tokens are alike")


@prop(points=4, cases=2, sizes=SIZES)
def rows_are_independent(MiniTransformer, reference, idx: Ids["B T", "12"], row: Index["B"], seed: Seed):
    """Changing one sequence of the batch changes no other, and a sequence alone gives what it gives in the batch."""
    model = filled(MiniTransformer, reference, SMALL, seed)
    changed = idx.clone()
    changed[row] = (idx[row] + 3).remainder(12)
    rest = [index for index in range(len(idx)) if index != row]
    same(model(changed)[rest], model(idx)[rest], what=f"the rows other than {row}")
    same(model(idx[row : row + 1])[0], model(idx)[row], what=f"row {row} alone")


@prop(points=4, cases=2, sizes=SIZES)
def two_calls_agree(MiniTransformer, reference, idx: Ids["B T", "12"], other: Ids["B 3", "12"], seed: Seed):
    """In eval mode two calls with the same ids give the same, whatever was called in between; the weights stay."""
    model = filled(MiniTransformer, reference, SMALL, seed)
    weights = {name: parameter.value for name, parameter in model.parameters().items()}
    first = model(idx)
    same(model(idx), first, what="the second call")
    model(other)
    model.train()
    model(idx)
    model.eval()
    same(model(idx), first, what="after other calls")
    for name, parameter in model.parameters().items():
        equal(parameter.value, weights[name], tol=1e-9, zero=True, what=f"the parameter {name}")


@prop(points=4, cases=2, sizes=SIZES)
def every_id_is_ordinary(MiniTransformer, reference, idx: Ids["B T", "13"], shift: Choice[1, 5], seed: Seed):
    """Renaming the tokens, ids and rows of tok_emb alike, changes nothing: no id is special, 0 and V - 1 included."""
    model = filled(MiniTransformer, reference, SMALL, seed)
    found = model.parameters()
    values = {name: parameter.value for name, parameter in found.items()}
    table = name_of(values, "tok_emb", 13, 10)
    if any(entry.same_as == table for entry in found.values()):
        return  # a tied head is named by the count
    idx[:, 0], idx[:, 1] = 0, 12
    before = model(idx)
    model.write({table: values[table].roll(shift, dims=0)})
    same(model((idx + shift).remainder(13)), before, what="the logits of the renamed tokens")


# ---- at the edges


@prop(points=6)
def fills_its_length_and_no_more(MiniTransformer):
    """T = max_len works; T > max_len raises ValueError or IndexError with both numbers in the message."""
    for limit, length in ((23, 24), (23, 57), (46, 150)):
        model = MiniTransformer(**SMALL | {"max_len": limit})
        for mode in MODES:
            in_mode(model, mode)
            shape(model(every_id(13, 3, limit)), 3, limit, 13, what=f"the logits of T = max_len = {limit}")
            for number in (length, limit):
                raises(model, every_id(13, 3, length), error=(ValueError, IndexError), mentions=[number])


@prop(points=5, cases=2, sizes=SIZES)
def logits_are_raw_scores(MiniTransformer, reference, idx: Ids["B T", "12"], seed: Seed):
    """Logits, not probabilities: what is added to the head's bias is added to the logits, token by token."""
    model = filled(MiniTransformer, reference, SMALL, seed)
    values = {name: parameter.value for name, parameter in model.parameters().items()}
    before = model(idx)
    finite(before)
    biases = [name for name in values if name.split(".")[0] == "head" and values[name].dim() == 1]
    if biases:
        more = torch.arange(13) - 5.0
        model.write({biases[0]: values[biases[0]] + more})
        equal(model(idx), before + more, what="the logits with the numbers -5 .. 7 added to the head's bias")
    else:
        weight = name_of(values, "head", 13, 10)
        model.write({weight: 3 * values[weight]})
        equal(model(idx), 3 * before, what="the logits with 3 times the head's weight")


@prop(points=3, cases=1, sizes=SIZES)
def inputs_stay_as_they_were(MiniTransformer, reference, idx: Ids["B T", "12"], seed: Seed):
    """The ids are not changed, and may be non-contiguous, expanded or a slice."""
    model = filled(MiniTransformer, reference, SMALL, seed)
    kinds = {
        "plain": idx,
        "non-contiguous": idx.T.contiguous().T,
        "expanded": idx[:1].expand(idx.shape),
        "a slice": torch.cat([idx, idx], dim=1)[:, 1 : 1 + idx.shape[1]],
    }
    for kind, value in kinds.items():
        want = model(value.clone(memory_format=torch.contiguous_format))
        same(inputs_unchanged(model, value).value, want, what=f"ids: {kind}")
