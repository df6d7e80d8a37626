"""What grading produces: verdicts, counterexamples, reports. Plain frozen data that imports nothing of ours.

Everything before this module makes these values, every reporter shows them. A report is written in one
language (`Report.lang`); the reporters only add headings of their own.
"""

from __future__ import annotations

import enum

import msgspec

SCHEMA = "grader/report/v1"


class Verdict(enum.StrEnum):
    """How a property, or a whole submission, ended. Decided outside the worker; no answer is never a pass."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_IMPLEMENTED = "not_implemented"
    RAISED = "raised"
    IMPORT_ERROR = "import_error"
    MISSING = "missing"
    SYNTAX_ERROR = "syntax_error"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    EXITED = "exited"
    OUTPUT_FLOOD = "output_flood"
    TAMPERED = "tampered"
    SKIPPED = "skipped"
    NOT_RUN = "not_run"
    GRADER_ERROR = "grader_error"


class TensorView(msgspec.Struct, frozen=True):
    """A tensor that a person can read.

    `role` is "input", "got" or "want"; `values` is nested lists of numbers as short strings, or None where the
    tensor is too large to show (then `message` of the property speaks of the worst element alone); `worst` is the
    index of the element that is most wrong; `axes` names the axes where they are known, such as ["B", "H", "T", "D"].
    """

    name: str
    role: str
    dtype: str
    shape: list[int]
    values: object | None = None
    worst: list[int] | None = None
    axes: list[str] | None = None


class Counterexample(msgspec.Struct, frozen=True):
    """The smallest case found in which a property does not hold.

    `sizes` maps letters to sizes, such as {"B": 1, "T": 2}, and `choices` names to other values that were chosen;
    `code` is Python that reproduces it when pasted, "" where there is none that could be.
    """

    sizes: dict[str, int]
    tensors: list[TensorView]
    code: str
    choices: dict[str, str] = {}


class Location(msgspec.Struct, frozen=True):
    """A place in the submission: `line` counts from 1; `lines` are the source lines around it, from `first` on."""

    file: str
    line: int
    function: str
    first: int
    lines: list[str]


class PropertyResult(msgspec.Struct, frozen=True):
    """How one property ended. `message` says what was expected, what came and what to do; empty when passed."""

    name: str
    verdict: Verdict
    points: float
    max_points: float
    statement: str
    message: str = ""
    look: str = ""  # where to look when this property fails, from the exercise's own text
    counterexample: Counterexample | None = None
    location: Location | None = None
    prints: str = ""  # what the submission printed while this property ran
    prints_cut: bool = False


class Diagnosis(msgspec.Struct, frozen=True):
    """A named mistake: `says` completes "this behaves exactly like a submission that ..."."""

    name: str
    says: str
    why: str


class Layer(msgspec.Struct, frozen=True):
    """One layer of the isolation: `detail` says why it is not enforced, or what it limits."""

    name: str
    enforced: bool
    detail: str = ""


class Isolation(msgspec.Struct, frozen=True):
    """What stood between the submission and the machine. `level` is "contained", "limits_only" or "none"."""

    level: str
    layers: list[Layer] = []
    not_prevented: list[str] = []


class Report(msgspec.Struct, frozen=True):
    """One submission of one exercise, graded. `score` and `max_score` are points, rounded to 2 decimals."""

    exercise: str
    title: str
    submission: str
    score: float
    max_score: float
    verdict: Verdict
    properties: list[PropertyResult]
    mistakes: list[str] = []
    diagnoses: list[Diagnosis] = []
    message: str = ""  # one sentence on the whole, empty when there is nothing to add to the properties
    next_step: str = ""
    lang: str = "en"
    schema: str = SCHEMA
    environment: dict[str, str] = {}
    isolation: Isolation | None = None
    seconds: float = 0.0
    graded_at: str = ""  # ISO 8601, UTC
