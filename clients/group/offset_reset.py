"""Setting the offsets of a group by a rule: where each partition would go, before it does."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Literal

from seglog.clients.errors import ConfigurationError
from seglog.clients.models import OffsetAndMetadata, OffsetChange
from seglog.clients.offsets import ByPartition, OffsetFinder, TimeSpec, checked_offsets
from seglog.protocol.types import TopicPartition

ResetTarget = Literal["earliest", "latest", "current"] | int | datetime | ByPartition[int]
"""Where to set offsets: an end, an offset, or the first record at or after a time.

"current" is the committed offset, and the end without one; a mapping has an offset of its own for
each partition.
"""


class ResetRule:
    """A rule that says where offsets are set to.

    Args:
        to: where to; None with ``shift_by``.
        shift_by: by how much; None with ``to``.

    Raises:
        ConfigurationError: both are given, or none.
    """

    def __init__(self, to: ResetTarget | None, shift_by: int | None) -> None:
        if (to is None) == (shift_by is None):
            raise ConfigurationError(
                "say either where offsets are set to, or by what to shift them"
            )
        self._to: ResetTarget | None = to
        self._shift_by = shift_by

    async def changes(
        self,
        committed: Mapping[TopicPartition, OffsetAndMetadata | None],
        finder: OffsetFinder,
        timeout_s: float,
    ) -> dict[TopicPartition, OffsetChange]:
        """What the rule makes of committed offsets; each stays within its partition.

        Raises:
            ConfigurationError: the rule says nothing about a partition.
        """
        found = await self._targets(committed, finder, timeout_s)
        firsts = await offsets_at(finder, committed, "earliest", timeout_s)
        ends = await offsets_at(finder, committed, "latest", timeout_s)
        changes: dict[TopicPartition, OffsetChange] = {}
        for partition, before in committed.items():
            after = min(
                max(found.get(partition, ends[partition]), firsts[partition]), ends[partition]
            )
            changes[partition] = OffsetChange(None if before is None else before.offset, after)
        return changes

    async def _targets(
        self,
        committed: Mapping[TopicPartition, OffsetAndMetadata | None],
        finder: OffsetFinder,
        timeout_s: float,
    ) -> dict[TopicPartition, int]:
        """Where each partition is set to; one that is left out goes to its end."""
        to = self._to
        if self._shift_by is not None:
            missing = [str(partition) for partition, each in committed.items() if each is None]
            if missing:
                raise ConfigurationError(
                    f"nothing is committed to be shifted: {', '.join(missing)}"
                )
            return {
                partition: each.offset + self._shift_by
                for partition, each in committed.items()
                if each is not None
            }
        if isinstance(to, Mapping):
            return _own_targets(committed, to)
        if to == "current":
            return {partition: each.offset for partition, each in committed.items() if each}
        if type(to) is int:
            return dict.fromkeys(committed, to)
        assert to is not None
        return await offsets_at(finder, committed, to, timeout_s)


async def offsets_at(
    finder: OffsetFinder, partitions: Collection[TopicPartition], spec: TimeSpec, timeout_s: float
) -> dict[TopicPartition, int]:
    """The offset of an end or time in each partition; without those that have none."""
    answers = await finder.find(dict.fromkeys(partitions, spec), timeout_s)
    return {partition: answer.offset for partition, answer in answers.items() if answer is not None}


def _own_targets(
    committed: Mapping[TopicPartition, object], to: ByPartition[int]
) -> dict[TopicPartition, int]:
    targets = {partition: each.offset for partition, each in checked_offsets(to).items()}
    missing = [str(partition) for partition in committed if partition not in targets]
    if missing:
        raise ConfigurationError(f"nothing says where to set {', '.join(missing)}")
    return targets
