"""Words of full places on their way, and which links are withheld for which places."""

from __future__ import annotations

from types import SimpleNamespace

from hypothesis import given, strategies as st

from endpoint.link.backpressure import Backpressure
from endpoint.link.limits import WINDOW_SIZE
from endpoint.link.link import Link
from wire.identifiers import EndpointId
from wire.messages import Credit, Hold, Withheld

ME, PEER, FAR, LOST = (EndpointId(bytes([number]) * 16) for number in range(1, 5))
A, B = b"\0\0/a", b"\0\0/b"


class Place:
    """A mailbox, or what passes through a link; the test says how full it is."""

    hold_seconds_max = 30.0

    def __init__(self, *, is_exhausted: bool = False) -> None:
        self.is_exhausted = is_exhausted

    def become_lossy(self) -> None:
        raise AssertionError("the loop's part")


class Wire:
    """As much of a connection as words need; its link is the product's."""

    def __init__(self) -> None:
        self.link = Link()
        self.peer = PEER
        self.said: list = []

    def say(self, message, *key) -> None:
        self.said.append((message, key))

    answer = say

    def heard(self) -> list:
        """All messages since the last look."""
        said, self.said = self.said, []
        return [message for message, _ in said]


class Core:
    """Routes of an endpoint with one peer: behind it is ``FAR``; ``LOST`` is unreachable."""

    local = ME

    def __init__(self) -> None:
        self.routing = self.permissions = self

    def next_hop(self, endpoint: EndpointId) -> EndpointId | None:
        return None if endpoint == LOST else PEER

    def passes(self, endpoint: EndpointId, header: bytes) -> bool:
        return True

    def may_hold(self, endpoint: EndpointId) -> bool:
        return True


def world() -> SimpleNamespace:
    """An endpoint with one peer and one place."""
    wire, changes = Wire(), []
    made = Backpressure(
        Core(), {PEER: SimpleNamespace(connection=wire)}, lambda: changes.append(None)
    )
    place = Place()
    made.add(place, "box")
    return SimpleNamespace(backpressure=made, wire=wire, place=place, changes=changes)


def word(*headers: bytes, sender: EndpointId = FAR, is_all: bool = False) -> Hold:
    return Hold(sender, ME, 1, "box", headers, is_all=is_all)


def test_the_sender_is_told_toward_where_it_is_and_the_link_is_not_withheld() -> None:
    it = world()
    it.backpressure.fill(it.place, it.wire, FAR, (A, B), b"\0\1")
    assert it.wire.said == [(word(A, B), (FAR, 1))]
    assert not it.wire.link.is_withheld
    it.wire.heard()
    it.backpressure.relieve(it.place, has_room=True)
    assert it.wire.heard() == [word()]
    it.backpressure.relieve(it.place, has_room=True)
    assert it.wire.heard() == []


def test_a_place_whose_reserve_is_used_up_withholds_the_link_and_says_so_once() -> None:
    it = world()
    it.place.is_exhausted = True
    it.wire.link.admit(WINDOW_SIZE)
    for _ in range(3):
        it.backpressure.fill(it.place, it.wire, FAR, (A,), b"")
    assert it.wire.heard() == [word(A), Withheld()]
    it.backpressure.relieve(it.place, has_room=True)
    assert it.wire.link.is_withheld, "it is still exhausted"
    it.place.is_exhausted = False
    it.wire.heard()
    it.backpressure.relieve(it.place, has_room=False)
    assert it.wire.heard() == [Credit(2 * WINDOW_SIZE)], "as soon as its reserve has room"
    assert not it.wire.link.is_withheld


def test_a_place_that_is_gone_lets_all_go_on() -> None:
    it = world()
    it.place.is_exhausted = True
    it.backpressure.fill(it.place, it.wire, FAR, (A,), b"")
    it.wire.heard()
    it.backpressure.remove(it.place)
    assert not it.wire.link.is_withheld
    assert it.wire.heard() == [word()]
    it.backpressure.remove(it.place)
    assert it.backpressure.tick(1.0) == []
    assert it.wire.heard() == []


def test_a_link_that_is_gone_is_held_by_nothing_and_holds_nothing() -> None:
    it = world()
    gone = Wire()
    transit = gone.link.data
    it.backpressure.add(transit, "messages that pass a relay")
    it.place.is_exhausted = True
    it.backpressure.fill(it.place, gone, FAR, (A,), b"")
    it.backpressure.fill(it.place, it.wire, FAR, (A,), b"")
    it.backpressure.fill(transit, it.wire, FAR, (B,), b"")
    it.wire.heard()
    it.backpressure.forget(gone)
    assert it.wire.heard() == [Hold(FAR, ME, 2, "messages that pass a relay", (), is_all=False)]
    it.place.is_exhausted = False
    it.backpressure.relieve(it.place, has_room=False)
    assert gone.link.is_withheld, "it is not looked at any more"
    assert not it.wire.link.is_withheld


def test_a_word_for_another_goes_on_and_one_for_an_endpoint_that_is_lost_does_not() -> None:
    it = world()
    passing = Hold(FAR, PEER, 7, "box", (A,), is_all=False)
    it.backpressure.hear(passing)
    assert it.wire.said == [(passing, (FAR, PEER, 7))], "its slot is of sender, holder and place"
    it.wire.heard()
    it.backpressure.hear(Hold(LOST, PEER, 7, "box", (A,), is_all=False))
    it.backpressure.fill(it.place, it.wire, LOST, (A,), b"")
    assert it.wire.heard() == []
    assert not it.changes


def test_a_word_for_this_endpoint_has_its_publishers_look_again_when_it_is_news() -> None:
    it = world()
    held = Hold(ME, FAR, 7, "box", (A,), is_all=False)
    it.backpressure.hear(held)
    it.backpressure.hear(held)
    assert len(it.changes) == 1
    assert it.backpressure.holds.holders(A)
    it.backpressure.forget_endpoint(FAR)
    it.backpressure.forget_endpoint(FAR)
    assert len(it.changes) == 2
    assert not it.backpressure.holds.holders(A)


def test_words_are_said_again_each_second_and_others_are_forgotten_in_time() -> None:
    it = world()
    it.backpressure.fill(it.place, it.wire, FAR, (A,), b"")
    it.backpressure.hear(Hold(ME, FAR, 7, "box", (A,), is_all=False))
    it.wire.heard()
    for _ in range(3):
        assert it.backpressure.tick(1.0) == []
        assert it.wire.heard() == [word(A)]
    assert len(it.changes) == 2, "heard, and forgotten"


STEPS = st.tuples(
    st.sampled_from(["fill", "exhaust", "relieve", "forget"]), st.integers(0, 3), st.integers(0, 2)
)


@given(st.lists(STEPS, max_size=60))
def test_a_link_is_withheld_exactly_while_a_place_that_it_feeds_is_exhausted(steps) -> None:
    it, wires, places = world(), [Wire() for _ in range(4)], [Place() for _ in range(3)]
    for each in places:
        it.backpressure.add(each, "box")
    held: set[tuple[int, int]] = set()
    gone: set[int] = set()
    for step, number, at in steps:
        match step:
            case "exhaust":
                places[at].is_exhausted = True
            case "fill" if number not in gone:
                it.backpressure.fill(places[at], wires[number], FAR, (A,), b"")
                held |= {(number, at)} if places[at].is_exhausted else set()
            case "relieve":
                places[at].is_exhausted = False
                it.backpressure.relieve(places[at], has_room=True)
                held = {pair for pair in held if pair[1] != at}
            case "forget" if number not in gone:
                it.backpressure.forget(wires[number])
                gone.add(number)
        for place, each in enumerate(wires):
            if place not in gone:
                assert each.link.is_withheld == any(number == place for number, _ in held)
