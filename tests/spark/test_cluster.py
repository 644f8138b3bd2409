"""Spark on more than one machine, as far as one has it: a standalone cluster of two workers."""

from collections.abc import Callable
from pathlib import Path

import pytest

from seglog.clients.testing import RunningBroker
from support.spark_cluster import (
    python_without_the_package,
    run_job,
    standalone_cluster,
    zip_of_the_package,
)
from support.spark_queries import fill


@pytest.mark.timeout(400)
@pytest.mark.usefixtures("_spark_home")
def test_executors_do_not_find_the_package_or_the_broker(
    broker: RunningBroker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Installed everywhere; then in a zip file on machines where it is not, with ``register``."""
    topic = new_topic(2)
    fill(broker.address, topic, range(500))
    fill(broker.address, topic, range(500), partition=1)
    expected = {"count": 1000, "executors": 2, "copied": 1000}
    with standalone_cluster(tmp_path) as master:
        topics = (topic, new_topic())
        assert run_job(master, broker.address, topics, tmp_path) == expected
        archive = str(zip_of_the_package(tmp_path / "seglog.zip"))
        python = str(python_without_the_package(tmp_path))
        topics = (topic, new_topic())
        found = run_job(master, broker.address, topics, tmp_path, archive=archive, python=python)
        assert found == expected
