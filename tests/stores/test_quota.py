"""Quotas: what is counted, what is refused at the limit, what goes on, and when it is told."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from stores.actions import (
    Action,
    AddCommand,
    BatchCommand,
    BatchResultCommand,
    Change,
    ClearCommand,
    EraseCommand,
    ExpireCommand,
    Initial,
    PutCommand,
    PutUniqueCommand,
    RefusalCommand,
    Step,
    StepKind,
    WriterId,
)
from stores.group.positions import START
from stores.judgement import Request, judge
from stores.quota import (
    NEAR_SHARE,
    RELIEVED_SHARE,
    UNLIMITED,
    Meter,
    Quota,
    QuotaLevel,
    QuotaPool,
)
from stores.table import Columns, Entry, Table
from stores.table.machine import TableMachine
from stores.table.parts import Frozen, HeadPart
from wire.encoding import encode
from wire.errors import ErrorCode, InvalidData, QuotaExceeded
from wire.identifiers import EndpointId, EntityId

W = WriterId.of(EntityId(EndpointId(bytes(16)), 1), 1)
KEYS = [encode(f"key{number}" * (1 + number)) for number in range(4)]
VALUES = [encode("v" * size) for size in (0, 1, 30, 300)]


def sizes(columns: Columns) -> list[int]:
    return [len(key) + len(value) for key, value in columns.values.items()]


# -- what is counted -------------------------------------------------------------------------------

_keys = st.sampled_from(KEYS)
_pairs = st.lists(st.tuples(_keys, st.sampled_from(VALUES)), min_size=1, max_size=6)


def _flat(pairs: list[tuple[bytes, bytes]]) -> list[bytes]:
    return [item for pair in pairs for item in pair]


_actions = st.one_of(
    _pairs.map(lambda pairs: PutCommand(W, 1, None, _flat(pairs))),
    _pairs.map(lambda pairs: PutCommand(W, 1, 99, _flat(pairs))),
    st.lists(_keys, min_size=1).map(lambda keys: EraseCommand(W, 1, keys)),
    st.lists(_keys, min_size=1).map(ExpireCommand),
    st.just(ClearCommand(W, 1)),
    st.dictionaries(_keys, st.none() | st.sampled_from(VALUES), min_size=1).map(
        lambda values: BatchResultCommand(
            W, 1, True, tuple(Change(key, value, None) for key, value in values.items())
        )
    ),
)


@given(st.lists(_actions, max_size=12))
def test_the_bytes_of_a_table_are_those_of_its_keys_and_values(actions: list[Action]) -> None:
    table = Table()
    for action in actions:
        table.apply(action)
        assert table.columns.size == sum(sizes(table.columns))
        assert table.columns.copy().size == table.columns.size
        largest = table.columns.largest
        assert table.columns.copy().largest == largest >= max(sizes(table.columns), default=0)


@given(st.dictionaries(_keys, st.sampled_from(VALUES)))
def test_a_snapshot_brings_the_bytes_with_it(content: dict[bytes, bytes]) -> None:
    columns = Columns()
    for number, (key, value) in enumerate(content.items(), 1):
        columns.set(key, Entry(value, number, None))
    head = HeadPart(9, START, len(columns))
    machine = TableMachine()
    machine.install(Frozen(head, columns, {}, ()))
    assert machine.size == sum(sizes(columns))


# -- what is refused -------------------------------------------------------------------------------


def room_for(quota: Quota, *pairs: bytes) -> tuple[Table, Meter]:
    table = Table()
    if pairs:
        table.apply(PutCommand(W, 1, None, pairs))
    return table, Meter("store s", quota)


K, L, M, N = (encode(name) for name in "klmn")
SMALL, LARGE = encode("v"), encode("v" * 20)

GROWING: dict[str, Request] = {
    "put": PutCommand(W, 5, None, (M, SMALL)),
    "larger value": PutCommand(W, 5, None, (K, LARGE)),
    "put_unique": PutUniqueCommand(W, 5, None, M, SMALL),
    "increment": AddCommand(W, 5, None, Initial.NUMBER, (M, encode(1))),
    "append": AddCommand(W, 5, None, Initial.TEXT, (K, LARGE)),
    "push": AddCommand(W, 5, None, Initial.VECTOR, (M, SMALL)),
    "batch": BatchCommand(W, 5, (), (Step(StepKind.PUT, M, SMALL),), None),
}


@pytest.mark.parametrize("name", GROWING)
def test_what_grows_beyond_the_bytes_is_refused_with_the_figures(name: str) -> None:
    table, meter = room_for(Quota(max_bytes=8), K, SMALL, L, SMALL)
    (answer,) = judge(GROWING[name], table, 0, meter)
    assert isinstance(answer, RefusalCommand)
    assert (answer.request, answer.code) == (5, ErrorCode.QUOTA_EXCEEDED)
    assert "store s is full: 8 of 8 bytes" in answer.text
    assert "set_quota()" in answer.text


@pytest.mark.parametrize("name", sorted(GROWING.keys() - {"larger value", "append"}))
def test_a_new_entry_beyond_the_count_is_refused(name: str) -> None:
    table, meter = room_for(Quota(max_entries=2), K, SMALL, L, SMALL)
    (answer,) = judge(GROWING[name], table, 0, meter)
    assert isinstance(answer, RefusalCommand)
    assert "2 of 2 entries" in answer.text


@pytest.mark.parametrize("name", GROWING)
def test_what_fits_exactly_is_done(name: str) -> None:
    request = GROWING[name]
    table, meter = room_for(UNLIMITED, K, SMALL, L, SMALL)
    for action in judge(request, table, 0, meter):
        table.apply(action)
    size, entries = table.columns.size, len(table)
    for quota in (Quota(max_bytes=size), Quota(max_entries=entries), Quota(entries, size)):
        table, meter = room_for(quota, K, SMALL, L, SMALL)
        assert not any(
            isinstance(action, RefusalCommand) for action in judge(request, table, 0, meter)
        )
    table, meter = room_for(Quota(max_bytes=size - 1), K, SMALL, L, SMALL)
    assert isinstance(judge(request, table, 0, meter)[0], RefusalCommand)


def test_deletes_and_what_gets_no_larger_go_on_beyond_the_limit() -> None:
    table, meter = room_for(Quota(1, 1), K, SMALL, L, LARGE)
    shrinking: list[Request] = [
        PutCommand(W, 5, None, (L, SMALL)),
        PutCommand(W, 5, 50, (K, encode("w"))),
        EraseCommand(W, 5, (K,)),
        ClearCommand(W, 5),
        AddCommand(W, 5, None, Initial.TEXT, (K, encode(""))),
        BatchCommand(W, 5, (), (Step(StepKind.ERASE, L), Step(StepKind.PUT, M, SMALL)), None),
        PutUniqueCommand(W, 5, None, K, LARGE),  # it is there: nothing is put
    ]
    for request in shrinking:
        answers = judge(request, table, 0, meter)
        assert not any(isinstance(each, RefusalCommand) for each in answers), request
    assert meter.look(len(table), table.columns.size) is QuotaLevel.EXCEEDED


def test_each_put_of_a_run_is_judged_for_itself_and_sees_those_before_it() -> None:
    table, meter = room_for(Quota(max_bytes=12), K, SMALL)
    pairs = (L, SMALL, M, LARGE, N, SMALL, L, LARGE, L, SMALL, M, SMALL)
    first, *refused, last, beyond = judge(PutCommand(W, 5, 50, pairs), table, 100, meter)
    assert first == PutCommand(W, 5, 150, [L, SMALL])
    assert isinstance(refused[0], RefusalCommand)
    assert refused[0].request == 6
    numbers = [each.request for each in refused if isinstance(each, RefusalCommand)]
    assert numbers == [6, 8]
    assert refused[1] == PutCommand(W, 7, 150, [N, SMALL])
    assert last == PutCommand(W, 9, 150, [L, SMALL])
    assert isinstance(beyond, RefusalCommand)
    assert beyond.request == 10


def test_a_refused_addition_is_not_there_for_the_next_one() -> None:
    table, meter = room_for(Quota(max_bytes=8), K, encode("ab"))
    request = AddCommand(W, 5, None, Initial.TEXT, (K, LARGE, K, encode("c")))
    refused, put = judge(request, table, 0, meter)
    assert isinstance(refused, RefusalCommand)
    assert put == PutCommand(W, 6, None, [K, encode("abc")])


def test_a_batch_is_refused_as_a_whole() -> None:
    table, meter = room_for(Quota(max_entries=2), K, SMALL)
    steps = tuple(Step(StepKind.PUT, key, SMALL) for key in (L, M))
    (answer,) = judge(BatchCommand(W, 5, (), steps, None), table, 0, meter)
    assert isinstance(answer, RefusalCommand)
    (answer,) = judge(BatchCommand(W, 5, (), steps[:1], None), table, 0, meter)
    assert isinstance(answer, BatchResultCommand)


@given(st.lists(_pairs, min_size=1, max_size=12), st.integers(1, 500), st.integers(1, 5))
def test_whatever_is_asked_a_store_ends_within_its_quota(
    runs: list[list[tuple[bytes, bytes]]], size: int, entries: int
) -> None:
    table, meter = room_for(Quota(entries, size))
    for pairs in runs:
        for action in judge(PutCommand(W, 1, None, _flat(pairs)), table, 0, meter):
            table.apply(action)
        assert len(table) <= entries
        assert table.columns.size <= size


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "1"])
def test_a_quota_is_a_positive_number(limit: int) -> None:
    with pytest.raises(InvalidData, match="max_bytes"):
        Quota(max_bytes=limit)


# -- when it is told -------------------------------------------------------------------------------


def test_each_level_is_told_once_until_it_is_left() -> None:
    meter = Meter("store s", Quota(max_bytes=100))
    assert meter.look(1, 79) is None
    assert meter.look(1, 80) is QuotaLevel.NEAR
    assert meter.look(1, 79) is None
    assert meter.look(1, 85) is None
    assert meter.look(1, 100) is QuotaLevel.EXCEEDED
    assert meter.look(1, 99) is None
    assert meter.look(1, 75) is None
    assert meter.look(1, 74) is QuotaLevel.RELIEVED
    assert meter.look(1, 79) is None
    assert meter.look(1, 81) is QuotaLevel.NEAR


def test_the_scarcer_of_both_limits_counts() -> None:
    meter = Meter("store s", Quota(10, 1_000))
    assert meter.look(7, 100) is None
    assert meter.look(8, 100) is QuotaLevel.NEAR
    assert meter.describe(8, 100) == "8 of 10 entries and 100 of 1000 bytes"


def test_a_refusal_is_told_even_far_below_the_limit_and_does_not_flap() -> None:
    meter = Meter("store s", Quota(max_bytes=100))
    for _ in range(3):
        with pytest.raises(QuotaExceeded):
            meter.room(1, 50).take(1, 60)
    assert meter.look(1, 50) is QuotaLevel.EXCEEDED
    assert meter.look(1, 50) is None
    for _ in range(3):
        with pytest.raises(QuotaExceeded):
            meter.room(1, 50).take(1, 60)
        assert meter.look(1, 50) is None
    assert meter.look(1, 44) is QuotaLevel.RELIEVED


@pytest.mark.parametrize(
    ("used", "quota", "told"),
    [
        (100, Quota(max_bytes=1_000), QuotaLevel.RELIEVED),
        (100, UNLIMITED, QuotaLevel.RELIEVED),
        (100, Quota(max_bytes=110), QuotaLevel.NEAR),
        (100, Quota(max_bytes=100), None),
    ],
)
def test_a_larger_quota_ends_it_at_once(used: int, quota: Quota, told: QuotaLevel | None) -> None:
    meter = Meter("store s", Quota(max_bytes=100))
    assert meter.look(1, used) is QuotaLevel.EXCEEDED
    meter.replace(quota)
    assert meter.look(1, used) is told


def test_a_smaller_quota_is_told_of_at_once() -> None:
    meter = Meter("store s", UNLIMITED)
    assert meter.look(1, 100) is None
    meter.replace(Quota(max_bytes=50))
    assert meter.look(1, 100) is QuotaLevel.EXCEEDED


def test_a_warning_comes_before_its_end() -> None:
    assert RELIEVED_SHARE < NEAR_SHARE < 1


def test_a_long_name_leaves_room_for_what_to_do() -> None:
    limit = 10**15
    meter = Meter(f"store {'n' * 500}", Quota(max_bytes=limit))
    with pytest.raises(QuotaExceeded, match=r"await set_quota\(\) in a group$") as caught:
        meter.room(0, limit).take(1, 2)
    assert len(str(caught.value)) < 200


# -- several that share one ------------------------------------------------------------------------


def test_what_shares_a_quota_is_counted_together() -> None:
    pool = QuotaPool("broker b", Quota(max_entries=10))
    one, other = pool.join("one"), pool.join("other")
    assert one.look(4, 40) is None
    assert other.look(4, 40) is QuotaLevel.NEAR
    assert one.look(4, 40) is None, "it is told once"
    other.room(4, 40).take(2, 20)
    with pytest.raises(QuotaExceeded, match="broker b is full: 8 of 10 entries"):
        one.room(4, 40).take(3, 30)
    assert one.look(5, 50) is QuotaLevel.EXCEEDED
    with pytest.raises(QuotaExceeded):
        other.room(5, 50).take(1, 10)
    assert one.describe(5, 50) == "broker b: 10 of 10 entries"
    assert one.look(5, 50) is None
    assert other.look(2, 20) is QuotaLevel.RELIEVED
    assert (pool.entries, pool.size) == (7, 70)
    pool.replace(Quota(max_entries=7))
    assert one.quota == other.quota == Quota(max_entries=7)
    assert one.look(5, 50) is QuotaLevel.EXCEEDED
    one.replace(Quota(max_entries=70))
    assert one.quota == other.quota == Quota(max_entries=7), "its log's own quota is not in force"
    pool.replace(Quota(max_entries=70))
    assert other.look(2, 20) is QuotaLevel.RELIEVED


def test_what_leaves_a_pool_gives_back_what_it_used() -> None:
    pool = QuotaPool("broker b", Quota(max_entries=10))
    one, other = pool.join("one"), pool.join("other")
    one.look(4, 40)
    other.look(4, 40)
    again = pool.join("other")
    assert (pool.entries, pool.size) == (4, 40), "the one that it takes the place of is counted"
    again.look(5, 50)
    pool.leave("one")
    pool.leave("one")
    pool.replace(Quota(max_entries=6))
    assert (pool.entries, pool.size) == (5, 50)
    assert (again.quota, one.quota) == (Quota(max_entries=6), Quota(max_entries=10))
