"""Near-identical submissions of one exercise: winnowing over normalised tokens, without what the stub gives.

The slow part, reading a submission, is done once and kept (`sketch`); a class is compared by its sketches, at once.

After S. Schleimer, D. Wilkerson, A. Aiken, "Winnowing: local algorithms for document fingerprinting", SIGMOD 2003.
Comments, docstrings, layout, the order of definitions and the names that an author chooses make no difference. What
many differently written submissions share is an idiom and does not count. A group is a reason to look, nothing more.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor

from grader.sketch import BORDER, LINE, sketch

Author = TypeVar("Author")

TOKENS = 10  # in a row, that make a fingerprint
WINDOW = 4  # of these, one is kept: every stretch of TOKENS + WINDOW - 1 equal tokens is noticed
ALIKE = 0.8  # of the smaller one's telling fingerprints are shared
ENOUGH = 12  # telling fingerprints that both must have: less code than that looks alike by chance
USUAL, USUAL_MIN, USUAL_MAX = 0.05, 10, 100  # shared by more of the different programs than that: an idiom

AFTER = BORDER.encode("utf-16-le") * (TOKENS + WINDOW)  # behind the last program, so that every place begins a stretch
NONE = 1 << 40  # in place of a hash where there is none
TOGETHER = 4000  # programs whose pairs are counted at once, so that memory stays bounded


@dataclass(frozen=True)
class Group(Generic[Author]):
    """Authors whose submissions are nearly the same; `shares` says of each how much it shares with the first."""

    authors: tuple[Author, ...]
    shares: tuple[float, ...]

    @property
    def lowest(self) -> float:
        return min(self.shares)


def groups(sketches: Mapping[Author, bytes], stub: str) -> list[Group[Author]]:
    """The groups among `sketches` (author -> sketch), the largest first. Nobody is in two of them.

    Everyone in a group shares at least ALIKE with its first author, so that no chain of small steps makes one.
    """
    authors, names = list(sketches), dict[int, list[Author]]()
    owner, prints = fingerprints(list(sketches.values()), stub)
    same = _first_alike(owner, prints, len(authors))
    for at, first in enumerate(same):
        names.setdefault(first, []).append(authors[at])
    kept = torch.tensor([first == at for at, first in enumerate([*same, -1])])[owner]
    owner, prints = _telling(owner[kept], prints[kept], len(names))
    shares = _shares(owner, prints)
    some = [at for at in _long_enough(owner) if at in shares or len(names[at]) > 1]
    found = [
        Group(
            authors=tuple(author for at in members for author in names[at]),
            shares=tuple(share for at, share in members.items() for _ in names[at]),
        )
        for members in _around_centres(some, shares)
    ]
    return sorted((group for group in found if len(group.authors) > 1), key=lambda group: -len(group.authors))


def _first_alike(owner: Tensor, prints: Tensor, count: int) -> list[int]:
    """For each program, the first that has exactly the same fingerprints."""
    ends = torch.searchsorted(owner, torch.arange(count), right=True).tolist()
    data = ctypes.string_at(prints.contiguous().data_ptr(), 8 * len(prints)) if len(prints) else b""
    first: dict[bytes, int] = {}
    return [
        first.setdefault(data[8 * start : 8 * end], at)
        for at, (start, end) in enumerate(itertools.pairwise([0, *ends]))
    ]


def _telling(owner: Tensor, prints: Tensor, programs: int) -> tuple[Tensor, Tensor]:
    """The fingerprints without those that many different programs have."""
    limit = min(max(USUAL_MIN, USUAL * programs), USUAL_MAX)
    _, place, count = prints.unique(return_inverse=True, return_counts=True)  # type: ignore[no-untyped-call]
    rare = count[place] <= limit
    return owner[rare], prints[rare]


def _long_enough(owner: Tensor) -> list[int]:
    """The programs that have ENOUGH fingerprints."""
    return (owner.bincount() >= ENOUGH).nonzero()[:, 0].tolist()


def _shares(owner: Tensor, prints: Tensor) -> dict[int, dict[int, float]]:
    """Who is near-identical to whom, and how much is shared: counted for all pairs that share anything."""
    sizes = owner.bincount()
    large = sizes[owner] >= ENOUGH
    order = prints[large].argsort(stable=True)
    holders, prints = owner[large][order], prints[large][order]
    shares: dict[int, dict[int, float]] = defaultdict(dict)
    for start in range(0, len(sizes), TOGETHER):
        one, other, count = _shared(prints, holders, range(start, start + TOGETHER))
        share = count / torch.minimum(sizes[one], sizes[other]).double()
        near = share >= ALIKE
        for a, b, value in zip(one[near].tolist(), other[near].tolist(), share[near].tolist(), strict=True):
            shares[a][b] = shares[b][a] = value
    return shares


def _shared(prints: Tensor, holders: Tensor, first: range) -> tuple[Tensor, Tensor, Tensor]:
    """Pairs of programs (the smaller number, which is in `first`, and the larger) and how many fingerprints they share.

    Equal fingerprints stand side by side, by program; so those who share one are 1, 2, 3, ... places apart.
    """
    at = ((holders >= first.start) & (holders < first.stop)).nonzero()[:, 0]
    pairs = [holders[:0]]
    for apart in range(1, len(prints)):
        at = at[: torch.searchsorted(at, len(prints) - apart)]
        at = at[prints[at] == prints[at + apart]]
        pairs.append(holders[at] << 32 | holders[at + apart])
        if not len(at):
            break
    found, count = torch.cat(pairs).unique(return_counts=True)  # type: ignore[no-untyped-call]
    return found >> 32, found & (1 << 32) - 1, count


def _around_centres(programs: Iterable[int], shares: Mapping[int, Mapping[int, float]]) -> Iterator[dict[int, float]]:
    """Program -> share with the first one; the programs that are like most others come first."""
    taken: set[int] = set()
    for centre in sorted(programs, key=lambda at: (-len(shares.get(at, ())), at)):
        if centre in taken:
            continue
        near = sorted(shares.get(centre, {}).items(), key=lambda item: (-item[1], item[0]))
        members = {centre: 1.0, **{at: share for at, share in near if at not in taken}}
        taken.update(members)
        yield members


# ---- winnowing, of all programs at once


def fingerprints(sketches: Sequence[bytes], stub: str) -> tuple[Tensor, Tensor]:
    """Number of the program, and a fingerprint of it; sorted, each once.

    They are of every definition for itself, so that their order makes no difference.
    """
    codes = _codes(BORDER.encode("utf-16-le").join([*sketches, AFTER]))
    owner = _owners(sketches)
    rest = ~_given(codes, _marks(_codes(sketch(stub))))
    found = _winnowed(codes[rest], owner[rest])
    return found >> 32, found & (1 << 32) - 1


def _codes(text: bytes) -> Tensor:
    read = torch.frombuffer(bytearray(text), dtype=torch.int16) if text else torch.empty(0, dtype=torch.int16)
    return read.long() & 0xFFFF


def _owners(sketches: Sequence[bytes]) -> Tensor:
    """The number of the program that each place belongs to; the borders behind the last one belong to nobody."""
    lengths = torch.tensor([len(each) // 2 + 1 for each in sketches] + [len(AFTER) // 2])
    return torch.arange(len(sketches) + 1).repeat_interleave(lengths)


def _marks(codes: Tensor) -> Tensor:
    """The marks of all lines, in their order."""
    lines = (codes == ord(LINE)).nonzero()[:, 0]
    return codes[lines + 1] << 16 | codes[lines + 2]


def _given(codes: Tensor, marks: Tensor) -> Tensor:
    """Which places say where lines begin, or are of a line that has one of the marks; borders stay."""
    begins = codes == ord(LINE)
    given = torch.cat([torch.zeros(1, dtype=torch.bool), torch.isin(_marks(codes), marks)])
    about = begins.clone()
    about[1:] |= begins[:-1]
    about[2:] |= begins[:-2]
    return about | (given[begins.cumsum(0)] & (codes != ord(BORDER)))


def _winnowed(codes: Tensor, owner: Tensor) -> Tensor:
    """Owner and, of the hashes of all stretches of TOKENS codes, the smallest of every WINDOW neighbours; sorted.

    No stretch reaches beyond a BORDER; a definition that has fewer hashes than WINDOW gives the smallest of them.
    """
    border = codes == ord(BORDER)
    hashes = torch.where(_any(border, TOKENS), NONE, _hashes(codes))
    run = [hashes[at : len(hashes) - WINDOW + 1 + at] for at in range(WINDOW)]
    largest, smallest = functools.reduce(torch.maximum, run), functools.reduce(torch.minimum, run)
    kept = torch.where(largest == NONE, NONE, smallest)
    definition = border.cumsum(0)[: len(hashes)]
    pairs = [_pairs(owner[: len(kept)], kept), _pairs(*_of_short_ones(owner[: len(hashes)], definition, hashes))]
    return torch.cat(pairs).unique_consecutive().unique()  # type: ignore[no-untyped-call, no-any-return]


def _of_short_ones(owner: Tensor, definition: Tensor, hashes: Tensor) -> tuple[Tensor, Tensor]:
    """Owner and smallest hash of each definition; NONE for those that fill a window."""
    count = int(definition[-1]) + 1
    smallest = torch.full((count,), NONE).scatter_reduce(0, definition, hashes, "amin")
    whose = torch.zeros(count, dtype=torch.int64).scatter_reduce(0, definition, owner, "amax")
    size = definition[hashes != NONE].bincount(minlength=count)
    return whose, torch.where(size < WINDOW, smallest, NONE)


def _pairs(owner: Tensor, hashes: Tensor) -> Tensor:
    real = hashes != NONE
    return owner[real] << 32 | hashes[real]


def _any(marks: Tensor, length: int) -> Tensor:
    """Whether there is a mark in the stretch that begins at a place."""
    counts = torch.cat([torch.zeros(1, dtype=torch.int64), marks.cumsum(0)])
    return counts[length:] > counts[:-length]


def _hashes(codes: Tensor) -> Tensor:
    """CRC-32 of every stretch of TOKENS codes: what each code at its place contributes, put together by XOR."""
    places = len(codes) - TOKENS + 1
    hashes = torch.full((places,), zlib.crc32(bytes(2 * TOKENS))).int()
    for at, table in enumerate(_contributions()):
        hashes ^= table[codes[at : at + places]]
    return hashes.long() & (1 << 32) - 1


@functools.cache
def _contributions() -> list[Tensor]:
    """For each place in a stretch, code -> what it changes in the CRC-32 of zeros. CRC-32 is linear in the bits."""
    tables = []
    for at in range(TOKENS):
        table = torch.zeros(1, dtype=torch.int64)
        for bit in range(16):
            stretch = bytearray(2 * TOKENS)
            stretch[2 * at + bit // 8] = 1 << bit % 8
            table = torch.cat([table, table ^ (zlib.crc32(stretch) ^ zlib.crc32(bytes(2 * TOKENS)))])
        tables.append(table.int())
    return tables
