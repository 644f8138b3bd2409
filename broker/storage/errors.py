"""The errors of files and logs.

Every error carries the wire code that a client is answered with and the values that explain it.

    StorageError                    KAFKA_STORAGE_ERROR unless said otherwise
    +-- FileError                   the operating system refused an operation; takes the dir offline
    |   +-- MissingFileError        a file or directory that should exist does not
    |   +-- AccessDeniedError       no permission to read, write or change it
    |   +-- ReadOnlyError           the whole file system takes no changes (any more)
    |   +-- OddFileError            it is no ordinary file: a link to itself, a folder, a device
    |   +-- ClosedFileError         its owner has let go of it; says nothing about the disk
    +-- DiskFullError               no space or quota left; nothing was kept, may be tried again
    |   +-- NoDescriptorError       no descriptor or memory is left for the process; the same holds
    +-- NotSyncedError              a flush that was given up; says nothing about the disk
    +-- NameTooLongError            the file system takes no names of that length
    +-- LockedError                 another process holds the directory
    +-- CorruptFileError            content that breaks its format
    |   +-- CorruptIndexError       an offset, time or transaction index; can be rebuilt
    |   +-- CorruptLogError         a data file, from a position on; CORRUPT_MESSAGE
    |   |   +-- DamagedRecordsError where it ends is known
    |   +-- CorruptCheckpointError  a checkpoint or another small text file
    +-- IndexAppendError            an index entry that does not follow the last one; our mistake
    |   +-- IndexFullError          no room for another entry
    |   +-- IndexOverflowError      an offset or position that does not fit into 31 bits
    +-- SliceCutError               records on their way to a reader that have left the log
    +-- DeferredReadError           a read that has to wait for work in another thread
    +-- SegmentOverflowError        a data file whose offsets span more than 2^31-1
    +-- OffsetOutOfRangeError       OFFSET_OUT_OF_RANGE
    +-- InvalidTopicNameError       INVALID_TOPIC_EXCEPTION
    +-- InvalidDirectoryNameError   a folder in a log dir that is no partition
"""

import errno
from collections.abc import Callable
from typing import ClassVar, Final

from seglog.protocol.errors import ErrorCode, SeglogError

_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
NO_DESCRIPTOR: Final = frozenset({errno.EMFILE, errno.ENFILE})
NO_RESOURCE: Final = NO_DESCRIPTOR | {errno.ENOMEM}
_NOT_ALLOWED: Final = frozenset({errno.EACCES, errno.EPERM})
_ODD: Final = frozenset({errno.ELOOP, errno.ENOTDIR, errno.ENODEV, errno.ENXIO})


class StorageError(SeglogError):
    """Base of all errors of the storage layer.

    ``code`` is the wire code; ``takes_dir_offline`` says whether the log directory must not be
    trusted with further writes.
    """

    code: ClassVar[ErrorCode] = ErrorCode.KAFKA_STORAGE_ERROR
    takes_dir_offline: ClassVar[bool] = False


class FileError(StorageError):
    """The operating system refused ``operation`` on ``path``."""

    takes_dir_offline: ClassVar[bool] = True

    def __init__(self, operation: str, path: str, reason: str) -> None:
        super().__init__(f"{operation} {path}: {reason}")
        self.operation = operation
        self.path = path
        self.reason = reason


class MissingFileError(FileError):
    """A file or directory that should exist does not."""


class AccessDeniedError(FileError):
    """A file or directory belongs to another user, or must not be changed (an immutable file)."""


class ReadOnlyError(FileError):
    """The file system is mounted read-only, perhaps by the kernel after an error."""


class OddFileError(FileError):
    """There is something under the name of a file that is none, put there by hand."""


class ClosedFileError(FileError):
    """The file was closed, by retention for instance, before ``operation``; the disk is well."""

    takes_dir_offline: ClassVar[bool] = False

    def __init__(self, operation: str, path: str) -> None:
        super().__init__(operation, path, "this file was closed")


class DiskFullError(StorageError):
    """``operation`` on ``path`` found no space (or no quota); the file is as it was before."""

    def __init__(self, operation: str, path: str, reason: str) -> None:
        super().__init__(f"{operation} {path}: {reason}")
        self.operation = operation
        self.path = path
        self.reason = reason


class NoDescriptorError(DiskFullError):
    """The process, or the system, has no descriptor or memory left; says nothing about the disk."""


class NotSyncedError(StorageError):
    """A flush ended without a failure, and not all that it was to sync is on disk."""

    def __init__(self) -> None:
        super().__init__(
            "the flush was given up, because its log was closed, cut or moved meanwhile; what it"
            " was to put on disk may not be there"
        )


class NameTooLongError(StorageError):
    """The file system takes no names as long as that of ``path``; says nothing about the disk."""

    code: ClassVar[ErrorCode] = ErrorCode.INVALID_TOPIC_EXCEPTION

    def __init__(self, operation: str, path: str, reason: str) -> None:
        super().__init__(f"{operation} {path}: {reason}")
        self.operation = operation
        self.path = path
        self.reason = reason


class LockedError(StorageError):
    """Another process holds the lock file of the directory; ``holder`` says which, if known."""

    def __init__(self, path: str, holder: str = "") -> None:
        super().__init__(
            f"{path} is held by {holder or 'another process'}; is a broker running on this folder?"
        )
        self.path = path
        self.holder = holder


class CorruptFileError(StorageError):
    """A file whose content breaks its format."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} is corrupt: {reason}")
        self.path = path
        self.reason = reason


class CorruptIndexError(CorruptFileError):
    """An index file that cannot be trusted; it can be rebuilt from the data file."""


class CorruptLogError(CorruptFileError):
    """A data file that holds no batch where one should start, at byte ``position``."""

    code: ClassVar[ErrorCode] = ErrorCode.CORRUPT_MESSAGE

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(path, f"at position {position}: {reason}")
        self.position = position


class TornSegmentError(CorruptLogError):
    """A segment that was closed whole and has lost its end, so that nothing may be appended.

    Its disk has not kept what it was told to keep. The next start recovers the segment.
    """

    code: ClassVar[ErrorCode] = ErrorCode.KAFKA_STORAGE_ERROR

    def __init__(self, path: str, size_bytes: int, next_offset: int | None) -> None:
        super().__init__(
            path,
            size_bytes,
            f"the file does not end behind offset {next_offset} any more, as when it was closed:"
            " restart the broker to cut it behind the last good batch",
        )


class DamagedRecordsError(CorruptLogError):
    """Records that are lost; ``next_offset`` is where good ones go on, None if none follow."""

    def __init__(
        self, path: str, position: int, first_offset: int, next_offset: int | None
    ) -> None:
        following = "none follow" if next_offset is None else f"they go on at offset {next_offset}"
        super().__init__(
            path, position, f"the records from offset {first_offset} on are damaged; {following}"
        )
        self.first_offset = first_offset
        self.next_offset = next_offset


class CorruptCheckpointError(CorruptFileError):
    """A checkpoint or another small text file that cannot be read."""


class IndexAppendError(StorageError):
    """An index entry that does not follow the last one."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class IndexFullError(IndexAppendError):
    """The index has no room for another entry."""


class IndexOverflowError(IndexAppendError):
    """An offset or file position that does not fit into the 31 bits of an index entry."""


class SliceCutError(StorageError):
    """A truncation has taken bytes away that are on their way to a reader."""

    def __init__(self, path: str, position: int, length: int, size: int) -> None:
        super().__init__(
            f"{path} was cut to {size} bytes, while those from {position} to {position + length} "
            "were on their way to a reader; it has to ask again"
        )


class DeferredReadError(StorageError):
    """A read needs something that takes too long for the thread that owns the log.

    Attributes:
        work: to be called in another thread; it changes nothing that the owner sees, and returns a
            function with which the owner takes the result over. The read is then tried again.
    """

    def __init__(self, path: str, reason: str, work: Callable[[], Callable[[], None]]) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason
        self.work = work


class SegmentOverflowError(StorageError):
    """The batch at byte ``position`` ends at ``offset``, more than 2^31-1 above the base offset."""

    def __init__(self, path: str, base_offset: int, offset: int, position: int) -> None:
        super().__init__(
            f"{path}: the batch at position {position} ends at offset {offset}, which is more than "
            f"2147483647 above the base offset {base_offset}; the segment must be split"
        )
        self.path = path
        self.base_offset = base_offset
        self.offset = offset
        self.position = position


class OffsetOutOfRangeError(StorageError):
    """An offset below the log start or beyond the log end; both are given for a client's reset."""

    code: ClassVar[ErrorCode] = ErrorCode.OFFSET_OUT_OF_RANGE

    def __init__(self, offset: int, log_start_offset: int, log_end_offset: int) -> None:
        super().__init__(
            f"offset {offset} is outside of the log, which holds "
            f"{log_start_offset} up to (not including) {log_end_offset}"
        )
        self.offset = offset
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset


class InvalidTopicNameError(StorageError):
    """A topic name that Kafka's rules forbid."""

    code: ClassVar[ErrorCode] = ErrorCode.INVALID_TOPIC_EXCEPTION

    def __init__(self, topic: str, reason: str) -> None:
        super().__init__(f"topic name {topic[:260]!r} is illegal: {reason}")
        self.topic = topic
        self.reason = reason


class InvalidDirectoryNameError(StorageError):
    """A folder in a log directory whose name is not that of a partition."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name!r} is not the folder of a partition: {reason}")
        self.name = name
        self.reason = reason


def error_from_os(operation: str, path: str, error: OSError) -> StorageError:
    """The storage error for an error of the operating system."""
    reason = error.strerror or str(error)
    if error.errno in _NO_SPACE:
        return DiskFullError(operation, path, reason)
    if error.errno in NO_RESOURCE:
        return NoDescriptorError(operation, path, reason)
    if error.errno == errno.ENAMETOOLONG:
        return NameTooLongError(operation, path, reason)
    if error.errno in _NOT_ALLOWED:
        return AccessDeniedError(operation, path, reason)
    if error.errno == errno.EROFS:
        return ReadOnlyError(operation, path, reason)
    if error.errno in _ODD:
        return OddFileError(operation, path, reason)
    if error.errno == errno.ENOENT:
        return MissingFileError(operation, path, reason)
    if error.errno == errno.EISDIR:
        return CorruptFileError(path, "it is a folder")  # not made by a broker, and no disk failure
    return FileError(operation, path, reason)


def sync_error(path: str, error: OSError) -> FileError:
    """The error for a sync that failed for any reason: the data on disk is unknown.

    The kernel may have dropped the pages, so that trying again would succeed without a write.
    """
    return FileError("sync", path, error.strerror or str(error))
