"""The judge: verdicts, smallest cases, and what is never charged."""

import contextlib
import dataclasses

import pytest

from grader import wire
from grader.isolation import WorkerEnded
from grader.judge import Judge, LocalWorker, Session
from grader.properties import Float, Size, equal, prop
from grader.results import Verdict
from tests.engine import changed, judged, tiny_bench


@pytest.fixture(scope="module")
def bench():
    return tiny_bench()


def test_the_reference_passes(bench):
    results = judged(bench, bench.reference)
    assert {result.verdict for result in results.values()} == {Verdict.PASSED}
    assert sum(result.points for result in results.values()) == 100
    assert all(result.message == "" and result.counterexample is None for result in results.values())


def test_a_failure_is_shown_in_its_smallest_case(bench):
    result = judged(bench, changed(bench, (" / q.shape[-1] ** 0.5", "")))["scores_have_the_value"]
    assert result.verdict is Verdict.FAILED
    assert result.points == 0
    assert result.counterexample.sizes == {"B": 1, "T": 1, "D": 2, "S": 1}
    assert [view.role for view in result.counterexample.tensors] == ["input", "input", "got", "want"]
    assert "scores(q, k)[0, 0, 0] is" in result.message
    assert result.look == "Which size stands under the root?"


def test_the_code_of_a_counterexample_reproduces_it(bench, tmp_path, monkeypatch, capsys):
    source = changed(bench, (" / q.shape[-1] ** 0.5", ""))
    result = judged(bench, source)["scores_have_the_value"]
    (tmp_path / "ex01_scores.py").write_text(source.files["ex01_scores.py"], encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    exec(compile(result.counterexample.code, "counterexample", "exec"), {})
    got = next(view for view in result.counterexample.tensors if view.role == "got")
    assert got.values[0][0][0] in capsys.readouterr().out.replace("tensor", "")


def test_what_raises_is_shown_at_its_line(bench):
    result = judged(bench, changed(bench, ("return x * self.weight", "return x * self.wait")))["scale_multiplies"]
    assert result.verdict is Verdict.RAISED
    assert "AttributeError" in result.message
    assert "self.wait" in result.location.lines[result.location.line - result.location.first]


def test_an_answer_that_cannot_be_used_is_told_by_its_kind(bench):
    source = changed(bench, ("return q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5", "return None"))
    result = judged(bench, source)["scores_have_the_shape"]
    assert result.verdict is Verdict.FAILED
    assert "None" in result.message
    assert "return" in result.message


def test_a_property_waits_for_those_it_needs(bench):
    source = changed(bench, ("return q @ k.transpose(-2, -1) /", "return q @ q.transpose(-2, -1) /"))
    results = judged(bench, source)
    assert results["scores_have_the_shape"].verdict is Verdict.FAILED
    assert results["scores_have_the_value"].verdict is Verdict.SKIPPED
    assert "scores_have_the_shape" in results["scores_have_the_value"].message


def test_what_follows_is_asked_only_where_that_fails_from_which_it_follows(bench):
    asked = []

    @prop(points=0, follows_from=["scores_have_the_value"])
    def halves_of_queries_give_halves(scores, q: Float["B T D"], k: Float["B S D"]):
        """Half the queries give half the scores."""
        asked.append(q.shape)
        equal(scores(q / 2, k), scores(q, k) / 2)

    def verdicts(source):
        judge = Judge(Session(LocalWorker, source), bench.exact, bench.plain)
        return [judge.judge(p).verdict for p in (*bench.properties, halves_of_queries_give_halves)]

    assert set(verdicts(bench.reference)) == {Verdict.PASSED}
    assert not asked
    squared = changed(bench, ("return q @ k.transpose(-2, -1) /", "return q.square() @ k.transpose(-2, -1) /"))
    assert verdicts(squared)[-1] is Verdict.FAILED
    assert asked
    asked.clear()
    longer = changed(bench, (" / q.shape[-1] ** 0.5", ""))
    assert verdicts(longer)[-1] is Verdict.PASSED
    assert len(asked) == len(halves_of_queries_give_halves.cases())


def test_a_missing_name_is_said_with_what_is_close(bench):
    results = judged(bench, changed(bench, ("class Scale(nn.Module)", "class Scales(nn.Module)")))
    assert results["scale_multiplies"].verdict is Verdict.MISSING
    assert "`Scales`" in results["scale_multiplies"].message
    assert results["scores_have_the_value"].verdict is Verdict.PASSED


def test_an_import_that_raises_is_the_verdict_of_every_property(bench):
    results = judged(bench, changed(bench, ("import torch\nfrom", "import no_such_thing\nimport torch\nfrom")))
    assert {result.verdict for result in results.values()} == {Verdict.IMPORT_ERROR}
    assert all("no_such_thing" in result.message for result in results.values())
    assert results["scale_multiplies"].location.line > 1


def test_sys_exit_and_recursion_are_caught(bench):
    exits = changed(bench, ("return x * self.weight", "raise SystemExit(0)"))
    assert judged(bench, exits)["scale_multiplies"].verdict is Verdict.RAISED
    endless = changed(bench, ("return x * self.weight", "return self.forward(x)"))
    assert "RecursionError" in judged(bench, endless)["scale_multiplies"].message


def test_pytest_selects(bench):
    results = judged(bench, bench.reference, "en", "-k", "odd or shape")
    assert set(results) == {"scores_have_the_shape", "halves_refuse_an_odd_width"}


def test_pytest_writes_junit(bench, tmp_path):
    judged(bench, bench.reference, "en", f"--junitxml={tmp_path / 'out.xml'}")
    assert (tmp_path / "out.xml").read_text(encoding="utf-8").count("<testcase") == 5


def test_a_property_that_the_reference_fails_is_never_charged(bench):
    @prop(points=100)
    def scores_are_doubled(scores, reference, q: Float["B T D"], k: Float["B S D"]):
        """A wrong property."""
        equal(scores(q, k), 2 * reference.scores(q, k))

    result = _judge_alone(bench, scores_are_doubled)
    assert result.verdict is Verdict.GRADER_ERROR


def test_a_property_that_breaks_is_never_charged(bench):
    @prop(points=100)
    def breaks(scores, q: Float["B T D"], D: Size["D"]):
        """A broken property."""
        raise KeyError("oops")

    result = _judge_alone(bench, breaks)
    assert result.verdict is Verdict.GRADER_ERROR
    assert "KeyError" in result.message


def _judge_alone(bench, property):
    alone = tiny_bench()
    alone.properties = [dataclasses.replace(property)]
    return judged(alone, bench.reference)[property.name]


def test_chinese_is_a_first_class_language(bench):
    result = judged(bench, changed(bench, (" / q.shape[-1] ** 0.5", "")), "zh")["scores_have_the_value"]
    assert result.statement == "分数等于点积除以宽度的平方根。"
    assert "应为" in result.message
    assert result.look.startswith("根号")


class Crowd:
    """The turns of a machine on which somebody else is at work, but for those who ask to be alone."""

    def __init__(self):
        self.is_alone = False

    def together(self):
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def alone(self):
        self.is_alone = True
        yield
        self.is_alone = False

    def close(self):
        pass


class Hampered(LocalWorker):
    """A worker whose first `times` questions of one kind end like this, unless it is alone."""

    def __init__(self, crowd, kind, times, verdict=Verdict.TIMEOUT):
        super().__init__()
        self.crowd, self.kind, self.times, self.verdict = crowd, kind, times, verdict

    def ask(self, request):
        if isinstance(request, self.kind) and not self.crowd.is_alone and next(self.times, None) is not None:
            raise WorkerEnded(self.verdict, {"limit": 1, "clock": "wall", "seconds": 1.0, "cpu_seconds": 0.1})
        return super().ask(request)


@pytest.mark.parametrize("verdict", [Verdict.TIMEOUT, Verdict.GRADER_ERROR])  # a zygote was killed, and it with it
@pytest.mark.parametrize(("kind", "times"), [(wire.Load, 1), (wire.Call, 7)])
def test_what_the_machine_may_have_ended_is_not_charged(bench, kind, times, verdict):
    crowd, left = Crowd(), iter(range(times))
    session = Session(lambda: Hampered(crowd, kind, left, verdict), bench.reference)
    judge = Judge(session, bench.exact, bench.plain, turns=crowd)
    assert {judge.judge(p).verdict for p in bench.properties} == {Verdict.PASSED}
    assert next(left, None) is None


def test_an_import_that_never_ends_is_tried_twice(bench):
    crowd, started = Crowd(), []

    def start():
        started.append(Hampered(Crowd(), wire.Load, iter(range(100))))
        return started[-1]

    judge = Judge(Session(start, bench.reference), bench.exact, bench.plain, turns=crowd)
    assert {judge.judge(p).verdict for p in bench.properties} == {Verdict.TIMEOUT}
    assert len(started) == 2


def test_a_true_time_limit_does_not_make_one_in_company_count(bench):
    """One property hangs, and then an import is slow once, since others are at work."""
    crowd, hung = Crowd(), iter(range(2))

    class Hanging(LocalWorker):
        def ask(self, request):
            if isinstance(request, wire.Call) and request.name == "scores" and next(hung, None) is not None:
                raise WorkerEnded(Verdict.TIMEOUT, {"limit": 1, "clock": "wall"})
            if isinstance(request, wire.Load) and not crowd.is_alone and next(slow, None) is not None:
                raise WorkerEnded(Verdict.TIMEOUT, {"limit": 1, "clock": "wall"})
            return super().ask(request)

    slow = iter(())
    judge = Judge(Session(Hanging, bench.reference), bench.exact, bench.plain, turns=crowd)
    verdicts = []
    for p in bench.properties:
        verdicts.append(judge.judge(p).verdict)
        slow = iter(range(1))
    assert verdicts[0] is Verdict.TIMEOUT
    assert set(verdicts[2:]) == {Verdict.PASSED}


def test_a_submission_that_always_hangs_is_given_up(bench):
    asked = []

    class Hanging(LocalWorker):
        def ask(self, request):
            if isinstance(request, wire.Call):
                asked.append(request)
                raise WorkerEnded(Verdict.TIMEOUT, {"limit": 1, "clock": "wall"})
            return super().ask(request)

    judge = Judge(Session(Hanging, bench.reference), bench.exact, bench.plain, turns=Crowd())
    verdicts = [judge.judge(p).verdict for p in bench.properties]
    assert set(verdicts) == {Verdict.TIMEOUT, Verdict.SKIPPED}
    assert len(asked) <= 4


def test_an_answer_to_another_question_than_to_load_is_tampering(bench):
    class Forging(LocalWorker):
        def ask(self, request):
            return wire.Answer(value=1) if isinstance(request, wire.Load) else super().ask(request)

    judge = Judge(Session(Forging, bench.reference), bench.exact, bench.plain)
    assert {judge.judge(p).verdict for p in bench.properties} == {Verdict.TAMPERED}


@prop(points=50)
def first_claim_and_a_broken_one(scores, q: Float["B T D"], k: Float["B S D"]):
    """The first claim is right; the second holds for nobody."""
    equal(scores(q, k), (q @ k.mT) / q.shape[-1] ** 0.5)
    equal(scores(q, k), q @ k.mT + 1)


def test_what_the_course_breaks_after_the_claim_that_failed_is_not_looked_at(bench):
    wrong = changed(bench, (" / q.shape[-1] ** 0.5", ""))
    for source, verdict in ((wrong, Verdict.FAILED), (bench.reference, Verdict.GRADER_ERROR)):
        judge = Judge(Session(LocalWorker, source), bench.exact, bench.plain)
        assert judge.judge(first_claim_and_a_broken_one).verdict is verdict
