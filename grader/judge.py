"""The judge: the properties of one exercise on one submission. What it decides is an `Outcome` a property.

A property passes only when every claim of every case was checked here, on complete answers. The first case that does
not pass ends it; Hypothesis then looks for the smallest one. What the reference itself does not satisfy is the
course's fault and never charged.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch

from grader.cases import Case
from grader.claims import VacuousClaim, Violation
from grader.isolation import IsolationError, Unavailable, WorkerEnded
from grader.properties import Property
from grader.recall import Recall
from grader.replay import FORGET, Diverged, Fetched, Told, Transcript, Transcripts, answers_of, digest
from grader.results import Verdict
from grader.subject import Exchange, Subject, SubmissionRaised, WrongAnswer
from grader.submissions import Submission
from grader.turns import Turns, Unshared
from grader.worker.serve import Interpreter

PATIENCE = 16  # how much a submission's workers may cost: 1 for a crash
COST_OF_TIMEOUT = 2  # for a time limit that was reached
COST_OF_VERDICT = 4  # for one that was reached alone as well, besides
LONGEST_SEARCH = 24  # cases tried for the smallest counterexample of one property
LEAST_SEARCH = 2  # the same, once those before it have used up what a submission may cost
SEARCHES = 36  # cases tried for all the properties of a submission


class Worker(Protocol):
    """Something that holds a submission: a worker process, or an interpreter in this one."""

    def ask(self, request: Any) -> Any: ...

    def take_output(self) -> tuple[str, bool]: ...

    def close(self) -> None: ...


class LocalWorker:
    """Trusted code in this process: the reference, a mistake, a variant."""

    def __init__(self, dtype: torch.dtype | None = None) -> None:
        self._interpreter = Interpreter(dtype=dtype)

    def ask(self, request: Any) -> Any:
        return self._interpreter.handle(request)

    def take_output(self) -> tuple[str, bool]:
        return "", False

    def close(self) -> None:
        self._interpreter.close()


MACHINES = (Verdict.TIMEOUT, Verdict.GRADER_ERROR)  # it may be slow, or a process of ours was killed


@dataclasses.dataclass(frozen=True)
class Source:
    """A submission as text: files by their relative path, and which of them is the exercise's."""

    files: Mapping[str, str]
    main: str


@dataclasses.dataclass(frozen=True)
class Failure:
    """Why a property did not pass: `error` is a Violation, SubmissionRaised, WorkerEnded or another exception.

    `exchanges` is what was asked and answered in `case` until then, `expected` the same on the reference (None where
    there is none). `settled` tells whether `error` may be charged to the submission.
    """

    error: Exception
    case: Case | None = None
    exchanges: Sequence[Exchange] = ()
    expected: Sequence[Exchange] | None = None
    settled: bool = True

    @property
    def may_pass(self) -> bool:
        """Whether the machine may be the cause, so that it is tried once more, alone, before it counts."""
        return isinstance(self.error, WorkerEnded) and self.error.verdict in MACHINES

    @property
    def not_implemented(self) -> bool:
        return isinstance(self.error, SubmissionRaised) and self.error.not_implemented

    @property
    def shrinks(self) -> bool:
        """Whether a smaller case would tell more, and may be asked for."""
        raised = isinstance(self.error, SubmissionRaised) and (self.error.not_implemented or self.error.out_of_memory)
        return not raised and not isinstance(self.error, WorkerEnded)

    @property
    def kind(self) -> tuple[str, ...]:
        """What shrinking must not change."""
        if isinstance(self.error, Violation):
            return ("violation", self.error.key)
        if isinstance(self.error, SubmissionRaised):
            return ("raised", self.error.type)
        return (type(self.error).__name__,)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How one property ended; `failure` says why when it did not pass, `missing` names what a submission lacks,
    the property that had to pass first, or the device that its worker does not reach."""

    property: Property
    verdict: Verdict
    failure: Failure | None = None
    missing: str = ""
    prints: str = ""
    prints_cut: bool = False


@dataclasses.dataclass(frozen=True)
class Testimony:
    """What a program answers in one case of one property, until the first claim that does not hold."""

    exchanges: Sequence[Exchange]
    holds: bool


class Session:
    """One submission behind a worker, which is replaced when it ends; `patience` bounds how often."""

    def __init__(self, start: Callable[[], Worker], source: Source | Submission) -> None:
        self._start = start
        self._source = source
        self._worker: Worker | None = None
        self._subject: Subject | None = None
        self._patience = PATIENCE
        self._last: WorkerEnded | None = None
        self._left = ("", False)
        self.load_error: Exception | None = None

    def subject(self) -> Subject:
        """The submission, loaded.

        Raises:
            SubmissionRaised: its import raised; so it does every time.
            WorkerEnded: the import ended the worker, or the workers of this submission have ended too often.
        """
        if self.load_error is not None:
            raise self.load_error
        if self._subject is None:
            if self.spent is not None:
                raise self.spent
            self._worker = self._start()
            try:
                self._subject = loaded(self._worker, self._source)
            except (SubmissionRaised, WrongAnswer) as error:
                self.load_error = error
                raise
            except WorkerEnded as ended:
                self.ended(ended)
                if ended.verdict not in MACHINES:
                    self.load_error = ended
                raise
        return self._subject

    def replies(self, frames: Sequence[bytes]) -> list[bytes] | None:
        """The replies to several questions at once, where the worker can do that.

        Raises:
            WorkerEnded: it ended before it had answered all of them.
        """
        ask_all = getattr(self._worker, "ask_all", None)
        found: list[bytes] | None = ask_all(frames) if ask_all is not None else None
        return found

    def ended(self, ended: WorkerEnded) -> None:
        """The worker has ended: the next use starts a fresh one."""
        self._last = ended
        self._patience -= COST_OF_TIMEOUT if ended.verdict is Verdict.TIMEOUT else 1
        self.close()

    @property
    def spent(self) -> WorkerEnded | None:
        """The last ending, once its workers have cost too much for another try."""
        return self._last if self._patience <= 0 else None

    def once_more(self) -> None:
        """Let a time limit be tried again, whatever it has cost."""
        self._patience = max(self._patience, 1)

    def confirmed(self) -> None:
        """A time limit is the submission's own: such a one is not waited for many times."""
        self._patience -= COST_OF_VERDICT

    def take_output(self) -> tuple[str, bool]:
        """What was printed since the last call of this, by a worker that has ended too, and whether it was cut."""
        printed, cut = self._left
        self._left = ("", False)
        if self._worker is not None:
            more, more_cut = self._worker.take_output()
            printed, cut = printed + more, cut or more_cut
        return printed, cut

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._left = self.take_output()
        self._worker = self._subject = None


class Judge:
    """Judges one submission.

    `exact` is the reference in float64, `plain` the reference as if it were a submission; both are None in an
    edition without solutions. `search` looks for the smallest failing case. `turns` are those of the judges beside it,
    `transcripts` what was asked of the submissions before.
    """

    def __init__(
        self,
        session: Session,
        exact: Subject | None,
        plain: Subject | None,
        forbidden: Sequence[str] = (),
        search: bool = True,
        turns: Turns | None = None,
        transcripts: Transcripts | None = None,
    ) -> None:
        self._transcripts = transcripts
        self._turns = turns or Unshared()
        self._session = session
        self._forbidden = forbidden
        self._exact = exact
        self._plain = plain
        self._search = search
        self._budget = SEARCHES
        self._passed: dict[str, bool] = {}
        self.testimonies: dict[tuple[str, int], Testimony] = {}  # what was answered, by property and case

    def judge(self, property: Property) -> Outcome:
        """Judge one property; those it needs or follows from must have been judged before it."""
        outcome = self._judge(property)
        self._passed[property.name] = outcome.verdict is Verdict.PASSED
        return outcome

    def _judge(self, property: Property) -> Outcome:
        if property.needs_reference and self._exact is None:
            return Outcome(property, Verdict.NOT_RUN)
        try:
            subject = self._subject()
        except Unavailable:
            raise
        except (SubmissionRaised, WorkerEnded, WrongAnswer, IsolationError) as error:
            return self._outcome(property, Failure(error))
        unmet = next((name for name in property.needs if self._passed.get(name) is False), None)
        if unmet is not None:
            return Outcome(property, Verdict.SKIPPED, missing=unmet)
        if property.device != "cpu" and not subject.make("reaches", device=property.device):
            return Outcome(property, Verdict.NOT_RUN, missing=property.device)
        missing = next((name for name in property.subjects if name not in subject.names()), None)
        if missing is not None:
            return Outcome(property, Verdict.MISSING, missing=missing)
        if property.follows_from and all(self._passed.get(name) for name in property.follows_from):
            return Outcome(property, Verdict.PASSED)
        failure = self._first_failure(property)
        if failure is None:
            return self._with_output(Outcome(property, Verdict.PASSED))
        return self._outcome(property, failure)

    def _subject(self) -> Subject:
        """The submission, loaded. What the machine may have ended counts only if it ends alone as well."""
        try:
            with self._turns.together():
                return self._session.subject()
        except WorkerEnded as ended:
            if ended.verdict not in MACHINES or ended in (self._session.spent, self._session.load_error):
                raise
        with self._turns.alone():
            self._session.once_more()
            try:
                return self._session.subject()
            except WorkerEnded as ended:
                self._session.load_error = ended
                raise

    def _first_failure(self, property: Property) -> Failure | None:
        for index, case in enumerate(property.cases()):
            if self._session.spent is not None:
                return Failure(self._session.spent, case)
            with self._turns.together():
                failure = self._failure_in_replay(property, case)
            if failure is not None and failure.may_pass:
                with self._turns.alone():
                    self._session.once_more()
                    failure = self._failure_in(property, case)
                if failure is not None and failure.may_pass:
                    self._session.confirmed()
            if failure is None:
                self.testimonies[property.name, index] = Testimony(self._session.subject().exchanges, True)
            elif failure.shrinks:
                self.testimonies[property.name, index] = Testimony(failure.exchanges, False)
            if failure is not None:
                return failure
        return None

    def _failure_in_replay(self, property: Property, case: Case) -> Failure | None:
        """The same as `_failure_in`, with the questions that are known put in one go."""
        transcript = self._transcripts.of(case) if self._transcripts is not None else None
        if transcript is None:
            return self._first_time(property, case)
        try:
            subject = self._session.subject()
        except (SubmissionRaised, WorkerEnded, WrongAnswer, IsolationError) as error:
            return Failure(error, case)
        try:
            replies = self._session.replies([FORGET, *transcript.frames])
        except WorkerEnded as ended:
            if ended.verdict in MACHINES:
                self._session.ended(ended)
                return Failure(ended, case)  # the second time, it is asked one by one
            self._session.close()
            replies = None
        if replies is None:
            return self._failure_in(property, case)
        return self._failure_of(property, case, subject, transcript, replies)

    def _first_time(self, property: Property, case: Case) -> Failure | None:
        failure = self._failure_in(property, case)
        if failure is None and self._transcripts is not None:
            self._transcripts.learn(case, self._session.subject().exchanges)
        return failure

    def _failure_of(
        self, property: Property, case: Case, subject: Subject, transcript: Transcript, replies: Sequence[bytes]
    ) -> Failure | None:
        """What keeps the property from holding with these replies."""
        way = digest(subject, replies)
        if way in transcript.held:
            subject.exchanges = Told(transcript.requests, replies[1:])
            return None
        try:
            with subject.answered_by(Fetched(transcript.frames, replies[1:]).ask):
                failure = self._failure_in(property, case)
        except Diverged:
            return self._failure_in(property, case)
        if failure is None and len(subject.exchanges) == len(transcript.frames):
            transcript.remember(way)
        return failure

    def _failure_in(self, property: Property, case: Case) -> Failure | None:
        """What keeps the property from holding in this case, None when it holds."""
        try:
            subject = self._session.subject()
        except (SubmissionRaised, WorkerEnded, WrongAnswer, IsolationError) as error:
            return Failure(error, case)
        try:
            property.check(subject, self._exact, case, self._forbidden)
        except WorkerEnded as ended:
            exchanges = tuple(subject.exchanges)
            self._session.ended(ended)
            return Failure(ended, case, exchanges)
        except Exception as error:
            return Failure(error, case, tuple(subject.exchanges))
        return None

    def _outcome(self, property: Property, failure: Failure) -> Outcome:
        prints, cut = self._session.take_output()
        failure = self._smallest(property, self._settled(property, failure))
        self._session.take_output()
        return Outcome(property, verdict_of(failure, self._session), failure, prints=prints, prints_cut=cut)

    def _with_output(self, outcome: Outcome) -> Outcome:
        prints, cut = self._session.take_output()
        return dataclasses.replace(outcome, prints=prints, prints_cut=cut)

    def _settled(self, property: Property, failure: Failure) -> Failure:
        """The failure together with what the reference does in the same case, until the claim that does not hold; not
        charged if it does not hold for the reference either."""
        if failure.case is None or self._plain is None:
            return failure
        try:
            fatal = isinstance(failure.error, WorkerEnded)  # its question is not among the exchanges
            with self._plain.asked_at_most(len(failure.exchanges) + fatal):
                property.check(self._plain, self._exact, failure.case, self._forbidden)
        except Exception:
            return dataclasses.replace(failure, settled=False, expected=())
        return dataclasses.replace(failure, expected=tuple(self._plain.exchanges))

    def _smallest(self, property: Property, failure: Failure) -> Failure:
        """The same failure in the smallest case that Hypothesis finds."""
        if failure.case is None or not failure.settled or not self._search or not failure.shrinks:
            return failure
        found: dict[Case, Failure] = {failure.case: failure}
        way = (property.name, *failure.kind, answers_of(failure.exchanges))

        def fails(case: Case) -> bool:
            self._budget -= 1
            with self._turns.together():
                smaller = self._failure_in(property, case)
            if smaller is not None and smaller.may_pass:
                self._session.confirmed()
            if smaller is None or smaller.kind != failure.kind:
                return False
            found[case] = self._settled(property, smaller)
            return found[case].settled

        from grader.drawing import smallest_failure  # imports Hypothesis, which takes its time

        known = self._transcripts.smallest(way) if self._transcripts is not None else None
        if known is not None and (known in found or fails(known)):
            return found[known]
        budget = max(LEAST_SEARCH, min(LONGEST_SEARCH, self._budget))
        relaxed = self._plain is not None  # sizes that a property was not written for show on the reference alone
        smallest = smallest_failure(property.quantifier, fails, failure.case, relaxed, budget)
        if self._transcripts is not None:
            self._transcripts.shrank(way, smallest)
        return found[smallest]


def loaded(worker: Worker, source: Source | Submission, remember: bool = False) -> Subject:
    """A program, loaded. With `remember`, which is for trusted code alone, no question is put to it twice.

    Raises:
        SubmissionRaised: its import raised.
    """
    subject = Subject(Recall(worker.ask).ask if remember else worker.ask)
    subject.load(source.files, source.main)
    return subject


def verdict_of(failure: Failure, session: Session) -> Verdict:
    """The verdict that a failure means."""
    error = failure.error
    if not failure.settled or isinstance(error, VacuousClaim):
        return Verdict.GRADER_ERROR
    if isinstance(error, WorkerEnded):
        return error.verdict
    if isinstance(error, WrongAnswer):
        return Verdict.TAMPERED
    if isinstance(error, SubmissionRaised):
        if failure.not_implemented:
            return Verdict.NOT_IMPLEMENTED
        if error.out_of_memory:
            return Verdict.OUT_OF_MEMORY
        return Verdict.IMPORT_ERROR if error is session.load_error else Verdict.RAISED
    if isinstance(error, IsolationError):
        return Verdict.GRADER_ERROR
    return Verdict.FAILED
