"""What was asked in a case that held, to ask it again of the next submission in one go.

All submissions of an exercise are asked the same. What a property asks follows from the case and from the answers so
far, and so does whether it holds: where every answer is, to the bit, one that it held with before, it holds. Where
an answer differs, the property is checked on the answers that have come; it is asked afresh only if it would have
asked something else.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Hashable, Sequence
from typing import Any

from grader import wire
from grader.cases import Case
from grader.subject import Exchange, Subject

LARGEST = 4 << 20  # bytes of the questions of one case
MOST_WAYS = 10_000  # different answers to a case that are remembered, by their digests
MOST_FAILURES = 2_000  # different ways to fail whose smallest case is remembered
FORGET = wire.encode(wire.Forget())


class Diverged(BaseException):
    """The property asks something else than it did before. No property may catch this."""


class Told(Sequence[Exchange]):
    """Exchanges whose replies are read when somebody looks at them; at most of those that held, nobody does."""

    def __init__(self, requests: Sequence[Any], replies: Sequence[bytes]) -> None:
        self._requests, self._replies = requests, replies

    @functools.cached_property
    def _read(self) -> list[Exchange]:
        replies = map(wire.decode_reply, self._replies)
        return [Exchange(request, reply) for request, reply in zip(self._requests, replies, strict=True)]

    def __len__(self) -> int:
        return len(self._requests)

    def __getitem__(self, index: Any) -> Any:
        return self._read[index]


class Transcript:
    """The questions of one case, also as frames; the digests of the answers with which it held."""

    def __init__(self, requests: Sequence[Any]) -> None:
        self.requests = requests
        self.frames = [wire.encode(request) for request in requests]
        self.held: set[bytes] = set()

    def remember(self, way: bytes) -> None:
        """The property held with these answers."""
        if len(self.held) < MOST_WAYS:
            self.held.add(way)


class Transcripts:
    """The transcripts of one exercise, by case; what holds for one submission is told to the next."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Case, Transcript]] = {}
        self._smallest: dict[tuple[Hashable, ...], Case] = {}

    def of(self, case: Case) -> Transcript | None:
        """What is asked in this case, if that is known."""
        known = self._known.get(id(case))
        return known[1] if known is not None else None

    def learn(self, case: Case, exchanges: Sequence[Exchange]) -> None:
        """This was asked in a case that held."""
        transcript = Transcript([exchange.request for exchange in exchanges])
        if transcript.frames and sum(map(len, transcript.frames)) <= LARGEST:
            self._known[id(case)] = (case, transcript)  # with the case, so that its id stays its own

    def smallest(self, way: tuple[Hashable, ...]) -> Case | None:
        """The smallest case found for a submission that failed the same property with the very same answers."""
        return self._smallest.get(way)

    def shrank(self, way: tuple[Hashable, ...], case: Case) -> None:
        """This was the smallest case; whoever answers alike is asked it first."""
        if len(self._smallest) >= MOST_FAILURES:
            del self._smallest[next(iter(self._smallest))]
        self._smallest[way] = case


def answers_of(exchanges: Sequence[Exchange]) -> bytes:
    """The digest of what was answered."""
    whole = hashlib.blake2b(digest_size=16)
    for exchange in exchanges:
        whole.update(wire.encode(exchange.reply))
    return whole.digest()


def digest(subject: Subject, replies: Sequence[bytes]) -> bytes:
    """Of all that a property can know of a submission: the names it defines, and its answers."""
    whole = hashlib.blake2b(repr(subject.names()).encode(), digest_size=16)
    for reply in replies:
        whole.update(reply)
    return whole.digest()


class Fetched:
    """`ask` that answers from replies fetched before."""

    def __init__(self, frames: Sequence[bytes], replies: Sequence[bytes]) -> None:
        self._left = list(zip(frames, replies, strict=True))[::-1]

    def ask(self, request: Any) -> Any:
        """The reply.

        Raises:
            Diverged: this is not what was asked, or the reply cannot be read.
        """
        if isinstance(request, wire.Forget):
            return wire.Answer()
        frame, reply = self._left.pop() if self._left else (b"", b"")
        if wire.encode(request) != frame:
            raise Diverged
        with contextlib.suppress(wire.MalformedFrame):
            return wire.decode_reply(reply)
        raise Diverged
