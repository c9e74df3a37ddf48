"""A mesh of pure cores under any sequence of joins, leaves, peerings, unpeerings and wishes.

The network is lists: on each connection messages stay in order, control messages before data, and
the handshake is exchanged step by step, so that news may come in between. Two ends of a connection
notice its end at different times. At the end of every run everything that is on its way arrives,
and every core has to agree with a breadth-first search over the links that stand.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from endpoint.mesh.core import DIGEST_MISMATCHES_MAX, EndpointCore
from endpoint.mesh.effects import Effect, EmitStatus, SendControl
from endpoint.mesh.memory import ENDPOINTS_MAX, UNREACHABLE_GRACE_SECONDS
from endpoint.mesh.routing import ROUTES_MAX, ROUTES_SIZE_MAX
from endpoint.mesh.status import StatusCode
from wire.clocks import LamportTime, VectorTime
from wire.codec import encode_header
from wire.errors import ErrorCode
from wire.framing import FRONT, NodeFrame, encode_single
from wire.identifiers import EndpointId
from wire.limits import LAMPORT_TIME_MAX
from wire.messages import Announcement, Announcements, Knowledge, NodeHeader, PackedType

NODES_MAX = 7
TOPICS = ("/a", "/ab", "/b")
TTL = 16


def plain_id(number: int, last: int = 0) -> EndpointId:
    """Give an id of version 4: none of somebody who signs."""
    return EndpointId(bytes([number]) * 6 + b"\x40" + bytes([number]) * 8 + bytes([last]))


def read(data: bytes) -> NodeFrame:
    return NodeFrame(data, 0, len(data), FRONT.unpack_from(data))


@dataclass
class End:
    """One end of a connection: what comes in, and how far the handshake has come."""

    local: EndpointId
    remote: EndpointId
    control: deque = field(default_factory=deque)
    data: deque = field(default_factory=deque)
    is_up: bool = False
    is_over: bool = False
    knowledge: VectorTime = field(default_factory=VectorTime)
    sent: tuple[Announcement, ...] = ()
    received: tuple[Announcement, ...] = ()


END_OF_STREAM = object()


class Mesh:
    """Cores, and the connections between them."""

    def __init__(self) -> None:
        self.cores: dict[EndpointId, EndpointCore] = {}
        self.ends: dict[tuple[EndpointId, EndpointId], End] = {}
        self.delivered: list[tuple[EndpointId, EndpointId, int]] = []
        self.crossings: list[tuple[EndpointId, EndpointId, EndpointId, int]] = []
        self.sequences: dict[EndpointId, int] = {}
        self.events: dict[EndpointId, list] = {}

    def join(self, node: EndpointId, *, forwarding: bool = True) -> EndpointCore:
        core = self.cores[node] = EndpointCore(node, forwarding=forwarding)
        self.sequences[node] = 0
        self.events[node] = []
        return core

    def peer(self, dialler: EndpointId, acceptor: EndpointId) -> None:
        """Begin a handshake; the smaller id of the two originates."""
        self.ends[dialler, acceptor] = End(dialler, acceptor)
        self.ends[acceptor, dialler] = End(acceptor, dialler)
        self.say(dialler, acceptor, ("hello", self.cores[dialler].knowledge()))

    def say(self, source: EndpointId, target: EndpointId, message: object) -> None:
        end = self.ends.get((target, source))
        if end is not None and not end.is_over:
            end.control.append(message)

    def cut(self, left: EndpointId, right: EndpointId, *, is_abrupt: bool = True) -> None:
        """Break a connection: what is on its way is lost if it is abrupt."""
        for end in (self.ends.get((left, right)), self.ends.get((right, left))):
            if end is None:
                continue
            if is_abrupt:
                end.control.clear()
                end.data.clear()
            end.data.append(END_OF_STREAM)

    def leave(self, node: EndpointId) -> None:
        """An endpoint dies."""
        for end in [end for end in self.ends.values() if end.local == node]:
            self.cut(node, end.remote)
            self.finish(end)
        del self.cores[node]

    def finish(self, end: End) -> None:
        """One end notices that its connection is over."""
        end.is_over = True
        end.control.clear()
        end.data.clear()
        if end.is_up:
            end.is_up = False
            core = self.cores[end.local]
            status, code = StatusCode.PEER_LOST, ErrorCode.NONE
            self.apply(core, core.disconnect(end.remote, None, status=status, code=code, reason=""))
        if self.ends[end.remote, end.local].is_over:
            del self.ends[end.remote, end.local], self.ends[end.local, end.remote]

    def busy(self) -> list[End]:
        return [end for end in self.ends.values() if not end.is_over and (end.control or end.data)]

    def deliver(self, end: End) -> None:
        """One message arrives at one end of a connection."""
        if not end.control:
            frame = end.data.popleft()
            if frame is END_OF_STREAM:
                self.finish(end)
            elif end.is_up:
                self.receive(end, frame)
            return
        message = end.control.popleft()
        if isinstance(message, tuple):
            self.greet(end, *message)
        else:
            self.receive_control(end, message)

    def greet(self, end: End, word: str, *content: object) -> None:
        core, me, other = self.cores[end.local], end.local, end.remote
        if word == "hello" and me > other:
            end.knowledge = content[0]
            self.say(me, other, ("hello", core.knowledge()))
        elif word == "hello":
            end.knowledge = content[0]
            end.sent = core.news_for(end.knowledge)
            self.say(me, other, ("syn", core.knowledge(), end.sent))
        elif word == "syn":
            end.knowledge, end.received = content
            end.sent = core.news_for(end.knowledge)
            self.say(me, other, ("syn ack", end.sent))
        elif word == "syn ack":
            end.received = content[0]
            self.say(me, other, ("ack",))
            self.establish(end)
        else:
            self.establish(end)

    def establish(self, end: End) -> None:
        core = self.cores[end.local]
        knowledge = end.knowledge
        for announcement in end.sent:
            knowledge = knowledge.advance(announcement.origin, announcement.time)
        end.is_up = True
        self.apply(core, core.connect(end.remote, knowledge, end.received, None))

    def receive_control(self, end: End, message: object) -> None:
        core = self.cores[end.local]
        if isinstance(message, Announcements):
            self.apply(core, core.receive_announcements(end.remote, message.items))
        elif isinstance(message, Knowledge):
            self.apply(core, core.receive_knowledge(end.remote, message.vector))

    def receive(self, end: End, frame: NodeFrame) -> None:
        core = self.cores[end.local]
        plan = core.plan(end.remote, frame)
        if plan is None:
            return
        if plan.deliveries:
            self.delivered.append((end.local, EndpointId(frame.sender), frame.first))
        if plan.onward:
            onward = read(b"".join(frame.forwarded()))
            self.pass_on(end.local, [hop for hop, _ in plan.onward], onward)

    def pass_on(self, node: EndpointId, hops: list[EndpointId], frame: NodeFrame) -> None:
        for hop in hops:
            end = self.ends.get((hop, node))
            if end is not None and not end.is_over and self.ends[node, hop].is_up:
                link = (min(node, hop), max(node, hop))
                self.crossings.append((*link, EndpointId(frame.sender), frame.first))
                end.data.append(frame)

    def publish(self, node: EndpointId, topic: str, to: EndpointId | None = None) -> int:
        sequence = self.sequences[node]
        self.sequences[node] = sequence + 1
        header = encode_header(NodeHeader(PackedType.DATA, node, to, topic))
        hops = list(self.cores[node].routing.route(node, header).next_hops)
        self.pass_on(node, hops, read(encode_single(node, header, TTL, sequence, b"")))
        return sequence

    def apply(self, core: EndpointCore, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, SendControl):
                end = self.ends.get((core.local, effect.peer))
                if end is not None and end.is_up:
                    self.say(core.local, effect.peer, effect.message)
            elif isinstance(effect, EmitStatus):
                self.events[core.local].append(effect.event)

    def settle(self) -> None:
        """Everything that is on its way arrives."""
        steps = 0
        while busy := self.busy():
            for end in busy:
                if not end.is_over and (end.control or end.data):
                    self.deliver(end)
            steps += 1
            assert steps < 10_000, "the mesh never becomes quiet"

    def compare_notes(self) -> None:
        """Let every two peers compare digests, as their keep-alives do."""
        for end in [end for end in self.ends.values() if end.is_up]:
            core, digest = self.cores[end.local], self.cores[end.remote].digest()
            self.apply(core, core.receive_digest(end.remote, digest))

    # What ought to be.

    def links(self) -> list[tuple[EndpointId, EndpointId]]:
        return [pair for pair, end in self.ends.items() if end.is_up]

    def distances(self, root: EndpointId) -> dict[EndpointId, int]:
        """Search breadth first over the links that stand, never through a leaf."""
        found, frontier = {root: 0}, deque([root])
        while frontier:
            here = frontier.popleft()
            if here != root and not self.cores[here].forwarding:
                continue
            for left, right in self.links():
                if left == here and right not in found:
                    found[right] = found[here] + 1
                    frontier.append(right)
        return found


def check_routes(mesh: Mesh) -> None:
    for node, core in mesh.cores.items():
        expected = mesh.distances(node)
        reachable = core.topology.reachable()
        assert set(reachable) | {node} == set(expected)
        for other, parent in reachable.items():
            assert expected[other] == expected[parent] + 1
            assert core.reach.includes(other)
            known = core.topology.announcements[other]
            assert known == mesh.cores[other].topology.announcements[other]
            header = NodeHeader(PackedType.DATA, node, other, "/a")
            hop = core.routing.route(node, encode_header(header)).next_hops
            assert len(hop) == 1
            assert expected[hop[0]] == 1
        added = {link[1] for link in mesh.links() if link[0] == node}
        assert set(core.topology.direct) == added


def check_deliveries(mesh: Mesh) -> None:
    """Every subscriber in the component gets each message once, and no link carries one twice."""
    for node in list(mesh.cores):
        for topic in TOPICS:
            mesh.delivered.clear()
            mesh.crossings.clear()
            sequence = mesh.publish(node, topic)
            mesh.settle()
            wanting = {
                other
                for other in mesh.distances(node)
                if other != node
                and topic.startswith(mesh.cores[other].topology.announcements[other].subscriptions)
            }
            assert sorted(mesh.delivered) == sorted((other, node, sequence) for other in wanting)
            assert len(mesh.crossings) == len(set(mesh.crossings))


class MeshMachine(RuleBasedStateMachine):
    """Any history of a small mesh."""

    def __init__(self) -> None:
        super().__init__()
        self.mesh = Mesh()
        self.wishes: list[tuple[EndpointId, object, str]] = []

    def node(self, number: int) -> EndpointId:
        nodes = list(self.mesh.cores)
        return nodes[number % len(nodes)]

    @initialize(count=st.integers(2, 4))
    def begin(self, count: int) -> None:
        for number in range(count):
            self.mesh.join(plain_id(50 * (number + 1)))

    @precondition(lambda self: len(self.mesh.cores) < NODES_MAX)
    @rule(number=st.integers(1, 255), leaf=st.sampled_from([False, False, False, True]))
    def join(self, number: int, leaf: bool) -> None:
        node = plain_id(number, len(self.mesh.sequences))
        if node not in self.mesh.sequences:
            self.mesh.join(node, forwarding=not leaf)

    @precondition(lambda self: len(self.mesh.cores) > 2)
    @rule(number=st.integers(0, 20))
    def leave(self, number: int) -> None:
        self.mesh.leave(self.node(number))

    @rule(left=st.integers(0, 20), right=st.integers(0, 20))
    def peer(self, left: int, right: int) -> None:
        dialler, acceptor = self.node(left), self.node(right)
        if dialler != acceptor and (dialler, acceptor) not in self.mesh.ends:
            self.mesh.peer(dialler, acceptor)

    @precondition(lambda self: self.mesh.ends)
    @rule(number=st.integers(0, 50), is_abrupt=st.booleans())
    def unpeer(self, number: int, is_abrupt: bool) -> None:
        pairs = list(self.mesh.ends)
        self.mesh.cut(*pairs[number % len(pairs)], is_abrupt=is_abrupt)

    @rule(number=st.integers(0, 20), topic=st.sampled_from(TOPICS))
    def subscribe(self, number: int, topic: str) -> None:
        node, subscriber = self.node(number), object()
        core = self.mesh.cores[node]
        self.mesh.apply(core, core.subscribe(subscriber, [topic]))
        self.wishes.append((node, subscriber, topic))

    @precondition(lambda self: self.wishes)
    @rule(number=st.integers(0, 20))
    def unsubscribe(self, number: int) -> None:
        node, subscriber, topic = self.wishes.pop(number % len(self.wishes))
        core = self.mesh.cores.get(node)
        if core is not None:
            self.mesh.apply(core, core.unsubscribe(subscriber, [topic] if number % 2 else None))

    @rule(number=st.integers(0, 20), topic=st.sampled_from(TOPICS))
    def publish(self, number: int, topic: str) -> None:
        self.mesh.publish(self.node(number), topic)

    @precondition(lambda self: self.mesh.busy())
    @rule(choices=st.lists(st.integers(0, 100), min_size=1, max_size=12))
    def deliver_some(self, choices: list[int]) -> None:
        for choice in choices:
            busy = self.mesh.busy()
            if busy:
                self.mesh.deliver(busy[choice % len(busy)])

    @rule()
    def settle(self) -> None:
        self.mesh.settle()
        assert len(self.mesh.delivered) == len(set(self.mesh.delivered)), "delivered twice"
        check_routes(self.mesh)

    def teardown(self) -> None:
        self.mesh.settle()
        check_routes(self.mesh)
        check_deliveries(self.mesh)


TestMesh = MeshMachine.TestCase
TestMesh.settings = settings(stateful_step_count=40)


# Single truths, each on a small mesh.

IDS = [plain_id(16 * number) for number in range(1, 10)]


def settled(pairs: list[tuple[int, int]], leaves: tuple[int, ...] = ()) -> Mesh:
    """Make a quiet mesh of these links, where everybody wants everything."""
    mesh = Mesh()
    for number in sorted({number for pair in pairs for number in pair}):
        core = mesh.join(IDS[number], forwarding=number not in leaves)
        core.subscribe(core, [""])
    for left, right in pairs:
        mesh.peer(IDS[left], IDS[right])
    mesh.settle()
    check_routes(mesh)
    return mesh


def forged(origin: EndpointId, time: int, links: tuple[EndpointId, ...] = ()) -> Announcement:
    return Announcement(origin, LamportTime(time), links, (), (), True)


LINE = [(0, 1), (1, 2), (2, 3)]
RING = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]
SHAPES = {
    "line": LINE,
    "ring": RING,
    "star": [(0, 1), (0, 2), (0, 3), (0, 4)],
    "ring with a tail": [*RING, (4, 5), (5, 6)],
    "full": [(left, right) for right in range(5) for left in range(right)],
}


@pytest.mark.parametrize("pairs", SHAPES.values(), ids=SHAPES)
def test_in_every_shape_each_gets_everything_once_and_no_link_carries_it_twice(pairs) -> None:
    mesh = settled(pairs)
    check_deliveries(mesh)
    digests = {core.digest() for core in mesh.cores.values()}
    assert len(digests) == 1


@pytest.mark.parametrize("pairs", SHAPES.values(), ids=SHAPES)
def test_a_lost_announcement_is_mended_by_comparing_notes(pairs) -> None:
    mesh = settled(pairs)
    core = mesh.cores[IDS[0]]
    core.subscribe(object(), ["/new"])
    core.unsubscribe(core)  # Nobody is told: the effects are thrown away.
    mesh.settle()
    assert len({core.digest() for core in mesh.cores.values()}) == 2
    for _ in range(DIGEST_MISMATCHES_MAX):
        mesh.compare_notes()
    mesh.settle()
    check_routes(mesh)
    assert len({core.digest() for core in mesh.cores.values()}) == 1


def test_news_that_is_on_the_way_does_not_make_peers_compare_notes() -> None:
    mesh = settled(LINE)
    core = mesh.cores[IDS[0]]
    assert core.receive_digest(IDS[1], core.digest() ^ 1) == []
    assert core.receive_digest(IDS[1], core.digest()) == []
    assert core.receive_digest(IDS[1], core.digest() ^ 1) == []


@pytest.mark.parametrize("pairs", SHAPES.values(), ids=SHAPES)
def test_what_was_published_before_an_endpoint_left_arrives_everywhere(pairs) -> None:
    for number in {number for pair in pairs for number in pair}:
        mesh, leaver = settled(pairs), IDS[number]
        others = set(mesh.distances(leaver)) - {leaver}
        sequences = [mesh.publish(leaver, "/a") for _ in range(3)]
        # The peers have taken in everything; then all its connections end, and that news is faster.
        for end in [end for end in mesh.ends.values() if end.remote == leaver]:
            while end.data:
                mesh.deliver(end)
        for end in [end for end in mesh.ends.values() if end.local == leaver]:
            mesh.cut(leaver, end.remote, is_abrupt=False)
            mesh.finish(end)
        del mesh.cores[leaver]
        mesh.settle()
        expected = [(other, leaver, sequence) for other in others for sequence in sequences]
        assert sorted(mesh.delivered) == sorted(expected)


def test_ttl_two_on_a_line_of_four_reaches_the_next_two() -> None:
    mesh = settled(LINE)
    header = encode_header(NodeHeader(PackedType.DATA, IDS[0], None, "/a"))
    mesh.pass_on(IDS[0], [IDS[1]], read(encode_single(IDS[0], header, 2, 0, b"")))
    mesh.settle()
    assert {receiver for receiver, _, _ in mesh.delivered} == {IDS[1], IDS[2]}


def test_unicast_takes_only_the_shortest_path_and_reaches_only_its_receiver() -> None:
    mesh = settled(SHAPES["ring with a tail"])
    sequence = mesh.publish(IDS[2], "/a", to=IDS[6])
    mesh.settle()
    assert mesh.delivered == [(IDS[6], IDS[2], sequence)]
    assert len(mesh.crossings) == 4


def test_nobody_routes_through_a_leaf_and_it_hears_and_is_heard_by_all() -> None:
    mesh = settled([(0, 1), (1, 2), (2, 0), (2, 3)], leaves=(2,))
    check_deliveries(mesh)
    assert IDS[3] not in mesh.cores[IDS[0]].topology.reachable()
    assert IDS[3] in mesh.cores[IDS[2]].topology.reachable()


@pytest.mark.parametrize("pairs", SHAPES.values(), ids=SHAPES)
def test_forged_word_of_an_endpoint_is_outvoted_by_itself(pairs) -> None:
    mesh = settled(pairs)
    teller, victim = mesh.cores[IDS[0]], mesh.cores[IDS[1]]
    word = forged(victim.local, 1_000)
    mesh.apply(teller, teller.receive_announcements(IDS[8], [word]))
    mesh.settle()
    check_routes(mesh)
    assert victim.topology.announcements[victim.local].time > word.time
    check_deliveries(mesh)


def test_the_latest_possible_word_neither_breaks_the_clock_nor_spreads_to_others() -> None:
    mesh = settled(LINE)
    core = mesh.cores[IDS[1]]
    stranger, latest = EndpointId(bytes(16)), LAMPORT_TIME_MAX
    core.receive_announcements(IDS[0], [forged(stranger, latest)])
    core.unsubscribe(core)
    assert core.topology.announcements[core.local].time < 10
    mesh.apply(core, core.receive_announcements(IDS[0], [forged(core.local, latest)]))
    mesh.settle()
    core.subscribe(object(), ["/newer"])
    for other in mesh.cores.values():
        assert other.topology.announcements[other.local].time <= LAMPORT_TIME_MAX
    untouched = mesh.cores[IDS[3]]
    assert untouched.topology.announcements[untouched.local].time < 10


def test_an_endpoint_that_comes_back_with_its_old_id_is_believed() -> None:
    mesh = settled(LINE)
    old, peer = mesh.cores[IDS[0]], mesh.cores[IDS[1]]
    for number in range(20):
        mesh.apply(old, old.subscribe(object(), [f"/{number}"]))
    mesh.settle()
    # Its peer has not noticed yet that it died: the new connection replaces the old one.
    for end in (mesh.ends[IDS[0], IDS[1]], mesh.ends[IDS[1], IDS[0]]):
        end.is_up = False
    mesh.apply(
        peer,
        peer.disconnect(
            IDS[0], None, status=StatusCode.PEER_LOST, code=ErrorCode.NONE, reason="it came anew"
        ),
    )
    core = mesh.join(IDS[0])
    core.subscribe(core, ["/back"])
    mesh.peer(IDS[0], IDS[1])
    mesh.settle()
    check_routes(mesh)
    for other in (IDS[1], IDS[2], IDS[3]):
        known = mesh.cores[other].topology.announcements[IDS[0]]
        assert known.subscriptions == ("/back",)


def test_the_dead_are_forgotten_after_a_while_and_do_not_come_back() -> None:
    mesh = settled(RING)
    mesh.leave(IDS[4])
    mesh.settle()
    cores = list(mesh.cores.values())
    for core in cores:
        core.tick(0.0)
    early, late = cores[:2], cores[2:]
    for core in early:
        core.tick(UNREACHABLE_GRACE_SECONDS + 1)
        assert IDS[4] not in core.topology.announcements
    for _ in range(2 * DIGEST_MISMATCHES_MAX):
        mesh.compare_notes()
        mesh.settle()
    assert len({core.digest() for core in cores}) == 1
    cores.append(mesh.join(IDS[8]))
    mesh.peer(IDS[8], late[0].local)
    mesh.settle()
    for core in late:
        core.tick(UNREACHABLE_GRACE_SECONDS + 1)
    assert not [core for core in cores if IDS[4] in core.topology.announcements]
    check_routes(mesh)


def test_endpoints_that_do_not_exist_fill_no_memory() -> None:
    mesh = settled(LINE)
    core = mesh.cores[IDS[0]]
    for batch in range(3):
        first = batch * ENDPOINTS_MAX
        words = [
            forged(EndpointId(number.to_bytes(16)), 1)
            for number in range(first, first + ENDPOINTS_MAX)
        ]
        core.receive_announcements(IDS[1], words)
    assert len(core.topology.announcements) == 1 + ENDPOINTS_MAX
    assert not mesh.busy(), "what cannot be reached is not passed on"
    core.tick(0.0)
    core.tick(UNREACHABLE_GRACE_SECONDS + 1)
    assert set(core.topology.announcements) == set(IDS[:4])


def test_senders_and_topics_that_nobody_knows_fill_no_memory() -> None:
    mesh = settled(LINE)
    core = mesh.cores[IDS[0]]
    for number in range(ROUTES_MAX + 1_000):
        sender = EndpointId(bytes(8) + number.to_bytes(8))
        header = encode_header(NodeHeader(PackedType.DATA, sender, None, "/a"))
        assert core.plan(IDS[1], read(encode_single(sender, header, 3, number, b""))) is None
    assert core.routing.remembered()[0] <= ROUTES_MAX
    assert {sender for sender, _ in core.routing._windows._windows} <= {core.local}
    assert len(core.topology._trees) <= len(mesh.cores)


def test_routes_of_giant_headers_are_bounded_by_their_bytes() -> None:
    core = EndpointCore(IDS[0])
    for number in range(400):
        header = NodeHeader(PackedType.BYTES, IDS[1], None, f"/{number:03}" + "x" * 60_000)
        core.routing.route(IDS[1], encode_header(header))
        assert core.routing.remembered()[1] <= ROUTES_SIZE_MAX


def test_a_message_that_comes_back_to_its_sender_goes_nowhere() -> None:
    mesh = settled(LINE)
    core = mesh.cores[IDS[1]]
    header = encode_header(NodeHeader(PackedType.DATA, IDS[1], None, "/a"))
    assert core.routing.route(IDS[1], header).next_hops
    assert core.routing.route(IDS[1], header).receivers == ()
    assert core.plan(IDS[0], read(encode_single(IDS[1], header, 3, 7, b""))) is None


def test_why_an_endpoint_is_not_reachable_is_said_in_words() -> None:
    core = EndpointCore(IDS[0])
    assert "call peer() first" in core.names.explain_absence(IDS[1], core.reach)
    mesh = settled([(0, 1), (1, 2)])
    core = mesh.cores[IDS[0]]
    assert str(IDS[2]) in core.names.explain_absence(IDS[5], core.reach)
    mesh.cut(IDS[1], IDS[2])
    mesh.settle()
    assert "no path" in core.names.explain_absence(IDS[2], core.reach)
