"""Wrong versions of ex06, each one substitution (or a few) away from the reference."""

from grader.mistakes import Mistake

HALVES = "first, second = x.chunk(2, dim=-1)  # [..., D/2] each"
TURNED = "return torch.cat((-second, first), dim=-1)  # [..., D]"
PRECISE = (
    "precise = torch.promote_types(positions.dtype, torch.get_default_dtype())  # float32, or float64 if asked for"
)
INDEX = "n = torch.arange(head_dim // 2, dtype=precise, device=positions.device)  # [D/2]"
THETA = "theta = base ** (-2 * n / head_dim)  # [D/2]"
ANGLES = "angles = positions.to(precise)[:, None] * theta  # [T, 1] * [D/2] -> [T, D/2]"
TWICE = "angles = torch.cat((angles, angles), dim=-1)  # [T, D]"
TABLES = "return angles.cos(), angles.sin()"
APPLY = "return (x * cos + rotate_half(x) * sin).to(x.dtype)  # [B, H, T, D]"
ODD_HALF = """    if x.shape[-1] % 2 != 0:
        raise ValueError(f"the last axis must have even size, got {x.shape[-1]}")
"""
ODD_ANGLES = """    if head_dim % 2 != 0:
        raise ValueError(f"head_dim must be even, got {head_dim}")
"""
TURN_Q = "q = apply_rope(q, *rope_angles(q_positions, q.shape[-1], base))  # [B, H, T, D]"
TURN_K = "k = apply_rope(k, *rope_angles(k_positions, k.shape[-1], base))  # [B, H, S, D]"
SCORES = "return q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # [B, H, T, S]"

MISTAKES = [
    Mistake(
        "puts_the_minus_on_the_wrong_half",
        old=TURNED,
        new="return torch.cat((second, -first), dim=-1)",
        caught_by="rotate_half_swaps_the_halves",
        en=(
            "puts the minus sign on the wrong half",
            "A quarter turn takes (a, b) to (-b, a): the second half comes first, with the minus.",
        ),
        zh=(
            "负号加在了错误的那一半上",
            "转四分之一圈把 (a, b) 变成 (-b, a)：后一半放到前面，并带上负号。",
        ),
    ),
    Mistake(
        "forgets_the_minus",
        old=TURNED,
        new="return torch.cat((second, first), dim=-1)",
        caught_by="rotate_half_twice_is_minus",
        en=(
            "swaps the halves without a minus sign",
            "Swapping is a reflection, not a turn: lengths change as soon as cos and sin come in.",
        ),
        zh=(
            "交换了两半，却没有负号",
            "单纯的交换是镜像而不是旋转：乘上 cos 和 sin 之后，向量的长度就变了。",
        ),
    ),
    Mistake(
        "turns_without_swapping",
        old=TURNED,
        new="return torch.cat((-first, second), dim=-1)",
        caught_by="rotate_half_swaps_the_halves",
        en=(
            "leaves the halves where they are",
            "Each channel must meet its partner, D/2 places away.",
        ),
        zh=("两半没有交换位置", "每个通道都要与相隔 D/2 的那个通道配对。"),
    ),
    Mistake(
        "pairs_neighbours_when_rotating",
        edits=[
            (HALVES, "first, second = x[..., 0::2], x[..., 1::2]"),
            (TURNED, "return torch.stack((-second, first), dim=-1).flatten(-2)"),
        ],
        caught_by="rotate_half_swaps_the_halves",
        en=(
            "pairs neighbouring channels in rotate_half",
            "That is the interleaved form. This file is half-split: channel n belongs to channel n + D/2.",
        ),
        zh=(
            "rotate_half 里把相邻的通道配成一对",
            "那是交错式（interleaved）写法。本文件用的是对半式：通道 n 与通道 n + D/2 配对。",
        ),
    ),
    Mistake(
        "pairs_neighbours_in_the_table",
        old=TWICE,
        new="angles = angles.repeat_interleave(2, dim=-1)",
        caught_by="tables_have_the_right_value",
        en=(
            "repeats every angle for its neighbour in the table",
            "With half-split pairs the D/2 angles stand twice side by side: 0, 1, 2, 0, 1, 2 and not 0, 0, 1, 1, 2, 2.",
        ),
        zh=(
            "角度表里把每个角度重复给了相邻的通道",
            "对半配对时，D/2 个角度要整体写两遍：0, 1, 2, 0, 1, 2，而不是 0, 0, 1, 1, 2, 2。",
        ),
    ),
    Mistake(
        "pairs_neighbours_everywhere",
        edits=[
            (HALVES, "first, second = x[..., 0::2], x[..., 1::2]"),
            (TURNED, "return torch.stack((-second, first), dim=-1).flatten(-2)"),
            (TWICE, "angles = angles.repeat_interleave(2, dim=-1)"),
        ],
        caught_by="rotate_half_swaps_the_halves",
        en=(
            "uses the interleaved form throughout",
            "It is consistent, and some models use it, but it is another function: weights of the half-split form do not "
            "work with it. Pair n with n + D/2.",
        ),
        zh=(
            "从头到尾都用了交错式写法",
            "它自成一体，也有模型这样用，但那是另一个函数：对半式的权重放到它上面是不能用的。请把 n 与 n + D/2 配对。",
        ),
    ),
    Mistake(
        "turns_against_the_sense_of_rotation",
        old=APPLY,
        new="return (x * cos - rotate_half(x) * sin).to(x.dtype)",
        caught_by="turned_vectors_have_the_right_value",
        en=(
            "turns the other way",
            "Scores of q and k do not notice as long as both turn alike, but a cache of turned keys would not fit. The "
            "sign in front of rotate_half is plus.",
        ),
        zh=(
            "旋转的方向反了",
            "只要 q 和 k 同向旋转，分数看不出差别，但缓存里已旋转好的键就对不上了。rotate_half 前面应当是加号。",
        ),
    ),
    Mistake(
        "leaves_the_vectors_as_they_are",
        old=APPLY,
        new="return (x + 0.0 * cos).to(x.dtype)",
        caught_by="turned_vectors_have_the_right_value",
        en=(
            "does not turn the vectors at all",
            "Lengths are kept and position 0 is right, but no position is told from another.",
        ),
        zh=("根本没有旋转向量", "长度不变，位置 0 也对，但各个位置之间没有任何区别。"),
    ),
    Mistake(
        "only_shrinks_by_the_cosine",
        old=APPLY,
        new="return (x * cos).to(x.dtype)",
        caught_by="turning_keeps_lengths",
        en=("leaves out the sine part", "A rotation has two terms: x times cos, and its quarter turn times sin."),
        zh=("漏掉了正弦那一项", "旋转有两项：x 乘 cos，再加上转了四分之一圈的 x 乘 sin。"),
    ),
    Mistake(
        "swaps_sine_and_cosine",
        old=TABLES,
        new="return angles.sin(), angles.cos()",
        caught_by="tables_have_the_right_value",
        en=("returns (sin, cos) instead of (cos, sin)", "At position 0 the first table must be all ones."),
        zh=("返回的是 (sin, cos)，而不是 (cos, sin)", "在位置 0，第一张表应当全是 1。"),
    ),
    Mistake(
        "forgets_the_2_in_the_exponent",
        old="-2 * n / head_dim",
        new="-n / head_dim",
        caught_by="tables_have_the_right_value",
        en=(
            "forgets the 2 in the exponent of theta",
            "The exponents run from 0 to almost -1: n goes to D/2 only, so it is -2n / D.",
        ),
        zh=(
            "theta 的指数里漏了 2",
            "指数要从 0 走到接近 -1；n 只到 D/2，所以是 -2n / D。",
        ),
    ),
    Mistake(
        "counts_frequencies_from_one",
        old="-2 * n / head_dim",
        new="-2 * (n + 1) / head_dim",
        caught_by="tables_have_the_right_value",
        en=("counts n from 1", "The first pair turns fastest, with theta_0 = 1: n starts at 0."),
        zh=("n 从 1 开始数", "第一对转得最快，theta_0 = 1：n 要从 0 开始。"),
    ),
    Mistake(
        "spreads_frequencies_to_the_end",
        old="-2 * n / head_dim",
        new="-n / max(head_dim // 2 - 1, 1)",
        caught_by="tables_have_the_right_value",
        en=(
            "spreads the exponents from 0 to -1 inclusive",
            "The last exponent is -2(D/2 - 1)/D, not -1. A linspace includes its end.",
        ),
        zh=(
            "让指数从 0 一直均匀分布到 -1（含 -1）",
            "最后一个指数是 -2(D/2 - 1)/D，不是 -1。linspace 是包含终点的。",
        ),
    ),
    Mistake(
        "makes_frequencies_grow",
        old="base ** (-2 * n / head_dim)",
        new="base ** (2 * n / head_dim)",
        caught_by="tables_have_the_right_value",
        en=("lets the frequencies grow", "The exponent is negative: later pairs turn more and more slowly."),
        zh=("频率越来越大了", "指数是负的：越靠后的通道对频率越低。"),
    ),
    Mistake(
        "turns_all_pairs_at_one_speed",
        old=THETA,
        new="theta = torch.ones_like(n)",
        caught_by="tables_have_the_right_value",
        en=(
            "turns every pair at the same speed",
            "With one speed, position p and p + 2*pi look alike. theta_n differs from pair to pair.",
        ),
        zh=(
            "所有通道对的频率都一样",
            "只有一种频率时，位置 p 和 p + 2π 就分不开了。每一对的 theta_n 各不相同。",
        ),
    ),
    Mistake(
        "fixes_the_base",
        old="theta = base **",
        new="theta = 10000.0 **",
        caught_by="tables_have_the_right_value",
        en=(
            "ignores the argument base",
            "Models for long texts use 500,000 and more. Use the argument, not the number 10000.",
        ),
        zh=("忽略了参数 base", "处理长文本的模型会用 500,000 甚至更大。请使用参数，而不是写死 10000。"),
    ),
    Mistake(
        "does_not_pass_the_base_on",
        edits=[
            ("rope_angles(q_positions, q.shape[-1], base)", "rope_angles(q_positions, q.shape[-1])"),
            ("rope_angles(k_positions, k.shape[-1], base)", "rope_angles(k_positions, k.shape[-1])"),
        ],
        caught_by="scores_have_the_right_value",
        en=("does not pass base on to rope_angles", "rope_attention_scores has the argument too. Follow it through."),
        zh=("没有把 base 传给 rope_angles", "rope_attention_scores 也有这个参数，请看看它有没有一路传下去。"),
    ),
    Mistake(
        "writes_the_angles_once",
        old=TWICE + "\n",
        new="\n",
        caught_by="tables_have_the_right_shape",
        en=(
            "returns tables of width D/2",
            "Both channels of a pair turn by the same angle: the angles are written twice.",
        ),
        zh=("返回的表宽度只有 D/2", "一对里的两个通道转同样的角度，所以角度要写两遍。"),
    ),
    Mistake(
        "always_starts_at_position_0",
        old="angles = positions.to(precise)[:, None] * theta",
        new="angles = torch.arange(len(positions), dtype=precise)[:, None] * theta",
        caught_by="a_slice_of_the_table_is_the_table_of_the_slice",
        en=(
            "numbers the positions from 0 whatever they are",
            "While decoding with a cache the new token stands at position 57, not 0. Use the positions, not their count.",
        ),
        zh=(
            "不看传入的位置，一律从 0 开始编号",
            "带缓存解码时，新 token 的位置可能是 57，而不是 0。要用位置本身，而不是位置的个数。",
        ),
    ),
    Mistake(
        "counts_from_the_first_position",
        old="angles = positions.to(precise)[:, None] * theta",
        new="angles = (positions - positions[0]).to(precise)[:, None] * theta",
        caught_by="a_slice_of_the_table_is_the_table_of_the_slice",
        en=(
            "subtracts the first position",
            "Queries and keys start at different positions while decoding; each call must use the same zero.",
        ),
        zh=(
            "减去了第一个位置",
            "解码时查询和键的起点不同，每次调用都必须用同一个零点。",
        ),
    ),
    Mistake(
        "counts_positions_from_one",
        old="angles = positions.to(precise)[:, None] * theta",
        new="angles = (positions.to(precise) + 1)[:, None] * theta",
        caught_by="position_0_changes_nothing",
        en=("adds one to every position", "Position 0 has the angle 0 and leaves the vector as it is."),
        zh=("给每个位置都加了 1", "位置 0 的角度是 0，向量应当保持不变。"),
    ),
    Mistake(
        "sorts_the_positions",
        old="angles = positions.to(precise)[:, None] * theta",
        new="angles = positions.to(precise).sort().values[:, None] * theta",
        caught_by="tables_have_the_right_value",
        en=("puts the positions in order", "Row t belongs to positions[t], in whatever order they come."),
        zh=("把位置排了序", "第 t 行对应 positions[t]，不管它们以什么顺序给出。"),
    ),
    Mistake(
        "stops_at_the_end_of_its_table",
        old="angles = positions.to(precise)[:, None] * theta",
        new="angles = positions.to(precise).clamp(max=8191)[:, None] * theta",
        caught_by="tables_have_the_right_value",
        en=(
            "gives all positions past some bound the same angle",
            "Positions have no upper end: a table of fixed size cannot hold them all. Compute from the positions.",
        ),
        zh=(
            "超过某个上限的位置都得到同样的角度",
            "位置没有上限，固定大小的表装不下所有位置。请直接用位置来计算角度。",
        ),
    ),
    Mistake(
        "drops_the_sign_of_positions",
        old="angles = positions.to(precise)[:, None] * theta",
        new="angles = positions.abs().to(precise)[:, None] * theta",
        caught_by="tables_have_the_right_value",
        en=(
            "turns position -3 as it turns position 3",
            "A negative position turns the other way. Only differences count, so positions may start below 0.",
        ),
        zh=(
            "位置 -3 和位置 3 转了同样的角度",
            "负的位置应当反方向旋转。起作用的只有位置之差，所以位置也可以从 0 以下开始。",
        ),
    ),
    Mistake(
        "slows_down_long_texts",
        old=THETA,
        new="theta = (base * max(1.0, len(positions) / 64)) ** (-2 * n / head_dim)",
        caught_by="a_slice_of_the_table_is_the_table_of_the_slice",
        en=(
            "turns by other angles once there are many positions",
            "A position has the same angle in a short and in a long call, or a cache would hold keys that no longer fit.",
        ),
        zh=(
            "位置一多，转的角度就变了",
            "同一个位置在短的和长的调用里角度必须相同，否则缓存里的键就对不上了。",
        ),
    ),
    Mistake(
        "rounds_positions_down",
        old="positions.to(precise)[:, None]",
        new="positions.long().to(precise)[:, None]",
        caught_by="positions_may_be_fractions",
        en=(
            "rounds fractional positions down",
            "Methods that stretch a model to longer texts use positions such as 1.5. Convert to float, not to int.",
        ),
        zh=(
            "把小数位置取整了",
            "把模型扩展到更长文本的方法会用到 1.5 这样的位置。应当转成浮点数，而不是整数。",
        ),
    ),
    Mistake(
        "keeps_the_first_table",
        old=TABLES,
        new="kept = rope_angles.__dict__.setdefault('kept', {})\n"
        "    key = (len(positions), head_dim, base)\n"
        "    return kept.setdefault(key, (angles.cos(), angles.sin()))",
        caught_by="a_slice_of_the_table_is_the_table_of_the_slice",
        en=(
            "answers a second call with the table of the first",
            "A cache of tables must know the positions, not only how many there are.",
        ),
        zh=(
            "第二次调用返回的是第一次的表",
            "如果缓存角度表，就必须区分位置本身，而不仅仅是位置的个数。",
        ),
    ),
    Mistake(
        "keeps_the_table_of_the_first_base",
        old=THETA,
        new="theta = rope_angles.__dict__.setdefault('kept', {}).setdefault(head_dim, base ** (-2 * n / head_dim))",
        caught_by="tables_have_the_right_value",
        en=(
            "keeps the frequencies of the first call for this width",
            "They depend on base as well. Compute them anew, or let the cache know everything they depend on.",
        ),
        zh=(
            "对同样的宽度，一直沿用第一次算出的频率",
            "频率还取决于 base。要么每次重新计算，要么让缓存区分它所依赖的一切。",
        ),
    ),
    Mistake(
        "keeps_the_table_between_the_same_ends",
        old=TABLES,
        new="kept = rope_angles.__dict__.setdefault('kept', {})\n"
        "    key = (len(positions), float(positions[0]), float(positions[-1]), head_dim, base)\n"
        "    return kept.setdefault(key, (angles.cos(), angles.sin()))",
        caught_by="tables_have_the_right_value",
        en=(
            "takes positions for the same when the first, the last and the number of them are",
            "Positions come in any order: what lies between the ends may differ. Key a cache on all of them.",
        ),
        zh=(
            "只要首尾两个位置和个数相同，就当成同一组位置",
            "位置可以是任意顺序，首尾之间可能完全不同。缓存的键要包含所有位置。",
        ),
    ),
    Mistake(
        "computes_angles_in_the_dtype_of_the_queries",
        edits=[
            ("rope_angles(q_positions, q.shape[-1], base)", "rope_angles(q_positions.to(q.dtype), q.shape[-1], base)"),
            ("rope_angles(k_positions, k.shape[-1], base)", "rope_angles(k_positions.to(k.dtype), k.shape[-1], base)"),
        ],
        caught_by="half_inputs_get_precise_angles",
        en=(
            "converts the positions to the dtype of q",
            "float16 does not tell 4000 from 4001, bfloat16 not even 400 from 401. Compute angles in float32.",
        ),
        zh=(
            "把位置转成了 q 的类型",
            "float16 分不清 4000 和 4001，bfloat16 连 400 和 401 都分不清。角度请用 float32 计算。",
        ),
    ),
    Mistake(
        "computes_angles_of_keys_in_their_dtype",
        old="rope_angles(k_positions, k.shape[-1], base)",
        new="rope_angles(k_positions.to(k.dtype), k.shape[-1], base)",
        caught_by="half_inputs_get_precise_angles",
        en=(
            "converts the positions of the keys to the dtype of k",
            "float16 does not tell 4000 from 4001, bfloat16 not even 400 from 401. Keys stand that far back as well.",
        ),
        zh=(
            "把键的位置转成了 k 的类型",
            "float16 分不清 4000 和 4001，bfloat16 连 400 和 401 都分不清。键的位置同样可能这么大。",
        ),
    ),
    Mistake(
        "rounds_frequencies_to_half_precision",
        edits=[
            ("rope_angles(q_positions, q.shape[-1], base)", "rope_angles(q_positions, q.shape[-1], base, q.dtype)"),
            ("rope_angles(k_positions, k.shape[-1], base)", "rope_angles(k_positions, k.shape[-1], base, k.dtype)"),
            (
                "def rope_angles(positions: Tensor, head_dim: int, base: float = 10000.0)",
                "def rope_angles(positions: Tensor, head_dim: int, base: float = 10000.0, dtype=None)",
            ),
            (THETA, "theta = (base ** (-2 * n / head_dim)).to(dtype or precise).to(precise)"),
        ],
        caught_by="half_inputs_get_precise_angles",
        en=(
            "rounds the frequencies to the dtype of q",
            "An error of one in a thousand in theta is four radians at position 4000. Keep theta in float32.",
        ),
        zh=(
            "把频率舍入成了 q 的类型",
            "theta 差千分之一，到位置 4000 就差了 4 弧度。请让 theta 保持 float32。",
        ),
    ),
    Mistake(
        "follows_the_dtype_of_half_positions",
        old=PRECISE,
        new="precise = positions.dtype if positions.is_floating_point() else torch.get_default_dtype()",
        caught_by="half_positions_get_precise_angles",
        en=(
            "computes in the dtype of the positions",
            "Positions in float16 or bfloat16 are widened to float32 before they are multiplied by theta.",
        ),
        zh=(
            "用位置本身的类型来计算角度",
            "float16 或 bfloat16 的位置，要先转成 float32，再乘 theta。",
        ),
    ),
    Mistake(
        "halves_an_odd_width_in_rotate_half",
        old=ODD_HALF,
        new="",
        caught_by="rotate_half_rejects_odd_widths",
        en=(
            "accepts an odd width in rotate_half",
            "chunk splits 7 into 4 and 3 without a word, and the pairs are wrong. Check first.",
        ),
        zh=(
            "rotate_half 接受了奇数宽度",
            "chunk 会不声不响地把 7 分成 4 和 3，配对就全错了。请先检查。",
        ),
    ),
    Mistake(
        "makes_tables_for_an_odd_width",
        old=ODD_ANGLES,
        new="",
        caught_by="rope_angles_rejects_odd_widths",
        en=(
            "accepts an odd width in rope_angles",
            "The table would be one channel too narrow, and the error shows up far away. Check head_dim first.",
        ),
        zh=(
            "rope_angles 接受了奇数宽度",
            "得到的表会少一个通道，错误要到很远的地方才暴露。请先检查 head_dim。",
        ),
    ),
    Mistake(
        "does_not_name_the_odd_width",
        old='raise ValueError(f"head_dim must be even, got {head_dim}")',
        new='raise ValueError("head_dim must be even")',
        caught_by="rope_angles_rejects_odd_widths",
        en=("says that head_dim must be even, but not what came", "Put the number into the message."),
        zh=("只说 head_dim 必须是偶数，没说收到的是多少", "请把这个数写进错误信息。"),
    ),
    Mistake(
        "asserts_the_width",
        old=ODD_HALF,
        new='    assert x.shape[-1] % 2 == 0, f"odd width {x.shape[-1]}"\n',
        caught_by="rotate_half_rejects_odd_widths",
        en=(
            "uses assert to check an argument",
            "That raises AssertionError, and nothing at all under python -O. Raise ValueError.",
        ),
        zh=(
            "用 assert 检查参数",
            "它抛出的是 AssertionError，而在 python -O 下什么也不会抛。请抛出 ValueError。",
        ),
    ),
    Mistake(
        "turns_queries_only",
        old=TURN_K + "\n",
        new="\n",
        caught_by="scores_depend_on_the_distance_only",
        en=(
            "turns the queries, but not the keys",
            "The difference m - n appears only when both are turned by their own positions.",
        ),
        zh=("只旋转了查询，没有旋转键", "只有两者都按各自的位置旋转，才会出现差值 m - n。"),
    ),
    Mistake(
        "turns_keys_the_other_way",
        old=TURN_K,
        new="cos, sin = rope_angles(k_positions, k.shape[-1], base)\n    k = apply_rope(k, cos, -sin)",
        caught_by="scores_depend_on_the_distance_only",
        en=(
            "turns the keys the other way",
            "Then the score depends on m + n. Both turn in the same sense; the difference comes from the dot product.",
        ),
        zh=(
            "键的旋转方向反了",
            "这样分数取决于 m + n。两者要朝同一个方向转，差值是由点积产生的。",
        ),
    ),
    Mistake(
        "turns_nothing_in_the_scores",
        edits=[(TURN_Q + "\n", "\n"), (TURN_K + "\n", "\n")],
        caught_by="scores_depend_on_the_distance",
        en=("computes plain scores without positions", "q and k must be turned before the dot product."),
        zh=("算的是不带位置的普通分数", "做点积之前，q 和 k 都要先旋转。"),
    ),
    Mistake(
        "places_keys_from_0",
        old="rope_angles(k_positions, k.shape[-1], base)",
        new="rope_angles(k_positions - k_positions.min(), k.shape[-1], base)",
        caught_by="scores_have_the_right_value",
        en=(
            "numbers the keys from 0",
            "Keys stand at k_positions, which may start anywhere.",
        ),
        zh=("把键从 0 开始编号", "键位于 k_positions，起点可以是任何数。"),
    ),
    Mistake(
        "places_keys_where_the_queries_are_if_it_can",
        old="rope_angles(k_positions, k.shape[-1], base)",
        new="rope_angles(q_positions if len(q_positions) == len(k_positions) else k_positions, k.shape[-1], base)",
        caught_by="scores_have_the_right_value",
        en=(
            "gives the keys the positions of the queries when there are as many",
            "Equal numbers do not mean equal positions. Use k_positions.",
        ),
        zh=(
            "数量相同时，让键用了查询的位置",
            "数量相同不代表位置相同。请使用 k_positions。",
        ),
    ),
    Mistake(
        "keeps_turned_keys_for_the_same_positions",
        old=TURN_K,
        new="kept = rope_attention_scores.__dict__.setdefault('kept', {})\n"
        "    at = (tuple(k_positions.tolist()), tuple(k.shape), k.dtype, base)\n"
        "    k = apply_rope(k, *rope_angles(k_positions, k.shape[-1], base))\n"
        "    k = k if torch.is_grad_enabled() else kept.setdefault(at, k)",
        caught_by="scores_have_the_right_value",
        en=(
            "keeps the turned keys of a first call for later ones at the same positions",
            "The next sequence has other keys there. A table of angles may be kept, the keys belong to whoever calls.",
        ),
        zh=(
            "把第一次调用时旋转好的键留下来，之后位置相同就直接拿来用",
            "下一条序列在同样的位置上是别的键。可以缓存的是角度表，键属于调用者。",
        ),
    ),
    Mistake(
        "forgets_to_scale",
        old=SCORES,
        new="return q @ k.transpose(-2, -1)",
        caught_by="scores_of_ones_follow_the_formula",
        en=("forgets to scale the scores", "Divide by the root of D, as in ex02."),
        zh=("忘了缩放分数", "像 ex02 那样，除以 D 的平方根。"),
    ),
    Mistake(
        "scales_by_the_number_of_pairs",
        old="math.sqrt(q.shape[-1])",
        new="math.sqrt(q.shape[-1] // 2)",
        caught_by="scores_of_ones_follow_the_formula",
        en=("scales by the root of D/2", "There are D/2 pairs, but D channels add up in the dot product."),
        zh=("按 D/2 的平方根缩放", "虽然只有 D/2 对，但点积里相加的是 D 个通道。"),
    ),
    Mistake(
        "takes_the_second_axis_for_time_where_it_can",
        old=APPLY,
        new="if x.shape[1] == cos.shape[0]:\n        cos, sin = cos[:, None], sin[:, None]\n"
        "    return (x * cos + rotate_half(x) * sin).to(x.dtype)",
        caught_by="turned_vectors_have_the_right_value",
        en=(
            "guesses the layout, and takes the heads for positions when there are as many",
            "A size does not say which axis it is. x is [B, H, T, D], always.",
        ),
        zh=(
            "靠大小猜布局：头数与位置数相同时，把头当成了位置",
            "只看大小，分不出是哪个轴。x 的布局始终是 [B, H, T, D]。",
        ),
    ),
    Mistake(
        "turns_in_place_where_no_gradient_is_recorded",
        old=APPLY,
        new="if torch.is_grad_enabled() or x.dtype != cos.dtype:\n        return (x * cos + rotate_half(x) * sin).to(x.dtype)\n"
        "    turned = rotate_half(x) * sin\n"
        "    return x.contiguous().mul_(cos).add_(turned)",
        caught_by="leaves_its_inputs_alone",
        en=(
            "turns the caller's tensor in place under torch.no_grad()",
            "x belongs to the caller, with gradients or without. mul_ and add_ write into it.",
        ),
        zh=(
            "在 torch.no_grad() 下原地旋转了调用者的张量",
            "不管有没有梯度，x 都是调用者的。mul_ 和 add_ 会直接写进去。",
        ),
    ),
    Mistake(
        "turns_in_place",
        old=APPLY,
        new="turned = rotate_half(x) * sin\n    return x.mul_(cos).add_(turned)",
        caught_by="leaves_its_inputs_alone",
        en=("turns the caller's tensor in place", "mul_ and add_ write into x. Make a new tensor."),
        zh=("原地旋转了调用者的张量", "mul_ 和 add_ 会直接写进 x。请生成新的张量。"),
    ),
    Mistake(
        "shifts_the_positions_in_place",
        old="angles = positions.to(precise)[:, None] * theta",
        new="angles = positions.to(precise)[:, None] * theta\n    positions.sub_(positions[0].clone())",
        caught_by="leaves_its_inputs_alone",
        en=("changes the positions of the caller", "The same positions are used for q, for k and in the next layer."),
        zh=("改动了调用者的位置张量", "同一组位置还要用于 q、k 和下一层。"),
    ),
    Mistake(
        "cuts_the_gradient_of_the_turned_part",
        old=APPLY,
        new="return (x * cos + rotate_half(x.detach()) * sin).to(x.dtype)",
        caught_by="turning_passes_gradients",
        en=("cuts the gradient of the sine part", "Both terms depend on x. Tables need no gradient, x does."),
        zh=("切断了正弦那一项的梯度", "两项都依赖 x。表不需要梯度，x 需要。"),
    ),
    Mistake(
        "cuts_the_gradient_of_the_keys",
        old=SCORES,
        new="return q @ k.detach().transpose(-2, -1) / math.sqrt(q.shape[-1])",
        caught_by="scores_pass_gradients",
        en=("cuts the gradient of the keys", "Keys learn as well: they need their gradient through the rotation."),
        zh=("切断了键的梯度", "键也要学习：梯度必须穿过旋转传回去。"),
    ),
    Mistake(
        "turns_the_first_sequence_only",
        old=APPLY,
        new="return torch.cat((x[:1] * cos + rotate_half(x[:1]) * sin, x[1:]), dim=0).to(x.dtype)",
        caught_by="turned_vectors_have_the_right_value",
        en=("turns the first sequence of the batch only", "All sequences and heads turn by the same tables."),
        zh=("只旋转了 batch 里的第一条序列", "所有序列、所有头都用同样的表旋转。"),
    ),
    Mistake(
        "turns_heads_instead_of_positions",
        old=APPLY,
        new="cos, sin = cos[: x.shape[1], None, :], sin[: x.shape[1], None, :]\n"
        "    return (x * cos + rotate_half(x) * sin).to(x.dtype)",
        caught_by="turned_vectors_have_the_right_value",
        en=(
            "gives each head, rather than each position, its angle",
            "x is [B, H, T, D]; the tables [T, D] fit its last two axes as they are.",
        ),
        zh=(
            "让角度随头变化，而不是随位置变化",
            "x 是 [B, H, T, D]，表是 [T, D]，直接与最后两维对齐就行。",
        ),
    ),
    Mistake(
        "narrows_wide_inputs",
        old=APPLY,
        new="return (x * cos + rotate_half(x) * sin).float()",
        caught_by="keeps_the_dtype",
        en=(
            "returns float32 whatever came in",
            "float64 vectors with float64 tables stay float64. Only half precision may come back wider.",
        ),
        zh=(
            "不管输入是什么类型，都返回 float32",
            "float64 的向量配 float64 的表，结果仍应是 float64；只有半精度允许提升精度。",
        ),
    ),
]
