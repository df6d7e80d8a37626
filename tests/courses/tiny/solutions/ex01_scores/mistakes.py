"""Wrong versions of the small exercise."""

from grader.mistakes import Mistake

MISTAKES = [
    Mistake(
        "forgets_to_scale",
        old=" / q.shape[-1] ** 0.5",
        new="",
        caught_by="scores_have_the_value",
        en=("forgets to scale", "The scores grow with the width. Look at the last step of `scores`."),
        zh=("忘了缩放", "分数会随宽度增大。请看 `scores` 的最后一步。"),
    ),
    Mistake(
        "scales_by_the_length",
        old="q.shape[-1] ** 0.5",
        new="q.shape[-2] ** 0.5",
        caught_by="scores_have_the_value",
        en=("scales by the length", "The scale belongs to the width. Look at the last step of `scores`."),
        zh=("按长度缩放", "应按宽度缩放。请看 `scores` 的最后一步。"),
    ),
    Mistake(
        "accepts_an_odd_width",
        old="if x.shape[-1] % 2:",
        new="if False:",
        caught_by="halves_refuse_an_odd_width",
        en=("accepts an odd width", "The halves differ in size. Check the width first."),
        zh=("接受奇数宽度", "两半大小不同。请先检查宽度。"),
    ),
    Mistake(
        "adds_the_weight",
        old="x * self.weight",
        new="x + self.weight",
        caught_by="scale_multiplies",
        en=("adds the weight", "A scale multiplies. Look at `forward`."),
        zh=("把权重相加", "缩放是相乘。请看 `forward`。"),
    ),
    Mistake(
        "changes_its_input",
        old="return x * self.weight",
        new="return x.detach().mul_(self.weight)",
        caught_by="scale_leaves_its_input",
        en=("changes its input", "`mul_` works in place. Look at `forward`."),
        zh=("改动了输入", "`mul_` 是原地操作。请看 `forward`。"),
    ),
]
