"""Consumer groups, their offsets, and producer ids: what a broker coordinates for its clients."""
