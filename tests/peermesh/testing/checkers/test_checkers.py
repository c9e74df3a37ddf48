"""The smaller checkers, each with histories that keep its promise, and that break it."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from peermesh.testing.checkers import (
    Finding,
    at_most_one_peering,
    exactly_once,
    monotonic,
    no_message_outlives_its_ttl,
    one_winner,
)
from peermesh.testing.observations import (
    Crossed,
    Delivered,
    Peered,
    Position,
    Published,
    Unpeered,
)

# exactly_once


def send(script: Any, message: object, ending: str = "ok") -> None:
    number = script.begin("sender", "send", message)
    {"ok": script.end, "failed": script.fail, "unknown": script.lose}[ending](number)


@pytest.mark.parametrize(("ending", "counts"), [("ok", {1}), ("unknown", {0, 1}), ("failed", {0})])
@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_message_arrives_as_often_as_it_was_sent(
    script: Any, ending: str, counts: set[int], count: int
) -> None:
    send(script, "m", ending)
    script.see("c", *[Delivered("m")] * count)
    assert bool(exactly_once(script.history, ["c"])) == (count in counts)


def test_every_consumer_is_owed_every_message(script: Any) -> None:
    send(script, "m")
    script.see("c", Delivered("m"))
    verdict = exactly_once(script.history, ["c", "d"])
    assert "d got 0 of 1: lost" in str(verdict)


def test_equal_messages_are_counted(script: Any) -> None:
    send(script, "m")
    send(script, "m")
    script.see("c", Delivered("m"))
    assert not exactly_once(script.history, ["c"])
    script.see("c", Delivered("m"))
    assert exactly_once(script.history, ["c"])


def test_a_message_out_of_nowhere_or_before_its_time_is_caught(script: Any) -> None:
    script.see("c", Delivered(1))
    assert "nobody had sent" in str(exactly_once(script.history, ["c"]))
    send(script, True)
    send(script, 1)
    assert not exactly_once(script.history, [])


# monotonic


@pytest.mark.parametrize(
    ("numbers", "is_fine", "is_strictly_fine"),
    [([1, 2, 5], True, True), ([1, 1, 2], True, False), ([2, 1], False, False), ([], True, True)],
)
def test_positions_never_go_back(
    script: Any, numbers: list[int], is_fine: bool, is_strictly_fine: bool
) -> None:
    script.see("r", *[Position("log", number) for number in numbers])
    script.see("r", Position("other log", 0))
    script.see("another", Position("log", 0))
    assert bool(monotonic(script.history)) == is_fine
    assert bool(monotonic(script.history, is_strict=True)) == is_strictly_fine


# one_winner


def contend(script: Any, *results: bool, call: tuple[Any, ...] = ("put_unique", "k")) -> None:
    for place, result in enumerate(results):
        script.do(f"p{place}", *call, place + 10, result=(result,))


@pytest.mark.parametrize(
    ("results", "is_fine"),
    [([True, False, False], True), ([True, True], False), ([False, True], False),
     ([False, False], False), ([], True)],
)  # fmt: skip
def test_of_all_who_try_one_wins(script: Any, results: list[bool], is_fine: bool) -> None:
    contend(script, *results)
    assert bool(one_winner(script.history)) == is_fine


def test_who_lost_may_have_lost_against_somebody_unknown(script: Any) -> None:
    script.lose(script.begin("x", "put_unique", "k", 1))
    contend(script, False, False)
    assert one_winner(script.history)


def test_nobody_loses_against_somebody_who_comes_later(script: Any) -> None:
    contend(script, False)
    script.lose(script.begin("x", "put_unique", "k", 1))
    assert not one_winner(script.history)


def test_a_comparison_has_one_winner_for_each_expected_value(script: Any) -> None:
    contend(script, False, True, False, call=("compare_and_set", "k", 1))
    contend(script, True, call=("compare_and_set", "k", 2))
    assert one_winner(script.history)
    contend(script, True, call=("compare_and_set", "k", 1))
    assert not one_winner(script.history)


@pytest.mark.parametrize("call", [("erase", "k"), ("put", "k", 1), ("clear",)])
def test_a_key_that_is_set_otherwise_is_given_up(script: Any, call: tuple[Any, ...]) -> None:
    contend(script, True)
    script.do("q", *call)
    contend(script, True)
    assert one_winner(script.history).finding is Finding.GAVE_UP


def test_two_winners_are_found_even_if_another_contest_is_given_up(script: Any) -> None:
    script.do("q", "erase", "k")
    contend(script, True)
    contend(script, True, True, call=("put_unique", "l"))
    assert one_winner(script.history).finding is Finding.BROKEN


# at_most_one_peering


def test_one_peering_after_the_other_is_fine_at_both_ends(script: Any) -> None:
    script.see("a", Peered("b", "c1"))
    script.see("b", Peered("a", "c1"))
    script.see("a", Unpeered("b", "c1"), Peered("b", "c2"), Peered("d", "c9"))
    script.see("b", Unpeered("a", "c1"), Peered("a", "c2"))
    assert at_most_one_peering(script.history)


def test_two_peerings_at_once_are_caught(script: Any) -> None:
    script.see("a", Peered("b", "c1"), Peered("b", "c2"), Unpeered("b", "c1"))
    verdict = at_most_one_peering(script.history)
    assert "a has two peerings with b at once" in str(verdict)
    assert len(verdict.witness) == 2


def test_ends_that_name_different_connections_are_caught(script: Any) -> None:
    script.see("a", Peered("b", "c1"))
    script.see("b", Peered("a", "c2"))
    assert "different connections" in str(at_most_one_peering(script.history))


@pytest.mark.parametrize("connection", ["c2", "c1"])
def test_losing_what_one_does_not_have_is_caught(script: Any, connection: str) -> None:
    script.see("a", Peered("b", "c1"), Unpeered("b", "c1"), Peered("b", "c3"))
    script.see("a", Unpeered("b", connection))
    assert not at_most_one_peering(script.history)


# no_message_outlives_its_ttl


@pytest.mark.parametrize(("ttl", "is_fine"), [(1, False), (2, False), (3, True), (4, True)])
def test_a_message_crosses_as_many_links_as_it_may(script: Any, ttl: int, is_fine: bool) -> None:
    script.see("a", Published("m", ttl))
    for sender, receiver in ("ab", "bc", "cd"):
        script.see(receiver, Crossed("m", sender))
    verdict = no_message_outlives_its_ttl(script.history)
    assert bool(verdict) == is_fine
    assert len(verdict.witness) == (0 if is_fine else ttl + 1)


def test_the_shortest_way_counts(script: Any) -> None:
    script.see("a", Published("m", 2))
    script.see("b", Crossed("m", "a"))
    script.see("c", Crossed("m", "b"), Crossed("m", "a"))
    script.see("d", Crossed("m", "c"))
    assert no_message_outlives_its_ttl(script.history)


def test_a_message_does_not_come_from_where_it_is_not(script: Any) -> None:
    script.see("a", Published("m", 9))
    script.see("c", Crossed("m", "b"))
    assert not no_message_outlives_its_ttl(script.history)


def test_messages_that_look_the_same_cannot_be_followed(script: Any) -> None:
    script.see("a", Published("m", 9), Published("m", 9))
    assert "published twice" in str(no_message_outlives_its_ttl(script.history))


@given(st.integers(1, 5), st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=15))
def test_a_flood_that_counts_its_links_passes(ttl: int, links: list[tuple[int, int]]) -> None:
    from peermesh.testing.history import History

    history = History()
    history.see("0", Published("m", ttl), at=0)
    left = {0: ttl}
    for sender, receiver in links:
        if left.get(sender, 0) > 0:
            history.see(str(receiver), Crossed("m", str(sender)), at=0)
            left[receiver] = max(left.get(receiver, 0), left[sender] - 1)
    assert no_message_outlives_its_ttl(history)
