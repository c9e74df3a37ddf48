"""The master: attaching clones, idleness, durability, and manners with strangers."""

from __future__ import annotations

import pytest

from stores import commands, effects as fx
from stores.actions import ClearCommand, ExpireCommand, PutCommand, WriterId
from stores.broadcasting import STORE_CHANNEL
from stores.commands import Actions, InternalCommand
from stores.encoding import decode_command, encode_action, encode_command
from stores.inputs import HANDSHAKE_TIMEOUT_TICKS
from stores.limits import CLONES_MAX, INPUTS_MAX
from stores.outcomes import Applied, Refused
from wire.encoding import encode
from wire.errors import DecodeError, ErrorCode, StoreClosed
from wire.identifiers import EndpointId, EntityId

STRANGER = EntityId(EndpointId(b"s" * 16), 1)
STRANGERS_LIFE = WriterId.of(STRANGER, 1)


def say(node, content, *, sender=STRANGER, session=1, epoch=1, sequence=0):
    """Have somebody say something to a node, and give what the node does about it."""
    payload = encode_command(InternalCommand(sequence, sender, session, epoch, content))
    effects = node.core.receive(sender.endpoint, payload, node.world.now_ns)
    effects += node.core.flush(node.world.now_ns)
    node.run(effects)
    return effects


def contents_of(effects):
    return [
        decode_command(effect.payload).content
        for effect in effects
        if isinstance(effect, (fx.Unicast, fx.Multicast))
    ]


def ask_in(node, *, session=1):
    return say(node, commands.HandshakeRequestCommand(STRANGERS_LIFE), session=session, epoch=None)


# -- clones --------------------------------------------------------------------------------------


def test_a_clone_gets_a_snapshot_with_revisions_and_expiries(world):
    master = world.master()
    master.put("a", 1)
    master.put("b", 2, 10**12)
    clone = world.clone()
    world.settle()
    assert clone.core._table.columns == master.core._table.columns
    assert clone.core.revision == 2
    assert clone.core.entry(encode("b")).expires_at_ns == world.now_ns + 10**12


def test_the_handshake_names_epoch_offset_and_heartbeat_interval(world):
    master = world.master()
    (effect,) = ask_in(master)
    command = decode_command(effect.payload)
    assert command.epoch == master.core.epoch
    assert command.sequence == master.core._clones.sequence
    assert command.session == 1
    assert command.content.heartbeat_interval_ticks == STORE_CHANNEL.heartbeat_interval_ticks


def test_a_repeated_request_gets_the_same_offset_without_the_snapshot(world):
    master = world.master()
    master.put("a", 1)
    master.flush()
    first = decode_command(ask_in(master)[0].payload)
    master.put("a", 2)
    master.flush()
    second = decode_command(ask_in(master)[0].payload)
    assert second.sequence == first.sequence
    assert first.content.chunk.pairs == [encode("a"), encode(1)]
    assert second.content.chunk is None


def test_clones_that_come_together_share_a_snapshot(world):
    master = world.master()
    master.put("a", 1)
    clones = [world.clone() for _ in range(3)]
    for packet in list(world.packets):
        world.deliver(packet)
    sources = {id(welcome.source) for welcome in master.core._clones._clones.values()}
    assert len(sources) == 1
    world.settle()
    assert all(clone.get("a") == 1 for clone in clones)


def test_a_late_request_of_a_clone_that_is_in_changes_nothing(world):
    master = world.master()
    clone = world.clone()
    request = world.packets[0]
    world.settle()
    master.put("a", 1)
    world.settle()
    revision = clone.core.revision
    world.deliver(request)
    assert contents_of(master.log[-1:]) == [commands.KeepaliveCommand(is_urgent=True)]
    world.settle()
    assert clone.core.revision == revision
    assert master.core.explain_idle() == ""


def test_a_late_request_of_an_earlier_attempt_does_not_throw_out_the_later_one(world):
    master = world.master()
    ask_in(master, session=5)
    assert ask_in(master, session=4) == []
    assert [clone.session for clone in master.core._clones._clones] == [5]


def test_a_new_attempt_replaces_the_earlier_one(world):
    master = world.master()
    ask_in(master, session=4)
    ask_in(master, session=5)
    assert [clone.session for clone in master.core._clones._clones] == [5]


@pytest.mark.parametrize(
    "content",
    [
        commands.CumulativeAckCommand(),
        commands.NackCommand((2,)),
        commands.SnapshotRequestCommand((0,)),
        commands.BarrierRequestCommand(1),
    ],
)
def test_somebody_who_thinks_to_be_a_clone_is_told_that_it_is_none(world, content):
    master = world.master()
    effects = say(master, content)
    assert contents_of(effects) == [commands.UnknownConsumerCommand()]
    assert decode_command(effects[0].payload).session == 1


def test_there_is_a_limit_to_clones(world):
    master = world.master()
    for number in range(CLONES_MAX + 5):
        entity = EntityId(EndpointId(number.to_bytes(16, "big")), 9)
        request = commands.HandshakeRequestCommand(WriterId.of(entity, 1))
        say(master, request, sender=entity, epoch=None)
    assert len(master.core._clones) == CLONES_MAX


def test_a_clone_that_closes_is_not_waited_for(world):
    master = world.master()
    clone = world.clone()
    world.settle()
    clone.run(clone.core.close())
    world.settle()
    assert len(master.core._clones) == 0


def test_a_clone_whose_endpoint_is_unreachable_is_not_waited_for(world):
    master = world.master()
    clone = world.clone()
    world.settle()
    clone.crash()
    master.put("a", 1)
    master.flush()
    master.run(master.core.begin_idle(1))
    assert not master.is_idle(1)
    assert f"clone {clone.core.entity}" in master.core.explain_idle()
    master.run(master.core.peer_unreachable(clone.id))
    assert master.is_idle(1)


def test_a_clone_that_falls_silent_is_dropped_after_the_timeout(world):
    master = world.master()
    clone = world.clone()
    world.settle()
    clone.crash()
    timeout = STORE_CHANNEL.heartbeat_interval_ticks * STORE_CHANNEL.connection_timeout_factor
    world.tick(timeout + 1)
    assert len(master.core._clones) == 0


def test_a_slow_clone_does_not_fill_the_masters_memory(world, monkeypatch):
    monkeypatch.setattr("stores.broadcasting.BACKLOG_SIZE_MAX", 10_000)
    master = world.master()
    slow, quick = world.clone(), world.clone()
    world.settle()
    for number in range(20):
        master.put(number, "x" * 1000)
        master.flush()
        mine = [packet for packet in world.packets if slow.id in (packet.sender, packet.receiver)]
        world.packets = [packet for packet in world.packets if packet not in mine]
        world.settle()
        quick.core._following._acknowledge()
        quick.flush()
        world.settle()
    assert [clone.entity for clone in master.core._clones._clones] == [quick.core.entity]
    world.tick(30)
    assert slow.contents() == quick.contents() == master.contents()


def test_a_gap_while_nobody_listened_is_noticed(world):
    """A clone that was let go without knowing must not take later events for the next ones."""
    master = world.master()
    clone = world.clone()
    world.settle()
    master.put("a", 1)
    world.settle()
    master.run(master.core.peer_unreachable(clone.id))
    master.put("a", 2)
    master.flush()
    other = world.clone()
    world.settle()
    master.put("b", 3)
    world.settle()
    assert clone.contents() in ({"a": 1}, {"a": 2, "b": 3})
    world.tick(10)
    assert clone.contents() == other.contents() == {"a": 2, "b": 3}


# -- idleness ------------------------------------------------------------------------------------


def test_a_master_is_idle_when_every_clone_has_acknowledged_everything(world):
    master = world.master()
    clone = world.clone()
    world.settle()
    master.put("a", 1)
    master.run(master.core.begin_idle(1))
    assert not master.is_idle(1)
    assert "not sent yet" in master.core.explain_idle()
    master.flush()
    assert not master.is_idle(1)
    assert "has acknowledged 1 of 2" in master.core.explain_idle()
    world.settle()
    master.tick()
    world.settle()
    assert master.is_idle(1)
    assert clone.get("a") == 1


def test_a_master_without_clones_is_idle_at_once(world):
    master = world.master()
    master.put("a", 1)
    master.run(master.core.begin_idle(1))
    master.flush()
    assert master.is_idle(1)


def test_a_master_is_not_idle_while_a_clone_loads(world):
    master = world.master()
    clone = world.clone()
    world.deliver(world.packets.pop())
    master.run(master.core.begin_idle(1))
    assert "is loading its snapshot" in master.core.explain_idle()
    assert not master.is_idle(1)
    world.settle()
    assert master.is_idle(1)
    assert clone.core.has_data


def test_a_master_is_not_idle_while_a_writers_command_waits_for_an_earlier_one(world):
    master = world.master()
    clone = world.clone()
    world.settle()
    clone.put("a", 1)
    clone.flush()
    world.settle()
    clone.put("a", 2)
    clone.flush()
    lost = world.packets.pop()
    clone.put("a", 3)
    clone.flush()
    world.settle()
    master.run(master.core.begin_idle(1))
    world.settle()
    assert "on their way" in master.core.explain_idle()
    assert not master.is_idle(1)
    world.packets.append(lost)
    world.tick(2)
    assert master.is_idle(1)
    assert master.get("a") == 3


def test_a_durable_master_is_idle_only_when_everything_is_on_the_disk(world, make_kept_backend):
    master = world.master(make_kept_backend())
    master.put("a", 1)
    master.run(master.core.begin_idle(1))
    master.flush()
    assert not master.is_idle(1)
    assert "on their way to the disk" in master.core.explain_idle()
    master.commit()
    assert master.is_idle(1)


def test_idleness_does_not_wait_for_what_was_asked_later(world, make_kept_backend):
    master = world.master(make_kept_backend())
    master.put("a", 1)
    master.flush()
    master.run(master.core.begin_idle(1))
    master.put("a", 2)
    master.flush()
    master.commit()
    assert master.commits, "the second put is on its way"
    assert master.is_idle(1)


def test_whoever_stops_waiting_hears_nothing(world):
    master = world.master()
    clone = world.clone()
    world.settle()
    master.put("a", 1)
    master.run(master.core.begin_idle(1))
    master.core.cancel_idle(1)
    world.tick(5)
    assert not master.is_idle(1)
    assert clone.get("a") == 1


# -- durability ----------------------------------------------------------------------------------


def test_nothing_is_told_or_shown_before_it_is_durable(world, make_kept_backend):
    master = world.master(make_kept_backend(), is_observed=True)
    clone = world.clone()
    world.settle()
    number = master.put("a", 1)
    master.flush()
    assert master.get("a") is None
    assert master.core.keys() == []
    assert master.core.entry(encode("a")) is None
    assert master.core.revision == 0
    assert number not in master.outcomes
    assert not world.packets
    assert not master.said(fx.Changed)
    late = world.clone()
    world.deliver(world.packets.pop(0))
    world.deliver(world.packets.pop(0))
    assert late.core.has_data
    assert late.contents() == {}
    master.commit()
    assert master.get("a") == 1
    assert master.outcomes[number] == Applied(1)
    assert len(master.said(fx.Changed)) == 1
    world.settle()
    assert clone.contents() == late.contents() == {"a": 1}


def test_while_one_commit_is_under_way_the_next_gathers(world, make_kept_backend):
    master = world.master(make_kept_backend())
    for number in range(5):
        master.put("a", number)
        master.flush()
    assert [row[1] for row in master.commits[0].changes.rows] == [encode(0)]
    master.commit()
    assert [row[1] for row in master.commits[0].changes.rows] == [encode(4)]
    assert master.get("a") == 0
    master.commit()
    assert master.get("a") == 4
    assert [master.outcomes[number].revision for number in range(1, 6)] == [1, 2, 3, 4, 5]


def test_a_snapshot_claims_only_the_requests_that_are_durable(world, make_kept_backend):
    master = world.master(make_kept_backend())
    clone = world.clone()
    world.settle()
    number = clone.put("a", 1)
    clone.flush()
    for _ in range(2):
        world.deliver(world.packets.pop(0))
    world.packets.clear()
    assert master.commits
    master.run(master.core.peer_unreachable(clone.id))
    say(
        clone,
        commands.UnknownConsumerCommand(),
        sender=master.core.entity,
        session=clone.core._following._session,
        epoch=master.core.epoch,
    )
    while world.packets:
        world.deliver(world.packets.pop(0))
    assert clone.core._seeker.is_in_touch
    assert clone.outcomes == {}
    world.settle()
    assert clone.outcomes == {number: Applied(1)}


def test_a_barrier_waits_for_what_is_under_way_to_the_disk(world, make_kept_backend):
    master = world.master(make_kept_backend())
    clone = world.clone()
    world.settle()
    master.put("a", 1)
    master.flush()
    clone.run(clone.core.begin_idle(1))
    world.deliver(world.packets.pop(0))
    assert not world.packets
    master.commit()
    world.settle()
    assert clone.is_idle(1)
    assert clone.get("a") == 1


def test_a_failed_commit_closes_the_master_and_claims_nothing(world, make_kept_backend):
    master = world.master(make_kept_backend())
    clone = world.clone()
    world.settle()
    first = master.put("a", 1)
    master.flush()
    clones = clone.put("c", 1)
    clone.flush()
    world.deliver(world.packets.pop(0))
    world.deliver(world.packets.pop(0))
    second = master.put("b", 2)
    token = master.commits.pop().token
    master.run(master.core.commit_failed(token, "the disk is full"))
    for number in (first, second):
        outcome = master.outcomes[number]
        assert isinstance(outcome, Refused)
        assert outcome.code == ErrorCode.BACKEND_FAILURE
        assert "the disk is full" in outcome.text
    assert master.said(fx.Closed) == [fx.Closed(ErrorCode.BACKEND_FAILURE, "the disk is full")]
    world.settle()
    assert clone.core.is_lost
    assert "the disk is full" in clone.said(fx.MasterLost)[0].reason
    assert clones not in clone.outcomes
    assert clone.contents() == {}
    with pytest.raises(StoreClosed):
        master.core.requests.clear()
    assert master.core.tick(world.now_ns) == master.core.flush(world.now_ns) == []


def test_a_master_that_closes_says_goodbye_once(world):
    master = world.master()
    clone = world.clone()
    world.settle()
    number = master.put("a", 1)
    master.run(master.core.close())
    master.run(master.core.close())
    assert len(master.said(fx.Closed)) == 1
    assert master.outcomes[number] == Applied(1)
    world.settle()
    assert clone.get("a") == 1
    assert clone.core.is_lost


# -- writers -------------------------------------------------------------------------------------


def attach_stranger(master):
    say(master, commands.AttachWriterCommand(5), session=None, epoch=9, sequence=1)


def write(master, *actions, sequence=2):
    payloads = tuple(
        action if isinstance(action, bytes) else encode_action(action) for action in actions
    )
    return say(master, Actions(payloads), session=None, epoch=9, sequence=sequence)


def put(request, value, writer=STRANGERS_LIFE):
    return PutCommand(writer, request, None, [encode("k"), encode(value)])


def test_a_repeated_request_is_applied_once(world):
    master = world.master()
    attach_stranger(master)
    write(master, put(1, "first"), put(2, "second"), put(1, "first"))
    assert master.get("k") == "second"
    assert master.core.revision == 2


def test_a_writer_that_nobody_knows_is_asked_to_introduce_itself(world):
    master = world.master()
    effects = write(master, put(1, "x"))
    assert contents_of(effects) == [commands.HandshakeRequestCommand()]
    assert master.get("k") is None
    attach_stranger(master)
    assert master.get("k") == "x"


def test_a_writer_that_never_introduces_itself_is_forgotten(world):
    master = world.master()
    write(master, put(1, "x"))
    world.tick(HANDSHAKE_TIMEOUT_TICKS)
    assert len(master.core._inputs) == 0


def test_a_writer_that_begins_anew_is_followed(world):
    master = world.master()
    attach_stranger(master)
    write(master, put(1, "old"))
    say(master, commands.AttachWriterCommand(5), session=None, epoch=10, sequence=1)
    payloads = (encode_action(put(1, "old")), encode_action(put(2, "new")))
    say(master, Actions(payloads), session=None, epoch=10, sequence=2)
    assert master.get("k") == "new"
    assert master.core.revision == 2


def test_a_writer_that_lost_a_command_is_not_followed_further(world):
    master = world.master()
    attach_stranger(master)
    say(master, commands.RetransmitFailedCommand(), session=None, epoch=9, sequence=2)
    write(master, put(2, "after the gap"), sequence=3)
    assert master.get("k") is None


def test_there_is_a_limit_to_writers(world):
    master = world.master()
    for number in range(INPUTS_MAX + 5):
        entity = EntityId(EndpointId(number.to_bytes(16, "big")), 9)
        content = commands.AttachWriterCommand(5)
        say(master, content, sender=entity, session=None, epoch=9, sequence=1)
    assert len(master.core._inputs) == INPUTS_MAX


OTHER = WriterId.of(EntityId(EndpointId(b"o" * 16), 1), 1)


@pytest.mark.parametrize(
    "action",
    [
        put(3, "x", writer=OTHER),
        ExpireCommand([encode("k")]),
        PutCommand(STRANGERS_LIFE, None, None, [encode("k"), encode("x")]),
        PutCommand(STRANGERS_LIFE, 3, None, [encode("k"), b"\xff"]),
        PutCommand(STRANGERS_LIFE, 3, None, [b"\x18\x01", encode("x")]),
        b"\x81\x05",
        b"garbage",
    ],
    ids=lambda action: type(action).__name__,
)
def test_a_malformed_action_ends_its_channel_and_costs_nothing_else(world, action):
    master = world.master()
    clone = world.clone()
    world.settle()
    attach_stranger(master)
    write(master, put(1, "kept"), put(2, "kept"))
    with pytest.raises(DecodeError):
        write(master, action, ClearCommand(STRANGERS_LIFE, 9), sequence=4)
    assert master.get("k") == "kept"
    assert len(master.core._inputs) == 0
    number = clone.put("other", 1)
    world.settle()
    assert isinstance(clone.outcomes[number], Applied)
    assert clone.contents() == master.contents() == {"k": "kept", "other": 1}


def test_nobody_speaks_in_the_name_of_another_endpoint(world):
    master = world.master()
    payload = encode_command(InternalCommand(0, STRANGER, 1, 1, commands.DetachCommand()))
    with pytest.raises(DecodeError):
        master.core.receive(EndpointId(b"x" * 16), payload, world.now_ns)


@pytest.mark.parametrize(
    ("content", "session"),
    [
        (commands.HandshakeRequestCommand(None), 1),
        (commands.HandshakeRequestCommand(OTHER), 1),
        (commands.HandshakeRequestCommand(STRANGERS_LIFE), None),
        (commands.BarrierRequestCommand(1), None),
    ],
)
def test_a_clone_that_does_not_say_who_it_is_is_turned_away(world, content, session):
    master = world.master()
    with pytest.raises(DecodeError):
        say(master, content, session=session)
    assert len(master.core._clones) == 0


def test_a_master_shows_in_one_line_what_it_has(world):
    master = world.master()
    master.put("a", 1)
    master.flush()
    assert "revision=1 entries=1 sequence=2 clones=0 writers=0" in repr(master.core)


def test_there_is_room_until_much_is_on_its_way(world, make_kept_backend, monkeypatch):
    monkeypatch.setattr("stores.master.UNRESOLVED_SIZE_MAX", 1000)
    master = world.master(make_kept_backend())
    assert master.core.has_room()
    master.put("a", "x" * 2000)
    master.flush()
    assert not master.core.has_room()
    master.commit()
    assert master.core.has_room()


def test_of_a_run_that_was_done_in_part_the_rest_is_done(world):
    """A promoted clone may have a part of what its master made of a run of additions."""
    master, _ = world.master(), world.clone()
    world.settle()
    attach_stranger(master)
    write(master, put(1, "kept"), put(2, "kept"))
    run = PutCommand(
        STRANGERS_LIFE, 2, None, [encode("again"), encode(1), encode("new"), encode(2)]
    )
    write(master, run, sequence=4)
    assert master.contents() == {"k": "kept", "new": 2}
    assert master.core.revision == 3
