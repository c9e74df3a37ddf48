"""The master's decisions: every request becomes actions in absolute terms, or a refusal."""

from __future__ import annotations

import pytest

from stores.actions import (
    AddCommand,
    BatchCommand,
    BatchResultCommand,
    Change,
    ClearCommand,
    EraseCommand,
    Guard,
    GuardKind,
    Initial,
    PutCommand,
    PutUniqueCommand,
    PutUniqueResultCommand,
    RefusalCommand,
    Step,
    StepKind,
    SubtractCommand,
    WriterId,
)
from stores.judgement import bound_keys, judge, vet
from stores.limits import BATCH_SIZE_MAX, EXPIRY_END_NS, VALUE_SIZE_MAX
from stores.quota import Meter, Quota
from stores.table import Table
from wire.encoding import encode
from wire.errors import DecodeError, ErrorCode
from wire.identifiers import EndpointId, EntityId
from wire.limits import VALUE_ENTRIES_MAX
from wire.values import Set

W = WriterId.of(EntityId(EndpointId(bytes(16)), 1), 1)
NOW = 1_000
K, L, M = encode("k"), encode("l"), encode("m")
ONE, TWO, TEXT = encode(1), encode(2), encode("text")


@pytest.fixture
def table() -> Table:
    """K is 1, set by mutation 1; L is a text, set by mutation 2."""
    table = Table()
    table.apply(PutCommand(W, 1, None, [K, ONE, L, TEXT]))
    return table


def test_a_put_without_expiry_is_broadcast_as_it_is(table):
    put = PutCommand(W, 5, None, [K, TWO])
    (answer,) = judge(put, table, NOW)
    assert answer is put


def test_an_expiry_becomes_an_instant_of_the_masters_clock(table):
    assert judge(PutCommand(W, 5, 50, [K, TWO]), table, NOW) == (PutCommand(W, 5, 1050, [K, TWO]),)
    (late,) = judge(PutCommand(W, 5, EXPIRY_END_NS - 1, [K, TWO]), table, NOW)
    assert late.expiry_ns == EXPIRY_END_NS - 1


def test_put_unique_puts_and_says_so_if_the_key_is_missing(table):
    assert judge(PutUniqueCommand(W, 5, 50, M, ONE), table, NOW) == (
        PutCommand(W, None, 1050, (M, ONE)),
        PutUniqueResultCommand(W, 5, is_inserted=True),
    )


def test_put_unique_only_says_no_if_the_key_is_there(table):
    answers = judge(PutUniqueCommand(W, 5, None, K, TWO), table, NOW)
    assert answers == (PutUniqueResultCommand(W, 5, is_inserted=False),)


def test_a_run_of_additions_becomes_one_put_in_which_each_sees_the_ones_before(table):
    add = AddCommand(W, 5, None, Initial.NUMBER, [K, ONE, M, ONE, K, ONE])
    assert judge(add, table, NOW) == [
        PutCommand(W, 5, None, [K, encode(2), M, encode(1), K, encode(3)])
    ]


def test_one_that_fails_in_a_run_splits_it_and_the_others_count(table):
    add = AddCommand(W, 5, 50, Initial.NUMBER, [K, ONE, L, ONE, K, ONE, M, ONE])
    first, refused, rest = judge(add, table, NOW)
    assert first == PutCommand(W, 5, 1050, [K, encode(2)])
    assert (refused.request, refused.code) == (6, ErrorCode.TYPE_CLASH)
    assert rest == PutCommand(W, 7, 1050, [K, encode(3), M, encode(1)])


def test_subtracting_from_a_missing_key_is_refused_by_name(table):
    (refused,) = judge(SubtractCommand(W, 5, None, [M, ONE]), table, NOW)
    assert isinstance(refused, RefusalCommand)
    assert (refused.request, refused.code) == (5, ErrorCode.NO_SUCH_KEY)


def test_a_value_does_not_grow_beyond_what_can_travel(table):
    text = encode("x" * (VALUE_SIZE_MAX - 10))
    table.apply(PutCommand(W, 1, None, [M, text]))
    room = VALUE_SIZE_MAX - len(text)
    (full,) = judge(AddCommand(W, 5, None, Initial.TEXT, [M, encode("y" * room)]), table, NOW)
    assert len(full.pairs[1]) == VALUE_SIZE_MAX
    more = encode("y" * (room + 1))
    (refused,) = judge(AddCommand(W, 5, None, Initial.TEXT, [M, more]), table, NOW)
    assert refused.code == ErrorCode.INVALID_DATA
    assert "use several keys" in refused.text


def batch(
    *steps: Step, guards: tuple[Guard, ...] = (), otherwise: tuple[Step, ...] | None = None
) -> BatchCommand:
    return BatchCommand(W, 5, guards, steps, otherwise)


PUT_M = Step(StepKind.PUT, M, ONE)


@pytest.mark.parametrize("container", [tuple, frozenset])
def test_a_container_does_not_grow_beyond_what_can_be_read(table, container):
    most = encode(container(range(VALUE_ENTRIES_MAX - 1)))
    table.apply(PutCommand(W, 2, None, [M, most]))
    add = AddCommand(W, 3, None, Initial.VECTOR, [M, encode(-1)])
    (answer,) = judge(add, table, NOW)
    assert isinstance(answer, RefusalCommand)
    assert answer.code is ErrorCode.INVALID_DATA
    assert "use several keys" in answer.text


def test_a_batch_does_all_its_steps_each_seeing_the_ones_before(table):
    answer = judge(
        batch(
            PUT_M,
            Step(StepKind.ADD, M, ONE, Initial.NUMBER, 50),
            Step(StepKind.SUBTRACT, K, ONE),
            Step(StepKind.ERASE, L),
        ),
        table,
        NOW,
    )
    changes = (Change(M, TWO, 1050), Change(K, encode(0), None), Change(L, None, None))
    assert answer == (BatchResultCommand(W, 5, True, changes),)


def test_a_step_after_an_erasure_finds_the_key_missing(table):
    begin_anew = Step(StepKind.ADD, L, encode(7), Initial.SET)
    (answer,) = judge(batch(Step(StepKind.ERASE, L), begin_anew), table, NOW)
    assert answer == BatchResultCommand(W, 5, True, (Change(L, encode(Set([7])), None),))


def test_a_step_that_fails_refuses_the_whole_batch_and_is_named(table):
    before = table.columns.copy()
    (refused,) = judge(batch(PUT_M, Step(StepKind.SUBTRACT, L, ONE)), table, NOW)
    assert refused.code == ErrorCode.TYPE_CLASH
    assert "step 1 (subtract)" in refused.text
    assert table.columns == before


GUARDS = [
    (Guard(GuardKind.ABSENT, M), True),
    (Guard(GuardKind.ABSENT, K), False),
    (Guard(GuardKind.EXISTS, K), True),
    (Guard(GuardKind.EXISTS, M), False),
    (Guard(GuardKind.VALUE, K, value=ONE), True),
    (Guard(GuardKind.VALUE, K, value=encode(True)), False),
    (Guard(GuardKind.VALUE, M, value=ONE), False),
    (Guard(GuardKind.REVISION, L, revision=2), True),
    (Guard(GuardKind.REVISION, L, revision=1), False),
    (Guard(GuardKind.REVISION, M, revision=1), False),
]


@pytest.mark.parametrize(("guard", "holds"), GUARDS)
def test_a_batch_happens_only_if_its_guards_hold(table, guard, holds):
    (answer,) = judge(batch(PUT_M, guards=(guard,)), table, NOW)
    if holds:
        assert answer == BatchResultCommand(W, 5, True, (Change(M, ONE, None),))
    else:
        assert answer.code == ErrorCode.GUARD_FAILED
        assert answer.text == f"guard 0 ({guard.kind.name.lower()}) does not hold"


def test_each_guard_of_a_batch_has_to_hold(table):
    there, missing = Guard(GuardKind.EXISTS, K), Guard(GuardKind.EXISTS, M)
    (answer,) = judge(batch(PUT_M, guards=(there, missing, there)), table, NOW)
    assert answer.text == "guard 1 (exists) does not hold"


def test_guards_look_at_the_state_before_the_steps(table):
    (answer,) = judge(batch(PUT_M, guards=(Guard(GuardKind.ABSENT, M),)), table, NOW)
    assert isinstance(answer, BatchResultCommand)


def test_a_batch_whose_effect_cannot_travel_is_refused(table):
    half = encode("x" * (VALUE_SIZE_MAX // 2))
    table.apply(PutCommand(W, 1, None, [M, half, encode("n"), half]))
    grow = [Step(StepKind.ADD, key, encode("yy"), Initial.TEXT) for key in (M, encode("n"))]
    (refused,) = judge(batch(*grow), table, NOW)
    assert refused.code == ErrorCode.INVALID_DATA
    assert f"{BATCH_SIZE_MAX} are possible" in refused.text


def test_a_batch_may_change_as_many_bytes_as_travel_at_once(table):
    rest = BATCH_SIZE_MAX - 2 * len(M) - VALUE_SIZE_MAX // 2
    values = [encode("x" * (size - 5)) for size in (VALUE_SIZE_MAX // 2, rest)]
    assert sum(map(len, values)) + 2 * len(M) == BATCH_SIZE_MAX
    steps = [Step(StepKind.PUT, key, value) for key, value in zip((M, L), values, strict=True)]
    (answer,) = judge(batch(*steps), table, NOW)
    assert isinstance(answer, BatchResultCommand)


def test_what_is_refused_tells_its_writer(table):
    full = Meter("the store", Quota(max_entries=2))
    for request in (
        PutUniqueCommand(W, 5, None, M, ONE),
        PutCommand(W, 5, None, [M, ONE]),
        AddCommand(W, 5, None, Initial.NUMBER, [M, ONE]),
        batch(PUT_M),
    ):
        (refused,) = judge(request, table, NOW, full)
        assert refused == RefusalCommand(W, 5, ErrorCode.QUOTA_EXCEEDED, refused.text)
        assert "the store is full" in refused.text


@pytest.mark.parametrize("life", [EXPIRY_END_NS, EXPIRY_END_NS + 7])
def test_what_lives_with_a_session_keeps_its_number(table, life):
    put = PutCommand(W, 5, life, [K, TWO])
    assert judge(put, table, NOW, object_to=lambda session, keys: ()) == (put,)
    assert bound_keys(put) == {life - EXPIRY_END_NS: (K,)}


def test_what_has_no_life_binds_no_key():
    assert bound_keys(ClearCommand(W, 5)) == bound_keys(EraseCommand(W, 5, [K])) == {}


# -- what comes from outside -----------------------------------------------------------------------

BAD_VALUE = b"\xff"
BAD_KEY = b"\x18\x01"  # one, in a longer form than needed: decodes, and is not deterministic


@pytest.mark.parametrize(
    "request_",
    [
        PutCommand(W, 1, None, [K, ONE, L, BAD_VALUE]),
        PutCommand(W, 1, None, [BAD_KEY, ONE]),
        PutCommand(W, 1, None, [K, ONE, BAD_KEY, ONE]),
        PutUniqueCommand(W, 1, None, K, BAD_VALUE),
        PutUniqueCommand(W, 1, None, BAD_KEY, ONE),
        AddCommand(W, 1, None, Initial.NUMBER, [K, BAD_VALUE]),
        AddCommand(W, 1, None, Initial.NUMBER, [BAD_KEY, ONE]),
        SubtractCommand(W, 1, None, [K, BAD_VALUE]),
        batch(Step(StepKind.PUT, K, BAD_VALUE)),
        batch(PUT_M, Step(StepKind.PUT, BAD_KEY, ONE)),
    ],
)
def test_bytes_that_are_no_encodings_are_turned_away(table, request_):
    with pytest.raises(DecodeError, match="value"):
        vet([request_], table)


@pytest.mark.parametrize(
    "request_",
    [
        PutCommand(W, 1, None, [K, ONE, M, encode({"a": (1, 2)})]),
        EraseCommand(W, 1, [BAD_KEY]),
        batch(PUT_M, Step(StepKind.ERASE, K)),
    ],
)
def test_honest_requests_pass(table, request_):
    vet([request_], table)


@pytest.mark.parametrize("place", [0, 1, 9])
@pytest.mark.parametrize(
    "spoilt",
    [
        PutCommand(W, 1, None, [K, BAD_VALUE]),
        SubtractCommand(W, 1, None, [BAD_KEY, ONE]),
        PutUniqueCommand(W, 1, None, K, BAD_VALUE),
        PutUniqueCommand(W, 1, None, BAD_KEY, ONE),
        batch(Step(StepKind.PUT, K, BAD_VALUE)),
        batch(Step(StepKind.PUT, BAD_KEY, ONE)),
    ],
)
def test_one_request_among_others_is_turned_away_with_all_of_them(table, spoilt, place):
    good = [PutCommand(W, 1, None, [M, ONE, L, TWO]), batch(PUT_M), EraseCommand(W, 1, [BAD_KEY])]
    good = [PutUniqueCommand(W, 1, None, M, ONE), *good * 3]
    vet(good, table)
    with pytest.raises(DecodeError):
        vet([*good[:place], spoilt, *good[place:]], table)
