"""Consumer groups, their offsets, producer ids and transactions: what a broker coordinates."""
