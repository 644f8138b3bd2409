"""Time, periodic tasks and threads: plumbing that knows nothing of logs."""
