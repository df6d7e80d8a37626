"""Text in terminal columns: a Chinese character takes two, a combining mark none."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_CLOSING = "，。、；：？！）》」』】”’…,.;:?!)]}"  # never first on a line
_OPENING = "（《「『【“‘([{"  # never last


def width(value: str) -> int:
    """How many columns the text takes."""
    return len(value) if value.isascii() else sum(map(_columns, value))


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def pad(value: str, columns: int, *, right: bool = False) -> str:
    """The text filled up with blanks; `right` puts it at the right end."""
    blanks = " " * (columns - width(value))
    return blanks + value if right else value + blanks


def clip(value: str, columns: int) -> str:
    """The beginning of the text that fits, with "…" where something is missing."""
    if width(value) <= columns:
        return value
    kept = ""
    while value and width(kept) + _columns(value[0]) < columns:
        kept, value = kept + value[0], value[1:]
    return kept + "…"


def wrap(value: str, columns: int) -> list[str]:
    """Lines of at most `columns`, broken at blanks and between Chinese characters; line ends are kept."""
    return [line for paragraph in value.split("\n") for line in _wrapped(paragraph, max(columns, 8))]


def _wrapped(paragraph: str, columns: int) -> list[str]:
    lines, line = [], ""
    for piece in _pieces(paragraph, columns):
        if line.strip() and width(line) + width(piece.rstrip()) > columns:
            lines.append(line.rstrip())
            line, piece = "", piece.lstrip()
        line += piece
    return [*lines, line.rstrip()]


def _pieces(paragraph: str, columns: int) -> Iterator[str]:
    """What may not be broken: words with the blanks after them, single wide characters with their punctuation."""
    for word in re.findall(r"\s*\S+\s*|\s+", paragraph):
        piece = ""
        for character in word:
            may_break = piece and character not in _CLOSING and not character.isspace() and piece[-1] not in _OPENING
            wide = piece and (_columns(character) == 2 or _columns(piece[-1]) == 2)
            if (may_break and wide) or width(piece) + _columns(character) > columns:
                yield piece
                piece = ""
            piece += character
        yield piece
