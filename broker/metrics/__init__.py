"""What the broker counts and measures."""
