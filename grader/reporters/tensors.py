"""A tensor as pages of rows: what a person can look at, for the terminal and for HTML alike."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice, zip_longest
from typing import Any

import msgspec

from grader.results import TensorView

SHADES = 6  # of one colour
TITLE = 24  # characters of a name


class Page(msgspec.Struct, frozen=True):
    """One two-dimensional slice: `where` names it ("B 0, H 1"); `worst` is (row, column) where it lies on this page."""

    where: str
    rows: list[list[str]]
    worst: tuple[int, int] | None
    axes: tuple[str, str]


def pages(view: TensorView, most: int) -> list[Page]:
    """At most `most` pages in order; the one with the worst element is always among them."""
    found: list[Page] = []
    for page in _pages(view):
        if len(found) < most:
            found.append(page)
        elif page.worst is not None:
            found[-1] = page
    return found


def shape(view: TensorView) -> str:
    """ "B=1, T=2", or the sizes alone where an axis has no name or only its size for a name."""
    named = zip_longest((view.axes or [])[: len(view.shape)], view.shape)
    return ", ".join(f"{axis}={size}" if axis and not axis.isdigit() else str(size) for axis, size in named)


def title(view: TensorView) -> str:
    """The tensor's name, where it is short enough to stand above its numbers."""
    name = view.name.strip().rstrip(",")
    return name if len(name) <= TITLE else ""


def page_count(view: TensorView) -> int:
    return sum(1 for _ in _pages(view))


def _pages(view: TensorView) -> Iterator[Page]:
    if view.values is None:
        return
    rank = _rank(view.values)
    axes = ["" if axis.isdigit() else axis for axis in [*(view.axes or []), *[""] * rank][:rank]]
    single = math.prod(view.shape[:-2]) == 1
    worst = view.worst if view.worst is not None and len(view.worst) == rank else None
    for index, rows in _slices(view.values, rank):
        here = worst is not None and list(worst[: len(index)]) == index
        last = tuple([0, 0, *(worst or [])[len(index) :]][-2:])
        where = "" if single else _where(axes, index)
        yield Page(where, rows, (last[0], last[1]) if here else None, _last_two(axes))


def _where(axes: list[str], index: list[int]) -> str:
    """ "B 0, H 1", or as in Python, "[0, 1, :, :]", where the axes have no names."""
    named = list(zip(axes, index, strict=False))
    if all(axis for axis, _ in named):
        return ", ".join(f"{axis} {at}" for axis, at in named)
    return f"[{', '.join(map(str, index))}, :, :]"


def _slices(values: Any, rank: int, index: tuple[int, ...] = ()) -> Iterator[tuple[list[int], list[list[str]]]]:
    if rank > 2:
        for at, inner in enumerate(values if isinstance(values, list) else [values]):
            yield from _slices(inner, rank - 1, (*index, at))
    else:
        rows = [[values]] if rank == 0 else [values] if rank == 1 else values
        rows = rows if isinstance(rows, list) else [rows]
        yield list(index), [list(map(str, row)) if isinstance(row, list) else [str(row)] for row in rows]


def _rank(values: Any) -> int:
    return 1 + (_rank(values[0]) if values else 0) if isinstance(values, list) else 0


def _last_two(axes: list[str]) -> tuple[str, str]:
    padded = ["", "", *axes]
    return padded[-2], padded[-1]


def scale(views: list[TensorView]) -> float:
    """The largest finite magnitude of the tensors, so that tensors side by side share one scale."""
    flat = (abs(_value(cell)) for view in views for page in _pages(view) for row in page.rows for cell in row)
    return max((value for value in islice(flat, 100_000) if math.isfinite(value)), default=0.0)


def shade(cell: str, largest: float) -> str:
    """ "p6" (most positive) ... "z" ... "n6" (most negative), "odd" for what is not a finite number."""
    value = _value(cell)
    if not math.isfinite(value):
        return "odd"
    level = math.ceil(SHADES * min(1.0, abs(value) / largest) - 1e-9) if largest else 0
    return f"{'p' if value > 0 else 'n'}{level}" if level > 0 else "z"


def _value(cell: str) -> float:
    if cell in ("True", "False"):
        return 0.5 if cell == "True" else 0.0
    try:
        return float(cell)
    except ValueError:
        return math.nan
