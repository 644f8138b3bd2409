"""The metrics page: valid text, shared between scrapers, rendered off the loop."""

import asyncio
import gzip
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from prometheus_client.openmetrics.parser import text_string_to_metric_families as strict_parser
from prometheus_client.parser import text_string_to_metric_families

from seglog.broker.listeners.counters import NetworkCounters
from seglog.broker.listeners.request_statistics import RequestMetrics
from seglog.broker.monitoring.broker_families import (
    LogDirFigures,
    broker_counter_families,
    disk_families,
    log_dir_families,
    partition_families,
    topic_families,
    waiting_families,
)
from seglog.broker.monitoring.cluster_families import (
    broker_info,
    cluster_families,
    replica_families,
)
from seglog.broker.monitoring.exposition import MetricsPage
from seglog.broker.monitoring.families import Family, Histogram, counter, gauge
from seglog.broker.monitoring.network_families import (
    connection_families,
    request_families,
    traffic_families,
)
from seglog.broker.partition.counters import BrokerCounters
from seglog.broker.partition.replicas import SoleReplica
from seglog.broker.runtime.loop_lag import LoopLag
from seglog.protocol.types import TopicPartition
from support.processor_time import in_time


async def in_thread(function: Callable[[], Any]) -> Any:
    return await asyncio.to_thread(function)


async def page_of(families: list[Family]) -> dict[str, float]:
    """All series of a page as ``name{labels}``: value."""
    page = await MetricsPage(lambda: families, in_thread).render(compressed=False)
    series = {}
    for family in text_string_to_metric_families(page.decode()):
        for sample in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))
            series[f"{sample.name}{{{labels}}}"] = sample.value
    return series


async def test_series_have_other_names_than_dashboards_ask_for() -> None:
    """Counters end in _total, histograms are cumulative, labels are escaped."""
    histogram = Family("h", "histogram", "Doc.", ("request",))
    histogram.add(Histogram((0.1, 1.0), (3, 2, 1), 4.5), "Produce")
    series = await page_of(
        [counter("c", "Doc.", "topic").add(5, 'we"ird\n'), gauge("g", "Doc.").add(2.5), histogram]
    )
    assert series['c_total{topic=we"ird\n}'] == 5
    assert series["g{}"] == 2.5
    assert series["h_bucket{le=0.1,request=Produce}"] == 3
    assert series["h_bucket{le=1.0,request=Produce}"] == 5
    assert series["h_bucket{le=+Inf,request=Produce}"] == 6
    assert series["h_count{request=Produce}"] == 6
    assert series["h_sum{request=Produce}"] == 4.5
    assert not [name for name in series if "created" in name]
    assert series["process_resident_memory_bytes{}"] > 1_000_000


async def test_three_scrapers_cost_three_renderings() -> None:
    """C072: they share one; the next one after that reads anew; it happens in a thread."""
    reads = 0
    threads = set()
    release = threading.Event()

    def read() -> list[Family]:
        nonlocal reads
        reads += 1
        return [gauge("g", "Doc.").add(reads)]

    async def run(function: Callable[[], Any]) -> Any:
        def held() -> Any:
            assert release.wait(5)
            threads.add(threading.get_ident())
            return function()

        return await asyncio.to_thread(held)

    page = MetricsPage(read, run)
    scrapes = [
        asyncio.ensure_future(page.render(compressed=compressed))
        for compressed in (True, False, False)
    ]
    await asyncio.sleep(0)
    scrapes[2].cancel()
    release.set()
    packed, plain = await scrapes[0], await scrapes[1]
    assert gzip.decompress(packed) == plain
    assert reads == 1
    assert threading.get_ident() not in threads
    await page.render(compressed=False)
    assert reads == 2


async def test_failed_rendering_is_remembered() -> None:
    """The next scrape tries again."""

    async def fail(_function: Callable[[], Any]) -> Any:
        raise ZeroDivisionError

    page = MetricsPage(list, fail)
    for _ in range(2):
        try:
            await page.render(compressed=False)
        except ZeroDivisionError:
            continue
        raise AssertionError("rendered all the same")


async def test_totals_fall_when_a_topic_is_deleted() -> None:
    """Per-topic series end with the topic; the series of all topics only grows."""
    counters = BrokerCounters()
    counters.topic("a").bytes_in += 100
    counters.topic("b").bytes_in += 10
    counters.forget_topic("a")
    counters.topic("a").bytes_in += 1
    series = await page_of(topic_families(counters) + broker_counter_families(counters))
    name = "kafka_server_brokertopicmetrics_bytesin_total"
    assert series[f"{name}{{topic=a}}"] == 1
    assert series[f"{name}{{topic=b}}"] == 10
    assert series[f"{name}{{}}"] == 111
    series = await page_of(topic_families(counters, per_topic=False))
    assert [key for key in series if key.startswith(name)] == [f"{name}{{}}"]


def fake_partition(topic: str, number: int, start: int, end: int, min_isr: int = 2) -> Any:
    name = TopicPartition(topic, number)
    offsets = SimpleNamespace(log_start=start, log_end=end, high_watermark=end - 1)
    log = SimpleNamespace(
        topic_partition=name,
        offsets=offsets,
        segments=[1, 2],
        segment_bytes_total=4096,
        config=SimpleNamespace(min_insync_replicas=min_isr),
    )
    return SimpleNamespace(
        log=log, topic_partition=name, replicas=SoleReplica(7), min_in_sync_count=min_isr
    )


def test_thousands_of_topics_show_zeros_for_faults_that_never_were() -> None:
    """C072: totals are always there, series of a topic with its first fault."""
    counters = BrokerCounters()
    counters.topic("good").messages_in = 1
    counters.topic("bad").bytes_rejected = 100
    found = {family.name: dict(family.samples) for family in topic_families(counters)}
    assert found["kafka_server_brokertopicmetrics_messagesin"] == {
        ("good",): 1, ("bad",): 0, (): 1,
    }  # fmt: skip
    assert found["kafka_server_brokertopicmetrics_bytesrejected"] == {("bad",): 100, (): 100}
    assert found["seglog_expired_records"] == {(): 0}


async def test_partition_series_are_mixed_up() -> None:
    """Sizes and offsets, the cluster's figures, and space of the data directories."""
    partitions = [fake_partition("a", 0, 5, 10), fake_partition("a", 1, 0, 7)]
    series = await page_of(
        partition_families(partitions)
        + cluster_families(partitions, [TopicPartition("a", 2)], {"a": 3})
        + log_dir_families([LogDirFigures("/d1", 100, 40, True), LogDirFigures("/d2", None, None)])
    )
    assert series["kafka_log_log_size{partition=1,topic=a}"] == 4096
    assert series["kafka_log_log_logstartoffset{partition=0,topic=a}"] == 5
    assert series["kafka_log_log_logendoffset{partition=0,topic=a}"] == 10
    assert series["kafka_log_log_numlogsegments{partition=0,topic=a}"] == 2
    assert series["kafka_topic_partition_current_offset{partition=0,topic=a}"] == 9
    assert series["kafka_topic_partition_oldest_offset{partition=0,topic=a}"] == 5
    assert series["kafka_topic_partitions{topic=a}"] == 3
    assert series["kafka_server_replicamanager_partitioncount{}"] == 3
    assert series["kafka_server_replicamanager_underminisrpartitioncount{}"] == 2
    assert series["kafka_controller_kafkacontroller_offlinepartitionscount{}"] == 1
    assert series["kafka_log_logmanager_offlinelogdirectorycount{}"] == 1
    assert series["seglog_log_dir_free_bytes{path=/d1}"] == 40
    assert series["seglog_log_dir_refuses_records{path=/d1}"] == 1
    assert "seglog_log_dir_refuses_records{path=/d2}" not in series


async def test_replicas_are_shown_better_than_they_are() -> None:
    """What is offline has no leader; what acks=all needs counts against the one replica."""
    partitions = [fake_partition("a", 0, 0, 1, min_isr=2), fake_partition("a", 1, 0, 1, min_isr=1)]
    offline = [TopicPartition("a", 2)]
    series = await page_of(
        [
            *cluster_families(partitions, offline, {"a": 3}),
            *replica_families(partitions, offline, 7),
            broker_info(7, "somewhere:9092"),
        ]
    )

    def of_partitions(name: str) -> list[float]:
        return [series[f"{name}{{partition={number},topic=a}}"] for number in range(3)]

    assert of_partitions("kafka_topic_partition_leader") == [7, 7, -1]
    assert of_partitions("kafka_topic_partition_leader_is_preferred") == [1, 1, 0]
    for name in ("kafka_topic_partition_replicas", "kafka_cluster_partition_replicascount"):
        assert of_partitions(name) == [1, 1, 1]
    for name in ("topic_partition_in_sync_replica", "cluster_partition_insyncreplicascount"):
        assert of_partitions(f"kafka_{name}") == [1, 1, 0]
    for name in ("topic_partition_under_replicated_partition", "cluster_partition_underreplicated"):
        assert of_partitions(f"kafka_{name}") == [0, 0, 1]
    assert of_partitions("kafka_cluster_partition_underminisr") == [1, 0, 1]
    assert of_partitions("kafka_cluster_partition_atminisr") == [0, 1, 0]
    manager = "kafka_server_replicamanager"
    assert series[f"{manager}_underminisrpartitioncount{{}}"] == 1
    assert series[f"{manager}_atminisrpartitioncount{{}}"] == 1
    assert series[f"{manager}_underreplicatedpartitions{{}}"] == 0
    assert series[f"{manager}_offlinereplicacount{{}}"] == 1
    assert series[f"{manager}_isrshrinks_total{{}}"] == 0
    assert series["kafka_broker_info{address=somewhere:9092,id=7}"] == 1


async def test_waits_and_syncs_are_not_shown() -> None:
    """How many requests wait, and how long syncs take."""
    counters = BrokerCounters()
    counters.waiting_fetches, counters.waiting_produces = 3, 2
    counters.flush_durations.observe(4_000_000)
    series = await page_of(waiting_families(counters))
    purgatory = "kafka_server_delayedoperationpurgatory_purgatorysize"
    assert series[f"{purgatory}{{delayedOperation=Fetch}}"] == 3
    assert series[f"{purgatory}{{delayedOperation=Produce}}"] == 2
    assert series["seglog_flush_seconds_bucket{le=0.005}"] == 1
    assert series["seglog_flush_seconds_sum{}"] == 0.004
    quantile = "kafka_log_logflushstats_logflushrateandtimems{quantile=0.99}"
    assert 2.5 <= series[quantile] <= 5


async def test_bytes_of_disks_are_taken_from_elsewhere(tmp_path: Path) -> None:
    """What went past the page cache; without Linux there is no series, and no error."""
    file = tmp_path / "io"
    file.write_text("rchar: 1\nwchar: 2\nread_bytes: 4096\nwrite_bytes: 8192\n")
    name = "kafka_server_kafkaserver_linux_disk"
    series = await page_of(disk_families(str(file)))
    assert series[f"{name}_read_bytes{{}}"] == 4096
    assert series[f"{name}_write_bytes{{}}"] == 8192
    series = await page_of(disk_families(str(tmp_path / "missing")))
    assert not [key for key in series if key.startswith(name)]
    assert [family.kind for family in disk_families()] == ["gauge", "gauge"]


async def test_network_series_are_mixed_up() -> None:
    """Requests by operation and error, connections by listener and client program."""
    requests = RequestMetrics()
    requests.of(0).observe(1_000_000)
    requests.of(0).count_error(87)
    requests.of(0).count_error(9999)
    counters = NetworkCounters()
    counters.accepted = 3
    counters.count_closed("idle")
    counters.count_refused("max.connections")
    counters.count_rejected("http")
    counters.count_refused_request("DescribeAcls", "UNSUPPORTED_VERSION")
    connection = SimpleNamespace(software=("", ""), queued_bytes=7, input_bytes_held=9)
    listener: Any = SimpleNamespace(name="PLAINTEXT", counters=counters, connections=[connection])
    series = await page_of(
        request_families(requests.all())
        + connection_families([listener])
        + traffic_families([listener])
    )
    assert series["kafka_network_requestmetrics_requests_total{request=Produce}"] == 1
    errors = "kafka_network_requestmetrics_errors_total"
    assert series[f"{errors}{{error=INVALID_RECORD,request=Produce}}"] == 1
    assert series[f"{errors}{{error=9999,request=Produce}}"] == 1
    quantile = "kafka_network_requestmetrics_totaltimems{quantile=0.99,request=Produce}"
    assert 0.5 <= series[quantile] <= 1.0
    assert series["seglog_request_seconds_count{request=Produce}"] == 1
    connections = "kafka_server_socket_server_metrics_connection_count"
    assert series[f"{connections}{{listener=PLAINTEXT,networkProcessor=0}}"] == 1
    assert series["seglog_connections_closed_total{listener=PLAINTEXT,reason=idle}"] == 1
    refused = "seglog_connections_refused_total{limit=max.connections,listener=PLAINTEXT}"
    assert series[refused] == 1
    assert series["seglog_frames_rejected_total{listener=PLAINTEXT,reason=http}"] == 1
    refused = "{error=UNSUPPORTED_VERSION,listener=PLAINTEXT,request=DescribeAcls}"
    assert series[f"seglog_requests_refused_total{refused}"] == 1
    assert series["seglog_output_queued_bytes{listener=PLAINTEXT}"] == 7


async def test_programs_of_clients_are_a_bounded_number_of_series() -> None:
    """U29: clients choose their names."""
    programs = [("common", "1")] * 7 + [(f"own-{number}", "1") for number in range(200)]
    connections = [
        SimpleNamespace(software=program, queued_bytes=0, input_bytes_held=0)
        for program in programs
    ]
    listener: Any = SimpleNamespace(name="PLAINTEXT", connections=connections)
    series = await page_of(connection_families([listener]))
    name = "kafka_server_socket_server_metrics_connections_software"
    counted = {key: value for key, value in series.items() if key.startswith(name + "{")}
    assert len(counted) == 51
    assert sum(counted.values()) == len(programs)
    assert (
        counted[f"{name}{{clientSoftwareName=common,clientSoftwareVersion=1,listener=PLAINTEXT}}"]
        == 7
    )


async def test_thousands_of_partitions_block_the_loop() -> None:
    """C072: sixteen series for each of 5000 partitions are read in milliseconds on the loop."""
    partitions = [fake_partition(f"topic-{n // 10}", n % 10, 0, n + 1) for n in range(5000)]
    started = time.process_time()
    families = partition_families(partitions) + replica_families(partitions, [], 7)
    assert in_time(time.process_time() - started, 0.2)
    page = await MetricsPage(lambda: families, in_thread).render(compressed=False)
    assert page.count(b"\n") > 80_000
    assert list(strict_parser("# EOF\n")) == []


async def test_loop_lag_is_not_noticed() -> None:
    """A loop that was blocked is late at the next measurement."""
    lag = LoopLag(asyncio.get_running_loop())
    lag.start()
    lag._timer.cancel()  # type: ignore[union-attr] # started just now
    lag._due -= 0.5
    lag._measure()
    assert lag.last_seconds > 0.2
    assert lag.take_max_seconds() == lag.last_seconds
    assert lag.take_max_seconds() == 0
    lag.stop()
    assert time.monotonic() > 0
