"""The master's ear for its writers: one channel from each clone that writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from channels import (
    Consumer,
    ConsumerMessage,
    Handshake,
    ProducerMessage,
    UnknownConsumer,
)
from stores.broadcasting import STORE_CHANNEL
from stores.commands import Content, InternalCommand, consumer_command
from stores.effects import Effect, Unicast
from stores.encoding import encode_command
from stores.limits import INPUTS_MAX
from wire.errors import DecodeError, ErrorCode
from wire.identifiers import EndpointId, EntityId

HANDSHAKE_TIMEOUT_TICKS: Final = 50
"""Ticks that a writer has to introduce itself before it is forgotten: it was asked 25 times."""


class _Input:
    """The channel from one writer."""

    def __init__(self, inputs: Inputs, entity: EntityId, epoch_min: int | None) -> None:
        self.consumer: Consumer[bytes] = Consumer(self, config=STORE_CHANNEL, epoch_min=epoch_min)
        self.entity = entity
        self.waiting_ticks = 0
        self.error: DecodeError | None = None
        self._inputs = inputs

    def consume_run(self, consumer: Consumer[bytes], payloads: Sequence[bytes]) -> None:
        """Hand the actions over; one that makes no sense ends the channel."""
        try:
            for payload in payloads:
                self._inputs.on_action(self.entity, payload)
        except DecodeError as error:
            self.error = error
            consumer.stop()

    def send(self, consumer: Consumer[bytes], message: ConsumerMessage) -> None:
        """Put a message of the channel to the writer in the form of a command (seed 7.5.1)."""
        sequence, content = consumer_command(message)
        self._inputs.send(self.entity, consumer.epoch, sequence, content)

    def consume_nil(self, consumer: Consumer[bytes]) -> ErrorCode:
        """Give up: what is lost might be what the next request builds on."""
        return ErrorCode.BROKEN_CLONE

    def close(self, consumer: Consumer[bytes], reason: ErrorCode) -> None:
        """Wait for the owner to notice."""


class Inputs:
    """Puts the actions of every writer in order, and hands them over one by one."""

    def __init__(
        self,
        entity: EntityId,
        effects: list[Effect],
        on_action: Callable[[EntityId, bytes], None],
    ) -> None:
        """Append to ``effects``; ``on_action`` gets the sender and an encoded action.

        It may raise ``DecodeError``, which ends the channel from that sender.
        """
        self.on_action = on_action
        self._entity = entity
        self._effects = effects
        self._inputs: dict[EntityId, _Input] = {}

    def __len__(self) -> int:
        """Count the writers attached."""
        return len(self._inputs)

    def receive(self, sender: EntityId, message: ProducerMessage[bytes]) -> None:
        """Take in what a writer's producer sent; raises ``DecodeError`` for bad actions."""
        found = self._inputs.get(sender)
        if found is None:
            if isinstance(message, UnknownConsumer) or len(self._inputs) >= INPUTS_MAX:
                return
            found = self._open(sender, None, message)
        found.consumer.receive(message)
        if not found.consumer.is_closed:
            return
        del self._inputs[sender]
        if found.error is not None:
            raise found.error
        if found.consumer.epoch == message.epoch and not isinstance(message, UnknownConsumer):
            # The writer began anew, and the old consumer only noticed.
            self._open(sender, message.epoch, message).consumer.receive(message)

    def tick(self) -> None:
        """Let one tick pass."""
        for entity, found in list(self._inputs.items()):
            found.consumer.tick()
            found.waiting_ticks = 0 if found.consumer.is_connected else found.waiting_ticks + 1
            if found.consumer.is_closed or found.waiting_ticks >= HANDSHAKE_TIMEOUT_TICKS:
                del self._inputs[entity]

    def discard(self, entity: EntityId) -> None:
        """Forget a writer that closes."""
        self._inputs.pop(entity, None)

    def discard_endpoint(self, endpoint: EndpointId) -> None:
        """Forget all writers of an endpoint; one that comes back is asked where it stands."""
        for entity in [known for known in self._inputs if known.endpoint == endpoint]:
            del self._inputs[entity]

    def lagging(self) -> Iterator[str]:
        """Say from which writers something is missing."""
        for entity, found in self._inputs.items():
            if not found.consumer.is_idle:
                yield f"commands of {entity} are on their way"

    def send(self, to: EntityId, epoch: int | None, sequence: int, content: Content) -> None:
        """Send a command to a writer."""
        command = InternalCommand(sequence, self._entity, None, epoch, content)
        self._effects.append(Unicast(to.endpoint, encode_command(command)))

    def _open(
        self, sender: EntityId, epoch_min: int | None, message: ProducerMessage[bytes]
    ) -> _Input:
        found = self._inputs[sender] = _Input(self, sender, epoch_min)
        if not isinstance(message, Handshake):
            found.consumer.start()
        return found
