"""Reading lines, finding keys, counting and comparing: what the job and the recount share."""

from __future__ import annotations

import gzip
import json
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from peermesh.demo.errors import InputError
from peermesh.demo.keys import (
    DEPTH_MAX,
    KEY_SIZE_MAX,
    LINE_SIZE_MAX,
    MISSING,
    BadLine,
    key_of,
    label,
)
from peermesh.demo.protocol import (
    BATCH_SIZE_MAX,
    CHECKPOINT,
    Checkpoint,
    commit,
    read_event,
    read_replay,
)
from peermesh.demo.reading import read_lines
from peermesh.demo.recount import recount
from peermesh.demo.tally import BAD_LINES_MAX, Tally, compare, merge, tally_events
from peermesh.demo.view import Rate, describe, make_view
from peermesh.demo.words import write_words
from stores.actions import WriterId
from stores.limits import BATCH_COUNT_MAX
from stores.requests import Requests
from wire.decoding import decode
from wire.encoding import encode
from wire.identifiers import EndpointId, EntityId
from wire.scalars import Enum

# Lines that a file of events may hold by accident or by malice, with what becomes of them.

GOOD_LINES = {
    b'{"a": "x"}': "x",
    b' {"a": "x"}\r': "x",
    b'{"a": ""}': "",
    b'{"a": 1}': 1,
    b'{"a": 1.0}': 1.0,
    b'{"a": true}': True,
    b'{"a": false}': False,
    b'{"a": null}': None,
    b'{"a": "1"}': "1",
    b'{"a": "x", "a": "y"}': "y",
    b'{"b": 1}': MISSING,
    b"{}": MISSING,
    b'{"a": [1, {"c": 2, "b": null}]}': (Enum("json"), '[1,{"b":null,"c":2}]'),
    b'{"a": 9223372036854775808}': (Enum("json"), "9223372036854775808"),
    b'{"a": "\\ud83d\\ude00"}': "\U0001f600",
    b'{"a": "missing"}': "missing",
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


@pytest.mark.parametrize("line", GOOD_LINES, ids=lambda line: line[:40])
def test_an_event_is_counted_under_its_typed_value(line):
    assert key_of(line, "a") == encode(GOOD_LINES[line])


@pytest.mark.parametrize("line", BAD_LINES, ids=lambda line: line[:40])
def test_a_bad_line_says_in_few_words_what_is_wrong(line):
    with pytest.raises(BadLine) as raised:
        key_of(line, "a")
    assert 5 < len(str(raised.value)) < 120


def test_the_depth_of_an_event_is_limited_where_it_says():
    nested = b'{"b": ' + b"[" * (DEPTH_MAX - 1) + b"]" * (DEPTH_MAX - 1) + b"}"
    assert key_of(nested, "a") == encode(MISSING)


def test_brackets_in_text_are_no_depth():
    assert key_of(b'{"a": "' + b"[" * 1000 + b'"}', "a") == encode("[" * 1000)


def test_a_field_is_a_name_before_it_is_a_path():
    both = b'{"id.orig_h": "name", "id": {"orig_h": "path"}}'
    assert key_of(both, "id.orig_h") == encode("name")
    assert key_of(b'{"id": {"orig_h": "path"}}', "id.orig_h") == encode("path")
    assert key_of(b'{"id": "text"}', "id.orig_h") == encode(MISSING)
    assert key_of(b'{"id": {}}', "id.orig_h") == encode(MISSING)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(json_values)
def test_no_json_value_is_taken_for_a_missing_one_or_for_the_checkpoint(value):
    line = json.dumps({"a": value}).encode()
    try:
        key = key_of(line, "a")
    except BadLine:
        return
    assert key not in (encode(MISSING), encode(CHECKPOINT))
    assert encode(decode(key)) == key, "the store hands keys out decoded"


@given(st.binary(max_size=60))
def test_any_bytes_are_an_event_or_a_bad_line(line):
    tally = Tally()
    tally.add(1, line, "a")
    assert tally.lines == 1


def test_keys_that_are_no_text_are_not_shown_as_text():
    values = ("missing", MISSING, 1, "1", True, "true", None, "", "a\nb", (Enum("json"), "[1]"))
    shown = [label(encode(value)) for value in values]
    assert shown == [
        "missing", "(missing)", "1", "1", "true", "true", "null", '""', '"a\\nb"', "[1]",
    ]  # fmt: skip


# Tallies.

lines = st.lists(st.sampled_from([*GOOD_LINES, *BAD_LINES[:8]]), max_size=60)


@given(lines, st.lists(st.integers(0, 60), max_size=4))
def test_tallies_of_parts_add_up_to_the_tally_of_all(lines, cuts):
    events = list(enumerate(lines, start=1))
    (whole,) = tally_events("a", events)
    bounds = [0, *sorted(min(cut, len(events)) for cut in cuts), len(events)]
    parts = [
        tally for first, last in pairwise(bounds) for tally in tally_events("a", events[first:last])
    ]
    merged = Tally()
    for part in reversed(parts):
        merged = merge(merged, part)
    assert merged == whole


def test_only_the_first_bad_lines_are_remembered_and_all_are_counted():
    (tally,) = tally_events("a", enumerate([b"x"] * (BAD_LINES_MAX + 5), start=1))
    (more,) = tally_events("a", [(0, b"y")])
    both = merge(tally, more)
    assert both.bad == BAD_LINES_MAX + 6
    assert [number for number, _ in both.bad_lines] == list(range(BAD_LINES_MAX))


def test_a_comparison_tells_what_is_lost_from_what_is_double():
    difference = compare({b"a": 5, b"b": 2, b"c": 1}, {b"a": 4, b"b": 5, b"c": 1, b"d": 1})
    assert (difference.lost, difference.double) == (1, 4)
    assert difference.keys == (b"b", b"a", b"d")
    assert not compare({b"a": 1}, {b"a": 1})


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
        recount(path, "a")


def test_a_recount_counts_keys_missing_ones_and_bad_lines(tmp_path):
    path = tmp_path / "events"
    path.write_bytes(b"\n".join([*GOOD_LINES, *BAD_LINES]))
    tally = recount(path, "a")
    assert (tally.events, tally.bad) == (len(GOOD_LINES), len(BAD_LINES))
    assert tally.counts[encode(MISSING)] == 2
    assert tally.counts[encode("x")] == 2
    assert tally.bad_lines[0][0] == len(GOOD_LINES) + 1


def test_the_words_of_a_text_become_events(tmp_path):
    text, events = tmp_path / "text", tmp_path / "events"
    text.write_text("One two,\nthree 4 TWO\n")
    write_words(text, events)
    found = [json.loads(line) for _, line in read_lines(events)]
    assert [(event["word"], event["line"]) for event in found] == [
        ("one", 1), ("two", 1), ("three", 2), ("two", 2),
    ]  # fmt: skip


# What travels.


def test_a_batch_of_as_many_keys_as_lines_fits_into_a_batch_of_the_store():
    events = [(number, b'{"a": %d}' % number) for number in range(1, BATCH_COUNT_MAX - 23)]
    (tally,) = tally_events("a", events)
    batch, after = commit(Checkpoint(), tally, len(events))
    assert len(tally.counts) == BATCH_COUNT_MAX - 24
    assert len(batch.steps) <= BATCH_COUNT_MAX
    assert after == Checkpoint(len(events), 0)


def test_a_batch_of_the_longest_keys_fits_into_a_batch_of_the_store():
    number = b"1e15"
    numbers = KEY_SIZE_MAX // len(b"1000000000000000.0,") - 2
    lines, size = [], 0
    while size < BATCH_SIZE_MAX:
        lines.append(b'{"a": [%d' % len(lines) + b"," + b",".join([number] * numbers) + b"]}")
        size += len(lines[-1])
    (tally,) = tally_events("a", enumerate(lines, start=1))
    assert not tally.bad
    assert len(tally.counts) == len(lines)
    batch, _ = commit(Checkpoint(), tally, len(lines))
    asked = []
    writer = WriterId.of(EntityId(EndpointId(bytes(16)), 1), 1)
    Requests(writer, asked.append).batch(batch.guards, batch.steps)
    assert len(asked) == 1


@pytest.mark.parametrize("data", [None, "x", 1, (), (1,), (1, "x"), (b"x", 1), (1, b"x", 2)])
def test_foreign_messages_are_ignored(data):
    assert read_event(data) is None


@pytest.mark.parametrize("data", [None, True, 0, -1, 1.0, "1", (1,)])
def test_foreign_requests_are_ignored(data):
    assert read_replay(data) is None


def test_messages_are_read():
    assert read_event((1, b"x")) == (1, b"x")
    assert read_event((2, None)) == (2, None)
    assert read_replay(7) == 7


# What is shown.


def test_a_view_shows_the_most_frequent_keys_in_words():
    counts = {encode("b"): 2, encode("a"): 2, encode(MISSING): 3, encode("x" * 99): 1}
    view = make_view(counts, Checkpoint(9, 1), 12, rate=0.0)
    assert view.top[:3] == (("(missing)", 3), ("a", 2), ("b", 2))
    assert len(view.top[3][0]) == 48
    assert describe(view) == "9 of 12 lines (75%), 4 keys, 1 bad lines, most: (missing) 3"


def test_a_rate_is_that_of_the_last_seconds():
    rate = Rate()
    assert rate.update(0, 100.0) == 0
    assert rate.update(10, 101.0) == 10
    for second in range(2, 20):
        last = rate.update(10 + 100 * (second - 1), 100.0 + second)
    assert last == 100
