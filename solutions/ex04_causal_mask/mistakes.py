"""Wrong versions of ex04, each one substitution (or a few) away from the reference."""

from grader.mistakes import Mistake

TRIANGLE = "return torch.ones(T, T, dtype=torch.bool).tril()  # [T, T]"
SOFTMAX = """    blocked = ~mask  # the shape of the mask
    lowest = torch.finfo(scores.dtype).min  # finite, so that a row without allowed keys is not 0/0
    weights = scores.masked_fill(blocked, lowest).softmax(dim=-1)  # [B, H, T, S]
    return weights.masked_fill(blocked, 0.0)  # only rows without allowed keys change
"""
WEIGHTS = "weights = scores.masked_fill(blocked, lowest).softmax(dim=-1)  # [B, H, T, S]"
LOWEST = "lowest = torch.finfo(scores.dtype).min  # finite, so that a row without allowed keys is not 0/0"
FINISH = "return weights.masked_fill(blocked, 0.0)  # only rows without allowed keys change"
COMBINE = """    combined = masks[0]
    for mask in masks[1:]:
        combined = combined & mask
    return combined  # such as [T, T] & [B, 1, 1, T] -> [B, 1, T, T]
"""
SCORES = "scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # [B, H, T, T]"
PADDED = """    if padding is not None:
        mask = combine_masks(mask, padding)  # [B, 1, T, T]
"""
OUTPUT = "return masked_softmax(scores, mask) @ v  # [B, H, T, T] @ [B, H, T, E] -> [B, H, T, E]"

MISTAKES = [
    Mistake(
        "hides_the_current_position",
        old=TRIANGLE,
        new="return torch.ones(T, T, dtype=torch.bool).tril(-1)",
        caught_by="causal_mask_is_the_lower_triangle",
        en=(
            "hides the current position from itself",
            "Query t may look at key t: the diagonal belongs to the triangle. Without it the first query sees nothing.",
        ),
        zh=(
            "让当前位置看不到自己",
            "第 t 个查询可以看第 t 个键：对角线属于这个三角形。去掉它，第一个查询就什么也看不到了。",
        ),
    ),
    Mistake(
        "shows_the_next_token",
        old=TRIANGLE,
        new="return torch.ones(T, T, dtype=torch.bool).tril(1)",
        caught_by="causal_mask_is_the_lower_triangle",
        en=(
            "lets every query see one token of the future",
            "Off by one: the next token is just what the model is to predict. Compare row t with j <= t.",
        ),
        zh=(
            "每个查询都能看到未来的一个 token",
            "差了一位：下一个 token 正是模型要预测的内容。请把第 t 行与 j <= t 对照一下。",
        ),
    ),
    Mistake(
        "cuts_the_triangle_from_a_fixed_square",
        old=TRIANGLE,
        new="return torch.ones(1024, 1024, dtype=torch.bool).tril()[:T, :T]",
        caught_by="causal_mask_is_the_lower_triangle",
        en=(
            "cuts every mask out of a square of fixed size",
            "Past that size the mask is too small, and slicing says nothing. Make a mask of the T that is asked for.",
        ),
        zh=(
            "所有掩码都从一个固定大小的方阵里裁出来",
            "T 一旦超过这个大小，裁出的掩码就太小，而切片不会报错。请按传入的 T 来生成掩码。",
        ),
    ),
    Mistake(
        "turns_the_triangle_over",
        old=TRIANGLE,
        new="return torch.ones(T, T, dtype=torch.bool).triu()",
        caught_by="causal_mask_is_the_lower_triangle",
        en=(
            "lets queries see the future and hides the past",
            "Rows are queries, columns are keys; True means may attend. Print the mask for T = 3 and read row 0.",
        ),
        zh=(
            "让查询看到未来，却屏蔽了过去",
            "行是查询，列是键，True 表示允许看。打印 T = 3 的掩码，读一读第 0 行。",
        ),
    ),
    Mistake(
        "marks_what_is_blocked",
        old=TRIANGLE,
        new="return torch.ones(T, T, dtype=torch.bool).triu(1)",
        caught_by="causal_mask_is_the_lower_triangle",
        en=(
            "uses True for blocked",
            "nn.MultiheadAttention does, F.scaled_dot_product_attention and this course do not: True means may attend.",
        ),
        zh=(
            "用 True 表示“屏蔽”",
            "nn.MultiheadAttention 是这样约定的，而 F.scaled_dot_product_attention 和本课程相反：True 表示允许看。",
        ),
    ),
    Mistake(
        "makes_a_mask_of_numbers",
        old=TRIANGLE,
        new="return torch.ones(T, T).tril()",
        caught_by="causal_mask_is_the_lower_triangle",
        en=(
            "makes the causal mask of zeros and ones instead of bool",
            "Handed to an API that adds its mask, 0 and 1 block nothing. Give the mask the dtype bool.",
        ),
        zh=(
            "因果掩码用了 0 和 1 的数值，而不是 bool",
            "如果交给把掩码直接相加的接口，0 和 1 什么也遮不住。请使用 bool 类型。",
        ),
    ),
    Mistake(
        "drops_the_axes_of_a_single_token",
        old=TRIANGLE,
        new="return torch.ones(T, T, dtype=torch.bool).tril().squeeze()",
        caught_by="causal_mask_is_the_lower_triangle",
        en=(
            "returns a mask without axes for T = 1",
            "squeeze removes every axis of size 1. The first step of generation has T = 1 and needs [1, 1].",
        ),
        zh=(
            "T = 1 时返回的掩码没有了轴",
            "squeeze 会去掉所有大小为 1 的轴。生成的第一步 T 就是 1，需要的形状是 [1, 1]。",
        ),
    ),
    Mistake(
        "marks_the_pads_instead_of_the_tokens",
        old="(ids != pad_id)[:, None, None, :]",
        new="(ids == pad_id)[:, None, None, :]",
        caught_by="padding_mask_is_true_for_real_tokens",
        en=(
            "marks the pads instead of the real tokens",
            "True means may attend, so it stands where the id is not pad_id.",
        ),
        zh=(
            "把填充标成了 True，而不是真实的 token",
            "True 表示允许看，应当出现在 id 不等于 pad_id 的位置。",
        ),
    ),
    Mistake(
        "assumes_that_padding_is_id_0",
        old="(ids != pad_id)[:, None, None, :]",
        new="(ids != 0)[:, None, None, :]",
        caught_by="padding_mask_is_true_for_real_tokens",
        en=("assumes that padding has id 0", "The id of padding is an argument; tokenizers differ. Use pad_id."),
        zh=("认定填充的 id 就是 0", "填充的 id 是一个参数，不同的分词器并不一样。请使用 pad_id。"),
    ),
    Mistake(
        "takes_every_id_up_to_the_pad_for_padding",
        old="(ids != pad_id)[:, None, None, :]",
        new="(ids > pad_id)[:, None, None, :]",
        caught_by="padding_mask_is_true_for_real_tokens",
        en=(
            "takes all ids below pad_id for padding too",
            "That happens to work for pad_id = 0. A pad is recognised by being equal to pad_id.",
        ),
        zh=(
            "把所有小于 pad_id 的 id 也当成填充",
            "pad_id = 0 时碰巧是对的。判断填充要看 id 是否等于 pad_id。",
        ),
    ),
    Mistake(
        "knows_the_ids_by_their_tensor",
        edits=[
            ("import math\n", "import functools\nimport math\n"),
            ("def padding_mask(", "@functools.lru_cache(maxsize=None)\ndef padding_mask("),
        ],
        caught_by="answers_each_call_afresh",
        en=(
            "keeps the padding mask of a tensor of ids, and gives it again when the tensor holds other ids",
            "A cache such as lru_cache knows a tensor by its identity, not by its numbers. A mask that depends on the data "
            "is made anew in each call.",
        ),
        zh=(
            "记住了某个 ids 张量的填充掩码，张量里换了别的 id 之后还是返回旧的",
            "lru_cache 这类缓存以张量对象本身（id）为键，而不看其中的数值。与数据有关的掩码，每次调用都要重新生成。",
        ),
    ),
    Mistake(
        "lays_the_padding_along_the_queries",
        old="(ids != pad_id)[:, None, None, :]",
        new="(ids != pad_id)[:, None, :, None]",
        caught_by="padding_mask_is_true_for_real_tokens",
        en=(
            "lays the padding mask along the queries",
            "It is keys that are kept from view, and keys are the last axis of the scores: [B, 1, 1, T].",
        ),
        zh=(
            "把填充掩码放到了查询那个轴上",
            "要屏蔽的是键，而键是分数张量的最后一维：[B, 1, 1, T]。",
        ),
    ),
    Mistake(
        "allows_what_any_mask_allows",
        old="combined = combined & mask",
        new="combined = combined | mask",
        caught_by="combined_masks_all_allow",
        en=(
            "allows a key as soon as one mask allows it",
            "A real token of the future is still the future. With True = may attend, all masks must agree.",
        ),
        zh=(
            "只要有一个掩码允许，就放行了",
            "未来的真实 token 依然是未来。既然 True 表示允许看，就需要所有掩码都同意。",
        ),
    ),
    Mistake(
        "combines_the_first_two_masks_only",
        old="for mask in masks[1:]:",
        new="for mask in masks[1:2]:",
        caught_by="combined_masks_all_allow",
        en=("looks at the first two masks only", "combine_masks takes any number of masks. Go through all of them."),
        zh=("只看了前两个掩码", "combine_masks 可以接受任意多个掩码，请把它们都处理一遍。"),
    ),
    Mistake(
        "needs_at_least_two_masks",
        old=COMBINE,
        new="    combined = masks[0] & masks[1]\n"
        "    for mask in masks[2:]:\n"
        "        combined = combined & mask\n"
        "    return combined\n",
        caught_by="combined_masks_all_allow",
        en=(
            "cannot take a single mask",
            "Without padding there is only the causal mask. One mask combined with nothing is itself.",
        ),
        zh=(
            "只传一个掩码时会出错",
            "没有填充时就只有因果掩码。只有一个掩码时，合并的结果就是它自己。",
        ),
    ),
    Mistake(
        "writes_into_the_first_mask",
        old="combined = combined & mask",
        new="combined &= mask",
        caught_by="leaves_its_inputs_alone",
        en=(
            "writes the combination into the caller's first mask",
            "`&=` works in place: the mask of the next layer is changed too, and broadcasting fails. Make a new tensor.",
        ),
        zh=(
            "把合并的结果写进了调用者的第一个掩码",
            "`&=` 是原地操作：下一层用的掩码也被改了，而且无法广播。请生成新的张量。",
        ),
    ),
    Mistake(
        "masks_after_the_softmax",
        old=WEIGHTS,
        new="weights = scores.softmax(dim=-1)",
        caught_by="weights_share_out_one",
        en=(
            "masks after the softmax",
            "The blocked keys have then already taken their share of the 1, and what they took depends on the future. "
            "Mask the scores first.",
        ),
        zh=(
            "在 softmax 之后才做掩码",
            "这时被屏蔽的键已经分走了一部分权重，而分走多少又取决于未来。请先掩码，再做 softmax。",
        ),
    ),
    Mistake(
        "masks_after_the_softmax_and_divides_again",
        edits=[
            (WEIGHTS, "weights = scores.softmax(dim=-1).masked_fill(blocked, 0.0)"),
            (FINISH, "return weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-30)"),
        ],
        caught_by="extreme_scores_survive",
        en=(
            "masks after the softmax and divides by what is left",
            "On paper that is right. But one blocked key with a very large score leaves nothing to the others in "
            "float32: 0/0. Mask before the softmax.",
        ),
        zh=(
            "softmax 之后才掩码，再除以剩下的总和",
            "数学上没错，但只要有一个被屏蔽的键分数极大，其余权重在 float32 里就全变成 0，最后成了 0/0。"
            "请在 softmax 之前掩码。",
        ),
    ),
    Mistake(
        "fills_with_zero",
        old="scores.masked_fill(blocked, lowest)",
        new="scores.masked_fill(blocked, 0.0)",
        caught_by="weights_share_out_one",
        en=(
            "sets blocked scores to 0",
            "A score of 0 is an ordinary score: exp(0) = 1. What is to vanish must be very negative.",
        ),
        zh=(
            "把被屏蔽的分数设成 0",
            "0 只是一个普通的分数：exp(0) = 1。要让它消失，就得是一个非常大的负数。",
        ),
    ),
    Mistake(
        "takes_zero_scores_for_blocked_ones",
        old="scores.masked_fill(blocked, lowest)",
        new="torch.where(scores * mask == 0, lowest, scores)",
        caught_by="zero_scores_are_ordinary",
        en=(
            "takes a score of exactly 0 for a blocked one",
            "Zero vectors give scores of 0, and those keys are allowed. Let the mask alone decide.",
        ),
        zh=(
            "把恰好为 0 的分数当成了被屏蔽的",
            "零向量的分数就是 0，而这些键是允许看的。是否屏蔽只能由掩码来决定。",
        ),
    ),
    Mistake(
        "fills_with_a_small_negative_number",
        old=LOWEST,
        new="lowest = -100.0",
        caught_by="extreme_scores_survive",
        en=(
            "fills with a number that real scores can reach",
            "-100 is less than most scores, not less than all. Ask torch.finfo(scores.dtype) for the lowest number.",
        ),
        zh=(
            "用来屏蔽的负数不够小，真实的分数也可能比它还小",
            "-100 比多数分数小，但不是比所有分数小。请用 torch.finfo(scores.dtype) 查出最小的数。",
        ),
    ),
    Mistake(
        "fills_with_what_float16_cannot_hold",
        old=LOWEST,
        new="lowest = -1e9",
        caught_by="half_precision_works",
        en=(
            "fills with -1e9 in every dtype",
            "float16 ends at 65504, so -1e9 overflows. Take the fill from the dtype of the scores, or use -inf.",
        ),
        zh=(
            "不论什么类型都填 -1e9",
            "float16 最大只到 65504，-1e9 会溢出。请根据分数的类型选择填充值，或者用 -inf。",
        ),
    ),
    Mistake(
        "leaves_nan_in_blocked_rows",
        edits=[(LOWEST, 'lowest = float("-inf")'), (FINISH, "return weights")],
        caught_by="blocked_rows_are_zero",
        en=(
            "returns NaN for a query that may see no key",
            "A row of -inf everywhere is 0/0. One NaN spreads through the whole network; give zeros there.",
        ),
        zh=(
            "没有任何可见键的行，返回了 NaN",
            "整行都是 -inf，softmax 就成了 0/0。一个 NaN 会扩散到整个网络；这样的行权重应当全为零。",
        ),
    ),
    Mistake(
        "spreads_blocked_rows_evenly",
        old=FINISH,
        new="return weights",
        caught_by="blocked_rows_are_zero",
        en=(
            "gives equal weights to all keys where none is allowed",
            "When every score is the same very negative number, softmax is uniform, so a query that may see nothing sees "
            "everything. Treat that row once more after the softmax.",
        ),
        zh=(
            "没有任何可见键的行，把权重平均分给了所有键",
            "整行都是同一个很大的负数时，softmax 是均匀的：本该什么都看不到的查询反而看到了全部。"
            "请在 softmax 之后再处理这一行。",
        ),
    ),
    Mistake(
        "hides_nan_in_the_value_only",
        old=SOFTMAX,
        new='    bias = torch.zeros(mask.shape, dtype=scores.dtype).masked_fill(~mask, float("-inf"))\n'
        "    return (scores + bias).softmax(dim=-1).nan_to_num(0.0)\n",
        caught_by="blocked_rows_get_no_gradient",
        en=(
            "repairs the NaN of a blocked row in the value, not in the gradient",
            "Backward still goes through the softmax of a row of -inf, and NaN times 0 is NaN. The row must be harmless "
            "before the softmax.",
        ),
        zh=(
            "没有任何可见键的行，数值上去掉了 NaN，梯度里还有",
            "反向传播仍要经过那一行全是 -inf 的 softmax，而 NaN 乘 0 还是 NaN。必须在 softmax 之前就让这一行无害。",
        ),
    ),
    Mistake(
        "drops_rows_whose_first_key_is_blocked",
        old=FINISH,
        new="return weights.masked_fill(blocked | blocked[..., :1], 0.0)",
        caught_by="weights_share_out_one",
        en=(
            "takes a row for blocked when its first key is",
            "With padding on the left, the first key is a pad and the others are not. Look at the whole row.",
        ),
        zh=(
            "只要第一个键被屏蔽，就认为整行都被屏蔽",
            "左填充时，第一个键是填充，其余的却不是。请看整行。",
        ),
    ),
    Mistake(
        "normalises_over_the_queries",
        old=".softmax(dim=-1)",
        new=".softmax(dim=-2)",
        caught_by="weights_share_out_one",
        en=("applies softmax over the queries", "Each query shares out 1 among its keys: the last axis of the scores."),
        zh=("在查询那个轴上做了 softmax", "每个查询把 1 分给它的各个键：键是分数张量的最后一维。"),
    ),
    Mistake(
        "exponentiates_without_care",
        edits=[
            (WEIGHTS, "weights = scores.exp().masked_fill(blocked, 0.0)"),
            (FINISH, "return weights / weights.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).tiny)"),
        ],
        caught_by="extreme_scores_survive",
        en=(
            "takes exp of the raw scores",
            "exp(200) is infinite in float32 and exp(-300) is 0. Subtract the largest allowed score first, as softmax does.",
        ),
        zh=(
            "直接对原始分数取 exp",
            "float32 里 exp(200) 是无穷大，exp(-300) 是 0。请像 softmax 那样，先减去允许的分数中的最大值。",
        ),
    ),
    Mistake(
        "clips_the_scores",
        old="scores.masked_fill(blocked, lowest)",
        new="scores.clamp(-50.0, 50.0).masked_fill(blocked, lowest)",
        caught_by="extreme_scores_survive",
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
        "makes_a_mask_as_large_as_the_scores",
        old=WEIGHTS,
        new="bias = torch.zeros_like(scores)\n"
        "    bias.masked_fill_(blocked, lowest / 2)\n"
        "    weights = (scores + bias).softmax(dim=-1)",
        caught_by="no_full_mask_is_made",
        en=(
            "makes a mask as large as the scores",
            "A bool or a 0/1 or an additive mask of B*H*T*S elements: with 32 heads and 8,192 tokens 2 GB and more for each "
            "sentence. zeros_like(scores), repeat, and an operation on an expanded mask all make one. Let it broadcast.",
        ),
        zh=(
            "生成了与分数一样大的掩码",
            "不管是 bool、0/1 还是加性的掩码，B*H*T*S 个元素意味着：32 个头、8192 个 token 时，每个句子至少 2 GB。"
            "zeros_like(scores)、repeat，以及对 expand 后的掩码做运算，都会造出它来。让掩码自己广播就行。",
        ),
    ),
    Mistake(
        "returns_float32_weights",
        old="weights = scores.masked_fill(blocked, lowest).softmax(dim=-1)  # [B, H, T, S]",
        new="weights = scores.masked_fill(blocked, lowest).softmax(dim=-1, dtype=torch.float32)",
        caught_by="keeps_the_dtype",
        en=(
            "returns float32 whatever came in",
            "Computing in float32 is a good idea, but the result goes back to the dtype of the input.",
        ),
        zh=(
            "不管输入是什么类型，都返回 float32",
            "用 float32 计算是好主意，但结果要转回输入的类型。",
        ),
    ),
    Mistake(
        "computes_in_half_precision",
        old=SCORES,
        new="scores = (q.bfloat16() @ k.bfloat16().transpose(-2, -1) / math.sqrt(q.shape[-1])).to(q.dtype)",
        caught_by="attention_has_the_right_value",
        en=(
            "computes the scores in lower precision than the inputs have",
            "Do not convert to a narrower dtype on the way.",
        ),
        zh=("用比输入更低的精度计算分数", "中间不要转换成更窄的类型。"),
    ),
    Mistake(
        "applies_causality_in_every_softmax",
        old="blocked = ~mask  # the shape of the mask",
        new="blocked = ~(mask & causal_mask(scores.shape[-1])[-scores.shape[-2] :].to(mask.device))",
        caught_by="masked_softmax_has_the_right_value",
        en=(
            "applies the causal mask in masked_softmax as well",
            "masked_softmax is to use the mask it is given and nothing else; T and S may differ there.",
        ),
        zh=(
            "masked_softmax 里又加上了一层因果掩码",
            "masked_softmax 只使用传给它的掩码，不加别的；在这里 T 和 S 可以不同。",
        ),
    ),
    Mistake(
        "overwrites_the_scores",
        old="weights = scores.masked_fill(blocked, lowest)",
        new="weights = scores.masked_fill_(blocked, lowest)",
        caught_by="leaves_its_inputs_alone",
        en=(
            "writes the fill into the caller's scores",
            "masked_fill_ works in place. The caller may still need the scores, and a leaf tensor refuses it.",
        ),
        zh=(
            "把填充值写进了调用者的分数张量",
            "masked_fill_ 是原地操作。调用者可能还要用这些分数，而且叶子张量根本不允许这样做。",
        ),
    ),
    Mistake(
        "overwrites_the_scores_when_no_gradient_is_recorded",
        old=WEIGHTS,
        new="fill = scores.masked_fill if torch.is_grad_enabled() else scores.masked_fill_\n"
        "    weights = fill(blocked, lowest).softmax(dim=-1)",
        caught_by="masked_softmax_has_the_right_value",
        en=(
            "writes the fill into the caller's scores where no gradient is recorded",
            "Without gradients the scores still belong to the caller, who may use them again. masked_fill makes a new tensor.",
        ),
        zh=(
            "不记录梯度时把填充值直接写进了调用者的分数",
            "不记录梯度时，分数仍然属于调用者，之后可能还要用。masked_fill 会得到一个新张量。",
        ),
    ),
    Mistake(
        "stops_the_gradient_of_the_weights",
        old="return weights.masked_fill(blocked, 0.0)  #",
        new="return weights.masked_fill(blocked, 0.0).detach()  #",
        caught_by="softmax_gradient_has_the_right_value",
        en=(
            "cuts the gradient after the softmax",
            "Without it queries and keys never learn. Masks need no gradient, weights do.",
        ),
        zh=(
            "在 softmax 之后切断了梯度",
            "没有它，查询和键就永远学不到东西。掩码不需要梯度，权重需要。",
        ),
    ),
    Mistake(
        "lets_values_learn_only",
        old=OUTPUT,
        new="return masked_softmax(scores.detach(), mask) @ v",
        caught_by="attention_gradient_has_the_right_value",
        en=(
            "passes gradients to the values only",
            "The scores were cut out of the graph: `detach`, `.data` or no_grad before the softmax.",
        ),
        zh=(
            "梯度只传给了 v",
            "分数被移出了计算图：检查 softmax 之前有没有 `detach`、`.data` 或 no_grad。",
        ),
    ),
    Mistake(
        "forgets_to_scale",
        old="q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])",
        new="q @ k.transpose(-2, -1)",
        caught_by="attention_has_the_right_value",
        en=("forgets to scale the scores", "Divide the scores by the root of the head width D."),
        zh=("忘了缩放分数", "请把分数除以头宽度 D 的平方根。"),
    ),
    Mistake(
        "scales_by_the_length",
        old="math.sqrt(q.shape[-1])",
        new="math.sqrt(q.shape[-2])",
        caught_by="attention_has_the_right_value",
        en=("scales by the root of the length T", "It is the head width D, the last axis, that makes scores large."),
        zh=("除以了长度 T 的平方根", "使分数变大的是头的宽度 D，也就是最后一维。"),
    ),
    Mistake(
        "scales_by_the_width_of_the_values",
        old="math.sqrt(q.shape[-1])",
        new="math.sqrt(v.shape[-1])",
        caught_by="attention_has_the_right_value",
        en=("scales by the width of the values", "v may be wider or narrower than q. Scale by the width of q and k."),
        zh=("按 v 的宽度来缩放", "v 可以比 q 宽，也可以比 q 窄。请按 q 和 k 的宽度缩放。"),
    ),
    Mistake(
        "ignores_padding",
        old=PADDED,
        new="",
        caught_by="pads_influence_nothing",
        en=("ignores the padding mask", "Look at what happens with `padding` in causal_attention."),
        zh=("没有使用填充掩码", "请检查 causal_attention 里是怎么处理 `padding` 的。"),
    ),
    Mistake(
        "ignores_the_padding_of_a_single_sequence",
        old="    if padding is not None:\n",
        new="    if padding is not None and len(q) > 1:\n",
        caught_by="attention_has_the_right_value",
        en=(
            "ignores the padding mask when the batch holds one sequence",
            "A sequence by itself may carry pads as well. Whether a key counts is said by the mask, not by the batch size.",
        ),
        zh=(
            "batch 里只有一条序列时没有使用填充掩码",
            "单独一条序列也可能带着填充。某个键是否可见由掩码决定，与 batch 大小无关。",
        ),
    ),
    Mistake(
        "forgets_causality_when_there_is_padding",
        old="mask = combine_masks(mask, padding)  # [B, 1, T, T]",
        new="mask = padding",
        caught_by="past_ignores_future",
        en=(
            "lets the padding mask replace the causal one",
            "With padding both hold: a key must be a real token and not in the future.",
        ),
        zh=(
            "有填充时，用填充掩码取代了因果掩码",
            "有填充时两个条件都要满足：键既要是真实的 token，又不能在未来。",
        ),
    ),
    Mistake(
        "forgets_causality_without_padding",
        old="mask = causal_mask(q.shape[-2]).to(q.device)  # [T, T]",
        new="mask = causal_mask(q.shape[-2]) | torch.tensor(padding is None)",
        caught_by="past_ignores_future",
        en=(
            "lets queries see the future when there is no padding",
            "The causal mask always applies, with padding and without.",
        ),
        zh=("没有填充时，查询能看到未来", "不管有没有填充，因果掩码始终有效。"),
    ),
    Mistake(
        "applies_the_padding_of_the_first_sequence_to_all",
        old="combine_masks(mask, padding)",
        new="combine_masks(mask, padding[:1])",
        caught_by="pads_influence_nothing",
        en=(
            "uses the padding of the first sequence for the whole batch",
            "Every sequence of a batch has its own length. Keep the batch axis of the mask.",
        ),
        zh=(
            "整个 batch 都用第一条序列的填充掩码",
            "batch 里每条序列的长度各不相同，请保留掩码的 batch 轴。",
        ),
    ),
    Mistake(
        "silences_the_queries_that_are_pads",
        old=OUTPUT,
        new="out = masked_softmax(scores, mask) @ v\n"
        "    return out if padding is None else out * padding.transpose(-2, -1)",
        caught_by="attention_has_the_right_value",
        en=(
            "sets the output of pad queries to zero as well",
            "The padding mask speaks of keys. A pad query that may see real keys attends to them like any other; its "
            "output is dropped later, in the loss.",
        ),
        zh=(
            "把填充位置上查询的输出也清零了",
            "填充掩码针对的是键。填充位置的查询只要能看到真实的键，就照常计算；它的输出会在后面的损失里被忽略。",
        ),
    ),
    Mistake(
        "remembers_the_padding_of_the_first_call",
        old=PADDED,
        new="    if padding is not None:\n"
        "        kept = causal_attention.__dict__.setdefault('kept', {})\n"
        "        mask = combine_masks(mask, kept.setdefault(padding.shape, padding.clone()))\n",
        caught_by="answers_each_call_afresh",
        en=(
            "uses the padding of an earlier call of the same shape",
            "The next batch has other lengths. Do not keep masks that depend on the data between calls.",
        ),
        zh=(
            "沿用了之前同样形状的那次调用的填充掩码",
            "下一个 batch 的长度又不一样了。与数据有关的掩码不要在调用之间保存。",
        ),
    ),
    Mistake(
        "mixes_up_the_sequences_of_a_batch",
        old=OUTPUT,
        new="out = masked_softmax(scores, mask) @ v\n    return torch.cat((out[:1], out[1:].flip(0)), dim=0)",
        caught_by="attention_has_the_right_value",
        en=(
            "mixes up the sequences of a batch",
            "Each sequence attends to itself only. Look for an operation along the batch axis.",
        ),
        zh=(
            "把 batch 里的序列弄混了",
            "每条序列只关注它自己。请找找有没有沿 batch 轴做的操作。",
        ),
    ),
    Mistake(
        "averages_the_past",
        old=OUTPUT,
        new="weights = masked_softmax(scores, mask)\n"
        "    even = mask / mask.sum(dim=-1, keepdim=True).clamp(min=1)\n"
        "    return torch.where(weights > 0, even.to(v.dtype), 0.0) @ v",
        caught_by="attention_has_the_right_value",
        en=(
            "averages the allowed values, whatever the scores are",
            "The weights come from the scores of this query with every allowed key.",
        ),
        zh=("不看分数，对允许的值取了平均", "权重应当来自这个查询与每个允许的键的分数。"),
    ),
    Mistake(
        "sees_the_current_position_only",
        old=OUTPUT,
        new="sharp = torch.eye(q.shape[-2], dtype=torch.bool)\n    return masked_softmax(scores, mask & sharp) @ v",
        caught_by="present_depends_on_the_past",
        en=(
            "looks at the current position only",
            "That is causal, but there is no attention left: query t depends on every key j <= t.",
        ),
        zh=(
            "只看当前位置",
            "这样虽然满足因果性，却没有注意力了：第 t 个查询应当依赖每一个 j <= t 的键。",
        ),
    ),
]
