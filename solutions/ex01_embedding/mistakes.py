"""Wrong versions of ex01, each one substitution away from the reference."""

from grader.mistakes import Mistake

LOOKUP = "vectors = self.weight[rows]  # [..., C]"
ZEROED = """        if padding_idx is not None:
            with torch.no_grad():
                self.weight[padding_idx] = 0.0
"""
MASKED = """        if self.padding_idx is not None:
            is_pad = (rows == self.padding_idx).unsqueeze(-1)  # [..., 1]
            vectors = vectors.masked_fill(is_pad, 0.0)  # the row is zero anyway; this keeps its gradient at zero
"""
TYPE_CHECK = """        if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
            raise TypeError(f"ids must be integers, got {ids.dtype}")
"""
RANGE_CHECK = """        outside = rows[(rows < 0) | (rows >= self.vocab_size)]
        if outside.numel() > 0:
            raise IndexError(f"ids must be at least 0 and below {self.vocab_size}, got {outside[0].item()}")
"""
PARAMETER = "self.weight = nn.Parameter(torch.randn(vocab_size, dim))  # [V, C]"
ONE_HOT = """    columns = torch.arange(weight.shape[0], device=weight.device)  # [V]
    one_hot = ids.unsqueeze(-1) == columns  # [..., V]
    return one_hot.to(weight.dtype) @ weight  # [..., V] @ [V, C] -> [..., C]
"""
END = """        return vectors  # [..., C]
"""

MISTAKES = [
    Mistake(
        "starts_the_padding_row_at_random",
        old=ZEROED,
        new="",
        caught_by="padding_row_starts_at_zero",
        en=(
            "starts with a padding row that is not zero",
            "The padding token then adds noise of its own to every sum. Set the row to zero after the last line that "
            "fills the table.",
        ),
        zh=(
            "填充行一开始不是零",
            "这样填充 token 会把自己的噪声带进每一个求和里。请在最后一次给整张表赋值之后，再把这一行设为零。",
        ),
    ),
    Mistake(
        "trains_the_padding_row",
        old=MASKED,
        new="",
        caught_by="padding_row_gets_no_gradient",
        en=(
            "zeroes the padding row once, but lets gradients reach it",
            "A row that starts at zero leaves zero at the first optimizer step if its gradient is not zero. Look at "
            "what flows back through forward where the id is padding_idx.",
        ),
        zh=(
            "只在开头把填充行清零，却没有拦住流向它的梯度",
            "只要梯度不为零，第一次优化器更新之后这一行就不再是零。请想一想：在 id 等于 padding_idx 的位置，"
            "反向传播会带回什么。",
        ),
    ),
    Mistake(
        "takes_padding_id_0_for_no_padding",
        edits=[
            ("if padding_idx is not None:", "if padding_idx:"),
            ("if self.padding_idx is not None:", "if self.padding_idx:"),
        ],
        caught_by="padding_row_starts_at_zero",
        en=(
            "takes padding_idx=0 for no padding at all",
            "In Python 0 counts as false, so `if padding_idx:` skips the most common padding id. Ask whether it is None.",
        ),
        zh=(
            "把 padding_idx=0 当成了没有填充",
            "Python 里 0 等价于假，`if padding_idx:` 恰好漏掉了最常用的填充 id。应当判断它是不是 None。",
        ),
    ),
    Mistake(
        "always_pads_with_id_0",
        old="is_pad = (rows == self.padding_idx).unsqueeze(-1)",
        new="is_pad = (rows == 0).unsqueeze(-1)",
        caught_by="padding_row_gets_no_gradient",
        en=(
            "treats id 0 as padding, whatever padding_idx says",
            "Where padding has another id, token 0 is an ordinary word that never learns. Compare with padding_idx.",
        ),
        zh=(
            "不管 padding_idx 是多少，一律把 id 0 当作填充",
            "如果填充用的是别的 id，那么 0 号 token 就是一个普通的词，却永远学不到东西。请与 padding_idx 比较。",
        ),
    ),
    Mistake(
        "pads_although_nobody_asked",
        edits=[("self.padding_idx = padding_idx", "self.padding_idx = padding_idx or 0")],
        caught_by="without_padding_every_row_learns",
        en=(
            "treats id 0 as padding even with padding_idx=None",
            "None means that every id is an ordinary token. Do nothing special in that case.",
        ),
        zh=(
            "padding_idx=None 时仍然把 id 0 当作填充",
            "None 的意思是：每个 id 都是普通 token。这种情况下不要做任何特殊处理。",
        ),
    ),
    Mistake(
        "zeroes_the_whole_table_without_padding",
        edits=[
            (ZEROED, "        with torch.no_grad():\n            self.weight[padding_idx] = 0.0\n"),
        ],
        caught_by="without_padding_every_row_learns",
        en=(
            "sets the whole table to zero when padding_idx is None",
            "`weight[None] = 0` does not mean no row: indexing with None adds an axis and reaches every row. Guard it.",
        ),
        zh=(
            "padding_idx 为 None 时把整张表都清零了",
            "`weight[None] = 0` 并不表示“哪一行都不选”：用 None 索引是增加一个轴，于是每一行都被写成零。请先判断。",
        ),
    ),
    Mistake(
        "starts_all_rows_alike",
        old="torch.randn(vocab_size, dim)",
        new="torch.full((vocab_size, dim), dim**-0.5)",
        caught_by="padding_row_starts_at_zero",
        en=(
            "starts different tokens with the same vector",
            "Tokens that begin alike cannot be told apart by the rest of the model. Fill the table with random numbers.",
        ),
        zh=(
            "不同的 token 以同样的向量开始",
            "起点相同的 token，模型的其余部分无法区分。请用随机数给表赋初值。",
        ),
    ),
    Mistake(
        "starts_with_the_same_table_every_time",
        old="        self.weight = nn.Parameter(",
        new="        torch.manual_seed(0)\n        self.weight = nn.Parameter(",
        caught_by="padding_row_starts_at_zero",
        en=(
            "starts with the same table every time",
            "Two tables of one model would be copies of each other. Draw the numbers, and leave the seed to the caller.",
        ),
        zh=(
            "每次构造得到的初始表都一样",
            "这样同一个模型里的两张表就成了彼此的副本。请随机取数，随机种子留给调用者去设置。",
        ),
    ),
    Mistake(
        "blocks_the_gradient_of_whole_sequences_with_padding",
        old="is_pad = (rows == self.padding_idx).unsqueeze(-1)",
        new="is_pad = (rows == self.padding_idx).any(dim=-1, keepdim=True).unsqueeze(-1)",
        caught_by="padding_row_gets_no_gradient",
        en=(
            "blocks every token of a sequence that contains padding",
            "Only the places whose own id is padding_idx are to be blocked. Look for a reduction over the tokens.",
        ),
        zh=(
            "只要句子里出现填充，整句的 token 都被屏蔽",
            "只有 id 本身等于 padding_idx 的位置才该屏蔽。请检查是不是沿 token 轴做了求和或 any 之类的归约。",
        ),
    ),
    Mistake(
        "blocks_the_padding_gradient_once",
        old="            vectors = vectors.masked_fill(is_pad, 0.0)",
        new="            if not getattr(self, '_seen', False):\n"
        "                self._seen = True\n"
        "                vectors = vectors.masked_fill(is_pad, 0.0)",
        caught_by="padding_row_survives_training",
        en=(
            "blocks the padding gradient in the first call only",
            "Training calls forward thousands of times. Whatever keeps the gradient at zero must work in every call.",
        ),
        zh=(
            "只在第一次调用时拦住了填充行的梯度",
            "训练会调用 forward 成千上万次，拦住梯度的办法必须每一次都起作用。",
        ),
    ),
    Mistake(
        "finds_the_padding_by_its_zeros",
        old="is_pad = (rows == self.padding_idx).unsqueeze(-1)",
        new="is_pad = (vectors == 0).all(dim=-1, keepdim=True)",
        caught_by="padding_row_gets_no_gradient",
        en=(
            "takes every vector of zeros for padding",
            "An ordinary token may stand at zero as well, and then it never learns again. Padding is known by its id.",
        ),
        zh=(
            "把所有全零的向量都当成填充",
            "普通 token 的向量也可能恰好是零，那样它就再也学不到东西了。判断填充要看 id，不要看向量的值。",
        ),
    ),
    Mistake(
        "lets_negative_ids_count_from_the_end",
        old="(rows < 0) | (rows >= self.vocab_size)",
        new="rows >= self.vocab_size",
        caught_by="rejects_ids_outside_the_table",
        en=(
            "takes a negative id as a row counted from the end",
            "Python and PyTorch index that way, but for a token id it hides an error. Check for ids below 0 yourself.",
        ),
        zh=(
            "把负的 id 当作从末尾数起的行号",
            "Python 和 PyTorch 的索引就是这样工作的，可对 token id 来说这只会掩盖错误。请自己检查小于 0 的 id。",
        ),
    ),
    Mistake(
        "squeezes_ids_into_32_bits",
        old="rows = ids.long()  # [...]",
        new="rows = ids.int()  # [...]",
        caught_by="rejects_ids_outside_the_table",
        en=(
            "converts int64 ids to int32 before it checks them",
            "Ids from 2**32 on wrap around and come out as small, valid ones. Check before you narrow, or convert to int64.",
        ),
        zh=(
            "先把 int64 的 id 转成 int32，再做检查",
            "2**32 及以上的 id 会回绕，变成看似合法的小数。请在转成更窄的类型之前检查，或者直接转成 int64。",
        ),
    ),
    Mistake(
        "clamps_ids_into_the_table",
        old=RANGE_CHECK,
        new="        rows = rows.clamp(0, self.vocab_size - 1)\n",
        caught_by="rejects_ids_outside_the_table",
        en=(
            "moves ids outside the table to its nearest row",
            "An id that does not exist is an error in the data; a silent answer hides it. Raise IndexError instead.",
        ),
        zh=(
            "把越界的 id 悄悄挪到表里最近的一行",
            "不存在的 id 说明数据出了错，默默给出结果只会掩盖它。应当抛出 IndexError。",
        ),
    ),
    Mistake(
        "checks_the_ids_of_the_first_sequence_only",
        old="outside = rows[(rows < 0) | (rows >= self.vocab_size)]",
        new="first = rows[0] if rows.dim() > 1 else rows\n"
        "        outside = first[(first < 0) | (first >= self.vocab_size)]",
        caught_by="rejects_ids_outside_the_table",
        en=(
            "checks the ids of the first sequence only",
            "One bad id anywhere in the batch must be found. Check all of ids.",
        ),
        zh=(
            "只检查了第一条序列里的 id",
            "无论坏的 id 出现在 batch 的什么位置，都要找出来。请检查整个 ids。",
        ),
    ),
    Mistake(
        "checks_the_ids_in_training_only",
        old="if outside.numel() > 0:",
        new="if self.training and outside.numel() > 0:",
        caught_by="rejects_ids_outside_the_table",
        en=(
            "checks the ids in train mode only",
            "A bad id is just as bad in evaluation. The check does not depend on the mode of the module.",
        ),
        zh=(
            "只在 train 模式下检查 id",
            "评估时遇到错误的 id 同样是错。检查不应当依赖模块所处的模式。",
        ),
    ),
    Mistake(
        "does_not_name_the_bad_id",
        old='raise IndexError(f"ids must be at least 0 and below {self.vocab_size}, got {outside[0].item()}")',
        new='raise IndexError("id out of range")',
        caught_by="rejects_ids_outside_the_table",
        en=(
            "says that an id is out of range, but not which",
            "Whoever reads the message wants to search the data for that id. Put it into the message.",
        ),
        zh=(
            "只说 id 越界，没说是哪个 id",
            "看到报错的人需要拿着这个 id 去数据里找。请把它写进错误信息。",
        ),
    ),
    Mistake(
        "raises_value_error_for_a_bad_id",
        old="raise IndexError(",
        new="raise ValueError(",
        caught_by="rejects_ids_outside_the_table",
        en=(
            "raises ValueError where IndexError is asked for",
            "Code around the lookup catches IndexError. Raise the type that the task names.",
        ),
        zh=(
            "该抛 IndexError 的地方抛了 ValueError",
            "外层代码捕获的是 IndexError，请抛出题目指定的异常类型。",
        ),
    ),
    Mistake(
        "rounds_float_ids_down",
        old=TYPE_CHECK,
        new="",
        caught_by="rejects_float_ids",
        en=(
            "turns float ids into integers without a word",
            "Float ids mean that something else was handed in, such as vectors. Refuse them before you convert.",
        ),
        zh=(
            "一声不响地把浮点 id 转成了整数",
            "出现浮点 id，多半是传错了东西，比如把向量当成了 id。请在转换之前就拒绝它。",
        ),
    ),
    Mistake(
        "accepts_int64_only",
        old="if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:",
        new="if ids.dtype != torch.int64:",
        caught_by="accepts_every_integer_dtype",
        en=(
            "accepts int64 ids only",
            "Tokenized data is often stored as int32 or uint8 to save space. Accept every integer dtype and convert.",
        ),
        zh=(
            "只接受 int64 的 id",
            "为了省空间，分词后的数据常存成 int32 或 uint8。请接受所有整数类型，再做转换。",
        ),
    ),
    Mistake(
        "uses_narrow_ids_as_they_are",
        old="rows = ids.long()  # [...]",
        new="rows = ids  # [...]",
        caught_by="accepts_every_integer_dtype",
        en=(
            "indexes with the ids as they are, whatever their dtype",
            "Indexing takes uint8 for a mask of yes and no, and refuses int16. Convert to int64 before you index.",
        ),
        zh=(
            "不管 id 是什么整数类型，直接拿来索引",
            "索引时 uint8 会被当成“取/不取”的掩码，int16 则会报错。请先转成 int64 再索引。",
        ),
    ),
    Mistake(
        "squeezes_ids_into_one_byte",
        old="rows = ids.long()  # [...]",
        new="rows = ids.to(torch.int8).long()  # [...]",
        caught_by="accepts_every_integer_dtype",
        en=(
            "passes the ids through a dtype that is too narrow for them",
            "int8 ends at 127; larger ids wrap around. Convert to int64 only.",
        ),
        zh=(
            "让 id 经过了一个装不下它们的窄类型",
            "int8 最大只到 127，更大的 id 会回绕成别的数。直接转成 int64 即可。",
        ),
    ),
    Mistake(
        "builds_a_one_hot_in_forward",
        old=LOOKUP,
        new="vectors = nn.functional.one_hot(rows, self.vocab_size).to(self.weight.dtype) @ self.weight",
        caught_by="forward_builds_no_one_hot",
        en=(
            "builds a one-hot tensor in forward",
            "With V = 50,000 the one-hot is 50,000 numbers for each token, all but one of them zero. Pick the row directly.",
        ),
        zh=(
            "在 forward 里构造了 one-hot 张量",
            "当 V = 50,000 时，每个 token 都要 50,000 个数，其中只有一个不是零。直接取出那一行就好。",
        ),
    ),
    Mistake(
        "cuts_the_gradient",
        old=LOOKUP,
        new="vectors = self.weight.data[rows]",
        caught_by="gradient_adds_up_repeated_ids",
        en=(
            "looks up the numbers, but cuts the gradient",
            "`.data`, `.detach()` and no_grad leave the values and lose the graph, so the table never learns.",
        ),
        zh=(
            "取到了数值，却切断了梯度",
            "`.data`、`.detach()` 和 no_grad 都只留下数值，丢掉了计算图，这张表就永远学不到东西。",
        ),
    ),
    Mistake(
        "overwrites_the_gradient_of_repeated_ids",
        edits=[
            (
                "class TokenEmbedding(nn.Module):",
                "class _Lookup(torch.autograd.Function):\n"
                "    @staticmethod\n"
                "    def forward(ctx, table, rows):\n"
                "        ctx.save_for_backward(table, rows)\n"
                "        return table[rows]\n\n"
                "    @staticmethod\n"
                "    def backward(ctx, grad):\n"
                "        table, rows = ctx.saved_tensors\n"
                "        out = torch.zeros_like(table)\n"
                "        out[rows] = grad\n"
                "        return out, None\n\n\n"
                "class TokenEmbedding(nn.Module):",
            ),
            (LOOKUP, "vectors = _Lookup.apply(self.weight, rows)"),
        ],
        caught_by="gradient_adds_up_repeated_ids",
        en=(
            "keeps only one of the gradients of a repeated id",
            "A token that stands at five places gets the sum of five gradients. Accumulate instead of assigning.",
        ),
        zh=(
            "同一个 id 出现多次时，只保留了其中一个梯度",
            "一个 token 出现在五个位置，就该得到五个梯度之和。要累加，而不是赋值。",
        ),
    ),
    Mistake(
        "averages_the_gradient_of_repeated_ids",
        old=LOOKUP,
        new="vectors = self.weight[rows]\n"
        "        times = torch.bincount(rows.flatten(), minlength=self.vocab_size)[rows].unsqueeze(-1)\n"
        "        vectors = vectors / times + (vectors - vectors / times).detach()",
        caught_by="gradient_adds_up_repeated_ids",
        en=(
            "averages the gradients of a repeated id",
            "The row gets the sum of the gradients of all its places, not their mean. Nothing is divided by a count.",
        ),
        zh=(
            "同一个 id 出现多次时，对梯度取了平均",
            "这一行得到的是所有位置梯度的和，不是平均值。这里没有什么要除以次数。",
        ),
    ),
    Mistake(
        "has_a_parameter_too_many",
        old=PARAMETER,
        new=PARAMETER + "\n        self.bias = nn.Parameter(torch.zeros(dim))",
        caught_by="has_one_parameter",
        en=(
            "has another parameter beside the table",
            "A lookup needs one number for each token and channel, V*C in all. Remove what forward does not need.",
        ),
        zh=(
            "除了这张表，还多了别的参数",
            "查表只需要每个 token、每个通道一个数，一共 V*C 个。请去掉 forward 用不到的参数。",
        ),
    ),
    Mistake(
        "lays_the_table_on_its_side",
        edits=[
            ("torch.randn(vocab_size, dim)", "torch.randn(dim, vocab_size)"),
            ("self.weight[padding_idx] = 0.0", "self.weight[:, padding_idx] = 0.0"),
            (LOOKUP, "vectors = self.weight.t()[rows]"),
        ],
        caught_by="has_one_parameter",
        en=(
            "stores the table as [C, V]",
            "One row for each token makes it [V, C]; other code that reads or ties the table relies on that.",
        ),
        zh=(
            "把表存成了 [C, V]",
            "每个 token 占一行，所以是 [V, C]；读取或共享这张表的其他代码都依赖这个形状。",
        ),
    ),
    Mistake(
        "hides_the_table_from_the_optimizer",
        old="self.weight = nn.Parameter(torch.randn(vocab_size, dim))",
        new='self.register_buffer("weight", torch.randn(vocab_size, dim))',
        caught_by="has_one_parameter",
        en=(
            "keeps the table where the optimizer does not see it",
            "parameters() lists nn.Parameter attributes only, not buffers or plain tensors. Look at how weight is made.",
        ),
        zh=(
            "把表存在了优化器看不到的地方",
            "parameters() 只列出 nn.Parameter，不包括 buffer 和普通张量。请看看 weight 是怎么创建的。",
        ),
    ),
    Mistake(
        "freezes_the_table",
        old="torch.randn(vocab_size, dim))",
        new="torch.randn(vocab_size, dim), requires_grad=padding_idx is not None)",
        caught_by="without_padding_every_row_learns",
        en=(
            "freezes the table when there is no padding",
            "requires_grad=False excludes the table from training. It is trainable with and without padding.",
        ),
        zh=(
            "没有填充时把整张表冻结了",
            "requires_grad=False 会让这张表不参与训练。不管有没有填充，它都应当可训练。",
        ),
    ),
    Mistake(
        "uses_the_library_embedding",
        old=LOOKUP,
        new="vectors = nn.functional.embedding(rows, self.weight)",
        caught_by="written_by_hand",
        en=(
            "calls the library's embedding",
            "The exercise is to see what is inside that call. Indexing the table is all it takes.",
        ),
        zh=(
            "调用了库里现成的 embedding",
            "这道题就是要看清那个函数里面做了什么。对表做索引就够了。",
        ),
    ),
    Mistake(
        "scales_by_the_root_of_the_width",
        old=LOOKUP,
        new=LOOKUP.replace("self.weight[rows]", "self.weight[rows] * self.weight.shape[1] ** 0.5"),
        caught_by="returns_the_row_of_each_id",
        en=(
            "multiplies the vectors by the root of the width",
            "The first Transformer did that outside the table. Here the vector is the row itself.",
        ),
        zh=(
            "把向量乘上了宽度的平方根",
            "最早的 Transformer 是在查表之外做这一步的。这里要的就是那一行本身。",
        ),
    ),
    Mistake(
        "gives_every_sequence_the_vectors_of_the_first",
        old=LOOKUP,
        new="vectors = self.weight[rows[:1].expand_as(rows) if rows.dim() > 1 else rows]",
        caught_by="returns_the_row_of_each_id",
        en=(
            "gives every sequence of the batch the vectors of the first",
            "With a batch of one nothing shows. Look for an index 0 or an expand over the batch axis.",
        ),
        zh=(
            "batch 里每条序列得到的都是第一条的向量",
            "batch 大小为 1 时看不出来。请找找有没有在 batch 那个轴上取了下标 0，或做了 expand。",
        ),
    ),
    Mistake(
        "remembers_the_first_answer",
        old=END,
        new="        if not hasattr(self, '_kept') or self._kept[0] != ids.shape:\n"
        "            self._kept = (ids.shape, vectors)\n"
        "        return self._kept[1]\n",
        caught_by="answers_each_call_afresh",
        en=(
            "answers a second call of the same shape with the first result",
            "A result depends on the ids and on the weights of now. Do not keep results between calls.",
        ),
        zh=(
            "第二次传入同样形状时，返回的还是第一次的结果",
            "结果取决于当前的 id 和当前的权重。不要在两次调用之间保存结果。",
        ),
    ),
    Mistake(
        "keeps_a_copy_of_the_table_for_evaluation",
        old=LOOKUP,
        new="if torch.is_grad_enabled():\n"
        "            table = self.weight\n"
        "        else:\n"
        "            if not hasattr(self, '_table'):\n"
        "                self._table = self.weight.detach().clone()\n"
        "            table = self._table\n"
        "        vectors = table[rows]",
        caught_by="answers_each_call_afresh",
        en=(
            "answers from an old copy of the table where no gradients are wanted",
            "The optimizer writes into weight, and the copy does not follow. Read weight itself in every call.",
        ),
        zh=(
            "不需要梯度时，用的是表的一份旧副本",
            "优化器更新的是 weight，副本不会跟着变。每次调用都应当直接读 weight。",
        ),
    ),
    Mistake(
        "knows_batches_of_two_axes_only",
        old=LOOKUP,
        new="B, T = rows.shape\n        vectors = self.weight[rows.reshape(B * T)].reshape(B, T, -1)",
        caught_by="takes_any_leading_shape",
        en=(
            "works for ids of shape [B, T] only",
            "A single id, a list of ids and a [B, H, T] tensor are looked up in the same way. Do not unpack ids.shape.",
        ),
        zh=(
            "只能处理形状为 [B, T] 的 id",
            "单个 id、一列 id、[B, H, T] 的张量，查法都一样。不要把 ids.shape 拆成固定的几个变量。",
        ),
    ),
    Mistake(
        "assumes_contiguous_ids",
        old="rows = ids.long()  # [...]",
        new="rows = ids.view(-1).long().reshape(ids.shape)  # [...]",
        caught_by="takes_ids_of_any_layout",
        en=(
            "fails when the ids are a transposed or expanded tensor",
            "view needs contiguous memory. reshape, or no flattening at all, takes any tensor.",
        ),
        zh=(
            "传入转置或 expand 得到的 id 时会报错",
            "view 要求内存连续；用 reshape，或者干脆不展平，就能接受任何张量。",
        ),
    ),
    Mistake(
        "changes_the_ids_it_was_given",
        old=END,
        new="        ids.clamp_(min=1)\n" + END,
        caught_by="leaves_ids_and_weights_alone",
        en=(
            "changes the ids of the caller",
            "Methods that end in an underscore write into the caller's tensor. Make a new tensor instead.",
        ),
        zh=(
            "改动了调用者传入的 id",
            "名字以下划线结尾的方法会直接写进调用者的张量。请生成新的张量。",
        ),
    ),
    Mistake(
        "shrinks_long_rows_of_the_table",
        old=END,
        new="        with torch.no_grad():\n"
        "            self.weight.div_(self.weight.norm(dim=1, keepdim=True).clamp(min=1.0))\n" + END,
        caught_by="leaves_ids_and_weights_alone",
        en=(
            "changes the table while it looks something up",
            "forward reads the table. Only the optimizer writes to it.",
        ),
        zh=(
            "查表的同时改动了表",
            "forward 只负责读表，只有优化器才可以写它。",
        ),
    ),
    Mistake(
        "answers_in_another_dtype",
        old=END,
        new="        return vectors.double()\n",
        caught_by="keeps_the_dtype",
        en=(
            "converts the vectors to another dtype than the table has",
            "What is looked up has the dtype of the table; the layers that follow rely on it.",
        ),
        zh=(
            "把向量转成了与表不同的类型",
            "查出来的向量应当与表的类型相同，后面的层都依赖这一点。",
        ),
    ),
    Mistake(
        "answers_in_float32_whatever_the_table",
        old=END,
        new="        return vectors.float()\n",
        caught_by="keeps_the_dtype",
        en=(
            "returns float32 vectors whatever the dtype of the table",
            "After .double() or .half() the table has another dtype, and the vectors have that of the table.",
        ),
        zh=(
            "不管表是什么类型，返回的向量一律是 float32",
            "调用 .double() 或 .half() 之后，表的类型就变了；向量的类型应当与表相同。",
        ),
    ),
    Mistake(
        "guesses_the_vocabulary_from_the_ids",
        old=ONE_HOT,
        new="    return nn.functional.one_hot(ids).to(weight.dtype) @ weight\n",
        caught_by="one_hot_equals_the_lookup",
        en=(
            "makes the one-hot only as wide as the largest id in the batch",
            "Without the highest id the product does not fit the table. The width is V, whatever the ids are.",
        ),
        zh=(
            "one-hot 的宽度只取到这个 batch 里最大的 id",
            "如果最大的 id 没有出现，乘法的形状就对不上。不管 id 是哪些，宽度都应当是 V。",
        ),
    ),
    Mistake(
        "multiplies_in_float32_only",
        old="one_hot.to(weight.dtype)",
        new="one_hot.float()",
        caught_by="keeps_the_dtype",
        en=(
            "makes a float32 one-hot for a table of another dtype",
            "Both sides of a matrix product need one dtype. Take that of weight.",
        ),
        zh=(
            "不管表是什么类型，one-hot 一律用 float32",
            "矩阵乘法两边的类型必须一致，请用 weight 的类型。",
        ),
    ),
    Mistake(
        "looks_up_where_it_should_multiply",
        old=ONE_HOT,
        new="    return weight[ids]\n",
        caught_by="one_hot_is_a_product",
        en=(
            "picks rows in one_hot_embedding instead of multiplying",
            "The point of this function is to see that the lookup is a matrix product. Build the one-hot and multiply.",
        ),
        zh=(
            "one_hot_embedding 里直接取了行，没有做乘法",
            "这个函数正是要让你看到：查表就是一次矩阵乘法。请构造 one-hot，再乘上去。",
        ),
    ),
    Mistake(
        "cuts_the_gradient_of_the_product",
        old="one_hot.to(weight.dtype) @ weight  #",
        new="one_hot.to(weight.dtype) @ weight.detach()  #",
        caught_by="one_hot_passes_gradients",
        en=(
            "cuts the gradient in one_hot_embedding",
            "The product must let the gradient through to weight, like the lookup.",
        ),
        zh=(
            "one_hot_embedding 里切断了梯度",
            "这个乘法和查表一样，必须让梯度流回 weight。",
        ),
    ),
    Mistake(
        "multiplies_for_two_axes_only",
        old="return one_hot.to(weight.dtype) @ weight  # [..., V] @ [V, C] -> [..., C]",
        new='return torch.einsum("btv,vc->btc", one_hot.to(weight.dtype), weight)',
        caught_by="one_hot_equals_the_lookup",
        en=(
            "multiplies one-hot rows for ids of shape [B, T] only",
            "The ids may have any leading shape. `@` and an ellipsis in einsum work for all of them.",
        ),
        zh=(
            "one-hot 乘法只支持形状为 [B, T] 的 id",
            "id 前面可以有任意多个轴。`@` 或 einsum 里的省略号对任何形状都适用。",
        ),
    ),
]
