"""An outcome in words and pictures: `Outcome` -> `PropertyResult`, in one language.

Says what was expected, what came, and shows the smallest case: its tensors, and the code that reproduces it.
"""

from __future__ import annotations

import ast
import difflib
import string
from collections.abc import Mapping
from typing import Any

import torch

from grader import wire
from grader.cases import ChoiceVariable, IndexVariable
from grader.claims import Violation
from grader.exercises import Exercise, defined_names
from grader.isolation import WorkerEnded
from grader.judge import Failure, Outcome, Source
from grader.messages import has, text
from grader.reproduction import Script
from grader.results import Counterexample, Location, PropertyResult, TensorView, Verdict
from grader.subject import SubmissionRaised
from grader.submissions import Submission

SHOWN_MAX = 400  # elements of a tensor that a report shows
UNTOLD = (Verdict.PASSED, Verdict.SKIPPED, Verdict.NOT_RUN, Verdict.NOT_IMPLEMENTED)
BUSY = 0.1  # the share of its time that a worker computes which does not wait for something
LINES_AROUND = 2  # of the learner's code, around the line that raised


class Explainer:
    """Puts the outcomes of one submission of one exercise into `lang`."""

    def __init__(self, exercise: Exercise, source: Source | Submission, lang: str) -> None:
        self._exercise = exercise
        self._source = source
        self._lang = lang
        self._written: tuple[Failure, Script] | None = None

    def result(self, outcome: Outcome) -> PropertyResult:
        """What a report says of one property."""
        property = outcome.property
        failed = outcome.verdict not in UNTOLD
        look = self._exercise.look(property.name, self._lang) if outcome.verdict is Verdict.FAILED else ""
        failure = outcome.failure
        return PropertyResult(
            name=property.name,
            verdict=outcome.verdict,
            points=property.points if outcome.verdict is Verdict.PASSED else 0,
            max_points=property.points,
            statement=self._exercise.statement(property.name, self._lang) or property.statement,
            message=self._message(outcome),
            look=look,
            counterexample=self._counterexample(outcome, failure) if failed and failure is not None else None,
            location=self._location(failure.error) if failed and failure is not None else None,
            prints=outcome.prints,
            prints_cut=outcome.prints_cut,
        )

    def _defined(self) -> tuple[str, ...]:
        return defined_names(ast.parse(self._source.files[self._source.main]))

    # ---- the sentence

    def _text(self, key: str, **params: Any) -> str:
        return text(f"verdict.{key}", self._lang, **params)

    def _message(self, outcome: Outcome) -> str:
        if outcome.verdict is Verdict.PASSED:
            return ""
        if outcome.verdict is Verdict.SKIPPED:
            return self._text("skipped", name=outcome.missing)
        if outcome.verdict is Verdict.NOT_RUN:
            return self._text("not_run.device" if outcome.missing else "not_run.solutions")
        if outcome.verdict is Verdict.MISSING:
            close = difflib.get_close_matches(outcome.missing, self._defined(), n=1)
            if close:
                return self._text("missing.close", name=outcome.missing, close=close[0])
            return self._text("missing", name=outcome.missing)
        return self._of_failure(outcome, outcome.failure) if outcome.failure else ""

    def _of_failure(self, outcome: Outcome, failure: Failure) -> str:
        error = failure.error
        if outcome.verdict is Verdict.NOT_IMPLEMENTED and failure.exchanges:
            asked = failure.exchanges[-1].request
            return self._text("not_implemented", name=getattr(asked, "name", None) or "forward")
        call = self._last_call(outcome, failure)
        if outcome.verdict is Verdict.GRADER_ERROR:
            return self._text("grader_error", error=f"{type(error).__name__}: {error}")
        if isinstance(error, Violation):
            return self._of_violation(error, call)
        if isinstance(error, SubmissionRaised):
            message = error.message.strip() or "-"
            if outcome.verdict is Verdict.OUT_OF_MEMORY:
                return self._text("ended", call=call, reason=text("ended.out_of_memory", self._lang))
            return self._text(outcome.verdict.value, call=call, type=error.type, message=message)
        if isinstance(error, WorkerEnded):
            reason = self._of_ending(error)
            return self._text("ended", call=call, reason=reason) if call else self._text("ended.import", reason=reason)
        if outcome.verdict is Verdict.TAMPERED:
            return self._text("tampered", call=call)
        return self._of_unusable(outcome, failure)

    def _of_ending(self, ended: WorkerEnded) -> str:
        detail = {name: _rounded(value) for name, value in ended.detail.items()}
        idle = ended.detail.get("cpu_seconds", 0) < BUSY * ended.detail.get("seconds", 0)
        ways = (
            f"{ended.verdict.value}.{ended.detail.get(name)}" for name in ("cause", "clock") if idle or name == "cause"
        )
        more = (f"{ended.verdict.value}.{name}" for name in ("signal", "code") if name in ended.detail)
        key = next((key for key in (*ways, *more) if has(f"ended.{key}")), ended.verdict.value)
        return text(f"ended.{key}", self._lang, **detail)

    def _of_violation(self, violation: Violation, call: str) -> str:
        what = _described(violation.what, call)
        params = {"at": "", **violation.params, "what": what}
        if has(f"claim.{violation.key}"):
            return text(f"claim.{violation.key}", self._lang, **params)
        return string.Formatter().vformat(self._exercise.message(violation.key, self._lang), (), params)

    def _of_unusable(self, outcome: Outcome, failure: Failure) -> str:
        """The property could not even work with the answer: say where it first differs in kind or shape."""
        script = self._script(outcome, failure)
        for mine, theirs in zip(failure.exchanges, failure.expected or (), strict=False):
            got, want = (getattr(exchange.reply, "value", None) for exchange in (mine, theirs))
            if _kind(got) != _kind(want):
                return self._text("unusable", call=script.call(mine), got=self._said(got), want=self._said(want))
        call = self._last_call(outcome, failure)
        return self._text("unusable.unclear", call=call, message=f"{type(failure.error).__name__}: {failure.error}")

    def _said(self, value: Any) -> str:
        if isinstance(value, torch.Tensor):
            return self._text("unusable.tensor", shape=str(list(value.shape)))
        if isinstance(value, list):
            return self._text("unusable.several", count=len(value))
        name = value.type if isinstance(value, wire.Opaque | wire.Handle) else type(value).__name__
        return self._text("unusable.value", type="None" if value is None else name)

    # ---- what shows it

    def _script(self, outcome: Outcome, failure: Failure) -> Script:
        """The failing case as code, written once for each failure."""
        if self._written is None or self._written[0] is not failure:
            named = outcome.property.quantifier.values(failure.case) if failure.case is not None else {}
            self._written = failure, Script(self._source.main, named, failure.exchanges)
        return self._written[1]

    def _last_call(self, outcome: Outcome, failure: Failure) -> str:
        script = self._script(outcome, failure)
        calls = [exchange for exchange in failure.exchanges if isinstance(exchange.request, wire.Call)]
        if calls:
            return script.call(calls[-1])
        return ", ".join(outcome.property.subjects) if failure.case is not None else ""

    def _counterexample(self, outcome: Outcome, failure: Failure) -> Counterexample | None:
        if failure.case is None or not failure.exchanges:
            return None
        quantifier, script = outcome.property.quantifier, self._script(outcome, failure)
        values = quantifier.values(failure.case)
        own = {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}
        inputs = _inputs(script, failure, own)
        tensors = [view(name, "input", value, axes=quantifier.axes_of(name)) for name, value in inputs.items()]
        tensors += _answers(failure.error, self._last_call(outcome, failure))
        comment = " ".join(self._of_failure(outcome, failure).split())
        code = f"{script.code}\n# {comment}" if script.code else ""
        choices = {name: _chosen(values[name]) for name in quantifier.names(ChoiceVariable)}
        indices = {name: values[name] for name in quantifier.names(IndexVariable)}
        shapes = [value.shape for value in own.values()]
        longer = any(value.shape not in shapes for value in inputs.values())  # the case's sizes would mislead
        return Counterexample(indices | ({} if longer else failure.case.sizes), tensors, code, choices)

    def _location(self, error: Exception) -> Location | None:
        raised = error.raised if isinstance(error, Violation) else error
        if not isinstance(raised, SubmissionRaised) or not raised.frames:
            return None
        frame = raised.frames[-1]
        lines = self._source.files.get(frame.file, "").splitlines()
        first = max(1, frame.line - LINES_AROUND)
        return Location(frame.file, frame.line, frame.function, first, lines[first - 1 : frame.line + LINES_AROUND])


def view(
    name: str, role: str, tensor: torch.Tensor, *, worst: list[int] | None = None, axes: list[str] | None = None
) -> TensorView:
    """A tensor as nested lists of short numbers; without values where it is too large to read."""
    values = _strings(tensor.tolist()) if tensor.numel() <= SHOWN_MAX else None
    dtype = str(tensor.dtype).removeprefix("torch.")
    return TensorView(name, role, dtype, list(tensor.shape), values, worst, axes)


def _inputs(script: Script, failure: Failure, own: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """What the last call was given, and of the case's own tensors those that were handed over as they are."""
    calls = [exchange for exchange in failure.exchanges if isinstance(exchange.request, wire.Call)]
    if not calls:
        return dict(own)
    return {name: own[name] for name in own if name in script.used()} | dict(script.inputs(calls[-1]))


def _answers(error: Exception, call: str) -> list[TensorView]:
    """What came and what was wanted, where a claim compared them."""
    if not isinstance(error, Violation) or error.got is None:
        return []
    what, worst = _described(error.what, call), list(error.worst) if error.worst else None
    compared = {"got": error.got, "want": error.want}
    return [view(what, role, tensor, worst=worst) for role, tensor in compared.items() if tensor is not None]


def _strings(value: Any) -> Any:
    if isinstance(value, list):
        return [_strings(item) for item in value]
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _described(what: str, call: str) -> str:
    """The answer a claim speaks of: its own words, or the call that gave it."""
    return what or call


def _rounded(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _chosen(value: Any) -> str:
    return value if isinstance(value, str) else str(value).removeprefix("torch.")


def _kind(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return ("tensor", *value.shape)
    if isinstance(value, list):
        return ["list", *(_kind(item) for item in value)]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "number"
    return value.type if isinstance(value, wire.Opaque) else type(value).__name__
