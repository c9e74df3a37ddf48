"""The index of keys: always what sorting anew would give, and given up when that is cheaper."""

from __future__ import annotations

import gc
from random import Random

import pytest
from hypothesis import given, strategies as st

from stores.actions import (
    BatchResultCommand,
    Change,
    ClearCommand,
    EraseCommand,
    ExpireCommand,
    PutCommand,
    WriterId,
)
from stores.group.positions import START
from stores.index import BLOCK_COUNT, SLACK_COUNT, KeyIndex
from stores.order import order_of
from stores.scanning import EVERYTHING
from stores.table import Columns, Entry, Table
from stores.table.machine import TableMachine
from stores.table.parts import Frozen, HeadPart
from wire.encoding import encode
from wire.identifiers import EndpointId, EntityId

W = WriterId.of(EntityId(EndpointId(bytes(16)), 1), 1)
KEYS = [encode(number) for number in range(40)]


def listed(index, start=b"", stop=None):
    """Give the keys in small parts, and see that large ones, whose keys are kept, have the same."""
    small, large = (list(index.parts(start, stop, count)) for count in (7, 10_000))
    assert all(places == list(map(order_of, keys)) for places, keys in [*small, *large])
    found = [key for _, keys in small for key in keys]
    assert [key for _, keys in large for key in keys] == found
    return found


def in_order(keys):
    return sorted(keys, key=order_of)


KEY = st.sampled_from(KEYS)
ACTIONS = st.one_of(
    st.lists(KEY, min_size=1, max_size=5).map(
        lambda keys: PutCommand(W, 1, None, [part for key in keys for part in (key, b"\x01")])
    ),
    st.lists(KEY, min_size=1, max_size=5).map(lambda keys: EraseCommand(W, 1, keys)),
    st.lists(KEY, min_size=1, max_size=5).map(ExpireCommand),
    st.just(ClearCommand(W, 1)),
    st.tuples(KEY, KEY).map(
        lambda pair: BatchResultCommand(
            W, 1, True, (Change(pair[0], b"\x01", None), Change(pair[1], None, None))
        )
    ),
)


@given(st.lists(ACTIONS), st.sets(st.integers(0, 50)))
def test_the_index_of_a_table_is_what_sorting_would_give(actions, looks):
    table = Table()
    table.index()
    for number, action in enumerate(actions):
        table.apply(action)
        if number in looks:
            assert listed(table.index()) == in_order(table.columns)
    assert listed(table.index()) == in_order(table.columns)


@given(
    st.integers(0, 3_000),
    st.integers(1, 2_000),
    st.integers(1, 700),
    st.integers(0, 3_000),
    st.none() | st.integers(0, 3_000),
)
def test_places_are_every_so_many_th_of_a_stretch(count, step, size, start, stop):
    keys = [encode(number) for number in range(count)]
    index = KeyIndex(keys)
    index.catch_up(dict.fromkeys(keys))
    end = None if stop is None else order_of(encode(stop))
    for _ in range(2):  # The second time, keys were looked up already.
        parts = list(index.parts(order_of(encode(start)), end, size, step))
        assert [key for _, part in parts for key in part] == keys[start:stop:step]
        assert all(list(map(order_of, part)) == places for places, part in parts)
        assert all(1 <= len(part) <= size for _, part in parts)
        assert listed(index) == keys


def test_many_keys_come_and_go_in_any_order():
    keys = [encode(f"key{number * 7_919 % 5_000}") for number in range(5_000)]
    present: dict[bytes, None] = dict.fromkeys(keys[: BLOCK_COUNT // 2])
    index = KeyIndex(present)
    for start in range(0, 5_000, 300):
        some = keys[start : start + 300]
        present.update(dict.fromkeys(some))
        index.note(some)
        index.catch_up(present)
        assert listed(index) == in_order(present)
    for start in range(0, 5_000, 400):
        some = keys[start : start + 400]
        for key in some:
            del present[key]
        index.note(some)
        index.catch_up(present)
        assert listed(index) == in_order(present)
    assert listed(index) == []


def test_neighbours_go_and_those_behind_them_stay():
    keys = [encode(number) for number in range(8 * BLOCK_COUNT)]
    present: dict[bytes, None] = dict.fromkeys(keys)
    index = KeyIndex(present)
    index.catch_up(present)
    assert listed(index) == keys
    for key in (gone := keys[BLOCK_COUNT : 3 * BLOCK_COUNT]):
        del present[key]
    index.note(gone)
    index.catch_up(present)
    assert listed(index) == list(present)


@pytest.mark.parametrize("count", [30, 100, 999, 2_000])
def test_keys_are_put_in_order_slice_by_slice_while_others_come_and_go(count):
    chance = Random(count)
    keys = [encode(f"key{number}") for number in range(4_000)]
    chance.shuffle(keys)
    present: dict[bytes, None] = dict.fromkeys(keys[:3_000])
    index, waiting = KeyIndex(present), keys[3_000:]
    while index.catch_up(present, count) == count and waiting:
        gone = chance.sample(sorted(present), 20)
        come = [waiting.pop() for _ in range(20)]
        for key in gone:
            del present[key]
        present.update(dict.fromkeys(come))
        index.note([*gone, *come, *chance.sample(sorted(present), 20)])
    index.catch_up(present)
    assert listed(index) == in_order(present)
    assert len(index) == len(present)
    sizes = [len(block) for block, _ in index.parts(b"", None, 4_000)]
    assert max(sizes) <= 2 * BLOCK_COUNT


def test_a_stretch_begins_and_ends_where_it_should():
    index = KeyIndex(KEYS)
    index.catch_up(dict.fromkeys(KEYS))
    places = [order_of(key) for key in KEYS]
    assert listed(index, places[3], places[7]) == KEYS[3:7]
    assert listed(index, places[3] + b"\0", places[7] + b"\0") == KEYS[4:8]
    assert listed(index, places[7], places[3]) == []
    assert listed(index, places[-1] + b"\0") == []


def test_overwriting_costs_the_index_nothing_and_too_many_new_keys_end_it():
    table = Table()
    table.apply(PutCommand(W, 1, None, [part for key in KEYS for part in (key, b"\x01")]))
    index = table.index()
    for _ in range(SLACK_COUNT):
        table.apply(PutCommand(W, 1, None, [KEYS[0], b"\x02"]))
    assert table.index() is index
    for number in range(SLACK_COUNT + len(KEYS)):
        table.apply(PutCommand(W, 1, None, [encode(f"new{number}"), b"\x01"]))
    assert table.index() is not index
    assert listed(table.index()) == in_order(table.columns)


def test_a_snapshot_brings_its_own_order():
    machine = TableMachine()
    for key in (KEYS[5], KEYS[3]):
        columns = Columns()
        columns.set(key, Entry(b"\x01", 1, None))
        machine.install(Frozen(HeadPart(1, START, 1), columns, {}, ()))
        assert [found for found, _ in machine.scan(EVERYTHING, 2).entries] == [key]


def test_the_collector_of_cycles_goes_through_no_list_of_all_keys_that_come():
    count = 7 * BLOCK_COUNT + 3
    index = KeyIndex(encode(number) for number in range(count))
    index.catch_up(dict.fromkeys(encode(number) for number in range(count)), BLOCK_COUNT)
    gc.collect()
    assert not [
        each for each in gc.get_objects() if type(each) in (list, tuple) and len(each) == count
    ]
