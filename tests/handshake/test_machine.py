"""The machine of one end: the seed's diagram, the table of moves, and all that may go wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from handshake.directory import ConnectionId, PeerDirectory, Standing
from handshake.effects import Established, Failed, Reconsider, Redundant, Send
from handshake.machine import OUR_VERSIONS, REASON_SIZE_MAX, Handshake
from handshake.states import EXPECTED, State, Transition, transitions
from wire.clocks import LamportTime, VectorTime
from wire.errors import ErrorCode, LocalProtocolError, PeerNotTrusted
from wire.identifiers import EndpointId
from wire.limits import FRAME_SIZE_MAX, FRAME_SIZE_MIN
from wire.messages import (
    Announcement,
    DropConn,
    HandshakeMessage,
    Hello,
    OriginatorAck,
    OriginatorSyn,
    Preamble,
    ResponderSynAck,
)

LOW, HIGH, OTHER = (EndpointId(bytes(15) + bytes((last,))) for last in (1, 9, 5))
NOTHING = VectorTime()
HELLO_FROM_LOW, HELLO_FROM_HIGH = Hello(LOW, NOTHING), Hello(HIGH, NOTHING)
SYN_FROM_LOW = OriginatorSyn(LOW, NOTHING, ())
SYN_ACK, ACK = ResponderSynAck(()), OriginatorAck()
DROP = DropConn(ErrorCode.SHUTTING_DOWN, "good night")
REDUNDANT = DropConn(ErrorCode.REDUNDANT_CONNECTION, "another one")

MESSAGES = (
    OUR_VERSIONS,
    HELLO_FROM_LOW,
    HELLO_FROM_HIGH,
    SYN_FROM_LOW,
    OriginatorSyn(HIGH, NOTHING, ()),
    SYN_ACK,
    ACK,
    DROP,
    REDUNDANT,
)


class Source:
    """What one endpoint has heard, as far as a handshake asks."""

    def __init__(self, *announcements: Announcement):
        self.announcements = announcements

    def knowledge(self):
        return VectorTime({item.origin: item.time for item in self.announcements})

    def news_for(self, knowledge):
        return tuple(a for a in self.announcements if a.time > knowledge.time_of(a.origin))


class End:
    """One endpoint with any number of handshakes, and a driver that keeps what it is told."""

    def __init__(self, local: EndpointId, *announcements: Announcement, versions=OUR_VERSIONS):
        self.directory = PeerDirectory(local)
        self.source = Source(*announcements)
        self.versions = versions
        self.objection: str | None = None
        self.frame_size_max = FRAME_SIZE_MAX
        self.vetted: list[tuple[EndpointId, tuple[Announcement, ...]]] = []
        self.handshakes: list[Handshake] = []

    def connect(self, *, dialled: bool) -> Handshake:
        self.handshakes.append(
            Handshake(
                connection=ConnectionId(len(self.handshakes)),
                dialled=dialled,
                directory=self.directory,
                source=self.source,
                versions=self.versions,
                vet=self.vet,
                frame_size_max=self.frame_size_max,
            )
        )
        return self.handshakes[-1]

    def vet(self, peer: EndpointId, news: tuple[Announcement, ...]) -> str | None:
        self.vetted.append((peer, news))
        return self.objection

    def connect_and_receive(self, *messages, dialled: bool = False) -> Handshake:
        handshake = self.connect(dialled=dialled)
        handshake.start()
        for message in messages:
            handshake.receive(message)
        return handshake


def announcement(origin: EndpointId, time: int) -> Announcement:
    return Announcement(origin, LamportTime(time), (), ("/news",), (), forwarding=True)


def converse(
    dialler: Handshake, acceptor: Handshake
) -> tuple[list[str], list[object], list[object]]:
    """Let two ends talk until nobody has anything to say; give the talk, and what else they did."""
    said: list[str] = []
    done: dict[Handshake, list[object]] = {dialler: [], acceptor: []}
    queue = [(dialler, effect) for effect in dialler.start()]
    queue += [(acceptor, effect) for effect in acceptor.start()]
    while queue:
        end, effect = queue.pop(0)
        if not isinstance(effect, Send):
            done[end].append(effect)
            continue
        said.append(
            f"{'dialler' if end is dialler else 'acceptor'}: {type(effect.message).__name__}"
        )
        other = acceptor if end is dialler else dialler
        if not other.is_over:
            queue += [(other, reply) for reply in other.receive(effect.message)]
    return said, done[dialler], done[acceptor]


# The seed's diagram


def test_the_diagram_of_the_seed():
    """Peer A has the larger id, and dials.

    ::

        Peer A                                    Peer B
          |                                         |
          | try to connect via TCP                  |
          |                                         |
          | (hello)                                 |
          +---------------------------------------->+
          |                        (originator_syn) |
          +<----------------------------------------+
          | (responder_syn_ack)                     |
          +---------------------------------------->+
          |                        (originator_ack) |
          +<----------------------------------------+
    """
    a, b = End(HIGH), End(LOW)
    said, at_a, at_b = converse(a.connect(dialled=True), b.connect(dialled=False))
    assert said == [
        "dialler: Preamble",
        "dialler: Hello",
        "acceptor: Preamble",
        "acceptor: OriginatorSyn",
        "dialler: ResponderSynAck",
        "acceptor: OriginatorAck",
    ]
    assert at_a == [Established(LOW, 2, False, NOTHING, (), (), None, FRAME_SIZE_MAX)]
    assert at_b == [Established(HIGH, 2, True, NOTHING, (), (), None, FRAME_SIZE_MAX)]
    assert a.directory.peers() == (LOW,)
    assert b.directory.peers() == (HIGH,)


def test_when_the_smaller_id_dials_the_acceptor_answers_with_a_hello():
    a, b = End(LOW), End(HIGH)
    said, at_a, at_b = converse(a.connect(dialled=True), b.connect(dialled=False))
    assert said == [
        "dialler: Preamble",
        "dialler: Hello",
        "acceptor: Preamble",
        "acceptor: Hello",
        "dialler: OriginatorSyn",
        "acceptor: ResponderSynAck",
        "dialler: OriginatorAck",
    ]
    assert at_a == [Established(HIGH, 2, True, NOTHING, (), (), None, FRAME_SIZE_MAX)]
    assert at_b == [Established(LOW, 2, False, NOTHING, (), (), None, FRAME_SIZE_MAX)]


@pytest.mark.parametrize("larger_dials", [True, False])
def test_each_side_learns_how_large_a_frame_the_other_takes(larger_dials):
    large, small = End(HIGH), End(LOW)
    large.frame_size_max, small.frame_size_max = FRAME_SIZE_MIN, FRAME_SIZE_MIN + 7
    ends = (large, small) if larger_dials else (small, large)
    _, at_first, at_second = converse(ends[0].connect(dialled=True), ends[1].connect(dialled=False))
    assert at_first[0].frame_size_max == ends[1].frame_size_max
    assert at_second[0].frame_size_max == ends[0].frame_size_max


def test_both_say_it_in_their_first_message():
    for local, dialled in ((LOW, True), (HIGH, True), (LOW, False), (HIGH, False)):
        end = End(local)
        end.frame_size_max = FRAME_SIZE_MIN
        handshake = end.connect(dialled=dialled)
        effects = [*handshake.start(), *handshake.receive(OUR_VERSIONS)]
        if not dialled:
            effects += handshake.receive(HELLO_FROM_HIGH if local == LOW else HELLO_FROM_LOW)
        _, first, *_ = [effect.message for effect in effects if isinstance(effect, Send)]
        assert type(first) is (OriginatorSyn if (local, dialled) == (LOW, False) else Hello)
        assert first.frame_size_max == FRAME_SIZE_MIN


# The table of moves


WAYS: dict[State, tuple[EndpointId, bool, tuple[HandshakeMessage, ...]]] = {
    State.AWAIT_PREAMBLE: (LOW, False, ()),
    State.AWAIT_HELLO: (LOW, False, (OUR_VERSIONS,)),
    State.AWAIT_ANSWER: (HIGH, True, (OUR_VERSIONS,)),
    State.PAUSED: (LOW, False, (OUR_VERSIONS, HELLO_FROM_HIGH)),
    State.AWAIT_ORIGINATOR_SYN: (HIGH, False, (OUR_VERSIONS, HELLO_FROM_LOW)),
    State.AWAIT_RESPONDER_SYN_ACK: (LOW, False, (OUR_VERSIONS, HELLO_FROM_HIGH)),
    State.AWAIT_ORIGINATOR_ACK: (HIGH, True, (OUR_VERSIONS, SYN_FROM_LOW)),
    State.ESTABLISHED: (LOW, False, (OUR_VERSIONS, HELLO_FROM_HIGH, SYN_ACK)),
    State.CLOSED: (LOW, False, (OUR_VERSIONS, DROP)),
}
"""How to come to a state: at which endpoint, whether it dialled, and what it received."""


def in_state(state: State) -> tuple[End, Handshake]:
    """Bring a handshake into a state. For a pause there has to be another one to wait for."""
    local, dialled, messages = WAYS[state]
    end = End(local)
    if state is State.PAUSED:
        end.connect_and_receive(*messages)
    return end, end.connect_and_receive(*messages, dialled=dialled)


OPEN_STATES = [state for state in State if EXPECTED[state]]


@pytest.mark.parametrize("state", list(WAYS), ids=lambda state: state.name)
def test_every_state_can_be_reached(state):
    _, handshake = in_state(state)
    assert handshake.state is state


@pytest.mark.parametrize("message", MESSAGES, ids=str)
@pytest.mark.parametrize("state", OPEN_STATES, ids=lambda state: state.name)
def test_every_message_in_every_open_state_moves_on_or_fails_cleanly(state, message):
    end, handshake = in_state(state)
    known_peer = handshake.peer
    effects = handshake.receive(message)
    if type(message) in EXPECTED[state]:
        assert handshake.state in EXPECTED[state][type(message)]
    else:
        drop, failed = effects
        assert drop == Send(DropConn(ErrorCode.UNEXPECTED_HANDSHAKE_MESSAGE, failed.reason))
        assert type(message).__name__ in failed.reason
        assert failed == Failed(drop.message.code, failed.reason, known_peer)
        assert handshake.state is State.CLOSED
    if handshake.state is State.CLOSED:
        assert handshake._connection not in end.directory._candidates.get(HIGH, ())
        assert isinstance(effects[-1], Failed | Redundant)


Move = tuple[State, str, State]


def walk(make: Callable[[], Handshake], path: tuple[HandshakeMessage, ...]) -> Iterator[Move]:
    """Send every message in every state that one handshake can reach."""
    for message in (*MESSAGES, Preamble(8, 9)):
        handshake = make()
        for earlier in path:
            handshake.receive(earlier)
        before = handshake.state
        handshake.receive(message)
        if type(message) in EXPECTED[before]:
            yield before, type(message).__name__, handshake.state
        if not handshake.is_over:
            yield from walk(make, (*path, message))


def fresh(
    local: EndpointId, other: State | None, *, dialled: bool, objection: str | None = None
) -> Handshake:
    """Begin a handshake at an endpoint that has another one in this state, or none."""
    end = End(local) if other is None else in_state(other)[0]
    end.objection = objection
    return end.connect_and_receive(dialled=dialled)


def moves_by_messages() -> Iterator[Move]:
    others = (None, State.AWAIT_RESPONDER_SYN_ACK, State.ESTABLISHED)
    for local, other in [(HIGH, None), *((LOW, other) for other in others)]:
        for dialled in (True, False):
            yield from walk(partial(fresh, local, other, dialled=dialled), ())
    yield from walk(partial(fresh, LOW, None, dialled=True, objection="no role"), ())


def moves_by_calls() -> Iterator[Move]:
    started = End(LOW).connect_and_receive()
    yield State.NEW, "start()", started.state
    for outcome in (SYN_ACK, DROP):
        end, paused = in_state(State.PAUSED)
        end.handshakes[0].receive(outcome)
        paused.reconsider()
        yield State.PAUSED, "reconsider()", paused.state
    _, answered = in_state(State.AWAIT_ORIGINATOR_ACK)
    answered.reconsider()
    yield State.AWAIT_ORIGINATOR_ACK, "reconsider()", answered.state


def test_the_state_diagram_shows_all_that_happens_and_nothing_else():
    drawn = {
        (state, trigger, after) for state, trigger, afters in transitions() for after in afters
    }
    assert {*moves_by_messages(), *moves_by_calls()} == drawn


def test_the_state_diagram_begins_with_the_start():
    assert next(transitions()) == Transition(State.NEW, "start()", (State.AWAIT_PREAMBLE,))


@pytest.mark.parametrize("local", [LOW, HIGH], ids=["originator", "responder"])
def test_whom_there_is_something_against_is_refused_and_told_why(local):
    end = End(local)
    end.objection = "there is no role for you"
    handshake = end.connect(dialled=True)
    handshake.start()
    messages = (HELLO_FROM_HIGH, SYN_ACK) if local == LOW else (SYN_FROM_LOW,)
    effects = [handshake.receive(message) for message in (OUR_VERSIONS, *messages)][-1]
    drop, failed = effects
    assert drop == Send(DropConn(ErrorCode.NOT_AUTHORIZED, "there is no role for you"))
    assert isinstance(failed, Failed)
    assert (failed.code, failed.peer) == (ErrorCode.NOT_AUTHORIZED, handshake.peer)
    assert "there is no role for you" in failed.reason
    assert end.directory.standing(handshake.peer) is Standing.FREE


def test_a_handshake_that_is_over_takes_nothing_more():
    _, established = in_state(State.ESTABLISHED)
    for call in (
        lambda: established.receive(ACK),
        established.timed_out,
        established.connection_lost,
        lambda: established.refuse(ErrorCode.SHUTTING_DOWN, "good night"),
    ):
        with pytest.raises(LocalProtocolError, match="handed over"):
            call()
    assert established.reconsider() == ()


def test_a_closed_handshake_ignores_what_was_on_its_way():
    _, closed = in_state(State.CLOSED)
    assert closed.receive(ACK) == ()
    assert closed.timed_out() == ()
    assert closed.connection_lost() == ()
    assert closed.reconsider() == ()
    assert closed.refuse(ErrorCode.SHUTTING_DOWN, "good night") == ()


def test_a_handshake_starts_once_and_before_it_receives():
    handshake = End(LOW).connect(dialled=True)
    with pytest.raises(LocalProtocolError, match="start"):
        handshake.receive(OUR_VERSIONS)
    handshake.start()
    with pytest.raises(LocalProtocolError, match="once"):
        handshake.start()


# Versions


@pytest.mark.parametrize(
    ("dialling", "accepting"),
    [((1, 1), (2, 3)), ((2, 3), (1, 1))],
    ids=["older dials", "newer dials"],
)
def test_both_sides_refuse_versions_without_overlap_and_name_both(dialling, accepting):
    a, b = End(HIGH, versions=Preamble(*dialling)), End(LOW, versions=Preamble(*accepting))
    said, at_a, at_b = converse(a.connect(dialled=True), b.connect(dialled=False))
    assert at_a == at_b
    (failed,) = at_a
    assert failed.code is ErrorCode.PEER_INCOMPATIBLE
    assert f"dialling side speaks {dialling[0]} to {dialling[1]}" in failed.reason
    assert f"accepting side {accepting[0]} to {accepting[1]}" in failed.reason
    assert not any("OriginatorSyn" in line for line in said)


def test_the_drop_for_incompatible_versions_says_the_same_as_the_failure():
    handshake = End(LOW, versions=Preamble(2, 3)).connect_and_receive()
    drop, failed = handshake.receive(Preamble(4, 7))
    assert drop == Send(DropConn(ErrorCode.PEER_INCOMPATIBLE, failed.reason))


@pytest.mark.parametrize("other", [(1, 3), (2, 2), (3, 9), (1, 9)])
def test_versions_that_overlap_agree_on_the_highest_common_one(other):
    a, b = End(HIGH, versions=Preamble(2, 3)), End(LOW, versions=Preamble(*other))
    _, at_a, at_b = converse(a.connect(dialled=True), b.connect(dialled=False))
    assert at_a[0].version == at_b[0].version == min(3, other[1])


# Identities


def test_an_endpoint_cannot_be_its_own_peer():
    end = End(LOW)
    _, at_dialler, at_acceptor = converse(end.connect(dialled=True), end.connect(dialled=False))
    assert [type(effect) for effect in at_dialler + at_acceptor] == [Failed, Failed]
    assert {effect.code for effect in at_dialler + at_acceptor} == {ErrorCode.SELF_PEERING}
    assert end.directory.standing(LOW) is Standing.FREE


def test_another_endpoint_that_originates_with_our_id_is_refused():
    handshake = End(LOW).connect_and_receive(OUR_VERSIONS, dialled=True)
    drop, failed = handshake.receive(SYN_FROM_LOW)
    assert drop.message.code is failed.code is ErrorCode.SELF_PEERING


def test_the_larger_id_may_not_originate():
    handshake = End(LOW).connect_and_receive(OUR_VERSIONS, dialled=True)
    _, failed = handshake.receive(OriginatorSyn(HIGH, NOTHING, ()))
    assert failed.code is ErrorCode.UNEXPECTED_HANDSHAKE_MESSAGE


def test_nobody_else_may_originate_after_a_hello():
    handshake = End(HIGH).connect_and_receive(OUR_VERSIONS, HELLO_FROM_LOW)
    _, failed = handshake.receive(OriginatorSyn(OTHER, NOTHING, ()))
    assert failed.code is ErrorCode.UNEXPECTED_HANDSHAKE_MESSAGE
    assert failed.peer == LOW


# News


def test_each_side_tells_what_the_other_lacks_and_nothing_else():
    a = End(HIGH, announcement(HIGH, 3), announcement(OTHER, 7))
    b = End(LOW, announcement(LOW, 5), announcement(OTHER, 6))
    _, (at_a,), (at_b,) = converse(a.connect(dialled=True), b.connect(dialled=False))
    assert at_b.sent == at_a.received == (announcement(LOW, 5),)
    assert at_a.sent == at_b.received == (announcement(HIGH, 3), announcement(OTHER, 7))
    assert at_a.knowledge == b.source.knowledge()
    assert at_b.knowledge == a.source.knowledge()
    assert a.vetted == [(LOW, at_a.received)]
    assert b.vetted == [(HIGH, at_b.received)]


def test_a_paused_handshake_tells_what_is_news_when_it_goes_on():
    low = End(LOW)
    first = low.connect_and_receive(OUR_VERSIONS, HELLO_FROM_HIGH)
    paused = low.connect_and_receive(OUR_VERSIONS, HELLO_FROM_HIGH)
    low.source.announcements = (announcement(LOW, 1),)
    assert first.connection_lost()[-1] == Reconsider(ConnectionId(1))
    (syn,) = paused.reconsider()
    assert syn == Send(OriginatorSyn(LOW, low.source.knowledge(), (announcement(LOW, 1),)))


# More than one connection


def test_an_acceptor_that_has_to_wait_says_who_it_is_and_originates_later():
    low = End(LOW)
    first = low.connect_and_receive(OUR_VERSIONS, HELLO_FROM_HIGH)
    second = low.connect_and_receive(OUR_VERSIONS)
    assert second.receive(HELLO_FROM_HIGH) == (Send(HELLO_FROM_LOW),)
    *_, next_one = first.timed_out()
    assert next_one == Reconsider(ConnectionId(1))
    assert second.reconsider() == (Send(SYN_FROM_LOW),)


def test_an_acceptor_that_gives_way_says_who_it_is_first():
    low, _ = in_state(State.ESTABLISHED)
    second = low.connect_and_receive(OUR_VERSIONS)
    hello, drop, redundant = second.receive(HELLO_FROM_HIGH)
    assert hello == Send(HELLO_FROM_LOW)
    told = f"{LOW} and {HIGH} have another connection"
    assert drop == Send(DropConn(ErrorCode.REDUNDANT_CONNECTION, told))
    assert redundant == Redundant(HIGH)


def test_a_dialler_whose_connection_is_redundant_learns_with_whom():
    high = End(HIGH)
    handshake = high.connect_and_receive(OUR_VERSIONS, HELLO_FROM_LOW, dialled=True)
    assert handshake.receive(REDUNDANT) == (Redundant(LOW),)


def test_a_redundant_connection_with_nobody_is_a_failure():
    handshake = End(HIGH).connect_and_receive(OUR_VERSIONS, dialled=True)
    (failed,) = handshake.receive(REDUNDANT)
    assert failed.code is ErrorCode.REDUNDANT_CONNECTION
    assert failed.peer is None


def test_when_the_peering_stands_those_that_waited_give_way():
    low = End(LOW)
    first = low.connect_and_receive(OUR_VERSIONS, HELLO_FROM_HIGH)
    second = low.connect_and_receive(OUR_VERSIONS, HELLO_FROM_HIGH)
    ack, established, reconsider = first.receive(SYN_ACK)
    assert ack == Send(ACK)
    assert isinstance(established, Established)
    assert reconsider == Reconsider(ConnectionId(1))
    drop, redundant = second.reconsider()
    assert drop.message.code is ErrorCode.REDUNDANT_CONNECTION
    assert redundant == Redundant(HIGH)


def test_a_responder_follows_its_originator_to_a_new_connection():
    high = End(HIGH)
    high.connect_and_receive(OUR_VERSIONS, HELLO_FROM_LOW, SYN_FROM_LOW, ACK)
    unacknowledged = high.connect_and_receive(OUR_VERSIONS, HELLO_FROM_LOW, SYN_FROM_LOW)
    newest = high.connect_and_receive(OUR_VERSIONS, HELLO_FROM_LOW, SYN_FROM_LOW)
    established, reconsider = newest.receive(ACK)
    assert established.replaces == ConnectionId(0)
    assert reconsider == Reconsider(ConnectionId(1))
    assert unacknowledged.reconsider()[-1] == Redundant(LOW)
    assert high.directory.connection(LOW) == ConnectionId(2)


def test_a_late_proposal_on_a_dead_connection_does_not_harm_the_peering():
    high = End(HIGH)
    high.connect_and_receive(OUR_VERSIONS, HELLO_FROM_LOW, SYN_FROM_LOW, ACK)
    late = high.connect_and_receive(OUR_VERSIONS, HELLO_FROM_LOW, SYN_FROM_LOW)
    late.connection_lost()
    assert high.directory.connection(LOW) == ConnectionId(0)


def test_a_peering_that_only_the_originator_believes_in_locks_nobody_out_for_good():
    """The responder's end of the peering died; the originator has not noticed yet."""
    low, _ = in_state(State.ESTABLISHED)
    high = End(HIGH)
    _, at_high, _ = converse(high.connect(dialled=True), low.connect(dialled=False))
    assert at_high == [Redundant(LOW)]
    assert high.directory.standing(LOW) is Standing.FREE, "the call fails, and is tried again"

    low.directory.release(HIGH, ConnectionId(0))  # the keep-alive has found the peer silent
    _, at_high, at_low = converse(high.connect(dialled=True), low.connect(dialled=False))
    assert isinstance(at_high[0], Established)
    assert isinstance(at_low[0], Established)


def test_a_call_whose_connection_is_redundant_waits_while_the_other_one_is_decided():
    high = End(HIGH)
    winner = high.connect_and_receive(OUR_VERSIONS, HELLO_FROM_LOW, SYN_FROM_LOW)
    loser = high.connect_and_receive(OUR_VERSIONS, HELLO_FROM_LOW, dialled=True)
    assert loser.receive(REDUNDANT) == (Redundant(LOW),)
    assert high.directory.standing(LOW) is Standing.DECIDING
    winner.receive(ACK)
    assert high.directory.standing(LOW) is Standing.PEERED


# Ends


@pytest.mark.parametrize("state", OPEN_STATES, ids=lambda state: state.name)
def test_a_handshake_that_takes_too_long_tells_the_peer_and_frees_its_place(state):
    end, handshake = in_state(state)
    drop, failed = handshake.timed_out()[:2]
    assert drop == Send(DropConn(ErrorCode.PEER_TIMEOUT, failed.reason))
    assert "10 s" in failed.reason
    assert handshake.state is State.CLOSED
    assert handshake._connection not in end.directory._candidates.get(HIGH, ())


@pytest.mark.parametrize("state", OPEN_STATES, ids=lambda state: state.name)
def test_a_lost_connection_fails_without_a_word_and_frees_its_place(state):
    end, handshake = in_state(state)
    failed = handshake.connection_lost()[0]
    assert failed == Failed(
        ErrorCode.PEER_DISCONNECT_DURING_HANDSHAKE,
        "the connection was lost during the handshake",
        handshake.peer,
    )
    assert handshake.state is State.CLOSED
    assert handshake._connection not in end.directory._candidates.get(HIGH, ())


def test_a_connection_that_tls_has_refused_fails_for_that_reason():
    end, handshake = in_state(State.AWAIT_RESPONDER_SYN_ACK)
    (failed,) = handshake.connection_lost(PeerNotTrusted("its certificate is of no authority here"))
    assert failed == Failed(
        ErrorCode.NOT_AUTHORIZED, "its certificate is of no authority here", HIGH
    )
    assert handshake.state is State.CLOSED
    assert end.directory.standing(HIGH) is Standing.FREE


def test_a_timeout_says_what_did_not_come():
    _, handshake = in_state(State.AWAIT_ANSWER)
    assert "Hello or OriginatorSyn" in handshake.timed_out()[-1].reason
    _, handshake = in_state(State.PAUSED)
    assert "another connection" in handshake.timed_out()[-1].reason


def test_the_reason_of_the_other_side_is_passed_on():
    _, handshake = in_state(State.AWAIT_HELLO)
    (failed,) = handshake.receive(DROP)
    assert failed.code is ErrorCode.SHUTTING_DOWN
    assert failed.reason == "the other side ended the handshake: good night"
    _, handshake = in_state(State.AWAIT_RESPONDER_SYN_ACK)
    assert handshake.receive(DROP)[0].peer == HIGH


def test_reasons_are_cut_whoever_wrote_them():
    _, handshake = in_state(State.AWAIT_HELLO)
    (failed,) = handshake.receive(DropConn(ErrorCode.UNSPECIFIED, "x" * 10_000))
    assert len(failed.reason) < REASON_SIZE_MAX + 100
    _, handshake = in_state(State.AWAIT_HELLO)
    drop, failed = handshake.refuse(ErrorCode.DESERIALIZATION_FAILED, "y" * 10_000)
    assert len(drop.message.reason) == len(failed.reason) == REASON_SIZE_MAX
