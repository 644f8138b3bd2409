"""Every bound on input from the wire or from a file, with its reason.

``seglog.config`` has the limits that operators may change. No sensible input exceeds the bounds
here, so a hostile or damaged length never decides how much memory is allocated.
"""

from typing import Final

MIB: Final = 1024 * 1024

MAX_ARRAY_ELEMENTS: Final = 1_000_000
"""Elements of one array of a request; the bytes behind it are checked before anything is built."""

MAX_TAGGED_FIELDS: Final = 10_000
"""Tagged fields of one structure of a flexible message."""

MAX_BATCH_BYTES: Final = 2**31 - 1
"""Bytes of one record batch: its length is an int32."""

MAX_DECOMPRESSED_BYTES: Final = 64 * MIB
"""Bytes that the records of one batch may inflate to by default.

Some kilobytes of a stream inflate to any size, so this bounds the cost of one batch. It bounds the
records of a batch too: each takes ``MIN_RECORD_BYTES``.
"""

MIN_RECORD_BYTES: Final = 7
"""The smallest record: its length, attributes, two deltas, two lengths and a count of headers."""

DECOMPRESSION_CHUNK_BYTES: Final = MIB
"""How much is inflated at a time before the total is compared with the bound."""
