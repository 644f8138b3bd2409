"""A member of a group in a process of its own, to be killed; prints what it is assigned.

Usage: lone_member.py ADDRESS GROUP TOPIC
"""

import sys

from confluent_kafka import Consumer


def main(address: str, group: str, topic: str) -> None:
    """Poll until killed."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 300,
        }
    )

    def assigned(_: Consumer, partitions: list[object]) -> None:
        sys.stdout.write(f"{len(partitions)}\n")
        sys.stdout.flush()

    consumer.subscribe([topic], on_assign=assigned)
    while True:
        consumer.poll(0.1)


if __name__ == "__main__":
    main(*sys.argv[1:])
