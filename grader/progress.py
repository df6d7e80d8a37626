"""A batch as it runs, for those who watch: one moving line on a terminal, a line now and then in a log, JSON lines."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Protocol, TextIO

from grader.messages import text
from grader.results import Verdict

if TYPE_CHECKING:
    from grader.batch import Progress
    from grader.gradebook import Entry

EVERY = 30.0  # seconds between two lines in a log


class Watcher(Protocol):
    """Shows how far a run is."""

    def see(self, progress: Progress) -> None: ...

    def close(self) -> None: ...


def watched(steps: Iterable[Progress], watcher: Watcher) -> Iterator[Progress]:
    """The same steps, shown."""
    try:
        for progress in steps:
            watcher.see(progress)
            yield progress
    finally:
        watcher.close()


def watcher(as_json: bool, lang: str, out: TextIO | None = None) -> Watcher:
    """The one that fits where the output goes. Progress goes to stderr, JSON lines to stdout."""
    if as_json:
        return JsonLines(out or sys.stdout)
    stream = out or sys.stderr
    return Bar(lang, stream) if stream.isatty() else Log(lang, stream)


class JsonLines:
    """One JSON object a line: `start`, then `graded` for each."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def see(self, progress: Progress) -> None:
        counts = {"done": progress.done, "total": progress.total, "failures": progress.failures}
        if progress.entry is None:
            self.tell("start", **counts)
            return
        rate, left = round(progress.rate, 3), round(progress.left, 1)
        self.tell("graded", **row(progress.entry), **counts, rate=rate, seconds_left=left)

    def tell(self, event: str, **more: object) -> None:
        """One line."""
        self._out.write(json.dumps({"event": event, **more}, ensure_ascii=False) + "\n")
        self._out.flush()

    def close(self) -> None:
        pass


def row(entry: Entry) -> dict[str, object]:
    """What a machine wants to know of one result."""
    scores = {"score": entry.score, "max_score": entry.max_score, "previous_score": entry.previous_score}
    return {"submission": entry.student, "exercise": entry.exercise, **scores, "verdict": entry.verdict.value}


class Log:
    """A line at the start, now and then, at the end, and for what somebody should look at."""

    def __init__(self, lang: str, out: TextIO) -> None:
        self._lang, self._out = lang, out
        self._next = 0.0

    def see(self, progress: Progress) -> None:
        for line in notable(progress.entry, self._lang):
            self._out.write(line + "\n")
        now = time.monotonic()
        if now >= self._next or progress.done == progress.total:
            self._next = now + EVERY
            self._out.write(summary(progress, self._lang) + "\n")
        self._out.flush()

    def close(self) -> None:
        pass


class Bar:
    """One line that moves, and above it what somebody should look at."""

    def __init__(self, lang: str, out: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self._lang = lang
        self._console = Console(file=out)
        columns = (BarColumn(bar_width=24), TextColumn("{task.description}", markup=False))
        self._bar = Progress(*columns, console=self._console, transient=True)
        self._task = self._bar.add_task("", total=None)
        self._bar.start()

    def see(self, progress: Progress) -> None:
        for line in notable(progress.entry, self._lang):
            self._console.print(line, markup=False, highlight=False)
        shown = summary(progress, self._lang)
        self._bar.update(self._task, completed=progress.done, total=progress.total, description=shown)

    def close(self) -> None:
        self._bar.stop()


def notable(entry: Entry | None, lang: str) -> Iterator[str]:
    """What somebody should look at: an error of the grader's own, a grade that was lowered."""
    if entry is None:
        return
    params = {"student": entry.student, "exercise": entry.exercise}
    if entry.verdict is Verdict.GRADER_ERROR:
        yield text("batch.error", lang, **params)
    if entry.lowered:
        yield text("batch.lowered", lang, **params, before=f"{entry.previous_score:g}", now=f"{entry.score:g}")


def summary(progress: Progress, lang: str) -> str:
    """How far, how fast, how long still, how many failures."""
    params = {"done": progress.done, "total": progress.total, "failures": progress.failures}
    if not progress.done:
        return text("batch.begun", lang, **params)
    return text("batch.progress", lang, **params, rate=f"{progress.rate:.2g}", left=duration(progress.left))


def duration(seconds: float) -> str:
    """Seconds as 0:07 or 1:02:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
