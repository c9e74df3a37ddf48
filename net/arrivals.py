"""Decides which connection ends when there are too many. Sockets, tasks and time stay outside.

A connection is a newcomer until it has proven itself, and a member afterwards. Newcomers never
compete with members for room, and those of one address compete among themselves first: an address
that sends a crowd pays for it with its own oldest. Those of one address are again of two kinds, as
one that says nothing must not cost another one its place that is in the middle of its handshake.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

NETWORK_BITS: Final = 64
"""Bits of an IPv6 address that count: the rest is one subscriber's, to be used as it likes."""


def origin(host: str) -> str:
    """Give what counts as one address: all that one subscriber can easily dial from."""
    try:
        address = IPv6Address(host)
    except AddressValueError:
        return host
    mapped: IPv4Address | None = address.ipv4_mapped
    if mapped is not None:
        return str(mapped)
    rest = 128 - NETWORK_BITS
    return str(IPv6Address(int(address) >> rest << rest))


class _Crowd(Generic[Key]):
    """The newcomers of one address, each kind in the order in which they became it."""

    def __init__(self) -> None:
        self.silent: dict[Key, None] = {}
        self.speaking: dict[Key, None] = {}

    def __len__(self) -> int:
        return len(self.silent) + len(self.speaking)

    def larger(self) -> dict[Key, None]:
        return self.silent if len(self.silent) >= len(self.speaking) else self.speaking


class Arrivals(Generic[Key]):
    """The connections of one acceptor: newcomers by address, members, and which of these rest."""

    def __init__(self) -> None:
        self._newcomers: dict[Key, str] = {}
        self._members: dict[Key, str] = {}
        self._resting: dict[Key, str] = {}
        self._crowds: dict[str, _Crowd[Key]] = {}

    @property
    def newcomers(self) -> int:
        """Count the connections that have proven nothing."""
        return len(self._newcomers)

    @property
    def members(self) -> int:
        """Count the connections that have proven themselves."""
        return len(self._members)

    def is_newcomer(self, key: Key) -> bool:
        """Tell whether a connection is here and has proven nothing."""
        return key in self._newcomers

    def __iter__(self) -> Iterator[Key]:
        """Give all connections, newcomers first."""
        yield from self._newcomers
        yield from self._members

    def arrive(self, key: Key, host: str) -> None:
        """Take a new connection in."""
        place = self._newcomers[key] = origin(host)
        self._crowds.setdefault(place, _Crowd()).silent[key] = None

    def prove(self, key: Key) -> None:
        """Make a newcomer a member; has no effect on others."""
        if key in self._newcomers:
            self._members[key] = self._leave_crowd(key)

    def rest(self, key: Key) -> None:
        """Note that a member has nothing to do, and may make room for another one."""
        if key in self._members:
            self._resting[key] = self._members[key]

    def work(self, key: Key) -> None:
        """Note that a member is busy."""
        self._resting.pop(key, None)

    def leave(self, key: Key) -> None:
        """Forget a connection, if it is known."""
        if key in self._newcomers:
            self._leave_crowd(key)
        self._members.pop(key, None)
        self._resting.pop(key, None)

    def _leave_crowd(self, key: Key) -> str:
        place = self._newcomers.pop(key)
        crowd = self._crowds[place]
        crowd.silent.pop(key, None)
        crowd.speaking.pop(key, None)
        if not crowd:
            del self._crowds[place]
        return place

    def newcomer_to_end(self, has_spoken: Callable[[Key], bool]) -> Key | None:
        """Choose the newcomer that makes room; ``None`` if there is none.

        It is of the address that has most. There, the more numerous kind gives its oldest: of
        those that say nothing, or of those that speak. ``has_spoken`` is asked only of the oldest
        that is not yet known to.
        """
        if not self._crowds:
            return None
        crowd = max(self._crowds.values(), key=len)
        while crowd.silent and has_spoken(oldest := next(iter(crowd.silent))):
            del crowd.silent[oldest]
            crowd.speaking[oldest] = None
        return next(iter(crowd.larger()))

    def member_to_end(self, newest: Key | None = None) -> Key | None:
        """Choose the member that makes room for ``newest``, a newcomer; ``None`` if none rests.

        It is the one that rests longest, of the same address if one does there, and of all
        addresses otherwise.
        """
        place = None if newest is None else self._newcomers.get(newest)
        alike = (key for key, other in self._resting.items() if other == place)
        return next(alike, next(iter(self._resting), None))
