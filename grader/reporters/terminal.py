"""Report -> what a learner reads in a terminal: what is wrong, on which smallest input, which mistake it is by name.

The list comes first, the named mistake and the next step last, where the eye is when the command ends.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import Any, TextIO

import msgspec

from grader.messages import text
from grader.reporters.columns import clip, pad, width, wrap
from grader.reporters.harmless import harmless, language
from grader.reporters.tensors import Page, page_count, pages, shape, title
from grader.reporters.wording import QUIET, message_of, number, place, shared_trouble, verdict_words
from grader.results import Counterexample, Location, PropertyResult, Report, TensorView, Verdict

SIGNS = {Verdict.PASSED: "✓", Verdict.SKIPPED: "-", Verdict.NOT_RUN: "-", Verdict.NOT_IMPLEMENTED: "○"}
ASCII = str.maketrans({"✓": "+", "✗": "x", "○": "o", "▸": ">", "│": "|", "─": "-", "·": "-", "…": "~", "×": "x"})
COLOURS = {"good": "32", "bad": "31", "strong": "1", "dim": "2", "name": "1;33", "worst": "1;7", "title": "1"}

LIMIT = 1500  # characters of one text
ROWS, COLUMNS, PAGES = 8, 8, 3  # of one tensor
GLANCE = 8  # elements of a tensor that a later counterexample still shows
PRINTED_LINES = 12


class Style(msgspec.Struct, frozen=True):
    """The width in columns, and whether colours may be used."""

    width: int = 80
    colour: bool = False

    def paint(self, name: str, value: str) -> str:
        return f"\x1b[{COLOURS[name]}m{value}\x1b[0m" if self.colour and value else value


def render(
    report: Report, *, width: int = 80, colour: bool = False, encoding: str = "utf-8", saved_at: str = ""
) -> str:
    """Plain text. `saved_at` is the path of the HTML report, `encoding` what the console can print."""
    style = Style(max(40, width), colour)
    shown = "\n".join(_lines(harmless(report, LIMIT), style, saved_at)) + "\n"
    return printable(shown, encoding)


def render_in_colour(report: Report, **options: Any) -> str:
    """The same with ANSI colours."""
    return render(report, **{"colour": True, **options})


def options_for(stream: TextIO, environ: Mapping[str, str], columns: int = 80) -> dict[str, Any]:
    """How to render for this stream: colours on a terminal unless NO_COLOR is set, at most 100 columns."""
    wanted = bool(environ.get("FORCE_COLOR")) or (stream.isatty() and environ.get("TERM") != "dumb")
    colour = wanted and not environ.get("NO_COLOR")
    return {"width": min(columns, 100), "colour": colour, "encoding": stream.encoding or "utf-8"}


def printable(shown: str, encoding: str) -> str:
    """The text in characters that the encoding has: ASCII for a sign that it lacks, \\u notation for the rest."""
    try:
        shown.encode(encoding)
    except LookupError:
        encoding = "ascii"
    except UnicodeEncodeError:
        pass
    else:
        return shown
    return "".join(_printable(character, encoding) for character in shown)


def _printable(character: str, encoding: str) -> str:
    for candidate in (character, character.translate(ASCII)):
        try:
            candidate.encode(encoding)
        except UnicodeEncodeError:
            continue
        return candidate
    return character.encode(encoding, "backslashreplace").decode(encoding)


def _lines(report: Report, style: Style, saved_at: str) -> Iterator[str]:
    lang = language(report)
    yield from _head(report, style, lang)
    yield from _whole(report, style, lang)
    shared = shared_trouble(report, lang)
    if shared is not None:
        yield from _trouble(shared, report, set(), style, lang)
    seen: set[str] = set()
    points = max((len(number(result.max_points)) for result in report.properties), default=1)
    unread = shared is not None and (report.message or report.verdict is Verdict.SYNTAX_ERROR)
    for result in () if unread else report.properties:  # else the one thing that matters would scroll away
        yield from _row(result, style, points, lang)
        if shared is None:
            yield from _indented(_trouble(result, report, seen, style, lang), 4)
    if not saved_at:
        yield from _code(report, style, lang)
    yield from _mistake(report, style, lang)
    yield from _end(report, style, saved_at, lang)


def _head(report: Report, style: Style, lang: str) -> Iterator[str]:
    """Title at the left, score at the right, a line below."""
    tone = {Verdict.PASSED: "good", Verdict.NOT_IMPLEMENTED: "strong"}.get(report.verdict, "bad")
    score = f"{number(report.score)} / {number(report.max_score)}"
    verdict = verdict_words(report.verdict, lang)
    room = style.width - width(f"  {score}  {verdict}")
    title = clip(f"{report.exercise} · {report.title}", max(room, 10))
    yield (style.paint("title", pad(title, room)) + f"  {style.paint('strong', score)}  " + style.paint(tone, verdict))
    yield style.paint("dim", "─" * style.width)


def _whole(report: Report, style: Style, lang: str) -> Iterator[str]:
    """One sentence on the whole submission, where there is one."""
    if report.message:
        yield from wrap(report.message, style.width)
        yield ""


def _row(result: PropertyResult, style: Style, points: int, lang: str) -> Iterator[str]:
    """Sign, points, statement. A property that was not tried is one dim line."""
    sign = SIGNS.get(result.verdict, "✗")
    earned = number(result.points).rjust(points) + "/" + number(result.max_points).ljust(points)
    room = style.width - 2 * points - 7
    if result.verdict in (Verdict.SKIPPED, Verdict.NOT_RUN):
        words = verdict_words(result.verdict, lang) + _colon(lang) + result.statement
        statement = clip(words.replace("\n", " "), room)
        yield style.paint("dim", f"  {sign} {earned}  {statement}")
        return
    first, *rest = wrap(result.statement, room)
    tone = {Verdict.PASSED: "good", Verdict.NOT_IMPLEMENTED: "dim"}.get(result.verdict, "bad")
    good = tone != "bad"
    yield f"  {style.paint(tone, sign)} {style.paint('dim', earned)}  {_statement(first, good, style)}"
    for line in rest:
        yield " " * (2 * points + 7) + _statement(line, good, style)


def _statement(line: str, good: bool, style: Style) -> str:
    return line if good else style.paint("strong", line)


def _trouble(result: PropertyResult, report: Report, seen: set[str], style: Style, lang: str) -> Iterator[str]:
    """Everything a learner needs to see why this property does not hold."""
    if result.verdict in QUIET:
        return
    room = style.width - 4
    message = message_of(result, lang)
    if message in seen and result.counterexample is None:
        yield style.paint("dim", text("report.as_above", lang))
        return
    first, seen_before = not seen, message in seen
    seen.add(message)
    if message != report.message:
        yield from wrap(message, room)
    if result.look and not seen_before and (first or not report.diagnoses):  # named, the first hint is enough
        yield from _labelled(text("report.look", lang), result.look, room, style, lang)
    if result.counterexample is not None:
        yield from _counterexample(result.counterexample, first, room, style, lang)
    if result.location is not None:
        yield from _source(result.location, room, style, lang)
    yield from _printed(result, room, style, lang)
    yield ""


def _labelled(label: str, value: str, room: int, style: Style, lang: str) -> Iterator[str]:
    """ "Label: value", wrapped; only the label is dim."""
    label += _colon(lang)
    first, *rest = wrap(label + value, room)
    yield style.paint("dim", first[: len(label)]) + first[len(label) :]
    yield from rest


def _colon(lang: str) -> str:
    return "：" if lang == "zh" else ": "


def _counterexample(example: Counterexample, first: bool, room: int, style: Style, lang: str) -> Iterator[str]:
    """The first one whole; of the later ones the tensors that are quickly read: the HTML report has them all."""
    sizes = ", ".join(f"{name} = {value}" for name, value in (example.choices | example.sizes).items())
    if sizes:
        yield from _labelled(text("report.smallest_case_short", lang), sizes, room, style, lang)
    role = {name: [view for view in example.tensors if view.role == name] for name in ("got", "want", "input")}
    if not first and any(math.prod(view.shape) > GLANCE for view in example.tensors if view.role == "got"):
        return
    for got, want in zip_longest(role["got"], role["want"]):
        yield from _indented(_beside([view for view in (got, want) if view], room - 2, style, lang), 2)
    if first:
        for view in role["input"]:
            yield from _indented(_tensor(view, view.worst, style, lang), 2)


def _beside(views: list[TensorView], room: int, style: Style, lang: str) -> list[str]:
    """Tensors side by side where they fit, else below each other."""
    worst = next((view.worst for view in views if view.worst), None)
    blocks = [_tensor(view, worst, style, lang) for view in views]
    if len(blocks) == 2:
        left, right = blocks
        wide = max(map(_shown_width, left), default=0)
        if wide + 3 + max(map(_shown_width, right), default=0) <= room:
            fill = [line + " " * (wide - _shown_width(line)) for line in left]
            return [f"{a}   {b}".rstrip() for a, b in zip_longest(fill, right, fillvalue=" " * wide)]
    return [line for block in blocks for line in block]


def _shown_width(line: str) -> int:
    for code in COLOURS.values():
        line = line.replace(f"\x1b[{code}m", "")
    return width(line.replace("\x1b[0m", ""))


def _tensor(view: TensorView, worst: list[int] | None, style: Style, lang: str) -> list[str]:
    """A heading and the numbers; the part around the worst element where there are too many."""
    role = text(f"report.role.{view.role}", lang) if view.role in ("got", "want", "input") else view.role
    name = "" if view.role == "want" or not title(view) else f"{title(view)} "
    lines = [f"{role} {name}" + style.paint("dim", f"[{shape(view)}]")]
    if view.values is None:
        return [*lines, style.paint("dim", f"  {text('report.too_large', lang)}")]
    marked = msgspec.structs.replace(view, worst=worst)
    shown = pages(marked, PAGES)
    for page in shown:
        lines += [style.paint("dim", f"  {page.where}")] if page.where else []
        lines += _grid(page, style)
    if len(shown) < (all_pages := page_count(view)):
        lines.append(style.paint("dim", "  " + text("report.slices_shown", lang, shown=len(shown), all=all_pages)))
    return lines


def _grid(page: Page, style: Style) -> list[str]:
    """Numbers in columns, the worst element in reverse video and in ▸ brackets."""
    row_at, column_at = page.worst or (0, 0)
    top, rows = _window(page.rows, row_at, ROWS)
    cells = [[_cell(value) for value in _window(row, column_at, COLUMNS)[1]] for row in rows]
    left = _window(max(page.rows, key=len, default=[]), column_at, COLUMNS)[0]
    wide = max((width(cell) for row in cells for cell in row), default=1)
    lines = []
    for at, row in enumerate(cells, start=top):
        marks = [page.worst == (at, column) for column in range(left, left + len(row))]
        line = "".join(_marked(pad(cell, wide, right=True), mark, style) for cell, mark in zip(row, marks, strict=True))
        before = "… " if left else "  "
        after = " …" if left + len(row) < len(page.rows[at]) else ""
        lines.append(before + line.rstrip() + after)
    return ([" …"] if top else []) + lines + ([" …"] if top + len(rows) < len(page.rows) else [])


def _marked(cell: str, worst: bool, style: Style) -> str:
    return "▸" + style.paint("worst", cell) + " " if worst else f" {cell} "


def _cell(value: str) -> str:
    return clip(value.replace("\n", " "), 12)


def _window(items: list[Any], at: int, most: int) -> tuple[int, list[Any]]:
    """At most `most` neighbours that include position `at`, and the position of the first."""
    first = max(0, min(at - most // 2, len(items) - most))
    return first, items[first : first + most]


def _source(location: Location, room: int, style: Style, lang: str) -> Iterator[str]:
    """The learner's own code around the line that raised."""
    yield from _labelled(text("report.your_code", lang), place(location, lang), room, style, lang)
    near = [(at, line) for at, line in enumerate(location.lines, location.first) if -3 <= at - location.line <= 2]
    digits = len(str(max((at for at, _ in near), default=1)))
    for at, line in near:
        here = at == location.line
        shown = clip(f"{'▸' if here else ' '} {at:>{digits}} │ {line}", room).rstrip()
        yield style.paint("strong" if here else "dim", shown)


def _printed(result: PropertyResult, room: int, style: Style, lang: str) -> Iterator[str]:
    if not result.prints.strip():
        return
    yield style.paint("dim", text("report.prints", lang))
    lines = result.prints.rstrip("\n").split("\n")
    for line in lines[:PRINTED_LINES]:
        yield "│ " + clip(line, room - 2)
    if len(lines) > PRINTED_LINES:
        yield style.paint("dim", text("report.cut_lines", lang, count=len(lines) - PRINTED_LINES))
    elif result.prints_cut:
        yield style.paint("dim", "… " + text("report.prints_cut", lang))


def _code(report: Report, style: Style, lang: str) -> Iterator[str]:
    """Code that reproduces the first failure, at the left margin so that it can be pasted."""
    examples = [result.counterexample for result in report.properties if result.counterexample is not None]
    code = next((example.code for example in examples if example.code), "")
    if code:
        yield ""
        yield style.paint("dim", text("report.reproduce_how", lang))
        yield from code.rstrip("\n").split("\n")


def _mistake(report: Report, style: Style, lang: str) -> Iterator[str]:
    """The name of the mistake: the one thing a learner at midnight must not miss."""
    if not report.diagnoses:
        return
    yield ""
    yield text("report.named_mistake", lang)
    for at, diagnosis in enumerate(report.diagnoses):
        if at:
            yield text("report.or_that", lang)
        for line in wrap(diagnosis.says, style.width - 4):
            yield "  " + style.paint("name", line)
        yield from _indented(wrap(diagnosis.why, style.width - 4), 2)


def _end(report: Report, style: Style, saved_at: str, lang: str) -> Iterator[str]:
    lines: list[str] = []
    if report.next_step:
        lines += _labelled(text("report.next_step", lang), report.next_step, style.width, style, lang)
    if saved_at:
        lines.append(f"{style.paint('dim', text('report.saved_at', lang))}  {saved_at}")
    yield from ["", *lines] if lines else []


def _indented(lines: Iterable[str], by: int) -> Iterator[str]:
    for line in lines:
        yield " " * by + line if line else ""
