"""The operations of the broker, one a module, the same for every dialect."""
