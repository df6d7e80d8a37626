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
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from grader.results import Report, Verdict
from grader.sketch import sketch

SCHEMA_VERSION = 3  # of the table, of Outcome, and of what `sketch` makes
TABLES = """
CREATE TABLE IF NOT EXISTS results (
    student TEXT NOT NULL, exercise TEXT NOT NULL, folder TEXT NOT NULL, key TEXT NOT NULL,
    score REAL NOT NULL, max_score REAL NOT NULL, verdict TEXT NOT NULL, mistakes TEXT NOT NULL,
    grader_version TEXT NOT NULL, seconds REAL NOT NULL, graded_at TEXT NOT NULL, previous_score REAL,
    content TEXT NOT NULL, absent INTEGER NOT NULL, outcome BLOB NOT NULL, sketch BLOB NOT NULL, report BLOB NOT NULL,
    PRIMARY KEY (student, exercise)
);
"""
DATABASE = "results.sqlite"
WRITTEN = frozenset({DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", "gradebook.csv", "class.html", "reports"})
COLUMNS = ("submission", "exercise", "score", "max_score", "verdict", "mistakes", "grader_version")


class UnknownBook(Exception):
    """A file that is no gradebook of this version of the program."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path, self.reason = path, reason


class Entry(msgspec.Struct, frozen=True):
    """One row. `folder` is where its reports stand below `reports/`; `previous_score` is what a regrade replaced.

    `content` is the digest of the submission.
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
    content: str = ""
    absent: bool = False

    @property
    def lowered(self) -> bool:
        """Whether a regrade took points away."""
        return self.graded and self.previous_score is not None and self.score < self.previous_score

    @property
    def graded(self) -> bool:
        """Whether it says something of a submission: not an error of the grader's own, and not that there is none."""
        return self.verdict is not Verdict.GRADER_ERROR and not self.absent


class PropertyOutcome(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How a submission did on one property; a class has hundreds of thousands of these."""

    name: str
    verdict: Verdict
    points: float
    max_points: float


class Outcome(msgspec.Struct, frozen=True, array_like=True):
    """Of a report what a page on a class of thousands can do with; the rest fills pages.

    `said` maps a mistake to what it is in words, and why.
    """

    title: str
    properties: list[PropertyOutcome]
    said: dict[str, tuple[str, str]]


def _outcome(report: Report) -> Outcome:
    return Outcome(
        title=report.title,
        properties=[
            PropertyOutcome(each.name, each.verdict, each.points, each.max_points) for each in report.properties
        ],
        said={diagnosis.name: (diagnosis.says, diagnosis.why) for diagnosis in report.diagnoses},
    )


class Gradebook:
    """The store at `path`; close it, or use it as a context manager.

    Raises:
        UnknownBook: the file is something else, or of another version.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._db = sqlite3.connect(path, isolation_level=None)
        try:
            _must_be_ours(self._db, path)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.executescript(TABLES)
            self._db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
        except BaseException:
            self._db.close()
            raise

    def settled(self, student: str, exercise: str, key: str) -> bool:
        """Whether this very thing has been graded; an error of the grader's own does not count."""
        entry = self.entry(student, exercise)
        return entry is not None and entry.key == key and entry.verdict is not Verdict.GRADER_ERROR

    def has_grade(self, student: str, exercise: str) -> bool:
        """Whether there is a result of a submission that is not an error of the grader's own."""
        entry = self.entry(student, exercise)
        return entry is not None and entry.graded

    def put(
        self, student: str, folder: str, key: str, report: Report, source: str, content: str = "", absent: bool = False
    ) -> Entry:
        """Keep a result, and return its row; `absent` tells that there is no submission.

        Of `source`, the submission's main file, a sketch is kept for the comparison with others.

        Neither an error of the grader's own nor the lack of a submission ever replaces a grade: the book stays as it
        was, and the row says so only by its `previous_score`.
        """
        new = Entry(
            *(student, report.exercise, folder, key, report.score, report.max_score, report.verdict, report.mistakes),
            grader_version=report.environment.get("grader", ""),
            seconds=report.seconds,
            graded_at=report.graded_at,
            previous_score=None,
            content=content,
            absent=absent,
        )
        parts = (msgspec.json.encode(_outcome(report)), sketch(source), msgspec.json.encode(report))
        return self._replace(new, tuple(map(_packed, parts)))

    def miss(self, student: str, exercise: str) -> None:
        """Note that a student has handed in nothing for an exercise; a grade that is there stays."""
        none = Entry(student, exercise, "", "", 0.0, 0.0, Verdict.MISSING, [], "", 0.0, "", None, absent=True)
        self._replace(none, (b"", b"", b""))

    def _replace(self, new: Entry, blobs: tuple[bytes, ...]) -> Entry:
        with self._transaction():
            old = self.entry(new.student, new.exercise)
            if old is not None and old.graded:
                new = msgspec.structs.replace(new, previous_score=old.score)
                if not new.graded:
                    return new
            row = [getattr(new, name) for name in FIELDS]
            row[FIELDS.index("verdict")] = new.verdict.value
            row[FIELDS.index("mistakes")] = json.dumps(new.mistakes)
            row += blobs
            marks = ", ".join("?" * len(row))
            self._db.execute(f"INSERT OR REPLACE INTO results ({', '.join(FIELDS + BLOBS)}) VALUES ({marks})", row)
        return new

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def entry(self, student: str, exercise: str) -> Entry | None:
        """One row."""
        found = self._db.execute(f"{SELECT} WHERE student = ? AND exercise = ?", (student, exercise)).fetchone()
        return _entry(found) if found else None

    def all_rows(self) -> Iterator[Entry]:
        """Every row, those of missing submissions too, by student and exercise, one at a time."""
        return (_entry(row) for row in self._db.execute(f"{SELECT} ORDER BY student, exercise"))

    def outcomes(self) -> Iterator[tuple[str, str, Outcome, bytes]]:
        """Student, exercise, what is told of it, and its sketch for `similarity`, of every submission."""
        select = "SELECT student, exercise, outcome, sketch FROM results WHERE NOT absent ORDER BY student, exercise"
        decoder = msgspec.json.Decoder(Outcome)
        for student, exercise, outcome, drawn in self._db.execute(select):
            yield student, exercise, decoder.decode(zlib.decompress(outcome)), zlib.decompress(drawn)

    def report(self, student: str, exercise: str) -> Report | None:
        """One report, also that of a submission that is missing."""
        found = self._db.execute(
            "SELECT report FROM results WHERE student = ? AND exercise = ? AND report != x''", (student, exercise)
        ).fetchone()
        return _unpacked(found[0]) if found else None

    def merge(self, other: Path) -> int:
        """Take over every row of another gradebook; of two for the same work, the later one stays. Itself adds nothing.

        Raises:
            UnknownBook: there is none, or one of another version.
        """
        if not other.is_file():
            raise UnknownBook(other, "no such file")
        if other.samefile(self.path):  # SQLite would wait for itself
            return 0
        self._db.execute("ATTACH DATABASE ? AS other", (str(other),))
        try:
            _must_be_ours(self._db, other, "other", empty=False)
            with self._transaction():
                before = self._db.total_changes
                self._db.execute(MERGE)
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
BLOBS = ("outcome", "sketch", "report")  # the long one last: SQLite reads a row up to what is asked for
SELECT = f"SELECT {', '.join(FIELDS)} FROM results"
MERGE = f"""
INSERT OR REPLACE INTO results ({", ".join(FIELDS + BLOBS)})
SELECT {", ".join(f"theirs.{name}" for name in FIELDS + BLOBS)} FROM other.results theirs
LEFT JOIN results ours ON ours.student = theirs.student AND ours.exercise = theirs.exercise
WHERE ours.student IS NULL
   OR (2 - 2 * theirs.absent - (theirs.verdict = 'grader_error'), theirs.graded_at)
    > (2 - 2 * ours.absent - (ours.verdict = 'grader_error'), ours.graded_at)
"""  # first what says more: a grade, an error of the grader's own, nothing; then what is later


def results_in(folder: Path) -> frozenset[str]:
    """Names in a folder that stand for no student: what runs have written there, and the folders that hold results."""
    with contextlib.suppress(OSError):  # whoever reads the folder next says what is wrong with it
        below = {book.parent.name for book in folder.glob(f"*/{DATABASE}") if is_database(book)}
        return WRITTEN.union(below) if is_database(folder / DATABASE) else frozenset(below)
    return frozenset()


def is_database(path: Path) -> bool:
    """Whether a file is SQLite's: an empty one of that name passes nobody over."""
    if not path.is_file():  # never a pipe
        return False
    with path.open("rb") as file:
        return file.read(16) == b"SQLite format 3\0"


def _must_be_ours(db: sqlite3.Connection, path: Path, schema: str = "main", empty: bool = True) -> None:
    try:
        version = db.execute(f"PRAGMA {schema}.user_version").fetchone()[0]
        tables = db.execute(f"SELECT count(*) FROM {schema}.sqlite_master").fetchone()[0]
    except sqlite3.DatabaseError as error:
        raise UnknownBook(path, str(error)) from None
    if version != SCHEMA_VERSION and (tables or not empty):
        raise UnknownBook(path, f"version {version}, not {SCHEMA_VERSION}")


def _entry(row: tuple[Any, ...]) -> Entry:
    values = list(row)
    for name, read in (("verdict", Verdict), ("mistakes", msgspec.json.decode), ("absent", bool)):
        values[FIELDS.index(name)] = read(values[FIELDS.index(name)])
    return Entry(*values)


def _packed(data: bytes) -> bytes:
    return zlib.compress(data, 1)


def _unpacked(packed: bytes) -> Report:
    return msgspec.json.decode(zlib.decompress(packed), type=Report)


def gradebook_csv(book: Gradebook) -> str:
    """The gradebook as CSV: one row a submission and exercise, names exactly as they are, numbers with a point."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    careful = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)  # a lone \r is not quoted otherwise
    writer.writerow(COLUMNS)
    for entry in book.all_rows():
        scores = (f"{entry.score:g}", f"{entry.max_score:g}" if entry.max_score else "", entry.verdict.value)
        row = (entry.student, entry.exercise, *scores, " ".join(entry.mistakes), entry.grader_version)
        (careful if "\r" in entry.student else writer).writerow(row)
    return text.getvalue()
