"""The disk guard: keeping a data directory below a limit, or free space above a mark.

The oldest deletable segments go first, over all topics of the directory. If that does not free
enough, the directory refuses appends, with a reason; reads and deletions go on, and appends are
accepted again as soon as there is room.
"""

import os
from typing import NamedTuple

from seglog.broker.storage.errors import error_from_os
from seglog.config import BrokerConfig


class DirectoryUsage(NamedTuple):
    """Bytes of a data directory; files that wait for their removal count as removed."""

    used_bytes: int
    free_bytes: int


class Excess(NamedTuple):
    """How much too much there is, and by which key."""

    size_bytes: int
    key: str
    explanation: str


def is_guarded(config: BrokerConfig) -> bool:
    """Whether a limit is set at all."""
    return config.log_dir_bytes_max >= 0 or config.log_dir_free_bytes_min > 0


def excess_of(usage: DirectoryUsage, config: BrokerConfig) -> Excess | None:
    """The greater of the two ways in which a directory holds too much; None if it does not."""
    too_much = []
    if config.log_dir_bytes_max >= 0:
        key = "log.dir.bytes.max"
        explanation = f"it holds {usage.used_bytes} bytes, {key} is {config.log_dir_bytes_max}"
        too_much.append(Excess(usage.used_bytes - config.log_dir_bytes_max, key, explanation))
    if config.log_dir_free_bytes_min > 0:
        key = "log.dir.free.bytes.min"
        explanation = f"{usage.free_bytes} bytes are free, {key} is {config.log_dir_free_bytes_min}"
        too_much.append(Excess(config.log_dir_free_bytes_min - usage.free_bytes, key, explanation))
    excess = max(too_much, default=None)
    return excess if excess is not None and excess.size_bytes > 0 else None


def free_bytes_of(path: str) -> int:
    """Bytes that an ordinary user may still write on the file system of a directory.

    Raises:
        FileError: the disk refused.
    """
    try:
        statistics = os.statvfs(path)
    except OSError as error:
        raise error_from_os("look at the space of", path, error) from error
    return statistics.f_bavail * statistics.f_frsize
