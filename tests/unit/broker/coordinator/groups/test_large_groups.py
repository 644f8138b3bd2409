"""Groups of very many members: what each request costs does not grow with them (A5)."""

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from support.group_model import GroupDriver

FEW, MANY = 50, 1_000


@contextmanager
def counted_steps() -> Iterator[Callable[[], int]]:
    """How many lines of Python were run; generators and loops count each round."""
    steps = 0

    def line(_frame: FrameType, _event: str, _argument: Any) -> Any:
        nonlocal steps
        steps += 1
        return line

    before = sys.gettrace()
    sys.settrace(line)
    try:
        yield lambda: steps
    finally:
        sys.settrace(before)


def joining(members: int, **options: Any) -> tuple[GroupDriver, list[str]]:
    """A group whose members wait for the end of a rebalance, but for the last one."""
    driver = GroupDriver(delay_ms=3_000, max_size=100_000)
    ids = [driver.new_id(**options) for _ in range(members)]
    for member_id in ids[:-1]:
        driver.join(f"j-{member_id}", member_id, **options)
    return driver, ids


def costs(prepare: Callable[[int], Callable[[], object]]) -> tuple[int, int]:
    """The steps of what ``prepare`` returns for a small and for a large group."""
    prepare(FEW)()  # what is compiled at the first use
    counted = []
    for members in (FEW, MANY):
        action = prepare(members)
        with counted_steps() as steps:
            action()
            counted.append(steps())
    return counted[0], counted[1]


def test_a_join_costs_the_same_in_a_large_group() -> None:
    def last_join(members: int) -> Callable[[], object]:
        driver, ids = joining(members)
        return lambda: driver.join("last", ids[-1])

    few, many = costs(last_join)
    assert many == pytest.approx(few, abs=10)


def test_the_next_deadline_costs_the_same_in_a_large_group() -> None:
    few, many = costs(lambda members: joining(members)[0].group.next_deadline_ms)
    assert many == few


def test_a_hang_up_costs_the_same_in_a_large_group() -> None:
    def hang_up(members: int) -> Callable[[], object]:
        driver, ids = joining(members)
        ticket = f"j-{ids[members // 2]}"
        return lambda: driver.group.abandon(ticket, driver.now)

    few, many = costs(hang_up)
    assert many == pytest.approx(few, abs=10)


def test_a_restart_of_a_static_member_costs_the_same_in_a_large_group() -> None:
    def restart(members: int) -> Callable[[], object]:
        driver = GroupDriver(max_size=100_000)
        for number in range(members):
            driver.join(f"j{number}", instance=f"i{number}", rebalance_ms=1_000)
        return lambda: driver.join("again", instance=f"i{members - 1}")

    few, many = costs(restart)
    assert many == pytest.approx(few, abs=20)


def test_a_departure_costs_the_same_in_a_large_group() -> None:
    def leave(members: int) -> Callable[[], object]:
        driver, ids = joining(members)
        return lambda: driver.leave(ids[members // 2])

    few, many = costs(leave)
    assert many == pytest.approx(few, abs=10)


def test_members_without_a_common_protocol_are_refused_by_name() -> None:
    driver = GroupDriver(delay_ms=3_000, max_size=100_000)
    for number in range(20):
        member_id = driver.new_id()
        driver.join(f"j{number}", member_id, protocols=[(f"own-{number}", b""), ("range", b"")])
    assert driver.group.members.common_protocols() == {"range"}
    assert driver.group.members.vote() == "range"
    left = next(iter(driver.group.members)).member_id
    driver.leave(left)
    assert driver.group.members.common_protocols() == {"range"}


@pytest.mark.parametrize("seed", range(20))
def test_the_vote_is_that_of_a_count_over_all_members(seed: int) -> None:
    """The incremental counts give what looking at every member gives."""
    generator = random.Random(seed)
    driver = GroupDriver(delay_ms=100_000, max_size=1_000)
    ids: list[str] = []
    names = ["roundrobin", "sticky"]
    for step in range(60):
        chosen = ["range", *generator.sample(names, generator.randint(0, 2))]
        protocols = [(name, b"") for name in generator.sample(chosen, len(chosen))]
        if ids and generator.random() < 0.3:
            driver.leave(ids.pop(generator.randrange(len(ids))))
        elif ids and generator.random() < 0.3:
            driver.join(f"again-{step}", generator.choice(ids), protocols=protocols)
        else:
            member_id = driver.new_id(protocols=protocols)
            driver.join(f"j{step}", member_id, protocols=protocols)
            ids.append(member_id)
        members = list(driver.group.members)
        if not members:
            continue
        common = set.intersection(*({name for name, _ in each.protocols} for each in members))
        assert driver.group.members.common_protocols() == common
        firsts = [next(n for n, _ in each.protocols if n in common) for each in members]
        assert driver.group.members.vote() == max(dict.fromkeys(firsts), key=firsts.count)
