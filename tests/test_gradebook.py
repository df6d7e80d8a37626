"""The gradebook keeps what is sure, says what it replaced, and brings every name through unharmed."""

import csv
import io
import sqlite3
import tempfile
import threading
from pathlib import Path

import msgspec
import pytest
from fakes import report
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.gradebook import COLUMNS, Gradebook, UnknownBook, gradebook_csv
from grader.results import Verdict
from tests.classes import absences_of, entries_of

EXERCISE = "ex01_scores"
NAMES = ["anna", 'o"hara, jr', "007", "李雷", "🙂 x", "=cmd|' /C calc'!A0", "a\nb", "-1", "  spaced ", "ünï"]


@pytest.fixture
def book(tmp_path):
    with Gradebook(tmp_path / "results.sqlite") as opened:
        yield opened


def put(book, student="anna", score=100.0, verdict=Verdict.PASSED, key="k", at="2026-01-01", absent=False):
    made = msgspec.structs.replace(report(score, verdict, student), graded_at=at)
    return book.put(student, student, key, made, "x = 1\n", "c", absent)


def test_a_result_is_kept_under_the_key_of_what_was_graded(book):
    put(book)
    assert book.settled("anna", EXERCISE, "k")
    assert not book.settled("anna", EXERCISE, "another")
    assert not book.settled("bo", EXERCISE, "k")


def test_a_regrade_says_what_it_replaced(book):
    assert put(book, score=90).previous_score is None
    lower = put(book, score=80, verdict=Verdict.FAILED)
    assert (lower.previous_score, lower.lowered) == (90, True)
    assert not put(book, score=80, verdict=Verdict.FAILED).lowered


def test_an_error_of_the_graders_own_never_replaces_a_grade_and_is_not_settled(book):
    put(book, score=90)
    assert put(book, score=0, verdict=Verdict.GRADER_ERROR, key="new").verdict is Verdict.GRADER_ERROR
    assert book.entry("anna", EXERCISE).score == 90
    put(book, "bo", 0, Verdict.GRADER_ERROR)
    assert not book.settled("bo", EXERCISE, "k")
    assert put(book, "bo", 70, Verdict.FAILED).previous_score is None


def test_a_submission_that_is_missing_never_replaces_a_grade(book):
    put(book, score=90)
    put(book, score=0, verdict=Verdict.MISSING, absent=True)
    book.miss("anna", EXERCISE)
    book.miss("bo", EXERCISE)
    assert [entry.student for entry in entries_of(book)] == ["anna"]
    assert absences_of(book) == [("bo", EXERCISE)]
    put(book, "bo")
    assert absences_of(book) == []


def test_reports_come_back_as_they_were(book):
    put(book)
    assert book.report("anna", EXERCISE).score == 100
    assert book.report("anna", EXERCISE).submission == "anna"
    assert book.report("bo", EXERCISE) is None


@settings(max_examples=40, deadline=None, database=None, derandomize=True)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1), unique=True))
def test_every_name_comes_through_the_csv(names):
    with tempfile.TemporaryDirectory() as folder, Gradebook(Path(folder) / "book") as book:
        for name in [*NAMES, *names]:
            put(book, name)
        rows = list(csv.DictReader(io.StringIO(gradebook_csv(book), newline="")))
    assert sorted(row["submission"] for row in rows) == sorted({*NAMES, *names})
    assert all(tuple(row) == COLUMNS for row in rows)


def test_merging_keeps_what_says_more_and_of_two_grades_the_later(tmp_path):
    with Gradebook(tmp_path / "a") as first, Gradebook(tmp_path / "b") as second:
        put(first, "both", 60, Verdict.FAILED, at="2026-01-01")
        put(second, "both", 90, Verdict.FAILED, at="2026-01-02")
        put(first, "sure", 50, Verdict.FAILED, at="2026-01-01")
        put(second, "sure", 0, Verdict.GRADER_ERROR, at="2026-01-02")
        first.miss("late", EXERCISE)
        put(second, "late", 70, Verdict.FAILED)
        put(first, "here", 40, Verdict.FAILED)
        second.miss("here", EXERCISE)
    books = []
    for order in ("ab", "ba"):
        with Gradebook(tmp_path / f"into {order}") as into:
            for name in order:
                into.merge(tmp_path / name)
            books.append({entry.student: entry.score for entry in entries_of(into)})
            assert absences_of(into) == []
    assert books[0] == books[1] == {"both": 90, "sure": 50, "late": 70, "here": 40}


def test_a_file_that_is_no_gradebook_is_told(tmp_path, book):
    (tmp_path / "text").write_text("hello " * 500)
    with pytest.raises(UnknownBook, match="text"):
        Gradebook(tmp_path / "text")
    with pytest.raises(UnknownBook, match="no such file"):
        book.merge(tmp_path / "nowhere")
    db = sqlite3.connect(tmp_path / "old")
    db.execute("CREATE TABLE results (x)")
    db.close()
    with pytest.raises(UnknownBook, match="version 0"):
        book.merge(tmp_path / "old")


def test_a_reader_sees_whole_results_while_they_are_written(tmp_path, book):
    seen = []

    def read():
        with Gradebook(tmp_path / "results.sqlite") as reader:
            for _ in range(30):
                seen.append([entry.student for entry in entries_of(reader)])
                list(reader.outcomes())

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(30):
        put(book, f"s{number:02}")
    reader.join()
    assert all(names == sorted(names) for names in seen)


def test_a_transaction_that_fails_leaves_nothing(book, monkeypatch):
    monkeypatch.setattr("grader.gradebook.json.dumps", lambda value: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        put(book)
    monkeypatch.undo()
    assert entries_of(book) == []
    put(book)
    assert len(entries_of(book)) == 1
