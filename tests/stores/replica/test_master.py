"""The master: clones that join, idleness, durability, and manners with strangers."""

from __future__ import annotations

import cbor2
import pytest

from channels import UnknownConsumer
from stores import effects as fx
from stores.actions import (
    AddCommand,
    ExpireCommand,
    Initial,
    PutCommand,
    WriterId,
)
from stores.group.messages import (
    Admitted,
    FromFollower,
    Join,
    SnapshotPart,
)
from stores.group.positions import MemberId, Position
from stores.group.roles import DEFAULT_TIMING
from stores.group.words import Answered, Ask
from stores.outcomes import Applied, Refused
from stores.replica.asked.outbox import PARCEL_COUNT
from stores.replica.effects import News, Told
from stores.replica.facts import UNLED_NS
from stores.table.bodies import OutOfOrder, Register, UnknownWriter, Write
from tests.stores.replica.conftest import CODEC, TICK_NS
from wire.encoding import encode
from wire.errors import DecodeError, ErrorCode, StoreClosed
from wire.identifiers import EndpointId, EntityId

STRANGER = EntityId(EndpointId(b"s" * 16), 1)
STRANGERS_LIFE = WriterId.of(STRANGER, 1)
OTHER = WriterId.of(EntityId(EndpointId(b"o" * 16), 1), 1)
MEMBER = MemberId("stranger", 99)
SILENCE_TICKS = DEFAULT_TIMING.timeout_ticks_max + 1


def test_a_master_that_waits_for_its_disk_has_no_group_that_lacks_a_leader(
    world, disk, monkeypatch
):
    monkeypatch.setattr(world, "let_lead", lambda node: None)
    master = world.master(disk)
    for _ in range(2 * UNLED_NS // TICK_NS):
        world.now_ns += TICK_NS
        master.tick()
    assert not master.core.is_leader
    assert not master.said(Told)


# -- clones --------------------------------------------------------------------------------------


def test_a_clone_gets_a_snapshot_with_revisions_and_expiries(world):
    master = world.master()
    master.put("a", 1)
    master.put("b", 2, 10**12)
    clone = world.clone()
    world.settle()
    assert master.sent(SnapshotPart)
    assert clone.columns == master.columns
    assert clone.core.revision == 2
    assert clone.expires_at_ns("b") == world.now_ns + 10**12


def test_a_clone_shows_what_it_got_without_waiting_for_a_tick(world):
    master = world.master()
    first = world.clone()
    world.settle()
    master.put("a", 1)
    world.settle()
    second = world.clone()
    world.settle()
    assert first.contents() == second.contents() == {"a": 1}
    assert not second.is_lost


def test_clones_that_come_together_share_a_snapshot(world):
    master = world.master()
    master.put("a", 1)
    master.flush()
    clones = [world.clone() for _ in range(3)]
    sendings = []
    while len(sendings) < 3:
        world.deliver(world.packets.pop(0))
        followers = [each for _, each in master.core.member.leading._followers]
        sendings = [each.sending for each in followers if each.sending is not None]
    assert len({id(sending.snapshot) for sending in sendings}) == 1
    world.settle()
    assert all(clone.get("a") == 1 for clone in clones)


def test_a_late_request_of_a_clone_that_is_in_changes_nothing(world):
    master = world.master()
    clone = world.clone()
    while not world.under_way(Join):
        world.deliver(world.packets.pop(0))
    (request,) = world.under_way(Join)
    world.settle()
    master.put("a", 1)
    world.settle()
    revision, count = clone.core.revision, len(master.sent(Admitted))
    world.deliver(request)
    assert len(master.sent(Admitted)) == count
    world.settle()
    assert clone.core.revision == revision
    assert master.core.explain_idle() == ""


def test_a_clone_that_closes_is_not_waited_for(world, pair):
    master, clone = pair
    clone.close()
    world.settle()
    world.nodes.remove(clone)
    master.put("a", 1)
    master.run(master.core.begin_idle(1))
    master.flush()
    assert master.is_idle(1)
    assert master.core.explain_idle() == ""


def test_a_clone_whose_endpoint_is_unreachable_is_not_waited_for(world, pair):
    master, clone = pair
    clone.crash()
    master.put("a", 1)
    master.flush()
    master.run(master.core.begin_idle(1))
    assert not master.is_idle(1)
    assert master.core.explain_idle() == f"not level: {clone.member.name}"
    master.run(master.core.peer_unreachable(clone.id))
    assert master.is_idle(1)


def test_a_clone_that_falls_silent_is_not_waited_for_for_ever(world, pair):
    master, clone = pair
    clone.crash()
    master.put("a", 1)
    master.run(master.core.begin_idle(1))
    world.tick(SILENCE_TICKS - 2)
    assert not master.is_idle(1)
    world.tick(3)
    assert master.is_idle(1)


def test_a_slow_clone_does_not_fill_the_masters_memory(world, monkeypatch):
    monkeypatch.setattr("stores.group.member.JOURNAL_MAX", 10)
    monkeypatch.setattr("stores.replica.kept.KEPT_ENTRIES", 0)
    master = world.master()
    slow, quick = world.clone(), world.clone()
    world.tick()
    for number in range(40):
        master.put(number, "x" * 1000)
        master.flush()
        mine = [packet for packet in world.packets if slow.id in (packet.sender, packet.receiver)]
        world.packets = [packet for packet in world.packets if packet not in mine]
        world.settle()
        master.run(master.core.tick(world.now_ns))
    journal = master.core.member.journal
    assert journal.end.index - journal.floor.index <= 20
    world.tick(30)
    assert slow.contents() == quick.contents() == master.contents()


def test_a_slow_clone_takes_a_snapshot_rather_than_too_many_bytes(world, monkeypatch):
    monkeypatch.setattr("stores.replica.kept.KEPT_ENTRIES", 0)
    monkeypatch.setattr("stores.replica.kept.SLOW_SIZE", 10_000)
    master = world.master()
    slow, quick = world.clone(), world.clone()
    world.tick()
    for number in range(60):
        master.put("k", "x" * 1000 + str(number))
        master.flush()
        mine = [packet for packet in world.packets if slow.id in (packet.sender, packet.receiver)]
        world.packets = [packet for packet in world.packets if packet not in mine]
        world.settle()
        master.run(master.core.tick(world.now_ns))
        journal = master.core.member.journal
        assert number < 15 or 8 <= journal.end.index - journal.floor.index <= 25
    assert slow.get("k") != quick.get("k")
    world.tick(30)
    assert slow.contents() == quick.contents() == master.contents()


def test_a_gap_while_no_clone_followed_is_noticed(world, pair):
    """A clone that was let go without knowing must not take later entries for the next ones."""
    master, clone = pair
    master.put("a", 1)
    world.settle()
    world.cut_off.add(clone.id)
    world.tick(60)
    master.put("a", 2)
    master.flush()
    world.cut_off.clear()
    other = world.clone()
    world.settle()
    master.put("b", 3)
    world.settle()
    assert clone.contents() in ({"a": 1}, {"a": 2, "b": 3})
    world.tick(10)
    assert clone.contents() == other.contents() == {"a": 2, "b": 3}


# -- idleness ------------------------------------------------------------------------------------


def test_a_master_is_idle_when_every_clone_has_acknowledged_everything(world, pair):
    master, clone = pair
    master.put("a", 1)
    master.run(master.core.begin_idle(1))
    assert not master.is_idle(1)
    assert "requests have no answer" in master.core.explain_idle()
    master.flush()
    assert not master.is_idle(1)
    assert master.core.explain_idle() == f"not level: {clone.member.name}"
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
    master.put("a", 1)
    master.flush()
    clone = world.clone()
    while not world.under_way(Admitted):
        world.deliver(world.packets.pop(0))
    master.run(master.core.begin_idle(1))
    assert master.core.explain_idle() == f"not level: {clone.member.name}"
    assert not master.is_idle(1)
    world.settle()
    assert master.is_idle(1)
    assert clone.get("a") == 1


def test_idleness_does_not_wait_for_what_was_asked_later(world, disk):
    master = world.master(disk)
    master.put("a", 1)
    world.settle()
    master.put("a", 2)
    master.flush()
    master.run(master.core.begin_idle(1))
    master.put("a", 3)
    master.flush()
    assert not master.is_idle(1)
    master.commit()
    assert master.is_idle(1)
    master.work()
    assert master.commits, "the third put is on its way"


def test_a_master_that_is_never_at_rest_is_idle_with_what_was_asked_before(world, pair):
    master, _ = pair
    master.put("a", 1)
    master.run(master.core.begin_idle(1))
    for number in range(30):
        master.put("a", number)
        master.flush()
        for packet in list(world.packets):
            world.packets.remove(packet)
            world.deliver(packet)
    assert master.is_idle(1)


def test_a_wait_that_was_cancelled_is_never_over(world, pair):
    master, clone = pair
    master.put("a", 1)
    master.run(master.core.begin_idle(1))
    master.core.cancel_idle(1)
    world.tick(5)
    assert not master.is_idle(1)
    assert clone.get("a") == 1


# -- durability ----------------------------------------------------------------------------------


def test_nothing_is_told_or_shown_before_it_is_durable(world, disk):
    master = world.master(disk)
    clone = world.clone()
    world.tick()
    master.observe()
    master.put("known", 1)
    world.settle()
    number = master.put("a", 1)
    master.flush()
    late = world.clone()
    while world.packets:
        world.deliver(world.packets.pop(0))
    assert master.get("a") is None
    assert master.core.machine.keys() == [encode("known")]
    assert master.core.machine.entry(encode("a")) is None
    assert master.core.revision == 1
    assert number not in master.outcomes
    assert len(master.said(fx.Changed)) == 1
    assert late.has_data
    assert late.contents() == clone.contents() == {"known": 1}
    master.commit()
    assert master.get("a") == 1
    assert master.outcomes[number] == Applied(2)
    assert len(master.said(fx.Changed)) == 2
    world.settle()
    assert clone.contents() == late.contents() == {"known": 1, "a": 1}


def test_while_one_write_is_under_way_the_next_gathers(world, disk):
    master = world.master(disk)
    master.put("a", 0)
    world.settle()
    for number in range(1, 6):
        master.put("a", number)
        master.flush()
    assert len(master.commits[0].write.entries) == 1
    assert not master.core.has_work
    master.commit()
    assert not master.commits, "it waits for what is asked anew"
    master.put("a", 6)
    master.flush()
    assert not master.commits, "another one may be answered in this turn, too"
    assert master.core.has_work
    master.work()
    assert len(master.commits[0].write.entries) == 1, "all share an entry"
    assert master.get("a") == 1
    master.commit()
    assert master.get("a") == 6
    assert [master.outcomes[number].revision for number in range(1, 8)] == [1, 2, 3, 4, 5, 6, 7]
    assert not master.core.has_work


def test_what_is_asked_alone_leaves_at_once_and_so_does_more_than_an_entry_holds(world, disk):
    master = world.master(disk)
    master.put("a", 9)
    world.settle()
    for number in range(2):
        master.put("a", number)
        master.flush()
        assert master.commits, "nothing was under way"
        master.commit()
    journal = master.core.member.journal
    master.put("a", 2)
    master.flush()
    end = journal.end_index
    for number in range(PARCEL_COUNT - 1):
        master.put("a", number)
    master.flush()
    assert journal.end_index == end
    master.put("a", 3)
    master.flush()
    assert journal.end_index == end + 1


def test_a_failed_write_closes_the_master_and_claims_nothing(world, disk):
    master = world.master(disk)
    clone = world.clone()
    world.tick()
    for node in (master, clone):
        node.put("known", 1)
        world.settle()
    first = master.put("a", 1)
    master.flush()
    clones = clone.put("c", 1)
    clone.flush()
    while world.packets:
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
    assert master.said(Told) == [Told(News.DISK_FAILED, "the disk is full")]
    world.settle()
    assert clone.is_lost
    assert clone.said(fx.MasterLost)
    assert clones not in clone.outcomes
    assert clone.contents() == {"known": 1}
    with pytest.raises(StoreClosed):
        master.core.requests.clear()
    assert master.core.tick(world.now_ns) == master.core.flush() == []


def test_a_master_that_closes_says_goodbye_once(world, pair):
    master, clone = pair
    number = master.put("a", 1)
    master.close()
    master.close()
    assert len(master.said(fx.Closed)) == 1
    assert master.outcomes[number] == Applied(1)
    world.settle()
    assert clone.get("a") == 1
    assert clone.is_lost


# -- writers -------------------------------------------------------------------------------------


def put(request, value, writer=STRANGERS_LIFE):
    return PutCommand(writer, request, None, [encode("k"), encode(value)])


class Writer:
    """A stranger that writes with letters of its own."""

    def __init__(self, master):
        self.master = master
        self.ticket = 0
        self.number = self.ask(Register(STRANGERS_LIFE, 0)).number

    def ask(self, request):
        self.ticket += 1
        self.master.hear(Ask(self.ticket, request), MEMBER)
        self.master.world.settle()
        answers = [each for each in self.master.sent(Answered) if each.ticket == self.ticket]
        return answers[0].answer if answers else None

    def write(self, *requests, number=None):
        return self.ask(Write(number or self.number, requests, 0))


def test_a_repeated_request_is_applied_once(world):
    master = world.master()
    writer = Writer(master)
    first = writer.write(put(1, "first"))
    writer.write(put(2, "second"))
    assert writer.write(put(1, "first")) == first
    assert master.get("k") == "second"
    assert master.core.revision == 2


def test_a_writer_that_is_not_known_is_told_so_and_nothing_is_done(world):
    master = world.master()
    writer = Writer(master)
    assert writer.write(put(1, "x"), number=99) == UnknownWriter(99)
    assert writer.write(put(1, "x", WriterId.of(STRANGER, 2))) == UnknownWriter(writer.number)
    with pytest.raises(DecodeError, match="in the name of"):
        writer.write(put(1, "x", OTHER))
    with pytest.raises(DecodeError, match="in the name of"):
        writer.ask(Register(OTHER, 0))
    assert master.get("k") is None


def test_a_writer_that_lost_a_request_is_not_followed_further(world):
    master = world.master()
    writer = Writer(master)
    assert writer.write(put(2, "after the gap")) == OutOfOrder(1)
    assert master.get("k") is None


@pytest.mark.parametrize(
    "requests",
    [
        (put(3, "x"), put(4, "x", writer=OTHER)),
        (ExpireCommand([encode("k")]),),
        (PutCommand(STRANGERS_LIFE, None, None, [encode("k"), encode("x")]),),
        (PutCommand(STRANGERS_LIFE, 3, None, [encode("k"), b"\xff"]),),
        (PutCommand(STRANGERS_LIFE, 3, None, [b"\x18\x01", encode("x")]),),
        (AddCommand(STRANGERS_LIFE, 3, None, Initial.TEXT, [encode("k")]),),
        (),
    ],
    ids=["other writer", "expiry", "no number", "value", "key", "half a pair", "none"],
)
def test_a_malformed_request_costs_nothing_else(world, requests):
    master, clone = world.master(), world.clone()
    world.settle()
    writer = Writer(master)
    writer.write(put(1, "kept"), put(2, "kept"))
    with pytest.raises(DecodeError):
        writer.write(*requests)
    assert master.get("k") == "kept"
    number = clone.put("other", 1)
    world.settle()
    assert isinstance(clone.outcomes[number], Applied)
    assert isinstance(writer.write(put(3, "more")), tuple)
    assert clone.contents() == master.contents() == {"k": "more", "other": 1}


@pytest.mark.parametrize("payload", [b"", b"garbage", cbor2.dumps([1, 2, 3])])
def test_garbage_is_refused_and_costs_nothing(world, pair, payload):
    master, clone = pair
    with pytest.raises(DecodeError):
        master.core.receive(STRANGER.endpoint, payload)
    clone.put("a", 1)
    world.settle()
    assert master.contents() == clone.contents() == {"a": 1}


def test_there_is_room_until_much_is_on_its_way(world, disk, monkeypatch):
    monkeypatch.setattr("stores.replica.asked.outbox.UNRESOLVED_SIZE_MAX", 1000)
    master = world.master(disk)
    assert master.core.has_room()
    master.put("a", "x" * 2000)
    master.flush()
    assert not master.core.has_room()
    world.settle()
    assert master.core.has_room()


def test_what_a_member_that_never_joined_acknowledges_counts_for_nothing(world, pair):
    master, clone = pair
    content = next(each for each in clone.sent(FromFollower))
    (answer,) = master.hear(content, MEMBER)
    assert isinstance(CODEC.decode(answer.payload).content.message, UnknownConsumer)
    master.put("a", 1)
    world.settle()
    master.run(master.core.begin_idle(1))
    world.now_ns += TICK_NS
    assert master.is_idle(1)


@pytest.mark.parametrize("count", [1, 3])
def test_what_is_founded_anew_has_later_positions_than_what_was_lost(world, count):
    """As fencing tokens are: what they guard has kept one of before."""

    def end_after(writes: int) -> Position:
        node = world.master() if count == 1 else world.voters([None] * count)[0]
        for number in range(writes):
            node.put("k", number)
            node.flush()
            world.settle()
        assert node.contents() == {"k": writes - 1}
        return node.core.machine.position_of(node.core.machine.revision)

    lost = end_after(writes=9)
    for node in list(world.nodes):
        node.crash()
    world.packets.clear()
    world.now_ns += 10 * TICK_NS
    assert end_after(writes=1) > lost
