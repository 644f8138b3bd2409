"""DescribeLogDirs: what the data directories hold."""

import asyncio
import os
from functools import partial

from seglog.broker.partition.registry import NO_ROOM
from seglog.broker.requests.context import Pending, RequestContext
from seglog.broker.requests.services import Services
from seglog.broker.storage.directories.log_dir import LogDir
from seglog.broker.storage.files.layout import parent_directory
from seglog.protocol.api import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    LogDirDescription,
    LogDirPartition,
)
from seglog.protocol.errors import ErrorCode


class DescribeLogDirsOperation:
    """Answers describe-log-dirs requests."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(
        self, request: DescribeLogDirsRequest, _context: RequestContext
    ) -> Pending[DescribeLogDirsResponse]:
        """List sizes by directory; the free space is asked for in a worker, disks may be slow."""
        return self._services.begin(self._describe(request), holds_input=False)

    async def _describe(self, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
        wanted = None if request.partitions is None else set(request.partitions)
        log_dirs = self._services.logs.log_dirs
        run = self._services.workers.background.run
        spaces = await asyncio.gather(
            *(run(partial(_space_of, log_dir.path)) for log_dir in log_dirs)
        )
        return DescribeLogDirsResponse(
            [
                self._describe_one(log_dir, space, wanted)
                for log_dir, space in zip(log_dirs, spaces, strict=True)
            ]
        )

    def _describe_one(
        self, log_dir: LogDir, space: tuple[int, int], wanted: set[tuple[str, int]] | None
    ) -> LogDirDescription:
        trouble = self._services.partitions.trouble_of(log_dir)
        if not log_dir.is_online:
            return LogDirDescription(
                log_dir.path, ErrorCode.KAFKA_STORAGE_ERROR, [], trouble=trouble
            )
        if trouble is None and space[1] == 0:
            trouble = NO_ROOM  # no append has failed yet
        partitions = []
        for partition in self._services.partitions.all():
            log = partition.log
            name = log.topic_partition
            if (wanted is None or name in wanted) and parent_directory(
                log.directory
            ) == log_dir.path:
                partitions.append(
                    LogDirPartition(name.topic, name.partition, log.segment_bytes_total)
                )
        partitions.sort(key=lambda entry: (entry.topic, entry.partition))
        return LogDirDescription(log_dir.path, ErrorCode.NONE, partitions, *space, trouble)


def _space_of(path: str) -> tuple[int, int]:
    """Bytes of the file system, and those that may still be written; -1 if it does not say."""
    try:
        statistics = os.statvfs(path)
    except OSError:
        return -1, -1
    return (
        statistics.f_blocks * statistics.f_frsize,
        statistics.f_bavail * statistics.f_frsize,
    )
