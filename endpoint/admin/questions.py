"""What this endpoint has asked others, and whose answers count. Pure."""

from __future__ import annotations

from typing import Final

from endpoint.admin.protocol import Answer, Request
from wire.identifiers import EndpointId
from wire.scalars import COUNT_MAX
from wire.values import Value

NUMBER_SIZE: Final = 8
"""Bytes of a number: none but the endpoint that was asked can guess it."""


class Questions:
    """Numbers requests, and matches answers to them."""

    def __init__(self, seed: bytes) -> None:
        """Make the first number of random bytes that nothing else is made of."""
        self._next = int.from_bytes(seed[:NUMBER_SIZE])
        self._asked: dict[int, EndpointId] = {}

    def ask(self, to: EndpointId, verb: str, arguments: tuple[Value, ...]) -> Request:
        """Make a request to an endpoint; ``end`` has to follow, whatever comes of it."""
        number = self._next
        self._next = number + 1 & COUNT_MAX
        self._asked[number] = to
        return Request(number, verb, arguments)

    def end(self, request: Request) -> None:
        """Wait for this answer no longer."""
        self._asked.pop(request.number, None)

    def is_asked(self, endpoint: EndpointId) -> bool:
        """Tell whether an answer of this endpoint can count: others' are not even decoded."""
        return endpoint in self._asked.values()

    def takes(self, sender: EndpointId, answer: Answer) -> bool:
        """Tell whether an answer counts: to a request that waits, from the endpoint asked."""
        return self._asked.get(answer.number) == sender
