"""Telling systemd how the daemon is (the sd_notify protocol): one datagram a change."""

import logging
import os
import socket

logger = logging.getLogger(__name__)


def notify(state: str) -> bool:
    """Send ``READY=1``, ``STOPPING=1`` and the like; False if there is no service manager.

    Without a service manager, that is without ``NOTIFY_SOCKET``, nothing happens.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    if address.startswith("@"):
        address = "\0" + address[1:]  # an abstract socket
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
            channel.connect(address)
            channel.sendall(state.encode())
    except OSError as error:
        logger.warning('event=notify-failed state=%s error="%s"', state, error)
        return False
    return True
