"""How the source and the sink ask a cluster."""

import pytest

from seglog.clients.config import parse_addresses
from seglog.clients.errors import ConnectionLostError
from seglog.clients.spark.cluster import Cluster
from seglog.clients.spark.connection_options import ConnectionOptions
from seglog.protocol.api import MetadataRequest
from seglog.protocol.types import LATEST_TIMESTAMP, IsolationLevel, TopicPartition
from support.fake_broker import HANG_UP, running_fake_broker
from support.fake_logs import fill, numbered

PARTITION = TopicPartition("topic", 0)
OPTIONS = ConnectionOptions(retry_timeout_ms=10_000, retry_backoff_ms=1)


def end_of(cluster):
    questions = {PARTITION: LATEST_TIMESTAMP}
    return cluster.list_offsets(questions, IsolationLevel.READ_UNCOMMITTED)[PARTITION]


def test_a_leader_that_came_back_elsewhere_is_asked_where_it_was():
    with running_fake_broker() as old, running_fake_broker() as new:
        for number, broker in enumerate((old, new), 1):
            (log,) = broker.create("topic")
            fill(log, numbered(number))
        cluster = Cluster(parse_addresses(f"{old.address},{new.address}"), OPTIONS)
        assert end_of(cluster) == 1
        old.run(old.stop())
        assert end_of(cluster) == 2


def test_a_server_that_breaks_off_is_asked_again_before_the_others():
    with running_fake_broker() as broken, running_fake_broker() as sound:
        broken.script = lambda _: HANG_UP
        cluster = Cluster(parse_addresses(f"{broken.address},{sound.address}"), OPTIONS)
        with pytest.raises(ConnectionLostError):
            cluster.ask_any(MetadataRequest([]))
        assert cluster.ask_any(MetadataRequest([])).cluster_id == "fake"
        assert len(broken.requests) == 1
