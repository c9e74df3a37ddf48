"""Golden vectors of actions, and what hostile bytes do: nothing."""

from __future__ import annotations

import cbor2
import pytest
from hypothesis import example, given, strategies as st

from stores import actions
from stores.actions import Guard, GuardKind, Initial, Step, StepKind, WriterId
from stores.encoding import decode_action, encode_action
from stores.limits import BATCH_COUNT_MAX, KEY_SIZE_MAX, RUN_COUNT_MAX
from wire.errors import DecodeError, ErrorCode
from wire.identifiers import EndpointId, EntityId
from wire.limits import VALUE_ENTRIES_MAX

SENDER = EntityId(EndpointId(bytes(range(16))), 2)
WRITER = WriterId.of(SENDER, 3)
WRITER_HEX = "5820" + "000102030405060708090a0b0c0d0e0f" + "00" * 7 + "02" + "00" * 7 + "03"

ACTIONS = {
    "put": (
        actions.PutCommand(WRITER, 5, None, [b"ak", b"av", b"al", b"aw"]),
        f"8501{WRITER_HEX}05f684" + "42616b" + "426176" + "42616c" + "426177",
    ),
    "put that expires": (
        actions.PutCommand(WRITER, None, 1_000_000_000, [b"ak", b"av"]),
        f"8501{WRITER_HEX}f61a3b9aca0082" + "42616b" + "426176",
    ),
    "put_unique": (
        actions.PutUniqueCommand(WRITER, 5, None, b"ak", b"av"),
        f"8602{WRITER_HEX}05f6" + "42616b" + "426176",
    ),
    "put_unique_result": (
        actions.PutUniqueResultCommand(WRITER, 5, is_inserted=True),
        f"8403{WRITER_HEX}05f5",
    ),
    "erase": (actions.EraseCommand(WRITER, 5, [b"ak"]), f"8404{WRITER_HEX}058142616b"),
    "expire": (actions.ExpireCommand([b"ak"]), "82058142616b"),
    "add": (
        actions.AddCommand(WRITER, 5, None, Initial.SET, [b"ak", b"\x01"]),
        f"8606{WRITER_HEX}05f60282" + "42616b" + "4101",
    ),
    "subtract": (
        actions.SubtractCommand(WRITER, 5, None, [b"ak", b"\x01"]),
        f"8507{WRITER_HEX}05f682" + "42616b" + "4101",
    ),
    "clear": (actions.ClearCommand(WRITER, 5), f"8308{WRITER_HEX}05"),
    "batch": (
        actions.BatchCommand(
            WRITER,
            5,
            (
                Guard(GuardKind.ABSENT, b"ak"),
                Guard(GuardKind.VALUE, b"ak", value=b"av"),
                Guard(GuardKind.REVISION, b"ak", revision=9),
            ),
            (
                Step(StepKind.PUT, b"ak", b"av"),
                Step(StepKind.ERASE, b"ak"),
                Step(StepKind.ADD, b"ak", b"\x01", Initial.NUMBER, 7),
            ),
            None,
        ),
        f"861821{WRITER_HEX}05"
        "83840042616bf6f6840242616b426176f6840342616bf609"
        "83850142616b426176f6f6850442616bf6f6f6850642616b41010007"
        "f6",
    ),
    "batch_or_else": (
        actions.BatchCommand(
            WRITER,
            5,
            (Guard(GuardKind.EXISTS, b"ak"),),
            (Step(StepKind.ERASE, b"ak"),),
            (Step(StepKind.PUT, b"ak", b"av"),),
        ),
        f"861821{WRITER_HEX}0581840142616bf6f681850442616bf6f6f681850142616b426176f6f6",
    ),
    "batch_result": (
        actions.BatchResultCommand(
            WRITER, 5, True, (actions.Change(b"ak", b"av", 7), actions.Change(b"al", None, None))
        ),
        f"851822{WRITER_HEX}05f5828342616b426176078342616cf6f6",
    ),
    "refusal": (
        actions.RefusalCommand(WRITER, 5, ErrorCode.TYPE_CLASH, "no"),
        f"851823{WRITER_HEX}050b626e6f",
    ),
}


@pytest.mark.parametrize("name", ACTIONS)
def test_actions_have_these_bytes(name):
    action, expected = ACTIONS[name]
    assert encode_action(action).hex() == expected
    assert decode_action(bytes.fromhex(expected)) == action


def test_every_kind_of_action_has_a_golden_vector():
    kinds = {type(action) for action, _ in ACTIONS.values()}
    assert kinds == {*actions.Action.__args__}


@given(
    request=st.none() | st.integers(0, 2**64 - 1),
    expiry_ns=st.none() | st.integers(0, 2**63),
    keys=st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=20),
)
def test_puts_are_written_as_cbor2_would_and_come_back(request, expiry_ns, keys):
    pairs = [item for key in keys for item in (key, key * 2)]
    put = actions.PutCommand(WRITER, request, expiry_ns, pairs)
    encoded = encode_action(put)
    assert encoded == cbor2.dumps([1, bytes(WRITER), request, expiry_ns, pairs])
    assert decode_action(encoded) == put


@given(
    request=st.integers(0, 2**64 - 1),
    keys=st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=30),
)
def test_erasures_are_written_as_cbor2_would_and_come_back(request, keys):
    erasure = actions.EraseCommand(WRITER, request, keys)
    assert encode_action(erasure) == cbor2.dumps([4, bytes(WRITER), request, keys])
    assert decode_action(encode_action(erasure)) == erasure


@given(
    key=st.sampled_from([1, 23, 24, 255, 256]).map(bytes),
    value=st.sampled_from([1, 23, 24, 255, 256, 70_000]).map(bytes),
    number=st.integers(0, 2**64 - 1),
    count=st.integers(1, 30),
)
def test_batches_are_written_as_cbor2_would_and_come_back(key, value, number, count):
    guard, step = Guard(GuardKind.REVISION, key, None, number), Step(StepKind.PUT, key, value)
    batch = actions.BatchCommand(WRITER, number, (guard,) * count, (step,) * count, None)
    fields = [[[3, key, None, number]] * count, [[1, key, value, None, None]] * count, None]
    assert encode_action(batch) == cbor2.dumps([33, bytes(WRITER), number, *fields])
    assert decode_action(encode_action(batch)) == batch
    changes = (actions.Change(key, value, number), actions.Change(key, None, None)) * count
    result = actions.BatchResultCommand(WRITER, number, False, changes)
    done = [[key, value, number], [key, None, None]] * count
    assert encode_action(result) == cbor2.dumps([34, bytes(WRITER), number, False, done])
    assert decode_action(encode_action(result)) == result


# -- hostile bytes -------------------------------------------------------------------------------

VALID = [bytes.fromhex(expected) for _, expected in ACTIONS.values()]


TERMINATOR = bytes.fromhex("44feedface")
"""What ``decode_action`` puts behind short bytes, to see where they end."""


def try_to_decode(data: bytes) -> None:
    try:
        decode_action(data)
    except DecodeError:
        pass


@given(st.binary(max_size=200))
@example(b"\x9b" + b"\xff" * 8)
@example(b"\x81" * 5000 + b"\x00")
@example(b"\xd8\x1c\x81\xd8\x1d\x00")
@example(b"\xd8\x23a(")
@example(b"")
def test_random_bytes_are_refused_or_decoded_and_raise_nothing_else(data):
    try_to_decode(data)


@given(st.sampled_from(VALID), st.data())
def test_damaged_actions_are_refused_or_decoded_and_raise_nothing_else(valid, data):
    damaged = bytearray(valid)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try_to_decode(bytes(damaged))


@pytest.mark.parametrize("valid", VALID, ids=lambda data: data[:3].hex())
def test_truncated_actions_and_trailing_bytes_are_refused(valid):
    for data in (valid[:-1], valid + b"\x00", valid + valid, valid + TERMINATOR):
        with pytest.raises(DecodeError):
            decode_action(data)


@pytest.mark.parametrize("size", [0, 5_000])
def test_actions_short_and_long_may_hold_the_terminator(size):
    pairs = [b"\x41k", TERMINATOR + bytes(size)]
    encoded = encode_action(actions.PutCommand(WRITER, 1, None, pairs))
    assert decode_action(encoded) == actions.PutCommand(WRITER, 1, None, pairs)
    with pytest.raises(DecodeError):
        decode_action(encoded + b"\x00")


W = bytes(WRITER)


@pytest.mark.parametrize(
    "items",
    [
        [],
        "put",
        [77],
        ["1", W, 1, None, [b"k", b"v"]],
        [1, W[:-1], 1, None, [b"k", b"v"]],
        [1, W, -1, None, [b"k", b"v"]],
        [1, W, True, None, [b"k", b"v"]],
        [1, W, 1, 1.5, [b"k", b"v"]],
        [1, W, 1, None, []],
        [1, W, 1, None, [b"k"]],
        [1, W, 1, None, [b"k", "v"]],
        [1, W, 1, None, [b"", b"v"]],
        [1, W, 1, None, [b"k" * (KEY_SIZE_MAX + 1), b"v"]],
        [1, W, 1, None, [b"k", b"v"] * (RUN_COUNT_MAX + 1)],
        [1, W, 1, None, [b"k", b"v"], 0],
        [1, W, 1, None, {b"k": b"v"}],
        [1, W, 1, None, [b"k", cbor2.CBORTag(40_000, b"v")]],
        [4, W, 1, []],
        [4, W, None, [b"k"]],
        [6, W, 1, None, 9, [b"k", b"v"]],
        [33, W, 1, [[0, b"k", b"v", None]], [], None],
        [33, W, 1, [[0, b"k", None, 5]], [], None],
        [33, W, 1, [[2, b"k", None, None]], [], None],
        [33, W, 1, [[3, b"k", None, None]], [], None],
        [33, W, 1, [[3, b"k", b"v", 5]], [], None],
        [33, W, 1, [[7, b"k", None, None]], [], None],
        [33, W, 1, [[None, b"k", None, None]], [], None],
        [33, W, 1, [[0, b"", None, None]], [], None],
        [33, W, 1, [[0, b"k", None]], [], None],
        [33, W, 1, [], [[4, b"k", b"v", None, None]], None],
        [33, W, 1, [], [[4, b"k", None, None, 5]], None],
        [33, W, 1, [], [[1, b"k", None, None, None]], None],
        [33, W, 1, [], [[1, b"k", b"v", 0, None]], None],
        [33, W, 1, [], [[5, b"k", b"v", None, None]], None],
        [33, W, 1, [], [[6, b"k", b"v", None, None]], None],
        [33, W, 1, [], [[4, b"k", None, None, None]] * (BATCH_COUNT_MAX + 1), None],
        [34, W, 1, True, [[b"k", None, 5]]],
        [35, W, 1, 11, "x" * 1000],
    ],
    ids=lambda items: repr(items)[:40],
)
def test_actions_that_make_no_sense_are_refused(items):
    with pytest.raises(DecodeError):
        decode_action(cbor2.dumps(items))


def test_values_are_counted_before_they_are_made():
    count = VALUE_ENTRIES_MAX + 1
    empties = b"\x9a" + count.to_bytes(4, "big") + b"\x80" * count
    with pytest.raises(DecodeError, match=f"holds more than {VALUE_ENTRIES_MAX} values"):
        decode_action(empties)


@pytest.mark.parametrize("tail", ["00", "44feedface", "5804feedface", "5a00000004feedface"])
def test_bytes_behind_an_action_are_refused_whatever_they_are(tail):
    whole = encode_action(actions.ClearCommand(WRITER, 5))
    with pytest.raises(DecodeError, match="bytes after its end"):
        decode_action(whole + bytes.fromhex(tail))


def test_an_error_code_of_a_later_version_is_taken_as_unspecified():
    refusal = decode_action(cbor2.dumps([35, W, 1, 60_000, "later"]))
    assert refusal == actions.RefusalCommand(WRITER, 1, ErrorCode.UNSPECIFIED, "later")


def test_a_writer_id_gives_back_its_parts():
    assert WRITER.entity == SENDER
    assert WRITER.incarnation == 3
    assert repr(WRITER) == f"<WriterId {SENDER} life 3>"
