"""A durable master is killed at every step: nothing acknowledged is lost, nothing happens twice."""

from __future__ import annotations

import pytest

from peermesh.testing.simulation.disk import Disk
from stores.outcomes import Applied, Refused
from wire.errors import ErrorCode

WRITES = 6


class Story:
    """One clone counts, step by step; the master can be killed between any two of the steps."""

    def __init__(self, world) -> None:
        self.world = world
        self.disk = Disk()
        self.master = world.master(self.disk)
        self.clone = world.clone()
        world.tick()

    def steps(self):
        """Everything that happens, one thing at a time."""
        for _ in range(WRITES):
            self.clone.increment("n")
            self.clone.subtract("missing", 1)
            self.clone.flush()
            yield "asked"
            while self.world.packets or self.master.commits:
                if self.world.packets:
                    self.world.deliver(self.world.packets.pop(0))
                    yield "delivered"
                else:
                    master = self.master
                    token = master.commit(is_told=False)
                    yield "written, and the master does not know"
                    if master.is_alive:
                        master.written(token)
                        yield "told"

    def kill(self) -> None:
        acknowledged = [
            outcome.revision
            for outcome in self.clone.outcomes.values()
            if isinstance(outcome, Applied)
        ]
        self.master.crash()
        self.master = self.world.master(self.disk)
        assert self.master.core.revision >= max(acknowledged, default=0)

    def finish(self) -> None:
        self.clone.run(self.clone.core.begin_idle(1))
        self.world.tick(40)
        assert self.clone.is_idle(1), self.clone.core.explain_idle()


def test_a_master_killed_at_any_step_loses_and_repeats_nothing(make_world):
    count = sum(1 for _ in Story(make_world()).steps())
    assert count > 5 * WRITES
    for number in range(count):
        story = Story(make_world())
        for step, _ in enumerate(story.steps()):
            if step == number:
                story.kill()
        story.finish()
        clone, master = story.clone, story.master
        assert clone.get("n") == master.get("n") == WRITES, f"killed after step {number}"
        outcomes = [clone.outcomes[request] for request in range(1, 2 * WRITES + 1)]
        assert all(isinstance(outcome, Applied) for outcome in outcomes[::2])
        assert {outcome.code for outcome in outcomes[1::2]} == {ErrorCode.NO_SUCH_KEY}
        revisions = [outcome.revision for outcome in outcomes[::2]]
        assert revisions == list(range(1, WRITES + 1)), "each names its own mutation"


def test_a_restart_keeps_values_revisions_expiries_and_the_writers(world, tmp_path):
    master = world.master(tmp_path / "store.db")
    clone = world.clone()
    world.settle()
    clone.put("plain", 1)
    clone.put("short", 2, 10**9)
    clone.put("long", 3, 10**12)
    clone.erase("missing")
    world.settle()
    columns, epoch = master.columns, master.core.epoch
    master.crash()
    world.now_ns += 2 * 10**9
    again = world.master(tmp_path / "store.db")
    assert again.columns == columns
    assert again.core.revision == 4
    assert again.core.epoch > epoch
    world.tick(9)
    assert "short" in again.contents(), "it did not expire while the store was closed"
    world.tick()
    assert again.contents() == {"plain": 1, "long": 3}
    world.tick(10)
    assert clone.contents() == again.contents()


def test_outcomes_survive_with_the_master(world, tmp_path):
    """The clone hears nothing until the master has been killed and is back."""
    master = world.master(tmp_path / "store.db")
    clone = world.clone()
    world.settle()
    applied, unique = clone.put("a", 1), clone.put_unique("a", 2)
    refused = clone.subtract("missing", 1)
    clone.flush()
    world.nodes.remove(clone)
    world.settle()
    world.nodes.append(clone)
    world.packets.clear()
    assert clone.outcomes == {}
    master.crash()
    again = world.master(tmp_path / "store.db")
    world.tick(40)
    assert clone.outcomes[applied] == Applied(1)
    assert clone.outcomes[unique] == Applied(1, answer=False)
    assert isinstance(clone.outcomes[refused], Refused)
    assert again.core.revision == 1


def test_a_clear_is_durable_and_what_came_before_it_is_not_back(world, tmp_path):
    master = world.master(tmp_path / "store.db")
    master.put("old", 1)
    world.settle()
    master.core.requests.clear()
    master.put("new", 2)
    world.settle()
    master.crash()
    again = world.master(tmp_path / "store.db")
    assert again.contents() == {"new": 2}


@pytest.mark.parametrize("is_kept", [True, False], ids=["kept", "not kept"])
def test_the_masters_own_handle_claims_only_what_is_durable(world, tmp_path, is_kept):
    master = world.master(tmp_path / "store.db")
    number = master.put("a", 1)
    master.flush()
    master.commit()  # It is known as a writer now.
    if is_kept:
        master.commit()
    assert (number in master.outcomes) == is_kept
    master.crash()
    again = world.master(tmp_path / "store.db")
    assert again.contents() == ({"a": 1} if is_kept else {})
