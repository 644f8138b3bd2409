from seglog.protocol.api import (
    cluster,
    configs,
    fetch,
    housekeeping,
    log_offsets,
    metadata,
    produce,
    topics,
)
from support.broker_parts import BrokerParts

MODULES = (cluster, configs, fetch, housekeeping, log_offsets, metadata, produce, topics)
SERVED_ELSEWHERE = {"CleanLogsRequest"}


async def test_every_request_has_an_operation(broker: BrokerParts) -> None:
    """A request without one would be answered as a failure of the broker."""
    declared = {name for module in MODULES for name in vars(module) if name.endswith("Request")}
    registered = {request_type.__name__ for request_type in broker.handlers.request_types}
    assert declared - SERVED_ELSEWHERE <= registered
