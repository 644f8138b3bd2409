"""The typed configuration tree of the broker, with Apache Kafka's keys and defaults."""
