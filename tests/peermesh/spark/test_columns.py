"""Columns of Arrow from encoded entries: every value is what decoding it says, in whole batches."""

from __future__ import annotations

import json
from itertools import islice

import pytest
from hypothesis import given, strategies as st

from peermesh.spark.filters import text_of_key
from peermesh.spark.offsets import Piece
from peermesh.spark.options import ValueFormat
from stores.log.runs import Run
from stores.table.rows import Rows
from wire.decoding import decode
from wire.encoding import encode
from wire.errors import DecodeError
from wire.values import Count, Table, Timestamp

pytest.importorskip("pyarrow")
from peermesh.spark import columns

STRING, BINARY = ValueFormat.STRING, ValueFormat.BINARY

SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text()
) | st.binary()
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)


def run_of(*entries, first=0, at=1_700_000_000_123_456_789, partition=3):
    flat = [None if key is None else encode(key) for key, _ in entries]
    body = [
        each for key, (_, value) in zip(flat, entries, strict=True) for each in (key, encode(value))
    ]
    return Run(partition, first, len(entries), at, encode(tuple(body)))


def whole(run):
    return Piece(run, 0, run.count)


def rows(*pieces, value_format=STRING):
    return [
        row
        for batch in columns.log_batches(pieces, "orders", value_format)
        for row in batch.to_pylist()
    ]


@given(st.lists(st.tuples(SCALARS, VALUES), min_size=1, max_size=6))
def test_every_column_says_what_decoding_says(entries):
    run = run_of(*entries, first=40)
    text, raw = rows(whole(run)), rows(whole(run), value_format=BINARY)
    for number, (key, value) in enumerate(entries):
        row = text[number]
        assert (row["partition"], row["offset"]) == (3, 40 + number)
        assert row["timestamp"].timestamp() == pytest.approx(1_700_000_000.123456, abs=1e-6)
        assert row["key"] == (None if key is None else text_of_key(decode(encode(key))))
        if isinstance(value, str):
            assert (row["value"], raw[number]["value"]) == (value, value.encode())
        elif isinstance(value, bytes):
            assert raw[number]["value"] == value
        elif value is None:
            assert row["value"] is raw[number]["value"] is None
        else:
            assert raw[number]["value"].decode() == row["value"]
            json.loads(row["value"], parse_constant=pytest.fail)


def test_a_head_of_any_size_is_cut_off_and_no_more():
    texts = ["x" * size for size in (0, 1, 23, 24, 255, 256, 65_535, 65_536)]
    found = rows(whole(run_of(*[(text, text) for text in texts])))
    assert [row["key"] for row in found] == [row["value"] for row in found] == texts


def test_bytes_that_are_no_text_are_base64_where_text_is_wanted():
    found = rows(whole(run_of((None, b"caf\xc3\xa9"), (None, b"\xff"), (b"\xff", "text"))))
    assert [row["value"] for row in found] == ["café", '"/w=="', "text"]
    assert found[2]["key"] == '{"@data-type": "bytes", "data": "/w=="}'


def test_typed_values_are_plain_json():
    value = {
        "at": Timestamp(1_767_225_600_123_456_789), "n": Count(2**64 - 1), "raw": b"\xff",
        "far": [float("inf"), float("-inf"), float("nan"), 0.5],
    }  # fmt: skip
    (row,) = rows(whole(run_of((None, value))))
    assert json.loads(row["value"]) == {
        "at": "2026-01-01T00:00:00.123456789Z", "n": 2**64 - 1, "raw": "/w==",
        "far": ["Infinity", "-Infinity", "NaN", 0.5],
    }  # fmt: skip
    assert columns.plain_json(Table({"ü": True})) == '{"ü": true}'


def test_of_a_run_comes_what_is_wanted():
    run = run_of(*[("k", str(number)) for number in range(10)], first=100)
    found = rows(Piece(run, 3, 5), Piece(run, 9, 10))
    assert [(row["offset"], row["value"]) for row in found] == [(103, "3"), (104, "4"), (109, "9")]


def test_a_batch_has_so_many_rows_or_bytes_and_no_more():
    small = [whole(run_of(*[(None, "x")] * 1_000, first=at * 1_000)) for at in range(40)]
    found = list(columns.log_batches(small, "orders", STRING))
    assert [batch.num_rows for batch in found] == [16_000, 16_000, 8_000]
    large = run_of((None, "x" * (3 << 20)))
    found = list(columns.log_batches([whole(large)] * 5, "orders", STRING))
    assert [batch.num_rows for batch in found] == [2, 2, 1]
    huge = run_of((None, "x" * (12 << 20)))
    assert [batch.num_rows for batch in columns.log_batches([whole(huge)] * 2, "o", STRING)] == [
        1,
        1,
    ]


def test_rows_that_nobody_wants_are_not_read():
    pieces = iter([whole(run_of(*[(None, "x")] * 1_000)) for _ in range(100)])
    first = next(columns.log_batches(pieces, "orders", STRING))
    assert (first.num_rows, len(list(islice(pieces, 100)))) == (16_000, 83)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ((None, b"\x01", None, b"\xff"), "^log orders, partition 3, offset 8, column value: "),
        ((None, b"\x01", b"\x82\x01", b"\x01"), "^log orders, partition 3, offset 8, column key: "),
        ((None, b"\x01", None, b""), "^log orders, partition 3, offset 8, column value: "),
        ((None, b"\x01", b"", b"\x01"), "^log orders, partition 3, offset 8, column key: "),
        ((None, b"\x01", None, None), "^log orders, partition 3, offset 8, column value: "),
        ((None, b"\x01", None), "^log orders, partition 3, offset 7: .* damaged"),
    ],
)
def test_what_is_no_entry_is_named_by_partition_offset_and_column(body, text):
    run = Run(3, 7, 2, 1, encode(body))
    with pytest.raises(DecodeError, match=text):
        rows(whole(run))


def test_a_key_that_is_no_utf8_is_named_by_its_place():
    spoiled = b"\x62k\xff"
    run = Run(3, 7, 2, 1, encode((None, encode("x"), spoiled, encode("y"))))
    with pytest.raises(DecodeError, match=r"^log orders, partition 3, offset 8, column key: "):
        rows(whole(run_of((None, "x"))), whole(run))
    page = Rows([encode("k"), spoiled], [encode("x"), encode("y")], [1, 2])
    with pytest.raises(DecodeError, match=r"^store totals, key b'k\\xff', column key: "):
        list(columns.store_batches([page], "totals", STRING))


NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-70_000, 70_000) | st.floats()


@given(st.lists(NUMBERS | st.booleans() | st.none() | st.binary(max_size=3), min_size=1))
def test_numbers_are_written_as_decoding_them_writes_them(values):
    encoded = columns.encoded_column([encode(value) for value in values])
    found = columns.value_column(encoded, str, BINARY).to_pylist()
    for value, text in zip(values, found, strict=True):
        if isinstance(value, bytes):
            assert text == value
        else:
            assert text == (None if value is None else columns.plain_json(value).encode())


@given(st.binary(min_size=1, max_size=10).filter(lambda item: item[0] >> 5 not in {2, 3}))
def test_what_is_no_number_is_left_to_the_decoder(item):
    found = columns._number(item)
    if found is not None:
        assert found == columns.plain_json(decode(item)).encode()
