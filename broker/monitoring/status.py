"""In which part of its life a broker is."""

from enum import IntEnum


class BrokerState(IntEnum):
    """Kafka's numbers, as in the metric ``brokerstate``."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    SHUTTING_DOWN = 7


class BrokerStatus:
    """The state as it is now; one object, which the HTTP side and the broker share.

    Attributes:
        state: see ``BrokerState``.
        started_at: the monotonic time in seconds at which the start began.
        start_seconds: how long it took, 0 until then.
        failure: why the broker cannot go on, None while it can.
    """

    __slots__ = ("failure", "start_seconds", "started_at", "state")

    def __init__(self, started_at: float) -> None:
        self.state = BrokerState.STARTING
        self.started_at = started_at
        self.start_seconds = 0.0
        self.failure: str | None = None

    @property
    def is_ready(self) -> bool:
        """Whether requests are served."""
        return self.state is BrokerState.RUNNING and self.failure is None
