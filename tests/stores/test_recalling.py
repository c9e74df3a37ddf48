"""Pieces of a history for clones: each fits in a message, or is not told."""

from __future__ import annotations

from stores.actions import ClearCommand, PutCommand, WriterId
from stores.history import History
from stores.recalling import Recall, recalled
from wire.encoding import encode
from wire.identifiers import EndpointId, EntityId
from wire.limits import VALUE_ENTRIES_MAX

WRITER = WriterId.of(EntityId(EndpointId(bytes(16)), 1), 1)


def cleared(key_count: int) -> History:
    """Give a history of one put, and of a removal of so many keys."""
    history = History(0)
    history.add(PutCommand(WRITER, 1, None, [b"k", b"\x01"]), None, 2, 0, ())
    present = [encode(number) for number in range(key_count)]
    history.add(ClearCommand(WRITER, 2), None, 0, 1, present)
    return history


def test_the_removal_of_many_keys_is_told_as_long_as_it_fits() -> None:
    recall = Recall(0, 2)
    history = cleared(VALUE_ENTRIES_MAX // 3 - 10)
    while not recall.is_done:
        asked = recall.request()
        assert recall.receive(recalled(history, asked.after, asked.until))
    assert recall.is_known
    assert [len(commit.changes) for commit in recall.commits] == [1, VALUE_ENTRIES_MAX // 3 - 10]


def test_the_removal_of_more_keys_than_fit_is_not_known() -> None:
    recall = Recall(0, 2)
    history = cleared(VALUE_ENTRIES_MAX // 3)
    while not recall.is_done:
        asked = recall.request()
        assert recall.receive(recalled(history, asked.after, asked.until))
    assert not recall.is_known
