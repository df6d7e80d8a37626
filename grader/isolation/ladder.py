"""The ladder: contained, limits only, none; every layer, and in plain sentences what is not prevented."""

from __future__ import annotations

from grader.messages import text
from grader.results import Isolation, Layer
from grader.worker import lockdown

CONTAINED, LIMITS_ONLY, NONE = "contained", "limits_only", "none"
_MUST_HOLD = (lockdown.LIMITS, lockdown.PRIVILEGES, lockdown.FILES, lockdown.DESCRIPTORS, lockdown.CALLS)


def none(lang: str = "en") -> Isolation:
    """The isolation of a submission that runs in the judge's own process, for debugging: none."""
    return Isolation(NONE, [], [text("isolation.open.everything", lang)])


def described(layers: list[lockdown.Layer], lang: str) -> Isolation:
    enforced = {layer.name for layer in layers if layer.enforced}
    level = CONTAINED if enforced.issuperset(_MUST_HOLD) else LIMITS_ONLY
    shown = [Layer(layer.name, layer.enforced, _detail(layer, lang)) for layer in layers]
    opened = [text(f"isolation.open.{name}", lang) for name in _MUST_HOLD if name not in enforced]
    always = [text(f"isolation.never.{name}", lang) for name in ("kernel", "inputs", "timing")]
    return Isolation(level, shown, opened + always)


def _detail(layer: lockdown.Layer, lang: str) -> str:
    if layer.enforced:
        return text(f"isolation.layer.{layer.name}", lang)
    return text("isolation.missing", lang, reason=layer.detail)
