"""A voter that is killed and starts again on its file: late answers are its earlier life's."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from peermesh.testing.simulation.disk import Disk
from stores.actions import PutCommand
from stores.disk.founding import Founding
from stores.disk.replica import SQLiteReplica
from stores.group.clock import SECOND_NS
from stores.group.entries import ActionEntry
from stores.group.messages import ReadFrom
from stores.group.positions import MemberId
from stores.group.words import Answered, Ask
from stores.outcomes import Applied
from stores.quota import Quota
from stores.replica import kept
from stores.replica.effects import AskDone
from stores.table.bodies import ChangeQuota, OpenSession, Performed, SessionGranted
from stores.table.codec import TableCodec
from tests.stores.replica.conftest import Node, World
from wire.encoding import encode


class Trio:
    """A group of three on disks: its leader, one that is killed, and one that can be cut off."""

    def __init__(self, world: World) -> None:
        self.world = world
        disks = [Disk() for _ in range(3)]
        nodes = world.voters(disks)
        self.leader = next(node for node in nodes if node.core.is_leader)
        self.killed, self.other = (node for node in nodes if node is not self.leader)
        self._disk = disks[nodes.index(self.killed)]
        world.tick(3)

    def leave_asked(self) -> None:
        """Have the leader hear what was asked, and no majority have the entry of it."""
        self.world.cut_off.add(self.other.id)
        asked = self.world.under_way(Ask)
        assert asked
        self.world.packets.clear()
        for packet in asked:
            self.world.deliver(packet)
        while self.leader.commits:
            self.leader.commit()
        self.world.packets.clear()

    def restart(self) -> Node:
        self.killed = self.world.restart(self.killed, self._disk)
        return self.killed


def test_a_late_registration_of_an_earlier_life_is_none_of_the_next_one(world: World) -> None:
    trio = Trio(world)
    trio.killed.put("a", 1)
    trio.killed.flush()
    trio.leave_asked()
    again = trio.restart()
    number = again.put("b", 2)
    world.tick(3)
    assert len(trio.leader.sent(Answered)) >= 2, "the first one is answered, too"
    assert isinstance(again.outcomes.get(number), Applied), again.outcomes


def test_a_late_answer_to_a_request_of_no_writer_is_none_of_the_next_ones(world: World) -> None:
    trio = Trio(world)
    trio.killed.run(trio.killed.core.begin_ask(1, ChangeQuota(Quota(max_entries=10))))
    trio.leave_asked()
    again = trio.restart()
    again.run(again.core.begin_ask(1, OpenSession(b"n" * 16, 5 * SECOND_NS)))
    world.tick(15)
    (done,) = again.said(AskDone)
    assert isinstance(done.answer, SessionGranted), done


def test_a_late_word_for_a_read_of_an_earlier_life_lets_none_begin(world: World) -> None:
    trio = Trio(world)
    world.held_kinds = (ReadFrom,)
    trio.killed.run(trio.killed.core.begin_read(1))
    world.settle()
    (late,) = world.held
    again = trio.restart()
    world.tick(3)
    world.cut_off.add(again.id)
    number = trio.leader.put("a", 1)
    world.settle()
    assert isinstance(trio.leader.outcomes[number], Applied)
    world.cut_off.clear()
    again.run(again.core.begin_read(1))
    world.held_kinds = ()
    world.deliver(late)
    assert not again.is_idle(1), "it does not see what was written before it began"
    world.tick(3)
    assert again.is_idle(1)
    assert again.get("a") == 1


@pytest.mark.parametrize("is_compacted", [False, True], ids=["journal", "snapshot"])
def test_what_a_lead_by_force_lacks_lies_beside_the_file_of_a_voter_that_comes_back(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_compacted: bool
) -> None:
    monkeypatch.setattr(kept, "KEPT_ENTRIES", 5 if is_compacted else 1_000)
    paths = [tmp_path / f"{number}.db" for number in range(3)]
    nodes = world.voters(paths)
    leader = next(node for node in nodes if node.core.is_leader)
    back, forced = (node for node in nodes if node is not leader)
    world.cut_off.add(forced.id)
    number = leader.put("old", 1)
    world.settle()
    assert isinstance(leader.outcomes[number], Applied)
    leader.crash()
    back.crash()
    world.cut_off.clear()
    forced.run(forced.core.force())
    for number in range(20):
        forced.put(number, "new")
        world.settle()
    world.tick(40)
    assert forced.core.member is not None
    assert (forced.core.member.journal.floor.index > 5) == is_compacted
    path = paths[nodes.index(back)]
    back = world.restart(back, path)
    world.tick(30)
    assert back.contents() == dict.fromkeys(range(20), "new")
    (lost,) = tmp_path.glob(f"{path.name}.lost-*")
    with closing(SQLiteReplica(lost, TableCodec())) as file:
        entries = file.load(Founding(bytes(16), MemberId("", 0), 0)).entries
    bodies = [entry.body for entry in entries if isinstance(entry, ActionEntry)]
    (put,) = (each for body in bodies if isinstance(body, Performed) for each in body.actions)
    assert isinstance(put, PutCommand)
    assert put.pairs == (encode("old"), encode(1))
