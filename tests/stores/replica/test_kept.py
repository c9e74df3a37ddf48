"""How much of a journal stays, by entries and by bytes."""

from __future__ import annotations

from hypothesis import given, strategies as st

from stores.replica.kept import KEPT_ENTRIES, KEPT_SIZE, KeptJournal

STEPS = st.lists(st.tuples(st.integers(0, 4_000), st.integers(0, KEPT_SIZE)), max_size=60)


@given(STEPS)
def test_a_journal_keeps_so_many_entries_and_bytes(steps: list[tuple[int, int]]) -> None:
    kept, commit, traffic = KeptJournal(), 0, 0
    marks = [(0, 0)]
    floor = kept.tick(0, 0)
    for entries, size in steps:
        commit, traffic = commit + entries, traffic + (size if entries else 0)
        before, floor = floor, kept.tick(commit, traffic)
        marks.append((commit, traffic))
        assert max(before, commit - KEPT_ENTRIES) <= floor <= commit
        small = [at for at, passed in marks if traffic - passed <= KEPT_SIZE]
        assert floor <= max(small[0], commit - KEPT_ENTRIES), "no more goes than has to"
        large = [at for at, passed in marks if traffic - passed > KEPT_SIZE]
        assert floor >= max(large, default=0), "what is too much goes"


def test_a_journal_at_rest_drops_nothing_more() -> None:
    kept = KeptJournal()
    kept.tick(10, KEPT_SIZE)
    assert {kept.tick(20, 2 * KEPT_SIZE) for _ in range(100)} == {0}
    assert kept.tick(21, 2 * KEPT_SIZE + 1) == 10
