"""The consumer: batches in, records out."""
