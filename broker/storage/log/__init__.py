"""One partition's log: opening it, appending, reading, flushing, cutting, exchanging segments."""
