"""How a clone finds a master, loses it, and never follows one of another group."""

from __future__ import annotations

import re
from random import Random

import pytest

from stores import effects as fx
from stores.group.followers import SILENT_TICKS
from stores.group.messages import (
    Admitted,
    FromFollower,
    Join,
    Keepalive,
    SnapshotAck,
    SnapshotPart,
    ToFollower,
)
from stores.group.positions import MemberId
from stores.group.roles import DEFAULT_TIMING
from stores.group.words import Greeting
from stores.replica import kept
from stores.replica.arrival import CONFLICT_TICKS, GREETING_TICKS
from stores.replica.effects import News, Told
from tests.stores.replica.conftest import CODEC, TICK_NS
from wire.identifiers import EndpointId

SILENCE_TICKS = DEFAULT_TIMING.timeout_ticks_max + 1


def questions(node):
    return [each for each in node.sent(Greeting) if each.is_question]


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr("stores.table.parts.CHUNK_COUNT_MAX", 1)


# -- finding a master --------------------------------------------------------------------------


def test_a_clone_asks_for_its_master_until_it_is_answered(world):
    clone = world.clone()
    assert len(questions(clone)) == 1
    world.tick(3 * GREETING_TICKS)
    assert len(questions(clone)) == 4
    assert "no master and no group of this name was heard" in clone.core.explain_idle()
    world.master()
    world.tick(GREETING_TICKS)
    assert clone.has_data
    assert len(clone.said(fx.MasterFound)) == 1
    count = len(questions(clone))
    world.tick(20)
    assert len(questions(clone)) == count


def test_a_clone_that_hears_of_a_master_joins_at_once(world):
    clone = world.clone()
    world.tick()
    world.packets.clear()
    master = world.master()
    world.settle()
    assert clone.has_data
    assert master.core.member.journal.end == clone.core.member.journal.end


@pytest.mark.parametrize("lost", [Greeting, Join, Admitted, ToFollower, FromFollower])
def test_what_gets_lost_on_the_way_in_is_said_again(world, lost):
    master, _ = world.master(), world.clone()
    world.tick()
    master.put("a", 1)
    world.settle()
    clone = world.clone()
    while not world.under_way(lost):
        world.deliver(world.packets.pop(0))
    world.packets = [packet for packet in world.packets if not isinstance(packet.content, lost)]
    world.tick(20)
    assert clone.get("a") == 1
    assert not clone.is_lost


@pytest.mark.usefixtures("small_parts")
def test_what_comes_during_the_snapshot_is_shown_after_it(world):
    master = world.master()
    for number in range(20):
        master.put(number, "old")
    master.flush()
    clone = world.clone()
    while not world.under_way(SnapshotPart):
        world.deliver(world.packets.pop(0))
    master.put(0, "new")
    master.flush()
    parts = world.under_way(SnapshotPart)
    world.packets = [packet for packet in world.packets if packet not in parts]
    world.settle()
    assert clone.contents() == {}, "nothing is shown before the snapshot is whole"
    world.packets = parts
    world.tick(5)
    assert clone.contents() == master.contents()
    assert clone.get(0) == "new"


@pytest.mark.usefixtures("small_parts")
def test_parts_that_get_lost_are_sent_again(world):
    master = world.master()
    for number in range(30):
        master.put(number, number)
    master.flush()
    clone = world.clone()
    chance = Random(1)
    for _ in range(300):
        world.now_ns += TICK_NS
        packets, world.packets = world.packets, []
        for packet in packets:
            if chance.random() < 0.5:
                world.deliver(packet)
        clone.tick()
        master.tick()
        if clone.contents():
            break
    assert clone.contents() == master.contents()
    assert len(clone.sent(SnapshotAck)) > 30


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("had", [0, 1])
def test_how_much_of_a_snapshot_has_come_is_told_until_it_is_whole(world, monkeypatch, had):
    monkeypatch.setattr(kept, "KEPT_ENTRIES", 0)
    master, clone = world.master(), world.clone()
    world.cut_off = set() if had else {clone.id}
    master.put("a", 1)
    world.tick(5)
    world.cut_off = {clone.id}
    for number in range(20):
        master.put(number, "new")
        world.tick(SILENT_TICKS // 10)
    world.cut_off, world.held_kinds = set(), (SnapshotPart,)
    world.tick(10)
    assert clone.contents() == dict([("a", 1)][:had])
    told = re.compile(
        rf"it takes a snapshot of {master.member.name}: (\d+) of (\d+) parts are here"
    )
    here, there = map(int, told.fullmatch(clone.core.statistics().trouble).groups())
    assert here == 0
    world.held_kinds = ()
    world.packets += world.held[:3]
    while world.packets and clone.core.member.snapshot_parts != (1, there):
        world.deliver(world.packets.pop(0))
    assert told.fullmatch(clone.core.statistics().trouble)[1] == "1"
    world.tick(40)
    assert clone.core.statistics().trouble is None
    assert clone.contents() == master.contents()


@pytest.mark.usefixtures("small_parts")
def test_a_part_of_another_session_is_not_mixed_in(world):
    master = world.master()
    master.put("a", 1)
    master.put("b", 1)
    master.flush()
    clone = world.clone()
    while len(world.under_way(SnapshotPart)) < 3:
        world.deliver(world.packets.pop(0))
    first = world.under_way(SnapshotPart)[0].content
    for packet in [each for each in world.packets if not isinstance(each.content, SnapshotPart)]:
        world.deliver(packet)
    world.packets.clear()
    forged = SnapshotPart(first.term, first.session - 1, first.number, first.part)
    acks = len(clone.sent(SnapshotAck))
    clone.hear(forged, master)
    assert len(clone.sent(SnapshotAck)) == acks
    world.tick(5)
    assert clone.contents() == {"a": 1, "b": 1}


# -- losing it ---------------------------------------------------------------------------------


def test_a_silent_master_counts_as_lost_and_reads_go_on(pair, world):
    master, clone = pair
    master.put("a", 1)
    world.settle()
    master.crash()
    world.tick(DEFAULT_TIMING.timeout_ticks_min - 1)
    assert not clone.is_lost
    world.tick(SILENCE_TICKS)
    assert clone.is_lost
    (lost,) = clone.said(fx.MasterLost)
    assert lost.master.endpoint == master.id
    assert clone.get("a") == 1
    world.tick(SILENCE_TICKS)
    assert f"{master.member.name} silent" in clone.core.explain_idle()


def test_an_unreachable_master_counts_as_lost_at_once(pair):
    master, clone = pair
    clone.run(clone.core.peer_unreachable(EndpointId(b"x" * 16)))
    assert not clone.is_lost
    clone.run(clone.core.peer_unreachable(master.id))
    assert clone.is_lost
    assert len(clone.said(fx.MasterLost)) == 1


def test_data_is_stale_after_the_interval_only(world):
    master = world.master()
    clone, patient = world.clone(stale_ns=50 * TICK_NS), world.clone()
    world.tick()
    master.crash()
    world.tick(SILENCE_TICKS)
    assert clone.is_lost
    assert not clone.core.is_stale()
    world.tick(50)
    assert clone.core.is_stale()
    assert not patient.core.is_stale()


def test_a_master_that_comes_back_goes_on_without_a_snapshot(pair, world):
    master, clone = pair
    clone.run(clone.core.peer_unreachable(master.id))
    world.tick(5)
    assert not clone.is_lost
    assert len(clone.said(fx.MasterFound)) == 2
    master.put("a", 1)
    world.settle()
    assert clone.get("a") == 1
    assert not master.sent(SnapshotPart)


def test_a_clone_that_was_dropped_meanwhile_comes_back_by_itself(pair, world):
    master, clone = pair
    master.put("a", 1)
    world.settle()
    world.cut_off.add(clone.id)
    world.tick(100)
    world.cut_off.clear()
    master.put("a", 2)
    master.erase("missing")
    world.tick(10)
    assert clone.get("a") == 2
    assert clone.core.revision == master.core.revision
    assert not clone.is_lost


def test_a_clone_of_a_restarted_master_keeps_what_it_has(world, disk):
    master, clone = world.master(disk), world.clone()
    world.settle()
    master.put("old", 1)
    world.settle()
    master.crash()
    clone.run(clone.core.peer_unreachable(master.id))
    second = world.master(disk)
    second.put("new", 2)
    world.tick(10)
    assert clone.contents() == {"old": 1, "new": 2}
    assert not second.sent(SnapshotPart)
    assert [effect.master.endpoint for effect in clone.said(fx.MasterFound)] == [
        master.id,
        second.id,
    ]


def test_a_master_that_closed_counts_as_lost_at_once(pair, world):
    master, clone = pair
    master.close()
    world.nodes.remove(master)
    world.settle()
    assert clone.is_lost
    assert len(clone.said(fx.MasterLost)) == 1


def test_a_master_of_another_group_is_told_of_once_and_not_followed(pair, world):
    master, clone = pair
    master.put("a", "mine")
    world.settle()
    stranger = world.master()
    stranger.put("a", "other")
    world.tick(30)
    assert clone.get("a") == master.get("a") == "mine"
    assert stranger.get("a") == "other"
    for node in (master, clone, stranger):
        assert [told.news for told in node.said(Told)] == [News.CONFLICT]
    assert not clone.is_lost
    master.run(master.core.begin_idle(1))
    world.tick(3)
    assert master.is_idle(1)


def test_a_clone_believes_no_keepalive_of_another_group(pair, world):
    master, clone = pair
    master.put("a", 1)
    world.settle()
    (heard, *_) = master.sent(Keepalive)
    high = Keepalive(heard.term + 9, 1, 99, 99, heard.times)
    assert clone.hear(high, MemberId("x", 1), group=b"x" * 16) == []
    assert clone.core.leader == master.member


def test_what_a_clone_did_not_hear_it_asks_for(pair, world):
    master, clone = pair
    master.put("a", 1)
    world.settle()
    world.cut_off.add(clone.id)
    for number in range(3):
        master.put("a", number)
        world.settle()
    world.cut_off.clear()
    world.tick(10)
    assert clone.get("a") == 2


def test_a_clone_that_comes_over_from_another_group_is_told_of_nowhere(pair, world):
    master, clone = pair
    master.crash()
    second, other = world.master(), world.clone()
    second.put("a", 1)
    clone.run(clone.core.peer_unreachable(master.id))
    assert clone.core.group == master.core.group != second.core.group
    world.tick(2 * CONFLICT_TICKS)
    assert clone.get("a") == other.get("a") == 1
    for node in (second, clone, other):
        assert node.said(Told) == []


def test_a_replica_that_stays_in_another_group_is_told_of_though_others_come_over(pair, world):
    _, clone = pair
    for number in (1, 2):
        stranger, where = MemberId(f"s{number}", 1), EndpointId(bytes([number]) * 16)
        for group in (bytes(16), None):
            for payload in CODEC.encode(stranger, group, Greeting((), is_question=True)):
                if (number, group) != (1, None):  # The first one stays where it is.
                    clone.run(clone.core.receive(where, payload))
    world.tick(CONFLICT_TICKS)
    (told,) = clone.said(Told)
    assert told.text == "s1 has a replica of another group of this name"
