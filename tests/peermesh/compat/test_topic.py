"""Topics that are put together with slashes."""

from __future__ import annotations

import pytest

from peermesh.compat.broker import Topic


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        ("/zeek", "event", "/zeek/event"),
        ("/zeek", "/event/", "/zeek/event"),
        ("/zeek/", "/event", "/zeek//event"),
        ("/zeek/", "event", "/zeek//event"),
        ("", "event", "event"),
        ("", "/", ""),
    ],
)
def test_topics_are_joined_as_broker_joins_them(first, second, both):
    joined = Topic(first) / Topic(second)
    assert type(joined) is Topic
    assert (joined.string(), str(joined), joined) == (both, both, Topic(both))
    grown = Topic(first)
    grown /= Topic(second)
    assert grown == joined


def test_a_topic_serves_where_text_does(pair):
    left, right = pair
    subscriber = left.make_subscriber(Topic("/zeek"))
    more = left.make_subscriber([Topic("/other"), "/zeek"])
    right.peer("127.0.0.1", left.listen("127.0.0.1", 0), 1.0)
    right.publish(Topic("/zeek") / Topic("event"), 1)
    for each in (subscriber, more):
        topic, data = each.get()
        assert (topic, data) == ("/zeek/event", 1)
        assert type(topic) is str
