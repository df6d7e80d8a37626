"""Wrong versions of ex09: each a small substitution in the reference. Names complete "the submission ..."."""

from grader.mistakes import Mistake

MASKED = "        weights = scores.masked_fill(~may_attend, -math.inf).softmax(dim=-1)  # [B, H, T, S]\n"
BLOCKS = "        self.blocks = nn.ModuleList(Block(d_model, n_heads, d_ff) for _ in range(n_layers))\n"
RUN = "        for block in self.blocks:\n            x = block(x)  # [B, T, C]\n"
ADD = "        x = self.tok_emb(idx) + self.pos_emb(positions)  # [B, T, C] + [T, C]\n"
POSITIONS = "        positions = torch.arange(T, device=idx.device)  # [T]\n"
TABLE = "        self.pos_emb = nn.Embedding(max_len, d_model)\n"
NORM = "        x = self.ln(x)  # [B, T, C]\n"
HEAD = "        return self.head(x)  # [B, T, V]\n"
TOO_LONG = """        if T > self.max_len:
            raise ValueError(f"{T} tokens do not fit a model of max_len {self.max_len}")
"""
STEP = "        x = x + self.attn(self.n1(x))  # [B, T, C]\n"
LAST = "        return x + self.mlp(self.n2(x))  # [B, T, C]\n"


def library(layer="norm_first=True, batch_first=True", call="x, mask=torch.ones(T, T, dtype=torch.bool).triu(1)"):
    """Edits that build the stack with the library instead."""
    return [
        (
            BLOCKS,
            f"        layer = nn.TransformerEncoderLayer(d_model, n_heads, d_ff, 0.0, {layer})\n"
            "        self.encoder = nn.TransformerEncoder(layer, n_layers, enable_nested_tensor=False)\n",
        ),
        (RUN, f"        x = self.encoder({call})  # [B, T, C]\n"),
    ]


MISTAKES = [
    # ---- positions
    Mistake(
        "has_no_positions",
        edits=[(TABLE, ""), (" + self.pos_emb(positions)  # [B, T, C] + [T, C]", "  # [B, T, C]")],
        caught_by="parameters_add_up",
        en=(
            "has no position embedding",
            "max_len * d_model parameters are missing, and attention alone sees a set of tokens, not a sequence.",
        ),
        zh=("没有位置编码", "少了 max_len * d_model 个参数；单靠注意力看到的是一组 token，而不是一个序列。"),
    ),
    Mistake(
        "never_adds_the_positions",
        old=" + self.pos_emb(positions)  # [B, T, C] + [T, C]",
        new="  # [B, T, C]",
        caught_by="order_of_tokens_matters",
        en=(
            "makes a position table and never adds it",
            "pos_emb is there, is counted, and gets no gradient. Where does it enter forward?",
        ),
        zh=("建了位置表却从来没有加上", "pos_emb 建了、也算进了参数量，却得不到梯度。它在 forward 的哪里用上？"),
    ),
    Mistake(
        "takes_positions_from_the_batch_axis",
        edits=[
            (POSITIONS, "        positions = torch.arange(len(idx), device=idx.device) % self.max_len  # [B]\n"),
            ("self.pos_emb(positions)", "self.pos_emb(positions)[:, None]"),
        ],
        caught_by="order_of_tokens_matters",
        en=(
            "numbers the rows of the batch instead of the positions",
            "idx is [B, T]: the position is the index along T, shape[1].",
        ),
        zh=("给 batch 的行编号，而不是给位置编号", "idx 是 [B, T]：位置是沿 T 的下标，即 shape[1]。"),
    ),
    Mistake(
        "counts_positions_from_one",
        edits=[
            (POSITIONS, "        positions = torch.arange(1, T + 1, device=idx.device)  # [T]\n"),
            ("nn.Embedding(max_len, d_model)", "nn.Embedding(max_len, d_model, padding_idx=None)"),
        ],
        caught_by="fills_its_length_and_no_more",
        en=("counts positions from 1", "Row 0 is never used, and T = max_len asks for a row that does not exist."),
        zh=("位置从 1 开始数", "第 0 行永远用不上；T = max_len 时要的那一行又不存在。"),
    ),
    Mistake(
        "counts_positions_from_the_right",
        old=POSITIONS,
        new="        positions = torch.arange(T - 1, -1, -1, device=idx.device)  # [T]\n",
        caught_by="past_ignores_future",
        en=(
            "counts positions from the right",
            "The first token has position 0 in every sequence, however long: else each new token shifts all others.",
        ),
        zh=("位置从右往左数", "不管序列多长，第一个 token 的位置都是 0：否则每来一个新 token，其他的都会移位。"),
    ),
    Mistake(
        "uses_fixed_sines_as_positions",
        edits=[
            (
                TABLE,
                "        angles = torch.arange(max_len)[:, None] / 10000.0 ** (torch.arange(d_model) / d_model)\n"
                '        self.register_buffer("pos_emb", angles.sin())\n',
            ),
            ("self.pos_emb(positions)", "self.pos_emb[positions]"),
        ],
        caught_by="parameters_add_up",
        en=("uses a fixed table of sines", "Here positions are learned: a table of max_len * d_model parameters."),
        zh=("用了固定的正弦表", "这里的位置是学出来的：一张有 max_len * d_model 个参数的表。"),
    ),
    Mistake(
        "scales_the_token_embedding",
        old="self.tok_emb(idx) +",
        new="self.tok_emb(idx) * self.tok_emb.embedding_dim**0.5 +",
        caught_by="logits_agree",
        en=(
            "multiplies the token embedding by sqrt(C)",
            "The first Transformer did that; this model adds the two tables as they are.",
        ),
        zh=("把词嵌入乘了 sqrt(C)", "最初的 Transformer 这样做；这个模型是把查到的两行直接相加。"),
    ),
    Mistake(
        "keeps_the_position_vectors_of_the_first_call",
        old=ADD,
        new="        if not hasattr(self, 'kept'):\n"
        "            self.kept = self.pos_emb.weight.detach().clone()\n"
        "        places = self.pos_emb(positions) if torch.is_grad_enabled() else self.kept[:T]\n"
        "        x = self.tok_emb(idx) + places\n",
        caught_by="logits_agree",
        en=(
            "keeps the position vectors of its first call",
            "pos_emb is learned: after a step of the optimizer the copy is out of date. Look the rows up at every call.",
        ),
        zh=(
            "保留了第一次调用时的位置向量",
            "pos_emb 是学出来的：优化器走一步之后，保留的副本就过时了。每次调用都要重新查表。",
        ),
    ),
    # ---- the mask
    Mistake(
        "has_no_mask",
        old=".masked_fill(~may_attend, -math.inf)",
        new="",
        caught_by="past_ignores_future",
        en=(
            "has no causal mask",
            "Each position sees the token it should predict: the loss is wonderful, the text is not.",
        ),
        zh=("没有因果掩码", "每个位置都看到了它要预测的 token：损失很低，生成的文本却一塌糊涂。"),
    ),
    Mistake(
        "sees_the_future_instead_of_the_past",
        old="x.device).tril()",
        new="x.device).triu()",
        caught_by="past_ignores_future",
        en=(
            "hides the past and shows the future",
            "Row t of the mask is the query at t: allowed are the columns s <= t.",
        ),
        zh=("屏蔽了过去，露出了未来", "掩码的第 t 行是位置 t 的查询：允许的是 s <= t 的列。"),
    ),
    Mistake(
        "lets_the_next_position_through",
        old="x.device).tril()",
        new="x.device).tril(1)",
        caught_by="past_ignores_future",
        en=("lets each position see the next token", "That is exactly the token to be predicted: off by one."),
        zh=("让每个位置看到下一个 token", "那正是要预测的 token：差了一格。"),
    ),
    Mistake(
        "hides_the_current_position",
        old="x.device).tril()",
        new="x.device).tril(-1).index_fill(0, torch.tensor([0]), True)",
        caught_by="logits_agree",
        en=("hides a position from itself", "Position t attends to 0 .. t, t included."),
        zh=("不让位置看到它自己", "位置 t 关注 0 .. t，包括 t 自己。"),
    ),
    Mistake(
        "masks_in_eval_only",
        old="scores.masked_fill(~may_attend, -math.inf)",
        new="(scores if self.training else scores.masked_fill(~may_attend, -math.inf))",
        caught_by="past_ignores_future",
        en=(
            "masks in eval mode only",
            "In training the model then learns to copy the next token. Both modes need the mask.",
        ),
        zh=("只在 eval 模式下加掩码", "这样训练时模型学到的是抄下一个 token。两种模式都要有掩码。"),
    ),
    Mistake(
        "masks_in_training_only",
        old="scores.masked_fill(~may_attend, -math.inf)",
        new="(scores.masked_fill(~may_attend, -math.inf) if self.training else scores)",
        caught_by="past_ignores_future",
        en=(
            "masks in train mode only",
            "In eval mode the same model then computes something it was never trained for.",
        ),
        zh=("只在 train 模式下加掩码", "这样在 eval 模式下，模型算的是它从没训练过的东西。"),
    ),
    Mistake(
        "masks_after_the_softmax",
        old=MASKED,
        new="        weights = scores.softmax(dim=-1).masked_fill(~may_attend, 0.0)  # [B, H, T, S]\n",
        caught_by="past_ignores_future",
        en=("masks after the softmax", "The future has already been in the denominator."),
        zh=("在 softmax 之后才加掩码", "未来的分数已经进过分母了。"),
    ),
    Mistake(
        "has_no_mask_in_the_encoder",
        edits=library(call="x"),
        caught_by="past_ignores_future",
        en=(
            "calls nn.TransformerEncoder without a mask",
            "It is an encoder: bidirectional unless it is given a causal mask at each call.",
        ),
        zh=("调用 nn.TransformerEncoder 时没有传掩码", "它是编码器：不在每次调用时给它因果掩码，它就是双向的。"),
    ),
    Mistake(
        "gives_the_encoder_a_mask_of_the_wrong_polarity",
        edits=library(call="x, mask=torch.ones(T, T, dtype=torch.bool).tril().fill_diagonal_(False)"),
        caught_by="past_ignores_future",
        en=(
            "gives the encoder a mask that hides the past",
            "In a boolean mask of nn.TransformerEncoder True means: must not attend.",
        ),
        zh=("给编码器的掩码屏蔽了过去", "nn.TransformerEncoder 的布尔掩码里，True 表示不许关注。"),
    ),
    Mistake(
        "leaves_the_encoder_post_norm",
        edits=library(layer="batch_first=True"),
        caught_by="logits_agree",
        en=("leaves nn.TransformerEncoderLayer at post-norm", "That is its default; pre-norm needs norm_first=True."),
        zh=("nn.TransformerEncoderLayer 仍是 post-norm", "这是它的默认值；pre-norm 要写 norm_first=True。"),
    ),
    Mistake(
        "gives_the_encoder_the_batch_as_time",
        edits=library(
            layer="norm_first=True", call="x, mask=torch.ones(x.shape[0], x.shape[0], dtype=torch.bool).triu(1)"
        ),
        caught_by="rows_are_independent",
        en=(
            "lets the encoder take the batch for time",
            "Without batch_first=True it expects [T, B, C] and attends along the first axis.",
        ),
        zh=("让编码器把 batch 当成了时间", "没有 batch_first=True 时，它要的是 [T, B, C]，并沿第一轴做注意力。"),
    ),
    # ---- the blocks
    Mistake(
        "uses_one_block_for_all_layers",
        old=BLOCKS,
        new="        self.blocks = nn.ModuleList([Block(d_model, n_heads, d_ff)] * n_layers)\n",
        caught_by="parameters_add_up",
        en=(
            "repeats one and the same block",
            "[Block(...)] * n is a list of n references to one block. Make a new one for each layer.",
        ),
        zh=("反复使用同一个 block", "[Block(...)] * n 是同一个 block 的 n 个引用。每一层都要新建一个。"),
    ),
    Mistake(
        "keeps_the_blocks_in_a_plain_list",
        old=BLOCKS,
        new="        self.blocks = [Block(d_model, n_heads, d_ff) for _ in range(n_layers)]\n",
        caught_by="parameters_add_up",
        en=(
            "keeps the blocks in a plain list",
            "nn.Module does not look into lists: parameters(), train(), to() and the optimizer never see them. Use nn.ModuleList.",
        ),
        zh=(
            "把 block 放在普通列表里",
            "nn.Module 不会看列表里面：parameters()、train()、to() 和优化器都找不到它们。用 nn.ModuleList。",
        ),
    ),
    Mistake(
        "skips_the_last_block",
        old="for block in self.blocks:",
        new="for block in self.blocks[:-1]:",
        caught_by="every_parameter_gets_a_gradient",
        en=("never runs its last block", "The block is there and counted, but gets no gradient."),
        zh=("最后一个 block 从来没有运行", "它建了，也算进了参数量，却得不到梯度。"),
    ),
    Mistake(
        "always_has_two_layers",
        old="for _ in range(n_layers)",
        new="for _ in range(2)",
        caught_by="every_argument_acts",
        en=("always has two layers", "n_layers is not used; with the default value nobody notices."),
        zh=("总是两层", "n_layers 没有用上；取默认值时谁也看不出来。"),
    ),
    Mistake(
        "always_has_one_head",
        old="Block(d_model, n_heads, d_ff)",
        new="Block(d_model, 1, d_ff)",
        caught_by="every_argument_acts",
        en=("ignores n_heads", "The number of heads changes no shape and no count, only the result."),
        zh=("忽略了 n_heads", "头数不改变任何形状，也不改变参数量，只改变结果。"),
    ),
    Mistake(
        "has_an_mlp_of_four_times_the_width",
        old="Block(d_model, n_heads, d_ff)",
        new="Block(d_model, n_heads, 4 * d_model)",
        caught_by="parameters_add_up",
        en=("has 4 * d_model hard-coded in its MLP", "Here the width is the argument d_ff."),
        zh=("MLP 里写死了 4 * d_model", "这里的宽度是参数 d_ff。"),
    ),
    Mistake(
        "has_no_bias_in_qkv",
        old="nn.Linear(dim, 3 * dim)",
        new="nn.Linear(dim, 3 * dim, bias=False)",
        caught_by="parameters_add_up",
        en=("has no bias in qkv", "3 * d_model parameters are missing in each layer."),
        zh=("qkv 没有偏置", "每一层少了 3 * d_model 个参数。"),
    ),
    Mistake(
        "uses_one_norm_for_both_sublayers",
        old="self.n2 = nn.LayerNorm(dim)",
        new="self.n2 = self.n1",
        caught_by="parameters_add_up",
        en=("uses one norm for both sublayers of a block", "2 * d_model parameters are missing in each layer."),
        zh=("一个 block 的两个子层共用一个归一化", "每一层少了 2 * d_model 个参数。"),
    ),
    Mistake(
        "normalises_after_the_residual",
        edits=[
            (STEP, "        x = self.n1(x + self.attn(x))  # [B, T, C]\n"),
            (LAST, "        return self.n2(x + self.mlp(x))  # [B, T, C]\n"),
        ],
        caught_by="logits_agree",
        en=("has post-norm blocks", "Pre-norm: x + sublayer(norm(x)); nothing but x stands on the residual path."),
        zh=("block 是 post-norm", "pre-norm 是 x + sublayer(norm(x))；残差通路上只有 x。"),
    ),
    Mistake(
        "has_no_residuals",
        edits=[
            (STEP, "        x = self.attn(self.n1(x))  # [B, T, C]\n"),
            (LAST, "        return self.mlp(self.n2(x))  # [B, T, C]\n"),
        ],
        caught_by="logits_agree",
        en=("has no residuals", "Each sublayer adds to x; it does not replace it."),
        zh=("没有残差连接", "每个子层是加到 x 上，而不是把它换掉。"),
    ),
    Mistake(
        "forgets_the_scale",
        old=" / math.sqrt(D)",
        new="",
        caught_by="logits_agree",
        en=("does not scale the scores", "Divide by sqrt(D), D = d_model / n_heads."),
        zh=("没有缩放注意力分数", "要除以 sqrt(D)，其中 D = d_model / n_heads。"),
    ),
    Mistake(
        "scales_by_the_model_width",
        old=" / math.sqrt(D)",
        new=" / math.sqrt(C)",
        caught_by="logits_agree",
        en=("scales by sqrt(d_model)", "A score is a sum over the D channels of one head."),
        zh=("用 sqrt(d_model) 缩放", "一个分数是一个头内 D 个通道之和。"),
    ),
    Mistake(
        "has_no_activation",
        old="nn.GELU()",
        new="nn.Identity()",
        caught_by="logits_agree",
        en=("has no activation in its MLP", "ReLU or GELU stands between the two linear layers."),
        zh=("MLP 里没有激活函数", "两个线性层之间应有 ReLU 或 GELU。"),
    ),
    Mistake(
        "uses_silu",
        old="nn.GELU()",
        new="nn.SiLU()",
        caught_by="logits_agree",
        en=("uses SiLU", "Allowed are ReLU, exact GELU and tanh GELU. (SiLU comes in chapter 3.)"),
        zh=("用了 SiLU", "允许的是 ReLU、精确 GELU 和 tanh GELU。（SiLU 在第 3 章。）"),
    ),
    Mistake(
        "detaches_the_residual",
        old=STEP,
        new="        x = x.detach() + self.attn(self.n1(x))  # [B, T, C]\n",
        caught_by="gradients_agree",
        en=(
            "cuts the gradient on the residual path",
            "Values are right, but the layers below learn through the attention alone.",
        ),
        zh=("在残差通路上切断了梯度", "数值没错，但下面的层只能通过注意力学习。"),
    ),
    Mistake(
        "computes_the_blocks_without_gradients",
        old="            x = block(x)  # [B, T, C]\n",
        new="            with torch.no_grad():\n                x = block(x)  # [B, T, C]\n",
        caught_by="every_parameter_gets_a_gradient",
        en=("runs its blocks under no_grad", "no_grad belongs around an evaluation, outside the model."),
        zh=("在 no_grad 下运行 block", "no_grad 应写在模型外面，围住评估的代码。"),
    ),
    Mistake(
        "runs_only_two_blocks",
        old="for block in self.blocks:",
        new="for block in self.blocks[:2]:",
        caught_by="logits_agree",
        en=("runs only the first two of its blocks", "With the default n_layers nobody notices. Run all of them."),
        zh=("只运行前两个 block", "n_layers 取默认值时谁也看不出来。所有 block 都要运行。"),
    ),
    Mistake(
        "takes_exponentials_of_large_scores",
        old=MASKED,
        new="        weights = scores.masked_fill(~may_attend, -math.inf).exp()  # [B, H, T, S]\n"
        "        weights = weights / weights.sum(dim=-1, keepdim=True)\n",
        caught_by="logits_agree",
        en=(
            "overflows where scores are large",
            "exp of 89 is infinite in float32. Subtract the largest score of the row first, or call softmax.",
        ),
        zh=("分数大时会溢出", "在 float32 里 exp(89) 就是无穷大。先减去该行最大的分数，或直接用 softmax。"),
    ),
    # ---- final norm and head
    Mistake(
        "has_no_final_norm",
        edits=[("        self.ln = nn.LayerNorm(d_model)\n", ""), (NORM, "")],
        caught_by="parameters_add_up",
        en=(
            "has no final norm",
            "2 * d_model parameters are missing. In a pre-norm stack nothing else normalises what reaches the head.",
        ),
        zh=("没有最后的归一化", "少了 2 * d_model 个参数。pre-norm 的网络里，再没有别处会把送进 head 的东西归一化。"),
    ),
    Mistake(
        "never_applies_the_final_norm",
        old=NORM,
        new="",
        caught_by="every_parameter_gets_a_gradient",
        en=(
            "makes a final norm and never applies it",
            "ln is counted, but gets no gradient. It stands between the last block and the head.",
        ),
        zh=("建了最后的归一化却没有使用", "ln 算进了参数量，却得不到梯度。它应在最后一个 block 和 head 之间。"),
    ),
    Mistake(
        "normalises_before_the_blocks",
        edits=[(NORM, ""), (RUN, NORM + RUN)],
        caught_by="logits_agree",
        en=("applies the final norm before the blocks", "ln comes after the last block."),
        zh=("把最后的归一化放到了 block 之前", "ln 在最后一个 block 之后。"),
    ),
    Mistake(
        "has_no_bias_in_the_head",
        old="nn.Linear(d_model, vocab)",
        new="nn.Linear(d_model, vocab, bias=False)",
        caught_by="parameters_add_up",
        en=(
            "has no bias in the head",
            "vocab parameters are missing. Many large models leave it out; this one has it.",
        ),
        zh=("head 没有偏置", "少了 vocab 个参数。很多大模型不要它，这个模型有。"),
    ),
    Mistake(
        "ties_the_head_to_the_embedding",
        old="        self.head = nn.Linear(d_model, vocab)\n",
        new="        self.head = nn.Linear(d_model, vocab)\n        self.head.weight = self.tok_emb.weight\n",
        caught_by="parameters_add_up",
        en=(
            "ties the head to the token embedding",
            "vocab * d_model parameters are missing. GPT-2 does it; here the head has a weight of its own.",
        ),
        zh=(
            "head 与词嵌入共用权重",
            "少了 vocab * d_model 个参数。GPT-2 这样做；这里的 head 有自己的权重。",
        ),
    ),
    Mistake(
        "returns_probabilities",
        old=HEAD,
        new="        return self.head(x).softmax(dim=-1)  # [B, T, V]\n",
        caught_by="logits_are_raw_scores",
        en=(
            "returns probabilities",
            "The softmax belongs to the loss and to sampling. Cross-entropy of probabilities cannot get low.",
        ),
        zh=("返回的是概率", "softmax 属于损失和采样。对概率再算交叉熵，损失降不下去。"),
    ),
    Mistake(
        "returns_log_probabilities",
        old=HEAD,
        new="        return self.head(x).log_softmax(dim=-1)  # [B, T, V]\n",
        caught_by="logits_are_raw_scores",
        en=("returns log-probabilities", "Return the head's scores as they are."),
        zh=("返回的是对数概率", "原样返回 head 的分数。"),
    ),
    Mistake(
        "caps_the_logits",
        old=HEAD,
        new="        return 30 * torch.tanh(self.head(x) / 30)  # [B, T, V]\n",
        caught_by="logits_are_raw_scores",
        en=("caps the logits by a tanh", "Some large models do that; here the logits are what the head gives."),
        zh=("用 tanh 限制了 logits", "有些大模型这样做；这里的 logits 就是 head 的输出。"),
    ),
    Mistake(
        "answers_for_the_last_position_only",
        old=HEAD,
        new="        return self.head(x[:, -1:])  # [B, T, V]\n",
        caught_by="logits_have_their_shape",
        en=("answers for the last position only", "Training needs a prediction at each position: [B, T, V]."),
        zh=("只给出最后一个位置的结果", "训练时每个位置都要有预测：[B, T, V]。"),
    ),
    Mistake(
        "answers_flattened",
        old=HEAD,
        new="        return self.head(x).flatten(0, 1)  # [B, T, V]\n",
        caught_by="logits_have_their_shape",
        en=("answers [B*T, V]", "Flattening is the business of the loss; the model answers [B, T, V]."),
        zh=("返回了 [B*T, V]", "展平是损失函数的事；模型返回 [B, T, V]。"),
    ),
    # ---- lengths, ids, calls
    Mistake(
        "relies_on_the_table_to_complain",
        old=TOO_LONG,
        new="",
        caught_by="fills_its_length_and_no_more",
        en=(
            "lets the position table raise the error",
            '"index out of range in self" tells nobody what was too long. Check T first, and say both numbers.',
        ),
        zh=(
            "靠位置表来报错",
            "“index out of range in self” 没有说明是什么太长了。先检查 T，再把两个数都写进消息。",
        ),
    ),
    Mistake(
        "cuts_long_inputs",
        old=TOO_LONG,
        new="        idx = idx[:, -self.max_len :]\n        T = idx.shape[1]\n",
        caught_by="fills_its_length_and_no_more",
        en=(
            "cuts an input that is too long",
            "Whoever calls it gets fewer positions back than were asked for, without a word. The cutting is for generation (ex11) to do.",
        ),
        zh=("把过长的输入截断", "调用者会悄悄少拿到几个位置。截断是生成（ex11）的事。"),
    ),
    Mistake(
        "starts_the_positions_again",
        edits=[
            (TOO_LONG, ""),
            ("torch.arange(T, device=idx.device)", "torch.arange(T, device=idx.device) % self.max_len"),
        ],
        caught_by="fills_its_length_and_no_more",
        en=("starts the positions again after max_len", "Two tokens then share a position, and nobody is told."),
        zh=("超过 max_len 后位置从头再来", "这样两个 token 会共用一个位置，却没有任何提示。"),
    ),
    Mistake(
        "refuses_its_own_length",
        old="if T > self.max_len:",
        new="if T >= self.max_len:",
        caught_by="fills_its_length_and_no_more",
        en=("refuses T = max_len", "max_len positions fit; only more do not."),
        zh=("拒绝了 T = max_len", "max_len 个位置放得下，再多才不行。"),
    ),
    Mistake(
        "raises_without_the_numbers",
        old='raise ValueError(f"{T} tokens do not fit a model of max_len {self.max_len}")',
        new='raise ValueError("the sequence is too long")',
        caught_by="fills_its_length_and_no_more",
        en=("does not say how long is too long", "Put T and max_len into the message."),
        zh=("没有说明多长算太长", "把 T 和 max_len 都写进消息。"),
    ),
    Mistake(
        "keeps_no_max_len",
        edits=[
            ("        self.max_len = max_len\n", "        self.limit = max_len\n"),
            ("if T > self.max_len:", "if T > self.limit:"),
            ("of max_len {self.max_len}", "of max_len {self.limit}"),
        ],
        caught_by="max_len_is_an_attribute",
        en=("keeps max_len under another name", "Generation (ex11) asks the model for model.max_len."),
        zh=("max_len 用了别的属性名", "生成（ex11）会向模型要 model.max_len。"),
    ),
    Mistake(
        "keeps_max_len_on_the_class",
        old="        self.max_len = max_len\n",
        new="        type(self).max_len = max_len\n",
        caught_by="two_calls_agree",
        en=(
            "keeps max_len on the class",
            "All models then share the number of the last one made. What belongs to one model is kept on self.",
        ),
        zh=("把 max_len 存在类上", "这样所有模型都共用最后建的那个模型的数。属于一个模型的东西要存在 self 上。"),
    ),
    Mistake(
        "has_a_fixed_length",
        edits=[
            ("        self.max_len = max_len\n", "        self.max_len = 32\n"),
            ("nn.Embedding(max_len,", "nn.Embedding(32,"),
        ],
        caught_by="every_argument_acts",
        en=("ignores max_len", "32 is only its default."),
        zh=("忽略了 max_len", "32 只是默认值。"),
    ),
    Mistake(
        "makes_id_zero_a_padding",
        old="nn.Embedding(vocab, d_model)",
        new="nn.Embedding(vocab, d_model, padding_idx=0)",
        caught_by="every_parameter_gets_a_gradient",
        en=("makes id 0 a padding token", "Row 0 never learns. Here every id is an ordinary token."),
        zh=("把 id 0 当成填充", "第 0 行永远学不到东西。这里每个 id 都是普通 token。"),
    ),
    Mistake(
        "hides_id_zero_from_attention",
        edits=[
            (
                '    def forward(self, x: Tensor) -> Tensor:\n        """x [B, T, C] -> [B, T, C]"""\n        # BEGIN SOLUTION\n        x = x + self.attn(self.n1(x))',
                '    def forward(self, x: Tensor, real: Tensor) -> Tensor:\n        """x [B, T, C] -> [B, T, C]"""\n        # BEGIN SOLUTION\n        x = x + self.attn(self.n1(x), real)',
            ),
            (
                '    def forward(self, x: Tensor) -> Tensor:\n        """x [B, T, C] -> [B, T, C]"""\n        # BEGIN SOLUTION\n        B, T, C',
                '    def forward(self, x: Tensor, real: Tensor) -> Tensor:\n        """x [B, T, C] -> [B, T, C]"""\n        # BEGIN SOLUTION\n        B, T, C',
            ),
            ("x.device).tril()", "x.device).tril() & (real[:, None, None] | torch.eye(T, dtype=torch.bool))"),
            ("x = block(x)", "x = block(x, idx != 0)"),
        ],
        caught_by="every_id_is_ordinary",
        en=("hides tokens of id 0 from the attention", "This model knows no padding: id 0 is a token like all others."),
        zh=("在注意力里屏蔽了 id 为 0 的 token", "这个模型没有填充的概念：id 0 和其他 token 一样。"),
    ),
    Mistake(
        "has_room_for_one_id_too_few",
        edits=[
            ("nn.Embedding(vocab, d_model)", "nn.Embedding(vocab - 1, d_model)"),
        ],
        caught_by="parameters_add_up",
        en=(
            "has one row too few in its token table",
            "The ids run from 0 to vocab - 1: that is vocab rows. Random ids rarely hit the last one.",
        ),
        zh=("token 表少了一行", "id 从 0 到 vocab - 1，一共 vocab 行。随机的 id 很少碰到最后一个。"),
    ),
    Mistake(
        "drops_out_in_eval_mode",
        old=ADD,
        new=ADD.replace(
            "self.tok_emb(idx) + self.pos_emb(positions)",
            "nn.functional.dropout(self.tok_emb(idx) + self.pos_emb(positions), 0.1)",
        ),
        caught_by="two_calls_agree",
        en=(
            "drops out in eval mode too",
            "F.dropout acts unless it is told self.training; nn.Dropout knows by itself.",
        ),
        zh=("eval 模式下也做 dropout", "F.dropout 除非传入 self.training，否则总在起作用；nn.Dropout 自己知道。"),
    ),
    Mistake(
        "remembers_where_the_last_call_ended",
        edits=[
            (
                POSITIONS,
                "        start = getattr(self, 'used', 0)\n        positions = (start + torch.arange(T, device=idx.device)) % self.max_len  # [T]\n        self.used = start + T\n",
            ),
        ],
        caught_by="two_calls_agree",
        en=(
            "goes on counting positions in the next call",
            "Every call is a new sequence: its first token is at position 0.",
        ),
        zh=("下一次调用时位置接着往下数", "每次调用都是新的序列：第一个 token 在位置 0。"),
    ),
    Mistake(
        "puts_a_start_token_into_its_input",
        old=POSITIONS,
        new=POSITIONS + "        idx[:, 0] = 0\n",
        caught_by="inputs_stay_as_they_were",
        en=("overwrites the first token of its input", "idx belongs to the caller, and its first token is data."),
        zh=("改写了输入的第一个 token", "idx 属于调用者，第一个 token 也是数据。"),
    ),
    Mistake(
        "needs_contiguous_ids",
        old="self.tok_emb(idx) +",
        new="self.tok_emb(idx.view(-1)).view(*idx.shape, -1) +",
        caught_by="inputs_stay_as_they_were",
        en=(
            "needs contiguous ids",
            "view() refuses a transposed or sliced tensor. The embedding takes any shape; else use reshape().",
        ),
        zh=(
            "要求 id 在内存里连续",
            "view() 不接受转置或切片得到的张量。embedding 能接受任何形状；不然就用 reshape()。",
        ),
    ),
    Mistake(
        "calls_the_final_norm_by_another_name",
        edits=[
            ("        self.ln = nn.LayerNorm(d_model)", "        self.ln_f = nn.LayerNorm(d_model)"),
            ("self.ln(x)", "self.ln_f(x)"),
        ],
        caught_by="names_are_as_asked",
        en=(
            "calls the final norm by another name",
            "The numbers are right. The grader and the later exercises look for ln.",
        ),
        zh=("最后的归一化用了别的名字", "数值是对的。评分程序和后面的练习找的是 ln。"),
    ),
    Mistake(
        "mixes_the_rows_of_the_batch",
        old="q, k, v = self.qkv(x).view(B, T, 3, H, D).permute(2, 0, 3, 1, 4)",
        new="q, k, v = self.qkv(x).reshape(T, B, 3, H, D).permute(2, 1, 3, 0, 4)",
        caught_by="rows_are_independent",
        en=(
            "takes [B, T, C] for [T, B, C]",
            "reshape(T, B, ...) does not exchange axes: rows of the batch are cut and glued.",
        ),
        zh=("把 [B, T, C] 当成 [T, B, C]", "reshape(T, B, ...) 并不换轴：batch 的各行被切开又拼在了一起。"),
    ),
    Mistake(
        "has_other_defaults",
        old="n_heads: int = 4,",
        new="n_heads: int = 8,",
        caught_by="defaults_are_as_asked",
        en=("has another default", "MiniTransformer() is MiniTransformer(50, 32, 4, 2, 32, 64)."),
        zh=("默认值不同", "MiniTransformer() 就是 MiniTransformer(50, 32, 4, 2, 32, 64)。"),
    ),
    Mistake(
        "applies_the_final_norm_twice",
        old="x = self.ln(x)  #",
        new="x = self.ln(self.ln(x))  #",
        caught_by="logits_agree",
        en=(
            "applies the final norm twice",
            "An encoder built with norm=self.ln ends with that norm already. Twice is once too often, "
            "and shows as soon as its weights are no longer all ones.",
        ),
        zh=(
            "最后的归一化做了两次",
            "用 norm=self.ln 构造的编码器，结尾已经做过这次归一化。再做一次就多了；等权重不再全是 1，差别就显出来了。",
        ),
    ),
    Mistake(
        "sees_only_the_last_four_tokens",
        old="x.device).tril()",
        new="x.device).tril().triu(-3)",
        caught_by="sees_all_of_the_past",
        en=("sees only the last four tokens", "Position t attends to all of 0 .. t in each layer."),
        zh=("只看得到最近四个 token", "在每一层，位置 t 都关注 0 .. t 的全部。"),
    ),
]
