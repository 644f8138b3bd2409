"""Batches as bytes: encoded when they leave, divided when too large, renumbered when need be."""

from seglog.clients.config import ProducerConfig
from seglog.clients.producer.batch import ProducerBatch
from seglog.clients.producer.identity import ProducerIdentity, Series
from seglog.clients.producer.records import RecordFields, size_of
from seglog.protocol.records.batch import HEADER_BYTES, RecordBatch, patch_producer
from seglog.protocol.records.builder import build_batch
from seglog.protocol.types import INT32_MAX, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE


def encode(batch: ProducerBatch, config: ProducerConfig, identity: ProducerIdentity) -> None:
    """Number and encode a batch that is not encoded yet; its records are let go.

    Raises:
        RecordError, ValueError: it cannot be encoded, for example with a level that the codec does
            not have; it has no numbers then.
    """
    if batch.encoded is not None:
        return
    is_new = identity.number(batch)
    producer_id, epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
    if batch.base_sequence != NO_SEQUENCE:
        series = identity.series_of(batch.partition)
        producer_id, epoch = series.producer_id, series.epoch
    try:
        batch.encoded = build_batch(
            batch.records,
            codec=config.codec,
            level=config.compression_level,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=batch.base_sequence,
            is_transactional=identity.is_transactional,
        )
    except BaseException:
        if is_new:
            identity.take_back(batch)
        raise
    batch.records = []


def renumber(batch: ProducerBatch, identity: ProducerIdentity, series: Series) -> None:
    """Give a batch that was not stored its numbers in a new series."""
    batch.base_sequence = NO_SEQUENCE
    identity.number(batch)
    batch.may_be_stored = False
    batch.is_renumbered = True
    if batch.encoded is not None:
        # A copy: a connection that broke may still hold what it was given.
        batch.encoded = bytearray(batch.encoded)
        patch_producer(
            memoryview(batch.encoded), series.producer_id, series.epoch, batch.base_sequence
        )


def divide(batch: ProducerBatch) -> list[ProducerBatch]:
    """Two batches with half the records of an encoded one each, and with their numbers."""
    assert batch.encoded is not None
    records: list[RecordFields] = [
        (record.timestamp_ms, record.key, record.value, record.headers)
        for record in RecordBatch(batch.encoded).records()
    ]
    middle = len(records) // 2
    parts: list[ProducerBatch] = []
    for first, half in ((0, records[:middle]), (middle, records[middle:])):
        part = ProducerBatch(batch.partition, batch.deadline_s, 0.0)
        part.is_filling = False
        part.may_be_stored = batch.may_be_stored
        part.is_renumbered = batch.is_renumbered
        part.records = half
        part.record_count = len(half)
        part.size_bytes = HEADER_BYTES + sum(size_of(record) for record in half)
        if batch.base_sequence != NO_SEQUENCE:
            part.base_sequence = (batch.base_sequence + first) & INT32_MAX
        parts.append(part)
    return parts
