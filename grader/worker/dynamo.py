"""A stand-in for `torch._dynamo`, so that an optimizer's first step does not import a compiler.

Every `torch.optim` step imports `torch._dynamo`, which takes more than a second, to tell the compiler to look away.
`defer` puts a module in its place that looks away at no cost, and that imports the real one as soon as anything
else of it is asked for.
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any

import torch

NAME = "torch._dynamo"


class _StandIn(types.ModuleType):
    """`graph_break` and `disable` as they are where nothing is compiled; any other name brings the real module."""

    def graph_break(self, *_: object, **__: object) -> None:
        """Nothing is traced, so there is nothing to break."""

    def disable(self, function: Any = None, *_: object, **__: object) -> Any:
        return function if function is not None else lambda function: function

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__path__":  # asked of every module by inspect, warnings and others
            raise AttributeError(name)
        if sys.modules.get(NAME) is self:
            del sys.modules[NAME]
            vars(torch).pop("_dynamo", None)
        return getattr(importlib.import_module(NAME), name)


def defer() -> None:
    """Puts the stand-in in place, unless the real module is there already."""
    if NAME not in sys.modules:
        stand_in = _StandIn(NAME)
        sys.modules[NAME] = stand_in
        vars(torch)["_dynamo"] = stand_in
