"""Bytes of requests, bodies, parts and answers: what is written is read, and nothing else is."""

from __future__ import annotations

import gc
from dataclasses import replace

import cbor2
import pytest
from hypothesis import given, settings, strategies as st

from stores.actions import (
    AddCommand,
    ExpireCommand,
    Initial,
    PutCommand,
    PutUniqueCommand,
    RefusalCommand,
)
from stores.encoding import encode_action
from stores.group.positions import START, Position
from stores.limits import CHUNK_COUNT_MAX, CHUNK_SIZE_MAX, ERROR_TEXT_SIZE_MAX, KEY_SIZE_MAX
from stores.outcomes import Applied, Outcome, Refused
from stores.questions import (
    LookUpCommand,
    ReadAnswerCommand,
    ReadRefusedCommand,
    ScanCommand,
)
from stores.quota import Quota
from stores.scanning import PAGE_COUNT_MAX
from stores.table import Columns, Entry, Table, bodies, codec, parts
from stores.table.lineage import Reign
from stores.table.overlay import Layer
from stores.table.rows import Rows
from stores.table.writers import LedgerRow, Writers
from stores.work import SLICE_COUNT
from tests.stores.table.lab import writer_id
from wire.errors import DecodeError, ErrorCode

WRITER = writer_id(1)
PUT = PutCommand(WRITER, 3, None, [b"a", b"\x01"])
NONCE = bytes(range(16))
REFUSAL = RefusalCommand(WRITER, 4, ErrorCode.TYPE_CLASH, "no")
OUTCOMES = (Outcome(1, 2, Applied(7)), Outcome(3, 3, Refused(ErrorCode.GUARD_FAILED, "no")))

STAMP = bodies.Stamp(3, 40)
TWO_ROWS = Rows([b"a", b"b"], [b"\x01", b"\x02"], [7, 8], (None, 5))
FULL = Rows([b"a"] * PAGE_COUNT_MAX, [b"\x01"] * PAGE_COUNT_MAX, [2**63 - 1] * PAGE_COUNT_MAX)

READERS = {
    "body": (codec.encode_body, codec.decode_body),
    "request": (codec.encode_request, codec.decode_request),
    "part": (codec.encode_part, codec.decode_part),
    "answer": (codec.encode_answer, codec.decode_answer),
}
WHAT = {
    "body": "^an entry of a store",
    "request": "^a request of a store",
    "part": "^a part of a store's snapshot",
    "answer": "^an answer of a store",
}
GOOD = [
    ("body", bodies.Performed(2, (PUT, REFUSAL))),
    ("body", ExpireCommand([b"a", b"b"])),
    ("body", bodies.Registered(WRITER, 5, None)),
    ("body", bodies.Registered(WRITER, 0, writer_id(2))),
    ("body", bodies.QuotaChanged(Quota(None, 5))),
    ("body", bodies.Compared(4)),
    ("request", bodies.Register(WRITER, 9)),
    ("request", bodies.Write(8, (PUT,), 2)),
    ("request", bodies.Write(8, (AddCommand(WRITER, 1, 5, Initial.SET, [b"a", b"\x01"]),), 0)),
    ("request", bodies.ChangeQuota(Quota(1, None))),
    ("request", bodies.Compare(2**64 - 1)),
    ("part", parts.HeadPart(5, Position(2, 9), 1, Quota(9, 9), (Reign(1, 1), Reign(2, 8)))),
    ("part", parts.EntriesPart((b"a", b"\x01", b"b", b"\x02"), (4, 5), (1, 99))),
    ("part", parts.WritersPart((LedgerRow(WRITER, 3, 3, OUTCOMES),))),
    ("answer", bodies.Registration(4, 0)),
    ("answer", OUTCOMES),
    ("answer", bodies.UnknownWriter(4)),
    ("answer", bodies.OutOfOrder(4)),
    ("answer", None),
    ("body", bodies.SessionOpened(NONCE, 5 * 10**9)),
    ("body", bodies.SessionOpened(NONCE, 5 * 10**9, is_drawn=False)),
    ("body", bodies.SessionsEnded((3, 2**55), ExpireCommand([b"a", b"b"]))),
    ("body", bodies.SessionsEnded((4,), None)),
    ("request", bodies.OpenSession(NONCE, 5 * 10**9)),
    ("request", bodies.RenewSession(7)),
    ("request", bodies.EndSession(7)),
    ("part", parts.SessionsPart((bodies.SessionRow(7, NONCE, 5 * 10**9),))),
    ("answer", bodies.SessionGranted(7)),
    ("answer", bodies.SessionGranted(None)),
    ("answer", bodies.SessionHeard(is_alive=True)),
    ("request", bodies.Read(STAMP, True, LookUpCommand(1, 2, b"a", has_value=False))),
    ("request", bodies.Read(STAMP, False, ScanCommand(1, 2, b"a", None, 3, False))),
    ("request", bodies.Read(STAMP, False, ScanCommand(1, 2, b"", b"z", 3, True, 4, 5))),
    ("answer", bodies.Found(STAMP, ReadAnswerCommand(1, Rows([], [], [], ()), None))),
    ("answer", bodies.Found(STAMP, ReadAnswerCommand(1, Rows([b"a"], [], [7], ()), b"b"))),
    ("answer", bodies.Found(STAMP, ReadAnswerCommand(1, TWO_ROWS, None))),
    ("answer", ReadRefusedCommand(1, True, "late")),
    ("answer", ReadRefusedCommand(1, False, "late")),
    ("answer", ReadRefusedCommand(1, False, "gone", is_gone=True)),
    ("answer", bodies.SessionHeard(is_alive=False)),
    # As much as there may be.
    ("body", bodies.Performed(0, (REFUSAL,) * 512)),
    ("body", ExpireCommand([b"a"] * SLICE_COUNT)),
    ("body", ExpireCommand([bytes(KEY_SIZE_MAX)])),
    ("body", bodies.SessionsEnded((1,) * 4_096, None)),
    ("request", bodies.Write(8, (PUT,) * 256, 2)),
    ("part", parts.EntriesPart((b"a", b"\x01") * CHUNK_COUNT_MAX, (1,) * CHUNK_COUNT_MAX, (0, 1))),
    ("part", parts.SessionsPart((bodies.SessionRow(7, NONCE, 5),) * 4_096)),
    ("answer", bodies.Found(STAMP, ReadAnswerCommand(1, FULL, b"b"))),
]


@pytest.mark.parametrize(("kind", "value"), GOOD)
def test_what_is_written_is_read(kind, value):
    encode, decode = READERS[kind]
    data = encode(value)
    assert decode(data) == value
    way_out, way_in = (
        ("encode", "decode") if kind == "body" else (f"encode_{kind}", f"decode_{kind}")
    )
    machine = codec.TableCodec()
    assert getattr(machine, way_out)(value) == data
    assert getattr(machine, way_in)(data) == value
    with pytest.raises(DecodeError):
        decode(data + b"\0")
    for other, (_, read) in READERS.items():
        if other != kind:
            with pytest.raises(DecodeError, match=f"{WHAT[other]} has the unknown kind"):
                read(data)


def test_a_body_that_was_read_is_not_written_again():
    data = codec.encode_body(bodies.Performed(2, (PUT,)))
    body = codec.decode_body(data)
    assert codec.encode_body(body) is data


def test_a_put_that_was_asked_for_goes_into_its_entry_in_the_bytes_that_it_came_in():
    request = codec.decode_request(codec.encode_request(bodies.Write(8, (PUT,))))
    (put,) = request.requests
    came = put.encoded
    assert came == encode_action(PUT)
    data = codec.encode_body(bodies.Performed(0, (put,)))
    assert put.encoded is None  # The entry has them.
    assert data == codec.encode_body(bodies.Performed(0, (PUT,)))
    (read,) = codec.decode_body(data).actions
    assert read.encoded is None


def test_the_text_of_a_refusal_is_cut_where_no_reader_takes_more():
    for is_gone in (False, True):
        refusal = ReadRefusedCommand(1, False, "x" * (ERROR_TEXT_SIZE_MAX + 1), is_gone=is_gone)
        read = codec.decode_answer(codec.encode_answer(refusal))
        assert read == replace(refusal, text="x" * ERROR_TEXT_SIZE_MAX)


def performed(*actions, resolved=0):
    return [1, resolved, [encode_action(action) for action in actions]]


def ends(*numbers):
    return b"".join(number.to_bytes(4, "little", signed=True) for number in numbers)


def revisions(*numbers):
    return b"".join(number.to_bytes(8, "little") for number in numbers)


def page(**wrong):
    """Write a page of two entries that is right but for what is given."""
    good = {
        "keys": b"ab", "key_ends": ends(0, 1, 2), "values": b"xyz", "value_ends": ends(0, 1, 3),
        "revisions": revisions(7, 8), "expiries": [],
    }  # fmt: skip
    return [58, [1, 2], 1, list((good | wrong).values()), None]


def test_a_page_travels_as_two_blocks_with_ends_and_revisions_of_little_endian_numbers():
    rows = Rows([b"a", b"b"], [b"x", b"yz"], [7, 8])
    read = codec.decode_answer(cbor2.dumps(page()))
    assert read == bodies.Found(bodies.Stamp(1, 2), ReadAnswerCommand(1, rows, None))
    assert list(read.answer.rows) == [(b"a", b"x", 7, None), (b"b", b"yz", 8, None)]


MANY = page(
    keys=b"a" * (PAGE_COUNT_MAX + 1), key_ends=ends(*range(PAGE_COUNT_MAX + 2)),
    values=b"", value_ends=ends(0), revisions=revisions(*range(PAGE_COUNT_MAX + 1)),
)  # fmt: skip


BAD = [
    ("body", []),
    ("body", [6]),
    ("body", [6, NONCE[1:], 1]),
    ("body", [6, NONCE, -1]),
    ("body", [8, NONCE[1:], 1]),
    ("body", [8, NONCE, -1]),
    ("body", [7, [1] * 4097, []]),
    ("body", [7, [1], [b""]]),
    ("body", [8, 1]),
    ("request", [20, b"", 1]),
    ("request", [21, None]),
    ("part", [35, [[1, NONCE]]]),
    ("part", [35, [[1, b"short", 1]]]),
    ("answer", [54, 1]),
    ("body", [True, 1]),
    ("body", [1, 0]),
    ("body", [1, -1, [encode_action(PUT)]]),
    ("body", performed()),
    ("body", [1, 0, [b"\xff"]]),
    ("body", performed(PutUniqueCommand(WRITER, 1, None, b"a", b"\x01"))),
    ("body", performed(AddCommand(WRITER, 1, None, Initial.SET, [b"a", b"\x01"]))),
    ("body", performed(ExpireCommand([b"a"]))),
    ("body", performed(PutCommand(WRITER, None, None, [b"a", b"\x01"]))),
    ("body", performed(PUT, RefusalCommand(writer_id(2), 4, ErrorCode.TYPE_CLASH, "no"))),
    ("body", performed(*[REFUSAL] * 513)),
    ("body", [2, []]),
    ("body", [2, [b""]]),
    ("body", [2, [b"a"] * (SLICE_COUNT + 1)]),
    ("body", [3, b"short", 0, None]),
    ("body", [4, [0, None]]),
    ("body", [4, [1]]),
    ("request", [17, 1, [encode_action(REFUSAL)], 0]),
    ("request", [17, 1, [encode_action(PutCommand(WRITER, None, None, [b"a", b"\x01"]))], 0]),
    ("request", [17, 1, [encode_action(ExpireCommand([b"a"]))], 0]),
    ("request", [17, 1, [encode_action(PUT)] * 257, 0]),
    ("part", [32, 1, [1], 0, [None, None], []]),
    ("part", [32, 1, [1, 1], 0, [None, None], [[1]]]),
    ("part", [33, [b"a"], [1], []]),
    ("part", [33, [b"a", b""], [1], []]),
    ("part", [33, [b"a", b"\x01"], [1], [1, 5]]),
    ("part", [33, [b"a", "text"], [1], []]),
    ("part", [33, [b"a", b"\x01"], [1], [0]]),
    ("part", [33, [b"a", b"\x01"], [-1], []]),
    ("part", [33, [b"a", b"\x01"] * (CHUNK_COUNT_MAX + 1), [1] * (CHUNK_COUNT_MAX + 1), []]),
    ("part", [34, [[WRITER, 1, 1]]]),
    ("answer", [49, [[1, 2, 3]]]),
    ("body", [2, [bytes(KEY_SIZE_MAX + 1)]]),
    ("body", [2, [b"", b"a"]]),
    ("body", performed(PUT, PutCommand(WRITER, None, None, [b"a", b"\x01"]))),
    ("part", [35, [[1, NONCE, 1]] * 4_097]),
    ("part", [33, [b"", b"\x01"], [1], []]),
    ("part", [33, [b"a", b"\x01", b"b", b"\x02"], [1, 2], [2, 5]]),
    ("part", [33, [b"a", b"\x01"], [1], [0, 5, 1, 5]]),
    ("request", [20, [1], True, [1, 2, b"a", True]]),
    ("request", [20, [1, 2, 3], True, [1, 2, b"a", True]]),
    ("request", [20, [1, -1], True, [1, 2, b"a", True]]),
    ("request", [20, [-1, 1], True, [1, 2, b"a", True]]),
    ("request", [20, [1, 2], True, [1, 2, b"", True]]),
    ("request", [20, [1, 2], True, [1, 2, b"a", 1]]),
    ("request", [20, [1, 2], True, [-1, 2, b"a", True]]),
    ("request", [20, [1, 2], True, [1, -1, b"a", True]]),
    ("request", [20, [1, 2], True, [1, 2, b"a"]]),
    ("request", [20, [1, 2], True, [-1, 2, b"", None, 3, True, None, 1]]),
    ("request", [20, [1, 2], True, [1, -1, b"", None, 3, True, None, 1]]),
    ("request", [20, [1, 2], True, [1, 2, None, None, 3, True, None, 1]]),
    ("request", [20, [1, 2], True, [1, 2, b"", 1, 3, True, None, 1]]),
    ("request", [20, [1, 2], True, [1, 2, b"", None, -1, True, None, 1]]),
    ("request", [20, [1, 2], True, [1, 2, b"", None, 3, 1, None, 1]]),
    ("request", [20, [1, 2], True, [1, 2, b"", None, 3, True, -1, 1]]),
    ("request", [20, [1, 2], True, [1, 2, b"", None, 3, True, None, 0]]),
    ("answer", [53, [1, 2], 1, [[b"a"], [], [1], []], None]),  # of an earlier build
    ("answer", [58, [1, 2], 1, [b"a", ends(0, 1), b"", ends(0), revisions(1)], None]),
    ("answer", page(keys="ab")),
    ("answer", page(key_ends=[0, 1, 2])),
    ("answer", page(values="ab")),
    ("answer", page(value_ends=None)),
    ("answer", page(revisions=[7, 8])),
    ("answer", page(expiries=[-1, None])),
    ("answer", page(key_ends=b"")),
    ("answer", page(key_ends=ends(0, 1, 2)[:-1])),
    ("answer", page(key_ends=ends(1, 2))),
    ("answer", page(key_ends=ends(-1, 1, 2))),
    ("answer", page(key_ends=ends(0, 1, 3))),
    ("answer", page(key_ends=ends(0, 1, 1))),
    ("answer", page(key_ends=ends(0, 3, 2))),
    ("answer", page(key_ends=ends(0, 0, 2))),
    ("answer", page(key_ends=ends(0, 2))),
    ("answer", page(value_ends=ends(0, 2))),
    ("answer", page(value_ends=ends(0, 2, 2))),
    ("answer", page(values=b"", value_ends=ends(0, 0, 0))),
    ("answer", page(revisions=revisions(7))),
    ("answer", page(revisions=revisions(7, 8)[1:])),
    ("answer", page(expiries=[5])),
    ("answer", MANY),
]


@pytest.mark.parametrize(("kind", "value"), BAD)
def test_bad_bytes_are_one_clear_error(kind, value):
    with pytest.raises(DecodeError):
        READERS[kind][1](cbor2.dumps(value))


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        ("body", performed(ExpireCommand([b"a"])), "has a ExpireCommand, which is no result"),
        (
            "request",
            [17, 1, [encode_action(REFUSAL)], 0],
            "asks for a RefusalCommand: only leaders",
        ),
        ("body", [2, [b""]], f"keys of 1 to {KEY_SIZE_MAX} bytes"),
        ("request", [21, NONCE[1:], 5], "nonce has 16 bytes"),
        ("request", [20, [1], True, [1, 2, b"a", True]], "has a term and a revision"),
        ("request", [20, [1, 2], True, [1]], "asks for a key, or for a stretch of keys"),
        ("answer", [53, [1, 2], 1, [[b"a"], [], [1], []], None], "the unknown kind 53"),
        ("answer", [58, [1, 2], 1, [b"a", ends(0, 1), b""], None], "come in four columns"),
        ("answer", page(revisions=revisions(7)), "columns of several lengths"),
        ("answer", page(value_ends=ends(0, 3)), "columns of several lengths"),
        ("answer", page(key_ends=ends(0, 2, 2)), "overlap, or one is empty"),
        ("answer", page(key_ends=ends(0, 1, 3)), "end elsewhere than the block does"),
        ("answer", page(key_ends=ends(0, 1, 2)[1:]), "numbers end in the middle"),
        ("answer", MANY, f"more than {PAGE_COUNT_MAX} entries"),
        ("body", performed(), "answers no request"),
        ("body", performed(PUT, replace(REFUSAL, writer=writer_id(2))), "several writers"),
        ("part", [35, [[1]]], "a record of a session has three fields"),
        ("part", [33, [b"a", b"\x01"], [1], [0]], "columns of several lengths"),
        ("part", [33, [b"a", b"\x01"], [1], [1, 5]], "an expiry of an entry that is not there"),
        ("part", [33, [b"a", b"\x01"], [1], [0, 0, 1, 0]], "an expiry of an entry that is not"),
        ("part", [33, [b"a", b""], [1], []], "an empty key or value"),
        ("part", [33, [b"a", b"\x01", b"b", b"\x01"], [2**63, 1], []], "where a revision belongs"),
        ("part", [32, 2**63, [1, 1], 0, [None, None, "refuse"], []], "where a revision belongs"),
        ("answer", page(revisions=revisions(7, 2**63)), "where a revision belongs"),
        ("request", [20, [1, 2**63], True, [1, 2, b"a", True]], "where a revision belongs"),
    ],
)
def test_a_refusal_says_what_came(kind, value, said):
    with pytest.raises(DecodeError, match=said):
        READERS[kind][1](cbor2.dumps(value))


@settings(deadline=None, max_examples=300)
@given(st.sampled_from(GOOD[:-8]), st.data())
def test_damaged_bytes_are_read_as_something_or_refused(good, data):
    kind, value = good
    encode, decode = READERS[kind]
    raw = bytearray(encode(value))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at] = data.draw(st.integers(0, 255))
    check(encode, decode, bytes(raw[: data.draw(st.integers(0, len(raw)))]))
    check(encode, decode, bytes(raw))


@settings(deadline=None, max_examples=300)
@given(st.sampled_from(sorted(READERS)), st.binary(max_size=80))
def test_random_bytes_are_read_as_something_or_refused(kind, raw):
    check(*READERS[kind], raw)


def check(encode, decode, raw):
    try:
        value = decode(raw)
    except DecodeError:
        return
    assert decode(encode(value)) == value


ROW = LedgerRow(WRITER, 1, 0, ())
SESSION = bodies.SessionRow(7, NONCE, 5)
SMALL_HEAD = parts.HeadPart(2, Position(1, 2), 1)
ONE_ENTRY = parts.EntriesPart((b"a", b"\x01"), (1,), (0, 9))


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ([ONE_ENTRY], "does not begin with its head"),
        ([replace(SMALL_HEAD, entry_count=2), ONE_ENTRY], "of 2 entries has 1 different keys"),
        ([SMALL_HEAD, ONE_ENTRY, SMALL_HEAD], "has a HeadPart in it"),
        ([SMALL_HEAD, ONE_ENTRY, parts.WritersPart((ROW, ROW))], "too many writers"),
        ([SMALL_HEAD, ONE_ENTRY, parts.SessionsPart((SESSION, SESSION))], "too many sessions"),
        (
            [SMALL_HEAD, ONE_ENTRY, parts.SessionsPart((SESSION, replace(SESSION, session=8)))],
            "too many sessions",
        ),
        (
            [
                SMALL_HEAD,
                ONE_ENTRY,
                parts.SessionsPart((SESSION, replace(SESSION, nonce=b"other"))),
            ],
            "too many sessions",
        ),
    ],
)
def test_what_is_no_whole_state_is_said(bad, said):
    with pytest.raises(DecodeError, match=said):
        parts.thaw(bad)


def test_a_state_has_as_many_writers_sessions_and_terms_as_there_may_be(monkeypatch):
    for name in ("WRITERS_MAX", "SESSIONS_MAX", "LINEAGE_MAX"):
        monkeypatch.setattr(parts, name, 2)

    def state(writers=0, sessions=0, terms=0):
        reigns = tuple(Reign(term, term) for term in range(terms))
        rows = tuple(replace(ROW, writer=writer_id(number)) for number in range(writers))
        many = [bodies.SessionRow(number, b"%d" % number, 5) for number in range(sessions)]
        head = replace(SMALL_HEAD, reigns=reigns)
        return [head, ONE_ENTRY, parts.WritersPart(rows), parts.SessionsPart(tuple(many))]

    thawed = parts.thaw(state(2, 2, 2))
    assert [row.writer for row in thawed.writers] == [writer_id(0), writer_id(1)]
    assert [row.session for row in thawed.sessions] == [0, 1]
    for counts in ((3, 0, 0), (0, 3, 0), (0, 0, 3)):
        with pytest.raises(DecodeError, match="too many"):
            parts.thaw(state(*counts))


def test_a_state_is_put_together_from_several_parts_of_each_kind():
    second = parts.EntriesPart((b"b", b"\x02\x02", b"c", b"\x03"), (2, 3), (0, 7, 1, 8))
    whole = [
        *(replace(SMALL_HEAD, entry_count=3), ONE_ENTRY, second),
        *(parts.WritersPart((ROW,)), parts.WritersPart((replace(ROW, writer=writer_id(2)),))),
        *(parts.SessionsPart((SESSION,)), parts.SessionsPart((bodies.SessionRow(8, b"x", 5),))),
    ]
    thawed = parts.thaw(whole)
    columns = thawed.columns
    assert columns.values == {b"a": b"\x01", b"b": b"\x02\x02", b"c": b"\x03"}
    assert columns.revisions == {b"a": 1, b"b": 2, b"c": 3}
    assert columns.expiries == {b"a": 9, b"b": 7, b"c": 8}
    assert columns.size == 7
    assert [row.writer for row in thawed.writers] == [WRITER, writer_id(2)]
    assert [row.session for row in thawed.sessions] == [7, 8]
    begun = parts.Thawed(whole[0])
    begun.take(ONE_ENTRY)
    begun.take(second)
    assert begun.part_count == 3
    assert parts.thaw(whole, begun) is begun
    assert begun == thawed
    other = parts.Thawed(replace(SMALL_HEAD))
    assert parts.thaw(whole, other) == thawed, "it was begun from another snapshot"


def test_no_part_at_all_is_the_state_of_the_start():
    assert parts.thaw([]) == parts.Thawed(parts.HeadPart(0, START, 0))


def test_a_frozen_state_has_its_parts_in_order_by_number():
    columns = Columns()
    for number in range(3):
        expiry_ns = 50 if number == 1 else None
        columns.set(b"%d" % number, Entry(b"v%d" % number, number, expiry_ns))
    small = [parts.WritersPart((ROW,)), parts.SessionsPart((SESSION,))]
    past = {b"0": None, b"2": Entry(b"old", 1, 7), b"gone": Entry(b"was", 0, None)}
    frozen = parts.Frozen(SMALL_HEAD, columns, past, small)
    expected = [
        SMALL_HEAD,
        parts.EntriesPart((b"1", b"v1"), (1,), (0, 50)),
        parts.EntriesPart((b"2", b"old", b"gone", b"was"), (1, 0), (0, 7)),
        *small,
    ]
    assert len(frozen) == 5
    assert list(frozen) == frozen[:] == expected
    assert [frozen[number] for number in range(-5, 5)] == 2 * expected
    assert frozen[1:4:2] == expected[1:4:2]
    with pytest.raises(IndexError):
        frozen[5]
    columns.set(b"1", None)
    past.clear()
    assert list(frozen) == expected, "nothing later changes it"
    without = parts.Frozen(SMALL_HEAD, columns, {}, ())
    assert list(without) == [SMALL_HEAD, parts.EntriesPart((b"0", b"v0", b"2", b"v2"), (0, 2))]


@pytest.mark.parametrize("past", [{}, {b"1": Entry(b"old", 1, 7)}])
def test_the_collector_of_cycles_looks_once_only_at_what_is_frozen_and_read(past):
    columns = Columns()
    for number in range(2):
        columns.set(b"%d" % number, Entry(b"v", number, None))
    frozen = parts.Frozen(SMALL_HEAD, columns, past, ())[1]
    read = codec.decode_part(codec.encode_part(frozen))
    seen = [getattr(part, name) for part in (frozen, read) for name in ("pairs", "revisions")]
    seen.append(Layer(Table(columns), past).keys())
    gc.collect()
    assert not any(map(gc.is_tracked, seen))


@pytest.mark.parametrize(
    ("size", "count", "ends"),
    [
        (10, 0, []),
        (10, 1, [1]),
        (10, CHUNK_COUNT_MAX, [CHUNK_COUNT_MAX]),
        (10, CHUNK_COUNT_MAX + 1, [CHUNK_COUNT_MAX, CHUNK_COUNT_MAX + 1]),
        (10, 2 * CHUNK_COUNT_MAX, [CHUNK_COUNT_MAX, 2 * CHUNK_COUNT_MAX]),
    ],
)
def test_small_entries_are_cut_by_their_number(size, count, ends):
    assert cuts([size] * count) == ends


def cuts(sizes):
    """Give where parts of entries of these sizes end; keys have four bytes."""
    columns = Columns()
    for number, size in enumerate(sizes):
        columns.set(b"%04d" % number, Entry(bytes(size - 4), number, None))
    return [
        sum(len(part.revisions) for part in frozen[1 : at + 1])
        for frozen in [parts.Frozen(SMALL_HEAD, columns, {}, ())]
        for at in range(1, len(frozen))
    ]


def test_large_entries_are_cut_by_their_size():
    room = CHUNK_SIZE_MAX - parts.ENTRY_SIZE * CHUNK_COUNT_MAX
    assert cuts([room]) == [1]
    assert cuts([room - 5, 5, 5]) == [2, 3], "as much as there is room for"
    assert cuts([room - 5, 6, 5]) == [1, 3]
    assert cuts([room + 9, room + 9, 5]) == [1, 2, 3], "one always fits"
    share = CHUNK_SIZE_MAX // CHUNK_COUNT_MAX
    assert len(cuts([share] * CHUNK_COUNT_MAX)) == 2, "heads take room, too"
    many = [room // 2, *[5] * (CHUNK_COUNT_MAX + 5)]
    assert cuts(many) == [CHUNK_COUNT_MAX, CHUNK_COUNT_MAX + 6]


def test_records_of_writers_are_cut_by_what_they_have(monkeypatch):
    monkeypatch.setattr(parts, "CHUNK_COUNT_MAX", 4)
    rows = [
        LedgerRow(writer_id(at), at, 0, OUTCOMES[:1] * n)
        for at, n in enumerate((1, 1, 9, 0, 0, 1, 1))
    ]
    found = [[row.number for row in part.rows] for part in parts.writers_parts(rows)]
    assert found == [[0, 1], [2], [3, 4, 5], [6]]
    small = parts.small_parts(rows[:1], [SESSION])
    assert small == [parts.WritersPart((rows[0],)), parts.SessionsPart((SESSION,))]
    assert parts.small_parts([], []) == []


def test_a_snapshot_that_is_not_whole_is_refused():
    head = parts.HeadPart(2, Position(1, 2), 2)
    first = parts.EntriesPart((b"a", b"\x01"), (1,))
    row = LedgerRow(WRITER, 1, 0, ())
    for bad in (
        [first],
        [head, first],
        [head, first, first],
        [head, first, head],
        [parts.HeadPart(2, Position(1, 2), 1), first, parts.WritersPart((row, row))],
    ):
        with pytest.raises(DecodeError):
            parts.thaw(bad)
    whole = parts.thaw([head, first, parts.EntriesPart((b"b", b"\x02"), (2,))])
    assert len(whole.columns) == 2


@pytest.mark.parametrize("size", [1, 100, 1_000, 300_000])
def test_parts_are_no_larger_than_they_may_be(size):
    columns = Columns()
    for number in range(5_000 if size < 300_000 else 3):
        columns.set(b"%d" % number, Entry(bytes(size), number, None))
    head = parts.HeadPart(1, Position(1, 1), len(columns))
    frozen = parts.Frozen(head, columns, {b"1": None, b"new": Entry(b"x", 9, 5)}, ())
    sizes = [len(codec.encode_part(part)) for part in frozen]
    assert max(sizes[2:-2], default=0) <= max(CHUNK_SIZE_MAX, size + 100)
    assert all(len(part.revisions) <= CHUNK_COUNT_MAX for part in frozen[1:])
    found = [key for part in frozen[1:] for key in part.pairs[::2]]
    assert sorted(found) == sorted((set(columns) - {b"1"}) | {b"new"})


@pytest.mark.parametrize("count", [0, 1, 23, 24, 255, 256, 2_000])
def test_records_of_writers_are_one_array(count: int) -> None:
    rows = tuple(LedgerRow(WRITER, number, number, OUTCOMES[:1]) for number in range(count))
    data = codec.encode_part(parts.WritersPart(rows))
    assert data == cbor2.dumps(cbor2.loads(data))
    assert codec.decode_part(data) == parts.WritersPart(rows)


def test_a_record_that_changed_is_encoded_anew() -> None:
    writers = Writers([LedgerRow(WRITER, 3, 3, ())])
    before = [codec.encode_part(parts.WritersPart((row,))) for row in writers.rows()]
    assert before == [codec.encode_part(parts.WritersPart((row,))) for row in writers.rows()]
    writers.perform(WRITER, 4, 0, [OUTCOMES[0]])
    (row,) = writers.rows()
    assert row == LedgerRow(WRITER, 3, 4, (OUTCOMES[0],))
    assert codec.decode_part(codec.encode_part(parts.WritersPart((row,)))) == parts.WritersPart(
        (row,)
    )
