"""Metrics of groups: the names that lag dashboards know, and their values (C072)."""

from pathlib import Path

from seglog.broker.monitoring.families import Family
from seglog.broker.monitoring.group_families import coordination_source
from support.broker_parts import batch_of
from support.group_broker import GroupBroker


def series(families: list[Family]) -> dict[str, dict[tuple[str, ...], object]]:
    return {family.name: dict(family.samples) for family in families}


async def test_the_lag_of_a_group_is_wrong(tmp_path: Path) -> None:
    """By partition and by topic; an offset beyond the end lags behind by nothing."""
    broker = await GroupBroker.start(tmp_path)
    await broker.parts.create_topic("t", 2)
    await broker.parts.produce([("t", 0, batch_of(*[b"x"] * 10)), ("t", 1, batch_of(b"x"))])
    await broker.commit({("t", 0): 4, ("t", 1): 5})
    joined = await broker.only_member()
    found = series(coordination_source(broker.coordination, broker.parts.services)())
    assert found["kafka_consumergroup_current_offset"] == {("g", "t", "0"): 4, ("g", "t", "1"): 5}
    assert found["kafka_consumergroup_lag"] == {("g", "t", "0"): 6, ("g", "t", "1"): 0}
    assert found["kafka_consumergroup_lag_sum"] == {("g", "t"): 6}
    assert found["kafka_consumergroup_current_offset_sum"] == {("g", "t"): 9}
    assert found["kafka_consumergroup_members"] == {("g",): 1}
    prefix = "kafka_coordinator_group_groupmetadatamanager"
    assert found[f"{prefix}_numgroups"] == found[f"{prefix}_numgroupsstable"] == {(): 1}
    assert found[f"{prefix}_numoffsets"] == {(): 2}
    broker.parts.log("t", 0).delete_records_before(10)
    found = series(coordination_source(broker.coordination, broker.parts.services)())
    assert found["kafka_consumergroup_lag"]["g", "t", "0"] == 0, "what is gone is not behind"
    await broker.leave(joined.member_id)
    await broker.parts.delete_topic("t")
    found = series(coordination_source(broker.coordination, broker.parts.services)())
    assert found["kafka_consumergroup_lag"] == {}
    assert found[f"{prefix}_numgroupsempty"] == {(): 1}
    await broker.stop()


async def test_series_of_groups_cannot_be_switched_off(tmp_path: Path) -> None:
    broker = await GroupBroker.start(tmp_path, {"metrics.per.partition": "false"})
    await broker.parts.create_topic("t", 1)
    await broker.commit({("t", 0): 4})
    found = series(coordination_source(broker.coordination, broker.parts.services)())
    assert not [name for name in found if name.startswith("kafka_consumergroup")]
    assert found["kafka_coordinator_group_groupmetadatamanager_numoffsets"] == {(): 1}
    await broker.stop()
