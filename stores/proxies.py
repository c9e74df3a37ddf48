"""A master's ear and voice for proxies: they write as clones do, and hear outcomes alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from stores.actions import WriterId
from stores.commands import (
    Content,
    DetachCommand,
    GreetingCommand,
    InternalCommand,
    OutcomesCommand,
)
from stores.effects import Effect, ToProxy
from stores.encoding import encode_command
from stores.outcomes import Ledger, Outcome, WriterRecord
from stores.replication import ReplicaGate
from wire.errors import DecodeError
from wire.identifiers import EndpointId, EntityId

PROXIES_MAX: Final = 4_096
"""Proxies that a master remembers: as many as writers that may be attached to it. Beyond, the one
that has been known for longest is told nothing until it greets again, half a second later."""


@dataclass(slots=True)
class _Proxy:
    writer: WriterId
    number: int
    told_request: int


class Proxies:
    """Tells each proxy what became of its requests, at once; what gets lost, when it greets."""

    def __init__(
        self,
        entity: EntityId,
        epoch: int,
        effects: list[Effect],
        answers: tuple[Ledger, ReplicaGate[Outcome]],
    ) -> None:
        """Append to ``effects``; what is to be told is in the ledger, and past the gate."""
        self._entity = entity
        self._epoch = epoch
        self._effects = effects
        self._ledger, self._gate = answers
        self._proxies: dict[EntityId, _Proxy] = {}

    def __contains__(self, entity: object) -> bool:
        """Tell whether an entity is a proxy."""
        return entity in self._proxies

    def receive(self, sender: EntityId, content: Content, sequence: int) -> bool:
        """Take in what a proxy says besides questions; true if it closes.

        ``sequence`` is the number of the latest event told to clones. Raises ``DecodeError``.
        """
        match content:
            case GreetingCommand():
                self._greet(sender, content, sequence)
                return False
            case DetachCommand():
                self._proxies.pop(sender, None)
                return True
            case _:
                raise DecodeError(f"{type(content).__name__} names no session of a clone")

    def tell(self, writers: Iterable[WriterId]) -> None:
        """Tell those among the writers that are proxies what became of their requests."""
        if not self._proxies:  # As a rule: and a writer's entity has to be made of its bytes.
            return
        for writer in writers:
            proxy = self._proxies.get(writer.entity)
            if proxy is not None and proxy.writer == writer:
                self._tell(proxy)

    def tell_all(self) -> None:
        """Tell all proxies: more of what they asked for is replicated."""
        for proxy in self._proxies.values():
            self._tell(proxy)

    def say_goodbye(self, content: Content) -> None:
        """Tell all proxies that the master closes."""
        for proxy in self._proxies.values():
            self._send(proxy, content)
        self._proxies.clear()

    def discard_endpoint(self, endpoint: EndpointId) -> None:
        """Forget all proxies of an endpoint."""
        for entity in [known for known in self._proxies if known.endpoint == endpoint]:
            del self._proxies[entity]

    def _greet(self, sender: EntityId, greeting: GreetingCommand, sequence: int) -> None:
        if greeting.writer.entity != sender:
            raise DecodeError(f"{sender} wants to write in the name of {greeting.writer.entity}")
        known, record = self._proxies.get(sender), self._ledger.find(greeting.writer)
        if record is not None:
            record.hear(greeting.resolved_request)
            if known is None and self._gate.replicas:
                record.publish(record.published_request, sequence)
        if known is None and len(self._proxies) >= PROXIES_MAX:
            del self._proxies[next(iter(self._proxies))]
        proxy = _Proxy(greeting.writer, greeting.number, greeting.resolved_request)
        self._proxies[sender] = proxy
        self._send(proxy, self._outcomes(proxy, record))

    def _tell(self, proxy: _Proxy) -> None:
        content = self._outcomes(proxy, self._ledger.find(proxy.writer))
        if content.request > content.after:
            self._send(proxy, content)

    def _outcomes(self, proxy: _Proxy, record: WriterRecord | None) -> OutcomesCommand:
        after, request = proxy.told_request, 0
        if record is not None and self._gate.replicas:
            request = record.told_until(self._gate.sequence)
        elif record is not None:
            request = record.published_request
        if record is None or request <= after:
            return OutcomesCommand(proxy.number, after, after, ())
        proxy.told_request = request
        outcomes = record.published(after=after, until=request)
        return OutcomesCommand(proxy.number, after, request, outcomes)

    def _send(self, proxy: _Proxy, content: Content) -> None:
        command = InternalCommand(0, self._entity, None, self._epoch, content)
        self._effects.append(ToProxy(proxy.writer.entity.endpoint, encode_command(command)))
