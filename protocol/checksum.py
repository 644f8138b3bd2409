"""CRC-32C (Castagnoli), the checksum of record batches and producer snapshots."""

from crc32c import crc32c as _crc32c

from seglog.protocol.types import Buffer


def crc32c(data: Buffer, value: int = 0) -> int:
    """Return the CRC-32C of ``data``, continued from ``value``; 0xE3069283 for ``b"123456789"``.

    Takes any contiguous buffer without a copy and releases the GIL on large ones.
    """
    checksum: int = _crc32c(data, value)
    return checksum
