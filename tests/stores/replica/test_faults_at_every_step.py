"""One fault at every single step of the protocol: clones converge, and never lie meanwhile.

A story is told letter by letter. Each fault is tried before each of its steps, and then the world
heals. The model knows every state that any master ever had, by the position of its last entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from peermesh.testing.simulation.disk import Disk
from stores import effects as fx
from stores.group.positions import Position
from stores.group.roles import DEFAULT_TIMING
from stores.outcomes import Applied
from stores.replica.effects import News, Told
from stores.replica.tables.core import TableCore
from stores.table.machine import TableMachine
from tests.stores.replica.conftest import Node, World
from tests.thirds import THIRDS

SILENCE_TICKS = DEFAULT_TIMING.timeout_ticks_max + 1
"""Ticks after which every clone takes note that its master is silent."""

SETTLING_TICKS = SILENCE_TICKS + 5
PATIENCE_TICKS = 180
FORGET_TICKS = 520
"""Ticks after which a master has given up a clone that it does not hear."""

ROUNDS = 3
BORN_TICKS = 10
"""Ticks after which a master keeps no entry that it has not to keep: the next clone has to load."""


class Story:
    """A master, two clones that write, one of which comes while there is something to load."""

    def __init__(self, world: World, disk: Disk | None) -> None:
        self.world = world
        self.disk = disk
        self.history: dict[Position, dict[bytes, bytes]] = {}
        self.seen: dict[TableCore, int] = {}
        self.gone: list[Node] = []
        """Nodes whose handles are asked no more."""
        self.increments: list[tuple[Node, int]] = []
        world.recorder = self.record
        self.master = world.master(disk)
        self.first = world.clone()
        self.second: Node | None = None

    @property
    def nodes(self) -> list[Node]:
        found = [self.master, self.first, self.second]
        return [node for node in found if node is not None and node.is_alive]

    def record(self, machine: TableMachine, reached: int = 0) -> None:
        """Remember every state of a master; before ``reached`` some rows are of later ones."""

        def note() -> None:
            if machine.position.index < reached:
                return
            values = dict(machine.snapshot().values)
            assert self.history.setdefault(machine.position, values) == values

        def noted(method: Callable[..., object]) -> Callable[..., object]:
            def call(*arguments: object) -> object:
                result = method(*arguments)
                note()
                return result

            return call

        note()
        for name in ("apply", "perform"):
            setattr(machine, name, noted(getattr(machine, name)))

    def steps(self) -> Iterator[None]:
        for number in range(4):
            self.master.put(number, "filling")
        self.master.flush()
        yield from self.everything_under_way()
        self.world.tick(BORN_TICKS)
        self.second = self.world.clone()
        for _ in range(ROUNDS):
            for node in self.nodes:
                self.increments.append((node, node.increment("n")))
                node.put_unique(str(node.id), 1)
                node.flush()
                yield
            yield from self.everything_under_way()

    def everything_under_way(self) -> Iterator[None]:
        while self.world.packets or any(node.commits for node in self.nodes):
            if self.world.packets:
                self.world.deliver(self.world.packets.pop(0))
            else:
                next(node for node in self.nodes if node.commits).commit()
            self.check()
            yield

    # -- what holds at any time

    def check(self) -> None:
        for node in self.nodes:
            if not node.is_master and node.has_data:
                self.check_clone(node)

    def check_clone(self, node: Node) -> None:
        machine = node.core.machine
        states = self.history[machine.position] if machine.revision else {}
        assert node.columns.values == states, "no state that a master ever had"
        revision = node.core.revision
        assert revision >= self.seen.get(node.core, 0), "it went back in time"
        self.seen[node.core] = revision
        kinds = (fx.MasterFound, fx.MasterLost)
        told = next(each for each in reversed(node.log) if isinstance(each, kinds))
        assert isinstance(told, fx.MasterLost) == node.is_lost, "its user was not told"

    # -- the end

    def heal(self) -> None:
        self.world.cut_off.clear()
        for node in self.nodes:
            node.flush()
        self.pass_time(SETTLING_TICKS)
        self.end_conflicts()
        nodes = [node for node in self.nodes if node not in self.gone]
        for node in nodes:
            node.run(node.core.begin_idle(99))
        for _ in range(PATIENCE_TICKS):
            self.pass_time(1)
            if all(node.is_idle(99) for node in nodes):
                break
        for node in nodes:
            assert node.is_idle(99), node.core.explain_idle()
        self.world.tick(5)  # so that clones hear what a deposed master has asked since

    def pass_time(self, ticks: int) -> None:
        for _ in range(ticks):
            self.world.tick()
            self.check()

    def end_conflicts(self) -> None:
        """Start clones anew that know of more than the promoted one: so it is told, and ended."""
        for node in self.nodes:
            if any(told.news is News.CONFLICT for told in node.said(Told)):
                assert not node.is_master
                self.replace(node)
        self.pass_time(2)

    def replace(self, node: Node) -> None:
        """Start a clone anew."""
        node.crash()
        self.gone.append(node)
        # What an endpoint had sent comes before the news that it is unreachable, or not at all.
        self.world.packets = [each for each in self.world.packets if each.sender != node.id]
        self.master.run(self.master.core.peer_unreachable(node.id))
        if node is self.first:
            self.first = self.world.clone()
        else:
            self.second = self.world.clone()

    def check_end(self) -> None:
        (master,) = [node for node in self.nodes if node.is_master]
        for node in self.nodes:
            assert node.columns == master.columns
            assert node.core.revision == master.core.revision
            assert node.core.missing_count == 0
            assert not node.is_lost

    def count(self) -> int:
        """Give how often something was added, and check that it was not too often."""
        (found,) = [node.get("n") or 0 for node in self.nodes if node.is_master]
        assert isinstance(found, int)
        assert found <= len(self.increments), "an increment counted twice"
        return found

    def check_counter(self) -> None:
        """What was acknowledged counts once, and nothing twice."""
        outcomes = [node.outcomes.get(number) for node, number in self.increments]
        assert sum(isinstance(outcome, Applied) for outcome in outcomes) <= self.count()


# -- the faults ------------------------------------------------------------------------------------


def lose_the_next_packet(story: Story) -> None:
    del story.world.packets[:1]


def lose_everything_under_way(story: Story) -> None:
    story.world.packets.clear()


def repeat_everything_under_way(story: Story) -> None:
    story.world.packets += story.world.packets


def reverse_everything_under_way(story: Story) -> None:
    story.world.packets.reverse()


def have_the_master_forget_its_clones(story: Story) -> None:
    for node in story.nodes:
        if not node.is_master:
            story.master.run(story.master.core.peer_unreachable(node.id))


def _be_away(story: Story, node: Node, ticks: int) -> None:
    story.world.cut_off.add(node.id)
    for tick in range(ticks):
        story.world.tick()
        story.check()
        if not node.is_master and node.has_data:
            assert node.is_lost or tick <= SILENCE_TICKS, "a stale clone has to say so"
    story.world.cut_off.discard(node.id)


def keep_a_clone_away_for_a_moment(story: Story) -> None:
    _be_away(story, story.first, 5)


def keep_a_clone_away_for_long(story: Story) -> None:
    _be_away(story, story.first, SILENCE_TICKS + 10)


def keep_a_clone_away_for_longer_than_any_timeout(story: Story) -> None:
    _be_away(story, story.first, FORGET_TICKS)


def pause_the_master(story: Story) -> None:
    _be_away(story, story.master, SILENCE_TICKS + 10)


def restart_a_clone(story: Story) -> None:
    if story.first.is_alive and not story.first.is_master:
        story.replace(story.first)


def restart_the_master(story: Story) -> None:
    if story.disk is None:
        return  # It keeps nothing.
    story.gone.append(story.master)
    story.master.crash()
    story.master = story.world.master(story.disk)


def _promote(story: Story, node: Node) -> bool:
    if not node.is_alive or node.is_master or not node.has_data:
        return False
    story.disk = None if story.disk is None else Disk()
    story.record(node.core.machine)
    node.promote(story.disk)
    story.master, story.first = node, story.master
    return True


def promote_a_clone_of_a_dead_master(story: Story) -> None:
    if _promote(story, story.first):
        story.first.crash()
        story.gone.append(story.first)


def promote_a_clone_while_the_master_is_away(story: Story) -> None:
    away = story.master
    story.world.cut_off.add(away.id)
    story.pass_time(SILENCE_TICKS)
    if _promote(story, story.first):
        story.increments.append((away, away.increment("n")))
        away.flush()
        story.world.tick()
    story.world.cut_off.clear()


def promote_a_clone_of_a_living_master(story: Story) -> None:
    _promote(story, story.first)


HARMLESS = [
    lose_the_next_packet,
    lose_everything_under_way,
    repeat_everything_under_way,
    reverse_everything_under_way,
    have_the_master_forget_its_clones,
    keep_a_clone_away_for_a_moment,
    keep_a_clone_away_for_long,
    pause_the_master,
    restart_a_clone,
]
PROMOTIONS = [
    promote_a_clone_of_a_dead_master,
    promote_a_clone_while_the_master_is_away,
    promote_a_clone_of_a_living_master,
]


def try_everywhere(
    make_story: Callable[[], Story], fault: Callable[[Story], None], third: int
) -> Iterator[Story]:
    """Tell the story once for every third of its steps, with the fault before that step."""
    count = sum(1 for _ in make_story().steps())
    assert count > 20
    for number in range(third, count, 3):
        story = make_story()
        for step, _ in enumerate(story.steps()):
            if step == number:
                fault(story)
        story.heal()
        story.check_end()
        yield story


@pytest.fixture(params=["memory", "durable"])
def make_story(request: Any, make_world: type[World]) -> Callable[[], Story]:
    return lambda: Story(make_world(), Disk() if request.param == "durable" else None)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a clone that comes late take a snapshot, and even a small one take several steps."""
    monkeypatch.setattr("stores.replica.kept.KEPT_ENTRIES", 0)
    monkeypatch.setattr("stores.table.parts.CHUNK_COUNT_MAX", 2)
    monkeypatch.setattr("stores.group.snapshots.WINDOW_PARTS", 2)


@pytest.mark.parametrize("third", THIRDS)
@pytest.mark.parametrize("fault", HARMLESS)
def test_after_a_fault_of_links_or_clones_all_converge_and_nothing_is_lost(
    fault: Any, make_story: Callable[[], Story], third: int
) -> None:
    for story in try_everywhere(make_story, fault, third):
        story.check_counter()
        for node in story.nodes:
            assert node in story.gone or len(node.outcomes) == node.core.requests.last_request


@pytest.mark.long
@pytest.mark.parametrize("third", range(3))
def test_a_clone_may_be_away_for_longer_than_any_timeout(
    make_story: Callable[[], Story], third: int
) -> None:
    fault = keep_a_clone_away_for_longer_than_any_timeout
    for story in try_everywhere(make_story, fault, third):
        story.check_counter()


@pytest.mark.parametrize("third", THIRDS)
def test_a_restarted_master_has_all_that_it_acknowledged(
    make_world: type[World], third: int
) -> None:
    for story in try_everywhere(lambda: Story(make_world(), Disk()), restart_the_master, third):
        story.check_counter()


@pytest.mark.parametrize("third", THIRDS)
@pytest.mark.parametrize("fault", PROMOTIONS)
def test_all_follow_a_promoted_clone_and_nothing_happens_twice(
    fault: Any, make_story: Callable[[], Story], third: int
) -> None:
    for story in try_everywhere(make_story, fault, third):
        story.count()


def test_a_master_restarts_while_rows_are_ahead_of_its_checkpoint(make_world: type[World]) -> None:
    story = Story(make_world(), Disk())
    plan = {
        19: keep_a_clone_away_for_long,
        24: keep_a_clone_away_for_a_moment,
        25: restart_the_master,
    }
    for step, _ in enumerate(story.steps()):
        if step in plan:
            plan[step](story)
        if step == 25:
            assert (
                story.master.core._beginning.reached > story.master.core._beginning.stored.applied
            )
    story.heal()
    story.check_end()
    story.check_counter()


@pytest.mark.parametrize("is_durable", [False, True], ids=["memory", "durable"])
def test_any_few_faults_heal(make_world: type[World], is_durable: bool) -> None:
    faults = [*HARMLESS, *PROMOTIONS, *([restart_the_master] if is_durable else [])]

    @settings(max_examples=50, deadline=None)
    @given(st.dictionaries(st.integers(0, 60), st.sampled_from(faults), max_size=4))
    def heal(plan: dict[int, Callable[[Story], None]]) -> None:
        story = Story(make_world(), Disk() if is_durable else None)
        for step, _ in enumerate(story.steps()):
            if step in plan and story.master.is_master:
                plan[step](story)
        story.heal()
        story.check_end()
        story.count()

    heal()


def test_an_answer_about_what_a_lead_by_force_took_back_holds_nothing_up(
    make_world: type[World],
) -> None:
    """What the clone had an answer for is in no journal any more, nor is it ever shown."""
    plan = {
        11: lose_the_next_packet,
        18: keep_a_clone_away_for_a_moment,
        27: keep_a_clone_away_for_a_moment,
        44: promote_a_clone_of_a_dead_master,
    }
    story = Story(make_world(), Disk())
    for step, _ in enumerate(story.steps()):
        if step in plan and story.master.is_master:
            plan[step](story)
    story.heal()
    story.check_end()
    story.count()
