"""Wrong versions of ex05 that learners really write."""

from grader.mistakes import Mistake

CENTRED = "centred = x - x.mean(dim=-1, keepdim=True)  "
VARIANCE = "variance = centred.square().mean(dim=-1, keepdim=True)  "
ROOT = "normed = centred / torch.sqrt(variance + self.eps)  "
AFFINE = "return (normed * self.weight + self.bias).to(x.dtype)  "
ACTIVATION = "hidden = F.gelu(self.up(x))  "
RESIDUAL = "return x + self.ffn(self.norm(x))  "
DOWN = "return self.dropout(self.down(hidden))  "

MISTAKES = [
    # ---- LayerNorm
    Mistake(
        "uses_the_unbiased_variance",
        old=VARIANCE,
        new="variance = centred.square().sum(dim=-1, keepdim=True) / (x.shape[-1] - 1)  ",
        caught_by="norm_standardizes_each_vector",
        en=(
            "divides the squares by C - 1 instead of C",
            "torch.var and torch.std divide by C - 1 unless they are told otherwise; a norm wants the plain mean of the squares.",
        ),
        zh=(
            "计算方差时除以了 C - 1 而不是 C",
            "torch.var 和 torch.std 默认除以 C - 1（无偏估计）；归一化要的是平方的普通平均，即有偏方差。",
        ),
    ),
    Mistake(
        "adds_eps_outside_the_root",
        old=ROOT,
        new="normed = centred / (torch.sqrt(variance) + self.eps)  ",
        caught_by="eps_stands_inside_the_root",
        en=(
            "adds eps to the standard deviation, outside the root",
            "eps belongs to the variance: sqrt(variance + eps). For vectors of small variance the two differ a lot, and the "
            "gradient of sqrt at 0 is infinite.",
        ),
        zh=(
            "把 eps 加在了根号外面（加到标准差上）",
            "eps 应加在方差上：sqrt(variance + eps)。方差很小时两者相差很大，而且 sqrt 在 0 处的梯度是无穷大。",
        ),
    ),
    Mistake(
        "takes_the_larger_of_variance_and_eps",
        old=ROOT,
        new="normed = centred / torch.sqrt(variance.clamp(min=self.eps))  ",
        caught_by="eps_stands_inside_the_root",
        en=(
            "uses eps as a lower bound of the variance",
            "eps is added to the variance, it does not replace it: look at a vector whose variance is close to eps.",
        ),
        zh=("把 eps 当作方差的下限", "eps 是加到方差上的，不是用来替换方差的；看看方差接近 eps 的向量。"),
    ),
    Mistake(
        "ignores_the_eps_it_is_given",
        old="self.eps = eps",
        new="self.eps = 1e-5",
        caught_by="eps_stands_inside_the_root",
        en=("always uses eps = 1e-5", "LayerNorm(dim, eps=0.5) must use 0.5: follow the argument of __init__."),
        zh=("无论传入什么都使用 eps = 1e-5", "LayerNorm(dim, eps=0.5) 必须使用 0.5：检查 __init__ 的参数去了哪里。"),
    ),
    Mistake(
        "uses_a_smaller_eps",
        old="self.eps = eps",
        new="self.eps = eps / 10",
        caught_by="eps_stands_inside_the_root",
        en=("uses an eps ten times too small", "The default is 1e-5; libraries differ here, this exercise says 1e-5."),
        zh=("使用的 eps 小了十倍", "默认值是 1e-5；不同的库取值不同，本题规定 1e-5。"),
    ),
    Mistake(
        "divides_by_the_variance",
        old=ROOT,
        new="normed = centred / (variance + self.eps)  ",
        caught_by="norm_standardizes_each_vector",
        en=(
            "divides by the variance instead of its root",
            "Only the standard deviation has the unit of x: divide by the square root.",
        ),
        zh=("除以方差而不是标准差", "只有标准差才与 x 的单位一致：要除以方差的平方根。"),
    ),
    Mistake(
        "averages_over_time",
        edits=[
            (CENTRED, "centred = x - x.mean(dim=-2 if x.dim() > 1 else -1, keepdim=True)  "),
            (VARIANCE, "variance = centred.square().mean(dim=-2 if x.dim() > 1 else -1, keepdim=True)  "),
        ],
        caught_by="norm_standardizes_each_vector",
        en=(
            "averages over the positions instead of the last axis",
            "With [B, T, C] the last axis is -1. Averaging over T mixes a token with those after it.",
        ),
        zh=(
            "沿位置轴（T）而不是最后一维求平均",
            "对 [B, T, C] 来说最后一维是 -1。沿 T 求平均会把后面的 token 混进来。",
        ),
    ),
    Mistake(
        "averages_over_positions_and_channels",
        edits=[
            (CENTRED, "axes = (-2, -1) if x.dim() > 2 else -1\n        centred = x - x.mean(dim=axes, keepdim=True)  "),
            (VARIANCE, "variance = centred.square().mean(dim=axes, keepdim=True)  "),
        ],
        caught_by="norm_standardizes_each_vector",
        en=(
            "averages over all positions of a row together",
            "Every vector is standardized by itself: only the last axis may appear in the mean.",
        ),
        zh=("把一个样本的所有位置放在一起求平均", "每个向量单独标准化：求平均时只能出现最后一维。"),
    ),
    Mistake(
        "averages_over_axis_2",
        edits=[
            (CENTRED, "axis = min(2, x.dim() - 1)\n        centred = x - x.mean(dim=axis, keepdim=True)  "),
            (VARIANCE, "variance = centred.square().mean(dim=axis, keepdim=True)  "),
        ],
        caught_by="norm_has_the_right_values",
        en=(
            "averages over axis 2 whatever the number of axes",
            "Axis 2 is the last one of [B, T, C] only. Count from the end: -1 is right for any leading axes.",
        ),
        zh=(
            "总是沿第 2 维求平均，而不看张量有几个轴",
            "只有 [B, T, C] 的最后一维才是第 2 维。从末尾数：-1 不管前面有几个轴都正确。",
        ),
    ),
    Mistake(
        "averages_over_the_batch",
        edits=[
            (CENTRED, "centred = x - x.mean(dim=0, keepdim=True)  "),
            (VARIANCE, "variance = centred.square().mean(dim=0, keepdim=True)  "),
        ],
        caught_by="positions_are_independent",
        en=(
            "averages over the batch, as batch normalisation does",
            "A row must come out the same whatever else is in the batch.",
        ),
        zh=("沿 batch 求平均，变成了批归一化", "一个样本的结果不应受 batch 里其他样本的影响。"),
    ),
    Mistake(
        "forgets_to_subtract_the_mean",
        old=CENTRED,
        new="centred = x  ",
        caught_by="norm_standardizes_each_vector",
        en=("does not subtract the mean", "That is RMSNorm (ex14). A LayerNorm first moves every vector to mean 0."),
        zh=("没有减去均值", "那是 RMSNorm（见 ex14）。LayerNorm 要先把每个向量的均值移到 0。"),
    ),
    Mistake(
        "adds_the_bias_before_scaling",
        old=AFFINE,
        new="return ((normed + self.bias) * self.weight).to(x.dtype)  ",
        caught_by="norm_has_the_right_values",
        en=(
            "adds the bias before it multiplies by the weight",
            "First scale, then shift. With the initial weights of one and biases of zero the order does not show.",
        ),
        zh=("先加 bias 再乘 weight", "应先缩放再平移。初始时 weight 全为 1、bias 全为 0，顺序错了也看不出来。"),
    ),
    Mistake(
        "never_applies_weight_and_bias",
        old=AFFINE,
        new="return normed  ",
        caught_by="norm_has_the_right_values",
        en=(
            "declares weight and bias but never uses them",
            "A parameter that forward never touches gets no gradient. It does not show as long as they are ones and zeros.",
        ),
        zh=(
            "声明了 weight 和 bias 却从未使用",
            "forward 里没有用到的参数得不到梯度。它们还是 1 和 0 的时候看不出问题。",
        ),
    ),
    Mistake(
        "starts_the_norm_with_other_numbers",
        old="nn.Parameter(torch.ones(dim))  ",
        new="nn.Parameter(torch.randn(dim))  ",
        caught_by="norm_starts_neutral",
        en=("starts the norm with other numbers", "A new norm only standardizes: weight 1, bias 0."),
        zh=("LayerNorm 的 weight 或 bias 初始值不对", "刚建好的 LayerNorm 只做标准化：weight 为 1，bias 为 0。"),
    ),
    Mistake(
        "keeps_the_bias_out_of_the_parameters",
        old="self.bias = nn.Parameter(torch.zeros(dim))  ",
        new='self.register_buffer("bias", torch.zeros(dim))  ',
        caught_by="parameters_are_counted",
        en=(
            "keeps the norm's bias as a plain tensor",
            "Only an nn.Parameter shows up in parameters() and is trained.",
        ),
        zh=("LayerNorm 的 bias 只是普通张量而不是参数", "只有 nn.Parameter 才会出现在 parameters() 里并被训练。"),
    ),
    Mistake(
        "detaches_the_statistics",
        old=ROOT,
        new="normed = centred / torch.sqrt(variance.detach() + self.eps)  ",
        caught_by="gradients_are_right",
        en=(
            "lets no gradient through the variance",
            "The variance depends on x as well; the values are right, the gradient is not. Look for detach, .data, .item() "
            "and no_grad.",
        ),
        zh=(
            "没有让梯度流过方差",
            "方差也依赖于 x；数值虽然对，梯度却不对。检查 detach、.data、.item() 和 no_grad。",
        ),
    ),
    Mistake(
        "centres_the_input_in_place",
        old=CENTRED,
        new="x.data -= x.mean(dim=-1, keepdim=True)\n        centred = x  ",
        caught_by="input_stays_as_it_was",
        en=(
            "subtracts the mean from the caller's own tensor",
            "`x -= ...` writes into the tensor that was handed in, and the residual path needs it untouched. Write `x - ...`.",
        ),
        zh=(
            "直接在传入的张量上减去了均值",
            "`x -= ...` 会改写调用者的张量，而残差通路还要用到原来的 x。请写成 `x - ...`。",
        ),
    ),
    Mistake(
        "remembers_the_first_statistics",
        old=VARIANCE,
        new="variance = centred.square().mean(dim=-1, keepdim=True)\n"
        "        if getattr(self, 'seen', variance).shape == variance.shape:\n"
        "            variance = self.seen = getattr(self, 'seen', variance.detach())  ",
        caught_by="norm_has_the_right_values",
        en=(
            "keeps the variance of the first call for later ones",
            "Every call has its own statistics: nothing may be kept on self between two calls.",
        ),
        zh=("把第一次调用的方差留给后面的调用", "每次调用都有自己的统计量：两次调用之间不要在 self 上保存任何东西。"),
    ),
    Mistake(
        "normalises_only_in_training",
        old=CENTRED,
        new="if not self.training:\n            return x * self.weight + self.bias\n        centred = x - x.mean(dim=-1, keepdim=True)  ",
        caught_by="norm_has_the_right_values",
        en=(
            "does not normalise in eval mode",
            "A LayerNorm has no running averages and no modes: train and eval give the same numbers.",
        ),
        zh=("在 eval 模式下不做归一化", "LayerNorm 没有滑动平均，也不分模式：train 与 eval 的结果相同。"),
    ),
    Mistake(
        "answers_in_float32",
        old=AFFINE,
        new="return (normed * self.weight + self.bias).float()  ",
        caught_by="dtype_stays",
        en=(
            "always answers in float32",
            "Computing in a wider type is fine; the result goes back to the dtype of x.",
        ),
        zh=("结果总是 float32", "中间用更高的精度计算没有问题，但结果要转回 x 的 dtype。"),
    ),
    Mistake(
        "calls_the_library_layer_norm",
        old=AFFINE,
        new="return torch.native_layer_norm(x, [x.shape[-1]], self.weight, self.bias, self.eps)[0]  ",
        caught_by="written_by_hand",
        en=(
            "lets the library normalise",
            "This exercise is about the formula: write the mean, the variance and the root.",
        ),
        zh=("调用了库里的 layer norm", "本题要练的就是公式：请自己写出均值、方差和开方。"),
    ),
    # ---- FeedForward
    Mistake(
        "uses_the_tanh_gelu",
        old=ACTIVATION,
        new='hidden = F.gelu(self.up(x), approximate="tanh")  ',
        caught_by="gelu_is_the_exact_one",
        en=(
            "uses the tanh approximation of the GELU",
            "They differ by less than 5e-4 at a single unit, but the difference adds up. GPT-2 used tanh; here the exact "
            "one is asked for.",
        ),
        zh=(
            "使用了 GELU 的 tanh 近似",
            "单个单元上两者相差不到 5e-4，但差异会累积。GPT-2 用的是 tanh；本题要求精确形式。",
        ),
    ),
    Mistake(
        "learns_with_the_slope_of_the_tanh_gelu",
        old=ACTIVATION,
        new='wide = self.up(x)\n        smooth = F.gelu(wide, approximate="tanh")\n        hidden = smooth + (F.gelu(wide) - smooth).detach()  ',
        caught_by="gelu_is_the_exact_one",
        en=(
            "gives the values of the exact GELU, but lets the gradient of its tanh approximation flow back",
            "The gradient must be that of the function whose values come out. Leave it to autograd, without a detach.",
        ),
        zh=(
            "数值是精确的 GELU，反向传播的却是 tanh 近似的梯度",
            "梯度应当属于算出数值的那个函数。交给自动求导即可，不要用 detach。",
        ),
    ),
    Mistake(
        "keeps_the_weights_of_its_first_evaluation",
        edits=[
            (
                ACTIVATION,
                'weight = self.up.weight\n        if not self.training:\n            weight = self.__dict__.setdefault("kept", weight.detach().clone()).to(x.dtype)\n        hidden = F.gelu(F.linear(x, weight, self.up.bias))  ',
            )
        ],
        caught_by="feed_forward_has_the_right_values",
        en=(
            "computes for ever with the weights that it had when it was first evaluated",
            "A model is evaluated, trained on, and evaluated again: the weights have changed in the meantime. Read them at every call.",
        ),
        zh=(
            "一直使用第一次评估时的权重",
            "模型评估之后还会继续训练、再次评估，权重早已改变。每次调用都要重新读取权重。",
        ),
    ),
    Mistake(
        "uses_relu",
        old=ACTIVATION,
        new="hidden = F.relu(self.up(x))  ",
        caught_by="feed_forward_has_the_right_values",
        en=("uses ReLU", "The activation of this exercise is the GELU."),
        zh=("激活函数用了 ReLU", "本题的激活函数是 GELU。"),
    ),
    Mistake(
        "has_no_activation",
        old=ACTIVATION,
        new="hidden = self.up(x)  ",
        caught_by="feed_forward_has_the_right_values",
        en=(
            "has no activation between the two layers",
            "Without it the two linear layers are one: nothing is gained from F.",
        ),
        zh=("两个线性层之间没有激活函数", "没有激活函数，两个线性层就等于一个，F 再大也没有用。"),
    ),
    Mistake(
        "drops_in_eval_mode_too",
        old=DOWN,
        new="return F.dropout(self.down(hidden), self.dropout.p)  ",
        caught_by="dropout_acts_in_training_only",
        en=(
            "drops in eval mode as well",
            "F.dropout does not know the mode of your module: its `training` is True unless you pass self.training.",
        ),
        zh=(
            "在 eval 模式下也做 dropout",
            "F.dropout 不知道模块处于什么模式：不传 self.training 时它的 training 就是 True。",
        ),
    ),
    Mistake(
        "never_drops",
        old=DOWN,
        new="return self.down(hidden)  ",
        caught_by="dropout_acts_in_training_only",
        en=("takes the dropout argument and never uses it", "In train mode elements of the result must be dropped."),
        zh=("收下了 dropout 参数却从未使用", "在 train 模式下，结果的一部分元素应当被置零。"),
    ),
    Mistake(
        "stops_dropping_after_the_first_eval",
        old=DOWN,
        new="if not self.training:\n            self.dropout.p = 0.0\n        return self.dropout(self.down(hidden))  ",
        caught_by="dropout_acts_in_training_only",
        en=(
            "switches dropout off for good in eval mode",
            "A model is evaluated in the middle of training: after train() dropout must act again. Leave the switching to "
            "the mode.",
        ),
        zh=(
            "进入一次 eval 后 dropout 就永远关闭了",
            "训练途中常常会评估一次：回到 train() 后 dropout 必须重新生效。开关交给模式去管。",
        ),
    ),
    Mistake(
        "drops_only_where_gradients_are_recorded",
        old=DOWN,
        new="out = self.down(hidden)\n        return self.dropout(out) if torch.is_grad_enabled() else out  ",
        caught_by="dropout_acts_in_training_only",
        en=(
            "takes torch.no_grad() for eval mode",
            "The two are independent: dropout acts in train mode, also where no gradient is recorded.",
        ),
        zh=(
            "把 torch.no_grad() 当成了 eval 模式",
            "两者互不相干：只要在 train 模式，dropout 就起作用，不记录梯度时也一样。",
        ),
    ),
    Mistake(
        "drops_the_hidden_units",
        old=DOWN,
        new="return self.down(self.dropout(hidden))  ",
        caught_by="dropout_comes_last_and_keeps_the_mean",
        en=("drops before the second linear layer", "Here dropout comes last: after `down`."),
        zh=("在第二个线性层之前做 dropout", "本题的 dropout 在最后：在 `down` 之后。"),
    ),
    Mistake(
        "takes_dropout_for_the_share_to_keep",
        old="nn.Dropout(dropout)",
        new="nn.Dropout(1 - dropout if dropout else 0.0)",
        caught_by="dropout_comes_last_and_keeps_the_mean",
        en=(
            "reads `dropout` as the probability to keep",
            "It is the probability to drop: with 0.1 nine of ten elements stay.",
        ),
        zh=("把 `dropout` 当成了保留概率", "它是丢弃概率：取 0.1 时，十个元素里保留九个。"),
    ),
    Mistake(
        "does_not_rescale_what_it_keeps",
        old=DOWN,
        new="out = self.down(hidden)\n"
        "        return out * (torch.rand_like(out) >= self.dropout.p) if self.training else out  ",
        caught_by="dropout_comes_last_and_keeps_the_mean",
        en=(
            "does not divide the kept elements by 1 - dropout",
            "Without it the mean in training is smaller than in eval mode, and the next layer sees another scale.",
        ),
        zh=("没有把保留下来的元素除以 1 - dropout", "不除的话，训练时的均值比评估时小，后面的层会看到不同的尺度。"),
    ),
    Mistake(
        "drops_whole_positions",
        old=DOWN,
        new="out = self.down(hidden)\n        return out * self.dropout(torch.ones_like(out[..., :1]))  ",
        caught_by="dropout_comes_last_and_keeps_the_mean",
        en=(
            "drops all channels of a position together",
            "Every element is drawn by itself: the mask has the shape of the result.",
        ),
        zh=("把一个位置的所有通道一起丢弃", "每个元素各自独立地决定丢弃与否：掩码的形状应与结果相同。"),
    ),
    Mistake(
        "draws_the_same_mask_for_every_row",
        old=DOWN,
        new="out = self.down(hidden)\n        return out * self.dropout(torch.ones_like(out[:1]))  ",
        caught_by="dropout_comes_last_and_keeps_the_mean",
        en=("draws one mask and uses it for every row of the batch", "Every element is drawn by itself."),
        zh=("整个 batch 共用同一个 dropout 掩码", "每个元素都应各自独立地决定丢弃与否。"),
    ),
    Mistake(
        "leaves_out_the_biases",
        edits=[
            ("nn.Linear(dim, hidden)", "nn.Linear(dim, hidden, bias=False)"),
            ("nn.Linear(hidden, dim)", "nn.Linear(hidden, dim, bias=False)"),
        ],
        caught_by="parameters_are_counted",
        en=("leaves out the biases of the linear layers", "Count: 2CF + F + C. The F and the C are the two biases."),
        zh=("线性层没有偏置", "数一数：2CF + F + C。其中的 F 和 C 就是两个偏置。"),
    ),
    Mistake(
        "makes_the_hidden_layer_4_times_as_wide",
        edits=[
            ("nn.Linear(dim, hidden)", "nn.Linear(dim, 4 * dim)"),
            ("nn.Linear(hidden, dim)", "nn.Linear(4 * dim, dim)"),
        ],
        caught_by="parameters_are_counted",
        en=("always uses 4C hidden units", "The width of the hidden layer is the argument `hidden`."),
        zh=("隐藏层宽度总是 4C", "隐藏层的宽度由参数 `hidden` 给出。"),
    ),
    # ---- PreNormBlock
    Mistake(
        "squeezes_axes_of_size_one",
        old=RESIDUAL,
        new="return (x + self.ffn(self.norm(x))).squeeze()  ",
        caught_by="shape_stays",
        en=(
            "squeezes axes of size one away",
            "One row or one position is an ordinary case: the shape of x comes back.",
        ),
        zh=("把大小为 1 的轴丢掉了", "只有一个样本或一个位置是很平常的情况：输出形状应与 x 相同。"),
    ),
    Mistake(
        "takes_the_residual_from_the_normed_input",
        old=RESIDUAL,
        new="x = self.norm(x)\n        return x + self.ffn(x)  ",
        caught_by="zeroed_sublayer_returns_the_input",
        en=(
            "adds the normed x instead of x itself",
            "The point of pre-norm is a path from input to output that nothing touches. Do not overwrite x with norm(x).",
        ),
        zh=(
            "残差加的是归一化之后的 x",
            "Pre-Norm 的意义就在于有一条从输入直通输出、没有任何运算的通路。不要用 norm(x) 覆盖 x。",
        ),
    ),
    Mistake(
        "normalises_after_the_sum",
        old=RESIDUAL,
        new="return self.norm(x + self.ffn(x))  ",
        caught_by="zeroed_sublayer_returns_the_input",
        en=(
            "normalises after the sum (post-norm)",
            "That is the order of the 2017 Transformer. Pre-norm: the norm comes first, the sum last.",
        ),
        zh=("在相加之后才归一化（Post-Norm）", "那是 2017 年原版 Transformer 的顺序。Pre-Norm：先归一化，最后相加。"),
    ),
    Mistake(
        "normalises_the_output_of_the_feed_forward",
        old=RESIDUAL,
        new="return x + self.norm(self.ffn(x))  ",
        caught_by="block_has_the_right_values",
        en=("normalises what the feed-forward returns", "The norm prepares the input of the sublayer: ffn(norm(x))."),
        zh=("归一化的是前馈网络的输出", "归一化是为子层准备输入的：ffn(norm(x))。"),
    ),
    Mistake(
        "never_normalises_in_the_block",
        old=RESIDUAL,
        new="return x + self.ffn(x)  ",
        caught_by="shift_passes_through",
        en=(
            "declares the norm but never calls it",
            "A submodule that forward never calls does nothing; its parameters get no gradient.",
        ),
        zh=("声明了归一化却从未调用", "forward 里没有调用的子模块不起作用，它的参数也没有梯度。"),
    ),
    Mistake(
        "has_no_residual",
        old=RESIDUAL,
        new="return self.ffn(self.norm(x))  ",
        caught_by="zeroed_sublayer_returns_the_input",
        en=("returns the sublayer alone", "The block adds the sublayer's result to x."),
        zh=("只返回了子层的结果", "这个 block 要把子层的结果加到 x 上。"),
    ),
    Mistake(
        "adds_into_the_input",
        old=RESIDUAL,
        new="x.data += self.ffn(self.norm(x))\n        return x  ",
        caught_by="input_stays_as_it_was",
        en=(
            "adds the sublayer's result into the caller's tensor",
            "`x += ...` changes the tensor that was handed in: whoever uses it again gets other numbers. Write `x + ...`.",
        ),
        zh=(
            "把子层结果直接加进了传入的张量",
            "`x += ...` 会改写传入的张量，之后再用它的人会得到不同的数。请写成 `x + ...`。",
        ),
    ),
    Mistake(
        "adds_into_the_input_where_no_gradient_is_recorded",
        old=RESIDUAL,
        new="update = self.ffn(self.norm(x))\n        return x + update if torch.is_grad_enabled() else x.add_(update)  ",
        caught_by="input_stays_as_it_was",
        en=(
            "adds the sublayer's result into the caller's tensor under torch.no_grad()",
            "To save memory where no gradient is recorded is a good thought, but x belongs to the caller, who may still need it.",
        ),
        zh=(
            "在 torch.no_grad() 下把子层结果直接加进了传入的张量",
            "不记录梯度时想省内存，想法不错，但 x 是调用者的，之后可能还要用。",
        ),
    ),
    Mistake(
        "stops_the_gradient_of_the_residual",
        old=RESIDUAL,
        new="return x.detach() + self.ffn(self.norm(x))  ",
        caught_by="gradients_are_right",
        en=(
            "lets no gradient through the residual path",
            "The bare path is what carries the gradient through deep stacks.",
        ),
        zh=("没有让梯度流过残差通路", "正是这条直通的通路让梯度能穿过很深的网络。"),
    ),
    Mistake(
        "keeps_dropout_from_the_feed_forward",
        old="FeedForward(dim, hidden, dropout)",
        new="FeedForward(dim, hidden)",
        caught_by="dropout_acts_in_training_only",
        en=(
            "does not hand dropout on to the feed-forward",
            "An argument that is not handed on stays at its default, 0.",
        ),
        zh=("没有把 dropout 传给前馈网络", "没有传下去的参数会停留在默认值 0。"),
    ),
    Mistake(
        "drops_the_sum",
        edits=[
            (
                "FeedForward(dim, hidden, dropout)",
                "FeedForward(dim, hidden)\n        self.dropout = nn.Dropout(dropout)",
            ),
            (RESIDUAL, "return self.dropout(x + self.ffn(self.norm(x)))  "),
        ],
        caught_by="dropout_comes_last_and_keeps_the_mean",
        en=(
            "drops elements of the sum, x among them",
            "Dropout belongs to the sublayer; the residual path stays whole.",
        ),
        zh=("对相加之后的和做 dropout，连 x 也被丢弃", "dropout 属于子层；残差通路要保持完整。"),
    ),
    Mistake(
        "has_one_norm_for_all_blocks",
        edits=[
            (
                "        self.norm = LayerNorm(dim)\n",
                "        self.norm = PreNormBlock.norms.setdefault(dim, LayerNorm(dim))\n",
            ),
            (
                '    which gets `dropout`). What is added at the end is `x` itself, untouched by the norm.\n    """\n',
                '    which gets `dropout`). What is added at the end is `x` itself, untouched by the norm.\n    """\n\n    norms: dict = {}\n',
            ),
        ],
        caught_by="block_has_the_right_values",
        en=(
            "shares one norm among all blocks",
            "Every block makes its own norm in __init__; what stands on the class belongs to all of them.",
        ),
        zh=(
            "所有 block 共用同一个 LayerNorm",
            "每个 block 要在 __init__ 里建自己的 LayerNorm；写在类上的东西为所有实例共有。",
        ),
    ),
    Mistake(
        "initialises_the_norm_of_the_block_anew",
        old="self.ffn = FeedForward(dim, hidden, dropout)\n",
        new="self.ffn = FeedForward(dim, hidden, dropout)\n"
        "        for parameter in self.parameters():\n            nn.init.normal_(parameter, std=0.02)\n",
        caught_by="parameters_are_counted",
        en=(
            "gives the norm of the block other numbers to start with",
            "It starts with ones and zeros there as well. A loop over all parameters does not know which of them belong to a norm.",
        ),
        zh=(
            "block 里的 LayerNorm 初始值不对",
            "在 block 里它同样应从全 1 和全 0 开始。遍历所有参数做初始化的循环，不知道哪些参数属于 LayerNorm。",
        ),
    ),
    Mistake(
        "has_a_second_norm_that_it_never_uses",
        old="self.norm = LayerNorm(dim)\n",
        new="self.norm = LayerNorm(dim)\n        self.norm2 = LayerNorm(dim)\n",
        caught_by="parameters_are_counted",
        en=("makes a norm too many", "Count the parameters: one norm (2C) and one feed-forward."),
        zh=("多建了一个 LayerNorm", "数一数参数：一个 LayerNorm（2C）加一个前馈网络。"),
    ),
]
