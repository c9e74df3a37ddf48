"""Clones that become masters: who follows whom, what is applied again, and what is refused."""

from __future__ import annotations

import pytest

from peermesh.testing.simulation.disk import Disk
from stores.group.messages import FromFollower, HigherTerm, Keepalive, ToFollower
from stores.group.roles import DEFAULT_TIMING
from stores.group.terms import FORCED_TERMS, LEAD_TERMS
from stores.outcomes import Applied, Refused
from stores.replica.effects import News, Told
from wire.errors import ErrorCode

NOW_NS = 1_800_000_000 * 10**9
SILENCE_TICKS = DEFAULT_TIMING.timeout_ticks_max + 1


# -- who follows whom ------------------------------------------------------------------------------


def test_a_clone_of_a_later_term_does_not_follow_an_earlier_master_even_if_it_is_the_only_one(
    world,
):
    old, first, second = world.master(), world.clone(), world.clone()
    world.settle()
    old.put("a", "old")
    world.settle()
    world.cut_off.add(old.id)
    world.tick(SILENCE_TICKS)
    first.promote()
    first.put("a", "new")
    world.tick(5)
    assert second.get("a") == "new"
    first.crash()
    old.put("a", "late")
    world.cut_off.clear()
    for _ in range(SILENCE_TICKS + 20):
        # Only clones are there to tell it: no other master is.
        world.tick()
        assert second.get("a") == "new"
    assert not old.core.is_leader, "a clone has told it"
    assert second.is_lost
    second.promote()
    world.tick(10)
    assert old.get("a") == "new"
    assert not old.is_master
    assert second.core.epoch // FORCED_TERMS == 2


@pytest.mark.parametrize(
    "term_of",
    [
        lambda term: (term // FORCED_TERMS + 1) * FORCED_TERMS,
        lambda term: term + LEAD_TERMS,
    ],
    ids=["a later stretch, less than one ahead", "the same stretch"],
)
def test_a_master_is_deposed_by_the_term_of_another_lead_by_force(world, term_of):
    master, first = world.master(), world.clone()
    first.put("a", 1)
    world.tick(3)
    master.crash()
    first.promote()
    world.settle()
    clone = world.clone()
    world.tick(3)
    term = term_of(first.core.epoch)
    assert 0 < term - first.core.epoch < FORCED_TERMS
    first.hear(HigherTerm(term), clone)
    assert not first.is_master
    world.tick(3 * SILENCE_TICKS)
    assert not first.core.is_leader, "both would elect themselves in one term"


def test_a_clone_that_hears_an_earlier_master_tells_it_and_leaves_its_own_alone(world):
    old, clone = world.master(), world.clone()
    world.settle()
    (heard, *_) = old.sent(Keepalive)
    world.cut_off.add(old.id)
    other = world.clone()
    clone.promote()
    world.tick(5)
    assert other.has_data
    other.hear(heard, old)
    assert other.sent(HigherTerm), "it hears of the later term"
    assert not other.is_lost


# -- what is applied again -------------------------------------------------------------------------


@pytest.mark.parametrize("is_early", [True, False], ids=["from the journal", "from the snapshot"])
def test_what_the_last_master_applied_is_not_applied_again(world, is_early, monkeypatch):
    monkeypatch.setattr("stores.replica.kept.KEPT_ENTRIES", 0)
    master, writer = world.master(), world.clone()
    heir = world.clone() if is_early else None
    world.tick()
    number = writer.increment("n")
    unique = writer.put_unique("u", 1)
    writer.flush()
    while others := [packet for packet in world.packets if packet.receiver != writer.id]:
        world.packets.remove(others[0])
        world.deliver(others[0])
        # It learns that it is registered, and nothing of what it asked for.
        answers = [packet for packet in world.packets if packet.receiver == writer.id]
        if answers and master.get("n") is None:
            world.packets.remove(answers[0])
            world.deliver(answers[0])
    assert master.get("n") == 1
    world.cut_off.add(writer.id)
    world.settle()
    assert not writer.outcomes
    if heir is None:
        heir = world.clone()
        world.settle()
    assert heir.get("n") == 1
    master.crash()
    heir.promote()
    world.cut_off.clear()
    world.tick(SILENCE_TICKS + 10)
    assert heir.get("n") == writer.get("n") == 1
    assert writer.outcomes[number] == Applied(1)
    assert writer.outcomes[unique].answer


@pytest.mark.parametrize("is_kept", [False, True], ids=["memory", "file"])
def test_the_heirs_own_requests_are_answered_by_itself(world, is_kept):
    master, heir = world.master(), world.clone()
    world.settle()
    applied = heir.increment("n")
    heir.flush()
    world.settle()
    asked, unique = heir.increment("n"), heir.put_unique("u", 1)
    heir.flush()
    master.crash()
    world.packets.clear()
    heir.promote(Disk() if is_kept else None)
    world.settle()
    assert heir.outcomes[applied] == Applied(1)
    assert heir.outcomes[asked].revision > FORCED_TERMS, "no revision is given again"
    assert heir.outcomes[unique].answer
    assert heir.get("n") == 2


def test_a_put_unique_is_not_parted_from_its_answer(pair, world):
    master, heir = pair
    writer = world.clone()
    world.settle()
    writer.put("a", 1)
    world.settle()
    unique = writer.put_unique("u", 1)
    writer.flush()
    while not (events := [p for p in world.under_way(ToFollower) if p.receiver == heir.id]):
        world.deliver(world.packets.pop(0))
    world.deliver(events[0])
    master.crash()
    world.packets.clear()
    heir.promote()
    world.tick(SILENCE_TICKS + 10)
    assert heir.get("u") == 1
    assert writer.outcomes[unique].answer


def test_a_writer_goes_on_whose_answered_requests_were_lost_by_force(pair, world):
    master, heir = pair
    writer = world.clone()
    world.settle()
    writer.put("a", 1)
    world.settle()
    world.cut_off.add(heir.id)
    lost = writer.put("lost", 1)
    world.settle()
    assert isinstance(writer.outcomes[lost], Applied)
    writer.crash()
    world.nodes.append(writer)
    master.crash()
    world.cut_off.clear()
    heir.promote()
    later = writer.put("later", 1)
    world.tick(20)
    assert isinstance(writer.outcomes[later], Applied)
    assert heir.contents() == {"a": 1, "later": 1}
    assert [told.news for told in writer.said(Told)] == [News.CONFLICT], "it knows of more"


# -- what is refused -------------------------------------------------------------------------------


def test_a_deposed_master_refuses_what_is_under_way_and_goes_on_as_a_clone(world, disk):
    old, heir = world.master(disk), world.clone()
    world.settle()
    old.put("known", 1)
    world.settle()
    world.cut_off.add(old.id)
    number = old.put("a", 1)
    old.flush()
    assert old.commits, "it is on its way to the disk"
    heir.promote()
    world.cut_off.clear()
    world.packets.clear()
    heir.tick()
    while world.packets:
        world.deliver(world.packets.pop(0))
    assert old.deposed == [heir.id]
    refused = old.outcomes[number]
    assert isinstance(refused, Refused)
    assert refused.code is ErrorCode.FENCED
    assert refused.text.endswith("whether it was applied is unknown")
    later = old.put("b", 2)
    old.flush()
    world.tick(10)
    assert isinstance(old.outcomes[later], Applied)
    assert old.contents() == heir.contents()
    assert old.get("b") == 2
    heir.crash()
    kept = world.master(disk)
    assert kept.get("known") == 1, "the file of the deposed master stays as it was"


@pytest.mark.parametrize("is_kept", [False, True], ids=["memory", "file"])
def test_a_deposed_master_that_hears_of_it_from_a_clone_does_not_take_the_lead_again(
    world, is_kept
):
    old, heir, other = world.master(), world.clone(), world.clone()
    world.settle()
    world.cut_off.add(old.id)
    heir.promote(Disk() if is_kept else None)
    heir.put("a", "new")
    world.tick(5)
    world.cut_off = {heir.id}
    old.put("a", "late")
    world.tick(30)
    assert not old.is_master
    assert other.get("a") == "new"
    world.cut_off.clear()
    world.tick(10)
    assert heir.is_master
    assert old.get("a") == heir.get("a") == other.get("a") == "new"


def test_a_clone_that_knows_of_missing_entries_says_how_many(pair, world):
    master, clone = pair
    master.put("a", 1)
    world.settle()
    world.cut_off.add(clone.id)
    for number in range(3):
        master.put(number, "x")
        world.settle()
    world.cut_off.clear()
    master.tick()
    world.packets = world.under_way(Keepalive)
    world.deliver(world.packets.pop())
    world.packets = [each for each in world.packets if not isinstance(each.content, FromFollower)]
    clone.run(clone.core.peer_unreachable(master.id))
    assert clone.core.missing_count == 3


# -- requests without a master ---------------------------------------------------------------------


def test_requests_that_find_no_master_fail_and_are_never_sent(world):
    clone = world.clone(buffer_ticks=10)
    number = clone.put("a", 1)
    world.tick(11)
    assert clone.outcomes[number].code is ErrorCode.NO_SUCH_MASTER
    assert clone.outcomes[number].text.endswith("it was not applied")
    master = world.master()
    later = clone.put("b", 2)
    world.tick(10)
    assert clone.outcomes[later] == Applied(1)
    assert master.contents() == {"b": 2}


def test_requests_that_a_lost_master_may_have_are_refused_as_unknown(world):
    master, clone = world.master(), world.clone(buffer_ticks=10)
    world.settle()
    clone.put("known", 1)
    world.settle()
    world.cut_off.add(master.id)
    number = clone.put("a", 1)
    clone.flush()
    world.tick(SILENCE_TICKS + 12)
    assert clone.outcomes[number].text.endswith("whether it was applied is unknown")
    world.cut_off.clear()
    world.tick(20)
    assert master.contents() == {"known": 1}, "it is not sent again"


def test_an_empty_store_in_a_file_of_its_own_takes_over_no_other_ones_history(world, tmp_path):
    master, clone = world.master(), world.clone()
    world.tick(3)
    master.close()
    master.crash()
    clone.promote(tmp_path / "store.db")
    world.cut_off.add(clone.id)
    other, copy = world.master(), world.clone()
    other.put("a", 1)
    world.tick(3)
    other.close()
    other.crash()
    world.cut_off.clear()
    group = clone.core.group
    for node, found in ((clone, copy), (copy, clone)):
        node.run(node.core.endpoint_discovered(found.id))
        world.settle()
    world.tick(30)
    assert clone.core.group == group, "a file is of one group"
    assert clone.core.is_leader
    assert copy.contents() == {"a": 1}
    assert [told.news for told in clone.said(Told)] == [News.CONFLICT]
