"""Wrong versions of ex07 that learners really write."""

from grader.mistakes import Mistake

PAST = "past = torch.ones(T, S, dtype=torch.bool, device=q.device).tril(S - T)  "
BOTH = "mask = past if padding is None else past & padding  "
PLAIN = "return F.scaled_dot_product_attention(q, k, v)  "
MASKED = "out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask | blind)  "
ZEROS = "return out.masked_fill(blind, 0.0)  "
SCORES = "scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  "
FUTURE = "future = torch.ones(T, S, dtype=torch.bool, device=q.device).triu(S - T + 1)  "
ERROR = "return (fused_attention(q, k, v, causal=causal) - by_hand).abs().max().item()"
BLIND = "blind = ~mask.any(dim=-1, keepdim=True)  "

MISTAKES = [
    Mistake(
        "uses_is_causal_with_a_cache",
        old=PAST,
        new="past = torch.ones(T, S, dtype=torch.bool, device=q.device).tril()  ",
        caught_by="causal_is_aligned_at_the_last_key",
        en=(
            "aligns the causal mask at the top left, as is_causal does",
            "With a cache the T queries are the newest of S tokens: the last one sees all S keys. is_causal=True and tril() "
            "let the first query see key 0 only. For T == S the two agree, so try T < S.",
        ),
        zh=(
            "像 is_causal 那样把因果掩码对齐到左上角",
            "有缓存时，T 个查询是 S 个 token 里最新的那些：最后一个查询能看到全部 S 个键。而 is_causal=True 和 tril() "
            "只让第一个查询看到第 0 个键。T == S 时两者一样，请用 T < S 试一试。",
        ),
    ),
    Mistake(
        "lets_queries_see_one_key_too_many",
        old=PAST,
        new="past = torch.ones(T, S, dtype=torch.bool, device=q.device).tril(S - T + 1)  ",
        caught_by="causal_hides_the_future",
        en=(
            "lets every query see one key of the future",
            "Query t, counted from the end, sees its own key and earlier ones: check the diagonal.",
        ),
        zh=("让每个查询多看到一个未来的键", "查询只能看到自己和更早的键：检查对角线的偏移量。"),
    ),
    Mistake(
        "hides_the_current_key",
        old=PAST,
        new="past = torch.ones(T, S, dtype=torch.bool, device=q.device).tril(S - T - 1)  ",
        caught_by="causal_hides_the_future",
        en=("hides a query's own key as well", "A token may attend to itself: check the diagonal."),
        zh=("把查询自己的键也屏蔽了", "token 可以关注自己：检查对角线的偏移量。"),
    ),
    Mistake(
        "hides_the_past",
        old=PAST,
        new="past = torch.ones(T, S, dtype=torch.bool, device=q.device).triu(S - T)  ",
        caught_by="causal_hides_the_future",
        en=(
            "hides the past and shows the future",
            "The triangle is upside down: rows are queries, columns are keys, and earlier keys stay.",
        ),
        zh=("屏蔽了过去，却露出了未来", "下三角的方向反了：行是查询，列是键，应保留更早的键。"),
    ),
    Mistake(
        "cuts_the_triangle_out_of_a_table_of_fixed_size",
        old=PAST,
        new="past = torch.ones(512, 512, dtype=torch.bool, device=q.device).tril()[S - T : S, :S]  ",
        caught_by="every_size_is_ordinary",
        en=(
            "cuts the causal mask out of a table that is too small for long sequences",
            "No length is promised here: make the table as large as these T and S ask for.",
        ),
        zh=("因果掩码从固定大小的表里截取，长序列放不下", "本题没有限制长度：按这次的 T 和 S 来建表。"),
    ),
    Mistake(
        "takes_true_for_blocked",
        old="    mask = padding  #",
        new="    padding = None if padding is None else ~padding\n    mask = padding  #",
        caught_by="padding_hides_what_is_not_real",
        en=(
            "reads True in the padding mask as blocked",
            'That is how nn.MultiheadAttention reads masks. F.scaled_dot_product_attention reads True as "may attend".',
        ),
        zh=(
            "把填充掩码里的 True 理解成了“屏蔽”",
            "那是 nn.MultiheadAttention 的约定。F.scaled_dot_product_attention 里 True 表示“可以关注”。",
        ),
    ),
    Mistake(
        "takes_the_padding_of_the_first_row",
        old="    mask = padding  #",
        new="    padding = None if padding is None else padding[:1]\n    mask = padding  #",
        caught_by="padding_hides_what_is_not_real",
        en=(
            "uses the padding of the first row for the whole batch",
            "Every row has its own length: padding is [B, 1, 1, S], and the B has to reach the kernel.",
        ),
        zh=(
            "整个 batch 都用了第一个样本的 padding",
            "每个样本的长度不同：padding 是 [B, 1, 1, S]，B 这一维要一直传到内核。",
        ),
    ),
    Mistake(
        "adds_the_padding_as_numbers",
        old=MASKED,
        new="out = F.scaled_dot_product_attention(q, k, v, attn_mask=(mask | blind).to(q.dtype))  ",
        caught_by="padding_hides_what_is_not_real",
        en=(
            "hands the mask over as zeros and ones",
            "A float mask is added to the scores: 1 and 0 hide nothing. Leave the mask boolean.",
        ),
        zh=("把掩码当作 0 和 1 传给了内核", "浮点掩码会加到分数上：加 1 或加 0 什么也遮不住。请保持布尔类型。"),
    ),
    Mistake(
        "blocks_with_too_small_a_number",
        old=MASKED,
        new="blocked = ~(mask | blind)\n"
        "    additive = torch.zeros(blocked.shape, dtype=q.dtype, device=q.device).masked_fill(blocked, -100.0)\n"
        "    out = F.scaled_dot_product_attention(q, k, v, attn_mask=additive)  ",
        caught_by="causal_hides_the_future",
        en=(
            "blocks with a number that large scores overcome",
            "A blocked key with a score of 300 still wins after -100. A boolean mask or -inf blocks whatever the score is.",
        ),
        zh=(
            "用来屏蔽的数太小，压不住很大的分数",
            "被屏蔽的键若分数是 300，减去 100 之后仍然最大。布尔掩码或 -inf 则无论分数多大都能屏蔽。",
        ),
    ),
    Mistake(
        "empties_padded_keys_instead_of_hiding_them",
        old="    mask = padding  #",
        new="    if padding is not None:\n"
        "        real = padding.transpose(-2, -1)\n"
        "        k, v, padding = k.masked_fill(~real, 0.0), v.masked_fill(~real, 0.0), None\n"
        "    mask = padding  #",
        caught_by="padding_hides_what_is_not_real",
        en=(
            "sets padded keys and values to zero instead of hiding them",
            "A key of zeros still has the score 0, takes its share of the softmax, and the others get too little.",
        ),
        zh=(
            "把填充处的键和值清零，而不是屏蔽它们",
            "全零的键分数是 0，在 softmax 里照样分走一份权重，其他键得到的就少了。",
        ),
    ),
    Mistake(
        "forgets_causal_when_there_is_padding",
        old=BOTH,
        new="mask = past if padding is None else padding  ",
        caught_by="causal_and_padding_hold_together",
        en=(
            "drops the causal mask as soon as there is padding",
            "The two masks hold together: a key must be allowed by both.",
        ),
        zh=("一旦有填充掩码就丢掉了因果掩码", "两个掩码同时生效：键必须被两者都允许。"),
    ),
    Mistake(
        "forgets_padding_when_causal",
        old=BOTH,
        new="mask = past  ",
        caught_by="causal_and_padding_hold_together",
        en=(
            "drops the padding mask as soon as causal is asked for",
            "The two masks hold together: a key must be allowed by both.",
        ),
        zh=("一旦要求因果就丢掉了填充掩码", "两个掩码同时生效：键必须被两者都允许。"),
    ),
    Mistake(
        "forgets_padding_for_a_single_query",
        old="mask = past if padding is None else past & padding  ",
        new="mask = past if padding is None or T == 1 else past & padding  ",
        caught_by="every_size_is_ordinary",
        en=(
            "forgets the padding when there is a single causal query",
            "The newest token sees all that came before, but still no pads: a single query needs its padding too.",
        ),
        zh=(
            "因果且只有一个查询时忘了填充掩码",
            "最新的 token 看得到之前的一切，但仍看不到填充：只有一个查询时也要用填充掩码。",
        ),
    ),
    Mistake(
        "allows_what_either_mask_allows",
        old=BOTH,
        new="mask = past if padding is None else past | padding  ",
        caught_by="causal_and_padding_hold_together",
        en=(
            "lets a key be seen if either mask allows it",
            "Both masks must allow it: which logical operation is that?",
        ),
        zh=("只要其中一个掩码允许就能看到", "必须两个掩码都允许：这对应哪种逻辑运算？"),
    ),
    Mistake(
        "aligns_causal_at_the_top_left_when_there_is_padding",
        old=BOTH,
        new="mask = past if padding is None else past.new_ones(T, S).tril() & padding  ",
        caught_by="causal_and_padding_hold_together",
        en=(
            "aligns the causal mask at the top left when padding is given",
            "Both paths need the same triangle: build it once and use it in both.",
        ),
        zh=("有填充掩码时，因果掩码又对齐到了左上角", "两条路径要用同一个因果掩码：建一次，两处都用它。"),
    ),
    Mistake(
        "averages_the_values_for_blind_queries",
        old=ZEROS,
        new="return out  ",
        caught_by="blind_queries_give_zeros",
        en=(
            "gives a query without any allowed key the mean of all values",
            "A large finite fill makes all scores equal, and softmax turns them into equal weights. The contract says zeros.",
        ),
        zh=(
            "没有可见键的查询得到了所有值的平均",
            "用很大的有限负数填充时，所有分数都相等，softmax 就给出相等的权重。约定是返回零。",
        ),
    ),
    Mistake(
        "zeroes_only_rows_that_are_all_padding",
        edits=[
            (
                ZEROS,
                "nothing = mask.new_zeros(1) if padding is None else ~padding.any(dim=-1, keepdim=True)\n    return out.masked_fill(nothing, 0.0)  ",
            )
        ],
        caught_by="blind_queries_give_zeros",
        en=(
            "gives zeros only where a whole row is padding",
            "With causal as well, the first queries of a left-padded row see nothing either: ask the combined mask.",
        ),
        zh=(
            "只有整行都是填充时才返回零",
            "同时使用因果掩码时，左侧填充的行里最前面的查询也什么都看不到：应检查合并后的掩码。",
        ),
    ),
    Mistake(
        "zeroes_the_value_but_not_the_gradient",
        old=ZEROS,
        new="out.data.masked_fill_(blind, 0.0)\n    return out  ",
        caught_by="blind_queries_give_zeros",
        en=(
            "puts the zeros of blind queries in behind the back of autograd",
            "Through .data or no_grad the value is zero, but the gradient still runs to keys that nobody may see.",
        ),
        zh=(
            "绕过 autograd 填入了零",
            "通过 .data 或 no_grad 填零，数值虽然是零，梯度却仍会流到不该看见的键。",
        ),
    ),
    Mistake(
        "scales_the_queries_once_more",
        edits=[
            (PLAIN, "return F.scaled_dot_product_attention(q / math.sqrt(q.shape[-1]), k, v)  "),
            (
                MASKED,
                "out = F.scaled_dot_product_attention(q / math.sqrt(q.shape[-1]), k, v, attn_mask=mask | blind)  ",
            ),
        ],
        caught_by="attention_has_the_right_values",
        en=(
            "divides by sqrt(D) before it calls the kernel",
            "The kernel scales by itself: what it gets must not be scaled already.",
        ),
        zh=("在调用内核之前又除了一次 sqrt(D)", "内核自己会缩放：传给它的 q 不要再缩放。"),
    ),
    Mistake(
        "scales_by_the_width_of_the_values",
        edits=[
            (PLAIN, "return F.scaled_dot_product_attention(q, k, v, scale=v.shape[-1] ** -0.5)  "),
            (
                MASKED,
                "out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask | blind, scale=v.shape[-1] ** -0.5)  ",
            ),
        ],
        caught_by="attention_has_the_right_values",
        en=("scales by the width of the values", "The scores are products of q and k: their width D counts, not E."),
        zh=("用值的宽度来缩放", "分数是 q 与 k 的点积：应使用它们的宽度 D，而不是 E。"),
    ),
    Mistake(
        "leaves_dropout_on",
        edits=[
            (PLAIN, "return F.scaled_dot_product_attention(q, k, v, dropout_p=0.001)  "),
            (MASKED, "out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask | blind, dropout_p=0.001)  "),
        ],
        caught_by="nothing_is_dropped",
        en=(
            "hands the kernel a dropout_p that is not 0",
            "The kernel is a function, it knows no eval mode: dropout_p acts whenever it is not 0.",
        ),
        zh=("传给内核的 dropout_p 不为 0", "内核只是个函数，不知道什么是 eval 模式：只要 dropout_p 不为 0 就会丢弃。"),
    ),
    Mistake(
        "drops_when_gradients_are_wanted",
        edits=[(PLAIN, "return F.scaled_dot_product_attention(q, k, v, dropout_p=1e-4 if q.requires_grad else 0.0)  ")],
        caught_by="nothing_is_dropped",
        en=(
            "switches dropout on when q wants a gradient",
            "There is no dropout in this contract, not even in training.",
        ),
        zh=("当 q 需要梯度时打开了 dropout", "本题没有 dropout，训练时也没有。"),
    ),
    Mistake(
        "gives_the_kernel_a_mask_and_is_causal",
        old=BLIND,
        new="if causal and padding is not None and T == S:\n"
        "        return F.scaled_dot_product_attention(q, k, v, attn_mask=padding, is_causal=True)\n"
        "    blind = ~mask.any(dim=-1, keepdim=True)  ",
        caught_by="mask_and_flag_never_meet",
        en=(
            "gives the kernel a mask and is_causal in one call",
            "That is forbidden: some inputs raise, others do not. Put the triangle into the mask, or use is_causal alone where "
            "T == S and nothing is padded.",
        ),
        zh=(
            "在同一次调用里既传了掩码又传了 is_causal",
            "这是不允许的：有的输入会报错，有的却不会。把下三角并入掩码；或者在 T == S 且没有填充时单独使用 is_causal。",
        ),
    ),
    Mistake(
        "tries_a_forbidden_call_first",
        old=MASKED,
        new="try:\n"
        "        F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)\n"
        "    except RuntimeError:\n"
        "        pass\n"
        "    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask | blind)  ",
        caught_by="mask_and_flag_never_meet",
        en=(
            "tries the kernel with a mask and is_causal at once, and catches the error",
            "Whether such a call raises depends on the inputs. Decide which of the two carries the triangle.",
        ),
        zh=(
            "先用掩码加 is_causal 试着调用内核，再捕获错误",
            "这样的调用报不报错要看输入。请先决定因果约束由掩码还是由 is_causal 来表达。",
        ),
    ),
    Mistake(
        "computes_by_hand_for_a_single_query",
        old=PLAIN,
        new="if T == 1:\n"
        "            return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v\n"
        "        return F.scaled_dot_product_attention(q, k, v)  ",
        caught_by="kernel_does_the_work",
        en=(
            "computes without the kernel when T is 1",
            "Decoding one token at a time is no exception: the kernel has to do the work on every path.",
        ),
        zh=("T 为 1 时绕过了内核，自己计算", "逐个 token 解码也不例外：每条路径都要由内核来算。"),
    ),
    Mistake(
        "computes_by_hand_when_there_is_no_mask",
        old=PLAIN,
        new="return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v  ",
        caught_by="kernel_does_the_work",
        en=(
            "computes without the kernel when nothing is masked",
            "The numbers are right, but the score tensor [T, S] is back in memory: the kernel has to do the work on every path.",
        ),
        zh=(
            "没有掩码时绕过了内核，自己计算",
            "数值虽对，却又在内存里生成了 [T, S] 的分数张量：每条路径都要由内核来算。",
        ),
    ),
    Mistake(
        "calls_the_kernel_and_ignores_it",
        old=PLAIN,
        new="F.scaled_dot_product_attention(q, k, v)\n        return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v  ",
        caught_by="kernel_does_the_work",
        en=("calls the kernel and throws its result away", "What the function returns has to come from the kernel."),
        zh=("调用了内核却丢掉了它的结果", "函数返回的内容必须来自内核。"),
    ),
    Mistake(
        "answers_in_float32",
        edits=[
            (PLAIN, "return F.scaled_dot_product_attention(q.float(), k.float(), v.float())  "),
            (MASKED, "out = F.scaled_dot_product_attention(q.float(), k.float(), v.float(), attn_mask=mask | blind)  "),
        ],
        caught_by="half_precision_works",
        en=(
            "always answers in float32",
            "The result has the dtype of what went in; the kernel takes float16 and bfloat16 as they are.",
        ),
        zh=("结果总是 float32", "结果的 dtype 应与输入一致；内核可以直接接收 float16 和 bfloat16。"),
    ),
    Mistake(
        "adds_a_number_that_does_not_fit_float16",
        old=MASKED,
        new="blocked = ~(mask | blind)\n"
        "    additive = torch.zeros(blocked.shape, dtype=q.dtype, device=q.device).masked_fill(blocked, -1e9)\n"
        "    out = F.scaled_dot_product_attention(q, k, v, attn_mask=additive)  ",
        caught_by="half_precision_works",
        en=(
            "blocks with -1e9, which float16 cannot hold",
            "The largest float16 is 65504. A boolean mask has no such limit; with a float mask use -inf or torch.finfo(dtype).min.",
        ),
        zh=(
            "用 float16 放不下的 -1e9 来屏蔽",
            "float16 最大只到 65504。布尔掩码没有这个限制；若用浮点掩码，请用 -inf 或 torch.finfo(dtype).min。",
        ),
    ),
    Mistake(
        "turns_the_padding_mask_over_in_place",
        old="    mask = padding  #",
        new="    blocked = None if padding is None else padding.logical_not_()\n"
        "    mask = padding = None if blocked is None else ~blocked\n    mask = padding  #",
        caught_by="inputs_are_any_tensors_and_stay",
        en=(
            "writes into the mask it was given",
            "`&=` and functions that end in _ change the caller's tensor: make a new one with `&` or `~`.",
        ),
        zh=("改写了传入的掩码", "`&=` 和以 _ 结尾的函数会改变调用者的张量：用 `&` 或 `~` 生成新的张量。"),
    ),
    Mistake(
        "reshapes_with_view",
        old=PLAIN,
        new="return F.scaled_dot_product_attention(q.view(-1, *q.shape[2:]), k.view(-1, *k.shape[2:]), v.view(-1, *v.shape[2:])).view(*q.shape[:-1], -1)  ",
        caught_by="inputs_are_any_tensors_and_stay",
        en=(
            "calls view on tensors that may not be contiguous",
            "q, k and v usually come from a transpose. Use reshape, or leave the shape alone: the kernel takes [B, H, T, D].",
        ),
        zh=(
            "对可能不连续的张量调用了 view",
            "q、k、v 通常来自 transpose。用 reshape，或者干脆不改形状：内核接受 [B, H, T, D]。",
        ),
    ),
    Mistake(
        "cuts_the_gradient_of_the_keys",
        old=MASKED,
        new="out = F.scaled_dot_product_attention(q, k.detach(), v, attn_mask=mask | blind)  ",
        caught_by="gradients_are_right",
        en=(
            "lets no gradient through to the keys when there is a mask",
            "Look for detach and no_grad: the values are right, the gradient is not.",
        ),
        zh=("有掩码时没有让梯度流到键", "检查 detach 和 no_grad：数值对了，梯度却不对。"),
    ),
    Mistake(
        "squeezes_axes_of_size_one",
        old=PLAIN,
        new="return F.scaled_dot_product_attention(q, k, v).squeeze()  ",
        caught_by="shape_is_that_of_the_queries_and_values",
        en=(
            "squeezes axes of size one away",
            "One query or one row is an ordinary case: the result still has four axes.",
        ),
        zh=("把大小为 1 的轴丢掉了", "只有一个查询或一个样本是很平常的情况：结果仍应有四个轴。"),
    ),
    Mistake(
        "makes_the_mask_on_the_cpu",
        old=PAST,
        new="past = torch.ones(T, S, dtype=torch.bool).tril(S - T)  ",
        caught_by="cuda_half_agrees",
        en=(
            "makes the causal mask on the CPU",
            "A tensor made inside a function belongs on the device of its inputs: device=q.device.",
        ),
        zh=("因果掩码总是建在 CPU 上", "函数内部新建的张量应与输入在同一设备上：device=q.device。"),
    ),
    # ---- attention_error
    Mistake(
        "finds_no_error_whatever_the_kernel_gives",
        old=ERROR,
        new="return (fused_attention(q, k, v, causal=causal) - fused_attention(q, k, v, causal=causal)).abs().max().item()",
        caught_by="error_is_measured",
        en=(
            "finds no error, whatever the kernel gives",
            "Either the answer is a fixed number, or the kernel is compared with itself. One side has to be written by hand.",
        ),
        zh=(
            "无论内核算出什么，误差都是零",
            "要么返回的是固定的数，要么是拿内核和它自己比较。其中一边必须是手写的注意力。",
        ),
    ),
    Mistake(
        "forgets_the_absolute_value",
        old=ERROR,
        new="return (fused_attention(q, k, v, causal=causal) - by_hand).max().item()",
        caught_by="error_is_measured",
        en=(
            "takes the largest difference without the absolute value",
            "A kernel that is too small somewhere is wrong as well.",
        ),
        zh=("取最大差值时没有取绝对值", "内核在某处偏小同样是误差。"),
    ),
    Mistake(
        "averages_the_differences",
        old=ERROR,
        new="return (fused_attention(q, k, v, causal=causal) - by_hand).abs().mean().item()",
        caught_by="error_is_measured",
        en=("averages the differences", "One wrong element disappears in a mean: the largest difference is asked for."),
        zh=("对差值求了平均", "一个错误的元素会被平均掩盖：题目要的是最大差值。"),
    ),
    Mistake(
        "compares_only_the_first_row",
        old=ERROR,
        new="return (fused_attention(q, k, v, causal=causal) - by_hand)[0].abs().max().item()",
        caught_by="error_is_measured",
        en=("compares only the first row of the batch", "The largest difference is over all elements."),
        zh=("只比较了 batch 的第一个样本", "最大差值要在所有元素上取。"),
    ),
    Mistake(
        "forgets_causal_on_both_sides_of_the_comparison",
        edits=[
            (ERROR, "return (fused_attention(q, k, v) - by_hand).abs().max().item()"),
            ("    if causal:\n        T, S = scores", "    if False:\n        T, S = scores"),
        ],
        caught_by="error_compares_with_attention_by_hand",
        en=(
            "ignores `causal` in attention_error",
            "Both sides need it: the error is small then as well, but it is the error of another function.",
        ),
        zh=("attention_error 忽略了 `causal`", "两边都要用到它：否则误差虽小，测的却是另一个函数。"),
    ),
    Mistake(
        "forgets_causal_on_the_hand_written_side",
        old="    if causal:\n        T, S = scores",
        new="    if False:\n        T, S = scores",
        caught_by="error_compares_with_attention_by_hand",
        en=(
            "leaves `causal` out of the hand-written attention",
            "A large error for causal=True only: compare the masks of the two sides.",
        ),
        zh=("手写的注意力里漏掉了 `causal`", "如果只有 causal=True 时误差很大，就比较两边的掩码。"),
    ),
    Mistake(
        "forgets_causal_on_the_side_of_the_kernel",
        old=ERROR,
        new="return (fused_attention(q, k, v) - by_hand).abs().max().item()",
        caught_by="error_compares_with_attention_by_hand",
        en=(
            "does not hand `causal` on to fused_attention",
            "A large error for causal=True only: both sides need the same arguments.",
        ),
        zh=("没有把 `causal` 传给 fused_attention", "如果只有 causal=True 时误差很大，就检查两边的参数是否相同。"),
    ),
    Mistake(
        "aligns_both_sides_of_the_comparison_at_the_top_left",
        edits=[
            (
                ERROR,
                "top_left = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril()\n"
                "    fused = F.scaled_dot_product_attention(q, k, v, attn_mask=top_left if causal else None)\n"
                "    return (fused - by_hand).abs().max().item()",
            ),
            (FUTURE, "future = torch.ones(T, S, dtype=torch.bool, device=q.device).triu(1)  "),
        ],
        caught_by="error_compares_with_attention_by_hand",
        en=(
            "aligns `causal` at the top left in attention_error",
            "When both sides make the same mistake the error is small. The last query sees every key here as well.",
        ),
        zh=(
            "attention_error 里的 `causal` 对齐到了左上角",
            "两边犯同样的错误时误差也会很小。这里同样是最后一个查询能看到所有键。",
        ),
    ),
    Mistake(
        "forgets_the_scale_on_the_hand_written_side",
        old=SCORES,
        new="scores = q @ k.transpose(-2, -1)  ",
        caught_by="error_compares_with_attention_by_hand",
        en=(
            "does not scale the hand-written scores",
            "An error near 1 is no rounding error: one of the two sides computes something else.",
        ),
        zh=("手写的分数没有缩放", "误差接近 1 不可能是舍入误差：说明两边算的不是同一个东西。"),
    ),
    Mistake(
        "answers_a_tensor",
        old=ERROR,
        new="return (fused_attention(q, k, v, causal=causal) - by_hand).abs().max()",
        caught_by="error_compares_with_attention_by_hand",
        en=(
            "returns the error as a tensor",
            "A Python float is asked for: a tensor keeps the whole graph alive. There is a method that takes the number out.",
        ),
        zh=(
            "返回的误差是张量",
            "题目要的是 Python 的 float：张量会让整个计算图一直留在内存里。有一个方法可以把数取出来。",
        ),
    ),
    Mistake(
        "switches_gradients_off_for_good",
        old=SCORES,
        new="torch.set_grad_enabled(False)\n    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  ",
        caught_by="inputs_are_any_tensors_and_stay",
        en=(
            "switches gradients off in attention_error and leaves them off",
            "Whatever the caller computes next has no gradient. `with torch.no_grad():` switches them back by itself.",
        ),
        zh=(
            "attention_error 关掉了梯度，却没有再打开",
            "调用者之后的计算就都没有梯度了。`with torch.no_grad():` 会自动恢复。",
        ),
    ),
    Mistake(
        "makes_the_queries_ask_for_a_gradient",
        old=SCORES,
        new="q.requires_grad_(True)\n    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  ",
        caught_by="inputs_are_any_tensors_and_stay",
        en=(
            "sets requires_grad on a tensor that belongs to the caller",
            "requires_grad_ ends in _: it changes the tensor it is called on. A difference needs no gradient.",
        ),
        zh=(
            "给调用者的张量设置了 requires_grad",
            "requires_grad_ 以 _ 结尾：它会改动调用它的那个张量。求差值用不到梯度。",
        ),
    ),
    Mistake(
        "leaves_infinities_out_of_the_difference",
        old=ERROR,
        new="gap = (fused_attention(q, k, v, causal=causal) - by_hand).abs()\n"
        "    return gap.masked_fill(~gap.isfinite(), 0.0).max().item()",
        caught_by="error_is_measured",
        en=(
            "leaves out what is not finite",
            "An infinity in the kernel's result is as wrong as a result can be: the error has to show it.",
        ),
        zh=("求差值时略去了不是有限数的元素", "内核结果里出现无穷大，是错得最厉害的情形：误差必须反映出来。"),
    ),
    Mistake(
        "hides_the_future_with_too_small_a_number_by_hand",
        old="scores.masked_fill(future, -math.inf)",
        new="scores.masked_fill(future, -20.0)",
        caught_by="error_compares_with_attention_by_hand",
        en=(
            "hides the future with -20 in the hand-written attention",
            "An allowed score may lie below that, and then the future wins. Use -inf, or a number no larger than -1e4.",
        ),
        zh=(
            "手写的注意力里用 -20 来屏蔽未来",
            "允许看到的分数可能比它还小，那时未来的键反而占优。请用 -inf，或不大于 -1e4 的数。",
        ),
    ),
]
