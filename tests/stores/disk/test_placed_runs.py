"""The runs of a log's file by themselves: which go with the entries that are cut off."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest

from stores.disk.placed_runs import PLACED_RUNS_SCHEMA, PlacedRuns
from stores.disk.rows import PLAIN
from stores.group.positions import Position
from stores.log.kept_runs import KeptRun
from stores.log.limits import OFFSET_END, PARTITIONS_MAX

PARTITIONS = (0, 1, 7, PARTITIONS_MAX - 1)
STEPS = 1_000
"""Steps of SQLite's machine, as the tests count them."""


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    found = sqlite3.connect(":memory:")
    found.execute(PLACED_RUNS_SCHEMA)
    yield found
    found.close()


def fill(connection: sqlite3.Connection, entries: int) -> PlacedRuns:
    """Give each of some entries a run in each partition but one, by turns."""
    runs = PlacedRuns(PLAIN)
    for entry in range(1, entries + 1):
        chosen = [each for each in PARTITIONS if (each + entry) % 4]
        at = Position(1, entry)
        runs.add(connection, [KeptRun(each, entry * 2, 2, 5, b"body", at, 0) for each in chosen])
    return runs


def entries_of(connection: sqlite3.Connection) -> set[tuple[int, int]]:
    """Give partition and entry of all runs."""
    rows = connection.execute("SELECT id, entry FROM runs")
    return {(number // OFFSET_END, entry) for number, entry in rows}


@pytest.mark.parametrize("keep", [0, 1, 2, 3, 9, 10, 11])
def test_the_runs_of_entries_above_an_index_go_and_no_others(connection, keep):
    runs = fill(connection, 10)
    before = entries_of(connection)
    runs.cut(connection, keep)
    assert entries_of(connection) == {each for each in before if each[1] <= keep}


def test_a_file_without_runs_has_nothing_to_cut(connection):
    PlacedRuns(PLAIN).cut(connection, 0)
    assert not entries_of(connection)


def test_a_cut_looks_at_the_ends_alone(connection):
    runs = fill(connection, 2_000)
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    connection.set_progress_handler(count, STEPS)
    runs.cut(connection, 1_990)
    assert steps <= 1, "a thousand steps at most, for eight thousand runs"
