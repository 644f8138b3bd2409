from seglog.broker.partition.counters import BrokerCounters


def test_counters_of_a_topic_end_with_it() -> None:
    """A deleted topic must not leave its series behind for ever."""
    counters = BrokerCounters()
    counters.topic("a.b").messages_in += 1
    counters.topic("a_b").messages_in += 2
    assert {name: each.messages_in for name, each in counters.topics()} == {"a.b": 1, "a_b": 2}
    counters.forget_topic("a.b")
    counters.forget_topic("never-seen")
    assert [name for name, _ in counters.topics()] == ["a_b"]
