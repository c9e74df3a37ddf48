"""Which messages wait for a full place: a mailbox, or what passes through a link. Pure.

*As the owner of places.* What still comes for a full place is noted with ``over``; the word that it
gives is sent to the sender, and passed on by relays in control slots. A word is the whole state of
a place and a sender, never a change: a lost or replaced one does no harm. It names the headers that
this place got, and not all of a mixed frame, or else a slow reader stops its neighbours. ``free``
takes it back when the place is half empty, lossy, or gone. ``words`` repeats all once a second.

*As a sender.* ``hear`` believes a word only from an endpoint that may hold, for headers whose route
passes it. A word lasts for ``LEASE_SECONDS`` (``age``). ``verdict`` says whether a message goes,
waits, or goes FORCED. Only bytes of headers and seconds count here: no clock, no task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from endpoint.link.hold_words import (
    HEADERS_MAX,
    HEADERS_SIZE_MAX,
    HELD_SIZE_MAX,
    LEASE_SECONDS,
    PLACES_MAX,
    SLOW_SECONDS,
    Holder,
    HoldWord,
    Verdict,
)
from wire.identifiers import EndpointId


class _Hold:
    """What a place holds, as its sender has heard it."""

    __slots__ = ("age", "headers", "lasts", "word")

    def __init__(self, word: HoldWord) -> None:
        self.word = word
        self.headers = frozenset(word.headers)
        self.age = self.lasts = 0.0


class Holds:
    """The holds of one endpoint, on both sides."""

    __slots__ = (
        "_held",
        "_held_size",
        "_labels",
        "_max",
        "_may_hold",
        "_passes",
        "_places",
        "_told",
    )

    def __init__(
        self,
        passes: Callable[[EndpointId, bytes], bool],
        may_hold: Callable[[EndpointId], bool],
        hold_seconds_max: float | None = None,
    ) -> None:
        """Ask whether our route for a header passes an endpoint, and whether that may hold.

        A message waits for ``hold_seconds_max`` at most; ``None`` is for as long as it takes.
        """
        self._passes = passes
        self._may_hold = may_hold
        self._max = hold_seconds_max
        self._places = 0
        self._labels: dict[int, str] = {}
        self._told: dict[tuple[int, EndpointId], dict[bytes, None] | None] = {}
        """The headers that each place has told each sender of; ``None`` is all."""
        self._held: dict[tuple[EndpointId, int], _Hold] = {}
        self._held_size = 0

    # As the owner of places.

    def add_place(self, label: str) -> int:
        """Give the number of a new place, and have people know it by ``label``."""
        self._places += 1
        self._labels[self._places] = label
        return self._places

    def over(
        self, place: int, sender: EndpointId, headers: Sequence[bytes], numbers: bytes = b""
    ) -> HoldWord | None:
        """Note what came for a full place; give the word to say now, if it is news.

        ``numbers`` has the header of each message, if there are several headers.
        """
        key = place, sender
        if key not in self._told and len(self._told) >= PLACES_MAX:
            return None  # Its messages take the reserve, and then the credit of their link.
        told = self._told.setdefault(key, {})
        used = [headers[number] for number in sorted(set(numbers))] if numbers else headers
        if told is None or all(header in told for header in used):
            return None
        told.update(dict.fromkeys(used))
        if len(told) > HEADERS_MAX or sum(map(len, told)) > HEADERS_SIZE_MAX:
            self._told[key] = None
        return self._word(key)

    def free(self, place: int) -> list[HoldWord]:
        """Take back all holds of a place that is half empty or lossy; give what to say."""
        gone = [key for key in self._told if key[0] == place]
        for key in gone:
            del self._told[key]
        return [HoldWord(sender, place, self._labels[place]) for _, sender in gone]

    def remove_place(self, place: int) -> list[HoldWord]:
        """Take back all holds of a place that is gone; give what to say."""
        words = self.free(place)
        del self._labels[place]
        return words

    def words(self) -> Iterator[HoldWord]:
        """Give all words that stand, to be said again once a second."""
        return map(self._word, list(self._told))

    def _word(self, key: tuple[int, EndpointId]) -> HoldWord:
        (place, sender), told = key, self._told[key]
        label = self._labels[place]
        return HoldWord(sender, place, label, tuple(told or ()), is_all=told is None)

    # As a sender.

    def hear(self, holder: EndpointId, word: HoldWord) -> bool:
        """Take in a word; true if messages that wait, or would not, have to ask anew."""
        key = holder, word.place
        before = self._drop(key)
        headers = tuple(each for each in word.headers if self._passes(holder, each))
        size = sum(map(len, headers))
        is_all = word.is_all or len(headers) > HEADERS_MAX
        if is_all or self._held_size + size > HELD_SIZE_MAX:
            headers, size, is_all = (), 0, True
        is_believed = (headers or is_all) and self._may_hold(holder)
        if not is_believed or len(self._held) >= PLACES_MAX:
            return before is not None
        hold = _Hold(HoldWord(word.sender, word.place, word.label, headers, is_all))
        if before is not None:
            hold.lasts = before.lasts
        self._held[key] = hold
        self._held_size += size
        return before is None or before.word != hold.word

    def _drop(self, key: tuple[EndpointId, int]) -> _Hold | None:
        hold = self._held.pop(key, None)
        if hold is not None:
            self._held_size -= sum(map(len, hold.word.headers))
        return hold

    def age(self, seconds: float) -> tuple[bool, list[tuple[Holder, HoldWord]]]:
        """Let time pass: tell whether leases ended, and which holds have become slow just now."""
        slow: list[tuple[Holder, HoldWord]] = []
        ended = False
        for key, hold in list(self._held.items()):
            was_slow = hold.lasts >= SLOW_SECONDS
            hold.age += seconds
            hold.lasts += seconds
            if hold.age >= LEASE_SECONDS:
                self._drop(key)
                ended = True
            elif hold.lasts >= SLOW_SECONDS and not was_slow:
                slow.append((Holder(*key, hold.word.label), hold.word))
        return ended, slow

    def forget(self, endpoint: EndpointId) -> bool:
        """Forget an endpoint that is unreachable; true as for ``hear``."""
        for key in [key for key in self._told if key[1] == endpoint]:
            del self._told[key]
        gone = [held for held in self._held if held[0] == endpoint]
        for held in gone:
            self._drop(held)
        return bool(gone)

    def holders(self, header: bytes) -> list[Holder]:
        """Name the places that messages of a header wait for."""
        return [
            Holder(endpoint, place, hold.word.label)
            for (endpoint, place), hold in self._held.items()
            if (hold.word.is_all or header in hold.headers) and self._passes(endpoint, header)
        ]

    @property
    def is_idle(self) -> bool:
        """Tell whether nothing is held."""
        return not self._held

    def verdict(self, header: bytes, waited: float) -> Verdict:
        """Say what becomes of a message that has waited for so many seconds."""
        if not self._held or not self.holders(header):
            return Verdict.GO
        return Verdict.WAIT if self._max is None or waited < self._max else Verdict.FORCED
