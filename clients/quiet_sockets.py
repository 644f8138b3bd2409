"""Connections on which nothing is said for minutes."""

import socket
from typing import Final

KEEP_ALIVE_S: Final = 60
"""After how many quiet seconds a connection is probed, and then how often."""


def keep_alive(link: socket.socket) -> None:
    """Let the system probe a quiet connection.

    Firewalls and load balancers forget one that is silent for some minutes, without a notice:
    the next request would wait for its time limit.
    """
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option in ("TCP_KEEPIDLE", "TCP_KEEPINTVL"):
        if hasattr(socket, option):  # not everywhere under these names
            link.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), KEEP_ALIVE_S)
