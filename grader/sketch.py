"""What is compared of a submission: read once, when it is graded, and kept (grader/similarity.py compares a class).

Comments, docstrings, layout and the names that an author chooses are not in it.
"""

from __future__ import annotations

import builtins
import functools
import keyword
import re
import zlib

SOURCE_MAX = 200_000  # characters that are looked at
BORDER, LINE = "\n", "\r"  # before a definition; before a line, of which two characters follow
CODES = 0xD000  # different characters that stand for tokens

_LITERALS = re.compile(  # every branch takes all it can, so that the time is linear whatever the text
    r'''"""[^"\\]*+(?:(?:\\.|"(?!""))[^"\\]*+)*+(?:"""|\Z)|"(?:\\.|[^"\\\n])*+"?'''
    r"""|'''[^'\\]*+(?:(?:\\.|'(?!''))[^'\\]*+)*+(?:'''|\Z)|'(?:\\.|[^'\\\n])*+'?"""
    r"""|\#[^\n]*+|\\\n""",
    re.DOTALL,
)
_TOKEN = re.compile(r"(?:(\bself\s*\.)|(\.))?\s*([^\W\d]\w*)|(\d[\w.]*|[^\w\s])")
_TOKENS = re.compile(r"(?:\bself\s*\.|\.)?\s*[^\W\d]\w*|\d[\w.]*|[^\w\s]")  # the same, found faster
_DEFINITION = re.compile(r"(?:async\s+)?def\b|class\b|@")
_KEPT = frozenset(keyword.kwlist) | {name for name in dir(builtins) if name.islower()}


def sketch(source: str) -> bytes:
    """What is compared of a program, in UTF-16: its lines, each with its mark, in one character a token."""
    parts: list[str] = []
    for line in _without_literals(source[:SOURCE_MAX]).split("\n"):
        plain = _plain(line)
        if plain:
            border = BORDER if _DEFINITION.match(plain) else ""
            parts += [LINE, _mark(plain), border, *map(_code, _TOKENS.findall(plain))]
    return "".join(parts).encode("utf-16-le")


def _mark(plain: str) -> str:
    """Two characters that tell a line from others, so that a stub's lines can be taken out of a sketch."""
    found = zlib.crc32(plain.encode("utf-8", "backslashreplace"))
    return chr(0x100 + (found >> 16) % CODES) + chr(0x100 + (found & 0xFFFF) % CODES)


@functools.lru_cache(maxsize=1 << 16)
def _code(written: str) -> str:
    """A token, as it is written -> one character; the same on every machine and in every run."""
    parts = _TOKEN.fullmatch(written)
    token = normalised(*parts.groups("")) if parts else written
    code = zlib.crc32(token.encode("utf-8", "replace")) % CODES
    return chr(0x100 + code)  # below the surrogates: two bytes in UTF-16


def _without_literals(source: str) -> str:
    """The source without comments and without the content of strings."""
    return _LITERALS.sub(lambda literal: '""' if literal[0][0] in "\"'" else " ", source)


def _plain(line: str) -> str:
    """The line without blanks that mean nothing; "" for a docstring, which by now is empty quotes."""
    plain = " ".join(line.split())
    return plain if plain.strip("'\"; rbfuRBFU") else ""


def normalised(of_self: str, dot: str, name: str, other: str) -> str:
    """A token of which an author's choice of names is taken away; keywords, builtins and attributes stay."""
    if other:
        return other
    if of_self:
        return "self.v"
    return f".{name}" if dot else name if name in _KEPT else "v"
