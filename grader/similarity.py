"""Near-identical submissions of one exercise: winnowing over normalised tokens, without what the stub gives.

After S. Schleimer, D. Wilkerson, A. Aiken, "Winnowing: local algorithms for document fingerprinting", SIGMOD 2003.
Comments, docstrings, layout, the order of definitions and the names that an author chooses make no difference. What
many differently written submissions share is an idiom and does not count. A group is a reason to look, nothing more.
"""

from __future__ import annotations

import builtins
import itertools
import keyword
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

Author = TypeVar("Author")

TOKENS = 10  # in a row, that make a fingerprint
WINDOW = 4  # of these, one is kept: every stretch of TOKENS + WINDOW - 1 equal tokens is noticed
ALIKE = 0.8  # of the smaller one's telling fingerprints are shared
ENOUGH = 12  # telling fingerprints that both must have: less code than that looks alike by chance
USUAL, USUAL_MIN, USUAL_MAX = 0.05, 10, 50  # shared by more of the different programs than that: an idiom
SOURCE_MAX = 200_000  # characters that are looked at

_LITERALS = re.compile(  # every branch takes all it can, so that the time is linear whatever the text
    r'"""(?:\\.|[^\\])*?(?:"""|\Z)' + "|'''" + r"(?:\\.|[^\\])*?(?:'''|\Z)"
    r"""|"(?:\\.|[^"\\\n])*+"?|'(?:\\.|[^'\\\n])*+'?|\#[^\n]*+|\\\n""",
    re.DOTALL,
)
_TOKEN = re.compile(r"(\bself\s*\.\s*)?(\.?)\s*([^\W\d]\w*)|\d[\w.]*|[^\w\s]")
_DEFINITION = re.compile(r"(?:async\s+)?def\b|class\b|@")
_KEPT = frozenset(keyword.kwlist) | {name for name in dir(builtins) if name.islower()}


@dataclass(frozen=True)
class Group(Generic[Author]):
    """Authors whose submissions are nearly the same; `shares` says of each how much it shares with the first."""

    authors: tuple[Author, ...]
    shares: tuple[float, ...]

    @property
    def lowest(self) -> float:
        return min(self.shares)


def groups(sources: Mapping[Author, str], stub: str) -> list[Group[Author]]:
    """The groups among `sources` (author -> source), the largest first. Nobody is in two of them.

    Everyone in a group shares at least ALIKE with its first author, so that no chain of small steps makes one.
    """
    reader = Reader(stub)
    alike: dict[frozenset[int], list[Author]] = defaultdict(list)
    for author, source in sources.items():
        alike[reader.fingerprints(source)].append(author)
    programs = list(alike)
    telling = _telling(programs)
    shares = _shares(telling)
    found = [
        Group(
            authors=tuple(author for at in members for author in alike[programs[at]]),
            shares=tuple(share for at, share in members.items() for _ in alike[programs[at]]),
        )
        for members in _around_centres(telling, shares)
    ]
    return sorted((group for group in found if len(group.authors) > 1), key=lambda group: -len(group.authors))


def _telling(programs: list[frozenset[int]]) -> list[frozenset[int]]:
    """Each program's fingerprints without those that many different programs have."""
    limit = min(max(USUAL_MIN, USUAL * len(programs)), USUAL_MAX)
    counts = Counter(itertools.chain.from_iterable(programs))
    usual = frozenset(fingerprint for fingerprint, count in counts.items() if count > limit)
    return [program - usual for program in programs]


def _shares(telling: list[frozenset[int]]) -> dict[int, dict[int, float]]:
    """Who is near-identical to whom, and how much is shared: through an inverted index of the fingerprints."""
    index: dict[int, list[int]] = defaultdict(list)
    for at, program in enumerate(telling):
        if len(program) >= ENOUGH:
            for fingerprint in program:
                index[fingerprint].append(at)
    common = Counter(pair for holders in index.values() for pair in itertools.combinations(holders, 2))
    shares: dict[int, dict[int, float]] = defaultdict(dict)
    for (one, other), count in common.items():
        share = count / min(len(telling[one]), len(telling[other]))
        if share >= ALIKE:
            shares[one][other] = shares[other][one] = share
    return shares


def _around_centres(telling: list[frozenset[int]], shares: dict[int, dict[int, float]]) -> Iterator[dict[int, float]]:
    """Program -> share with the first one; the programs that are like most others come first."""
    taken: set[int] = set()
    for centre in sorted(range(len(telling)), key=lambda at: (-len(shares.get(at, ())), at)):
        if centre in taken or len(telling[centre]) < ENOUGH:
            continue
        near = sorted(shares.get(centre, {}).items(), key=lambda item: (-item[1], item[0]))
        members = {centre: 1.0, **{at: share for at, share in near if at not in taken}}
        taken.update(members)
        yield members


class Reader:
    """Turns source into fingerprints. What one line of code becomes is worked out once for the whole class."""

    def __init__(self, stub: str) -> None:
        self._lines = dict.fromkeys(code_lines(stub), b"")  # what the stub gives counts for nothing

    def fingerprints(self, source: str) -> frozenset[int]:
        """Of every definition for itself, so that their order makes no difference."""
        kept: set[int] = set()
        for definition in self._definitions(code_lines(source[:SOURCE_MAX])):
            kept.update(winnowed(definition))
        return frozenset(kept)

    def _definitions(self, lines: Iterable[str]) -> Iterator[bytes]:
        tokens: list[bytes] = []
        for line in lines:
            if _DEFINITION.match(line):
                yield b"".join(tokens)
                tokens = []
            if line not in self._lines:
                self._lines[line] = b"".join(map(_code, normalised(line)))
            tokens.append(self._lines[line])
        yield b"".join(tokens)


def code_lines(source: str) -> Iterator[str]:
    """The lines that do something: without comments, the content of strings, docstrings and indentation."""
    for line in _LITERALS.sub(_emptied, source).split("\n"):
        stripped = " ".join(line.split())
        if stripped.strip("'\";, rbfuRBFU"):
            yield stripped


def _emptied(literal: re.Match[str]) -> str:
    return '""' if literal[0][0] in "\"'" else " "


def normalised(line: str) -> Iterator[str]:
    """The tokens of a line: `v` for names that an author chooses; keywords, builtins and attributes as they are."""
    for token in _TOKEN.finditer(line):
        of_self, dot, name = token.groups()
        if name is None:
            yield token[0]
        elif dot:
            yield f".{name}"
        elif of_self:
            yield "self.v"
        else:
            yield name if name in _KEPT else "v"


def _code(token: str) -> bytes:
    """Two bytes for a token; the same on every machine and in every run."""
    return (zlib.crc32(token.encode("utf-8", "replace")) & 0xFFFF).to_bytes(2, "big")


def winnowed(tokens: bytes) -> Iterator[int]:
    """Of the hashes of all stretches of TOKENS tokens, the smallest of every WINDOW neighbours."""
    hashes = [zlib.crc32(tokens[at : at + 2 * TOKENS]) for at in range(0, len(tokens) - 2 * TOKENS + 2, 2)]
    for at in range(max(1, len(hashes) - WINDOW + 1) if hashes else 0):
        yield min(hashes[at : at + WINDOW])
