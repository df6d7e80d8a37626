"""What a submission may use, and how its worker can end."""

from __future__ import annotations

from typing import Any

import msgspec

from grader.messages import has, text
from grader.results import Isolation, Verdict


class Limits(msgspec.Struct, frozen=True):
    """What a submission may use. Times count from when the worker is ready, one call at a time."""

    cpu_seconds_per_call: float = 6.0
    wall_seconds_per_call: float = 30.0
    startup_seconds: float = 90.0  # for our own imports; never charged to a submission
    memory_bytes: int = 2 << 30
    output_bytes_kept: int = 20_000
    output_bytes_max: int = 64 << 20
    open_files: int = 64
    threads: int = 64
    cpu_seconds_of_a_worker: int = 900


class WorkerEnded(Exception):
    """The worker is gone. `verdict` says how; `detail` has what a sentence about it needs:

    `call` (what was asked), `seconds` and `cpu_seconds` (measured), and by verdict `limit` and `clock` ("cpu" or
    "wall"), `signal` (its name), `code` (of the exit), `cause` (a word of our own).
    """

    def __init__(self, verdict: Verdict, detail: dict[str, Any]) -> None:
        super().__init__(f"{verdict.value}: {detail}")
        self.verdict = verdict
        self.detail = detail


class IsolationError(Exception):
    """No worker can be had: our fault, or the machine's, never the submission's."""


class Unavailable(IsolationError):
    """The machine does not give the isolation that was required; `isolation` says which layers are missing."""

    def __init__(self, isolation: Isolation) -> None:
        super().__init__(isolation)
        self.isolation = isolation

    def sentence(self, lang: str) -> str:
        """What is missing, and the two ways on."""
        missing = [layer for layer in self.isolation.layers if not layer.enforced]
        named = [(f"report.layer_name.{layer.name}", layer) for layer in missing]
        told = [f"{text(key, lang) if has(key) else layer.name} ({layer.detail})" for key, layer in named]
        return text("isolation.unavailable", lang, missing=" · ".join(told))

    def __str__(self) -> str:
        return self.sentence("en")

    def __reduce__(self) -> tuple[type[Unavailable], tuple[Isolation]]:
        return Unavailable, (self.isolation,)  # it travels between processes
