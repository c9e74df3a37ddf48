"""What a replica has its leader do for persons: orders, and requests of no writer. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from stores.group.effects import Effect
from stores.group.words import Ask, Order, Steer, Steered
from stores.replica.asked.asking import FIRST_TICKET, Asking
from stores.replica.asked.steering import Steering, obey
from stores.replica.effects import AskDone, OrderDone
from stores.replica.standing import Standing
from wire.identifiers import EndpointId

CarryOut = Callable[[Iterable[Effect]], None]
"""Does what the member here asks."""


class Errands:
    """The orders and requests that were given at one replica, and those that it obeys as leader."""

    def __init__(self, standing: Standing, carry_out: CarryOut) -> None:
        """Have none."""
        self._standing = standing
        self._carry_out = carry_out
        self._steering = Steering()
        self._asking = Asking(standing.outbox.writer.incarnation)

    @property
    def is_any_open(self) -> bool:
        """True while something is asked for again and again."""
        return bool(self._steering or self._asking)

    def tick(self) -> None:
        """Let a tick pass: what is not done is asked for again."""
        for steer in self._steering.tick():
            self._steer(steer)
        for asked in self._asking.tick():
            self._ask(*asked)

    # -- orders ----------------------------------------------------------------------------------

    def begin_order(self, token: int, order: Order, name: str) -> None:
        """Have the leader do something with a member; ``OrderDone`` tells that it is done."""
        self._steer(self._steering.begin(token, order, name))

    def explain_order(self, token: int) -> str:
        """Say what was in the way of an order last; empty once it is done."""
        return self._steering.explain(token)

    def end_order(self, token: int) -> None:
        """Give an order no more."""
        self._steering.end(token)

    def obey(self, where: EndpointId | None, steer: Steer) -> None:
        """Do at the leader what was ordered, here or at another endpoint."""
        assert self._standing.member is not None
        answer, effects = obey(self._standing.member, steer)
        self._carry_out(effects)
        if where is None:
            self.hear_order(answer)
        else:
            self._standing.send_to(where, answer)

    def hear_order(self, answer: Steered) -> None:
        """Take in what a leader says of an order."""
        if self._steering.hear(answer):
            self._standing.tell(OrderDone(answer.ticket, answer.members))

    def _steer(self, steer: Steer) -> None:
        leader = self._standing.leader
        if leader == self._standing.own:
            self.obey(None, steer)
        elif leader is not None:
            self._standing.send(leader, steer)

    # -- requests --------------------------------------------------------------------------------

    def begin_ask(self, token: int, request: object) -> None:
        """Ask the group for something in no writer's name; ``AskDone`` tells that it is done."""
        self._ask(*self._asking.begin(token, request))

    def end_ask(self, token: int) -> None:
        """Ask no more."""
        self._asking.end(token)

    def declined(self, ticket: int) -> None:
        """Learn that a request has no answer where it went."""
        self._asking.declined(ticket)

    def resume(self) -> None:
        """Ask again for all that has no answer: another leader serves."""
        for asked in self._asking.again():
            self._ask(*asked)

    def hear_ask(self, ticket: int, refusal: str = "", answer: object = None) -> bool:
        """Take in an answer, if it is one to such a request; tells whether it is."""
        if ticket <= FIRST_TICKET:
            return False
        token = self._asking.answered(ticket)
        if token is not None:
            self._standing.tell(AskDone(token, refusal, answer))
        return True

    def _ask(self, ticket: int, request: object) -> None:
        leader, member = self._standing.leader, self._standing.member
        if leader is None or member is None:
            return
        if leader == self._standing.own:
            self._carry_out(member.propose((None, ticket), request))
        else:
            self._standing.send(leader, Ask(ticket, request))
