"""The Kafka dialect: messages as bytes, and their translation to the typed requests of the broker.

    bytes -> connection -> codec (decoder, encoder: compiled from messages) -> translate -> api

``connection.KafkaServerConnection`` is one connection without any I/O; ``operations.Offer`` says
what a broker offers. Nothing is imported here: the codec alone serves internal topics, too.
``docs/kafka-dialect.md`` lists the operations and versions.
"""
