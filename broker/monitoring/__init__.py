"""What operators ask: health, readiness, and metrics made of the counters below."""
