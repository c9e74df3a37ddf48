"""Batches of the sink, published once: without Spark, against a real store and a real log."""

from __future__ import annotations

import pytest

from peermesh.blocking import Endpoint
from peermesh.spark.options import Writing
from peermesh.spark.publication import publish_in_log, publish_in_store
from peermesh.spark.records import (
    PIECE_COUNT_MAX,
    Mark,
    ReplayConflict,
    is_reserved,
    read_mark,
    sink_key,
    staged_key,
    write_mark,
)
from peermesh.testing.time_limits import limit
from wire.errors import GuardFailed, InvalidData

UPSERT, APPEND = Writing.UPSERT, Writing.APPEND
MANY = [(number, number) for number in range(2 * PIECE_COUNT_MAX + 5)]


@pytest.fixture(params=["master", "proxy", "replica", "proxy of a group"])
def store(mesh, group, request):
    if request.param == "replica":
        yield group("table")
        return
    if request.param == "proxy of a group":
        group("table")
        yield mesh[0].attach_proxy("table")
        return
    with mesh[0].attach_master("table") as master:
        if request.param == "master":
            yield master
            return
        with Endpoint() as other:
            host, port = mesh[1].split(":")
            other.peer(host, int(port))
            yield other.attach_proxy("table")


def publish(store, batch, rows, writing=UPSERT):
    return publish_in_store(store, "q", batch, rows, writing, 30)


def content(store):
    return {key: value for key, value in store.at_master().items() if not is_reserved(key)}


def leftovers(store):
    return [
        key for key, _ in store.at_master().items() if is_reserved(key) and key != sink_key("q")
    ]


def test_a_batch_is_published_once(store):
    assert publish(store, 0, [("a", 1), ("a", 2)])
    assert not publish(store, 0, [("a", 3), ("b", 3)])
    assert content(store) == {"a": 2}
    assert publish(store, 1, [("a", 4)])
    assert not publish(store, 0, [("a", 5)])
    assert content(store) == {"a": 4}


def test_a_large_batch_is_published_once_and_leaves_nothing_behind(store):
    assert publish(store, 0, MANY)
    assert not publish(store, 0, [(0, "again")])
    assert content(store) == dict(MANY)
    assert leftovers(store) == []


def test_what_was_decided_on_is_completed_whatever_a_replay_brings(store):
    pieces = [((("a", 1)), ("b", 1)), (("c", 1),)]
    for number, piece in enumerate(pieces):
        store.put(staged_key("q", "t", number), piece).result(limit())
    store.put(sink_key("q"), write_mark(Mark(7, "t", 1, 2))).result(limit())
    assert not publish(store, 7, [("other", 1)])
    assert content(store) == {"c": 1}
    assert read_mark(store.get(sink_key("q"))) == Mark(7)


def test_what_was_staged_and_not_decided_on_is_swept(store):
    store.put(staged_key("q", "dead", 0), (("x", 1),)).result(limit())
    assert publish(store, 0, [("a", 1)])
    assert content(store) == {"a": 1}
    assert leftovers(store) == []


def test_append_refuses_a_key_that_is_there_and_then_changes_nothing(store):
    assert publish(store, 0, [("a", 1)], APPEND)
    with pytest.raises(GuardFailed):
        publish(store, 1, [("b", 2), ("a", 2)], APPEND)
    assert content(store) == {"a": 1}
    with pytest.raises(InvalidData, match="maxOffsetsPerTrigger"):
        publish(store, 1, MANY, APPEND)


def test_a_writer_that_was_overtaken_learns_of_it(store):
    from peermesh.spark.publication import _Publisher

    for batch in (0, 1):  # the first one finds no mark, the second one another's
        late = _Publisher(store, "q", 30)
        assert publish(store, batch, [("a", batch)])
        with pytest.raises(ReplayConflict, match="two writers"):
            late.move(Mark(batch), [("a", "late")])
        assert content(store) == {"a": batch}


def test_a_batch_is_appended_to_a_log_once(mesh):
    log = mesh[0].attach_log("out", partitions=3)
    rows = [(None, number) for number in range(10_000)]
    for batch in (0, 0, 1, 0):
        publish_in_log(log, "q", batch, rows, 30)
    ends = [span.end for span in log.offsets().values()]
    assert sorted(ends) == [0, 0, 20_000]


def test_rows_with_topics_are_spread_over_partitions_as_others_spread_them(mesh):
    log = mesh[0].attach_log("out", partitions=3)
    rows = [(f"topic{number % 20}", number) for number in range(6_000)]
    homes = {topic: log.append("first", topic).result(limit()).partition for topic, _ in rows[:20]}
    # Somebody was killed when some partitions had the batch, and one had not.
    publish_in_log(log, "q", 0, [row for row in rows if homes[row[0]] != 1], 30)
    for batch in (0, 1, 1):
        publish_in_log(log, "q", batch, rows, 30)
    found = []
    for partition, span in log.offsets().items():
        at = 0
        while at < span.end:
            entries = log.read(partition, at, 4_096)
            assert {homes[entry.key] for entry in entries} == {partition}
            found += [(entry.key, entry.value) for entry in entries if entry.value != "first"]
            at = entries[-1].offset + 1
    assert sorted(found) == sorted(rows + rows)
    assert set(homes.values()) == {0, 1, 2}
