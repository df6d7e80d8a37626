"""Zip and tar files as folders, read in memory and within limits. Nothing is unpacked to disk.

An archive is indexed first: names, kinds, sizes. What a name says decides; content is read only when it is asked
for, and never more of it than the caller wants, whatever sizes the archive declares. A large or a strange member that
nobody needs (a checkpoint, a link of a virtual environment) is therefore no obstacle.
"""

from __future__ import annotations

import bz2
import functools
import gzip
import io
import re
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, BinaryIO, cast

from grader.files import Entry, Files, Gathered, Kind, Refused, join, not_regular, readable, visible

PACKED = re.compile(r".\.(zip|tar|tgz|tar\.gz|tbz2?|tar\.bz2|txz|tar\.xz|7z|rar|tar\.zst)$", re.IGNORECASE)
WANTED = re.compile(r".\.(py|ipynb|yml)$", re.IGNORECASE)  # what anyone reads, besides archives in archives
OTHER_KINDS = {b"7z\xbc\xaf\x27\x1c": "7z", b"Rar!": "RAR", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
DEEPEST = 3  # an archive in an archive in an archive
MOST_ARCHIVES = (30, 3, 1)  # of one folder, by how many archives it is inside of
BROKEN = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, struct.error, EOFError, OSError, ValueError, OverflowError,
    NotImplementedError, RecursionError, LookupError,
)  # fmt: skip


@dataclass(frozen=True)
class Limits:
    """How much of an archive is looked at."""

    members: int = 20_000
    header: int = 4_000_000  # bytes of a zip's directory, or of one header of a tar file
    nested: int = 128_000_000  # bytes of it where it is inside another
    stream: int = 1_000_000_000  # bytes of an unpacked tar file that are passed over
    kept: int = 64_000_000  # bytes of it that are kept


OF_ONE = Limits()
OF_A_CLASS = Limits(200_000, 64_000_000, 1_000_000_000, 50_000_000_000, 1_000_000_000)
DEEPER = Limits(nested=16_000_000)  # of an archive inside one that was handed in


@dataclass(frozen=True)
class Member:
    """One file of an archive: a zip's entry, or the content that was kept of a tar file's."""

    kind: Kind
    size: int
    place: zipfile.ZipInfo | bytes | None = None


@dataclass
class Index:
    """What an archive holds. A name may stand in it more than once."""

    members: dict[str, list[Member]] = field(default_factory=dict)
    folders: dict[str, dict[str, Kind]] = field(default_factory=lambda: {"": {}})

    def add(self, path: str, member: Member) -> None:
        if member.kind is Kind.FOLDER:
            self.folders.setdefault(path, {})
        else:
            self.members.setdefault(path, []).append(member)
        kind = member.kind
        while path:
            folder, _, name = path.rpartition("/")
            known = folder in self.folders
            self.folders.setdefault(folder, {})[name] = kind
            if known and kind is Kind.FOLDER:
                break
            path, kind = folder, Kind.FOLDER


@dataclass(frozen=True)
class Archive:
    """The archive at `path` of `source`, as a folder."""

    source: Files
    path: str
    limits: Limits = OF_ONE

    def index(self) -> Index:
        """
        Raises:
            Refused: it cannot be read, or not within the limits.
        """
        found = _index(self)
        if isinstance(found, Refused):
            raise found
        return found

    def shown(self, path: str) -> str:
        return join(self.source.shown(self.path), readable(path))

    def kind(self, path: str) -> Kind | None:
        index = self.index()
        if path in index.folders:
            return Kind.FOLDER
        return index.members[path][-1].kind if path in index.members else None

    def entries(self, folder: str) -> list[Entry]:
        found = self.index().folders.get(folder, {})
        return [Entry(name, kind) for name, kind in sorted(found.items()) if visible(name)]

    def open(self, path: str) -> BinaryIO:
        return io.BytesIO(self.read(path, self.limits.nested))

    def read(self, path: str, most: int) -> bytes:
        member = self._member(path)
        if member.size > most:
            name = readable(path.rpartition("/")[2])
            raise Refused("submission.too_large", file=name, size=member.size, most=most)
        if isinstance(member.place, bytes):
            return member.place
        if member.place is None:
            raise Refused("intake.broken", archive=self.shown(path))
        try:
            with _bytes_of(self) as file:
                return _inflated(file, member.place)
        except BROKEN:
            raise Refused("intake.broken", archive=self.shown("")) from None

    def _member(self, path: str) -> Member:
        members = self.index().members.get(path)
        if not members:
            raise Refused("submission.no_path", path=self.shown(path))
        if len(members) > 1:
            raise Refused("intake.twice", path=readable(path), archive=self.shown(""))
        if members[0].kind is not Kind.FILE:
            raise not_regular(members[0].kind, self.shown(path))
        return members[0]


@functools.lru_cache(maxsize=256)
def _index(archive: Archive) -> Index | Refused:
    try:
        with _bytes_of(archive) as file:
            return _indexed(file, archive)
    except Refused as refused:
        return refused
    except BROKEN:
        return Refused("intake.broken", archive=archive.shown(""))


def _bytes_of(archive: Archive) -> BinaryIO:
    """The packed file itself: on disk as it is, inside another archive unpacked in memory."""
    if isinstance(archive.source, Archive):
        return io.BytesIO(_nested(archive))
    return archive.source.open(archive.path)


@functools.lru_cache(maxsize=2)
def _nested(archive: Archive) -> bytes:
    return archive.source.read(archive.path, archive.limits.nested)


def _indexed(file: BinaryIO, archive: Archive) -> Index:
    start = file.read(262)
    file.seek(0)
    other = next((kind for magic, kind in OTHER_KINDS.items() if start.startswith(magic)), None)
    if other is not None:
        raise Refused("intake.other_archive", archive=archive.shown(""), kind=other)
    if start.startswith(b"\x1f\x8b"):
        members = _of_tar(cast(IO[bytes], gzip.GzipFile(fileobj=file)), archive)
    elif start.startswith(b"BZh"):
        members = _of_tar(bz2.BZ2File(file), archive)
    elif start[257:262] == b"ustar":
        members = _of_tar(file, archive)
    else:
        members = _of_zip(file, archive)
    index = Index()
    for count, (path, member) in enumerate(members, start=1):
        if count > archive.limits.members:
            raise Refused("intake.too_many", archive=archive.shown(""), most=archive.limits.members)
        inside = _inside(path)
        if inside is None:
            raise Refused("intake.outside", archive=archive.shown(""), path=readable(path)[:200])
        if inside:
            index.add(inside, member)
    return index


def _inside(path: str) -> str | None:
    """The path with "/" between its parts, "" for the folder itself; None when it leads out of the archive."""
    parts = path.replace("\\", "/").split("/")
    if path[:1] in ("/", "\\") or re.match("[A-Za-z]:", path) or ".." in parts:
        return None
    return "/".join(part for part in parts if part not in ("", "."))


class _Bounded:
    """A file of which nobody reads more than `most` bytes at once, or `total` together."""

    def __init__(self, file: IO[bytes], most: int, total: int, refusal: Refused) -> None:
        self._file, self._most, self._left, self._refusal = file, most, total, refusal

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(self._most + 1 if size < 0 else min(size, self._most + 1))
        if len(data) > self._most:
            raise self._refusal
        return self._count(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def skip_to(self, offset: int) -> int:
        """Seek forward in a stream, counting what is passed over."""
        while (ahead := offset - self._file.tell()) > 0 and self._count(self._file.read(min(ahead, 1 << 20))):
            pass
        return self._file.tell()

    def tell(self) -> int:
        return self._file.tell()

    def seekable(self) -> bool:
        return True

    def _count(self, data: bytes) -> bytes:
        self._left -= len(data)
        if self._left < 0:
            raise self._refusal
        return data


class _BoundedStream(_Bounded):
    """The same for a stream, in which passing over is reading."""

    def seek(self, offset: int, whence: int = 0) -> int:
        if whence == 0 and offset >= self.tell():
            return self.skip_to(offset)
        return super().seek(offset, whence)


# ---- zip


def _of_zip(file: BinaryIO, archive: Archive) -> Iterator[tuple[str, Member]]:
    refusal = Refused("intake.too_many", archive=archive.shown(""), most=archive.limits.members)
    bounded = _Bounded(file, max(archive.limits.header, 1 << 17), 1 << 62, refusal)
    with zipfile.ZipFile(cast(Any, bounded)) as packed:
        infos = packed.infolist()
    names = _zip_names(infos)
    for name, info in zip(names, infos, strict=True):
        kind = _zip_kind(info)
        if info.flag_bits & 1 and kind is Kind.FILE and _interesting(name):
            raise Refused("intake.encrypted", archive=archive.shown(""))
        yield name, Member(kind, info.file_size, info)


def _zip_kind(info: zipfile.ZipInfo) -> Kind:
    kinds = {stat.S_IFLNK: Kind.LINK, stat.S_IFIFO: Kind.PIPE, stat.S_IFSOCK: Kind.SOCKET}
    kinds |= dict.fromkeys((stat.S_IFCHR, stat.S_IFBLK), Kind.DEVICE)
    found = kinds.get(stat.S_IFMT(info.external_attr >> 16))
    return found or (Kind.FOLDER if info.filename.endswith(("/", "\\")) else Kind.FILE)


def _zip_names(infos: list[zipfile.ZipInfo]) -> list[str]:
    """The names as they were meant. Those not marked as UTF-8 are in the encoding of the system that packed them."""
    raw = [name.encode("cp437") for name in (info.orig_filename for info in infos if not info.flag_bits & 0x800)]
    encoding = next((name for name, fits in GUESSES.items() if fits(raw)), "cp437")
    return [_unicode_name(info) or _decoded(info, encoding) for info in infos]


def _is_utf8(names: Sequence[bytes]) -> bool:
    return _text(names, "utf-8") is not None


def _is_gbk(names: Sequence[bytes]) -> bool:
    """Whether it makes Chinese: most letters are of the 6,763 common ones; accidents of other encodings are rare."""
    letters = [letter for letter in _text(names, "gb18030") or "" if not letter.isascii()]
    common = sum(letter.encode("gb2312", "ignore") != b"" for letter in letters)
    return bool(letters) and 2 * common > len(letters)


def _text(names: Sequence[bytes], encoding: str) -> str | None:
    try:
        return "".join(name.decode(encoding) for name in names)
    except UnicodeDecodeError:
        return None


GUESSES = {"utf-8": _is_utf8, "gb18030": _is_gbk}


def _decoded(info: zipfile.ZipInfo, encoding: str) -> str:
    """`orig_filename`: it still has backslashes, and what stands after a NUL."""
    name = info.orig_filename
    return name if info.flag_bits & 0x800 else name.encode("cp437").decode(encoding)


def _unicode_name(info: zipfile.ZipInfo) -> str | None:
    """The name in Info-ZIP's field 0x7075, valid only for the very name it stands beside."""
    extra = info.extra
    while len(extra) >= 4:
        kind, size = struct.unpack_from("<HH", extra)
        if kind == 0x7075 and size > 5 and not info.flag_bits & 0x800:
            version, checksum = struct.unpack_from("<BL", extra, 4)
            if version == 1 and checksum == zlib.crc32(info.orig_filename.encode("cp437")):
                return extra[9 : 4 + size].decode("utf-8")
        extra = extra[4 + size :]
    return None


def _inflated(file: BinaryIO, info: zipfile.ZipInfo) -> bytes:
    """The content of a member, never more than it declares; a member that lies about itself is broken."""
    if info.compress_type not in METHODS:
        raise zipfile.BadZipFile("a method that is not deflate")
    file.seek(info.header_offset)
    header = file.read(30)
    if header[:4] != b"PK\x03\x04":
        raise zipfile.BadZipFile("no header")
    name, extra = struct.unpack_from("<HH", header, 26)
    file.seek(name + extra, io.SEEK_CUR)
    packed = file.read(min(info.compress_size, 2 * info.file_size + 1024))
    if info.compress_type == zipfile.ZIP_DEFLATED:
        packed = zlib.decompressobj(-15).decompress(packed, info.file_size + 1)
    if len(packed) != info.file_size or zlib.crc32(packed) != info.CRC:
        raise zipfile.BadZipFile("size or checksum is wrong")
    return packed


def _interesting(name: str) -> bool:
    return bool(WANTED.search(name) or PACKED.search(name))


# ---- tar


def _of_tar(file: IO[bytes], archive: Archive) -> Iterator[tuple[str, Member]]:
    """One pass over the stream, in which the small files that anyone reads are kept."""
    limits = archive.limits
    refusal = Refused("intake.too_long", archive=archive.shown(""), most=limits.stream)
    bounded = _BoundedStream(file, limits.nested, limits.stream, refusal)
    left = limits.kept
    with tarfile.open(fileobj=cast(Any, bounded), mode="r:") as packed:
        while (member := packed.next()) is not None:
            cast(Any, packed).members.clear()  # it would keep all it has seen
            kind, content = _tar_kind(member), None
            fits = member.size <= min(left, limits.nested) and not member.issparse()
            if kind is Kind.FILE and fits and _interesting(member.name):
                content = _content(packed, member)
                left -= len(content)
            yield readable(member.name), Member(kind, member.size, content)


def _content(packed: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = packed.extractfile(member)
    content = file.read() if file else b""
    if len(content) != member.size:
        raise EOFError(member.name)
    return content


def _tar_kind(member: tarfile.TarInfo) -> Kind:
    if member.isdir():
        return Kind.FOLDER
    if member.issym() or member.islnk():
        return Kind.LINK
    if member.isfifo():
        return Kind.PIPE
    return Kind.FILE if member.isfile() else Kind.DEVICE


# ---- a folder with archives in it


@dataclass(frozen=True)
class Opened:
    """A folder in which each archive is the folder it holds. One that cannot be read stays a file."""

    base: Files
    limits: Limits = OF_ONE

    def resolve(self, path: str) -> tuple[Files, str]:
        """The innermost folder or archive, and the path inside it."""
        files, inner, _ = self._resolve(path)
        return files, inner

    def _resolve(self, path: str) -> tuple[Files, str, int]:
        """The same, and how many archives it is inside of."""
        files, start, depth = self.base, 0, 0
        parts = path.split("/") if path else []
        for end in range(1, len(parts) + 1):
            if depth < DEEPEST and PACKED.search(parts[end - 1]):
                archive = self._archive(files, "/".join(parts[start:end]), depth)
                if isinstance(archive, Archive):
                    files, start, depth = archive, end, depth + 1
        return files, "/".join(parts[start:]), depth

    def _archive(self, files: Files, path: str, depth: int) -> Archive | Refused | None:
        if files.kind(path) is not Kind.FILE:
            return None
        if isinstance(files, Gathered):
            files, path = files.found(path)
        archive = Archive(files, path, DEEPER if depth else self.limits)
        found = _index(archive)
        return found if isinstance(found, Refused) else archive

    def shown(self, path: str) -> str:
        files, inner = self.resolve(path)
        return files.shown(inner)

    def kind(self, path: str) -> Kind | None:
        files, inner = self.resolve(path)
        return Kind.ARCHIVE if path and not inner else files.kind(inner)

    def entries(self, folder: str) -> list[Entry]:
        files, inner, depth = self._resolve(folder)
        room = MOST_ARCHIVES[depth] if depth < DEEPEST else 0
        found = []
        for entry in files.entries(inner):
            if entry.kind is Kind.FILE and room and PACKED.search(entry.name):
                room -= 1
                if isinstance(self._archive(files, join(inner, entry.name), depth), Archive):
                    entry = Entry(entry.name, Kind.ARCHIVE)
            found.append(entry)
        return found

    def refusal(self, folder: str = "") -> Refused | None:
        """Why the first archive of a folder that cannot be read cannot be."""
        files, inner, depth = self._resolve(folder)
        for entry in files.entries(inner):
            if entry.kind is Kind.FILE and PACKED.search(entry.name):
                found = self._archive(files, join(inner, entry.name), depth)
                if isinstance(found, Refused):
                    return found
        return None

    def open(self, path: str) -> BinaryIO:
        files, inner = self.resolve(path)
        return files.open(inner)

    def read(self, path: str, most: int) -> bytes:
        files, inner = self.resolve(path)
        return files.read(inner, most)


def forget() -> None:
    """Archives may have changed since they were looked at."""
    _index.cache_clear()
    _nested.cache_clear()


def unpacked_name(name: str) -> str:
    """`homework` of `homework.tar.gz`."""
    return re.sub(PACKED.pattern[1:], "", name, flags=re.IGNORECASE) if PACKED.search(name) else name
