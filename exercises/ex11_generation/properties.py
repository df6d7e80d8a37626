"""ex11: choosing one token, and a loop around it.

Draws are judged by how often each token comes, in a few thousand draws and, where those look odd, in many more. It
fails only where a right sampler, of whatever kind, would look as odd less than once in 10^9 gradings: LIMIT is that
budget, shared among all the claims about frequencies.
"""

import functools
import itertools
import math

import torch

from grader.properties import (
    Choice,
    Float,
    Seed,
    Size,
    Stream,
    divergence,
    dtype,
    exactly,
    holds,
    inputs_unchanged,
    prop,
    raises,
    shape,
)

LIMIT = math.log(10_000 / 1e-9)  # of -log(chance); there are fewer than 10,000 claims about frequencies
ODD = 5.0  # a right sampler looks as odd as that now and then
ROUNDING = 2.0**-20  # a chance that single precision may give to what is impossible

TABLE = torch.tensor(  # three kinds of rows [3, V]: unsorted, no ties, one of them far from zero
    [
        [0.3, -1.2, 2.1, 0.9, -3.0, 1.4, -0.5],
        [-2.2, 1.0, 0.1, -0.7, 2.9, -4.0, 2.3],
        [41.0, 43.5, 39.2, 42.6, 40.1, 38.0, 43.1],
    ]
)
LOW = torch.tensor([[-1502.2, -1498.9, -1500.4, -1501.0, -1499.5, -1500.8, -math.inf]])  # below what may block
WIDE = torch.linspace(1.0, -1.0, 800)[None]  # [1, V]: more than any top_k of somebody's own, half below 0.0011

# ------------------------------------------------------------------------------------------- choosing one token


@prop(points=8, cases=2)
def temperature_zero_takes_the_largest(next_token, V: Size["V"], B: Size["B"], seed: Seed):
    """At temperature 0 each row gets the token of its largest logit, by however little, whatever `top_k` is."""
    logits = distinct(B, V, seed)
    near = 300 + logits / 500  # the same order, the gaps about 0.001
    tokens = next_token(logits, temperature=0)
    shape(tokens, [B])
    dtype(tokens, torch.int64)
    exactly(tokens, logits.argmax(dim=1))
    exactly(next_token(near.T.contiguous().T, 0.0), logits.argmax(dim=1), what="near each other, not contiguous")
    exactly(next_token(100 * logits.double(), 0, 40), logits.argmax(dim=1), what="float64, top_k=40")
    exactly(next_token(-near, temperature=0, top_k=3), logits.argmin(dim=1), what="near each other, top_k=3")
    exactly(next_token(logits[:1].expand(B, V), 0), logits[:1].argmax(dim=1).expand(B), what="expanded")
    exactly(next_token(logits[:1], 0), logits[:1].argmax(dim=1), what="one row")


@prop(points=5, cases=2)
def top_k_of_one_takes_the_largest(next_token, V: Size["V"], B: Size["B"], seed: Seed):
    """With `top_k=1` each row gets the token of its largest logit, at every temperature; so it does at a tiny one."""
    logits = distinct(B, V, seed)
    exactly(next_token(logits.double(), top_k=1), logits.argmax(dim=1), what="temperature=1, float64")
    exactly(next_token(logits, 2.5, 1), logits.argmax(dim=1), what="temperature=2.5")
    exactly(next_token(logits[:1], 1.5, 1), logits[:1].argmax(dim=1), what="one row")
    exactly(next_token(logits, temperature=1e-3), logits.argmax(dim=1), what="temperature=0.001")


@prop(points=9)
def tokens_follow_the_softmax(next_token):
    """Over many rows, each token comes as often as `softmax(logits)` says, for each row's own logits."""
    table = torch.cat([TABLE, LOW])

    def sample(rounds):
        kinds = torch.arange(rounds * 3_000) % len(table)
        yield next_token(table[kinds], generator=Stream(rounds)), kinds, table
        tokens = next_token(WIDE.expand(rounds * 120, -1))
        shape(tokens, [rounds * 120])
        yield in_parts(tokens, WIDE)

    holds_for(sample)


@prop(points=8, cases=4)
def temperature_divides_the_logits(next_token, setting: Choice[(0.6, 1), (2, 1), (1e-4, 1e-4), (200, 250)]):
    """At another temperature, tiny or huge, each token comes as often as `softmax(logits / temperature)` says."""
    temperature, spread = setting
    table = (TABLE * spread).double() if spread > 1 else TABLE * spread

    def sample(rounds):
        kinds = torch.arange(rounds * (6_000 if temperature < 1 else 3_000)) % len(TABLE)  # the cold shows more
        yield next_token(table[kinds], temperature), kinds, table / temperature

    holds_for(sample)


@prop(points=9, cases=5)
def top_k_keeps_the_k_largest(next_token, k: Choice[3, 2, 6, 40, 7], temperature: Choice[1.0, 1.7, 0.6]):
    """With `top_k`, only the k largest logits of each row are drawn, as often as the softmax over them says."""
    table = torch.cat([TABLE, LOW])

    def sample(rounds):
        kinds = torch.arange(rounds * 3_000) % len(table)
        logits = table.T[:, kinds].T  # not contiguous
        yield next_token(logits, temperature=temperature, top_k=k), kinds, largest(k, table) / temperature

    holds_for(sample)


@prop(points=5, cases=2)
def rows_are_drawn_by_themselves(next_token, top_k: Choice[None, 5]):
    """What one row gets says nothing about what another row gets in the same call, near it or far from it."""

    def sample(rounds):
        table, half = TABLE[:2, :5], rounds * 1_500
        kinds = torch.arange(2 * half) % 2
        tokens = next_token(table[kinds], top_k=top_k)
        yield tokens, kinds, table
        yield pairs(tokens[::2], tokens[1::2], kinds[::2], kinds[1::2], table)
        yield pairs(tokens[:half], tokens[half:], kinds[:half], kinds[half:], table)

    holds_for(sample)


@prop(points=8)
def same_generator_gives_same_tokens(next_token, generate, subject):
    """The state of the generator decides the tokens, nothing else does, and each draw takes it further."""
    flat = torch.linspace(0.0, 0.7, 8).repeat(60, 1)  # all tokens likely: 60 of them do not agree by chance
    model = subject.make("known_logits", table=flat[:1])
    prompt = torch.zeros(60, 3, dtype=torch.int64)
    draws = {
        "the same state": functools.partial(next_token, flat),
        "the same state, temperature=0.9": functools.partial(next_token, flat, 0.9),
        "the same state, top_k=6": functools.partial(next_token, flat, 1.8, 6),
        "the same state, generate": functools.partial(generate, model, prompt, 2, 1.8, 6),
    }
    for what, draw in draws.items():
        tokens = draw(generator=Stream(7))
        going = subject.make("generator", seed=7)
        exactly(draw(generator=going), tokens, what=what)
        differ(draw(generator=going), tokens, "state_not_used")
    found = []
    with subject.one_seed():
        model.method("mode")()  # a call that draws nothing
        untouched = torchs_dice(subject, model, "Identity")
        for draw in draws.values():
            found.append(draw())
            differ(torchs_dice(subject, model, "Linear"), untouched, "dice_stand_still")
            agree(draw(), found[-1], "not_torchs_dice")
    for draw, tokens in zip(draws.values(), found, strict=True):
        differ(draw(), tokens, "always_the_same")
    differ(generate(model, prompt, 1), generate(model, prompt, 1), "always_the_same")
    wide = subject.make("known_logits", table=WIDE, max_len=1)
    for n, arguments in ((4, {}), (17, {"temperature": 1.8, "top_k": 400})):  # 400 tokens: 4 alike are no chance
        one, other = (generate(wide, prompt[:1], n, **arguments, generator=Stream(7)) for _ in range(2))
        exactly(other, one, what="the same state, one row")
    going, tied = subject.make("generator", seed=7), torch.zeros(60, 8)
    agree(next_token(tied, 0, generator=going), next_token(tied, 0), "dice_at_zero")
    generate(model, prompt, 1, 0, generator=going)  # leaves it alone as well
    tokens = next_token(flat, generator=Stream(7))
    agree(next_token(flat, generator=going), tokens, "dice_at_zero")
    going.method("manual_seed")(7)
    exactly(next_token(flat, generator=going), tokens, what="the same state once more")


@prop(points=7)
def bad_arguments_raise(next_token, generate, subject):
    """`top_k` below 1 and a negative temperature raise `ValueError` with the value, whatever the other argument is."""
    model = subject.make("known_logits", table=TABLE)
    prompt = torch.tensor([[1, 2, 3], [4, 5, 6], [0, 1, 2]])
    for arguments, value in (
        ({"top_k": 0}, 0),
        ({"top_k": -1}, -1),
        ({"temperature": -0.5}, -0.5),
        ({"temperature": 0, "top_k": 0}, 0),
        ({"temperature": 0, "top_k": -2}, -2),
        ({"temperature": -0.25, "top_k": 1}, -0.25),
        ({"temperature": -2, "top_k": 40}, -2),
        ({"temperature": -0.001}, -0.001),
    ):
        raises(next_token, TABLE, error=ValueError, mentions=[value], **arguments)
        raises(generate, model, prompt, 2, error=ValueError, mentions=[value], **arguments)


# --------------------------------------------------------------------------------------------------- the loop


@prop(points=9, cases=8)
def each_step_sees_the_last_tokens(
    generate,
    subject,
    reference,
    B: Size["B"],
    setting: Choice[
        (3, 7, 6, "greedy"),
        (9, 4, 6, "clear"),
        (3, 10, 3, "cycle"),
        (6, 4, 6, "top_k"),
        (150, 4, 151, "greedy"),
        (1, 4, 6, "clear"),
        (8, 2, 6, "greedy, top_k"),
        (9, 0, 6, "clear"),
    ],
    seed: Seed,
):
    """Each step feeds exactly the last `min(t, max_len)` tokens, and takes the next one from the last position."""
    T, n, max_len, way = setting
    rows = 1 if way == "cycle" else B
    # "cycle": with max_len = 3 the next token after a, a + 1, a + 2 is a + 3, modulo 7
    tables = {"clear": 60 * distinct(11, 7, seed), "cycle": torch.eye(7)[(4 - torch.arange(7)) % 7]}
    table = tables.get(way, near_ties(seed))  # where it is clear, chance never takes the second; else ties nearly
    arguments = {
        "greedy": {"temperature": 0},
        "greedy, top_k": {"temperature": 0, "top_k": 40},
        "clear": {},
        "top_k": {"temperature": 1.5, "top_k": 1},
        "cycle": {"top_k": 1},
    }[way]
    model, prompt = writer(subject, rows, T, seed, max_len, table)
    if way == "cycle":  # 0 1 2 3 4 5 6 0 1 ..., so that windows come again
        prompt = torch.arange(3)[None]
    text = generate(model, prompt if way == "clear" else prompt.T.contiguous().T, n, **arguments)
    shape(text, [rows, T + n])
    dtype(text, torch.int64)
    windows = [text[row, max(0, t - max_len) : t].tolist() for t in range(T, T + n) for row in range(rows)]
    fed = [row.tolist() for ids in model.method("noted")()["fed"] for row in ids]
    wrong = next((ids for ids in fed if ids not in windows), None)
    holds(wrong is None, "fed_other_tokens", fed=wrong)
    holds(sorted(fed) == sorted(windows), "fed_how_often", got=len(fed), want=len(windows))
    ours, _ = writer(reference, rows, T, seed, max_len, table)
    exactly(text, reference.generate(ours, prompt, n, temperature=0), what="the text")
    if way == "greedy" or (way, T) == ("clear", 1):  # the same text again, from other weights
        table = near_ties(seed + 1) if way == "greedy" else 60 * distinct(11, 7, seed + 1)
        model.write({"table": table})
        other, _ = writer(reference, rows, T, seed, max_len, table)
        n = 7 if T == 3 else 2  # at full length once; elsewhere two steps show it
        want = reference.generate(other, prompt, n, temperature=0)
        exactly(generate(model, prompt, n, **arguments), want, what="the text after the weights changed")


@prop(points=6, follows_from=["each_step_sees_the_last_tokens"], cases=5)
def prompt_comes_first(
    generate, subject, B: Size["B"], lengths: Choice[(5, 4), (9, 0), (1, 7), (9, 4), (6, 0)], seed: Seed
):
    """The answer is the prompt, whole, followed by as many new tokens as were asked for; a long prompt is kept too."""
    T, n = lengths
    model, prompt = writer(subject, B, T, seed)
    text = generate(model, prompt, n)
    shape(text, [B, T + n])
    dtype(text, torch.int64)
    exactly(text[:, :T], prompt, what="the prompt")
    holds(((text >= 0) & (text < 7)).all(), "no_token")


@prop(points=2)
def cycle_goes_on(generate, subject):
    """A model that has learned the cycle 0 1 ... 7 continues 0 1 2 with 3 4 5 6 7 0 1 2 ..., past its `max_len`."""
    model = subject.make("cycle_model")
    text = generate(model, torch.tensor([[0, 1, 2]]), 20, top_k=1)
    exactly(text, torch.arange(23)[None] % 8)
    fed = len(model.method("noted")()["fed"])  # what it is fed comes back after 8 tokens
    holds(fed == 20, "fed_how_often", got=fed, want=20)


@prop(points=7, cases=5)
def model_runs_in_eval_mode(
    generate,
    subject,
    setting: Choice[("train", 2), ("eval", 1), ("train", 0), ("eval", 0), ("eval, a part of it train", 2)],
    seed: Seed,
):
    """At every step the model is in eval mode, and afterwards it is in the mode it came in, all its parts."""
    mode, n = setting
    model, prompt = writer(subject, 3, 8, seed)
    for rows, length, arguments in ((3, 5, {}), (1, 8, {"temperature": 0})):
        model.train() if mode == "train" else model.eval()
        if "part" in mode:
            model.attribute("part").train()
        generate(model, prompt[:rows, :length], n, **arguments)
        holds(model.attribute("training") == (mode == "train"), "mode_not_restored", want=mode.partition(",")[0])
        if "part" not in mode:  # what becomes of that part is nobody's promise
            holds(model.method("mode")() == mode, "mode_not_restored", want=mode)
            mode = "eval" if mode == "train" else "train"  # the mode of the first call is not that of the second
    for step, found in enumerate(model.method("noted")()["modes"]):
        holds(found == "eval", "ran_in_mode", step=step % max(n, 1), mode=found)


@prop(points=6)
def no_graph_is_built(generate, subject):
    """The model runs without gradients, and whether the caller has them switched on stays as it was."""
    for mode, rows, length, n, arguments in (
        ("eval", 3, 5, 0, {}),
        ("train", 3, 5, 2, {}),
        ("eval", 1, 8, 2, {"temperature": 0}),
    ):
        model, prompt = writer(subject, rows, length, 1)
        model.train() if mode == "train" else model.eval()
        keeps = generate.effects(model, prompt, n, **arguments).keeps_grad_mode
        for step, graph in enumerate(model.method("noted")()["graphs"]):
            holds(not graph, "built_a_graph", step=step)
        holds(keeps, "grad_mode_left")
    holds(model.parameters()["table"].requires_grad, "parameters_switched")
    model.method("requires_grad_")(False)
    generate(model, prompt, 1)
    holds(not model.parameters()["table"].requires_grad, "parameters_switched")


@prop(points=5, cases=5)
def texts_follow_the_softmax(
    generate,
    subject,
    setting: Choice[(1.0, 40, True), (0.6, None, True), (1.0, 3, False), (1.7, 3, True), (0.03, None, False)],
    seed: Seed,
):
    """Early and late in a text, tokens follow the softmax at this temperature and `top_k`, whatever came before."""
    temperature, k, seeded = setting
    table = TABLE[1:, :5] if seeded else TABLE[:1]  # the same logits at every step show who remembers
    table = table / 20 if temperature < 0.1 else table  # else all but the largest are out of reach
    width = table.shape[1]
    scaled = largest(k or width, table) / temperature
    given = {"temperature": temperature, "top_k": k}
    arguments = {name: value for name, value in given.items() if value not in (1, None)}

    def sample(rounds):
        prompt = torch.randint(width, (rounds * 300, 4), generator=torch.Generator().manual_seed(seed))
        prompt = prompt if seeded else torch.full_like(prompt, 2)  # the likeliest token, again and again
        model = subject.make("known_logits", table=table, max_len=6)
        text = generate(model, prompt, 5, **arguments, generator=Stream(seed + rounds) if seeded else None)
        shape(text, [len(prompt), 9])
        windows = [text[:, max(0, t - 6) : t] for t in range(4, 9)]
        sums = [(ids * torch.arange(1, ids.shape[1] + 1)).sum(1) for ids in windows]
        kinds, new = torch.stack(sums) % len(table), text[:, 4:].T  # both [n, B]
        for steps in (slice(0, 1), slice(1, 3), slice(3, 5)):
            yield new[steps].flatten(), kinds[steps].flatten(), scaled
        before = kinds[1:] * width + new[:-1]  # whatever the token before was
        yield new[1:].flatten(), before.flatten(), scaled.repeat_interleave(width, dim=0)
        even, odd = slice(None, None, 2), slice(1, None, 2)
        yield pairs(*(x[:, rows].flatten() for x in (new, kinds) for rows in (even, odd)), scaled)

    holds_for(sample)


@prop(points=3, cases=3)
def few_texts_follow_the_softmax(
    generate, subject, setting: Choice[(3, 66, 1, None), (1, 21, 1, None), (1, 10, 200, 600)]
):
    """The tokens of one text, or of three long ones, follow the softmax, and no text knows what another gets."""
    rows, n, temperature, k = setting  # 66 tokens pass a limit of 64, three rows may share out the dice among them
    table = WIDE / 10 if k else first_often(WIDE[:, ::5] if rows == 3 else WIDE)  # [1, V]
    arguments = {"temperature": temperature, "top_k": k} if k else {}

    def sample(rounds):
        model = subject.make("known_logits", table=table * temperature, max_len=1)
        texts = [generate(model, torch.zeros(rows, 1, dtype=torch.int64), n, **arguments) for _ in range(rounds)]
        for text in texts:
            shape(text, [rows, n + 1])
        drawn = torch.cat([text[:, 1:] for text in texts], dim=1)  # [rows, rounds * n]
        yield in_parts(drawn.flatten(), largest(k or len(table[0]), table))
        for one, other in itertools.combinations(drawn, 2):
            yield in_thirds(one, other, table)

    holds_for(sample)


@prop(points=3, cases=1)
def inputs_stay_as_they_are(next_token, generate, subject, logits: Float["B V"]):
    """The logits, the prompt, the model, and what the model answered are the same afterwards."""
    model, prompt = writer(subject, 3, 8, 2)
    for length, arguments in ((8, {"temperature": 0.5}), (2, {"top_k": 3}), (8, {"temperature": 0}), (5, {})):
        inputs_unchanged(next_token, logits, grad=False, **arguments)
        inputs_unchanged(next_token, logits.clone().requires_grad_(), **arguments)
        inputs_unchanged(generate, model, prompt[:, :length], 2, **arguments)
    inputs_unchanged(next_token, logits.double(), grad=False, temperature=0.5)
    holds(model.method("noted")()["spoiled"] == 0, "logits_spoiled")
    holds(model.attribute("max_len") == 6, "max_len_changed", got=model.attribute("max_len"), want=6)
    weights = model.parameters()["table"].value
    dtype(weights, torch.float32, what="the model's weights")
    exactly(weights, near_ties(2), what="the model's weights")


# ------------------------------------------------------------------------------------- what they are made of


def distinct(rows, width, seed):
    """Logits in which no two of a row are alike: [rows, width], positive and negative, in no order."""
    generator = torch.Generator().manual_seed(seed)
    return 0.7 * torch.rand(rows, width, generator=generator).argsort(dim=1) - 2.5


def near_ties(seed):
    """Logits [11, 7] of which the largest wins by little: whoever handles them on the way shifts the choice."""
    logits = distinct(11, 7, seed)
    second = logits.topk(2).indices[:, 1:]  # [11, 1]
    return logits.scatter(1, second, logits.amax(1, keepdim=True) - 0.0001)


def writer(side, rows, length, seed, max_len=6, table=None):
    """A model whose logits depend on all it is fed, and a prompt [rows, length] for it."""
    table = near_ties(seed) if table is None else table
    prompt = torch.randint(7, (rows, length), generator=torch.Generator().manual_seed(seed + 1))
    return side.make("known_logits", table=table, max_len=max_len), prompt


def torchs_dice(subject, model, old):
    """What torch's own dice, as they are now, make the weights of a new layer in place of the model's part of class `old`."""
    subject.make("replaced", module=model, old=old, by="Linear", in_features=2, out_features=2)
    return model.parameters()["part.weight"].value


def differ(tokens, others, key):
    holds(tokens.shape != others.shape or (tokens != others).any(), key)


def agree(tokens, others, key):
    holds(tokens.shape == others.shape and (tokens == others).all(), key)


def largest(k, table):
    """The table, with all but the k largest logits of each row blocked."""
    rank = table.argsort(dim=1, descending=True).argsort(dim=1)
    return table.masked_fill(rank >= k, -math.inf)


def first_often(logits):
    """The logits [1, V], but token 0 comes nearly half as often as all others together."""
    others = logits[:, 1:]
    return torch.cat([others.logsumexp(1, keepdim=True) - 0.7, others], dim=1)


def in_parts(tokens, logits):
    """Tokens drawn from logits [1, V], V large: how many lie in the first eighth, the first two, ..., and how many later."""
    known(tokens, logits)
    size = logits.shape[1]
    edges = range(size // 8, size, size // 8)
    later = (tokens[:, None] >= torch.tensor(edges)).long()  # [n, 7]
    parts = torch.stack(
        [torch.stack([logits[0, :e].logsumexp(0), logits[0, e:].logsumexp(0)]) for e in edges]
    )  # [7, 2]

    def told(part, late):
        return "how_often_among", {"first": edges[part] if late else 0, "last": (size if late else edges[part]) - 1}

    return later.flatten(), torch.arange(len(edges)).repeat(len(tokens)), parts, told


def in_thirds(tokens, others, logits):
    """Two draws of many tokens [1, V] taken as one: which third of the probability each of them comes from."""
    third = (3 * logits[0].double().softmax(0).cumsum(0) - 1e-9).long()  # [V]
    sizes = third.bincount().cumsum(0).tolist()
    names = [f"{first}-{end - 1}" for first, end in itertools.pairwise([0, *sizes])]
    weights = torch.stack([logits[:, third == part].logsumexp(1) for part in range(3)], dim=1)  # [1, 3]
    kinds = torch.zeros_like(tokens)
    return pairs(third[tokens], third[others], kinds, kinds, weights, names)


def pairs(tokens, others, kinds, other_kinds, logits, names=None):
    """Two draws taken as one: the logits of a pair are what they are if neither knows of the other."""
    count, width = logits.shape
    log_p = logits.double().log_softmax(dim=1)
    both = (log_p[:, None, :, None] + log_p[None, :, None, :]).reshape(count * count, width * width)

    def told(kind, pair):
        one, other = ((names or range(width))[token] for token in divmod(pair, width))
        return "how_often_together", {"one": one, "other": other}

    return tokens * width + others, kinds * count + other_kinds, both, told


def known(tokens, logits):
    dtype(tokens, torch.int64)
    holds(((tokens >= 0) & (tokens < logits.shape[1])).all(), "no_token")


def holds_for(sample):
    """In what `sample` draws, token i is drawn from the softmax of `logits[kinds[i]]`, always."""
    for rounds in (1, 3, 10):  # chance rarely looks odd twice, a wrong sampler looks odder each time
        found = [claim for drawn in sample(rounds) for claim in claims(*drawn)]
        for odd, key, params in found:
            holds(odd < LIMIT, key, **params)
        if all(odd < ODD for odd, _, _ in found):
            return


def claims(tokens, kinds, logits, told=lambda kind, token: ("how_often", {"token": token})):
    """How odd each token's share is, and how odd the mean of the logits drawn: -log(chance), message, numbers.

    `told` is the message, and what it says of a token, where the tokens stand for something else.
    """
    shape(tokens, [len(kinds)])
    known(tokens, logits)
    x = logits.double()
    p = x.softmax(dim=1)  # [K, V]
    times = torch.bincount(kinds * x.shape[1] + tokens, minlength=x.numel()).view(x.shape).double()
    draws = times.sum(1, keepdim=True)  # [K, 1]
    odd = draws * divergence(times / draws.clamp(min=1), p.clamp(ROUNDING, 1 - ROUNDING))
    kind, token = divmod(int(odd.argmax()), x.shape[1])
    expected = f"{float(draws[kind] * p[kind, token]):.4g}"
    key, which = told(kind, token)
    counts = {"draws": int(draws[kind]), "times": int(times[kind, token]), "expected": expected}
    yield float(odd[kind, token]), key, {**which, **counts}
    if key == "how_often_among":  # the kinds are the same draws over and over
        return
    possible = p > 0
    x, times = (x - x.amax(1, keepdim=True)).where(possible, 0.0), times.where(possible, 0.0)
    got, want = float((times * x).sum() / times.sum()), float((draws * p * x).sum() / draws.sum())
    yield tilt(times, x, p), "mean_logit", {"got": f"{got:.4g}", "want": f"{want:.4g}", "draws": int(draws.sum())}


def tilt(times, x, p):
    """-log of the Chernoff bound on the chance of so large, or so small, a sum of the logits drawn."""
    slopes = torch.tensor([sign * 0.005 * 2**step for sign in (1, -1) for step in range(8)], dtype=torch.float64)
    moments = (p * (slopes[:, None, None] * x).exp()).sum(-1).log()  # [16, K]
    return float((slopes * (times * x).sum() - moments @ times.sum(1)).max())
