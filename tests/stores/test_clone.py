"""The clone: finding a master, losing it, writing through it, and never believing a rival."""

from __future__ import annotations

from random import Random

import pytest

from stores import commands, effects as fx
from stores.actions import Initial, PutCommand, WriterId
from stores.commands import Actions, InternalCommand
from stores.effects import Changed
from stores.encoding import decode_command, encode_action, encode_command
from stores.following import RIVAL_COUNT, SEARCH_INTERVAL_TICKS, SILENCE_TICKS
from stores.outcomes import Applied, Refused
from stores.snapshots import Chunk
from stores.table import ChangeKind
from wire.encoding import encode
from wire.errors import DecodeError, ErrorCode, StoreClosed
from wire.identifiers import EndpointId, EntityId

TICK_NS = 100_000_000
STRANGER = EntityId(EndpointId(b"s" * 16), 1)


def say(node, content, *, sender=STRANGER, session=None, epoch=1, sequence=1):
    """Have somebody say something to a clone."""
    payload = encode_command(InternalCommand(sequence, sender, session, epoch, content))
    node.run(node.core.receive(sender.endpoint, payload, node.world.now_ns))


def session_of(clone):
    return clone.core._following._session


def searches(node, since=0):
    return [
        effect
        for effect in node.log[since:]
        if isinstance(effect, fx.Multicast)
        and isinstance(decode_command(effect.payload).content, commands.HandshakeRequestCommand)
    ]


@pytest.fixture
def pair(world):
    """A master and a clone that know each other."""
    master, clone = world.master(), world.clone()
    world.settle()
    return master, clone


# -- finding a master ----------------------------------------------------------------------------


def test_a_clone_searches_every_second_tick_until_it_is_answered(world):
    clone = world.clone()
    assert len(searches(clone)) == 1
    world.tick(3 * SEARCH_INTERVAL_TICKS)
    assert len(searches(clone)) == 4
    assert clone.core.explain_idle() == "no master found"
    world.master()
    world.tick(SEARCH_INTERVAL_TICKS)
    assert clone.core.has_data
    assert len(clone.said(fx.MasterFound)) == 1
    count = len(searches(clone))
    world.tick(20)
    assert len(searches(clone)) == count


def test_a_clone_that_hears_a_master_asks_at_once(world):
    clone = world.clone()
    clone.tick()
    count = len(searches(clone))
    say(clone, commands.KeepaliveCommand())
    say(clone, commands.KeepaliveCommand())
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
    say(
        clone,
        welcome.content,
        sender=welcome.sender,
        session=welcome.session,
        epoch=welcome.epoch,
        sequence=welcome.sequence,
    )
    forged = Chunk(1, True, [encode("b"), encode("wrong")], [2], [])
    say(
        clone,
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
    assert clone.core._following.is_in_touch


# -- losing it -----------------------------------------------------------------------------------


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
    low.put("a", "low")
    world.nodes.remove(low)
    clone = world.clone()
    world.settle()
    world.nodes.append(low)
    world.tick(10 * RIVAL_COUNT)
    assert clone.get("a") == "high"
    assert clone.said(fx.SecondMaster) == [fx.SecondMaster(low.core.entity, low.core.epoch)]


def test_of_two_masters_all_clones_follow_the_same_and_none_waits_for_them(world):
    low, high = world.master(), world.master()
    clones = [world.clone() for _ in range(3)]
    world.tick(20)
    followed = {clone.core._following.master.entity for clone in clones}
    assert followed == {high.core.entity}
    low.run(low.core.begin_idle(1))
    assert low.is_idle(1)


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
    say(
        clone,
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
        say(
            clone,
            content,
            sender=master.core.entity,
            epoch=master.core.epoch,
            sequence=sequence,
        )
    assert clone.get("a") == 1
    world.tick(2)
    assert clone.core._following.is_in_touch


def test_an_event_that_is_gone_makes_the_clone_begin_anew(pair, world):
    master, clone = pair
    session = session_of(clone)
    say(
        clone,
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
    assert clone.core._following.master.entity == high.core.entity
    low.run(low.core.begin_idle(1))
    assert low.is_idle(1)


# -- writing -------------------------------------------------------------------------------------


def test_the_writers_channel_is_opened_by_the_first_write(pair, world):
    master, clone = pair
    assert len(master.core._inputs) == 0
    clone.put("a", 1)
    clone.flush()
    kinds = [type(decode_command(packet.payload).content) for packet in world.packets]
    assert kinds == [commands.AttachWriterCommand, Actions]
    clone.put("a", 2)
    clone.flush()
    assert type(decode_command(world.packets[-1].payload).content) is Actions
    world.settle()
    assert len(master.core._inputs) == 1


def test_writes_without_a_master_wait_for_one(world):
    clone = world.clone()
    numbers = [clone.put("a", 1), clone.increment("a", 2)]
    world.tick(3)
    assert clone.outcomes == {}
    assert clone.get("a") is None
    assert "2 writes have no answer" in clone.core.explain_idle()
    world.master()
    world.tick(3)
    assert [clone.outcomes[number] for number in numbers] == [Applied(1), Applied(2)]
    assert clone.get("a") == 3


def test_a_clone_has_room_until_much_waits_for_an_answer(world, monkeypatch):
    monkeypatch.setattr("stores.writing.UNRESOLVED_SIZE_MAX", 1000)
    monkeypatch.setattr("stores.writing.UNRESOLVED_COUNT_MAX", 3)
    clone = world.clone()
    clone.put("a", "x" * 2000)
    clone.flush()
    assert not clone.core.has_room()
    world.master()
    world.tick(2)
    assert clone.core.has_room()
    world.nodes.pop()
    for number in range(3):
        clone.core.requests.clear()
        assert clone.core.has_room() == (number < 2)


def test_writes_that_get_lost_are_sent_again(pair, world):
    master, clone = pair
    for number in range(10):
        clone.put(number, number)
        clone.flush()
    world.packets = world.packets[1::3]
    world.tick(20)
    assert master.contents() == {number: number for number in range(10)}
    assert len(clone.outcomes) == 10


def test_a_write_whose_answer_was_missed_is_answered_from_the_ledger(pair, world):
    master, clone = pair
    other = world.clone()
    world.settle()
    counted = clone.increment("n")
    refused = clone.subtract("missing", 1)
    unique = clone.put_unique("n", 5)
    clone.flush()
    while world.packets and clone.id in [packet.sender for packet in world.packets]:
        mine = next(packet for packet in world.packets if packet.sender == clone.id)
        world.packets.remove(mine)
        world.deliver(mine)
    world.packets.clear()
    master.run(master.core.peer_unreachable(clone.id))
    world.tick(20)
    assert clone.outcomes[counted] == Applied(1)
    assert isinstance(clone.outcomes[refused], Refused)
    assert clone.outcomes[refused].code == ErrorCode.NO_SUCH_KEY
    assert clone.outcomes[unique] == Applied(1, is_inserted=False)
    assert clone.get("n") == other.get("n") == 1


def test_a_master_that_forgot_the_answer_is_not_guessed_at(pair, world):
    master, clone = pair
    number = clone.increment("n")
    clone.flush()
    packets, world.packets = world.packets, []
    for packet in packets:
        world.deliver(packet)
    world.packets.clear()
    (record,) = master.core._ledger._records.values()
    record.outcomes.clear()
    master.run(master.core.peer_unreachable(clone.id))
    world.tick(20)
    assert clone.outcomes[number].code == ErrorCode.REQUEST_TIMEOUT
    assert clone.get("n") == 1


def test_a_process_that_starts_again_under_its_old_name_is_another_writer(world):
    master = world.master()
    first = world.clone()
    world.settle()
    first.put("a", 1)
    world.settle()
    first.crash()
    second = world.clone()
    second.core.__init__(first.core.entity, incarnation=first.core._following._session + 10**6)
    second.run(second.core.start())
    world.settle()
    number = second.put("a", 2)
    world.tick(3)
    assert second.outcomes[number] == Applied(2)
    assert master.get("a") == 2


def test_one_winner_of_many_unique_puts(world):
    master = world.master()
    nodes = [world.clone() for _ in range(8)]
    world.settle()
    numbers = [(node, node.put_unique("leader", index)) for index, node in enumerate(nodes)]
    world.settle()
    winners = [node for node, number in numbers if node.outcomes[number].is_inserted]
    assert len(winners) == 1
    assert master.get("leader") == nodes.index(winners[0])


# -- idleness ------------------------------------------------------------------------------------


def test_a_clone_is_idle_after_a_round_trip_with_its_master(pair, world):
    master, clone = pair
    clone.run(clone.core.begin_idle(1))
    assert not clone.is_idle(1)
    assert clone.core.explain_idle() == "the master has not said how far it is"
    world.settle()
    assert clone.is_idle(1)
    assert master.core.explain_idle() == ""


def test_reads_after_idleness_are_never_behind(pair, world):
    master, clone = pair
    master.put("a", 1)
    master.flush()
    event = world.packets.pop()
    clone.run(clone.core.begin_idle(1))
    world.settle()
    assert not clone.is_idle(1)
    assert clone.core.explain_idle() == "read up to event 1 of 2"
    world.deliver(event)
    assert clone.is_idle(1)
    assert clone.get("a") == 1


def test_what_one_clone_wrote_is_read_at_another_that_is_idle_afterwards(pair, world):
    _, one = pair
    other = world.clone()
    world.settle()
    one.put("a", 1)
    one.flush()
    one.run(one.core.begin_idle(1))
    while not one.is_idle(1):
        index = next(i for i, packet in enumerate(world.packets) if packet.receiver != other.id)
        world.deliver(world.packets.pop(index))
    other.run(other.core.begin_idle(1))
    world.settle()
    assert other.is_idle(1)
    assert other.get("a") == 1


def test_a_clone_is_not_idle_before_its_writes_are_answered(pair, world):
    _, clone = pair
    clone.put("a", 1)
    clone.run(clone.core.begin_idle(1))
    world.deliver(world.packets.pop(0))
    world.deliver(world.packets.pop(0))
    assert not clone.is_idle(1)
    assert "1 writes have no answer" in clone.core.explain_idle()
    world.settle()
    assert clone.is_idle(1)


def test_a_lost_question_or_answer_is_asked_again(pair, world):
    _, clone = pair
    clone.run(clone.core.begin_idle(1))
    world.packets.clear()
    clone.tick()
    world.deliver(world.packets.pop(0))
    world.packets.clear()
    assert not clone.is_idle(1)
    world.tick()
    assert clone.is_idle(1)


def test_a_clone_that_waits_before_there_is_a_master_becomes_idle_with_it(world):
    clone = world.clone()
    clone.run(clone.core.begin_idle(1))
    world.tick(3)
    assert not clone.is_idle(1)
    master = world.master()
    master.put("a", 1)
    world.tick(3)
    assert clone.is_idle(1)
    assert clone.get("a") == 1


def test_an_answer_of_a_dead_master_makes_nobody_idle(pair, world):
    master, clone = pair
    clone.put("a", 1)
    clone.flush()
    clone.run(clone.core.begin_idle(1))
    master.crash()
    world.packets.clear()
    second = world.master()
    second.put("b", 2)
    world.tick(10)
    assert clone.is_idle(1)
    assert clone.contents() == {"a": 1, "b": 2}


def test_a_clone_that_stops_waiting_hears_nothing(pair, world):
    _, clone = pair
    clone.run(clone.core.begin_idle(1))
    clone.core.cancel_idle(1)
    world.tick(3)
    assert not clone.is_idle(1)


# -- the rest ------------------------------------------------------------------------------------


def test_an_observed_clone_tells_every_change_with_its_writer(world):
    master = world.master()
    clone = world.clone(is_observed=True)
    world.settle()
    clone.put("a", 1)
    world.settle()
    master.put("a", 2, TICK_NS)
    world.settle()
    world.tick(3)
    told = [
        (change.kind, change.before and change.before.value, change.after and change.after.value)
        for change in clone.said(Changed)
    ]
    assert told == [
        (ChangeKind.INSERT, None, encode(1)),
        (ChangeKind.UPDATE, encode(1), encode(2)),
        (ChangeKind.EXPIRE, encode(2), None),
    ]
    writers = [change.writer for change in clone.said(Changed)]
    assert writers == [clone.core.requests.writer, master.core.requests.writer, None]


@pytest.mark.parametrize("role", ["master", "clone"])
def test_observers_may_come_and_go(pair, world, role):
    node = pair[0] if role == "master" else pair[1]
    for is_observed in (False, True, False):
        node.core.observe(is_observed=is_observed)
        node.put("a", is_observed)
        world.settle()
    assert [change.after.value for change in node.said(Changed)] == [encode(True)]


def test_an_observed_master_tells_the_same(world):
    master = world.master(is_observed=True)
    clone = world.clone(is_observed=True)
    world.settle()
    clone.put("a", 1)
    clone.add("a", 5, Initial.NUMBER)
    clone.erase("a")
    world.settle()
    assert master.said(Changed) == clone.said(Changed)
    assert len(master.said(Changed)) == 3


def test_a_clone_that_closes_refuses_what_has_no_answer(pair, world):
    _, clone = pair
    first = clone.put("a", 1)
    world.settle()
    second = clone.put("a", 2)
    clone.run(clone.core.close())
    clone.run(clone.core.close())
    assert clone.outcomes[first] == Applied(1)
    assert clone.outcomes[second].code == ErrorCode.SHUTTING_DOWN
    assert len(clone.said(fx.Closed)) == 1
    with pytest.raises(StoreClosed):
        clone.core.requests.clear()
    say(clone, commands.KeepaliveCommand())
    assert clone.core.tick(0) == clone.core.flush(0) == []


def test_a_clone_shows_in_one_line_what_it_has(pair):
    _, clone = pair
    assert "revision=0 entries=0 unanswered=0" in repr(clone.core)
    assert "synced" in repr(clone.core)


def test_actions_of_others_answer_none_of_ours(pair, world):
    master, clone = pair
    clone.put("a", 1)
    clone.flush()
    forged = PutCommand(WriterId.of(STRANGER, 1), 1, None, [encode("a"), encode(2)])
    say(
        clone,
        Actions((encode_action(forged),)),
        sender=master.core.entity,
        epoch=master.core.epoch,
        sequence=2,
    )
    assert clone.outcomes == {}
