"""What a master decides that starts where clones hold something."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from stores.group.positions import START, MemberId, Position
from stores.replica.claim import CLAIM_TICKS, Claim, Held, Refuse, Start, TakeOver
from wire.errors import ErrorCode
from wire.identifiers import EndpointId

OWN = MemberId("a", 1)
G, OTHER = b"g" * 16, b"o" * 16
CLONES = [EndpointId(bytes([number]) * 16) for number in range(1, 5)]


def held(index: int, group: bytes | None = G, term: int = 1, *, is_led: bool = False) -> Held:
    end = Position(term, index) if index else START
    return Held(MemberId("c", 1), group, end, is_led)


def claim(own: Held, *answers: Held, mark: Position | None = None) -> Claim:
    made = Claim(own, CLONES[: len(answers)], mark)
    for where, answer in zip(CLONES, answers, strict=False):
        made.hear(where, answer)
    return made


BLANK = Held(OWN, None, START)


def test_where_no_clone_is_known_it_begins_at_once() -> None:
    made = claim(BLANK)
    assert made.is_over
    assert made.decide() == Start()


def test_it_waits_for_all_announced_clones_for_a_second_at_most() -> None:
    made = Claim(BLANK, CLONES[:2], None)
    made.hear(CLONES[0], held(7))
    assert not made.is_over
    for _ in range(CLAIM_TICKS):
        assert not made.is_over
        made.tick()
    assert made.is_over
    assert made.decide() == TakeOver(CLONES[0], held(7))
    made.lose(CLONES[0])
    assert made.decide() == Start()


def test_of_several_clones_it_takes_over_what_the_best_has() -> None:
    assert claim(BLANK, held(5), held(9), held(7)).decide() == TakeOver(CLONES[1], held(9))
    assert claim(BLANK, held(9), held(5, term=2)).decide() == TakeOver(CLONES[1], held(5, term=2))


def test_one_that_is_gone_is_not_waited_for() -> None:
    made = Claim(BLANK, CLONES[:2], None)
    made.hear(CLONES[0], held(7))
    made.lose(CLONES[1])
    assert made.is_over


def test_a_clone_that_follows_a_master_is_in_the_way() -> None:
    made = claim(BLANK, held(7), held(7, is_led=True))
    assert not made.is_over, "the clone may lose it meanwhile"
    refusal = made.decide()
    assert isinstance(refusal, Refuse)
    assert refusal.code is ErrorCode.MASTER_EXISTS
    made.hear(CLONES[1], held(7))
    assert made.is_over


def test_of_clones_of_two_groups_none_is_chosen() -> None:
    refusal = claim(BLANK, held(7), held(9, OTHER)).decide()
    assert isinstance(refusal, Refuse)
    assert refusal.code is ErrorCode.STORE_CONFLICT


def test_what_is_here_is_not_covered_by_another_group() -> None:
    assert claim(Held(OWN, G, Position(1, 5)), held(9, OTHER)).decide() == Start()


@pytest.mark.parametrize("index", [5, 6, 7, 8])
def test_a_regressed_master_takes_over_from_none_that_lacks_what_it_acknowledged(
    index: int,
) -> None:
    made = claim(Held(OWN, G, Position(1, 5)), held(index), mark=Position(1, 7))
    decision = made.decide()
    if index < 7:
        assert isinstance(decision, Refuse)
        assert decision.code is ErrorCode.REPLICA_REGRESSED
        assert f"ends at 1:{index}" in decision.text
        assert not made.is_over, "others may come in time"
    else:
        assert decision == TakeOver(CLONES[0], held(index))
        assert made.is_over


@pytest.mark.parametrize("index", [3, 4, 5, 6])
def test_one_that_ended_while_it_took_over_goes_on_with_no_less_than_it_has(index: int) -> None:
    made = claim(Held(OWN, G, Position(1, 5)), held(index), mark=START)
    decision = made.decide()
    if index < 5:
        assert isinstance(decision, Refuse)
        assert decision.code is ErrorCode.REPLICA_REGRESSED
        assert "its file may lack the rest after 1:5" in decision.text
    else:
        assert decision == TakeOver(CLONES[0], held(index))


held_ones = st.builds(
    held,
    index=st.integers(0, 5),
    group=st.sampled_from([G, OTHER, None]),
    term=st.integers(1, 3),
    is_led=st.sampled_from([False] * 9 + [True]),
)


@given(
    own=st.builds(
        lambda index: Held(
            OWN, G if index is not None else None, Position(2, index) if index else START
        ),
        index=st.none() | st.integers(0, 5),
    ),
    answers=st.lists(held_ones, max_size=4),
    mark=st.none() | st.builds(Position, st.integers(1, 3), st.integers(1, 5)),
)
def test_it_never_leads_with_less_than_a_clone_of_its_group_has(
    own: Held, answers: list[Held], mark: Position | None
) -> None:
    holders = [each for each in answers if each.group is not None and each.end > START]
    answers = [each for each in answers if each.group is not None or each.end == START]
    decision = claim(own, *answers, mark=mark).decide()
    match decision:
        case Start():
            assert mark is None
            assert not any(each.is_led for each in answers)
            for each in holders:
                assert each.group != own.group or each.end <= own.end
                assert own.end > START or own.group is not None, "a blank one has no reason"
        case TakeOver(_, found):
            assert found.end > own.end or mark is not None
            assert mark is None or found.end >= mark
            assert found.end == max(each.end for each in holders if each.group == found.group)
            assert own.group in (None, found.group)
        case Refuse():
            pass
