"""`grade batch` as a person runs it: what was recognised, what is graded and shown, what is said at the end."""

from __future__ import annotations

import contextlib
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor

from grader.batch import Batch, Task, Which, pending
from grader.exercises import Course, Exercise
from grader.gradebook import Entry
from grader.intake import HandIn, Row, describe
from grader.messages import text
from grader.progress import JsonLines, row, watched, watcher
from grader.results import Verdict

LISTED = 5  # files in one line


class Run:
    """One run of a batch. `done` of `total` were graded in it."""

    def __init__(self, batch: Batch, tasks: Sequence[Task], which: Which, lang: str, as_json: bool) -> None:
        self._batch, self._lang, self._json = batch, lang, as_json
        self._all = len(tasks)
        self._tasks = pending(tasks, batch.book, which)
        self.total, self.done = len(self._tasks), 0
        self._lowered: list[Entry] = []
        self._errors: list[Entry] = []

    def grade(self, executor: Executor) -> bool:
        """Grade what there is to grade, and write the gradebook. False where the grader itself failed on something."""
        try:
            steps = watched(self._batch.run(self._tasks, executor), watcher(self._json, self._lang))
            for progress in steps:
                self.done = progress.done
                self._note(progress.entry)
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            raise
        executor.shutdown()
        self._batch.finish()
        self._say_the_end()
        return not self._errors

    def _note(self, entry: Entry | None) -> None:
        if entry is not None and entry.lowered:
            self._lowered.append(entry)
        if entry is not None and entry.verdict is Verdict.GRADER_ERROR:
            self._errors.append(entry)

    def stopped(self) -> None:
        """After Ctrl-C: the gradebook of what there is."""
        with contextlib.suppress(KeyboardInterrupt):
            self._batch.finish()

    def _say_the_end(self) -> None:
        if self._json:
            lowered, errors = ([row(entry) for entry in rows] for rows in (self._lowered, self._errors))
            counts = {"done": self.done, "unchanged": self._all - self.total}
            JsonLines(sys.stdout).tell("end", **counts, lowered=lowered, errors=errors)
            return
        counts = {"done": self.done, "unchanged": self._all - self.total}
        print(text("batch.end", self._lang, **counts, out=self._batch.out))
        if self._lowered:
            print(text("batch.end.lowered", self._lang, count=len(self._lowered), names=_names(self._lowered)))
        if self._errors:
            print(text("batch.end.errors", self._lang, count=len(self._errors), names=_names(self._errors)))


def _names(entries: Iterable[Entry]) -> str:
    return ", ".join(f"{entry.student} ({_id(entry.exercise)})" for entry in entries)


def dry_run_lines(
    found: Iterable[HandIn], exercises: Sequence[Exercise], course: Course, lang: str, as_json: bool
) -> Iterator[str]:
    """Who was recognised as whom, what there is of each, and what is missing. Nothing is run or written."""
    for found_row in describe(found, exercises, course):
        if as_json:
            yield json.dumps(_recognised(found_row, lang), ensure_ascii=False)
        else:
            yield from _recognised_lines(found_row, lang)


def _recognised(found: Row, lang: str) -> dict[str, object]:
    hand_in = found.hand_in
    student = {"submission": hand_in.label, "folder": hand_in.folder, "layout": hand_in.layout}
    more = {"source": hand_in.source, "ids": dict(hand_in.ids), "late": hand_in.late}
    parts = {"files": _by_id(found.files), "missing": [_id(slug) for slug in found.missing], "left": list(found.left)}
    return {"event": "recognised", **student, **more, **parts, "problems": _by_id(_sentences(found, lang))}


def _recognised_lines(found: Row, lang: str) -> Iterator[str]:
    hand_in = found.hand_in
    yield text("batch.recognised", lang, student=hand_in.label, source=hand_in.source)
    yield from (f"    {id}  {file}" for id, file in _by_id(found.files).items())
    sentences = _by_id(_sentences(found, lang))
    often = Counter(sentences.values())
    yield from (f"    {id}  {sentence}" for id, sentence in sentences.items() if often[sentence] == 1)
    yield from (f"    {sentence}" for sentence, times in often.items() if times > 1)  # it is of the whole hand-in
    if found.missing:
        yield "    " + text("batch.lacks", lang, names=", ".join(_id(slug) for slug in found.missing))
    if found.left:
        shown = ", ".join(found.left[:LISTED]) + (f", ... ({len(found.left)})" if len(found.left) > LISTED else "")
        yield "    " + text("batch.left", lang, names=shown)


def _sentences(found: Row, lang: str) -> dict[str, str]:
    return {slug: each.sentence(lang) for slug, each in found.problems.items() if not each.absent}


def _by_id(told: Mapping[str, str]) -> dict[str, str]:
    return {_id(slug): each for slug, each in told.items()}


def _id(slug: str) -> str:
    return slug.partition("_")[0]
