"""The Kafka dialect: bytes to the typed requests of the broker, its responses to bytes.

    bytes -> connection -> codec (decoder, encoder: compiled from declarations) -> api

``connection.KafkaServerConnection`` is one connection without any I/O; ``operations.Offer`` says
what a broker offers. Nothing is imported here: the codec alone serves internal topics, too.
``docs/kafka-dialect.md`` lists the operations and versions.
"""
