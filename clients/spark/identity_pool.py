"""The producer ids of this process: one task after the other goes on where the last one ended.

So brokers do not have to remember a producer for each task. An id is only used again if all that
was numbered under it is acknowledged.
"""

import os
import threading
from typing import Final

from seglog.clients.errors import broker_error
from seglog.clients.producer.identity import ProducerIdentity
from seglog.clients.sockets.cluster import SocketCluster
from seglog.protocol.api import InitProducerIdRequest, InitProducerIdResponse
from seglog.protocol.errors import ErrorCode

_IDLE_PER_CLUSTER_MAX: Final = 8


class IdentityPool:
    """Unused identities. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[str, list[ProducerIdentity]] = {}

    def leave_to_parent(self) -> None:
        """Begin anew in a forked child: the parent goes on with the same identities."""
        # Another thread of the parent may have held the lock, which nothing here would release.
        self._lock = threading.Lock()
        self._idle = {}

    def acquire(self, cluster: SocketCluster) -> ProducerIdentity:
        """An unused one; asks for a new id if there is none.

        Args:
            cluster: ids are worth something in the cluster that gave them, not in another one at
                the same address.

        Raises:
            ClientError: no broker gave an id.
        """
        cluster_id = cluster.cluster_id
        with self._lock:
            idle = self._idle.get(cluster_id)
            if idle:
                return idle.pop()
        response = cluster.retry(lambda: ask_for_id(cluster))
        identity = ProducerIdentity(is_idempotent=True)
        identity.assume(response.producer_id, response.producer_epoch)
        return identity

    def release(self, cluster: SocketCluster, identity: ProducerIdentity) -> None:
        """Give one back under which everything is acknowledged; others are to be forgotten."""
        with self._lock:
            idle = self._idle.setdefault(cluster.cluster_id, [])
            if len(idle) < _IDLE_PER_CLUSTER_MAX:
                idle.append(identity)


def ask_for_id(cluster: SocketCluster) -> InitProducerIdResponse:
    """A new producer id; asked for once, raises ``ClientError``."""
    response: InitProducerIdResponse = cluster.ask_any(InitProducerIdRequest())
    if response.error is not ErrorCode.NONE:
        raise broker_error(response.error, None, "producer id")
    return response


IDENTITIES: Final = IdentityPool()
"""The pool of this process."""

os.register_at_fork(after_in_child=IDENTITIES.leave_to_parent)
