"""The options of the sink, and the columns that it takes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
    TimestampType,
)

from seglog.clients.config import (
    CODECS,
    REMEMBERED_BATCHES,
    Address,
    CompressionOption,
    parse_addresses,
)
from seglog.clients.errors import ConfigurationError
from seglog.clients.spark.connection_options import ConnectionOptions, read_connection_options
from seglog.clients.spark.kafka_options import take_kafka_options
from seglog.clients.spark.option_values import OptionReader, choice, text, whole_number
from seglog.clients.spark.schemas import HEADERS, HEADERS_TYPE
from seglog.protocol.compression import Codec
from seglog.protocol.types import Acks

_WITHOUT_EFFECT: Final = ("path", "checkpointLocation", "queryName", "includeHeaders")
_ACKS: Final = {"0": Acks.NONE, "1": Acks.LEADER, "-1": Acks.ALL, "all": Acks.ALL}


@dataclass(frozen=True, kw_only=True)
class SinkOptions:
    """What ``format("seglog")`` can be told for writing; ``docs/spark.md`` describes each."""

    servers: tuple[Address, ...]
    connection: ConnectionOptions
    topic: str
    acks: Acks
    compression: CompressionOption
    batch_bytes: int
    max_requests_in_flight: int
    application_id: str

    @property
    def codec(self) -> Codec:
        """The codec that ``compression`` names."""
        return CODECS[self.compression]


def read_sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Parse and check the options of a write.

    Raises:
        ConfigurationError: one is unknown, missing or malformed.
    """
    reader = OptionReader(options)
    reader.ignore(_WITHOUT_EFFECT)
    no_addresses: tuple[Address, ...] = ()
    servers = reader.take(
        ("bootstrap.servers", "kafka.bootstrap.servers"), _addresses, no_addresses
    )
    if not servers:
        raise ConfigurationError("option bootstrap.servers is missing, expected host:port")
    found = SinkOptions(
        servers=servers,
        connection=read_connection_options(reader),
        topic=reader.take("topic", text, ""),
        acks=_ACKS[reader.take(("acks", "kafka.acks"), choice(*_ACKS), "all")],
        compression=cast(
            "CompressionOption",
            reader.take(("compression", "kafka.compression.type"), choice(*CODECS), "none"),
        ),
        batch_bytes=reader.take(("batchBytes", "kafka.batch.size"), whole_number(1, 2**30), 2**19),
        max_requests_in_flight=reader.take("maxRequestsInFlight", whole_number(1, 100), 4),
        application_id=reader.take("applicationId", text, ""),
    )
    take_kafka_options(reader)
    reader.refuse_rest("the seglog sink")
    if found.acks is Acks.ALL and found.max_requests_in_flight > REMEMBERED_BATCHES:
        raise ConfigurationError(
            f"maxRequestsInFlight={found.max_requests_in_flight} needs acks=1 or 0: a broker "
            f"recognizes the last {REMEMBERED_BATCHES} batches of a partition when they come again"
        )
    return found


def _addresses(_: str, value: str) -> tuple[Address, ...]:
    return parse_addresses(value)


_TEXT_OR_BYTES: Final = (BinaryType(), StringType())
_SINK_TYPES: Final[dict[str, tuple[DataType, ...]]] = {
    "key": _TEXT_OR_BYTES,
    "value": _TEXT_OR_BYTES,
    "topic": (StringType(),),
    "partition": (IntegerType(),),
    "timestamp": (TimestampType(),),
    HEADERS: (HEADERS_TYPE,),
}


@dataclass(frozen=True)
class SinkColumns:
    """Where the columns of the sink are in the rows; None for those that are not there."""

    value: int
    key: int | None
    topic: int | None
    partition: int | None
    timestamp: int | None
    headers: int | None


def find_columns(schema: StructType, options: SinkOptions) -> SinkColumns:
    """Find the columns that the sink takes; others are left alone, as Spark's Kafka sink does.

    Raises:
        ConfigurationError: there is no value or no topic, or a column has another type.
    """
    places: dict[str, int | None] = dict.fromkeys(_SINK_TYPES)
    for index, field in enumerate(schema):
        name = field.name.lower()  # Spark itself does not look at the case of names.
        allowed = _SINK_TYPES.get(name)
        if allowed is None:
            continue
        if places[name] is not None:
            raise ConfigurationError(f"the rows have two columns {name!r}: drop or rename one")
        if not any(_is_same_type(field.dataType, each) for each in allowed):
            expected = " or ".join(each.simpleString() for each in allowed)
            raise ConfigurationError(
                f"column {field.name} is {field.dataType.simpleString()}, expected {expected}"
            )
        places[name] = index
    if places["value"] is None:
        raise ConfigurationError("the rows have no column 'value'")
    if places["topic"] is None and not options.topic:
        raise ConfigurationError("give the option 'topic' or a column of this name")
    return SinkColumns(**cast("dict[str, int]", places))


def _is_same_type(given: DataType, wanted: DataType) -> bool:
    # Whether something inside may be null makes no difference here.
    return bool(given.simpleString() == wanted.simpleString())
