"""Batches for tests: good ones, and ones that are wrong in exactly one way."""

from collections.abc import Sequence

from seglog.protocol.compression import Codec, compress
from seglog.protocol.records import HEADER_BYTES, LOG_OVERHEAD, BatchHeader, build_batch
from seglog.protocol.records.batch import HEADER, MAGIC, read_header, write_checksum
from seglog.protocol.records.record import RecordFields

T = 1_700_000_000_000
"""The time, in ms, of the first record of everything that is built here."""

VECTORS = {
    "one record with a header": bytes.fromhex(
        "00000000000000000000003e00000000025e93538d0000000000000000018bcfe568000000018bcfe568"
        "00ffffffffffffffffffffffffffff0000000118000000026b02760202680278"
    ),
    "three records of a producer": bytes.fromhex(
        "00000000000000050000004a00000004027e9670ac0000000000020000018bcfe568000000018bcfe56d"
        "dc00000000000003e9000300000007000000031000000002610231001000b81702026201000c00130401"
        "0000"
    ),
    "commit marker": bytes.fromhex(
        "000000000000002a0000004200000004020f2787ff0030000000000000018bcfe568000000018bcfe568"
        "0000000000000003e90003ffffffff000000012000000008000000010c00000000000700"
    ),
    "abort marker": bytes.fromhex(
        "000000000000002a000000420000000402fb1951b70030000000000000018bcfe568000000018bcfe568"
        "0000000000000003e90003ffffffff000000012000000008000000000c00000000000700"
    ),
    "emptied by compaction": bytes.fromhex(
        "000000000000000a00000031000000040249aab664000000000004ffffffffffffffff0000018bcfe568"
        "0000000000000003e900030000000000000000"
    ),
    "tombstone with delete horizon": bytes.fromhex(
        "00000000000000640000003c0000000402b06ca6c80040000000000000018bd50bc4000000018bcfe568"
        "00ffffffffffffffffffffffffffff000000011400ffefb25200026b0100"
    ),
}
"""Batches as Kafka writes them, byte for byte."""


def record_fields(
    count: int,
    *,
    value_bytes: int = 10,
    first_timestamp_ms: int = T,
    step_ms: int = 1,
    with_keys: bool = True,
) -> list[RecordFields]:
    """Return records with keys ``key-0``, ``key-1``, ... that are ``step_ms`` apart."""
    return [
        (
            first_timestamp_ms + index * step_ms,
            b"key-%d" % index if with_keys else None,
            b"%d" % index + bytes(max(0, value_bytes - len(b"%d" % index))),
            (),
        )
        for index in range(count)
    ]


def client_batch(count: int = 3, **options: object) -> memoryview:
    """Return a writable view of a batch as a client sends it; options of ``record_fields``
    and ``codec`` are taken."""
    codec = options.pop("codec", Codec.NONE)
    assert isinstance(codec, Codec)
    return memoryview(build_batch(record_fields(count, **options), codec=codec))  # type: ignore[arg-type]  # checked by the callee


def with_header(batch: bytes | bytearray | memoryview, **fields: int) -> memoryview:
    """Return a copy of a batch with some header fields replaced and a checksum that fits."""
    header = read_header(batch)._replace(**fields)
    copy = bytearray(batch)
    HEADER.pack_into(copy, 0, *header)
    write_checksum(memoryview(copy))
    return memoryview(copy)


def with_wrong_checksum(batch: bytes | bytearray | memoryview) -> memoryview:
    """Return a copy of a batch whose checksum is off by one."""
    copy = bytearray(batch)
    header = read_header(batch)
    HEADER.pack_into(copy, 0, *header._replace(crc=(header.crc + 1) % 2**32))
    return memoryview(copy)


def batch_of_area(
    area: bytes, record_count: int, *, codec: Codec = Codec.NONE, **fields: int
) -> memoryview:
    """Return a batch with a right header and checksum around any records area.

    ``codec`` compresses the area; to claim a codec that the area does not have, pass
    ``attributes``.
    """
    stored = compress(codec, area) if codec is not Codec.NONE else area
    header = BatchHeader(
        0, HEADER_BYTES - LOG_OVERHEAD + len(stored), -1, MAGIC, 0, codec,
        record_count - 1, T, T, -1, -1, -1, record_count,
    )  # fmt: skip
    return with_header(HEADER.pack(*header) + stored, **fields)


def concatenate(batches: Sequence[bytes | bytearray | memoryview]) -> memoryview:
    """Return batches back to back, as a file or a response holds them."""
    return memoryview(bytearray().join(batches))
