"""A course of three exercises made of text alone, for tests that never run one."""

from pathlib import Path

from grader.exercises import Course, stub_from_reference

REFERENCES = {
    "ex01_double": '''"""ex01: twice as much."""

import torch
from torch import Tensor, nn


def double(x: Tensor) -> Tensor:
    """[T] -> [T], twice x."""
    # BEGIN SOLUTION
    return 2 * x  # [T]
    # END SOLUTION


class Twice(nn.Module):
    """Doubles in its forward."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        # BEGIN SOLUTION
        self.factor = nn.Parameter(2 * torch.ones(dim))
        # END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        # BEGIN SOLUTION
        if x.dim() == 0:
            raise ValueError("a scalar")
        return x * self.factor  # [T]
        # END SOLUTION
''',
    "ex02_causal_mask": '''"""ex02: who sees whom."""


def causal_mask(T):
    # BEGIN SOLUTION
    return T
    # END SOLUTION


def padding_mask(ids, pad_id):
    # BEGIN SOLUTION
    return ids != pad_id
    # END SOLUTION
''',
    "ex10_training": '''"""ex10: one step."""


def train_step(model, optimizer, ids):
    # BEGIN SOLUTION
    return 0.0
    # END SOLUTION


def shift(ids):
    # BEGIN SOLUTION
    return ids
    # END SOLUTION
''',
}

TEXTS = """
forbidden = ["aten::embedding"]
[title]
en = "{slug} in English"
zh = "{slug} 的中文标题"
[summary]
en = "One line."
zh = "一行。"
[properties.shape]
zh = "形状不变。"
look_en = "Look at the axes."
look_zh = "看看各个轴。"
[[hints]]
en = "A nudge."
zh = "轻轻一点。"
[[hints]]
en = "More."
zh = "再多一点。"
[[hints]]
en = "Nearly the answer."
zh = "接近答案。"
[[quiz]]
question_en = "How many numbers has [2, 512]?"
question_zh = "[2, 512] 有多少个数？"
kind = "number"
answer = "1024"
explain_en = "2 times 512."
explain_zh = "2 乘 512。"
[[quiz]]
question_en = "Which axis?"
question_zh = "哪个轴？"
kind = "choice"
answer = "b"
choices_en = ["rows", "keys"]
choices_zh = ["行", "键"]
explain_en = "The keys."
explain_zh = "键。"
[messages.too_few]
en = "too few: {{count}}"
zh = "太少：{{count}}"
"""

PROPERTIES = "from grader.properties import prop\n"
MISTAKES = """
from grader.mistakes import Mistake
MISTAKES = [Mistake("triples", old="2 * x", new="3 * x", caught_by="value", en=("triples", "why"), zh=("三倍", "原因"))]
"""


def write_course(folder: Path) -> Course:
    for slug, reference in REFERENCES.items():
        learner, teacher = folder / "exercises" / slug, folder / "solutions" / slug
        learner.mkdir(parents=True)
        (teacher / "variants").mkdir(parents=True)
        (learner / f"{slug}.py").write_text(stub_from_reference(reference, slug.split("_")[0]), encoding="utf-8")
        (learner / "README.md").write_text(f"# Lesson of {slug}\n", encoding="utf-8")
        (learner / "README.zh.md").write_text(f"# {slug} 讲义\n", encoding="utf-8")
        (learner / "properties.py").write_text(PROPERTIES, encoding="utf-8")
        (learner / "exercise.toml").write_text(TEXTS.format(slug=slug), encoding="utf-8")
        (teacher / f"{slug}.py").write_text(reference, encoding="utf-8")
        (teacher / "mistakes.py").write_text(MISTAKES, encoding="utf-8")
        (teacher / "variants" / "plain.py").write_text(f'"""Plain."""\n{reference}', encoding="utf-8")
    return Course.open(folder)
