"""Report -> JUnit XML: one testcase a property, for the viewers of CI systems."""

from __future__ import annotations

from xml.etree import ElementTree as xml

from grader.messages import text
from grader.reporters.harmless import harmless, language, within_budget
from grader.reporters.wording import message_of, number, place
from grader.results import PropertyResult, Report, Verdict

# verdict -> element of the testcase; what is not named here is an <error>
ELEMENTS = {
    Verdict.PASSED: None,
    Verdict.FAILED: "failure",
    Verdict.NOT_IMPLEMENTED: "failure",
    Verdict.SKIPPED: "skipped",
    Verdict.NOT_RUN: "skipped",
}


def render(report: Report) -> str:
    return within_budget(lambda limit: _document(harmless(report, limit)))


def _document(report: Report) -> str:
    suites = xml.Element("testsuites", name="grader")
    kinds = [ELEMENTS.get(result.verdict, "error") for result in report.properties]
    suite = xml.SubElement(
        suites,
        "testsuite",
        name=report.exercise,
        tests=str(len(kinds)),
        failures=str(kinds.count("failure")),
        errors=str(kinds.count("error")),
        skipped=str(kinds.count("skipped")),
        time=f"{report.seconds:.3f}",
        timestamp=report.graded_at,
    )
    _properties(
        suite,
        score=number(report.score),
        max_score=number(report.max_score),
        verdict=report.verdict.value,
        submission=report.submission,
        mistakes=" ".join(report.mistakes),
    )
    for result in report.properties:
        _testcase(suite, result, report)
    xml.indent(suites)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + xml.tostring(suites, encoding="unicode") + "\n"


def _testcase(suite: xml.Element, result: PropertyResult, report: Report) -> None:
    case = xml.SubElement(suite, "testcase", classname=report.exercise, name=result.name)
    _properties(case, score=number(result.points), max_score=number(result.max_points), statement=result.statement)
    kind = ELEMENTS.get(result.verdict, "error")
    if kind is not None:
        message = message_of(result, language(report))
        found = xml.SubElement(case, kind, type=result.verdict.value, message=message)
        found.text = _details(result, language(report))
    if result.prints:
        xml.SubElement(case, "system-out").text = result.prints


def _details(result: PropertyResult, lang: str) -> str:
    """The statement, where, where to look and the code that reproduces it."""
    parts = [result.statement, result.message]
    if result.location is not None:
        parts.append(place(result.location, lang))
    if result.look:
        parts.append(f"{text('report.look', lang)}: {result.look}")
    if result.counterexample is not None:
        parts.append(result.counterexample.code)
    return "\n\n".join(part for part in parts if part)


def _properties(element: xml.Element, **values: str) -> None:
    holder = xml.SubElement(element, "properties")
    for name, value in values.items():
        xml.SubElement(holder, "property", name=name, value=value)
