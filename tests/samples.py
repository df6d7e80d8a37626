"""Reports as grading makes them: every verdict, both languages, and texts that mean harm."""

from __future__ import annotations

import msgspec

from grader.results import (
    Counterexample,
    Diagnosis,
    Isolation,
    Layer,
    Location,
    PropertyResult,
    Report,
    TensorView,
    Verdict,
)

ENVIRONMENT = {"grader": "1.0.0", "python": "3.12.4", "torch": "2.13.0", "platform": "Linux x86_64", "device": "cpu"}


def isolation(lang: str = "en") -> Isolation:
    words = {
        "en": (
            [
                Layer(
                    "Separate process", True, "Your code cannot see the reference, the expected values or the score."
                ),
                Layer("Files (Landlock)", True, "Nothing can be written; only Python and PyTorch can be read."),
                Layer("System calls (seccomp)", True, "No network, no new processes."),
                Layer("Time, memory, output", True, "10 s of CPU a call, 2 GiB, 64 MB of output."),
                Layer("Namespaces", False, "This system does not allow them to ordinary users."),
            ],
            ["Flaws of the operating system's kernel.", "Code that measures how long the grader takes."],
        ),
        "zh": (
            [
                Layer("独立进程", True, "你的代码看不到参考解答、期望值和分数。"),
                Layer("文件（Landlock）", True, "不能写任何文件，只能读取 Python 和 PyTorch。"),
                Layer("系统调用（seccomp）", True, "没有网络，不能启动新进程。"),
                Layer("时间、内存、输出", True, "每次调用 10 秒 CPU，2 GiB 内存，64 MB 输出。"),
                Layer("命名空间", False, "这台机器不允许普通用户使用。"),
            ],
            ["操作系统内核的漏洞。", "测量评分程序耗时的代码。"],
        ),
    }
    layers, not_prevented = words[lang]
    return Isolation("contained", layers, not_prevented)


def report(properties: list[PropertyResult], verdict: Verdict, lang: str = "en", **fields: object) -> Report:
    """A report of ex04 around these properties; its score is the sum of their points."""
    values = {
        "exercise": "ex04",
        "title": {"en": "Why the mask comes before the softmax", "zh": "为什么掩码在 softmax 之前"}[lang],
        "submission": "ex04_causal_mask.py",
        "score": round(sum(result.points for result in properties), 2),
        "max_score": round(sum(result.max_points for result in properties), 2),
        "environment": ENVIRONMENT,
        "isolation": isolation(lang),
        "seconds": 1.284,
        "graded_at": "2026-03-14T23:52:07Z",
    }
    return Report(**{**values, "properties": properties, "verdict": verdict, "lang": lang, **fields})


STATEMENTS = {
    "mask_values": (
        10,
        "causal_mask(T) lets position t attend to 0 .. t and to nothing after.",
        "causal_mask(T) 允许位置 t 关注 0 到 t，不能关注之后的位置。",
    ),
    "padding_hides_pads": (
        10,
        "padding_mask is False exactly where the id is pad_id.",
        "padding_mask 只在 id 等于 pad_id 的位置为 False。",
    ),
    "rows_sum_to_one": (
        10,
        "The weights of each row sum to 1 over the allowed keys and are exactly 0 elsewhere.",
        "每一行的权重在允许的键上之和为 1，在其他键上恰好为 0。",
    ),
    "values": (
        20,
        "The output equals softmax over the allowed keys times v.",
        "输出等于在允许的键上做 softmax 后乘以 v。",
    ),
    "past_ignores_future": (
        20,
        "Changing the keys and values after position t leaves the outputs up to t as they were.",
        "改变位置 t 之后的键和值，位置 t 及之前的输出不变。",
    ),
    "blocked_rows_are_zero": (
        10,
        "A row with no allowed key gives all zeros, never NaN.",
        "没有允许的键的行得到全零，绝不是 NaN。",
    ),
    "half_precision_stays_finite": (
        10,
        "float16 and bfloat16 inputs give finite outputs of the same dtype.",
        "float16 和 bfloat16 输入得到同类型的有限输出。",
    ),
    "gradients": (10, "The gradients of q, k and v equal those of the definition.", "q、k、v 的梯度与定义一致。"),
}


def result(name: str, verdict: Verdict = Verdict.PASSED, lang: str = "en", **fields: object) -> PropertyResult:
    points, *statement = STATEMENTS[name]
    earned = points if verdict is Verdict.PASSED else 0
    return PropertyResult(name, verdict, earned, points, statement[lang == "zh"], **fields)


def everything(verdict: Verdict, lang: str = "en", **fields: object) -> list[PropertyResult]:
    return [result(name, verdict, lang, **fields) for name in STATEMENTS]


def passed(lang: str = "en") -> Report:
    step = {"en": "ex05 is next: grade lesson ex05", "zh": "接下来是 ex05：grade lesson ex05"}[lang]
    return report(everything(Verdict.PASSED, lang), Verdict.PASSED, lang, next_step=step)


MASK_CODE = """\
import torch
from ex04_causal_mask import causal_mask

print(causal_mask(3))
# expected: [[True, False, False], [True, True, False], [True, True, True]]
"""

OUTPUT_CODE = """\
import torch
from ex04_causal_mask import causal_attention

q = torch.tensor([[[[0.51, -1.26, 0.88], [1.04, 0.33, -0.47]]]])
k = torch.tensor([[[[-0.72, 0.19, 1.35], [0.64, -0.95, 0.28]]]])
v = torch.tensor([[[[1.17, -0.44], [-0.83, 2.05]]]])
print(causal_attention(q, k, v))
# expected: [[[[1.17, -0.44], [0.254, 0.698]]]]
"""


def off_by_one(lang: str = "en") -> Report:
    """The mask hides the current position as well: two properties fail, the mistake has a name."""
    zh = lang == "zh"
    mask = [["True", "False", "False"], ["True", "True", "False"], ["True", "True", "True"]]
    strict = [["False", "False", "False"], ["True", "False", "False"], ["True", "True", "False"]]
    mask_example = Counterexample(
        {"T": 3},
        [
            TensorView("causal_mask(3)", "got", "bool", [3, 3], strict, [0, 0], ["T", "T"]),
            TensorView("causal_mask(3)", "want", "bool", [3, 3], mask, [0, 0], ["T", "T"]),
        ],
        MASK_CODE,
    )
    axes_v, axes_q = ["B", "H", "T", "E"], ["B", "H", "T", "D"]
    output_example = Counterexample(
        {"B": 1, "H": 1, "T": 2, "D": 3, "E": 2},
        [
            TensorView(
                "out", "got", "float32", [1, 1, 2, 2], [[[["0", "0"], ["1.17", "-0.44"]]]], [0, 0, 0, 0], axes_v
            ),
            TensorView(
                "out",
                "want",
                "float32",
                [1, 1, 2, 2],
                [[[["1.17", "-0.44"], ["0.254", "0.698"]]]],
                [0, 0, 0, 0],
                axes_v,
            ),
            TensorView(
                "q",
                "input",
                "float32",
                [1, 1, 2, 3],
                [[[["0.51", "-1.26", "0.88"], ["1.04", "0.33", "-0.47"]]]],
                None,
                axes_q,
            ),
            TensorView(
                "k",
                "input",
                "float32",
                [1, 1, 2, 3],
                [[[["-0.72", "0.19", "1.35"], ["0.64", "-0.95", "0.28"]]]],
                None,
                axes_q,
            ),
            TensorView("v", "input", "float32", [1, 1, 2, 2], [[[["1.17", "-0.44"], ["-0.83", "2.05"]]]], None, axes_v),
        ],
        OUTPUT_CODE,
    )
    failed = {
        "mask_values": {
            "message": "位置 [0, 0] 应为 True，得到 False" if zh else "expected True at [0, 0], got False",
            "look": "看对角线：位置 t 可以关注自己吗？" if zh else "The diagonal: may position t attend to itself?",
            "counterexample": mask_example,
        },
        "values": {
            "message": "位置 [0, 0, 0, 0] 应为 1.17，得到 0（允许误差 0.0001）"
            if zh
            else "expected 1.17 at [0, 0, 0, 0], got 0 (allowed difference 0.0001)",
            "look": "先看第一行：它只有一个允许的键。" if zh else "The first row: it has exactly one allowed key.",
            "counterexample": output_example,
            "prints": "mask: torch.Size([2, 2])\nscores: tensor([[-inf, -inf], [0.31, -inf]])\n",
        },
    }
    skipped = {"blocked_rows_are_zero", "gradients"}
    results = [
        result(name, Verdict.FAILED, lang, **failed[name])
        if name in failed
        else result(name, Verdict.SKIPPED if name in skipped else Verdict.PASSED, lang)
        for name in STATEMENTS
    ]
    diagnosis = (
        Diagnosis(
            "hides_the_current_position",
            "把当前位置也屏蔽了",
            "位置 t 可以看到自己。请看 torch.tril 或 torch.triu 的 diagonal 参数：从哪一条对角线开始屏蔽？",
        )
        if zh
        else Diagnosis(
            "hides_the_current_position",
            "hides the current position as well",
            "Position t may see itself. Look at the diagonal argument of torch.tril or torch.triu: "
            "at which diagonal does the hiding start?",
        )
    )
    step = "看一个提示：grade hint ex04" if zh else "A hint is at hand: grade hint ex04"
    return report(results, Verdict.FAILED, lang, mistakes=[diagnosis.name], diagnoses=[diagnosis], next_step=step)


def raised(lang: str = "en") -> Report:
    """An error in the learner's code, with the place; everything that needs it is skipped."""
    zh = lang == "zh"
    lines = [
        "def masked_softmax(scores, mask):",
        '    """scores [B, H, T, S], mask bool -> weights"""',
        "    hidden = ~mask",
        "    scores = scores.masked_fill(hidden, float('-inf'))",
        "    weights = torch.softmax(scores, dim=-1)",
        "    return weights.transpose(-2, -1) @ hidden",
        "",
    ]
    message = "RuntimeError: expected m1 and m2 to have the same dtype, but got: float != bool"
    trouble = {
        "message": f"代码抛出了 {message}" if zh else f"your code raised {message}",
        "look": "权重本身就是答案，还需要再乘什么吗？"
        if zh
        else "The weights are the answer: is there anything left to multiply?",
        "location": Location("ex04_causal_mask.py", 41, "masked_softmax", 36, lines),
    }
    results = [
        result(name, Verdict.RAISED, lang, **trouble)
        if name in ("rows_sum_to_one", "values")
        else result(name, Verdict.PASSED if name in ("mask_values", "padding_hides_pads") else Verdict.SKIPPED, lang)
        for name in STATEMENTS
    ]
    return report(results, Verdict.RAISED, lang)


def not_implemented(lang: str = "en") -> Report:
    zh = lang == "zh"
    step = "从 causal_mask 开始：grade lesson ex04" if zh else "Start with causal_mask: grade lesson ex04"
    return report(everything(Verdict.NOT_IMPLEMENTED, lang), Verdict.NOT_IMPLEMENTED, lang, next_step=step)


def syntax_error(lang: str = "en") -> Report:
    zh = lang == "zh"
    message = "第 12 行：'(' 没有闭合" if zh else "line 12: '(' was never closed"
    lines = ["def causal_mask(T):", "    return torch.tril(torch.ones(T, T)", "", "def padding_mask(ids, pad_id):"]
    first = {"message": message, "location": Location("ex04_causal_mask.py", 12, "", 11, lines)}
    results = everything(Verdict.SYNTAX_ERROR, lang, message=message)
    results[0] = msgspec.structs.replace(results[0], **first)
    return report(results, Verdict.SYNTAX_ERROR, lang)


def ended(verdict: Verdict, lang: str = "en") -> Report:
    """One property ended with this verdict, the others passed."""
    results = [result(name, verdict if name == "values" else Verdict.PASSED, lang) for name in STATEMENTS]
    return report(results, verdict, lang)


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style></script><svg onload=alert(1)>",
    "{{ 7 * 7 }} {% raw %} {0} {x!r} %s $(id) `id`",
    "\x1b[2J\x1b[31mPASSED\x1b]0;title\x07\x9b31m\r\x08\x7f",
    "\u202eevil\u202c \u2066isolated\u2069 zero\u200bwidth \ufeff",
    "\x00\ud800 lone surrogate \udfff ]]> &amp; &#x3c;",
    "Z\u0351\u036b\u0343\u036a\u0302\u036b\u033d\u034f\u0334\u0319\u0324\u031e\u0349algo",
    "word" * 5000,
    "汉字，" * 5000,
    "line\n" * 50000,
    "::error file=x::no\n##[error]no\n<?xml version='1.0'?><!DOCTYPE x [<!ENTITY e 'e'>]>",
    "javascript:alert(1)",
    "',\"=1+1;--",
]


def hostile(lang: str = "en") -> Report:
    """Every field a submission can reach carries every hostile text; one of them is ten megabytes."""
    everything_bad = " ".join(HOSTILE)
    example = Counterexample(
        {text[:40]: 2 for text in HOSTILE},
        [
            TensorView(text, role, text[:50], [2, 2], [[text, "nan"], ["inf", "-1e99"]], [1, 1], [text, text])
            for text in HOSTILE
            for role in ("got", "want", "input")
        ],
        everything_bad,
    )
    trouble = [
        result(
            name,
            verdict,
            lang,
            message=text,
            look=text,
            prints=everything_bad,
            prints_cut=True,
            counterexample=example,
            location=Location(text, 2, text, 1, [*HOSTILE, text]),
        )
        for name, verdict, text in zip(STATEMENTS, list(Verdict)[1:], HOSTILE, strict=False)
    ]
    return report(
        trouble,
        Verdict.FAILED,
        lang,
        submission=HOSTILE[0] + HOSTILE[5] + HOSTILE[4],
        message="A" * 10_000_000,
        mistakes=HOSTILE[:3],
        diagnoses=[Diagnosis(text, text, text) for text in HOSTILE[:3]],
        environment={text[:60]: text for text in HOSTILE},
        next_step=everything_bad,
    )


SAMPLES = {
    "passed": passed,
    "off_by_one": off_by_one,
    "raised": raised,
    "not_implemented": not_implemented,
    "syntax_error": syntax_error,
    "timeout": lambda lang: ended(Verdict.TIMEOUT, lang),
    "tampered": lambda lang: ended(Verdict.TAMPERED, lang),
    "hostile": hostile,
}
