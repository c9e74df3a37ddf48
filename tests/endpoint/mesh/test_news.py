"""The weight of announcements: bounded for one, for all, and for each message."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from endpoint.mesh import memory
from endpoint.mesh.core import EndpointCore
from endpoint.mesh.effects import SendControl
from endpoint.mesh.news import (
    ANNOUNCEMENT_SIZE_MAX,
    MESSAGE_SIZE_MAX,
    TOPICS_SIZE_MAX,
    in_messages,
    size_of,
)
from wire.clocks import LamportTime, VectorTime
from wire.codec import encode_control
from wire.errors import ErrorCode, LimitExceeded, RemoteProtocolError
from wire.identifiers import EndpointId
from wire.limits import HANDSHAKE_FRAME_SIZE_MAX, LABEL_SIZE_MAX, LINKS_MAX, NAME_SIZE_MAX
from wire.messages import Announcement, Announcements, ResponderSynAck, Seal

LOCAL, PEER = EndpointId(b"\1" * 16), EndpointId(b"\2" * 16)


def number_to_id(number: int) -> EndpointId:
    return EndpointId(bytes(8) + number.to_bytes(8))


def announcement(number: int, topics: tuple[str, ...] = (), *, links: int = 0) -> Announcement:
    linked = tuple(number_to_id(each) for each in range(links))
    return Announcement(number_to_id(number), LamportTime(2**62), linked, topics, (), True)


topic = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<"), max_size=300)


@given(st.lists(topic, max_size=50), st.integers(0, 300))
def test_the_estimate_is_never_below_what_the_wire_takes(topics: list[str], links: int) -> None:
    single = announcement(1, tuple(topics), links=links)
    single = replace(single, name="n" * NAME_SIZE_MAX, label="é" * (LABEL_SIZE_MAX // 2))
    _, body = encode_control(Announcements((single,)))
    assert len(body) <= size_of(single) + 16
    assert size_of(single) <= 2 * len(body) + 64 + 5 * len(topics) + 4 * links


def test_the_names_of_an_endpoint_count_by_their_bytes() -> None:
    named = replace(announcement(1), name="n" * 255, label="\u00e9" * 32)
    assert size_of(named) == size_of(announcement(1)) + 255 + 64


def test_each_list_counts_its_items_and_what_stands_before_them() -> None:
    plain, seal = announcement(1), Seal(bytes(32), (bytes(7), bytes(9)), bytes(3), bytes(64))
    assert size_of(plain) == 64
    assert size_of(announcement(1, ("ab", "\u00e9"), links=2)) == 64 + 7 + 7 + 2 * 21
    assert size_of(replace(plain, stores=("abc",))) == 64 + 8
    assert size_of(replace(plain, seal=seal)) == 64 + 32 + 7 + 9 + 3 + 64 + 5 * 5


def test_a_message_may_be_filled_to_the_last_byte() -> None:
    half = announcement(1, ("x" * (MESSAGE_SIZE_MAX // 2 - 69),))
    assert [len(run) for run in in_messages([half] * 5)] == [2, 2, 1]


@given(st.lists(st.integers(1, ANNOUNCEMENT_SIZE_MAX - 100), max_size=20))
def test_runs_keep_the_order_leave_nothing_out_and_fit_into_messages(sizes: list[int]) -> None:
    everything = [announcement(number, ("x" * size,)) for number, size in enumerate(sizes)]
    runs = list(in_messages(everything))
    assert [each for run in runs for each in run] == everything
    assert all(sum(map(size_of, run)) <= MESSAGE_SIZE_MAX for run in runs)
    assert all(runs)


def test_a_handshake_stays_small_however_much_is_known_and_the_rest_follows() -> None:
    core = EndpointCore(LOCAL)
    hub = announcement(0, links=0)
    crowd = [announcement(number, ("x" * 50_000,)) for number in range(1, 100)]
    linked = tuple(sorted([LOCAL, *(each.origin for each in crowd)]))
    hub = Announcement(hub.origin, hub.time, linked, (), (), True)
    crowd = [
        Announcement(each.origin, each.time, (hub.origin,), each.subscriptions, (), True)
        for each in crowd
    ]
    core.connect(hub.origin, VectorTime(), (hub, *crowd), None)
    first = core.news_for(VectorTime())
    assert core.local in [each.origin for each in first], "the nearest come first"
    _, body = encode_control(ResponderSynAck(first))
    assert len(body) <= HANDSHAKE_FRAME_SIZE_MAX // 2
    told = VectorTime({each.origin: each.time for each in first})
    effects = core.connect(PEER, told, (), None)
    rest = [
        effect.message.items
        for effect in effects
        if isinstance(effect, SendControl) and effect.peer == PEER
    ]
    assert len(rest) > 1
    heard = {each.origin for items in (first, *rest) for each in items}
    assert heard == {LOCAL, hub.origin, *(each.origin for each in crowd)}


def test_an_announcement_beyond_all_measure_is_a_breach_of_the_protocol() -> None:
    core = EndpointCore(LOCAL)
    core.connect(PEER, VectorTime(), (), None)
    large = announcement(7, tuple(f"{n}" + "x" * 60_000 for n in range(20)))
    with pytest.raises(RemoteProtocolError, match="bytes; ") as raised:
        core.receive_announcements(PEER, [large])
    assert raised.value.code is ErrorCode.LIMIT_EXCEEDED
    assert large.origin not in core.topology.announcements


def test_all_announcements_together_are_bounded_and_room_comes_back(monkeypatch) -> None:
    monkeypatch.setattr(memory, "ANNOUNCEMENTS_SIZE_MAX", 1_000_000)
    core = EndpointCore(LOCAL)
    core.connect(PEER, VectorTime(), (), None)
    crowd = [announcement(number, ("x" * 60_000,)) for number in range(100)]
    core.receive_announcements(PEER, crowd)
    kept = len(core.topology.announcements)
    assert kept == 1 + 16
    core.receive_announcements(PEER, crowd)
    assert len(core.topology.announcements) == kept
    smaller = Announcement(crowd[0].origin, LamportTime(2**62 + 1), (), (), (), True)
    core.receive_announcements(PEER, [smaller, crowd[50]])
    assert crowd[50].origin in core.topology.announcements
    core.tick(0.0)
    core.tick(1_000.0)
    assert len(core.topology.announcements) == 1
    core.receive_announcements(PEER, crowd)
    assert len(core.topology.announcements) == kept


def test_what_an_endpoint_announces_itself_always_fits() -> None:
    core = EndpointCore(LOCAL)
    with pytest.raises(LimitExceeded, match="common beginnings"):
        core.subscribe("reader", [f"{n}" + "x" * 60_000 for n in range(8)])
    assert core.topology.announcements[LOCAL].subscriptions == ()
    core.subscribe("reader", [f"{n}" + "x" * 60_000 for n in range(6)])
    for number in range(6):
        core.attach_store(f"{number}" + "x" * 60_000, "store")
    with pytest.raises(LimitExceeded):
        core.attach_store("7" + "x" * 60_000, "store")
    mine = core.topology.announcements[LOCAL]
    links = announcement(1, links=LINKS_MAX)
    assert size_of(mine) + size_of(links) <= ANNOUNCEMENT_SIZE_MAX
    assert 2 * TOPICS_SIZE_MAX < ANNOUNCEMENT_SIZE_MAX
