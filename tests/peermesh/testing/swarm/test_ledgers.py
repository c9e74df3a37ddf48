"""The ledgers of a swarm: what is allowed passes, and each broken promise is told."""

from __future__ import annotations

import pytest

from peermesh.testing.swarm.ledgers import (
    JOURNAL,
    TOTAL,
    Author,
    Broken,
    Log,
    Messages,
    Store,
    own_key,
)
from wire.encoding import encode

A, B = Author(0, 1), Author(1, 1)


def messages(*, is_ordered: bool = True, is_near: bool = True) -> Messages:
    ledger = Messages(is_ordered=is_ordered, is_near=lambda author, reader: is_near)
    for _ in range(3):
        ledger.publish(A, "t")
    return ledger


def test_messages_in_order_pass_with_gaps():
    ledger = messages()
    ledger.deliver(B, "t", A, 0)
    ledger.deliver(B, "t", A, 2)
    assert ledger.has(B, A, 2)
    assert not ledger.has(B, A, 1)
    assert (ledger.published, ledger.delivered) == (3, 2)


@pytest.mark.parametrize(
    ("reader", "topic", "number", "words"),
    [
        (B, "t", 3, "made up"),
        (B, "u", 0, "made up"),
        (A, "t", 0, "came back"),
        (B, "t", 1, "came twice"),
        (B, "t", 0, "out of order"),
    ],
)
def test_a_message_that_should_not_come_is_told(reader, topic, number, words):
    ledger = messages()
    ledger.deliver(B, "t", A, 1)
    with pytest.raises(Broken, match=words):
        ledger.deliver(reader, topic, A, number)


def test_order_is_not_asked_of_a_mesh_with_several_ways():
    ledger = messages(is_ordered=False)
    ledger.deliver(B, "t", A, 1)
    ledger.deliver(B, "t", A, 0)


def test_a_message_from_too_far_away_is_told():
    with pytest.raises(Broken, match="TTL"):
        messages(is_near=False).deliver(B, "t", A, 0)


def log() -> Log:
    """Put a, put b, put a again, and take both away."""
    made = Log()
    for key, value, revision in ((b"a", b"1", 1), (b"b", b"2", 2), (b"a", b"3", 3)):
        made.change(key, value, revision)
    made.change(b"a", None, None)
    made.change(b"b", None, None)
    return made


@pytest.mark.parametrize(
    ("revision", "table", "is_explained"),
    [
        (0, {}, True),
        (1, {b"a": b"1"}, True),
        (2, {b"a": b"1", b"b": b"2"}, True),
        (2, {b"a": b"1"}, False),
        (3, {b"a": b"3", b"b": b"2"}, True),
        (4, {b"b": b"2"}, True),
        (5, {}, True),
        (3, {b"a": b"3"}, False),
        (1, {b"a": b"9"}, False),
    ],
)
def test_a_replica_shows_a_prefix_or_is_told(revision, table, is_explained):
    assert log().explains(revision, table) is is_explained


def test_a_master_comes_back_with_all_that_it_told_and_perhaps_more():
    again = log()
    again.begin({b"c": (b"4", 6)}, 6)
    assert again.explains(6, {b"c": b"4"})
    with pytest.raises(Broken, match="came back with revision 2"):
        again.begin({}, 2)
    with pytest.raises(Broken, match="went back from revision 6 to 5"):
        again.change(b"a", b"1", 5)


def test_a_replica_that_goes_back_is_told():
    store = Store()
    store.show(B, 2, {})
    with pytest.raises(Broken, match="went back"):
        store.show(B, 1, {})


def test_a_replica_that_shows_what_never_was_is_told():
    store = Store()
    store.log.change(b"a", b"1", 1)
    store.show(B, 1, {b"a": b"1"})
    store.check_prefixes()
    store.show(B, 1, {b"a": b"2"})
    with pytest.raises(Broken, match="no prefix"):
        store.check_prefixes()


def acknowledged(store: Store, kind: str) -> int:
    asked = store.ask(A, kind)
    asked.is_applied = True
    return asked.number


def test_what_was_acknowledged_is_there_or_is_told():
    store = Store()
    asked = store.ask(A, "put")
    assert store.open(A) == [asked]
    store.check_kept({}, ())
    asked.is_applied = True
    assert store.open(A) == []
    with pytest.raises(Broken, match="acknowledged and lost"):
        store.check_kept({}, ())
    store.check_kept({encode(own_key(asked)): encode(0)}, ())


@pytest.mark.parametrize(("total", "is_right"), [(0, False), (1, True), (2, True), (3, False)])
def test_increments_count_once_each(total, is_right):
    store = Store()
    acknowledged(store, "increment")
    store.ask(A, "increment")
    table = {encode(TOTAL): encode(total)}
    if is_right:
        store.check_kept(table, ())
    else:
        with pytest.raises(Broken, match="increments"):
            store.check_kept(table, ())


@pytest.mark.parametrize(
    ("journal", "words"),
    [
        ((0,), "not in the journal"),
        ((1, 0), "pushed 0 once"),
        ((0, 1, 1), "once"),
        ((0, 1, 7), "nobody"),
    ],
)
def test_a_journal_has_each_token_once_and_each_author_in_order(journal, words):
    store = Store()
    store.ask(A, "push")
    acknowledged(store, "push")
    store.check_kept({encode(JOURNAL): b""}, (0, 1))
    store.check_kept({encode(JOURNAL): b""}, (1,))
    with pytest.raises(Broken, match=words):
        store.check_kept({encode(JOURNAL): b""}, journal)


def test_half_a_batch_is_told():
    store = Store()
    store.show(B, 1, {encode("left"): b"1", encode("right"): b"1"})
    with pytest.raises(Broken, match="half a batch"):
        store.show(B, 2, {encode("left"): b"2", encode("right"): b"1"})


def test_what_is_lost_with_a_killed_memory_or_a_promotion_is_not_there_twice():
    store = Store()
    store.is_volatile = True
    acknowledged(store, "increment")
    store.check_kept({encode(TOTAL): encode(0)}, ())
    with pytest.raises(Broken, match="increments"):
        store.check_kept({encode(TOTAL): encode(2)}, ())
    pushed = acknowledged(store, "push")
    with pytest.raises(Broken, match="once"):
        store.check_kept({}, (pushed, pushed))


def test_of_a_store_in_memory_that_was_killed_little_is_promised():
    store = Store()
    acknowledged(store, "put")
    store.show(B, 2, {b"a": b"1"})
    store.is_volatile = True
    store.show(B, 1, {})
    store.check_prefixes()
    store.check_kept({}, ())
