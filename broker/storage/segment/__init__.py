"""One segment: its data file, its indexes, walks and searches in them."""
