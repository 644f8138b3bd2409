"""Configurations."""

import pytest

from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.errors import ErrorCode, ProtocolError
from seglog.protocol.kafka.operations import OPERATION_OF_KEY
from seglog.protocol.native.frames import RecordCursor
from seglog.protocol.native.operations import OPERATION_OF_KEY as NATIVE_OPERATIONS
from seglog.protocol.types import AlterConfigOperation, ConfigResourceType, ConfigSource
from support.kafka_messages import read_request, written_response


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("boolean", 1),
        ("string", 2),
        ("int", 3),
        ("short", 4),
        ("long", 5),
        ("double", 6),
        ("list", 7),
        ("class", 8),
        ("password", 9),
        ("something", 0),
    ],
)
def test_type_of_a_value_is_shown_wrong(name: str, number: int) -> None:
    """Kafka's numbers; what is not among them is "unknown"."""
    entry = api.ConfigEntry("k", "v", ConfigSource.DEFAULT, value_type=name)
    response = api.DescribeConfigsResponse(
        [api.DescribeConfigsResult(ConfigResourceType.BROKER, "1", entries=[entry])]
    )
    (written,) = written_response(ApiKey.DESCRIBE_CONFIGS, response, 4).results
    assert written.configs[0].config_type == number
    assert (written.resource_type, written.configs[0].config_source) == (4, 5)


def test_null_keys_become_no_keys() -> None:
    """Null asks for all of them; a type that is not known stays for the handler to refuse."""
    resources = [
        {"resource_type": 2, "resource_name": "t", "configuration_keys": None},
        {"resource_type": 99, "resource_name": "x", "configuration_keys": []},
    ]
    assert read_request(ApiKey.DESCRIBE_CONFIGS, 4, resources=resources).resources == [
        api.ConfigResource(ConfigResourceType.TOPIC, "t", None),
        api.ConfigResource(99, "x", []),
    ]


def test_old_alter_adds_to_the_overrides() -> None:
    """AlterConfigs replaces them."""
    resource = {
        "resource_type": 2, "resource_name": "t", "configs": [{"name": "a", "value": "1"}]
    }  # fmt: skip
    request = read_request(ApiKey.ALTER_CONFIGS, 2, resources=[resource], validate_only=True)
    change = api.ConfigChange("a", AlterConfigOperation.SET, "1")
    assert request == api.AlterConfigsRequest(
        [api.AlterConfigResource(ConfigResourceType.TOPIC, "t", [change], replace_all=True)], True
    )


def test_unknown_operation_reaches_a_handler() -> None:
    """Its resource is refused with a word about it, the others go on."""
    resources = [
        {
            "resource_type": 2,
            "resource_name": name,
            "configs": [{"name": "a", "config_operation": code, "value": None}],
        }
        for name, code in (("good", 1), ("bad", 7))
    ]
    request = read_request(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=resources)
    withholding = OPERATION_OF_KEY[ApiKey.INCREMENTAL_ALTER_CONFIGS].withholding
    assert withholding is not None
    refused = withholding.take(request, 1)
    assert [each.name for each in request.resources] == ["good"]
    assert not request.resources[0].replace_all
    assert request.resources[0].changes[0].operation is AlterConfigOperation.DELETE
    assert [(each.name, each.error, each.error_message) for each in refused] == [
        ("bad", ErrorCode.INVALID_REQUEST, "a: operation 7 does not exist")
    ]
    response = api.AlterConfigsResponse([api.AlterConfigsResult(ConfigResourceType.TOPIC, "good")])
    withholding.put_back(response, refused)
    assert [each.name for each in response.resources] == ["good", "bad"]


def test_unknown_operation_passes_where_nothing_takes_it_out() -> None:
    """The native dialect has no old clients to humour: the request is malformed there."""
    message = NATIVE_OPERATIONS[ApiKey.INCREMENTAL_ALTER_CONFIGS].request
    with pytest.raises(ProtocolError, match=r"changes.*operation"):
        message.unpack([[[2, "t", [["a", 7, None]]]]], RecordCursor(memoryview(b""), 0, 0))
