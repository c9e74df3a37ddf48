"""Every interleaving of two endpoints with up to three connections, and faults at any point.

The network is TCP as a pessimist sees it. The messages of one connection stay in order; those of
different connections do not. A connection may **break** at any point: what was on its way arrives
or not, and either end notices at any time later. Either end may **hang up** at any point: what it
has sent arrives, and then the end of the stream. It does so when its handshake takes too long, or
to end a peering. Since a connection may be dialled at any point too, even after the others have
failed, this covers dialling again.

Both endpoints are real handshakes and real directories. What an endpoint does about an event
depends on nothing but its own state, so it is computed once for each pair of them; the exploration
itself only moves numbers about.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from copy import deepcopy
from typing import NamedTuple

import pytest

from handshake.directory import ConnectionId, PeerDirectory, Standing
from handshake.effects import Effect, Established, Failed, Reconsider, Redundant, Send
from handshake.machine import Handshake
from handshake.states import State
from wire.clocks import VectorTime
from wire.identifiers import EndpointId
from wire.messages import HandshakeMessage

A, B = EndpointId(bytes(15) + b"\x01"), EndpointId(bytes(15) + b"\x02")
"""A originates. In what follows, side 0 is A and side 1 is B."""

START, LOST, HANG_UP = "start", "lost", "hang up"
END_OF_STREAM = -1


class NoNews:
    """Two endpoints that have heard of nobody."""

    def knowledge(self):
        return VectorTime()

    def news_for(self, knowledge):
        return ()


class Driver:
    """One endpoint: carries out effects as a driver has to, and keeps calls of ``peer()``."""

    def __init__(self, local: EndpointId, remote: EndpointId, diallers: tuple[int, ...], side: int):
        self.directory = PeerDirectory(local)
        self.remote = remote
        self.handshakes = [
            Handshake(
                connection=ConnectionId(number),
                dialled=dialler == side,
                directory=self.directory,
                source=NoNews(),
            )
            for number, dialler in enumerate(diallers)
        ]
        self.phases = ["absent"] * len(diallers)  # then handshake, perhaps peering, closed
        self.calls = ["pending" if dialler == side else "none" for dialler in diallers]

    def key(self):
        machines = tuple((m.state, m.peer, m._is_introduced) for m in self.handshakes)
        candidates = tuple(self.directory._candidates.get(self.remote, ()))
        peered = self.directory.connection(self.remote)
        return machines, tuple(self.phases), tuple(self.calls), candidates, peered

    def handle(self, number: int, event: str | HandshakeMessage) -> None:
        """Take in one event; what it leads to is in ``sent``, ``failed`` and ``given_up``."""
        self.sent: list[tuple[int, HandshakeMessage | None]] = []  # None: the end of the stream
        self.failed: list[int] = []
        self.given_up: list[int] = []  # because of another connection
        if self.phases[number] == "peering":  # whatever comes, it is the end of the peering
            self._close(number)
            assert self.directory.release(self.remote, ConnectionId(number)) is None
        else:
            self._apply(number, self._feed(number, event))
        self._wake_joined_calls()

    def _feed(self, number: int, event: str | HandshakeMessage):
        handshake = self.handshakes[number]
        if event == START:
            self.phases[number] = "handshake"
            return handshake.start()
        if event == LOST:
            return handshake.connection_lost()
        return handshake.timed_out() if event == HANG_UP else handshake.receive(event)

    def _apply(self, number: int, effects: tuple[Effect, ...]) -> None:
        for effect in effects:
            match effect:
                case Send(message):
                    self.sent.append((number, message))
                case Established():
                    self._on_established(number, effect)
                case Redundant(peer):
                    assert peer == self.remote
                    self.given_up.append(number)
                    self._on_over(number, peer)
                case Failed(peer=peer):
                    self.failed.append(number)
                    self._on_over(number, peer)
                case Reconsider(connection):
                    self._apply(connection, self.handshakes[connection].reconsider())

    def _on_established(self, number: int, effect: Established) -> None:
        assert effect.peer == self.remote
        self.phases[number] = "peering"
        if self.calls[number] == "pending":
            self.calls[number] = "true"
        if effect.replaces is not None:
            self.given_up.append(effect.replaces)
            self._close(effect.replaces)

    def _on_over(self, number: int, peer: EndpointId | None) -> None:
        self._close(number)
        if self.calls[number] == "pending":
            self.calls[number] = "false" if peer is None else "joined"

    def _close(self, number: int) -> None:
        assert self.phases[number] in ("handshake", "peering"), f"{number} is closed twice"
        self.phases[number] = "closed"
        self.sent.append((number, None))

    def _wake_joined_calls(self) -> None:
        standing = self.directory.standing(self.remote)
        for number, call in enumerate(self.calls):
            if call == "joined" and standing is not Standing.DECIDING:
                self.calls[number] = "true" if standing is Standing.PEERED else "false"


class Answer(NamedTuple):
    """What an endpoint does about one event in one state."""

    state: int
    sent: tuple[tuple[int, int], ...]
    """Connection, and number of the message or ``END_OF_STREAM``, in order."""
    failed: tuple[int, ...]
    given_up: tuple[int, ...]


class Messages:
    """Numbers for messages, because they are hashed faster."""

    def __init__(self):
        self.known: list[HandshakeMessage] = []

    def number(self, message: HandshakeMessage | None) -> int:
        if message is None:
            return END_OF_STREAM
        if message not in self.known:
            self.known.append(message)
        return self.known.index(message)


class Endpoint:
    """All states of one endpoint that were reached so far, and what it does in them."""

    def __init__(self, driver: Driver, messages: Messages):
        self.messages = messages
        self.drivers: list[Driver] = []
        self.numbers: dict[object, int] = {}
        self.answers: dict[tuple[int, int, str | int], Answer] = {}
        self.intern(driver)

    def intern(self, driver: Driver) -> int:
        number = self.numbers.setdefault(driver.key(), len(self.drivers))
        if number == len(self.drivers):
            self.drivers.append(driver)
        return number

    def answer(self, state: int, connection: int, event: str | int) -> Answer:
        known = self.answers.get((state, connection, event))
        if known is None:
            driver = deepcopy(self.drivers[state])
            driver.handle(
                connection, event if isinstance(event, str) else self.messages.known[event]
            )
            sent = tuple((to, self.messages.number(message)) for to, message in driver.sent)
            failed, given_up = tuple(driver.failed), tuple(driver.given_up)
            known = Answer(self.intern(driver), sent, failed, given_up)
            self.answers[state, connection, event] = known
        return known


class Link(NamedTuple):
    """One connection, between the two endpoints."""

    inboxes: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    is_broken: bool = False
    has_fault: bool = False

    def with_inbox(self, side: int, inbox: tuple[int, ...]) -> Link:
        inboxes = (inbox, self.inboxes[1]) if side == 0 else (self.inboxes[0], inbox)
        return Link(inboxes, self.is_broken, self.has_fault)


class World(NamedTuple):
    """One state of everything."""

    sides: tuple[int, int]
    links: tuple[Link, ...]
    faults_left: int

    def with_link(self, connection: int, link: Link) -> World:
        links = (*self.links[:connection], link, *self.links[connection + 1 :])
        return World(self.sides, links, self.faults_left)

    def with_fault(self, connection: int, *, is_broken: bool) -> World:
        link = Link(self.links[connection].inboxes, is_broken, has_fault=True)
        return self.with_link(connection, link)._replace(faults_left=self.faults_left - 1)


class Exploration:
    """Visits every state that two endpoints can reach, and checks each."""

    def __init__(self, diallers: str, faults_max: int, *, opens_at_once: bool = False):
        self.diallers = tuple("AB".index(dialler) for dialler in diallers)
        self.opens_at_once = opens_at_once
        self.messages = Messages()
        self.endpoints = (
            Endpoint(Driver(A, B, self.diallers, 0), self.messages),
            Endpoint(Driver(B, A, self.diallers, 1), self.messages),
        )
        self.begin = World((0, 0), (Link(),) * len(diallers), faults_max)
        self.peered = self.free = 0

    def run(self) -> int:
        """Give the number of states."""
        seen = {self.begin}
        stack = [self.begin]
        while stack:
            world = stack.pop()
            self.check_state(world)
            successors = self.successors(world)
            if not successors:
                self.check_end(world)
            for successor in successors:
                if successor not in seen:
                    seen.add(successor)
                    stack.append(successor)
        return len(seen)

    def drivers(self, world: World) -> tuple[Driver, Driver]:
        a, b = world.sides
        return self.endpoints[0].drivers[a], self.endpoints[1].drivers[b]

    def successors(self, world: World) -> list[World]:
        result: list[World] = []
        drivers = self.drivers(world)
        for connection, link in enumerate(world.links):
            phases = [driver.phases[connection] for driver in drivers]
            if phases == ["absent", "absent"]:
                if self.may_dial(drivers, connection):
                    result.append(self.dialled(world, connection))
                continue
            for side in (0, 1):
                if phases[side] != "closed":
                    result += self.moves(world, side, connection, phases[side] == "absent")
            if world.faults_left and not link.is_broken and phases != ["closed", "closed"]:
                result.append(world.with_fault(connection, is_broken=True))
        return result

    def may_dial(self, drivers: tuple[Driver, Driver], connection: int) -> bool:
        """Dial in order: connections with the same dialler differ by their numbers only."""
        dialler = self.diallers[connection]
        earlier = [c for c in range(connection) if self.diallers[c] == dialler]
        return all(drivers[dialler].phases[c] != "absent" for c in earlier)

    def dialled(self, world: World, connection: int) -> World:
        dialler = self.diallers[connection]
        world = self.after(world, dialler, connection, START)
        if self.opens_at_once:
            world = self.after(world, 1 - dialler, connection, START)
            for side in (0, 1):
                world = self.after_next_message(world, side, connection)
        return world

    def moves(self, world: World, side: int, connection: int, is_absent: bool) -> list[World]:
        link = world.links[connection]
        if is_absent:
            return [] if link.is_broken else [self.after(world, side, connection, START)]
        result = []
        if link.inboxes[side]:
            result.append(self.after_next_message(world, side, connection))
        if link.is_broken:
            result.append(self.after(world, side, connection, LOST))
        elif world.faults_left:
            faulty = world.with_fault(connection, is_broken=False)
            result.append(self.after(faulty, side, connection, HANG_UP))
        return result

    def after_next_message(self, world: World, side: int, connection: int) -> World:
        link = world.links[connection]
        message, *rest = link.inboxes[side]
        world = world.with_link(connection, link.with_inbox(side, tuple(rest)))
        return self.after(world, side, connection, LOST if message == END_OF_STREAM else message)

    def after(self, world: World, side: int, connection: int, event: str | int) -> World:
        answer = self.endpoints[side].answer(world.sides[side], connection, event)
        sides = (answer.state, world.sides[1]) if side == 0 else (world.sides[0], answer.state)
        phases = self.endpoints[1 - side].drivers[world.sides[1 - side]].phases
        links = list(world.links)
        for to, message in answer.sent:
            link = links[to]
            if not link.is_broken and phases[to] != "closed":
                link = link.with_inbox(1 - side, (*link.inboxes[1 - side], message))
            links[to] = link.with_inbox(side, ()) if message == END_OF_STREAM else link
        world = World(sides, tuple(links), world.faults_left)
        self.check_step(world, side, answer)
        return world

    def check_step(self, world: World, side: int, answer: Answer) -> None:
        for connection in answer.failed:
            assert world.links[connection].has_fault, "a handshake failed without a fault"
        for connection in answer.given_up if side == 1 else ():
            a, _ = self.drivers(world)
            assert a.phases[connection] == "closed", "B gave up what A still wants"

    def check_state(self, world: World) -> None:
        """See that a side with a sound peering is not alone with it.

        The other side has it, or answered its proposal. Hence a call of ``peer()`` that lost
        against it finds the directory ``PEERED`` or ``DECIDING``, on either side.
        """
        drivers = self.drivers(world)
        for driver, other in (drivers, drivers[::-1]):
            peering = driver.directory.connection(driver.remote)
            assert driver.phases.count("peering") == (peering is not None), "a second peering"
            if peering is not None and not world.links[peering].has_fault:
                is_acknowledged = other.handshakes[peering].state is State.AWAIT_ORIGINATOR_ACK
                assert other.phases[peering] == "peering" or is_acknowledged, "only one side peers"

    def check_end(self, world: World) -> None:
        drivers = self.drivers(world)
        peering, same = (driver.directory.connection(driver.remote) for driver in drivers)
        assert peering == same, "the two sides disagree"
        for driver in drivers:
            for connection, phase in enumerate(driver.phases):
                expected = ("peering",) if connection == peering else ("closed", "absent")
                assert phase in expected, "a handshake hangs, or a peering is not in the directory"
            assert not driver.directory._candidates, "a claim was never released"
        self.check_calls(world, drivers, peering)
        self.peered += peering is not None
        self.free += peering is None

    def check_calls(
        self, world: World, drivers: tuple[Driver, Driver], peering: int | None
    ) -> None:
        calls = [drivers[side].calls[connection] for connection, side in enumerate(self.diallers)]
        assert set(calls) <= {"true", "false"}, "a call of peer() waits forever"
        assert peering is None or calls[peering] == "true"
        if not any(link.has_fault for link in world.links):
            assert peering is not None, "nothing happened, and there is no peering"
            assert set(calls) == {"true"}, "nothing happened, and a call failed"


@pytest.fixture(autouse=True)
def _no_garbage() -> Iterator[None]:
    """Keep the collector from walking through all states again and again: none is garbage."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("diallers", ["A", "B", "AA", "AB", "BB", "AAA", "AAB", "ABB", "BBB"])
def test_without_faults_exactly_one_peering_is_agreed_and_all_calls_succeed(diallers):
    exploration = Exploration(diallers, faults_max=0)
    assert exploration.run() > 10
    assert exploration.peered
    assert not exploration.free


@pytest.mark.parametrize("diallers", ["A", "B", "AA", "AB", "BB"])
def test_with_any_faults_two_connections_end_in_one_peering_or_in_none(diallers):
    """As many faults as matter: a connection that both ends have given up has no more of them."""
    exploration = Exploration(diallers, faults_max=2 * len(diallers))
    assert exploration.run() > 100
    assert exploration.free


@pytest.mark.parametrize("diallers", ["AA", "AB", "BB"])
def test_when_one_of_two_connections_fails_the_other_one_may_become_the_peering(diallers):
    exploration = Exploration(diallers, faults_max=1)
    assert exploration.run() > 1000
    assert exploration.peered > exploration.free > 0


@pytest.mark.parametrize(
    ("diallers", "faults_max"), [("AAA", 1), ("AAB", 2), ("ABB", 2), ("BBB", 1)]
)
def test_with_faults_three_connections_end_in_one_peering_or_in_none(diallers, faults_max):
    """The preambles are exchanged on dialling, and faults are few, to keep the states few.

    The tests with two connections have neither restriction.
    """
    exploration = Exploration(diallers, faults_max, opens_at_once=True)
    assert exploration.run() > 5000
    assert exploration.peered > exploration.free > 0
