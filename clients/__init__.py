"""The public client library of seglog."""
