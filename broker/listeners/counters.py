"""Counters of listeners and connections: plain numbers, owned by the event-loop thread."""


class NetworkCounters:
    """The connections of one listener.

    Attributes:
        accepted: connections that were accepted, also those that were refused right after.
        accept_failures: times that accepting failed, for want of descriptors for example.
        closed: closed connections by reason.
        refused: connections closed at once by the limit that they broke.
        rejected_frames: frames that closed their connection, by reason.
        refused_requests: requests that were answered with a refusal, by operation and error; their
            connections go on.
        bytes_in: bytes received.
        bytes_out: bytes sent.
        input_pauses: times that reading stopped because answers were waiting.
        handler_failures: requests that failed through a defect of the broker.
        busy_ns: how long the loop worked on events of this listener's sockets.
    """

    __slots__ = (
        "accept_failures",
        "accepted",
        "busy_ns",
        "bytes_in",
        "bytes_out",
        "closed",
        "handler_failures",
        "input_pauses",
        "refused",
        "refused_requests",
        "rejected_frames",
    )

    def __init__(self) -> None:
        self.accepted = 0
        self.accept_failures = 0
        self.closed: dict[str, int] = {}
        self.refused: dict[str, int] = {}
        self.rejected_frames: dict[str, int] = {}
        self.refused_requests: dict[tuple[str, str], int] = {}
        self.bytes_in = 0
        self.bytes_out = 0
        self.input_pauses = 0
        self.handler_failures = 0
        self.busy_ns = 0

    def count_closed(self, reason: str) -> None:
        """Count a connection that ended."""
        self.closed[reason] = self.closed.get(reason, 0) + 1

    def count_refused(self, limit: str) -> None:
        """Count a connection that was not let in."""
        self.refused[limit] = self.refused.get(limit, 0) + 1

    def count_rejected(self, reason: str) -> None:
        """Count a frame that ended its connection."""
        self.rejected_frames[reason] = self.rejected_frames.get(reason, 0) + 1

    def count_refused_request(self, operation: str, error: str) -> None:
        """Count a request that was refused before any handler saw it."""
        key = operation, error
        self.refused_requests[key] = self.refused_requests.get(key, 0) + 1
