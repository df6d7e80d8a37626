"""Near-identical submissions of one exercise: winnowing over normalised tokens, without what the stub gives.

After S. Schleimer, D. Wilkerson, A. Aiken, "Winnowing: local algorithms for document fingerprinting", SIGMOD 2003.
Comments, docstrings, layout, the order of definitions and the names that an author chooses make no difference. What
many differently written submissions share is an idiom and does not count. A group is a reason to look, nothing more.
"""

from __future__ import annotations

import builtins
import itertools
import keyword
import math
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

Author = TypeVar("Author")

TOKENS = 10  # in a row, that make a fingerprint
WINDOW = 4  # of these, one is kept: every stretch of TOKENS + WINDOW - 1 equal tokens is noticed
ALIKE = 0.8  # of the smaller one's telling fingerprints are shared
ENOUGH = 12  # telling fingerprints that both must have: less code than that looks alike by chance
USUAL, USUAL_MIN, USUAL_MAX = 0.05, 10, 100  # shared by more of the different programs than that: an idiom
SOURCE_MAX = 200_000  # characters that are looked at

BORDER = "\n"  # between the tokens of two definitions

_LITERALS = re.compile(  # every branch takes all it can, so that the time is linear whatever the text
    r'''"""[^"\\]*+(?:(?:\\.|"(?!""))[^"\\]*+)*+(?:"""|\Z)|"(?:\\.|[^"\\\n])*+"?'''
    r"""|'''[^'\\]*+(?:(?:\\.|'(?!''))[^'\\]*+)*+(?:'''|\Z)|'(?:\\.|[^'\\\n])*+'?"""
    r"""|\#[^\n]*+|\\\n""",
    re.DOTALL,
)
_TOKEN = re.compile(r"(?:(\bself\s*\.)|(\.))?\s*([^\W\d]\w*)|(\d[\w.]*|[^\w\s])")
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
    """Who is near-identical to whom, and how much is shared.

    Two programs that share ALIKE of the smaller one's fingerprints share one of its rarest; so only those who hold
    such a one are compared, and nobody is missed.
    """
    holders: dict[int, list[int]] = defaultdict(list)
    for at, program in enumerate(telling):
        if len(program) >= ENOUGH:
            for fingerprint in program:
                holders[fingerprint].append(at)
    rarity = {fingerprint: len(held) << 32 | fingerprint for fingerprint, held in holders.items()}
    shares: dict[int, dict[int, float]] = defaultdict(dict)
    for one, program in enumerate(telling):
        if len(program) < ENOUGH:
            continue
        rarest = sorted(program, key=rarity.__getitem__)[: len(program) - math.ceil(ALIKE * len(program)) + 1]
        for other in {at for fingerprint in rarest for at in holders[fingerprint]} - {one}:
            if len(telling[other]) >= len(program):
                share = len(program & telling[other]) / len(program)
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
        self._lines = _Lines(frozenset(map(_plain, _without_literals(stub).split("\n"))))

    def fingerprints(self, source: str) -> frozenset[int]:
        """Of every definition for itself, so that their order makes no difference."""
        lines = _without_literals(source[:SOURCE_MAX]).split("\n")
        definitions = "".join(map(self._lines.__getitem__, lines)).split(BORDER)
        return frozenset(itertools.chain.from_iterable(map(winnowed, definitions)))


class _Lines(dict[str, str]):
    """A line -> its tokens, one character each; BORDER before a definition; nothing for what the stub gives."""

    def __init__(self, given: frozenset[str]) -> None:
        self._given = given
        self._codes = _Codes()

    def __missing__(self, line: str) -> str:
        plain = _plain(line)
        border = BORDER if _DEFINITION.match(plain) else ""
        tokens = "" if plain in self._given else "".join(map(self._codes.__getitem__, _TOKEN.findall(plain)))
        self[line] = border + tokens
        return border + tokens


class _Codes(dict[tuple[str, str, str, str], str]):
    """A token, as `_TOKEN` finds it -> one character; the same on every machine and in every run."""

    def __missing__(self, found: tuple[str, str, str, str]) -> str:
        token = normalised(*found).encode("utf-8", "replace")
        self[found] = chr(0x100 + zlib.crc32(token) % 0xD000)  # below the surrogates: two bytes in UTF-16
        return self[found]


def _without_literals(source: str) -> str:
    """The source without comments and without the content of strings."""
    return _LITERALS.sub(lambda literal: '""' if literal[0][0] in "\"'" else " ", source)


def _plain(line: str) -> str:
    """The line without blanks that mean nothing; "" for a docstring, which by now is empty quotes."""
    plain = " ".join(line.split())
    return plain if plain.strip("'\"; rbfuRBFU") else ""


def normalised(of_self: str, dot: str, name: str, other: str) -> str:
    """A token of which an author's choice of names is taken away; keywords, builtins and attributes stay."""
    if other:
        return other
    if of_self:
        return "self.v"
    return f".{name}" if dot else name if name in _KEPT else "v"


def winnowed(tokens: str) -> set[int]:
    """Of the hashes of all stretches of TOKENS tokens, the smallest of every WINDOW neighbours."""
    encoded = tokens.encode("utf-16-le")
    hashes = [zlib.crc32(encoded[at : at + 2 * TOKENS]) for at in range(0, len(encoded) - 2 * TOKENS + 2, 2)]
    if len(hashes) < WINDOW:
        return {min(hashes)} if hashes else set()
    return set(map(min, *(hashes[start:] for start in range(WINDOW))))
