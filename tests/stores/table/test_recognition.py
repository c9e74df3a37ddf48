"""What a replica asked for is known when it comes back in the journal, by its bytes alone."""

from __future__ import annotations

import cbor2
import pytest
from hypothesis import given, strategies as st

from stores.actions import (
    AddCommand,
    ClearCommand,
    EraseCommand,
    Initial,
    PutCommand,
    PutUniqueCommand,
    RefusalCommand,
    WriterId,
)
from stores.encoding import encode_action
from stores.table import bodies, codec
from stores.table.recognition import EXPECTED_MAX, EXPECTED_SIZE_MAX, PREFIX_SIZE, Recognition
from wire.errors import ErrorCode
from wire.identifiers import EndpointId, EntityId

WRITER = WriterId.of(EntityId(EndpointId(bytes(range(16))), 7), 3)
OTHER = WriterId.of(EntityId(EndpointId(bytes(range(16))), 8), 3)
JOURNALLED = bodies.Performed(0, (PutCommand(OTHER, 1, None, (b"\x01", b"\x02")),))


def put(request, value=b"\x02", writer=WRITER, expiry_ns=None):
    return PutCommand(writer, request, expiry_ns, (b"\x01", value))


def entry(write):
    """Give what a leader that changes nothing about a write puts into its journal."""
    return codec.encode_body(bodies.Performed(write.resolved, write.requests))


@pytest.fixture
def machine():
    """Have a codec that has read an entry: its replica has a journal."""
    found = codec.TableCodec()
    found.decode(codec.encode_body(JOURNALLED))
    return found


def is_known(machine, write):
    """Tell whether an entry is made of the very actions that were asked for."""
    body = machine.decode(entry(write))
    assert body == bodies.Performed(write.resolved, write.requests)
    assert body.encoded == entry(write)
    return all(one is other for one, other in zip(body.actions, write.requests, strict=True))


def test_what_was_asked_comes_back_as_it_was_asked_and_once(machine):
    write = bodies.Write(8, (put(1), EraseCommand(WRITER, 2, [b"\x01"]), ClearCommand(WRITER, 3)))
    machine.encode_request(write)
    assert is_known(machine, write)
    assert not is_known(machine, write)


def test_a_proxy_which_has_no_journal_keeps_nothing_of_what_it_asks():
    proxy, write = codec.TableCodec(), bodies.Write(8, (put(1),))
    proxy.encode_request(write)
    assert not is_known(proxy, write)


@pytest.mark.parametrize(
    "request_",
    [
        put(2, expiry_ns=5),
        put(None),
        PutUniqueCommand(WRITER, 2, None, b"\x01", b"\x02"),
        AddCommand(WRITER, 2, None, Initial.NUMBER, (b"\x01", b"\x02")),
    ],
)
def test_what_a_leader_makes_something_else_of_is_not_waited_for(machine, request_):
    recognition = Recognition()
    assert recognition.find(codec.encode_body(JOURNALLED)) is None
    assert recognition.is_possible(bodies.Write(8, (put(1),)))
    assert not recognition.is_possible(bodies.Write(8, (put(1), request_)))
    assert not recognition.is_possible(bodies.Write(8, ()))
    write = bodies.Write(8, (put(1), request_))
    machine.encode_request(write)
    assert machine.decode(entry(bodies.Write(8, (put(1),)))).actions[0] is not write.requests[0]
    machine.encode_request(after := bodies.Write(8, (put(3),)))
    assert is_known(machine, after)


def test_an_entry_of_another_writer_is_read(machine):
    machine.encode_request(write := bodies.Write(8, (put(1, bytes(200)),)))
    assert not is_known(machine, bodies.Write(8, (put(1, bytes(200), OTHER),)))
    assert is_known(machine, write)


@pytest.mark.parametrize(
    ("request_", "resolved"), [(put(2), 0), (put(2, bytes(199) + b"\x01"), 0), (put(2), 1)]
)
def test_what_came_as_something_else_is_read_and_waited_for_no_more(machine, request_, resolved):
    writes = [bodies.Write(8, (put(number, bytes(200)),)) for number in (1, 2, 3)]
    for write in writes:
        machine.encode_request(write)
    assert not is_known(machine, bodies.Write(8, (request_,), resolved))
    assert [is_known(machine, write) for write in writes] == [False, False, True]


def test_what_is_refused_is_kept_no_longer():
    recognition, refused = Recognition(), bodies.Performed(0, (put(1, bytes(200)),))
    recognition.find(codec.encode_body(JOURNALLED))
    recognition.expect(refused, codec.encode_body(refused))
    assert recognition.size == len(codec.encode_body(refused))
    recognition.came(JOURNALLED)
    recognition.came(bodies.Registered(WRITER, 1, None))
    assert recognition.size > 0
    refusal = RefusalCommand(WRITER, 1, ErrorCode.LIMIT_EXCEEDED, "full")
    recognition.came(bodies.Performed(0, (refusal,)))
    assert recognition.size == 0


def test_what_an_earlier_life_of_a_writer_asked_for_never_comes():
    recognition, again = Recognition(), WriterId.of(WRITER.entity, WRITER.incarnation + 1)
    recognition.find(codec.encode_body(JOURNALLED))
    asked = [bodies.Performed(0, (put(*each),)) for each in ((8, b"a"), (9, b"b"))]
    asked.append(bodies.Performed(0, (put(1, b"c", again),)))
    asked.append(bodies.Performed(0, (put(2, b"d", again),)))
    for body in asked:
        recognition.expect(body, codec.encode_body(body))
    recognition.came(asked[2])
    assert recognition.size == len(codec.encode_body(asked[3]))
    assert recognition.find(codec.encode_body(asked[3])) is asked[3]


def test_no_more_bytes_are_waited_for_than_an_outbox_has_without_an_answer():
    recognition = Recognition()
    recognition.find(codec.encode_body(JOURNALLED))
    sizes = []
    for number in range(1, 12):
        body = bodies.Performed(0, (put(number, bytes(EXPECTED_SIZE_MAX // 5)),))
        recognition.expect(body, codec.encode_body(body))
        recognition.expect(body, codec.encode_body(body))
        sizes.append(recognition.size)
    assert 4 * EXPECTED_SIZE_MAX // 5 < max(sizes) <= EXPECTED_SIZE_MAX
    assert sizes[-1] == sizes[-2]
    room = EXPECTED_SIZE_MAX - recognition.size
    over = len(codec.encode_body(bodies.Performed(0, (put(30, bytes(room)),)))) - room
    last = bodies.Performed(0, (put(30, bytes(room - over)),))
    recognition.expect(last, codec.encode_body(last))
    assert recognition.size == EXPECTED_SIZE_MAX
    assert recognition.find(codec.encode_body(last)) is last
    assert recognition.size == 0


def test_what_was_asked_before_one_that_came_is_waited_for_no_more(machine):
    lost, came, later = (bodies.Write(8, (put(number),)) for number in (1, 2, 3))
    for write in (lost, came, later):
        machine.encode_request(write)
    assert is_known(machine, came)
    assert not is_known(machine, lost)
    assert is_known(machine, later)


def test_no_more_is_waited_for_than_an_outbox_has_under_way(machine):
    writes = [bodies.Write(8, (put(number),)) for number in range(EXPECTED_MAX + 1)]
    for write in writes:
        machine.encode_request(write)
    assert not is_known(machine, writes[0])
    assert all(is_known(machine, write) for write in writes[1:])


def test_a_prefix_ends_behind_the_number_of_the_request():
    longest = bodies.Performed(2**64 - 1, (put(2**64 - 1, bytes(2**17)),) * 300)
    data = codec.encode_body(longest)
    head = encode_action(longest.actions[0])[: 4 + 32 + 9]
    assert data.index(head) + len(head) <= PREFIX_SIZE


@given(
    number=st.integers(0, 2**64 - 1),
    resolved=st.integers(0, 2**64 - 1),
    count=st.integers(1, 40),
    size=st.integers(0, 300),
)
def test_a_write_and_its_entry_are_what_cbor_makes_of_them(number, resolved, count, size):
    requests = tuple(put(each, bytes(size)) for each in range(count))
    actions = [encode_action(each) for each in requests]
    write = bodies.Write(number, requests, resolved)
    assert codec.encode_request(write) == cbor2.dumps([17, number, actions, resolved])
    assert entry(write) == cbor2.dumps([1, resolved, actions])
