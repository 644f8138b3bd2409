"""Partitions: what waits, wakes and is made durable around one log each."""
