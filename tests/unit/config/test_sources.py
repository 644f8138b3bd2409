"""Reading the configuration from file, environment and command line."""

from pathlib import Path

import pytest

from seglog.config import ConfigError, Endpoint, Origin, load_broker_config


def _write(directory: Path, text: str) -> Path:
    path = directory / "server.properties"
    path.write_text(text)
    return path


def test_the_order_of_sources_is_wrong(tmp_path: Path) -> None:
    file = _write(tmp_path, "# c\nlog.segment.bytes=100\nnum.partitions=7\n")
    environment = {"KAFKA_LOG_SEGMENT_BYTES": "200"}
    assert load_broker_config(file, {}, []).log_segment_bytes == 100
    assert load_broker_config(file, environment, []).log_segment_bytes == 200
    environment["SEGLOG_LOG_SEGMENT_BYTES"] = "300"
    assert load_broker_config(file, environment, []).log_segment_bytes == 300
    config = load_broker_config(file, environment, ["log.segment.bytes=400"])
    assert config.log_segment_bytes == 400
    assert config.num_partitions == 7
    assert config.sources["num.partitions"] == Origin("server.properties line 3", "7")
    assert config.sources["log.segment.bytes"] == Origin("--override", "400")


@pytest.mark.parametrize(
    ("environment", "overrides", "sentence"),
    [
        (
            {},
            ["log.segment.bytes=1GB"],
            (
                "log.segment.bytes=1GB (--override): it is not a whole number; allowed: a whole "
                "number from 14 to 2147483647"
            ),
        ),
        (
            {"SEGLOG_LOG_SEGMNT_BYTES": "1"},
            [],
            (
                "log.segmnt.bytes=1 (environment variable SEGLOG_LOG_SEGMNT_BYTES): there is no "
                "setting of this name; did you mean log.segment.bytes?"
            ),
        ),
        (
            {},
            ["retention.ms=1"],
            (
                "retention.ms=1 (--override): there is no setting of this name; it is a setting of "
                "topics; the broker's is log.retention.ms"
            ),
        ),
        (
            {},
            ["xyzzy=1"],
            "xyzzy=1 (--override): there is no setting of this name; nothing known comes near",
        ),
        ({}, ["log.dirs"], "--override log.dirs: it must be of the form key=value"),
    ],
)
def test_a_mistake_is_not_explained(
    environment: dict[str, str], overrides: list[str], sentence: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_broker_config(None, environment, overrides)
    assert caught.value.message == sentence


def test_a_mistake_in_the_file_has_no_line_number(tmp_path: Path) -> None:
    file = _write(tmp_path, "\n\nnum.partitions=0\n")
    with pytest.raises(ConfigError, match=r"num.partitions=0 \(server.properties line 3\)"):
        load_broker_config(file, {}, [])


def test_variables_contradict_each_other_in_silence() -> None:
    """Ours wins, and that is said; file and command line are meant to be overruled and to do so."""
    environment = {"KAFKA_NUM_PARTITIONS": "2", "SEGLOG_NUM_PARTITIONS": "3"}
    config = load_broker_config(None, environment, [])
    assert config.num_partitions == 3
    assert config.overruled == ("SEGLOG_NUM_PARTITIONS=3 wins over KAFKA_NUM_PARTITIONS=2",)
    environment["KAFKA_NUM_PARTITIONS"] = "3"
    assert load_broker_config(None, environment, ["num.partitions=4"]).overruled == ()


@pytest.mark.parametrize(
    ("listeners", "metrics_listener"),
    [
        ("PLAINTEXT://127.0.0.1:9644", "127.0.0.1:9644"),
        ("PLAINTEXT://:9092,B://:9644", "127.0.0.1:9644"),
        ("PLAINTEXT://127.0.0.1:9644", "0.0.0.0:9644"),
    ],
)
def test_metrics_are_where_the_broker_listens(listeners: str, metrics_listener: str) -> None:
    given = [
        f"listeners={listeners}",
        f"metrics.listener={metrics_listener}",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,B:PLAINTEXT",
    ]
    with pytest.raises(ConfigError, match=rf"metrics.listener={metrics_listener}: .* this port"):
        load_broker_config(None, {}, given)
    load_broker_config(None, {}, [*given, "metrics.listener=127.0.0.2:9645"])
    load_broker_config(None, {}, [*given, "metrics.listener=127.0.0.1:0"])


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"a=\\u12", "line 1"),
        (b"a=\xff\xfe", "byte 2 is not UTF-8; is it a file of properties?"),
        (None, "No such file or directory"),
    ],
)
def test_a_file_that_is_no_text_gives_a_trace(
    tmp_path: Path, content: bytes | None, sentence: str
) -> None:
    """One sentence, with the file's name once."""
    file = tmp_path / "server.properties"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_broker_config(file, {}, [])
    assert caught.value.message.startswith(f"{file}: the configuration cannot be read: ")
    assert sentence in caught.value.message
    assert caught.value.message.count(str(file)) == 1


def test_a_stock_file_of_kafka_does_not_start(tmp_path: Path) -> None:
    """Its controller listener is not opened, its controller keys are named in one warning."""
    file = _write(
        tmp_path,
        """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
log.retention.hours=168
""",
    )
    config = load_broker_config(file, {}, [])
    assert config.listeners == (Endpoint("PLAINTEXT", "", 9092),)
    assert config.advertised_listeners == (Endpoint("PLAINTEXT", "localhost", 9092),)
    assert config.node_id == 1
    assert "process.roles" in config.ignored_keys
    assert "num.io.threads" in config.ignored_keys


def test_only_a_controller_listener_leaves_nothing_to_open() -> None:
    overrides = ["controller.listener.names=C", "listeners=C://:1"]
    with pytest.raises(ConfigError, match="at least one must be left"):
        load_broker_config(None, {}, overrides)


def test_old_names_do_not_count() -> None:
    config = load_broker_config(None, {}, ["log.dir=/a", "broker.id=4"])
    assert config.log_dirs == ("/a",)
    assert config.node_id == 4
    assert load_broker_config(None, {}, ["log.dir=/a", "log.dirs=/b,/c"]).log_dirs == ("/b", "/c")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("log.dirs=/a/,b//, /c", ("/a", "b", "/c")),
        ("log.dir=/a/", ("/a",)),
        ("log.dirs=/", ("/",)),
    ],
)
def test_a_slash_at_the_end_makes_a_directory_another_one(
    given: str, expected: tuple[str, ...]
) -> None:
    """No topic could be created in ``/data/``, and no start came to its end that had any."""
    assert load_broker_config(None, {}, [given]).log_dirs == expected
    config = load_broker_config(None, {}, ["log.dirs=/a,/b/", "cordoned.log.dirs=/a/,/b"])
    assert config.cordoned_log_dirs == config.log_dirs
    with pytest.raises(ConfigError, match="twice"):
        load_broker_config(None, {}, ["log.dirs=/a,/a/"])


def test_variables_of_other_programs_stop_the_start() -> None:
    """Kubernetes makes service links, Kafka's scripts and applications have their own."""
    environment = {
        "KAFKA_HEAP_OPTS": "-Xmx1g",
        "KAFKA_BOOTSTRAP_SERVERS": "broker:9092",
        "KAFKA_PORT_9092_TCP_ADDR": "10.0.0.1",
        "KAFKA_NUM_NETWORK_THREADS": "3",
        "SEGLOG_PORT": "tcp://10.0.0.1:9092",
        "SEGLOG_SERVICE_HOST": "10.0.0.1",
        "SEGLOG_SERVICE_PORT_KAFKA": "9092",
        "SEGLOG_UI_SERVICE_HOST": "10.0.0.2",
        "SEGLOG_UI_SERVICE_PORT": "80",
        "SEGLOG_UI_PORT": "tcp://10.0.0.2:80",
        "SEGLOG_UI_PORT_80_TCP_PROTO": "tcp",
        "SEGLOG_PURE_PYTHON": "1",
        "PATH": "/bin",
        "CLUSTER_ID": "5L6g3nShT-eMCtK--X86sw",
    }
    config = load_broker_config(None, environment, [])
    assert config.cluster_id == "5L6g3nShT-eMCtK--X86sw"
    assert config.ignored_keys == ("num.network.threads",)


def test_a_slip_of_the_pen_in_kafkas_spelling_is_passed_over() -> None:
    with pytest.raises(ConfigError, match=r"did you mean log\.segment\.bytes"):
        load_broker_config(None, {"KAFKA_LOG_SEGMENT_BYTEZ": "1"}, [])


def test_access_control_is_believed_to_be_on() -> None:
    name = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    with pytest.raises(ConfigError, match="not built in"):
        load_broker_config(None, {}, [f"authorizer.class.name={name}"])
