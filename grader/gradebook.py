"""The gradebook: what became of every submission, in one SQLite file that survives whatever happens to the program.

One transaction a submission, one writer, write-ahead logging: a reader sees whole results or none. A result is kept
under the student and the exercise, together with the key of what was graded (content, grader, course), so that the
same thing is never graded twice.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import msgspec

from grader.results import Report, Verdict

SCHEMA_VERSION = 1
TABLES = """
CREATE TABLE IF NOT EXISTS results (
    student TEXT NOT NULL, exercise TEXT NOT NULL, folder TEXT NOT NULL, key TEXT NOT NULL,
    score REAL NOT NULL, max_score REAL NOT NULL, verdict TEXT NOT NULL, mistakes TEXT NOT NULL,
    grader_version TEXT NOT NULL, seconds REAL NOT NULL, graded_at TEXT NOT NULL, previous_score REAL,
    source TEXT NOT NULL, report BLOB NOT NULL,
    PRIMARY KEY (student, exercise)
);
CREATE TABLE IF NOT EXISTS absent (student TEXT NOT NULL, exercise TEXT NOT NULL, PRIMARY KEY (student, exercise));
"""
COLUMNS = ("submission", "exercise", "score", "max_score", "verdict", "mistakes", "grader_version")


class Entry(msgspec.Struct, frozen=True):
    """One row. `folder` is where its reports stand below `reports/`; `previous_score` is what a regrade replaced.

    `source` is the submission's main file, for the comparison of submissions.
    """

    student: str
    exercise: str
    folder: str
    key: str
    score: float
    max_score: float
    verdict: Verdict
    mistakes: list[str]
    grader_version: str
    seconds: float
    graded_at: str
    previous_score: float | None
    source: str

    @property
    def lowered(self) -> bool:
        """Whether a regrade took points away."""
        return self.previous_score is not None and self.score < self.previous_score


class Gradebook:
    """The store at `path`; close it, or use it as a context manager."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.executescript(TABLES)
        self._db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")

    def settled(self, student: str, exercise: str, key: str) -> bool:
        """Whether this very thing has been graded; an error of the grader's own does not count."""
        row = self._db.execute(
            "SELECT key, verdict FROM results WHERE student = ? AND exercise = ?", (student, exercise)
        ).fetchone()
        return row is not None and row[0] == key and row[1] != Verdict.GRADER_ERROR

    def has_grade(self, student: str, exercise: str) -> bool:
        """Whether there is a result that is not an error of the grader's own."""
        entry = self._entry(student, exercise)
        return entry is not None and entry.verdict is not Verdict.GRADER_ERROR

    def put(self, student: str, folder: str, key: str, report: Report, source: str) -> Entry:
        """Keep a result, and say what is in the book now.

        An error of the grader's own never replaces a grade.
        """
        encoded = msgspec.json.encode(report)
        with self._transaction():
            old = self._entry(student, report.exercise)
            if old is not None and report.verdict is Verdict.GRADER_ERROR and old.verdict is not Verdict.GRADER_ERROR:
                return old
            previous = old.score if old is not None and old.verdict is not Verdict.GRADER_ERROR else None
            self._db.execute(
                "INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(student, report.exercise, folder, key, report.score, report.max_score, report.verdict.value),
                    json.dumps(report.mistakes),
                    report.environment.get("grader", ""),
                    *(report.seconds, report.graded_at, previous, source, encoded),
                ),
            )
            self._db.execute("DELETE FROM absent WHERE student = ? AND exercise = ?", (student, report.exercise))
        entry = self._entry(student, report.exercise)
        assert entry is not None
        return entry

    def miss(self, student: str, exercise: str) -> None:
        """Note that a student has handed in nothing for an exercise; a grade that is there stays."""
        with self._transaction():
            if self._entry(student, exercise) is None:
                self._db.execute("INSERT OR IGNORE INTO absent VALUES (?, ?)", (student, exercise))

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def _entry(self, student: str, exercise: str) -> Entry | None:
        found = self._db.execute(f"{SELECT} WHERE student = ? AND exercise = ?", (student, exercise)).fetchone()
        return _entry(found) if found else None

    def entries(self) -> list[Entry]:
        """Every row, by student and exercise."""
        return [_entry(row) for row in self._db.execute(f"{SELECT} ORDER BY student, exercise")]

    def absences(self) -> list[tuple[str, str]]:
        """Student and exercise of everything that was not handed in."""
        return list(self._db.execute("SELECT student, exercise FROM absent ORDER BY student, exercise"))

    def reports(self) -> Iterator[tuple[str, Report]]:
        """Student and report of every row, one at a time."""
        for student, encoded in self._db.execute("SELECT student, report FROM results ORDER BY student, exercise"):
            yield student, msgspec.json.decode(encoded, type=Report)

    def merge(self, other: Path) -> int:
        """Take over every row of another gradebook; of two for the same work, the later one stays."""
        self._db.execute("ATTACH DATABASE ? AS other", (str(other),))
        try:
            with self._transaction():
                before = self._db.total_changes
                self._db.execute(MERGE)
                self._db.execute("INSERT OR IGNORE INTO absent SELECT * FROM other.absent")
                self._db.execute(
                    "DELETE FROM absent WHERE EXISTS (SELECT 1 FROM results r"
                    " WHERE r.student = absent.student AND r.exercise = absent.exercise)"
                )
                return self._db.total_changes - before
        finally:
            self._db.execute("DETACH DATABASE other")

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Gradebook:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


FIELDS = Entry.__struct_fields__
SELECT = f"SELECT {', '.join(FIELDS)} FROM results"
MERGE = """
INSERT OR REPLACE INTO results SELECT theirs.* FROM other.results theirs
LEFT JOIN results ours ON ours.student = theirs.student AND ours.exercise = theirs.exercise
WHERE ours.student IS NULL
   OR (theirs.verdict != 'grader_error' AND (ours.verdict = 'grader_error' OR theirs.graded_at > ours.graded_at))
"""


def _entry(row: tuple[object, ...]) -> Entry:
    values = dict(zip(FIELDS, row, strict=True))
    return msgspec.convert({**values, "mistakes": json.loads(str(values["mistakes"]))}, Entry)


def gradebook_csv(book: Gradebook) -> str:
    """The gradebook as CSV: one row a submission and exercise, names exactly as they are, numbers with a point."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    rows = [
        (entry.student, entry.exercise, *_scores(entry), " ".join(entry.mistakes), entry.grader_version)
        for entry in book.entries()
    ]
    rows += [(student, exercise, "0", "", Verdict.MISSING.value, "", "") for student, exercise in book.absences()]
    writer.writerows(sorted(rows))
    return text.getvalue()


def _scores(entry: Entry) -> tuple[str, str, str]:
    return (f"{entry.score:g}", f"{entry.max_score:g}", entry.verdict.value)
