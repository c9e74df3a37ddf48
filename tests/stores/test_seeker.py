"""One rule of whom a reader follows: every state with every input, and what always holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import pytest
from hypothesis import given, settings, strategies as st

from stores.effects import MasterFound, MasterLost, SecondMaster
from stores.epochs import START_BITS, term_of
from stores.seeker import (
    MOVES,
    RIVAL_COUNT,
    RIVAL_PAUSE_TICKS,
    RIVALS_MAX,
    SEARCH_TICKS,
    SILENCE_TICKS,
    Depose,
    Drop,
    Event,
    Follow,
    LeaderId,
    Refuse,
    Search,
    Seeker,
    SeekerEffect,
    State,
)
from wire.identifiers import EndpointId, EntityId


def leader(name: bytes, start: int, term: int = 1) -> LeaderId:
    return LeaderId((term << START_BITS) + start, EntityId(EndpointId(name * 16), 1))


OURS: Final = leader(b"o", 5)
LATER: Final = leader(b"l", 6)
EARLIER: Final = leader(b"e", 4)
OF_EARLIER_TERM: Final = leader(b"f", 9, term=0)

Input = Callable[[Seeker], Sequence[SeekerEffect]]

INPUTS: Final[dict[str, Input]] = {
    "ours speaks": lambda seeker: seeker.hear(OURS),
    "later speaks": lambda seeker: seeker.hear(LATER),
    "earlier speaks": lambda seeker: seeker.hear(EARLIER),
    "ours offers": lambda seeker: seeker.hear(OURS, offers=True),
    "later offers": lambda seeker: seeker.hear(LATER, offers=True),
    "earlier offers": lambda seeker: seeker.hear(EARLIER, offers=True),
    "fenced speaks": lambda seeker: seeker.hear(OF_EARLIER_TERM),
    "fenced offers": lambda seeker: seeker.hear(OF_EARLIER_TERM, offers=True),
    "hint of its term": lambda seeker: seeker.hint(LATER.epoch),
    "hint of a later term": lambda seeker: seeker.hint(OURS.epoch + (1 << START_BITS)),
    "let go": lambda seeker: seeker.let_go("it closed"),
    "unreachable": lambda seeker: seeker.unreachable(OURS.entity.endpoint),
    "another unreachable": lambda seeker: seeker.unreachable(LATER.entity.endpoint),
    "discovered": lambda seeker: seeker.discovered(),
    "odd tick": lambda seeker: ticked_to(seeker, SEARCH_TICKS + 1),
    "even tick": lambda seeker: ticked_to(seeker, 2 * SEARCH_TICKS),
    "silence": lambda seeker: ticked_to(seeker, SILENCE_TICKS),
}

TABLE: Final = """
input                | SEARCHING             | IN_TOUCH                   | LOST
ours speaks          | SEARCHING             | IN_TOUCH                   | IN_TOUCH found
later speaks         | SEARCHING search      | SEARCHING lost drop search | SEARCHING drop search
earlier speaks       | SEARCHING search      | IN_TOUCH                   | SEARCHING drop search
ours offers          | IN_TOUCH follow found | IN_TOUCH                   | IN_TOUCH found
later offers         | IN_TOUCH follow found | IN_TOUCH lost follow found | IN_TOUCH follow found
earlier offers       | IN_TOUCH follow found | IN_TOUCH refuse            | IN_TOUCH follow found
fenced speaks        | SEARCHING depose      | IN_TOUCH depose            | LOST depose
fenced offers        | SEARCHING depose      | IN_TOUCH depose            | LOST depose
hint of its term     | SEARCHING             | IN_TOUCH                   | LOST
hint of a later term | SEARCHING             | SEARCHING lost drop search | SEARCHING drop search
let go               | SEARCHING drop search | SEARCHING lost drop search | SEARCHING drop search
unreachable          | SEARCHING             | LOST lost                  | LOST
another unreachable  | SEARCHING             | IN_TOUCH                   | LOST
discovered           | SEARCHING search      | IN_TOUCH                   | LOST search
odd tick             | SEARCHING             | IN_TOUCH                   | LOST
even tick            | SEARCHING search      | IN_TOUCH                   | LOST search
silence              | SEARCHING search      | LOST lost search           | LOST search
"""
"""What is expected, written by hand: the next state, and the effects of the last tick or call."""

NAMES: Final = {
    Search: "search",
    Follow: "follow",
    Drop: "drop",
    Refuse: "refuse",
    Depose: "depose",
    MasterFound: "found",
    MasterLost: "lost",
    SecondMaster: "rival",
}


def ticked(seeker: Seeker, count: int) -> Sequence[SeekerEffect]:
    """Let ticks pass, and give what the last one brings."""
    effects: Sequence[SeekerEffect] = ()
    for _ in range(count):
        effects = seeker.tick()
    return effects


def ticked_to(seeker: Seeker, number: int) -> Sequence[SeekerEffect]:
    return ticked(seeker, number - seeker._tick)


def seeker_in(state: State, *, has_had_leader: bool = True) -> Seeker:
    """Bring a seeker into a state, in the ways that there are."""
    seeker = Seeker()
    if state is not State.SEARCHING or has_had_leader:
        seeker.hear(OURS, offers=True)
    if state is State.LOST:
        seeker.unreachable(OURS.entity.endpoint)
    if state is State.SEARCHING and has_had_leader:
        seeker.let_go("it closed")
        seeker.tick()
    assert seeker.state is state
    return seeker


def cells() -> list[tuple[State, str, str]]:
    head, *rows = [line.split("|") for line in TABLE.strip().splitlines()]
    states = [State[name.strip()] for name in head[1:]]
    found = []
    for name, *columns in rows:
        assert len(columns) == len(states), name
        for state, cell in zip(states, columns, strict=True):
            found.append((state, name.strip(), cell.strip()))
    return found


def test_the_table_of_this_test_has_every_state_and_every_input() -> None:
    assert {(state, name) for state, name, _ in cells()} == {
        (state, name) for state in State for name in INPUTS
    }
    assert all(set(moves) == set(Event) for moves in MOVES.values())
    assert set(MOVES) == set(State)


@pytest.mark.parametrize(("state", "name", "expected"), cells())
def test_seeker_table(state: State, name: str, expected: str) -> None:
    seeker = seeker_in(state)
    effects = INPUTS[name](seeker)
    assert " ".join((seeker.state.name, *(NAMES[type(each)] for each in effects))) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [(name, cell) for state, name, cell in cells() if state is State.SEARCHING],
)
def test_a_seeker_that_never_had_a_leader_does_as_one_that_let_it_go(
    name: str, expected: str
) -> None:
    seeker = seeker_in(State.SEARCHING, has_had_leader=False)
    effects = INPUTS[name](seeker)
    if name == "ours speaks":
        expected = "SEARCHING search"  # no leader is followed yet
    if name.startswith("fenced"):
        expected = "SEARCHING search" if name == "fenced speaks" else "IN_TOUCH follow found"
    assert " ".join((seeker.state.name, *(NAMES[type(each)] for each in effects))) == expected


def test_a_new_reader_knows_of_no_leader() -> None:
    seeker = Seeker()
    assert (seeker.leader, seeker.known_epoch) == (None, 0)
    assert not seeker.is_in_touch
    assert not seeker.follows(OURS)


# -- the words of effects --------------------------------------------------------------------------


def test_effects_say_who_and_why() -> None:
    seeker = Seeker()
    assert seeker.hear(OURS, offers=True) == [
        Follow(OURS, None),
        MasterFound(OURS.entity, OURS.epoch),
    ]
    text = f"the master at {LATER.entity} took over"
    assert seeker.hear(LATER, offers=True) == [
        MasterLost(OURS.entity, text),
        Follow(LATER, OURS),
        MasterFound(LATER.entity, LATER.epoch),
    ]
    assert seeker.hear(EARLIER, offers=True) == [Refuse(EARLIER)]
    assert seeker.hear(OF_EARLIER_TERM) == [Depose(OF_EARLIER_TERM)]
    text = "its endpoint is unreachable"
    assert seeker.unreachable(LATER.entity.endpoint) == [MasterLost(LATER.entity, text)]
    assert seeker.let_go("it closed: x") == [Drop("it closed: x"), Search()]
    assert seeker.hear(LATER, offers=True) == [
        Follow(LATER, LATER),
        MasterFound(LATER.entity, LATER.epoch),
    ]


def test_a_hint_names_the_reason() -> None:
    seeker = seeker_in(State.IN_TOUCH)
    later = OURS.epoch + (1 << START_BITS)
    assert seeker.hint(later) == [
        MasterLost(OURS.entity, "it was deposed"),
        Drop("it was deposed"),
        Search(),
    ]
    assert seeker.known_epoch == later
    assert not seeker.follows(OURS)
    assert seeker.hear(OURS, offers=True) == [Depose(OURS)]


def test_silence_counts_from_the_last_word() -> None:
    seeker = seeker_in(State.IN_TOUCH)
    ticked(seeker, SILENCE_TICKS - 1)
    seeker.hear(OURS)
    ticked(seeker, SILENCE_TICKS - 1)
    assert seeker.is_in_touch
    assert seeker.tick()[0] == MasterLost(OURS.entity, f"silent for {SILENCE_TICKS} ticks")
    assert not seeker.is_in_touch


def test_words_of_a_rival_break_no_silence() -> None:
    seeker = seeker_in(State.IN_TOUCH)
    for _ in range(SILENCE_TICKS - 1):
        seeker.tick()
        seeker.hear(EARLIER)
    assert seeker.is_in_touch
    seeker.tick()
    assert not seeker.is_in_touch


def test_a_reader_that_hears_leaders_searches_once_in_a_tick() -> None:
    seeker = Seeker()
    seeker.tick()
    assert seeker.hear(LATER) == [Search()]
    assert list(seeker.hear(EARLIER)) == []
    seeker.tick()
    assert list(seeker.hear(LATER)) == [], "it was due in that tick"
    assert seeker.discovered() == [Search()], "the endpoint could not hear the one before"


def test_searches_are_evenly_spaced() -> None:
    seeker = Seeker()
    said = [bool(seeker.tick()) for _ in range(3 * SEARCH_TICKS)]
    assert said == [False, True] * 3


# -- rivals ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rival", [EARLIER, OF_EARLIER_TERM], ids=["earlier", "earlier term"])
@pytest.mark.parametrize("offers", [False, True])
def test_a_rival_is_believed_at_its_third_heartbeat_and_told_of_once(
    rival: LeaderId, offers: bool
) -> None:
    seeker = seeker_in(State.IN_TOUCH)
    told = []
    for beat in range(3 * RIVAL_COUNT):
        for _ in range(4):  # what comes together is one
            told += [
                (beat, each)
                for each in seeker.hear(rival, offers=offers)
                if isinstance(each, SecondMaster)
            ]
        for _ in range(RIVAL_PAUSE_TICKS):
            seeker.hear(OURS)
            seeker.tick()
    assert told == [(RIVAL_COUNT - 1, SecondMaster(rival.entity, rival.epoch))]


def test_heartbeats_have_a_whole_pause_between_them() -> None:
    seeker = seeker_in(State.IN_TOUCH)
    for _ in range(RIVAL_COUNT - 1):
        seeker.hear(EARLIER)
        ticked(seeker, RIVAL_PAUSE_TICKS - 1)
        assert list(seeker.hear(EARLIER)) == []
        seeker.tick()
    (rival,) = seeker.hear(EARLIER)
    assert isinstance(rival, SecondMaster)


def test_an_earlier_life_of_the_leader_is_no_rival() -> None:
    seeker = seeker_in(State.IN_TOUCH)
    before = LeaderId(OURS.epoch - 1, OURS.entity)
    for _ in range(2 * RIVAL_COUNT):
        assert list(seeker.hear(before)) == []
        ticked(seeker, RIVAL_PAUSE_TICKS)
        seeker.hear(OURS)
    assert seeker.is_in_touch


def test_a_reader_remembers_so_many_rivals_and_no_more() -> None:
    seeker = seeker_in(State.IN_TOUCH)
    rivals = [LeaderId(EARLIER.epoch, EntityId(EndpointId(b"r" * 16), n)) for n in range(70)]
    told = []
    for _ in range(RIVAL_COUNT):
        for rival in rivals:
            told += seeker.hear(rival)
        ticked(seeker, RIVAL_PAUSE_TICKS)
        seeker.hear(OURS)
    assert told == [SecondMaster(each.entity, each.epoch) for each in rivals[:RIVALS_MAX]]


# -- what always holds -----------------------------------------------------------------------------

LEADERS = [
    leader(name, start, term) for term in range(3) for start in (1, 2) for name in (b"a", b"b")
]
STEPS = st.one_of(
    st.tuples(st.just("hear"), st.sampled_from(LEADERS)),
    st.tuples(st.just("offer"), st.sampled_from(LEADERS)),
    st.tuples(st.just("hint"), st.sampled_from(LEADERS)),
    st.tuples(st.sampled_from(["let go", "unreachable", "discovered"]), st.none()),
    st.tuples(st.just("ticks"), st.integers(1, SILENCE_TICKS)),
)


def _take(seeker: Seeker, step: tuple[str, object]) -> Sequence[SeekerEffect]:
    match step:
        case ("hear" | "offer" as word, LeaderId() as other):
            return seeker.hear(other, offers=word == "offer")
        case ("hint", LeaderId() as other):
            return seeker.hint(other.epoch)
        case ("ticks", int(count)):
            return [each for _ in range(count) for each in seeker.tick()]
        case ("unreachable", _) if seeker.leader is not None:
            return seeker.unreachable(seeker.leader.entity.endpoint)
        case ("let go", _):
            return seeker.let_go("it closed")
        case _:
            return seeker.discovered()


@settings(max_examples=300)
@given(steps=st.lists(STEPS, max_size=40))
def test_what_always_holds(steps: list[tuple[str, object]]) -> None:
    seeker, is_told, known = Seeker(), False, 0
    for step in steps:
        before, was = seeker.leader, seeker.state
        effects = _take(seeker, step)
        for effect in effects:
            if isinstance(effect, MasterFound | MasterLost):
                assert isinstance(effect, MasterFound) is not is_told, "told twice"
                is_told = isinstance(effect, MasterFound)
        assert is_told is seeker.is_in_touch, "the user knows it"
        assert seeker.known_epoch >= known, "it forgets no epoch"
        known = seeker.known_epoch
        if seeker.state is not State.SEARCHING:
            assert seeker.leader is not None
            assert term_of(seeker.leader.epoch) == term_of(known), "none of an earlier term"
            assert seeker.follows(seeker.leader)
        if was is State.IN_TOUCH and before is not None and seeker.leader != before:
            assert seeker.leader is not None
            assert seeker.leader > before, "from a leader in touch to a later one only"
        if seeker.state is State.SEARCHING and was is not State.SEARCHING:
            assert Search() in effects, "it calls at once"


@settings(max_examples=100)
@given(order=st.permutations(LEADERS[-4:]))
def test_all_readers_that_hear_the_same_leaders_follow_the_same(order: list[LeaderId]) -> None:
    seeker = Seeker()
    for other in order:
        seeker.hear(other, offers=True)
    assert seeker.leader == max(order)
