"""The admin clients of all foreign clients, by name; all answer ``ask(question, **arguments)``.

A question that a client has no call for is an ``AttributeError`` or, from a program, an error that
says so: ``LACKS`` lists them.
"""

from typing import Any, Final

LACKS: Final = {
    "confluent-kafka": {"log_dirs", "delete_offsets"},
    "kafka-python": set[str](),
    "aiokafka": {"log_dirs", "set_committed", "delete_offsets", "delete_group"},
    "kafkajs": {"log_dirs", "delete_offsets"},
    "java": set[str](),
}


class ProgramAdmin:
    """The admin client inside a program."""

    def __init__(self, program: Any) -> None:
        self._program = program

    def ask(self, what: str, **arguments: Any) -> Any:
        """One question."""
        return self._program.admin(what, **arguments)

    def close(self) -> None:
        """End the program."""
        self._program.close()


def open_admin(name: str, address: str) -> Any:
    """Start an admin client; raises ``UnavailableError`` where it is not to be had."""
    if name == "confluent-kafka":
        from support.foreign.admin_confluent import ConfluentAdmin

        return ConfluentAdmin(address)
    if name == "kafka-python":
        from support.foreign.admin_kafka_python import KafkaPythonAdmin

        return KafkaPythonAdmin(address)
    if name == "aiokafka":
        from support.foreign.admin_aiokafka import AiokafkaAdmin

        return AiokafkaAdmin(address)
    from support.foreign.programs import java_client, kafkajs_client

    return ProgramAdmin({"kafkajs": kafkajs_client, "java": java_client}[name](address))
