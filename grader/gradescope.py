"""The `submission_metadata.yml` of a Gradescope export: who handed in which folder.

It is YAML that Ruby writes, with symbols for keys. Only the subset it needs is read: top-level folders, and in
each the list `:submitters:` of names, student ids and email addresses. Values stay text, so "007" keeps its zeros.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

FOLDER = re.compile(r"""(['"]?)(?P<name>[^\s:'"][^:'"]*)\1:\s*$""")
FIELD = re.compile(r"\s*(?P<new>-\s+)?:(?P<key>\w+):(?:\s+(?P<value>.*?))?\s*$")
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "e": "\x1b", "a": "\a", "b": "\b", "v": "\v", "f": "\f"}
ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)


@dataclass(frozen=True)
class Person:
    """One submitter; what the system does not tell is ""."""

    name: str = ""
    sid: str = ""
    email: str = ""


def submitters(text: str) -> dict[str, tuple[Person, ...]]:
    """Folder -> who handed it in."""
    return {folder: tuple(_people(lines)) for folder, lines in _sections(text).items()}


def _sections(text: str) -> Mapping[str, list[str]]:
    """The lines below each top-level key."""
    sections: dict[str, list[str]] = {}
    current: list[str] = []
    for line in text.removeprefix("\ufeff").splitlines():
        key = FOLDER.match(line)
        if key:
            current = sections.setdefault(key["name"], [])
        else:
            current.append(line)
    return sections


def _people(lines: list[str]) -> Iterator[Person]:
    fields: dict[str, str] | None = None
    for key, value, new in _fields(_block(lines)):
        if new and fields:
            yield _person(fields)
        fields = {**({} if new or fields is None else fields), key: value}
    if fields:
        yield _person(fields)


def _person(fields: Mapping[str, str]) -> Person:
    return Person(*(scalar(fields.get(key, "")) for key in ("name", "sid", "email")))


def _block(lines: list[str]) -> Iterator[str]:
    """The lines of the list under `:submitters:`; its dashes may stand as far left as the key itself."""
    indent: int | None = None
    for line in lines:
        here = len(line) - len(line.lstrip(" "))
        if indent is None:
            if re.fullmatch(r" *:submitters: *", line):
                indent = here
        elif here < indent or (here == indent and not line.lstrip().startswith("- ")):
            return
        else:
            yield line


def _fields(lines: Iterator[str]) -> Iterator[tuple[str, str, bool]]:
    """Key, raw value and whether a new person begins; a long value goes on in the next line."""
    current: tuple[str, str, bool] | None = None
    for line in lines:
        found = FIELD.match(line)
        if found:
            if current:
                yield current
            current = (found["key"], found["value"] or "", bool(found["new"]))
        elif current:
            current = (current[0], f"{current[1]} {line.strip()}".strip(), current[2])
    if current:
        yield current


def scalar(raw: str) -> str:
    """The text of a plain, 'single' or "double" quoted value; null is ""."""
    if len(raw) >= 2 and raw[0] == raw[-1] == "'":
        return raw[1:-1].replace("''", "'")
    if len(raw) >= 2 and raw[0] == raw[-1] == '"':
        return ESCAPE.sub(_unescaped, re.sub(r"\\ ", " ", raw[1:-1]))
    return "" if raw in ("~", "null", "Null", "NULL") else raw


def _unescaped(found: re.Match[str]) -> str:
    code = found[1] or found[2] or found[3]
    if code:
        return chr(int(code, 16)) if int(code, 16) < 0x110000 else "\ufffd"
    return ESCAPES.get(found[4], found[4])
