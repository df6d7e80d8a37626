"""What every reporter says in the same words: points, places, and what is wrong with a property."""

from __future__ import annotations

from grader.messages import text
from grader.results import Location, PropertyResult, Report, Verdict

QUIET = (Verdict.PASSED, Verdict.SKIPPED, Verdict.NOT_RUN)  # nothing to explain beyond the verdict itself


def number(value: float) -> str:
    """Points without needless zeros: 100, 62.5, 33.33."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def place(location: Location, lang: str) -> str:
    """Where in the submission, as a learner says it."""
    named = location.function and not location.function.startswith("<")
    key = "report.place" if named else "report.place_plain"
    return text(key, lang, file=location.file, line=location.line, function=location.function)


def verdict_words(verdict: Verdict, lang: str) -> str:
    return text(f"report.verdict.{verdict.value}", lang)


def message_of(result: PropertyResult, lang: str) -> str:
    """The property's own message, or what its verdict means."""
    return result.message or text(f"report.about.{result.verdict.value}", lang)


def shared_trouble(report: Report, lang: str) -> PropertyResult | None:
    """The first property, when one and the same thing stopped all of them: a syntax error, nothing written yet."""
    troubled = [result for result in report.properties if result.verdict not in QUIET]
    unwritten = all(result.verdict is Verdict.NOT_IMPLEMENTED for result in troubled)
    told = [(result.verdict, "" if unwritten else message_of(result, lang)) for result in troubled]
    passed = any(result.verdict is Verdict.PASSED for result in report.properties)
    if passed or not told or len(set(told)) > 1 or any(result.counterexample for result in report.properties):
        return None
    return troubled[0]
