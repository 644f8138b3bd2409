"""The producer: records in, batches out."""
