"""Gzip streams of other writers."""

import gzip
import time

from seglog.protocol.compression import Codec, compress, decompress
from support.processor_time import in_time


def test_more_than_one_member_is_written() -> None:
    packed = compress(Codec.GZIP, b"abc" * 100_000)
    assert packed[:3] == b"\x1f\x8b\x08"
    assert gzip.decompress(packed) == b"abc" * 100_000
    assert packed.count(b"\x1f\x8b\x08") == 1


def test_only_the_first_of_several_members_is_read() -> None:
    members = gzip.compress(b"one ") + gzip.compress(bytes(100_000)) + gzip.compress(b" three")
    assert decompress(Codec.GZIP, members, 200_000) == b"one " + bytes(100_000) + b" three"


def test_many_tiny_members_take_quadratic_time() -> None:
    """Each member used to leave the rest of the input to be copied; now at most a slice."""
    member = gzip.compress(b"x")
    started = time.process_time()
    assert len(decompress(Codec.GZIP, member * 20_000, 20_000)) == 20_000
    assert in_time(time.process_time() - started, 2)
