"""The ledger without Spark: once, resumed, and fenced, against a real store."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import pytest

from peermesh import Batch
from peermesh.spark import JobFenced, Ledger, ReplayConflict, fingerprint
from peermesh.spark.records import is_reserved
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


def test_a_batch_that_fails_is_not_done(store):
    ledger = Ledger(store, "count")

    def fails(frame, batch):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ledger.once(fails, "q")(FRAME, 0)
    assert ledger.last_batch("q") is None


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
