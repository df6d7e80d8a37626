"""Both languages are first-class: every sentence exists in both, with the same placeholders, and every key is known."""

from __future__ import annotations

import ast
import string
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader import messages
from grader.messages import LANGUAGES, MissingMessage, catalogue, locale_language, text

GRADER = Path(messages.__file__).parents[1]


def placeholders(template: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}


@pytest.mark.parametrize("key", sorted(catalogue()))
def test_a_message_says_the_same_in_both_languages(key: str) -> None:
    message = catalogue()[key]
    assert set(message) == set(LANGUAGES)
    assert all(message.values())
    assert placeholders(message["en"]) == placeholders(message["zh"])


def literal_keys() -> Iterator[tuple[str, str]]:
    """(file, key) of every `text("a literal key", ...)`, and of every error of the course, in the grader."""
    for path in sorted(GRADER.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                if name in ("text", "CourseError", "UnknownExercise") and isinstance(node.args[0].value, str):
                    yield path.name, node.args[0].value


def test_every_key_that_the_grader_uses_is_written() -> None:
    assert [(file, key) for file, key in literal_keys() if key not in catalogue()] == []


def test_parameters_are_data_not_templates() -> None:
    assert text("report.place_plain", "en", file="{0.__class__}", line=3) == "{0.__class__}, line 3"


def test_an_unknown_key_is_shown_and_warned_about() -> None:
    with pytest.warns(MissingMessage, match=r"no\.such\.key"):
        assert text("no.such.key", "zh") == "no.such.key"


def test_a_missing_parameter_is_warned_about() -> None:
    with pytest.warns(MissingMessage, match="place_plain"):
        assert "{file}" in text("report.place_plain", "en")


def test_a_language_that_we_do_not_speak_is_answered_in_english() -> None:
    assert text("report.score", "fr") == text("report.score", "en")


def test_a_key_in_two_files_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    twice = [("a.toml", '[x]\nen = "a"\nzh = "b"'), ("b.toml", '[x]\nen = "a"\nzh = "b"')]
    monkeypatch.setattr(messages, "sources", lambda: iter(twice))
    with pytest.raises(ValueError, match=r"'x' of b\.toml"):
        catalogue.__wrapped__()


@pytest.mark.parametrize(
    ("environ", "language"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "en_GB.UTF-8"}, "en"),
        ({"LANG": "C"}, "en"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "en_US.UTF-8"}, "en"),
        ({"LANG": "en_US.UTF-8", "LC_MESSAGES": "zh_TW.UTF-8"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "", "GRADE_LANG": "en"}, "en"),
        ({"LANG": "C", "GRADE_LANG": "zh"}, "zh"),
        ({"LC_ALL": "de_DE.UTF-8", "LANG": "zh_CN"}, "en"),
    ],
)
def test_the_language_comes_from_the_locale(environ: dict[str, str], language: str) -> None:
    assert locale_language(environ) == language
