"""A real Apache Kafka: one node, KRaft, on the loopback, from Maven's artifacts."""

import socket
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from support.foreign.programs import kafka_class_path, run_java
from support.real_broker import free_port

START_SECONDS = 60
STOP_SECONDS = 60
JAVA_OPTIONS = ("-Xmx768m", "-XX:+UseG1GC")


class ApacheKafka:
    """A running Kafka.

    Args:
        folder: where it keeps everything.
        configs: beside what a single node on the loopback needs.
        java_options: heap and collector.

    Attributes:
        address: for ``bootstrap_servers``.
        data_directory: its ``log.dirs``.
    """

    def __init__(
        self,
        folder: Path,
        configs: Mapping[str, object],
        java_options: Sequence[str] = JAVA_OPTIONS,
    ) -> None:
        port, controller_port = free_port(), free_port()
        self.address = f"127.0.0.1:{port}"
        self.data_directory = folder / "kafka-data"
        self.log_file = folder / "kafka.log"
        self._port = port
        self._java_options = java_options
        self._properties = folder / "kafka.properties"
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.data_directory),
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 4,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 2,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            **configs,
        }
        text = "".join(f"{key}={value}\n" for key, value in settings.items())
        self._properties.write_text(text)
        cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        run_java(
            "kafka.tools.StorageTool", "format", "-c", str(self._properties),
            # In one word: the id may begin with a hyphen.
            f"--cluster-id={cluster_id}",
        )  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process_id(self) -> int:
        """Of the running process."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it and wait until it listens."""
        # Not as the tools are started: their small heap and quick compiler would be unfair here.
        command = ["java", *self._java_options, "-cp", kafka_class_path(), "kafka.Kafka"]
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, str(self._properties)], stdout=log, stderr=log
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._listens():
            assert self._process.poll() is None, self.log_file.read_text()[-2000:]
            assert time.monotonic() < deadline, "Kafka does not start"
            time.sleep(0.1)

    def stop(self) -> None:
        """Stop it cleanly."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0


@contextmanager
def running_kafka(
    folder: Path,
    configs: Mapping[str, object] | None = None,
    *,
    java_options: Sequence[str] = JAVA_OPTIONS,
) -> Iterator[ApacheKafka]:
    """Run Kafka for the time of a ``with`` block.

    Raises:
        UnavailableError: Java or Kafka is not to be had.
    """
    kafka_class_path()
    kafka = ApacheKafka(folder, configs or {}, java_options)
    kafka.start()
    try:
        yield kafka
    finally:
        kafka.stop()
