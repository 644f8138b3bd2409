"""Compaction beside traffic: which logs are cleaned, by how many threads, and how fast."""
