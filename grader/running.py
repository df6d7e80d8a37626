"""`grade batch` as a person runs it: what was recognised, what is graded and shown, what is said at the end."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor

from grader.batch import Batch, Task, Which, pending
from grader.exercises import Course, Exercise
from grader.gradebook import Entry
from grader.intake import HandIn
from grader.messages import text
from grader.progress import JsonLines, row, watched, watcher
from grader.results import Verdict
from grader.submissions import Submission


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
    return ", ".join(f"{entry.student} ({entry.exercise.partition('_')[0]})" for entry in entries)


def dry_run_lines(
    found: Iterable[HandIn], exercises: Sequence[Exercise], course: Course, lang: str, as_json: bool
) -> Iterator[str]:
    """Who was recognised as whom, what there is of each, and what is missing. Nothing is run or written."""
    for hand_in in found:
        read = {exercise.id: hand_in.read(exercise, course) for exercise in exercises}
        files = {id: each.path.as_posix() for id, each in read.items() if isinstance(each, Submission)}
        wrong = {id: each for id, each in read.items() if not isinstance(each, Submission)}
        missing = [id for id, each in wrong.items() if each.absent]
        problems = {id: each.sentence(lang) for id, each in wrong.items() if not each.absent}
        if as_json:
            student = {"submission": hand_in.label, "folder": hand_in.folder, "layout": hand_in.layout}
            more = {"source": hand_in.source, "ids": dict(hand_in.ids), "late": hand_in.late}
            parts = {"files": files, "missing": missing, "problems": problems}
            yield json.dumps({"event": "recognised", **student, **more, **parts}, ensure_ascii=False)
            continue
        yield text("batch.recognised", lang, student=hand_in.label, source=hand_in.source, layout=hand_in.layout)
        yield from (f"    {id}  {file}" for id, file in files.items())
        yield from (f"    {id}  {sentence}" for id, sentence in problems.items())
        if missing:
            yield "    " + text("batch.lacks", lang, names=", ".join(missing))
