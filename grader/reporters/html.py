"""Report -> one HTML page that needs nothing else: no network, no other file (reports/report.html.j2)."""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from markupsafe import Markup, escape

from grader.messages import has, text
from grader.reporters.harmless import harmless, language, within_budget
from grader.reporters.tensors import page_count, pages, scale, shade, shape, title
from grader.reporters.wording import QUIET, message_of, number, place, shared_trouble, verdict_words
from grader.results import Counterexample, PropertyResult, Report, TensorView, Verdict

if TYPE_CHECKING:
    from jinja2 import Environment

PAGES = 6  # slices of one tensor, the one with the worst element always among them
ROWS, COLUMNS = 48, 32  # of one slice
TONES = {Verdict.PASSED: "good", Verdict.GRADER_ERROR: "ours"}
TONES |= dict.fromkeys((Verdict.SKIPPED, Verdict.NOT_RUN, Verdict.NOT_IMPLEMENTED), "quiet")
SIGNS = {"good": "✓", "bad": "✗", "quiet": "–", "ours": "!"}


def render(report: Report) -> str:
    """The page, under 4 MiB whatever the submission did."""
    return within_budget(lambda limit: _page(harmless(report, limit)))


def _page(report: Report) -> str:
    lang = language(report)
    shared = shared_trouble(report, lang)
    troubled = [result for result in report.properties if result.verdict not in QUIET]
    style, script = asset("report.css"), asset("report.js")
    return (
        templates()
        .get_template("report.html.j2")
        .render(
            report=report,
            lang=lang,
            t=lambda key, **params: text(f"report.{key}", lang, **params),
            style=style,
            script=script,
            policy=policy(style, script),
            first=troubled[0] if troubled else None,
            shared=shared is not None,
            passed=sum(result.verdict is Verdict.PASSED for result in report.properties),
            example=lambda result: _example(result.counterexample, lang) if result.counterexample else None,
            message=lambda result: message_of(result, lang),
            words=lambda verdict: verdict_words(verdict, lang),
            place=lambda location: place(location, lang),
            layer_name=lambda name: _layer_name(name, lang),
            letter=lambda letter: text(f"report.letter.{letter}", lang) if has(f"report.letter.{letter}") else "",
            explained=_explained(report.properties, lang),
            strip=_strip(report.properties),
        )
    )


def _explained(results: list[PropertyResult], lang: str) -> set[str]:
    """Names of the properties whose trouble another property before them has told already."""
    seen: set[tuple[str, str]] = set()
    names = set()
    for result in results:
        told = (result.verdict.value, message_of(result, lang))
        if told in seen and result.counterexample is None:
            names.add(result.name)
        seen.add(told)
    return names


def _layer_name(name: str, lang: str) -> str:
    key = f"report.layer_name.{name}"
    return text(key, lang) if has(key) else name


def _strip(results: list[PropertyResult]) -> list[dict[str, Any]]:
    """The properties as blocks of a bar of width 1000, each as wide as its points."""
    whole = sum(result.max_points for result in results) or 1.0
    blocks, at = [], 0.0
    for result in results:
        wide = 1000 * result.max_points / whole
        blocks.append({"x": f"{at:.1f}", "width": f"{max(wide - 4, 1):.1f}", "tone": TONES.get(result.verdict, "bad")})
        at += wide
    return blocks


def policy(style: str, script: str) -> str:
    """A Content-Security-Policy that runs exactly our style and our script, and loads nothing."""
    ours = f"style-src '{_hash(style)}'; script-src '{_hash(script)}'"
    return f"default-src 'none'; {ours}; img-src data:; base-uri 'none'; form-action 'none'"


def _hash(source: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()


def _example(example: Counterexample, lang: str) -> dict[str, Any]:
    """A counterexample as the template draws it: yours beside what was wanted, then the inputs."""
    answers = [view for view in example.tensors if view.role in ("got", "want")]
    inputs = [view for view in example.tensors if view.role not in ("got", "want")]
    worst = next((view.worst for view in answers if view.worst), None)
    largest = scale(answers)
    return {
        "sizes": example.sizes,
        "choices": example.choices,
        "code": example.code,
        "answers": [_figure(view, worst, largest, _other(view, answers), lang) for view in answers],
        "inputs": [_figure(view, view.worst, scale([view]), None, lang) for view in inputs],
    }


def _other(view: TensorView, answers: list[TensorView]) -> TensorView | None:
    """The tensor to compare with: the wanted one of the same rank in the list, or yours."""
    same = [other for other in answers if other.role == view.role]
    across = [other for other in answers if other.role != view.role]
    at = next(at for at, other in enumerate(same) if other is view)
    return across[at] if at < len(across) and across[at].shape == view.shape else None


def _figure(
    view: TensorView, worst: list[int] | None, largest: float, other: TensorView | None, lang: str
) -> dict[str, Any]:
    marked = msgspec.structs.replace(view, worst=worst)
    shown = pages(marked, PAGES)
    beside = pages(msgspec.structs.replace(other, worst=worst), PAGES) if other else []
    role = text(f"report.role.{view.role}", lang) if view.role in ("got", "want", "input") else view.role
    return {
        "role": role,
        "kind": view.role,
        "name": title(view) or role,
        "long_name": view.name if not title(view) else "",
        "dtype": view.dtype,
        "shape": shape(view),
        "known": view.values is not None,
        "all_pages": page_count(view),
        "pages": [
            _grid(
                page.rows,
                page.worst,
                page.where,
                page.axes,
                beside[at].rows if at < len(beside) else None,
                largest,
                text("report.most_wrong", lang),
            )
            for at, page in enumerate(shown)
        ],
    }


def _grid(
    rows: list[list[str]],
    worst: tuple[int, int] | None,
    where: str,
    axes: tuple[str, str],
    beside: list[list[str]] | None,
    largest: float,
    most_wrong: str,
) -> dict[str, Any]:
    """One slice as rows of cells; the part around the worst element where there is too much."""
    row_at, column_at = worst or (0, 0)
    widest = max(map(len, rows), default=0)
    top = max(0, min(row_at - ROWS // 2, len(rows) - ROWS))
    left = max(0, min(column_at - COLUMNS // 2, widest - COLUMNS))

    def cell(row: int, column: int, value: str) -> str:
        marks = [shade(value, largest)]
        if worst == (row, column):
            marks.append("worst")
        if beside is not None and _at(beside, row, column) != value:
            marks.append("differs")
        note = f'<span class="unseen"> ({escape(most_wrong)})</span>' if "worst" in marks else ""
        return f'<td class="{" ".join(marks)}">{escape(value)}{note}</td>'

    cells = [
        (at, Markup("".join(cell(at, left + n, value) for n, value in enumerate(row[left : left + COLUMNS]))))
        for at, row in enumerate(rows[top : top + ROWS], start=top)
    ]
    return {
        "where": where,
        "axes": axes,
        "columns": range(left, min(widest, left + COLUMNS)),
        "rows": cells,
        "all_rows": len(rows),
        "all_columns": widest,
    }


def _at(rows: list[list[str]], row: int, column: int) -> str | None:
    return rows[row][column] if row < len(rows) and column < len(rows[row]) else None


@lru_cache(maxsize=1)
def templates() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(folder()),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = number
    environment.globals.update(tone=lambda verdict: TONES.get(verdict, "bad"), signs=SIGNS)
    return environment


@lru_cache(maxsize=8)
def asset(name: str) -> str:
    return (folder() / name).read_text(encoding="utf-8")


def folder() -> Path:
    """reports/: inside the package in a wheel, at the top of the repository otherwise."""
    package = Path(__file__).parents[1]
    return next(path for path in (package / "reports", package.parent / "reports") if path.is_dir())
