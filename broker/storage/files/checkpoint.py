"""Small text files: offset checkpoints, the leader epoch checkpoint, ``partition.metadata``.

A checkpoint is UTF-8 text: a line with the version (0), a line with the number of entries, then one
entry per line with blanks between its fields; every line ends with a newline. It is replaced
atomically, so that a crash leaves the old or the new content. An unreadable file raises a
``CorruptCheckpointError`` that names the file and the reason; the caller knows the safe value. A
file that is missing, empty or ends after the version holds no entries (Kafka makes checkpoints
empty).
"""

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from seglog.broker.storage.errors import CorruptCheckpointError, MissingFileError
from seglog.broker.storage.files.file_system import FileSystem
from seglog.protocol.types import INT64_MAX, TopicPartition

_VERSION: Final = 0
_INTEGER: Final = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_METADATA_LINE: Final = re.compile(r"([a-z_]+):\s+(\S+)")
_ZERO_ID: Final = bytes(16)


class CheckpointFile:
    """A versioned list of lines; the field classes below describe them."""

    def __init__(self, file_system: FileSystem, path: str) -> None:
        self.path = path
        self._file_system = file_system

    def exists(self) -> bool:
        """Whether there is a file."""
        return self._file_system.exists(self.path)

    def read_lines(self, *, empty_ok: bool = True) -> list[str]:
        """The entries as text; none if the file is missing.

        Args:
            empty_ok: take a file of 0 bytes as one without entries; otherwise as a damaged one.

        Raises:
            CorruptCheckpointError: it cannot be read.
        """
        try:
            content = self._file_system.read_file(self.path)
        except MissingFileError:
            return []
        if not content:
            if empty_ok:
                return []
            raise CorruptCheckpointError(self.path, "it is empty")
        return self._split(content)

    def _split(self, content: bytes) -> list[str]:
        if b"\0" in content:
            raise CorruptCheckpointError(self.path, "there are NUL bytes in it")
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise CorruptCheckpointError(self.path, f"it is not UTF-8: {error}") from error
        if not text.endswith("\n"):
            raise CorruptCheckpointError(self.path, "its last line is cut off")
        # Lines may end as an editor of another system leaves them; Kafka reads these as well.
        version, *rest = text[:-1].replace("\r\n", "\n").removesuffix("\r").split("\n")
        if self._number(version, "version") != _VERSION:
            raise CorruptCheckpointError(
                self.path, f"its version is {version}, only {_VERSION} is known"
            )
        if not rest:
            return []
        count = self._number(rest[0], "number of entries")
        lines = rest[1:]
        if len(lines) != count:
            raise CorruptCheckpointError(
                self.path, f"{count} entries are announced, {len(lines)} are there"
            )
        return lines

    def write_lines(self, lines: Iterable[str]) -> None:
        """Replaces the content; durable when this returns.

        Raises:
            DiskFullError, FileError: the old content is still there.
        """
        entries = list(lines)
        text = "".join(f"{line}\n" for line in (str(_VERSION), str(len(entries)), *entries))
        self._file_system.replace_atomically(self.path, text.encode("utf-8"))

    def _fields(self, line: str, count: int) -> list[str]:
        fields = line.split()
        if len(fields) != count:
            raise CorruptCheckpointError(self.path, f"{line!r} has not {count} fields")
        return fields

    def _number(self, text: str, what: str) -> int:
        if _INTEGER.fullmatch(text) is None or abs(int(text)) > INT64_MAX:
            raise CorruptCheckpointError(self.path, f"{text[:40]!r} is no {what}")
        return int(text)


class OffsetCheckpointFile(CheckpointFile):
    """``topic partition offset`` lines: recovery points, log starts, high watermarks, cleaner."""

    def read(self, *, empty_ok: bool = True) -> dict[TopicPartition, int]:
        """The offset of each partition.

        Raises:
            CorruptCheckpointError: it cannot be read; see ``read_lines``.
        """
        offsets: dict[TopicPartition, int] = {}
        for line in self.read_lines(empty_ok=empty_ok):
            topic, partition, offset = self._fields(line, 3)
            key = TopicPartition(topic, self._number(partition, "partition"))
            if key in offsets:
                raise CorruptCheckpointError(self.path, f"{key} is in it twice")
            offsets[key] = self._number(offset, "offset")
        return offsets

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replaces the content; durable when this returns."""
        self.write_lines(
            f"{topic} {partition} {offset}"
            for (topic, partition), offset in sorted(offsets.items())
        )


class EpochEntry(NamedTuple):
    """A leader epoch and the first offset that was written in it."""

    epoch: int
    start_offset: int


class LeaderEpochCheckpointFile(CheckpointFile):
    """``epoch startOffset`` lines, ascending in both."""

    def read(self, *, empty_ok: bool = True) -> list[EpochEntry]:
        """The epochs, oldest first.

        Raises:
            CorruptCheckpointError: it cannot be read or is not ascending.
        """
        entries: list[EpochEntry] = []
        for line in self.read_lines(empty_ok=empty_ok):
            epoch, start = self._fields(line, 2)
            entry = EpochEntry(self._number(epoch, "epoch"), self._number(start, "start offset"))
            if entry.epoch < 0 or entry.start_offset < 0:
                raise CorruptCheckpointError(self.path, f"{line!r} has a negative number")
            if entries and (
                entry.epoch <= entries[-1].epoch or entry.start_offset <= entries[-1].start_offset
            ):
                raise CorruptCheckpointError(
                    self.path, f"{line!r} does not ascend from {tuple(entries[-1])}"
                )
            entries.append(entry)
        return entries

    def write(self, entries: Iterable[EpochEntry]) -> None:
        """Replaces the content; durable when this returns."""
        self.write_lines(f"{epoch} {start_offset}" for epoch, start_offset in entries)


class PartitionMetadataFile:
    """``partition.metadata``: the topic id, written before the first data byte of a log."""

    def __init__(self, file_system: FileSystem, path: str) -> None:
        self.path = path
        self._file_system = file_system

    def read(self) -> bytes | None:
        """The 16 bytes of the topic id; None if there is no file.

        Raises:
            CorruptCheckpointError: it cannot be read, or the id is zero.
        """
        try:
            content = self._file_system.read_file(self.path)
        except MissingFileError:
            return None
        lines = content.decode("utf-8", errors="replace").splitlines()
        values: dict[str, str] = {}
        for line in lines:
            match = _METADATA_LINE.fullmatch(line.strip())
            if match is None:
                raise CorruptCheckpointError(self.path, f"{line[:60]!r} is no 'name: value' line")
            values[match[1]] = match[2]
        if not values.get("version", "").isascii() or not values.get("version", "").isdigit():
            raise CorruptCheckpointError(self.path, "there is no version from 0 up in it")
        return self._decode(values.get("topic_id", ""))

    def _decode(self, text: str) -> bytes:
        try:
            topic_id = base64.b64decode(text + "==", altchars=b"-_", validate=True)
        except (binascii.Error, ValueError) as error:
            raise CorruptCheckpointError(self.path, f"{text!r} is no topic id") from error
        if len(topic_id) != len(_ZERO_ID) or topic_id == _ZERO_ID:
            raise CorruptCheckpointError(self.path, f"{text!r} is no topic id")
        return topic_id

    def write(self, topic_id: bytes, *, durable: bool = True) -> None:
        """Replaces the content, or makes the file; on disk when this returns if ``durable``."""
        text = base64.urlsafe_b64encode(topic_id).decode("ascii").rstrip("=")
        content = f"version: 0\ntopic_id: {text}".encode("ascii")
        if durable:
            self._file_system.replace_atomically(self.path, content)
        else:
            self._file_system.write_file(self.path, content, sync=False)
