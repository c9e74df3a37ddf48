"""The clients of channels: publishers at receiver ports, subscribers at sender ports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from handshake.principals import Principal
from peermesh.brokers.edge.access import PUBLISH, SUBSCRIBE
from peermesh.brokers.edge.hall import Consequence, Hall
from peermesh.brokers.edge.line import Line
from peermesh.brokers.edge.messages import (
    CLIENT_SIZE,
    Accepted,
    Attach,
    ControlMessage,
    Denied,
    Detach,
    Hello,
    Refused,
    Taken,
    Void,
    Welcome,
    read_data,
    write,
)
from peermesh.brokers.edge.reception import Badge, Visitor
from peermesh.brokers.edge.relay import Said
from wire.errors import RemoteProtocolError
from wire.framing import NodeFrame

Apply = Callable[[Sequence[Consequence]], None]


class Sink(Protocol):
    """What the hall's effects may name: a guest, or a bridge."""

    def send(self, what: Said, principal: Principal) -> None:
        """Pass on what a connection is told; data have the principal of their publisher."""


class Guest(Visitor):
    """A client at one of the broker's ports."""

    def __init__(  # noqa: PLR0913 - what it is served with
        self,
        line: Line,
        badge: Badge,
        hall: Hall,
        apply: Apply,
        welcome: Welcome,
        here: str,
        *,
        is_publisher: bool,
    ) -> None:
        """Serve it at a receiver port, if ``is_publisher``, or at a sender port.

        That is one of the topic ``here``; if empty, of the default channel.
        """
        super().__init__(line, badge, here or "it")
        self.client = b""
        self._is_publisher = is_publisher
        self._hall = hall
        self._here = here
        self._apply = apply
        self._welcome = welcome
        self._accepted: dict[str, Accepted] = {}
        line.pull = self._take_accepted

    def send(self, what: Said, principal: Principal) -> None:
        """Tell the client; what it need not send again once, before the line is free."""
        match what:
            case bytes():
                self.line.send(what)
            case Accepted(topic):
                self._accepted[topic] = what
                self.line.wake()
            case Refused(reason):
                self.line.refuse(reason)
            case _:
                self.line.tell(what)

    def _take_accepted(self) -> Iterable[bytes]:
        accepted, self._accepted = self._accepted, {}
        return map(write, accepted.values())

    def greet(self, hello: Hello) -> Welcome:
        """See whether it is at the channel that it looks for."""
        if len(hello.client) != CLIENT_SIZE:
            raise RemoteProtocolError(f"a client's id has {CLIENT_SIZE} bytes")
        if hello.topic != self._here:
            raise RemoteProtocolError(f"the channel of {hello.topic!r} is here no more: look it up")
        self.client = hello.client
        return self._welcome

    def review(self) -> None:
        """End subscriptions whose right was withdrawn."""
        for topic in self._hall.attached(self.line.number):
            if (why := self.badge.objection(SUBSCRIBE, topic)) is not None:
                self.line.tell(Denied(topic, 0, 0, why))
                self._apply(self._hall.detach(self.line.number, self.client, Detach(topic)))

    def heed(self, message: NodeFrame | ControlMessage) -> None:
        """Take data in from a publisher, or do as a subscriber wants."""
        number, hall = self.line.number, self._hall
        match message:
            case NodeFrame() if self._is_publisher:
                self._take(message)
            case Void(topic, self.client) if self._is_publisher:
                is_allowed = self.badge.objection(PUBLISH, topic) is None
                self._apply(hall.void(number, self.client, message, may_publish=is_allowed))
            case Attach(topic) if not self._is_publisher:
                if (why := self.badge.objection(SUBSCRIBE, topic)) is not None:
                    self.line.tell(Denied(topic, 0, 0, why))
                    return
                self._apply(hall.attach(number, self.client, self._here, message))
            case Detach() if not self._is_publisher:
                self._apply(hall.detach(number, self.client, message))
            case Taken() if not self._is_publisher:
                self._apply(hall.taken(self.client, message))
            case _:
                port = "receiver" if self._is_publisher else "sender"
                raise RemoteProtocolError(f"{type(message).__name__} at a {port} port")

    def _take(self, frame: NodeFrame) -> None:
        topic, publisher = read_data(frame)
        if publisher != self.client:
            raise RemoteProtocolError("data in the name of another client: send your own")
        if (why := self.badge.objection(PUBLISH, topic)) is None:
            data = (self.line.number, self._here, frame, self.badge.principal)
            self._apply(self._hall.data(*data))
            return
        self._hall.refuse_data(publisher, topic)
        self.line.tell(Denied(topic, frame.first + frame.count - 1, frame.count, why))
