"""Wrong versions of ex08: each a small substitution in the reference. Names complete "the submission ..."."""

from grader.mistakes import Mistake

MASK = "        may_attend = torch.ones(T, T, dtype=torch.bool, device=x.device).tril()  # [T, S], row t is True up to column t\n"
WEIGHTS = "        weights = scores.masked_fill(~may_attend, -math.inf).softmax(dim=-1)  # [B, H, T, S]\n"
FIRST_STEP = "        x = x + self.attn(self.n1(x))  # [B, T, C]\n"
SECOND_STEP = "        return x + self.mlp(self.n2(x))  # [B, T, C]\n"
MLP = "        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))\n"
CHECK = """        if dim % num_heads != 0:
            raise ValueError(f"{num_heads} heads do not divide a width of {dim}")
"""
COUNT = "    return sum(p.numel() for p in module.parameters() if p.requires_grad or not trainable_only)\n"

MISTAKES = [
    # ---- the attention
    Mistake(
        "forgets_the_scale",
        old=" / math.sqrt(D)",
        new="",
        caught_by="attention_values",
        en=(
            "does not scale the scores",
            "Without 1/sqrt(D) the scores grow with the head width and the softmax becomes almost one-hot. "
            "Look at the line that multiplies q by k.",
        ),
        zh=(
            "没有缩放注意力分数",
            "少了 1/sqrt(D)，分数会随头的宽度变大，softmax 几乎变成 one-hot。看 q 乘 k 的那一行。",
        ),
    ),
    Mistake(
        "scales_by_the_model_width",
        old=" / math.sqrt(D)",
        new=" / math.sqrt(C)",
        caught_by="attention_values",
        en=(
            "scales by sqrt(C) instead of sqrt(D)",
            "A score is a sum of D products, one for each channel of a head, so its spread is sqrt(D). "
            "With several heads C is the wrong number of terms.",
        ),
        zh=(
            "用 sqrt(C) 而不是 sqrt(D) 缩放",
            "一个分数是一个头内 D 个乘积之和，它的标准差是 sqrt(D)。有多个头时，C 不是相加的项数。",
        ),
    ),
    Mistake(
        "divides_by_the_head_width",
        old=" / math.sqrt(D)",
        new=" / D",
        caught_by="attention_values",
        en=(
            "divides the scores by D instead of sqrt(D)",
            "The variance of a score is D; its spread is the root of that.",
        ),
        zh=("分数除以了 D 而不是 sqrt(D)", "分数的方差是 D，标准差才是它的平方根。"),
    ),
    Mistake(
        "has_no_mask",
        edits=[(MASK, ""), (".masked_fill(~may_attend, -math.inf)", "")],
        caught_by="past_ignores_future",
        en=(
            "has no causal mask",
            "Every position sees the whole sequence, the answer to be predicted included. Something must be "
            "done to the scores before the softmax.",
        ),
        zh=("没有因果掩码", "每个位置都看到了整个序列，包括要预测的答案。softmax 之前还要对分数做一件事。"),
    ),
    Mistake(
        "sees_the_future_instead_of_the_past",
        old="x.device).tril()",
        new="x.device).triu()",
        caught_by="past_ignores_future",
        en=(
            "lets a position see the later ones and hides the earlier ones",
            "Row t of the mask belongs to the query at t, column s to the key at s: allowed is s <= t. "
            "Print the mask for T = 4.",
        ),
        zh=(
            "让每个位置看到后面、看不到前面",
            "掩码的第 t 行是位置 t 的查询，第 s 列是位置 s 的键：允许的是 s <= t。打印 T = 4 的掩码看看。",
        ),
    ),
    Mistake(
        "lets_the_next_position_through",
        old="x.device).tril()",
        new="x.device).tril(1)",
        caught_by="past_ignores_future",
        en=(
            "lets each position see the next one as well",
            "The diagonal itself is the last allowed column: off by one.",
        ),
        zh=("让每个位置多看到了下一个位置", "允许的最后一列就是对角线本身：差了一格。"),
    ),
    Mistake(
        "hides_the_current_position",
        old="x.device).tril()",
        new="x.device).tril(-1).index_fill(0, torch.tensor([0]), True)",
        caught_by="sees_all_of_the_past",
        en=("hides a position from itself", "Position t may attend to 0 .. t, t included."),
        zh=("不让位置看到它自己", "位置 t 可以关注 0 .. t，包括 t 自己。"),
    ),
    Mistake(
        "masks_after_the_softmax",
        old=WEIGHTS,
        new="        weights = scores.softmax(dim=-1).masked_fill(~may_attend, 0.0)  # [B, H, T, S]\n",
        caught_by="past_ignores_future",
        en=(
            "masks after the softmax",
            "The future is already in the softmax's denominator, so it still decides how large the other weights are, "
            "and the rows no longer sum to 1.",
        ),
        zh=(
            "在 softmax 之后才加掩码",
            "未来的分数已经进了 softmax 的分母，仍在影响其余权重的大小，而且每行的和不再是 1。",
        ),
    ),
    Mistake(
        "masks_in_training_only",
        old="scores.masked_fill(~may_attend, -math.inf).softmax(dim=-1)",
        new="(scores.masked_fill(~may_attend, -math.inf) if self.training else scores).softmax(dim=-1)",
        caught_by="past_ignores_future",
        en=(
            "uses the mask in train mode only",
            "The model has to compute the same in both modes. The mask is part of what it is.",
        ),
        zh=("只在 train 模式下使用掩码", "两种模式下模型算的必须一样。掩码是模型本身的一部分。"),
    ),
    Mistake(
        "masks_in_eval_only",
        old="scores.masked_fill(~may_attend, -math.inf).softmax(dim=-1)",
        new="(scores if self.training else scores.masked_fill(~may_attend, -math.inf)).softmax(dim=-1)",
        caught_by="past_ignores_future",
        en=("uses the mask in eval mode only", "Trained without a mask, the model learns to copy the next token."),
        zh=("只在 eval 模式下使用掩码", "训练时没有掩码，模型学会的只是照抄下一个 token。"),
    ),
    Mistake(
        "blocks_with_a_score_of_minus_ten",
        old="-math.inf",
        new="-10.0",
        caught_by="past_ignores_future",
        en=(
            "blocks the future with a score of -10",
            "Allowed scores may be lower than that, and then the blocked keys win. The fill has to be below every score.",
        ),
        zh=("用 -10 分来屏蔽未来", "允许的分数可能比 -10 还低，那时被屏蔽的键反而占上风。填充值必须低于任何分数。"),
    ),
    Mistake(
        "takes_a_score_of_zero_for_a_blocked_one",
        edits=[
            (MASK, ""),
            (
                WEIGHTS,
                "        scores = scores.tril()\n"
                "        weights = scores.masked_fill(scores == 0, -1e9).softmax(dim=-1)  # [B, H, T, S]\n",
            ),
        ],
        caught_by="any_length_works",
        en=(
            "takes a score of exactly zero for a blocked one",
            "A zero is an ordinary score: q and k may be orthogonal. What is blocked is known from the positions alone.",
        ),
        zh=("把恰好为零的分数当成被屏蔽的", "零是普通的分数：q 和 k 可以正交。哪些要屏蔽，只由位置决定。"),
    ),
    Mistake(
        "takes_the_softmax_over_the_queries",
        old="softmax(dim=-1)",
        new="softmax(dim=-2)",
        caught_by="attention_values",
        en=(
            "takes the softmax over the query axis",
            "A query shares out its attention among the keys: the last axis of [B, H, T, S].",
        ),
        zh=("沿查询轴做 softmax", "每个查询把注意力分给各个键：应是 [B, H, T, S] 的最后一维。"),
    ),
    Mistake(
        "cuts_the_heads_along_time",
        edits=[
            ("q = q.reshape(B, T, H, D).transpose(1, 2)", "q = q.reshape(B, H, T, D)"),
            ("k = k.reshape(B, T, H, D).transpose(1, 2)", "k = k.reshape(B, H, T, D)"),
            ("v = v.reshape(B, T, H, D).transpose(1, 2)", "v = v.reshape(B, H, T, D)"),
            ("merged = heads.transpose(1, 2).reshape(B, T, C)", "merged = heads.reshape(B, T, C)"),
        ],
        caught_by="sees_all_of_the_past",
        en=(
            "reshapes [B, T, C] to [B, H, T, D] without moving an axis",
            "reshape only renames places in memory: this cuts the sequence into pieces instead of the channels. "
            "Split the last axis first, then swap two axes.",
        ),
        zh=(
            "不换轴就把 [B, T, C] reshape 成 [B, H, T, D]",
            "reshape 只是给内存里的数重新划分下标：这样切开的是时间而不是通道。先拆最后一维，再交换两个轴。",
        ),
    ),
    Mistake(
        "merges_the_heads_without_moving_them_back",
        old="heads.transpose(1, 2).reshape(B, T, C)",
        new="heads.reshape(B, T, C)",
        caught_by="past_ignores_future",
        en=(
            "merges the heads without moving their axis back",
            "[B, H, T, D] must become [B, T, H, D] before the last two axes are joined.",
        ),
        zh=("合并多头前没有把轴换回来", "[B, H, T, D] 要先变成 [B, T, H, D]，才能合并最后两维。"),
    ),
    Mistake(
        "reads_the_thirds_as_k_q_v",
        old="q, k, v = self.qkv(x).split(C, dim=-1)",
        new="k, q, v = self.qkv(x).split(C, dim=-1)",
        caught_by="attention_values",
        en=(
            "takes the first third as the keys and the second as the queries",
            "The order of the thirds is fixed: q, k, v.",
        ),
        zh=("把第一份当成键、第二份当成查询", "三份的顺序是规定好的：q、k、v。"),
    ),
    Mistake(
        "gives_each_head_its_own_q_k_v_side_by_side",
        edits=[
            (
                "        q, k, v = self.qkv(x).split(C, dim=-1)  # each [B, T, C]\n",
                "        q, k, v = self.qkv(x).reshape(B, T, H, 3, D).unbind(3)  # each [B, T, H, D]\n",
            )
        ],
        caught_by="attention_values",
        en=(
            "splits qkv by heads first and into q, k, v afterwards",
            "q, k and v are whole thirds of the 3C channels; a head is a block inside each third, not a block of 3D channels.",
        ),
        zh=(
            "先按头切 qkv，再在每个头里分 q、k、v",
            "q、k、v 各是 3C 个通道中完整的一份；头是每一份里的一段，而不是连续的 3D 个通道。",
        ),
    ),
    Mistake(
        "uses_one_head",
        old="H, D = self.num_heads, C // self.num_heads",
        new="H, D = 1, C",
        caught_by="the_number_of_heads_matters",
        en=(
            "computes one head, whatever num_heads is",
            "num_heads is checked but never used: each head needs a softmax of its own.",
        ),
        zh=("不管 num_heads 是多少，都只算一个头", "num_heads 只检查了却没用上：每个头要有自己的 softmax。"),
    ),
    Mistake(
        "skips_the_output_projection",
        old="return self.proj(merged)",
        new="return merged",
        caught_by="gradients_agree",
        en=(
            "never applies proj",
            "The layer is there and counted, but it gets no gradient: the merged heads must go through it.",
        ),
        zh=("没有使用 proj", "这一层建了也算进参数量了，却得不到梯度：合并后的多头要经过它。"),
    ),
    Mistake(
        "has_no_bias_in_qkv",
        old="nn.Linear(dim, 3 * dim)",
        new="nn.Linear(dim, 3 * dim, bias=False)",
        caught_by="parameters_add_up",
        en=(
            "has no bias in qkv",
            "3C parameters are missing. Here all linear layers have a bias, although many large models leave it out.",
        ),
        zh=("qkv 没有偏置", "少了 3C 个参数。这里所有线性层都有偏置，虽然很多大模型去掉了它。"),
    ),
    Mistake(
        "detaches_the_attention_weights",
        old="heads = weights @ v",
        new="heads = weights.detach() @ v",
        caught_by="gradients_agree",
        en=(
            "cuts the gradient at the attention weights",
            "Values are right, but q and k never learn: detach(), .data or no_grad stands in the way.",
        ),
        zh=("在注意力权重处切断了梯度", "数值没错，但 q 和 k 永远学不到东西：途中有 detach()、.data 或 no_grad。"),
    ),
    Mistake(
        "treats_the_batch_axis_as_time",
        edits=[
            (
                "        B, T, C = x.shape\n",
                "        x = x.transpose(0, 1)  # taken as [T, B, C]\n        B, T, C = x.shape\n",
            ),
            (
                "        return self.proj(merged)  # [B, T, C]\n",
                "        return self.proj(merged).transpose(0, 1)  # [B, T, C]\n",
            ),
        ],
        caught_by="rows_are_independent",
        en=(
            "attends along the batch axis",
            "x is [B, T, C]: the batch comes first here, unlike the default of nn.MultiheadAttention.",
        ),
        zh=("沿 batch 轴做注意力", "x 是 [B, T, C]：这里 batch 在最前面，和 nn.MultiheadAttention 的默认不同。"),
    ),
    Mistake(
        "knows_masks_up_to_64",
        old="torch.ones(T, T, dtype=torch.bool, device=x.device).tril()",
        new="torch.ones(64, 64, dtype=torch.bool, device=x.device).tril()[:T, :T]",
        caught_by="any_length_works",
        en=(
            "has a mask of a fixed size",
            "The mask is cut from a table of 64 positions; a longer sequence does not fit. Make it for the T that comes.",
        ),
        zh=("掩码的大小是固定的", "掩码是从 64 个位置的表里切出来的，更长的序列放不下。按实际的 T 来造。"),
    ),
    Mistake(
        "keeps_the_mask_of_the_first_call",
        edits=[
            (
                MASK,
                MASK.replace(
                    "        may_attend = ", "        if not hasattr(self, 'mask'):\n            self.mask = "
                ).replace("  # [T, S], row t is True up to column t", ""),
            ),
            ("~may_attend", "~self.mask"),
        ],
        caught_by="any_length_works",
        en=(
            "keeps the mask of its first call",
            "It fits only that T. A cache has to notice that the length has changed.",
        ),
        zh=("一直用第一次调用时的掩码", "它只适合那个 T。缓存必须能发现长度变了。"),
    ),
    Mistake(
        "sees_only_the_last_eight_positions",
        old="x.device).tril()",
        new="x.device).tril().triu(-7)",
        caught_by="any_length_works",
        en=("sees only the last eight positions", "Position t attends to all of 0 .. t, however long the sequence is."),
        zh=("只看得到最近八个位置", "不管序列多长，位置 t 都关注 0 .. t 的全部。"),
    ),
    Mistake(
        "keeps_keys_and_values_between_calls",
        old="        scores = q @ k",
        new="""        if not self.training:
            if T == 1 and hasattr(self, "seen") and self.seen[0].shape[0] == B:
                k, v = torch.cat([self.seen[0], k], dim=2), torch.cat([self.seen[1], v], dim=2)
                may_attend = torch.ones(1, k.shape[2], dtype=torch.bool)
            self.seen = k.detach(), v.detach()
        scores = q @ k""",
        caught_by="any_length_works",
        en=(
            "keeps keys and values from one call to the next",
            "The next input may be another text. A cache for generation is handed in by the caller, who knows what belongs together.",
        ),
        zh=(
            "把键和值留到下一次调用",
            "下一个输入可能是另一段文本。生成用的缓存应由调用者传进来，只有调用者知道哪些属于同一段。",
        ),
    ),
    Mistake(
        "keeps_its_weights_in_eval_mode",
        old="q, k, v = self.qkv(x).split(C, dim=-1)",
        new="""if self.training or not hasattr(self, "kept"):
            self.kept = self.qkv.weight.detach().clone()
        weight = self.qkv.weight + (self.kept - self.qkv.weight).detach()
        q, k, v = nn.functional.linear(x, weight, self.qkv.bias).split(C, dim=-1)""",
        caught_by="attention_values",
        en=(
            "keeps a copy of its weights in eval mode",
            "Weights may be loaded or trained between two calls: what is made from them is made in every call.",
        ),
        zh=(
            "在 eval 模式下保留权重的副本",
            "两次调用之间权重可能被载入或训练过：由权重算出的东西，每次调用都要重新算。",
        ),
    ),
    Mistake(
        "shares_the_number_of_heads_among_all_modules",
        old="        self.num_heads = num_heads\n",
        new="        CausalSelfAttention.num_heads = num_heads\n",
        caught_by="the_number_of_heads_matters",
        en=(
            "keeps the number of heads for all modules together",
            "It stands on the class (or in a global name), so the last module made decides for every other: it belongs on self.",
        ),
        zh=(
            "所有模块共用一个头数",
            "它放在类上（或全局变量里），最后新建的模块就替所有模块做了决定：它应当放在 self 上。",
        ),
    ),
    Mistake(
        "turns_gradients_off_in_eval_mode",
        edits=[
            (
                "        scores = q @ k",
                "        q, k, v = (t if self.training else t.detach() for t in (q, k, v))\n        scores = q @ k",
            )
        ],
        caught_by="gradients_agree",
        en=(
            "cuts its gradients in eval mode",
            "eval() is about dropout and the like. Whether gradients are wanted is the caller's business (torch.no_grad).",
        ),
        zh=("在 eval 模式下切断了梯度", "eval() 只管 dropout 之类的层。要不要梯度由调用者决定（torch.no_grad）。"),
    ),
    Mistake(
        "learns_only_behind_an_input_that_wants_gradients",
        old=FIRST_STEP,
        new="""        x = x + torch.utils.checkpoint.checkpoint(lambda y: self.attn(self.n1(y)), x, use_reentrant=True)
""",
        caught_by="three_blocks_train",
        en=(
            "gives its parameters gradients only where its input wants one",
            "The first block of a model may read a frozen embedding, and has to learn all the same. "
            "A checkpoint with use_reentrant=True, or x.requires_grad as a condition, gets in the way.",
        ),
        zh=(
            "只有输入需要梯度时，参数才得到梯度",
            "模型的第一个 block 的输入可能来自冻结的词嵌入，它同样要学习。use_reentrant=True 的 checkpoint，或以 x.requires_grad 为条件，都会妨碍它。",
        ),
    ),
    Mistake(
        "checks_the_width_of_the_thirds_together",
        old="if dim % num_heads != 0:",
        new="if 3 * dim % num_heads != 0:",
        caught_by="an_indivisible_width_raises",
        en=(
            "checks that H divides 3C instead of C",
            "Each third is split into H heads by itself. 51 divides 3 times 68, but not 68.",
        ),
        zh=("检查的是 H 能否整除 3C 而不是 C", "每一份各自拆成 H 个头。51 能整除 3 乘 68，却不能整除 68。"),
    ),
    Mistake(
        "accepts_a_width_that_the_heads_do_not_divide",
        edits=[
            (CHECK, ""),
            ("return self.proj(merged)", "return self.proj(torch.nn.functional.pad(merged, (0, x.shape[-1] - C)))"),
            ("        B, T, C = x.shape\n", "        B, T, C = x.shape\n        C -= C % self.num_heads\n"),
            (".split(C, dim=-1)", "[..., : 3 * C].split(C, dim=-1)"),
        ],
        caught_by="an_indivisible_width_raises",
        en=(
            "accepts a width that the heads do not divide",
            "A head width that is rounded down drops channels, and an error in forward comes late. Say so in the "
            "constructor, with ValueError, for every pair that does not divide.",
        ),
        zh=(
            "接受不能被头数整除的宽度",
            "把 D 向下取整会丢掉通道，等到 forward 才报错又太晚。凡是不能整除的，都应在构造函数里用 ValueError 说明。",
        ),
    ),
    Mistake(
        "refuses_a_width_with_an_assertion",
        old=CHECK,
        new="        assert dim % num_heads == 0\n",
        caught_by="an_indivisible_width_raises",
        en=(
            "refuses an indivisible width by an assert",
            "An assert disappears under python -O and says nothing of the numbers: raise ValueError with them.",
        ),
        zh=(
            "用 assert 拒绝不能整除的宽度",
            "assert 在 python -O 下会消失，也没有说出是哪些数：应抛出带有数字的 ValueError。",
        ),
    ),
    Mistake(
        "raises_without_the_numbers",
        old='raise ValueError(f"{num_heads} heads do not divide a width of {dim}")',
        new='raise ValueError("the number of heads must divide the width")',
        caught_by="an_indivisible_width_raises",
        en=(
            "raises a ValueError that does not say which numbers clash",
            "Put dim and num_heads into the message: whoever reads it has many configurations.",
        ),
        zh=("抛出的 ValueError 没有说是哪两个数冲突", "把 dim 和 num_heads 写进消息里：看到消息的人手上有很多组配置。"),
    ),
    # ---- the block
    Mistake(
        "normalises_after_the_residual",
        edits=[
            (FIRST_STEP, "        x = self.n1(x + self.attn(x))  # [B, T, C]\n"),
            (SECOND_STEP, "        return self.n2(x + self.mlp(x))  # [B, T, C]\n"),
        ],
        caught_by="zeroed_sublayers_give_the_identity",
        en=(
            "is a post-norm block",
            "The norm stands on the residual path. Pre-norm: the norm goes in front of each sublayer, and x itself passes untouched.",
        ),
        zh=("写成了 post-norm", "归一化落在了残差通路上。pre-norm 是把归一化放在每个子层前面，x 本身原样通过。"),
    ),
    Mistake(
        "takes_the_residual_from_the_normed_input",
        edits=[
            (FIRST_STEP, "        x = self.n1(x)  # [B, T, C]\n        x = x + self.attn(x)  # [B, T, C]\n"),
            (SECOND_STEP, "        x = self.n2(x)  # [B, T, C]\n        return x + self.mlp(x)  # [B, T, C]\n"),
        ],
        caught_by="zeroed_sublayers_give_the_identity",
        en=(
            "adds the sublayer to the normed input",
            "What is added to is x, not norm(x): else the identity path is lost.",
        ),
        zh=("把子层加到了归一化之后的输入上", "要加到的是 x，不是 norm(x)：否则恒等通路就断了。"),
    ),
    Mistake(
        "has_no_residual_around_the_attention",
        old="x = x + self.attn(self.n1(x))",
        new="x = self.attn(self.n1(x))",
        caught_by="zeroed_sublayers_give_the_identity",
        en=("has no residual around the attention", "The first step replaces x instead of adding to it."),
        zh=("注意力没有残差连接", "第一步把 x 换掉了，而不是加到 x 上。"),
    ),
    Mistake(
        "has_no_residual_around_the_mlp",
        old="return x + self.mlp(self.n2(x))",
        new="return self.mlp(self.n2(x))",
        caught_by="zeroed_sublayers_give_the_identity",
        en=("has no residual around the MLP", "The second step replaces x instead of adding to it."),
        zh=("MLP 没有残差连接", "第二步把 x 换掉了，而不是加到 x 上。"),
    ),
    Mistake(
        "adds_both_sublayers_to_the_input_in_parallel",
        edits=[
            (FIRST_STEP, ""),
            (SECOND_STEP, "        return x + self.attn(self.n1(x)) + self.mlp(self.n2(x))  # [B, T, C]\n"),
        ],
        caught_by="block_values",
        en=(
            "runs attention and MLP side by side",
            "The MLP reads what the attention has already added to. (Some large models do it in parallel; this block does not.)",
        ),
        zh=("让注意力和 MLP 并行", "MLP 读的是已经加上注意力之后的 x。（有些大模型是并行的，这个 block 不是。）"),
    ),
    Mistake(
        "uses_one_norm_for_both_sublayers",
        old="self.n2 = nn.LayerNorm(dim, eps=1e-5)",
        new="self.n2 = self.n1",
        caught_by="parameters_add_up",
        en=(
            "uses one norm for both sublayers",
            "2C parameters are missing. Fresh norms look alike (ones and zeros), trained ones do not.",
        ),
        zh=("两个子层共用一个归一化", "少了 2C 个参数。刚初始化时两者看起来一样（全 1 和全 0），训练后就不一样了。"),
    ),
    Mistake(
        "normalises_twice_with_n1",
        old="self.mlp(self.n2(x))",
        new="self.mlp(self.n1(x))",
        caught_by="gradients_agree",
        en=("uses n1 in front of the MLP as well", "n2 exists but never gets a gradient."),
        zh=("MLP 前面用的也是 n1", "n2 建了，却永远得不到梯度。"),
    ),
    Mistake(
        "feeds_the_mlp_without_a_norm",
        old="self.mlp(self.n2(x))",
        new="self.mlp(x)",
        caught_by="block_values",
        en=("feeds the MLP without a norm", "n2 belongs in front of the MLP, as n1 does in front of the attention."),
        zh=("MLP 的输入没有归一化", "n2 应放在 MLP 前面，就像 n1 在注意力前面一样。"),
    ),
    Mistake(
        "approximates_the_gelu",
        old="nn.GELU(), nn.Linear(4",
        new='nn.GELU(approximate="tanh"), nn.Linear(4',
        caught_by="the_gelu_is_exact",
        en=(
            "uses the tanh approximation of GELU",
            "Here GELU is x times the normal distribution function, exactly. The two differ by 0.0005 at most, but in every hidden unit.",
        ),
        zh=(
            "用了 GELU 的 tanh 近似",
            "这里的 GELU 精确等于 x 乘正态分布函数。两者最多差 0.0005，但每个隐藏单元都差这么一点。",
        ),
    ),
    Mistake(
        "uses_relu",
        old="nn.GELU(), nn.Linear(4",
        new="nn.ReLU(), nn.Linear(4",
        caught_by="block_values",
        en=("uses ReLU instead of GELU", "The activation between the two linear layers is nn.GELU()."),
        zh=("用了 ReLU 而不是 GELU", "两个线性层之间的激活函数是 nn.GELU()。"),
    ),
    Mistake(
        "has_no_activation",
        old="nn.GELU(), nn.Linear(4",
        new="nn.Identity(), nn.Linear(4",
        caught_by="block_values",
        en=("has no activation in the MLP", "Two linear layers in a row are one linear layer."),
        zh=("MLP 里没有激活函数", "两个线性层连在一起还是一个线性层。"),
    ),
    Mistake(
        "has_another_eps",
        edits=[
            ("self.n1 = nn.LayerNorm(dim, eps=1e-5)", "self.n1 = nn.LayerNorm(dim, eps=1e-6)"),
            ("self.n2 = nn.LayerNorm(dim, eps=1e-5)", "self.n2 = nn.LayerNorm(dim, eps=1e-6)"),
        ],
        caught_by="small_inputs_feel_eps",
        en=("uses another eps than 1e-5 in its norms", "Ordinary inputs do not show it; inputs of tiny variance do."),
        zh=("LayerNorm 的 eps 不是 1e-5", "普通输入看不出来，方差极小的输入看得出来。"),
    ),
    Mistake(
        "has_a_hidden_width_of_twice_c",
        old=MLP,
        new="        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))\n",
        caught_by="parameters_add_up",
        en=("has an MLP of width 2C", "The hidden width is 4C; that is where two thirds of a block's parameters are."),
        zh=("MLP 的宽度是 2C", "隐藏宽度应为 4C；一个 block 三分之二的参数都在这里。"),
    ),
    Mistake(
        "adds_in_place",
        old=FIRST_STEP,
        new="        x += self.attn(self.n1(x))  # [B, T, C]\n",
        caught_by="inputs_stay_as_they_were",
        en=("adds into its input", "x += ... writes into the tensor of the caller. x = x + ... makes a new one."),
        zh=("直接在输入上做加法", "x += ... 会改写调用者的张量；x = x + ... 会新建一个。"),
    ),
    Mistake(
        "adds_in_place_where_no_gradient_is_wanted",
        old=FIRST_STEP,
        new="""        if torch.is_grad_enabled():
            x = x + self.attn(self.n1(x))  # [B, T, C]
        else:
            x += self.attn(self.n1(x))  # [B, T, C]
""",
        caught_by="inputs_stay_as_they_were",
        en=(
            "adds into its input under torch.no_grad()",
            "The tensor is the caller's there too, who may use it again.",
        ),
        zh=("在 torch.no_grad() 下直接在输入上做加法", "那里的张量同样是调用者的，之后可能还要用。"),
    ),
    Mistake(
        "leaves_a_dropout_in",
        old="return x + self.mlp(self.n2(x))",
        new="return x + torch.nn.functional.dropout(self.mlp(self.n2(x)), 0.1, self.training)",
        caught_by="block_values",
        en=("drops out in train mode", "This block has no dropout: train and eval mode give the same."),
        zh=("在 train 模式下做了 dropout", "这个 block 没有 dropout：两种模式的结果相同。"),
    ),
    Mistake(
        "shares_one_mlp_among_all_blocks",
        edits=[
            (
                MLP,
                "        self.mlp = MLPS.setdefault(dim, nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim)))\n",
            ),
            ("class DecoderBlock(nn.Module):", "MLPS: dict[int, nn.Module] = {}\n\n\nclass DecoderBlock(nn.Module):"),
        ],
        caught_by="three_blocks_train",
        en=(
            "gives all blocks one and the same MLP",
            "Each block needs modules of its own: make them in __init__, not once for all.",
        ),
        zh=("所有 block 共用同一个 MLP", "每个 block 都要有自己的模块：在 __init__ 里新建，而不是只建一次。"),
    ),
    Mistake(
        "has_other_names",
        edits=[
            ("self.qkv = nn.Linear", "self.in_proj = nn.Linear"),
            ("self.qkv(x)", "self.in_proj(x)"),
        ],
        caught_by="names_are_as_asked",
        en=(
            "calls qkv by another name",
            "The numbers are right. The grader writes weights by name, so the name has to be qkv.",
        ),
        zh=("qkv 用了别的名字", "数值是对的。评分程序按名字写入权重，所以名字必须是 qkv。"),
    ),
    Mistake(
        "drops_the_time_axis_of_a_short_input",
        old="        return self.proj(merged)  # [B, T, C]\n",
        new="        return self.proj(merged).squeeze()  # [B, T, C]\n",
        caught_by="any_length_works",
        en=(
            "squeezes its result",
            "With T = 1 the time axis disappears. squeeze() without a number removes every axis of size 1.",
        ),
        zh=("对结果做了 squeeze", "T = 1 时时间轴就没了。不带参数的 squeeze() 会去掉所有大小为 1 的轴。"),
    ),
    Mistake(
        "answers_time_first",
        old="        merged = heads.transpose(1, 2).reshape(B, T, C)  # [B, T, C]\n        return self.proj(merged)  # [B, T, C]\n",
        new="        merged = heads.transpose(1, 2).reshape(B, T, C)  # [B, T, C]\n        return self.proj(merged).transpose(0, 1)  # [B, T, C]\n",
        caught_by="shape_stays",
        en=("answers [T, B, C]", "The result has the axes of the input, in the same order."),
        zh=("返回了 [T, B, C]", "结果的轴和输入相同，顺序也相同。"),
    ),
    Mistake(
        "rounds_the_hidden_width_up",
        old=MLP,
        new="        hidden = -(-4 * dim // 8) * 8\n"
        "        self.mlp = nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim))\n",
        caught_by="parameters_add_up",
        en=(
            "rounds the hidden width of the MLP up to a multiple of 8",
            "Some large models do so for speed. Here it is 4C, also for an odd C.",
        ),
        zh=("把 MLP 的隐藏宽度向上取成了 8 的倍数", "有的大模型为了速度会这样做。这里就是 4C，C 为奇数时也一样。"),
    ),
    # ---- counting
    Mistake(
        "counts_tensors_instead_of_numbers",
        old="sum(p.numel() for p in",
        new="sum(1 for p in",
        caught_by="counts_parameters",
        en=("counts the tensors, not the numbers in them", "A weight [3C, C] is 3C * C parameters: numel()."),
        zh=("数的是张量的个数，而不是其中数字的个数", "[3C, C] 的权重是 3C * C 个参数：用 numel()。"),
    ),
    Mistake(
        "counts_frozen_parameters_always",
        old=" if p.requires_grad or not trainable_only)",
        new=")",
        caught_by="counts_parameters",
        en=("ignores trainable_only", "By default a frozen parameter (requires_grad=False) is not counted."),
        zh=("忽略了 trainable_only", "默认情况下，冻结的参数（requires_grad=False）不计入。"),
    ),
    Mistake(
        "counts_frozen_parameters_unless_told_otherwise",
        old="trainable_only: bool = True",
        new="trainable_only: bool = False",
        caught_by="counts_parameters",
        en=("has trainable_only=False as its default", "Without the flag a frozen parameter is not counted."),
        zh=("trainable_only 的默认值成了 False", "不给这个参数时，冻结的参数不计入。"),
    ),
    Mistake(
        "counts_what_is_frozen_beside_something_trainable",
        old=COUNT,
        new="""    parts = [list(part.parameters(recurse=False)) for part in module.modules()]
    if trainable_only:
        parts = [part for part in parts if any(p.requires_grad for p in part)]
    return sum({p: p.numel() for part in parts for p in part}.values())
""",
        caught_by="counts_parameters",
        en=(
            "asks whole modules whether they are frozen",
            "requires_grad belongs to each parameter: a frozen weight may stand beside a bias that is trained.",
        ),
        zh=(
            "以整个模块为单位判断是否冻结",
            "requires_grad 属于每个参数：冻结的权重旁边可以有仍在训练的偏置。",
        ),
    ),
    Mistake(
        "never_counts_frozen_parameters",
        old=" if p.requires_grad or not trainable_only)",
        new=" if p.requires_grad)",
        caught_by="counts_parameters",
        en=(
            "leaves frozen parameters out even with trainable_only=False",
            "With trainable_only=False everything is counted.",
        ),
        zh=("trainable_only=False 时也不计冻结的参数", "trainable_only=False 时应全部计入。"),
    ),
    Mistake(
        "counts_the_frozen_ones_alone",
        old=" if p.requires_grad or not trainable_only)",
        new=" if p.requires_grad == trainable_only)",
        caught_by="counts_parameters",
        en=(
            "counts only the frozen ones with trainable_only=False",
            "The flag decides whether frozen ones are added, not which kind is counted.",
        ),
        zh=("trainable_only=False 时只数了冻结的参数", "这个开关决定要不要加上冻结的参数，而不是改数另一类。"),
    ),
    Mistake(
        "counts_tied_parameters_twice",
        old="in module.parameters()",
        new="in dict(module.named_parameters(remove_duplicate=False)).values()",
        caught_by="counts_parameters",
        en=(
            "counts a tied parameter once for each name",
            "Two names for one tensor are one parameter: module.parameters() already knows.",
        ),
        zh=("共享的参数按名字数了多次", "一个张量有两个名字也只是一个参数：module.parameters() 已经去重了。"),
    ),
    Mistake(
        "counts_parameters_of_one_shape_once",
        old=COUNT,
        new="    return sum({p.shape: p.numel() for p in module.parameters() if p.requires_grad or not trainable_only}.values())\n",
        caught_by="counts_parameters",
        en=(
            "counts parameters of the same shape once",
            "Two tensors may look alike and be two. Tied is what is one and the same object.",
        ),
        zh=("形状相同的参数只数了一次", "两个张量可以形状相同而仍是两个。是同一个对象，才叫共享。"),
    ),
    Mistake(
        "counts_parameters_of_equal_values_once",
        old=COUNT,
        new="""    kept = []
    for p in module.parameters():
        if (p.requires_grad or not trainable_only) and not any(torch.equal(p, other) for other in kept):
            kept.append(p)
    return sum(p.numel() for p in kept)
""",
        caught_by="counts_parameters",
        en=(
            "counts parameters that hold the same numbers once",
            "Two fresh norms hold the same ones and are two. Tied is what is one and the same object.",
        ),
        zh=(
            "数值相同的参数只数了一次",
            "两个刚建好的归一化层数值相同，但仍是两个。是同一个对象，才叫共享。",
        ),
    ),
    Mistake(
        "counts_the_state_dict",
        old=COUNT,
        new="""    frozen = {n for n, p in module.named_parameters(remove_duplicate=False) if not p.requires_grad}
    return sum(t.numel() for n, t in module.state_dict().items() if not trainable_only or n not in frozen)
""",
        caught_by="counts_parameters",
        en=(
            "counts the state_dict",
            "It also holds buffers, such as running means and masks, and names a tied weight twice.",
        ),
        zh=("数的是 state_dict", "里面还有 buffer（滑动平均、掩码等），共享的权重也会出现两次。"),
    ),
    Mistake(
        "counts_buffers",
        old=COUNT,
        new=COUNT.rstrip("\n") + " + sum(b.numel() for b in module.buffers())\n",
        caught_by="counts_parameters",
        en=("counts buffers as well", "A buffer is state that no optimizer changes; it is not a parameter."),
        zh=("把 buffer 也算进去了", "buffer 是优化器不会更新的状态，不是参数。"),
    ),
    Mistake(
        "counts_the_outer_module_alone",
        old="module.parameters()",
        new="module.parameters(recurse=False)",
        caught_by="counts_parameters",
        en=("counts the parameters of the outermost module alone", "Most parameters belong to modules inside modules."),
        zh=("只数了最外层模块自己的参数", "大部分参数属于嵌套在里面的模块。"),
    ),
    Mistake(
        "returns_a_tensor_as_count",
        old=COUNT,
        new="    return sum((torch.tensor(p.numel()) for p in module.parameters() if p.requires_grad or not trainable_only), torch.tensor(0.0))\n",
        caught_by="counts_parameters",
        en=(
            "returns the count as a floating-point tensor",
            "A count is an int; float32 cannot even hold every whole number above 16,777,216.",
        ),
        zh=("用浮点张量返回计数", "计数应是 int；float32 连大于 16,777,216 的整数都不能全部表示。"),
    ),
    Mistake(
        "forgets_the_biases_in_the_formula",
        old="12 * dim**2 + 13 * dim",
        new="12 * dim**2 + 4 * dim",
        caught_by="the_formula_counts_a_block",
        en=(
            "leaves the biases of the linear layers out of the formula",
            "The four linear layers have 3C + C + 4C + C biases, the two norms 2C + 2C.",
        ),
        zh=("公式里漏了线性层的偏置", "四个线性层有 3C + C + 4C + C 个偏置，两个归一化有 2C + 2C 个参数。"),
    ),
    Mistake(
        "forgets_the_norms_in_the_formula",
        old="12 * dim**2 + 13 * dim",
        new="12 * dim**2 + 9 * dim",
        caught_by="the_formula_counts_a_block",
        en=("leaves the two norms out of the formula", "Each norm has a weight and a bias of C numbers."),
        zh=("公式里漏了两个归一化", "每个归一化有 C 个权重和 C 个偏置。"),
    ),
    Mistake(
        "answers_the_formula_as_a_float",
        old="12 * dim**2 + 13 * dim",
        new="12 * dim**2.0 + 13 * dim",
        caught_by="the_formula_counts_a_block",
        en=("returns the number of parameters as a float", "A count is an int."),
        zh=("用浮点数返回参数量", "计数应是 int。"),
    ),
]
