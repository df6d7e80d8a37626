"""Wrong versions of ex03: each is a few substitutions in the reference."""

from grader.mistakes import Mistake

IMPORT = "import math\n"
SHAPE = "    batch, length, width = x.shape\n"
CHECK = (
    "    if width % num_heads != 0:\n"
    '        raise ValueError(f"a width of {width} cannot be split into {num_heads} heads of equal width")\n'
)
HEADS = "    heads = x.reshape(batch, length, num_heads, width // num_heads)  # [B, T, H, D]\n"
SPLIT = "    return heads.transpose(1, 2)  # [B, H, T, D]\n"
ROWS = "    rows = x.transpose(1, 2)  # [B, T, H, D]\n"
MERGED = "    return rows.reshape(batch, length, heads * head_width)  # [B, T, C]\n"
PARTS = "    q, k, v = (split_heads(part, num_heads) for part in qkv.chunk(3, dim=-1))  # each [B, H, T, D]\n"
SCORES = "    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # [B, H, T, T]\n"
SOFTMAX = "    weights = torch.softmax(scores, dim=-1)  # [B, H, T, T], every row sums to 1\n"
OUT = "    return merge_heads(weights @ v)  # [B, H, T, D] -> [B, T, C]\n"
COUNT = "    return B * num_heads * T * T  # one score for every pair of positions, in every head of every row\n"

MISTAKES = [
    # --- splitting and merging
    Mistake(
        "splits_by_reshape_alone",
        edits=[(HEADS, ""), (SPLIT, "    return x.reshape(batch, num_heads, length, width // num_heads)\n")],
        caught_by="head_owns_its_channels",
        en=(
            "splits with one reshape to [B, H, T, D], which cuts the heads along time",
            "reshape only cuts the same row of numbers elsewhere: head 0 gets the first positions with all their channels. "
            "Cut the channel axis first, then move the head axis.",
        ),
        zh=(
            "只用一次 reshape 直接得到 [B, H, T, D]，结果沿时间轴切开了头",
            "reshape 只是把同一串数字换个地方断行：第 0 个头拿到的是最前面几个位置的全部通道。应当先切开通道轴，再移动头轴。",
        ),
    ),
    Mistake(
        "splits_and_merges_by_reshape_alone",
        edits=[
            (HEADS, ""),
            (SPLIT, "    return x.reshape(batch, num_heads, length, width // num_heads)\n"),
            (ROWS, ""),
            (MERGED, "    return x.reshape(batch, length, heads * head_width)\n"),
        ],
        caught_by="head_owns_its_channels",
        en=(
            "splits and merges by reshape alone, so that the round trip works although the heads are cut along time",
            "Getting x back proves only that the two steps fit each other. Look at which channels head 0 holds.",
        ),
        zh=(
            "拆分和合并都只用 reshape：来回能还原，但头是沿时间轴切的",
            "能还原 x 只说明这两步互相配套。看看第 0 个头里装的究竟是哪些通道。",
        ),
    ),
    Mistake(
        "merges_by_reshape_alone",
        edits=[(ROWS, ""), (MERGED, "    return x.reshape(batch, length, heads * head_width)\n")],
        caught_by="merged_heads_stand_side_by_side",
        en=(
            "merges by reshape without moving the head axis back",
            "In memory, a head's positions stand next to each other, so positions are mixed into channels. The head axis "
            "has to stand beside D before the two become one.",
        ),
        zh=(
            "合并时直接 reshape，没有把头轴移回去",
            "内存里同一个头的各个位置挨在一起，这样会把不同位置混进通道。头轴要先移到 D 旁边，两者才能合成一个轴。",
        ),
    ),
    Mistake(
        "deals_channels_out_in_turn",
        edits=[
            (HEADS, "    heads = x.reshape(batch, length, width // num_heads, num_heads)\n"),
            (SPLIT, "    return heads.permute(0, 3, 1, 2)\n"),
        ],
        caught_by="head_owns_its_channels",
        en=(
            "deals the channels out to the heads in turn when splitting",
            "Head h then holds channels h, h + H, h + 2H ... It must hold a block of D neighbours. In which order do H and "
            "D stand in your reshape?",
        ),
        zh=(
            "拆分时像发牌一样把通道轮流分给各个头",
            "这样第 h 个头拿到的是通道 h、h + H、h + 2H……而它应当拿到相邻的 D 个通道。你的 reshape 里 H 和 D 谁在前？",
        ),
    ),
    Mistake(
        "deals_channels_out_and_collects_them_in_turn",
        edits=[
            (HEADS, "    heads = x.reshape(batch, length, width // num_heads, num_heads)\n"),
            (SPLIT, "    return heads.permute(0, 3, 1, 2)\n"),
            (ROWS, "    rows = x.permute(0, 2, 3, 1)\n"),
        ],
        caught_by="head_owns_its_channels",
        en=(
            "deals channels to the heads in turn when splitting and collects them in turn when merging",
            "The round trip works, but the contract is about blocks: head h holds channels h*D up to (h+1)*D.",
        ),
        zh=(
            "拆分时把通道轮流分给各头，合并时又轮流收回来",
            "来回虽然能还原，但约定的是成块分配：第 h 个头拿通道 h*D 到 (h+1)*D。",
        ),
    ),
    Mistake(
        "merges_channels_in_turn",
        old=ROWS,
        new="    rows = x.permute(0, 2, 3, 1)  # [B, T, D, H]\n",
        caught_by="merged_heads_stand_side_by_side",
        en=(
            "interleaves the heads when merging",
            "Channel 0 of every head comes first, then channel 1 of every head. Whole heads must stand side by side: check "
            "the order of the last two axes before the reshape.",
        ),
        zh=(
            "合并时把各个头的通道交错排列",
            "这样先是每个头的第 0 个通道，再是每个头的第 1 个通道。应当整个头整个头地并排放：检查 reshape 之前最后两维的顺序。",
        ),
    ),
    Mistake(
        "merges_with_view",
        old=MERGED,
        new="    return rows.view(batch, length, heads * head_width)\n",
        caught_by="merged_heads_stand_side_by_side",
        en=(
            "merges with view, which works only on what split_heads has just made",
            "After transpose the numbers of one position usually do not lie side by side in memory, and view refuses. "
            "reshape copies where it has to.",
        ),
        zh=(
            "合并时用了 view，只有对 split_heads 刚拆出来的张量才行得通",
            "transpose 之后，同一位置的数字在内存里往往不相邻，view 就会报错。reshape 会在需要时复制。",
        ),
    ),
    Mistake(
        "merges_the_heads_backwards",
        old=ROWS,
        new="    rows = x.flip(1).transpose(1, 2)  # [B, T, H, D]\n",
        caught_by="merging_undoes_splitting",
        en=(
            "puts the last head first when merging",
            "Merging must undo splitting: head 0 came from the first D channels and goes back there.",
        ),
        zh=(
            "合并时把最后一个头放到了最前面",
            "合并要还原拆分：第 0 个头来自最前面的 D 个通道，也要放回那里。",
        ),
    ),
    Mistake(
        "numbers_the_heads_backwards",
        edits=[
            (SPLIT, "    return heads.transpose(1, 2).flip(1)\n"),
            (ROWS, "    rows = x.flip(1).transpose(1, 2)\n"),
        ],
        caught_by="head_owns_its_channels",
        en=(
            "numbers the heads from the last to the first, in splitting and in merging",
            "Everything fits together, but head 0 must hold the first D channels.",
        ),
        zh=(
            "拆分和合并时头的编号都是倒过来的",
            "前后虽然配套，但第 0 个头应当拿最前面的 D 个通道。",
        ),
    ),
    Mistake(
        "leaves_the_head_axis_behind_time",
        old=SPLIT,
        new="    return heads\n",
        caught_by="shapes",
        en=(
            "returns [B, T, H, D] from split_heads",
            "The head axis must come before time, so that the last two axes are [T, D] and every head attends by itself.",
        ),
        zh=(
            "split_heads 返回的是 [B, T, H, D]",
            "头轴要放在时间轴前面，这样最后两维才是 [T, D]，每个头各自做注意力。",
        ),
    ),
    Mistake(
        "looks_at_sizes_to_find_the_head_axis",
        old=SPLIT,
        new="    return heads if length == num_heads else heads.transpose(1, 2)\n",
        caught_by="any_sizes",
        en=(
            "does not move the head axis when T happens to equal H",
            "Sizes do not tell which axis is which; with T = H both are the same. Go by the position of the axis.",
        ),
        zh=(
            "T 恰好等于 H 时没有移动头轴",
            "不能靠大小来判断哪个轴是哪个，T = H 时两者一样大。请按轴的位置来操作。",
        ),
    ),
    Mistake(
        "drops_the_axis_of_a_single_head",
        old=SPLIT,
        new="    return heads.transpose(1, 2).squeeze()\n",
        caught_by="any_sizes",
        en=(
            "drops axes of size 1",
            "One head, one position or a batch of one keeps its axis. Look for squeeze().",
        ),
        zh=(
            "把大小为 1 的轴丢掉了",
            "只有一个头、一个位置或者 batch 大小为 1 时，轴也要保留。找一找 squeeze()。",
        ),
    ),
    # --- which part of qkv is which
    Mistake(
        "takes_the_keys_for_queries",
        old=PARTS,
        new=PARTS.replace("q, k, v =", "k, q, v ="),
        caught_by="thirds_are_queries_keys_values",
        en=(
            "takes the first third for the keys and the second for the queries",
            "The order is q, k, v. The score matrix is transposed otherwise, and the softmax runs over the wrong side.",
        ),
        zh=(
            "把第一份当成键，第二份当成查询",
            "顺序是 q、k、v。弄反之后分数矩阵等于转置了，softmax 也就做错了方向。",
        ),
    ),
    Mistake(
        "takes_the_first_third_for_the_values",
        old=PARTS,
        new=PARTS.replace("q, k, v =", "v, q, k ="),
        caught_by="thirds_are_queries_keys_values",
        en=(
            "takes the first third for the values",
            "The order is q, k, v: the values are the last third.",
        ),
        zh=(
            "把第一份当成值",
            "顺序是 q、k、v，值是最后一份。",
        ),
    ),
    Mistake(
        "takes_every_third_channel",
        old=PARTS,
        new="    q, k, v = (split_heads(qkv[..., third::3], num_heads) for third in range(3))\n",
        caught_by="value",
        en=(
            "takes every third channel instead of three thirds",
            "q is the first C channels in one piece, then come C for k and C for v.",
        ),
        zh=(
            "每隔三个通道取一个，而不是分成三段",
            "q 是最前面连续的 C 个通道，接着 C 个是 k，再接着 C 个是 v。",
        ),
    ),
    Mistake(
        "looks_for_q_k_v_inside_each_head",
        old=PARTS,
        new="    if (qkv.shape[-1] // 3) % num_heads != 0:\n"
        '        raise ValueError(f"{num_heads} heads do not divide {qkv.shape[-1] // 3}")\n'
        "    q, k, v = split_heads(qkv, num_heads).chunk(3, dim=-1)\n",
        caught_by="value",
        en=(
            "splits qkv into heads first and looks for q, k and v inside each head",
            "Some models store it that way, but here the thirds come first: all of q, all of k, all of v, and each third "
            "is then split.",
        ),
        zh=(
            "先把 qkv 拆成头，再在每个头里找 q、k、v",
            "有的模型是那样存放的，但这里先分三份：整个 q、整个 k、整个 v，然后每一份再拆成头。",
        ),
    ),
    # --- attention inside the heads
    Mistake(
        "attends_across_heads",
        edits=[
            (
                PARTS,
                PARTS.replace("(split_heads(part, num_heads) for", "(split_heads(part, num_heads).transpose(1, 2) for"),
            ),
            (OUT, "    return merge_heads((weights @ v).transpose(1, 2))\n"),
        ],
        caught_by="every_position_counts",
        en=(
            "lets the heads of one position attend to each other instead of the positions of one head",
            "The scores are [B, T, H, H] then. The last two axes at the matrix product must be [T, D].",
        ),
        zh=(
            "让同一位置的各个头互相注意，而不是让同一个头的各个位置互相注意",
            "这样分数的形状是 [B, T, H, H]。做矩阵乘法时，最后两维必须是 [T, D]。",
        ),
    ),
    Mistake(
        "scales_by_the_whole_width",
        old=SCORES,
        new="    scores = q @ k.transpose(-2, -1) / math.sqrt(qkv.shape[-1] // 3)\n",
        caught_by="head_works_as_if_alone",
        en=(
            "scales by the square root of C instead of D",
            "A score in one head sums D products, not C. With a single head nobody sees the difference.",
        ),
        zh=(
            "用 √C 而不是 √D 做缩放",
            "一个头里的分数由 D 项乘积相加，不是 C 项。只有一个头时看不出差别。",
        ),
    ),
    Mistake(
        "forgets_to_scale",
        old=SCORES,
        new="    scores = q @ k.transpose(-2, -1)\n",
        caught_by="value",
        en=(
            "does not scale the scores",
            "As in the exercise before: divide by the square root of the head width.",
        ),
        zh=(
            "没有对分数做缩放",
            "与上一个练习一样：要除以头宽的平方根。",
        ),
    ),
    Mistake(
        "divides_by_the_head_width_itself",
        old=SCORES,
        new="    scores = q @ k.transpose(-2, -1) / q.shape[-1]\n",
        caught_by="value",
        en=(
            "divides the scores by D instead of its square root",
            "Dividing by D flattens the weights. The divisor is the square root of the head width.",
        ),
        zh=(
            "把分数除以 D，而不是 D 的平方根",
            "直接除以 D 会把权重压得过平。除数应当是头宽的平方根。",
        ),
    ),
    Mistake(
        "scales_by_the_length",
        old=SCORES,
        new="    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-2])\n",
        caught_by="value",
        en=(
            "scales by the square root of T",
            "Which axis of q do you read the width from? The scale has nothing to do with the length.",
        ),
        zh=(
            "用 √T 做缩放",
            "宽度是从 q 的哪个轴读出来的？缩放与序列长度无关。",
        ),
    ),
    Mistake(
        "normalises_over_the_queries",
        old=SOFTMAX,
        new="    weights = torch.softmax(scores, dim=-2)\n",
        caught_by="value",
        en=(
            "takes the softmax over the query axis",
            "The weights of one query must sum to 1 over the keys, and the keys are the last axis.",
        ),
        zh=(
            "沿着查询轴做 softmax",
            "每个查询的权重应当在各个键上加起来等于 1。键在最后一维上，softmax 要沿 dim=-1。",
        ),
    ),
    Mistake(
        "normalises_over_the_heads",
        old=SOFTMAX,
        new="    weights = torch.softmax(scores, dim=1)\n",
        caught_by="heads_do_not_mix",
        en=(
            "takes the softmax over the head axis",
            "In [B, H, T, T] axis 1 is the heads; they would compete with each other. The keys are the last axis.",
        ),
        zh=(
            "沿着头轴做 softmax",
            "[B, H, T, T] 的第 1 维是头，这样各个头会互相竞争。键在最后一维上，softmax 要沿 dim=-1。",
        ),
    ),
    Mistake(
        "normalises_over_the_batch",
        old=SOFTMAX,
        new="    weights = torch.softmax(scores, dim=0)\n",
        caught_by="rows_do_not_mix",
        en=(
            "takes the softmax over the batch axis",
            "Examples of one batch must not influence each other. The keys are the last axis.",
        ),
        zh=(
            "沿着 batch 轴做 softmax",
            "同一 batch 里的样本不能互相影响。键在最后一维上，softmax 要沿 dim=-1。",
        ),
    ),
    Mistake(
        "hides_later_positions",
        old=SOFTMAX,
        new="    later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)\n"
        "    weights = torch.softmax(scores.masked_fill(later, -1e9), dim=-1)\n",
        caught_by="every_position_counts",
        en=(
            "hides the positions after the query",
            "The causal mask belongs to the next exercise. Here every position looks at every position.",
        ),
        zh=(
            "屏蔽了查询之后的位置",
            "因果掩码是下一个练习的内容。这里每个位置都看所有位置。",
        ),
    ),
    Mistake(
        "looks_at_neighbours_only",
        old=SOFTMAX,
        new="    rows = torch.arange(scores.shape[-1])\n"
        "    far = (rows[:, None] - rows).abs() > 8\n"
        "    weights = torch.softmax(scores.masked_fill(far, -1e4), dim=-1)\n",
        caught_by="every_position_counts",
        en=(
            "looks only at positions up to 8 steps away",
            "Short tests do not show it. Nothing limits how far a position can look.",
        ),
        zh=(
            "只看 8 步以内的位置",
            "序列短的时候看不出来。一个位置能看多远，是没有限制的。",
        ),
    ),
    Mistake(
        "favours_positions_that_stand_close",
        old=SOFTMAX,
        new="    rows = torch.arange(scores.shape[-1])\n"
        "    weights = torch.softmax(scores - 0.2 * (rows[:, None] - rows).abs(), dim=-1)\n",
        caught_by="order_of_positions_is_kept",
        en=(
            "favours positions that stand close",
            "Attention alone knows no order; only the content of q and k decides.",
        ),
        zh=(
            "偏爱离得近的位置",
            "注意力本身不知道顺序，只由 q 和 k 的内容决定。",
        ),
    ),
    Mistake(
        "uses_the_weights_of_the_first_head_for_all",
        old=OUT,
        new="    return merge_heads(weights[:, :1] @ v)\n",
        caught_by="heads_do_not_mix",
        en=(
            "uses the weights of head 0 in every head",
            "Each head has its own scores; that is what several heads are for.",
        ),
        zh=(
            "所有的头都用了第 0 个头的权重",
            "每个头有自己的分数，多头的意义正在于此。",
        ),
    ),
    Mistake(
        "averages_the_weights_of_the_heads",
        old=OUT,
        new="    return merge_heads(weights.mean(dim=1, keepdim=True) @ v)\n",
        caught_by="heads_do_not_mix",
        en=(
            "averages the weights over the heads before it uses them",
            "Averaged weights make all heads look at the same places. Each head uses its own.",
        ),
        zh=(
            "先把各个头的权重取平均再使用",
            "取平均之后所有的头都看同样的地方。每个头应当用自己的权重。",
        ),
    ),
    Mistake(
        "uses_the_weights_of_the_first_row_for_all",
        old=OUT,
        new="    return merge_heads(weights[:1] @ v)\n",
        caught_by="rows_do_not_mix",
        en=(
            "uses the weights of batch row 0 for all rows",
            "Each example has its own weights. A batch of one hides this.",
        ),
        zh=(
            "所有样本都用了第 0 个样本的权重",
            "每个样本有自己的权重。batch 大小为 1 时看不出来。",
        ),
    ),
    Mistake(
        "works_with_one_head_whatever_is_asked",
        old=OUT,
        new="    q, k, v = (merge_heads(part) for part in (q, k, v))\n"
        "    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])\n"
        "    return torch.softmax(scores, dim=-1) @ v\n",
        caught_by="heads_do_not_mix",
        en=(
            "attends with one head over the whole width, whatever num_heads is",
            "num_heads must have an effect: each head computes scores from its own D channels.",
        ),
        zh=(
            "不管 num_heads 是多少，都只用一个覆盖全宽的头",
            "num_heads 应当起作用：每个头只用自己的 D 个通道计算分数。",
        ),
    ),
    Mistake(
        "always_makes_two_heads",
        old=PARTS,
        new="    if (qkv.shape[-1] // 3) % num_heads != 0:\n"
        '        raise ValueError(f"{num_heads} heads do not divide {qkv.shape[-1] // 3}")\n'
        "    num_heads = 2 if num_heads > 1 and qkv.shape[-1] % 6 == 0 else num_heads\n" + PARTS,
        caught_by="value",
        en=(
            "makes two heads wherever that is possible",
            "A number from one example has stayed in the code. The number of heads is an argument.",
        ),
        zh=(
            "只要 C 能分成两个头，就总是分成两个头",
            "代码里留下了某个例子中的数字。头的个数是参数。",
        ),
    ),
    Mistake(
        "adds_the_input",
        old=OUT,
        new="    return merge_heads(weights @ v) + qkv.chunk(3, dim=-1)[2]\n",
        caught_by="value",
        en=(
            "adds the values to the output once more",
            "That is a residual connection; it belongs to the block around the attention.",
        ),
        zh=(
            "又把值加到了输出上",
            "那是残差连接，属于注意力外面的那个模块。",
        ),
    ),
    Mistake(
        "drops_weights_at_random",
        old=OUT,
        new="    return merge_heads(torch.nn.functional.dropout(weights, 0.2) @ v)\n",
        caught_by="value",
        en=(
            "applies dropout to the weights",
            "No dropout is asked for, and the functional form drops always.",
        ),
        zh=(
            "对权重做了 dropout",
            "题目没有要求 dropout，而且函数形式的 dropout 总会随机丢弃。",
        ),
    ),
    Mistake(
        "exponentiates_without_care",
        old=SOFTMAX,
        new="    weights = scores.exp()\n    weights = weights / weights.sum(dim=-1, keepdim=True)\n",
        caught_by="any_sizes",
        en=(
            "takes exp of the raw scores",
            "exp(100) is infinite in float32 and exp(-110) is 0. Subtract the largest score of each row first, as "
            "torch.softmax does.",
        ),
        zh=(
            "直接对原始分数取 exp",
            "float32 里 exp(100) 是无穷大，exp(-110) 是 0。请像 torch.softmax 那样，先减去每一行分数的最大值。",
        ),
    ),
    Mistake(
        "subtracts_the_largest_score_of_all",
        old=SOFTMAX,
        new="    weights = (scores - scores.max()).exp()\n"
        "    weights = weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-12)\n",
        caught_by="any_sizes",
        en=(
            "subtracts the largest score of the whole tensor before exp, and nothing is left of rows far below it",
            "Each query has its own level: take the maximum along the last axis, with keepdim.",
        ),
        zh=(
            "取 exp 之前减去的是整个张量的最大分数，远低于它的行就什么也不剩了",
            "每个查询的分数高低不同：最大值要沿最后一维来取，并保留该轴（keepdim）。",
        ),
    ),
    Mistake(
        "clips_the_scores",
        old=SCORES,
        new=SCORES + "    scores = scores.clamp(-50.0, 50.0)\n",
        caught_by="any_sizes",
        en=(
            "clips the scores before the softmax",
            "Beyond the limit all scores become equal. softmax is safe for large numbers by itself.",
        ),
        zh=(
            "在 softmax 之前裁剪了分数",
            "超出界限的分数会变得一样大。softmax 本身就能处理很大的数，不需要裁剪。",
        ),
    ),
    Mistake(
        "rounds_to_half_precision_inside",
        old=SOFTMAX,
        new="    weights = torch.softmax(scores.bfloat16(), dim=-1).to(scores.dtype)\n",
        caught_by="value",
        en=(
            "computes the softmax in half precision",
            "The lost digits do not come back with the dtype. Compute in the dtype you are given, or a better one.",
        ),
        zh=(
            "用半精度计算 softmax",
            "dtype 转回来了，丢掉的精度却回不来。请用输入的 dtype，或者更高的精度来计算。",
        ),
    ),
    Mistake(
        "remembers_its_first_scores",
        edits=[
            (IMPORT, IMPORT + "\n_SEEN = {}\n"),
            (SOFTMAX, "    weights = torch.softmax(_SEEN.setdefault(scores.shape, scores.detach()), dim=-1)\n"),
        ],
        caught_by="each_call_stands_alone",
        en=(
            "keeps the scores of the first call and uses them again",
            "Another qkv has other scores. Nothing may be kept between two calls.",
        ),
        zh=(
            "记住了第一次调用的分数，之后一直沿用",
            "换一个 qkv，分数就应当不同。两次调用之间不能保留任何东西。",
        ),
    ),
    # --- heads that do not divide the width
    Mistake(
        "leaves_the_check_to_reshape",
        old=CHECK,
        new="",
        caught_by="uneven_heads_are_refused",
        en=(
            "lets reshape fail when H does not divide C",
            "A RuntimeError about sizes does not tell the caller what to do. Check first, and raise a ValueError that "
            "names the numbers.",
        ),
        zh=(
            "H 不能整除 C 时，任由 reshape 报错",
            "关于大小的 RuntimeError 没有告诉调用者该怎么办。先检查，再抛出写明这两个数的 ValueError。",
        ),
    ),
    Mistake(
        "asserts_instead_of_raising",
        old=CHECK,
        new='    assert width % num_heads == 0, f"a width of {width} cannot be split into {num_heads} heads"\n',
        caught_by="uneven_heads_are_refused",
        en=(
            "asserts that H divides C",
            "An assertion raises AssertionError, and `python -O` removes it. Raise a ValueError.",
        ),
        zh=(
            "用 assert 检查 H 能否整除 C",
            "assert 抛出的是 AssertionError，而且 `python -O` 会把它去掉。请抛出 ValueError。",
        ),
    ),
    Mistake(
        "drops_the_channels_that_are_left_over",
        old=CHECK,
        new="    width = width - width % num_heads if num_heads <= width else width\n    x = x[..., :width]\n",
        caught_by="uneven_heads_are_refused",
        en=(
            "drops the channels that are left over when H does not divide C",
            "Part of the input disappears silently. Raise a ValueError instead.",
        ),
        zh=(
            "H 不能整除 C 时，悄悄丢掉多出来的通道",
            "一部分输入无声无息地消失了。应当抛出 ValueError。",
        ),
    ),
    Mistake(
        "does_not_say_which_numbers_clash",
        old='        raise ValueError(f"a width of {width} cannot be split into {num_heads} heads of equal width")\n',
        new='        raise ValueError("the width cannot be split into heads of equal width")\n',
        caught_by="uneven_heads_are_refused",
        en=(
            "raises a ValueError that names neither H nor C",
            "Whoever reads the message must see which number to change. Put the values into it.",
        ),
        zh=(
            "抛出的 ValueError 里既没有 H 也没有 C 的值",
            "看到错误信息的人应当知道要改哪个数。请把数值写进去。",
        ),
    ),
    Mistake(
        "checks_three_times_the_width",
        old=PARTS,
        new="    if qkv.shape[-1] % num_heads != 0:\n"
        '        raise ValueError(f"{num_heads} heads do not divide {qkv.shape[-1]}")\n'
        "    width = qkv.shape[-1] // 3 // num_heads\n"
        "    q, k, v = (part[..., : width * num_heads] for part in qkv.chunk(3, dim=-1))\n"
        "    q, k, v = (split_heads(part, num_heads) for part in (q, k, v))\n",
        caught_by="uneven_heads_are_refused",
        en=(
            "checks in multi_head_attention that H divides 3C instead of C",
            "3 heads divide 3 * 10 channels, but not 10. The width that is split is a third of the last axis.",
        ),
        zh=(
            "multi_head_attention 里检查的是 H 能否整除 3C，而不是 C",
            "3 个头能整除 3×10 个通道，却不能整除 10。要拆的宽度是最后一维的三分之一。",
        ),
    ),
    # --- only the gradient is wrong
    Mistake(
        "cuts_the_gradient_of_the_weights",
        old=OUT,
        new="    return merge_heads(weights.detach() @ v)\n",
        caught_by="gradients_are_right",
        en=(
            "lets no gradient flow through the weights",
            "The values are right, but q and k could never learn. Look for detach(), .data or no_grad().",
        ),
        zh=(
            "梯度不能通过权重",
            "数值是对的，但 q 和 k 永远学不到东西。找一找 detach()、.data 或 no_grad()。",
        ),
    ),
    Mistake(
        "cuts_the_gradient_of_the_split",
        old=SPLIT,
        new="    return heads.transpose(1, 2).detach()\n",
        caught_by="gradients_are_right",
        en=(
            "lets no gradient flow through split_heads",
            "Splitting is a rearrangement: the gradient must flow back to where each number came from. Look for detach() "
            "or .data.",
        ),
        zh=(
            "梯度不能通过 split_heads",
            "拆分只是重新排列，梯度应当回到每个数原来的地方。找一找 detach() 或 .data。",
        ),
    ),
    Mistake(
        "cuts_the_gradient_of_the_merge",
        old=MERGED,
        new="    return rows.data.reshape(batch, length, heads * head_width)\n",
        caught_by="gradients_are_right",
        en=(
            "lets no gradient flow through merge_heads",
            "Merging is a rearrangement: the gradient must flow back. Look for detach() or .data.",
        ),
        zh=(
            "梯度不能通过 merge_heads",
            "合并只是重新排列，梯度应当传回去。找一找 detach() 或 .data。",
        ),
    ),
    # --- what it does to its inputs, and which inputs it takes
    Mistake(
        "scales_the_queries_in_place",
        old=SCORES,
        new="    q /= math.sqrt(q.shape[-1])\n    scores = q @ k.transpose(-2, -1)\n",
        caught_by="inputs_stay_as_they_were",
        en=(
            "scales q in place, and q is a view of the caller's qkv",
            "chunk, view and transpose share memory with their source, so /= changes the caller's tensor. Make a new one.",
        ),
        zh=(
            "原地缩放了 q，而 q 是调用者的 qkv 的视图",
            "chunk、view、transpose 得到的结果与原张量共用内存，/= 会改到调用者的张量。请得到一个新张量。",
        ),
    ),
    Mistake(
        "scales_in_place_when_no_gradient_is_recorded",
        old=SCORES,
        new="    scale = math.sqrt(q.shape[-1])\n"
        "    q = q / scale if torch.is_grad_enabled() else q.div_(scale)\n"
        "    scores = q @ k.transpose(-2, -1)\n",
        caught_by="any_tensor_is_an_input",
        en=(
            "scales q in place where no gradient is recorded, and q is a view of the caller's qkv",
            "Without gradients the tensor still belongs to the caller, who may use it again. Make a new one.",
        ),
        zh=(
            "不记录梯度时原地缩放了 q，而 q 是调用者的 qkv 的视图",
            "不记录梯度时，张量仍然属于调用者，之后可能还要用。请得到一个新张量。",
        ),
    ),
    Mistake(
        "transposes_the_heads_in_place",
        old=ROWS,
        new="    rows = x.transpose_(1, 2)  # [B, T, H, D]\n",
        caught_by="inputs_stay_as_they_were",
        en=(
            "transposes the caller's tensor in place when merging",
            "transpose_ changes the shape of the tensor the caller still holds. transpose makes a view.",
        ),
        zh=(
            "合并时原地转置了调用者的张量",
            "transpose_ 会改变调用者手里那个张量的形状。不带下划线的 transpose 得到的是视图。",
        ),
    ),
    Mistake(
        "needs_a_contiguous_input",
        old=HEADS,
        new="    rows = x.view(batch * length, num_heads, width // num_heads)\n"
        "    heads = rows.view(batch, length, num_heads, width // num_heads)\n",
        caught_by="any_tensor_is_an_input",
        en=(
            "splits only tensors whose numbers lie in order in memory",
            "view refuses a transposed or sliced tensor. reshape copies where it has to.",
        ),
        zh=(
            "只能拆分内存连续的张量",
            "张量经过转置或切片后 view 会报错。reshape 会在需要时复制。",
        ),
    ),
    Mistake(
        "merges_memory_in_order",
        old=ROWS,
        new="    order = torch.empty(x.shape, device='meta').stride()\n"
        "    reach = x.storage_offset() + x.numel()\n"
        "    if reach * x.element_size() <= x.untyped_storage().nbytes():\n"
        "        x = x.as_strided(x.shape, order)\n" + ROWS,
        caught_by="any_tensor_is_an_input",
        en=(
            "reads the numbers in the order of the memory when merging",
            "A transposed tensor keeps its numbers where they were. Work with the tensor's axes, never with its memory.",
        ),
        zh=(
            "合并时按内存顺序读取数字",
            "转置后的张量并没有移动数字。请按张量的轴来操作，不要直接依赖内存布局。",
        ),
    ),
    Mistake(
        "answers_in_float32",
        old=OUT,
        new="    return merge_heads(weights.float() @ v.float())\n",
        caught_by="dtype_is_kept",
        en=(
            "answers in float32 whatever dtype came in",
            "Computing in float32 inside is fine, but the result must go back to the dtype of the input.",
        ),
        zh=(
            "不管输入是什么 dtype，都返回 float32",
            "内部用 float32 计算没有问题，但结果要转回输入的 dtype。",
        ),
    ),
    # --- counting
    Mistake(
        "counts_one_score_a_position",
        old=COUNT,
        new="    return B * num_heads * T\n",
        caught_by="score_count_is_right",
        en=(
            "counts one score for each position",
            "Every position has one score for each position it looks at: a whole row.",
        ),
        zh=(
            "每个位置只算了一个分数",
            "一个位置对它看到的每个位置都有一个分数，合起来是一整行。",
        ),
    ),
    Mistake(
        "counts_the_scores_of_one_head",
        old=COUNT,
        new="    return B * T * T\n",
        caught_by="score_count_is_right",
        en=(
            "leaves the heads out of the count",
            "Each head has a T x T matrix of its own, so 8 heads have twice as many scores as 4.",
        ),
        zh=(
            "计数时漏了头的个数",
            "每个头都有自己的 T×T 矩阵，8 个头的分数是 4 个头的两倍。",
        ),
    ),
    Mistake(
        "counts_one_row_of_the_batch",
        old=COUNT,
        new="    return num_heads * T * T\n",
        caught_by="score_count_is_right",
        en=(
            "leaves the batch out of the count",
            "Every row of the batch has its own scores, and all of them are in memory at once.",
        ),
        zh=(
            "计数时漏了 batch 大小",
            "batch 里每个样本都有自己的分数，而且同时占着内存。",
        ),
    ),
    Mistake(
        "turns_on_requires_grad",
        old=HEADS,
        new="    x.requires_grad_()\n" + HEADS,
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
        "gives_the_count_as_a_float",
        old=COUNT,
        new="    return B * num_heads * T**2.0\n",
        caught_by="score_count_is_right",
        en=(
            "gives the count as a float",
            "A number of elements is a whole number. Which operation has turned it into a float?",
        ),
        zh=(
            "计数结果是浮点数",
            "元素个数是整数。是哪个运算把它变成了浮点数？",
        ),
    ),
    Mistake(
        "gives_the_count_as_a_tensor",
        old=COUNT,
        new="    return torch.tensor(B * num_heads * T * T)\n",
        caught_by="score_count_is_right",
        en=(
            "gives the count as a tensor",
            "The number of elements is asked for as a plain Python int. A tensor of one number is still a tensor.",
        ),
        zh=(
            "计数结果是张量",
            "题目要的元素个数是普通的 Python int。只装一个数的张量仍然是张量。",
        ),
    ),
]
