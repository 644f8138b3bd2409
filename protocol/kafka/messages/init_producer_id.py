"""InitProducerId."""

from seglog.protocol.kafka.schema import (
    Message,
    boolean,
    int16,
    int32,
    int64,
    string,
)


class InitProducerIdRequest(Message, api_key=22, versions="0-6", flexible="2+", served="0-5"):
    """Asks for a producer id, or a new epoch of one; version 6 may ask for a two-phase commit."""

    transactional_id: str | None = string("0+", nullable="0+")
    transaction_timeout_ms: int = int32("0+")
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)
    enable2_pc: bool = boolean("6+", default=False)
    keep_prepared_txn: bool = boolean("6+", default=False)


class InitProducerIdResponse(Message, api_key=22, versions="0-6", flexible="2+"):
    """The producer id and epoch to use."""

    throttle_time_ms: int = int32("0+", ignorable=True)
    error_code: int = int16("0+")
    producer_id: int = int64("0+", default=-1)
    producer_epoch: int = int16("0+")
    ongoing_txn_producer_id: int = int64("6+", default=-1)
    ongoing_txn_producer_epoch: int = int16("6+", default=-1)
