"""Clones that become masters: who follows whom, what is applied again, and what is refused."""

from __future__ import annotations

import pytest

from stores import commands, effects as fx
from stores.clone import Clone
from stores.epochs import TERM_MAX, next_epoch, promoted, started_at, term_of
from stores.outcomes import Applied, Refused
from stores.seeker import SILENCE_TICKS, State
from stores.stages import ACTION_SIZE
from stores.table import ChangeKind
from wire.encoding import encode
from wire.errors import ErrorCode, LimitExceeded, PromotionRefused

NOW_NS = 1_800_000_000 * 10**9


# -- epochs ----------------------------------------------------------------------------------------


def test_a_later_start_leads_within_a_term_and_a_later_term_leads_always():
    first, second = started_at(NOW_NS), started_at(NOW_NS + 10**9)
    later = promoted(first, NOW_NS - 10**12)
    assert 0 == term_of(second) < term_of(later) == 1
    assert first < second < later
    assert next_epoch(first, second) == second
    assert next_epoch(second, first) == second + 1, "a clock that went back"
    assert next_epoch(later, second) > later
    assert term_of(next_epoch(later, second)) == 1, "a restart keeps its term"
    assert next_epoch(0, later) == later


def test_terms_come_to_an_end_before_databases_run_out_of_numbers():
    last = promoted((TERM_MAX - 1) << 48, NOW_NS)
    assert last < 1 << 63
    with pytest.raises(LimitExceeded):
        promoted(last, NOW_NS)


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
    assert isinstance(old.core, Clone), "a clone has told it"
    assert second.core._seeker.state is State.SEARCHING or second.core.is_lost
    second.promote()
    world.tick(5)
    assert old.get("a") == "new"
    assert term_of(second.core.epoch) == 2


def test_a_clone_that_hears_an_earlier_master_tells_it_and_leaves_its_own_alone(world):
    old, clone = world.master(), world.clone()
    world.settle()
    world.cut_off.add(old.id)
    other = world.clone()
    clone.promote()
    world.tick(5)
    assert other.core.has_data
    other.hear(
        commands.KeepaliveCommand(),
        sender=old.core.entity,
        epoch=old.core.epoch,
        session=other.core._following._session,
    )
    told = [packet for packet in world.packets if packet.receiver == old.id]
    assert told, "it hears of the later term"
    assert other.core._seeker.is_in_touch


# -- what is applied again -------------------------------------------------------------------------


@pytest.mark.parametrize("is_early", [True, False], ids=["from the stream", "from the snapshot"])
def test_what_the_last_master_applied_is_not_applied_again(world, is_early):
    master, writer = world.master(), world.clone()
    heir = world.clone() if is_early else None
    world.settle()
    number = writer.increment("n")
    unique = writer.put_unique("u", 1)
    writer.flush()
    while others := [packet for packet in world.packets if packet.receiver != writer.id]:
        world.packets.remove(others[0])
        world.deliver(others[0])
    world.cut_off.add(writer.id)
    world.settle()
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


def test_the_heirs_own_requests_are_answered_by_itself(world):
    master, heir = world.master(), world.clone()
    world.settle()
    applied = heir.increment("n")
    heir.flush()
    world.settle()
    asked = heir.increment("n")
    heir.flush()
    master.crash()
    world.packets.clear()
    heir.promote()
    world.settle()
    assert heir.outcomes[applied] == Applied(1)
    assert heir.outcomes[asked] == Applied(2)
    assert heir.get("n") == 2


def test_a_put_unique_is_not_parted_from_its_answer(pair, world, monkeypatch):
    monkeypatch.setattr("stores.broadcasting.RUN_COUNT_MAX", 1)
    master, heir = pair
    writer = world.clone()
    world.settle()
    unique = writer.put_unique("u", 1)
    writer.flush()
    events = []
    while len(events) < 2:
        world.deliver(world.packets.pop(0))
        events = [packet for packet in world.packets if packet.receiver == heir.id]
    world.deliver(events[0])
    assert heir.get("u") is None, "half of it is not shown"
    master.crash()
    world.packets.clear()
    heir.promote()
    world.tick(SILENCE_TICKS + 10)
    assert writer.outcomes[unique].answer


# -- what is refused -------------------------------------------------------------------------------


def test_a_deposed_master_refuses_what_is_under_way_and_goes_on_as_a_clone(
    world, make_kept_backend
):
    backend = make_kept_backend()
    old, heir = world.master(backend), world.clone()
    world.settle()
    world.cut_off.add(old.id)
    number = old.put("a", 1)
    old.flush()
    assert old.commits, "it is on its way to the disk"
    heir.promote()
    world.cut_off.clear()
    commits = old.commits
    old.commits = []
    world.tick(30)
    assert commits
    (deposed,) = old.said(fx.Deposed)
    assert deposed.master == heir.core.entity
    refused = old.outcomes[number]
    assert isinstance(refused, Refused)
    assert refused.code is ErrorCode.FENCED
    later = old.put("b", 2)
    old.flush()
    world.tick(10)
    assert old.outcomes[later] == Applied(1)
    assert old.contents() == heir.contents() == {"b": 2}


def test_observers_of_a_deposed_master_hear_of_what_was_lost(world):
    old, heir = world.master(is_observed=True), world.clone()
    world.settle()
    world.cut_off.add(old.id)
    old.put("late", 1)
    world.settle()
    heir.promote()
    world.cut_off.clear()
    world.tick(5)
    changes = old.said(fx.Changed)
    assert [change.kind for change in changes] == [ChangeKind.INSERT, ChangeKind.ERASE]
    assert changes[1].key == encode("late")


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (lambda world, master, clone: None, "its master is alive"),
        (lambda world, master, clone: world.nodes.remove(clone), "never had a snapshot"),
    ],
)
def test_a_promotion_that_would_lose_something_is_refused(world, prepare, reason):
    master, clone = world.master(), world.clone()
    prepare(world, master, clone)
    world.settle()
    with pytest.raises(PromotionRefused, match=reason):
        clone.core.assess(world.now_ns).check("s", is_forced=False)


def test_a_clone_that_knows_of_missing_events_says_how_many(pair, world):
    master, clone = pair
    for number in range(3):
        master.put(number, "x" * ACTION_SIZE)
        master.flush()
    world.packets = [packet for packet in world.packets if packet.receiver == clone.id][-1:]
    world.settle()
    clone.run(clone.core.peer_unreachable(master.id))
    with pytest.raises(PromotionRefused, match="events of the master are missing"):
        clone.core.assess(world.now_ns).check("s", is_forced=False)


# -- requests without a master ---------------------------------------------------------------------


def test_requests_that_find_no_master_fail_and_are_never_sent(world):
    clone = world.clone(buffer_ticks=10)
    number = clone.put("a", 1)
    world.tick(11)
    assert clone.outcomes[number].code is ErrorCode.NO_SUCH_MASTER
    master = world.master()
    later = clone.put("b", 2)
    world.tick(10)
    assert clone.outcomes[later] == Applied(1)
    assert master.contents() == {"b": 2}


def test_requests_that_a_lost_master_may_have_are_refused_as_unknown(world):
    master, clone = world.master(), world.clone(buffer_ticks=10)
    world.settle()
    world.cut_off.add(master.id)
    number = clone.put("a", 1)
    clone.flush()
    world.tick(SILENCE_TICKS + 12)
    assert clone.outcomes[number].code is ErrorCode.REQUEST_TIMEOUT
    world.cut_off.clear()
    world.tick(20)
    assert master.contents() == {}, "it is not sent again"
