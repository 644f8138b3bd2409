"""The clients for programs without an event loop: each runs its async twin on its own thread."""
