"""Signs of life of a member, and whether its application is alive. Belongs to the loop."""

import asyncio
import logging
from typing import Final

from seglog.clients.config import ConsumerConfig
from seglog.clients.coordinator import CoordinatorClient
from seglog.clients.errors import ClientError
from seglog.clients.group.commits import NOT_A_MEMBER, Standing
from seglog.clients.group.membership import Membership, Reader
from seglog.clients.group.states import WITH_HEARTBEATS, MemberState
from seglog.protocol.api import HeartbeatRequest, HeartbeatResponse
from seglog.protocol.errors import ErrorCode

_SHORTEST_TICK_S: Final = 0.05
_TICKS_PER_POLL_INTERVAL: Final = 10
_logger = logging.getLogger("seglog.clients")


class Heartbeats:
    """Tells the broker that a member lives, as long as its application reads on.

    Args:
        config: of the consumer.
        coordinator: of the group.
        membership: for which the signs are.
        reader: whose progress is watched.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        coordinator: CoordinatorClient,
        membership: Membership,
        reader: Reader,
    ) -> None:
        self._config = config
        self._coordinator = coordinator
        self._membership = membership
        self._reader = reader
        self._loop = asyncio.get_running_loop()
        self._progress: object = None
        self._read_at_s = self._loop.time()
        self._beat_at_s = 0.0

    async def run(self) -> None:
        """Work until cancelled, or until the membership has failed."""
        beat_s = self._config.heartbeat_interval_ms / 1000
        watch_s = self._config.max_poll_interval_ms / 1000 / _TICKS_PER_POLL_INTERVAL
        tick_s = max(_SHORTEST_TICK_S, min(beat_s, watch_s))
        while self._membership.error is None:
            await asyncio.sleep(tick_s)
            await self._watch_application()
            # A little early rather than a whole tick late.
            is_due = self._loop.time() >= self._beat_at_s + beat_s - tick_s / 2
            if is_due and self._membership.state in WITH_HEARTBEATS:
                self._beat_at_s = self._loop.time()
                await self._beat()

    async def _beat(self) -> None:
        membership = self._membership
        standing = membership.identity
        if standing is None:
            return
        request = HeartbeatRequest(self._coordinator.key, *standing)
        try:
            response: HeartbeatResponse = await self._coordinator.ask(request)
        except ClientError as failure:
            _logger.debug("group %s: heartbeat: %s", self._coordinator.key, failure)
            return
        if response.error is not ErrorCode.NONE and standing == membership.identity:
            self._take_note(standing, response.error)

    def _take_note(self, standing: Standing, code: ErrorCode) -> None:
        membership = self._membership
        if membership.state not in WITH_HEARTBEATS:
            return
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            if membership.state is not MemberState.YIELDING:
                membership.rebalance("the group divides its partitions anew")
        elif code in NOT_A_MEMBER:
            membership.is_passing(standing, code)
        else:
            error = self._coordinator.error(code)
            if not error.retriable:
                membership.fail(error)

    async def _watch_application(self) -> None:
        """Leave if the application has not read on for too long; it comes back when it does."""
        now_s = self._loop.time()
        progress = self._reader.progress
        if self._reader.is_waiting or progress != self._progress:
            self._progress = progress
            self._read_at_s = now_s
            return
        away_s = now_s - self._read_at_s
        if away_s * 1000 > self._config.max_poll_interval_ms and not self._membership.is_away:
            _logger.warning(
                "group %s: leaving, since the application has not read on for %.1f s "
                "(max_poll_interval_ms is %d)",
                self._coordinator.key,
                away_s,
                self._config.max_poll_interval_ms,
            )
            await self._membership.leave_for_a_while()
