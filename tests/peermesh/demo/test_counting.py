"""Keys, times, windows, tallies: what the sensor and the recount share, without any process."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from datetime import datetime, timedelta, timezone
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from peermesh.demo.errors import InputError
from peermesh.demo.events import CHUNK_SIZE, EventReader
from peermesh.demo.keys import (
    BAD,
    DEPTH_MAX,
    KEY_SIZE_MAX,
    LINE_SIZE_MAX,
    MISSING,
    BadLine,
    key_of,
    label,
    parse,
)
from peermesh.demo.plan import BATCH_ROWS_MAX, BATCHES, Input, does_fit, make_plan
from peermesh.demo.reading import read_lines
from peermesh.demo.recount import recount
from peermesh.demo.tally import BAD_LINES_MAX, Summary, Tally, compare
from peermesh.demo.times import (
    ASSIGNED_RATE,
    MICROSECONDS,
    TIME_END,
    Clock,
    Lateness,
    to_datetime,
    to_time,
    window_of,
)
from peermesh.demo.view import Rate, describe, make_view
from peermesh.demo.words import write_words
from wire.encoding import encode
from wire.limits import MIB

# Lines that a file of events may hold by accident or by malice, with what becomes of them.

GOOD_LINES = {
    b'{"a": "x"}': '"x"',
    b' {"a": "x"}\r': '"x"',
    b'{"a": ""}': '""',
    b'{"a": 1}': "1",
    b'{"a": 1.0}': "1.0",
    b'{"a": true}': "true",
    b'{"a": false}': "false",
    b'{"a": null}': "null",
    b'{"a": "1"}': '"1"',
    b'{"a": "x", "a": "y"}': '"y"',
    b'{"b": 1}': MISSING,
    b"{}": MISSING,
    b'{"a": [1, {"c": 2, "b": null}]}': '[1,{"b":null,"c":2}]',
    b'{"a": 9223372036854775808}': "9223372036854775808",
    b'{"a": "\\ud83d\\ude00"}': '"\U0001f600"',
    b'{"a": "(missing)"}': '"(missing)"',
}
BAD_LINES = (
    b"",
    b"   ",
    b"{",
    b'{"a": "x"',
    b'{"a": x}',
    b'{"a": NaN}',
    b'{"a": Infinity}',
    b'{"a": 1e999}',
    b'{"a": [1e999]}',
    b'{"a": "\\ud800"}',
    b'{"a": ["\\udfff"]}',
    b'{"a": "\xff"}',
    b'{"a": "x"} {"a": "y"}',
    b'["a"]',
    b'"a"',
    b"1",
    b"null",
    b"\xef\xbb\xbf{}",
    b'{"a": ' + b"1" * 5000 + b"}",
    b'{"b": ' + b"[" * DEPTH_MAX + b"]" * DEPTH_MAX + b"}",
    b"[" * 100_000,
    b'{"a": ' * 100_000,
    b'{"a": "' + b"x" * KEY_SIZE_MAX + b'"}',
    b'{"a": "' + b"x" * LINE_SIZE_MAX + b'"}',
)


def key(line: bytes, field: str = "a") -> str:
    return key_of(parse(line), field)


@pytest.mark.parametrize("line", GOOD_LINES, ids=lambda line: line[:40])
def test_an_event_is_counted_under_its_typed_value(line):
    assert key(line) == GOOD_LINES[line]


@pytest.mark.parametrize("line", BAD_LINES, ids=lambda line: line[:40])
def test_a_bad_line_says_in_few_words_what_is_wrong(line):
    with pytest.raises(BadLine) as raised:
        key(line)
    assert 5 < len(str(raised.value)) < 120


def test_the_depth_of_an_event_is_limited_where_it_says():
    nested = b'{"b": ' + b"[" * (DEPTH_MAX - 1) + b"]" * (DEPTH_MAX - 1) + b"}"
    assert key(nested) == MISSING


def test_brackets_in_text_are_no_depth():
    assert key(b'{"a": "' + b"[" * 1000 + b'"}') == '"' + "[" * 1000 + '"'


def test_a_field_is_a_name_before_it_is_a_path():
    both = b'{"id.orig_h": "name", "id": {"orig_h": "path"}}'
    assert key(both, "id.orig_h") == '"name"'
    assert key(b'{"id": {"orig_h": "path"}}', "id.orig_h") == '"path"'
    assert key(b'{"id": "text"}', "id.orig_h") == MISSING
    assert key(b'{"id": {}}', "id.orig_h") == MISSING


FINITE = st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | FINITE | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(json_values)
def test_no_json_value_is_taken_for_a_missing_one_or_a_bad_line(value):
    found = key(json.dumps({"a": value}).encode())
    assert found not in (MISSING, BAD)
    # The key says all of the value, and of which type it is.
    assert json.dumps(json.loads(found), sort_keys=True) == json.dumps(value, sort_keys=True)


@given(st.binary(max_size=60))
def test_any_bytes_are_an_event_or_a_bad_line_and_fit_into_the_log(line):
    event = EventReader("a", "t").read(1, line)
    assert (event.key == BAD) == bool(event.reason)
    encode(event.to_value(0, 60))


def test_keys_that_are_no_text_are_not_shown_as_text():
    keys = ('"missing"', MISSING, "1", '"1"', "true", "null", '""', '"a\\nb"', "[1]", BAD)
    shown = [label(key) for key in keys]
    assert shown == [
        "missing", "(missing)", "1", "1", "true", "null", '""', '"a\\nb"', "[1]", "(bad line)",
    ]  # fmt: skip


def test_the_largest_append_is_below_what_a_keeper_takes():
    assert CHUNK_SIZE + LINE_SIZE_MAX + 1 < 4 * MIB


# Times.


@pytest.mark.parametrize(
    ("found", "time"),
    [
        ("1970-01-01T00:00:01Z", MICROSECONDS),
        ("1970-01-01T00:00:01.000001", MICROSECONDS + 1),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01", 0),
        (1.5, 1_500_000),
        (1521911720.865716, 1_521_911_720_865_716),
        (2, 2 * MICROSECONDS),
        (TIME_END // MICROSECONDS, None),
        ("1969-12-31T23:59:59Z", None),
        ("0001-01-01T00:00:00+14:00", None),
        (-1, None),
        (float("inf"), None),
        (1e300, None),
        (10**400, None),
        (True, None),
        ("yesterday", None),
        (None, None),
        ([1], None),
    ],
)
def test_a_time_is_text_or_a_number_or_none(found, time):
    assert to_time(found) == time


@given(st.datetimes(datetime(1970, 1, 3), timezones=st.just(timezone(timedelta(hours=3)))))
def test_a_time_comes_back_as_it_was_written(when):
    assert to_datetime(to_time(when.isoformat())) == when


def test_what_has_no_time_has_that_of_the_event_before():
    clock = Clock("ts")
    found = [{}, {"ts": 5}, {"ts": "?"}, None, {"ts": 3}, {}]
    times = [clock.read(number, event) for number, event in enumerate(found, start=1)]
    assert times == [
        MICROSECONDS // ASSIGNED_RATE,
        *[5 * MICROSECONDS] * 3,
        *[3 * MICROSECONDS] * 2,
    ]


@given(st.integers(0, TIME_END - 1), st.integers(1, 10_000))
def test_a_time_is_in_its_window(time, seconds):
    window = window_of(time, seconds)
    assert window % seconds == 0
    assert window * MICROSECONDS <= time < (window + seconds) * MICROSECONDS


times = st.lists(st.integers(0, 3_000) | st.integers(0, TIME_END - 1), min_size=1, max_size=40)


@given(times, st.lists(st.integers(0, 40), max_size=6), st.integers(1, 100))
def test_the_watermark_of_an_input_drops_nothing_however_it_is_cut_into_batches(times, cuts, size):
    lateness = Lateness()
    for time in times:
        lateness.add(time)
    watermark_ms = 0
    bounds = sorted({0, *(cut for cut in cuts if cut < len(times)), len(times)})
    for first, last in pairwise(bounds):
        for time in times[first:last]:  # as Spark decides it, in whole milliseconds
            assert (window_of(time, size) + size) * 1_000 > watermark_ms
        latest = max(times[:last]) // 1_000 - lateness.watermark_ms()
        watermark_ms = max(watermark_ms, latest)


# Replays.


@given(times, st.integers(1, 1_000), st.integers(1, 5))
def test_replays_share_no_window_and_are_counted_as_often(times, size, copies):
    tally = Tally()
    for time in times:
        tally.cells[window_of(time, size), "k"] += 1
        tally.lateness.add(time)
    shift = tally.lateness.span_seconds(size)
    repeated = tally.repeated(copies, shift)
    assert len(repeated) == copies * len(tally.cells)
    expected = Counter(
        (window_of(time + copy * shift * MICROSECONDS, size), "k")
        for time in times
        for copy in range(copies)
    )
    assert repeated == expected


def test_replays_end_before_time_does():
    lateness = Lateness(0, TIME_END - MICROSECONDS)
    what = Input(source="", key="", time="", copies=2)
    plan = make_plan(10, lateness, what)
    assert does_fit(plan, lateness, 1)
    assert not does_fit(plan, lateness, 2)


@pytest.mark.parametrize(
    ("lines", "rows"), [(1, 1), (BATCHES, 1), (BATCHES + 1, 2), (10**9, BATCH_ROWS_MAX)]
)
def test_an_input_is_cut_into_batches_enough(lines, rows):
    assert make_plan(lines, Lateness(), Input(source="", key="", time="")).rows_max == rows


# Tallies.


def test_only_the_first_bad_lines_are_remembered():
    tally = Tally()
    for number in range(BAD_LINES_MAX + 5):
        tally.remember_bad(number, "?")
    assert [number for number, _ in tally.bad_lines] == list(range(BAD_LINES_MAX))


def test_a_comparison_tells_what_is_lost_from_what_is_double():
    one, two, three, four = [(0, "a"), (0, "b"), (60, "b"), (60, "a")]
    difference = compare({one: 5, two: 2, three: 1}, {one: 4, two: 5, three: 1, four: 1})
    assert (difference.lost, difference.double) == (1, 4)
    assert difference.cells == (two, one, four)
    assert not compare({one: 1}, {one: 1})


def test_an_event_in_the_wrong_window_is_lost_and_double():
    difference = compare({(0, "a"): 1}, {(60, "a"): 1})
    assert (difference.lost, difference.double) == (1, 1)


# Reading.


def test_lines_come_with_their_numbers_from_wherever_asked(tmp_path):
    path = tmp_path / "events"
    path.write_bytes(b"one\n\nthree\r\nfour")
    assert list(read_lines(path)) == [(1, b"one"), (2, b""), (3, b"three\r"), (4, b"four")]
    assert list(read_lines(path, 4)) == [(4, b"four")]
    assert list(read_lines(path, 5)) == []


def test_gzip_is_recognised_by_its_content_not_by_its_name(tmp_path):
    path = tmp_path / "events.json"
    path.write_bytes(gzip.compress(b"one\ntwo\n"))
    assert list(read_lines(path)) == [(1, b"one"), (2, b"two")]


@pytest.mark.parametrize(
    "size", [LINE_SIZE_MAX - 1, LINE_SIZE_MAX, LINE_SIZE_MAX + 1, LINE_SIZE_MAX * 3]
)
@pytest.mark.parametrize("end", [b"\n", b"\nnext", b""])
def test_a_line_that_is_too_long_is_cut_and_the_next_one_is_whole(tmp_path, size, end):
    path = tmp_path / "events"
    path.write_bytes(b"x" * size + end)
    found = list(read_lines(path))
    assert found[0] == (1, b"x" * min(size, LINE_SIZE_MAX + 1))
    assert found[1:] == ([(2, b"next")] if end == b"\nnext" else [])


@pytest.mark.parametrize("kept", [0.3, 0.9])
def test_a_damaged_gzip_says_after_which_line(tmp_path, kept):
    path = tmp_path / "events.gz"
    whole = gzip.compress(b"".join(b"%d\n" % (number**9) for number in range(5000)))
    path.write_bytes(whole[: int(len(whole) * kept)])
    with pytest.raises(InputError, match=r"is damaged after line \d+"):
        list(read_lines(path))


def test_what_is_no_file_is_refused_in_words(tmp_path):
    with pytest.raises(InputError, match="no regular file"):
        list(read_lines(tmp_path))
    with pytest.raises(InputError, match=r"cannot read .*: No such file"):
        list(read_lines(tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "is empty"),
        (b"no\njson\n", "line 1 is not JSON"),
        (b'[]\n{"b": 1, "c": 2}\n', "no event of .* has the field 'a'.* first event has b, c"),
    ],
)
def test_an_input_without_anything_to_count_is_refused(tmp_path, content, complaint):
    path = tmp_path / "events"
    path.write_bytes(content)
    with pytest.raises(InputError, match=complaint):
        recount(path, "a", "ts", 60)


def test_a_recount_counts_windows_keys_missing_ones_and_bad_lines(tmp_path):
    path = tmp_path / "events"
    path.write_bytes(b"\n".join([*GOOD_LINES, *BAD_LINES, b'{"a": "x", "ts": 120}', b"{}"]))
    tally = recount(path, "a", "ts", 60)
    summary = Summary.of(tally.cells)
    assert (summary.events, summary.bad) == (len(GOOD_LINES) + 2, len(BAD_LINES))
    assert summary.lines == tally.lines
    assert tally.totals()[MISSING] == 3
    assert tally.cells[0, MISSING] == 2
    assert tally.cells[120, MISSING] == 1
    assert (tally.cells[0, '"x"'], tally.cells[120, '"x"']) == (2, 1)
    assert tally.bad_lines[0][0] == len(GOOD_LINES) + 1


def test_the_words_of_a_text_become_events(tmp_path):
    text, events = tmp_path / "text", tmp_path / "events"
    text.write_text("One two,\nthree 4 TWO\n")
    write_words(text, events)
    found = [json.loads(line) for _, line in read_lines(events)]
    assert [(event["word"], event["line"]) for event in found] == [
        ("one", 1), ("two", 1), ("three", 2), ("two", 2),
    ]  # fmt: skip


# What is shown.


def test_a_view_shows_the_most_frequent_keys_of_all_windows_in_words():
    table = {(0, '"b"'): 1, (60, '"b"'): 1, (0, '"a"'): 2, (0, MISSING): 3, (0, BAD): 1}
    view = make_view(table | {(0, '"' + "x" * 99 + '"'): 1}, total=12, appended=11, rate=0.0)
    assert view.top[:3] == (("(missing)", 3), ("a", 2), ("b", 2))
    assert len(view.top[3][0]) == 48
    assert describe(view) == (
        "9 of 12 lines (75%), 4 keys in 2 windows, lag 2, 1 bad lines, most: (missing) 3"
    )


def test_a_rate_is_that_of_the_last_seconds():
    rate = Rate()
    assert rate.update(0, 100.0) == 0
    assert rate.update(10, 101.0) == 10
    for second in range(2, 20):
        last = rate.update(10 + 100 * (second - 1), 100.0 + second)
    assert last == 100
