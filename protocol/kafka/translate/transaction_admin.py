"""ListTransactions and DescribeTransactions: what tools ask for."""

from typing import Final

from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.errors import ErrorCode
from seglog.protocol.kafka.messages import describe_transactions, list_transactions
from seglog.protocol.kafka.translate.operation import Operation


def read_list(
    message: list_transactions.ListTransactionsRequest, _version: int
) -> api.ListTransactionsRequest:
    """The filters as they are."""
    return api.ListTransactionsRequest(
        message.state_filters,
        message.producer_id_filters,
        message.duration_filter,
        message.transactional_id_pattern,
    )


def write_list(
    response: api.ListTransactionsResponse, _version: int
) -> list_transactions.ListTransactionsResponse:
    """The fields as they are."""
    return list_transactions.ListTransactionsResponse(
        throttle_time_ms=response.throttle_time_ms,
        error_code=response.error,
        unknown_state_filters=response.unknown_states,
        transaction_states=[
            list_transactions.TransactionState(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                transaction_state=each.state,
            )
            for each in response.transactions
        ],
    )


def fail_list(
    _request: api.ListTransactionsRequest, error: ErrorCode, _message: str | None
) -> api.ListTransactionsResponse:
    """Refuse the request."""
    return api.ListTransactionsResponse([], error=error)


def read_describe(
    message: describe_transactions.DescribeTransactionsRequest, _version: int
) -> api.DescribeTransactionsRequest:
    """The ids as they are."""
    return api.DescribeTransactionsRequest(message.transactional_ids)


def write_describe(
    response: api.DescribeTransactionsResponse, _version: int
) -> describe_transactions.DescribeTransactionsResponse:
    """One description a transactional id."""
    return describe_transactions.DescribeTransactionsResponse(
        throttle_time_ms=response.throttle_time_ms,
        transaction_states=[_write_description(each) for each in response.transactions],
    )


def _write_description(each: api.TransactionDescription) -> describe_transactions.TransactionState:
    topics: dict[str, list[int]] = {}
    for topic, partition in each.partitions:
        topics.setdefault(topic, []).append(partition)
    return describe_transactions.TransactionState(
        error_code=each.error,
        transactional_id=each.transactional_id,
        transaction_state=each.state,
        transaction_timeout_ms=each.timeout_ms,
        transaction_start_time_ms=each.start_time_ms,
        producer_id=each.producer_id,
        producer_epoch=each.producer_epoch,
        topics=[
            describe_transactions.TopicData(topic=topic, partitions=partitions)
            for topic, partitions in topics.items()
        ],
    )


def fail_describe(
    request: api.DescribeTransactionsRequest, error: ErrorCode, _message: str | None
) -> api.DescribeTransactionsResponse:
    """Refuse every transactional id."""
    return api.DescribeTransactionsResponse(
        [api.TransactionDescription(each, error) for each in request.transactional_ids]
    )


OPERATIONS: Final = (
    Operation(
        ApiKey.LIST_TRANSACTIONS,
        list_transactions.ListTransactionsRequest,
        list_transactions.ListTransactionsResponse,
        read_list,
        write_list,
        fail_list,
    ),
    Operation(
        ApiKey.DESCRIBE_TRANSACTIONS,
        describe_transactions.DescribeTransactionsRequest,
        describe_transactions.DescribeTransactionsResponse,
        read_describe,
        write_describe,
        fail_describe,
    ),
)
