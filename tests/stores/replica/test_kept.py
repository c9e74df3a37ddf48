"""How much of a journal stays, by entries and by bytes."""

from __future__ import annotations

from hypothesis import given, strategies as st

from stores.replica.kept import GRAINS, KEPT_ENTRIES, KEPT_SIZE, SLOW_SIZE, KeptJournal

STEPS = st.lists(st.tuples(st.integers(0, 4_000), st.integers(0, KEPT_SIZE)), max_size=60)


@given(STEPS)
def test_a_journal_keeps_so_many_entries_and_bytes(steps: list[tuple[int, int]]) -> None:
    kept, commit, traffic = KeptJournal(), 0, 0
    marks = [(0, 0)]
    floor = kept.tick(0, 0).unneeded
    for entries, size in steps:
        commit, traffic = commit + entries, traffic + (size if entries else 0)
        before, floor = floor, kept.tick(commit, traffic).unneeded
        marks.append((commit, traffic))
        assert max(before, commit - KEPT_ENTRIES) <= floor <= commit
        small = [at for at, passed in marks if traffic - passed <= KEPT_SIZE]
        assert floor <= max(small[0], commit - KEPT_ENTRIES), "no more goes than has to"
        excess = [passed for _, passed in marks if traffic - passed > KEPT_SIZE]
        gone = max(passed for at, passed in marks if at <= floor)
        assert max(excess, default=0) - gone < KEPT_SIZE // GRAINS, "what is too much goes"


def test_a_journal_at_rest_drops_nothing_more() -> None:
    kept = KeptJournal()
    kept.tick(10, KEPT_SIZE)
    assert {kept.tick(20, 2 * KEPT_SIZE).unneeded for _ in range(100)} == {0}
    assert kept.tick(21, 2 * KEPT_SIZE + 1).unneeded == 10


def test_more_bytes_stay_for_members_in_session_and_as_many_as_the_state_has() -> None:
    for state_size in (0, 3 * SLOW_SIZE):
        kept, most = KeptJournal(), max(SLOW_SIZE, state_size)
        kept.tick(0, 0, state_size)
        kept.tick(10, 20, state_size)
        kept.tick(11, most // 2, state_size)
        assert kept.tick(20, most, state_size) == (11, 0)
        assert kept.tick(30, most + 21, state_size).excessive == 0, "the grain is coarser"
        assert kept.tick(40, most + most // 2 + 1, state_size).excessive == 11
        assert kept.tick(50, 3 * most, state_size) == (40, 40)
