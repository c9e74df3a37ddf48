"""A client and the broker with a link between them, and every order of what may happen to them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from peermesh.brokers.qos2.lines import LineDecoder

Step = tuple[str, tuple[object, ...]]
"""What may happen: the name of a method, and its arguments."""


class Dialogue:
    """All there is, the disks included.

    The link breaks and the broker crashes, so often. A crash of the client is a broken link too: it
    comes back with what is on its disk, which is all it needs.
    """

    faults_left = 0

    def __init__(self) -> None:
        self.connections = 0
        self._cut()

    def _cut(self) -> None:
        """Forget what is in nobody's files: both sides, and all that is on its way."""
        self.client: Any = None
        self.session: Any = None
        self.decoder = LineDecoder()
        self.heard = LineDecoder()
        self.to_broker: list[bytes] = []
        self.to_client: list[bytes] = []

    # What may happen.

    def moves(self) -> Iterator[Step]:
        """Give what happens by itself."""
        if self.client is None and self.has_work():
            yield "connect", ()
        if self.to_broker:
            yield "broker_hears", ()
        if self.to_client:
            yield "client_hears", ()
        yield from self.doings()

    def faults(self) -> Iterator[Step]:
        """Give what goes wrong."""
        if self.faults_left and self.client is not None:
            yield "link_breaks", ()
            yield "broker_crashes", ()

    def link_breaks(self) -> None:
        self.faults_left -= 1
        self.lose_link()
        self._cut()

    def broker_crashes(self) -> None:
        self.faults_left -= 1
        self.lose_broker()
        self._cut()

    def broker_hears(self) -> None:
        self.decoder.feed(self.to_broker.pop(0))
        self._broker_reads()

    def _broker_reads(self) -> None:
        while self.session is not None and not self.session.is_busy:
            data = self.decoder.take(self.session.body_size)
            if data is None:
                return
            self._of_session(self.session.receive(data))

    def client_hears(self) -> None:
        self.heard.feed(self.to_client.pop(0))
        self._client_reads()

    # What a kind of client adds.

    def has_work(self) -> bool:
        """Tell whether the client would connect."""
        raise NotImplementedError

    def doings(self) -> Iterator[Step]:
        """Give what happens beside the link."""
        raise NotImplementedError

    def connect(self) -> None:
        raise NotImplementedError

    def lose_link(self) -> None:
        """Forget what the broker does for this connection only."""

    def lose_broker(self) -> None:
        """Forget what the broker has begun, and not written."""
        raise NotImplementedError

    def _client_reads(self) -> None:
        raise NotImplementedError

    def _of_session(self, steps: Any) -> None:
        raise NotImplementedError

    def check(self) -> None:
        """Hold in every state."""
        raise NotImplementedError

    def check_end(self) -> None:
        """Hold where nothing more happens by itself."""
        raise NotImplementedError


def freeze(thing: object) -> object:
    """Give something hashable that tells one state from another."""
    if isinstance(thing, (list, tuple)):
        return tuple(map(freeze, thing))
    if isinstance(thing, dict):
        return tuple(sorted((repr(key), freeze(value)) for key, value in thing.items()))
    if isinstance(thing, (set, frozenset)):
        return tuple(sorted(map(repr, thing)))
    if isinstance(thing, bytearray):
        return bytes(thing)
    if hasattr(thing, "__dict__") and not hasattr(thing, "__members__"):
        return (type(thing).__name__, freeze(vars(thing)))
    return repr(thing)


def explore(initial: Dialogue) -> SimpleNamespace:
    """Visit every state that can be reached, and look whether it is as it has to be."""
    seen = {freeze(initial)}
    waiting = [initial]
    ends = 0
    while waiting:
        dialogue = waiting.pop()
        dialogue.check()
        moves = list(dialogue.moves())
        if not moves:
            ends += 1
            dialogue.check_end()
        for name, arguments in [*moves, *dialogue.faults()]:
            following = copy.deepcopy(dialogue)
            getattr(following, name)(*arguments)
            key = freeze(following)
            if key not in seen:
                seen.add(key)
                waiting.append(following)
    return SimpleNamespace(states=len(seen), ends=ends)
