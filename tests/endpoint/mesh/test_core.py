"""One core by itself: what it wants, what it takes, and in which order it tells of a loss."""

from __future__ import annotations

import pytest

from endpoint.mesh.core import EndpointCore
from endpoint.mesh.effects import EmitStatus, RoutesChanged
from endpoint.mesh.status import StatusCode
from wire.clocks import VectorTime
from wire.codec import encode_header
from wire.errors import DecodeError, ErrorCode
from wire.framing import (
    VERSION_MAX,
    VERSION_MIN,
    FrameDecoder,
    NodeFrame,
    encode_node,
    encode_preamble,
)
from wire.identifiers import EndpointId
from wire.limits import FRAME_SIZE_MAX
from wire.messages import NodeHeader, PackedType, Preamble

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


def test_commands_among_other_messages_break_the_protocol() -> None:
    """Their numbers are apart: a window of numbers would have holes that never fill."""
    core, peer = EndpointCore(LOCAL), EndpointCore(EndpointId(b"\2" * 16))
    theirs = peer.topology.announcements[peer.local]
    core.connect(peer.local, VectorTime(), [theirs], None, None)
    data, value, command = (
        encode_header(NodeHeader(kind, peer.local, None, topic))
        for kind, topic in [
            (PackedType.BYTES, "/t"),
            (PackedType.DATA, "/t"),
            (PackedType.COMMAND, "s/<$>/data/master"),
        ]
    )
    for headers in [(data, command), (command, data), (data, value, command)]:
        with pytest.raises(DecodeError, match="commands and other messages"):
            core.plan(peer.local, frame(peer.local, *headers))
    assert core.plan(peer.local, frame(peer.local, data, value)) is not None
    assert core.plan(peer.local, frame(peer.local, command)) is not None


def frame(sender: EndpointId, *headers: bytes) -> NodeFrame:
    """A frame with one message for each header."""
    numbers = bytes(range(len(headers))) if len(headers) > 1 else b""
    pieces, _ = encode_node(sender, 16, 0, headers, numbers, [b"x"] * len(headers))
    decoder = FrameDecoder(FRAME_SIZE_MAX)
    decoder.feed(encode_preamble(Preamble(VERSION_MIN, VERSION_MAX)) + b"".join(pieces))
    decoder.next_frame()
    made = decoder.next_frame()
    assert isinstance(made, NodeFrame)
    return made
