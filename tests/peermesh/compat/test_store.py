"""Masters and clones."""

from __future__ import annotations

import time

import pytest

import peermesh.compat.broker as broker
from peermesh.compat.broker import TICK_SECONDS, Backend, Count
from peermesh.errors import StoreClosed
from peermesh.testing.time_limits import limit
from tests.peermesh.compat.conftest import HOST


@pytest.fixture
def trio(opened):
    """Give a master and two clones that have its state."""
    first, *others = (opened(broker.Endpoint()) for _ in range(3))
    master = opened(first.attach_master("test", Backend.Memory))
    clones = [opened(each.attach_clone("test")) for each in others]
    port = first.listen(HOST, 0)
    for each in others:
        assert each.peer(HOST, port)
        assert each.await_peer(first.node_id(), limit())
    settle(*clones)
    return [master, *clones]


def settle(*stores: broker.Store) -> None:
    assert all(store.await_idle(limit()) is True for store in stores)


def test_what_one_writes_all_read(trio):
    master, one, two = trio
    assert master.name() == "test"
    one.put("text", "a")
    two.put("set", {"a", "b"})
    master.put("table", {1: "A", "2": Count(2)})
    one.put("vector", ["a", "b"])
    assert two.put_unique("once", 1) is True
    assert one.put_unique("once", 2) is False
    settle(one, two, master, one, two)
    for store in trio:
        assert store.get("text") == "a"
        assert store.get("set") == {"a", "b"}
        assert store.get("table") == {1: "A", "2": Count(2)}
        assert store.get("vector") == ("a", "b")
        assert (store.get("once"), store.get("none")) == (1, None)
        assert (store.exists("once"), store.exists("none")) == (True, False)
        assert store.get_index_from_value("set", "a") is True
        assert store.get_index_from_value("set", "c") is False
        assert store.get_index_from_value("table", 1) == "A"
        assert store.get_index_from_value("vector", 1) == "b"
        assert store.get_index_from_value("vector", 2) is None
        assert store.get_index_from_value("none", 0) is None
        assert store.keys() == {"text", "set", "table", "vector", "once"}


def test_every_change_acts_on_what_is_stored(trio):
    master, one, two = trio
    master.put("n", 5)
    master.put("gone", 1)
    settle(master)
    one.increment("n", 3)
    one.decrement("n", 1)
    one.append("text", "ab")
    one.append("text", b"c")
    one.insert_into("set", 1)
    one.insert_into("set", 2)
    one.remove_from("set", 1)
    one.insert_into("table", "k", 0)
    one.insert_into("table", "l", None)
    one.push("vector", 1)
    one.push("vector", 2)
    one.pop("vector")
    one.erase("gone")
    settle(one, two)
    names = two.keys()
    found = {key: two.get(key) for key in names}
    assert found["n"] == 7
    assert found["text"] == "abc"
    assert found["set"] == {2}
    assert found["vector"] == (1,)
    assert found["table"] == {"k": 0}
    assert "gone" not in found
    two.clear()
    settle(two, one)
    assert one.keys() == set()


def test_what_expires_is_gone_and_a_barrier_takes_a_tick_until_then(trio):
    master, one, two = trio
    one.put("short", 1, 0.05)
    two.put("long", 1, expiry=3600)
    assert one.put_unique("unique", 1, 0.05) is True
    while one.get("short") is not None or two.get("unique") is not None:
        settle(one, two)
    assert two.get("long") == 1
    began = time.monotonic()
    for _ in range(3):
        settle(two)
    assert time.monotonic() - began >= 3 * TICK_SECONDS
    with pytest.raises(TypeError):
        master.put("too", "many", 1, 2)


def test_a_barrier_does_not_sleep_where_nothing_expires(opened, monkeypatch):
    slept = []
    monkeypatch.setattr(broker.time, "sleep", slept.append)
    store = opened(opened(broker.Endpoint()).attach_master("test"))
    store.put("a", 1)
    assert store.await_idle(10) is True
    assert store.await_idle(0) is True
    assert slept == []
    store.put("a", 1, 3600)
    assert store.await_idle() is True
    assert 0 <= slept[0] <= TICK_SECONDS


def test_what_cannot_be_answered_is_none(opened):
    clone = opened(opened(broker.Endpoint()).attach_clone("nowhere"))
    assert clone.await_idle(0.05) is False
    master = opened(broker.Endpoint()).attach_master("test")
    master.put("a", "text")
    assert master.get_index_from_value("a", 0) == "text"
    master.reset()
    assert master.get("a") is None
    assert master.keys() is None
    assert master.put_unique("b", 1) is None
    with pytest.raises(StoreClosed):
        master.put("b", 1)


def test_an_attach_that_fails_gives_none_and_a_warning_that_says_why(opened, tmp_path):
    endpoint = opened(broker.Endpoint())
    opened(endpoint.attach_master("test"))
    with pytest.warns(RuntimeWarning, match="no store is attached: .*master"):
        assert endpoint.attach_master("test") is None
    with pytest.warns(RuntimeWarning, match="no store is attached"):
        assert endpoint.attach_clone("test") is None
    with pytest.warns(RuntimeWarning, match="needs the option path=FILE"):
        assert endpoint.attach_master("file", Backend.SQLite) is None


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("journal_mode", "which is Broker's WAL: leave it out"),
        ("failure_mode", "which is Broker's FAIL: leave it out"),
        ("integrity_check", "it is is_integrity_checked=True here"),
        ("synchronous", "it is one of OFF, NORMAL, FULL, EXTRA"),
    ],
)
def test_what_a_file_has_otherwise_than_with_broker_is_said(opened, tmp_path, name, instead):
    options = {"path": str(tmp_path / "f.db"), name: "Broker::SQLITE_FAILURE_MODE_DELETE"}
    endpoint = opened(broker.Endpoint())
    with pytest.warns(RuntimeWarning, match=f"no store is attached: .*{name}.*{instead}"):
        assert endpoint.attach_master("test", Backend.SQLite, options) is None


def test_a_file_keeps_what_was_put(opened, tmp_path):
    options = {"path": str(tmp_path / "f.db"), "is_integrity_checked": True}
    endpoint = opened(broker.Endpoint())
    with endpoint.attach_master("test", Backend.SQLite, options) as store:
        store.put("a", {1})
        settle(store)
    with endpoint.attach_master("test", type=Backend.SQLite, opts=options) as store:
        assert store.get("a") == {1}


def test_memory_takes_any_options(opened):
    endpoint = opened(broker.Endpoint())
    with endpoint.attach_master("other", Backend.Memory, {"path": 1, "anything": 2}) as store:
        assert store.keys() == set()
