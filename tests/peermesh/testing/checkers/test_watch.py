"""``watch``: each of the six guarantees, kept and broken."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from peermesh.testing.checkers import watch
from peermesh.testing.checkers.watch import GUARANTEES
from peermesh.testing.history import History
from peermesh.testing.observations import Bookmark, Commit, WatchBegun, Watched

COMMITS = [
    Commit(1, "a", (1,), "insert"),
    Commit(2, "b", (1,), "insert"),
    Commit(3, "a", (2,), "update"),
    Commit(4, "a", (), "erase"),  # these two are one mutation
    Commit(4, "b", (), "erase"),
    Commit(5, "a", (3,), "insert"),
]


def told(commit: Commit, delivery: int = 0, name: str = "w") -> Watched:
    number = delivery or commit.revision
    return Watched(name, number, commit.revision, commit.key, commit.after, commit.kind)


ALL = [told(commit) for commit in COMMITS]
ONE, TWO, THREE, FOUR_A, FOUR_B, FIVE = ALL
FROM_START = WatchBegun("w", 0)
OTHER_VALUE = Watched("w", 3, 3, "a", (1,))
OTHER_TYPE = Watched("w", 3, 3, "a", (2.0,))
OTHER_KIND = Watched("w", 3, 3, "a", (2,), "insert")
LIST_OF_ITS_OWN = Watched("w", 44, 4, "b", ())

GOOD = {
    "nothing at all": [],
    "everything": [FROM_START, *ALL],
    "with bookmarks": [FROM_START, ONE, Bookmark("w", 1), TWO, THREE, Bookmark("w", 3)],
    "a bookmark of nothing new": [WatchBegun("w", 2), Bookmark("w", 2), THREE],
    "from the middle": [WatchBegun("w", 3), FOUR_A, FOUR_B, FIVE],
    "not all yet": [FROM_START, ONE, TWO],
    "broken off and resumed": [FROM_START, ONE, TWO, WatchBegun("w", 2), THREE],
    "resumed twice without news": [FROM_START, ONE, WatchBegun("w", 1), WatchBegun("w", 1), TWO],
    "two watches": [FROM_START, WatchBegun("v", 4), ONE, told(COMMITS[5], name="v"), TWO],
    "keys of one mutation in any order": [FROM_START, ONE, TWO, THREE, FOUR_B, FOUR_A],
}

BAD = {
    "ordered": [
        [FROM_START, TWO, ONE],
        [FROM_START, ONE, TWO, THREE, FOUR_A, FOUR_B, ONE],
    ],
    "unique": [
        [FROM_START, ONE, ONE],
        [FROM_START, ONE, TWO, WatchBegun("w", 1), TWO],
    ],
    "reliable": [
        [FROM_START, ONE, THREE],
        [WatchBegun("w", 1), THREE],
        [FROM_START, FIVE],
        [FROM_START, ONE, TWO, OTHER_VALUE],
        [FROM_START, ONE, TWO, OTHER_TYPE],
        [FROM_START, ONE, TWO, OTHER_KIND],
        [FROM_START, Watched("w", 9, 9, "a", (1,))],
    ],
    "atomic": [
        [FROM_START, ONE, TWO, THREE, FOUR_A],
        [FROM_START, ONE, TWO, THREE, FOUR_A, LIST_OF_ITS_OWN],
    ],
    "resumable": [
        [FROM_START, ONE, WatchBegun("w", 1), THREE],
        [FROM_START, ONE, TWO, WatchBegun("w", 2), TWO],
        [WatchBegun("w", 3), THREE],
    ],
    "bookmarkable": [
        [FROM_START, ONE, Bookmark("w", 2)],
        [FROM_START, Bookmark("w", 1), ONE],
        [FROM_START, ONE, TWO, Bookmark("w", 3), THREE],
        [FROM_START, ONE, TWO, THREE, FOUR_A, Bookmark("w", 4)],
    ],
}


@pytest.mark.parametrize("seen", GOOD.values(), ids=GOOD)
def test_a_watch_that_keeps_its_promises_passes(script: Any, seen: list[Any]) -> None:
    script.see("m", *COMMITS)
    script.see("reader", *seen)
    assert watch(script.history), str(watch(script.history))


@pytest.mark.parametrize(
    ("guarantee", "seen"), [(name, seen) for name, cases in BAD.items() for seen in cases]
)
def test_each_guarantee_is_seen_to_be_broken(script: Any, guarantee: str, seen: list[Any]) -> None:
    script.see("m", *COMMITS)
    script.see("reader", *seen)
    assert not GUARANTEES[guarantee](script.history)
    assert not watch(script.history)


def test_each_check_has_a_history_that_no_other_one_catches(script: Any) -> None:
    """None of the six is a matter of course given the other five, but for what resuming adds."""
    only = {}
    for name, cases in BAD.items():
        for seen in cases:
            history = History()
            for each in (*COMMITS, *seen):
                history.see("p", each, at=0)
            broken = [each for each, check in GUARANTEES.items() if not check(history)]
            if broken == [name]:
                only[name] = seen
    assert set(only) >= {"reliable", "atomic", "bookmarkable"}


def test_all_together_names_the_guarantee_and_shows_the_witness(script: Any) -> None:
    script.see("m", *COMMITS)
    script.see("reader", FROM_START, ONE, THREE)
    verdict = watch(script.history)
    assert str(verdict).startswith("watch: broken: reliable: w tells of a later change")
    assert any("revision=2" in line for line in verdict.witness)


@given(st.lists(st.lists(st.sampled_from("abc"), min_size=1, unique=True), max_size=6), st.data())
def test_an_honest_watch_passes_and_a_dishonest_one_does_not(
    mutations: list[list[str]], data: st.DataObject
) -> None:
    history = History()
    changes = []
    for revision, keys in enumerate(mutations, start=1):
        for key in keys:
            changes.append(Watched("w", revision, revision, key, (revision,)))
            history.see("m", Commit(revision, key, (revision,)), at=0)
    begin = data.draw(st.integers(0, len(mutations)))
    owed: list[Any] = [change for change in changes if change.revision > begin]
    for event in [WatchBegun("w", begin), *owed, Bookmark("w", len(mutations))]:
        history.see("r", event, at=1)
    assert watch(history), str(watch(history))
    if owed:
        place = data.draw(st.integers(0, len(owed) - 1))
        dishonest = History(history.events[: len(changes)])
        how = data.draw(st.sampled_from(["left out", "twice", "altered"]))
        other = Watched("w", owed[place].revision, owed[place].revision, owed[place].key, (99,))
        owed[place : place + 1] = {"left out": [], "twice": [owed[place]] * 2, "altered": [other]}[
            how
        ]
        for event in [WatchBegun("w", begin), *owed, Bookmark("w", len(mutations))]:
            dishonest.see("r", event, at=1)
        assert not watch(dishonest)
