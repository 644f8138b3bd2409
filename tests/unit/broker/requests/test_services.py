import asyncio

from seglog.config import BrokerConfig
from support.broker_parts import BrokerParts


async def test_new_configuration_reaches_everyone_who_listens(broker: BrokerParts) -> None:
    """MGR-5"""
    services = broker.services
    heard: list[BrokerConfig] = []
    services.config_listeners.append(heard.append)
    changed = services.config.with_dynamic({"log.retention.ms": "5"})
    services.change_config(changed)
    assert heard == [changed]
    assert services.config is changed


async def test_works_are_finished_before_the_stop(broker: BrokerParts) -> None:
    gate, done = asyncio.Event(), []

    async def work() -> str:
        await gate.wait()
        done.append(1)
        return "response"

    pending = broker.services.begin(work(), holds_input=True)
    pending.future.cancel()
    assert not await broker.services.finish_works(0.001)
    gate.set()
    assert await broker.services.finish_works(5)
    assert done == [1]
