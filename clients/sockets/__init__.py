"""A client session over blocking sockets: for processes without an event loop, such as Spark's."""
