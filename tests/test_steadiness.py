"""The same submission always gets the same report, on a busy machine too."""

import os
import subprocess
import sys

import msgspec
import pytest

from grader.exercises import Course
from grader.grading import Grader
from grader.reporters import REPORTERS
from grader.results import Report, Verdict
from grader.submissions import read_submission
from tests.engine import TINY, changed, tiny_bench

RUNS = int(os.environ.get("GRADE_STEADY_RUNS", "12"))  # `make steady` asks for 200


@pytest.fixture(scope="module")
def grader():
    with Grader(Course.open(TINY)) as made:
        yield made


@pytest.fixture(scope="module")
def bench():
    return tiny_bench()


@pytest.fixture
def busy():
    """Four processes that compute without a pause."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    yield
    for loop in loops:
        loop.kill()
        loop.wait()


def submitted(bench, tmp_path, text):
    (tmp_path / bench.exercise.module).write_text(text, encoding="utf-8")
    return read_submission(bench.exercise, tmp_path)


def timeless(report: Report) -> str:
    return REPORTERS["json"](msgspec.structs.replace(report, seconds=0.0, graded_at=""))


def test_a_right_submission_is_right_every_time(bench, grader, tmp_path):
    found = submitted(bench, tmp_path, bench.reference.files[bench.exercise.module])
    reports = [grader.grade(bench.exercise, found) for _ in range(RUNS)]
    assert {(report.score, report.verdict) for report in reports} == {(100, Verdict.PASSED)}
    assert len({timeless(report) for report in reports}) == 1


def test_a_wrong_submission_gets_the_same_report_every_time(bench, grader, tmp_path):
    edits = (" / q.shape[-1] ** 0.5", ""), ("return x * self.weight", "return x * self.wait")
    found = submitted(bench, tmp_path, changed(bench, *edits).files[bench.exercise.module])
    reports = {timeless(grader.grade(bench.exercise, found)) for _ in range(RUNS)}
    assert len(reports) == 1


@pytest.mark.usefixtures("busy")
def test_a_busy_machine_costs_no_points(bench, grader, tmp_path):
    found = submitted(bench, tmp_path, bench.reference.files[bench.exercise.module])
    assert {grader.grade(bench.exercise, found).score for _ in range(RUNS)} == {100}
