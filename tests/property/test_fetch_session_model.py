"""Fetch sessions against a naive model: lists that are searched from one end to the other.

Whatever requests come in whatever order, the model and the broker agree on every answer (SESS-1 to
SESS-10).
"""

from dataclasses import dataclass
from itertools import count
from random import Random

import pytest

from seglog.broker.api.fetch_session_cache import FetchSessionCache
from seglog.broker.api.fetch_sessions import FetchSessions
from seglog.broker.errors import RequestError
from seglog.broker.partition.counters import BrokerCounters
from seglog.protocol.api import (
    FetchPartition,
    FetchPartitionResult,
    FetchRequest,
    FetchResponse,
)
from seglog.protocol.errors import ErrorCode

SLOTS = 3
NOBODY = 1_000
"""No session."""
PARTITIONS = range(6)


@dataclass
class ModelSession:
    """A session as a list."""

    id: int
    order: list[int]
    told: dict[int, tuple[int, int] | None]
    is_follower: bool
    by_id: bool
    created_ms: int
    used_ms: int
    epoch: int = 1


class SessionModel:
    """Partitions are numbers with a high watermark, a log start and an error."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.now_ms = 0
        self.truth = dict.fromkeys(PARTITIONS, (0, 0))
        self.broken: set[int] = set()
        self.model: list[ModelSession] = []  # in the order of their last use
        self.counters = BrokerCounters()
        cache = FetchSessionCache(SLOTS, self.counters, count(1).__next__)
        self.sessions = FetchSessions(cache, lambda: self.now_ms)
        self.newest_id = 0

    def step(self) -> None:
        """Something changes, and somebody fetches."""
        for number in self.some_partitions(2):
            high, start = self.truth[number]
            is_start = self.chance.random() < 0.3
            self.truth[number] = (high, start + 1) if is_start else (high + 1, start)
        if self.happens(0.1):
            self.broken ^= set(self.some_partitions(1))
        if self.happens(0.3):
            self.now_ms += 1000 * self.chance.choice((1, 60, 61, 121))
        if self.happens(0.3):
            self.fetch_all()
        else:
            self.fetch_changes()
        assert self.counters.fetch_sessions == len(self.model) == len(self.sessions.cache)
        assert self.counters.fetch_session_partitions == sum(len(each.order) for each in self.model)

    def happens(self, probability: float) -> bool:
        return self.chance.random() < probability

    def some_partitions(self, most: int) -> list[int]:
        return self.chance.sample(PARTITIONS, self.chance.randint(0, most))

    def some_session(self, none: float) -> ModelSession | None:
        if self.model and not self.happens(none):
            return self.chance.choice(self.model)
        return None

    # ---- requests

    def fetch_all(self) -> None:
        """A full fetch, perhaps in place of a session that there is."""
        replaced = self.some_session(none=0.7)
        session_id = replaced.id if replaced else self.chance.choice((0, NOBODY))
        named, by_id = self.some_partitions(5), self.happens(0.5)
        is_follower, keeps = self.happens(0.3), self.happens(0.8)
        request = self.request(named, [], session_id, 0 if keeps else -1, by_id)
        request.replica_id = 1 if is_follower else -1
        response = self.answer(request, set(self.some_partitions(4)))
        if replaced is not None:
            self.model.remove(replaced)
        created = self.create(named, is_follower, by_id) if keeps else None
        assert response.session_id == (created.id if created else 0)
        assert self.numbers(response) == named
        if created is not None:
            self.hear(created, response)

    def fetch_changes(self) -> None:
        """A fetch within a session."""
        model = self.some_session(none=0.05)
        session_id, epoch, by_id = (
            (model.id, model.epoch, model.by_id) if model else (NOBODY, 1, False)
        )
        epoch += self.chance.choice((1, 2)) if self.happens(0.1) else 0
        by_id ^= self.happens(0.1)
        named, forgotten = self.some_partitions(2), self.some_partitions(1)
        with_records = set(self.some_partitions(4))
        request = self.request(named, forgotten, session_id, epoch, by_id)
        response = self.answer(request, with_records)
        if model is None:
            assert response.error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        elif epoch != model.epoch:
            assert response.error == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        elif by_id != model.by_id:
            assert response.error == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        else:
            self.expect_changes(model, response, named, forgotten, with_records)

    def expect_changes(
        self,
        model: ModelSession,
        response: FetchResponse,
        named: list[int],
        forgotten: list[int],
        with_records: set[int],
    ) -> None:
        model.order += [number for number in named if number not in model.order]
        model.order = [number for number in model.order if number not in forgotten]
        for number in set(model.told) - set(model.order):
            del model.told[number]
        if not model.order:
            self.model.remove(model)
            assert (response.session_id, response.partitions) == (0, [])
            return
        model.epoch += 1
        model.used_ms = self.now_ms
        self.model.remove(model)
        self.model.append(model)
        news = [
            number
            for number in model.order
            if number in self.broken
            or number in with_records
            or model.told.get(number) != self.truth[number]
        ]
        assert response.session_id == model.id
        assert self.numbers(response) == news
        fed = [number for number in news if number in with_records - self.broken]
        model.order = [number for number in model.order if number not in fed] + fed
        self.hear(model, response)

    # ---- what should be

    def create(self, named: list[int], is_follower: bool, by_id: bool) -> ModelSession | None:
        if len(self.model) >= SLOTS:
            displaced = self.displaced(len(named), is_follower)
            if displaced is None:
                return None
            self.model.remove(displaced)
        self.newest_id += 1
        created = ModelSession(
            self.newest_id, list(named), {}, is_follower, by_id, self.now_ms, self.now_ms
        )
        self.model.append(created)
        return created

    def displaced(self, size: int, is_follower: bool) -> ModelSession | None:
        oldest = self.model[0]
        if self.now_ms - oldest.used_ms > 120_000:
            return oldest
        candidates = [
            each
            for each in self.model
            if self.now_ms - each.created_ms > 120_000 or (is_follower and not each.is_follower)
        ]
        first = min(
            candidates, key=lambda each: (each.is_follower, len(each.order), each.id), default=None
        )
        if first is None or (first.is_follower, len(first.order)) >= (is_follower, size):
            return None
        return first

    def hear(self, model: ModelSession, response: FetchResponse) -> None:
        for result in response.partitions:
            number = result.partition
            failed = number in self.broken
            model.told[number] = None if failed else self.truth[number]

    # ---- asking

    def request(
        self, named: list[int], forgotten: list[int], session_id: int, epoch: int, by_id: bool
    ) -> FetchRequest:
        topic, topic_id = ("", b"i" * 16) if by_id else ("t", bytes(16))
        return FetchRequest(
            0,
            1,
            1,
            [FetchPartition(topic, number, 0, 1, topic_id=topic_id) for number in named],
            session_id=session_id,
            session_epoch=epoch,
            forgotten=[(topic_id, topic, forgotten)],
            uses_topic_ids=by_id,
        )

    def answer(self, request: FetchRequest, with_records: set[int]) -> FetchResponse:
        try:
            finish = self.sessions.begin(request)
        except RequestError as error:
            return FetchResponse([], error.code)
        results = []
        for entry in request.partitions:
            number = entry.partition
            code, records = ErrorCode.NONE, None
            if number in self.broken:
                code = ErrorCode.OFFSET_OUT_OF_RANGE
            elif number in with_records:
                records = memoryview(b"records")
            high, start = self.truth[number]
            result = FetchPartitionResult("t", number, code, high, high, start, records)
            results.append(result)
        response = FetchResponse(results)
        finish(response)
        return response

    @staticmethod
    def numbers(response: FetchResponse) -> list[int]:
        return [result.partition for result in response.partitions]


@pytest.mark.parametrize("seed", range(20))
def test_broker_and_model_agree(seed: int) -> None:
    """A session stays small, so that all of its states are met within some hundred steps."""
    model = SessionModel(seed)
    for _ in range(400):
        model.step()
