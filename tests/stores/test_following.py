"""How a clone finds a master, loses it, and never believes a rival."""

from __future__ import annotations

from random import Random

import pytest

from stores import commands, effects as fx
from stores.commands import Actions, InternalCommand
from stores.encoding import decode_command, encode_command
from stores.outcomes import Applied
from stores.seeker import RIVAL_COUNT, SEARCH_TICKS, SILENCE_TICKS
from stores.snapshots import Chunk
from wire.encoding import encode
from wire.errors import DecodeError, ErrorCode
from wire.identifiers import EndpointId, EntityId

TICK_NS = 100_000_000
STRANGER = EntityId(EndpointId(b"s" * 16), 1)


def session_of(clone):
    return clone.core._following._session


def searches(node, since=0):
    return [
        effect
        for effect in node.log[since:]
        if isinstance(effect, fx.Multicast)
        and isinstance(decode_command(effect.payload).content, commands.HandshakeRequestCommand)
    ]


# -- finding a master --------------------------------------------------------------------------


def test_a_clone_searches_every_second_tick_until_it_is_answered(world):
    clone = world.clone()
    assert len(searches(clone)) == 1
    world.tick(3 * SEARCH_TICKS)
    assert len(searches(clone)) == 4
    assert clone.core.explain_idle() == "no master found"
    world.master()
    world.tick(SEARCH_TICKS)
    assert clone.core.has_data
    assert len(clone.said(fx.MasterFound)) == 1
    count = len(searches(clone))
    world.tick(20)
    assert len(searches(clone)) == count


def test_a_clone_that_hears_a_master_asks_at_once(world):
    clone = world.clone()
    clone.tick()
    count = len(searches(clone))
    clone.hear(commands.KeepaliveCommand(), sender=STRANGER)
    clone.hear(commands.KeepaliveCommand(), sender=STRANGER)
    assert len(searches(clone)) == count + 1


def test_a_lost_answer_is_repeated(world):
    master, clone = world.master(), world.clone()
    world.deliver(world.packets.pop())
    world.packets.clear()
    master.put("a", 1)
    world.tick(10)
    assert clone.get("a") == 1


def test_events_that_come_before_the_snapshot_are_kept_for_later(world, monkeypatch):
    monkeypatch.setattr("stores.snapshots.CHUNK_COUNT_MAX", 1)
    master, clone = world.master(), world.clone()
    for number in range(5):
        master.put(number, "old")
    master.flush()
    world.deliver(world.packets.pop(0))
    (welcome,) = world.packets
    world.packets.clear()
    world.deliver(welcome)
    assert "1 chunks, 1 entries" in clone.core.explain_idle()
    requests = [packet for packet in world.packets if packet.sender == clone.id]
    master.put(0, "new")
    master.flush()
    events = [packet for packet in world.packets if packet not in requests]
    for packet in events:
        world.deliver(packet)
    assert clone.contents() == {}, "nothing is shown before the snapshot is whole"
    world.packets = requests
    world.settle()
    assert clone.contents() == master.contents()
    assert clone.get(0) == "new"


def test_chunks_that_get_lost_are_asked_for_again(world, monkeypatch):
    monkeypatch.setattr("stores.snapshots.CHUNK_COUNT_MAX", 1)
    master = world.master()
    for number in range(30):
        master.put(number, number)
    master.flush()
    clone = world.clone()
    chance = Random(1)
    for _ in range(100):
        packets, world.packets = world.packets, []
        for packet in packets:
            if chance.random() < 0.5:
                world.deliver(packet)
        while master.core.has_work:
            master.work()
        clone.tick()
        master.tick()
    assert clone.contents() == master.contents()


def test_a_chunk_of_another_snapshot_is_not_mixed_in(pair, world, monkeypatch):
    monkeypatch.setattr("stores.snapshots.CHUNK_COUNT_MAX", 1)
    master, _ = pair
    master.put("a", 1)
    master.put("b", 1)
    master.flush()
    clone = world.clone()
    world.deliver(world.packets.pop())
    welcome = decode_command(world.packets.pop().payload)
    world.packets.clear()
    clone.hear(
        welcome.content,
        sender=welcome.sender,
        session=welcome.session,
        epoch=welcome.epoch,
        sequence=welcome.sequence,
    )
    forged = Chunk(1, True, [encode("b"), encode("wrong")], [2], [])
    clone.hear(
        commands.SnapshotChunkCommand(forged),
        sender=welcome.sender,
        session=welcome.session,
        epoch=welcome.epoch,
        sequence=welcome.sequence - 1,
    )
    assert not clone.core.has_data
    world.settle()
    assert clone.contents() == {"a": 1, "b": 1}


def test_a_session_is_for_one_snapshot(pair, world):
    """An acknowledgement from before must not pass for one of the snapshot that comes now."""
    master, clone = pair
    master.put("a", 1)
    world.settle()
    clone.core._following._acknowledge()
    clone.flush()
    (late,) = world.packets
    world.packets.clear()
    master.run(master.core.peer_unreachable(clone.id))
    clone.run(clone.core.peer_unreachable(master.id))
    other = world.clone()
    world.settle()
    clone.tick()
    clone.tick()
    request = next(packet for packet in world.packets if packet.sender == clone.id)
    world.packets.clear()
    world.deliver(request)
    world.packets.clear()
    world.deliver(request)
    (repeated,) = world.packets
    world.packets.clear()
    world.deliver(late)
    world.deliver(repeated)
    master.put("b", 2)
    world.tick(10)
    assert clone.contents() == other.contents() == {"a": 1, "b": 2}
    assert clone.core._seeker.is_in_touch


# -- losing it ---------------------------------------------------------------------------------


def test_a_silent_master_counts_as_lost_and_reads_go_on(pair, world):
    master, clone = pair
    master.put("a", 1)
    world.settle()
    master.crash()
    world.tick(SILENCE_TICKS - 1)
    assert not clone.core.is_lost
    world.tick(1)
    assert clone.core.is_lost
    assert clone.said(fx.MasterLost) == [
        fx.MasterLost(master.core.entity, f"silent for {SILENCE_TICKS} ticks")
    ]
    assert clone.get("a") == 1
    assert "out of touch with the master" in clone.core.explain_idle()


def test_an_unreachable_master_counts_as_lost_at_once(pair):
    master, clone = pair
    clone.run(clone.core.peer_unreachable(master.id))
    assert clone.core.is_lost
    clone.run(clone.core.peer_unreachable(EndpointId(b"x" * 16)))
    assert len(clone.said(fx.MasterLost)) == 1


def test_data_is_stale_after_the_interval_only(world):
    master = world.master()
    clone = world.clone(stale_interval_ns=50 * TICK_NS)
    patient = world.clone(stale_interval_ns=None)
    world.settle()
    master.crash()
    world.tick(SILENCE_TICKS + 1)
    assert clone.core.is_lost
    assert not clone.core.is_stale(world.now_ns)
    world.tick(40)
    assert clone.core.is_stale(world.now_ns)
    assert not patient.core.is_stale(world.now_ns)


def test_a_master_that_comes_back_goes_on_without_a_snapshot(pair, world):
    master, clone = pair
    clone.run(clone.core.peer_unreachable(master.id))
    world.tick(5)
    assert not clone.core.is_lost
    assert len(clone.said(fx.MasterFound)) == 2
    session = session_of(clone)
    master.put("a", 1)
    world.settle()
    assert clone.get("a") == 1
    assert session_of(clone) == session


def test_a_clone_that_was_dropped_meanwhile_takes_a_new_snapshot_by_itself(pair, world):
    master, clone = pair
    master.put("a", 1)
    world.settle()
    master.run(master.core.peer_unreachable(clone.id))
    master.put("a", 2)
    master.core.requests.erase(encode("missing"))
    world.tick(10)
    assert clone.get("a") == 2
    assert clone.core.revision == master.core.revision
    assert not clone.core.is_lost


def test_a_clone_of_a_restarted_master_takes_a_new_snapshot_by_itself(pair, world):
    master, clone = pair
    master.put("old", 1)
    world.settle()
    master.crash()
    second = world.master()
    second.put("new", 2)
    world.tick(10)
    assert clone.contents() == {"new": 2}
    assert [effect.master for effect in clone.said(fx.MasterFound)] == [
        master.core.entity,
        second.core.entity,
    ]


def test_a_clone_follows_a_master_with_a_lower_epoch_if_its_own_is_gone(world):
    first = world.master()
    second = world.master()
    world.nodes.remove(first)
    clone = world.clone()
    world.settle()
    second.crash()
    world.nodes.append(first)
    first.put("a", 1)
    world.tick(SILENCE_TICKS + 10)
    assert clone.contents() == {"a": 1}


def test_a_lower_master_is_told_of_once_and_ignored(world):
    low, high = world.master(), world.master()
    high.put("a", "high")
    world.nodes.remove(low)
    clone = world.clone()
    world.settle()
    for _ in range(10 * RIVAL_COUNT):
        clone.hear(commands.KeepaliveCommand(), sender=low.core.entity, epoch=low.core.epoch)
        world.tick()
    assert clone.get("a") == "high"
    assert clone.said(fx.SecondMaster) == [fx.SecondMaster(low.core.entity, low.core.epoch)]


def test_late_messages_of_the_last_master_that_come_together_make_no_rival_of_it(pair, world):
    _, clone = pair
    for _ in range(10 * RIVAL_COUNT):
        clone.hear(commands.MasterClosedCommand(ErrorCode.NONE, "late"), sender=STRANGER, epoch=0)
    world.tick(1)
    assert clone.said(fx.SecondMaster) == []


def test_of_two_masters_the_earlier_one_closes_and_all_clones_follow_the_later_one(world):
    low, high = world.master(), world.master()
    clones = [world.clone() for _ in range(3)]
    number = low.put("a", "low")
    world.tick(20)
    followed = {clone.core._seeker.leader.entity for clone in clones}
    assert followed == {high.core.entity}
    (closed,) = low.said(fx.Closed)
    assert closed.code is ErrorCode.MASTER_EXISTS
    assert low.outcomes[number] == Applied(1), "what was told before stays told"
    assert high.said(fx.SecondMaster) == [fx.SecondMaster(low.core.entity, low.core.epoch)]
    assert low.said(fx.SecondMaster) == [fx.SecondMaster(high.core.entity, high.core.epoch)]
    high.run(high.core.begin_idle(1))
    world.tick(6)
    assert high.is_idle(1)


def test_a_master_that_closed_is_searched_for_at_once(pair, world):
    master, clone = pair
    count = len(searches(clone))
    master.run(master.core.close())
    world.nodes.remove(master)
    world.settle()
    assert clone.core.is_lost
    assert len(searches(clone)) == count + 1


def test_what_is_meant_for_another_session_is_ignored(pair):
    master, clone = pair
    clone.hear(
        commands.UnknownConsumerCommand(),
        sender=master.core.entity,
        session=session_of(clone) - 1,
        epoch=master.core.epoch,
    )
    assert not clone.core.is_lost


def test_nobody_speaks_in_the_name_of_another_endpoint(pair, world):
    _, clone = pair
    payload = encode_command(InternalCommand(1, STRANGER, None, 1, commands.KeepaliveCommand()))
    with pytest.raises(DecodeError):
        clone.core.receive(EndpointId(b"x" * 16), payload, world.now_ns)


def test_an_action_that_makes_no_sense_makes_the_clone_begin_anew(pair, world):
    master, clone = pair
    master.put("a", 1)
    world.settle()
    content = Actions((b"garbage",))
    sequence = master.core._clones.sequence + 1
    with pytest.raises(DecodeError):
        clone.hear(
            content,
            sender=master.core.entity,
            epoch=master.core.epoch,
            sequence=sequence,
        )
    assert clone.get("a") == 1
    world.tick(2)
    assert clone.core._seeker.is_in_touch


def test_an_event_that_is_gone_makes_the_clone_begin_anew(pair, world):
    master, clone = pair
    session = session_of(clone)
    clone.hear(
        commands.RetransmitFailedCommand(),
        sender=master.core.entity,
        session=session,
        epoch=master.core.epoch,
        sequence=master.core._clones.sequence + 1,
    )
    assert session_of(clone) == session + 1
    master.put("a", 1)
    world.tick(3)
    assert clone.get("a") == 1


def test_a_rival_that_answered_too_late_is_not_kept_waiting(world):
    low, high = world.master(), world.master()
    world.nodes.reverse()
    clone = world.clone()
    world.settle()
    assert clone.core._seeker.leader.entity == high.core.entity
    low.run(low.core.begin_idle(1))
    assert low.is_idle(1)
