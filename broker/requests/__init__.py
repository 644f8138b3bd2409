"""What the handler of a request stands on: its context, its answer, the broker's services."""
