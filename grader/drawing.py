"""Hypothesis at work: it draws the cases everyone is judged on, and looks for the smallest case that fails."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import hypothesis
import hypothesis.strategies as st
from hypothesis.internal.conjecture import providers

from grader.cases import SEEDS, Case, ChoiceVariable, IndexVariable, Quantifier

# Hypothesis mixes constants from the source of every local module into what it draws. The cases would depend on what
# is imported, and on whether the grader is installed or lies in a checkout; and to look for them takes its time.
providers._get_local_constants = lambda: providers._local_constants  # type: ignore[attr-defined,unused-ignore]

SETTINGS = hypothesis.settings(
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(hypothesis.HealthCheck),
    print_blob=False,
    report_multiple_bugs=False,
)


def draw(quantifier: Quantifier, count: int) -> list[Case]:
    """The cases everyone is judged on: the simplest first, every choice and both ends of an index among them."""
    choices = [v for v in quantifier.variables.values() if isinstance(v, ChoiceVariable)]
    longest = max((len(choice.options) for choice in choices), default=0)
    cases: list[Case] = []

    @hypothesis.settings(SETTINGS, max_examples=max(count, longest), phases=[hypothesis.Phase.generate])
    @hypothesis.given(_strict(quantifier))
    def collect(case: Case) -> None:
        cases.append(case)

    collect()
    return [_covering(quantifier, index, case) for index, case in enumerate(cases)]


def _covering(quantifier: Quantifier, index: int, case: Case) -> Case:
    plain = dict(case.plain)
    turn = index
    for name, variable in quantifier.variables.items():
        if isinstance(variable, ChoiceVariable):
            plain[name] = variable.options[turn % len(variable.options)]
            turn += index // len(variable.options)  # two choices of the same length must not go in step
        elif isinstance(variable, IndexVariable) and index < 2:
            plain[name] = variable.options_for(case.sizes)[-index]
    return dataclasses.replace(case, plain=plain)


def smallest_failure(
    quantifier: Quantifier, fails: Callable[[Case], bool], known: Case, relaxed: bool, budget: int
) -> Case:
    """The smallest failing case that Hypothesis finds and shrinks, `known` if there is none smaller.

    `fails` is asked at most `budget` times; with `relaxed` also about sizes that no one is judged on, such as 1, which
    read better once a failure is known. A submission that answers differently each time cannot confuse the search:
    every failure seen is kept here, whatever Hypothesis makes of it.
    """
    found = [known]
    if not quantifier.letters:  # nothing in it has a size
        return known
    left = iter(range(budget))

    @hypothesis.settings(SETTINGS, max_examples=budget, phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink])
    @hypothesis.given(_relaxed(quantifier) if relaxed else _strict(quantifier))
    def search(case: Case) -> None:
        if next(left, None) is None:
            raise _Spent
        if fails(case):
            found.append(case)
            raise _Found

    with contextlib.suppress(_Found, _Spent, hypothesis.errors.HypothesisException, BaseExceptionGroup):
        search()
    return min(found, key=lambda case: case.weight)


class _Found(Exception):
    """A failing case, which Hypothesis goes on to shrink."""


class _Spent(BaseException):
    """The budget is used up. No `Exception`, which Hypothesis would take for one more failure."""


@st.composite
def _strict(draw: st.DrawFn, quantifier: Quantifier) -> Case:
    sizes: dict[str, int] = {}
    for letter in quantifier.letters:
        sizes[letter] = draw(st.sampled_from(quantifier.sizes_of(letter, sizes)))
    hypothesis.assume(quantifier.all_differ(sizes))
    return _drawn(draw, quantifier, sizes)


@st.composite
def _relaxed(draw: st.DrawFn, quantifier: Quantifier) -> Case:
    sizes = {letter: draw(st.sampled_from(quantifier.relaxed_sizes_of(letter))) for letter in quantifier.letters}
    return _drawn(draw, quantifier, sizes)


def _drawn(draw: st.DrawFn, quantifier: Quantifier, sizes: dict[str, int]) -> Case:
    options = {name: variable.options_for(sizes) for name, variable in quantifier.variables.items()}
    plain = {name: draw(_one_of(some)) for name, some in options.items() if some is not None}
    return Case(sizes, draw(_one_of(SEEDS)), plain)


def _one_of(options: Sequence[Any]) -> st.SearchStrategy[Any]:
    return st.integers(options[0], options[-1]) if isinstance(options, range) else st.sampled_from(options)
