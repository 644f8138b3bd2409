"""Which kernel is in use, and that the compiled one holds out against anything."""

import gc
import os
import subprocess
import sys
import threading
from typing import NamedTuple

import pytest

from seglog.protocol.errors import RecordError
from seglog.protocol.records import Record, _pure, kernel
from support.batches import T, record_fields

compiled = pytest.importorskip("seglog.protocol._kernel", reason="needs the compiled kernel")

USE_THE_PACKAGE = """
from seglog.protocol.records import RecordBatch, build_batch, inspect_batch, kernel
from seglog.protocol.compression import Codec
batch = build_batch([(5, b"k", b"v", [("h", None)])], codec=Codec.LZ4)
inspect_batch(memoryview(batch))
print(kernel.COMPILED, kernel.encode_records.__module__, list(RecordBatch(batch))[0].value)
"""
HIDE_THE_COMPILED_KERNEL = "import sys; sys.modules['seglog.protocol._kernel'] = None\n"


def run(script: str, **environment: str) -> list[str]:
    process = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **environment},
        check=True,
        capture_output=True,
        text=True,
    )
    return process.stdout.split()


@pytest.mark.parametrize("value", ["", "0"])
def test_the_compiled_kernel_is_not_used(value: str) -> None:
    expected = ["True", "seglog.protocol._kernel", "b'v'"]
    assert run(USE_THE_PACKAGE, SEGLOG_PURE_PYTHON=value) == expected


def test_python_twins_cannot_be_asked_for() -> None:
    expected = ["False", "seglog.protocol.records._pure", "b'v'"]
    assert run(USE_THE_PACKAGE, SEGLOG_PURE_PYTHON="1") == expected


def test_the_package_needs_a_compiler() -> None:
    expected = ["False", "seglog.protocol.records._pure", "b'v'"]
    assert run(HIDE_THE_COMPILED_KERNEL + USE_THE_PACKAGE, SEGLOG_PURE_PYTHON="") == expected


@pytest.mark.parametrize(
    ("kind", "make"),
    [
        ("producer", "from seglog.clients import AsyncProducer as Client"),
        ("consumer", "from seglog.clients import AsyncConsumer as Client"),
    ],
)
def test_a_client_without_the_compiled_kernel_says_so_once(kind: str, make: str) -> None:
    """U24: a checkout that was imported by mistake was 16 times slower, silently."""
    script = f"""
import warnings
{make}
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("default")
    for _ in range(3):
        Client("127.0.0.1:1")
print(len(caught), *(str(each.message).split("(")[0] for each in caught))
"""
    expected = ["1", "the", "compiled", "kernels", "are", "missing"]
    assert run(HIDE_THE_COMPILED_KERNEL + script, SEGLOG_PURE_PYTHON="") == expected
    assert run(script, SEGLOG_PURE_PYTHON="1") == ["0"]
    assert run(script, SEGLOG_PURE_PYTHON="") == ["0"]


def test_a_function_exists_in_one_kernel_only() -> None:
    for name in kernel.__all__:
        if name != "COMPILED":
            assert callable(getattr(compiled, name))
            assert callable(getattr(_pure, name))
            assert getattr(_pure, name).__doc__


class OtherRecord(NamedTuple):
    """Seven fields of another name."""

    a: str
    b: int
    c: int
    d: int
    e: bytes | None
    f: bytes | None
    g: tuple[tuple[str, bytes | None], ...]


class TooShort(NamedTuple):
    """A named tuple that has no room for a record."""

    a: str


@pytest.mark.parametrize("module", [compiled, _pure])
def test_a_record_type_without_room_is_written_beyond(module: object) -> None:
    area = _pure.encode_records(record_fields(1))[0]
    assert isinstance(
        module.decode_records(area, 1, OtherRecord, "t", 0, base_offset=0, base_timestamp=T)[0],  # type: ignore[attr-defined]  # either kernel
        OtherRecord,
    )
    for record_type in (TooShort, tuple, list, int):
        with pytest.raises(TypeError):
            module.decode_records(area, 1, record_type, "t", 0, base_offset=0, base_timestamp=T)  # type: ignore[attr-defined]  # either kernel


def test_decoded_records_leak() -> None:
    """The compiled kernel builds tuples by hand: every reference it takes must be given back."""
    topic, key, header = "topic-" + str(T), b"key" * 100, ("name", b"value" * 100)
    area = _pure.encode_records([(T, key, None, (header,))] * 100)[0]
    gc.collect()
    before = sys.getrefcount(topic), sys.getrefcount(Record)
    records = compiled.decode_records(area, 100, Record, topic, 0, base_offset=0, base_timestamp=T)
    assert type(records[0]) is Record
    assert records[7] == Record(topic, 0, 7, T, key, None, (header,))
    assert hash(records[7]) == hash(Record(topic, 0, 7, T, key, None, (header,)))
    gc.collect()
    assert records[7]._replace(offset=1).offset == 1
    assert sys.getrefcount(topic) == before[0] + 100
    del records
    assert (sys.getrefcount(topic), sys.getrefcount(Record)) == before


def test_a_refused_area_leaks() -> None:
    topic = "topic-" + str(T)
    area = _pure.encode_records(record_fields(5))[0]
    before = sys.getrefcount(topic)
    for _ in range(50):
        with pytest.raises(RecordError):
            compiled.decode_records(area[:-1], 5, Record, topic, 0, base_offset=0, base_timestamp=T)
    area += b"the buffer is not locked"
    assert sys.getrefcount(topic) == before


def test_a_buffer_that_changes_meanwhile_is_read_beyond() -> None:
    """Without the GIL another thread may write what is being read; results are then anything,
    but no byte beyond the area is touched and the process lives."""
    sound, base, _ = _pure.encode_records(record_fields(3000, value_bytes=20))
    sound = bytes(sound)
    area = bytearray(sound)
    stop = threading.Event()

    def disturb() -> None:
        position = 0
        while not stop.is_set():
            position = (position + 977) % len(area)
            area[position] ^= 0xFF
            area[:] = sound

    thread = threading.Thread(target=disturb)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread.start()
    refused = 0
    try:
        for _ in range(300):
            for work in (
                lambda: compiled.scan_records(area, 3000, base),
                lambda: compiled.rewrite_records(area, 3000, base, base + 5, renumber=True),
                lambda: compiled.find_timestamp(area, 3000, base, base + 10**6),
                lambda: compiled.decode_records(
                    area, 3000, Record, "t", 0, base_offset=0, base_timestamp=base
                ),
            ):
                try:
                    work()
                except RecordError:
                    refused += 1
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(interval)
    assert 0 <= refused <= 1200
