"""Laws of logical time: Lamport clocks go forward, vectors form a lattice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from wire.clocks import NEVER, LamportTime, VectorTime
from wire.identifiers import EndpointId

ids = st.integers(0, 5).map(lambda number: EndpointId(bytes([number]) * 16))
times = st.integers(0, 5).map(LamportTime)
vectors = st.dictionaries(ids, times).map(VectorTime)

ANN, BOB = EndpointId(b"a" * 16), EndpointId(b"b" * 16)
ROOT = Path(__file__).parents[2]


def test_the_first_event_happens_at_one():
    assert NEVER.next() == 1
    assert type(NEVER.next()) is LamportTime


def test_there_is_no_time_before_zero():
    with pytest.raises(ValueError, match="starts at 0"):
        LamportTime(-1)


@given(times, times)
def test_a_witness_is_later_than_both_and_by_one_only(ours, theirs):
    seen = ours.witness(theirs)
    assert seen > ours
    assert seen > theirs
    assert seen == max(ours, theirs) + 1


@given(times)
def test_a_time_shows_what_to_paste(time):
    assert eval(repr(time)) == time


@given(vectors, vectors, vectors)
def test_merging_forms_a_lattice(a, b, c):
    assert a.merge(b) == b.merge(a)
    assert a.merge(b).merge(c) == a.merge(b.merge(c))
    assert a.merge(a) == a
    assert a.merge(VectorTime()) == a


@given(vectors, vectors, vectors)
def test_a_merger_is_the_least_that_knows_both(a, b, c):
    assert a <= a.merge(b)
    assert (a.merge(b) <= c) == (a <= c and b <= c)


@given(vectors, vectors, vectors)
def test_knowing_is_a_partial_order(a, b, c):
    assert a <= a
    assert not (a <= b and b <= a) or a == b
    assert not (a <= b and b <= c) or a <= c
    assert (a < b) == (a <= b and a != b)
    assert (a >= b, a > b) == (b <= a, b < a)


@given(vectors, vectors)
def test_whoever_lacks_nothing_knows_all(a, b):
    lacking = a.lacks(b)
    assert (not lacking) == (b <= a)
    assert list(lacking) == sorted(lacking)
    assert all(b[origin] > a.time_of(origin) for origin in lacking)


@given(vectors, ids, times)
def test_advancing_learns_news_and_forgets_nothing(vector, origin, time):
    later = vector.advance(origin, time)
    assert later.time_of(origin) == max(time, vector.time_of(origin))
    assert later == vector.merge(VectorTime({origin: time}))


@given(vectors, vectors)
def test_equal_vectors_have_equal_hashes_and_digests(a, b):
    shuffled = VectorTime(dict(reversed(list(a.items()))))
    assert (a == shuffled, hash(a), a.digest()) == (True, hash(shuffled), shuffled.digest())
    assert (a == b) == (a.digest() == b.digest())


def test_nothing_heard_is_not_an_entry():
    assert VectorTime({ANN: NEVER}) == VectorTime()
    assert ANN not in VectorTime({ANN: NEVER})
    assert VectorTime().time_of(ANN) == 0
    assert VectorTime() != {}


def test_a_vector_keeps_nothing_of_the_dict_it_was_made_from():
    times = {ANN: LamportTime(1)}
    vector = VectorTime(times)
    times[BOB] = LamportTime(1)
    assert list(vector) == [ANN]
    assert dict(vector) == {ANN: 1}


def test_a_digest_is_the_same_in_every_process():
    vector = VectorTime({BOB: LamportTime(2), ANN: LamportTime(1)})
    program = (
        "from wire import *; print(VectorTime({EndpointId(b'a' * 16): LamportTime(1),"
        " EndpointId(b'b' * 16): LamportTime(2)}).digest())"
    )
    output = subprocess.check_output([sys.executable, "-c", program], cwd=ROOT, text=True)
    assert int(output) == vector.digest()
    assert 0 <= vector.digest() < 2**64
