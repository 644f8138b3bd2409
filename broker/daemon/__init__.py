"""The daemon: its commands, its process, and the broker put together."""
