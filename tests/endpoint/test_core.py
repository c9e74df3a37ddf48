"""One core by itself: what it wants, as its subscribers come and go."""

from __future__ import annotations

from endpoint.mesh.core import EndpointCore
from endpoint.mesh.effects import EmitStatus, RoutesChanged
from endpoint.mesh.status import StatusCode
from wire.clocks import VectorTime
from wire.errors import ErrorCode
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


def test_routes_are_renewed_before_it_is_told_which_endpoints_are_lost() -> None:
    core, peer = EndpointCore(LOCAL), EndpointCore(EndpointId(b"\2" * 16))
    theirs = peer.topology.announcements[peer.local]
    core.connect(peer.local, VectorTime(), [theirs], None, None)
    effects = core.disconnect(
        peer.local, None, status=StatusCode.PEER_LOST, code=ErrorCode.NONE, reason="it ended"
    )
    kinds = [each.event.status if isinstance(each, EmitStatus) else type(each) for each in effects]
    assert kinds == [StatusCode.PEER_LOST, RoutesChanged, StatusCode.ENDPOINT_UNREACHABLE]
