"""What every operation does to every type: Broker's whole table, at each kind of handle alike.

One list of cases runs at a master, at a clone and at a proxy, in memory and on SQLite, over wires
of the test's own and over TCP, as an operation alone and as a batch of one. The writer hears the
outcome; the master, the clone and a bystander then show the same; and what fails leaves nothing
behind.
"""

from __future__ import annotations

from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address, IPv4Network
from typing import Any, NamedTuple

import pytest
import trio

from endpoint import Endpoint
from endpoint.replicas.attaching import Backend
from peermesh.testing.time_limits import limit
from stores.actions import StepKind
from stores.batch import Batch
from stores.outcomes import Refused
from wire.encoding import encode
from wire.errors import ErrorCode, StoreError
from wire.values import Count, Enum, Port, Set, Table, Timespan, Timestamp

CLASH, MISSING, INVALID = ErrorCode.TYPE_CLASH, ErrorCode.NO_SUCH_KEY, ErrorCode.INVALID_DATA
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOMENT = datetime(2024, 5, 17, 12, 30, tzinfo=UTC)
SECOND = timedelta(seconds=1)
INT_MAX, INT_MIN, COUNT_MAX = 2**63 - 1, -(2**63), 2**64 - 1


class Absent:
    """No value at all, which is not the value none."""

    def __repr__(self) -> str:
        return "nothing"


ABSENT: Any = Absent()
OWN_KEY: Any = Enum("the key of the case")
"""Stands for the key of the case, which is its operand or its element too."""


class Case(NamedTuple):
    """What is stored, what is done, and what is stored then; or the error, and all is as before."""

    stored: Any
    operation: str
    arguments: tuple[Any, ...]
    then: Any


def each(operations: str, stored: Any, arguments: tuple[Any, ...], then: Any) -> list[Case]:
    return [Case(stored, operation, arguments, then) for operation in operations.split()]


ADDITIONS = "increment append insert_into push"
SUBTRACTIONS = "decrement remove_from"
NEITHER = [
    None,
    True,
    IPv4Address("10.0.0.1"),
    IPv4Network("10.0.0.0/8"),
    Port(80, Port.TCP),
    Enum("local"),
]

NUMBERS = [
    *each(ADDITIONS, 40, (2,), 42),
    *each(ADDITIONS, Count(40), (Count(2),), Count(42)),
    *each(ADDITIONS, 1.5, (0.25,), 1.75),
    *each(SUBTRACTIONS, 44, (2,), 42),
    *each(SUBTRACTIONS, Count(44), (Count(2),), Count(42)),
    *each(SUBTRACTIONS, 1.5, (0.25,), 1.25),
    # Types do not mix, and numbers that do not fit are refused where Broker's wrap around.
    *each(ADDITIONS, 40, (Count(2),), CLASH),
    *each(ADDITIONS, Count(40), (2,), CLASH),
    *each(ADDITIONS, 1.5, (2,), CLASH),
    *each(ADDITIONS, 40, (True,), CLASH),
    *each(SUBTRACTIONS, 40, (2.0,), CLASH),
    *each(ADDITIONS, INT_MAX, (1,), INVALID),
    *each(ADDITIONS, Count(COUNT_MAX), (Count(1),), INVALID),
    *each(SUBTRACTIONS, Count(1), (Count(3),), INVALID),
    *each(SUBTRACTIONS, INT_MIN, (1,), INVALID),
]

TIMES = [
    *each(ADDITIONS, SECOND, (SECOND,), 2 * SECOND),
    *each(ADDITIONS, SECOND, (Timespan(1),), Timespan(1_000_000_001)),
    *each(ADDITIONS, MOMENT, (SECOND,), MOMENT + SECOND),
    *each(ADDITIONS, Timestamp(7), (Timespan(993),), EPOCH + timedelta(microseconds=1)),
    *each(SUBTRACTIONS, SECOND, (SECOND,), timedelta(0)),
    *each(SUBTRACTIONS, MOMENT, (SECOND,), MOMENT - SECOND),
    *each(ADDITIONS, MOMENT, (MOMENT,), CLASH),
    *each(ADDITIONS, MOMENT, (1,), CLASH),
    *each(SUBTRACTIONS, SECOND, (1.0,), CLASH),
    *each(ADDITIONS, Timestamp(INT_MAX), (Timespan(1),), INVALID),
]

TEXTS = [
    *each(ADDITIONS, "ab", ("cd",), "abcd"),
    *each(ADDITIONS, b"ab", (b"cd",), b"abcd"),
    *each(ADDITIONS, "ab", (b"cd",), CLASH),
    *each(ADDITIONS, "ab", (1,), CLASH),
    *each(SUBTRACTIONS, "ab", ("b",), CLASH),
    *each(SUBTRACTIONS, b"ab", (b"b",), CLASH),
]

SETS = [
    *each(ADDITIONS, Set([1]), (True,), Set([1, True])),
    *each(ADDITIONS, Set([1]), (1,), Set([1])),
    *each(ADDITIONS, Set([1]), (None,), Set([1, None])),
    Case(Set([1]), "insert_into", ("a", 2), Set([1, ("a", 2)])),
    *each(SUBTRACTIONS, Set([1, True]), (True,), Set([1])),
    *each(SUBTRACTIONS, Set([1]), ("missing",), Set([1])),
]

TABLES = [
    Case(Table({"a": 1}), "insert_into", ("b", 2), Table({"a": 1, "b": 2})),
    Case(Table({"a": 1}), "insert_into", ("a", 2), Table({"a": 2})),
    *each("increment append push", Table(), (("a", 1),), Table({"a": 1})),
    *each(ADDITIONS, Table({"a": 1}), ("b",), CLASH),
    *each(ADDITIONS, Table({"a": 1}), (("b",),), INVALID),
    *each(ADDITIONS, Table({"a": 1}), (("b", 1, 2),), INVALID),
    *each(SUBTRACTIONS, Table({"a": 1, "b": 2}), ("b",), Table({"a": 1})),
    *each(SUBTRACTIONS, Table({"a": 1}), ("missing",), Table({"a": 1})),
]

VECTORS = [
    *each(ADDITIONS, (1,), (2,), (1, 2)),
    *each(ADDITIONS, (), (None,), (None,)),
    Case((1,), "insert_into", (0, "x"), (1, (0, "x"))),
    *each(SUBTRACTIONS, (1, 2, 3), ("whatever",), (1, 2)),
    *each(SUBTRACTIONS, (), (1,), ()),
]

POPS = [
    Case((1, 2, 3), "pop", (), (1, 2)),
    Case((), "pop", (), ()),
    Case(Set([1, OWN_KEY]), "pop", (), Set([1])),
    Case(Set([1, 2]), "pop", (), Set([1, 2])),
    Case(Table({OWN_KEY: 1, 2: 3}), "pop", (), Table({2: 3})),
    Case("text", "pop", (), CLASH),
    Case(ABSENT, "pop", (), MISSING),
]

NOTHING_THERE = [
    Case(ABSENT, "increment", (5,), 5),
    Case(ABSENT, "increment", (Count(5),), Count(5)),
    Case(ABSENT, "increment", (0.5,), 0.5),
    Case(ABSENT, "increment", (timedelta(seconds=90),), EPOCH + timedelta(seconds=90)),
    Case(ABSENT, "append", ("ab",), "ab"),
    Case(ABSENT, "append", (b"ab",), b"ab"),
    Case(ABSENT, "insert_into", (1,), Set([1])),
    Case(ABSENT, "insert_into", ("a", 1), Table({"a": 1})),
    Case(ABSENT, "push", ("a",), ("a",)),
    *[
        Case(ABSENT, "increment", (value,), CLASH)
        for value in (*NEITHER, "text", MOMENT, (1,), Set([1]), Table())
    ],
    *[Case(ABSENT, "append", (value,), CLASH) for value in (1, None, ("a",))],
    *each(SUBTRACTIONS, ABSENT, (1,), MISSING),
]

OTHERS = [
    *[case for value in NEITHER for case in each(ADDITIONS, value, (1,), CLASH)],
    *[case for value in NEITHER for case in each(SUBTRACTIONS, value, (1,), CLASH)],
    Case(ABSENT, "put", (None,), None),
    Case(7, "put", ("seven",), "seven"),
    Case(7, "erase", (), ABSENT),
    Case(ABSENT, "erase", (), ABSENT),
]

CASES = [
    *(*NUMBERS, *TIMES, *TEXTS, *SETS, *TABLES, *VECTORS, *POPS, *NOTHING_THERE, *OTHERS),
]


def filled(value: Any, key: Any) -> Any:
    """Put the case's own key where the case says so."""
    if value == OWN_KEY:
        return key
    if isinstance(value, Set):
        return Set([filled(element, key) for element in value])
    if isinstance(value, Table):
        return Table([(filled(name, key), item) for name, item in value.items()])
    return value


class Cores:
    """Masters and clones wired by their effects."""

    def __init__(self, world, role: str, path) -> None:
        self.world = world
        self.nodes = [world.master(path), world.clone(), world.clone()]
        world.tick()
        self.writer = self.nodes[0 if role == "master" else 1]

    async def perform(self, batch: Batch, *, is_alone: bool) -> ErrorCode | None:
        requests = self.writer.core.requests
        number = ask_alone(requests, batch) if is_alone else requests.batch((), batch.steps)
        self.world.settle()
        result = self.writer.outcomes[number]
        return result.code if isinstance(result, Refused) else None

    async def contents(self, key: Any) -> list[Any]:
        return [
            ABSENT if (found := node.core.machine.get(encode(key))) is None else found
            for node in self.nodes
        ]


def ask_alone(requests, batch: Batch) -> int:
    (step,) = batch.steps
    match step.kind:
        case StepKind.PUT:
            return requests.put(step.key, step.operand)
        case StepKind.ERASE:
            return requests.erase(step.key)
        case StepKind.ADD:
            return requests.add(step.key, step.operand, step.initial)
        case StepKind.SUBTRACT:
            return requests.subtract(step.key, step.operand)


class Sockets:
    """A master and two clones at endpoints, each a hop from the next; or a clone and a proxy."""

    def __init__(self, stores: list[Any], role: str) -> None:
        self.stores = stores
        self.writer = stores[0 if role == "master" else 1]

    async def perform(self, batch: Batch, *, is_alone: bool) -> ErrorCode | None:
        try:
            if is_alone:
                receipt = await self._call(*self.call)
            else:
                receipt = await self.writer.batch(batch)
            revision = await receipt.applied()
        except StoreError as error:
            return error.code
        for store in self.stores:
            await store.not_before(revision).exists(0)
        return None

    async def _call(self, operation: str, arguments: tuple[Any, ...]):
        return await getattr(self.writer, operation)(*arguments)

    async def contents(self, key: Any) -> list[Any]:
        found = []
        for store in self.stores:
            entry = await store.entry(key)
            found.append(ABSENT if entry is None else encode(entry.value))
        return found


@asynccontextmanager
async def cores(make_world, backend: str, role: str, path):
    with closing(make_world()) as world:
        yield Cores(world, role, None if backend == "Memory" else path)


@asynccontextmanager
async def sockets(_make_world, backend: str, role: str, path):
    options = {"path": path} if backend == "SQLite" else {}
    async with Endpoint() as left, Endpoint() as middle, Endpoint() as right:
        assert await middle.peer("127.0.0.1", await left.listen(), timeout=limit())
        assert await right.peer("127.0.0.1", await middle.listen(), timeout=limit())
        attach_far = right.attach_proxy if role == "proxy" else right.attach_clone
        async with (
            left.attach_master("s", Backend[backend], **options) as master,
            middle.attach_clone("s") as near,
            attach_far("s") as far,
        ):
            assert await near.await_idle(timeout=limit())
            assert await far.await_idle(timeout=limit())
            stores = [master, near, far] if role == "master" else [master, far, near]
            yield Sockets(stores, role)


async def check(store: Cores | Sockets, number: int, case: Case, *, is_alone: bool) -> str:
    """Run a case under a key of its own; give what is wrong, or nothing."""
    key = number
    before, then = filled(case.stored, key), filled(case.then, key)
    if before is not ABSENT:
        store.call = ("put", (key, before))
        assert await store.perform(Batch().put(key, before), is_alone=is_alone) is None
    store.call = (case.operation, (key, *case.arguments))
    batch = getattr(Batch(), case.operation)(key, *case.arguments)
    error = await store.perform(batch, is_alone=is_alone)
    wanted = then if isinstance(then, ErrorCode) else None
    after = before if wanted is not None else then
    encoded = ABSENT if after is ABSENT else encode(after)
    found = await store.contents(key)
    if error != wanted or found != [encoded] * 3:
        return f"{case}: {error!r}, and then {found}"
    return ""


@pytest.mark.parametrize("is_alone", [True, False], ids=["alone", "batch"])
@pytest.mark.parametrize(
    ("way", "role"),
    [
        *((cores, role) for role in ("master", "clone")),
        *((sockets, role) for role in ("master", "clone", "proxy")),
    ],
    ids=lambda each: each if isinstance(each, str) else each.__name__,
)
@pytest.mark.parametrize("backend", ["Memory", "SQLite"])
async def test_every_operation_on_every_type(way, backend, role, is_alone, make_world, tmp_path):
    with trio.fail_after(limit(60)):
        async with way(make_world, backend, role, tmp_path / "store.db") as store:
            wrong = [
                await check(store, number, case, is_alone=is_alone)
                for number, case in enumerate(CASES)
            ]
    assert not [text for text in wrong if text]


LOOKUPS = [
    ((10, 20), 1, 20),
    ((10, 20), Count(0), 10),
    ((10, 20), 2, MISSING),
    ((10, 20), -1, CLASH),
    ((10, 20), "x", CLASH),
    (Set([1]), 1, True),
    (Set([1]), True, False),
    (Table({"a": 1}), "a", 1),
    (Table({"a": 1}), "b", MISSING),
    (42, "whatever", 42),
    ("text", 0, "text"),
]


@pytest.mark.parametrize("role", ["master", "clone", "proxy"])
@pytest.mark.parametrize("backend", ["Memory", "SQLite"])
async def test_looking_into_every_type(role, backend, tmp_path):
    with trio.fail_after(limit(60)):
        async with sockets(None, backend, role, tmp_path / "store.db") as store:
            for key, (value, index, wanted) in enumerate(LOOKUPS):
                receipt = await store.writer.put(key, value)
                reader = store.writer.not_before(receipt)
                try:
                    found = await reader.get_index_from_value(key, index)
                except StoreError as error:
                    found = error.code
                assert encode(found) == encode(wanted), (value, index)
            with pytest.raises(StoreError) as caught:
                await store.writer.get_index_from_value("no such key", 0)
            assert caught.value.code is MISSING
