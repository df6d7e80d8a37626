"""What a class did, as one page that needs nothing else: no network, no other file (reports/class.html.j2).

The figures stand in the page; names and the table of all hand-ins are put there by its script, from JSON, as far as
they are looked at, so that it opens at once for thousands of students.
"""

from __future__ import annotations

import json
import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from grader import similarity
from grader.classwork import BARS, EYE, JUDGED_MIN, REASONS, TOGETHER_MAX, Cell, Classwork, ExerciseInsight, read_class
from grader.exercises import Course
from grader.gradebook import Gradebook
from grader.messages import LANGUAGES, catalogue, text
from grader.reporters.html import asset, policy, templates
from grader.reporters.wording import verdict_words
from grader.results import Verdict

SLOWEST = 3  # hand-ins that are named
GROUPS = 30  # near-identical groups that are open; the others fold
CODES = {verdict: chr(ord("a") + at) for at, verdict in enumerate(Verdict)}  # one letter a verdict
ABSENT, UNASKED = "-", " "
UNSAFE = re.compile("[<>&\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")  # in a script element, or in an editor
WIDTH, HEIGHT = 220, 64  # of a histogram, in its own units


def class_page(book: Gradebook, course: Course, lang: str) -> str:
    """The page on the class, in "en" or "zh"."""
    lang = lang if lang in LANGUAGES else "en"
    work = read_class(book, course, lang)
    lists = Lists()
    style, script = asset("report.css") + asset("class.css"), asset("class.js")
    return (
        templates()
        .get_template("class.html.j2")
        .render(
            lang=lang,
            t=lambda key, **params: text(f"insight.{key}", lang, **params),
            style=style,
            script=script,
            policy=policy(style, script),
            work=work,
            handed_in=sum(len(exercise.graded) for exercise in work.exercises),
            median=_median(work.shares),
            strip=_strip(work),
            cards=[_card(at, exercise) for at, exercise in enumerate(work.exercises)],
            notices=[
                {"reason": reason, "count": len(places), "list": lists.of(places)}
                for reason, places in work.notices.items()
            ],
            mistakes=[
                {"mistake": mistake, "list": lists.of((mistake.exercise, at) for at in mistake.students)}
                for mistake in work.mistakes
            ],
            absent=[lists.of((at, student) for student in e.absent) for at, e in enumerate(work.exercises)],
            nothing=lists.of((0, student) for student in work.nothing),
            groups=_groups(work, lists),
            groups_open=GROUPS,
            limits=_limits(),
            data=embedded(_data(work, lists, lang)),
        )
    )


class Lists:
    """The lists of hand-ins that the page's script writes out; the template names each by its number."""

    def __init__(self) -> None:
        self.all: list[list[tuple[int, list[int]]]] = []

    def of(self, places: Iterable[tuple[int, int]]) -> int:
        """The number of a new list, of (exercise, student)s."""
        by_exercise: dict[int, list[int]] = defaultdict(list)
        for exercise, student in places:
            by_exercise[exercise].append(student)
        self.all.append(list(by_exercise.items()))
        return len(self.all) - 1


# ---- figures


def _median(values: Sequence[float]) -> float:
    return statistics.median(values) if values else 0.0


def _strip(work: Classwork) -> list[dict[str, Any]]:
    """What became of everything that was asked for, as blocks of a bar of width 1000."""
    cells = [cell for exercise in work.exercises for _, cell in exercise.graded]
    full = sum(cell.verdict is Verdict.PASSED for cell in cells)
    counts = {"good": full, "bad": len(cells) - full, "quiet": sum(len(e.absent) for e in work.exercises)}
    whole = sum(counts.values()) or 1
    blocks, at = [], 0.0
    for tone, count in counts.items():
        wide = 1000 * count / whole
        blocks.append({"tone": tone, "count": count, "x": f"{at:.1f}", "width": f"{max(wide - 3, 0):.1f}"})
        at += wide
    return blocks


@dataclass(frozen=True)
class Card:
    """One exercise as the page draws it."""

    at: int
    exercise: ExerciseInsight
    bars: list[dict[str, Any]]
    known: int
    full: int
    median: float
    seconds: list[float]
    slowest: list[tuple[int, Cell]]


def _card(at: int, exercise: ExerciseInsight) -> Card:
    known = exercise.known
    seconds = sorted(cell.seconds for _, cell in exercise.graded)
    return Card(
        at=at,
        exercise=exercise,
        bars=_histogram(exercise.bars),
        known=len(known),
        full=exercise.bars[BARS],
        median=_median([cell.share for cell in known]),
        seconds=seconds,
        slowest=sorted(exercise.graded, key=lambda item: -item[1].seconds)[:SLOWEST],
    )


def _histogram(heights: Sequence[int]) -> list[dict[str, Any]]:
    tallest, step = max([*heights, 1]), WIDTH / len(heights)
    return [
        {
            "x": f"{at * step + 1:.1f}",
            "width": f"{step - 2:.1f}",
            "height": f"{(tall := max(HEIGHT * count / tallest, 1.5 if count else 0)):.1f}",
            "y": f"{HEIGHT - tall:.1f}",
            "count": count,
            "low": at * 100 // BARS,
            "high": (at + 1) * 100 // BARS,
            "full": at == BARS,
        }
        for at, count in enumerate(heights)
    ]


def _groups(work: Classwork, lists: Lists) -> list[dict[str, Any]]:
    """The near-identical groups of all exercises, the largest first."""
    found = [
        {
            "exercise": exercise,
            "count": len(group.authors),
            "low": group.lowest,
            "list": lists.of((at, student) for student in group.authors),
        }
        for at, exercise in enumerate(work.exercises)
        for group in exercise.alike
    ]
    return sorted(found, key=lambda group: -int(group["count"]))


def _limits() -> dict[str, int]:
    """The thresholds that the page explains."""
    return {
        "stretch": similarity.TOKENS + similarity.WINDOW - 1,
        "share": round(100 * similarity.ALIKE),
        "enough": similarity.ENOUGH,
        "usual": round(100 * similarity.USUAL),
        "usual_min": similarity.USUAL_MIN,
        "usual_max": similarity.USUAL_MAX,
        "together": TOGETHER_MAX,
        "judged": JUDGED_MIN,
    }


# ---- what the script reads


def _data(work: Classwork, lists: Lists, lang: str) -> dict[str, Any]:
    words = {key.removeprefix("insight.js."): said[lang] for key, said in catalogue().items() if ".js." in key}
    return {
        "names": [student.name for student in work.students],
        "folders": [student.folder for student in work.students],
        "exercises": [_columns(exercise) for exercise in work.exercises],
        "alike": sorted({at for exercise in work.exercises for group in exercise.alike for at in group.authors}),
        "lists": lists.all,
        "verdicts": {CODES[verdict]: _words(verdict, lang) for verdict in Verdict},
        "reasons": {reason: text(f"insight.eye.{reason}", lang) for reason in REASONS},
        "words": words,
        "lang": "zh-Hans" if lang == "zh" else "en",
    }


def _words(verdict: Verdict, lang: str) -> str:
    """A verdict as one says it to an instructor; a report says it to the learner."""
    return text(f"insight.eye.{verdict}", lang) if verdict in EYE else verdict_words(verdict, lang)


def _columns(exercise: ExerciseInsight) -> dict[str, Any]:
    """One exercise, each value for all students, as short as it gets."""
    absent, cells = set(exercise.absent), exercise.cells
    return {
        "slug": exercise.slug,
        "id": exercise.id,
        "title": exercise.title,
        "max": exercise.max_score,
        "scores": [None if cell is None else round(cell.score, 2) for cell in cells],
        "shares": [None if cell is None else round(cell.share, 3) for cell in cells],
        "seconds": [None if cell is None else round(cell.seconds, 1) for cell in cells],
        "verdicts": "".join(
            CODES[cell.verdict] if cell else ABSENT if at in absent else UNASKED for at, cell in enumerate(cells)
        ),
        "eye": {at: list(cell.told) for at, cell in exercise.graded if cell.told},
        "properties": [
            {"says": prop.statement, "name": prop.name, "outcomes": prop.outcomes} for prop in exercise.properties
        ],
    }


def embedded(value: object) -> str:
    """JSON that can stand inside a script element, whatever is in it, with nothing that reorders the source."""
    encoded = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    escaped = UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", encoded)
    return escaped.encode("utf-8", "backslashreplace").decode("utf-8")
