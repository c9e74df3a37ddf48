"""How a clone writes through its master: lazily, once, and with an answer for everything."""

from __future__ import annotations

from stores import commands, effects as fx
from stores.actions import WriterId
from stores.commands import Actions
from stores.encoding import decode_command
from stores.outcomes import Applied, Outcome, Refused
from stores.writing import Writing
from wire.errors import ErrorCode
from wire.identifiers import EndpointId, EntityId

WRITER = WriterId.of(EntityId(EndpointId(bytes(16)), 1), 1)


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
    assert clone.outcomes[unique] == Applied(1, answer=False)
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
    winners = [node for node, number in numbers if node.outcomes[number].answer]
    assert len(winners) == 1
    assert master.get("leader") == nodes.index(winners[0])


def test_outcomes_of_what_was_never_asked_resolve_nothing():
    effects: list[fx.Effect] = []
    writing = Writing(WRITER, effects, incarnation=1)
    writing.add_encoded(2, b"asked")
    writing.resolve(Outcome(2**62, 2**62, Applied(1)))
    assert effects == []
    writing.resolve(Outcome(1, 2**62, Applied(1)))
    assert effects == [fx.Resolve(Outcome(1, 2, Applied(1)))]
