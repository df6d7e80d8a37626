"""Report -> text, one file a format. Adding a format is a file and a line."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from grader.reporters import html, json, junit, terminal

REPORTERS: Mapping[str, Callable[..., str]] = {
    "html": html.render,
    "json": json.render,
    "junit": junit.render,
    "text": terminal.render,
    "ansi": terminal.render_in_colour,
}
