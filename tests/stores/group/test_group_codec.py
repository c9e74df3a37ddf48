"""The bytes of a group's messages: what is written is read, and nothing else is."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import cbor2
import pytest
from hypothesis import given, settings, strategies as st

from channels import CumulativeAck, Event, Heartbeat, Nack, RetransmitFailed, UnknownConsumer
from handshake.access import Right
from stores.actions import PutCommand
from stores.group import codec, messages, packed_fields
from stores.group.clock import Times
from stores.group.codec import RUN_ENTRIES_MAX, GroupCodec
from stores.group.effects import Setback
from stores.group.entries import ActionEntry, LeadEntry, TimeEntry, VotersEntry
from stores.group.limits import DISMISSED_MAX, SNAPSHOT_PARTS_MAX, VOTERS_MAX
from stores.group.membership import MemberStatus
from stores.group.packed_fields import NAME_SIZE_MAX, TERMS_MAX
from stores.group.positions import MemberId, Position
from stores.group.words import (
    OUTSIDE,
    Aim,
    Answered,
    Ask,
    Barred,
    Cede,
    Declined,
    Differs,
    Farewell,
    Greeting,
    JournalEnd,
    Leads,
    Letter,
    Looked,
    Order,
    Seek,
    Steer,
    Steered,
    Verdict,
    Verify,
    Word,
)
from stores.questions import LookUpCommand, ReadAnswerCommand, ReadRefusedCommand, ScanCommand
from stores.table import bodies, parts
from stores.table.codec import TableCodec
from stores.table.rows import Rows
from tests.stores.table.lab import writer_id
from wire.errors import DecodeError
from wire.identifiers import EndpointId
from wire.limits import PAYLOAD_SIZE_MAX

GROUP = bytes(range(16))
A, B = MemberId("a", 2**64 - 1), MemberId("b", 0)
WRITER = writer_id(1)
PUT = PutCommand(WRITER, 3, None, [b"a", b"\x01"])
BODY = bodies.Performed(2, (PUT,))
AT = Position(3, 9)
ENTRIES = (
    LeadEntry(3, Times(1, 2)),
    VotersEntry(3, (A, B)),
    VotersEntry(3, (A,), ("c", "b")),
    ActionEntry(3, BODY),
    TimeEntry(4, Times(5, 6)),
)
HEAD = messages.SnapshotHead(AT, (A, B), Times(7, 8), 4, 2)
STAMP = bodies.Stamp(2**40, 7)
ROWS = Rows([b"k", b"l"], [b"v", b"w"], [3, 4], (None, 5))
LOOK_UP = LookUpCommand(8, 9, b"k", has_value=False)
CONTENTS = [
    messages.PreVote(3, AT),
    messages.PreVoteGranted(3),
    messages.Vote(3, AT, is_handed=True),
    messages.VoteGranted(3),
    messages.HigherTerm(2**63),
    messages.TimeoutNow(3),
    messages.Keepalive(3, 4, 5, 6, Times(7, 8)),
    messages.Echo(3, 4),
    messages.Join(3, 4, (Position(0, 0), AT)),
    messages.Admitted(3, 4, 5, 6, None),
    messages.Admitted(3, 4, 5, 6, HEAD),
    messages.Admitted(3, 4, 5, 6, replace(HEAD, dismissed=("c", "d"))),
    messages.ToFollower(3, None, Event(3, 7, ENTRIES)),
    messages.ToFollower(3, 5, Event(3, 7, (LeadEntry(3, Times(1, 2)),)), 6),
    messages.ToFollower(3, 4, Heartbeat(3, 9)),
    messages.ToFollower(3, 4, RetransmitFailed(3, 9)),
    messages.ToFollower(3, 4, UnknownConsumer(3)),
    messages.FromFollower(3, 4, is_whole=False, message=CumulativeAck(3, 9)),
    messages.FromFollower(3, 4, is_whole=True, message=Nack(3, (5, 6))),
    messages.SnapshotPart(3, 4, 5, parts.EntriesPart((b"a", b"\x01"), (4,), ())),
    messages.SnapshotAck(3, 4, 5),
    messages.ReadIndex(3, 4),
    messages.ReadFrom(3, 4, 5),
    *(Greeting(("a", "b"), is_question=True, aim=aim) for aim in Aim),
    JournalEnd(AT, is_led=True),
    Cede(),
    Verify(4),
    Looked(4, (5, 6, 7)),
    Verdict(4, ((EndpointId(b"e" * 16), (5, 6, 7)), (EndpointId(b"f" * 16), None))),
    Differs(4),
    Farewell(),
    Ask(4, bodies.Write(8, (PUT,), 2)),
    Answered(4, bodies.Registration(4, 0)),
    *(Declined(4, setback) for setback in Setback),
    *(Steer(4, order, "a") for order in Order),
    Steered(4, True, "", ()),
    Steered(4, False, "not yet", (MemberStatus(A, True, False, 7, 8),)),
    Steered(4, True, "", (MemberStatus(A, False, True, 7, 8, is_dismissed=True),)),
    Barred(Right.READ, None, "it may not"),
    Barred(Right.WRITE, 4, "", 0),
    Barred(Right.VOTE, None, "", 2**63),
    Barred(Right.VOTE, None, "x" * 200),
    Seek(2**63),
    Leads(7, 2**63),
    *(Ask(4, bodies.Read(STAMP, is_linear, LOOK_UP)) for is_linear in (False, True)),
    Ask(4, bodies.Read(STAMP, True, ScanCommand(8, 9, b"", None, 10, has_values=True))),
    Ask(4, bodies.Read(STAMP, True, ScanCommand(8, 9, b"a", b"b", 10, has_values=False))),
    Ask(4, bodies.Read(STAMP, False, ScanCommand(8, 9, b"a", None, 10, True, revision=0))),
    Ask(4, bodies.Read(STAMP, False, ScanCommand(8, 0, b"a", None, 10, True, revision=7))),
    Ask(4, bodies.Read(STAMP, False, ScanCommand(8, 9, b"a", None, 10, True, 0, step=9))),
    Answered(4, bodies.Found(STAMP, ReadAnswerCommand(8, Rows([b"k"], [b"v"], [3]), None))),
    Answered(4, bodies.Found(STAMP, ReadAnswerCommand(8, Rows([b"k"], [], [3], (2**62,)), b"z"))),
    Answered(4, ReadRefusedCommand(8, is_stale=True, text="it is at revision 2")),
    Answered(4, ReadRefusedCommand(8, is_stale=False, text="not kept", is_gone=True)),
]
CODEC = GroupCodec(TableCodec())


def written(content, sender=A, group=GROUP):
    (payload,) = CODEC.encode(sender, group, content)
    return payload


@pytest.mark.parametrize("content", CONTENTS, ids=repr)
def test_what_is_written_is_read(content):
    payload = written(content)
    assert CODEC.decode(payload) == Letter(A, GROUP, content)
    with pytest.raises(DecodeError):
        CODEC.decode(payload + b"\0")
    with pytest.raises(DecodeError):
        CODEC.decode(payload[:-1])


def test_each_message_and_entry_is_among_the_examples():
    kinds = {type(content) for content in CONTENTS}
    assert kinds == {*messages.Message.__args__, *Word.__args__}
    assert {type(entry) for entry in ENTRIES} == {LeadEntry, VotersEntry, ActionEntry, TimeEntry}


def test_only_what_is_said_before_there_is_a_group_is_of_none():
    first = Greeting((), is_question=False), JournalEnd(Position(0, 0), is_led=False)
    for content in (*first, Barred(Right.READ, None, "no")):
        assert CODEC.decode(written(content, group=None)) == Letter(A, None, content)
    with pytest.raises(DecodeError, match="no replica group"):
        CODEC.decode(written(messages.Echo(1, 1), group=None))


@pytest.mark.parametrize("content", [Seek(3), Ask(4, bodies.Read(STAMP, False, LOOK_UP))], ids=repr)
def test_a_proxy_signs_as_no_member(content):
    for group in (GROUP, None):
        payload = written(content, sender=OUTSIDE, group=group)
        assert CODEC.decode(payload) == Letter(OUTSIDE, group, content)


@pytest.mark.parametrize(
    "content", [each for each in CONTENTS if not isinstance(each, Seek | Ask)], ids=repr
)
def test_only_a_question_of_a_proxy_is_signed_by_no_member(content):
    with pytest.raises(DecodeError, match="members alone"):
        CODEC.decode(*CODEC.encode(OUTSIDE, GROUP, content))


def test_members_that_speak_in_turn_are_told_apart_and_looked_at_each_time():
    senders = MemberId("a", 1), MemberId("b", 1), MemberId("b", 2), OUTSIDE, MemberId("a", 2)
    for sender in (*senders, *reversed(senders)):
        payload = written(Ask(4, bodies.Read(STAMP, False, LOOK_UP)), sender=sender)
        assert CODEC.decode(payload).sender == sender
        kind, group, name, _, *fields = cbor2.loads(payload)
        for life in (float(sender.life), sender.life == 1, None):
            if sender is not OUTSIDE:
                with pytest.raises(DecodeError):
                    CODEC.decode(cbor2.dumps([kind, group, name, life, *fields]))


HEAD_OF_A = "50000102030405060708090a0b0c0d0e0f61611bffffffffffffffff"
HEAD_OF_A_PROXY = "50000102030405060708090a0b0c0d0e0f6000"
GOLDEN = {
    "851826f660001b8000000000000000": (OUTSIDE, None, Seek(2**63)),
    f"861832{HEAD_OF_A_PROXY}04548414821b000001000000000007f4840809416bf4": (
        *(OUTSIDE, GROUP),
        Ask(4, bodies.Read(STAMP, False, LOOK_UP)),
    ),
    f"861832{HEAD_OF_A_PROXY}0558188414821b000001000000000007f58808094161f60af5f601": (
        *(OUTSIDE, GROUP),
        Ask(5, bodies.Read(STAMP, True, ScanCommand(8, 9, b"a", None, 10, has_values=True))),
    ),
    f"861827{HEAD_OF_A}071b8000000000000000": (A, GROUP, Leads(7, 2**63)),
    f"841825{HEAD_OF_A}": (A, GROUP, Farewell()),
    f"861821{HEAD_OF_A}0400": (A, GROUP, Declined(4, Setback.NOT_LEADER)),
    f"861833{HEAD_OF_A}0458468518"
    f"3a821b000001000000000007"
    "08"
    "86"
    "426b6c"
    "4c000000000100000002000000"
    "427677"
    "4c000000000100000002000000"
    "5003000000000000000400000000000000"
    "82f605"
    "417a": (
        *(A, GROUP),
        Answered(4, bodies.Found(STAMP, ReadAnswerCommand(8, ROWS, b"z"))),
    ),
    f"861833{HEAD_OF_A}044884183608f5626e6f": (
        *(A, GROUP),
        Answered(4, ReadRefusedCommand(8, is_stale=True, text="no")),
    ),
}
"""What proxies and replicas say to each other: later releases have to read and write it so."""


@pytest.mark.parametrize(
    "rows",
    [
        Rows([b"k"], [b"v"], [3, 4]),
        Rows([b"k", b"l"], [b"v"], [3, 4]),
        Rows([b"k"], [], [3], (1, 2)),
        Rows([b""], [], [3]),
        Rows([b"k"], [b""], [3]),
        Rows([b"k"] * 2_001, [], [3] * 2_001),
    ],
    ids=repr,
)
def test_columns_that_are_no_entries_are_refused(rows):
    found = Answered(4, bodies.Found(STAMP, ReadAnswerCommand(8, rows, None)))
    with pytest.raises(DecodeError):
        CODEC.decode(written(found))


def test_a_scan_goes_on_by_one_entry_at_least():
    scan = ScanCommand(8, 9, b"a", None, 10, True, step=0)
    with pytest.raises(DecodeError, match="step"):
        CODEC.decode(written(Ask(4, bodies.Read(STAMP, False, scan)), sender=OUTSIDE))


@pytest.mark.parametrize("payload", GOLDEN)
def test_what_is_said_to_and_by_proxies_has_these_bytes(payload):
    sender, group, content = GOLDEN[payload]
    assert written(content, sender=sender, group=group).hex() == payload
    assert CODEC.decode(bytes.fromhex(payload)) == Letter(sender, group, content)


def test_a_refusal_that_is_too_long_is_cut():
    (payload,) = CODEC.encode(A, GROUP, Barred(Right.READ, None, "x" * 300))
    assert CODEC.decode(payload).content.text == "x" * 200


def test_a_snapshot_of_more_parts_than_anybody_has_is_refused():
    for count, is_taken in ((SNAPSHOT_PARTS_MAX, True), (SNAPSHOT_PARTS_MAX + 1, False)):
        payload = written(messages.Admitted(3, 4, 5, 6, replace(HEAD, part_count=count)))
        if is_taken:
            assert CODEC.decode(payload).content.snapshot.part_count == count
        else:
            with pytest.raises(DecodeError, match="no head of a snapshot"):
                CODEC.decode(payload)


def test_a_right_that_is_not_known_is_refused():
    with pytest.raises(DecodeError, match="no right where one belongs"):
        CODEC.decode(cbor2.dumps([34, GROUP, *A, 3, None, "no", None]))


@pytest.mark.parametrize(
    ("items", "text"),
    [
        ([32, GROUP, *A, ["a"], True, len(Aim)], "no aim where one belongs"),
        ([35, GROUP, *A, 1, len(Order), "a"], "no order where one belongs"),
    ],
)
def test_an_aim_or_an_order_that_is_not_known_is_refused(items, text):
    with pytest.raises(DecodeError, match=text):
        CODEC.decode(cbor2.dumps(items))


def test_a_setback_of_a_later_release_is_an_unknown_one():
    for number, setback in [*enumerate(Setback), (len(Setback), Setback.UNKNOWN)]:
        content = CODEC.decode(cbor2.dumps([33, GROUP, *A, 1, number])).content
        assert content.setback is setback


def test_a_run_that_is_too_large_travels_in_several_messages():
    large = replace(PUT, pairs=[b"k", bytes(300_000)])
    entries = tuple(ActionEntry(3, bodies.Performed(0, (large,))) for _ in range(8))
    content = messages.ToFollower(3, None, Event(3, 7, entries))
    payloads = list(CODEC.encode(A, GROUP, content))
    assert len(payloads) > 1
    assert max(map(len, payloads)) < PAYLOAD_SIZE_MAX / 8
    next_one = 7
    for payload in payloads:
        message = CODEC.decode(payload).content.message
        assert message.first_sequence == next_one
        next_one += len(message.payloads)
    assert next_one == 15


def test_a_run_of_many_small_entries_is_cut_too():
    entries = tuple(TimeEntry(3, Times(1, 1)) for _ in range(RUN_ENTRIES_MAX + 1))
    content = messages.ToFollower(3, None, Event(3, 1, entries))
    counts = [
        len(CODEC.decode(payload).content.message.payloads)
        for payload in CODEC.encode(A, GROUP, content)
    ]
    assert counts == [RUN_ENTRIES_MAX, 1]


def test_a_run_is_as_large_as_the_bodies_of_its_actions(monkeypatch):
    class Plain(TableCodec):
        def encode(self, body):
            return body

        def decode(self, data):
            return data

    monkeypatch.setattr(codec, "RUN_SIZE_MAX", 100)
    others = LeadEntry(3, Times(1, 1)), VotersEntry(3, (A,)), TimeEntry(3, Times(1, 1))
    sizes = 40, 60, 1, 99, 1, 101, 1
    large, small, *rest = (ActionEntry(3, bytes(size)) for size in sizes)
    event = Event(3, 1, (*others, large, small, *rest))
    plain = GroupCodec(Plain())
    payloads = plain.encode(A, GROUP, messages.ToFollower(3, None, event))
    runs = [plain.decode(payload).content.message for payload in payloads]
    assert [(run.first_sequence, len(run.payloads)) for run in runs] == [
        (1, 5),  # 40 and 60 beside what has no body
        (6, 2),  # 1 and 99
        (8, 1),
        (9, 1),  # It is too large, and travels alone.
        (10, 1),
    ]


def test_a_join_tells_of_the_latest_terms_alone():
    ends = tuple(Position(term, term) for term in range(TERMS_MAX + 9))
    found = CODEC.decode(written(messages.Join(3, 4, ends))).content
    assert found.ends == ends[9:]


def run_of(*entries):
    return [48, GROUP, "a", 1, 1, None, 1, [*entries], 0]


def admitted(*more):
    head = [[3, 9], [["a", 1]], [7, 8], 4, 2, *more]
    return [10, GROUP, "a", 1, 1, 1, 1, 1, head]


def steered(*more):
    return [36, GROUP, "a", 1, 1, True, "", [[["b", 0], False, True, 7, 8, *more]]]


def join(*ends):
    return [9, GROUP, "a", 1, 1, 1, [list(end) for end in ends], False]


@pytest.mark.parametrize(
    ("items", "text"),
    [
        ([8, GROUP, "a", 1, 1], "kind 8 has 2 fields, and 1 came"),
        ([8, GROUP, "a", 1, 1, 1, 1], "kind 8 has 2 fields, and 3 came"),
        ([2, GROUP, "a", 1], "kind 2 has 1 fields, and 0 came"),
        ([8, GROUP, "a", 1, -1, 1], "int where a count belongs"),
        ([8, GROUP, "a", 1, 2**64, 1], "no CBOR of ours"),
        ([8, GROUP, "a", 1, True, 1], "bool where a count belongs"),
        ([8, GROUP, "", 1, 1, 1], "no name"),
        ([8, GROUP, "x" * (NAME_SIZE_MAX + 1), 1, 1, 1], "no name"),
        ([8, GROUP, b"a", 1, 1, 1], "no name"),
        ([8, GROUP[:15], "a", 1, 1, 1], "no group's id"),
        ([8, None, "a", 1, 1, 1], "kind 8 is of no replica group"),
        ([99, GROUP, "a", 1, 1, 1], "the bad kind 99"),
        (["8", GROUP, "a", 1, 1, 1], "no kind where"),
        (join(), "no ends of terms"),
        (join((2, 2), (1, 1)), "no ends of terms"),
        (join(*[(i, i) for i in range(TERMS_MAX + 1)]), f"at most {TERMS_MAX} items"),
        ([15, GROUP, "a", 1, 1, 1, True, [2, 2]], "no numbers in their order"),
        ([15, GROUP, "a", 1, 1, 1, True, []], "no numbers in their order"),
        (run_of(), "no run of entries where"),
        (run_of([0, 1]), "no entry where"),
        (run_of([False, 1, b""]), "no entry where"),
        (run_of([[], 1, b""]), "no entry where"),
        (run_of([0, 1, "text"]), "a byte string belongs"),
        (run_of([0, 1, b"junk"]), "no CBOR of ours"),
        (run_of([5, 1, b""]), "no entry where"),
        (run_of([4, 1, b""]), "no configuration where"),
        (run_of([4, 1, [[], ["n"] * (DISMISSED_MAX + 1)]]), f"at most {DISMISSED_MAX} items"),
        (admitted(["n"], 1), "no head of a snapshot where"),
        (admitted([""]), "no name where"),
        (admitted(["n"] * (DISMISSED_MAX + 1)), f"at most {DISMISSED_MAX} items"),
        (steered(True, 1), "no state of a member where"),
        (steered(1), "flag"),
        (run_of(*[[3, 1, [0, 0]]] * (RUN_ENTRIES_MAX + 1)), "no run of entries where"),
        ([32, None, "a", 1, ["n"] * (VOTERS_MAX + 1), True, 1], f"at most {VOTERS_MAX} items"),
    ],
    ids=lambda each: repr(each)[:40],
)
def test_what_is_wrong_is_one_clear_error(items, text):
    with pytest.raises(DecodeError, match=text):
        CODEC.decode(cbor2.dumps(items))


@pytest.mark.parametrize(
    ("read", "values", "text"),
    [
        (packed_fields.read_name, ["", 7, None], "no name where"),
        (packed_fields.read_member, [7, ["a"], ["a", 1, 1]], "no member where"),
        (packed_fields.read_position, [7, [1], [1, 2, 3]], "no position where"),
        (packed_fields.read_times, [7, [1], [1, 2, 3]], "no pair of clocks where"),
        (packed_fields.read_head, [7, [[2, 3], [], [1, 2], 4]], "no head of a snapshot where"),
    ],
)
def test_a_field_of_another_kind_is_named(read, values, text):
    for value in values:
        with pytest.raises(DecodeError, match=text):
            read(value)


_IN_WORDS = r"(no|has) [a-z' ]+ (where|belongs)"


@pytest.mark.parametrize("content", CONTENTS, ids=lambda each: type(each).__name__)
def test_each_field_of_another_kind_is_refused_in_words(content):
    kind, *head, life = cbor2.loads(written(content))[:4]
    items = cbor2.loads(written(content))[4:]
    for at, item in enumerate(items):
        inner = (
            [[*item[:i], 1.5, *item[i + 1 :]] for i in range(len(item))]
            if type(item) is list
            else []
        )
        for bad in (1.5, *inner):
            with pytest.raises(DecodeError, match=_IN_WORDS):
                CODEC.decode(cbor2.dumps([kind, *head, life, *items[:at], bad, *items[at + 1 :]]))


def test_ends_of_terms_rise_and_there_is_one():
    for ends in ([], [[1, 2], [1, 2]], [[2, 1], [1, 2]]):
        with pytest.raises(DecodeError, match="no ends of terms in their order where"):
            packed_fields.read_ends(ends)
    assert packed_fields.read_ends([[1, 2]]) == (Position(1, 2),)


def test_a_name_is_as_long_as_it_may_be():
    name = "x" * NAME_SIZE_MAX
    assert CODEC.decode(cbor2.dumps([8, GROUP, name, 1, 1, 1])).sender == MemberId(name, 1)


def test_a_run_has_as_many_entries_as_it_may():
    run = run_of(*[[3, 1, [0, 0]]] * RUN_ENTRIES_MAX)
    assert len(CODEC.decode(cbor2.dumps(run)).content.message.payloads) == RUN_ENTRIES_MAX


@settings(max_examples=300)
@given(data=st.data())
def test_bytes_that_somebody_changed_are_read_or_refused(data):
    payload = bytearray(written(data.draw(st.sampled_from(CONTENTS))))
    for _ in range(data.draw(st.integers(1, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    with suppress(DecodeError):
        CODEC.decode(bytes(payload))


_ITEMS = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2**64) | st.binary(max_size=20) | st.text("ab"),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=300)
@given(kind=st.sampled_from([*range(1, 20), 32, 33, 48, 49, 50, 51]), items=st.lists(_ITEMS))
def test_any_fields_are_read_or_refused(kind, items):
    with suppress(DecodeError):
        CODEC.decode(cbor2.dumps([kind, GROUP, "a", 1, *items]))
