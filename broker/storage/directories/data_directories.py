"""The data directories of one broker: opened together, chosen from, and lost one by one."""

import errno
import logging
import os
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final, TypeVar

from seglog.broker.storage.directories.log_dir import LogDir
from seglog.broker.storage.directories.meta_properties import MetaProperties
from seglog.broker.storage.directories.node_identity import (
    ConfiguredIdentity,
    NodeIdentity,
    agree_on_identity,
    write_identity,
)
from seglog.broker.storage.directories.scan import check_is_data_directory
from seglog.broker.storage.errors import StorageError
from seglog.broker.storage.files.file_system import FileSystem
from seglog.config import BrokerConfig, ConfigError

logger = logging.getLogger(__name__)

_EVERY_DIRECTORY: Final = "*"
_NOT_WRITABLE: Final = (errno.EACCES, errno.EPERM, errno.EROFS)

ResultT = TypeVar("ResultT")


class NoUsableDirectoryError(StorageError):
    """No data directory is left, or none takes a new partition."""


def _hint(reasons: str) -> str:
    """A hint for a directory that cannot be written to, or locked; empty for other reasons."""
    if os.strerror(errno.ENOLCK) in reasons:
        return "; this file system gives no locks: if it is NFS, its lock service must run"
    if any(os.strerror(number) in reasons for number in _NOT_WRITABLE):
        return f"; user id {os.getuid()} must be able to write to the directories of log.dirs"
    return ""


class DataDirectories:
    """All data directories, online or not, in the order of the configuration.

    Args:
        file_system: where they are.
        config: says which, and which of them get no new partitions.
    """

    def __init__(self, file_system: FileSystem, config: BrokerConfig) -> None:
        self._file_system = file_system
        self._config = config
        self._all = [LogDir(file_system, path) for path in config.log_dirs]

    @property
    def all(self) -> Sequence[LogDir]:
        """Every configured directory."""
        return self._all

    @property
    def online(self) -> list[LogDir]:
        """Those in use."""
        return [log_dir for log_dir in self._all if log_dir.is_online]

    @property
    def writable(self) -> list[LogDir]:
        """Those in use that take changes."""
        return [log_dir for log_dir in self._all if log_dir.is_writable_now]

    @property
    def are_all_online(self) -> bool:
        """Whether none has failed."""
        return all(log_dir.is_online for log_dir in self._all)

    def update_config(self, config: BrokerConfig) -> None:
        """Take over which directories get no new partitions."""
        self._config = config

    def find(self, path: str) -> LogDir:
        """The directory of a path."""
        return next(log_dir for log_dir in self._all if log_dir.path == path)

    def check_same(self, path: str) -> None:
        """Make sure that the directory of a path is the one that was locked, see ``LogDir``."""
        self.find(path).check_same()

    def lock(self) -> None:
        """Lock every directory that can be used.

        Raises:
            LockedError: another broker has one of them; no lock is kept, no file was changed.
            NoDataDirectoryError: one is full of something else; nothing was left in it.
            NoUsableDirectoryError: none can be used.
            ConfigError: two of them are the same one.
        """
        self._check_distinct()
        try:
            for log_dir in self._all:
                look = partial(check_is_data_directory, self._file_system, log_dir.path)
                self.attempt(log_dir, look)
            for log_dir in self.online:
                self.attempt(log_dir, log_dir.lock)
            self.check_any_online()
        except StorageError:
            self.unlock()
            raise

    def unlock(self) -> None:
        """Let other brokers have them. Idempotent."""
        for log_dir in self._all:
            log_dir.unlock()

    def identify(self, catalog_cluster_id: str | None) -> NodeIdentity:
        """Find the identity of the node, and write it where it is missing.

        Raises:
            InconsistentIdentityError: the directories belong to different nodes or clusters.
            UnknownFormatError: a newer version has written one.
            NoUsableDirectoryError: none is left.
        """
        found: dict[str, MetaProperties | None] = {}
        for log_dir in self.online:
            said = self.attempt(log_dir, log_dir.read_identity)
            if log_dir.is_online:
                found[log_dir.path] = said
        self.check_any_online()
        config = self._config
        configured = ConfiguredIdentity(
            config.node_id if config.is_set("node.id") else None, config.cluster_id
        )
        identity = agree_on_identity(found, configured, catalog_cluster_id)
        for path, error in write_identity(self._file_system, identity, found):
            self.find(path).set_offline(error)
        self.check_any_online()
        return identity

    def candidates(self, avoid: Collection[LogDir] = ()) -> list[LogDir]:
        """Where new partitions may go.

        Those that take no records for now, because they are full or the disk guard says so, and
        those to avoid are left out while there are others.

        Args:
            avoid: directories that hang, or have just refused.

        Raises:
            NoUsableDirectoryError: every directory is offline, read-only or cordoned.
        """
        cordoned = self._config.cordoned_log_dirs
        candidates = [
            log_dir
            for log_dir in self.writable
            if log_dir.path not in cordoned and _EVERY_DIRECTORY not in cordoned
        ]
        if not candidates:
            raise NoUsableDirectoryError(
                "no data directory takes a new partition: each of "
                f"{', '.join(self._config.log_dirs)} is offline, read-only or in cordoned.log.dirs"
            )
        open_ones = [each for each in candidates if each.refusal is None and not each.is_full]
        good = [each for each in open_ones or candidates if each not in avoid]
        return good or open_ones or candidates

    def attempt(self, log_dir: LogDir, action: Callable[[], ResultT]) -> ResultT | None:
        """Do something with a directory; None, and the directory offline, if its disk refuses.

        Raises:
            StorageError: of kinds that do not take a directory offline.
        """
        try:
            return action()
        except StorageError as error:
            if not error.takes_dir_offline:
                raise
            log_dir.set_offline(error)
            return None

    def check_any_online(self) -> None:
        """Raise ``NoUsableDirectoryError`` if every directory has failed."""
        if not self.online:
            reasons = "; ".join(f"{each.path}: {each.offline_reason}" for each in self._all)
            raise NoUsableDirectoryError(
                f"no data directory can be used: {reasons}{_hint(reasons)}"
            )

    def _check_distinct(self) -> None:
        seen: dict[str, str] = {}
        for log_dir in self._all:
            real_path = os.path.realpath(log_dir.path)
            if real_path in seen:
                raise ConfigError(
                    f"log.dirs: {seen[real_path]} and {log_dir.path} are the same folder",
                    "log.dirs",
                )
            seen[real_path] = log_dir.path
        for inner, path in seen.items():
            for outer, other in seen.items():
                if inner != outer and os.path.commonpath((inner, outer)) == outer:
                    # The outer one would take the folders of the inner one for partitions or
                    # foreign folders.
                    raise ConfigError(f"log.dirs: {path} lies inside {other}", "log.dirs")
