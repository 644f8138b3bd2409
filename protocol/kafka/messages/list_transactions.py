"""ListTransactions."""

from seglog.protocol.kafka.schema import (
    Message,
    Struct,
    array,
    int16,
    int32,
    int64,
    string,
)


class ListTransactionsRequest(Message, api_key=66, versions="0-2", flexible="0+"):
    """Asks for transactions; empty filters match all."""

    state_filters: list[str] = array("string", "0+")
    producer_id_filters: list[int] = array("int64", "0+")
    duration_filter: int = int64("1+", default=-1)
    transactional_id_pattern: str | None = string("2+", default=None, nullable="2+")


class TransactionState(Struct):
    """One transaction."""

    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    transaction_state: str = string("0+")


class ListTransactionsResponse(Message, api_key=66, versions="0-2", flexible="0+"):
    """The transactions, and the state filters that mean nothing here."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    unknown_state_filters: list[str] = array("string", "0+")
    transaction_states: list[TransactionState] = array(TransactionState, "0+")
