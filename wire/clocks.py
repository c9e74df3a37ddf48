"""Logical time: Lamport clocks and vectors of them, as pure values (seed 7.3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Final, Self

from wire.identifiers import EndpointId

DIGEST_SIZE: Final = 8
"""Bytes of a digest: two vectors that differ have the same one once in 2**64 comparisons."""

TIME_SIZE: Final = 8
"""Bytes of a time where it is hashed: all of a 64-bit integer."""


class LamportTime(int):
    """A point of logical time of one endpoint: greater means later, and says nothing else.

    The first event of an endpoint happens at 1. ``LamportTime(0)`` is before every event: the one
    that knows an endpoint as of 0 has heard nothing of it.
    """

    __slots__ = ()

    def __new__(cls, value: int = 0) -> Self:
        """Take zero or more; anything less raises ``ValueError``."""
        if value < 0:
            raise ValueError(f"logical time starts at 0, {value} is before that")
        return super().__new__(cls, value)

    def next(self) -> LamportTime:
        """Give the time of the next event at the same endpoint."""
        return LamportTime(self + 1)

    def witness(self, other: LamportTime) -> LamportTime:
        """Give the time of an event here that knows of ``other``: later than both, and no more."""
        return LamportTime(max(self, other) + 1)

    def __repr__(self) -> str:
        """Show what to paste to get this time back."""
        return f"LamportTime({int(self)})"


NEVER: Final = LamportTime(0)
"""Before every event."""


class VectorTime(Mapping[EndpointId, LamportTime]):
    """What an endpoint has heard of every other: the latest time of each. Immutable, hashable.

    Endpoints of which nothing was heard (time 0) are left out, so that equal knowledge is equal.
    ``a <= b`` says that ``b`` knows all that ``a`` knows; two vectors may be unordered. ``merge``
    is the least upper bound: commutative, associative, idempotent.
    """

    __slots__ = ("_digest", "_hash", "_times")

    _times: dict[EndpointId, LamportTime]
    _hash: int | None
    _digest: int | None

    def __init__(self, times: Mapping[EndpointId, LamportTime] | None = None) -> None:
        """Copy the times, without the zeros. The order of the endpoints is kept for iteration."""
        self._times = {origin: time for origin, time in (times or {}).items() if time}
        self._hash = None
        self._digest = None

    def __getitem__(self, origin: EndpointId) -> LamportTime:
        """Give the time of an endpoint; raises ``KeyError`` if nothing was heard of it."""
        return self._times[origin]

    def __iter__(self) -> Iterator[EndpointId]:
        """Iterate the endpoints of which something was heard."""
        return iter(self._times)

    def __len__(self) -> int:
        """Count the endpoints of which something was heard."""
        return len(self._times)

    def time_of(self, origin: EndpointId) -> LamportTime:
        """Give the time of an endpoint, which is 0 if nothing was heard of it."""
        return self._times.get(origin, NEVER)

    def advance(self, origin: EndpointId, time: LamportTime) -> VectorTime:
        """Give this knowledge with ``origin`` heard as of ``time``; older news changes nothing."""
        if time <= self.time_of(origin):
            return self
        return VectorTime({**self._times, origin: time})

    def merge(self, other: VectorTime) -> VectorTime:
        """Give the knowledge of both together: of each endpoint the later time."""
        times = dict(self._times)
        for origin, time in other.items():
            times[origin] = max(time, times.get(origin, NEVER))
        return VectorTime(times)

    def lacks(self, other: VectorTime) -> tuple[EndpointId, ...]:
        """Name the endpoints of which ``other`` has heard more, sorted; empty if there is none."""
        return tuple(sorted(origin for origin in other if other[origin] > self.time_of(origin)))

    def __le__(self, other: VectorTime) -> bool:
        """Tell whether ``other`` knows all that this one knows."""
        return all(time <= other.time_of(origin) for origin, time in self._times.items())

    def __lt__(self, other: VectorTime) -> bool:
        """Tell whether this happened before ``other``: it knows all of this, and more."""
        return self != other and self <= other

    def __ge__(self, other: VectorTime) -> bool:
        """Tell whether this knows all that ``other`` knows."""
        return other <= self

    def __gt__(self, other: VectorTime) -> bool:
        """Tell whether this happened after ``other``."""
        return other < self

    def __eq__(self, other: object) -> bool:
        """Tell whether both know the same; a plain dict is never equal to a vector."""
        if isinstance(other, VectorTime):
            return self._times == other._times
        return NotImplemented

    def __hash__(self) -> int:
        """Hash the content, once."""
        if self._hash is None:
            self._hash = hash(frozenset(self._times.items()))
        return self._hash

    def digest(self) -> int:
        """Sum up the content in 64 bits: equal in every process that knows the same."""
        if self._digest is None:
            content = b"".join(
                origin + time.to_bytes(TIME_SIZE) for origin, time in sorted(self._times.items())
            )
            self._digest = int.from_bytes(blake2b(content, digest_size=DIGEST_SIZE).digest())
        return self._digest

    def __repr__(self) -> str:
        """Show the content, sorted."""
        times = ", ".join(f"{origin}: {time:d}" for origin, time in sorted(self._times.items()))
        return f"VectorTime({{{times}}})"
