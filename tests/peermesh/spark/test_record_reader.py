"""What Arrow's JSON reader is given, and what is left to Spark, without a Spark."""

from __future__ import annotations

import pytest

from wire.errors import InvalidData

pa = pytest.importorskip("pyarrow")
types = pytest.importorskip("pyspark.sql.types")
fast_json = pytest.importorskip("peermesh.spark.fast_json")
RECORD_SIZE_MAX, WORK_MAX = fast_json.RECORD_SIZE_MAX, fast_json.WORK_MAX
RecordReader = fast_json.RecordReader

SCHEMA = types.StructType().add("n", "long").add("x", "double").add("at", "timestamp")


def read(*texts, schema=SCHEMA):
    value, unparsed = RecordReader(schema).parse(pa.array(texts, pa.string()))
    for text, record, left in zip(texts, value.to_pylist(), unparsed.to_pylist(), strict=True):
        assert left == (text if record is None else None)
    return [record and record["n"] for record in value.to_pylist()]


def test_records_are_read_and_each_that_is_not_taken_is_left_alone():
    texts = [f'{{"n": {number}}}' for number in range(50)]
    texts[7:9] = ["{bad}", '{"n": "x"}']
    texts[40] = '{"at": "2026-01-01"}'
    expected = [None if number in (7, 8, 40) else number for number in range(50)]
    assert read(*texts) == expected
    assert read(None, '{"n": 1}', None) == [None, 1, None]
    assert read() == []


@pytest.mark.parametrize(
    "text",
    [
        "null", "5", "", "[]", '{"n": 1}\n', '{"n": 1}\n{"n": 2}', '{"x": -0}',
        '{"x": -0 , "n": 1}',
        '{"x": Inf}', '{"x": NaN}', '{"n": 1}} {"r": {"n": 2}', '{"n": 1}}null{"r":{"n": 2}',
        '{"y": ' + "[" * 1_500 + "]" * 1_500 + "}", '{"y": ' + "1" * 1_200 + "}",
        '{"y": "' + "x" * RECORD_SIZE_MAX + '"}', '{"at": "2026-01-01T00:00:00"}',
        '{"at": "2026-01-01T00:00:00.1234567Z"}', '{"at": "0001-01-01T00:00:00Z"}',
    ],
)  # fmt: skip
def test_what_arrow_reads_in_another_way_it_does_not_get(text):
    assert read('{"n": 1}', text, '{"n": 2}', '{"n": 3}') == [1, None, 2, 3]


def test_texts_are_searched_for_integers_below_zero_and_zero_where_a_real_is_one():
    taken = ['{"y": -0 , "n": 2}', '{"n": -0}', '{"s": "-0,", "n": 3}']
    assert read(*taken) == [2, 0, 3]
    assert read('{"x": -0.0, "n": 1}') == [1]
    assert read('{"x": -0.0, "n": 1}', *taken) == [1, None, None, None]


def test_where_most_are_left_to_spark_no_time_is_lost_on_the_rest():
    reader = RecordReader(SCHEMA)
    texts = pa.array(['{"n": "1"}'] * 900 + ['{"n": 1}'] * 100 + [None])
    value, _ = reader.parse(texts)
    assert value.null_count == 901
    value, unparsed = reader.parse(pa.array(['{"n": 1}'] * 10))
    assert (value.null_count, unparsed.null_count) == (10, 0)


def test_work_is_bounded_however_many_are_odd(monkeypatch):
    reader, lines = RecordReader(SCHEMA), list[int]()
    whole = reader._read

    def counted(part):
        found = whole(part)
        lines.append(len(part) if not isinstance(found, int) else min(found + 1, len(part)))
        return found

    monkeypatch.setattr(reader, "_read", counted)
    reader.parse(pa.array(['{"at": "2026-01-01"}', '{"n": 1}'] * 5_000))  # no line is named
    assert sum(lines) <= (WORK_MAX + 1) * 10_000


@pytest.mark.parametrize(
    "kind", ["integer", "decimal(4,2)", "float", "date", "binary", "timestamp_ntz"]
)
def test_types_that_only_spark_reads_are_refused_by_name(kind):
    inner = types.StructType().add("odd", kind)
    schema = types.StructType().add("few", types.ArrayType(inner))
    with pytest.raises(InvalidData, match=r"valueSchema has odd .*parsed\(frame, schema\)"):
        RecordReader(schema)
