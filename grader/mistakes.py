"""A mistake: a wrong version of the reference, made by substitutions that must each match exactly once.

The name completes "the submission ...". `says` and `why` are text for a learner, in two languages: what the
submission does, and why that is wrong and where to look.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


class StaleMistake(ValueError):
    """A substitution that no longer fits the reference exactly once."""


@dataclass(frozen=True, init=False)
class Mistake:
    """One wrong version of a reference; `caught_by` is the property that must fail on it."""

    name: str
    edits: tuple[tuple[str, str], ...]
    caught_by: str
    en: tuple[str, str]
    zh: tuple[str, str]

    def __init__(
        self,
        name: str,
        *,
        caught_by: str,
        en: tuple[str, str],
        zh: tuple[str, str],
        old: str | None = None,
        new: str | None = None,
        edits: Iterable[tuple[str, str]] = (),
    ) -> None:
        """Takes either one substitution (`old`, `new`) or several (`edits`)."""
        several = tuple((before, after) for before, after in edits)
        if (old is None) != (new is None) or (old is None) == (not several):
            raise TypeError(f"mistake {name!r}: give either old=... and new=..., or edits=[(old, new), ...]")
        if old is not None and new is not None:
            several = ((old, new),)
        for field, value in {"name": name, "edits": several, "caught_by": caught_by, "en": en, "zh": zh}.items():
            object.__setattr__(self, field, value)

    def says(self, lang: str) -> str:
        """What the submission does: completes "this behaves exactly like a submission that ..."."""
        return (self.zh if lang == "zh" else self.en)[0]

    def why(self, lang: str) -> str:
        """Why that is wrong, and where to look."""
        return (self.zh if lang == "zh" else self.en)[1]

    def apply(self, reference: str) -> str:
        """The reference's source with this mistake in it. Raises `StaleMistake` unless every `old` is there once."""
        source = reference
        for old, new in self.edits:
            times = source.count(old) if old else 0
            if times != 1:
                raise StaleMistake(
                    f"mistake {self.name!r}: its `old` must be in the reference exactly once, not {times} times: "
                    f"{old!r}. Write it as the reference has it now, long enough to be the only one."
                )
            source = source.replace(old, new)
        return source
