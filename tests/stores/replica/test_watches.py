"""Watches keep etcd's six guarantees, at masters and clones, whatever happens to these.

The truth is told by the master's own observer. A history of what was committed and what a watch
told of it goes to the checkers of ``peermesh.testing``; these also see watches that are broken
on purpose.
"""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from peermesh.testing import observations as seen
from peermesh.testing.checkers.watch import GUARANTEES
from peermesh.testing.history import History as Recorded
from peermesh.testing.simulation.disk import Disk
from stores import effects as fx
from stores.actions import Guard, GuardKind, Initial, Step, StepKind
from stores.history import Commit, History
from stores.scanning import EVERYTHING, make_span
from stores.watches import MARK_INTERVAL, TAKE_COUNT, Bookmark, Gap, Present, Watcher
from wire.decoding import decode
from wire.encoding import encode

KEYS = ("a", "a/1", "a/2", "b", 1)
SELECTIONS = {
    "everything": EVERYTHING,
    "prefix": make_span(prefix=encode("a/")),
    "keys": frozenset([encode("a"), encode(1)]),
}


class Follower:
    """Keeps the watched keys as its watch alone tells them."""

    def __init__(self, name: str, selection: Any) -> None:
        self.name = name
        self.selection = selection
        self.watcher: Watcher | None = None
        self.view: dict[bytes, bytes] = {}
        self.is_telling_present = False
        self.lives = 0
        self.told: list[Any] = []
        self.gaps = 0

    @property
    def title(self) -> str:
        return f"{self.name} {self.lives}"

    def begin(self, core: Any) -> None:
        self.watcher = Watcher(core, self.selection, None)
        self._begin_anew()

    def resume(self, core: Any) -> None:
        """Go on as another process would: with a watch that knows no more than a revision."""
        if self.watcher is None or self.is_telling_present:
            self.begin(core)
            return
        revision = self.watcher.revision
        self.watcher = Watcher(core, self.selection, revision + 1)
        self.told.append(seen.WatchBegun(self.title, revision))

    def read(self) -> None:
        assert self.watcher is not None
        for item in self.watcher.take():
            self.hear(item)

    def hear(self, item: Any) -> None:
        match item:
            case Present(key, entry):
                assert self.is_telling_present
                assert key not in self.view
                self.view[key] = entry.value
            case Gap():
                self.gaps += 1
                self._begin_anew()
            case Bookmark(revision):
                if self.is_telling_present:
                    self.told.append(seen.WatchBegun(self.title, revision))
                self.is_telling_present = False
                self.told.append(seen.Bookmark(self.title, revision))
            case Commit(revision, _, changes):
                assert not self.is_telling_present
                for change in changes:
                    self._apply(revision, change)

    def _begin_anew(self) -> None:
        self.view.clear()
        self.is_telling_present = True
        self.lives += 1

    def _apply(self, revision: int, change: Any) -> None:
        after = ()
        if change.entry is None:
            assert self.view.pop(change.key, None) is not None, "what is gone was there"
        else:
            assert change.entry.revision == revision
            self.view[change.key] = change.entry.value
            after = (decode(change.entry.value),)
        key = decode(change.key)
        self.told.append(seen.Watched(self.title, revision, revision, key, after))


class Truth:
    """What the master committed, from its observer, and what stood then."""

    def __init__(self, revision: int = 0, state: dict[bytes, bytes] | None = None) -> None:
        self.commits: list[seen.Commit] = []
        self.states = {revision: dict(state or {})}
        self.latest = revision

    def hear(self, change: fx.Changed) -> None:
        state = self.states.get(change.revision, self.states[self.latest])
        state = self.states[change.revision] = dict(state)
        self.latest = change.revision
        after = ()
        if change.after is None:
            del state[change.key]
        else:
            state[change.key] = change.after.value
            after = (decode(change.after.value),)
        self.commits.append(seen.Commit(change.revision, decode(change.key), after))

    def at(self, revision: int) -> dict[bytes, bytes]:
        return self.states[max(known for known in self.states if known <= revision)]


class Watching(RuleBasedStateMachine):
    """A durable master that may be killed, a clone that may be cut off, and who watches them."""

    make_world: Any

    @initialize(count_max=st.sampled_from([3, 10, 1_000]))
    def begin(self, count_max: int) -> None:
        self.world, self.disk = self.make_world(), Disk()
        self.count_max = count_max
        self.truth = Truth()
        self.start_master()
        self.clone = self.world.clone()
        self.shorten(self.clone)
        self.world.settle()
        self.followers = [
            (is_at_master, Follower(f"{name} {is_at_master}", selection))
            for name, selection in SELECTIONS.items()
            for is_at_master in (True, False)
        ]
        for is_at_master, follower in self.followers:
            follower.begin(self.node(is_at_master=is_at_master).core.machine)

    def shorten(self, node: Any) -> None:
        node.core.machine.history = History(node.core.revision, count_max=self.count_max)

    def start_master(self) -> None:
        self.master = self.world.master(self.disk)
        self.shorten(self.master)
        self.heard = 0
        self.master.core.observe(is_observed=True)

    def node(self, *, is_at_master: bool) -> Any:
        return self.master if is_at_master else self.clone

    @rule(key=st.sampled_from(KEYS), value=st.integers(0, 9), is_local=st.booleans())
    def put(self, key: Any, value: int, is_local: bool) -> None:
        self.node(is_at_master=is_local).put(key, value)

    @rule(keys=st.lists(st.sampled_from(KEYS), min_size=2, max_size=4))
    def put_some(self, keys: list[Any]) -> None:
        for number, key in enumerate(keys):
            self.clone.put(key, number)

    @rule(keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=4))
    def erase(self, keys: list[Any]) -> None:
        for key in keys:
            self.clone.erase(key)

    @rule(key=st.sampled_from(KEYS))
    def push(self, key: Any) -> None:
        self.master.add(key, 1, Initial.NUMBER)

    @rule(first=st.sampled_from(KEYS), second=st.sampled_from(KEYS), third=st.sampled_from(KEYS))
    def batch(self, first: Any, second: Any, third: Any) -> None:
        guard = Guard(GuardKind.EXISTS, encode(first))
        puts = [Step(StepKind.PUT, encode(key), encode(7)) for key in (first, second)]
        erasures = [Step(StepKind.ERASE, encode(key)) for key in (second, third)]
        self.clone.core.requests.batch([guard], [*puts, erasures[1]], [puts[0], erasures[0]])

    @rule()
    def clear(self) -> None:
        self.clone.core.requests.clear()

    @rule(key=st.sampled_from(KEYS))
    def put_for_a_while(self, key: Any) -> None:
        self.master.put(key, 1, 50_000_000)
        self.world.tick(2)

    @rule()
    def settle(self) -> None:
        self.world.settle()

    @rule()
    def cut_off(self) -> None:
        """Lose everything that is under way, and have the master forget the clone."""
        self.world.settle()
        self.clone.flush()
        self.world.packets.clear()
        self.master.run(self.master.core.peer_unreachable(self.clone.id))
        self.clone.run(self.clone.core.peer_unreachable(self.master.id))

    @rule()
    def kill_the_master(self) -> None:
        self.hear_truth()
        self.master.crash()
        self.world.packets.clear()
        self.start_master()
        for is_at_master, follower in self.followers:
            if is_at_master:
                follower.resume(self.master.core.machine)

    @rule(number=st.integers(0, 5))
    def read(self, number: int) -> None:
        self.followers[number][1].read()

    @rule(number=st.integers(0, 5), is_at_master=st.booleans())
    def resume_anywhere(self, number: int, is_at_master: bool) -> None:
        _, follower = self.followers[number]
        self.followers[number] = (is_at_master, follower)
        follower.resume(self.node(is_at_master=is_at_master).core.machine)

    def hear_truth(self) -> None:
        changes = self.master.said(fx.Changed)
        for change in changes[self.heard :]:
            self.truth.hear(change)
        self.heard = len(changes)

    @invariant()
    def what_was_told_is_true(self) -> None:
        if not hasattr(self, "followers"):
            return
        self.hear_truth()
        for _, follower in self.followers:
            self.check(follower)

    def check(self, follower: Follower) -> None:
        watcher = follower.watcher
        assert watcher is not None
        if not follower.is_telling_present:
            state = self.truth.at(watcher.revision)
            wanted = {key: state[key] for key in state if key in follower.selection}
            assert follower.view == wanted, follower.name

    def teardown(self) -> None:
        if not hasattr(self, "followers"):
            return
        self.clone.run(self.clone.core.begin_idle(1))
        self.world.tick(60)
        assert self.clone.is_idle(1), self.clone.core.explain_idle()
        self.hear_truth()
        for is_at_master, follower in self.followers:
            core = self.node(is_at_master=is_at_master).core.machine
            while not follower.watcher.is_caught_up:
                follower.read()
            assert follower.watcher.revision == core.revision
            self.check(follower)
            assert_kept(self.truth.commits, follower)


def assert_kept(commits: list[seen.Commit], follower: Follower) -> None:
    """Ask the checkers for the six guarantees, for the keys that were watched."""
    history = Recorded()
    for commit in commits:
        if encode(commit.key) in follower.selection:
            history.see("master", commit, at=0.0)
    for each in follower.told:
        history.see("watcher", each, at=0.0)
    for check in GUARANTEES.values():
        verdict = check(history)
        assert verdict, str(verdict)


@pytest.mark.parametrize("round_number", range(2))
def test_watches_keep_their_promises_whatever_happens(make_world, round_number):
    class Machine(Watching):
        pass

    Machine.make_world = make_world
    run_state_machine_as_test(Machine)


# Watches that are broken on purpose: each guarantee has somebody who breaks it, and is seen to.


def watched(world, pair, spoil=lambda items: items, resume_at=None):
    """Watch a few commits with a watcher whose items are spoiled; give both histories."""
    master, clone = pair
    truth, follower = Truth(), Follower("w", EVERYTHING)
    master.core.observe(is_observed=True)
    follower.begin(clone.core.machine)
    follower.read()
    for step in range(3):
        master.put("a", step)
        master.put("b", step)
        steps = [Step(StepKind.PUT, encode(key), encode(step + 10)) for key in "ab"]
        master.core.requests.batch([], steps)
        world.settle()
        if step == 1 and resume_at is not None:
            follower.watcher = Watcher(clone.core.machine, EVERYTHING, resume_at)
            follower.told.append(seen.WatchBegun("w 1", 6))
        for item in spoil(follower.watcher.take()):
            hear_untested(follower, item)
    for change in master.said(fx.Changed):
        truth.hear(change)
    return truth.commits, follower


def hear_untested(follower: Follower, item: Any) -> None:
    if isinstance(item, Commit):
        for change in item.changes:
            follower.view.setdefault(change.key, b"")
    follower.hear(item)


def early_mark(items):
    return [Bookmark(items[-1].revision), *items]


def torn(items):
    halves = []
    for item in items:
        if isinstance(item, Commit) and len(item.changes) > 1:
            item = Commit(item.revision, item.writer, item.changes[:1])
        halves.append(item)
    return halves


SPOILERS = {
    "ordered": {"spoil": lambda items: items[::-1]},
    "unique": {"spoil": lambda items: [*items, items[-1]]},
    "reliable": {"spoil": lambda items: items[1:]},
    "atomic": {"spoil": torn},
    "resumable": {"resume_at": 5},
    "bookmarkable": {"spoil": early_mark},
}


def test_a_whole_watch_passes_the_checkers(world, pair):
    commits, follower = watched(world, pair)
    assert len(commits) == 12
    assert_kept(commits, follower)


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_broken_watch_is_seen_to_break_its_guarantee(guarantee, world, pair):
    commits, follower = watched(world, pair, **SPOILERS[guarantee])
    history = Recorded()
    for commit in commits:
        history.see("master", commit, at=0.0)
    for each in follower.told:
        history.see("watcher", each, at=0.0)
    assert not GUARANTEES[guarantee](history)


# Single things.


def items_of(watcher):
    found = []
    while not watcher.is_caught_up:
        found += watcher.take()
    return found


def test_what_there_is_comes_first_then_a_mark_then_commits(world, pair):
    master, clone = pair
    for number in range(TAKE_COUNT + 3):
        master.put(number, number)
    world.settle()
    watcher = Watcher(clone.core.machine, EVERYTHING, None)
    assert not watcher.is_caught_up
    found = items_of(watcher)
    assert [type(item) for item in found] == [Present] * (TAKE_COUNT + 3) + [Bookmark]
    assert found[-1].revision == watcher.revision == TAKE_COUNT + 3
    assert watcher.take() == []
    master.erase(0)
    master.erase("missing")
    world.settle()
    (commit,) = items_of(watcher)
    assert (commit.revision, commit.changes[0].entry) == (TAKE_COUNT + 4, None)
    assert watcher.revision == TAKE_COUNT + 5


def test_a_watch_of_what_others_do_not_touch_marks_from_time_to_time(world, pair):
    master, clone = pair
    watcher = Watcher(clone.core.machine, frozenset([encode("mine")]), None)
    assert [item.revision for item in items_of(watcher)] == [0]
    for number in range(MARK_INTERVAL):
        master.put("other", number)
    world.settle()
    (mark,) = items_of(watcher)
    assert (type(mark), mark.revision) == (Bookmark, MARK_INTERVAL)


def test_a_watch_that_fell_behind_says_so_and_begins_anew(world, pair):
    master, clone = pair
    clone.core.machine.history = History(0, count_max=5)
    watcher = Watcher(clone.core.machine, EVERYTHING, None)
    items_of(watcher)
    for number in range(10):
        master.put(number % 3, number)
        world.settle()
    found = items_of(watcher)
    assert found[0] == Gap(0)
    assert [type(item) for item in found[1:]] == [Present] * 3 + [Bookmark]
    assert items_of(Watcher(clone.core.machine, EVERYTHING, 5))[0] == Gap(4)
    late = items_of(Watcher(clone.core.machine, EVERYTHING, 6))
    assert [item.revision for item in late] == [6, 7, 8, 9, 10, 10]


def test_a_watch_from_a_revision_to_come_waits_for_it(world, pair):
    master, clone = pair
    watcher = Watcher(clone.core.machine, EVERYTHING, 3)
    assert watcher.is_caught_up
    assert watcher.take() == []
    for number in range(4):
        master.put(number, 0)
    world.settle()
    assert [item.revision for item in items_of(watcher)] == [3, 4, 4]


def test_a_durable_master_tells_only_what_a_crash_cannot_take_back(world, disk):
    master = world.master(disk)
    watcher = Watcher(master.core.machine, EVERYTHING, None)
    items_of(watcher)
    master.put("a", 1)
    master.flush()
    assert master.core.machine.history.floor == 0
    assert watcher.take() == []
    world.settle()
    assert [item.revision for item in items_of(watcher)] == [1]


@pytest.mark.parametrize("value_size", [1, 100_000])
def test_a_clone_that_came_late_is_told_of_what_was_before_its_time(world, pair, value_size):
    master, early = pair
    for number in range(9):
        master.put(number % 4, bytes([number]) * value_size)
    master.put("short", 1, 50_000_000)
    master.core.requests.batch([], [Step(StepKind.PUT, encode("b"), encode(2))])
    master.erase("missing")
    world.settle()
    world.tick(2)
    master.core.requests.clear()
    master.put("last", 1)
    world.settle()
    late = world.clone()
    world.tick()
    master.put("live", 1)
    world.settle()
    told = items_of(Watcher(early.core.machine, EVERYTHING, 4))
    assert items_of(Watcher(late.core.machine, EVERYTHING, 4)) == told
    assert [item.revision for item in told] == [*range(4, 12), 13, 14, 15, 16, 16]


def test_what_no_journal_has_any_more_is_a_gap(world, pair, monkeypatch):
    monkeypatch.setattr("stores.replica.kept.KEPT_ENTRIES", 2)
    master, _ = pair
    for number in range(9):
        master.put(number % 4, number)
        world.tick()
    late = world.clone()
    world.tick()
    master.put("live", 1)
    world.settle()
    assert items_of(Watcher(late.core.machine, EVERYTHING, 4))[0] == Gap(3)
    assert items_of(Watcher(late.core.machine, EVERYTHING, 10))[0].revision == 10


def test_history_is_bounded_by_bytes(world, pair):
    master, _ = pair
    master.core.machine.history = history = History(0, size_max=10_000)
    for number in range(50):
        master.put("k", bytes(500) + bytes([number]))
        master.flush()
    assert 5 < len(history) < 20
    assert history.floor == 50 - len(history)
    master.put("k", bytes(20_000))
    master.flush()
    assert (len(history), history.floor) == (0, 51)
