"""Finding the contents of the data directories at the start, and loading them.

The topic catalog says which topics exist. A folder that it does not know is one of these:

    its topic was deleted, the folder not yet renamed      renamed -delete, removed
    there never was a catalog, or the newest is damaged    its topic is taken over (topic_adoption)
    it holds nothing of a log                              left alone
    anything else                                          renamed -stray, kept, not served
"""

import logging
from collections import ChainMap, Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from seglog.broker.storage.directories.catalog_file import CATALOG_FILE, CatalogState
from seglog.broker.storage.directories.data_directories import DataDirectories
from seglog.broker.storage.directories.load_progress import LoadProgress
from seglog.broker.storage.directories.log_dir import LogDir
from seglog.broker.storage.directories.node_identity import NodeIdentity
from seglog.broker.storage.directories.parallel import RunParallel
from seglog.broker.storage.directories.partition_folders import PartitionFolders
from seglog.broker.storage.directories.scan import (
    LogDirScan,
    holds_records,
    is_untouched,
    scan_log_dir,
    settle_duplicates,
)
from seglog.broker.storage.directories.start_checkpoints import StartCheckpoints
from seglog.broker.storage.directories.topic_adoption import (
    adopt,
    leave_out_foreign,
    unknown_topics,
)
from seglog.broker.storage.directories.topic_catalog import TopicCatalog
from seglog.broker.storage.errors import StorageError
from seglog.broker.storage.files.file_system import FileSystem
from seglog.broker.storage.files.layout import META_PROPERTIES, DirectoryState
from seglog.broker.storage.log.closed_logs import NO_CLOSED_LOGS
from seglog.broker.storage.log.loader import load_log
from seglog.broker.storage.log.log import Log
from seglog.broker.storage.log.reopening import reopen_log
from seglog.config import BrokerConfig, ConfigError, LogConfig
from seglog.protocol.types import NO_LEADER_EPOCH, TopicPartition

logger = logging.getLogger(__name__)

_Read = Sequence[tuple[LogDirScan, StartCheckpoints | None]]


class LoadedFolder(NamedTuple):
    """The outcome of loading one folder: a log, an error, or None for both if it has no topic."""

    log_dir: LogDir
    topic_partition: TopicPartition
    log: Log | None
    error: StorageError | None


class _Folder(NamedTuple):
    log_dir: LogDir
    path: str
    topic_partition: TopicPartition
    topic_id: bytes


class _Common(NamedTuple):
    """What the logs of all directories share; the first three of the checkpoints of all of them."""

    checkpoints: Sequence[StartCheckpoints]
    log_starts: Mapping[TopicPartition, int]
    cleaned: frozenset[TopicPartition]
    now_ms: int
    producer_expiration_ms: int


class LogStartup:
    """One start over the data directories of a broker.

    Attributes:
        leftovers: folders that are to be removed.
        away: data directories that are missed: they are not in ``log.dirs`` any more, and may hold
            partitions that are nowhere else.
        progress: how far ``load`` is.
    """

    def __init__(
        self,
        file_system: FileSystem,
        directories: DataDirectories,
        folders: PartitionFolders,
    ) -> None:
        self.leftovers: list[tuple[LogDir, str]] = []
        self.away: list[str] = []
        self.progress = LoadProgress()
        self._file_system = file_system
        self._directories = directories
        self._folders = folders
        self._scans: list[LogDirScan] = []

    def open_catalog(self) -> tuple[TopicCatalog, NodeIdentity]:
        """Look through the locked directories; returns the catalog and the identity of the node.

        Raises:
            StorageError: the directories contradict each other, hold foreign files, or have an
                unreadable catalog.
        """
        directories = self._directories
        paths = [log_dir.path for log_dir in directories.online]
        catalog = TopicCatalog.open(self._file_system, paths)
        if catalog is not None:
            self._leave_out_blank(catalog)
        is_given_up = any(map(self._is_declared_new, directories.online))
        identity = directories.identify(catalog.state.cluster_id if catalog is not None else None)
        for log_dir in directories.online:
            scan = directories.attempt(log_dir, partial(scan_log_dir, self._file_system, log_dir))
            if scan is not None:
                self._scans.append(scan)
        leave_out_foreign(self._file_system, self._scans, catalog)
        doubles = settle_duplicates(
            self._scans,
            partial(self._is_left_over, catalog),
            partial(is_untouched, self._file_system),
        )
        for log_dir, path, topic_partition in doubles:
            self._set_aside(log_dir, path, topic_partition, "empty-double")
        paths = [log_dir.path for log_dir in directories.online]
        if catalog is None:
            state = CatalogState(cluster_id=identity.cluster_id)
            catalog = TopicCatalog(self._file_system, paths, state)
        for path, error in catalog.failures:
            directories.find(path).set_offline(error)
        catalog.check_directory = directories.check_same
        known = self._directories_of(catalog, identity, is_given_up=is_given_up)
        state = catalog.state
        if state.generation == 0 or catalog.is_fallback:
            found = unknown_topics(self._scans, catalog, self._folders.topic_id_of)
            adopt(catalog, identity.cluster_id, known, found)
        elif catalog.needs_save or (state.cluster_id, state.directories) != (
            identity.cluster_id,
            known,
        ):
            adopt(catalog, identity.cluster_id, known, [])
        directories.check_any_online()
        return catalog, identity

    def load(
        self,
        catalog: TopicCatalog,
        config: BrokerConfig,
        run_parallel: RunParallel,
        now_ms: int,
    ) -> Sequence[LoadedFolder]:
        """Load every folder of a topic, several at once, and put the others aside.

        Raises:
            ConfigError: the settings of a topic contradict those of the broker.
        """
        configs = _configs_of(catalog, config)
        jobs: list[Callable[[], LoadedFolder]] = []
        counts: Counter[str] = Counter({scan.log_dir.path: 0 for scan in self._scans})
        unreachable: list[LoadedFolder] = []
        read = [(scan, self._read_state(scan)) for scan in self._scans]
        # A folder that was moved to another directory by hand has its entry where it was.
        known = [each for _, each in read if each is not None]
        log_starts = ChainMap(*(dict(each.log_starts) for each in known))
        cleaned = frozenset(name for each in known for name in each.cleaned)
        common = _Common(known, log_starts, cleaned, now_ms, config.producer_id_expiration_ms)
        for scan, checkpoints in read:
            log_dir = scan.log_dir
            if checkpoints is None or not log_dir.is_online:
                continue
            for topic_partition, name in scan.live.items():
                path = f"{log_dir.path}/{name}"
                topic = catalog.get(topic_partition.topic)
                if topic is None or topic_partition.partition >= topic.partition_count:
                    self._put_aside(log_dir, path, topic_partition, catalog)
                    continue
                folder = _Folder(log_dir, path, topic_partition, topic.topic_id)
                jobs.append(self._job_for(folder, configs[topic.name], checkpoints, common))
                counts[log_dir.path] += 1
            unreachable += _unreachable(scan, catalog)
            self._keep_reserve(log_dir)
        for directory, count in counts.items():
            self.progress.expect(directory, count)
        loaded = run_parallel(jobs)
        for scan in self._scans:
            scan.log_dir.closed_logs = NO_CLOSED_LOGS
        self._raise_leader_epochs(loaded, read)
        for scan, checkpoints in read:
            if checkpoints is not None and scan.log_dir.is_online:
                self._lower_recovery_points(scan.log_dir, checkpoints, loaded)
        return [*loaded, *unreachable]

    def copies_of(self, topic_partition: TopicPartition, topic_id: bytes) -> list[str]:
        """Folders with records of a partition that its topic may have nowhere else.

        Such are the copies that Kafka makes of a partition on its way to another data directory. A
        crash, or an operator, may have left one without the partition's own folder. One that cannot
        be read may hold records, for all that is known.
        """
        found = []
        for path in (each for scan in self._scans for each in scan.copies.get(topic_partition, ())):
            try:
                is_of_topic = self._folders.topic_id_of(path) in (None, topic_id)
                if is_of_topic and holds_records(self._file_system, path):
                    found.append(path)
            except StorageError as error:
                logger.warning("event=folder-not-listed path=%s error=%s", path, error)
                found.append(path)
        return found

    def _lower_recovery_points(
        self, log_dir: LogDir, checkpoints: StartCheckpoints, loaded: Sequence[LoadedFolder]
    ) -> None:
        """Lower recovery points on disk that lie above the end of a log, before any append.

        Records appended below the old one would count as synced after the next crash.
        """
        lowered = checkpoints.lowered(_logs_in(log_dir, loaded))
        if lowered:
            known = checkpoints.recovery_points
            lower = partial(log_dir.lower_recovery_points, {**known, **lowered})
            self._directories.attempt(log_dir, lower)

    def _raise_leader_epochs(self, loaded: Sequence[LoadedFolder], read: _Read) -> None:
        """Begin an epoch in directories that may have lost records, before any append.

        A power cut, or a program after a clean stop, may have taken records that were read already;
        those that get their offsets now are written in a later epoch, and KIP-320 clients notice.
        """
        for scan, checkpoints in read:
            log_dir = scan.log_dir
            logs = _logs_in(log_dir, loaded)
            has_led = bool(logs) or log_dir.leader_epoch_floor > 0
            is_short = checkpoints is not None and bool(checkpoints.lowered(logs))
            if has_led and log_dir.is_online and (is_short or not log_dir.stopped_cleanly):
                latest = (log.leader_epochs.latest_epoch for log in logs)
                highest = max(latest, default=NO_LEADER_EPOCH)
                self._directories.attempt(
                    log_dir, partial(log_dir.raise_leader_epoch_floor, highest)
                )
            for log in logs:
                log.leader_epoch_floor = log_dir.leader_epoch_floor

    def _read_state(self, scan: LogDirScan) -> StartCheckpoints | None:
        """The state of logs in the files of a directory; None, and it goes offline, if it fails."""
        log_dir = scan.log_dir
        self.leftovers.extend((log_dir, f"{log_dir.path}/{name}") for name in scan.deleted)
        # The marker goes before anything is changed: a crash from here on needs a recovery.
        self._directories.attempt(log_dir, log_dir.take_clean_marker)
        self._directories.attempt(log_dir, log_dir.read_leader_epoch_floor)
        return self._directories.attempt(log_dir, partial(StartCheckpoints.read, log_dir))

    def _job_for(
        self,
        folder: _Folder,
        config: LogConfig,
        checkpoints: StartCheckpoints,
        common: _Common,
    ) -> Callable[[], LoadedFolder]:
        """The loading of one folder: from what the last stop has said of it, or from its files."""
        log_dir, path, topic_partition, topic_id = folder
        log_start = checkpoints.log_starts.get(
            topic_partition, common.log_starts.get(topic_partition, 0)
        )
        is_moved = checkpoints.is_moved(
            topic_partition, common.checkpoints, stopped_cleanly=log_dir.stopped_cleanly
        )
        reopen = partial(
            reopen_log,
            self._file_system,
            path,
            topic_partition,
            config,
            log_dir.closed_logs,
            now_ms=common.now_ms,
            log_start_checkpoint=log_start,
            topic_id=topic_id,
            producer_expiration_ms=common.producer_expiration_ms,
        )
        open_log = partial(
            load_log,
            self._file_system,
            path,
            topic_partition,
            config,
            now_ms=common.now_ms,
            clean_shutdown=log_dir.stopped_cleanly and not is_moved,
            leader_epoch_floor=log_dir.leader_epoch_floor,
            recovery_point=None if is_moved else checkpoints.recovery_point(topic_partition),
            log_start_checkpoint=log_start,
            was_compacted=topic_partition in common.cleaned,
            closed_logs=log_dir.closed_logs,
            topic_id=topic_id,
            producer_expiration_ms=common.producer_expiration_ms,
        )
        high_watermark = checkpoints.high_watermarks.get(topic_partition, 0)
        return partial(self._load, folder, reopen, open_log, high_watermark)

    def _load(
        self,
        folder: _Folder,
        reopen: Callable[[], Log | None],
        open_log: Callable[[], Log],
        high_watermark: int,
    ) -> LoadedFolder:
        """Load one folder; in any thread, so nothing is shared here but the progress."""
        log_dir, path, topic_partition, topic_id = folder
        log, error = None, None
        try:
            log = reopen()
            if log is None and self._belongs_to(path, topic_id):
                log = self._open_even_if_full(log_dir, open_log)
            if log is not None:
                log.set_high_watermark(high_watermark)
            else:
                self._folders.rename(log_dir, path, topic_partition, DirectoryState.STRAY)
        except StorageError as failure:
            error = failure
            logger.warning("event=log-not-loaded folder=%s error=%s", path, failure)
        self.progress.log_done(log_dir.path, 0 if log is None else log.segment_bytes_total)
        return LoadedFolder(log_dir, topic_partition, log, error)

    def _open_even_if_full(self, log_dir: LogDir, open_log: Callable[[], Log]) -> Log:
        opened: list[Log] = []
        log_dir.reserve.write_to_free_space(lambda: opened.append(open_log()))
        return opened[0]

    def _belongs_to(self, path: str, topic_id: bytes) -> bool:
        """Whether a folder is the topic's, and not one of an earlier topic of the same name."""
        found = self._folders.topic_id_of(path)
        if found is None:
            self._folders.write_topic_id(path, topic_id)
        elif found != topic_id:
            logger.warning(
                "event=folder-put-aside folder=%s reason=topic-id expected=%s found=%s",
                path,
                topic_id.hex(),
                found.hex(),
            )
            return False
        return True

    def _leave_out_blank(self, catalog: TopicCatalog) -> None:
        """Do not use directories without content while partitions are missing that may be there.

        Where a disk is not mounted its mount point is an empty folder. Partitions made anew in it
        would be served without their records, to be hidden again as soon as the disk is back.
        """
        directories, file_system = self._directories, self._file_system
        new = [
            log_dir
            for log_dir in directories.online
            if directories.attempt(log_dir, partial(_is_new, file_system, log_dir))
        ]
        if not new:
            return
        blank: list[LogDir] = []
        present: set[TopicPartition] = set()
        for log_dir in directories.online:
            scan = directories.attempt(log_dir, partial(scan_log_dir, file_system, log_dir))
            if scan is None:
                continue
            present.update(scan.live, scan.unreachable)
            if log_dir in new and not (scan.live or scan.unreachable):
                blank.append(log_dir)
        missing = [each for each in _partitions_of(catalog) if each not in present]
        if not missing or len(blank) == len(directories.online):
            return
        for log_dir in blank:
            log_dir.set_offline(
                StorageError(
                    f"{log_dir.path} is empty, and partition {missing[0]}"
                    f" (of {len(missing)} like it) is in no other data directory: is its disk"
                    " mounted? If it is to be a new directory, and they are lost, make an empty"
                    f" file {log_dir.path}/{META_PROPERTIES}"
                )
            )
            catalog.leave_out(log_dir.path)

    def _is_declared_new(self, log_dir: LogDir) -> bool:
        """Whether an operator has put an empty ``meta.properties`` there: missing logs are lost."""
        path = f"{log_dir.path}/{META_PROPERTIES}"
        exists, size = self._file_system.exists, self._file_system.size
        return bool(self._directories.attempt(log_dir, lambda: exists(path) and not size(path)))

    def _directories_of(
        self, catalog: TopicCatalog, identity: NodeIdentity, *, is_given_up: bool
    ) -> dict[bytes, str]:
        """The data directories that may hold partitions, id to path; notes which are missed.

        One that is not in ``log.dirs`` any more counts for as long as partitions are missing,
        unless they are given up. Those that are configured, but offline, count in any case.
        """
        known = {identifier: path for path, identifier in identity.directory_ids.items()}
        online = set(identity.directory_ids)
        configured = {log_dir.path for log_dir in self._directories.all}
        present = {each for scan in self._scans for each in (*scan.live, *scan.unreachable)}
        missing = [each for each in _partitions_of(catalog) if each not in present]
        for identifier, path in catalog.state.directories.items():
            if identifier in known or path in online:
                continue  # there, perhaps elsewhere; or another one has its place
            if path in configured:
                known[identifier] = path
            elif missing and not is_given_up:
                known[identifier] = path
                self.away.append(path)
                logger.error(
                    "event=log-dir-away directory=%s partitions_missing=%d first=%s",
                    path,
                    len(missing),
                    missing[0],
                )
        return known

    def _is_left_over(
        self, catalog: TopicCatalog | None, topic_partition: TopicPartition, path: str
    ) -> bool:
        """Whether a folder is surely not that of the topic which has its name now."""
        topic = None if catalog is None else catalog.get(topic_partition.topic)
        return topic is not None and self._folders.topic_id_of(path) not in (None, topic.topic_id)

    def _put_aside(
        self, log_dir: LogDir, path: str, topic_partition: TopicPartition, catalog: TopicCatalog
    ) -> None:
        """Rename a folder that belongs to no topic; remove it if its topic was being deleted."""
        is_deleted = self._folders.topic_id_of(path) in catalog.state.deleting
        reason = "topic-deleted" if is_deleted else "unknown-topic"
        state = DirectoryState.DELETED if is_deleted else DirectoryState.STRAY
        renamed = self._set_aside(log_dir, path, topic_partition, reason, state)
        if renamed is not None and is_deleted:
            self.leftovers.append((log_dir, renamed))

    def _set_aside(
        self,
        log_dir: LogDir,
        path: str,
        topic_partition: TopicPartition,
        reason: str,
        state: DirectoryState = DirectoryState.STRAY,
    ) -> str | None:
        """Rename a folder that is not served; None, and the directory is offline, if refused."""
        renamed = self._directories.attempt(
            log_dir, lambda: self._folders.rename(log_dir, path, topic_partition, state)
        )
        logger.warning(
            "event=folder-put-aside folder=%s new_name=%s reason=%s", path, renamed, reason
        )
        return renamed

    def _keep_reserve(self, log_dir: LogDir) -> None:
        self._directories.attempt(log_dir, log_dir.reserve.keep)


def _logs_in(log_dir: LogDir, loaded: Sequence[LoadedFolder]) -> list[Log]:
    return [each.log for each in loaded if each.log_dir is log_dir and each.log is not None]


def _partitions_of(catalog: TopicCatalog) -> list[TopicPartition]:
    return [
        TopicPartition(topic.name, number)
        for topic in catalog.topics()
        for number in range(topic.partition_count)
    ]


def _is_new(file_system: FileSystem, log_dir: LogDir) -> bool:
    """Whether nothing says that a directory was ever used.

    Checkpoints do not: a broker whose disk is unmounted under its hands writes them there.
    """
    return not (log_dir.is_there() or file_system.exists(f"{log_dir.path}/{CATALOG_FILE}"))


def _unreachable(scan: LogDirScan, catalog: TopicCatalog) -> list[LoadedFolder]:
    """Partitions whose folder is a link to nowhere: offline, and by no means made anew."""
    found = []
    for topic_partition, name in scan.unreachable.items():
        topic = catalog.get(topic_partition.topic)
        if topic is None or topic_partition.partition >= topic.partition_count:
            continue
        path = f"{scan.log_dir.path}/{name}"
        error = StorageError(f"{path} is a link to a folder that is not there")
        logger.warning("event=log-not-loaded folder=%s error=%s", path, error)
        found.append(LoadedFolder(scan.log_dir, topic_partition, None, error))
    return found


def _configs_of(catalog: TopicCatalog, broker: BrokerConfig) -> dict[str, LogConfig]:
    configs = {}
    for topic in catalog.topics():
        try:
            configs[topic.name] = broker.log_config(topic.configs)
        except ConfigError as error:
            raise ConfigError(f"topic {topic.name}: {error.message}", error.key) from error
    return configs
