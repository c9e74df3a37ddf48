"""Messages that go through endpoints in between."""

from __future__ import annotations

from itertools import pairwise

from peermesh.compat.broker import BrokerOptions, Configuration, Endpoint
from peermesh.testing.time_limits import limit
from tests.peermesh.compat.conftest import HOST


def line(opened, count: int = 4, **options: object) -> list[Endpoint]:
    """Peer each endpoint with the next; those in between have the options."""
    middle = Configuration(BrokerOptions(**options))
    ends = (0, count - 1)
    found = [opened(Endpoint(None if n in ends else middle)) for n in range(count)]
    for near, far in pairwise(found):
        assert near.peer(HOST, far.listen(HOST, 0), 1.0)
    return found


def test_both_ends_of_a_line_hear_each_other_whether_those_between_subscribe(opened):
    first, *middle, last = line(opened)
    near, far = first.make_subscriber("/test"), last.make_subscriber("/test")
    between = middle[0].make_subscriber("/test")
    assert first.await_peer(last.node_id(), limit())
    assert last.await_peer(first.node_id(), limit())
    assert first.await_subscribed("/test", 2, limit())
    assert last.await_subscribed("/test", 2, limit())
    first.publish("/test/there", "there")
    last.publish("/test/back", "back")
    assert far.get() == ("/test/there", "there")
    assert near.get() == ("/test/back", "back")
    assert sorted(between.get(2)) == [("/test/back", "back"), ("/test/there", "there")]


def test_an_endpoint_that_does_not_forward_is_an_end(opened):
    first, middle, last = line(opened, 3, disable_forwarding=True)
    far = last.make_subscriber("/test")
    own = middle.make_subscriber("/test")
    assert first.await_subscribed("/test", 1, limit())
    assert first.await_peer(last.node_id(), 0.2) is False
    first.publish("/test", 1)
    assert own.get(limit()) == ("/test", 1)
    assert far.get(0.05) is None


def test_forwarded_topics_come_without_a_subscriber(opened):
    first, middle, _ = line(opened, 3)
    middle.forward(["/test", "/more"])
    assert first.await_subscribed("/more/than", 1, limit())
