"""The data directories and all logs in them: start, stop, retention, topics and their folders."""
