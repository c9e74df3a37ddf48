"""Bytes of requests, bodies, parts and answers: what is written is read, and nothing else is."""

from __future__ import annotations

import cbor2
import pytest
from hypothesis import given, settings, strategies as st

from stores.group.clock import Times
from stores.group.positions import START, Position
from stores.limits import CHUNK_COUNT_MAX, CHUNK_SIZE_MAX, RUN_COUNT_MAX
from stores.log import bodies, log_fields, parts
from stores.log.codec import LogCodec
from stores.log.kept_runs import KeptRun, KeptRuns
from stores.log.limits import APPEND_COUNT_MAX, NAME_SIZE_MAX, OFFSET_END, PARTITIONS_MAX
from stores.log.messages import (
    Append,
    Counted,
    Fetch,
    Fetched,
    ForgetConsumer,
    MoveCursor,
    QueryFailed,
    Requests,
    Trim,
    Trimmed,
)
from stores.log.partitions import Retention, Span
from stores.log.producers import ProducerRow
from stores.log.runs import Run
from stores.outcomes import Applied, Outcome, Refused
from stores.quota import Quota
from stores.table.bodies import (
    ChangeQuota,
    OutOfOrder,
    QuotaChanged,
    Register,
    Registered,
    Registration,
    UnknownWriter,
)
from stores.table.lineage import Reign
from stores.table.parts import WritersPart
from stores.table.writers import LedgerRow
from tests.stores.table.lab import writer_id
from wire.errors import DecodeError, ErrorCode

WRITER = writer_id(1)
RUN = Run(1, 5, 2, 99, b"\x84\xf6\x01\xf6\x02")
OUTCOMES = (Outcome(1, 2, Applied(7)), Outcome(3, 3, Refused(ErrorCode.GUARD_FAILED, "no")))
PERFORMED = bodies.Performed(
    *(WRITER, 2, OUTCOMES, (RUN,), 42, (bodies.Produced("till", 3, 1, 5),)),
    *(((0, 4),), ("gone",), (("c", ((0, 1), (1, 2))),)),
)
ASKED = (
    Append(0, None, 0, (None, b"\x01", b"k", b"\x02")),
    Append(1, "till", 3, (None, b"\x01")),
    MoveCursor("c", ((0, 1),)),
    ForgetConsumer("c"),
    Trim(0, 5),
)

CODEC = LogCodec()
READERS = {
    "body": (CODEC.encode, CODEC.decode),
    "request": (CODEC.encode_request, CODEC.decode_request),
    "part": (CODEC.encode_part, CODEC.decode_part),
    "answer": (CODEC.encode_answer, CODEC.decode_answer),
}
GOOD = [
    ("request", Fetch(1, ((0, 5), (1, 0)), 100, 4, (Position(3, 7), START))),
    ("answer", Fetched(1, (KeptRun.of(RUN, Position(3, 7), 5),), (5, 0))),
    ("answer", Counted(1, 3)),
    ("answer", QueryFailed(2, ErrorCode.NO_SUCH_PARTITION, "no")),
    ("body", PERFORMED),
    ("body", bodies.Performed(WRITER, 0, OUTCOMES[:1], (), 0)),
    ("body", Trimmed(((0, 4), (3, 9)))),
    ("body", Registered(WRITER, 5, writer_id(2))),
    ("body", QuotaChanged(Quota(None, 5))),
    ("body", bodies.Begun(4, None)),
    ("body", bodies.Begun(4, Registered(WRITER, 5, None))),
    ("body", bodies.RetentionChanged(Retention(1, None, 3))),
    ("request", Register(WRITER, 9)),
    ("request", bodies.Write(8, Requests(WRITER, 4, 3, ASKED))),
    ("request", ChangeQuota(Quota(1, None))),
    ("request", bodies.ChangeRetention(Retention())),
    (
        "part",
        parts.HeadPart(
            *(Position(2, 9), 4, (Span(0, 0), Span(5, 7)), Times(42, 99)),
            *(Quota(9, 9), Retention(count=4), (Reign(1, 1), Reign(2, 8))),
        ),
    ),
    ("part", parts.RunsPart((KeptRun.of(RUN, Position(2, 9), 42),))),
    ("part", WritersPart((LedgerRow(WRITER, 3, 3, OUTCOMES),))),
    ("part", parts.CursorsPart((("c", ((0, 1), (1, 2))),))),
    ("part", parts.ProducersPart((ProducerRow("till", ((1, 0, 5), (3, 1, 0)), 1),))),
    ("part", parts.ProducersPart((ProducerRow("old", (), 9),))),
    ("answer", Registration(4, 0)),
    ("answer", OUTCOMES),
    ("answer", UnknownWriter(4)),
    ("answer", OutOfOrder(4)),
    ("answer", None),
]


@pytest.mark.parametrize(("kind", "value"), GOOD)
def test_what_is_written_is_read(kind, value):
    encode, decode = READERS[kind]
    data = encode(value)
    assert decode(data) == value
    with pytest.raises(DecodeError):
        decode(data + b"\0")
    for other, (_, read) in READERS.items():
        if other != kind:
            with pytest.raises(DecodeError, match="unknown kind"):
                read(data)


def test_a_body_that_was_read_is_not_written_again():
    data = CODEC.encode(PERFORMED)
    assert CODEC.encode(CODEC.decode(data)) is data


W = WRITER.hex()
GOLDEN = [
    (
        bodies.Performed(WRITER, 2, OUTCOMES[:1], (RUN,), 42, (), ((0, 4),)),
        f"8a015820{W}028184010207f6818501050218634584f601f602182a80818200048080",
    ),
    (Trimmed(((0, 4),)), "820281820004"),
    (Registered(WRITER, 5, None), f"84035820{W}05f6"),
    (QuotaChanged(Quota(None, 5)), "820482f605"),
    (bodies.Begun(4, None), "830504f6"),
    (bodies.RetentionChanged(Retention(1, None, 3)), "82068301f603"),
]


@pytest.mark.parametrize(("body", "data"), GOLDEN)
def test_bodies_are_written_as_they_ever_were(body, data):
    """They are in the journals of files, and on their way between releases."""
    assert CODEC.encode(body).hex() == data
    assert CODEC.decode(bytes.fromhex(data)) == body


GOLDEN_PARTS = [
    (
        parts.HeadPart(Position(2, 9), 4, (Span(5, 7),), Times(42, 99), Quota(9, None)),
        "881820820209048182050782182a18638209f683f6f6f680",
    ),
    (
        parts.RunsPart((KeptRun.of(RUN, Position(2, 9), 42),)),
        "821821818801050218634584f601f6020209182a",
    ),
    (parts.CursorsPart((("c", ((0, 1),)),)), "8218238182616381820001"),
    (parts.ProducersPart((ProducerRow("p", ((1, 0, 5),), 1),)), "82182481836170818301000501"),
]


@pytest.mark.parametrize(("part", "data"), GOLDEN_PARTS)
def test_parts_of_snapshots_are_written_as_they_ever_were(part, data):
    assert CODEC.encode_part(part).hex() == data
    assert CODEC.decode_part(bytes.fromhex(data)) == part


NAMES = ("kind", "writer", "resolved", "outcomes", "runs", "elapsed")
NAMES += ("produced", "starts", "forgotten", "moved")


def changed(data, names, changes):
    """Give the items of good bytes, with some of them changed."""
    return list({**dict(zip(names, cbor2.loads(data), strict=True)), **changes}.values())


def performed(**changes):
    return changed(CODEC.encode(PERFORMED), NAMES, changes)


def write(*requests):
    return [17, 1, bytes(WRITER), 1, 0, list(requests)]


def head(**changes):
    names = ("kind", "position", "after", "spans", "times", "quota", "retention", "reigns")
    return changed(CODEC.encode_part(parts.HeadPart(Position(1, 1))), names, changes)


RAW_RUN = [1, 5, 2, 99, b"x"]
BAD = [
    ("body", []),
    ("body", [9]),
    ("body", [True, 1]),
    ("body", [2]),
    ("body", performed(writer=b"short")),
    ("body", performed(resolved=-1)),
    ("body", performed(outcomes=[])),
    ("body", performed(outcomes=[[0, 1, 7, None]])),
    ("body", performed(outcomes=[[2, 1, 7, None]])),
    ("body", performed(outcomes=[[1, 1, 7, None], [3, 3, 7, None]])),
    ("body", performed(outcomes=[[n, n, 7, True] for n in range(1, RUN_COUNT_MAX + 2)])),
    ("body", performed(runs=[[1, 5, 2, 99]])),
    ("body", performed(runs=[[PARTITIONS_MAX, 5, 2, 99, b"x"]])),
    ("body", performed(runs=[[1, -1, 2, 99, b"x"]])),
    ("body", performed(runs=[[1, 5, 0, 99, b"x"]])),
    ("body", performed(runs=[[1, OFFSET_END - 1, 1, 99, b"x"]])),
    ("body", performed(runs=[[1, 5, 2, 99, "x"]])),
    ("body", performed(runs=[[1, 5, 2.0, 99, b"x"]])),
    ("body", performed(runs=[RAW_RUN] * (RUN_COUNT_MAX + 1))),
    ("body", performed(elapsed=None)),
    ("body", performed(produced=[["", 3, 1, 5]])),
    ("body", performed(produced=[["till", 3, 1]])),
    ("body", performed(starts=[[0]])),
    ("body", performed(starts=[[True, 1]])),
    ("body", performed(forgotten=[1])),
    ("body", performed(moved=[["c"]])),
    ("body", [3, b"short", 0, None]),
    ("body", [4, [0, None]]),
    ("body", [5, 0, None]),
    ("body", [5, PARTITIONS_MAX + 1, None]),
    ("body", [5, 1, [b"short", 0]]),
    ("body", [5, 1, [bytes(WRITER)]]),
    ("body", [6, [0, None, None]]),
    ("body", [6, [None, None]]),
    ("request", write([0, 0, None, 0])),
    ("request", write([0, 0, None, 0, None])),
    ("request", write([0, 0, None, 0, None, None])),
    ("request", write([0, 0, None, 0, 5, b"\x01"])),
    ("request", write([0, -1, None, 0, None, b"\x01"])),
    ("request", write([0, 0, "", 0, None, b"\x01"])),
    ("request", write([0, 0, "n" * (NAME_SIZE_MAX + 1), 0, None, b"\x01"])),
    ("request", write([0, 0, None, 0, *[None, b"\x01"] * (APPEND_COUNT_MAX + 1)])),
    ("request", write([1, "c", [[0]]])),
    ("request", write([3, 0, OFFSET_END])),
    ("request", write([9])),
    ("request", write(*[[2, "c"]] * (RUN_COUNT_MAX + 1))),
    ("part", head(position=[1])),
    ("part", head(spans=[[1]])),
    ("part", head(spans=[[0, 0]] * (PARTITIONS_MAX + 1))),
    ("part", head(times=[1])),
    ("part", head(reigns=[[1]])),
    ("part", [33, [RAW_RUN]]),
    ("part", [33, [[1, 2]]]),
    ("part", [35, [["c", [[0, -1]]]]]),
    ("part", [36, [["p", [], 0]]]),
    ("part", [36, [["p", [[1, 0, 0], [1, 0, 1]], 1]]]),
    ("part", [36, [["p", [[1, 0, 0]], 2]]]),
    ("part", [36, [["p", [[1, 0]], 1]]]),
    ("part", [36, [["p", [[1, 0, 0]]]]]),
]


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        ("body", "an entry of a log"),
        ("part", "a part of a snapshot of a log"),
        ("request", "a request of a log"),
        ("answer", "an answer of a log"),
    ],
)
def test_an_unknown_kind_is_told_with_what_it_should_be(kind, what):
    with pytest.raises(DecodeError, match=f"{what} has the unknown kind 99"):
        READERS[kind][1](cbor2.dumps([99]))


@pytest.mark.parametrize(("kind", "value"), BAD)
def test_bad_bytes_are_one_clear_error(kind, value):
    with pytest.raises(DecodeError):
        READERS[kind][1](cbor2.dumps(value))


def test_the_examples_of_bad_bytes_are_bad_in_one_place():
    for kind, value in (
        ("body", performed()),
        ("body", performed(runs=[RAW_RUN])),
        ("request", write([0, 0, None, 0, None, b"\x01"])),
        ("part", head()),
    ):
        READERS[kind][1](cbor2.dumps(value))


K, V = b"k", b"v"
APPENDED = [3, 1, 5]
REFUSED = {
    "offset": [(log_fields.offset_of, [-1, OFFSET_END, True, 1.0, None, "1"])],
    "partition": [(log_fields.partition_of, [-1, PARTITIONS_MAX, True, 1.0, None])],
    "number of partitions": [
        (log_fields.partition_count, [0, -1, PARTITIONS_MAX + 1, True, 1.0, None])
    ],
    "name": [(log_fields.name, ["", "n" * (NAME_SIZE_MAX + 1), b"n", 1, None])],
    "span": [(log_fields.span, [[], [1], [1, 2, 3], None, 5])],
    "pair of times": [(log_fields.times, [[], [1], [1, 2, 3], None, 5])],
    "rule of retention": [(log_fields.retention, [[], [1, 2], [1, 2, 3, 4], None])],
    "registration": [(log_fields.registered, [[], [bytes(WRITER)], [bytes(WRITER), 1, 2], 5])],
    "place": [(log_fields.places, [[[]], [[1]], [[1, 2, 3]], [5]])],
    "run": [
        (log_fields.run, [[1, 5, 0, 99, b""], [1, 5, 2, 99], [1, 5, 2, 99, b"", 1], None]),
        (log_fields.kept_run, [[1, 2, 3], [1, 5, 2, 99, 1, 2, 3]]),
    ],
    "run with its position": [(log_fields.kept_run, [[], [1, 2], None])],
    "cursor": [(log_fields.cursor, [[], ["c"], ["c", [], 1], None])],
    "append of a producer": [
        (log_fields.produced, [[], ["p", 1, 2], ["p", 1, 2, 3, 4], None]),
        (log_fields.producer, [["p", [[1, 2]], 1], ["p", [[1, 2, 3, 4]], 1], ["p", [5], 1]]),
    ],
    "row of growing numbers": [
        (
            log_fields.producer,
            [
                ["p", [[2, 0, 0], [2, 0, 1]], 2],
                ["p", [[3, 0, 0], [2, 0, 1]], 3],
                ["p", [[2, 0, 0], [3, 0, 1]], 3],
                ["p", [], 0],
            ],
        )
    ],
    "producer": [(log_fields.producer, [[], ["p", []], ["p", [], 1, 2], None])],
    "outcome": [(log_fields.outcomes, [[]])],
    "row of outcomes without a gap": [
        (
            log_fields.outcomes,
            [
                [[0, 0, 1, None]],
                [[2, 1, 1, None]],
                [[1, 1, 1, None], [3, 3, 1, None]],
                [[1, 2, 1, None], [2, 3, 1, None]],
                [[1, 2, 1, None], [1, 1, 1, None]],
            ],
        )
    ],
    "request": [(log_fields.requests, [[[]], [[4, 1]], [[1, "c"]], [[2]], [[3, 0]], [None]])],
    "row of keys and values in turn": [
        (
            log_fields.requests,
            [
                [[0, 0, None, 0]],
                [[0, 0, None, 0, V]],
                [[0, 0, None, 0, K, V, K]],
                [[0, 0, None, 0, *[K, V] * (APPEND_COUNT_MAX + 1)]],
            ],
        )
    ],
    "row of encoded keys and values": [
        (
            log_fields.requests,
            [
                [[0, 0, None, 0, K, None]],
                [[0, 0, None, 0, K, V, K, "v"]],
                [[0, 0, None, 0, K, V, "k", V]],
                [[0, 0, None, 0, 5, V]],
                [[0, 0, None, 0, *[K, V] * 3, K, 5]],
            ],
        )
    ],
}


@pytest.mark.parametrize("wanted", REFUSED)
def test_a_field_that_is_refused_says_what_belongs_there(wanted):
    for accept, values in REFUSED[wanted]:
        for value in values:
            with pytest.raises(DecodeError) as caught:
                accept(value)
            text = f"something of a log has no {wanted} where one belongs"
            assert str(caught.value) == text, value


def test_a_rule_of_retention_that_keeps_nothing_is_refused_with_its_reason():
    with pytest.raises(DecodeError, match="a limit of retention is positive"):
        log_fields.retention([1, 0, 1])


def test_a_run_beyond_the_last_offset_is_refused():
    log_fields.run([0, OFFSET_END - 3, 2, 9, b""])
    with pytest.raises(DecodeError, match="no offset"):
        log_fields.run([0, OFFSET_END - 2, 2, 9, b""])


def test_fields_at_their_limits_are_read():
    for accept, values in (
        (log_fields.offset_of, [0, OFFSET_END - 1]),
        (log_fields.partition_of, [0, PARTITIONS_MAX - 1]),
        (log_fields.partition_count, [1, PARTITIONS_MAX]),
        (log_fields.name, ["n", "n" * NAME_SIZE_MAX]),
    ):
        assert [accept(value) for value in values] == values
    assert log_fields.span([3, 4]) == Span(3, 4)
    assert log_fields.times([3, 4]) == Times(3, 4)
    assert log_fields.retention([None, 1, 2]) == Retention(None, 1, 2)
    assert log_fields.registered(None) is None
    assert log_fields.registered([bytes(WRITER), 7]) == Registered(WRITER, 7, None)
    assert log_fields.places([[1, 2]]) == ((1, 2),)
    assert log_fields.run([1, 5, 2, 99, b"b"]) == Run(1, 5, 2, 99, b"b")
    assert log_fields.kept_run([1, 5, 2, 99, b"b", 7, 8, 9]) == KeptRun(
        *(1, 5, 2, 99, b"b", Position(7, 8), 9)
    )
    assert log_fields.outcomes([[1, 1, 5, None], [2, 4, 6, True]]) == (
        Outcome(1, 1, Applied(5)),
        Outcome(2, 4, Applied(6, answer=True)),
    )
    assert log_fields.cursor(["c", [[1, 2]]]) == ("c", ((1, 2),))
    assert log_fields.produced(["p", 3, 1, 5]) == bodies.Produced("p", 3, 1, 5)
    for floor in (1, 9):
        assert log_fields.producer(["p", [], floor]) == ProducerRow("p", (), floor)
    window = [[2, 7, 0], [3, 1, 9]]
    assert log_fields.producer(["p", window, 2]) == ProducerRow("p", ((2, 7, 0), (3, 1, 9)), 2)
    assert log_fields.requests([[0, 1, "p", 3, *[None, V] * APPEND_COUNT_MAX]]) == (
        Append(1, "p", 3, (None, V) * APPEND_COUNT_MAX),
    )
    assert log_fields.requests([[0, 1, None, 3, K, V, K, V]]) == (Append(1, None, 3, (K, V, K, V)),)


@settings(deadline=None, max_examples=300)
@given(st.sampled_from(GOOD), st.data())
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


# -- whole snapshots -------------------------------------------------------------------------------


NOW = Times(1, 1)
WHOLE = (Span(0, 4),)


def kept(first, count, index=1, partition=0, times=NOW):
    run = Run(partition, first, count, times.stamp_ns, b"x")
    return KeptRun.of(run, Position(1, index), times.elapsed_ns)


def state(*runs, spans=WHOLE, **fields):
    return [parts.HeadPart(Position(1, 9), spans=spans, **fields), parts.RunsPart(runs)]


@pytest.mark.parametrize(
    "bad",
    [
        [parts.RunsPart(())],
        [*state(kept(0, 4)), parts.HeadPart()],
        state(kept(0, 2)),
        state(kept(0, 2), kept(3, 1)),
        state(kept(0, 2), kept(2, 3)),
        state(kept(0, 2), kept(0, 2), kept(2, 2)),
        state(kept(1, 3)),
        state(),
        state(kept(0, 2), kept(2, 2), spans=(Span(2, 4),)),
        state(kept(0, 4), spans=(Span(5, 4),)),
        state(kept(0, 4, partition=1)),
        state(kept(0, 4, index=10)),
        state(kept(0, 4, index=0)),
        state(kept(0, 2, index=5), kept(2, 2, index=4)),
        state(kept(0, 2, times=Times(2, 1)), kept(2, 2)),
        state(kept(0, 2, times=Times(1, 2)), kept(2, 2)),
        state(kept(0, 4), after=1),
        [*state(kept(0, 4)), parts.CursorsPart((("c", ((0, 5),)),))],
        [*state(kept(0, 4)), parts.CursorsPart((("c", ((1, 0),)),))],
        [*state(kept(0, 4)), *[parts.CursorsPart((("c", ()),))] * 2],
        [*state(kept(0, 4)), *[parts.ProducersPart((ProducerRow("p", ((1, 0, 0),)),))] * 2],
        [*state(kept(0, 4)), *[WritersPart((LedgerRow(WRITER, 1, 0, ()),))] * 2],
        state(kept(0, 4), reigns=(Reign(1, 1),) * 1_025),
    ],
)
def test_a_snapshot_that_is_not_whole_is_refused(bad):
    with pytest.raises(DecodeError):
        parts.thaw(bad, KeptRuns())


def test_a_snapshot_is_put_together_with_the_runs_that_are_here():
    known = KeptRuns(1, [kept(0, 2), kept(2, 2, 2), kept(4, 2, 3)])
    head = parts.HeadPart(Position(1, 9), 2, (Span(3, 6),))
    whole = parts.thaw([head, parts.RunsPart((kept(4, 2, 3),))], known)
    assert list(whole.runs.above(0)) == [kept(2, 2, 2), kept(4, 2, 3)]
    assert whole.partitions.spans() == (Span(3, 6),)
    with pytest.raises(DecodeError):
        parts.thaw([head], known)


@pytest.mark.parametrize("size", [1, 100, 1_000, 300_000])
def test_parts_are_no_larger_than_they_may_be(size):
    count = 5_000 if size < 300_000 else 3
    runs = [
        KeptRun.of(Run(0, number, 1, 1, bytes(size)), Position(1, 1), 1) for number in range(count)
    ]
    producers = [
        ProducerRow("p" * 200 + str(number), tuple((n, 1_000, 2**40) for n in range(1_000)))
        for number in range(20)
    ]
    cursors = tuple((f"c{number}", ((0, 1),)) for number in range(9_000))
    head = parts.HeadPart(Position(1, 1), spans=(Span(0, count),))
    frozen = parts.Frozen(head, KeptRuns(1, runs).above(0), cursors, producers, ())
    sizes = [len(CODEC.encode_part(part)) for part in frozen]
    assert max(sizes) <= max(CHUNK_SIZE_MAX, size + 100)
    assert all(len(getattr(part, "runs", ())) <= CHUNK_COUNT_MAX for part in frozen)
    assert [run for part in frozen for run in getattr(part, "runs", ())] == runs
    assert [row for part in frozen for row in getattr(part, "rows", ())] == producers
    assert list(parts.thaw(frozen[:], KeptRuns()).runs.above(0)) == runs


def test_what_a_snapshot_that_is_refused_lacks_is_said():
    for bad, text in (
        ([parts.RunsPart(())], "a snapshot of a log does not begin with its head"),
        ([*state(kept(0, 4)), parts.HeadPart()], "a snapshot of a log has a HeadPart in it"),
        (state(kept(0, 2)), "a snapshot of a log has not all entries of partition 0"),
        (
            state(kept(0, 4), spans=(*WHOLE, Span(0, 1))),
            "a snapshot of a log has not all entries of partition 1",
        ),
        (
            state(kept(0, 4, index=10)),
            "a snapshot of a log has a run that does not belong there",
        ),
        (
            [*state(kept(0, 4)), parts.CursorsPart((("c", ((0, 5),)),))],
            "consumer c is beyond the end of partition 0",
        ),
    ):
        with pytest.raises(DecodeError) as caught:
            parts.thaw(bad, KeptRuns())
        assert str(caught.value) == text


MANY = {
    "LINEAGE_MAX": (
        lambda count: state(kept(0, 4), reigns=tuple(Reign(at, at) for at in range(1, count + 1))),
        "too many terms or partitions",
    ),
    "PARTITIONS_MAX": (
        lambda count: state(kept(0, 4), spans=(*WHOLE, *[Span(0, 0)] * (count - 1))),
        "too many terms or partitions",
    ),
    "CURSORS_MAX": (
        lambda count: [
            *state(kept(0, 4), spans=(*WHOLE, Span(0, 0))),
            parts.CursorsPart((("a", ((0, 4), (1, 0))),)),
            *[parts.CursorsPart(((f"c{at}", ((0, 4),)),)) for at in range(count - 2)],
        ],
        "too many cursors",
    ),
    "CONSUMERS_MAX": (
        lambda count: [
            *state(kept(0, 4)),
            *[parts.CursorsPart(((f"c{at}", ()),)) for at in range(count)],
        ],
        "too many consumers, or one twice",
    ),
    "PRODUCERS_KNOWN_MAX": (
        lambda count: [
            *state(kept(0, 4)),
            *[parts.ProducersPart((ProducerRow(f"p{at}", (), 1),)) for at in range(count)],
        ],
        "too many producers, or one twice",
    ),
    "WRITERS_MAX": (
        lambda count: [
            *state(kept(0, 4)),
            *[WritersPart((LedgerRow(writer_id(at), at, 0, ()),)) for at in range(1, count + 1)],
        ],
        "too many writers, or one twice",
    ),
}


@pytest.mark.parametrize("limit", MANY)
def test_a_snapshot_has_as_many_of_each_as_there_may_be_and_no_more(limit, monkeypatch):
    monkeypatch.setattr(parts, limit, 3)
    made, text = MANY[limit]
    whole = parts.thaw(made(3), KeptRuns())
    assert whole.partitions.ends()[0] == 4
    with pytest.raises(DecodeError, match=f"a snapshot of a log has {text}"):
        parts.thaw(made(4), KeptRuns())


def test_rows_of_all_parts_come_together():
    rows = [ProducerRow(name, ((1, 0, 0),), 1) for name in "ab"]
    ledger = [LedgerRow(writer_id(number), number, 0, ()) for number in (1, 2)]
    cursors = [("c", ((0, 4),)), ("d", ((0, 1),))]
    whole = parts.thaw(
        [
            *state(kept(0, 4)),
            *[parts.CursorsPart((cursor,)) for cursor in cursors],
            *[parts.ProducersPart((row,)) for row in rows],
            *[WritersPart((row,)) for row in ledger],
        ],
        KeptRuns(),
    )
    assert (whole.rows.producers, whole.rows.writers) == (rows, ledger)
    assert whole.cursors == {"c": {0: 4}, "d": {0: 1}}
    assert parts.thaw([], KeptRuns()).head == parts.HeadPart()


def test_runs_that_came_with_one_entry_or_with_the_last_one_are_put_together():
    runs = [
        kept(0, 2, index=3, times=Times(5, 7)),
        kept(2, 1, index=3, times=Times(5, 7)),
        kept(3, 1, index=9, times=Times(6, 7)),
    ]
    whole = parts.thaw(state(*runs), KeptRuns())
    assert list(whole.runs.above(0)) == runs
    assert whole.partitions.used() == (4, 3)
    assert whole.partitions.due(Retention(age_ns=1), 7) == ([], False)
    assert whole.partitions.due(Retention(age_ns=1), 8) == ([(0, 4)], False)


@pytest.mark.parametrize(("start", "left"), [(1, 3), (2, 2), (3, 2), (4, 1)])
def test_of_the_runs_that_are_here_those_before_the_start_are_left(start, left):
    runs = [kept(0, 2), kept(2, 2, 2), kept(4, 2, 3)]
    known = KeptRuns(2, [*runs, kept(0, 4, 2, partition=1)])
    head = parts.HeadPart(Position(1, 9), 2, (Span(start, 6),))
    whole = parts.thaw([head, parts.RunsPart((kept(4, 2, 3),))], known)
    assert list(whole.runs.above(0)) == runs[3 - left :]
    assert whole.partitions.spans() == (Span(start, 6),)


def partitions_in_parts(*runs):
    """Give which partitions share a part; a number is the bytes of a partition's only run."""
    kept_runs = []
    for partition, sizes in enumerate((run,) if isinstance(run, int) else run for run in runs):
        for at, size in enumerate(sizes):
            run = Run(partition, at, 1, 1, bytes(size))
            kept_runs.append(KeptRun.of(run, Position(1, 1), 1))
    every = KeptRuns(len(runs), kept_runs).above(0)
    frozen = parts.Frozen(parts.HeadPart(), every, (), (), ())
    return [[run.partition for run in part.runs] for part in frozen[1:]]


def test_a_part_takes_runs_of_several_partitions_while_there_is_room(monkeypatch):
    most, half = CHUNK_SIZE_MAX - parts.RUN_SIZE, CHUNK_SIZE_MAX // 2 - parts.RUN_SIZE
    assert partitions_in_parts() == []
    assert partitions_in_parts(1, 1, 1) == [[0, 1, 2]]
    assert partitions_in_parts(half, half, 1) == [[0, 1], [2]]
    assert partitions_in_parts(half, half + 1) == [[0], [1]]
    assert partitions_in_parts(1, most, 1) == [[0], [1], [2]]
    assert partitions_in_parts(2 * most, 1) == [[0], [1]], "one run always fits"
    third = CHUNK_SIZE_MAX // 3 - parts.RUN_SIZE
    assert partitions_in_parts(third, third, third, third) == [[0, 1, 2], [3]]
    rest = most - parts.RUN_SIZE - 1
    assert partitions_in_parts((most, 1), rest) == [[0], [0, 1]]
    assert partitions_in_parts((most, 1), rest + 1) == [[0], [0], [1]]
    monkeypatch.setattr(parts, "CHUNK_COUNT_MAX", 2)
    assert partitions_in_parts(1, 1, 1, 1, 1) == [[0, 1], [2, 3], [4]]
    assert partitions_in_parts((most, 1), 1, 1) == [[0], [0, 1], [2]]


def test_rows_of_consumers_and_producers_are_cut_by_their_size(monkeypatch):
    monkeypatch.setattr(parts, "CHUNK_SIZE_MAX", 25 * parts.ROW_SIZE)
    cursors = tuple(
        (f"c{number}", ((0, 1),) * weight) for number, weight in enumerate([1, 2, 1, 1])
    )
    rows = [ProducerRow(f"p{number}", ((1, 0, 0),) * 14, 1) for number in range(2)]
    _, *others = parts.beside(parts.HeadPart(), cursors, rows, ())
    assert others == [
        parts.CursorsPart(cursors[:2]),
        parts.CursorsPart(cursors[2:]),
        parts.ProducersPart((rows[0],)),
        parts.ProducersPart((rows[1],)),
    ]


def test_a_part_names_runs_whose_entries_a_file_has():
    runs = [kept(0, 2), kept(2, 2, 2)]
    here = KeptRuns(1, [runs[0].place, runs[1]])
    head = parts.HeadPart(Position(1, 9), spans=WHOLE)
    assert parts.Frozen(head, here.above(0), (), (), ())[-1] == parts.PlacedPart(
        [runs[0].place, runs[1]]
    )
    assert parts.Frozen(head, here.above(1), (), (), ())[-1] == parts.RunsPart((runs[1],))
