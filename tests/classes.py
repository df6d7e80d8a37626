"""Classes as a gradebook keeps them, made up for tests: never graded, but with everything a page can meet."""

from __future__ import annotations

import functools
import random
import re
from pathlib import Path

from grader.exercises import Course, Exercise
from grader.gradebook import Entry, Gradebook
from grader.grading import outline, overall
from grader.mistakes import Mistake
from grader.results import Diagnosis, PropertyResult, Report, Verdict

NAMES = [
    'O\'Brien, "Tim"',
    "007",
    "0042",
    "王小明",
    "=cmd|'/c calc'!A1",
    "+SUM(1,2)",
    "@here",
    "Ada 👩‍💻 Lovelace",
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "\u202egnp.exe",
    "ميرا",
    "Zoë {{ 7 * 7 }} %s",
    "a/b & c?d#e",
    "\u2028line\nbreak\x1b[2J",
    "w" * 300,
]
FAMILY = "王李张刘陈杨赵黄周吴徐孙胡朱高林何郭马罗"
GIVEN = "伟芳娜敏静磊强洋艳勇军杰娟涛明超霞平刚桂英"
FIRST = ["Ada", "Ben", "Chloé", "Dmitri", "Esra", "Femi", "Grace", "Hana", "Ivo", "Kofi", "Lena", "Omar", "Tomás"]
LAST = ["Abe", "Brandt", "Costa", "Diaz", "Eriksen", "Fofana", "Garcia", "Ito", "Khan", "Müller", "Novak", "Park"]
DAY = "2026-03-14T{hour:02}:52:07+00:00"


def roll(count: int, chance: random.Random) -> list[str]:
    """Names of students: the difficult ones first, then ordinary ones of two languages."""
    ordinary = (
        f"{chance.choice(FAMILY)}{chance.choice(GIVEN)}{chance.choice(GIVEN)} {at}"
        if at % 2
        else f"{chance.choice(FIRST)} {chance.choice(LAST)} {at}"
        for at in range(count)
    )
    return (NAMES + list(ordinary))[:count]


def fill(
    book: Gradebook, course: Course, students: int, lang: str = "en", seed: int = 0, copies: bool = False
) -> list[str]:
    """A class of so many students: able and less able, absent and copied from; returns their names.

    With `copies`, a few pieces of code are all that there are, which is quicker to make and to compare.
    """
    chance = random.Random(seed)
    names = roll(students, chance)
    book._db.execute("PRAGMA synchronous=OFF")
    for at, name in enumerate(names):
        ability = chance.betavariate(4, 2)
        for place, exercise in enumerate(course.exercises):
            if chance.random() < 0.04 + 0.015 * place or (at and at % 97 == 0):
                book.miss(name, exercise.slug)
                continue
            made = _report(exercise, name, ability, chance, lang)
            book.put(
                name,
                f"s{at:04} {name[:20]}".replace("/", "_"),
                f"{at}",
                made,
                _source(exercise, at % 80 if copies else at, chance),
            )
    return names


@functools.cache
def _known(exercise: Exercise) -> tuple[list[tuple[str, int, str]], list[Mistake]]:
    """What the exercise asks, and its named mistakes."""
    return list(outline((exercise.folder / "properties.py").read_text(encoding="utf-8"))), exercise.mistakes()


def _report(exercise: Exercise, name: str, ability: float, chance: random.Random, lang: str) -> Report:
    rows, mistakes = _known(exercise)
    ended = chance.choice(list(Verdict)[3:12]) if chance.random() < 0.02 else None
    done = chance.random() < 0.15 + 0.75 * ability
    results = []
    for at, (prop, points, statement) in enumerate(rows):
        right = done or chance.random() < 0.35 + 0.7 * ability - 0.02 * at
        verdict = Verdict.PASSED if right else ended or Verdict.FAILED
        says = exercise.statement(prop, lang) or statement
        results.append(PropertyResult(prop, verdict, points if right else 0, points, says))
    known = [chance.choice(mistakes[: 1 + at]) for at in (0, 2, 5)] if mistakes else []
    wrong = overall(results) is Verdict.FAILED and chance.random() < 0.5
    made = [chance.choice(known)] if known and wrong else []
    return Report(
        exercise=exercise.slug,
        title=exercise.title(lang),
        submission=name,
        score=round(sum(result.points for result in results), 2),
        max_score=round(sum(result.max_points for result in results), 2),
        verdict=overall(results),
        properties=results,
        mistakes=[mistake.name for mistake in made],
        diagnoses=[Diagnosis(mistake.name, mistake.says(lang), mistake.why(lang)) for mistake in made],
        lang=lang,
        environment={"grader": "0.1.0"},
        seconds=round(chance.lognormvariate(-0.5, 0.6), 3),
        graded_at=DAY.format(hour=chance.randrange(24)),
    )


@functools.cache
def _reference(exercise: Exercise) -> str:
    return exercise.reference or ""


def _source(exercise: Exercise, at: int, chance: random.Random) -> str:
    """Somebody's own code; that of every fortieth is a copy of the one before, with other names."""
    reference = _reference(exercise)
    if at % 40 == 1:
        at -= 1
    own = random.Random(f"{exercise.slug} {at}")
    lines = []
    for line in reference.splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        if line.strip().startswith(("return", "x =")) and own.random() < 0.9:
            lines += [f"{indent}{statement(own)}  # {at}" for _ in range(own.randrange(2, 9))]
        lines.append(line)
    return re.sub(r"\bscores\b", chance.choice(["scores", "logits", "s"]), "\n".join(lines))


def statement(own: random.Random) -> str:
    """A line of code that hardly anybody else writes."""
    words = [own.choice(["view", "sum", "mean", "exp", "sqrt", "flip", "roll", "clone", "float"]) for _ in range(4)]
    return f"tmp{own.randrange(9)} = x.{words[0]}({own.randrange(99)}).{words[1]}() + y.{words[2]}().{words[3]}()"


def made(folder: Path, course: Course, students: int, lang: str = "en", copies: bool = False) -> Gradebook:
    """A new gradebook with a class in it."""
    book = Gradebook(folder / "results.sqlite")
    fill(book, course, students, lang, copies=copies)
    return book


def entries_of(book: Gradebook) -> list[Entry]:
    """Every row of a submission, by student and exercise."""
    return [entry for entry in book.all_rows() if not entry.absent]


def absences_of(book: Gradebook) -> list[tuple[str, str]]:
    """Student and exercise of everything that was not handed in."""
    return [(entry.student, entry.exercise) for entry in book.all_rows() if entry.absent]
