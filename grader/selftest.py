"""The course's promises, kept: what `grade selftest` checks and prints.

The stub scores 0, the reference and every variant score 100, every mistake is caught by the property that claims it,
every property catches a mistake, every mistake is named and none wrongly. The gap of a numeric property is between
the largest error of a right program and the smallest of a mistake it catches, both as a share of what is allowed.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Iterator, Sequence

from grader.bench import Bench
from grader.claims import Measurement, measured
from grader.exercises import Course, Exercise
from grader.judge import Judge, LocalWorker, Session, Source
from grader.results import Verdict

FINE = {Verdict.PASSED, Verdict.SKIPPED, Verdict.NOT_RUN}
UNTOUCHED = {Verdict.NOT_IMPLEMENTED, Verdict.SKIPPED, Verdict.NOT_RUN}


@dataclasses.dataclass(frozen=True)
class Row:
    """One program: `verdicts` and `measurements` by property, `named` the mistakes its diagnosis names."""

    kind: str  # "stub", "reference", "variant" or "mistake"
    name: str
    verdicts: dict[str, Verdict]
    measurements: dict[str, list[Measurement]]
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
    points: dict[str, int]
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
        if row.named not in ([], [row.name]):
            yield f"the mistake {row.name} is taken for {', '.join(row.named)}"


def selftest(exercise: Exercise) -> Selftest:
    """Run everything an exercise ships through its properties, in this process."""
    bench = Bench(exercise)
    assert bench.reference is not None, "an edition without solutions has nothing to test"
    main = exercise.module
    programs = [("stub", "stub", Source({main: exercise.stub_from_reference()}, main))]
    programs += [("reference", "reference", bench.reference)]
    programs += [("variant", name, Source({main: source}, main)) for name, source in exercise.variants.items()]
    programs += [("mistake", name, bench.mistaken(name)) for name in bench.named]
    rows = [_row(bench, kind, name, source) for kind, name, source in programs]
    claimed = {name: mistake.caught_by for name, mistake in bench.named.items()}
    points = {p.name: p.points for p in bench.properties}
    return Selftest(exercise.slug, list(points), claimed, points, rows)


def _row(bench: Bench, kind: str, name: str, source: Source) -> Row:
    judge = Judge(Session(LocalWorker, source), bench.exact, bench.plain, bench.exercise.forbidden, search=False)
    verdicts, measurements = {}, {}
    for p in bench.properties:
        with measured() as ledger:
            verdicts[p.name] = judge.judge(p).verdict
        measurements[p.name] = ledger
    failed = [name for name, verdict in verdicts.items() if verdict not in FINE]
    named = bench.names_of(LocalWorker(), source, failed) if kind == "mistake" else []
    return Row(kind, name, verdicts, measurements, named)


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
    mistakes = [row for row in result.rows if row.kind == "mistake"]
    right = sum(row.named == [row.name] for row in mistakes)
    wrong = sum(row.named not in ([], [row.name]) for row in mistakes)
    lines += ["", f"Named: {right} of {len(mistakes)} mistakes rightly, {wrong} wrongly."]
    broken = list(result.broken())
    lines += ["", *(f"BROKEN: {sentence}" for sentence in broken)] if broken else ["All promises hold."]
    return "\n".join(lines)


def main(words: Sequence[str]) -> int:
    """Test the exercises that `words` name, all of them when there are none; 0 when every promise holds."""
    course = Course.open()
    exercises = [course.find(word) for word in words] or course.exercises
    failed = False
    for exercise in exercises:
        result = selftest(exercise)
        print(table(result), flush=True)
        failed |= any(True for _ in result.broken())
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
