"""Joins a broker to the mesh: topics go out to an endpoint, and come in from it.

To the broker's core it is one more subscriber and one more publisher, without a network between.
"""

from __future__ import annotations

import uuid
from collections import deque

import trio

from endpoint.endpoint import Endpoint
from endpoint.port_access import PortAccess
from endpoint.pubsub.messages import Missed
from handshake.principals import Principal
from handshake.rules import Rules
from peermesh.brokers.edge import messages
from peermesh.brokers.edge.access import PUBLISH, TO_MESH
from peermesh.brokers.edge.broker import EdgeBroker
from peermesh.brokers.edge.incoming import Incoming
from peermesh.brokers.edge.line import next_number
from peermesh.brokers.edge.messages import (
    Accepted,
    Attached,
    Refused,
    Void,
    expect,
    read_data,
)
from peermesh.brokers.edge.options import Bridged
from peermesh.brokers.edge.outgoing import Outgoing
from peermesh.brokers.edge.reception import Badge
from peermesh.brokers.edge.relay import Said
from peermesh.brokers.edge.tree import check_edge_topic
from wire.decoding import decode
from wire.encoding import encode
from wire.errors import MeshError
from wire.framing import (
    VERSION_MAX,
    VERSION_MIN,
    ControlFrame,
    FrameDecoder,
    NodeFrame,
    encode_preamble,
)
from wire.limits import FRAME_SIZE_MAX
from wire.logs import logger_of
from wire.messages import Preamble
from wire.values import Value

logger = logger_of("peermesh.brokers.edge")


class Bridge:
    """The mesh, as a publisher and a subscriber of the broker."""

    def __init__(self, broker: EdgeBroker, endpoint: Endpoint, bridged: Bridged) -> None:
        """Join a broker to an endpoint; ``run`` carries the messages."""
        self._number = next_number()
        self._client = uuid.uuid4().bytes
        self._broker = broker
        self._endpoint = endpoint
        self._bridged = bridged
        self._access = PortAccess(TO_MESH, Rules(), endpoint.loop).access
        self._incoming: dict[str, Incoming] = {}
        self._outgoing: dict[str, Outgoing] = {}
        self._accepted: set[Outgoing] = set()
        """What may have more for the broker, since this was acknowledged."""
        self._leaving: deque[tuple[Incoming, bytes]] = deque()
        self._wake = trio.lowlevel.ParkingLot()
        self._from_broker = _decoder()
        self._to_broker = _decoder()
        broker.add_sink(self._number, self)
        broker.on_reign.append(self._repeat)
        if bridged.to_mesh:
            broker.hall.bridged[self._client] = (self._number, bridged.to_mesh)

    async def run(self) -> None:
        """Carry messages until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._carry)
            if self._bridged.from_mesh:
                nursery.start_soon(self._enter)

    # Out of the broker.

    def send(self, what: Said, principal: Principal) -> None:
        """Take what the channels say; data are published by the rights of their publisher."""
        match what:
            case bytes():
                self._from_broker.feed(what)
                while (frame := self._from_broker.next_frame()) is not None:
                    self._take(frame, principal)
            case Attached(topic):
                new = Incoming(topic, is_read=True)  # Taken is what is in the mesh.
                self._incoming.setdefault(topic, new).attached(self._number, what)
            case Accepted(topic, sequence):  # Every subscriber has what came from the mesh.
                outgoing = self._outgoing[topic]
                outgoing.accept(sequence)
                self._accepted.add(outgoing)
            case Refused(reason):  # What waited is dropped, and the bridge goes on.
                logger.warning("the mesh is too slow: %s", reason)
        self._wake.unpark_all()

    def _take(self, frame: NodeFrame | ControlFrame | Preamble, principal: Principal) -> None:
        if not isinstance(frame, NodeFrame):
            assert isinstance(frame, ControlFrame)
            void = expect(messages.read(frame), Void)
            self._incoming[void.topic].void(self._number, void.publisher, void.sequence)
            return
        topic, publisher = read_data(frame)
        incoming = self._incoming[topic]
        count = frame.count
        skip, _ = incoming.receive(self._number, publisher, frame.first, count)
        # What came from the mesh does not go back.
        may_leave = Badge(self._access, principal).objection(PUBLISH, topic) is None
        if publisher != self._client and may_leave:
            payloads = frame.payloads()[skip:]
            incoming.keep(len(payloads), sum(map(len, payloads)))
            self._leaving += [(incoming, payload) for payload in payloads]

    async def _carry(self) -> None:
        """Publish in the mesh what leaves the broker, and tell both sides what was taken."""
        while True:
            while self._accepted:
                self._pump(self._accepted.pop())
            while self._leaving:
                incoming, payload = self._leaving.popleft()
                await self._publish(incoming.topic, payload)
                incoming.take(len(payload))
                self._report(incoming)
            for incoming in list(self._incoming.values()):
                self._report(incoming)
            if not self._leaving and not self._accepted:
                await self._wake.park()

    def _report(self, incoming: Incoming) -> None:
        taken = incoming.report()
        if taken is not None:
            self._broker.apply(self._broker.hall.taken(self._client, taken))

    async def _publish(self, topic: str, payload: bytes) -> None:
        try:
            await self._endpoint.publish(topic, decode(payload))
        except MeshError as error:
            logger.warning("a message on %r did not go to the mesh: %s", topic, error)

    # Into the broker.

    async def _enter(self) -> None:
        with self._endpoint.subscribe(*self._bridged.from_mesh) as subscriber:
            async for topic, data in subscriber:
                if isinstance(data, Missed):
                    logger.warning("%d messages did not come from the mesh", data.count)
                elif self._broker.is_active:
                    await self._add(topic, data)

    async def _add(self, topic: str, data: Value) -> None:
        try:
            outgoing = self._outgoing.get(topic) or Outgoing(check_edge_topic(topic), self._client)
            payload = encode(data)
            self._outgoing[topic] = outgoing
            while not outgoing.has_room:
                await self._wake.park()
            outgoing.add(payload)
            self._pump(outgoing)
        except MeshError as error:
            logger.warning("a message on %r did not come from the mesh: %s", topic, error)

    def _repeat(self) -> None:
        """Give a new reign what the last one has not acknowledged."""
        for outgoing in self._outgoing.values():
            outgoing.switch(self._number)
            self._pump(outgoing)

    def _pump(self, outgoing: Outgoing) -> None:
        self._to_broker.feed(b"".join(outgoing.take()))
        while (frame := self._to_broker.next_frame()) is not None:
            if isinstance(frame, NodeFrame):
                self._broker.apply(self._broker.hall.data(self._number, "", frame))


def _decoder() -> FrameDecoder:
    decoder = FrameDecoder(FRAME_SIZE_MAX)
    decoder.feed(encode_preamble(Preamble(VERSION_MIN, VERSION_MAX)))
    decoder.next_frame()
    return decoder
