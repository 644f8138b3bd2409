"""Long walks let others in between."""

import asyncio

from seglog.broker.runtime.turns import in_turns


async def test_others_are_served_between_the_items_of_a_long_walk() -> None:
    order: list[str] = []
    note = order.append

    async def walk() -> None:
        async for item in in_turns("abc", turn_seconds=0):
            note(item)

    async def other() -> None:
        for number in range(2):
            order.append(str(number))
            await asyncio.sleep(0)

    await asyncio.gather(walk(), other())
    assert order == ["a", "0", "b", "1", "c"]


async def test_a_short_walk_is_one_turn() -> None:
    order: list[str] = []

    async def walk() -> None:
        order.extend([item async for item in in_turns("abc", turn_seconds=60)])

    async def other() -> None:
        order.append("other")

    await asyncio.gather(walk(), other())
    assert order == ["a", "b", "c", "other"]
