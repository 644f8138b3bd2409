"""CRC-32C."""

import pytest

from seglog.protocol.checksum import crc32c


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_another_polynomial_is_used(kind: type) -> None:
    """The check value of the Castagnoli polynomial, for every kind of buffer."""
    assert crc32c(kind(b"123456789")) == 0xE3069283


def test_a_checksum_cannot_be_continued() -> None:
    assert crc32c(b"456789", crc32c(b"123")) == crc32c(b"123456789")
