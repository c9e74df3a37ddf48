"""``prefix_consistent``: clones that are behind, and clones that lie."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from peermesh.testing.checkers import prefix_consistent
from peermesh.testing.history import History, HistoryError
from peermesh.testing.observations import Commit
from wire.values import Count, Table

CLONES = ["c1", "c2"]


def commit(script: Any) -> None:
    """a=1, b=1, a=2, then both erased as one mutation, then a=3."""
    changes = [(1, "a", (1,)), (2, "b", (1,)), (3, "a", (2,)), (4, "a", ()), (4, "b", ()),
               (5, "a", (3,))]  # fmt: skip
    for revision, key, after in changes:
        script.see("m", Commit(revision, key, after))


def test_a_clone_may_be_behind_and_skip_states(script: Any) -> None:
    commit(script)
    script.do("c1", "get", "a")
    script.do("c1", "get", "a", result=(2,))
    script.do("c2", "get", "a", result=(1,))
    script.do("c1", "exists", "b", result=(True,))
    script.do("c1", "items", result=(Table(),))
    script.do("c1", "get", "a", result=(3,))
    assert prefix_consistent(script.history, CLONES)


def test_going_back_on_one_key_is_caught(script: Any) -> None:
    commit(script)
    script.do("c1", "get", "a", result=(2,))
    script.do("c1", "get", "a", result=(1,))
    verdict = prefix_consistent(script.history, CLONES)
    assert "went back" in str(verdict)
    assert not verdict


def test_going_back_is_caught_across_keys(script: Any) -> None:
    commit(script)
    script.do("c1", "get", "b", result=(1,))  # two mutations at least
    script.do("c1", "get", "a", result=(2,))  # three
    script.do("c1", "get", "b", result=(1,))
    assert prefix_consistent(script.history, CLONES)
    script.do("c1", "get", "a", result=(3,))
    script.do("c1", "get", "b", result=(1,))
    assert not prefix_consistent(script.history, CLONES)


def test_another_clone_may_be_further_behind(script: Any) -> None:
    commit(script)
    script.do("c1", "get", "a", result=(3,))
    script.do("c2", "get", "a", result=(1,))
    assert prefix_consistent(script.history, CLONES)


def test_a_state_that_never_was_is_caught(script: Any) -> None:
    commit(script)
    script.do("c1", "get", "a", result=(Count(1),))
    verdict = prefix_consistent(script.history, CLONES)
    assert "never was" in str(verdict)


@pytest.mark.parametrize("items", [{"a": 2}, {"b": 1}, {"a": 1, "b": 1.0}])
def test_half_of_a_mutation_and_other_mixtures_are_caught(script: Any, items: Any) -> None:
    commit(script)
    script.do("c1", "items", result=(Table({"a": 1, "b": 1}),))
    assert prefix_consistent(script.history, CLONES)
    script.do("c1", "items", result=(Table(items),))
    assert not prefix_consistent(script.history, CLONES)


def test_reads_at_one_time_may_see_different_states_and_bind_what_follows(script: Any) -> None:
    commit(script)
    slow = script.begin("c1", "get", "a")
    script.do("c1", "get", "a", result=(3,))
    script.end(slow, 1)
    assert prefix_consistent(script.history, CLONES)
    script.do("c1", "get", "a", result=(2,))
    assert not prefix_consistent(script.history, CLONES)


def test_commits_that_go_back_are_no_history(script: Any) -> None:
    script.see("m", Commit(2, "a", (1,)), Commit(1, "a", (1,)))
    with pytest.raises(HistoryError, match="ordered"):
        prefix_consistent(script.history, CLONES)


KEYS = st.sampled_from("abc")
FOUND = st.one_of(st.just(()), st.integers(0, 2).map(lambda value: (value,)))


@given(st.lists(st.tuples(KEYS, FOUND), max_size=12), st.data())
def test_it_agrees_with_trying_every_way_to_explain_the_reads(
    changes: list[Any], data: st.DataObject
) -> None:
    history = History()
    states: list[dict[str, Any]] = [{}]
    for number, (key, after) in enumerate(changes):
        history.see("m", Commit(number, key, after), at=0)
        states.append({**states[-1], key: after})
    reads = []
    place = 0
    for _ in range(data.draw(st.integers(0, 6))):
        key = data.draw(KEYS)
        place = data.draw(st.integers(place, len(changes)))
        found = states[place].get(key, ())
        if data.draw(st.integers(0, 4), label="is damaged") == 0:
            found = data.draw(FOUND)
        reads.append((key, found))
        history.end(history.begin("c", "get", key, at=0), *found, at=0)
    # All places at which the reads so far may have ended.
    possible = set(range(len(states)))
    for key, found in reads:
        possible = {
            place
            for place in range(len(states))
            if states[place].get(key, ()) == found and any(before <= place for before in possible)
        }
    assert bool(prefix_consistent(history, ["c"])) == bool(possible)
