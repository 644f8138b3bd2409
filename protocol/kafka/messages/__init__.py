"""Declarations of the messages, one module per operation or small family."""
