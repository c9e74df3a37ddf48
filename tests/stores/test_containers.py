"""Containers on their bytes: the same as decoding, changing and encoding them, only faster."""

from __future__ import annotations

import sys
import threading

import pytest
from hypothesis import given, strategies as st

from stores import containers
from stores.actions import Initial
from stores.containers import MEMO_COUNT
from stores.operations import add, subtract
from wire import cbor
from wire.decoding import decode
from wire.encoding import encode
from wire.errors import InvalidData
from wire.limits import VALUE_DEPTH_MAX
from wire.values import Count, Set, Table

ELEMENTS = st.one_of(
    st.integers(-3, 3),
    st.booleans(),
    st.text(max_size=2),
    st.binary(max_size=2),
    st.just(Count(1)),
    st.just(()),
    st.just(Set([1])),
)


@given(st.lists(st.tuples(st.booleans(), ELEMENTS), max_size=30))
def test_a_set_changes_as_if_it_were_made_anew(script):
    stored, twin = encode(Set()), Set()
    for is_added, element in script:
        if is_added:
            stored, twin = add(stored, encode(element), Initial.SET), twin | Set([element])
        else:
            stored, twin = subtract(stored, encode(element)), twin - Set([element])
        assert stored == encode(twin)


@given(st.lists(st.tuples(st.booleans(), ELEMENTS, st.integers(0, 5)), max_size=30))
def test_a_table_changes_as_if_it_were_made_anew(script):
    stored, twin = encode(Table()), Table()
    for is_added, key, value in script:
        if is_added:
            stored = add(stored, encode((key, value)), Initial.TABLE)
            twin = Table([*twin.items(), (key, value)])
        else:
            stored = subtract(stored, encode(key))
            twin = Table([item for item in twin.items() if encode(item[0]) != encode(key)])
        assert stored == encode(twin)


@given(st.lists(st.tuples(st.booleans(), ELEMENTS), max_size=300))
def test_a_vector_changes_as_if_it_were_made_anew(script):
    stored, twin = encode(()), ()
    for is_added, element in script:
        if is_added:
            stored, twin = add(stored, encode(element), Initial.VECTOR), (*twin, element)
        else:
            stored, twin = subtract(stored, encode("ignored")), twin[:-1]
        assert stored == encode(twin)


LONG_TABLE_TAG = b"\xda" + cbor.TAG_TABLE.to_bytes(4, "big")


@pytest.mark.parametrize(
    ("stored", "grown", "shrunk"),
    [
        (b"\xda\x00\x00\x01\x02\x81\x01", Set([1, 2]), Set()),  # a set, with a long tag
        (b"\xd9\x01\x02\x81\x18\x01", Set([1, 2]), Set()),  # with a long one in it
        (LONG_TABLE_TAG + b"\x82\x01\x02", Table({1: 2, 2: 2}), Table()),
        (b"\xb8\x01\x61a\x02", Table({"a": 2, 2: 2}), Table({"a": 2})),
    ],
)
def test_what_others_encoded_in_their_way_is_understood(stored, grown, shrunk):
    decode(stored)
    amount = encode((2, 2)) if isinstance(grown, Table) else encode(2)
    assert add(stored, amount, Initial.SET) == encode(grown)
    assert decode(subtract(stored, encode(1))) == shrunk


@pytest.mark.parametrize(
    ("stored", "expected"),
    [(b"\x82\x05\x18\x01", (5,)), (b"\x98\x02\x05\x06", (5,)), (b"\x81\x9b" + bytes(8), ())],
)
def test_a_vector_in_somebodys_own_encoding_loses_its_last_element_only(stored, expected):
    assert decode(subtract(stored, encode(1))) == expected


def nested(depth):
    value = 1
    for _ in range(depth):
        value = (value,)
    return value


@pytest.mark.parametrize(
    ("begun", "wrap", "levels"),
    [
        (Set(), lambda value: value, 2),
        ((), lambda value: value, 1),
        (Table(), lambda value: (5, value), 2),
    ],
)
def test_nothing_is_nested_more_deeply_than_a_value_may_be(begun, wrap, levels):
    fits = nested(VALUE_DEPTH_MAX - levels)
    decode(add(encode(begun), encode(wrap(fits)), Initial.SET))
    with pytest.raises(InvalidData):
        add(encode(begun), encode(wrap((fits,))), Initial.SET)


def test_only_so_many_containers_are_remembered():
    for number in range(3 * MEMO_COUNT):
        add(encode(Set([number])), encode("x"), Initial.SET)
    assert len(containers._SETS._known) == MEMO_COUNT


def beside(between):
    """Have one thread change sets, and another one work ``between`` any two steps of its memo."""
    for number in range(MEMO_COUNT):
        add(encode(Set([number])), encode("x"), Initial.SET)
    turns, back, over = threading.Semaphore(0), threading.Semaphore(0), threading.Event()
    made = []

    def step(frame, event, _):
        if frame.f_code not in (containers._Memo.take.__code__, containers._Memo.keep.__code__):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            turns.release()
            back.acquire()
        return step

    def work():
        sys.settrace(step)
        try:
            made.extend(add(encode(Set([at])), encode("y"), Initial.SET) for at in range(2))
        finally:
            sys.settrace(None)
            over.set()
            turns.release()

    thread = threading.Thread(target=work)
    thread.start()
    count = 0
    while turns.acquire() and not over.is_set():
        between(count)
        count += 1
        back.release()
    thread.join()
    assert made == [encode(Set([number, "y"])) for number in range(2)]
    return count


def test_loops_in_other_threads_change_containers_between_any_two_steps():
    steps = beside(lambda at: add(encode(Set([f"other {at}"])), encode("x"), Initial.SET))
    assert steps > 50, "it was not alone at any step"


def test_what_one_thread_is_about_to_forget_others_may_have_taken():
    def take_all():
        for stored in list(containers._SETS._known):
            containers._SETS.take(stored)

    step, steps = 0, 1
    while step < steps:
        steps = beside(lambda at, step=step: take_all() if at == step else None)
        step += 1
