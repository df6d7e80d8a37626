"""Claims: what a property says of an answer. A claim that does not hold raises a `Violation` with the worst element.

A violation carries a message key and plain parameters, so that it can be told in either language, and the tensors
that show it. Comparisons are made in float64 on tensors that the judge built itself from the bytes of the answer.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from grader.subject import Effects, Gradients, SubmissionRaised
from grader.wire import Opaque

TOLERANCE = 1e-4
VACUOUS = 10.0  # the reference must be this many times larger than the tolerance, or zeros would pass


class Violation(Exception):
    """A claim that does not hold: `key` and `params` tell it, `got`, `want` and `worst` show it.

    `raised` is what the submission raised instead of what it should.
    """

    def __init__(
        self,
        key: str,
        params: dict[str, Any] | None = None,
        *,
        got: torch.Tensor | None = None,
        want: torch.Tensor | None = None,
        worst: tuple[int, ...] | None = None,
        what: str = "",
        raised: SubmissionRaised | None = None,
    ) -> None:
        super().__init__(key)
        self.key = key
        self.params = params or {}
        self.got = got
        self.want = want
        self.worst = worst
        self.what = what
        self.raised = raised


class VacuousClaim(Exception):
    """The reference's own answer is too small for its tolerance: the course is wrong, not the submission."""


@dataclasses.dataclass(frozen=True)
class Measurement:
    """How far a numeric claim was from its limit: `value` as a share of what was `allowed` (or, for `kind`
    "effect", as a multiple of what was required)."""

    kind: str
    value: float


_ledger: contextvars.ContextVar[list[Measurement] | None] = contextvars.ContextVar("ledger", default=None)


@contextlib.contextmanager
def measured() -> Iterator[list[Measurement]]:
    """Collect the measurements of every numeric claim made inside."""
    ledger: list[Measurement] = []
    token = _ledger.set(ledger)
    try:
        yield ledger
    finally:
        _ledger.reset(token)


def _note(kind: str, value: float) -> None:
    ledger = _ledger.get()
    if ledger is not None:
        ledger.append(Measurement(kind, value))


def tensor(got: Any, what: str = "") -> torch.Tensor:
    """The answer as a tensor: numbers become scalars; anything else is a violation that names its type."""
    if isinstance(got, torch.Tensor):
        return got
    if isinstance(got, (bool, int, float)):
        return torch.tensor(got, dtype=torch.float64 if isinstance(got, float) else None)
    raise Violation("kind.none" if got is None else "kind.other", {"type": type_name(got)}, what=what)


def type_name(got: Any) -> str:
    if isinstance(got, Opaque):
        return got.type
    return "None" if got is None else type(got).__name__


def shape(got: Any, *dims: Any, what: str = "") -> None:
    """The answer is a tensor of this shape (sizes as arguments, or one sequence of them)."""
    found = list(tensor(got, what).shape)
    wanted = list(dims[0]) if len(dims) == 1 and isinstance(dims[0], Sequence) else list(dims)
    if found != wanted:
        raise Violation("shape", {"got": str(found), "want": str(wanted)}, what=what)


def dtype(got: Any, wanted: torch.dtype, what: str = "") -> None:
    """The answer has this dtype."""
    found = tensor(got, what).dtype
    if found != wanted:
        raise Violation("dtype", {"got": str(found), "want": str(wanted)}, what=what)


def finite(got: Any, what: str = "") -> None:
    """No element is NaN or infinite."""
    values = tensor(got, what)
    bad = ~torch.isfinite(values)
    if bool(bad.any()):
        worst = _first(bad)
        raise Violation("finite", _at(worst, got=_number(values[worst])), got=values, worst=worst, what=what)


def divergence(share: torch.Tensor, p: torch.Tensor | float) -> torch.Tensor:
    """How odd a share of draws is that each come with chance `p`, 0 < p < 1: the binomial relative entropy.

    Times the number of draws it is -log of the Chernoff bound on the chance of such a share.
    """
    came: torch.Tensor = torch.special.xlogy(share, share / p)
    stayed_away: torch.Tensor = torch.special.xlogy(1 - share, (1 - share) / (1 - p))
    return came + stayed_away


def equal(got: Any, want: Any, tol: float = TOLERANCE, what: str = "", zero: bool = False) -> None:
    """Every element is within `tol * (1 + max|want|)` of what is wanted.

    NaN or an infinity where a finite number is wanted never passes. What is wanted must be far larger than the
    tolerance (else zeros would pass), unless `zero` says that small values are meant.
    """
    expected = tensor(want).detach()
    if got is None:
        raise Violation("gradient.none" if what.endswith(".grad") else "kind.none", {"type": "None"}, what=what)
    values = tensor(got, what)
    if values.is_complex():
        raise Violation("dtype", {"got": str(values.dtype), "want": str(expected.dtype)}, what=what)
    shape(values, list(expected.shape), what=what)
    exact, close = expected.double(), values.double()
    _same_where_not_finite(close, exact, values, what)
    settled = torch.isfinite(exact)
    if not bool(settled.any()):
        return
    largest = float(exact[settled].abs().max())
    allowed = tol * (1 + largest)
    if not zero and largest < VACUOUS * tol:
        raise VacuousClaim(f"the largest wanted value is {largest:g}, the tolerance {tol:g}")
    difference = torch.where(settled, (close - exact).abs(), torch.zeros_like(exact))
    error = float(difference.max())
    _note("error", error / allowed)
    if error > allowed:
        worst = _first(difference == difference.max())
        raise Violation(
            "equal",
            _at(worst, allowed=f"{allowed:.1g}", **_pair(float(close[worst]), float(exact[worst]))),
            got=values,
            want=expected,
            worst=worst,
            what=what,
        )


def _same_where_not_finite(close: torch.Tensor, exact: torch.Tensor, values: torch.Tensor, what: str) -> None:
    same = torch.isfinite(close) | (close == exact) | (torch.isnan(close) & torch.isnan(exact))
    same &= torch.isfinite(exact) | ~torch.isfinite(close)
    if not bool(same.all()):
        worst = _first(~same)
        params = _at(worst, got=_number(close[worst]), want=_number(exact[worst]))
        _note("error", math.inf)
        raise Violation("equal.finite", params, got=values, want=exact, worst=worst, what=what)


def exactly(got: Any, want: Any, what: str = "") -> None:
    """Whole numbers, truth values and exact zeros: same shape, and every element the same to the bit."""
    expected = tensor(want)
    if got is None:
        raise Violation("gradient.none" if what.endswith(".grad") else "kind.none", {"type": "None"}, what=what)
    values = tensor(got, what)
    shape(values, list(expected.shape), what=what)
    if (values.dtype == torch.bool) != (expected.dtype == torch.bool):
        raise Violation("dtype", {"got": str(values.dtype), "want": str(expected.dtype)}, what=what)
    same = (values == expected) | ((values != values) & (expected != expected))
    if not bool(same.all()):
        worst = _first(~same)
        params = _at(worst, **_pair(values[worst].item(), expected[worst].item()))
        raise Violation("exactly", params, got=values, want=expected, worst=worst, what=what)


def depends(first: Any, second: Any, by: float = 1e-3, what: str = "") -> None:
    """The two answers differ by more than `by` somewhere: what was changed between them has an influence."""
    one, other = tensor(first, what).double(), tensor(second, what).double()
    shape(other, list(one.shape), what=what)
    finite(one, what)
    finite(other, what)
    effect = float((one - other).abs().max()) if one.numel() else 0.0
    _note("effect", effect / by)
    if effect <= by:
        raise Violation("depends", {"got": f"{effect:.1g}", "by": f"{by:g}"}, got=tensor(second), what=what)


def sums_to_one(weights: Any, axis: int, tol: float = 1e-5, what: str = "") -> None:
    """The weights sum to 1 along `axis`."""
    values = tensor(weights, what)
    totals = values.double().sum(axis)
    equal(totals, torch.ones_like(totals), tol=tol, what=(what or "weights") + f".sum({axis})")


def holds(condition: Any, key: str, **params: Any) -> None:
    """Anything else: `key` names a message of the exercise's own."""
    if not bool(condition):
        raise Violation(key, params)


def count(got: Any, want: int, what: str = "") -> None:
    """Two whole numbers are the same."""
    if isinstance(got, bool) or not isinstance(got, int):
        raise Violation("kind.int", {"type": type_name(got)}, what=what)
    if got != want:
        raise Violation("count", {"got": f"{got:,}", "want": f"{want:,}", "difference": f"{got - want:+,}"}, what=what)


def raises(
    function: Any,
    *args: Any,
    error: type[Exception] | tuple[type[Exception], ...],
    mentions: Sequence[Any] = (),
    **kwargs: Any,
) -> None:
    """The call raises `error`, and the message contains one of the values in `mentions`."""
    wanted = error if isinstance(error, tuple) else (error,)
    names = " / ".join(kind.__name__ for kind in wanted)
    try:
        value = function(*args, **kwargs)
    except SubmissionRaised as raised:
        if raised.not_implemented:
            raise
        if not any(kind.__name__ in raised.bases for kind in wanted):
            params = {"want": names, "got": raised.type, "message": raised.message}
            raise Violation("raises.other", params, raised=raised) from None
        if mentions and not any(str(value) in raised.message for value in mentions):
            values = " / ".join(str(value) for value in mentions)
            params = {"value": values, "got": raised.type, "message": raised.message}
            raise Violation("raises.mention", params, raised=raised) from None
        return
    raise Violation("raises.silent", {"want": names, "got": brief(value)})


def inputs_unchanged(function: Any, *args: Any, **kwargs: Any) -> Effects:
    """The call (with `grad=False` one that records no gradient) leaves the tensors it was given as they were; its
    effects are handed back."""
    effects: Effects = function.effects(*args, **kwargs)
    given = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)]
    for before, after, wants in zip(given, effects.inputs, effects.requires_grad, strict=True):
        if not isinstance(after, torch.Tensor) or after.shape != before.shape:
            raise Violation("inputs.shape", {"want": str(list(before.shape))})
        exactly_as_given(after, before)
        if wants != before.requires_grad:
            raise Violation("inputs.requires_grad", {"got": str(wants), "want": str(before.requires_grad)})
    return effects


def exactly_as_given(after: torch.Tensor, before: torch.Tensor) -> None:
    same = (after == before) | ((after != after) & (before != before))
    if not bool(same.all()):
        worst = _first(~same)
        params = _at(worst, **_pair(after[worst].item(), before[worst].item()))
        raise Violation("inputs.changed", params, got=after, want=before, worst=worst)


def refilled(function: Any, *args: Any, earlier: Sequence[torch.Tensor], grad: bool = True, **kwargs: Any) -> Any:
    """A call leaves the answer of the call before alone, in which the same tensors held the numbers of `earlier`; its
    value is handed back."""
    second = function.refilled(*args, earlier=earlier, grad=grad, **kwargs)
    if not second.kept:
        raise Violation("earlier_answer")
    return second.value


def avoids(effects: Effects, forbidden: Sequence[str]) -> None:
    """None of the operations that ran is forbidden; a name ending in * stands for all that begin so."""
    for op in effects.ops:
        for rule in forbidden:
            if op == rule or (rule.endswith("*") and op.startswith(rule[:-1])):
                raise Violation("forbidden", {"op": op})


def gradients(got: Gradients, want: Gradients, tol: float = TOLERANCE, zero: Sequence[str] = ()) -> None:
    """All gradients agree: those of the inputs in order, those of the parameters by name.

    `zero` names parameters whose gradient is mathematically zero.
    """
    for index, expected in enumerate(want.inputs):
        if expected is not None:
            mine = got.inputs[index] if index < len(got.inputs) else None
            equal(mine, expected, tol, what=f"input[{index}].grad")
    for name, expected in want.parameters.items():
        if expected is not None:
            equal(got.parameters.get(name), expected, tol, what=f"{name}.grad", zero=name in zero)


def brief(value: Any) -> str:
    """A value in a few words."""
    if isinstance(value, torch.Tensor):
        if value.numel() <= 4:
            return f"tensor({value.tolist()})"
        return f"a tensor of shape {list(value.shape)}"
    text = type_name(value) if isinstance(value, Opaque) else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _first(mask: torch.Tensor) -> tuple[int, ...]:
    return tuple(int(i) for i in mask.nonzero()[0])


def _at(worst: tuple[int, ...], **params: Any) -> dict[str, Any]:
    return {"at": "[" + ", ".join(map(str, worst)) + "]" if worst else "", **params}


def _number(value: torch.Tensor) -> str:
    return f"{float(value):.6g}"


def _pair(got: Any, want: Any) -> dict[str, str]:
    """Two numbers with as many digits as it takes to tell them apart, at least four."""
    if isinstance(got, float) or isinstance(want, float):
        for digits in range(4, 18):
            one, other = f"{got:.{digits}g}", f"{want:.{digits}g}"
            if one != other:
                return {"got": one, "want": other}
    return {"got": str(got), "want": str(want)}
