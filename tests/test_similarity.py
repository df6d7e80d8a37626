"""Near-identical submissions are found whatever was done to hide it; what was written independently is not."""

from __future__ import annotations

import random
import textwrap
import time

import classes
import pytest
import torch

from grader import similarity
from grader.exercises import Course, Exercise, without_markers
from grader.similarity import ALIKE, ENOUGH, Group, fingerprints
from grader.sketch import sketch

STUB = '''
"""ex00: attention."""
import torch

def split(x, heads):
    """[B, T, C] -> [B, H, T, D]"""
    raise NotImplementedError("ex00: split is not implemented yet")

def attend(q, k, v, mask=None):
    """softmax(q k^T / sqrt(D)) v"""
    raise NotImplementedError("ex00: attend is not implemented yet")
'''

ORIGINAL = '''
"""ex00: attention."""
import torch

def split(x, heads):
    """[B, T, C] -> [B, H, T, D]"""
    batch, length, width = x.shape
    if width % heads != 0:
        raise ValueError(f"{width} cannot be split into {heads}")
    return x.view(batch, length, heads, width // heads).transpose(1, 2)

def attend(q, k, v, mask=None):
    """softmax(q k^T / sqrt(D)) v"""
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    weights = torch.where(torch.isnan(weights), torch.zeros_like(weights), weights)
    return weights @ v
'''

DISGUISED = """
import torch

def attend(q, k, v, mask=None):
    '''My very own text.'''
    logits = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5   # scale first
    if mask is not None:

        logits = logits.masked_fill( ~ mask, float('-inf') )
    probs = torch.softmax(logits, dim=-1)
    probs = torch.where(torch.isnan(probs), torch.zeros_like(probs), probs)
    return probs @ v

def split(x, heads):
    b, t, c = x.shape
    # is it possible at all?
    if c % heads != 0:
        raise ValueError(f"no: {c}, {heads}")
    return x.view(b, t, heads, c // heads).transpose(1, 2)
"""

INDEPENDENT = '''
"""ex00: attention."""
import torch

def split(x, heads):
    """[B, T, C] -> [B, H, T, D]"""
    assert x.size(2) % heads == 0
    return torch.stack(x.chunk(heads, dim=2), dim=1)

def attend(q, k, v, mask=None):
    """softmax(q k^T / sqrt(D)) v"""
    dots = torch.einsum("bhtd,bhsd->bhts", q, k).mul(q.size(3) ** -0.5)
    allowed = torch.ones_like(dots, dtype=torch.bool) if mask is None else mask.expand_as(dots)
    powers = torch.exp(dots - dots.amax(-1, keepdim=True)) * allowed
    total = powers.sum(-1, keepdim=True)
    return torch.einsum("bhts,bhse->bhte", powers / total.clamp(min=1e-9), v)
'''


def groups(sources: dict[str, str], stub: str) -> list[Group[str]]:
    return similarity.groups({author: sketch(source) for author, source in sources.items()}, stub)


def prints(source: str, stub: str = STUB) -> frozenset[int]:
    return frozenset(fingerprints([sketch(source)], stub)[1].tolist())


def together(**sources: str) -> list[tuple[str, ...]]:
    return [group.authors for group in groups(sources, STUB)]


def test_other_names_order_and_comments_hide_nothing() -> None:
    assert prints(ORIGINAL) == prints(DISGUISED)
    assert together(ann=ORIGINAL, bob=DISGUISED, cem=INDEPENDENT) == [("ann", "bob")]


def test_small_changes_hide_nothing() -> None:
    changed = ORIGINAL.replace("** 0.5", "** (1 / 2)").replace("    return weights @ v", "    return weights @ v * 1.0")
    (group,) = groups({"ann": ORIGINAL, "bob": changed}, STUB)
    assert ALIKE <= group.lowest < 1


def test_what_was_written_independently_is_not_grouped() -> None:
    assert together(ann=ORIGINAL, cem=INDEPENDENT) == []


def test_the_stub_itself_is_not_grouped() -> None:
    assert prints(STUB) == frozenset()
    assert together(ann=STUB, bob=STUB, cem=STUB + "# hello\n") == []


def test_an_answer_of_a_few_lines_is_too_short_to_tell() -> None:
    short = STUB.replace('raise NotImplementedError("ex00: split is not implemented yet")', "return x.flatten(1)")
    assert together(ann=short, bob=short) == []


def test_many_copies_are_one_group_however_many() -> None:
    (group,) = groups({str(at): ORIGINAL for at in range(300)}, STUB)
    assert len(group.authors) == 300
    assert group.lowest == 1


def test_an_idiom_of_many_different_programs_does_not_count() -> None:
    """Forty programs share attend and differ in split; none is near another by what all of them have."""
    own = random.Random(1)
    attend = textwrap.dedent(ORIGINAL.partition("def attend")[2])
    sources = {
        str(at): "def split(x, heads):\n"
        + "".join(f"    {classes.statement(own)}\n" for _ in range(8))
        + f"def attend{attend}"
        for at in range(40)
    }
    assert together(**sources) == []


def test_no_chain_of_small_steps_makes_a_group() -> None:
    """Each program shares 90 % with the next: whoever is in a group is near its first."""
    lines = [f"    x = x.step{at}(y, {at}).other{at}(z).third{at}()\n" for at in range(60)]
    sources = {f"p{at:02}": "def f(x, y, z):\n" + "".join(lines[2 * at : 2 * at + 20]) for at in range(20)}
    for group in groups(sources, ""):
        first = prints(sources[group.authors[0]], "")
        for author in group.authors:
            other = prints(sources[author], "")
            assert len(first & other) >= ALIKE * min(len(first), len(other))


def test_nobody_is_in_two_groups_and_the_order_is_settled() -> None:
    sources = {"a": ORIGINAL, "b": DISGUISED, "c": INDEPENDENT, "d": INDEPENDENT + "\n", "e": DISGUISED}
    assert together(**sources) == [("a", "b", "e"), ("c", "d")]


@pytest.mark.parametrize(
    "source",
    ["", "def (", '"""', "'" * 99_999, '"\\' * 50_000, "\x00", "\ud800", "{" * 99_999, "x" * 99_999, "\\\n" * 999],
)
def test_any_text_is_read_in_no_time(source: str) -> None:
    began = time.monotonic()
    assert together(ann=source, bob=source + "#") == [] or len(prints(source)) >= ENOUGH
    assert time.monotonic() - began < 3


def complete() -> list[Exercise]:
    return [exercise for exercise in Course.open().exercises if exercise.reference and exercise.variants]


@pytest.mark.parametrize("exercise", complete(), ids=lambda exercise: exercise.id)
def test_the_variants_of_the_course_are_independent(exercise: Exercise) -> None:
    sources = {"reference": without_markers(exercise.reference or ""), "stub": exercise.stub, **exercise.variants}
    assert groups(sources, exercise.stub) == []


@pytest.mark.parametrize("exercise", complete(), ids=lambda exercise: exercise.id)
def test_a_copy_with_other_names_is_found_in_every_exercise(exercise: Exercise) -> None:
    copied = without_markers(exercise.reference or "").replace("scores", "logits").replace("self.weight", "self.w")
    sources = {"ann": copied, "bob": exercise.reference or "", **exercise.variants}
    assert [set(group.authors) for group in groups(sources, exercise.stub)] == [{"ann", "bob"}]


def test_a_large_class_is_compared_pair_by_promising_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    own = random.Random(2)
    body = ["    " + classes.statement(own) + "\n" for _ in range(400)]
    sources = {str(at): "def f(x, y):\n" + "".join(own.sample(body, 15)) for at in range(600)}
    sources |= {"ann": ORIGINAL, "bob": DISGUISED}
    began = time.monotonic()
    assert [group.authors for group in groups(sources, STUB)] == [("ann", "bob")]
    assert time.monotonic() - began < 10


def test_rare_fingerprints_miss_no_pair() -> None:
    """The short cut gives what comparing everybody with everybody gives."""
    own = random.Random(3)
    programs = [frozenset(own.sample(range(60), own.randrange(10, 40))) for _ in range(120)]
    programs += [frozenset([*list(program)[1:], 99]) for program in programs[:40]]
    every = {
        (one, other): len(programs[one] & programs[other]) / min(len(programs[one]), len(programs[other]))
        for one in range(len(programs))
        for other in range(len(programs))
        if one != other and min(len(programs[one]), len(programs[other])) >= ENOUGH
    }
    owner = torch.arange(len(programs)).repeat_interleave(torch.tensor(list(map(len, programs))))
    found = similarity._shares(owner, torch.tensor([each for program in programs for each in program]))
    assert {(a, b): s for a, of in found.items() for b, s in of.items()} == {
        pair: share for pair, share in every.items() if share >= ALIKE
    }
