"""``seglog``: the command line for a broker that runs somewhere, over its native protocol."""
