"""pytest runs the properties, one item each, and pytest-json-report records them.

The items come from the exercise's own list of properties, so `-k`, `--junitxml` and plugins work as everywhere, and
nothing that happens to lie in a folder is ever collected. A property that pytest did not run has no record, and is
reported as not run.
"""

from __future__ import annotations

import functools
import gc
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from grader.properties import Property
from grader.results import PropertyResult, Verdict

METADATA = "property"
OPTIONS = (
    *("-p", "no:cacheprovider", "-p", "no:faulthandler", "-p", "no:capture", "-p", "no:warnings"),
    *("-p", "no:logging", "-p", "no:doctest", "-p", "no:unittest", "-p", "no:python", "-p", "no:hypothesispytest"),
    *("--noconftest", "--assert=plain", "-c", os.devnull),
    *("-p", "pytest_jsonreport.plugin", "--json-report", "--json-report-file=none"),
    *("--json-report-omit", "collectors", "log", "streams", "traceback"),
)


class NotPassed(Exception):
    """Tells pytest that a property did not pass; the result says how."""


class PropertyItem(pytest.Item):
    """One property of an exercise."""

    result: PropertyResult | None = None

    def __init__(self, *, judge: Callable[[], PropertyResult], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._judge = judge

    def runtest(self) -> None:
        self.result = self._judge()
        if self.result.verdict in (Verdict.SKIPPED, Verdict.NOT_RUN):
            pytest.skip(self.result.message)
        if self.result.verdict is not Verdict.PASSED:
            raise NotPassed(f"{self.result.verdict.value}: {self.result.message}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None) -> str:
        if isinstance(excinfo.value, NotPassed):
            return str(excinfo.value)
        return str(super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, self.name


class _Properties(pytest.File):
    """An exercise's properties.py, whose items are its properties."""

    judges: dict[str, Callable[[], PropertyResult]]

    def collect(self) -> Iterator[pytest.Item]:
        for name, judge in self.judges.items():
            yield PropertyItem.from_parent(self, name=name, judge=judge)


class _Plugin:
    """Hands pytest the items, and puts each result into the JSON record."""

    def __init__(self, path: Path, judges: dict[str, Callable[[], PropertyResult]]) -> None:
        self._path = path
        self._judges = judges
        self.record: dict[str, Any] = {}
        self.broken: BaseException | None = None

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        config.pluginmanager.unregister(name="terminalreporter")  # its options are needed, what it prints is not

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        if file_path != self._path:
            return None
        node = _Properties.from_parent(parent, path=file_path)
        node.judges = self._judges
        return node

    @pytest.hookimpl(optionalhook=True)
    def pytest_json_runtest_metadata(self, item: pytest.Item, call: pytest.CallInfo[None]) -> dict[str, Any]:
        if call.when != "call" or not isinstance(item, PropertyItem) or item.result is None:
            return {}
        return {METADATA: msgspec.to_builtins(item.result)}

    def pytest_exception_interact(self, call: pytest.CallInfo[None]) -> None:
        if call.excinfo is not None and not call.excinfo.errisinstance(NotPassed):
            self.broken = self.broken or call.excinfo.value

    @pytest.hookimpl(optionalhook=True)
    def pytest_json_modifyreport(self, json_report: dict[str, Any]) -> None:
        self.record = json_report


def run_without_pytest(
    properties: Sequence[Property], judge: Callable[[Property], PropertyResult]
) -> dict[str, PropertyResult]:
    """The same results as `run` gives without arguments, where nobody can pass any: a batch saves half of its time."""
    _freeze()
    return {property.name: judge(property) for property in properties}


def run(
    path: Path,
    properties: Sequence[Property],
    judge: Callable[[Property], PropertyResult],
    arguments: Sequence[str] = (),
) -> dict[str, PropertyResult]:
    """Judge the properties of the file at `path` with pytest; `arguments` are pytest's own, such as -k.

    Returns:
        The result of each property that pytest ran, by name.

    Raises:
        Exception: what the judge itself raised, where it did.
    """
    path = path.resolve()
    judges: dict[str, Callable[[], PropertyResult]] = {p.name: functools.partial(judge, p) for p in properties}
    plugin = _Plugin(path, judges)
    root = ["--rootdir", str(path.parent)]
    with _no_autoload():
        _freeze()
        code = pytest.main([str(path), *root, *OPTIONS, *arguments], plugins=[plugin])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise RuntimeError(f"pytest ended with {code!s} on {path}")
    records = (test.get("metadata", {}).get(METADATA) for test in plugin.record.get("tests", ()))
    if plugin.broken is not None:
        raise plugin.broken
    results = [msgspec.convert(record, PropertyResult) for record in records if record]
    return {result.name: result for result in results}


@functools.cache
def _freeze() -> None:
    """pytest collects garbage at each end: 200 ms with torch loaded, unless that is frozen. Once: each run of pytest
    leaves garbage behind, which would be kept for ever."""
    gc.freeze()


@contextmanager
def _no_autoload() -> Iterator[None]:
    """Only the plugins that are asked for: one that reorders or reruns would change what is judged."""
    wanted = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "", "PYTEST_PLUGINS": ""}
    earlier = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in earlier.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
