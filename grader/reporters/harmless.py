"""What a submission wrote, made safe to show: nothing invisible, nothing endless.

A report carries text of a stranger: names, exception messages, prints, source lines. Escape codes repaint a terminal,
bidirectional marks reorder a line of code, ten megabytes of text freeze a browser. Reporters show `harmless(report)`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Any

import msgspec

from grader.messages import LANGUAGES, text
from grader.results import Report

BUDGET = 4 * 1024 * 1024  # bytes of one report, in any format
LIMITS = (8000, 2000, 500, 100, 20)  # characters of one text; the next is tried when a report is over budget
LINES = 200  # of one text
LINES_AROUND = 10  # source lines before and after the one that matters
ELEMENTS = 4096  # of one tensor; more are not shown
ELEMENT_WIDTH = 24  # characters of one element
ENTRIES = 100  # of a list or table that is not the list of properties
MARKS = 4  # combining marks in a row; more would climb over the lines above

_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def language(report: Report) -> str:
    return report.lang if report.lang in LANGUAGES else "en"


def harmless(report: Report, limit: int = LIMITS[0]) -> Report:
    """The report with every text visible and of bounded length. No property is left out."""
    lang = language(report)
    return _rewritten(report, lambda value: visible(cut(value, limit, lang)))


def bounded(report: Report, limit: int = LIMITS[0]) -> Report:
    """The report with every text of bounded length and otherwise as it was: for programs, which read it exactly."""
    lang = language(report)
    return _rewritten(report, lambda value: cut(_encodable(value), limit, lang))


def within_budget(render: Callable[[int], str], budget: int = BUDGET) -> str:
    """`render` with the largest of LIMITS for which its text fits the budget, or with the smallest."""
    shown = ""
    for limit in LIMITS:
        shown = render(limit)
        if len(shown.encode("utf-8", "replace")) <= budget:
            break
    return shown


def visible(value: str) -> str:
    r"""Control, bidirectional and other invisible characters in Python's notation, such as \x1b and \u202e."""
    value = value.replace("\r\n", "\n").expandtabs(4)
    if value.isascii() and value.replace("\n", "").isprintable():
        return value
    shown, marks = [], 0
    for character in value:
        category = unicodedata.category(character)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        hidden = (category in _INVISIBLE and character != "\n") or marks > MARKS
        shown.append(escaped(character) if hidden else character)
    return "".join(shown)


def escaped(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def cut(value: str, limit: int, lang: str, lines: int = LINES) -> str:
    """At most `limit` characters and `lines` lines of the text, and what was left out."""
    note = ""
    if len(value) > limit:
        note = text("report.cut", lang, count=len(value) - limit)
        value = value[:limit]
    if value.count("\n") > lines:
        kept = value.split("\n", lines)
        note = "\n" + text("report.cut_lines", lang, count=kept[-1].count("\n") + 1) + note
        value = "\n".join(kept[:-1])
    return value + note


def _encodable(value: str) -> str:
    return value.encode("utf-8", "backslashreplace").decode("utf-8")


def _rewritten(report: Report, rewrite: Callable[[str], str]) -> Report:
    plain = msgspec.to_builtins(report)
    results = [_walk(result, rewrite, "") for result in plain.pop("properties")]
    return msgspec.convert({**_walk(plain, rewrite, ""), "properties": results}, Report)


def _walk(value: Any, rewrite: Callable[[str], str], field: str) -> Any:
    """The same plain data with every string rewritten; `field` is the name under which it stands."""
    if field == "values":
        return _elements(value, rewrite)
    if field == "location" and value:
        value = _around(value)
    if isinstance(value, str):
        return value if field in ("lang", "schema") else rewrite(value)
    if isinstance(value, dict):
        return {rewrite(str(key)): _walk(entry, rewrite, key) for key, entry in list(value.items())[:ENTRIES]}
    if isinstance(value, list):
        return [_walk(entry, rewrite, "") for entry in value[:ENTRIES]]
    return value


def _around(location: dict[str, Any]) -> dict[str, Any]:
    """A location with only the lines close to the one that matters."""
    skipped = max(0, location["line"] - location["first"] - LINES_AROUND)
    lines = location["lines"][skipped : skipped + 2 * LINES_AROUND + 1]
    return {**location, "first": location["first"] + skipped, "lines": lines}


def _elements(values: Any, rewrite: Callable[[str], str]) -> Any:
    """Nested lists of short strings, or None when there are too many to read."""
    return None if values is None or _size(values) > ELEMENTS else _short(values, rewrite)


def _size(values: Any) -> int:
    return max(1, sum(map(_size, values))) if isinstance(values, list) else 1


def _short(values: Any, rewrite: Callable[[str], str]) -> Any:
    if isinstance(values, list):
        return [_short(value, rewrite) for value in values]
    shown = values if isinstance(values, str) else str(values)
    if shown.isascii() and shown.isprintable() and len(shown) <= ELEMENT_WIDTH:
        return shown  # nearly always
    return rewrite(shown if len(shown) <= ELEMENT_WIDTH else shown[: ELEMENT_WIDTH - 1] + "…")
