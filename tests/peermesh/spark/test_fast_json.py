"""Records that Arrow reads are what ``from_json`` makes of them, and all others are left to it."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from peermesh.testing.time_limits import limit
from wire.errors import InvalidData

pytestmark = pytest.mark.spark
pytest.importorskip("pyarrow")

SCHEMA = (
    "n BIGINT, x DOUBLE, s STRING, b BOOLEAN, t TIMESTAMP, few ARRAY<BIGINT>,"
    " times ARRAY<TIMESTAMP>, inner STRUCT<n: BIGINT, t: TIMESTAMP,"
    " deep: ARRAY<STRUCT<s: STRING, x: DOUBLE>>>"
)
NAMES = st.sampled_from(
    ["n", "x", "s", "b", "t", "few", "times", "inner", "deep", "N", "r", "y", ""]
)

TIME_TEXTS = (
        "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.123456Z", "2026-01-02T03:04:05.1+05:30",
        "2026-01-02T03:04:05", "2026-01-02", "2026-01-02 03:04:05Z", "2026-02-30T00:00:00Z",
        "2026-01-02T24:00:00Z", "2026-01-02T23:59:60Z", "1582-10-10T00:00:00Z",
        "0001-01-01T00:00:00Z",
        "2026-01-02T03:04:05.123456789Z", "2026-01-02T03:04:05-17:59", "2026-01-02T03:04:05+18:30",
        "9999-12-31T23:59:59.999999Z", "1767225600", "2026-01-02T03Z", "2026-01-02T03:04:05+0100",
        "1000-02-29T00:00:00Z", "2024-02-29T23:59:59.9Z", "1900-01-01T00:00:00-00:30",
)  # fmt: skip
NUMBER_TEXTS = (
        "0", "-0", "-0.0", "1.0", "1e3", "1E400", "1e-400", "9223372036854775807", "-0e1",
        "9223372036854775808", "-9223372036854775808", "0.1", "5e-324", "2.2250738585072011e-308",
        "1.7976931348623157e308", "123456789012345678901234567890.5", "NaN", "Infinity",
        "-Infinity",        "Inf", "01", "1.", "+1", ".5", "0x1", "1_0", "- 1",
)  # fmt: skip
ODD_TEXTS = (
        "", " ", "null", "5", "true", '"x"', "[]", "[null]", '[{"n": 1}]', "{}", "{", "}",
        '{"n": 1',
        '{"n": 1}}', '{"n": 1}{"n": 2}', '{"n": 1} {"n": 2}', '{"n": 1}} {"r":{"n": 2}',
        '{"n": 1}}null{"r":{"n": 2}', '{"n": 1}, "q": {}', '{"n": 1}, "r": {"n": 2}',
        '{"n": 1}} null {"r": {}', '{"n": 1,}', '{"n": 1, "n": 2}', '{"n": null, "n": 2}',
        '{"y": 1, "y": 2}', '{"inner": {"n": 1, "n": 2}}', "{'n': 1}", "{n: 1}", '{"n": 1} junk',
        '{"n": 1 /* c */}', '{"n": 1}\n', '{"n":\n1}', '{"n": 1}\n{"n": 2}', '\ufeff{"n": 1}',
        '{"n": 1} ', ' {"n": 1}', '{"s": "\\ud800"}', '{"s": "\\ud83d\\ude00"}', '{"s": "\\u0000"}',
        '{"s": "a\\/b\\n\\x"}', '{"s": "\t"}', '{"s": "\x7f\u2028"}', '{"\\u006e": 1}',
        '{"y": NaN}', '{"y": -0, "x": 1}', '{"y": 1e999, "n": 1}', '{"y": 01, "n": 1}',
        '{"y": "\\ud800", "n": 1}', '{"n": "1"}', '{"x": "1.5"}',
        '{"b": "true"}', '{"s": 1.50}', '{"s": {"a": [1, "b"]}}',
        '{"s": [1,  2]}', '{"t": 1767225600}', '{"t": 1.5}', '{"few": 1}', '{"few": [1, null]}',
        '{"few": [1, "x"]}', '{"few": {}}', '{"inner": []}', '{"inner": null}', '{"inner": 1}',
        '{"inner": {"deep": [null, {}, {"x": -0.0}]}}', '{"inner": {"deep": [{"x": -0}]}}',
        '{"x": NaN}', '{"x": -Infinity}',
        '{"x": "NaN"}', '{"n": 1}\x00', '{"n": 1\x00}', '{"y": ' + "[" * 900 + "]" * 900 + "}",
        '{"y": ' + "[" * 2_000 + "]" * 2_000 + "}", '{"s": "' + "x" * 70_000 + '"}',
)  # fmt: skip

TIMES, NUMBERS, ODD = map(st.sampled_from, (TIME_TEXTS, NUMBER_TEXTS, ODD_TEXTS))

SCALARS = (
    TIMES.map(json.dumps)
    | NUMBERS
    | st.none().map(json.dumps)
    | st.booleans().map(json.dumps)
    | st.integers().map(str)
    | st.floats().map(json.dumps)
    | st.text(max_size=6).map(json.dumps)
    | st.text(max_size=6).map(lambda text: json.dumps(text, ensure_ascii=False))
)


def members(inner):
    """Make objects of which members may be there twice."""
    pairs = st.lists(st.tuples(NAMES.map(json.dumps), inner), max_size=5)
    return pairs.map(lambda found: "{" + ", ".join(f"{name}: {each}" for name, each in found) + "}")


JSON = st.recursive(
    SCALARS,
    lambda inner: members(inner) | st.lists(inner, max_size=3).map(lambda e: f"[{','.join(e)}]"),
    max_leaves=8,
)
FITTING = st.fixed_dictionaries(
    {},
    optional={
        "n": st.integers(-(2**63), 2**63 - 1),
        "x": st.floats(allow_nan=False, allow_infinity=False),
        "s": st.text(max_size=5), "b": st.booleans(), "t": TIMES,
        "few": st.lists(st.integers(-9, 9)),
        "times": st.lists(TIMES, max_size=2), "y": st.integers(),
        "inner": st.fixed_dictionaries({"n": st.none() | st.integers(0, 9), "t": TIMES}),
    },
).map(json.dumps)  # fmt: skip


@st.composite
def damaged(draw):
    """Take a text that might be right, and put another one in the place of some of it."""
    text = draw(FITTING | members(JSON))
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, min(len(text), start + 2)))
    return text[:start] + draw(st.text(max_size=2) | st.sampled_from('{}[]",:')) + text[end:]


LINES = ODD | FITTING | members(JSON) | JSON | damaged() | st.text(max_size=8)


@pytest.fixture
def compare(spark):
    """Give what reads lines both ways; it says how many Arrow read."""
    import pyarrow as pa
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructType

    from peermesh.spark.fast_json import RecordReader

    kind = StructType.fromDDL(SCHEMA)
    whole = StructType([*kind.fields]).add("bad", "string")

    def parse(texts):
        return RecordReader(kind).parse(pa.array(texts, pa.string()))

    def run(lines, *, alone=False):
        texts = [line for line in lines if _is_text(line)]
        if alone:
            value, unparsed = map(
                pa.concat_arrays, zip(*[parse([text]) for text in texts], strict=True)
            )
        else:
            value, unparsed = parse(texts)
        frame = spark.createDataFrame(list(enumerate(texts)), "number INT, text STRING")
        record = f.from_json("text", whole, {"columnNameOfCorruptRecord": "bad"})
        found = frame.select("number", record.alias("r")).orderBy("number").toArrow()
        wrong = []
        for text, ours, left, theirs in zip(
            texts, value.to_pylist(), unparsed.to_pylist(), map(as_python, found["r"]), strict=True
        ):
            if left is not None:
                assert (ours, left) == (None, text)
            elif theirs is None or (theirs.pop("bad"), repr(ours)) != (None, repr(theirs)):
                wrong.append((text[:200], ours, theirs))
        assert not wrong, wrong[:5]
        return len(texts) - value.null_count, len(texts)

    return run


def as_python(record):
    try:
        return record.as_py()
    except OverflowError:  # Spark has years after 9999, which Arrow never reads here.
        return None


def _is_text(line):
    try:
        line.encode()
    except UnicodeEncodeError:
        return False
    return True


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # Spark is slow, and lines are short
)
@given(st.lists(LINES, min_size=60, max_size=150))
def test_each_record_is_equal_or_left_to_spark(compare, lines):
    compare(lines)


def test_every_odd_record_is_equal_or_left_to_spark(compare):
    times = [
        template % time for time in TIME_TEXTS for template in ('{"t": "%s"}', '{"times": ["%s"]}')
    ]
    numbers = ["{" + f'"{name}": {number}' + "}" for number in NUMBER_TEXTS for name in "nxy"]
    read, count = compare([*ODD_TEXTS, *times, *numbers], alone=True)
    assert 30 < read < count - 100


TYPICAL = '{{"n": {n}, "x": {n}.5, "s": "u{n}", "t": "2026-01-01T00:00:00Z", "y": [1, {{}}]}}'


def typical(count):
    return [TYPICAL.format(n=number) for number in range(count)]


def test_most_records_are_read_though_some_are_odd(compare):
    lines = typical(2_000)
    lines[7::100] = ["{bad}"] * 20
    lines[8::100] = ['{"n": "7"}'] * 20
    assert compare(lines) == (1_960, 2_000)
    times = typical(2_000)
    times[9::500] = ['{"t": "2026-01-01"}'] * 4  # of these, Arrow does not say which line it is
    assert compare(times)[0] >= 1_800


def test_a_frame_with_a_schema_is_parsed_as_one_without(spark, mesh):
    from peermesh.spark import parsed

    endpoint, peers = mesh
    log = endpoint.attach_log("orders")
    lines = [*typical(300), "{bad}", None, '{"n": "7"}', {"n": 5, "t": None}, b'{"n": 6}']
    log.append_batch(lines).result(timeout=limit())
    read = spark.read.format("peermesh").options(peers=peers, log="orders")
    plain = parsed(read.load(), SCHEMA)
    frame = read.option("valueSchema", SCHEMA).load()
    assert frame.columns == ["key", "partition", "offset", "timestamp", "value", "unparsed"]
    left = {row.offset for row in frame.where("unparsed IS NOT NULL").collect()}
    assert left == {300, 302}
    fast = parsed(frame, SCHEMA)
    assert fast.columns == plain.columns
    rest = [name for name in plain.columns if name != "value"]
    assert fast.select(*rest).orderBy("offset").collect() == (
        plain.select(*rest).orderBy("offset").collect()
    )
    assert {row.offset for row in fast.where("value IS NOT NULL").collect()} == left
    with pytest.raises(InvalidData, match="which is not the schema"):
        parsed(frame, "n BIGINT")
    with pytest.raises(Exception, match=r"offset 300, column value: .*\{bad\}"):
        parsed(frame, SCHEMA, mode="FAILFAST").select("n").collect()
