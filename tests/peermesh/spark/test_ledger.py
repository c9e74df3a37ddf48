"""The ledger without Spark: once, resumed, and fenced, against a real store."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import pytest

from peermesh import Batch
from peermesh.spark import JobFenced, Ledger, ReplayConflict, fingerprint, upsert_batch
from peermesh.spark.records import Mark, is_reserved, read_mark, sink_key
from peermesh.spark.turns import PLACES_MAX, LastTurns
from peermesh.testing.time_limits import limit
from wire.errors import InvalidData


@pytest.fixture(params=["master", "replica"])
def store(mesh, group, request):
    if request.param == "replica":
        yield group("table")
        return
    with mesh[0].attach_master("table") as master:
        yield master


FRAME = SimpleNamespace()


def frame_of(run, query="id", **more):
    """Make a frame of a query, as Spark hands it to what is in ``foreachBatch``."""
    properties = {"sql.streaming.queryId": query, "spark.jobGroup.id": run}
    context = SimpleNamespace(getLocalProperty=properties.get)
    return SimpleNamespace(sparkSession=SimpleNamespace(sparkContext=context), **more)


def counting(key):
    return lambda frame, batch: Batch().increment(key)


def test_a_batch_is_done_once(store):
    ledger = Ledger(store, "count")
    calls = []

    def on_batch(frame, batch):
        calls.append(batch)
        return Batch().increment("rows", 10)

    run = ledger.once(on_batch, "q")
    for batch in (0, 1, 1, 0, 2):
        run(FRAME, batch)
    again = Ledger(store, "count")
    again.once(on_batch, "q")(FRAME, 2)
    assert calls == [0, 1, 2]
    assert store.at_master().get("rows") == 30
    assert (again.last_batch("q"), again.last_batch("other")) == (2, None)


def test_a_second_function_of_a_batch_is_refused_and_a_name_makes_it_another(store):
    ledger = Ledger(store, "count")
    first, second = ledger.once(counting("one")), ledger.once(counting("two"))
    first(frame_of("run 1"), 0)
    with pytest.raises(InvalidData, match=r"batch 0 of id is done by another .* name='second'"):
        second(frame_of("run 1"), 0)
    second = ledger.once(counting("two"), name="second")
    for run, batch in [("run 2", 0), ("run 2", 1), ("run 2", 1)]:
        first(frame_of(run), batch)
        second(frame_of(run), batch)
    assert [store.at_master().get(key) for key in ("one", "two")] == [2, 2]
    assert (ledger.last_batch("id"), ledger.last_batch("id", name="second")) == (1, 1)
    assert ledger.last_batch("id", name="third") is None
    with pytest.raises(InvalidData, match="name='' is none"):
        ledger.once(counting("two"), name="")(frame_of("run 2"), 2)


def test_a_batch_that_is_repeated_after_a_restart_is_recognized_by_another_function(store):
    ledger = Ledger(store, "count")
    for run in ("run 1", "run 2"):  # of one process
        ledger.once(counting("one"))(frame_of(run), 0)
    each = [ledger.once(counting("one")) for _ in range(2)]
    for batch in (1, 2):  # a function may have the one batch, and another function the next
        each[batch - 1](frame_of("run 2"), batch)
    assert store.at_master().get("one") == 3


def test_what_is_given_as_a_query_has_one_function_for_each_batch_too(store):
    ledger = Ledger(store, "count")
    ledger.once(counting("one"), "q")(frame_of("run"), 0)
    with pytest.raises(InvalidData, match="batch 0 of q is done by another function"):
        ledger.once(counting("two"), "q")(frame_of("run"), 0)
    Ledger(store, "other").once(counting("two"), "q")(frame_of("run"), 0)
    assert store.at_master().get("two") == 1


def test_a_second_upsert_of_a_batch_is_refused_and_a_name_makes_it_another(store):
    pa, types = pytest.importorskip("pyarrow"), pytest.importorskip("pyspark.sql.types")
    schema = types.StructType().add("k", types.StringType()).add("v", types.StringType())
    rows = pa.table({"k": ["a"], "v": ["x"]})
    frame = frame_of("run 1", schema=schema, toArrow=lambda: rows)
    first = upsert_batch(store, "k", value_column="v")
    for _ in range(2):  # what failed behind it is tried again
        first(frame, 7)
    with pytest.raises(InvalidData, match=r"batch 7 of id is done by another .* name='second'"):
        upsert_batch(store, "v", value_column="k")(frame, 7)
    upsert_batch(store, "v", value_column="k", name="second")(frame, 7)
    upsert_batch(store, "k", value_column="v")(
        frame_of("run 2", schema=schema, toArrow=lambda: rows), 7
    )
    found = {key: value for key, value in store.at_master().items() if not is_reserved(key)}
    assert found == {"a": "x", "x": "a"}
    assert read_mark(store.at_master().get(sink_key("id"))) == Mark(7), "today's key"


def test_a_process_remembers_the_turns_of_the_latest_queries():
    turns = LastTurns()
    assert not turns.take(("old",), "run", 0, "f")
    for number in range(PLACES_MAX - 1):
        assert not turns.take((f"q{number}",), "run", 0, "f")
    assert turns.take(("old",), "run", 0, "g")
    assert not turns.take(("new",), "run", 0, "f")
    assert turns.take(("old",), "run", 0, "h"), "it was asked about lately"
    assert not turns.take(("q0",), "run", 0, "g"), "it was not"
    assert not turns.take(("new",), None, 0, "g"), "a run that is not known is another one"


def test_a_batch_that_fails_is_not_done(store):
    ledger = Ledger(store, "count")

    def fails(frame, batch):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ledger.once(fails, "q")(FRAME, 0)
    assert ledger.last_batch("q") is None


def test_a_leader_that_is_away_for_a_while_is_waited_for_at_every_read(store, often_away):
    away = often_away(store)
    ledger = Ledger(away, "count")
    for _ in range(2):
        ledger.once(counting("rows"), "q")(FRAME, 0)
    assert ledger.last_batch("q") == 0
    work = ledger.work("f")
    assert [work.done(1), work.done(1)] == [True, False]
    assert work.remaining([1, 2]) == [2]
    Ledger(away, "count")
    with pytest.raises(JobFenced):
        ledger.once(counting("rows"), "q")(FRAME, 1)
    assert away.absences >= 6
    assert store.at_master().get("rows") == 1


def test_the_later_of_two_runs_fences_the_earlier(store):
    first = Ledger(store, "count")
    second = Ledger(store, "count")
    with pytest.raises(JobFenced, match="another run of job 'count'"):
        first.once(lambda frame, batch: Batch().increment("rows"), "q")(FRAME, 0)
    with pytest.raises(JobFenced):
        first.work("f").done("unit")
    assert second.work("f").done("unit")
    assert store.at_master().get("rows") is None


def test_units_that_are_done_are_skipped(store):
    work = Ledger(store, "score").work("f")
    assert work.remaining([1, True, "a"]) == [1, True, "a"]
    assert work.done(1, "one", Batch().increment("count"))
    assert not work.done(1, "other", Batch().increment("count"))
    resumed = Ledger(store, "score").work("f")
    assert resumed.remaining([1, True, "a"]) == [True, "a"]
    assert resumed.results() == {1: "one"}
    assert store.at_master().get("count") == 1
    with pytest.raises(ReplayConflict):
        resumed.done("a", changes=Batch().if_value("count", 7))
    assert resumed.remaining(["a"]) == ["a"]
    assert Ledger(store, "score").work("g").remaining([1]) == [1]


def test_executors_note_units_from_their_own_process(store, mesh):
    ledger = Ledger(store, "score")
    with pytest.raises(InvalidData, match="peers"):
        pickle.dumps(ledger.work("f"))
    sent = pickle.loads(pickle.dumps(ledger.work("f", peers=mesh[1])))
    from peermesh.spark.joining import leave

    try:
        assert sent.done("unit", 7)
        assert sent.results() == {"unit": 7}
    finally:
        leave()
    assert ledger.work("f").results() == {"unit": 7}


def test_changes_may_not_happen_only_otherwise(store):
    ledger = Ledger(store, "count")
    changes = Batch().if_absent("x").put("x", 1).otherwise().put("y", 1)
    with pytest.raises(InvalidData, match="otherwise"):
        ledger.once(lambda frame, batch: changes, "q")(FRAME, 0)


def test_a_fingerprint_changes_with_code_configuration_and_input(tmp_path):
    path = tmp_path / "input"
    path.write_text("one")
    before = fingerprint(lambda row: row + 1, {"limit": 3}, path)
    assert before == fingerprint(lambda row: row + 1, {"limit": 3}, path)
    assert before != fingerprint(lambda row: row + 2, {"limit": 3}, path)
    assert before != fingerprint(lambda row: row + 1, {"limit": 4}, path)
    path.write_text("two")
    assert before != fingerprint(lambda row: row + 1, {"limit": 3}, path)


def test_keys_of_the_ledger_can_be_told_from_a_users(store):
    Ledger(store, "count").work("f").done("unit")
    store.put(("peermesh", "mine"), 1).result(limit())
    assert [key for key, _ in store.at_master().items() if not is_reserved(key)] == [
        ("peermesh", "mine")
    ]
