"""Counters of the cleaner since the start of the broker."""

from dataclasses import dataclass


@dataclass(slots=True)
class CleanerCounters:
    """Plain numbers for the metrics."""

    passes: int = 0
    failures: int = 0
    bytes_mapped: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_without_key: int = 0
    last_pass_seconds: float = 0.0
