"""The broker's side of a connection: publishers at receiver ports, subscribers at sender ports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from handshake.access import Access
from handshake.principals import Principal
from peermesh.brokers.edge.access import ENTER, PUBLISH, SUBSCRIBE
from peermesh.brokers.edge.hall import Consequence, Hall
from peermesh.brokers.edge.line import Line
from peermesh.brokers.edge.messages import (
    CLIENT_SIZE,
    Accepted,
    Attach,
    Beat,
    ControlMessage,
    Denied,
    Detach,
    Hello,
    Taken,
    Void,
    Welcome,
    expect,
    read_data,
    write,
)
from wire.errors import NotAllowed, RemoteProtocolError
from wire.framing import NodeFrame

Apply = Callable[[Sequence[Consequence]], None]


class Sink(Protocol):
    """Whoever the hall's effects may name."""

    def send(self, data: bytes, principal: Principal) -> None:
        """Data of a principal, or a control message, for a subscriber."""

    def acknowledge(self, accepted: Accepted) -> None:
        """What a publisher need not send again."""

    def refuse(self, reason: str) -> None:
        """The connection ends, and why."""


class Guest:
    """A client at one of the broker's ports."""

    def __init__(
        self, hall: Hall, line: Line, here: str, apply: Apply, access: Access, principal: Principal
    ) -> None:
        """Serve ``principal`` at the port of the topic ``here``; if empty, of the default one."""
        self.client = b""
        self.line = line
        self._access = access
        self._principal = principal
        self._hall = hall
        self._here = here
        self._apply = apply
        self._accepted: dict[str, Accepted] = {}
        line.pull = self._take_accepted

    def send(self, data: bytes, principal: Principal) -> None:
        """Send data."""
        self.line.send(data)

    def acknowledge(self, accepted: Accepted) -> None:
        """Acknowledge, once for all that is acknowledged before the line is free."""
        self._accepted[accepted.topic] = accepted
        self.line.wake()

    def refuse(self, reason: str) -> None:
        """End the connection."""
        self.line.refuse(reason)

    def _take_accepted(self) -> Iterable[bytes]:
        accepted, self._accepted = self._accepted, {}
        return map(write, accepted.values())

    def greet(self, message: NodeFrame | ControlMessage, broker: bytes, address: str) -> None:
        """Let the client in, or refuse it; raises ``RemoteProtocolError``."""
        hello = expect(message, Hello)
        if len(hello.client) != CLIENT_SIZE:
            raise RemoteProtocolError(f"a client's id has {CLIENT_SIZE} bytes")
        if hello.topic != self._here:
            raise RemoteProtocolError(f"the channel of {hello.topic!r} is here no more: look it up")
        if (why := self._objection(ENTER, self._here or "it")) is not None:
            self.line.tell(Denied("", 0, 0, why))
            raise NotAllowed(why)
        self.client = hello.client
        self.line.welcome()
        self.line.tell(Welcome(broker, address))

    def _objection(self, verb: str, topic: str) -> str | None:
        try:
            self._access.check(self._principal, verb, topic)
        except NotAllowed as error:
            return str(error)
        return None

    def recheck(self) -> None:
        """End what the roles no longer permit: subscriptions, or the connection."""
        if not self.client:
            return
        if (why := self._objection(ENTER, self._here or "it")) is not None:
            self.line.tell(Denied("", 0, 0, why))
            self.refuse(why)
            return
        for topic in self._hall.attached(self.line.number):
            if (why := self._objection(SUBSCRIBE, topic)) is not None:
                self.line.tell(Denied(topic, 0, 0, why))
                self._detach(Detach(topic))

    def _detach(self, message: Detach) -> None:
        self._apply(self._hall.detach(self.line.number, self.client, message))

    def from_publisher(self, message: NodeFrame | ControlMessage) -> None:
        """Take data in."""
        if isinstance(message, NodeFrame):
            topic, publisher = read_data(message)
            if publisher != self.client:
                raise RemoteProtocolError("data in the name of another client: send your own")
            if (why := self._objection(PUBLISH, topic)) is not None:
                self._hall.refuse_data(publisher, topic)
                last = message.first + message.count - 1
                self.line.tell(Denied(topic, last, message.count, why))
                return
            number, principal = self.line.number, self._principal
            self._apply(self._hall.data(number, self._here, message, principal))
        elif isinstance(message, Void) and message.publisher == self.client:
            number, is_allowed = self.line.number, self._objection(PUBLISH, message.topic) is None
            self._apply(self._hall.void(number, self.client, message, may_publish=is_allowed))
        elif not isinstance(message, Beat):
            raise RemoteProtocolError(f"{type(message).__name__} at a receiver port")

    def from_subscriber(self, message: NodeFrame | ControlMessage) -> None:
        """Do as a subscriber wants."""
        match message:
            case Attach(topic):
                if (why := self._objection(SUBSCRIBE, topic)) is not None:
                    self.line.tell(Denied(topic, 0, 0, why))
                    return
                self._apply(self._hall.attach(self.line.number, self.client, self._here, message))
            case Detach():
                self._detach(message)
            case Taken():
                self._apply(self._hall.taken(self.client, message))
            case Beat():
                pass
            case _:
                raise RemoteProtocolError(f"{type(message).__name__} at a sender port")
