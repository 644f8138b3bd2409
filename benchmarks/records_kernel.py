"""How many records a second the kernels of the record format do, compiled and in plain Python.

Run: ``python benchmarks/records_kernel.py [--records N] [--value-bytes N]``. Every figure is the
best of several rounds on one core; nothing is read from or written to a file.
"""

import argparse
import gc
import time
from collections.abc import Callable
from types import ModuleType

from seglog.protocol.compression import Codec, compress, decompress
from seglog.protocol.limits import MAX_DECOMPRESSED_BYTES
from seglog.protocol.records import Record, _pure, build_batch, inspect_batch

BASE_TIMESTAMP_MS = 1_700_000_000_000
ROUNDS = 5


def best_seconds(work: Callable[[], object]) -> float:
    """Return the shortest time of several rounds; the collector stays on, as in real life."""
    best = float("inf")
    for _ in range(ROUNDS):
        gc.collect()
        start = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - start)
        del result
    return best


def kernels() -> list[tuple[str, ModuleType]]:
    """Return the kernels that exist here."""
    found: list[tuple[str, ModuleType]] = []
    try:
        from seglog.protocol import _kernel
    except ImportError:
        print("no compiled kernel: run `make kernel`")
    else:
        found.append(("compiled", _kernel))
    return [*found, ("pure", _pure)]


def measure(name: str, kernel: ModuleType, count: int, value_bytes: int) -> None:
    """Print one line for each function of a kernel."""
    records = [
        (BASE_TIMESTAMP_MS + index, b"key-%08d" % (index % 10_000), bytes(value_bytes), ())
        for index in range(count)
    ]
    keys = [record[1] for record in records]
    area, base, largest = kernel.encode_records(records)
    work: list[tuple[str, Callable[[], object]]] = [
        ("encode", lambda: kernel.encode_records(records)),
        (
            "decode",
            lambda: kernel.decode_records(
                area, count, Record, "t", 0, base_offset=0, base_timestamp=base
            ),
        ),
        ("validate", lambda: kernel.scan_records(area, count, base, True, base, largest)),
        ("find timestamp", lambda: kernel.find_timestamp(area, count, base, largest)),
        ("rewrite all", lambda: kernel.rewrite_records(area, count, base, base + 1)),
        ("partition keys", lambda: kernel.partition_keys(keys, 12)),
    ]
    for label, function in work:
        seconds = best_seconds(function)
        rate = count / seconds / 1e6
        print(f"{name:9} {label:15} {rate:9.2f} M records/s {len(area) / seconds / 1e6:9.0f} MB/s")


def measure_batches(value_bytes: int) -> None:
    """Print how long the inspection of whole batches takes, header and checksum included."""
    for record_count in (1, 1000):
        records = [
            (BASE_TIMESTAMP_MS + index, None, bytes(value_bytes), ())
            for index in range(record_count)
        ]
        batch = memoryview(build_batch(records))
        rounds = 20_000 if record_count == 1 else 200
        inspect = best_seconds(lambda b=batch, n=rounds: [inspect_batch(b) for _ in range(n)])
        build = best_seconds(lambda r=records, n=rounds: [build_batch(r) for _ in range(n)])
        print(
            f"batch of {record_count:4}: inspect {inspect / rounds * 1e6:7.2f} us, "
            f"build {build / rounds * 1e6:7.2f} us"
        )


def measure_codecs() -> None:
    """Print the speed of the codecs on 1 MiB of records that look like JSON."""
    records = [
        (BASE_TIMESTAMP_MS, b"k%d" % index, b'{"carrier":"UA","flight":%d,"delay":%d}' % (
            index, index * 7919 % 240), ())
        for index in range(20_000)
    ]  # fmt: skip
    area, _, _ = _pure.encode_records(records)
    for codec in Codec:
        packed = compress(codec, area)
        write = best_seconds(lambda c=codec: compress(c, area))
        read = best_seconds(lambda c=codec, p=packed: decompress(c, p, MAX_DECOMPRESSED_BYTES))
        print(
            f"{codec.name_of():7} ratio {len(area) / len(packed):5.2f}  "
            f"write {len(area) / write / 1e6:7.0f} MB/s  read {len(area) / read / 1e6:7.0f} MB/s"
        )


def main() -> None:
    """Run all measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--value-bytes", type=int, default=100)
    options = parser.parse_args()
    for name, kernel in kernels():
        count = options.records if name == "compiled" else max(1, options.records // 20)
        measure(name, kernel, count, options.value_bytes)
    measure_batches(options.value_bytes)
    measure_codecs()


if __name__ == "__main__":
    main()
