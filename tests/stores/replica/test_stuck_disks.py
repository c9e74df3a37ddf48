"""A follower whose disk takes nothing: it keeps no more in memory than its leader does for it."""

from __future__ import annotations

import pytest

from peermesh.testing.simulation.disk import Disk
from stores.group import member_parts
from stores.group.messages import Admitted, Echo, Join
from stores.group.words import Order
from stores.outcomes import Applied
from stores.replica import kept
from tests.stores.replica.conftest import Node, World

SIZE = 1_000


def written(leader: Node, count: int) -> None:
    """Have a leader do many writes, of which one voter's disk has none."""
    world = leader.world
    for number in range(count):
        request = leader.put(number % 7, "x" * (SIZE // 10))
        world.settle()
        assert isinstance(leader.outcomes[request], Applied), "the others are a majority"
        if number % 5 == 0:
            world.tick()


@pytest.mark.parametrize("limit", ["bytes", "entries"])
def test_a_follower_whose_disk_is_stuck_takes_on_no_more_than_its_leader_keeps(
    world: World, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    if limit == "bytes":
        monkeypatch.setattr(kept, "SLOW_SIZE", 10 * SIZE)
    else:
        monkeypatch.setattr(member_parts, "JOURNAL_MAX", 100)
    nodes = world.voters([Disk() for _ in range(3)])
    leader = next(node for node in nodes if node.core.is_leader)
    stuck = next(node for node in nodes if node is not leader)
    member = stuck.core.member
    assert member is not None
    written(leader, 20)
    world.stuck.add(stuck.id)
    written(leader, 400)
    assert member.journal.end_index - member.journal.durable < 200
    count = len(leader.sent(Admitted))
    world.tick(10)
    assert len(leader.sent(Admitted)) == count, "it does not join again and again meanwhile"
    assert stuck.core.is_served, "it is there, and votes"
    world.stuck.clear()
    world.settle()
    world.tick(5)
    assert member.journal.durable == member.state.commit
    assert stuck.contents() == leader.contents()


def test_a_follower_whose_disk_was_stuck_as_the_lead_changed_says_no_word_many_times(
    world: World,
) -> None:
    nodes = world.voters([Disk() for _ in range(3)])
    leader = next(node for node in nodes if node.core.is_leader)
    heir, stuck = (node for node in nodes if node is not leader)
    world.stuck.add(stuck.id)
    leader.run(leader.core.begin_order(1, Order.LEAD, heir.member.name))
    world.tick(20)
    assert heir.core.is_leader
    written(heir, 20)
    before = len(stuck.sent(Join)), len(stuck.sent(Echo))
    world.tick(100)
    assert (len(stuck.sent(Join)), len(stuck.sent(Echo))) == before, "its promise is not saved"
    world.stuck.clear()
    world.settle()
    joins, echoes = len(stuck.sent(Join)) - before[0], len(stuck.sent(Echo)) - before[1]
    assert (joins, echoes) == (1, 1), "each would be answered with entries, or a snapshot"
    world.tick(3)
    assert stuck.contents() == heir.contents()
