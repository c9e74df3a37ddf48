"""All replicas look at themselves at one event: equal ones are called so, others begin anew."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from stores import effects as fx
from stores.digests import DigestWalk, digest
from stores.table import Columns, Entry
from stores.verification import ANSWER_TICKS
from wire.errors import DecodeError


def columns_of(**entries: tuple[bytes, int] | tuple[bytes, int, int]) -> Columns:
    columns = Columns()
    for key, (value, revision, *expiry) in entries.items():
        columns.set(key.encode(), Entry(value, revision, *(expiry or [None])))
    return columns


def test_the_order_in_which_entries_came_does_not_count():
    one, two = (b"1", 1), (b"2", 2, 99)
    assert digest(columns_of(a=one, b=two), 2) == digest(columns_of(b=two, a=one), 2)


@pytest.mark.parametrize(
    "other",
    [
        columns_of(a=(b"0", 1)),
        columns_of(b=(b"1", 1)),
        columns_of(a=(b"1", 3)),
        columns_of(a=(b"1", 1, 0)),
        columns_of(),
        columns_of(a=(b"1", 1), b=(b"", 2)),
    ],
)
def test_whatever_differs_makes_another_digest(other):
    assert digest(columns_of(a=(b"1", 1)), 2) != digest(other, 2)


_KEYS = st.binary(min_size=1, max_size=1)


@given(
    st.dictionaries(_KEYS, st.binary(max_size=2), min_size=1),
    st.lists(st.tuples(_KEYS, st.none() | st.binary(max_size=2), st.none() | st.just(7))),
    st.data(),
)
def test_a_digest_taken_in_slices_is_that_of_its_moment(entries, writes, data):
    columns = Columns()
    for revision, (key, value) in enumerate(entries.items()):
        columns.set(key, Entry(value, revision, revision if revision % 3 == 0 else None))
    expected, walk = digest(columns, 9), DigestWalk(columns, 9)
    for revision, (key, value, expires_at_ns) in enumerate(writes, start=100):
        walk.remember([key, key])
        columns.set(key, None if value is None else Entry(value, revision, expires_at_ns))
        if (found := walk.step(data.draw(st.integers(0, 3)))) is not None:
            break
    else:
        found = walk.step(1_000)
    assert found == expected


@pytest.mark.parametrize("asks", ["master", "clone"])
def test_equal_replicas_are_found_equal_while_writes_go_on(world, make_kept_backend, asks):
    master, clones = world.master(make_kept_backend()), [world.clone(), world.clone()]
    world.settle()
    for number in range(10):
        for node in (master, *clones):
            node.put(number, number, 10**12)
    asker = master if asks == "master" else clones[0]
    asker.flush()
    asker.run(asker.core.begin_verify(7))
    for node in (master, *clones):
        node.put("later", 1)
    world.settle()
    (verified,) = asker.said(fx.Verified)
    assert verified.token == 7
    assert [row.replica for row in verified.rows] == [
        node.core.entity for node in (master, *clones)
    ]
    assert len({row.digest for row in verified.rows}) == 1


def test_a_replica_that_differs_is_named_and_loads_everything_anew(pair, world):
    master, clone = pair
    for number in range(5):
        master.put(number, number)
    world.settle()
    clone.core._table.columns.discard(clone.core.keys()[0])
    master.run(master.core.begin_verify(1))
    master.flush()
    with pytest.raises(DecodeError, match="is not the master's"):
        world.settle()
    world.settle()
    (verified,) = master.said(fx.Verified)
    own, other = verified.rows
    assert own.digest.entry_count == 5
    assert other.digest.entry_count == 4
    assert clone.contents() == master.contents()
    assert "is not the master's" in clone.said(fx.MasterLost)[-1].reason


def test_a_silent_clone_is_not_waited_for_for_ever(pair, world):
    master, clone = pair
    world.cut_off.add(clone.id)
    master.run(master.core.begin_verify(1))
    master.flush()
    world.settle()
    world.tick(ANSWER_TICKS)
    (verified,) = master.said(fx.Verified)
    assert [row.digest is None for row in verified.rows] == [False, True]
