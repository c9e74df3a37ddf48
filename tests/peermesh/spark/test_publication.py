"""Batches of the sink, published once: without Spark, against a real store and a real log."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from peermesh.blocking import Endpoint
from peermesh.spark.options import Writing, read_sink_options
from peermesh.spark.publication import _Publisher, publish_in_log, publish_in_store
from peermesh.spark.records import (
    PIECE_COUNT_MAX,
    Counts,
    Mark,
    ReplayConflict,
    Taken,
    count_key,
    is_reserved,
    read_mark,
    sink_key,
    staged_key,
    write_mark,
)
from peermesh.testing.time_limits import limit
from wire.errors import GuardFailed, InvalidData, SequenceUnknown

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
    return publish_in_store(store, "q", batch, Taken(rows), writing, 30)


def content(store):
    return {key: value for key, value in store.at_master().items() if not is_reserved(key)}


def leftovers(store):
    kept = {sink_key("q"), *(count_key("q", what) for what in ("rows", "replaced", "dropped"))}
    return [key for key, _ in store.at_master().items() if is_reserved(key) and key not in kept]


def counts(store):
    reader = store.at_master()
    return Counts(*(reader.get(count_key("q", each.name), 0) for each in fields(Counts)))


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


class Interrupted:
    """A store at which something else happens right before the next change of what is there."""

    def __init__(self, store, meanwhile):
        self._store = store
        self._meanwhile = meanwhile

    def __getattr__(self, name):
        return getattr(self._store, name)

    def _interrupt(self):
        meanwhile, self._meanwhile = self._meanwhile, lambda: None
        meanwhile()

    def batch(self, changes):
        self._interrupt()
        return self._store.batch(changes)

    def erase(self, key):
        self._interrupt()
        return self._store.erase(key)


def test_a_driver_cannot_decide_on_pieces_that_a_later_one_has_swept(store):
    def restart():
        later = _Publisher(store, "q", 30)
        later.complete()
        later.sweep()  # and it is killed

    with pytest.raises(ReplayConflict, match="two writers publish as q"):
        publish(Interrupted(store, restart), 0, MANY)
    assert content(store) == {}
    assert publish(store, 0, MANY)
    assert content(store) == dict(MANY)
    assert leftovers(store) == []
    assert counts(store) == Counts(len(MANY))
    assert read_mark(store.at_master().get(sink_key("q"))) == Mark(0)


def test_what_is_decided_on_at_this_moment_is_not_swept(store):
    pieces = [(("a", 1), ("b", 1)), (("c", 1),)]
    for number, piece in enumerate(pieces):
        store.put(staged_key("q", "t", number), piece).result(limit())
    earlier = _Publisher(store, "q", 30)
    later = _Publisher(Interrupted(store, lambda: earlier.move(Mark(7, "t", 0, 2), ())), "q", 30)
    with pytest.raises(ReplayConflict, match="two writers publish as q"):
        later.sweep()
    assert not publish(store, 7, [("other", 1)])
    assert content(store) == {"a": 1, "b": 1, "c": 1}
    assert leftovers(store) == []


def test_a_second_driver_that_completes_a_batch_learns_of_the_first(store):
    store.put(staged_key("q", "t", 0), (("a", 1),)).result(limit())
    store.put(sink_key("q"), write_mark(Mark(7, "t", 0, 1))).result(limit())
    late = _Publisher(store, "q", 30)
    assert publish(store, 8, [("b", 2)])
    with pytest.raises(ReplayConflict, match="two writers publish as q"):
        late.complete()
    assert content(store) == {"a": 1, "b": 2}


def test_a_piece_that_is_gone_is_told_with_the_key_to_erase_and_then_the_batch_comes_anew(store):
    store.put(sink_key("q"), write_mark(Mark(7, "t", 1, 2))).result(limit())
    with pytest.raises(ReplayConflict) as caught:
        publish(store, 7, [("a", 1)])
    text = str(caught.value)
    assert text.startswith("batch 7 of q: the staged piece 2 of 2 is gone from store table: stop")
    assert f"erase the key {sink_key('q')!r}" in text
    store.erase(sink_key("q")).result(limit())
    assert publish(store, 7, [("a", 1)])
    assert content(store) == {"a": 1}


def test_a_leader_that_is_away_for_a_while_is_waited_for_at_every_step(store, often_away):
    away = often_away(store)
    store.put(staged_key("q", "dead", 0), (("x", 1),)).result(limit())
    assert publish(away, 0, MANY)  # which reads the mark, what is left, and each piece
    assert away.absences >= 5
    assert not publish(away, 0, MANY)
    with pytest.raises(GuardFailed, match="store table has the key 0 already"):
        publish(away, 1, [(0, "new")], APPEND)
    assert content(store) == dict(MANY)
    assert leftovers(store) == []


def test_append_refuses_a_key_that_is_there_and_then_changes_nothing(store):
    assert publish(store, 0, [("a", 1)], APPEND)
    with pytest.raises(GuardFailed, match="store table has the key 'a' already: nothing"):
        publish(store, 1, [("b", 2), ("a", 2)], APPEND)
    with pytest.raises(GuardFailed, match="several rows of this batch have the key 'b': nothing"):
        publish(store, 1, [("b", 2), ("b", 3), ("c", 3)], APPEND)
    assert content(store) == {"a": 1}
    with pytest.raises(InvalidData, match="maxOffsetsPerTrigger"):
        publish(store, 1, MANY, APPEND)


def test_an_append_names_three_keys_that_are_there_and_counts_the_others(store):
    rows = [(number, "first") for number in range(5)]
    publish(store, 0, rows, APPEND)
    with pytest.raises(GuardFailed, match="has the keys 0, 1, 2, and 2 more already"):
        publish(store, 1, [*rows, (5, "new")], APPEND)
    assert content(store) == dict(rows)
    assert counts(store) == Counts(5)


@pytest.mark.parametrize("many", [[], MANY], ids=["at once", "in pieces"])
def test_what_became_of_rows_is_counted_once(store, many):
    rows = [("a", 1), ("a", 2), ("b", 3), *many]
    for batch in (0, 0, 1):
        publish_in_store(store, "q", batch, Taken(rows, 4), UPSERT, 30)
    assert content(store) == {"a": 2, "b": 3, **dict(many)}
    assert counts(store) == Counts(2 * len(rows), 2, 8)


def test_a_writer_that_was_overtaken_learns_of_it(store):
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


def test_a_repetition_that_the_log_has_forgotten_says_what_to_do(mesh, monkeypatch):
    monkeypatch.setattr("stores.log.producers.PRODUCERS_MAX", 1)
    log = mesh[0].attach_log("out")
    for load in ("january", "february"):
        publish_in_log(log, load, 0, [(None, load)], 30)
    text = "log out: whether batch 0 of january .* was idle while 1 others .* with another writeId"
    with pytest.raises(SequenceUnknown, match=text):
        publish_in_log(log, "january", 0, [(None, "january")], 30)
    assert log.offsets()[0].end == 2


def remembered(log):
    """Count the producers that a log remembers."""
    return int(re.search(r"producers=(\d+)", repr(log._log_handle.part.core.machine))[1])


def test_a_write_that_is_not_repeated_has_no_producer_and_is_there_once(mesh):
    log = mesh[0].attach_log("out", partitions=3)
    rows = [(f"topic{number % 20}", number) for number in range(100)]
    rows += [(None, number) for number in range(10_000)]
    publish_in_log(log, "q", 0, rows, 30, is_repeatable=False)
    assert sum(span.end for span in log.offsets().values()) == len(rows)
    assert remembered(log) == 0
    publish_in_log(log, "q", 0, rows, 30)
    assert remembered(log) == 4, "one for each partition that has keys, and one for other rows"


@pytest.mark.parametrize(("more", "left"), [({}, 0), ({"writeId": "x"}, 2)])
def test_a_table_is_written_to_a_log_with_producers_only_under_a_write_id(mesh, more, left):
    pytest.importorskip("pyarrow")
    types = pytest.importorskip("pyspark.sql.types")
    from peermesh.spark.sink import MeshWriter, Sink, Written

    log = mesh[0].attach_log("out", partitions=2)
    options = {"peers": mesh[1], "log": "out", "topicColumn": "k", "valueColumn": "v", **more}
    schema = types.StructType().add("k", types.StringType()).add("v", types.StringType())
    writer = MeshWriter(Sink(read_sink_options(options), schema))
    rows = [(f"topic{number}", "x") for number in range(20)]
    writer.commit([Written("", 0, 0, Taken(rows)), None])
    assert sum(span.end for span in log.offsets().values()) == len(rows)
    assert remembered(log) == left


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
