"""One fault at every single step of the protocol: clones converge, and never lie meanwhile.

A story is told packet by packet. Each fault is tried before each of its steps, and then the world
heals. The model knows every state that any master ever had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from stores import effects as fx
from stores.clone import Clone
from stores.master import Master
from stores.outcomes import Applied
from stores.seeker import SILENCE_TICKS
from wire.encoding import encode

SETTLING_TICKS = SILENCE_TICKS + 5
"""Time for everybody to notice who is silent, and for two masters to meet."""

PATIENCE_TICKS = 180
FORGET_TICKS = 520
"""Ticks after which a master has given up a clone that it does not hear."""

ROUNDS = 3


class Story:
    """A master, two clones that write, one of which comes while there is something to load."""

    def __init__(self, world: Any, backend: Any, replicas: int = 0) -> None:
        self.world = world
        self.backend = backend
        self.replicas = replicas
        self.history: dict[Any, dict[int, dict[bytes, bytes]]] = {}
        self.seen: dict[Any, tuple[Any, int]] = {}
        self.may_go_back = False
        self.gone: list[Any] = []
        """Nodes whose handles nobody asks any more."""
        self.increments: list[tuple[Any, int]] = []
        self.master = self.start_master()
        self.first = world.clone()
        self.second: Any = None

    @property
    def nodes(self) -> list[Any]:
        found = [self.master, self.first, self.second]
        return [node for node in found if node is not None and node.is_alive]

    def start_master(self) -> Any:
        master = self.world.master(self.backend, replicas=self.replicas)
        self.record(master)
        return master

    def record(self, master: Any) -> None:
        """Remember every state of a master."""
        table = master.core._table
        states = self.history.setdefault((master.core.epoch, master.core.entity), {})
        states[table.revision] = dict(table.columns.values)
        apply = table.apply

        def recorded(action: Any) -> bool:
            is_mutation = apply(action)
            states[table.revision] = dict(table.columns.values)
            return is_mutation

        table.apply = recorded

    def steps(self) -> Iterator[None]:
        for number in range(4):
            self.master.put(number, "filling")
        self.master.flush()
        yield from self.everything_under_way()
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
            if isinstance(node.core, Clone) and node.core.has_data:
                self.check_clone(node)

    def check_clone(self, node: Any) -> None:
        core = node.core
        source = core._following._state_of
        states = self.history[(source.epoch, source.entity)]
        revision = core.revision
        assert core._table.columns.values == states[revision], "no state that its master ever had"
        before, was = self.seen.get(node, (source, 0))
        if before == source or not self.may_go_back:
            assert revision >= was, "it went back in time"
        self.seen[node] = (source, revision)
        told = [each for each in node.log if isinstance(each, fx.MasterFound | fx.MasterLost)]
        assert isinstance(told[-1], fx.MasterLost) == core.is_lost, "its user was not told"

    # -- the end

    def heal(self) -> None:
        self.world.cut_off.clear()
        for node in self.nodes:
            node.flush()
        for _ in range(SETTLING_TICKS):
            self.world.tick()
            self.check()
        nodes = [node for node in self.nodes if node not in self.gone]
        for node in nodes:
            node.run(node.core.begin_idle(99))
        for _ in range(PATIENCE_TICKS):
            self.world.tick()
            self.check()
            if all(node.is_idle(99) for node in nodes):
                break
        for node in nodes:
            assert node.is_idle(99), node.core.explain_idle()
        self.world.tick(5)  # so that clones hear what a deposed master has asked since

    def check_end(self) -> None:
        masters = [node for node in self.nodes if isinstance(node.core, Master)]
        (master,) = [node for node in masters if not node.said(fx.Closed)]
        for node in self.nodes:
            if isinstance(node.core, Clone):
                assert node.core._following.is_level
                assert node.core._table.columns == master.core._table.columns
                assert node.core.revision == master.core.revision
                assert not node.core.is_lost

    def check_counter(self) -> None:
        """What was acknowledged counts once, and nothing twice."""
        outcomes = [node.outcomes.get(number) for node, number in self.increments]
        acknowledged = sum(isinstance(outcome, Applied) for outcome in outcomes)
        found = next(node for node in self.nodes if isinstance(node.core, Master)).get("n") or 0
        assert acknowledged <= found <= len(outcomes)


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
        if isinstance(node.core, Clone):
            story.master.run(story.master.core.peer_unreachable(node.id))


def _be_away(story: Story, node: Any, ticks: int) -> None:
    story.world.cut_off.add(node.id)
    for tick in range(ticks):
        story.world.tick()
        story.check()
        if isinstance(node.core, Clone) and node.core.has_data:
            assert node.core.is_lost or tick <= SILENCE_TICKS, "a stale clone has to say so"
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
    gone = story.first
    if not gone.is_alive or not isinstance(gone.core, Clone):
        return
    gone.crash()
    story.gone.append(gone)
    # What an endpoint had sent comes before the news that it is unreachable, or not at all.
    story.world.packets = [each for each in story.world.packets if each.sender != gone.id]
    story.master.run(story.master.core.peer_unreachable(story.first.id))
    story.first = story.world.clone()


def restart_the_master(story: Story) -> None:
    if story.master.backend is None:
        return  # It was promoted, and keeps nothing.
    story.gone.append(story.master)
    story.master.crash()
    story.master = story.start_master()


def replace_the_master(story: Story) -> None:
    story.may_go_back = True
    story.backend = None
    restart_the_master(story)


def start_a_second_master(story: Story) -> None:
    story.may_go_back = True
    story.gone.append(story.master)
    story.backend = None
    story.second_master = story.start_master()
    story.master, story.old = story.second_master, story.master


def _promote(story: Story, node: Any) -> bool:
    if not node.is_alive or not isinstance(node.core, Clone) or not node.core.has_data:
        return False
    story.may_go_back = True
    node.promote(story.replicas)
    story.record(node)
    story.master, story.first = node, story.master
    story.backend = None
    return True


def promote_a_clone_of_a_dead_master(story: Story) -> None:
    if _promote(story, story.first):
        story.first.crash()
        story.gone.append(story.first)


def promote_a_clone_while_the_master_is_away(story: Story) -> None:
    away = story.master
    story.world.cut_off.add(away.id)
    for _ in range(SILENCE_TICKS):
        story.world.tick()
        story.check()
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
    make_story: Callable[[], Story], fault: Callable[[Story], None]
) -> Iterator[Story]:
    """Tell the story once for each of its steps, with the fault before that step."""
    count = sum(1 for _ in make_story().steps())
    assert count > 20
    for number in range(count):
        story = make_story()
        for step, _ in enumerate(story.steps()):
            if step == number:
                fault(story)
        story.heal()
        story.check_end()
        yield story


@pytest.fixture(params=["memory", "durable"])
def make_backend(request: Any, make_kept_backend: Any) -> Callable[[], Any]:
    return make_kept_backend if request.param == "durable" else lambda: None


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have even a small snapshot take several steps."""
    monkeypatch.setattr("stores.snapshots.CHUNK_COUNT_MAX", 2)


@pytest.mark.parametrize("fault", HARMLESS)
def test_after_a_fault_of_links_or_clones_all_converge_and_nothing_is_lost(
    fault: Any, make_world: Any, make_backend: Any
) -> None:
    for story in try_everywhere(lambda: Story(make_world(), make_backend()), fault):
        story.check_counter()
        for node in story.nodes:
            assert node in story.gone or len(node.outcomes) == node.core.requests.last_request


@pytest.mark.long
def test_a_clone_may_be_away_for_longer_than_any_timeout(
    make_world: Any, make_backend: Any
) -> None:
    fault = keep_a_clone_away_for_longer_than_any_timeout
    for story in try_everywhere(lambda: Story(make_world(), make_backend()), fault):
        story.check_counter()


def test_a_restarted_master_has_all_that_it_acknowledged(
    make_world: Any, make_kept_backend: Any
) -> None:
    make_story = lambda: Story(make_world(), make_kept_backend())  # noqa: E731 - it is the shortest
    for story in try_everywhere(make_story, restart_the_master):
        story.check_counter()


@pytest.mark.parametrize("fault", [replace_the_master, start_a_second_master])
def test_clones_converge_on_a_master_with_another_history(fault: Any, make_world: Any) -> None:
    for _ in try_everywhere(lambda: Story(make_world(), None), fault):
        pass


@pytest.mark.parametrize("fault", PROMOTIONS)
def test_all_follow_a_promoted_clone_and_nothing_happens_twice(
    fault: Any, make_world: Any, make_backend: Any
) -> None:
    for story in try_everywhere(lambda: Story(make_world(), make_backend()), fault):
        found = next(node for node in story.nodes if isinstance(node.core, Master)).get("n") or 0
        assert found <= len(story.increments), "an increment counted twice"


@pytest.mark.parametrize("fault", PROMOTIONS[:2])
def test_with_all_clones_as_replicas_a_promotion_loses_nothing_acknowledged(
    fault: Any, make_world: Any, make_backend: Any
) -> None:
    """With two clones and two replicas every clone has whatever was acknowledged."""
    make_story = lambda: ReplicatedStory(make_world(), make_backend())  # noqa: E731 - as above
    for story in try_everywhere(make_story, fault):
        story.check_counter()


@pytest.mark.parametrize("is_durable", [False, True], ids=["memory", "durable"])
def test_any_few_faults_heal(make_world: Any, make_kept_backend: Any, is_durable: bool) -> None:
    faults = [*HARMLESS, *PROMOTIONS, *([restart_the_master] if is_durable else [])]

    @settings(max_examples=100, deadline=None)
    @given(st.dictionaries(st.integers(0, 60), st.sampled_from(faults), max_size=4))
    def heal(plan: dict[int, Callable[[Story], None]]) -> None:
        story = Story(make_world(), make_kept_backend() if is_durable else None)
        for step, _ in enumerate(story.steps()):
            if step in plan and isinstance(story.master.core, Master):
                plan[step](story)
        story.heal()
        story.check_end()
        found = next(node for node in story.nodes if isinstance(node.core, Master)).get("n") or 0
        assert found <= len(story.increments), "an increment counted twice"

    heal()


class ReplicatedStory(Story):
    """A receipt waits for both clones, so that both are there from the beginning."""

    def __init__(self, world: Any, backend: Any) -> None:
        super().__init__(world, backend, replicas=2)
        self.second = world.clone()
        world.settle()

    def steps(self) -> Iterator[None]:
        for _ in range(ROUNDS + 1):
            for node in self.nodes:
                self.increments.append((node, node.increment("n")))
                node.put(str(node.id), encode(1))
                node.flush()
                yield
            yield from self.everything_under_way()

    def heal(self) -> None:
        # The new master has one clone less: it is to wait for no more than there can be.
        for node in self.nodes:
            if isinstance(node.core, Master):
                node.core._gate.replicas = min(node.core._gate.replicas, len(self.nodes) - 1)
        super().heal()
