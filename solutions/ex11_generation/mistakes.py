"""What learners get wrong about choosing a token, and about the loop around it."""

from grader.mistakes import Mistake

DRAW = """    width = logits.shape[-1] if top_k is None else min(top_k, logits.shape[-1])
    kept, tokens = logits.topk(width, dim=-1)  # [B, k] and [B, k], largest first
    probabilities = ((kept - kept[:, :1]) / temperature).softmax(dim=-1)  # [B, k]
    chosen = torch.multinomial(probabilities, num_samples=1, generator=generator)  # [B, 1], places among the kept
    return tokens.gather(dim=-1, index=chosen).squeeze(-1)  # [B]"""
PROBABILITIES = "    probabilities = ((kept - kept[:, :1]) / temperature).softmax(dim=-1)  # [B, k]"
CHOSEN = (
    "    chosen = torch.multinomial(probabilities, num_samples=1, generator=generator)  # [B, 1], places among the kept"
)
WIDTH = "    width = logits.shape[-1] if top_k is None else min(top_k, logits.shape[-1])"
GREEDY = """    if temperature == 0:
        return logits.argmax(dim=-1)  # [B]
"""
NEGATIVE = """    if temperature < 0:
        raise ValueError(f"temperature must not be negative, got {temperature}")
"""
TOO_FEW = """    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k must be at least 1, got {top_k}")
"""
BOTH = NEGATIVE + TOO_FEW
MODE = "    was_training = model.training\n"
WINDOW = "                window = idx[:, -model.max_len :]  # [B, min(t, max_len)]"
LOGITS = "                logits = model(window)[:, -1]  # [B, V]"
NEW = "                new = next_token(logits, temperature, top_k, generator)  # [B]"
CAT = "                idx = torch.cat([idx, new[:, None].to(idx.dtype)], dim=1)  # [B, t + 1]"
RETURN = "    return idx  # [B, T + max_new_tokens]"
MASKED = """    scaled = logits / temperature
    if top_k is not None:
        smallest = scaled.topk(min(top_k, logits.shape[-1])).values[:, -1:]
        scaled = scaled.masked_fill(scaled < smallest, {fill})
    return torch.multinomial(scaled.softmax(-1), 1, generator=generator).squeeze(-1)"""
IMPORTS = "from torch import Tensor, nn\n"

MISTAKES = [
    # ------------------------------------------------------------------------------------------- temperature
    Mistake(
        "divides_by_a_temperature_of_zero",
        old=GREEDY,
        new="",
        caught_by="temperature_zero_takes_the_largest",
        en=(
            "divides by a temperature of 0",
            "0 / 0 and x / 0 make NaN and infinity, and the draw from them fails or is nonsense. Temperature 0 is an "
            "agreement: take the largest logit.",
        ),
        zh=(
            "把 logits 除以了 0",
            "0 / 0 和 x / 0 会得到 NaN 和无穷大，从中采样要么报错，要么毫无意义。温度为 0 是一种约定：取最大的 logit。",
        ),
    ),
    Mistake(
        "takes_temperature_zero_for_one",
        old=GREEDY,
        new="    temperature = temperature or 1.0\n",
        caught_by="temperature_zero_takes_the_largest",
        en=(
            "draws at temperature 1 where temperature 0 was asked for",
            "0 is false in Python, so `temperature or 1.0` replaces it. Temperature 0 means the largest logit.",
        ),
        zh=(
            "要求温度 0，却按温度 1 采样",
            "0 在 Python 里为假，所以 `temperature or 1.0` 会把它换掉。温度 0 的意思是取最大的 logit。",
        ),
    ),
    Mistake(
        "multiplies_by_the_temperature",
        old=PROBABILITIES,
        new="    probabilities = ((kept - kept[:, :1]) * temperature).softmax(dim=-1)",
        caught_by="temperature_divides_the_logits",
        en=(
            "multiplies the logits by the temperature",
            "A high temperature should make the choice more even. Try it with two logits, 1 and 3, at temperature 2.",
        ),
        zh=("把 logits 乘以了温度", "温度高应当让选择更平均。拿两个 logit 1 和 3、温度 2 试一试。"),
    ),
    Mistake(
        "ignores_the_temperature",
        old=PROBABILITIES,
        new="    probabilities = (kept - kept[:, :1]).softmax(dim=-1)",
        caught_by="temperature_divides_the_logits",
        en=(
            "draws from the same softmax at every temperature",
            "The logits are divided by the temperature before the softmax. Dividing the probabilities changes nothing: "
            "the draw brings them back to a sum of 1.",
        ),
        zh=(
            "不论温度是多少，都按同一个 softmax 采样",
            "要在 softmax 之前把 logits 除以温度。把概率除以温度不会有任何效果：采样时它们又会被归一化。",
        ),
    ),
    Mistake(
        "divides_by_the_temperature_twice",
        old=PROBABILITIES,
        new="    probabilities = ((kept - kept[:, :1]) / temperature / temperature).softmax(dim=-1)",
        caught_by="temperature_divides_the_logits",
        en=(
            "divides by the temperature twice",
            "At temperature 1 and in the greedy case nothing shows. Make sure that only one place in the file divides.",
        ),
        zh=("除以了两次温度", "温度为 1 或 0（贪心）时看不出来。请确认整个文件只有一处做这个除法。"),
    ),
    Mistake(
        "takes_the_root_of_the_temperature",
        old=PROBABILITIES,
        new="    probabilities = ((kept - kept[:, :1]) / temperature**0.5).softmax(dim=-1)",
        caught_by="temperature_divides_the_logits",
        en=(
            "divides by the square root of the temperature",
            "The root belongs to the scale of attention. Here the logits are divided by the temperature itself.",
        ),
        zh=("除以的是温度的平方根", "开方是注意力缩放里的事。这里直接把 logits 除以温度。"),
    ),
    Mistake(
        "takes_a_low_temperature_for_zero",
        old=GREEDY,
        new=GREEDY.replace("== 0", "< 0.1"),
        caught_by="temperature_divides_the_logits",
        en=(
            "takes the largest logit at every low temperature",
            "Only 0 means that. At temperature 0.01 two logits that differ by 0.01 are still 73 to 27.",
        ),
        zh=(
            "温度一低就直接取最大的 logit",
            "只有 0 才是这个意思。温度 0.01 时，相差 0.01 的两个 logit 仍然是 73 比 27。",
        ),
    ),
    Mistake(
        "draws_at_temperature_zero",
        old=GREEDY,
        new="    if temperature == 0:\n"
        "        largest = logits == logits.amax(dim=-1, keepdim=True)\n"
        "        return torch.multinomial(largest.to(logits.dtype), 1, generator=generator).squeeze(-1)\n",
        caught_by="same_generator_gives_same_tokens",
        en=(
            "draws among the largest logits at temperature 0",
            "Where two logits are equally large the answer changes from call to call, and the generator moves on. At "
            "temperature 0 nothing is drawn: argmax.",
        ),
        zh=(
            "temperature 为 0 时在最大的 logits 之间采样",
            "两个 logits 一样大时，每次调用的结果都可能不同，generator 的状态也会改变。temperature 为 0 时不采样，用 argmax。",
        ),
    ),
    Mistake(
        "does_not_go_below_a_tenth",
        old=PROBABILITIES,
        new="    probabilities = ((kept - kept[:, :1]) / max(temperature, 0.1)).softmax(dim=-1)",
        caught_by="temperature_divides_the_logits",
        en=(
            "raises a low temperature before it divides by it",
            "A floor under the temperature answers another question than the one asked. Only 0 cannot be divided by, and "
            "it has a path of its own; subtract the largest logit first if exp overflows.",
        ),
        zh=(
            "先把很低的温度抬高，再拿它作除数",
            "给温度设了下限，算的就不再是调用者要的分布。不能作除数的只有 0，它另有处理；如果怕 exp 溢出，先减去最大的 logit。",
        ),
    ),
    # ----------------------------------------------------------------------------------------------- the draw
    Mistake(
        "returns_narrow_tokens",
        old="    return tokens.gather(dim=-1, index=chosen).squeeze(-1)  # [B]",
        new="    return tokens.gather(dim=-1, index=chosen).squeeze(-1).int()",
        caught_by="tokens_follow_the_softmax",
        en=(
            "returns the drawn tokens as another dtype than int64",
            "Token ids are int64 in torch, as argmax, multinomial and topk return them. Nothing needs to be converted.",
        ),
        zh=(
            "采到的 token 不是 int64",
            "torch 里的 token id 是 int64，argmax、multinomial、topk 返回的就是它。不需要再转换。",
        ),
    ),
    Mistake(
        "takes_the_largest_always",
        old=CHOSEN,
        new="    chosen = probabilities.argmax(dim=-1, keepdim=True)",
        caught_by="tokens_follow_the_softmax",
        en=(
            "takes the most probable token instead of drawing one",
            "Then every text from the same prompt is the same. At a temperature above 0 a token of probability 0.2 "
            "comes one time in five.",
        ),
        zh=(
            "总是取概率最大的 token，而不是采样",
            "这样同一段提示词永远得到同一段文本。温度大于 0 时，概率 0.2 的 token 应当五次里出现一次。",
        ),
    ),
    Mistake(
        "draws_evenly",
        old=CHOSEN,
        new="    chosen = torch.multinomial(torch.ones_like(probabilities), num_samples=1, generator=generator)",
        caught_by="tokens_follow_the_softmax",
        en=("draws all tokens equally often", "The probabilities are computed but not used in the draw."),
        zh=("所有 token 被采到的机会都一样", "概率算出来了，采样时却没有用上。"),
    ),
    Mistake(
        "adds_normal_noise",
        old=CHOSEN,
        new="    noise = torch.randn(probabilities.shape, generator=generator)\n"
        "    chosen = (probabilities.log() + noise).argmax(dim=-1, keepdim=True)",
        caught_by="tokens_follow_the_softmax",
        en=(
            "adds noise of the wrong kind before the argmax",
            "argmax(logits + noise) follows the softmax only for Gumbel noise, -log(-log(u)). With normal noise the "
            "frequencies look similar and are wrong.",
        ),
        zh=(
            "在 argmax 之前加了不合适的噪声",
            "只有 Gumbel 噪声 -log(-log(u)) 才能让 argmax(logits + 噪声) 服从 softmax。用正态噪声，频率看着像，其实不对。",
        ),
    ),
    Mistake(
        "mixes_in_an_even_draw",
        old=PROBABILITIES,
        new="    probabilities = 0.97 * ((kept - kept[:, :1]) / temperature).softmax(dim=-1) + 0.03 / width",
        caught_by="tokens_follow_the_softmax",
        en=(
            "gives every token a little extra probability",
            "Even a small floor under the probabilities lets tokens through that the model all but excludes: over a "
            "long text they will come.",
        ),
        zh=(
            "给每个 token 都加了一点概率",
            "哪怕只给每个概率加一点点，模型几乎排除掉的 token 也会漏进来：文本一长，它们就一定会出现。",
        ),
    ),
    Mistake(
        "drops_the_unlikely_tokens",
        old=PROBABILITIES,
        new=PROBABILITIES + "\n    probabilities = probabilities * (probabilities > 0.01)",
        caught_by="tokens_follow_the_softmax",
        en=(
            "never draws the unlikely tokens",
            "Cutting the tail off is what `top_k` is for, when the caller asks for it. Otherwise every token can come, "
            "as often as the softmax says.",
        ),
        zh=(
            "从来采不到可能性小的 token",
            "截去尾部是 `top_k` 的事，而且要调用者要求才做。否则每个 token 都可能出现，频率由 softmax 决定。",
        ),
    ),
    Mistake(
        "uses_the_first_row_for_all",
        old=PROBABILITIES,
        new="    probabilities = ((kept - kept[:, :1]) / temperature).softmax(dim=-1)[:1].expand(kept.shape)",
        caught_by="tokens_follow_the_softmax",
        en=(
            "draws every row from the probabilities of the first one",
            "Each row is a text of its own, with its own logits. With one row, or with equal rows, nothing shows.",
        ),
        zh=(
            "所有行都按第一行的概率采样",
            "每一行是各自独立的文本，有自己的 logits。只有一行，或各行相同时，看不出来。",
        ),
    ),
    Mistake(
        "draws_one_number_for_all_rows",
        old=CHOSEN,
        new="    u = torch.rand(1, generator=generator)\n"
        "    chosen = (probabilities.cumsum(-1) < u).sum(-1, keepdim=True).clamp(max=width - 1)",
        caught_by="rows_are_drawn_by_themselves",
        en=(
            "throws the dice once for all rows",
            "Rows with the same logits then always get the same token. Each row needs a random number of its own.",
        ),
        zh=("所有行共用一个随机数", "这样 logits 相同的行总是得到同一个 token。每一行都需要自己的随机数。"),
    ),
    Mistake(
        "draws_neighbours_together",
        old=CHOSEN,
        new="    u = torch.rand((len(logits) + 1) // 2, 1, generator=generator).repeat_interleave(2, 0)[: len(logits)]\n"
        "    chosen = (probabilities.cumsum(-1) < u).sum(-1, keepdim=True).clamp(max=width - 1)",
        caught_by="rows_are_drawn_by_themselves",
        en=(
            "lets neighbouring rows share a random number",
            "Each token comes as often as it should, but two rows rise and fall together. Draw one number for each row.",
        ),
        zh=("相邻的行共用一个随机数", "单看每个 token 的频率是对的，但两行总是一起变化。每一行都要有自己的随机数。"),
    ),
    Mistake(
        "spreads_the_draws_over_the_rows",
        old=CHOSEN,
        new="    u = (torch.arange(len(logits))[:, None] + torch.rand(len(logits), 1, generator=generator)) / len(logits)\n"
        "    chosen = (probabilities.cumsum(-1) < u).sum(-1, keepdim=True).clamp(max=width - 1)",
        caught_by="rows_are_drawn_by_themselves",
        en=(
            "deals the random numbers out evenly over the rows",
            "The first rows always get the likely tokens. Independent means that a row's number is drawn from the "
            "whole of 0 to 1, whatever the others got.",
        ),
        zh=(
            "把随机数按大小排好，依次均匀地分给各行",
            "这样前面的行总是得到可能性大的 token。独立的意思是：每一行的随机数都取自整个 0 到 1 的区间，与别的行无关。",
        ),
    ),
    # -------------------------------------------------------------------------------------------------- top_k
    Mistake(
        "ignores_top_k",
        old=WIDTH,
        new="    width = logits.shape[-1]",
        caught_by="top_k_of_one_takes_the_largest",
        en=("takes no notice of `top_k`", "All tokens take part in the draw, whatever `top_k` says."),
        zh=("没有理会 `top_k`", "不管 `top_k` 是多少，所有 token 都参加了采样。"),
    ),
    Mistake(
        "keeps_one_too_many",
        old=WIDTH,
        new="    width = logits.shape[-1] if top_k is None else min(top_k + 1, logits.shape[-1])",
        caught_by="top_k_keeps_the_k_largest",
        en=(
            "keeps k + 1 tokens",
            "`top_k=1` must leave one token. Is the k-th largest at index k, or at k - 1?",
        ),
        zh=("保留了 k + 1 个 token", "`top_k=1` 应当只剩一个 token。第 k 大的那个，下标是 k 还是 k - 1？"),
    ),
    Mistake(
        "keeps_one_too_few",
        old=WIDTH,
        new="    width = logits.shape[-1] if top_k is None else max(1, min(top_k, logits.shape[-1]) - 1)",
        caught_by="top_k_keeps_the_k_largest",
        en=(
            "leaves the k-th largest logit out",
            "A token whose logit equals the k-th largest stays in: compare with <, not with <=, when you block.",
        ),
        zh=("把第 k 大的 logit 也去掉了", "等于第 k 大的那个 token 要留下：屏蔽时用 <，不要用 <=。"),
    ),
    Mistake(
        "fails_above_the_vocabulary",
        old=WIDTH,
        new="    width = logits.shape[-1] if top_k is None else top_k",
        caught_by="top_k_keeps_the_k_largest",
        en=(
            "fails when `top_k` is larger than the vocabulary",
            "topk cannot find 40 of 7. A `top_k` above V leaves all tokens in.",
        ),
        zh=("`top_k` 大于词表时会出错", "topk 没法从 7 个里找出 40 个。`top_k` 超过 V 时，所有 token 都留下。"),
    ),
    Mistake(
        "draws_evenly_among_the_kept",
        old=PROBABILITIES,
        new=PROBABILITIES
        + "\n    if top_k is not None:\n        probabilities = torch.full_like(probabilities, 1 / width)",
        caught_by="top_k_keeps_the_k_largest",
        en=(
            "draws the kept tokens equally often",
            "Among the k kept ones the softmax still decides.",
        ),
        zh=("在留下的 token 里等概率采样", "在留下的 k 个之中，仍然由 softmax 决定各自的机会。"),
    ),
    Mistake(
        "blocks_with_zeros",
        old=DRAW,
        new="""    scaled = logits / temperature
    if top_k is not None and top_k < logits.shape[-1]:
        smallest = scaled.topk(top_k).values[:, -1:]
        scaled = scaled.where(scaled >= smallest, 0.0)
    return torch.multinomial(scaled.softmax(-1), 1, generator=generator).squeeze(-1)""",
        caught_by="top_k_keeps_the_k_largest",
        en=(
            "sets the blocked logits to 0",
            "exp(0) is 1, not 0: a logit of 0 can be the largest of all. What has an exponential of 0?",
        ),
        zh=("把要屏蔽的 logit 设成了 0", "exp(0) 是 1，不是 0：logit 为 0 甚至可能是最大的。什么数的指数才是 0？"),
    ),
    Mistake(
        "blocks_with_a_number_that_is_not_small_enough",
        old=DRAW,
        new=MASKED.format(fill="-100.0"),
        caught_by="top_k_keeps_the_k_largest",
        en=(
            "blocks logits with a number that others can be below",
            "Only differences of logits count, so a row may lie as low as it likes: where the kept logits are below the "
            "number, the blocked tokens win. -inf is below everything.",
        ),
        zh=(
            "用来屏蔽的数不够小，别的 logit 可能比它还低",
            "起作用的只是 logit 之差，一行可以整个都很低：如果留下的 logit 比那个数还低，被屏蔽的 token 反而占了上风。-inf "
            "比什么都低。",
        ),
    ),
    Mistake(
        "looks_for_the_largest_in_the_whole_batch",
        old=DRAW,
        new="""    scaled = logits / temperature
    if top_k is not None:
        kept = min(top_k, logits.shape[-1]) * len(logits)
        smallest = scaled.flatten().topk(kept).values[-1]
        scaled = scaled.masked_fill((scaled < smallest) & (scaled < scaled.amax(-1, keepdim=True)), float("-inf"))
    return torch.multinomial(scaled.softmax(-1), 1, generator=generator).squeeze(-1)""",
        caught_by="top_k_keeps_the_k_largest",
        en=(
            "looks for the largest logits in the whole batch",
            "Rows have their own levels: the k largest are looked for in each row, along the last axis.",
        ),
        zh=("在整个 batch 里找最大的 logits", "各行的水平不同：要沿最后一维，在每一行里各找 k 个最大的。"),
    ),
    Mistake(
        "forgets_which_tokens_were_kept",
        old="    return tokens.gather(dim=-1, index=chosen).squeeze(-1)  # [B]",
        new="    return (chosen if top_k is not None else tokens.gather(dim=-1, index=chosen)).squeeze(-1)",
        caught_by="top_k_of_one_takes_the_largest",
        en=(
            "returns the place among the kept tokens instead of the token",
            "topk sorts: place 0 is the largest logit, not token 0. Its indices say which token stands at which place.",
        ),
        zh=(
            "返回的是在保留下来的 k 个里的下标，而不是 token 本身",
            "topk 会排序：第 0 位是最大的 logit，不是 0 号 token。它返回的 indices 说明每一位是哪个 token。",
        ),
    ),
    Mistake(
        "applies_a_sorted_mask_to_unsorted_logits",
        old=DRAW,
        new="""    scaled = logits / temperature
    if top_k is not None:
        scaled = scaled.masked_fill(torch.arange(scaled.shape[-1]) >= top_k, float("-inf"))
    return torch.multinomial(scaled.softmax(-1), 1, generator=generator).squeeze(-1)""",
        caught_by="top_k_keeps_the_k_largest",
        en=(
            "keeps the first k tokens instead of the k largest",
            "A mask made for sorted logits must be brought back into the order of the tokens before it is used.",
        ),
        zh=(
            "保留的是前 k 个 token，而不是最大的 k 个",
            "为排好序的 logits 做的掩码，用之前要还原成 token 原来的顺序。",
        ),
    ),
    # -------------------------------------------------------------------------------------------- generator
    Mistake(
        "ignores_the_generator",
        old=CHOSEN,
        new="    chosen = torch.multinomial(probabilities, num_samples=1)",
        caught_by="same_generator_gives_same_tokens",
        en=(
            "draws from torch's global random numbers although a generator was given",
            "Whoever hands in a generator wants to repeat the text. Every random function of torch takes `generator=`.",
        ),
        zh=(
            "给了 generator，却仍用 torch 的全局随机数",
            "传入 generator 的人是想重现同一段文本。torch 的每个随机函数都接受 `generator=`。",
        ),
    ),
    Mistake(
        "starts_the_generator_anew",
        old=CHOSEN,
        new="    if generator is not None:\n        generator = torch.Generator().manual_seed(generator.initial_seed())\n"
        + CHOSEN,
        caught_by="same_generator_gives_same_tokens",
        en=(
            "starts again from the generator's seed at each call",
            "Then every step of a text uses the same random numbers. A generator has a state that moves on with each "
            "draw: use it, do not copy it.",
        ),
        zh=(
            "每次调用都从 generator 的种子重新开始",
            "这样一段文本的每一步用的都是同样的随机数。generator 有状态，每采样一次就前进一步：要用它本身，不要复制。",
        ),
    ),
    Mistake(
        "makes_a_generator_of_its_own",
        old=CHOSEN,
        new="    generator = generator if generator is not None else torch.Generator()\n" + CHOSEN,
        caught_by="same_generator_gives_same_tokens",
        en=(
            "makes a new generator where none was given",
            "A fresh torch.Generator() always starts from the same default seed: every call draws the same tokens.",
        ),
        zh=(
            "没有给 generator 时自己新建了一个",
            "新建的 torch.Generator() 总是从同一个默认种子开始：每次调用采到的 token 都一样。",
        ),
    ),
    Mistake(
        "keeps_a_generator_for_itself",
        edits=[
            (IMPORTS, IMPORTS + "\nOWN = torch.Generator().manual_seed(1234)\n"),
            (CHOSEN, "    generator = OWN if generator is None else generator\n" + CHOSEN),
        ],
        caught_by="same_generator_gives_same_tokens",
        en=(
            "draws from a generator of the file's own where none was given",
            "Whoever calls torch.manual_seed expects to get the same text again. Without a generator, torch's own one "
            "decides: hand None on.",
        ),
        zh=(
            "没有给 generator 时，用的是文件里自备的一个",
            "调用 torch.manual_seed 的人希望再次得到同样的文本。没有给 generator 时用 torch 自己的随机数：把 None 原样传下去。",
        ),
    ),
    # ------------------------------------------------------------------------------------------ bad arguments
    Mistake(
        "accepts_a_negative_temperature",
        edits=[(NEGATIVE + TOO_FEW + GREEDY, TOO_FEW + GREEDY), (BOTH + MODE, TOO_FEW + MODE)],
        caught_by="bad_arguments_raise",
        en=(
            "accepts a negative temperature",
            "A negative temperature turns the order round: the least likely token becomes the most likely one. Nobody "
            "means that; say so with a ValueError.",
        ),
        zh=(
            "接受了负的温度",
            "温度为负会把顺序颠倒过来：最不可能的 token 变成最可能的。没有人想要这样，应当抛出 ValueError。",
        ),
    ),
    Mistake(
        "checks_top_k_too_late",
        edits=[(TOO_FEW + GREEDY, GREEDY + TOO_FEW), (BOTH + MODE, NEGATIVE + MODE)],
        caught_by="bad_arguments_raise",
        en=(
            "checks `top_k` only where it is used",
            "At temperature 0 the function returns before the check, and a wrong call goes unnoticed until somebody "
            "raises the temperature. Check arguments first.",
        ),
        zh=(
            "到用的时候才检查 `top_k`",
            "温度为 0 时函数在检查之前就返回了，错误的调用要等有人调高温度才会暴露。参数检查应当放在最前面。",
        ),
    ),
    Mistake(
        "accepts_a_top_k_of_zero",
        edits=[
            (
                TOO_FEW + GREEDY,
                "    top_k = top_k or None\n" + TOO_FEW + GREEDY,
            ),
            (BOTH + MODE, "    top_k = top_k or None\n" + BOTH + MODE),
        ],
        caught_by="bad_arguments_raise",
        en=(
            "takes `top_k=0` for no limit",
            "0 is false in Python, so `if top_k:` and `top_k or ...` let it pass. No limit is None; 0 tokens to choose "
            "from is an error.",
        ),
        zh=(
            "把 `top_k=0` 当成了不限制",
            "0 在 Python 里为假，所以 `if top_k:` 和 `top_k or ...` 会放它过去。不限制是 None；从 0 个 token 里选则是错误。",
        ),
    ),
    Mistake(
        "takes_a_top_k_of_minus_one_for_no_limit",
        edits=[
            (TOO_FEW + GREEDY, "    top_k = None if top_k == -1 else top_k\n" + TOO_FEW + GREEDY),
            (BOTH + MODE, BOTH.replace("top_k < 1", "top_k < 1 and top_k != -1") + MODE),
        ],
        caught_by="bad_arguments_raise",
        en=(
            "takes `top_k=-1` for no limit",
            "Some libraries agree on that. Here no limit is None, and every number below 1 is an error.",
        ),
        zh=(
            "把 `top_k=-1` 当成了不限制",
            "有些库是这样约定的。这里不限制是 None，凡是小于 1 的数都是错误。",
        ),
    ),
    Mistake(
        "keeps_the_bad_value_to_itself",
        edits=[
            (BOTH + GREEDY, BOTH.replace(", got {temperature}", "").replace(", got {top_k}", "") + GREEDY),
            (BOTH + MODE, BOTH.replace(", got {temperature}", "").replace(", got {top_k}", "") + MODE),
        ],
        caught_by="bad_arguments_raise",
        en=(
            "raises without saying which value was wrong",
            "Whoever reads the message three calls further up needs the number. Put the value into the text.",
        ),
        zh=("报错时没有说明是哪个值不对", "隔着几层调用看到这条消息的人需要知道那个数。把值写进消息里。"),
    ),
    # --------------------------------------------------------------------------------------- the loop: the text
    Mistake(
        "returns_the_new_tokens_only",
        edits=[(MODE, MODE + "    length = idx.shape[1]\n"), (RETURN, "    return idx[:, length:]")],
        caught_by="prompt_comes_first",
        en=("returns the new tokens without the prompt", "The answer is [B, T + n]: the prompt, then what was added."),
        zh=("只返回了新的 token，没有提示词", "结果的形状是 [B, T + n]：先是提示词，再是新增的部分。"),
    ),
    Mistake(
        "cuts_a_long_prompt",
        edits=[
            (WINDOW, "                idx = idx[:, -model.max_len :]"),
            (LOGITS, "                logits = model(idx)[:, -1]"),
        ],
        caught_by="prompt_comes_first",
        en=(
            "cuts the text down to `max_len`",
            "Only what is fed to the model is cut. Keep the whole text in one variable and the window in another.",
        ),
        zh=("把文本本身截短到了 `max_len`", "要截短的只是喂给模型的部分。整段文本用一个变量，窗口用另一个变量。"),
    ),
    Mistake(
        "adds_one_token_too_many",
        old="            for _ in range(max_new_tokens):",
        new="            for _ in range(max_new_tokens + 1):",
        caught_by="prompt_comes_first",
        en=("adds one token too many", "`max_new_tokens` steps, one token a step; 0 gives back the prompt."),
        zh=("多生成了一个 token", "走 `max_new_tokens` 步，每步一个 token；为 0 时原样返回提示词。"),
    ),
    Mistake(
        "feeds_the_first_tokens",
        old=WINDOW,
        new="                window = idx[:, : model.max_len]",
        caught_by="each_step_sees_the_last_tokens",
        en=(
            "feeds the first `max_len` tokens",
            "Once the text is longer than that, the model sees the same tokens at every step. The latest ones count.",
        ),
        zh=("喂的是最前面的 `max_len` 个 token", "文本一旦超过这个长度，模型每一步看到的都一样。要的是最近的那些。"),
    ),
    Mistake(
        "feeds_everything",
        old=WINDOW,
        new="                window = idx",
        caught_by="each_step_sees_the_last_tokens",
        en=(
            "feeds the whole text, however long it is",
            "A model has positions for `max_len` tokens and no more: beyond that it raises.",
        ),
        zh=("不管多长都把整段文本喂进去", "模型只有 `max_len` 个位置，超过就会报错。"),
    ),
    Mistake(
        "feeds_one_token_too_few",
        old=WINDOW,
        new="                window = idx[:, -(model.max_len - 1) :]",
        caught_by="each_step_sees_the_last_tokens",
        en=(
            "feeds at most `max_len - 1` tokens",
            "The new token needs no place in the window: it is read off the last position. `max_len` tokens fit.",
        ),
        zh=(
            "最多只喂 `max_len - 1` 个 token",
            "新 token 不占窗口的位置：它由最后一个位置的 logits 得出。`max_len` 个 token 放得下。",
        ),
    ),
    Mistake(
        "feeds_the_last_token_only",
        old=WINDOW,
        new="                window = idx[:, -1:]",
        caught_by="each_step_sees_the_last_tokens",
        en=(
            "feeds only the last token",
            "That is enough only for a model with a cache of what came before. This one sees what it is fed, nothing else.",
        ),
        zh=("只喂最后一个 token", "只有带缓存的模型才够用。这里的模型只看得到喂给它的东西。"),
    ),
    Mistake(
        "reads_the_first_position",
        old=LOGITS,
        new="                logits = model(window)[:, 0]",
        caught_by="each_step_sees_the_last_tokens",
        en=(
            "takes the logits of the first position",
            "They are about the second token of the window. Which position has seen everything?",
        ),
        zh=("用的是第一个位置的 logits", "它预测的是窗口里的第二个 token。哪个位置看到了全部内容？"),
    ),
    Mistake(
        "asks_the_model_twice",
        old=LOGITS,
        new="                logits = model(window).shape[-1] and model(window)[:, -1]",
        caught_by="each_step_sees_the_last_tokens",
        en=(
            "runs the model twice a step",
            "One step is one forward pass: it is what generation costs. Keep the answer in a variable.",
        ),
        zh=("每一步运行了两次模型", "一步就是一次前向传播，生成的开销全在这里。把结果存进变量。"),
    ),
    Mistake(
        "stops_a_row_at_token_zero",
        old=NEW,
        new=NEW + "\n                new = new * (idx[:, -1] != 0)",
        caught_by="each_step_sees_the_last_tokens",
        en=(
            "lets a row end at token 0",
            "No token has a special meaning here: every row goes on until the number of new tokens is reached.",
        ),
        zh=("遇到 token 0 就让这一行停下", "这里没有任何 token 有特殊含义：每一行都要一直写到规定的数量。"),
    ),
    Mistake(
        "remembers_the_text_of_a_prompt",
        edits=[
            (IMPORTS, IMPORTS + "\nTEXTS: dict = {}\n"),
            (
                BOTH + MODE,
                BOTH + "    known = (str(idx.tolist()), max_new_tokens)\n"
                "    if temperature == 0 and known in TEXTS:\n        return TEXTS[known].clone()\n" + MODE,
            ),
            (RETURN, "    if temperature == 0:\n        TEXTS[known] = idx\n    return idx"),
        ],
        caught_by="each_step_sees_the_last_tokens",
        en=(
            "keeps the text of a prompt and hands it out again",
            "The model may be another one by then, or have learned in between: the text must come from the weights "
            "that it has now.",
        ),
        zh=(
            "记下了某段提示词生成的文本，下次直接拿来用",
            "那时模型可能已经换了，或者又训练过了：文本必须由它现在的权重得出。",
        ),
    ),
    # --------------------------------------------------------------------------------------- the loop: the model
    Mistake(
        "leaves_the_mode_alone",
        edits=[("    model.eval()\n", ""), ("        model.train(was_training)", "        pass")],
        caught_by="model_runs_in_eval_mode",
        en=(
            "runs the model in whatever mode it is in",
            "In train mode dropout makes the model's answers random before you have drawn anything.",
        ),
        zh=("模型是什么模式就用什么模式运行", "在 train 模式下，还没开始采样，dropout 就已经让模型的输出随机了。"),
    ),
    Mistake(
        "leaves_the_model_in_eval_mode",
        old="        model.train(was_training)",
        new="        pass",
        caught_by="model_runs_in_eval_mode",
        en=(
            "leaves the model in eval mode",
            "Whoever prints a sample in the middle of a training goes on without dropout from there.",
        ),
        zh=("把模型留在了 eval 模式", "训练途中生成一段样例的人，从此就在没有 dropout 的情况下继续训练。"),
    ),
    Mistake(
        "puts_the_model_into_train_mode",
        old="        model.train(was_training)",
        new="        model.train()",
        caught_by="model_runs_in_eval_mode",
        en=(
            "puts the model into train mode at the end, whatever it was before",
            "A model that came in eval mode must leave in eval mode. Remember the mode before you change it.",
        ),
        zh=(
            "不管原来是什么模式，最后一律切到 train",
            "调用前是 eval 模式的模型，返回时也应当是 eval 模式。改之前先记住它。",
        ),
    ),
    Mistake(
        "returns_before_it_restores_the_mode",
        old="    model.eval()\n",
        new="    model.eval()\n    if max_new_tokens == 0:\n        return idx\n",
        caught_by="model_runs_in_eval_mode",
        en=(
            "leaves the model in eval mode when no token is asked for",
            "Each way out of the function must pass the line that gives the mode back; `finally` sees to it.",
        ),
        zh=(
            "要求 0 个新 token 时，把模型留在了 eval 模式",
            "函数的每个出口都必须经过恢复模式的那一行；`finally` 可以保证这一点。",
        ),
    ),
    Mistake(
        "restores_the_flag_of_the_outer_module_only",
        old="        model.train(was_training)",
        new="        model.training = was_training",
        caught_by="model_runs_in_eval_mode",
        en=(
            "gives only the outermost module its mode back",
            "The parts, dropout among them, stay in eval mode. model.train(mode) goes through all of them.",
        ),
        zh=("只恢复了最外层模块的模式", "子模块（包括 dropout）还停在 eval 模式。model.train(mode) 会走遍所有子模块。"),
    ),
    Mistake(
        "restores_the_mode_after_the_first_step",
        old=CAT,
        new=CAT + "\n                model.train(was_training)",
        caught_by="model_runs_in_eval_mode",
        en=(
            "gives the mode back inside the loop",
            "From the second step on the model runs in train mode again. Restore after the last step.",
        ),
        zh=("在循环里面就恢复了模式", "从第二步起模型又在 train 模式下运行了。要等最后一步结束再恢复。"),
    ),
    Mistake(
        "builds_a_graph",
        old="        with torch.no_grad():\n",
        new="        with torch.enable_grad():\n",
        caught_by="no_graph_is_built",
        en=(
            "lets the model build a graph at every step",
            "Nothing here is differentiated, but the memory for it is taken at every step. Switch gradients off around "
            "the model's call: a .detach() behind it comes too late.",
        ),
        zh=(
            "每一步都让模型建了计算图",
            "这里什么都不求导，内存却在每一步都被占用。要在调用模型时就关掉梯度，之后再 .detach() 已经晚了。",
        ),
    ),
    Mistake(
        "freezes_the_parameters",
        old="    model.eval()\n",
        new="    model.eval()\n    model.requires_grad_(False)\n",
        caught_by="no_graph_is_built",
        en=(
            "freezes the model's parameters",
            "They stay frozen, and the training that called this goes on without learning anything. torch.no_grad() "
            "leaves no trace.",
        ),
        zh=(
            "冻结了模型的参数",
            "它们会一直冻结下去，调用者接着训练就什么也学不到了。torch.no_grad() 不会留下痕迹。",
        ),
    ),
    Mistake(
        "switches_gradients_off_for_good",
        edits=[
            ("        with torch.no_grad():\n", "        if True:\n"),
            ("    model.eval()\n", "    model.eval()\n    torch.set_grad_enabled(False)\n"),
        ],
        caught_by="no_graph_is_built",
        en=(
            "switches gradients off and never on again",
            "The caller's next training step has nothing to go back through. `with torch.no_grad():` ends by itself.",
        ),
        zh=(
            "关掉了梯度，却再也没有打开",
            "调用者的下一个训练步骤就没有计算图可用了。`with torch.no_grad():` 会自己结束。",
        ),
    ),
    Mistake(
        "switches_gradients_on_for_the_caller",
        old="        model.train(was_training)",
        new="        model.train(was_training)\n        torch.set_grad_enabled(True)",
        caught_by="no_graph_is_built",
        en=(
            "switches gradients on at the end, also for a caller who had them off",
            "The caller may be inside a no_grad block. Leave the mode as it was found; a with statement does that.",
        ),
        zh=(
            "结束时一律打开梯度，不管调用者原来是否关着",
            "调用者可能正在 no_grad 块里。要保持原样，用 with 语句就能做到。",
        ),
    ),
    # ------------------------------------------------------------------------------- the loop: the draws
    Mistake(
        "forgets_the_temperature_in_the_loop",
        old=NEW,
        new="                new = next_token(logits, min(temperature, 1.0), top_k, generator)",
        caught_by="texts_follow_the_softmax",
        en=(
            "does not hand a temperature above 1 on to `next_token`",
            "All three arguments go on as they came.",
        ),
        zh=("没有把大于 1 的温度传给 `next_token`", "三个参数都要原样传下去。"),
    ),
    Mistake(
        "divides_by_the_temperature_in_the_loop_too",
        old=NEW,
        new="                new = next_token(logits / (temperature or 1.0), temperature, top_k, generator)",
        caught_by="texts_follow_the_softmax",
        en=(
            "divides by the temperature in the loop and in `next_token`",
            "The greedy text is the same, and at temperature 1 nothing shows. Divide in one place.",
        ),
        zh=("循环里和 `next_token` 里各除以了一次温度", "温度为 0（贪心）或 1 时看不出来。只在一处做除法。"),
    ),
    Mistake(
        "heats_up_step_by_step",
        old=NEW,
        new=NEW + "\n                temperature = temperature * 1.1",
        caught_by="texts_follow_the_softmax",
        en=(
            "changes the temperature from step to step",
            "The first tokens are right and the later ones are not: a variable of the caller is overwritten in the loop.",
        ),
        zh=("每一步都在改变温度", "开头的 token 是对的，后面的就不对了：循环里改写了调用者给的变量。"),
    ),
    Mistake(
        "starts_from_another_temperature",
        old="    temperature: float = 1.0,\n",
        new="    temperature: float = 0.8,\n",
        caught_by="texts_follow_the_softmax",
        en=(
            "has another default temperature in `generate`",
            "Who gives no temperature gets 1.0, as in `next_token`: the model's own probabilities.",
        ),
        zh=(
            "`generate` 的默认温度不是 1.0",
            "没有给温度时就是 1.0，与 `next_token` 一样：用模型自己的概率。",
        ),
    ),
    Mistake(
        "leaves_unlikely_tokens_out_by_default",
        old="    top_k: int | None = None,\n    generator: torch.Generator | None = None,\n",
        new="    top_k: int | None = 40,\n    generator: torch.Generator | None = None,\n",
        caught_by="few_texts_follow_the_softmax",
        en=(
            "has a `top_k` in `generate` where none was given",
            "A small vocabulary does not show it. Who gives no `top_k` gets all tokens: the default is None.",
        ),
        zh=(
            "没有给 top_k 时，`generate` 自己定了一个",
            "词表小的时候看不出来。没有给 `top_k`，所有 token 都可能出现：默认值是 None。",
        ),
    ),
    Mistake(
        "forgets_top_k_in_the_loop",
        old=NEW,
        new="                new = next_token(logits, temperature, None if temperature > 1.5 else top_k, generator)",
        caught_by="texts_follow_the_softmax",
        en=(
            "does not always hand `top_k` on to `next_token`",
            "All three arguments go on as they came, at every step.",
        ),
        zh=("没有始终把 `top_k` 传给 `next_token`", "三个参数在每一步都要原样传下去。"),
    ),
    Mistake(
        "forgets_the_generator_in_the_loop",
        old=NEW,
        new="                new = next_token(logits, temperature, top_k)",
        caught_by="same_generator_gives_same_tokens",
        en=(
            "does not hand the generator on to `next_token`",
            "`next_token` is right and the text still cannot be repeated: the generator ends in `generate`.",
        ),
        zh=(
            "没有把 generator 传给 `next_token`",
            "`next_token` 没有错，文本却无法重现：generator 到 `generate` 就断了。",
        ),
    ),
    Mistake(
        "copies_the_generator",
        old=MODE,
        new=MODE + "    generator = None if generator is None else generator.clone_state()\n",
        caught_by="same_generator_gives_same_tokens",
        en=(
            "draws from a copy of the generator",
            "The caller's own one stays where it was, and the next text is the same again. Use the one you are given.",
        ),
        zh=(
            "用 generator 的一个副本来采样",
            "调用者手里的那个停在原处，下一段文本又会一模一样。请直接用传进来的那个。",
        ),
    ),
    Mistake(
        "seeds_every_step",
        old=NEW,
        new="                torch.manual_seed(0)\n" + NEW,
        caught_by="same_generator_gives_same_tokens",
        en=(
            "sets the seed inside the loop",
            "Every step then throws the same dice, and every text is the same. Seeding is the caller's business, once.",
        ),
        zh=("在循环里设置了随机种子", "这样每一步的随机数都一样，每段文本也都一样。设种子是调用者的事，只做一次。"),
    ),
    # ---------------------------------------------------------------------------------------------- in place
    Mistake(
        "scales_the_callers_logits",
        old="    kept, tokens = logits.topk(width, dim=-1)",
        new="    with torch.no_grad():\n        logits -= logits.amax(dim=-1, keepdim=True)\n"
        "    kept, tokens = logits.topk(width, dim=-1)",
        caught_by="inputs_stay_as_they_are",
        en=(
            "changes the logits it was given",
            "-=, /= and indexed assignment write into the caller's tensor. Make a new one.",
        ),
        zh=("改动了传进来的 logits", "-=、/= 和下标赋值会写进调用者的张量里。请得到新的张量。"),
    ),
    Mistake(
        "scales_the_models_logits",
        old=LOGITS,
        new=LOGITS + "\n                logits -= logits.amax(dim=-1, keepdim=True)",
        caught_by="inputs_stay_as_they_are",
        en=(
            "changes the logits that the model answered",
            "model(window)[:, -1] is a view: -= and /= write into the model's own tensor, which it may still need.",
        ),
        zh=(
            "改动了模型给出的 logits",
            "model(window)[:, -1] 是视图：-= 和 /= 会写进模型自己的张量，而它可能还要用。",
        ),
    ),
    # ------------------------------------------------------------------------------------------- a single text
    Mistake(
        "squeezes_a_batch_of_one_away",
        old="    return tokens.gather(dim=-1, index=chosen).squeeze(-1)  # [B]",
        new="    return tokens.gather(dim=-1, index=chosen).squeeze()",
        caught_by="cycle_goes_on",
        en=(
            "loses the batch axis when there is one text",
            "squeeze() without an axis removes every axis of size 1, the batch of one too. Name the axis to remove.",
        ),
        zh=(
            "只有一段文本时丢掉了 batch 轴",
            "squeeze() 不写轴时会去掉所有大小为 1 的轴，连只有一行的 batch 轴也去掉。请写明要去掉哪个轴。",
        ),
    ),
]
