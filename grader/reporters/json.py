"""Report -> JSON in the published form `grader/report/v1` (reports/report-v1.schema.json)."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from grader.reporters.harmless import bounded, within_budget
from grader.results import SCHEMA, Report

# What a terminal or an editor would act on: C1 controls, DEL, line separators, bidirectional and zero-width marks.
_ACTIVE = re.compile(
    "[\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def render(report: Report) -> str:
    """One JSON object. It says exactly what the report says, in characters that are safe to print."""
    return within_budget(lambda limit: _encoded(bounded(report, limit)))


def schema() -> dict[str, Any]:
    """The JSON Schema of what `render` writes."""
    form = msgspec.json.schema(Report, schema_hook=_values_schema)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA, **form}


def _values_schema(kind: type) -> dict[str, Any]:
    """The one field without a type of its own: the numbers of a tensor."""
    if kind is not object:
        raise NotImplementedError
    return {"type": ["array", "string", "null"], "description": "Nested lists of numbers as short strings."}


def _encoded(report: Report) -> str:
    fields = {"schema": report.schema, **msgspec.to_builtins(report)}
    encoded = msgspec.json.format(msgspec.json.encode(fields), indent=2).decode()
    return _ACTIVE.sub(lambda found: _json_escape(found.group()), encoded) + "\n"


def _json_escape(character: str) -> str:
    if character < "\U00010000":
        return f"\\u{ord(character):04x}"
    pair = character.encode("utf-16-be").hex()
    return f"\\u{pair[:4]}\\u{pair[4:]}"
