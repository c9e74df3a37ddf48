"""The clone as a whole: idleness, observers, and the end."""

from __future__ import annotations

import pytest

from stores import effects as fx
from stores.actions import Initial
from stores.effects import Changed
from stores.group.messages import Join, ReadFrom, ReadIndex, ToFollower
from stores.group.words import Answered, Ask
from stores.outcomes import Applied
from stores.replica.adopting import STRANDED_TICKS
from stores.replica.asked.outbox import REPEAT_TICKS
from stores.table import ChangeKind
from tests.stores.replica.conftest import TICK_NS, Node
from wire.encoding import encode
from wire.errors import ErrorCode, StoreClosed

# -- idleness ----------------------------------------------------------------------------------


def test_a_clone_is_idle_after_a_round_trip_with_its_master(pair, world):
    master, clone = pair
    clone.run(clone.core.begin_idle(1))
    assert not clone.is_idle(1)
    world.settle()
    assert clone.is_idle(1)
    assert clone.core.explain_idle() == master.core.explain_idle() == ""


def test_reads_after_idleness_are_never_behind(pair, world):
    master, clone = pair
    master.put("a", 1)
    master.flush()
    event, world.packets = world.packets, []
    clone.run(clone.core.begin_idle(1))
    world.settle()
    assert not clone.is_idle(1)
    for packet in event:
        world.deliver(packet)
    world.settle()
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
    assert other.get("a") is None
    other.run(other.core.begin_idle(1))
    world.settle()
    assert other.is_idle(1)
    assert other.get("a") == 1


def test_a_clone_is_not_idle_before_its_writes_are_answered(pair, world):
    _, clone = pair
    clone.put("a", 1)
    clone.run(clone.core.begin_idle(1))
    clone.flush()
    asked = world.under_way(Ask)
    world.packets = [packet for packet in world.packets if packet not in asked]
    world.settle()
    assert not clone.is_idle(1)
    assert clone.core.explain_idle() == "1 requests have no answer of the group"
    world.packets += asked
    world.settle()
    assert clone.is_idle(1)


def test_who_has_a_receipt_reads_what_it_wrote_at_its_clone(pair, world):
    master, clone = pair
    number = clone.put("a", 1)
    clone.flush()
    world.held_kinds = (ToFollower,)
    world.settle()
    assert master.get("a") == 1
    assert number not in clone.outcomes, "it would be read as if it had not been written"
    world.held_kinds = ()
    world.packets += world.held
    world.settle()
    assert clone.outcomes[number] == Applied(1)
    assert clone.get("a") == 1


@pytest.mark.parametrize("lost", [ReadIndex, ReadFrom])
def test_a_lost_question_or_answer_is_asked_again(pair, world, lost):
    _, clone = pair
    clone.run(clone.core.begin_idle(1))
    while not world.under_way(lost):
        world.deliver(world.packets.pop(0))
    world.packets.clear()
    world.settle()
    assert not clone.is_idle(1)
    world.tick(3)
    assert clone.is_idle(1)


def test_a_clone_that_waits_before_there_is_a_master_becomes_idle_with_it(world):
    clone = world.clone()
    clone.run(clone.core.begin_idle(1))
    world.tick(3)
    assert not clone.is_idle(1)
    assert clone.core.explain_idle()
    master = world.master()
    master.put("a", 1)
    world.tick(6)
    assert clone.is_idle(1)
    assert clone.get("a") == 1


def test_a_promoted_clone_answers_what_its_dead_master_did_not(pair, world):
    master, clone = pair
    other = world.clone()
    world.settle()
    clone.run(clone.core.begin_idle(1))
    master.crash()
    world.packets.clear()
    other.promote()
    other.put("b", 2)
    world.tick(10)
    assert clone.is_idle(1)
    assert clone.contents() == {"b": 2}


def test_a_clone_that_stops_waiting_hears_nothing(pair, world):
    _, clone = pair
    clone.run(clone.core.begin_idle(1))
    clone.core.cancel_idle(1)
    world.tick(6)
    assert not clone.is_idle(1)


# -- receipts ----------------------------------------------------------------------------------


def overtake(pair, world):
    """Have a clone put something, and ask again before the entry comes; gives the request."""
    _, clone = pair
    clone.put("first", 0)
    world.settle()
    world.held_kinds = (ToFollower,)
    request = clone.put("a", 1)
    clone.flush()
    world.tick(REPEAT_TICKS)
    assert clone.core.outbox.held
    assert clone.get("a") is None
    return request


def test_what_came_of_a_write_is_in_its_entry_and_nowhere_else(pair, world):
    clone = pair[1]
    clone.put("first", 0)
    world.settle()
    request = clone.put("a", 1)
    world.held_kinds = (Answered,)
    world.settle()
    assert not world.held
    assert clone.outcomes[request] == Applied(2)
    assert clone.get("a") == 1


def test_what_came_of_a_write_is_told_again_where_its_entry_does_not_come(pair, world):
    """The leader has no channel to a clone that joins anew: that is sent an answer."""
    master, clone = pair
    clone.put("first", 0)
    world.settle()
    master.core.member.leading.feeding.forget(clone.core.own)
    world.held_kinds = (ToFollower, Answered)
    clone.put("a", 1)
    world.settle()
    assert [packet.receiver for packet in world.held if isinstance(packet.content, Answered)] == [
        clone.id
    ]


def test_a_receipt_at_a_clone_comes_once_the_write_can_be_read_there(pair, world):
    clone = pair[1]
    request = overtake(pair, world)
    assert request not in clone.outcomes
    world.held_kinds = ()
    world.packets += world.held
    world.settle()
    assert clone.outcomes[request] == Applied(2)
    assert clone.get("a") == 1
    assert clone.core.shows_all_told


def test_a_clone_is_not_idle_while_a_receipt_is_held_back(pair, world):
    clone = pair[1]
    request = clone.put("a", 1)
    clone.flush()
    clone.run(clone.core.begin_idle(1))
    world.packets.sort(key=lambda packet: isinstance(packet.content, Ask))  # the read comes first
    world.held_kinds = (ToFollower,)
    world.settle()
    world.tick(REPEAT_TICKS)  # It asks again, and is answered.
    assert request not in clone.outcomes
    assert not clone.is_idle(1)
    assert "not to be seen here yet" in clone.core.explain_idle()
    world.held_kinds = ()
    world.packets += world.held
    world.settle()
    assert clone.outcomes[request] == Applied(1)
    assert clone.is_idle(1)


@pytest.mark.parametrize("end", ["its master is lost", "it closes"])
def test_a_receipt_that_came_is_kept_back_by_no_end(pair, world, end):
    master, clone = pair
    request = overtake(pair, world)
    world.packets.clear()
    if end == "it closes":
        clone.close()
    else:
        master.crash()
        clone.run(clone.core.peer_unreachable(master.id))
        world.tick(30)
    assert clone.outcomes[request] == Applied(2)
    assert not clone.core.shows_all_told, "a read of the session waits for it"


def test_an_answer_behind_one_that_is_missing_is_kept_back_by_no_end(pair, world):
    _, clone = pair
    clone.put("first", 0)
    world.settle()
    world.held_kinds = (ToFollower,)
    first, second = [(clone.put(key, 1), clone.flush())[0] for key in "ab"]
    world.tick(REPEAT_TICKS - 1)
    world.held_kinds = (ToFollower, Answered)
    world.tick()
    _, late = [packet for packet in world.held if isinstance(packet.content, Answered)]
    world.held_kinds = (ToFollower,)
    world.deliver(late)
    assert not {first, second} & set(clone.outcomes)
    clone.close()
    assert clone.outcomes[first].code == ErrorCode.SHUTTING_DOWN
    assert clone.outcomes[second] == Applied(3)


# -- the rest ----------------------------------------------------------------------------------


def test_an_observed_clone_tells_every_change_with_its_writer(pair, world):
    master, clone = pair
    clone.observe()
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


def test_an_observed_master_tells_the_same(pair, world):
    master, clone = pair
    for node in pair:
        node.observe()
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
    clone.close()
    clone.close()
    assert clone.outcomes[first] == Applied(1)
    assert clone.outcomes[second].code == ErrorCode.SHUTTING_DOWN
    assert len(clone.said(fx.Closed)) == 1
    with pytest.raises(StoreClosed):
        clone.core.requests.clear()
    world.settle()
    assert clone.get("a") == 1
    assert clone.core.tick(0) == clone.core.flush() == []


def test_answers_to_others_answer_nothing_of_a_clone(pair, world):
    master, clone = pair
    other = world.clone()
    world.settle()
    numbers = [node.put("a", node.id) for node in (clone, other)]
    clone.flush()
    other.flush()
    mine = [packet for packet in world.packets if packet.sender == clone.id]
    world.packets = [packet for packet in world.packets if packet not in mine]
    world.settle()
    assert other.outcomes == {numbers[1]: Applied(1)}
    assert clone.outcomes == {}
    assert clone.get("a") == master.get("a") == other.id


# -- two masters -------------------------------------------------------------------------------


def lead_apart(world) -> list[Node]:
    """Give two masters that have something each, and have not met."""
    masters = [world.master(), world.master()]
    for number, master in enumerate(masters):
        master.put("whose", number)
        master.flush()
    world.packets.clear()
    return masters


def test_a_clone_in_reach_of_two_masters_follows_one_of_them_and_is_content(world):
    lead_apart(world)
    clone = world.clone()
    for _ in range(100):  # It asks, is answered by both, and joins one.
        if world.packets:
            world.deliver(world.packets.pop(0))
    assert not world.packets, "it goes from one to the other, and greets them all each time"
    world.tick(20)
    assert clone.contents() in ({"whose": 0}, {"whose": 1})
    assert len(clone.sent(Join)) == 1


def test_a_clone_that_joined_a_group_whose_master_is_gone_goes_over_to_another_one(world):
    first, second = lead_apart(world)
    world.cut_off = {second.id}
    clone = world.clone()
    while clone.core.group is None:
        world.deliver(world.packets.pop(0))
    first.crash()
    world.packets.clear()
    world.cut_off.clear()
    world.tick(2 * STRANDED_TICKS)
    assert clone.contents() == {"whose": 1}
