"""What learners get wrong about the shift, the loss and the training loop."""

from grader.mistakes import Mistake

LOSS = """    ignored = -100 if pad_id is None else pad_id  # -100 is no token: nothing is left out
    total = F.cross_entropy(flat, targets.reshape(-1), ignore_index=ignored, reduction="sum")
    return total / (targets != ignored).sum().clamp(min=1)"""
BATCH = """        batch, order = data[order[:16]], order[16:]  # [up to 16, T]
        losses.append(train_step(model, optimizer, batch))"""

MISTAKES = [
    # ------------------------------------------------------------------------------------------------ shift
    Mistake(
        "swaps_inputs_and_targets",
        old="    return ids[:, :-1], ids[:, 1:]  # [B, T-1] and [B, T-1]",
        new="    return ids[:, 1:], ids[:, :-1]",
        caught_by="shift_pairs_each_token_with_its_next",
        en=(
            "gives the later tokens as inputs and the earlier ones as targets",
            "The model reads token t and has to predict token t + 1, not the other way round. Write a row 5 6 7 8 on "
            "paper, and under each input the token it should lead to.",
        ),
        zh=(
            "把后面的 token 当作输入、前面的当作目标",
            "模型读到第 t 个 token，要预测的是第 t + 1 个，方向反了。在纸上写一行 5 6 7 8，在每个输入下面写出应当由它预测的那个 token。",
        ),
    ),
    Mistake(
        "wraps_the_targets_around",
        old="    return ids[:, :-1], ids[:, 1:]  # [B, T-1] and [B, T-1]",
        new="    return ids, ids.roll(-1, dims=1)",
        caught_by="shift_pairs_each_token_with_its_next",
        en=(
            "rolls the row, so that the first token becomes the target of the last one",
            "The last token has no successor in the row: there is nothing to predict at that position, so both parts "
            "have T - 1 columns.",
        ),
        zh=(
            "把整行循环移位，让第一个 token 成了最后一个位置的目标",
            "最后一个 token 在这一行里没有后继，那个位置没有可预测的东西，所以两部分都只有 T - 1 列。",
        ),
    ),
    # ------------------------------------------------------------------------------------------------- loss
    Mistake(
        "does_not_shift_in_the_loss",
        old="    _, targets = shift(ids)  # [B, T-1]",
        new="    targets = ids[:, :-1]",
        caught_by="loss_knows_good_tables_from_bad",
        en=(
            "compares each position with the token it has just read",
            "Such a model learns to copy: its loss falls to 0 and it can predict nothing. Which token are the logits "
            "at position t about?",
        ),
        zh=(
            "让每个位置去预测它刚刚读到的那个 token",
            "这样训练出来的模型只会照抄：损失降到 0，却什么也预测不了。位置 t 的 logits 预测的是哪一个 token？",
        ),
    ),
    Mistake(
        "shifts_twice",
        edits=[
            ("    _, targets = shift(ids)  # [B, T-1]", "    targets = ids[:, 2:]"),
            ("    flat = logits[:, :-1].reshape", "    flat = logits[:, :-2].reshape"),
        ],
        caught_by="loss_knows_good_tables_from_bad",
        en=(
            "compares position t with token t + 2",
            "The shift is done once. If the data or the model shifts already, the loss must not shift again; here only "
            "the loss does it.",
        ),
        zh=(
            "拿位置 t 去和第 t + 2 个 token 比较",
            "移位只做一次。数据或模型里若已经移过，损失就不能再移；在这里只有损失负责移位。",
        ),
    ),
    Mistake(
        "shifts_the_wrong_way",
        edits=[
            ("    _, targets = shift(ids)  # [B, T-1]", "    targets = ids[:, :-1]"),
            ("    flat = logits[:, :-1].reshape", "    flat = logits[:, 1:].reshape"),
        ],
        caught_by="loss_knows_good_tables_from_bad",
        en=(
            "compares position t with token t - 1",
            "The logits lose their last column and the ids their first one, not the other way round.",
        ),
        zh=("拿位置 t 去和第 t - 1 个 token 比较", "logits 要去掉的是最后一列，ids 要去掉的是第一列，不能反过来。"),
    ),
    Mistake(
        "takes_the_softmax_twice",
        old="    flat = logits[:, :-1].reshape(-1, logits.shape[-1])  # [B*(T-1), V]",
        new="    flat = logits[:, :-1].reshape(-1, logits.shape[-1]).softmax(-1)",
        caught_by="loss_knows_good_tables_from_bad",
        en=(
            "hands probabilities to a cross-entropy that takes logits",
            "F.cross_entropy contains the log-softmax. Fed with probabilities it squeezes them once more, and the loss "
            "cannot come near 0 however good the model is.",
        ),
        zh=(
            "把概率交给了本该接收 logits 的交叉熵",
            "F.cross_entropy 里面已经包含 log-softmax。把概率传进去，等于又做了一次 softmax，模型再好，损失也到不了 0 附近。",
        ),
    ),
    Mistake(
        "bounds_the_probabilities_from_below",
        old='    total = F.cross_entropy(flat, targets.reshape(-1), ignore_index=ignored, reduction="sum")',
        new='    total = F.nll_loss((flat.softmax(-1) + 1e-9).log(), targets.reshape(-1), None, None, ignored, None, "sum")',
        caught_by="loss_knows_good_tables_from_bad",
        en=(
            "takes the logarithm of the softmax plus a small number",
            "The small number puts a ceiling on the loss (about 21 for 1e-9) just where the model is most wrong. "
            "log_softmax, or F.cross_entropy, needs no such crutch.",
        ),
        zh=(
            "对“softmax 加上一个很小的数”取对数",
            "这个很小的数给损失加了上限（1e-9 时约为 21），而且恰恰加在模型错得最离谱的地方。用 log_softmax 或 F.cross_entropy 就不需要它。",
        ),
    ),
    Mistake(
        "wraps_around_in_the_loss",
        edits=[
            ("    _, targets = shift(ids)  # [B, T-1]", "    targets = ids.roll(-1, dims=1)"),
            ("    flat = logits[:, :-1].reshape", "    flat = logits.reshape"),
        ],
        caught_by="loss_is_the_mean_cross_entropy",
        en=(
            "asks the last position for the first token of the row",
            "The logits at the last position are about a token that is not in the row: leave that position out.",
        ),
        zh=(
            "要求最后一个位置预测这一行的第一个 token",
            "最后一个位置的 logits 预测的是这一行之外的 token，应当把这个位置去掉。",
        ),
    ),
    Mistake(
        "adds_instead_of_averaging",
        old="    return total / (targets != ignored).sum().clamp(min=1)",
        new="    return total",
        caught_by="loss_is_the_mean_cross_entropy",
        en=(
            "returns the sum over the targets",
            "A sum grows with the batch and with the length of the text, and so does the step. The loss is the mean "
            "over the real targets.",
        ),
        zh=(
            "返回的是所有目标上的总和",
            "总和会随 batch 和文本长度增长，更新的步长也跟着变大。损失应当是真实目标上的平均值。",
        ),
    ),
    Mistake(
        "divides_by_the_rows_only",
        old="    return total / (targets != ignored).sum().clamp(min=1)",
        new="    return total / len(targets)",
        caught_by="loss_is_the_mean_cross_entropy",
        en=(
            "divides by the number of rows instead of the number of targets",
            "Every target is one prediction: a row of 9 tokens has 8 of them. What is the number of terms in the sum?",
        ),
        zh=("除以的是行数，而不是目标的个数", "每个目标都是一次预测：9 个 token 的一行有 8 次。总和里一共有多少项？"),
    ),
    Mistake(
        "smooths_the_labels",
        old='ignore_index=ignored, reduction="sum")',
        new='ignore_index=ignored, reduction="sum", label_smoothing=0.1)',
        caught_by="loss_is_the_mean_cross_entropy",
        en=(
            "smooths the labels",
            "Label smoothing is a loss of its own, with another minimum. Asked for is the plain cross-entropy.",
        ),
        zh=("用了标签平滑（label smoothing）", "标签平滑是另一种损失，最小值也不同。这里要的是普通的交叉熵。"),
    ),
    Mistake(
        "returns_another_dtype",
        old="    return total / (targets != ignored).sum().clamp(min=1)",
        new="    return total.double() / (targets != ignored).sum().clamp(min=1)",
        caught_by="loss_is_the_mean_cross_entropy",
        en=(
            "returns float64 for float32 logits",
            "Computing in float64 inside is fine, but what comes out has the dtype of what went in.",
        ),
        zh=("对 float32 的 logits 返回了 float64", "内部用 float64 计算没有问题，但输出的 dtype 应当与输入一致。"),
    ),
    Mistake(
        "takes_id_0_for_padding_always",
        old="    ignored = -100 if pad_id is None else pad_id",
        new="    ignored = 0 if pad_id is None else pad_id",
        caught_by="loss_is_the_mean_cross_entropy",
        en=(
            "leaves id 0 out even when there is no pad id",
            "Without `pad_id` every id is a real token, 0 as well. If 0 is never a target, the model never learns it.",
        ),
        zh=(
            "没有 pad_id 时也把 id 0 当作填充",
            "没有 `pad_id` 时每个 id 都是真实的 token，0 也不例外。如果 0 从不作为目标，模型永远学不会它。",
        ),
    ),
    Mistake(
        "counts_the_padding",
        old="    ignored = -100 if pad_id is None else pad_id",
        new="    ignored = -100",
        caught_by="loss_leaves_padding_out",
        en=(
            "lets padding count as a target",
            "The model is rewarded for predicting pads after pads. A target that is `pad_id` must neither be added "
            "nor be counted; if you mark it with another number, that number must be the one the loss ignores.",
        ),
        zh=(
            "把填充也算作目标",
            "模型会因为“填充后面还是填充”而得到奖励。等于 `pad_id` 的目标既不能加进总和，也不能计入个数；如果先把它改成别的标记，损失忽略的必须正是那个标记。",
        ),
    ),
    Mistake(
        "takes_pad_id_0_for_no_padding",
        old="    ignored = -100 if pad_id is None else pad_id",
        new="    ignored = pad_id or -100",
        caught_by="loss_leaves_padding_out",
        en=(
            "treats `pad_id=0` as if there were no padding",
            "0 is false in Python, so `if pad_id:` and `pad_id or ...` skip the most common pad id of all. Compare "
            "with None.",
        ),
        zh=(
            "把 `pad_id=0` 当成了没有填充",
            "0 在 Python 里为假，所以 `if pad_id:` 和 `pad_id or ...` 会漏掉最常见的 pad id。应当与 None 比较。",
        ),
    ),
    Mistake(
        "divides_by_all_targets",
        old="    return total / (targets != ignored).sum().clamp(min=1)",
        new="    return total / targets.numel()",
        caught_by="loss_leaves_padding_out",
        en=(
            "leaves padding out of the sum, but not out of the number it is divided by",
            "The more padding a batch has, the smaller its loss looks. Divide by the number of real targets.",
        ),
        zh=(
            "总和里去掉了填充，除数里却没有去掉",
            "batch 里填充越多，损失看起来就越小。应当除以真实目标的个数。",
        ),
    ),
    Mistake(
        "sums_padding_but_does_not_count_it",
        old=', ignore_index=ignored, reduction="sum")',
        new=', reduction="sum")',
        caught_by="loss_leaves_padding_out",
        en=(
            "adds the losses of padding, and divides by the real targets only",
            "The loss comes out too large, and the pads have their gradient. The same targets must be left out above "
            "and below the fraction line.",
        ),
        zh=(
            "把填充的损失加了进去，却只除以真实目标的个数",
            "这样损失偏大，填充也会产生梯度。分子和分母必须去掉同一批目标。",
        ),
    ),
    Mistake(
        "masks_by_the_inputs",
        old=LOSS,
        new="""    real = ids[:, :-1] != (-100 if pad_id is None else pad_id)
    losses = F.cross_entropy(flat, targets.reshape(-1), reduction="none").view_as(targets)
    return (losses * real).sum() / real.sum().clamp(min=1)""",
        caught_by="loss_leaves_padding_out",
        en=(
            "leaves a position out when its input is padding, not when its target is",
            "After the last real token the target is a pad, and before the first one the target is real. It is the "
            "target that decides whether a position has something to predict.",
        ),
        zh=(
            "按输入是不是填充来去掉位置，而不是按目标",
            "最后一个真实 token 的目标是填充，第一个真实 token 之前的填充，目标却是真实的。一个位置有没有东西可预测，由目标决定。",
        ),
    ),
    Mistake(
        "averages_the_rows_first",
        old=LOSS,
        new="""    real = targets != (-100 if pad_id is None else pad_id)
    losses = F.cross_entropy(flat, targets.reshape(-1), reduction="none").view_as(targets) * real
    return (losses.sum(1) / real.sum(1).clamp(min=1)).mean()""",
        caught_by="loss_leaves_padding_out",
        en=(
            "takes the mean of each row, then the mean of the rows",
            "A token of a short row weighs more than one of a long row. The mean goes over all real targets of the "
            "batch at once.",
        ),
        zh=(
            "先对每一行取平均，再对各行取平均",
            "这样短行里 token 的权重就比长行里的大。应当对整个 batch 的全部真实目标一起取平均。",
        ),
    ),
    Mistake(
        "stops_at_the_first_pad",
        old=LOSS,
        new="""    real = (targets != (-100 if pad_id is None else pad_id)).cumprod(1)
    losses = F.cross_entropy(flat, targets.reshape(-1), reduction="none").view_as(targets) * real
    return losses.sum() / real.sum().clamp(min=1)""",
        caught_by="loss_leaves_padding_out",
        en=(
            "leaves out everything that comes after the first pad of a row",
            "Padding may stand in front of the real tokens as well. Each target is judged by itself: is it `pad_id`?",
        ),
        zh=(
            "把一行里第一个填充之后的东西全都去掉了",
            "填充也可能在真实 token 的前面。每个目标只看它自己：它是不是 `pad_id`？",
        ),
    ),
    Mistake(
        "is_nan_without_targets",
        old="    return total / (targets != ignored).sum().clamp(min=1)",
        new="    return total / (targets != ignored).sum()",
        caught_by="loss_without_targets_is_zero",
        en=(
            "divides 0 by 0 where no target is real",
            "One batch of padding turns every weight into NaN, for good. What should the loss, and its gradient, be "
            "when there is nothing to predict?",
        ),
        zh=(
            "没有真实目标时算出了 0 除以 0",
            "只要有一个 batch 全是填充，所有权重就会永远变成 NaN。没有东西可预测时，损失和梯度应当是多少？",
        ),
    ),
    Mistake(
        "has_no_gradient_without_targets",
        old=LOSS,
        new="""    ignored = -100 if pad_id is None else pad_id
    if not (targets != ignored).any():
        return torch.tensor(0.0)
    return F.cross_entropy(flat, targets.reshape(-1), ignore_index=ignored)""",
        caught_by="loss_without_targets_is_zero",
        en=(
            "returns a constant where no target is real",
            "A constant has no gradient at all: backward() on it raises. A zero made from the logits has a gradient "
            "of zeros.",
        ),
        zh=(
            "没有真实目标时返回了一个常数",
            "常数根本没有梯度，对它调用 backward() 会报错。由 logits 算出来的 0 才有全零的梯度。",
        ),
    ),
    Mistake(
        "cuts_the_gradient",
        old="    flat = logits[:, :-1].reshape(-1, logits.shape[-1])  # [B*(T-1), V]",
        new="    flat = logits.detach()[:, :-1].reshape(-1, logits.shape[-1]).requires_grad_()",
        caught_by="loss_has_the_right_gradient",
        en=(
            "cuts the logits off from the graph",
            "The number is right, but nothing flows back to the model. .detach(), .data and .item() have no place "
            "between the logits and the loss.",
        ),
        zh=(
            "把 logits 从计算图上断开了",
            "数值是对的，但没有任何梯度流回模型。logits 与损失之间不该出现 .detach()、.data 或 .item()。",
        ),
    ),
    Mistake(
        "marks_the_padding_in_the_callers_ids",
        old="    ignored = -100 if pad_id is None else pad_id  # -100 is no token: nothing is left out",
        new="    ignored = -100\n    if pad_id is not None:\n        ids[ids == pad_id] = -100",
        caught_by="inputs_stay_as_they_are",
        en=(
            "writes -100 into the caller's ids",
            "The next forward pass looks up row -100. Slices are views: make a new tensor with masked_fill or where.",
        ),
        zh=(
            "把 -100 写进了调用者的 ids",
            "下一次前向传播就会去查第 -100 行。切片是视图：请用 masked_fill 或 where 得到新的张量。",
        ),
    ),
    # ------------------------------------------------------------------------------------------ train_step
    Mistake(
        "never_clears_the_gradients",
        old="    optimizer.zero_grad()\n",
        new="",
        caught_by="step_starts_from_fresh_gradients",
        en=(
            "never clears the gradients",
            "backward() adds to what is there: each step goes along the sum of all gradients since the beginning. "
            "The loss may still fall for a while.",
        ),
        zh=(
            "从不清空梯度",
            "backward() 是往已有的梯度上累加：每一步走的都是从开始以来全部梯度之和。损失可能还会下降一阵子。",
        ),
    ),
    Mistake(
        "clears_the_gradients_only_afterwards",
        edits=[
            ("    optimizer.zero_grad()\n", ""),
            ("    optimizer.step()\n", "    optimizer.step()\n    optimizer.zero_grad()\n"),
        ],
        caught_by="step_starts_from_fresh_gradients",
        en=(
            "clears the gradients after the step, not before",
            "It works only if nobody has called backward() before you. Make sure yourself that the gradients are "
            "fresh when backward() starts.",
        ),
        zh=(
            "在更新之后才清空梯度，而不是之前",
            "只有在别人从没调用过 backward() 时才凑巧正确。应当由你自己保证 backward() 开始时梯度是干净的。",
        ),
    ),
    Mistake(
        "skips_the_step_when_the_loss_is_small",
        old="    optimizer.step()\n",
        new="    if loss.item() > 0.05:\n        optimizer.step()\n",
        caught_by="step_is_exactly_one",
        en=(
            "takes no step when the loss is small already",
            "When to stop is for the loop outside to decide. A step is taken in every call, however small the loss is.",
        ),
        zh=(
            "损失已经很小时就不更新",
            "什么时候停，由外面的循环决定。每次调用都要更新一步，不管损失有多小。",
        ),
    ),
    Mistake(
        "moves_no_weight",
        old="    optimizer.step()\n",
        new="",
        caught_by="step_lowers_the_loss",
        en=(
            "moves no weight",
            "backward() only fills .grad, the optimizer's step moves the weights. Is there a step, and is .grad still "
            "there when it comes, or was it cleared in between?",
        ),
        zh=(
            "一个权重也没有更新",
            "backward() 只负责填好 .grad，更新权重的是优化器的 step。有没有调用 step？调用的时候 .grad 还在吗，是不是中间被清空了？",
        ),
    ),
    Mistake(
        "climbs_instead_of_descending",
        old="    loss.backward()\n",
        new="    (-loss).backward()\n",
        caught_by="step_lowers_the_loss",
        en=(
            "makes the loss larger",
            "The optimizer goes against the gradient of what backward() was called on. That must be the loss itself.",
        ),
        zh=("让损失变大", "优化器沿着 backward() 所用标量的梯度的反方向走，这个标量必须就是损失本身。"),
    ),
    Mistake(
        "steps_twice",
        old="    optimizer.step()\n",
        new="    optimizer.step()\n    optimizer.step()\n",
        caught_by="step_is_exactly_one",
        en=(
            "lets the optimizer step twice on the same gradient",
            "One call is one step. The second one uses a gradient that belongs to weights which are gone.",
        ),
        zh=("用同一个梯度更新了两次", "一次调用就是一步。第二步用的梯度属于已经不存在的权重。"),
    ),
    Mistake(
        "clips_the_gradients",
        old="    optimizer.step()\n",
        new="    nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n    optimizer.step()\n",
        caught_by="step_is_exactly_one",
        en=(
            "shortens the gradient before the step",
            "Clipping is useful in long trainings, but it is another step. Asked for is the step along the gradient "
            "of the loss.",
        ),
        zh=("在更新之前裁剪了梯度", "梯度裁剪在长时间训练中有用，但那是另一种更新。这里要的是沿损失的梯度走一步。"),
    ),
    Mistake(
        "brings_its_own_optimizer",
        old="    optimizer.step()\n",
        new='    torch.optim.SGD(model.parameters(), lr=optimizer.param_groups[0]["lr"]).step()\n',
        caught_by="step_is_exactly_one",
        en=(
            "steps with an optimizer of its own",
            "The caller chose the optimizer, with its momentum and its weight decay, and it remembers earlier steps.",
        ),
        zh=("用自己新建的优化器来更新", "优化器是调用者选的，带着它的动量和权重衰减，还记得之前的步骤。"),
    ),
    Mistake(
        "reports_the_loss_after_the_step",
        old="    return loss.item()",
        new="    return next_token_loss(model(ids), ids).item()",
        caught_by="step_reports_the_loss_before_it",
        en=(
            "returns the loss after the step",
            "It costs a second forward pass and looks better than it is. The loss of the step is the one whose "
            "gradient was used.",
        ),
        zh=("返回的是更新之后的损失", "这要多做一次前向传播，而且看起来比实际更好。这一步的损失，是产生梯度的那一个。"),
    ),
    Mistake(
        "rounds_the_loss_it_reports",
        old="    return loss.item()",
        new="    return round(loss.item(), 4)",
        caught_by="step_reports_the_loss_before_it",
        en=(
            "rounds the loss",
            "Rounding is for the line that prints it. Return the number as it is, `loss.item()`.",
        ),
        zh=("对损失做了舍入", "舍入是打印时的事。原样返回这个数：`loss.item()`。"),
    ),
    Mistake(
        "returns_the_loss_as_a_tensor",
        old="    return loss.item()",
        new="    return loss",
        caught_by="step_reports_the_loss_before_it",
        en=(
            "returns a tensor instead of a float",
            "A tensor keeps its whole graph alive: a list of a thousand of them fills the memory. .item() makes it a "
            "number.",
        ),
        zh=(
            "返回的是张量而不是 float",
            "张量会让整张计算图一直占着内存，存上一千个内存就满了。用 .item() 取出数值。",
        ),
    ),
    Mistake(
        "makes_the_optimizer_forget",
        old="    optimizer.step()\n",
        new="    optimizer.state.clear()\n    optimizer.step()\n",
        caught_by="steps_follow_one_another",
        en=(
            "makes the optimizer forget the earlier steps",
            "Momentum and Adam live on what they remember. A new optimizer, or a cleared state, at every step takes "
            "that away.",
        ),
        zh=("让优化器忘掉了之前的步骤", "动量和 Adam 靠的就是记忆。每一步都新建优化器或清空状态，等于把它抹掉。"),
    ),
    Mistake(
        "leaves_the_mode_alone",
        old="    model.train()\n    loss = ",
        new="    loss = ",
        caught_by="step_is_made_in_train_mode",
        en=(
            "trains in whatever mode the model comes in",
            "After a round of evaluation the model is in eval mode: dropout stays off for the rest of the training, "
            "and nobody notices.",
        ),
        zh=(
            "模型是什么模式就用什么模式训练",
            "做过一轮评估之后模型处于 eval 模式，之后的训练里 dropout 一直关着，而且没有人会发现。",
        ),
    ),
    Mistake(
        "switches_to_train_mode_only_once",
        old="    model.train()\n    loss = ",
        new="    if not hasattr(optimizer, 'knows_the_mode'):\n        optimizer.knows_the_mode = True\n"
        "        model.train()\n    loss = ",
        caught_by="step_is_made_in_train_mode",
        en=(
            "switches to train mode at the first step only",
            "Between two steps somebody may evaluate the model and leave it in eval mode. Each step sees to the mode itself.",
        ),
        zh=(
            "只在第一步切换到 train 模式",
            "两步之间可能有人评估模型，并把它留在 eval 模式。每一步都要自己切换。",
        ),
    ),
    Mistake(
        "switches_to_train_mode_too_late",
        edits=[
            ("    model.train()\n    loss = ", "    loss = "),
            ("    optimizer.step()\n", "    model.train()\n    optimizer.step()\n"),
        ],
        caught_by="step_is_made_in_train_mode",
        en=(
            "switches to train mode only after the forward pass",
            "The mode matters while the model runs: that is when dropout throws its dice.",
        ),
        zh=("前向传播之后才切换到 train 模式", "模式在模型运行的那一刻才起作用：dropout 是在那时决定丢弃哪些元素的。"),
    ),
    Mistake(
        "returns_to_eval_mode",
        old="    return loss.item()",
        new="    model.eval()\n    return loss.item()",
        caught_by="step_is_made_in_train_mode",
        en=(
            "leaves the model in eval mode",
            "Asked for is that the model stays in train mode. Whoever evaluates switches for that, and back.",
        ),
        zh=("把模型留在了 eval 模式", "题目要求模型保持 train 模式。谁要评估，谁负责切换，再切回来。"),
    ),
    Mistake(
        "restores_the_mode_it_found",
        edits=[
            ("    model.train()\n    loss = ", "    found = model.training\n    model.train()\n    loss = "),
            ("    return loss.item()", "    model.train(found)\n    return loss.item()"),
        ],
        caught_by="step_is_made_in_train_mode",
        en=(
            "puts the model back into the mode it came in",
            "That is good manners for an evaluation. After a training step the model stays in train mode, also when "
            "it came in eval mode.",
        ),
        zh=(
            "把模型切换回传入时的模式",
            "评估时这样做是好习惯。但训练一步之后，模型应当留在 train 模式，即使它传入时是 eval 模式。",
        ),
    ),
    Mistake(
        "sets_the_flag_of_the_outer_module_only",
        old="    model.train()\n    loss = ",
        new="    model.training = True\n    loss = ",
        caught_by="step_is_made_in_train_mode",
        en=(
            "sets `model.training` by hand",
            "The flag of the outermost module alone does nothing: dropout is a part with a flag of its own. "
            "model.train() goes through all parts.",
        ),
        zh=(
            "手动设置了 `model.training`",
            "只改最外层模块的标志没有用：dropout 是一个有自己标志的子模块。model.train() 会走遍所有子模块。",
        ),
    ),
    # ----------------------------------------------------------------------------------------------- train
    Mistake(
        "trains_with_plain_gradient_descent",
        old="torch.optim.Adam(model.parameters(), lr=lr)",
        new="torch.optim.SGD(model.parameters(), lr=lr)",
        caught_by="training_learns_the_cycle",
        en=(
            "uses plain SGD at a learning rate made for Adam",
            "With lr = 3e-3 and no momentum, 300 steps do not get far. Which optimizer makes steps of about lr, "
            "however small the gradient is?",
        ),
        zh=(
            "用普通 SGD，却配了适合 Adam 的学习率",
            "lr = 3e-3 又没有动量，300 步几乎学不到什么。哪种优化器不论梯度多小，每步都大约更新 lr 那么多？",
        ),
    ),
    Mistake(
        "keeps_gradients_in_the_loop",
        old="        losses.append(train_step(model, optimizer, batch))",
        new="        model.train()\n"
        "        loss = next_token_loss(model(batch), batch)\n"
        "        loss.backward()\n"
        "        optimizer.step()\n"
        "        losses.append(loss.item())",
        caught_by="training_reports_its_own_losses",
        en=(
            "never clears the gradients in the training loop",
            "`backward()` adds to what is there: every step follows the sum of all gradients so far. Clear them at each "
            "step, or let `train_step` do it.",
        ),
        zh=(
            "训练循环里从不清零梯度",
            "`backward()` 会把梯度累加到已有的上面：每一步走的都是迄今所有梯度之和。每一步都要清零，或者直接调用 `train_step`。",
        ),
    ),
    Mistake(
        "stays_in_eval_after_a_look",
        old="        losses.append(train_step(model, optimizer, batch))",
        new="        if not losses:\n"
        "            model.train()\n"
        "        loss = next_token_loss(model(batch), batch)\n"
        "        optimizer.zero_grad()\n"
        "        loss.backward()\n"
        "        optimizer.step()\n"
        "        losses.append(loss.item())\n"
        "        if len(losses) % 10 == 0:\n"
        "            model.eval()  # for a look at a sample",
        caught_by="training_learns_the_cycle",
        en=(
            "switches to eval mode now and then, and trains on in it",
            "From the first look on, dropout is off for the rest of the training. Who calls `model.eval()` in between "
            "must call `model.train()` before the next step.",
        ),
        zh=(
            "中途切换到 eval 模式，之后就一直在这个模式下训练",
            "从第一次查看起，后面的训练里 dropout 全都失效了。中途调用了 `model.eval()`，下一步之前就要调用 `model.train()`。",
        ),
    ),
    Mistake(
        "updates_every_fourth_time",
        old="        losses.append(train_step(model, optimizer, batch))",
        new="        model.train()\n"
        "        loss = next_token_loss(model(batch), batch)\n"
        "        loss.backward()\n"
        "        losses.append(loss.item())\n"
        "        if len(losses) % 4 == 0:\n"
        "            optimizer.step()\n"
        "            optimizer.zero_grad()",
        caught_by="training_reports_its_own_losses",
        en=(
            "updates the weights only every fourth time",
            "Gradients may be gathered over several batches, but then these make up one step, with one loss. `steps` "
            "counts the updates.",
        ),
        zh=(
            "每四次才更新一次权重",
            "可以把几个 batch 的梯度累积起来再更新，但那样它们合起来才算一步，只有一个损失。`steps` 数的是更新的次数。",
        ),
    ),
    Mistake(
        "reports_the_last_piece_of_a_batch",
        old="        losses.append(train_step(model, optimizer, batch))",
        new="        model.train()\n"
        "        optimizer.zero_grad()\n"
        "        for piece in batch.split(4):\n"
        "            loss = next_token_loss(model(piece), piece)\n"
        "            (loss * len(piece) / len(batch)).backward()\n"
        "        optimizer.step()\n"
        "        losses.append(loss.item())",
        caught_by="training_reports_its_own_losses",
        en=(
            "reports the loss of the last piece of a batch",
            "The gradient is gathered piece by piece, the loss must be too: add up what each piece contributes to the mean.",
        ),
        zh=(
            "只报告 batch 最后一小块的损失",
            "梯度是一小块一小块累积起来的，损失也应当如此：把每一小块对平均值的贡献加起来。",
        ),
    ),
    Mistake(
        "trains_without_the_last_target",
        old="        losses.append(train_step(model, optimizer, batch))",
        new="        model.train()\n"
        "        logits = model(batch)\n"
        "        optimizer.zero_grad()\n"
        "        next_token_loss(logits[:, :-1], batch[:, :-1]).backward()\n"
        "        optimizer.step()\n"
        "        losses.append(next_token_loss(logits, batch).item())",
        caught_by="training_reports_its_own_losses",
        en=(
            "leaves the last target of each row out of the training",
            "The shift is made twice: once by `next_token_loss`, and once more before. Of T tokens T - 1 are targets.",
        ),
        zh=(
            "训练时漏掉每行的最后一个目标",
            "移位做了两次：`next_token_loss` 里一次，之前又一次。T 个 token 有 T - 1 个是目标。",
        ),
    ),
    Mistake(
        "stops_early",
        old="        losses.append(train_step(model, optimizer, batch))",
        new="        losses.append(train_step(model, optimizer, batch))\n        if losses[-1] < 0.05:\n            break",
        caught_by="training_learns_the_cycle",
        en=(
            "stops when the loss is small",
            "`steps` is how many there are: the list has that many losses, also when the loss is small already.",
        ),
        zh=("损失变小就提前停下", "一共走 `steps` 步：即使损失已经很小，列表里也要有这么多个损失。"),
    ),
    Mistake(
        "fills_the_list_when_the_loss_is_small",
        old="        losses.append(train_step(model, optimizer, batch))",
        new="        small = losses and losses[-1] < 0.05\n"
        "        losses.append(losses[-1] if small else train_step(model, optimizer, batch))",
        caught_by="training_learns_the_cycle",
        en=(
            "stops training when the loss is small, and fills the list up",
            "The list has the right length, but its last numbers belong to no step. Each of the `steps` is a step.",
        ),
        zh=(
            "损失变小就停止训练，再把列表补满",
            "列表长度是对的，但最后那些数不属于任何一步。`steps` 步，每一步都要真的训练。",
        ),
    ),
    Mistake(
        "leaves_the_model_untrained",
        old="    generator = torch.Generator().manual_seed(seed)\n    optimizer",
        new="    import copy\n\n    model = copy.deepcopy(model)\n"
        "    generator = torch.Generator().manual_seed(seed)\n    optimizer",
        caught_by="training_learns_to_alternate",
        en=(
            "leaves the model as it was: trains a copy of it, or puts the old weights back",
            "The losses fall, but the model that the caller holds knows nothing. Train the object that was handed in, and "
            "leave it trained.",
        ),
        zh=(
            "模型还是原来的样子：训练的是副本，或者最后又恢复了原来的权重",
            "损失在下降，但调用者手里的模型什么也没学到。要训练传进来的那个对象本身，并且保留训练的结果。",
        ),
    ),
    Mistake(
        "trains_on_its_own_data",
        old="    losses = []\n",
        new="    losses = []\n    data = (torch.arange(8)[:, None] + torch.arange(data.shape[1])) % 8\n",
        caught_by="training_learns_to_alternate",
        en=(
            "trains on data of its own instead of the data it was given",
            "`data` is what the model has to learn, whatever is in it.",
        ),
        zh=("用自己造的数据训练，而不是传进来的数据", "模型要学的是 `data`，不管里面是什么。"),
    ),
    Mistake(
        "makes_the_losses_up",
        old="    return losses\n",
        new="    return [losses[0] * 0.97**step for step in range(steps)]\n",
        caught_by="training_reports_its_own_losses",
        en=(
            "returns a curve that was made up",
            "The training may be right, but the numbers must be those of its steps: they are what you will look at "
            "when a training goes wrong.",
        ),
        zh=(
            "返回的曲线是编出来的",
            "训练本身也许没错，但这些数必须来自每一步：训练出问题时，你要看的正是它们。",
        ),
    ),
    Mistake(
        "reports_the_loss_on_all_data",
        old="        losses.append(train_step(model, optimizer, batch))",
        new="        with torch.no_grad():\n"
        "            losses.append(next_token_loss(model(data), data).item())\n"
        "        train_step(model, optimizer, batch)",
        caught_by="training_reports_its_own_losses",
        en=(
            "returns the loss on all of the data instead of the one on the step's batch",
            "It costs a forward pass over everything at each step. The loss of a step is the one that its batch had.",
        ),
        zh=(
            "返回的是整份数据上的损失，而不是这一步那个 batch 上的损失",
            "这样每一步都要对全部数据多做一次前向传播。一步的损失，是它自己那个 batch 的损失。",
        ),
    ),
    Mistake(
        "sorts_the_losses",
        old="    return losses\n",
        new="    return sorted(losses, reverse=True)\n",
        caught_by="training_reports_its_own_losses",
        en=(
            "puts the losses in falling order",
            "A loss goes up now and then; that is worth seeing. The k-th number belongs to the k-th step.",
        ),
        zh=("把损失按从大到小排了序", "损失偶尔会上升，这正是值得看到的。第 k 个数属于第 k 步。"),
    ),
    Mistake(
        "smooths_the_losses",
        old="        losses.append(train_step(model, optimizer, batch))",
        new="        loss = train_step(model, optimizer, batch)\n"
        "        losses.append(loss if not losses else 0.9 * losses[-1] + 0.1 * loss)",
        caught_by="training_reports_its_own_losses",
        en=(
            "returns a running mean of the losses",
            "A smooth curve is for drawing. Asked for is the loss of each step as it was.",
        ),
        zh=("返回的是损失的滑动平均", "平滑曲线是画图用的。这里要的是每一步原本的损失。"),
    ),
    Mistake(
        "starts_the_model_anew",
        old="    losses = []\n",
        new="    losses = []\n    with torch.no_grad():\n        for parameter in model.parameters():\n"
        "            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))\n",
        caught_by="training_reports_its_own_losses",
        en=(
            "initialises the model again before it trains",
            "The caller's weights are the starting point: they may come from an earlier training.",
        ),
        zh=("训练之前重新初始化了模型", "起点是调用者给的权重，它们可能来自之前的训练。"),
    ),
    Mistake(
        "shuffles_without_the_seed",
        old="torch.randperm(len(data), generator=generator)",
        new="torch.randperm(len(data))",
        caught_by="training_repeats_with_its_seed",
        en=(
            "shuffles without the seed",
            "The order of the rows comes from torch's global generator, so nobody can repeat your training. Use a "
            "generator that `seed` has set.",
        ),
        zh=(
            "打乱顺序时没有用 seed",
            "行的顺序来自 torch 的全局随机数，谁也无法重现你的训练。请使用以 `seed` 为种子的 generator。",
        ),
    ),
    Mistake(
        "has_other_defaults",
        old="lr: float = 3e-3, seed",
        new="lr: float = 1e-2, seed",
        caught_by="training_repeats_with_its_seed",
        en=("has another default for lr", "The signature of the stub is part of the task: lr=3e-3, seed=0."),
        zh=("lr 的默认值与题目不同", "函数签名也是题目的一部分：lr=3e-3，seed=0。"),
    ),
    Mistake(
        "trains_on_one_batch_again_and_again",
        old="        batch, order = data[order[:16]], order[16:]  # [up to 16, T]",
        new="        batch = data[order[:16]]",
        caught_by="training_uses_every_row",
        en=(
            "draws one batch of rows and trains on it again and again",
            "The order is shuffled once, and its beginning is taken in every step. Go on in it, and shuffle anew at its end.",
        ),
        zh=(
            "只取出一个 batch，之后反复用它训练",
            "行的顺序只打乱了一次，而且每一步取的都是开头那几行。要接着往后取，取完一轮再重新打乱。",
        ),
    ),
    Mistake(
        "trains_on_the_first_rows_only",
        old="        batch, order = data[order[:16]], order[16:]  # [up to 16, T]",
        new="        batch = data[:16]",
        caught_by="training_uses_every_row",
        en=(
            "trains on the first rows again and again",
            "What the other rows know is never learned. Each row must have its turn: shuffle, or go round.",
        ),
        zh=("反复只用最前面的几行训练", "其他行里的内容永远学不到。每一行都要轮到：打乱，或者循环。"),
    ),
    Mistake(
        "never_draws_the_last_row",
        old=BATCH,
        new="""        rows = torch.randint(len(data) - 1, (16,), generator=generator)
        losses.append(train_step(model, optimizer, data[rows]))""",
        caught_by="training_uses_every_row",
        en=(
            "never draws the last row",
            "The upper end of randint and range is not included: len(data) - 1 as the end leaves out the last row.",
        ),
        zh=(
            "从来取不到最后一行",
            "randint 和 range 的上界本来就不包含在内：再用 len(data) - 1 作上界，就漏掉了最后一行。",
        ),
    ),
    Mistake(
        "keeps_rows_back_for_validation",
        old="    generator = torch.Generator().manual_seed(seed)\n    optimizer",
        new="    data = data[: max(1, int(0.9 * len(data)))]\n"
        "    generator = torch.Generator().manual_seed(seed)\n    optimizer",
        caught_by="training_uses_every_row",
        en=(
            "keeps a tenth of the rows back",
            "Splitting off a validation set is good practice, but it is the caller's: `data` is what is to be trained "
            "on, every row of it.",
        ),
        zh=(
            "留下了十分之一的行不用",
            "划出验证集是好习惯，但那是调用者的事：`data` 就是用来训练的，每一行都要用。",
        ),
    ),
    Mistake(
        "ignores_the_learning_rate",
        old="torch.optim.Adam(model.parameters(), lr=lr)",
        new="torch.optim.Adam(model.parameters(), lr=3e-3)",
        caught_by="training_obeys_the_learning_rate",
        en=(
            "ignores `lr`",
            "A number is written where the argument should stand: whatever `lr` is, the steps are the same.",
        ),
        zh=("没有用到 `lr`", "该写参数的地方写了一个固定的数：不管 `lr` 是多少，更新的步长都一样。"),
    ),
]
