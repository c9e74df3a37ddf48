"""Every operation, at a master, a clone and a voter, in memory and durable: the same results."""

from __future__ import annotations

from datetime import timedelta

import pytest

from peermesh.testing.simulation.disk import Disk
from stores import effects as fx
from stores.actions import Guard, GuardKind, Initial, Step, StepKind
from stores.outcomes import Applied, Refused
from stores.sealing import StorageKey, StorageKeys
from wire.encoding import encode
from wire.errors import ErrorCode
from wire.values import Count, Set, Table

TICK_NS = 100_000_000


@pytest.fixture(params=["memory", "disk", "sqlite", "sealed"])
def places(request, tmp_path):
    """Give where three replicas are, and the options of their files."""
    paths = [tmp_path / f"{name}.db" for name in "abc"]
    return {
        "memory": ([None] * 3, {}),
        "disk": ([Disk() for _ in paths], {}),
        "sqlite": (paths, {"keys": None}),
        "sealed": (paths, {"keys": StorageKeys((StorageKey(bytes(32)),))}),
    }[request.param]


@pytest.fixture(params=["master", "clone", "voter"])
def store(request, world, places):
    """The handle under test. ``ask`` runs an operation and gives its outcome.

    The voter is one of three, and does not lead.
    """
    where, options = places
    if request.param == "voter":
        first, second, third = world.voters(where, **options)
        node = second if first.core.is_leader else first
    else:
        first = world.master(where[0], **options)
        second, third = world.clone(), world.clone()
        world.tick()
        node = first if request.param == "master" else second
    all_three = first, second, third

    def ask(number):
        world.settle()
        if request.param == "voter":
            world.tick()  # By then all know what a majority has.
        contents = [other.columns for other in all_three]
        assert contents[0] == contents[1] == contents[2]
        assert len({other.core.revision for other in all_three}) == 1
        return node.outcomes[number]

    node.ask = ask
    return node


def refused(outcome, code):
    return isinstance(outcome, Refused) and outcome.code == code


def test_put_then_get(store):
    assert store.ask(store.put("key", ("any", 1, Set([True])))) == Applied(1)
    assert store.get("key") == ("any", 1, Set([True]))
    assert store.ask(store.put("key", None)) == Applied(2)
    assert store.get("key") is None
    assert store.core.machine.get(encode("key")) == encode(None)
    assert store.core.machine.get(encode("other")) is None


def test_keys_that_are_equal_in_python_are_different_keys(store):
    keys = (1, True, 1.0, Count(1), "1")
    for number, key in enumerate(keys):
        store.put(key, number)
    store.ask(len(keys))
    assert [store.get(key) for key in keys] == [0, 1, 2, 3, 4]
    assert len(store.core.machine.keys()) == 5


def test_put_unique_wins_once(store):
    assert store.ask(store.put_unique("key", 1)) == Applied(1, answer=True)
    assert store.ask(store.put_unique("key", 2)) == Applied(1, answer=False)
    assert store.get("key") == 1
    store.ask(store.erase("key"))
    assert store.ask(store.put_unique("key", 3)) == Applied(3, answer=True)


def test_erase_of_a_key_that_is_there_and_of_one_that_is_not(store):
    store.put("key", 1)
    assert store.ask(store.erase("key")) == Applied(2)
    assert store.core.machine.keys() == []
    assert store.ask(store.erase("key")) == Applied(3)


def test_clear(store):
    store.put("a", 1)
    store.put("b", 2)
    assert store.ask(store.core.requests.clear()) == Applied(3)
    assert store.contents() == {}


def test_increment_and_decrement(store):
    assert store.ask(store.increment("n", 5)) == Applied(1)
    assert store.ask(store.subtract("n", 2)) == Applied(2)
    assert store.get("n") == 3
    assert refused(store.ask(store.increment("n", Count(1))), ErrorCode.TYPE_CLASH)
    assert refused(store.ask(store.subtract("missing", 1)), ErrorCode.NO_SUCH_KEY)
    assert store.get("n") == 3
    assert store.core.revision == 2


def test_increment_that_does_not_fit(store):
    store.put("n", 2**63 - 1)
    assert refused(store.ask(store.increment("n", 1)), ErrorCode.INVALID_DATA)
    assert store.get("n") == 2**63 - 1


def test_append(store):
    store.ask(store.add("s", "ab", Initial.TEXT))
    store.ask(store.add("s", "cd", Initial.TEXT))
    assert store.get("s") == "abcd"


def test_a_failed_operation_on_a_missing_key_leaves_nothing_behind(store):
    assert refused(store.ask(store.add("s", 1, Initial.TEXT)), ErrorCode.TYPE_CLASH)
    assert store.contents() == {}
    assert store.ask(store.put_unique("s", 1)) == Applied(1, answer=True)


def test_insert_into_and_remove_from_a_set(store):
    for element in (1, 2, True):
        store.add("set", element, Initial.SET)
    store.ask(store.subtract("set", 1))
    assert store.get("set") == Set([2, True])


def test_insert_into_and_remove_from_a_table(store):
    store.add("table", ("a", 1), Initial.TABLE)
    store.add("table", ("b", 2), Initial.TABLE)
    store.ask(store.subtract("table", "a"))
    assert store.get("table") == Table({"b": 2})


def test_push_and_pop(store):
    for element in (1, 2, 3):
        store.add("vector", element, Initial.VECTOR)
    store.ask(store.subtract("vector", "vector"))
    assert store.get("vector") == (1, 2)


def test_a_timespan_counts_from_the_epoch(store):
    store.ask(store.increment("t", timedelta(seconds=90)))
    assert store.get("t").isoformat() == "1970-01-01T00:01:30+00:00"


def test_a_batch_is_one_mutation_and_all_or_nothing(store):
    store.put("a", 1)
    steps = [
        Step(StepKind.PUT, encode("b"), encode(2)),
        Step(StepKind.ADD, encode("a"), encode(10), Initial.NUMBER),
        Step(StepKind.ERASE, encode("missing")),
    ]
    batch = store.core.requests.batch
    assert store.ask(batch([Guard(GuardKind.ABSENT, encode("b"))], steps)) == Applied(2, True)
    assert store.contents() == {"a": 11, "b": 2}
    guarded = batch([Guard(GuardKind.ABSENT, encode("b"))], steps)
    assert refused(store.ask(guarded), ErrorCode.GUARD_FAILED)
    clashing = batch([], [*steps, Step(StepKind.ADD, encode("b"), encode("x"), Initial.TEXT)])
    assert refused(store.ask(clashing), ErrorCode.TYPE_CLASH)
    assert store.contents() == {"a": 11, "b": 2}
    assert store.core.revision == 2


def test_compare_and_set_by_revision(store):
    store.ask(store.put("a", 1))
    revision = store.core.machine.entry(encode("a")).revision
    guard = Guard(GuardKind.REVISION, encode("a"), revision=revision)
    steps = [Step(StepKind.PUT, encode("a"), encode(2))]
    assert store.ask(store.core.requests.batch([guard], steps)) == Applied(2, True)
    assert refused(store.ask(store.core.requests.batch([guard], steps)), ErrorCode.GUARD_FAILED)


def test_a_key_expires_by_the_masters_clock(store, world):
    store.put("short", 1, 3 * TICK_NS)
    store.put("long", 2, 50 * TICK_NS)
    store.ask(store.put("kept", 3))
    world.tick(1)
    assert store.get("short") == 1
    world.tick(3)
    assert store.contents() == {"long": 2, "kept": 3}


def test_an_operation_without_expiry_clears_the_expiry(store, world):
    for key in ("put", "add", "subtract"):
        store.put(key, 5, 3 * TICK_NS)
    store.put("put", 6)
    store.increment("add", 1)
    store.ask(store.subtract("subtract", 1))
    world.tick(10)
    assert store.contents() == {"put": 6, "add": 6, "subtract": 4}


def test_an_expiry_of_nothing_ends_at_the_next_tick(store, world):
    store.ask(store.put("gone", 1, 0))
    world.tick(2)
    assert store.contents() == {}


def test_many_requests_are_answered_in_order_with_their_revisions(store):
    numbers = [store.put(number, number) for number in range(1000)]
    store.ask(numbers[-1])
    assert [store.outcomes[number] for number in numbers] == [
        Applied(revision) for revision in range(1, 1001)
    ]


def test_outcomes_of_one_handle_come_in_the_order_of_its_requests(store, world):
    for number in range(100):
        (store.put, store.put_unique, store.increment, store.subtract)[number % 4]("k", number)
    store.ask(100)
    told = [
        request
        for effect in store.said(fx.Resolve)
        for request in range(effect.outcome.first_request, effect.outcome.last_request + 1)
    ]
    assert told == list(range(1, 101))


def test_a_store_without_work_is_idle(store, world):
    store.run(store.core.begin_idle(7))
    world.tick()
    assert store.is_idle(7)
    assert store.core.explain_idle() == ""
