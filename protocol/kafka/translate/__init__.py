"""From messages of each version to typed requests and responses and back, by family."""
