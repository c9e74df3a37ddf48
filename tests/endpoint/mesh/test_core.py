"""One core by itself: what it wants, what it takes, and in which order it tells of a loss."""

from __future__ import annotations

from dataclasses import replace

import pytest

from endpoint.mesh.authorisation import Authorisation
from endpoint.mesh.core import EndpointCore
from endpoint.mesh.effects import EmitStatus, RoutesChanged, SendControl
from endpoint.mesh.status import StatusCode, StatusEvent
from handshake.roles import Roles
from wire.clocks import LamportTime, VectorTime
from wire.codec import encode_header
from wire.errors import DecodeError, ErrorCode, LimitExceeded
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
from wire.messages import (
    Announcement,
    Announcements,
    Knowledge,
    NodeHeader,
    PackedType,
    Preamble,
    Seal,
)
from wire.topics import ADMIN_TOPIC

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


# What a core makes of calls, by itself.

FAR, FARTHER = EndpointId(b"\3" * 6 + b"\x40" * 10), EndpointId(b"\4" * 6 + b"\x40" * 10)
PEER, OTHER = EndpointId(b"\5" * 6 + b"\x40" * 10), EndpointId(b"\6" * 6 + b"\x40" * 10)


SEAL = Seal(b"k" * 32, (), b"", b"s" * 64)


class Sealing:
    """Seals what an endpoint says."""

    def seal(self, announcement: Announcement) -> Announcement:
        return replace(announcement, seal=SEAL)


def says(origin: EndpointId, *links: EndpointId, time: int = 1, **more) -> Announcement:
    plain = Announcement(origin, LamportTime(time), tuple(sorted(links)), (), (), True)
    return replace(plain, **more)


def with_peers(*peers: EndpointId) -> EndpointCore:
    core = EndpointCore(LOCAL)
    for peer in peers:
        core.connect(peer, VectorTime(), [says(peer, LOCAL)], None)
    return core


def sent(effects: list, peer: EndpointId) -> list[tuple[EndpointId, int]]:
    """Whose announcements go to a peer, and of what time."""
    messages = [
        each.message for each in effects if isinstance(each, SendControl) and each.peer == peer
    ]
    return [
        (said.origin, said.time)
        for message in messages
        if isinstance(message, Announcements)
        for said in message.items
    ]


def events(effects: list) -> list[StatusEvent]:
    return [each.event for each in effects if isinstance(each, EmitStatus)]


def test_an_endpoint_announces_what_it_is_from_the_beginning() -> None:
    core = EndpointCore(LOCAL, label="here", forwarding=False)
    mine = core.topology.announcements[LOCAL]
    assert mine == Announcement(LOCAL, LamportTime(1), (), (), (), False, None, "here")
    core.connect(PEER, VectorTime(), [], None)
    core.connect(FAR, VectorTime(), [], None)
    core.subscribe("reader", ["/b", "/a"])
    core.attach_store("b/<$>/data/master", "store")
    core.attach_store("a/<$>/data/master", "store")
    mine = core.topology.announcements[LOCAL]
    assert (mine.links, mine.subscriptions) == ((FAR, PEER), ("/a", "/b"))
    assert mine.stores == ("a/<$>/data/master", "b/<$>/data/master")


def test_who_connects_gets_all_that_it_lacks_and_the_others_hear_what_is_new() -> None:
    core = with_peers(PEER)
    news = [says(FAR, LOCAL, FARTHER), says(FARTHER, FAR)]
    known = {each: LamportTime(1) for each in (PEER, FAR, FARTHER)}
    effects = core.connect(FAR, VectorTime(known), news, ("host", 9))
    time = core.topology.announcements[LOCAL].time
    assert sent(effects, FAR) == [(LOCAL, time)], "it knows the rest"
    assert sorted(sent(effects, PEER)) == [(LOCAL, time), (FAR, 1), (FARTHER, 1)]
    added = events(effects)[-1]
    assert (added.status, added.endpoint) == (StatusCode.PEER_ADDED, FAR)
    assert added.address == ("host", 9)
    assert [each.endpoint for each in events(effects)[:-1]] == [FAR, FARTHER]
    assert core.objection(FAR, None, [says(FAR)]) is None


def test_a_peer_knows_of_an_earlier_life_and_is_told_more() -> None:
    core = EndpointCore(LOCAL)
    core.connect(PEER, VectorTime({LOCAL: LamportTime(1_000)}), [says(PEER, LOCAL)], None)
    assert core.topology.announcements[LOCAL].time == 1_001


def test_a_leaf_is_not_believed_about_an_earlier_life() -> None:
    roles = Roles.of({"names": {"leaf": "leaf"}, "roles": {"leaf": {}}})
    core = EndpointCore(LOCAL, authorisation=Authorisation(roles, "leaf"))
    core.connect(PEER, VectorTime({LOCAL: LamportTime(1_000)}), [], None, "leaf")
    assert core.topology.announcements[LOCAL].time < 1_000


def test_an_end_is_told_with_its_reason_and_the_others_hear_of_it() -> None:
    core = with_peers(PEER, OTHER)
    effects = core.disconnect(
        PEER, ("host", 9), status=StatusCode.PEER_REMOVED, code=ErrorCode.UNSPECIFIED, reason="why"
    )
    expected = StatusEvent(StatusCode.PEER_REMOVED, PEER, ("host", 9), ErrorCode.UNSPECIFIED, "why")
    assert events(effects)[0] == expected
    assert sent(effects, OTHER) == [(LOCAL, core.topology.announcements[LOCAL].time)]
    assert core.topology.announcements[LOCAL].links == (OTHER,)
    assert not sent(effects, PEER)


def test_the_certificate_of_a_peer_counts_while_it_is_one() -> None:
    roles = Roles.of({"names": {"core": "core"}, "roles": {"core": {"relay": True}}})
    core = EndpointCore(LOCAL, authorisation=Authorisation(roles, "core"))
    core.connect(PEER, VectorTime(), [], None, "core")
    assert core.permissions.role(PEER).relay
    core.disconnect(PEER, None, status=StatusCode.PEER_LOST, code=ErrorCode.NONE, reason="")
    assert not core.permissions.role(PEER).relay


def test_an_id_that_is_known_by_another_name_becomes_no_peer() -> None:
    core = with_peers(PEER)
    core.receive_announcements(PEER, [says(FAR, name="far")])
    assert core.objection(FAR, "far", []) is None
    assert f"endpoint {FAR} is called 'far'" in str(core.objection(FAR, "other", []))
    assert "an id belongs to one name" in str(core.objection(OTHER, "a", [says(OTHER, name="b")]))


def test_what_is_new_goes_to_the_others_and_what_is_newer_comes_back() -> None:
    core = with_peers(PEER, OTHER)
    hub = says(PEER, LOCAL, FAR, time=2)
    effects = core.receive_announcements(PEER, [hub, says(FAR, PEER)])
    assert sorted(sent(effects, OTHER)) == [(FAR, 1), (PEER, 2)]
    assert sent(effects, PEER) == [], "it has said so itself"
    assert core.receive_announcements(OTHER, [hub]) == []
    forged = says(LOCAL, time=500)
    effects = core.receive_announcements(OTHER, [forged])
    assert sent(effects, OTHER) == sent(effects, PEER) == [(LOCAL, 501)], "ours is later"
    core.receive_announcements(PEER, [says(PEER, LOCAL, time=3)])
    effects = core.receive_announcements(OTHER, [says(FAR, PEER, OTHER, time=2)])
    assert sent(effects, PEER) == [], "nothing leads there"
    effects = core.receive_announcements(OTHER, [says(OTHER, LOCAL, FAR, time=2)])
    assert sorted(sent(effects, PEER)) == [(FAR, 2), (OTHER, 2)], "now something does"
    assert sent(effects, OTHER) == [(FAR, 2)]


def test_a_leaf_is_heard_about_itself_alone() -> None:
    leaf = {"name": "leaf", "forwarding": False}
    roles = Roles.of({"names": {"leaf": "leaf"}, "roles": {"leaf": {}}})
    core = EndpointCore(LOCAL, authorisation=Authorisation(roles, "leaf"))
    core.connect(PEER, VectorTime(), [says(FAR), says(PEER, LOCAL, **leaf)], None, "leaf")
    core.receive_announcements(PEER, [says(FAR), says(PEER, LOCAL, time=2, **leaf)])
    assert set(core.topology.announcements) == {LOCAL, PEER}
    assert core.topology.announcements[PEER].time == 2


def test_who_has_passed_on_a_forged_announcement_is_told() -> None:
    core, signing = with_peers(PEER), EndpointId(b"\x09" * 6 + b"\x80" * 10)
    core.receive_announcements(PEER, [says(signing)])
    core.connect(OTHER, VectorTime(), [says(signing)], None)
    told = list(core.forgeries.take())
    assert [(sender, count) for sender, _, count in told] == [(signing, 1)] * 2
    for peer, (_, reason, _) in zip((PEER, OTHER), told, strict=True):
        assert f"came from {peer} " in reason


def test_what_an_endpoint_announces_is_sealed() -> None:
    core = EndpointCore(LOCAL, proof=Sealing())
    assert core.topology.announcements[LOCAL].seal == SEAL
    core.subscribe("reader", ["/a"])
    assert core.topology.announcements[LOCAL].seal == SEAL


def test_what_a_new_peer_says_of_itself_goes_to_those_who_knew_it() -> None:
    core, named = with_peers(OTHER), {"name": "peer"}
    core.receive_announcements(
        OTHER, [says(OTHER, LOCAL, PEER, time=2), says(PEER, OTHER, **named)]
    )
    assert PEER in core.reach
    again = says(PEER, LOCAL, OTHER, time=2, **named)
    effects = core.connect(PEER, VectorTime(), [again], None, "peer")
    mine = core.topology.announcements[LOCAL].time
    assert sorted(sent(effects, OTHER)) == [(LOCAL, mine), (PEER, 2)]
    assert events(effects)[-1].certificate_name == "peer"


def test_what_comes_into_reach_and_leaves_it_is_told() -> None:
    core = EndpointCore(LOCAL)
    effects = core.connect(PEER, VectorTime(), [says(PEER, LOCAL)], None)
    assert (events(effects)[0].status, events(effects)[0].endpoint) == (
        StatusCode.ENDPOINT_DISCOVERED, PEER
    )  # fmt: skip
    effects = core.disconnect(
        PEER, None, status=StatusCode.PEER_LOST, code=ErrorCode.NONE, reason=""
    )
    assert (events(effects)[-1].status, events(effects)[-1].endpoint) == (
        StatusCode.ENDPOINT_UNREACHABLE, PEER
    )  # fmt: skip


def test_own_words_that_come_back_mean_nothing() -> None:
    core = with_peers(PEER, OTHER)
    mine = core.topology.announcements[LOCAL]
    assert core.receive_announcements(PEER, [mine]) == []
    assert core.topology.announcements[LOCAL] is mine


def test_a_question_is_answered_with_what_is_lacking() -> None:
    core = with_peers(PEER, OTHER)
    mine = core.topology.announcements[LOCAL].time
    effects = core.receive_knowledge(PEER, VectorTime({LOCAL: mine, PEER: LamportTime(1)}))
    assert sent(effects, PEER) == [(OTHER, 1)]
    assert not sent(effects, OTHER)
    assert core.receive_knowledge(PEER, core.knowledge()) == []


def test_another_digest_is_asked_about_the_second_time_in_a_row_and_then_anew() -> None:
    core = with_peers(PEER, OTHER)
    wrong = core.digest() ^ 1
    asked = [SendControl(PEER, Knowledge(core.knowledge()))]
    assert [core.receive_digest(PEER, wrong) for _ in range(4)] == [[], asked, [], asked]
    assert core.receive_digest(PEER, wrong) == []
    assert core.receive_digest(OTHER, wrong) == [], "each peer is counted by itself"
    core.disconnect(PEER, None, status=StatusCode.PEER_LOST, code=ErrorCode.NONE, reason="")
    core.connect(PEER, VectorTime(), [], None)
    assert core.receive_digest(PEER, core.digest() ^ 1) == [], "it begins anew"


def test_what_was_refused_forged_or_too_large_is_told_once_a_second() -> None:
    core = with_peers(PEER)
    core.authorisation.refusals.note(PEER, "no right", 2)
    core.forgeries.note(PEER, "forged", 3)
    core.too_large.note(PEER, "large", 4)
    told = events(core.tick(1))
    assert [(each.status, each.endpoint) for each in told] == [
        (StatusCode.NOT_ALLOWED, PEER),
        (StatusCode.FORGERY_DROPPED, PEER),
        (StatusCode.MESSAGE_TOO_LARGE, PEER),
    ]
    assert [each.reason.split(" (")[0] for each in told] == ["no right", "forged", "large"]
    no_right, too_large = ErrorCode.NOT_AUTHORIZED, ErrorCode.LIMIT_EXCEEDED
    assert [each.code for each in told] == [no_right, no_right, too_large]
    assert core.tick(2) == []


def test_what_is_forgotten_is_known_no_more() -> None:
    core = with_peers(PEER)
    core.receive_announcements(PEER, [says(FAR, PEER)])
    assert core.knowledge().get(FAR, LamportTime(0)) == 1
    core.tick(0)
    core.tick(1_000)
    assert core.knowledge().get(FAR, LamportTime(0)) == 0
    assert set(core.topology.announcements) == {LOCAL, PEER}


def test_topics_of_a_subscriber_are_added_up_and_only_news_is_announced() -> None:
    core = with_peers(PEER)
    assert sent(core.subscribe("reader", ["/a"]), PEER)
    effects = core.subscribe("reader", ["/a/b"])
    assert effects == [RoutesChanged()], "what is announced covers it"
    assert core.topics_of("reader") == ("/a", "/a/b")
    assert core.topics_of("other") == ()
    assert sent(core.unsubscribe("reader", ["/a"]), PEER)
    assert core.topics_of("reader") == ("/a/b",)
    assert sent(core.unsubscribe("reader"), PEER)
    assert core.topics_of("reader") == ()


def receivers(core: EndpointCore, kind: PackedType, topic: str, to: EndpointId | None) -> tuple:
    header = encode_header(NodeHeader(kind, PEER, to, topic))
    return core.routing.route(PEER, header).receivers


def test_own_messages_are_heard_by_those_who_ask_for_them() -> None:
    core = EndpointCore(LOCAL)
    core.subscribe("usual", ["/a"])
    core.subscribe("local", ["/a"], local=True)
    header = encode_header(NodeHeader(PackedType.BYTES, LOCAL, None, "/a"))
    assert core.routing.route(LOCAL, header).receivers == ("local",)


def test_a_subscription_that_is_refused_leaves_nothing_behind() -> None:
    core = EndpointCore(LOCAL, subscriptions_max=1)
    core.subscribe("local", ["/a"], local=True)
    with pytest.raises(LimitExceeded):
        core.subscribe("other", ["/b", "/c"], local=True)
    header = encode_header(NodeHeader(PackedType.BYTES, LOCAL, None, "/a"))
    assert core.routing.route(LOCAL, header).receivers == ("local",)


def test_stores_and_services_hear_commands_on_their_topics() -> None:
    core, store, service = with_peers(PEER), object(), object()
    topic = "s/<$>/data/master"
    assert receivers(core, PackedType.COMMAND, topic, None) == ()
    effects = core.attach_store(topic, store)
    assert effects[0] == RoutesChanged()
    assert sent(effects, PEER) == [(LOCAL, core.topology.announcements[LOCAL].time)]
    assert receivers(core, PackedType.COMMAND, topic, None) == (store,)
    assert receivers(core, PackedType.COMMAND, ADMIN_TOPIC, LOCAL) == ()
    core.serve(ADMIN_TOPIC, service)
    assert receivers(core, PackedType.COMMAND, ADMIN_TOPIC, LOCAL) == (service,)
    assert receivers(core, PackedType.COMMAND, ADMIN_TOPIC, None) == (), "it is for one alone"
    assert core.detach_store("another") == []
    effects = core.detach_store(topic)
    assert sent(effects, PEER) == [(LOCAL, core.topology.announcements[LOCAL].time)]
    assert core.topology.announcements[LOCAL].stores == ()
    assert receivers(core, PackedType.COMMAND, topic, None) == ()


def test_knowledge_is_of_all_that_was_announced_and_made_anew_after_a_change() -> None:
    core = with_peers(PEER)
    before = core.knowledge()
    assert core.knowledge() is before
    core.receive_announcements(PEER, [says(FAR, time=9)])
    assert core.knowledge().get(FAR, LamportTime(0)) == 9
    mine = core.topology.announcements[LOCAL].time
    assert core.knowledge().get(LOCAL, LamportTime(0)) == mine


def test_news_for_a_handshake_is_what_the_other_side_lacks() -> None:
    core = with_peers(PEER)
    assert [each.origin for each in core.news_for(VectorTime())] == [LOCAL, PEER]
    assert core.news_for(core.knowledge()) == ()
