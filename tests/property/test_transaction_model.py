"""Random producers, deaths and restarts, against what a list of committed values says.

Two producers share a transactional id and shut each other out, a third one has its own. Whatever
they do, and whenever the broker stops or time passes: readers of committed data see what was
committed, in the order in which it was written, and nothing else; and they are not held up for
longer than a timeout.
"""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from seglog.protocol.errors import ErrorCode
from support.examples import examples
from support.group_broker import GroupBroker
from support.memory_folder import memory_folder
from support.transactions import (
    TransactionalProducer,
    committed_values,
    restarted,
    transaction_broker,
)

TIMEOUT_MS = 30_000
PARTITIONS = 2
SETTINGS = {"log.index.size.max.bytes": "1200", "log.segment.bytes": "500"}
ACTIONS = st.tuples(
    st.sampled_from(["init", "go on", "send", "send", "send", "commit", "commit", "abort"])
    | st.sampled_from(["wait", "clean restart", "kill"]),
    st.integers(0, 2),
    st.integers(0, PARTITIONS - 1),
)


class World:
    """A broker, its producers, and what they know."""

    def __init__(self, broker: GroupBroker, versions: tuple[int, int, int]) -> None:
        self.broker = broker
        self.producers = [
            TransactionalProducer(broker, name, version, TIMEOUT_MS)
            for name, version in zip("aab", versions, strict=True)
        ]
        self.open: list[list[bytes]] = [[], [], []]
        self.has_failed = [True, True, True]
        self.written: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        self.committed: set[bytes] = set()
        self._serial = 0

    async def act(self, action: str, number: int, partition: int) -> None:
        if action == "wait":
            await self.broker.advance(TIMEOUT_MS // 2)
        elif action in ("clean restart", "kill"):
            clean = action == "clean restart"
            self.broker = await restarted(self.broker, SETTINGS, clean=clean)
            for producer in self.producers:
                producer.broker = self.broker
        elif action in ("init", "go on"):
            await self.init(number, goes_on=action == "go on")
        elif not self.has_failed[number]:
            if action == "send":
                await self.send(number, partition)
            elif self.open[number] or self.producers[number].version:
                await self.end(number, commit=action == "commit")

    async def init(self, number: int, *, goes_on: bool) -> None:
        producer = self.producers[number]
        error = await producer.init(goes_on=goes_on and producer.producer_id >= 0)
        self.has_failed[number] = error is not ErrorCode.NONE
        self.open[number] = []

    async def send(self, number: int, partition: int) -> None:
        self._serial += 1
        value = b"%d-%d" % (number, self._serial)
        error = await self.producers[number].send("t", partition, value)
        if error:
            self.has_failed[number] = True
        else:
            self.open[number].append(value)
            self.written[partition].append(value)

    async def end(self, number: int, *, commit: bool) -> None:
        error = await self.producers[number].end(commit=commit)
        if error:
            # Nothing was written, so there was nothing to commit; or somebody else has ended it.
            self.has_failed[number] = error is not ErrorCode.INVALID_TXN_STATE or bool(
                self.open[number]
            )
        elif commit:
            self.committed.update(self.open[number])
        self.open[number] = []

    async def seen(self, partition: int) -> list[bytes | None]:
        return list(await committed_values(self.broker.parts, "t", partition))

    def expected(self, partition: int) -> list[bytes | None]:
        return [value for value in self.written[partition] if value in self.committed]


async def live(versions: tuple[int, int, int], actions: list[tuple[str, int, int]]) -> None:
    with memory_folder() as folder:
        broker = await transaction_broker(folder, SETTINGS)
        await broker.parts.create_topic("t", PARTITIONS)
        world = World(broker, versions)
        try:
            for action in actions:
                await world.act(*action)
                for partition in range(PARTITIONS):
                    seen, expected = await world.seen(partition), world.expected(partition)
                    assert seen == expected[: len(seen)], action
            # Whoever has not ended by now is dead.
            await world.broker.advance(2 * TIMEOUT_MS)
            for partition in range(PARTITIONS):
                assert await world.seen(partition) == world.expected(partition)
                offsets = world.broker.parts.log("t", partition).offsets
                assert offsets.last_stable == offsets.log_end
        finally:
            await world.broker.stop()


@settings(max_examples=examples(40), deadline=None)
@given(
    versions=st.tuples(*[st.sampled_from([0, 2])] * 3),
    actions=st.lists(ACTIONS, min_size=10, max_size=40),
)
def test_readers_see_what_was_not_committed(
    versions: tuple[int, int, int], actions: list[tuple[str, int, int]]
) -> None:
    """C052; both kinds of clients side by side."""
    asyncio.run(live(versions, [("init", 0, 0), ("init", 2, 0), *actions]))
