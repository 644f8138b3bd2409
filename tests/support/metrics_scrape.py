"""The metrics of a real broker that has seen some of everything, taken apart."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from seglog.clients import Admin, Consumer, Producer
from seglog.clients.errors import ClientError
from seglog.clients.testing import RunningBroker, running_broker
from support.real_broker import free_port, scrape

TOPIC = "flights"
COMPACTED = "planes"


@dataclass(slots=True)
class ScrapedFamily:
    """One metric, as a scrape shows it; ``series`` are the names of its samples."""

    name: str
    kind: str
    documentation: str
    labels: set[str] = field(default_factory=set)
    series: set[str] = field(default_factory=set)


def parse_families(text: str) -> dict[str, ScrapedFamily]:
    """All metrics of a page by name."""
    families: dict[str, ScrapedFamily] = {}
    documentation = ""
    current: ScrapedFamily | None = None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            documentation = line.split(" ", 3)[3]
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            current = families[name] = ScrapedFamily(name, kind, documentation)
        elif line and current is not None:
            name, _, rest = line.partition("{")
            current.series.add(name.split(" ")[0])
            if rest:
                current.labels |= set(re.findall(r'(\w+)="', rest)) - {"le"}
    return families


def series_names(families: dict[str, ScrapedFamily]) -> set[str]:
    """What a query may name."""
    names = set()
    for family in families.values():
        if family.kind == "histogram":
            names |= {f"{family.name}_{part}" for part in ("bucket", "sum", "count")}
        else:
            names.add(family.name)
    return names


@contextmanager
def busy_broker() -> Iterator[tuple[RunningBroker, int]]:
    """A broker that was written to, read from and asked for nonsense; with its metrics port."""
    port = free_port()
    with running_broker(configs={"metrics.listener": f"127.0.0.1:{port}"}) as broker:
        with Admin(broker.address) as admin:
            admin.create_topic(TOPIC, partitions=2)
            admin.create_topic(COMPACTED, configs={"cleanup.policy": "compact"})
            with Producer(broker.address, acks="all") as producer:
                for topic in (TOPIC, COMPACTED):
                    producer.send(topic, b"value", key=b"key").result(10)
            with Consumer(broker.address, TOPIC, start="earliest") as consumer:
                assert list(consumer.read(max_records=1, timeout=5))
            try:
                admin.delete_records({(TOPIC, 0): 1_000_000})
            except ClientError:
                pass
            else:
                raise AssertionError("records were deleted that do not exist")
        yield broker, port


def busy_scrape() -> dict[str, ScrapedFamily]:
    """The metrics of a ``busy_broker``."""
    with busy_broker() as (_, port):
        return parse_families(scrape(port))
