"""Who is held up by whom, and that everybody gets free."""

from __future__ import annotations

from types import SimpleNamespace

from endpoint.holding import Holding
from endpoint.outbox import Inflow
from hypothesis import given, strategies as st


class Link(SimpleNamespace):
    """As much of a connection as holding needs."""

    __hash__ = object.__hash__


def link() -> Link:
    return Link(inflow=Inflow())


def test_a_link_gets_free_when_the_last_of_its_targets_has_room() -> None:
    holding, held = Holding(), link()
    holding.hold(held, "mailbox")
    holding.hold(held, "mailbox")
    holding.hold(held, "outbox")
    assert holding.is_holding("mailbox")
    assert holding.release("mailbox") == (held,)
    assert held.inflow.is_blocked
    assert holding.release("outbox") == (held,)
    assert not held.inflow.is_blocked
    assert holding.release("outbox") == ()


def test_a_link_that_is_gone_is_held_by_nobody() -> None:
    holding, gone, other = Holding(), link(), link()
    for target in ("a", "b"):
        holding.hold(gone, target)
    holding.hold(other, "b")
    holding.forget(gone)
    assert not holding.is_holding("a")
    assert holding.release("b") == (other,)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["hold", "release", "forget"]), st.integers(0, 3), st.integers(0, 2)
        )
    )
)
def test_a_link_is_blocked_exactly_while_a_target_holds_it(steps) -> None:
    holding, links = Holding(), [link() for _ in range(4)]
    held: set[tuple[int, int]] = set()
    gone: set[int] = set()
    for action, number, target in steps:
        if action == "hold" and number not in gone:
            holding.hold(links[number], target)
            held.add((number, target))
        elif action == "release":
            released = {links.index(each) for each in holding.release(target)}
            assert released == {each for each, by in held if by == target}
            held = {pair for pair in held if pair[1] != target}
        elif action == "forget":
            holding.forget(links[number])
            gone.add(number)
            held = {pair for pair in held if pair[0] != number}
        for place, each in enumerate(links):
            if place not in gone:
                assert each.inflow.is_blocked == any(number == place for number, _ in held)
        for by in range(3):
            assert holding.is_holding(by) == any(target == by for _, target in held)
