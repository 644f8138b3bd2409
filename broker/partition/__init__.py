"""Partitions: waiting, waking and durability around one log each."""
