"""The whole broker inside a test: start and stop in order, and what goes wrong in between."""

import asyncio
import logging
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seglog.broker.cleaning.log_cleaner import LogCleaner
from seglog.broker.daemon.app import Broker
from seglog.broker.listeners.network import AddressUnavailableError
from seglog.broker.monitoring.status import BrokerState
from seglog.broker.runtime.traffic import Traffic
from seglog.broker.storage.errors import FileError, LockedError, StorageError
from seglog.broker.storage.files.file_system import FileStamp, OsFileSystem
from seglog.config import BrokerConfig, load_broker_config
from seglog.protocol import api
from seglog.protocol.errors import ErrorCode
from seglog.protocol.records.batch import iter_batches
from seglog.protocol.records.builder import build_batch
from support.listener_harness import RawClient, connect
from support.processor_time import in_time


def config_for(folder: Path, *overrides: str) -> BrokerConfig:
    return load_broker_config(
        None,
        {},
        [
            f"log.dirs={folder / 'data'}",
            "listeners=PLAINTEXT://127.0.0.1:0",
            "metrics.listener=127.0.0.1:0",
            *overrides,
        ],
    )


def batch(*values: bytes) -> memoryview:
    return memoryview(bytearray(build_batch([(1_700_000_000_000, b"k", v, ()) for v in values])))


async def create(client: RawClient, name: str = "t") -> None:
    response = await client.ask(api.CreateTopicsRequest([api.NewTopic(name, 1, 1)]))
    assert response.topics[0].error is ErrorCode.NONE, response


async def produce(client: RawClient, *values: bytes, acks: int = 1) -> int:
    request = api.ProduceRequest(acks, 5000, [api.ProducePartition("t", 0, batch(*values))])
    (result,) = (await client.ask(request)).partitions
    assert result.error is ErrorCode.NONE, result
    offset: int = result.base_offset
    return offset


async def fetch(client: RawClient, offset: int, max_wait_ms: int = 0) -> list[bytes | None]:
    request = api.FetchRequest(
        max_wait_ms, 1, 1 << 20, [api.FetchPartition("t", 0, offset, 1 << 20)]
    )
    (result,) = (await client.ask(request)).partitions
    assert result.error is ErrorCode.NONE, result
    if result.records is None:
        return []
    return [record.value for each in iter_batches(result.records) for record in each.records()]


async def http(broker: Broker, path: str) -> tuple[int, str]:
    """Status and body of a page."""
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.metrics_port)
    writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
    answer = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.partition("\r\n\r\n")
    return int(head.split()[1]), body


async def test_records_do_not_come_back(tmp_path: Path) -> None:
    """Over the wire, in memory and after a restart."""
    async with Broker(config_for(tmp_path)) as broker:
        client = await connect(broker.port)
        await create(client)
        assert await produce(client, b"a", b"b") == 0
        assert await produce(client, b"c", acks=-1) == 2
        assert await fetch(client, 0) == [b"a", b"b", b"c"]
        client.close()
    assert broker.status.state is BrokerState.NOT_RUNNING
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    async with Broker(config_for(tmp_path)) as broker:
        client = await connect(broker.port)
        assert await fetch(client, 2) == [b"c"]
        assert await produce(client, b"d") == 3
        client.close()


async def test_kafka_client_is_turned_away(tmp_path: Path) -> None:
    """The same port speaks Kafka: ApiVersions version 0 by hand."""
    async with Broker(config_for(tmp_path)) as broker:
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
        writer.write(bytes.fromhex("0000000d 0012 0000 00000007 0003 617070".replace(" ", "")))
        size = int.from_bytes(await reader.readexactly(4), "big")
        answer = await reader.readexactly(size)
        assert answer[:6] == bytes.fromhex("000000070000")
        keys = {answer[at : at + 2] for at in range(10, len(answer), 6)}
        assert {b"\x00\x00", b"\x00\x01", b"\x00\x03", b"\x00\x12"} <= keys
        writer.close()
        await writer.wait_closed()


async def test_metrics_and_health_say_nothing(tmp_path: Path) -> None:
    """Requests and partitions appear in the metrics; per-partition series can be left out."""
    async with Broker(config_for(tmp_path)) as broker:
        client = await connect(broker.port)
        await create(client)
        await produce(client, b"abc")
        assert await http(broker, "/healthz") == (200, "ok\n")
        assert await http(broker, "/readyz") == (200, "ready\n")
        status, page = await http(broker, "/metrics")
        assert status == 200
        assert 'kafka_network_requestmetrics_requests_total{request="Produce"} 1.0' in page
        assert 'kafka_server_brokertopicmetrics_messagesin_total{topic="t"} 1.0' in page
        assert 'kafka_log_log_logendoffset{partition="0",topic="t"} 1.0' in page
        assert "kafka_server_kafkaserver_brokerstate 3.0" in page
        client.close()
    async with Broker(config_for(tmp_path, "metrics.per.partition=false")) as broker:
        _, page = await http(broker, "/metrics")
        assert "kafka_log_log_logendoffset" not in page
        assert "kafka_controller_kafkacontroller_globalpartitioncount 1.0" in page


async def test_parked_fetch_delays_the_stop(tmp_path: Path) -> None:
    """C074: who waits for records is answered, and the connection ends."""
    broker = Broker(config_for(tmp_path))
    await broker.start()
    client = await connect(broker.port)
    await create(client)
    await client.request(
        api.FetchRequest(60_000, 1, 100, [api.FetchPartition("t", 0, 0, 100)]),
    )
    async with asyncio.timeout(5):
        while not broker.services.counters.parked_fetches:  # noqa: ASYNC110 - happens in the broker
            await asyncio.sleep(0)
    started = asyncio.get_running_loop().time()
    stopping = asyncio.ensure_future(broker.stop())
    answer = await client.receive()
    assert answer.response.partitions[0].error is ErrorCode.NONE
    assert await client.receive() is None
    client.close()
    await stopping
    await broker.stop()
    assert in_time(asyncio.get_running_loop().time() - started, 2)


async def test_port_in_use_leaves_something_behind(tmp_path: Path) -> None:
    """Neither the folder is touched nor any socket kept; both kinds of listener."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for override in (f"listeners=PLAINTEXT://{address}", f"metrics.listener={address}"):
            with pytest.raises(AddressUnavailableError, match=address):
                await Broker(config_for(tmp_path, override)).start()
            assert not (tmp_path / "data").exists()


async def test_second_broker_on_the_same_folder(tmp_path: Path) -> None:
    """C076: it says who holds the folder; the first one goes on."""
    async with Broker(config_for(tmp_path)) as broker:
        with pytest.raises(LockedError, match=str(os.getpid())):
            await Broker(config_for(tmp_path)).start()
        client = await connect(broker.port)
        await create(client)
        client.close()


class SlowFileSystem(OsFileSystem):
    """Looks at a folder only when it is let go: a recovery that takes its time."""

    def __init__(self, begun: Callable[[], object]) -> None:
        super().__init__()
        self.go_on = threading.Event()
        self.begun = begun
        self.slow_path = ""

    def _wait(self, path: str) -> None:
        if self.slow_path and path.startswith(self.slow_path):
            self.begun()
            assert self.go_on.wait(10)

    def stamp(self, path: str) -> FileStamp:
        """Wait for the test."""
        self._wait(path)
        return super().stamp(path)

    def list_directory(self, path: str) -> list[str]:
        """Wait for the test."""
        self._wait(path)
        return super().list_directory(path)


async def test_stop_while_starting_hurts_the_data(tmp_path: Path) -> None:
    """C074: the logs being read are closed cleanly, health is answered meanwhile."""
    async with Broker(config_for(tmp_path)) as broker:
        client = await connect(broker.port)
        await create(client)
        await produce(client, b"kept")
        client.close()
    loop = asyncio.get_running_loop()
    begun = asyncio.Event()
    file_system = SlowFileSystem(lambda: loop.call_soon_threadsafe(begun.set))
    file_system.slow_path = str(tmp_path / "data" / "t-0")
    broker = Broker(config_for(tmp_path), file_system=file_system)
    starting = asyncio.ensure_future(broker.start())
    async with asyncio.timeout(5):
        await begun.wait()
    assert (await http(broker, "/healthz"))[0] == 200
    assert await http(broker, "/readyz") == (503, "recovering: 0 of 1 logs\n")
    starting.cancel()
    file_system.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await starting
    async with Broker(config_for(tmp_path)) as broker:
        client = await connect(broker.port)
        assert await fetch(client, 0) == [b"kept"]
        client.close()


async def test_a_long_recovery_tells_how_far_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Broker(config_for(tmp_path)) as broker:
        client = await connect(broker.port)
        await create(client)
        await produce(client, b"kept")
        client.close()
    loop = asyncio.get_running_loop()
    begun = asyncio.Event()
    file_system = SlowFileSystem(lambda: loop.call_soon_threadsafe(begun.set))
    file_system.slow_path = str(tmp_path / "data" / "t-0")
    monkeypatch.setattr("seglog.broker.daemon.app.PROGRESS_SECONDS", 0.001)
    caplog.set_level(logging.INFO)
    broker = Broker(config_for(tmp_path), file_system=file_system)
    starting = asyncio.ensure_future(broker.start())
    line = f"event=recovery-progress directory={tmp_path / 'data'} logs=0/1 bytes=0 seconds=0"
    series = f'kafka_log_logmanager_remaininglogstorecover{{dir="{tmp_path / "data"}"}}'
    async with asyncio.timeout(10):
        await begun.wait()
        while line not in caplog.text:
            assert (await http(broker, "/healthz"))[0] == 200
        assert f"{series} 1" in (await http(broker, "/metrics"))[1]
        file_system.go_on.set()
        await starting
    assert f"{series} 0" in (await http(broker, "/metrics"))[1]
    await broker.stop()


async def test_last_disk_fails_unnoticed(tmp_path: Path) -> None:
    """The broker says that it cannot go on; health fails."""
    async with Broker(config_for(tmp_path)) as broker:
        broker.services.logs.failures.on_none_left(StorageError("all gone"))
        assert await broker.failed == "all gone"
        assert await http(broker, "/healthz") == (503, "all gone\n")
        assert (await http(broker, "/readyz"))[0] == 503


async def test_failing_directories_look_well(tmp_path: Path) -> None:
    """Ready, as the others are served; the pages and metrics say what is not."""
    dirs = f"log.dirs={tmp_path / 'a'},{tmp_path / 'b'},{tmp_path / 'c'}"
    async with Broker(config_for(tmp_path, dirs)) as broker:
        services = broker.services
        offline, refusing, full = services.logs.log_dirs
        services.logs.failures.report(offline, FileError("sync", "x", "Input/output error"))
        # A limit that is exceeded and nothing to delete.
        limit = services.config.with_dynamic({"log.dir.free.bytes.min": str(2**62)})
        services.change_config(limit)
        await services.background.guard_disks()
        full.refuses_writes = None
        full.note_full()
        for path, word in (("/readyz", "ready"), ("/healthz", "ok")):
            status, body = await http(broker, path)
            lines = body.splitlines()
            assert (status, lines[0]) == (200, word)
            assert f"log.dirs={offline.path} is offline: " in lines[1]
            assert "Input/output error" in lines[1]
            assert f"log.dirs={refusing.path} refuses records: " in lines[2]
            assert "log.dir.free.bytes.min" in lines[2]
            assert lines[3:] == [f"log.dirs={full.path} has no room for records"]
        _, page = await http(broker, "/metrics")
        assert f'seglog_log_dir_refuses_records{{path="{refusing.path}"}} 1.0' in page
        assert "kafka_log_logmanager_offlinelogdirectorycount 1.0" in page


async def test_scrape_of_a_stop_is_a_defect(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """While logs are flushed there are no threads any more to make text in."""
    async with Broker(config_for(tmp_path)) as broker:
        await broker.services.workers.stop(1)
        broker.status.state = BrokerState.SHUTTING_DOWN
        assert await http(broker, "/metrics") == (503, "the broker is stopping\n")
        assert await http(broker, "/readyz") == (503, "shutting_down\n")
        assert await http(broker, "/healthz") == (200, "ok\n")
    assert "http-failed" not in caplog.text


async def test_changed_limits_wait_for_a_restart(tmp_path: Path) -> None:
    """Dynamic settings reach the listeners; over the wire and from the file alike."""
    async with Broker(config_for(tmp_path)) as broker:
        client = await connect(broker.port)
        change = api.ConfigChange("max.connections", api_operation(0), "1")
        resource = api.AlterConfigResource(resource_type(4), "0", [change])
        response = await client.ask(api.AlterConfigsRequest([resource]))
        assert response.resources[0].error is ErrorCode.NONE, response
        second = await connect(broker.port, greet=False)
        assert await second.is_closed_by_peer()
        second.close()
        client.close()


async def test_changed_pace_of_the_cleaner_waits_for_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """log.cleaner.backoff.ms is dynamic."""
    looked = asyncio.Event()
    monkeypatch.setattr(LogCleaner, "look_for_work", lambda _self: looked.set())
    async with Broker(config_for(tmp_path, "log.cleaner.backoff.ms=3600000")) as broker:
        services = broker.services
        services.change_config(services.config.with_dynamic({"log.cleaner.backoff.ms": "1"}))
        async with asyncio.timeout(10):
            await looked.wait()


async def test_cleaner_looks_at_a_traffic_that_nobody_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Traffic] = []

    class SeenCleaner(LogCleaner):
        def __init__(self, *arguments: Any, traffic: Traffic, **named: Any) -> None:
            seen.append(traffic)
            super().__init__(*arguments, traffic=traffic, **named)

    monkeypatch.setattr("seglog.broker.daemon.app.LogCleaner", SeenCleaner)
    async with Broker(config_for(tmp_path)) as broker:
        (traffic,) = seen
        assert traffic.last_work_ns == 0
        client = await connect(broker.port)
        assert traffic.last_work_ns > 0
        client.close()


async def test_changed_number_of_threads_changes_nothing(tmp_path: Path) -> None:
    """background.threads is dynamic, and in force again after a restart."""
    async with Broker(config_for(tmp_path, "background.threads=3")) as broker:
        pool = broker.services.workers.background
        assert pool.threads == 3
        client = await connect(broker.port)
        change = api.ConfigChange("background.threads", api_operation(0), "1")
        resource = api.AlterConfigResource(resource_type(4), "0", [change])
        response = await client.ask(api.AlterConfigsRequest([resource]))
        assert response.resources[0].error is ErrorCode.NONE, response
        assert pool.threads == 1
        client.close()
    async with Broker(config_for(tmp_path, "background.threads=3")) as broker:
        assert broker.services.workers.background.threads == 1


async def test_settings_that_mean_nothing_are_taken_in_silence(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Broker(config_for(tmp_path, "num.io.threads=8", "zookeeper.connect=z:2181")):
        pass
    warnings = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert warnings == ["event=config-without-effect keys=num.io.threads,zookeeper.connect"]


async def test_settings_of_a_cluster_refuse_every_write_in_silence(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Producers and groups try again for ever: elsewhere that error is a matter of time."""
    settings = ("min.insync.replicas=2", "transaction.state.log.min.isr=3")
    async with Broker(config_for(tmp_path, *settings)):
        pass
    warnings = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert [each.split(" reason")[0] for each in warnings] == [
        "event=too-few-replicas key=min.insync.replicas value=2",
        "event=too-few-replicas key=transaction.state.log.min.isr value=3",
    ]
    assert all("promises one replica" in each for each in warnings)


async def test_rack_is_not_told_to_clients(tmp_path: Path) -> None:
    async with Broker(config_for(tmp_path, "broker.rack=r1")) as broker:
        client = await connect(broker.port)
        metadata = await client.ask(api.MetadataRequest(None))
        cluster = await client.ask(api.DescribeClusterRequest())
        assert [each.rack for each in (*metadata.brokers, *cluster.brokers)] == ["r1", "r1"]
        client.close()


def api_operation(number: int) -> Any:
    from seglog.protocol.types import AlterConfigOperation

    return AlterConfigOperation(number)


def resource_type(number: int) -> Any:
    from seglog.protocol.types import ConfigResourceType

    return ConfigResourceType(number)
