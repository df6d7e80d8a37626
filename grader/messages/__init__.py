"""Every sentence a person can meet, in English and Chinese: one TOML file a part, one namespace of keys.

    [equal.value]
    en = "expected {want} at {where}, got {got}"
    zh = "..."

is `text("equal.value", lang, want=..., where=..., got=...)`.
"""

from __future__ import annotations

import locale
import os
import tomllib
import warnings
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

LANGUAGES = ("en", "zh")


class MissingMessage(UserWarning):
    """A key, a language or a placeholder that no message file has. Tests turn it into an error."""


def text(key: str, lang: str, /, **params: object) -> str:
    """The sentence for `key` in `lang`; a key that does not exist is shown as it is, with a warning."""
    message = catalogue().get(key, {})
    template = message.get(lang) or message.get("en")
    if template is None:
        warnings.warn(f"no message {key!r}", MissingMessage, stacklevel=2)
        return key
    try:
        return template.format(**params)
    except (KeyError, IndexError, ValueError) as error:
        warnings.warn(f"message {key!r} does not take {sorted(params)}: {error!r}", MissingMessage, stacklevel=2)
        return template


def has(key: str) -> bool:
    """Whether some message file has `key`."""
    return key in catalogue()


@lru_cache(maxsize=1)
def catalogue() -> Mapping[str, Mapping[str, str]]:
    """All messages of all files: key -> language -> template. A key that stands in two files is an error."""
    merged: dict[str, Mapping[str, str]] = {}
    for name, source in sources():
        for key, message in flatten(tomllib.loads(source)):
            if key in merged:
                raise ValueError(f"message {key!r} of {name} stands in another file already")
            merged[key] = message
    return merged


def sources() -> Iterator[tuple[str, str]]:
    """Name and content of each message file, in the order of their names."""
    for path in sorted(Path(__file__).parent.glob("*.toml")):
        yield path.name, path.read_text(encoding="utf-8")


def flatten(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, Mapping[str, str]]]:
    """Nested TOML tables -> dotted keys. A table that holds a string is a message."""
    strings = {name: value for name, value in table.items() if isinstance(value, str)}
    if strings:
        yield prefix, strings
    for name, value in table.items():
        if isinstance(value, dict):
            yield from flatten(value, f"{prefix}.{name}" if prefix else name)


def locale_language(environ: Mapping[str, str] | None = None) -> str:
    """What the learner's system speaks, "zh" or "en"; of GRADE_LANG, LC_ALL, LC_MESSAGES and LANG the first decides."""
    environ = os.environ if environ is None else environ
    named = (environ.get(name) for name in ("GRADE_LANG", "LC_ALL", "LC_MESSAGES", "LANG"))
    chosen = next((value for value in named if value), None)
    if chosen is None and os.name == "nt":
        chosen = locale.getlocale()[0]
    return "zh" if (chosen or "").lower().startswith(("zh", "chinese")) else "en"
