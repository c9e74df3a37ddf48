"""Carries out holds: words to the senders of what found a full place, and credit withheld.

What is decided is decided in ``endpoint.link.holds`` and in the places themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from endpoint.link import link
from endpoint.link.connection import Connection
from endpoint.link.hold_words import Holder, HoldWord
from endpoint.link.holds import Holds
from endpoint.link.peering import Peering
from endpoint.mesh.core import EndpointCore
from wire.identifiers import EndpointId
from wire.messages import Credit, Hold, Withheld


class Place(link.Place, Protocol):
    """A mailbox, or what passes through a link."""

    @property
    def is_exhausted(self) -> bool:
        """Whether its reserve is used up, too."""


class Backpressure:
    """The full places of one endpoint, and the holds of its own messages."""

    def __init__(
        self,
        core: EndpointCore,
        peerings: Mapping[EndpointId, Peering],
        on_change: Callable[[], None],
        hold_seconds_max: float | None = None,
    ) -> None:
        """Say words to ``peerings``; ``on_change`` hears when own messages wait, or need not."""
        self._core = core
        self._peerings = peerings
        self._on_change = on_change
        self.holds = Holds(core.routing.passes, core.permissions.may_hold, hold_seconds_max)
        self._numbers: dict[Place, int] = {}
        self._withheld: dict[Place, dict[Connection, None]] = {}

    # Places.

    def add(self, place: Place, label: str) -> None:
        """Know a place by a label, as people call it."""
        self._numbers[place] = self.holds.add_place(label)

    def remove(self, place: Place) -> None:
        """Let everything go on that waits for a place, which is gone."""
        number = self._numbers.pop(place, None)
        if number is not None:
            self._say(self.holds.remove_place(number))
            self._restore(place)

    def forget(self, connection: Connection) -> None:
        """Forget a link that ended."""
        for links in self._withheld.values():
            links.pop(connection, None)
        self.remove(connection.link.data)

    def fill(
        self,
        place: Place,
        connection: Connection,
        sender: EndpointId,
        headers: Sequence[bytes],
        numbers: bytes,
    ) -> None:
        """Tell the sender of what came for a full place; withhold credit if it takes no more."""
        word = self.holds.over(self._numbers[place], sender, headers, numbers)
        if word is not None:
            self._say([word])
        if place.is_exhausted:
            self._withheld.setdefault(place, {})[connection] = None
            if connection.link.withhold(place):
                connection.say(Withheld())

    def relieve(self, place: Place, *, has_room: bool) -> None:
        """Grant credit again; and have senders go on, if it ``has_room`` or drops what comes."""
        if not place.is_exhausted:
            self._restore(place)
        if has_room and place in self._numbers:
            self._say(self.holds.free(self._numbers[place]))

    def _restore(self, place: Place) -> None:
        for connection in self._withheld.pop(place, ()):
            connection.link.restore(place)
            grant(connection)

    # Words.

    def _say(self, words: Sequence[HoldWord]) -> None:
        for word in words:
            local = self._core.local
            message = Hold(
                word.sender, local, word.place, word.label, word.headers, is_all=word.is_all
            )
            hop = self._toward(word.sender)
            if hop is not None:
                hop.say(message, word.sender, word.place)

    def _toward(self, sender: EndpointId) -> Connection | None:
        hop = self._core.routing.next_hop(sender)
        peering = None if hop is None else self._peerings.get(hop)
        return None if peering is None else peering.connection

    def hear(self, message: Hold) -> None:
        """Take in a word, or pass it on to the sender that it is for."""
        if message.sender != self._core.local:
            onward = self._toward(message.sender)
            if onward is not None:
                onward.answer(message, message.sender, message.holder, message.place)
            return
        word = HoldWord(
            message.sender, message.place, message.label, message.headers, is_all=message.is_all
        )
        if self.holds.hear(message.holder, word):
            self._on_change()

    def hear_withheld(self, peer: EndpointId, connection: Connection) -> None:
        """Take in that a peer has a reason to grant nothing; one that may not hold has none."""
        if self._core.permissions.may_hold(peer):
            connection.link.hear_withheld()

    def forget_endpoint(self, endpoint: EndpointId) -> None:
        """Forget an endpoint that is unreachable."""
        if self.holds.forget(endpoint):
            self._on_change()

    def tick(self, seconds: float) -> list[tuple[Holder, HoldWord]]:
        """Repeat all words, and let others' go out of date; give the holds that are slow now."""
        self._say(list(self.holds.words()))
        is_changed, slow = self.holds.age(seconds)
        if is_changed:
            self._on_change()
        return slow


def grant(connection: Connection) -> None:
    """Grant a peer the credit that is due."""
    if connection.peer is not None:
        total = connection.link.due()
        if total is not None:
            connection.say(Credit(total))
