"""`--debug`: a submission in this very process, so that `breakpoint()` and a debugger reach it. There is no score.

Nothing contains the submission here: this is for one's own code.
"""

from __future__ import annotations

from collections.abc import Iterator

from grader.bench import Bench
from grader.exercises import Exercise
from grader.judge import LocalWorker
from grader.results import Verdict
from grader.submissions import Submission


def debug(exercise: Exercise, submission: Submission, lang: str, select: str = "") -> Iterator[tuple[str, str]]:
    """The name and the message of each property that does not hold."""
    arguments = ["-k", select] if select else []
    judged = Bench(exercise).judge(LocalWorker, submission, lang, arguments)
    for name, result in judged.results.items():
        if result.verdict not in (Verdict.PASSED, Verdict.SKIPPED, Verdict.NOT_RUN):
            yield name, result.message
