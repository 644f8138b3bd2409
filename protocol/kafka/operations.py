"""All operations of the Kafka dialect, and what a broker offers of them."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.errors import ErrorCode
from seglog.protocol.kafka.declared import DeclaredOperation
from seglog.protocol.kafka.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

ALL_OPERATIONS: Final[tuple[DeclaredOperation, ...]] = tuple(
    DeclaredOperation(each) for each in api.OPERATIONS if each.versions
)
OPERATION_OF_KEY: Final[dict[int, DeclaredOperation]] = {
    int(operation.key): operation for operation in ALL_OPERATIONS
}


_FIRST_WITH_FEATURES: Final = 3
_FIRST_WITH_LEVEL_ZERO: Final = 4
_TRANSACTION_VERSION: Final = "transaction.version"
_TRANSACTION_LEVEL: Final = 2
"""Clients may raise their epoch with each end of a transaction, and add partitions by writing."""


class Form(NamedTuple):
    """One version of one operation; ``is_offered`` says whether a handler may see it."""

    operation: DeclaredOperation
    version: int
    has_flexible_request: bool
    has_flexible_response: bool
    is_offered: bool


class Offer:
    """The operations that a broker offers; one object for all of its connections.

    Only these are listed in the answer to ApiVersions: clients begin to use the listed ones. One
    that can be read but is not offered is refused in words that its sender understands.

    Args:
        implemented: the operations that have a handler. Keys without a Kafka message (seglog's own)
            are left out; ApiVersions is always there, it needs no handler.
    """

    def __init__(self, implemented: Iterable[ApiKey]) -> None:
        self._offered = frozenset(int(key) for key in implemented if int(key) in OPERATION_OF_KEY)
        self.table: Final = self._build_table()
        self._forms: dict[int, Form] = {}

    def form(self, api_key: int, version: int) -> Form | None:
        """How a request is read and answered; None if its key or version is not known."""
        return self._forms.get(api_key << 16 | version) or self._find_form(api_key, version)

    def _find_form(self, api_key: int, version: int) -> Form | None:
        operation = OPERATION_OF_KEY.get(api_key)
        if operation is None or version not in operation.versions:
            return None
        form = self._forms[api_key << 16 | version] = Form(
            operation,
            version,
            version in operation.request.flexible,
            version in operation.response.flexible,
            api_key in self._offered and version in operation.served,
        )
        return form

    def answer(self, error: ErrorCode, version: int) -> ApiVersionsResponse:
        """The answer to ApiVersions; with the table, unless the request itself was wrong."""
        response = ApiVersionsResponse(
            error_code=error,
            api_keys=[] if error is ErrorCode.INVALID_REQUEST else self.table,
            throttle_time_ms=0,
        )
        if not error and version >= _FIRST_WITH_FEATURES and ApiKey.END_TXN in self._offered:
            # Readers of version 3 take a lowest level of 0 for damage (KAFKA-17011).
            lowest = 0 if version >= _FIRST_WITH_LEVEL_ZERO else 1
            response.supported_features = [
                SupportedFeatureKey(
                    name=_TRANSACTION_VERSION, min_version=lowest, max_version=_TRANSACTION_LEVEL
                )
            ]
            response.finalized_features_epoch = 0
            response.finalized_features = [
                FinalizedFeatureKey(
                    name=_TRANSACTION_VERSION,
                    max_version_level=_TRANSACTION_LEVEL,
                    min_version_level=_TRANSACTION_LEVEL,
                )
            ]
        return response

    def _build_table(self) -> list[ApiVersion]:
        ranges = {key: OPERATION_OF_KEY[key].served for key in self._offered}
        ranges[ApiKey.API_VERSIONS] = ApiVersionsRequest.versions
        if ApiKey.PRODUCE in ranges:
            # It is listed from version 0 on although versions 0 to 2 are refused: older librdkafka
            # takes their absence for "no compression" (KAFKA-18659).
            ranges[ApiKey.PRODUCE] = OPERATION_OF_KEY[ApiKey.PRODUCE].versions
        return [
            ApiVersion(api_key=key, min_version=ranges[key].first, max_version=ranges[key].last)
            for key in sorted(ranges)
        ]
