"""A client of a gateway at its endpoint: it hears the mesh and the other clients, not itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from endpoint.closing import EitherClosing
from endpoint.pubsub.mailbox import Mailbox
from endpoint.pubsub.messages import Reader
from endpoint.pubsub.publishing import Publication
from endpoint.pubsub.queueing import Queueing
from endpoint.pubsub.subscriber import Subscriber, SubscriberHost
from wire.values import Value


class GatewayHost(SubscriberHost, Protocol):
    """What a gateway's client needs of its endpoint."""

    publication: Publication

    def add_reader(
        self, mailbox: Mailbox, reader: Reader, topics: Sequence[str], *, local: bool = False
    ) -> None:
        """Have a reader read a mailbox."""


class GatewayClient(EitherClosing):
    """One of the many users of a gateway's endpoint."""

    def __init__(
        self,
        host: GatewayHost,
        topics: Sequence[str],
        queueing: Queueing,
        decode_value: Callable[[bytes], Value],
        label: str,
    ) -> None:
        """Hear what begins with ``topics``, whose payloads ``decode_value`` reads.

        No publisher waits for it: ``queueing`` says what is dropped. Raises ``NotAllowed``,
        ``InvalidTopic`` and ``LimitExceeded``.
        """
        self._host = host
        self._mailbox = Mailbox(queueing, may_hold=False, label=label, decode_value=decode_value)
        self.subscriber = Subscriber(host, self._mailbox)
        host.add_reader(self._mailbox, self.subscriber, topics, local=True)

    async def publish(self, topic: str, payload: bytes) -> None:
        """Publish an encoded value to all but this client; raises as ``Endpoint.publish`` does."""
        await self._host.publication.publish_encoded(topic, payload, skip=self._mailbox)

    def close(self) -> None:
        """Hear nothing any more."""
        self.subscriber.close()
