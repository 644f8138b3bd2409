import pytest

from seglog.broker.requests.handlers import Handlers
from seglog.protocol.api import MetadataRequest
from support.broker_parts import CONTEXT


def test_request_goes_to_the_operation_of_its_type_and_only_one() -> None:
    handlers = Handlers()
    handlers.register(MetadataRequest, lambda request, context: (request, context))
    request = MetadataRequest()
    assert handlers.handle(request, CONTEXT) == (request, CONTEXT)
    with pytest.raises(ValueError, match="MetadataRequest is registered twice"):
        handlers.register(MetadataRequest, lambda request, context: None)
