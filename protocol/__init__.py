"""Bytes to objects and back: record batches, the native dialect and the Kafka dialect.

Nothing here opens a socket or a file, knows the time or imports another part of seglog.
"""
