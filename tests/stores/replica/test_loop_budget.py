"""No step of the loop handles more than a slice of a store, however large the store is.

Steps are counted, and not timed: ``python -m benchmarks.steps`` tells the milliseconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from stores.actions import ClearCommand, PutCommand, WriterId
from stores.digests import DigestWalk
from stores.effects import Changed
from stores.group.clock import Times
from stores.group.codec import RUN_SIZE_MAX
from stores.group.limits import CATCH_UP_RUN, WRITE_CHANGES, WRITE_ENTRIES
from stores.group.machine import Append
from stores.group.positions import Position
from stores.index import KeyIndex
from stores.limits import CHUNK_COUNT_MAX, RUN_COUNT_MAX
from stores.questions import ScanCommand
from stores.replica import kept, lazy
from stores.replica.tables.core import TableCore
from stores.table import parts
from stores.table.bodies import Register, Write
from stores.table.machine import TableMachine
from stores.table.overlay import Layer, mutation_count
from stores.work import SLICE_COUNT
from tests.stores.replica.proxies import ProxyMesh
from tests.stores.replica.test_comparing import Looking
from tests.stores.replica.test_core import Mesh
from wire.identifiers import EndpointId, EntityId

ENTRIES = 1_000
KEYS = 40
MUTATIONS = 2_000
VALUE = b"\x58\x60" + bytes(96)

STEPS = ("start", "receive", "flush", "tick", "persisted", "work")

Counted = Counter[str]


@pytest.fixture
def longest(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """Give the most of each kind that a step of any core has handled."""
    now, most = Counted(), Counted()

    def count(owner: Any, name: str, what: str, how: Callable[..., int]) -> None:
        function = getattr(owner, name)

        def counted(*arguments: Any, **keywords: Any) -> Any:
            found = function(*arguments, **keywords)
            now[what] += how(found, *arguments)
            return found

        monkeypatch.setattr(owner, name, counted)

    def step(name: str) -> None:
        function = getattr(TableCore, name)

        def counted(*arguments: Any) -> Any:
            now.clear()
            found = function(*arguments)
            most.update({kind: max(0, now[kind] - most[kind]) for kind in now})
            return found

        monkeypatch.setattr(TableCore, name, counted)

    count(TableMachine, "apply", "applied", lambda *_: 1)
    count(TableMachine, "_change", "mutations", lambda _, __, action, *___: mutation_count(action))
    count(TableMachine, "rows", "rows", lambda found, *_: len(found.keys))
    count(parts, "_take_entries", "thawed", lambda _, part, *__: len(part.revisions))
    count(DigestWalk, "_checksums", "compared", lambda found, *_: len(found))
    count(KeyIndex, "catch_up", "sorted", lambda found, *_: found)
    count(TableCore, "tell", "told", lambda _, core, effect: isinstance(effect, Changed))
    count(Layer, "entry", "looked at", lambda *_: 1)
    for name in STEPS:
        step(name)
    monkeypatch.setattr(kept, "KEPT_ENTRIES", 10)
    return most


def fill(mesh: Mesh) -> None:
    """Have the leader asked for more than it can commit at once."""
    core = mesh.cores["a"]
    mesh.slow = {"a"}
    for number in range(ENTRIES):
        for key in range(KEYS):
            core.requests.put(b"\x1a" + (number * KEYS + key).to_bytes(4, "big"), b"\x01")
        mesh.take("a", core.flush())
    mesh.slow = set()
    mesh.work()


def test_loop_budget(longest: Counted) -> None:
    mesh = Mesh("ab", {"a": "a", "b": "a"})
    mesh.cut = {"b"}
    mesh.start()
    mesh.work()
    fill(mesh)
    mesh.pass_ticks(30)
    leader, clone = mesh.cores["a"], mesh.cores["b"]
    assert len(leader.machine) == ENTRIES * KEYS
    assert longest["applied"] <= WRITE_ENTRIES
    assert WRITE_CHANGES - RUN_COUNT_MAX < longest["mutations"] <= WRITE_CHANGES
    assert longest["rows"] == lazy.SLICE_ROWS
    assert leader.carrier.keeper is not None
    assert not leader.carrier.keeper.has_slices, "all rows have followed"
    longest.clear()
    mesh.cut = set()
    mesh.pass_ticks(30)
    assert len(clone.machine) == ENTRIES * KEYS
    assert longest["thawed"] == CHUNK_COUNT_MAX
    assert longest["applied"] <= CATCH_UP_RUN


def test_a_clone_applies_a_leaders_runs_message_by_message(longest: Counted) -> None:
    mesh = Mesh("ab", {"a": "a", "b": "a"})
    mesh.cut = {"b"}
    mesh.start()
    mesh.work()
    core = mesh.cores["a"]
    for number in range(MUTATIONS):
        core.requests.put(b"\x1a" + number.to_bytes(4, "big"), VALUE)
    mesh.take("a", core.flush())
    mesh.work()
    mesh.tick()
    mesh.work()
    assert len(core.machine) == MUTATIONS
    longest.clear()
    mesh.cut = set()
    mesh.pass_ticks(30)
    assert len(mesh.cores["b"].machine) == MUTATIONS
    assert not longest["thawed"], "the journal reaches back that far"
    assert longest["mutations"] * len(VALUE) <= RUN_SIZE_MAX < MUTATIONS * len(VALUE) // 2


@pytest.mark.parametrize("nearest", ["a", "b"])
def test_the_first_scan_of_a_proxy_sorts_in_slices(longest: Counted, nearest: str) -> None:
    mesh = ProxyMesh("ab", lists={"a": "a", "b": "a"})
    mesh.lead()
    fill(mesh)
    mesh.tick()
    mesh.work()
    longest.clear()
    asker = mesh.proxy(nearest)
    asker.pose(ScanCommand(1, 0, b"", None, SLICE_COUNT, has_values=True))
    mesh.work()
    assert SLICE_COUNT // 2 <= longest["sorted"] <= SLICE_COUNT
    assert len(asker.answers[1].rows) >= SLICE_COUNT // 2


def test_a_hundred_comparisons_cost_two_that_go_in_slices(longest: Counted) -> None:
    mesh = Looking("ab", {"a": "a", "b": "a"}, durable=False)
    mesh.lead()
    fill(mesh)
    mesh.tick()
    mesh.work()
    longest.clear()
    for token in range(100):
        mesh.compare("a", token)
    mesh.work()
    assert longest["compared"] == SLICE_COUNT
    verdicts = mesh.verdicts("a")
    assert sorted(each.token for each in verdicts) == list(range(100))
    assert all(len({row.digest for row in each.rows}) == 1 for each in verdicts)
    assert mesh.cores["a"].comparing._count == 2


def test_events_come_in_slices(longest: Counted) -> None:
    mesh = Looking("ab", {"a": "a", "b": "a"})
    mesh.cut = {"b"}
    mesh.start()
    mesh.work()
    fill(mesh)
    mesh.tick()
    mesh.work()
    leader, clone = mesh.cores["a"], mesh.cores["b"]
    for core in (leader, clone):
        core.observe(is_observed=True)
    longest.clear()
    mesh.cut = set()
    until_told(mesh, "b", ENTRIES * KEYS)
    assert longest["thawed"] == CHUNK_COUNT_MAX, "it came as a snapshot"
    assert longest["told"] == SLICE_COUNT
    assert longest["looked at"] <= 3 * SLICE_COUNT, "before, now, and if there was one"
    longest.clear()
    leader.requests.clear()
    mesh.take("a", leader.flush())
    until_told(mesh, "a", ENTRIES * KEYS)
    assert longest["told"] == SLICE_COUNT


def until_told(mesh: Mesh, name: str, count: int) -> None:
    """Let time pass until a replica has told of so many changes."""
    for _ in range(50):
        mesh.tick()
        mesh.work()
        if sum(isinstance(each, Changed) for each in mesh.told[name]) == count:
            return
    raise AssertionError(Counter(type(each) for each in mesh.told[name]))


def test_a_snapshot_is_put_together_as_its_parts_come() -> None:
    first, second, other = TableMachine(), TableMachine(), TableMachine()
    fill_machine(first, 3 * CHUNK_COUNT_MAX)
    fill_machine(other, CHUNK_COUNT_MAX)
    prepare(second, other.freeze()[:1])
    snapshot = first.freeze()
    prepare(second, snapshot[:2])
    second.install(snapshot)
    assert second.digest() == first.digest()
    assert second.snapshot() == first.snapshot()


def test_what_was_begun_of_another_snapshot_is_forgotten() -> None:
    first, second, other = TableMachine(), TableMachine(), TableMachine()
    fill_machine(first, 10)
    fill_machine(other, 20)
    prepare(second, other.freeze())
    second.install(first.freeze())
    assert second.digest() == first.digest()


def prepare(machine: TableMachine, some: Sequence[object]) -> None:
    for number, part in enumerate(some):
        machine.prepare(number, part)


WRITER = WriterId.of(EntityId(EndpointId(b"w" * 16), 1), 1)


def fill_machine(machine: TableMachine, count: int) -> None:
    """Put keys, in place of those that there are."""
    pairs = [each for key in range(count) for each in (b"\x1a" + key.to_bytes(4, "big"), b"\x01")]
    clear, put = ClearCommand(WRITER, 1), PutCommand(WRITER, 2, None, pairs)
    write = Write(1, (clear, put), is_vetted=True)
    for index, request in enumerate((Register(WRITER, 0), write), start=1):
        judged = machine.judge(request, Times(0, 0))
        assert isinstance(judged, Append)
        machine.stage(Position(1, index), judged.body)
        machine.apply(Position(1, index), judged.body)
