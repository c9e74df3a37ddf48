"""The budget for what is unfinished: never beyond it, and the largest goes."""

from __future__ import annotations

from hypothesis import given, strategies as st

from peermesh.brokers.unfinished import Unfinished

SIZE_MAX = 100


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 60) | st.none())))
def test_all_together_stay_within_the_budget_and_the_largest_is_cut(notes) -> None:
    unfinished, sizes = Unfinished[int](SIZE_MAX), dict[int, int]()
    for holder, size in notes:
        if size is None:
            unfinished.forget(holder)
            sizes.pop(holder, None)
            continue
        sizes[holder] = size
        cut = unfinished.note(holder, size)
        assert (cut is not None) == (sum(sizes.values()) > SIZE_MAX)
        if cut is not None:
            largest = max(sizes.values())
            assert sizes.pop(cut) == largest
        assert unfinished.total == sum(sizes.values()) <= SIZE_MAX
