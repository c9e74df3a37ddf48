"""Scans: pages in the order of keys, of what readers may see, stable while others write."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from stores.scanning import EVERYTHING, LATEST, PAGE_COUNT_MAX, make_span
from wire.decoding import decode
from wire.encoding import encode
from wire.errors import InvalidData


def keys_of(page):
    return [decode(key) for key, _ in page.entries]


def scanned(machine, span=EVERYTHING, limit=3):
    found, continuation = [], None
    while True:
        page = machine.scan(span if continuation is None else span.after(continuation), limit)
        found += keys_of(page)
        continuation = page.continuation
        if continuation is None:
            return found


@pytest.fixture(params=["master", "clone"])
def node(request, world, pair):
    return pair[0] if request.param == "master" else pair[1]


def test_pages_are_in_the_order_of_keys_and_none_is_empty(node, world):
    names = ["b", "aa", "a", "ab", 2, 10, 1, ("a", 1), None]
    for name in names:
        node.put(name, 0)
    world.settle()
    assert scanned(node.core.machine) == [None, 1, 2, 10, "a", "aa", "ab", "b", ("a", 1)]
    page = node.core.machine.scan(EVERYTHING, len(names))
    assert page.continuation is None
    assert page.revision == len(names)
    assert node.core.machine.scan(make_span(prefix=encode("c")), 1).entries == []


def test_a_step_cuts_a_store_into_parts_of_as_many_entries(node, world):
    for number in range(10):
        node.put(number, 0)
    world.settle()
    machine = node.core.machine
    first = machine.scan(EVERYTHING, 2, step=3)
    rest = machine.scan(EVERYTHING.after(first.continuation), 9, step=3)
    assert (keys_of(first), keys_of(rest)) == ([0, 3], [6, 9])
    cut = machine.scan(make_span(encode(1)), 9, LATEST, step=100)
    assert (keys_of(cut), cut.continuation) == ([1], None)
    node.erase(5)
    world.settle()
    between = make_span(encode(4), encode(6))
    assert keys_of(machine.scan(between, 9, cut.revision)) == [4, 5], "its revision is kept"
    assert keys_of(machine.scan(between, 9)) == [4]


def test_spans(node, world):
    for name in ["a", "a/1", "a/2", "b", 1, 2, 3]:
        node.put(name, 0)
    world.settle()
    assert scanned(node.core.machine, make_span(prefix=encode("a/"))) == ["a/1", "a/2"]
    assert scanned(node.core.machine, make_span(encode(2), encode("a/2"))) == [2, 3, "a", "a/1"]
    within = make_span(encode("a/2"), encode("z"), encode("a"))
    assert scanned(node.core.machine, within) == ["a/2"]
    assert encode("a/1") in make_span(prefix=encode("a"))
    assert encode("b") not in make_span(prefix=encode("a"))


def test_an_entry_comes_with_revision_and_expiry(node, world):
    node.put("x", 1)
    node.put("y", 2, 5_000_000_000)
    world.settle()
    (_, first), (_, second) = node.core.machine.scan(EVERYTHING, 2).entries
    assert (first.value, first.revision, first.expires_at_ns) == (encode(1), 1, None)
    assert second.expires_at_ns + node.core.epoch_ns == world.now_ns + 5_000_000_000


def test_a_page_has_a_size_that_makes_sense(node):
    for limit in (0, -1, PAGE_COUNT_MAX + 1):
        with pytest.raises(InvalidData, match="page"):
            node.core.machine.scan(EVERYTHING, limit)


def test_a_continuation_of_another_scan_is_refused(node, world):
    for name in "abc":
        node.put(name, 0)
    world.settle()
    continuation = node.core.machine.scan(EVERYTHING, 2).continuation
    with pytest.raises(InvalidData, match="another scan"):
        make_span(prefix=encode("a")).after(continuation)


WRITES = st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=6)


@given(st.sets(st.integers(0, 30)), st.lists(WRITES, max_size=20), st.integers(1, 4))
def test_a_key_that_stays_is_in_exactly_one_page(make_world, first, writes, limit):
    world = make_world()
    master = world.master()
    for number in first:
        master.put(number, 0)
    stayed, ever, seen = set(first), set(first), []
    span, pending = EVERYTHING, iter(writes)
    while True:
        master.flush()
        page = master.core.machine.scan(span, limit)
        seen += keys_of(page)
        if page.continuation is None:
            break
        span = EVERYTHING.after(page.continuation)
        for is_put, number in next(pending, ()):
            (master.put if is_put else lambda key, _: master.erase(key))(number, 1)
            ever |= {number} if is_put else set()
            stayed -= set() if is_put else {number}
    assert seen == sorted(set(seen)), "in order, and none twice"
    assert stayed <= set(seen) <= ever


def test_a_durable_master_shows_only_what_a_crash_cannot_take_back(world, disk):
    master = world.master(disk)
    for name in "abd":
        master.put(name, 0)
    world.settle()
    assert keys_of(master.core.machine.scan(EVERYTHING, 9)) == ["a", "b", "d"]
    master.erase("b")
    master.put("c", 0)
    master.put("d", 1)
    master.flush()
    master.erase("a")
    page = master.core.machine.scan(EVERYTHING, 9)
    assert keys_of(page) == ["a", "b", "d"]
    assert (page.revision, page.entries[2][1].revision) == (3, 3)
    assert scanned(master.core.machine, limit=1) == ["a", "b", "d"]
    world.settle()
    assert keys_of(master.core.machine.scan(EVERYTHING, 9)) == ["c", "d"]
