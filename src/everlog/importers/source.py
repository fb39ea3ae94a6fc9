"""The bytes of an import: a file, or the conversation files and attachments inside a zip archive.

Everything read passes one counter, which drives the progress bar and stops an archive that unpacks to more than is
sane. Members of an archive are read as streams, never unpacked to disk.
"""

import codecs
import io
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import IO, Self

from everlog.errors import BadImport

BUFFER_BYTES = 1 << 18

_CONVERSATIONS = re.compile(r"conversations(-\d+)?\.json")
_FILE_ID = re.compile(r"file[-_][0-9A-Za-z]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much an import may ask for; a file beyond them is refused, an attachment beyond them is only named."""

    unpacked_bytes: int = 8 << 30
    """What a zip archive may unpack to, over all members that are read."""
    ratio: int = 200
    """How many times its packed size a member may unpack to, once it is larger than `ratio_from_bytes`."""
    ratio_from_bytes: int = 64 << 20
    value_bytes: int = 256 << 20
    """The largest single line or conversation, which is held in memory whole."""
    attachment_bytes: int = 64 << 20
    """The largest attachment that is taken along."""


class Document:
    """One file of JSON, in the file system or in an archive; it can be opened more than once."""

    def __init__(self, source: "Source", name: str, member: zipfile.ZipInfo | None) -> None:
        self.name = name
        """What problems say, beside the file they are reported for."""
        self.path = f"{source.path}{name.removeprefix(source.path.name)}"
        """What errors say."""
        self.limits = source.limits
        self.mark_bytes = 0
        """Size of the byte order mark that `open` passed over."""
        self._source = source
        self._member = member

    def open(self, *, progress: bool = True) -> "io.BufferedReader[_Counted]":
        """Return the bytes from the start, without a UTF-8 byte order mark; `progress` counts them as done."""
        raw = _Counted(self._source, self._source.raw(self._member), self._member, progress=progress)
        reader = io.BufferedReader(raw, BUFFER_BYTES)
        try:
            if reader.peek(3)[:3] == codecs.BOM_UTF8:
                self.mark_bytes = len(reader.read(3))
        except BadImport:
            reader.close()
            raise
        return reader


class Source:
    """A file that somebody wants to import."""

    def __init__(self, file: Path, limits: Limits, path: Path | None = None) -> None:
        """Open a file, which errors, and names that are made of it, call by another path if one is given."""
        self.path = path = path or file
        self._file = file
        self.limits = limits
        self.done_bytes = 0
        self.unpacked_bytes = 0
        self._archive: zipfile.ZipFile | None = None
        self._attachments: dict[str, zipfile.ZipInfo] | None = None
        try:
            state = file.stat()
            regular = stat.S_ISREG(state.st_mode)
            with file.open("rb") if regular else io.BytesIO() as opened:
                head = opened.read(4)
            if head[:2] == b"PK" and head[2:] in {b"\x03\x04", b"\x05\x06"}:
                self._archive = zipfile.ZipFile(file)
        except OSError as error:
            raise BadImport(f"{path} cannot be read: {error.strerror or 'it is not accessible'}") from None
        except (zipfile.BadZipFile, NotImplementedError, ValueError):
            raise BadImport(f"{path} is a zip archive that is damaged or ends too early; export it again") from None
        if not regular:
            raise BadImport(f"{path} is not a file; give the exported file or archive itself")
        if not head:
            raise BadImport(f"{path} is empty")
        members = self._members()
        self.size_bytes = sum(member.file_size for member in members) if self._archive else state.st_size
        """How many bytes `documents` hold in all."""

    def documents(self) -> Iterator[Document]:
        """Yield the files that hold conversations, in order."""
        if self._archive is None:
            yield Document(self, self.path.name, None)
        for member in self._members():
            yield Document(self, f"{self.path.name}:{member.filename}", member)

    def raw(self, member: zipfile.ZipInfo | None) -> IO[bytes]:
        """Return the bytes of a member, or of the file, not yet counted."""
        try:
            if member is None:
                return self._file.open("rb", buffering=0)
            assert self._archive is not None
            return self._archive.open(member)
        except (OSError, RuntimeError, NotImplementedError, zipfile.BadZipFile) as error:
            raise self.unreadable(member, error) from None

    def attachment(self, pointer: str) -> tuple[str, bytes] | str | None:
        """Return name and content of the file that a pointer such as `file-service://file-Ab12` means.

        Only its name if it is larger than the limit; None if it is not in the archive.
        """
        found = _FILE_ID.findall(pointer)  # the last one: the pointer's scheme may be `file-service`
        member = self._index().get(found[-1]) if found else None
        if member is None:
            return None
        name = PurePosixPath(member.filename).name
        if member.file_size > self.limits.attachment_bytes:
            return name
        with io.BufferedReader(_Counted(self, self.raw(member), member, progress=False), BUFFER_BYTES) as reader:
            return name, reader.read()

    def took(self, size: int, member: zipfile.ZipInfo | None, so_far: int, *, progress: bool) -> None:
        """Count bytes that were read.

        Raises:
            BadImport: they are more than the limits allow.
        """
        if progress:
            self.done_bytes += size
        if member is None:
            return
        self.unpacked_bytes += size
        ratio = so_far / max(1, member.compress_size)
        if self.unpacked_bytes > self.limits.unpacked_bytes:
            raise BadImport(
                f"{self.path} unpacks to more than {self.limits.unpacked_bytes:,} bytes; if that is right, unpack it "
                "yourself and import the files"
            )
        if so_far > self.limits.ratio_from_bytes and ratio > self.limits.ratio:
            raise BadImport(
                f"{self.path} holds a member that unpacks to more than {self.limits.ratio} times its size, as zip "
                "bombs do; if that is right, unpack it yourself and import the files"
            )

    def close(self) -> None:
        """Close the archive; reading ends."""
        if self._archive is not None:
            self._archive.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _members(self) -> list[zipfile.ZipInfo]:
        if self._archive is None:
            return []
        members = [
            member
            for member in self._archive.infolist()
            if _CONVERSATIONS.fullmatch(PurePosixPath(member.filename).name) and "__MACOSX" not in member.filename
        ]
        if not members:
            self._archive.close()
            raise BadImport(
                f"{self.path} is a zip archive without a conversations.json; give the file inside it that counts"
            )
        return sorted(members, key=lambda member: member.filename)

    def _index(self) -> dict[str, zipfile.ZipInfo]:
        if self._attachments is None:
            self._attachments = {}
            for member in self._archive.infolist() if self._archive else []:
                if found := _FILE_ID.match(PurePosixPath(member.filename).name):
                    self._attachments.setdefault(found[0], member)
        return self._attachments

    def unreadable(self, member: zipfile.ZipInfo | None, error: Exception) -> BadImport:
        """Return the error that says why a member, or the file, cannot be read on."""
        if member is not None and member.flag_bits & 1:
            return BadImport(f"{self.path} is protected by a password; unpack it and import the files")
        if isinstance(error, OSError) and error.strerror:
            return BadImport(f"{self.path} cannot be read: {error.strerror}")
        return BadImport(f"{self.path} is a zip archive that is damaged or ends too early; export it again")


class _Counted(io.RawIOBase):
    """A stream whose bytes are counted, and whose failures are named."""

    def __init__(
        self, source: Source, raw: IO[bytes], member: zipfile.ZipInfo | None, *, progress: bool = True
    ) -> None:
        self._source = source
        self._raw = raw
        self._member = member
        self._progress = progress
        self._read_bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview[int]") -> int:  # type: ignore[override]
        try:
            piece = self._raw.read(len(buffer))
        except (OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
            raise self._source.unreadable(self._member, error) from None
        buffer[: len(piece)] = piece
        self._read_bytes += len(piece)
        self._source.took(len(piece), self._member, self._read_bytes, progress=self._progress)
        return len(piece)

    def close(self) -> None:
        self._raw.close()
        super().close()
