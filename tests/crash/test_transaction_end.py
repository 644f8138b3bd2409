"""A broker that dies at every change of the end of a transaction: all of it counts, or nothing.

The partitions are ``t-0``, ``t-1`` and that of a group's offsets. What was acknowledged stays; what
was decided is finished by the next start; what is open is aborted when its time is over.
"""

import shutil
from pathlib import Path

import pytest

from seglog.broker.coordinator.transactions.state import TransactionState
from seglog.protocol.api import OffsetCommitPartition, TxnOffsetCommitRequest
from seglog.protocol.errors import ErrorCode
from support.examples import first_ones_fast
from support.group_broker import GroupBroker
from support.recording_file_system import Keep, RecordingFileSystem
from support.transactions import (
    TransactionalProducer,
    committed_values,
    described,
    transaction_broker,
)

SETTINGS = {
    "log.segment.bytes": "4096",
    "log.index.size.max.bytes": "1200",
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
}
DURABLE = {**SETTINGS, "log.flush.interval.messages": "1"}
OPEN = {TransactionState.ONGOING}


async def commit_offset(producer: TransactionalProducer, offset: int) -> None:
    if producer.version < 2:
        assert await producer.add_offsets() is ErrorCode.NONE
    response = await producer.broker.ask(
        TxnOffsetCommitRequest(
            producer.transactional_id,
            "g",
            producer.producer_id,
            producer.epoch,
            [OffsetCommitPartition("t", 0, offset)],
            may_add=producer.version >= 2,
        )
    )
    assert [each.error for each in response.partitions] == [ErrorCode.NONE]


async def fill(producer: TransactionalProducer, value: bytes, offset: int) -> None:
    """Everything of a transaction but its end."""
    for number in range(2):
        assert await producer.send("t", number, value) is ErrorCode.NONE
    await commit_offset(producer, offset)


async def outcome(broker: GroupBroker) -> tuple[object, ...]:
    """What readers of committed data see, partition by partition."""
    committed = await broker.committed([("t", 0)])
    return (
        list(await committed_values(broker.parts, "t", 0)),
        list(await committed_values(broker.parts, "t", 1)),
        committed["t", 0],
    )


@pytest.mark.parametrize(
    ("settings", "keep"),
    [
        pytest.param(SETTINGS, Keep.EVERYTHING, id="kill"),
        pytest.param(DURABLE, Keep.NOTHING, id="power-cut", marks=pytest.mark.slow),
        pytest.param(DURABLE, 7, id="power-cut-torn"),
    ],
)
@pytest.mark.parametrize("version", first_ones_fast(1, [2, 0]))
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
async def test_half_of_a_transaction_survives(
    tmp_path: Path, settings: dict[str, str], keep: Keep | int, version: int, commit: bool
) -> None:
    """C052: and the last stable offset moves on in every case."""
    (tmp_path / "data").mkdir()
    disk = RecordingFileSystem(tmp_path)
    broker = await transaction_broker(tmp_path, settings, file_system=disk)
    await broker.parts.create_topic("t", 2)
    producer = TransactionalProducer(broker, version=version)
    assert await producer.init() is ErrorCode.NONE
    await fill(producer, b"first", 1)
    assert await producer.end(commit=True) is ErrorCode.NONE
    await broker.parts.quiet()
    opened = len(disk.changes)
    await fill(producer, b"second", 2)
    begun = len(disk.changes)
    assert await producer.end(commit=commit) is ErrorCode.NONE
    answered = len(disk.changes)
    await broker.parts.quiet()
    ended = len(disk.changes)
    await broker.stop(clean=False)
    before = ([b"first"], [b"first"], 1)
    after = ([b"first", b"second"], [b"first", b"second"], 2) if commit else before
    seen = set()
    for change in range(opened, ended + 1):
        left = tmp_path / "left"
        disk.after_power_cut(left, changes=change, keep=keep)
        survivor = await transaction_broker(tmp_path, settings, broker.clock, log_dir=left / "data")
        await survivor.parts.quiet()
        description = await described(survivor)
        assert description.error is ErrorCode.NONE, (change, description)
        state = TransactionState(description.state)
        # Nobody who reads now sees a part of what is still open.
        found = await outcome(survivor)
        assert found in (before, after), (change, state)
        if change >= answered:
            assert (state in OPEN, found) == (False, after), change
        if change < begun:
            assert found == before, change
        await survivor.advance(120_000)
        final = await outcome(survivor)
        assert final == (before if state in OPEN else found), (change, state)
        await survivor.parts.quiet()
        for partition in survivor.parts.services.partitions.all():
            offsets = partition.log.offsets
            assert offsets.last_stable == offsets.log_end, (change, partition.topic_partition)
        seen.add(state)
        await survivor.stop()
        shutil.rmtree(left)
    ending = TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT
    assert {TransactionState.ONGOING, ending} <= seen
