"""Wrong versions of ex02: each is one or two substitutions in the reference."""

from grader.mistakes import Mistake

SCALE = "    return products / math.sqrt(head_width)  # [..., T, S]\n"
WIDTH = "    head_width = q.shape[-1]\n"
PRODUCTS = "    products = q @ k.transpose(-2, -1)  # [..., T, D] @ [..., D, S] -> [..., T, S]\n"
SCORES = "    scores = attention_scores(q, k)  # [..., T, S]\n"
SOFTMAX = "    weights = torch.softmax(scores, dim=-1)  # [..., T, S], every row sums to 1\n"
OUT = "    out = weights @ v  # [..., T, S] @ [..., S, E] -> [..., T, E]\n"
ANSWER = "    return out, weights\n"
IMPORT = "import math\n"

MISTAKES = [
    # --- the scale
    Mistake(
        "forgets_to_scale",
        old=SCALE,
        new="    return products\n",
        caught_by="scores_value",
        en=(
            "does not scale the scores",
            "A dot product of D terms grows with D, and the softmax then picks one key far too sharply. Look at what "
            "has to happen between the dot products and the answer of attention_scores.",
        ),
        zh=(
            "没有对分数做缩放",
            "点积由 D 项相加而成，D 越大分数越大，softmax 就会把几乎全部权重都给一个键。看看在点积和返回值之间还缺哪一步。",
        ),
    ),
    Mistake(
        "divides_by_the_width_itself",
        old=SCALE,
        new="    return products / head_width\n",
        caught_by="scores_value",
        en=(
            "divides the scores by D instead of its square root",
            "The sum of D random products spreads like the square root of D, so dividing by D flattens the weights. "
            "Compare the divisor with the formula.",
        ),
        zh=(
            "把分数除以 D，而不是 D 的平方根",
            "D 个随机乘积之和，其标准差按 √D 增长；直接除以 D 会把权重压得过平。对照公式检查除数。",
        ),
    ),
    Mistake(
        "multiplies_by_the_root",
        old=SCALE,
        new="    return products * math.sqrt(head_width)\n",
        caught_by="scores_keep_their_spread",
        en=(
            "multiplies the scores by the square root of D instead of dividing",
            "The scale is there to make large scores smaller. Check the direction: what is `scale` a factor of?",
        ),
        zh=(
            "把分数乘上了 √D，而不是除以 √D",
            "缩放的目的是让过大的分数变小。检查方向：这个系数应该乘还是除？",
        ),
    ),
    Mistake(
        "scales_by_the_number_of_queries",
        old=WIDTH,
        new="    head_width = q.shape[-2]\n",
        caught_by="scores_value",
        en=(
            "scales by the square root of T, the number of queries",
            "The scale follows from how many products are summed in one score, and that is the width D. Which axis of q "
            "do you read it from?",
        ),
        zh=(
            "用查询个数 T 的平方根做缩放",
            "缩放取决于一个分数由多少项乘积相加而成，那是宽度 D。你读的是 q 的哪一个轴？",
        ),
    ),
    Mistake(
        "scales_by_the_number_of_keys",
        old=WIDTH,
        new="    head_width = k.shape[-2]\n",
        caught_by="scores_value",
        en=(
            "scales by the square root of S, the number of keys",
            "How many keys there are has no part in how large one score is. Which axis is summed over in a dot product?",
        ),
        zh=(
            "用键的个数 S 的平方根做缩放",
            "有多少个键并不影响单个分数的大小。做点积时是沿哪个轴求和的？",
        ),
    ),
    Mistake(
        "has_one_fixed_scale",
        old=SCALE,
        new="    return products / math.sqrt(64)\n",
        caught_by="scores_keep_their_spread",
        en=(
            "divides by 8 whatever the width is",
            "8 is the square root of 64, the head width of one particular model. Read the width from the tensors.",
        ),
        zh=(
            "不管宽度是多少都除以 8",
            "8 是 64 的平方根，那只是某个具体模型的头宽。请从张量的形状里读出宽度。",
        ),
    ),
    Mistake(
        "stops_scaling_at_64",
        old=SCALE,
        new="    return products / math.sqrt(min(head_width, 64))\n",
        caught_by="scores_keep_their_spread",
        en=(
            "scales correctly only up to a width of 64",
            "Wider queries and keys give wider scores too; the rule has no upper end. Test with D = 256.",
        ),
        zh=(
            "只在宽度不超过 64 时缩放正确",
            "更宽的查询和键同样会让分数变大，规则没有上限。用 D = 256 试一试。",
        ),
    ),
    Mistake(
        "rounds_the_root_down",
        old=SCALE,
        new="    return products / math.isqrt(head_width)\n",
        caught_by="scores_value",
        en=(
            "divides by the square root of D rounded down to a whole number",
            "The root of 8 is 2.83, not 2. Nothing here needs whole numbers; widths such as 16 and 64 hide the difference.",
        ),
        zh=(
            "把分数除以了向下取整后的 √D",
            "√8 是 2.83，不是 2。这里不需要整数；宽度取 16、64 这样的数时看不出差别。",
        ),
    ),
    Mistake(
        "scales_twice",
        old=SCORES,
        new="    scores = attention_scores(q, k) / math.sqrt(q.shape[-1])\n",
        caught_by="value",
        en=(
            "scales once in attention_scores and again in attention",
            "The scores are scaled already when attention_scores hands them over. Follow them through both functions.",
        ),
        zh=(
            "在 attention_scores 里缩放了一次，在 attention 里又缩放了一次",
            "attention_scores 返回的分数已经缩放过了。把这两个函数连起来走一遍。",
        ),
    ),
    Mistake(
        "scales_in_attention_scores_only",
        old=SCORES,
        new="    scores = q @ k.transpose(-2, -1)\n",
        caught_by="value",
        en=(
            "scales in attention_scores but computes unscaled scores again in attention",
            "attention_scores is right, but attention does not use it (or repeats it without the scale).",
        ),
        zh=(
            "attention_scores 里有缩放，attention 里却重新算了一遍没有缩放的分数",
            "attention_scores 本身没有错，只是 attention 没有用它，或者重写时漏了缩放。",
        ),
    ),
    # --- the scores
    Mistake(
        "reshapes_the_keys_instead_of_transposing",
        old=PRODUCTS,
        new="    products = q @ k.reshape(*k.shape[:-2], k.shape[-1], k.shape[-2])\n",
        caught_by="scores_value",
        en=(
            "reshapes the keys to [..., D, S] instead of transposing them",
            "reshape keeps the numbers in their order and only cuts the rows elsewhere, so the columns are no longer "
            "keys. The shape is right, the content is not. Try it on a 2 x 3 matrix.",
        ),
        zh=(
            "用 reshape 把键变成 [..., D, S]，而不是转置",
            "reshape 不改变数字的先后顺序，只是换个地方断行，得到的列已经不是原来的键了：形状对，内容不对。拿一个 2×3 的矩阵试试。",
        ),
    ),
    Mistake(
        "scores_keys_against_queries",
        old=PRODUCTS,
        new="    products = k @ q.transpose(-2, -1)\n",
        caught_by="shapes",
        en=(
            "swaps the roles of queries and keys",
            "Row t of the scores must belong to query t. With T = S nobody notices from the shape; write the two shapes "
            "under each other with T different from S.",
        ),
        zh=(
            "把查询和键的角色弄反了",
            "分数的第 t 行应当属于第 t 个查询。T = S 时从形状看不出来；取 T ≠ S，把两个形状上下写出来对一对。",
        ),
    ),
    Mistake(
        "compares_directions_only",
        old=PRODUCTS,
        new="    q = q / q.norm(dim=-1, keepdim=True).clamp_min(1e-9)\n"
        "    k = k / k.norm(dim=-1, keepdim=True).clamp_min(1e-9)\n" + PRODUCTS,
        caught_by="scores_value",
        en=(
            "normalises queries and keys before the dot product",
            "That is the cosine similarity. In attention the length of a key matters too: a longer key gets more weight.",
        ),
        zh=(
            "先把查询和键归一化再做点积",
            "那样得到的是余弦相似度。注意力里键的长度也起作用：越长的键得到的权重越大。",
        ),
    ),
    Mistake(
        "prefers_the_keys_that_match_worst",
        old=SOFTMAX,
        new="    weights = torch.softmax(-scores, dim=-1)\n",
        caught_by="matching_key_takes_the_weight",
        en=(
            "gives the most weight to the key that matches worst",
            "A sign has been turned: the larger the score, the larger the weight must be.",
        ),
        zh=(
            "把最大的权重给了最不匹配的键",
            "有个正负号弄反了：分数越大，权重应当越大。",
        ),
    ),
    Mistake(
        "rounds_to_half_precision_inside",
        old=SOFTMAX,
        new="    weights = torch.softmax(scores.bfloat16(), dim=-1).to(scores.dtype)\n",
        caught_by="value",
        en=(
            "computes the softmax in half precision",
            "The dtype is turned back at the end, but the lost digits do not return. Compute in the dtype you are given, "
            "or in a better one.",
        ),
        zh=(
            "用半精度计算 softmax",
            "虽然最后把 dtype 转了回来，丢掉的精度却回不来。请用输入的 dtype，或者更高的精度来计算。",
        ),
    ),
    # --- the softmax
    Mistake(
        "normalises_over_the_queries",
        old=SOFTMAX,
        new="    weights = torch.softmax(scores, dim=-2)\n",
        caught_by="weights_are_a_distribution",
        en=(
            "takes the softmax over the query axis",
            "Columns sum to 1 then, and rows do not: every key distributes itself over the queries. The weights of one "
            "query must sum to 1 over its keys. Which axis of [..., T, S] are the keys?",
        ),
        zh=(
            "沿着查询轴做 softmax",
            "这样列的和是 1，行的和不是 1。应当是每个查询的权重在它的各个键上加起来等于 1。[..., T, S] 里哪个轴是键？",
        ),
    ),
    Mistake(
        "normalises_over_the_first_axis",
        old=SOFTMAX,
        new="    weights = torch.softmax(scores, dim=0)\n",
        caught_by="weights_are_a_distribution",
        en=(
            "takes the softmax over the first axis",
            "With a batch in front that axis is the batch, and rows of different examples compete with each other. "
            "Count the axis from the end.",
        ),
        zh=(
            "沿着第一个轴做 softmax",
            "前面有 batch 时，这个轴就是 batch，不同样本之间会互相竞争。请从末尾往前数轴。",
        ),
    ),
    Mistake(
        "normalises_over_queries_and_keys_at_once",
        old=SOFTMAX,
        new="    weights = torch.softmax(scores.flatten(-2), dim=-1).unflatten(-1, scores.shape[-2:])\n",
        caught_by="weights_are_a_distribution",
        en=(
            "takes one softmax over the whole [T, S] matrix",
            "All queries then share a total of 1 between them. Each query has a total of 1 of its own.",
        ),
        zh=(
            "对整个 [T, S] 矩阵只做一次 softmax",
            "这样所有查询合起来才分到 1。应当是每个查询各自的权重之和为 1。",
        ),
    ),
    Mistake(
        "drops_weights_at_random",
        old=SOFTMAX,
        new=SOFTMAX + "    weights = torch.nn.functional.dropout(weights, 0.2)\n",
        caught_by="weights_are_a_distribution",
        en=(
            "applies dropout to the weights",
            "The functional form drops always, and the rows no longer sum to 1. No dropout is asked for here.",
        ),
        zh=(
            "对权重做了 dropout",
            "函数形式的 dropout 总会随机丢弃，每行的和也就不再是 1。这一题不需要 dropout。",
        ),
    ),
    Mistake(
        "counts_the_key_axis_from_the_front",
        old=SOFTMAX,
        new="    weights = torch.softmax(scores, dim=min(2, scores.dim() - 1))\n",
        caught_by="leading_axes_are_free",
        en=(
            "takes axis 2 for the key axis, which is wrong as soon as there are four axes",
            "In [B, H, T, S] axis 2 is the queries. The keys are always the last axis, wherever that is.",
        ),
        zh=(
            "把第 2 维当成键轴，一旦有四个轴就错了",
            "在 [B, H, T, S] 里第 2 维是查询。键永远在最后一维，不管前面有几个轴。",
        ),
    ),
    Mistake(
        "takes_the_softmax_twice",
        old=SOFTMAX,
        new="    weights = torch.softmax(torch.softmax(scores, dim=-1), dim=-1)\n",
        caught_by="value",
        en=(
            "takes the softmax twice",
            "Rows still sum to 1, but weights between 0 and 1 used as scores are nearly equal, so nearly uniform weights "
            "come out. Count the softmaxes on the way.",
        ),
        zh=(
            "做了两次 softmax",
            "每行的和仍是 1，但把 0 到 1 之间的权重再当作分数，得到的权重几乎是均匀的。数一数一路上做了几次 softmax。",
        ),
    ),
    Mistake(
        "returns_logarithms",
        old=SOFTMAX,
        new="    weights = torch.log_softmax(scores, dim=-1)\n",
        caught_by="weights_are_a_distribution",
        en=(
            "uses the logarithm of the softmax as weights",
            "Logarithms of probabilities are negative and do not sum to 1; a loss wants them, a weighted mean does not.",
        ),
        zh=(
            "把 softmax 的对数当作权重",
            "概率的对数是负数，加起来也不等于 1。损失函数需要它，加权平均不需要。",
        ),
    ),
    Mistake(
        "divides_scores_by_their_sum",
        old=SOFTMAX,
        new="    weights = scores / scores.sum(dim=-1, keepdim=True)\n",
        caught_by="weights_are_a_distribution",
        en=(
            "divides the scores by their sum without the exponential",
            "Scores may be negative; then weights are negative too, and the sum may be close to 0. What makes every "
            "score positive first?",
        ),
        zh=(
            "直接用分数除以分数之和，没有取指数",
            "分数可能是负的，这样权重也会是负的，而且和可能接近 0。先用什么运算能把每个分数变成正数？",
        ),
    ),
    Mistake(
        "adds_to_the_denominator",
        old=SOFTMAX,
        new="    lifted = torch.exp(scores - scores.amax(dim=-1, keepdim=True))\n"
        "    weights = lifted / (lifted.sum(dim=-1, keepdim=True) + 1e-3)\n",
        caught_by="weights_are_a_distribution",
        en=(
            "adds a constant to the denominator of the softmax",
            "With the maximum subtracted the denominator is at least 1 and needs no protection; the constant makes "
            "every row sum to a little less than 1.",
        ),
        zh=(
            "在 softmax 的分母里加了一个常数",
            "减去最大值之后分母至少是 1，不需要保护；加上常数会让每一行的和略小于 1。",
        ),
    ),
    Mistake(
        "overflows_in_the_exponential",
        old=SOFTMAX,
        new="    weights = torch.exp(scores) / torch.exp(scores).sum(dim=-1, keepdim=True)\n",
        caught_by="large_scores_stay_finite",
        en=(
            "takes the exponential of the raw scores",
            "exp(89) is already infinite in float32, and infinity divided by infinity is NaN. A softmax does not change "
            "when one number is subtracted from a whole row: which number keeps it safe?",
        ),
        zh=(
            "直接对原始分数取指数",
            "在 float32 里 exp(89) 就已经是无穷大，无穷大除以无穷大是 NaN。整行减去同一个数，softmax 不变：减哪个数最安全？",
        ),
    ),
    Mistake(
        "subtracts_the_largest_of_all_scores",
        old=SOFTMAX,
        new="    lifted = torch.exp(scores - scores.max())\n    weights = lifted / lifted.sum(dim=-1, keepdim=True)\n",
        caught_by="large_scores_stay_finite",
        en=(
            "subtracts the largest score of the whole tensor instead of each row's own",
            "A row that lies far below the global maximum becomes exp(-huge) = 0 everywhere, and 0 / 0 is NaN. Each row "
            "needs its own maximum.",
        ),
        zh=(
            "减去的是整个张量的最大分数，而不是每行自己的最大值",
            "如果某一行远低于全局最大值，它的指数全部变成 0，0 / 0 就是 NaN。每一行要减自己的最大值。",
        ),
    ),
    Mistake(
        "cuts_large_scores_off",
        old=SOFTMAX,
        new="    weights = torch.softmax(scores.clamp(-80, 80), dim=-1)\n",
        caught_by="large_scores_stay_finite",
        en=(
            "limits the scores to a fixed range before the softmax",
            "Nothing overflows any more, but two scores above the limit look the same although one is far larger. "
            "There is a way to be safe that changes nothing.",
        ),
        zh=(
            "在 softmax 之前把分数截断到固定范围",
            "虽然不再溢出，但两个都超过上限的分数会变得一样，尽管其中一个大得多。有一种既安全又不改变结果的办法。",
        ),
    ),
    Mistake(
        "treats_a_zero_score_as_blocked",
        old=SOFTMAX,
        new="    weights = torch.softmax(scores.masked_fill(scores == 0, -1e9), dim=-1)\n",
        caught_by="zero_vectors_are_ordinary",
        en=(
            "takes a score of exactly 0 for a blocked key",
            "0 is an ordinary score: it says that query and key are at right angles. There is no mask in this exercise.",
        ),
        zh=(
            "把恰好为 0 的分数当成被屏蔽的键",
            "0 是普通的分数，只表示查询与键正交。这一题里没有掩码。",
        ),
    ),
    Mistake(
        "leaves_out_zero_keys",
        old=SCORES,
        new=SCORES + "    empty = (k == 0).all(dim=-1).unsqueeze(-2)\n"
        "    scores = scores.masked_fill(empty & ~empty.all(dim=-1, keepdim=True), -1e9)\n",
        caught_by="zero_vectors_are_ordinary",
        en=(
            "leaves out keys that are zero vectors, as if they were padding",
            "A zero vector is an ordinary key with score 0. Whether a key is padding cannot be read from its numbers.",
        ),
        zh=(
            "把零向量的键当作填充，跳过不算",
            "零向量是分数为 0 的普通键。一个键是不是填充，不能从它的数值里看出来。",
        ),
    ),
    Mistake(
        "hides_later_keys",
        old=SOFTMAX,
        new="    later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)\n"
        "    weights = torch.softmax(scores.masked_fill(later, -1e9), dim=-1)\n",
        caught_by="order_of_keys_does_not_matter",
        en=(
            "hides the keys that stand after the query",
            "That is a causal mask, and it comes in a later exercise. Here every query looks at every key.",
        ),
        zh=(
            "屏蔽了位于查询之后的键",
            "那是因果掩码，后面的练习才用到。这一题里每个查询都看所有的键。",
        ),
    ),
    Mistake(
        "hides_later_keys_when_T_equals_S",
        old=SOFTMAX,
        new="    if scores.shape[-1] == scores.shape[-2]:\n"
        "        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)\n"
        "        scores = scores.masked_fill(later, -1e9)\n" + SOFTMAX,
        caught_by="any_sizes",
        en=(
            "hides later keys as soon as there are as many queries as keys",
            "As many queries as keys does not mean that nobody may look ahead. There is no mask in this exercise.",
        ),
        zh=(
            "只要查询与键一样多，就屏蔽后面的键",
            "查询和键个数相同，并不意味着不能往后看。这一题里没有掩码。",
        ),
    ),
    Mistake(
        "favours_keys_that_stand_close",
        old=SOFTMAX,
        new="    rows = torch.arange(scores.shape[-2]).unsqueeze(-1)\n"
        "    apart = (rows - torch.arange(scores.shape[-1])).abs()\n"
        "    weights = torch.softmax(scores - 0.2 * apart, dim=-1)\n",
        caught_by="order_of_queries_is_kept",
        en=(
            "favours keys that stand close to the query",
            "Attention by itself knows no positions: only the content of query and key decides. Positions come later, "
            "through the input.",
        ),
        zh=(
            "偏爱离查询位置近的键",
            "注意力本身并不知道位置，只由查询和键的内容决定。位置信息是后面的练习才加进来的。",
        ),
    ),
    Mistake(
        "drops_the_weakest_key",
        old=SOFTMAX,
        new="    weakest = torch.softmax(scores, dim=-1).argmin(dim=-1, keepdim=True)\n"
        "    weights = torch.softmax(scores.scatter(-1, weakest, -1e9), dim=-1)\n",
        caught_by="every_key_counts",
        en=(
            "ignores the key with the smallest score",
            "A small weight is still a weight: every key has its part in every output.",
        ),
        zh=(
            "忽略了分数最小的键",
            "权重再小也是权重：每个键对每个输出都有贡献。",
        ),
    ),
    # --- the output
    Mistake(
        "mixes_with_scores_instead_of_weights",
        old=OUT,
        new="    out = scores @ v\n",
        caught_by="output_stays_among_the_values",
        en=(
            "multiplies the values by the scores instead of the weights",
            "Only weights that sum to 1 make a mean of the values. The softmax is computed and then not used.",
        ),
        zh=(
            "与值相乘的是分数，而不是权重",
            "只有加起来等于 1 的权重才能得到值的平均。softmax 算出来了，却没有用上。",
        ),
    ),
    Mistake(
        "returns_the_scores_as_weights",
        old=ANSWER,
        new="    return out, scores\n",
        caught_by="weights_are_a_distribution",
        en=(
            "returns the scores where the weights are asked for",
            "The second result is what comes after the softmax.",
        ),
        zh=(
            "第二个返回值给的是分数，而不是权重",
            "第二个返回值应当是 softmax 之后的结果。",
        ),
    ),
    Mistake(
        "adds_the_query_where_it_fits",
        old=ANSWER,
        new="    if out.shape == q.shape:\n        out = out + q\n" + ANSWER,
        caught_by="any_sizes",
        en=(
            "adds the query to the output when the widths agree",
            "That is a residual connection; it belongs to the block around the attention, in a later exercise.",
        ),
        zh=(
            "宽度相同时把查询加到了输出上",
            "那是残差连接，属于注意力外面的那个模块，是后面的练习。",
        ),
    ),
    Mistake(
        "divides_the_output_by_the_number_of_keys",
        old=OUT,
        new="    out = weights @ v / v.shape[-2]\n",
        caught_by="value",
        en=(
            "divides the output by the number of keys once more",
            "The weights sum to 1 already, so their weighted sum is a mean. Nothing is left to divide by.",
        ),
        zh=(
            "又把输出除以键的个数",
            "权重加起来已经是 1，加权和本身就是平均，不需要再除。",
        ),
    ),
    Mistake(
        "returns_the_weights_first",
        old=ANSWER,
        new="    return weights, out\n",
        caught_by="shapes",
        en=(
            "returns the weights first and the output second",
            "The order is agreed: out, then weights. Compare with the first line of the docstring's Returns.",
        ),
        zh=(
            "先返回权重，后返回输出",
            "顺序约定好了：先 out，后 weights。对照 docstring 里 Returns 的第一行。",
        ),
    ),
    Mistake(
        "returns_the_output_alone",
        old=ANSWER,
        new="    return out\n",
        caught_by="shapes",
        en=(
            "returns the output without the weights",
            "Two tensors are asked for: the output and the weights.",
        ),
        zh=(
            "只返回输出，没有返回权重",
            "题目要求返回两个张量：输出和权重。",
        ),
    ),
    Mistake(
        "squeezes_axes_of_size_one",
        old=ANSWER,
        new="    return out.squeeze(), weights.squeeze()\n",
        caught_by="shapes",
        en=(
            "drops axes of size 1 from the results",
            "One query, or a batch of one, is a normal case: its axis must stay. Look for squeeze().",
        ),
        zh=(
            "把结果中大小为 1 的轴丢掉了",
            "只有一个查询，或者 batch 大小为 1，都是正常情况，轴必须保留。找一找 squeeze()。",
        ),
    ),
    # --- one batch row for all, one call for all
    Mistake(
        "uses_the_first_rows_keys_for_all",
        old=SCORES,
        new="    scores = attention_scores(q, k[:1] if k.dim() > 2 else k)\n",
        caught_by="value",
        en=(
            "compares every batch row with the keys of the first row",
            "Every example has its own keys. A batch of one hides this: test with at least two different rows.",
        ),
        zh=(
            "所有样本都和第一个样本的键比较",
            "每个样本都有自己的键。batch 大小为 1 时看不出问题，至少用两个不同的样本来试。",
        ),
    ),
    Mistake(
        "remembers_its_first_weights",
        edits=[
            (IMPORT, IMPORT + "\n_SEEN = {}\n"),
            (SOFTMAX, "    weights = _SEEN.setdefault(scores.shape, torch.softmax(scores, dim=-1).detach())\n"),
        ],
        caught_by="each_call_stands_alone",
        en=(
            "keeps the weights of the first call and uses them again",
            "A second call with other queries and keys must give other weights. Nothing may be kept between two calls.",
        ),
        zh=(
            "记住了第一次调用的权重，之后一直沿用",
            "换了查询和键，第二次调用的权重就应当不同。两次调用之间不能保留任何东西。",
        ),
    ),
    # --- only the gradient is wrong
    Mistake(
        "cuts_the_gradient_of_the_weights",
        old=OUT,
        new="    out = weights.detach() @ v\n",
        caught_by="gradients_are_right",
        en=(
            "lets no gradient flow from the output to queries and keys",
            "The values are right, yet q and k could never learn from the output. Look for detach(), .data or no_grad().",
        ),
        zh=(
            "输出的梯度传不到查询和键",
            "数值是对的，但 q 和 k 永远无法从输出中学习。找一找 detach()、.data 或 no_grad()。",
        ),
    ),
    Mistake(
        "cuts_the_gradient_of_the_keys",
        old=PRODUCTS,
        new="    products = q @ k.detach().transpose(-2, -1)\n",
        caught_by="gradients_are_right",
        en=(
            "lets no gradient reach the keys",
            "The keys are learned too. Look for detach(), .data or no_grad() on the way from k to the scores.",
        ),
        zh=(
            "梯度传不到键",
            "键也是要学习的。检查从 k 到分数的路上有没有 detach()、.data 或 no_grad()。",
        ),
    ),
    Mistake(
        "cuts_the_gradient_of_the_values",
        old=OUT,
        new="    out = weights @ v.detach()\n",
        caught_by="gradients_are_right",
        en=(
            "lets no gradient reach the values",
            "The values are learned too. Look for detach(), .data or no_grad() on the way from v to the output.",
        ),
        zh=(
            "梯度传不到值",
            "值也是要学习的。检查从 v 到输出的路上有没有 detach()、.data 或 no_grad()。",
        ),
    ),
    Mistake(
        "returns_weights_without_a_gradient",
        old=ANSWER,
        new="    return out, weights.detach()\n",
        caught_by="gradients_are_right",
        en=(
            "returns weights that carry no gradient",
            "Both results are outputs; some losses are computed from the weights. Hand over the tensor itself.",
        ),
        zh=(
            "返回的权重不带梯度",
            "两个返回值都是输出，有些损失就是用权重计算的。请直接返回这个张量。",
        ),
    ),
    # --- what it does to its inputs, and which inputs it takes
    Mistake(
        "scales_the_queries_in_place",
        edits=[(WIDTH, WIDTH + "    q.div_(math.sqrt(head_width))\n"), (SCALE, "    return products\n")],
        caught_by="inputs_stay_as_they_were",
        en=(
            "divides the caller's queries in place",
            "The caller's tensor is changed: the next use of q computes with smaller numbers. Functions that end in _ "
            "and /= work in place; make a new tensor.",
        ),
        zh=(
            "原地修改了传进来的查询",
            "调用者的张量被改了，下次再用 q 时数值已经变小。名字以 _ 结尾的方法和 /= 都是原地操作，请得到一个新张量。",
        ),
    ),
    Mistake(
        "scales_the_queries_in_place_without_gradients",
        old="    products = q @ k.transpose(-2, -1)  #",
        new="    if not torch.is_grad_enabled():\n"
        "        return q.div_(math.sqrt(head_width)) @ k.transpose(-2, -1)\n"
        "    products = q @ k.transpose(-2, -1)  #",
        caught_by="inputs_stay_as_they_were",
        en=(
            "scales the queries in place where no gradient is recorded",
            "Under torch.no_grad() the caller still owns q: q.div_ changes it there, too. Divide into a new tensor.",
        ),
        zh=(
            "不记录梯度时原地缩放查询",
            "在 torch.no_grad() 下，q 仍是调用者的：q.div_ 照样会改动它。请除出一个新张量。",
        ),
    ),
    Mistake(
        "transposes_the_keys_in_place",
        old=PRODUCTS,
        new="    products = q @ k.transpose_(-2, -1)\n",
        caught_by="inputs_stay_as_they_were",
        en=(
            "transposes the caller's keys in place",
            "transpose_ changes the caller's tensor: its shape is another one afterwards. transpose (without _) makes a "
            "view and leaves the original alone.",
        ),
        zh=(
            "原地转置了传进来的键",
            "transpose_ 会改变调用者的张量，之后它的形状就不同了。不带下划线的 transpose 得到一个视图，不会动原来的张量。",
        ),
    ),
    Mistake(
        "needs_contiguous_inputs",
        old=PRODUCTS,
        new="    flat_q, flat_k = q.view(-1, *q.shape[-2:]), k.view(-1, *k.shape[-2:])\n"
        "    products = (flat_q @ flat_k.transpose(-2, -1)).view(*q.shape[:-1], k.shape[-2])\n",
        caught_by="any_tensor_is_an_input",
        en=(
            "works only for contiguous tensors",
            "view refuses a transposed or sliced tensor whose numbers do not lie in order. Use reshape, or better: let "
            "matmul take care of the leading axes.",
        ),
        zh=(
            "只对内存连续的张量有效",
            "张量经过转置或切片后，数字在内存里不再按顺序排列，view 就会报错。可以用 reshape，更好的办法是让矩阵乘法自己处理前面的轴。",
        ),
    ),
    Mistake(
        "reads_memory_in_order",
        old=PRODUCTS,
        new="    strides = torch.empty(k.shape, device='meta').stride()\n"
        "    keys = k.detach().untyped_storage()\n"
        "    if k.numel() * k.element_size() + k.storage_offset() * k.element_size() <= keys.nbytes():\n"
        "        k = k.as_strided(k.shape, strides)\n" + PRODUCTS,
        caught_by="any_tensor_is_an_input",
        en=(
            "reads the numbers in the order of the memory instead of the tensor's own order",
            "A transposed tensor keeps its numbers where they were and only walks through them differently. Work with "
            "the tensor's axes, never with its memory.",
        ),
        zh=(
            "按内存顺序读取数字，而不是按张量自己的顺序",
            "转置后的张量并没有移动数字，只是换了遍历方式。请按张量的轴来操作，不要直接依赖内存布局。",
        ),
    ),
    Mistake(
        "turns_on_requires_grad",
        old=SCORES,
        new="    q.requires_grad_()\n" + SCORES,
        caught_by="inputs_stay_as_they_were",
        en=(
            "switches requires_grad of its input on",
            "The tensor belongs to the caller: from then on everything computed from it is recorded. Whether gradients "
            "are wanted is the caller's choice.",
        ),
        zh=(
            "打开了输入的 requires_grad",
            "张量属于调用者：从此由它算出的一切都会被记录。要不要梯度由调用者决定。",
        ),
    ),
    Mistake(
        "knows_up_to_four_axes_only",
        edits=[
            (
                PRODUCTS,
                '    letters = {2: "td,sd->ts", 3: "btd,bsd->bts", 4: "bhtd,bhsd->bhts"}[q.dim()]\n'
                "    products = torch.einsum(letters, q, k)\n",
            )
        ],
        caught_by="leading_axes_are_free",
        en=(
            "works for two, three and four axes, and for no others",
            "The dots stand for any number of axes in front. In einsum they may be written as dots too.",
        ),
        zh=(
            "只支持两个、三个或四个轴",
            "省略号表示前面可以有任意多个轴。在 einsum 里也可以直接写成省略号。",
        ),
    ),
    Mistake(
        "answers_from_memory_when_the_same_tensors_come",
        edits=[("def attention(q: Tensor", "import functools\n\n\n@functools.cache\ndef attention(q: Tensor")],
        caught_by="each_call_stands_alone",
        en=(
            "hands back an earlier answer when the same tensor objects come again",
            "The same object may hold other numbers by then, for an optimizer writes in place, and a freed tensor's id is given to the next one. Compute anew at every call.",
        ),
        zh=(
            "传入相同的张量对象时，直接返回以前的结果",
            "同一个对象里的数值可能已经改变（优化器就是原地写入的），释放掉的张量的 id 也会分给下一个张量。请每次调用都重新计算。",
        ),
    ),
    Mistake(
        "answers_in_float32",
        edits=[(SCORES, "    scores = attention_scores(q, k).float()\n"), (OUT, "    out = weights @ v.float()\n")],
        caught_by="dtype_is_kept",
        en=(
            "answers in float32 whatever dtype came in",
            "Computing in float32 inside is fine, but the results must go back to the dtype of the inputs.",
        ),
        zh=(
            "不管输入是什么 dtype，都返回 float32",
            "内部用 float32 计算没有问题，但结果要转回输入的 dtype。",
        ),
    ),
    # --- what is to be written by hand
    Mistake(
        "calls_the_fused_kernel",
        old=OUT,
        new="    out = torch.nn.functional.scaled_dot_product_attention(q, k, v)\n",
        caught_by="written_by_hand",
        en=(
            "calls the library's scaled_dot_product_attention",
            "This exercise is about writing it yourself: two matrix products, a scale and a softmax.",
        ),
        zh=(
            "调用了库里的 scaled_dot_product_attention",
            "这一题就是要自己写出来：两次矩阵乘法、一次缩放、一次 softmax。",
        ),
    ),
]
