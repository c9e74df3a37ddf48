"""One core by itself: what it wants, as its subscribers come and go."""

from __future__ import annotations

from endpoint.core import EndpointCore
from wire.identifiers import EndpointId

LOCAL = EndpointId(b"\1" * 16)


def test_a_topic_is_no_longer_wanted_when_its_last_subscriber_goes() -> None:
    core = EndpointCore(LOCAL)
    first, second = object(), object()
    core.subscribe(first, ["/a", "/a/b"])
    core.subscribe(second, ["/a"])

    def wanted() -> tuple[str, ...]:
        return core.topology.announcements[LOCAL].subscriptions

    assert wanted() == ("/a",)
    core.unsubscribe(first, iter(["/a"]))
    assert wanted() == ("/a",)
    core.unsubscribe(second)
    assert wanted() == ("/a/b",)
    core.unsubscribe(first, iter(["/never", "/a/b"]))
    assert wanted() == ()
    core.forward(["/relay"])
    assert wanted() == ("/relay",)
