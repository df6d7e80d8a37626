"""The course's promises, kept: what `grade selftest` checks and prints.

The stub scores 0, the reference and every variant score 100, every mistake is caught by the property that claims it,
every property catches a mistake, every mistake is named and none wrongly. A property that follows from others is
asked all the same here, and must hold wherever they do. The gap of a numeric property is between the largest error of
a right program and the smallest of a mistake it catches, both as a share of what is allowed.

Two mistakes in one file never get a wrong name: none, or one of the two. And a property has no more cases than it
needs: the table says how many it takes until every mistake that it claims is caught.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from grader.bench import Bench
from grader.claims import Measurement, measured
from grader.exercises import Course, Exercise
from grader.judge import Judge, LocalWorker, Session, Source
from grader.mistakes import StaleMistake
from grader.results import Verdict

PAIRS = 10  # programs with two mistakes, of each exercise
NAMED = 0.95  # of the mistakes of an exercise
UNTOUCHED = {Verdict.NOT_IMPLEMENTED, Verdict.SKIPPED, Verdict.NOT_RUN}


@dataclasses.dataclass(frozen=True)
class Row:
    """One program: `verdicts`, `measurements` and the first failing case (from 1) by property.

    `made` are the mistakes in it, `named` those that its diagnosis names.
    """

    kind: str  # "stub", "reference", "variant", "mistake" or "pair"
    name: str
    verdicts: dict[str, Verdict]
    measurements: dict[str, list[Measurement]]
    failed_at: dict[str, int]
    made: tuple[str, ...]
    named: list[str]

    @property
    def caught_by(self) -> list[str]:
        return [name for name, verdict in self.verdicts.items() if verdict not in (Verdict.PASSED, Verdict.NOT_RUN)]


@dataclasses.dataclass(frozen=True)
class Gap:
    """`right` is the largest error of a right program, `wrong` the smallest of a mistake; 1 is what is allowed."""

    right: float
    wrong: float


@dataclasses.dataclass(frozen=True)
class Selftest:
    """What came of one exercise."""

    exercise: str
    properties: list[str]
    claimed: dict[str, str]  # mistake -> the property that must catch it
    follows: dict[str, tuple[str, ...]]  # property -> those it follows from
    points: dict[str, int]
    cases: dict[str, int]
    rows: list[Row]

    def score(self, row: Row) -> int:
        return sum(self.points[name] for name, verdict in row.verdicts.items() if verdict is Verdict.PASSED)

    @property
    def gaps(self) -> dict[str, Gap]:
        """The gap of each property that measures errors."""
        found = {}
        for name in self.properties:
            right = [m.value for row in self._right() for m in row.measurements[name] if m.kind == "error"]
            wrong = [
                max((m.value for m in row.measurements[name] if m.kind == "error"), default=0.0)
                for row in self.rows
                if row.kind == "mistake" and row.verdicts[name] is Verdict.FAILED
            ]
            if right:
                found[name] = Gap(max(right), min((value for value in wrong if value > 1), default=math.inf))
        return found

    @property
    def needed(self) -> dict[str, int]:
        """How many of its cases each property needs, until every mistake that it claims is caught."""
        found = dict.fromkeys(self.properties, 0)
        for row in self.of("mistake"):
            wanted = self.claimed[row.name]
            found[wanted] = max(found.get(wanted, 0), row.failed_at.get(wanted, 0))
        return found

    def of(self, kind: str) -> list[Row]:
        return [row for row in self.rows if row.kind == kind]

    def _run(self) -> list[str]:
        """The properties that could be asked here: one that needs a device does not run without it."""
        return [name for name in self.properties if any(row.verdicts[name] is not Verdict.NOT_RUN for row in self.rows)]

    def _right(self) -> list[Row]:
        return [row for row in self.rows if row.kind in ("reference", "variant")]

    def broken(self) -> Iterator[str]:
        """Each promise that does not hold, in one sentence."""
        for row in self.rows:
            score = self.score(row)
            if row.kind == "stub" and (score or not set(row.verdicts.values()) <= UNTOUCHED):
                kinds = sorted({verdict.value for verdict in row.verdicts.values()})
                yield f"the stub scores {score} with {', '.join(kinds)}; it must score 0, not implemented"
            if row.kind in ("reference", "variant") and row.caught_by:
                yield f"the {row.kind} {row.name} is right, and fails {', '.join(row.caught_by)}"
            if row.kind == "mistake":
                yield from self._broken_mistake(row)
            for name, others in self.follows.items():
                if name in row.caught_by and not set(others) & set(row.caught_by):
                    yield f"the {row.kind} {row.name} fails {name}, which does not follow from {', '.join(others)}"
            if not set(row.named) <= set(row.made):
                yield f"the {row.kind} {row.name} is taken for {', '.join(row.named)}"
        mistakes = self.of("mistake")
        found = sum(row.named == list(row.made) for row in mistakes)
        if found < NAMED * len(mistakes):
            yield f"{found} of {len(mistakes)} mistakes are named; it must be {NAMED:.0%}"
        for name in self._run():
            if not any(name in row.caught_by for row in self.rows if row.kind == "mistake"):
                yield f"the property {name} catches no mistake"

    def _broken_mistake(self, row: Row) -> Iterator[str]:
        wanted = self.claimed[row.name]
        if wanted in self.properties and wanted not in self._run():
            return
        if not row.caught_by:
            yield f"the mistake {row.name} passes everything"
        elif wanted not in self.properties:
            yield f"the mistake {row.name} claims the property {wanted}, which does not exist"
        elif row.verdicts[wanted] in (Verdict.PASSED, Verdict.SKIPPED, Verdict.NOT_RUN):
            yield f"the mistake {row.name} is not caught by {wanted}, but by {', '.join(row.caught_by)}"
        if Verdict.GRADER_ERROR in row.verdicts.values():
            names = [name for name, verdict in row.verdicts.items() if verdict is Verdict.GRADER_ERROR]
            yield f"the mistake {row.name} meets a grader error in {', '.join(names)}"


def selftest(exercise: Exercise) -> Selftest:
    """Run everything an exercise ships through its properties, in this process.

    What the programs warn of is left aside, as a worker does, even where this process takes warnings for errors.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _tested(exercise)


def _tested(exercise: Exercise) -> Selftest:
    bench = Bench(exercise)
    assert bench.reference is not None, "an edition without solutions has nothing to test"
    main = exercise.module
    rows = [_row(bench, "stub", "stub", Source({main: exercise.stub_from_reference()}, main))]
    rows += [_row(bench, "reference", "reference", bench.reference)]
    rows += [_row(bench, "variant", name, Source({main: text}, main)) for name, text in exercise.variants.items()]
    rows += [_row(bench, "mistake", name, bench.mistaken(name), (name,)) for name in bench.named]
    rows += [_row(bench, "pair", " + ".join(made), source, made) for made, source in _pairs(bench)]
    claimed = {name: mistake.caught_by for name, mistake in bench.named.items()}
    follows = {p.name: p.follows_from for p in bench.properties if p.follows_from}
    points = {p.name: p.points for p in bench.properties}
    cases = {p.name: len(p.cases()) for p in bench.properties}
    return Selftest(exercise.slug, list(points), claimed, follows, points, cases, rows)


def _pairs(bench: Bench) -> Iterator[tuple[tuple[str, str], Source]]:
    """Programs with two mistakes: each mistake with one further down the list, where both fit into one file."""
    assert bench.reference is not None
    main, names = bench.reference.main, list(bench.named)
    found = 0
    for first, second in zip(names, names[len(names) // 2 :], strict=False):
        try:
            text = bench.named[second].apply(bench.named[first].apply(bench.reference.files[main]))
        except StaleMistake:
            continue
        yield (first, second), Source({main: text}, main)
        found += 1
        if found == PAIRS:
            return


def _row(bench: Bench, kind: str, name: str, source: Source, made: tuple[str, ...] = ()) -> Row:
    session, again = Session(LocalWorker, source), Session(LocalWorker, source)
    judge = Judge(session, bench.exact, bench.plain, bench.exercise.forbidden, search=False)
    verdicts, measurements, failed_at = {}, {}, {}
    for p in bench.properties:
        with measured() as ledger:
            outcome = judge.judge(dataclasses.replace(p, follows_from=()))
        verdicts[p.name], measurements[p.name] = outcome.verdict, ledger
        if outcome.failure is not None and outcome.failure.case is not None:
            failed_at[p.name] = p.cases().index(outcome.failure.case) + 1
    if kind == "mistake":
        bench.learn(name, judge.testimonies)  # where it fails it is asked once more, as a submission and as the mistake
    named = bench.names_of(again, verdicts, judge.testimonies) if made else []
    session.close()
    again.close()
    return Row(kind, name, verdicts, measurements, failed_at, made, named)


def table(result: Selftest) -> str:
    """The matrix as text: a row a program, a column a property (x caught, ! raised, . skipped)."""
    signs = {Verdict.PASSED: " ", Verdict.FAILED: "x", Verdict.SKIPPED: ".", Verdict.NOT_RUN: "-"}
    width = max(len(row.name) for row in result.rows) + 12
    lines = [f"{result.exercise}: {len(result.rows)} programs, {len(result.properties)} properties", ""]
    lines += [f"{'':{width}}{index:>2} {name}" for index, name in enumerate(result.properties, 1)]
    columns = "".join(f"{index:>3}" for index in range(1, len(result.properties) + 1))
    lines += ["", f"{'':{width - 1}}{columns}  score  named"]
    for row in result.rows:
        marks = "".join(f"{signs.get(row.verdicts[name], '!'):>3}" for name in result.properties)
        lines.append(f"{row.kind + ' ' + row.name:{width - 1}}{marks}  {result.score(row):>5}  {', '.join(row.named)}")
    lines += ["", "Gap (1 is what is allowed): largest error of a right program, smallest of a mistake it catches"]
    lines += [f"  {name:40} {gap.right:8.1e} {gap.wrong:8.1e}" for name, gap in result.gaps.items()]
    lines += ["", "Cases: drawn, and needed until every mistake that the property claims is caught"]
    lines += [f"  {name:40} {result.cases[name]:4} {result.needed[name]:4}" for name in result.properties]
    lines += ["", *(_naming(result, kind) for kind in ("mistake", "pair"))]
    broken = list(result.broken())
    lines += ["", *(f"BROKEN: {sentence}" for sentence in broken)] if broken else ["All promises hold."]
    return "\n".join(lines)


def _naming(result: Selftest, kind: str) -> str:
    """Precision (of the names given, how many are right) and recall (of the programs, how many got a right one)."""
    rows = result.of(kind)
    given = [name in row.made for row in rows for name in row.named]
    found = sum(bool(set(row.named) & set(row.made)) for row in rows)
    precision = f"{sum(given) / len(given):.0%}" if given else "-"
    recall = f"{found / len(rows):.0%}" if rows else "-"
    return f"Diagnosis, {kind}s: {found} of {len(rows)} named, precision {precision}, recall {recall}"


def every(course: Path, slugs: Sequence[str]) -> Iterator[Selftest]:
    """The results of several exercises in their order, tested side by side, one in each core's process."""
    if len(slugs) == 1:
        yield _one(course, slugs[0])
        return
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        yield from pool.map(functools.partial(_one, course), slugs)


def _one(course: Path, slug: str) -> Selftest:
    return selftest(Course.open(course).find(slug))
