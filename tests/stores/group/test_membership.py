"""Which members are to be voters, by their names or by their number."""

from __future__ import annotations

import pytest

from stores.group.membership import Declared, Wanted


@pytest.mark.parametrize(
    ("names", "count", "wants"),
    [((), 0, False), (("a", "b"), 0, True), (("b",), 0, False), ((), 3, True), (("b",), 3, True)],
)
def test_a_replica_asks_for_a_vote_where_its_name_is_declared_or_a_number(names, count, wants):
    assert Declared(names, count).wanted.wants("a") is wants
    assert Wanted(frozenset(names), count).wants("a") is wants


def test_where_names_are_declared_no_other_is_added_and_else_up_to_the_number():
    assert Wanted(frozenset("ab"), 1).admits("b", ())
    assert not Wanted(frozenset("ab"), 9).admits("c", ())
    assert [Wanted(count=2).admits("c", voters) for voters in ((), (1,), (1, 2))] == [
        True,
        True,
        False,
    ]
