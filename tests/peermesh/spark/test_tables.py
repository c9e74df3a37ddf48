"""A store as a table, without Spark: what is looked up, and that all of it is of one moment."""

from __future__ import annotations

import pytest

from peermesh import Batch
from peermesh.blocking import Endpoint
from peermesh.spark.filters import KeyFilter
from peermesh.spark.joining import join, leave
from peermesh.spark.options import read_address, read_source_options
from peermesh.spark.records import sink_key
from peermesh.spark.tables import Stretch, plan_table, read_table
from peermesh.testing.time_limits import limit
from wire.decoding import decode
from wire.errors import RequestTimeout, RevisionGone, StaleData

EVERYTHING = KeyFilter()

LARGE = 200_000
"""Bytes of a value: two do not fit into one answer."""


@pytest.fixture
def membership(mesh):
    yield join(read_address({"peers": mesh[1], "patience": str(limit(60))}))
    leave()


@pytest.fixture(params=["master", "group"])
def table(request, mesh, group):
    """A store that its master keeps, or a group of three: as one of the three sees it."""
    if request.param == "master":
        with mesh[0].attach_master("table") as store:
            yield store
        return
    yield group("table")


def read(membership, name, key_filter=EVERYTHING):
    since = membership.revision(name)
    reader = membership.store(name).not_before(since)
    return content(read_table(reader, key_filter, Stretch()))


def content(pages):
    return {decode(key): decode(value) for page in pages for key, value, _, _ in page}


def test_keys_that_are_named_are_looked_up(table, membership):
    table.put("a", 1)
    table.put(7, "seven")
    table.put(("b", 1), 2).result(limit())
    wanted = KeyFilter().with_keys(["7", "a", "missing", '["b", 1]'])
    assert read(membership, "table", wanted) == {7: "seven", "a": 1, ("b", 1): 2}
    assert read(membership, "table", KeyFilter().with_prefix("a")) == {"a": 1}


def test_a_table_has_all_that_was_written_when_it_was_planned_or_nothing(mesh, membership):
    source = pytest.importorskip("peermesh.spark.source")
    options = read_source_options({"peers": mesh[1], "store": "table"})
    reader = source.StoreReader(options, None)
    with mesh[0].attach_master("table") as store:
        store.put("n", 1).result(limit())
        assert read(membership, "table") == {"n": 1}
        later = membership.revision("table") + 1
        with pytest.raises(StaleData):  # after five seconds: this is what a replica lags behind
            list(reader.read(source.StorePartition(EVERYTHING, Stretch(), later)))


class Meddled:
    """A reader of a store that changes after each page that is read."""

    def __init__(self, reader, store):
        self._reader = reader
        self._store = store
        self.pages = 0

    def scan_encoded(self, *ends, **options):
        page = self._reader.scan_encoded(*ends, **options)
        changes = Batch().increment("a").increment("z").erase("large3").put(f"new{self.pages}", 1)
        self._store.batch(changes).result(limit())
        self.pages += 1
        return page


def test_a_table_that_changes_while_it_is_read_is_of_one_moment(table, membership):
    table.batch(Batch().put("a", 0).put("z", 0)).result(limit())
    for number in range(4):
        table.put(f"large{number}", bytes(LARGE)).result(limit())
    quiet = read(membership, "table")
    assert len(quiet) == 6
    since = membership.revision("table")
    meddled = Meddled(membership.store("table").not_before(since), table)
    assert content(read_table(meddled, EVERYTHING, Stretch())) == quiet
    assert meddled.pages >= 4
    assert read(membership, "table")["a"] == meddled.pages


def test_tasks_share_a_store_and_read_it_as_it_was_when_it_was_planned(table, membership):
    quiet = {number: str(number) for number in range(400)} | {("v", 1): 0, "text": 1}
    changes = Batch()
    for key, value in quiet.items():
        changes = changes.put(key, value)
    table.batch(changes).result(limit())
    reader = membership.store("table").not_before(membership.revision("table"))
    stretches = plan_table(reader, 16, lambda rows: rows // 100)
    assert len(stretches) == 4
    meddled = Meddled(reader, table)
    parts = [content(read_table(meddled, EVERYTHING, each)) for each in stretches]
    assert [len(part) for part in parts] == [100, 101, 100, 101]
    assert {key: value for part in parts for key, value in part.items()} == quiet
    assert plan_table(reader, 50_000, lambda rows: rows // 50_000) == [Stretch()]
    assert plan_table(reader, 2_000, lambda rows: 64) == plan_table(reader, 2_000, lambda rows: 4)


def test_a_store_without_rows_is_one_task(table, membership):
    reader = membership.store("table").not_before(0)
    assert plan_table(reader, 50_000, lambda rows: 64) == [Stretch()]
    assert content(read_table(reader, EVERYTHING, Stretch())) == {}


def test_a_revision_that_was_let_go_is_told_and_nothing_else_is_read(mesh, membership):
    with mesh[0].attach_master("table") as store:
        for number in range(4):
            store.put(f"large{number}", bytes(LARGE)).result(limit())
        reader = membership.store("table").not_before(membership.revision("table"))
        reading = read_table(reader, EVERYTHING, Stretch())
        assert len(next(reading)) == 1
        for revision in range(20):  # more than are kept at a time
            store.put("n", revision).result(limit())
            membership.store("table").scan(limit=1, revision=0)
        with pytest.raises(RevisionGone):
            list(reading)


def test_what_spark_keeps_for_itself_is_no_row(table, membership):
    changes = Batch().put(sink_key("query"), (1,)).put(("peermesh.spark.not",), 1)
    table.batch(changes.put(("other", 1), 2).put(7, 3)).result(limit())
    assert read(membership, "table") == {("peermesh.spark.not",): 1, ("other", 1): 2, 7: 3}


def test_a_store_without_a_master_is_waited_for_and_then_named():
    with Endpoint() as endpoint:
        peers = f"127.0.0.1:{endpoint.listen()}"
        alone = join(read_address({"peers": peers, "patience": "0.1"}))
        with pytest.raises(RequestTimeout, match="nowhere"):
            alone.store("nowhere")
        leave()
