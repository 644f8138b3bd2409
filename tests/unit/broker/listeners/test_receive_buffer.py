"""Received bytes: nothing lost, large frames not copied, idle connections without memory."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seglog.broker.listeners.receive_buffer import (
    GROWTH_STEP_BYTES,
    LARGE_FRAME_BYTES,
    ReceiveBuffer,
    SharedBuffer,
)
from support.examples import examples


def receive(buffer: ReceiveBuffer, data: bytes) -> bytes:
    """Put in what fits, return the rest."""
    target = buffer.target()
    count = min(len(data), target.nbytes)
    assert count > 0
    target[:count] = data[:count]
    buffer.received(count)
    return data[count:]


def frame(size: int, fill: int = 1) -> bytes:
    """A frame with a length in front, as all dialects have it."""
    return size.to_bytes(4, "big") + bytes([fill]) * (size - 4)


def whole_frames(buffer: ReceiveBuffer) -> Iterator[bytes]:
    """Read what is whole, and settle the rest."""
    while True:
        start, end = buffer.start, buffer.end
        size = int.from_bytes(buffer.view[start : start + 4], "big") if end - start >= 4 else 0
        if size == 0 or start + size > end:
            break
        buffer.start = start + size
        yield bytes(buffer.view[start : start + size])
    buffer.settle(size)


sizes = st.one_of(
    st.integers(4, 300), st.integers(60_000, 70_000), st.just(LARGE_FRAME_BYTES), st.just(2_500_000)
)


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(sizes, max_size=12), st.lists(st.integers(1, 200_000), min_size=1, max_size=20))
def test_frames_are_lost_or_damaged(frame_sizes: list[int], chunks: list[int]) -> None:
    """Frames of any sizes, arriving in any pieces, come out as they went in."""
    frames = [frame(size, index + 1) for index, size in enumerate(frame_sizes)]
    stream = b"".join(frames)
    buffer = ReceiveBuffer(SharedBuffer(131_072))
    read = []
    position = turn = 0
    while position < len(stream):
        chunk = stream[position : position + chunks[turn % len(chunks)] + turn // 50 * 10_000]
        turn += 1
        position += len(chunk)
        while chunk:
            chunk = receive(buffer, chunk)
            read += list(whole_frames(buffer))
    assert read == frames
    assert buffer.start == buffer.end


def test_two_connections_disturb_each_other() -> None:
    """What one leaves unread is safe when the other receives into the shared buffer."""
    shared = SharedBuffer(1000)
    one, other = ReceiveBuffer(shared), ReceiveBuffer(shared)
    receive(one, frame(100)[:50])
    assert not list(whole_frames(one))
    receive(other, frame(200, 2) + b"\0")
    assert list(whole_frames(other)) == [frame(200, 2)]
    receive(one, frame(100)[50:])
    assert list(whole_frames(one)) == [frame(100)]


def test_idle_connection_keeps_memory() -> None:
    """Between small frames a connection has no buffer of its own."""
    buffer = ReceiveBuffer(SharedBuffer(1000))
    receive(buffer, frame(100) * 3)
    assert len(list(whole_frames(buffer))) == 3
    assert buffer.held_bytes == 0


def test_announced_size_is_believed() -> None:
    """C034: a frame of 100 MB of which a few bytes came reserves one step, not 100 MB."""
    buffer = ReceiveBuffer(SharedBuffer(1000))
    receive(buffer, (100_000_000).to_bytes(4, "big") + b"x")
    assert not list(whole_frames(buffer))
    assert buffer.held_bytes == GROWTH_STEP_BYTES


def test_large_frame_is_received_beyond_its_end() -> None:
    """The next frame begins at the front of the buffer, so that it need not be moved."""
    buffer = ReceiveBuffer(SharedBuffer(1000))
    big = frame(200_000)
    rest = receive(buffer, big + b"\0\0")
    assert not list(whole_frames(buffer))
    rest = receive(buffer, rest)
    assert rest == b"\0\0"
    assert list(whole_frames(buffer)) == [big]
    own = buffer.view
    assert receive(buffer, big) == b""
    assert buffer.view is own
    assert list(whole_frames(buffer)) == [big]
    buffer.release_if_empty()
    assert buffer.held_bytes == 0


def test_small_frames_after_a_large_one_keep_its_buffer() -> None:
    """A connection that was busy once is small again."""
    buffer = ReceiveBuffer(SharedBuffer(1000))
    rest = receive(buffer, frame(200_000))
    assert not list(whole_frames(buffer))
    receive(buffer, rest)
    assert list(whole_frames(buffer))
    receive(buffer, frame(50))
    assert list(whole_frames(buffer)) == [frame(50)]
    assert buffer.held_bytes == 0


def test_much_smaller_large_frames_keep_a_huge_buffer() -> None:
    """The buffer follows the size of the frames down."""
    buffer = ReceiveBuffer(SharedBuffer(1000))
    data = frame(3_000_000)
    while data:
        data = receive(buffer, data)
        list(whole_frames(buffer))
    receive(buffer, frame(100_000)[:1000])
    assert not list(whole_frames(buffer))
    assert buffer.held_bytes == 100_000


def test_held_input_is_overwritten_by_another_connection() -> None:
    """A worker may go on reading the frame; others receive into a new shared buffer."""
    shared = SharedBuffer(1000)
    one, other = ReceiveBuffer(shared), ReceiveBuffer(shared)
    receive(one, frame(100) + frame(100, 2)[:20])
    view = one.view[0:100]
    one.start = 100
    one.hold()
    receive(other, frame(900, 7))
    assert bytes(view) == frame(100)
    assert bytes(one.view[one.start : one.end]) == frame(100, 2)[:20]
    assert not list(whole_frames(one))
    receive(one, frame(100, 2)[20:])
    assert list(whole_frames(one)) == [frame(100, 2)]


@pytest.mark.parametrize("unread", [0, 10, LARGE_FRAME_BYTES + 10])
def test_paused_connection_loses_its_frames(unread: int) -> None:
    """Small rests are copied out; a large one keeps the shared buffer itself."""
    shared = SharedBuffer(200_000)
    one, other = ReceiveBuffer(shared), ReceiveBuffer(shared)
    receive(one, b"\1" * (100 + unread))
    one.start = 100
    one.keep_unread()
    receive(other, b"\2" * 200_000)
    assert bytes(one.view[one.start : one.end]) == b"\1" * unread
    assert one.held_bytes == (0, 10, 200_000)[(0, 10, LARGE_FRAME_BYTES + 10).index(unread)]
