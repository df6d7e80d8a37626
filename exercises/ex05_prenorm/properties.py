"""ex05: a norm that looks at one vector at a time, and a residual path that nothing touches."""

import functools

import torch

from grader.properties import (
    Choice,
    Float,
    Index,
    Seed,
    Size,
    Violation,
    avoids,
    count,
    depends,
    divergence,
    dtype,
    equal,
    exactly,
    finite,
    given_weights,
    gradients,
    holds,
    inputs_unchanged,
    prop,
    refilled,
    shape,
)
from grader.subject import Gradients

LOOSE = 2e-3  # where a GELU runs: whether it is the exact one is the business of one property alone
VALUES = ["norm_has_the_right_values", "feed_forward_has_the_right_values", "block_has_the_right_values"]
SURELY = 6.2  # standard deviations: a right dropout goes beyond them once in a billion
ODD = 27.0  # of -log(chance), by Chernoff's bound: so much in one of 500 slices comes once in a billion too


def fill(module, weights):
    """Write weights by name, in place, and say which name or shape is in the way."""
    problem = module.write(weights) or {"missing": [], "shapes": {}}
    holds(not problem["missing"], "missing_parameter", names=", ".join(problem["missing"]))
    holds(not problem["shapes"], "wrong_parameter_shape", shapes=str(problem["shapes"]))


def twins(mine, exact, seed, *args, **options):
    """A module of the submission and one of the reference, with the same weights in both."""
    module, twin = mine(*args, **options), exact(*args, **options)
    fill_both(module, twin, seed)
    return module, twin


def fill_both(module, twin, seed):
    """Write the same weights into both, in place."""
    weights = given_weights(twin, seed)
    fill(module, weights)
    fill(twin, weights)


def follows_its_weights(module, twin, seed, x, y, tol, name):
    """Other numbers in the same parameters, or in the same input, are heeded at once: nothing is kept from earlier."""
    for mode, run, given in ((module.eval, module.without_grad, y), (module.train, module, x)):
        mode()
        run(given)
        seed += 1
        fill_both(module, twin, seed)
        equal(run(given), twin(given), tol, what=f"{name}(x); optimizer.step(); {name}(x)")
    for grad in (True, False):
        got = refilled(module, x, earlier=[y], grad=grad)
        equal(got, twin(x), tol, what=f"{name}(x); x.copy_(...); {name}(x){'' if grad else ', no_grad'}")


def right_for_many(module, twin, x, tol, name):
    """More positions than somebody's block of 64."""
    long = x.repeat(1, 67, 1)
    equal(module.without_grad(long), twin(long), tol, what=f"with torch.no_grad(): {name}(x.repeat(1, 67, 1))")


def every_class(LayerNorm, FeedForward, PreNormBlock, reference, dim, hidden):
    """Each class of the submission by name, with that of the reference and its sizes."""
    return (
        ("LayerNorm", LayerNorm, reference.LayerNorm, (dim,)),
        ("FeedForward", FeedForward, reference.FeedForward, (dim, hidden)),
        ("PreNormBlock", PreNormBlock, reference.PreNormBlock, (dim, hidden)),
    )


def same(got, before, tol=1e-5, what=""):
    """The submission's answer is the one it gave before (which may be wrong: that is another property's business)."""
    finite(before)
    varied(before)
    equal(got, before, tol, what, zero=True)


def right_or_its_own(got, right, own, tol=1e-5):
    """The answer is right, or else the one that the submission gives to the same numbers laid out plainly."""
    try:
        equal(got, right, tol, zero=True)
    except Violation:
        same(got, own(), tol)


def varied(answer):
    """Not one number everywhere, or agreement would say nothing."""
    holds(answer.numel() < 2 or bool(answer.max() - answer.min() > 1e-3), "constant")


def mostly(y, x):
    """y, but its first row and its last vector are those of x."""
    mixed = y.clone()
    mixed[0], mixed[-1, -1] = x[0], x[-1, -1]
    return mixed


def random_like(x, seed):
    return torch.randn(x.shape, generator=torch.Generator().manual_seed(seed))


def with_quiet_rows(x):
    """x with one vector of tiny variance and one of zeros."""
    quiet = x.clone()
    quiet[0, 0] *= 0.003
    quiet[1, 1] = 0.0
    return quiet


@prop(points=4, cases=1)
def shape_stays(LayerNorm, FeedForward, PreNormBlock, x: Float["B T C"], hidden: Size["F"]):
    """What comes out has the shape of what went in, also for one row or one position; the norm takes any leading axes."""
    dim = x.shape[-1]
    norm = LayerNorm(dim)
    for module, name in (
        (norm, "LayerNorm(dim)"),
        (FeedForward(dim, hidden), "FeedForward(dim, hidden)"),
        (PreNormBlock(dim, hidden), "PreNormBlock(dim, hidden)"),
    ):
        shape(module(x), x.shape, what=f"{name}(x)")
        module.eval()
        for given in (x[:1], x[:, :1]):
            shape(module.without_grad(given), given.shape, what=f"{name}.eval()(x), no_grad")
    for given in (x[0, 0], x[0], x[None, None]):
        shape(norm(given), given.shape, what="LayerNorm(dim)(x)")


@prop(points=4, cases=2)
def norm_starts_neutral(LayerNorm, dim: Size["C"]):
    """A new norm changes nothing after standardizing: its weight is all ones, its bias all zeros."""
    for norm in (LayerNorm(dim), LayerNorm(dim, eps=0.1)):
        _starts_neutral(norm, "")


def _starts_neutral(module, prefix):
    start = module.parameters()
    missing = [name for name in (f"{prefix}weight", f"{prefix}bias") if name not in start]
    holds(not missing, "missing_parameter", names=", ".join(missing))
    weight, bias = start[f"{prefix}weight"].value, start[f"{prefix}bias"].value
    exactly(weight, torch.ones(weight.shape), what=f"{prefix}weight")
    exactly(bias, torch.zeros(bias.shape), what=f"{prefix}bias")


@prop(points=8, cases=2)
def norm_has_the_right_values(LayerNorm, reference, x: Float["B T C"], y: Float["B T C", 5.0], seed: Seed):
    """The standardized vector is multiplied by weight, then bias is added: in train and eval mode, for any leading axes."""
    dim = x.shape[-1]
    norm, exact = twins(LayerNorm, reference.LayerNorm, seed, dim)
    other, exact_other = twins(LayerNorm, reference.LayerNorm, seed + 1, dim)
    square = torch.outer(y[0, 0], x[0, 0])  # as many vectors as channels
    for given in (x, mostly(y + 3.0, x), y[0, 0], square, torch.stack([x, y])):
        equal(norm(given), exact(given))
    equal(other(x), exact_other(x))
    odd, exact_odd = twins(LayerNorm, reference.LayerNorm, seed, dim - 1)
    equal(odd(x[:, 0, 1:].contiguous()), exact_odd(x[:, 0, 1:]))
    norm.eval()
    equal(norm(y), exact(y), what="norm.eval()(y)")
    for given, name in ((x, "x"), (x[:, :1], "x[:, :1]")):
        equal(norm.without_grad(given), exact(given), what=f"with torch.no_grad(): norm({name})")
    right_for_many(norm, exact, x, 1e-4, "norm")
    equal(LayerNorm(1)(x[..., :1]), torch.zeros(*x.shape[:-1], 1), zero=True, what="LayerNorm(1)(x[..., :1])")
    follows_its_weights(norm, exact, seed, x, y, 1e-4, "norm")


@prop(points=7, follows_from=["norm_has_the_right_values"], cases=3)
def norm_standardizes_each_vector(LayerNorm, x: Float["B T C", 3.0]):
    """Before the affine part (weight 1, bias 0), every vector has mean 0 and biased variance 1 along the last axis."""
    dim = x.shape[-1]
    norm = LayerNorm(dim)
    fill(norm, {"weight": torch.ones(dim), "bias": torch.zeros(dim)})
    for given in (x + 2.0, x[0], x[None]):
        out = norm(given)
        shape(out, given.shape)
        equal(out.double().mean(-1), torch.zeros(given.shape[:-1]), zero=True, what="norm(x).mean(-1)")
        equal(out.double().var(-1, correction=0), torch.ones(given.shape[:-1]), what="norm(x).var(-1, correction=0)")


@prop(points=6, cases=3)
def eps_stands_inside_the_root(LayerNorm, reference, x: Float["B T C"], seed: Seed, eps: Choice[0.5, 1e-7, 1e-12]):
    """Vectors of small variance are divided by sqrt(variance + eps), with the eps of the constructor, 1e-5 by default."""
    dim = x.shape[-1]
    usual, exact_usual = twins(LayerNorm, reference.LayerNorm, seed, dim)
    named, exact_named = twins(LayerNorm, reference.LayerNorm, seed, dim, eps=eps)
    placed, exact_placed = twins(LayerNorm, reference.LayerNorm, seed, dim, eps)
    for scale in (0.003, 0.001, 0.0):
        equal(usual(x * scale), exact_usual(x * scale), what=f"LayerNorm(dim)(x * {scale})")
    scale = max(eps, 1e-6) ** 0.5
    equal(named(x * scale), exact_named(x * scale), what=f"LayerNorm(dim, eps={eps:g})(x * {scale:.2g})")
    equal(placed(x * scale), exact_placed(x * scale), what=f"LayerNorm(dim, {eps:g})(x * {scale:.2g})")
    named.eval()
    equal(named.without_grad(x * scale), exact_named(x * scale), what=f"norm.eval()(x * {scale:.2g}), no_grad")
    cotangent = random_like(x, seed)[None]
    module, exact, given = usual, exact_usual, with_quiet_rows(x * 0.003)
    if eps > 1e-12:
        module, exact, given = named, exact_named, x * scale
    want = exact.gradients(given[None], cotangent=cotangent)
    gradients(module.gradients(given[None], cotangent=cotangent), want)


@prop(points=8, cases=2)
def feed_forward_has_the_right_values(
    FeedForward, reference, x: Float["B T C"], y: Float["B T C", 3.0], hidden: Size["F"], seed: Seed
):
    """The output is down(gelu(up(x))), the same in train and in eval mode as long as dropout is 0."""
    dim = x.shape[-1]
    ffn, exact = twins(FeedForward, reference.FeedForward, seed, dim, hidden)
    twins(FeedForward, reference.FeedForward, seed + 2, dim, hidden)  # a second one, with weights of its own
    other, exact_other = twins(FeedForward, reference.FeedForward, seed + 1, dim, dim - 1, 0.4)
    plain, mixed = ffn(x), mostly(y, x)
    equal(plain, exact(x), tol=LOOSE)
    got = ffn(mixed)
    equal(got, exact(mixed), tol=LOOSE)
    same(got[0], plain[0], what="ffn(y)[0], the row that x has as well")
    for module in (ffn, other, exact_other):
        module.eval()
    equal(other(x), exact_other(x), tol=LOOSE, what="FeedForward(dim, hidden, 0.4).eval()(x)")
    equal(ffn(x), exact(x), tol=LOOSE, what="ffn.eval()(x)")
    equal(ffn.without_grad(y), exact(y), tol=LOOSE, what="with torch.no_grad(): ffn(y)")
    right_for_many(ffn, exact, x, LOOSE, "ffn")
    follows_its_weights(ffn, exact, seed, x, y, LOOSE, "ffn")


@prop(points=5, cases=3, sizes={"F": (60, 70)})
def gelu_is_the_exact_one(
    FeedForward, reference, x: Float["B T C"], hidden: Size["F"], at: Choice[-2.7, -1.5, -3.0], seed: Seed
):
    """The activation and its slope are those of the GELU with the error function: its tanh form is visibly off."""
    dim = x.shape[-1]
    ffn, exact = FeedForward(dim, hidden), reference.FeedForward(dim, hidden)
    weights = given_weights(exact, seed) | {
        "up.weight": torch.zeros(hidden, dim),
        "up.bias": torch.full((hidden,), at),
        "down.weight": torch.ones(dim, hidden),
    }
    fill(ffn, weights)
    fill(exact, weights)
    equal(ffn(x), exact(x))
    slope, expected = (module.gradients(x, cotangent=torch.ones(x.shape)).parameters for module in (ffn, exact))
    equal(slope.get("up.bias"), expected["up.bias"], what="up.bias.grad")
    ffn.eval()
    equal(ffn(x), exact(x), what="ffn.eval()(x)")


@prop(points=10, cases=2)
def block_has_the_right_values(
    PreNormBlock, reference, x: Float["B T C"], y: Float["B T C", 3.0], hidden: Size["F"], seed: Seed
):
    """The output is x + ffn(norm(x)), with the norm's default eps and the unnormalised x in the sum."""
    dim = x.shape[-1]
    block, exact = twins(PreNormBlock, reference.PreNormBlock, seed, dim, hidden)
    twins(PreNormBlock, reference.PreNormBlock, seed + 2, dim, hidden)  # a second one, with weights of its own
    other, exact_other = twins(PreNormBlock, reference.PreNormBlock, seed + 1, dim, dim - 1, 0.4)
    plain = block(x)
    equal(plain, exact(x), tol=LOOSE)
    equal(block(x[:1]), exact(x[:1]), tol=LOOSE, what="block(x[:1])")
    equal(block(x + 10.0), plain.double() + 10.0, zero=True, what="block(x + 10.0)")
    equal(block(with_quiet_rows(y)), exact(with_quiet_rows(y)), tol=LOOSE)
    other.eval()
    exact_other.eval()
    equal(other(x), exact_other(x), tol=LOOSE, what="PreNormBlock(dim, hidden, 0.4).eval()(x)")
    block.eval()
    equal(block(mostly(y, x)), exact(mostly(y, x)), tol=LOOSE, what="block.eval()(y)")
    equal(block.without_grad(x), exact(x), tol=LOOSE, what="with torch.no_grad(): block(x)")
    right_for_many(block, exact, x, LOOSE, "block")
    follows_its_weights(block, exact, seed, x, y, LOOSE, "block")


@prop(points=8, cases=2)
def zeroed_sublayer_returns_the_input(
    PreNormBlock, reference, x: Float["B T C", 2.0], hidden: Size["F"], seed: Seed, dropout: Choice[0.0, 0.5]
):
    """With all weights of the feed-forward at zero, the block returns its input exactly: the residual path is bare."""
    dim = x.shape[-1]
    block, exact = twins(PreNormBlock, reference.PreNormBlock, seed, dim, hidden, dropout)
    weights = given_weights(exact, seed)
    fill(block, {name: torch.zeros_like(weights[name]) for name in ("ffn.down.weight", "ffn.down.bias")})
    exactly(block(x), x, what="block.train()(x)")
    fill(block, {name: torch.zeros_like(value) for name, value in weights.items() if name.startswith("ffn.")})
    block.eval()
    exactly(block(x), x, what="block.eval()(x)")


@prop(points=4, follows_from=["block_has_the_right_values"], cases=3)
def shift_passes_through(
    PreNormBlock, reference, x: Float["B T C"], hidden: Size["F"], c: Choice[10.0, -3.0, 0.5], seed: Seed
):
    """Adding a constant to every number of x adds the same constant to the output: block(x + c) == block(x) + c."""
    block, _ = twins(PreNormBlock, reference.PreNormBlock, seed, x.shape[-1], hidden)
    plain = block(x)
    shape(plain, x.shape)
    finite(plain)
    equal(block(x + c), plain.double() + c, zero=True, what=f"block(x + {c:g})")


@prop(points=5, follows_from=VALUES, cases=2)
def positions_are_independent(
    LayerNorm,
    FeedForward,
    PreNormBlock,
    reference,
    x: Float["B T C"],
    y: Float["C", 3.0],
    hidden: Size["F"],
    b: Index["B"],
    t: Index["T"],
    seed: Seed,
):
    """Changing one vector changes the output there, and nowhere else: not at other positions, not in other rows."""
    dim = x.shape[-1]
    changed = x.clone()
    changed[b, t] = y
    elsewhere = torch.ones(x.shape[:-1], dtype=torch.bool)
    elsewhere[b, t] = False
    for name, cls, exact, sizes in every_class(LayerNorm, FeedForward, PreNormBlock, reference, dim, hidden):
        module, _ = twins(cls, exact, seed, *sizes)
        before, after = module(x), module(changed)
        shape(before, x.shape)
        same(after[elsewhere], before[elsewhere], what=f"{name}: out[elsewhere]")
        depends(after[b, t], before[b, t], what=f"{name}: out[b, t]")


@prop(points=5, cases=2)
def input_stays_as_it_was(
    LayerNorm,
    FeedForward,
    PreNormBlock,
    reference,
    x: Float["T B C"],
    hidden: Size["F"],
    seed: Seed,
    kind: Choice["transposed, expanded", "strided, wants a gradient"],
):
    """x may be any tensor (transposed, expanded, one that wants a gradient) and keeps its values, with no_grad() as well."""
    dim = x.shape[-1]
    transposed = x.transpose(0, 1)
    expanded = x[:, :1].expand(x.shape)
    strided = torch.stack([x, -x], dim=-1)[..., 0]
    for _name, cls, exact, sizes in every_class(LayerNorm, FeedForward, PreNormBlock, reference, dim, hidden):
        module, twin = twins(cls, exact, seed, *sizes)
        for given in (transposed, expanded) if "expanded" in kind else (strided, x.clone().requires_grad_()):
            plainly = functools.partial(module, given.detach().contiguous())
            right_or_its_own(inputs_unchanged(module, given).value, twin(given), plainly)
        module.eval()
        inputs_unchanged(module, transposed, grad=False)


@prop(points=6, cases=2)
def dropout_acts_in_training_only(
    FeedForward,
    PreNormBlock,
    reference,
    x: Float["B T C"],
    hidden: Size["F"],
    p: Choice[0.5, 0.3],
    seed: Seed,
    default: Choice["left out", "0.0"],
):
    """Dropout is on at first, off after eval(), on again after train(), whatever the grad mode; by default it never acts."""
    dim = x.shape[-1]
    for name, cls, exact, path in (
        ("FeedForward", FeedForward, reference.FeedForward, torch.zeros_like(x)),
        ("PreNormBlock", PreNormBlock, reference.PreNormBlock, x),
    ):
        module, twin = twins(cls, exact, seed, dim, hidden, dropout=p)
        at_first = module(x)
        module.eval()
        plain = module(x)
        shape(plain, x.shape)
        _drops(at_first, plain, path, p, f"{name}(dim, hidden, {p})(x)")
        one_position, one_row = (slice(None), slice(1)), slice(1)
        for run, other, at in ((module.without_grad, module, one_position), (module, module.without_grad, one_row)):
            module.eval()
            same(other(x), plain, what=f"{name}.eval()(x)")
            module.train()
            _drops(run(x[at]), plain[at], path[at], p, f"{name}(dim, hidden, {p}).eval().train()(x)")
        never = cls(dim, hidden) if default == "left out" else cls(dim, hidden, 0.0)
        fill(never, given_weights(twin, seed))
        same(never(x), plain, what=f"{name}(dim, hidden).train()(x)")


def _drops(got, plain, path, p, where, tol=1e-4):
    """Dropout has acted beside the residual path: `got` is not the answer of eval mode, but what dropout makes of it."""
    shape(got, plain.shape, what=where)
    finite(got, what=where)
    holds((got - plain).abs().max() > 0.05, "nothing_dropped", where=where, p=f"{p:g}")
    _kept(got.double() - path, plain.double() - path, p, tol, where)


def _kept(got, plain, p, tol, where=""):
    """Which elements were kept: those are divided by 1 - p, all others are zero."""
    kept = (got - plain / (1 - p)).abs() < got.abs()
    equal(got, torch.where(kept, plain / (1 - p), 0.0), tol, where, zero=True)
    return kept


@prop(points=5, cases=3, sizes={"B": (11, 13), "T": (30, 34), "C": (6, 12)})
def dropout_comes_last_and_keeps_the_mean(
    FeedForward, PreNormBlock, reference, x: Float["B T C"], hidden: Size["F"], p: Choice[0.25, 0.6, 0.43], seed: Seed
):
    """In train mode each element of the feed-forward's result is 0 with probability dropout, else divided by 1 - dropout."""
    dim = x.shape[-1]
    cotangent = random_like(x, seed)
    ffn, _ = twins(FeedForward, reference.FeedForward, seed, dim, hidden, p)
    ffn.eval()
    plain = ffn(x)
    shape(plain, x.shape)
    ffn.train()
    got = ffn.gradients(x, cotangent=cotangent)
    shape(got.value, x.shape)
    kept = _kept_by_chance(got.value, plain, p)
    kept_then = _kept_by_chance(ffn(x), plain, p)
    holds(bool((kept != kept_then).any()), "same_every_time")
    equal(got.parameters.get("down.bias"), (cotangent * kept / (1 - p)).sum((0, 1)), what="down.bias.grad")

    block, _ = twins(PreNormBlock, reference.PreNormBlock, seed, dim, hidden, p)
    block.eval()
    plain = block(x)
    shape(plain, x.shape)
    block.train()
    kept = _kept_by_chance(block(x).double() - x, plain - x, p)
    if p == 0.25:
        got = block.gradients(x, cotangent=cotangent)
        kept_then = _kept_by_chance(got.value.double() - x, plain - x, p)
        holds(bool((kept != kept_then).any()), "same_every_time")
        want = (cotangent * kept_then / (1 - p)).sum((0, 1))
        equal(got.parameters.get("ffn.down.bias"), want, what="ffn.down.bias.grad")


def _kept_by_chance(got, plain, p):
    """Which elements were kept. As many as there should be, everywhere, and the draws are independent."""
    plain = plain.double()
    varied(plain)
    kept = _kept(got.double(), plain, p, tol=1e-4)
    told = plain.abs() > 0.01  # a tiny number is like zero
    holds(int(told.sum()) > told.numel() / 2, "nothing_to_drop")
    share = float((~kept)[told].double().mean())
    slack = SURELY * (p * (1 - p) / int(told.sum())) ** 0.5
    holds(abs(share - p) <= slack, "dropped_share", share=f"{share:.3f}", p=f"{p:g}")
    for axis in range(3):
        slices, clear = (which.movedim(axis, 0).flatten(1) for which in (kept, told))
        draws = clear.sum(1).double()
        shares = (~slices & clear).sum(1) / draws.clamp(min=1)
        odd = draws * divergence(shares, p)
        index = int(odd.argmax())
        told_share = f"{float(shares[index]):.3f}"
        holds(odd[index] < ODD, "dropped_unevenly", axis="BTC"[axis], index=index, share=told_share, p=f"{p:g}")
        apart = ((slices[:, None] != slices) & clear[:, None] & clear).any(-1)
        holds(bool((apart | torch.eye(len(slices)).bool()).all()), "dropped_together", axis="BTC"[axis])
    return kept


@prop(points=6, cases=2)
def gradients_are_right(
    LayerNorm,
    FeedForward,
    PreNormBlock,
    reference,
    x: Float["B T C"],
    hidden: Size["F"],
    seed: Seed,
    alone: Choice["train", "eval"],
):
    """The gradients at the input and at every parameter are right, in train and in eval mode."""
    dim = x.shape[-1]
    cotangent = random_like(x, seed)
    for name, cls, exact, sizes in every_class(LayerNorm, FeedForward, PreNormBlock, reference, dim, hidden):
        tol = 1e-4 if name == "LayerNorm" else LOOSE
        module, twin = twins(cls, exact, seed, *sizes)
        want = twin.gradients(x, cotangent=cotangent)
        later = [x.flip(0) - 1.0]  # of a second call, before the first one's backward pass
        gradients(module.gradients(x, cotangent=cotangent, later=later), want, tol)
        module.train() if alone == "train" else module.eval()
        weights_alone = module.gradients(x, cotangent=cotangent, to_inputs=False)
        gradients(weights_alone, Gradients(want.value, [], want.parameters), tol)
        module.eval()
        strided = cotangent.mT.contiguous().mT
        gradients(module.gradients(x, cotangent=strided), want, tol)
    fresh, exact = LayerNorm(dim), reference.LayerNorm(dim)
    gradients(fresh.gradients(x[0], cotangent=cotangent[0]), exact.gradients(x[0], cotangent=cotangent[0]))


@prop(points=4, cases=2)
def parameters_are_counted(LayerNorm, FeedForward, PreNormBlock, dim: Size["C"], hidden: Size["F"]):
    """The norm has 2C parameters, the feed-forward 2CF + F + C, the block their sum; its norm starts as any norm does."""
    norm, ffn = 2 * dim, 2 * dim * hidden + hidden + dim
    block = PreNormBlock(dim, hidden, 0.1)
    count(_count(LayerNorm(dim)), norm, what="sum(p.numel() for p in LayerNorm(C).parameters())")
    count(_count(FeedForward(dim, hidden)), ffn, what="sum(p.numel() for p in FeedForward(C, F).parameters())")
    count(_count(block), norm + ffn, what="sum(p.numel() for p in PreNormBlock(C, F).parameters())")
    _starts_neutral(block, "norm.")


def _count(module):
    """Parameters that learn, shared ones once."""
    mine = [p for p in module.parameters().values() if p.same_as is None]
    holds(all(p.requires_grad for p in mine), "frozen_parameter")
    return sum(p.value.numel() for p in mine)


@prop(points=3, cases=1)
def written_by_hand(LayerNorm, FeedForward, PreNormBlock, forbidden, x: Float["B T C"], hidden: Size["F"]):
    """No layer norm of the library runs, in any of the three classes, under any name."""
    dim = x.shape[-1]
    norm, ffn, block = LayerNorm(dim), FeedForward(dim, hidden), PreNormBlock(dim, hidden, 0.1)
    for given in (x[0].clone().requires_grad_(), x.transpose(0, 1)[None]):
        avoids(norm.effects(given), forbidden)
    avoids(ffn.effects(x), forbidden)
    avoids(block.effects(x), forbidden)
    for module in (norm, block):
        module.eval()
        avoids(module.effects(x), forbidden)
    for kind in (torch.float64, torch.bfloat16):
        norm.method("to")(kind)
        avoids(norm.effects(x.to(kind)), forbidden)


@prop(points=2, cases=1)
def dtype_stays(
    LayerNorm, FeedForward, PreNormBlock, reference, x: Float["B T C"], hidden: Size["F"], seed: Seed
):  # fmt: skip
    """A module converted to another dtype answers in that dtype, with the right values as far as that dtype has them."""
    dim, x = x.shape[-1], with_quiet_rows(x)
    for name, cls, exact, sizes in every_class(LayerNorm, FeedForward, PreNormBlock, reference, dim, hidden):
        module, _ = twins(cls, exact, seed, *sizes)
        plain = module(x)
        for kind in (torch.float64, torch.float16, torch.bfloat16):  # the weights lose hardly more than each can hold
            what = f"{name}(...).to({kind})(x)"
            module.method("to")(kind)
            out = inputs_unchanged(module, x.to(kind), grad=kind is not torch.float16).value
            dtype(out, kind, what=what)
            same(out, plain, tol=1e-4 if kind is torch.float64 else 0.05, what=what)
    block, _ = twins(PreNormBlock, reference.PreNormBlock, seed, dim, hidden, 0.5)
    block.method("to")(torch.bfloat16)
    given = x.bfloat16()
    dropped = block(given)
    dtype(dropped, torch.bfloat16, what="PreNormBlock(dim, hidden, 0.5).to(torch.bfloat16)(x)")
    block.eval()
    _drops(dropped, block(given), given.double(), 0.5, "PreNormBlock(dim, hidden, 0.5).to(torch.bfloat16)(x)", tol=0.05)
