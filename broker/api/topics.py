"""CreateTopics, DeleteTopics and CreatePartitions: each topic of a request has its own result."""

from seglog.broker.api.topic_changes import TopicChanges, repeated_keys
from seglog.broker.errors import RequestError, describe_error
from seglog.broker.requests.context import Pending, RequestContext
from seglog.broker.requests.services import Services
from seglog.protocol.api import (
    ZERO_TOPIC_ID,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from seglog.protocol.errors import ErrorCode, SeglogError


class CreateTopicsOperation:
    """Answers create-topics requests."""

    __slots__ = ("_services", "_topic_changes")

    def __init__(self, services: Services, topic_changes: TopicChanges) -> None:
        self._services = services
        self._topic_changes = topic_changes

    def handle(
        self, request: CreateTopicsRequest, _context: RequestContext
    ) -> Pending[CreateTopicsResponse]:
        """Create every topic that is legal; each has its own result."""
        return self._services.begin(self._run(request), holds_input=True)

    async def _run(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        return CreateTopicsResponse(
            await self._topic_changes.create(request.topics, validate_only=request.validate_only)
        )


class CreatePartitionsOperation:
    """Answers create-partitions requests."""

    __slots__ = ("_services", "_topic_changes")

    def __init__(self, services: Services, topic_changes: TopicChanges) -> None:
        self._services = services
        self._topic_changes = topic_changes

    def handle(
        self, request: CreatePartitionsRequest, _context: RequestContext
    ) -> Pending[CreatePartitionsResponse]:
        """Grow every topic that may grow; each has its own result."""
        return self._services.begin(self._run(request), holds_input=True)

    async def _run(self, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
        repeated = repeated_keys(topic.name for topic in request.topics)
        results = []
        async with self._services.changing:
            for topic in request.topics:
                result = CreatePartitionsResult(topic.name)
                results.append(result)
                try:
                    if topic.name in repeated:
                        raise RequestError(
                            ErrorCode.INVALID_REQUEST, f"topic {topic.name!r} is named twice"
                        )
                    await self._topic_changes.grow(topic, validate_only=request.validate_only)
                except SeglogError as error:
                    result.error, result.error_message = describe_error(error)
        return CreatePartitionsResponse(results)


class DeleteTopicsOperation:
    """Answers delete-topics requests."""

    __slots__ = ("_services", "_topic_changes")

    def __init__(self, services: Services, topic_changes: TopicChanges) -> None:
        self._services = services
        self._topic_changes = topic_changes

    def handle(
        self, request: DeleteTopicsRequest, _context: RequestContext
    ) -> Pending[DeleteTopicsResponse]:
        """Delete every topic that exists, named or by id; each has its own result."""
        return self._services.begin(self._run(request), holds_input=True)

    async def _run(self, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
        results = [DeleteTopicResult(name) for name in request.names]
        results += [DeleteTopicResult(None, topic_id=topic_id) for topic_id in request.topic_ids]
        async with self._services.changing:
            for result in results:
                self._resolve(result)
            # By name and by id counts as twice.
            repeated = repeated_keys(result.name for result in results if result.name is not None)
            repeated_ids = repeated_keys(request.topic_ids)
            for result in results:
                await self._delete(result, repeated, repeated_ids)
        results += [
            DeleteTopicResult(
                name,
                ErrorCode.INVALID_REQUEST,
                f"topic {_shown(name, topic_id)} is named by an id as well; give one of them",
                topic_id,
            )
            for name, topic_id in request.named_twofold
        ]
        return DeleteTopicsResponse(results)

    def _resolve(self, result: DeleteTopicResult) -> None:
        """Find the name to an id, or say that there is none."""
        if result.name is None and result.topic_id == ZERO_TOPIC_ID:
            result.error = ErrorCode.INVALID_REQUEST
            result.error_message = "a topic to delete has neither a name nor an id"
        elif result.name is None:
            try:
                result.name = self._services.partitions.topic_name(result.topic_id)
            except SeglogError as error:
                result.error, result.error_message = describe_error(error)

    async def _delete(
        self, result: DeleteTopicResult, repeated: set[str], repeated_ids: set[bytes]
    ) -> None:
        name = result.name
        try:
            if name in repeated or (name is None and result.topic_id in repeated_ids):
                raise RequestError(
                    ErrorCode.INVALID_REQUEST,
                    f"topic {_shown(name, result.topic_id)} is named twice and therefore kept",
                )
            if name is None:
                return
            topic = self._services.catalog.get(name)
            await self._topic_changes.delete(name)
            if topic is not None:
                result.topic_id = topic.topic_id
        except SeglogError as error:
            result.error, result.error_message = describe_error(error)


def _shown(name: str | None, topic_id: bytes) -> str:
    return topic_id.hex() if name is None else repr(name[:260])
