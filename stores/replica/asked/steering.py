"""What a person has a group do with its members: who votes, who leads, who there is. Pure.

An order goes to the leader, again and again until it is done: so it outlives a change of the
leader, and no answer that is lost matters. What a leader does for it is safe to ask for twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from stores.group.effects import Effect
from stores.group.electorate import HEALTHY_TICKS, Electorate
from stores.group.member import Member
from stores.group.membership import MemberStatus
from stores.group.positions import MemberId
from stores.group.quorum import ChangeRefusal
from stores.group.words import Order, Steer, Steered

ORDER_TICKS: Final = 3
"""Ticks after which an order that is not done is given again."""


@dataclass(slots=True)
class _Open:
    order: Order
    name: str
    ticks: int = ORDER_TICKS
    text: str = "no leader has answered"


class Steering:
    """The orders that were given at one replica."""

    def __init__(self) -> None:
        """Have given none."""
        self._open: dict[int, _Open] = {}

    def __len__(self) -> int:
        """Count the orders that are not ended."""
        return len(self._open)

    def begin(self, token: int, order: Order, name: str) -> Steer:
        """Give an order."""
        self._open[token] = _Open(order, name)
        return Steer(token, order, name)

    def explain(self, token: int) -> str:
        """Say what was in the way of an order last; empty for one that is not open."""
        found = self._open.get(token)
        return "" if found is None else found.text

    def end(self, token: int) -> None:
        """Forget an order."""
        self._open.pop(token, None)

    def tick(self) -> list[Steer]:
        """Let a tick pass; gives the orders to repeat."""
        due: list[Steer] = []
        for token, each in self._open.items():
            each.ticks -= 1
            if each.ticks <= 0:
                each.ticks = ORDER_TICKS
                due.append(Steer(token, each.order, each.name))
        return due

    def hear(self, answer: Steered) -> bool:
        """Take in a leader's answer; tells whether the order is done, which ends it."""
        found = self._open.get(answer.ticket)
        if found is None:
            return False
        found.text = answer.text
        if answer.is_done:
            del self._open[answer.ticket]
        return answer.is_done


def obey(member: Member, steer: Steer) -> tuple[Steered, list[Effect]]:
    """Do at the leader what is ordered, or say what is in the way."""
    text, effects = _carry_out(member, steer)
    answer = Steered(steer.ticket, text is None, text or "", tuple(member.members()))
    return answer, effects


def _carry_out(member: Member, steer: Steer) -> tuple[str | None, list[Effect]]:
    """Give what is in the way, or ``None``, and what follows."""
    name = steer.name
    if member.leading is None or not member.leading.is_ready:
        return "the leader does not serve yet", []
    voters = member.journal.voters.current
    voter = next((each for each in voters if each.name == name), None)
    match steer.order:
        case Order.TELL:
            return None, []
        case Order.LEAD:
            return _hand_over(member, voter, name)
        case Order.ADD if voter is None:
            found = _newest(member.members(), name)
            if found is None:
                return f"no replica at an endpoint called {name} is in touch with the leader", []
            return _change(member.change((*voters, found.member)))
        case Order.ADD if voter is not None and _is_back(member.leading.electorate, voter):
            return _make_room(member, member.leading.electorate, voter)
        case Order.REMOVE if voter is not None:
            return _change(member.change(tuple(each for each in voters if each != voter)))
        case Order.REMOVE if name not in member.journal.voters.dismissed:  # It may yet be declared.
            return _change(member.dismiss(name))
        case _ if not member.state.is_voters_committed:
            return "the change is not committed yet", []
        case _:
            return None, []


def _make_room(member: Member, electorate: Electorate, voter: MemberId) -> tuple[str, list[Effect]]:
    """Take the vote of a life that is gone: its next one is added as the order is repeated."""
    if electorate.is_there(voter):
        return f"{voter.name} is there again, and its last life may be there still", []
    others = tuple(each for each in member.journal.voters.current if each != voter)
    return _change(member.change(others, is_dismissal=False))


def _hand_over(
    member: Member, voter: MemberId | None, name: str
) -> tuple[str | None, list[Effect]]:
    if voter == member.id:
        return None, []
    if voter is None:
        return f"{name} is no voter: add it first", []
    has_begun, effects = member.transfer(voter)
    if not has_begun:
        return f"{name} is not in touch with the leader", effects
    return f"the leader waits until {name} is level", effects


def _change(done: tuple[ChangeRefusal | None, list[Effect]]) -> tuple[str, list[Effect]]:
    refusal, effects = done
    return "the change is not committed yet" if refusal is None else refusal.value, effects


def _newest(members: list[MemberStatus], name: str) -> MemberStatus | None:
    """Give the life of a name that was heard last; the earlier ones are gone."""
    found = [each for each in members if each.member.name == name and not each.is_voter]
    return min(found, key=lambda each: each.silent_ticks, default=None)


def _is_back(electorate: Electorate, voter: MemberId) -> bool:
    """Tell whether another life of a voter is in touch, and the voter was not heard since."""
    found = _newest(electorate.members(), voter.name)
    if found is None or found.silent_ticks > HEALTHY_TICKS:
        return False
    return not electorate.is_there(voter) or electorate.is_newer(found.member, voter)
