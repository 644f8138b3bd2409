"""Transactions: ending them, and looking at them.

Nothing adds a partition or a group to a transaction beforehand: a write makes its partition part of
the transaction, as in Kafka's transactions of version 2.
"""

from typing import Final

from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.native.fields import (
    BOOLEAN,
    ERROR,
    INT16,
    INT32,
    INT64,
    NULLABLE_STRING,
    STRING,
    list_of,
)
from seglog.protocol.native.messages.common_fields import (
    NAMES,
    PLACE,
    PLACES,
    PRODUCER,
    THROTTLE,
)
from seglog.protocol.native.operation import Operation
from seglog.protocol.native.schema import Message

END_TXN_REQUEST: Final = Message(
    api.EndTxnRequest,
    transactional_id=STRING,
    **PRODUCER,
    commit=BOOLEAN,
    bumps_epoch=BOOLEAN,
)
END_TXN_RESPONSE: Final = Message(api.EndTxnResponse, error=ERROR, **PRODUCER, **THROTTLE)
WRITE_TXN_MARKERS_REQUEST: Final = Message(
    api.WriteTxnMarkersRequest,
    ends=list_of(
        Message(
            api.TransactionEnd,
            **PRODUCER,
            commit=BOOLEAN,
            partitions=PLACES,
            coordinator_epoch=INT32,
            transaction_version=INT16,
        ).field
    ),
)
WRITE_TXN_MARKERS_RESPONSE: Final = Message(
    api.WriteTxnMarkersResponse,
    ends=list_of(
        Message(
            api.TransactionEndResult,
            producer_id=INT64,
            partitions=list_of(
                Message(api.TransactionEndPartitionResult, **PLACE, error=ERROR).field
            ),
        ).field
    ),
)
DESCRIBE_TRANSACTIONS_REQUEST: Final = Message(
    api.DescribeTransactionsRequest, transactional_ids=NAMES
)
DESCRIBE_TRANSACTIONS_RESPONSE: Final = Message(
    api.DescribeTransactionsResponse,
    transactions=list_of(
        Message(
            api.TransactionDescription,
            transactional_id=STRING,
            error=ERROR,
            state=STRING,
            timeout_ms=INT32,
            start_time_ms=INT64,
            **PRODUCER,
            partitions=PLACES,
        ).field
    ),
    **THROTTLE,
)
LIST_TRANSACTIONS_REQUEST: Final = Message(
    api.ListTransactionsRequest,
    states=NAMES,
    producer_ids=list_of(INT64),
    duration_ms=INT64,
    transactional_id_pattern=NULLABLE_STRING,
)
LIST_TRANSACTIONS_RESPONSE: Final = Message(
    api.ListTransactionsResponse,
    transactions=list_of(
        Message(
            api.ListedTransaction, transactional_id=STRING, producer_id=INT64, state=STRING
        ).field
    ),
    unknown_states=NAMES,
    error=ERROR,
    **THROTTLE,
)

OPERATIONS: Final = (
    Operation(ApiKey.END_TXN, END_TXN_REQUEST, END_TXN_RESPONSE),
    Operation(ApiKey.WRITE_TXN_MARKERS, WRITE_TXN_MARKERS_REQUEST, WRITE_TXN_MARKERS_RESPONSE),
    Operation(
        ApiKey.DESCRIBE_TRANSACTIONS, DESCRIBE_TRANSACTIONS_REQUEST, DESCRIBE_TRANSACTIONS_RESPONSE
    ),
    Operation(ApiKey.LIST_TRANSACTIONS, LIST_TRANSACTIONS_REQUEST, LIST_TRANSACTIONS_RESPONSE),
)
