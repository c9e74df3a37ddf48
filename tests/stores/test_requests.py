"""The handle's half: numbers, runs, and what is refused before it gets a number."""

from __future__ import annotations

import pytest

from stores.actions import (
    AddCommand,
    BatchCommand,
    ClearCommand,
    EraseCommand,
    Guard,
    GuardKind,
    Initial,
    PutCommand,
    PutUniqueCommand,
    Step,
    StepKind,
    SubtractCommand,
    WriterId,
    request_range,
)
from stores.limits import (
    BATCH_COUNT_MAX,
    KEY_SIZE_MAX,
    RUN_COUNT_MAX,
    RUN_SIZE_MAX,
    VALUE_SIZE_MAX,
)
from stores.requests import Requests
from wire.errors import InvalidData
from wire.identifiers import EndpointId, EntityId

W = WriterId.of(EntityId(EndpointId(bytes(16)), 1), 1)


@pytest.fixture
def performed() -> list[object]:
    return []


@pytest.fixture
def requests(performed) -> Requests:
    return Requests(W, performed.append)


def test_consecutive_puts_become_one_action(requests, performed):
    assert [requests.put(b"a", b"1"), requests.put(b"b", b"2")] == [1, 2]
    assert performed == []
    assert not requests.is_sealed
    requests.seal()
    assert performed == [PutCommand(W, 1, None, [b"a", b"1", b"b", b"2"])]
    requests.seal()
    assert len(performed) == 1


def test_each_form_is_a_run_of_its_own(requests, performed):
    requests.put(b"a", b"1")
    requests.put(b"a", b"1", 5)
    requests.put(b"a", b"2", 5)
    requests.erase(b"a")
    requests.erase(b"b")
    requests.add(b"a", b"1", Initial.NUMBER)
    requests.add(b"a", b"1", Initial.SET)
    requests.subtract(b"a", b"1")
    requests.put_unique(b"a", b"1")
    requests.clear()
    assert performed == [
        PutCommand(W, 1, None, [b"a", b"1"]),
        PutCommand(W, 2, 5, [b"a", b"1", b"a", b"2"]),
        EraseCommand(W, 4, [b"a", b"b"]),
        AddCommand(W, 6, None, Initial.NUMBER, [b"a", b"1"]),
        AddCommand(W, 7, None, Initial.SET, [b"a", b"1"]),
        SubtractCommand(W, 8, None, [b"a", b"1"]),
        PutUniqueCommand(W, 9, None, b"a", b"1"),
        ClearCommand(W, 10),
    ]
    assert requests.last_request == 10
    assert [request_range(action) for action in performed] == [
        (1, 1), (2, 3), (4, 5), (6, 6), (7, 7), (8, 8), (9, 9), (10, 10),
    ]  # fmt: skip


@pytest.mark.parametrize("form", ["put", "erase"])
def test_a_run_is_limited_in_number(requests, performed, form):
    for number in range(RUN_COUNT_MAX + 1):
        key = b"%d" % number
        requests.put(key, b"v") if form == "put" else requests.erase(key)
    requests.seal()
    assert [request_range(action) for action in performed] == [
        (1, RUN_COUNT_MAX),
        (RUN_COUNT_MAX + 1, RUN_COUNT_MAX + 1),
    ]


def test_a_run_is_limited_in_bytes(requests, performed):
    for _ in range(4):
        requests.put(b"k", b"v" * (RUN_SIZE_MAX // 3))
    requests.seal()
    assert [request_range(action) for action in performed] == [(1, 2), (3, 4)]


def test_the_largest_key_and_value_fit(requests, performed):
    requests.put(b"small", b"v")
    requests.put(b"k" * KEY_SIZE_MAX, b"v" * VALUE_SIZE_MAX)
    requests.put(b"small", b"v")
    requests.seal()
    assert [request_range(action) for action in performed] == [(1, 1), (2, 2), (3, 3)]


LARGE_KEY, LARGE_VALUE = b"k" * (KEY_SIZE_MAX + 1), b"v" * (VALUE_SIZE_MAX + 1)
STEP = Step(StepKind.PUT, b"k", b"v")


@pytest.mark.parametrize(
    "ask",
    [
        lambda r: r.put(LARGE_KEY, b"v"),
        lambda r: r.put(b"k", LARGE_VALUE),
        lambda r: r.put(b"k", b"v", -1),
        lambda r: r.put(b"k", b"v", 2**63),
        lambda r: r.put_unique(LARGE_KEY, b"v"),
        lambda r: r.put_unique(b"k", b"v", -1),
        lambda r: r.erase(LARGE_KEY),
        lambda r: r.add(b"k", LARGE_VALUE, Initial.NUMBER),
        lambda r: r.add(b"k", b"v", Initial.NUMBER, -1),
        lambda r: r.subtract(LARGE_KEY, b"v"),
        lambda r: r.batch((), ()),
        lambda r: r.batch((), [STEP] * (BATCH_COUNT_MAX + 1)),
        lambda r: r.batch([Guard(GuardKind.EXISTS, b"k")] * (BATCH_COUNT_MAX + 1), [STEP]),
        lambda r: r.batch((), [Step(StepKind.PUT, b"k", LARGE_VALUE)]),
        lambda r: r.batch((), [Step(StepKind.PUT, b"k", b"v" * (VALUE_SIZE_MAX // 2))] * 3),
        lambda r: r.batch((), [Step(StepKind.PUT, b"k", b"v", None, -1)]),
    ],
)
def test_what_is_too_large_or_makes_no_sense_gets_no_number(requests, performed, ask):
    requests.put(b"before", b"1")
    with pytest.raises(InvalidData):
        ask(requests)
    requests.put(b"after", b"2")
    requests.seal()
    assert requests.last_request == 2
    assert [request_range(action) for action in performed] == [(1, 2)]


def test_a_batch_is_one_request(requests, performed):
    guard = Guard(GuardKind.ABSENT, b"k")
    assert requests.batch([guard], [STEP, STEP]) == 1
    assert performed == [BatchCommand(W, 1, (guard,), (STEP, STEP), None)]
