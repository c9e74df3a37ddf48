"""Runs of entries: when one is full, and which partition a key belongs to."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from stores.log.limits import RUN_COUNT_MAX, RUN_SIZE_MAX
from stores.log.runs import ENTRY_SIZE, Flat, OpenRun, Run, partition_of, size_of
from stores.log.staging import LogStage
from wire.encoding import encode
from wire.errors import DecodeError


def appended(*batches: Flat) -> list[int]:
    """Append batches to one partition, and give the number of entries of each run."""
    stage = LogStage()
    offset = 0
    for batch in batches:
        stage.append(0, offset, batch, size_of(batch), 1)
        offset += len(batch) // 2
    stage.seal()
    return [run.count for run in stage.runs]


def test_a_run_takes_appends_until_it_has_its_count_of_entries() -> None:
    one, rest = (None, b"v"), (None, b"v") * (RUN_COUNT_MAX - 1)
    assert appended(rest, one) == [RUN_COUNT_MAX]
    assert appended(rest, one, one) == [RUN_COUNT_MAX, 1]


def test_a_run_takes_appends_until_it_has_its_count_of_bytes() -> None:
    half = (None, bytes(RUN_SIZE_MAX // 2 - ENTRY_SIZE))
    assert appended(half, half) == [2]
    assert appended(half, half, (None, b"")) == [2, 1]


def test_an_append_is_never_parted_however_large_it_is() -> None:
    batch = (None, bytes(RUN_SIZE_MAX)) * 2
    assert appended(batch, batch) == [2, 2]


def test_the_partition_of_a_key_never_changes() -> None:
    keys = ["a", "b", 1, True, 1.0, ("k", 1)]
    assert [partition_of(encode(key), 7) for key in keys] == [5, 3, 5, 6, 6, 3]


@pytest.mark.parametrize(
    "body",
    [
        *((None, b"a", None), (None, b"a") * 3, "four", b"four", None),
        *((None, "a") * 2, (None, 1) * 2, (b"k", (b"a",)) * 2),
    ],
)
def test_a_run_that_has_not_a_key_and_a_value_for_each_entry_is_refused(body: object) -> None:
    run = Run(0, 7, 2, 1, encode(body))
    with pytest.raises(DecodeError, match="a run of 2 entries holds something else"):
        run.entries()
    assert Run(0, 7, 2, 1, encode((None, b"a") * 2)).entries() == (None, b"a") * 2
    assert Run(0, 7, 0, 1, encode(())).entries() == ()


@pytest.mark.parametrize("rest", [b"\x00", encode(None)])
def test_a_run_that_goes_on_behind_its_entries_is_refused(rest: bytes) -> None:
    with pytest.raises(DecodeError, match="a run of 2 entries holds something else: "):
        Run(0, 7, 2, 1, encode((None, b"a") * 2) + rest).entries()


@given(st.lists(st.tuples(st.none() | st.binary(), st.binary()), min_size=1, max_size=40))
def test_a_run_gives_what_was_sealed_in_it(entries: list[tuple[bytes | None, bytes]]) -> None:
    flat = tuple(item for entry in entries for item in entry)
    run = OpenRun(3, 7, 1)
    run.flat.extend(flat)
    sealed = run.seal()
    assert sealed == Run(3, 7, len(entries), 1, encode(flat))
    assert sealed.entries() == flat


PARTS = st.one_of(st.none(), st.binary())


@given(st.lists(st.tuples(PARTS, PARTS), max_size=3))
def test_a_size_is_that_of_keys_values_and_entries(pairs: list[tuple[bytes | None, ...]]) -> None:
    flat = tuple(item for pair in pairs for item in pair)
    held = sum(len(item) for item in flat if item is not None)
    assert size_of(flat) == held + len(pairs) * ENTRY_SIZE
