"""Configurations."""

import pytest

from seglog.protocol import api
from seglog.protocol.errors import ErrorCode
from seglog.protocol.kafka.messages import alter_configs, describe_configs
from seglog.protocol.kafka.messages import incremental_alter_configs as incremental
from seglog.protocol.kafka.translate import configs
from seglog.protocol.types import AlterConfigOperation, ConfigResourceType, ConfigSource


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
    written = configs.write_describe(response, 4).results[0]
    assert written.configs[0].config_type == number
    assert (written.resource_type, written.configs[0].config_source) == (4, 5)


def test_null_keys_become_no_keys() -> None:
    """Null asks for all of them; a type that is not known stays for the handler to refuse."""
    message = describe_configs.DescribeConfigsRequest(
        resources=[
            describe_configs.DescribeConfigsResource(
                resource_type=2, resource_name="t", configuration_keys=None
            ),
            describe_configs.DescribeConfigsResource(
                resource_type=99, resource_name="x", configuration_keys=[]
            ),
        ]
    )
    assert configs.read_describe(message, 4).resources == [
        api.ConfigResource(ConfigResourceType.TOPIC, "t", None),
        api.ConfigResource(99, "x", []),
    ]


def test_old_alter_adds_to_the_overrides() -> None:
    """AlterConfigs replaces them."""
    message = alter_configs.AlterConfigsRequest(
        resources=[
            alter_configs.AlterConfigsResource(
                resource_type=2,
                resource_name="t",
                configs=[alter_configs.AlterableConfig(name="a", value="1")],
            )
        ],
        validate_only=True,
    )
    change = api.ConfigChange("a", AlterConfigOperation.SET, "1")
    assert configs.read_alter(message, 2) == api.AlterConfigsRequest(
        [api.AlterConfigResource(ConfigResourceType.TOPIC, "t", [change], replace_all=True)], True
    )


def test_unknown_operation_reaches_a_handler() -> None:
    """Its resource is refused with a word about it, the others go on."""
    message = incremental.IncrementalAlterConfigsRequest(
        resources=[
            incremental.AlterConfigsResource(
                resource_type=2,
                resource_name=name,
                configs=[incremental.AlterableConfig(name="a", config_operation=code, value=None)],
            )
            for name, code in (("good", 1), ("bad", 7))
        ],
        validate_only=False,
    )
    request = configs.read_incremental(message, 1)
    refused = configs.take_unknown_operations(request, 1)
    assert [each.name for each in request.resources] == ["good"]
    assert request.resources[0].changes[0].operation is AlterConfigOperation.DELETE
    assert [(each.name, each.error, each.error_message) for each in refused] == [
        ("bad", ErrorCode.INVALID_REQUEST, "a: operation 7 does not exist")
    ]
    response = api.AlterConfigsResponse([api.AlterConfigsResult(ConfigResourceType.TOPIC, "good")])
    configs.put_back(response, refused)
    assert [each.name for each in response.resources] == ["good", "bad"]
