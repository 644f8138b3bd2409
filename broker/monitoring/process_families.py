"""What the process has read from disks and written to them, as Kafka shows it on Linux."""

from typing import Final

from seglog.broker.monitoring.families import Family, counter, gauge
from seglog.broker.runtime.line_output import STANDARD_ERROR

_IO_FILE: Final = "/proc/self/io"
_FIGURES: Final = (
    ("read_bytes", "linux_disk_read_bytes", "Bytes that disks had to read for the process."),
    ("write_bytes", "linux_disk_write_bytes", "Bytes that the process has made disks write."),
)


def dropped_line_families() -> list[Family]:
    """Lines of the log that nobody read in time."""
    return [
        counter("seglog_log_lines_dropped", "Lines of the log that were not written.").add(
            STANDARD_ERROR.dropped_lines
        )
    ]


def disk_families(io_file: str = _IO_FILE) -> list[Family]:
    """The bytes that went past the page cache; no series where the system does not tell them."""
    try:
        with open(io_file, encoding="ascii") as file:
            text = file.read()
    except OSError:
        text = ""
    figures = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    families = []
    for key, name, documentation in _FIGURES:
        family = gauge(f"kafka_server_kafkaserver_{name}", documentation)
        if key in figures:
            family.add(int(figures[key]))
        families.append(family)
    return families
