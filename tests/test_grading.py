"""Grading: scores, the verdict on the whole, and what is said of a submission that cannot be read."""

from fractions import Fraction

import hypothesis
import hypothesis.strategies as st
import pytest

from grader.exercises import Course
from grader.grading import Grader, outline, overall, scored
from grader.results import PropertyResult, Verdict
from grader.submissions import read_submission
from tests.engine import TINY, changed, tiny_bench

verdicts = st.sampled_from(list(Verdict))


def results(pairs):
    return [
        PropertyResult(f"p{i}", verdict, points if verdict is Verdict.PASSED else 0, points, "")
        for i, (verdict, points) in enumerate(pairs)
    ]


@hypothesis.settings(derandomize=True, database=None, deadline=None)
@hypothesis.given(st.lists(st.tuples(verdicts, st.integers(1, 50)), min_size=1))
def test_only_what_passed_gives_points(pairs):
    score, max_score = scored(results(pairs))
    passed = sum(points for verdict, points in pairs if verdict is Verdict.PASSED)
    unknown = sum(points for verdict, points in pairs if verdict in (Verdict.NOT_RUN, Verdict.GRADER_ERROR))
    assert (score > 0) == (passed > 0)
    assert (score == max_score) == (passed + unknown == sum(points for _, points in pairs))


def test_points_of_a_missing_device_are_shared_out():
    rows = results([(Verdict.PASSED, 45), (Verdict.FAILED, 45), (Verdict.NOT_RUN, 10)])
    assert scored(rows, shared={"p2"}) == (50.0, 100.0)
    assert scored(rows) == (45.0, 90.0)


def test_an_error_of_the_grader_costs_no_points():
    rows = results([(Verdict.PASSED, 45), (Verdict.FAILED, 45), (Verdict.GRADER_ERROR, 10)])
    assert scored(rows) == (50.0, 100.0)
    assert overall(rows) is Verdict.GRADER_ERROR


def test_points_are_rounded_once():
    rows = results([(Verdict.PASSED, 31), (Verdict.FAILED, 62), (Verdict.NOT_RUN, 7)])
    assert scored(rows, shared={"p2"}) == (float(round(Fraction(100 * 31, 93), 2)), 100.0)


def test_the_verdict_on_the_whole_is_the_first_cause():
    rows = results([(Verdict.PASSED, 1), (Verdict.SKIPPED, 1), (Verdict.TIMEOUT, 1), (Verdict.FAILED, 1)])
    assert overall(rows) is Verdict.TIMEOUT
    assert overall(results([(Verdict.PASSED, 1), (Verdict.NOT_RUN, 1)])) is Verdict.PASSED


def test_an_outline_is_read_without_running_anything():
    exercise = tiny_bench().exercise
    source = (exercise.folder / "properties.py").read_text(encoding="utf-8")
    bench = tiny_bench()
    assert list(outline(source)) == [(p.name, p.points, p.statement) for p in bench.properties]


@pytest.fixture(scope="module")
def bench():
    return tiny_bench()


@pytest.fixture(scope="module")
def grader():
    with Grader(Course.open(TINY)) as made:
        yield made


def submitted(bench, tmp_path, text):
    (tmp_path / bench.exercise.module).write_text(text, encoding="utf-8")
    return read_submission(bench.exercise, tmp_path)


def test_a_right_submission_scores_100(bench, grader, tmp_path):
    report = grader.grade(bench.exercise, submitted(bench, tmp_path, bench.reference.files[bench.exercise.module]))
    assert (report.score, report.max_score, report.verdict) == (100, 100, Verdict.PASSED)
    assert report.mistakes == []
    assert report.isolation is not None


def test_a_wrong_one_is_named(bench, grader, tmp_path):
    source = changed(bench, (" / q.shape[-1] ** 0.5", "")).files[bench.exercise.module]
    report = grader.grade(bench.exercise, submitted(bench, tmp_path, source))
    assert report.score == 80
    assert report.mistakes == ["forgets_to_scale"]
    assert report.diagnoses[0].says == "forgets to scale"


def test_the_stub_scores_0(bench, grader, tmp_path):
    report = grader.grade(bench.exercise, submitted(bench, tmp_path, bench.exercise.stub_from_reference()))
    assert (report.score, report.max_score, report.verdict) == (0, 100, Verdict.NOT_IMPLEMENTED)


def test_a_crash_costs_one_property_and_the_rest_goes_on(bench, grader, tmp_path):
    source = changed(bench, ("return x * self.weight", "import os; os._exit(0)")).files[bench.exercise.module]
    report = grader.grade(bench.exercise, submitted(bench, tmp_path, source))
    found = {result.name: result.verdict for result in report.properties}
    assert found["scale_multiplies"] is found["scale_leaves_its_input"] is Verdict.EXITED
    assert report.score == 60


def test_what_is_printed_stands_under_its_property(bench, grader, tmp_path):
    source = changed(bench, ("        return x * self.weight", "        print('你好'); return x * self.weight"))
    report = grader.grade(bench.exercise, submitted(bench, tmp_path, source.files[bench.exercise.module]))
    printed = {result.name: result.prints for result in report.properties}
    assert "你好" in printed["scale_multiplies"]
    assert printed["scores_have_the_value"] == ""


def test_an_empty_file_is_graded_without_a_worker(bench, grader, tmp_path):
    report = grader.grade(bench.exercise, submitted(bench, tmp_path, ""))
    assert report.score == 0
    assert report.max_score == 100
    assert len(report.properties) == 5
    assert report.message


def test_selected_properties_make_the_maximum(bench, grader, tmp_path):
    found = submitted(bench, tmp_path, bench.reference.files[bench.exercise.module])
    report = grader.grade(bench.exercise, found, select="odd")
    assert (report.score, report.max_score) == (20, 20)
