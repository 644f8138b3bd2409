"""Traffic: when requests were last worked on, for threads that give way to them.

The loop is the only one that writes, and any thread may read: it is one number, which is replaced
as a whole.
"""


class Traffic:
    """A mark that the loop leaves whenever it has worked for a connection.

    Attributes:
        last_work_ns: when it last did, in nanoseconds of ``time.monotonic_ns``; 0 before the first
            time.
    """

    __slots__ = ("last_work_ns",)

    def __init__(self) -> None:
        self.last_work_ns = 0
