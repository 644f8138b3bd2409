"""Sends what the dispatcher decides, on an event loop.

One task asks what leaves; each request is a task of its own. Requests to a broker are written in
the order in which they were decided on, also where a connection has to be opened first.
"""

import asyncio
from collections.abc import Callable

from seglog.clients.cluster import Cluster
from seglog.clients.config import ProducerConfig
from seglog.clients.errors import ClientError, broker_error
from seglog.clients.producer.dispatcher import Departure, Dispatcher
from seglog.protocol.api import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceResponse,
)
from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import Acks


class Sender:
    """Carries out what a dispatcher decides. Belongs to the loop.

    Args:
        config: of the producer.
        cluster: connections to the leaders.
        dispatcher: decides.
        clock: seconds, monotonic; that of the accumulator.
    """

    def __init__(
        self,
        config: ProducerConfig,
        cluster: Cluster,
        dispatcher: Dispatcher,
        clock: Callable[[], float],
    ) -> None:
        self._timeout_s = config.request_timeout_ms / 1000
        self._cluster = cluster
        self._dispatcher = dispatcher
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._wakeup = asyncio.Event()
        self._turns: dict[int, asyncio.Lock] = {}
        self._introduction: asyncio.Task[None] | None = None

    def wake(self) -> None:
        """There may be something to do; on the loop's thread."""
        self._wakeup.set()

    async def run(self) -> None:
        """Work until cancelled."""
        self._look_after_wishes()
        while True:
            self._wakeup.clear()
            departures, look_again_at_s = self._dispatcher.departures(self._clock())
            for departure in departures:
                self._cluster.tasks.spawn(
                    self._send(departure), f"seglog-produce-{departure.leader}"
                )
            self._look_after_wishes()
            timer = None
            if look_again_at_s != float("inf"):
                delay_s = max(0.0, look_again_at_s - self._clock())
                timer = self._loop.call_later(delay_s, self._wakeup.set)
            try:
                await self._wakeup.wait()
            finally:
                if timer is not None:
                    timer.cancel()

    def _look_after_wishes(self) -> None:
        """Find out, in the background, what the dispatcher wants to know."""
        dispatcher = self._dispatcher
        if dispatcher.takes_metadata():
            self._cluster.refresh_soon()
        if dispatcher.wants_identity and self._introduction is None:
            self._introduction = self._cluster.tasks.spawn(
                self._ask_for_identity(), "seglog-producer-id"
            )

    async def _ask_for_identity(self) -> None:
        attempt = 0
        dispatcher = self._dispatcher
        try:
            while dispatcher.wants_identity:
                attempt += 1
                try:
                    response: InitProducerIdResponse = await self._cluster.request(
                        InitProducerIdRequest(), self._timeout_s
                    )
                    if response.error is not ErrorCode.NONE:
                        raise broker_error(response.error, None, "producer id")
                except ClientError as error:
                    dispatcher.not_introduced(error)
                    if dispatcher.wants_identity:
                        await asyncio.sleep(self._cluster.backoff.delay_s(attempt))
                else:
                    dispatcher.introduced(response.producer_id, response.producer_epoch)
        finally:
            self._introduction = None
            self._wakeup.set()

    async def _send(self, departure: Departure) -> None:
        dispatcher = self._dispatcher
        try:
            response = await self._ask(departure)
        except ClientError as error:
            dispatcher.failed(departure, error, self._clock())
        except BaseException:
            dispatcher.abandoned(departure, self._clock())
            raise
        else:
            dispatcher.answered(departure, response, self._clock())
        finally:
            self._wakeup.set()

    async def _ask(self, departure: Departure) -> ProduceResponse | None:
        leader, request = departure.leader, departure.request
        # Locks are fair: the requests of a leader are written in the order of their tasks.
        turn = self._turns.setdefault(leader, asyncio.Lock())
        if request.acks == Acks.NONE:
            async with turn:
                await self._cluster.send(request, self._timeout_s, leader)
            return None
        async with turn:
            answer = await self._cluster.begin(request, self._timeout_s, leader)
        response: ProduceResponse = await answer.wait()
        return response
