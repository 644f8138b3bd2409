"""Which micro-batch the sink has finished last, and which ones may follow it: pure decisions.

Spark replays a micro-batch if it was killed before it had noted the end of it: the very last one,
with the same rows. Everything else that comes again means that the checkpoint is not the one by
which the sink was written to before.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from seglog.clients.errors import ClientError


class CheckpointError(ClientError):
    """A micro-batch comes again that is not the last one which the sink has finished."""


class Tally(NamedTuple):
    """How much a micro-batch has, by which another one under its number is told from it."""

    rows: int
    key_and_value_bytes: int

    def plus(self, other: "Tally") -> "Tally":
        """Both together."""
        return Tally(self.rows + other.rows, self[1] + other[1])


@dataclass(frozen=True)
class FinishedBatch:
    """A micro-batch that is wholly stored.

    Attributes:
        number: of the micro-batch.
        tally: what it had, in all topics.
        topics: the id, in hexadecimal, of each topic that holds rows of it.
    """

    number: int
    tally: Tally
    topics: Mapping[str, str]

    def encode(self) -> bytes:
        """As it is stored."""
        return json.dumps(
            {
                "batch": self.number,
                "rows": self.tally.rows,
                "bytes": self.tally.key_and_value_bytes,
                "topics": dict(sorted(self.topics.items())),
            }
        ).encode()

    @staticmethod
    def decode(value: bytes | memoryview) -> "FinishedBatch":
        """Read from the stored form."""
        found = json.loads(bytes(value))
        tally = Tally(int(found["rows"]), int(found["bytes"]))
        return FinishedBatch(int(found["batch"]), tally, found["topics"])


def check_order(application: str, number: int, topic: str, last: FinishedBatch) -> None:
    """Refuse a micro-batch that the checkpoint of a query that goes on cannot lead to.

    Args:
        application: that writes.
        number: of the micro-batch that is to be written.
        topic: for all rows; "" if each row has its own.
        last: what the application has finished.

    Raises:
        CheckpointError: it is older than the last finished one, or that very one, but for another
            topic.
    """
    if number < last.number:
        raise CheckpointError(
            f"micro-batch {number} of {application} is to be written, but the sink has finished "
            f"{last.number}: the checkpoint was set back (its last files are gone, or it comes "
            "from a backup), or it is a copy and the original went on. Nothing was written. "
            f"Bring back the checkpoint that has micro-batch {last.number}; or set the option "
            "applicationId to a name that this query has not had: it then writes from here on, "
            "and rows that were written before come twice"
        )
    if number == last.number and topic and last.topics and topic not in last.topics:
        raise CheckpointError(
            f"micro-batch {number} of {application} is to be written to {topic}, but the sink has "
            f"finished it in {', '.join(sorted(last.topics))}: the checkpoint is a copy, or the "
            "option topic was changed in the middle of this micro-batch. Nothing was written. Set "
            "the option applicationId to a name that this query has not had, and it is written"
        )


def check_same(application: str, number: int, tally: Tally, last: FinishedBatch) -> None:
    """Refuse a micro-batch that has the number of the last finished one, and other rows.

    Raises:
        CheckpointError: the rows or bytes are not as many.
    """
    if number == last.number and tally != last.tally:
        raise CheckpointError(
            f"micro-batch {number} of {application} came again with {tally.rows} rows of "
            f"{tally.key_and_value_bytes} bytes, but the sink has finished it with "
            f"{last.tally.rows} rows of {last.tally.key_and_value_bytes}: the checkpoint has lost "
            f"its last files, so that new rows are in a micro-batch of an old number, or the query "
            "makes other rows each time. Nothing was written. Bring back the checkpoint; or set "
            "the option applicationId to a name that this query has not had: the micro-batch is "
            "then written as it is now, and rows that were written before come twice"
        )
