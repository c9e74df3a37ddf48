"""Values that Python has no type for: counts, ports, enums, and times finer than microseconds.

Each of them refuses at construction what it cannot hold, with ``EncodeError`` (a ``ValueError``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any, ClassVar, Final, TypeAlias

from wire.addresses import PORT_MAX
from wire.errors import EncodeError
from wire.escaping import escape
from wire.public import public

INTEGER_MIN: Final = -(2**63)
INTEGER_MAX: Final = 2**63 - 1
COUNT_MAX: Final = 2**64 - 1

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

# In nanoseconds.
_MICROSECOND: Final = 1000
_SECOND: Final = 1_000_000_000
_DAY: Final = 86_400 * _SECOND


@public
@dataclass(frozen=True, slots=True, order=True, repr=False)
class Count:
    """An unsigned integer of 64 bits. ``Count(1)`` equals neither ``1`` nor ``True``."""

    value: int

    def __post_init__(self) -> None:
        """Refuse what does not fit."""
        if type(self.value) is not int or not 0 <= self.value <= COUNT_MAX:
            raise EncodeError(
                f"a count holds an int of 0 to 2**64-1, not {self.value!r}: "
                "plain int holds negative numbers"
            )

    def __index__(self) -> int:
        """Give the number, for ``int()`` and for indexes."""
        return self.value

    def __str__(self) -> str:
        """Write the number."""
        return str(self.value)

    def __repr__(self) -> str:
        """Show what to paste to get this count back."""
        return f"Count({self.value})"


@public
class PortProtocol(IntEnum):
    """The transport protocol that a port number belongs to; numbered as in Broker."""

    UNKNOWN = 0
    TCP = 1
    UDP = 2
    ICMP = 3


@public
@dataclass(frozen=True, slots=True, order=True, repr=False)
class Port:
    """A port number with its protocol: ``Port(53, Port.UDP)`` is written ``53/udp``."""

    number: int
    protocol: PortProtocol = PortProtocol.TCP

    UNKNOWN: ClassVar = PortProtocol.UNKNOWN
    TCP: ClassVar = PortProtocol.TCP
    UDP: ClassVar = PortProtocol.UDP
    ICMP: ClassVar = PortProtocol.ICMP

    def __post_init__(self) -> None:
        """Refuse what is no port."""
        if type(self.number) is not int or not 0 <= self.number <= PORT_MAX:
            raise EncodeError(f"a port is an int of 0 to {PORT_MAX}, not {self.number!r}")
        if type(self.protocol) is not PortProtocol:
            raise EncodeError(
                f"{self.protocol!r} is no protocol of a port: use Port.TCP, UDP, ICMP or UNKNOWN"
            )

    @classmethod
    def parse(cls, text: str) -> Port:
        """Read ``80/tcp``; a number alone is a TCP port. Raises ``EncodeError``."""
        number, slash, name = text.partition("/")
        protocol = _PROTOCOLS.get(name) if slash else cls.TCP
        if protocol is None or not (number.isascii() and number.isdigit()):
            raise EncodeError(f"{shorten(text)} is no port: write 80/tcp, 53/udp, 8/icmp or 0/?")
        return cls(int(number), protocol)

    def __str__(self) -> str:
        """Write ``80/tcp``."""
        name = "?" if self.protocol is self.UNKNOWN else self.protocol.name.lower()
        return f"{self.number}/{name}"

    def __repr__(self) -> str:
        """Show what to paste to get this port back."""
        return f"Port({self.number}, Port.{self.protocol.name})"


_PROTOCOLS: Final = {
    "?": PortProtocol.UNKNOWN,
    "tcp": PortProtocol.TCP,
    "udp": PortProtocol.UDP,
    "icmp": PortProtocol.ICMP,
}


@public
@dataclass(frozen=True, slots=True, order=True, repr=False)
class Enum:
    """An enumerator of some other program, known by its name alone."""

    name: str

    def __post_init__(self) -> None:
        """Refuse what is no text."""
        if type(self.name) is not str:
            raise EncodeError(f"the name of an enum is a str, not {self.name!r}")

    def __str__(self) -> str:
        """Write the name."""
        return self.name

    def __repr__(self) -> str:
        """Show what to paste to get this enum back."""
        return f"Enum({self.name!r})"


def _check_fine(nanoseconds: int, python_type: str) -> None:
    if type(nanoseconds) is not int or not INTEGER_MIN <= nanoseconds <= INTEGER_MAX:
        raise EncodeError(
            f"{nanoseconds!r} nanoseconds do not fit into 64 bits: times reach 292 years from 1970"
        )
    if not nanoseconds % _MICROSECOND:
        raise EncodeError(
            f"{nanoseconds} nanoseconds are whole microseconds: use {python_type}, or .of(), "
            "so that every time has one form"
        )


@public
@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """An instant, in nanoseconds since 1970 in UTC, too fine for ``datetime``.

    Instants of whole microseconds are ``datetime`` objects, and refused here.
    """

    nanoseconds: int

    def __post_init__(self) -> None:
        """Refuse what does not fit, and what ``datetime`` can hold."""
        _check_fine(self.nanoseconds, "datetime")

    @classmethod
    def of(cls, nanoseconds: int) -> datetime | Timestamp:
        """Give the instant in whichever form holds it exactly."""
        if nanoseconds % _MICROSECOND or not INTEGER_MIN <= nanoseconds <= INTEGER_MAX:
            return cls(nanoseconds)
        return EPOCH + timedelta(0, nanoseconds // _SECOND, nanoseconds % _SECOND // _MICROSECOND)


@public
@dataclass(frozen=True, slots=True, order=True)
class Timespan:
    """A duration in nanoseconds, too fine for ``timedelta``.

    Durations of whole microseconds are ``timedelta`` objects, and refused here.
    """

    nanoseconds: int

    def __post_init__(self) -> None:
        """Refuse what does not fit, and what ``timedelta`` can hold."""
        _check_fine(self.nanoseconds, "timedelta")

    @classmethod
    def of(cls, nanoseconds: int) -> timedelta | Timespan:
        """Give the duration in whichever form holds it exactly."""
        if nanoseconds % _MICROSECOND or not INTEGER_MIN <= nanoseconds <= INTEGER_MAX:
            return cls(nanoseconds)
        return timedelta(0, nanoseconds // _SECOND, nanoseconds % _SECOND // _MICROSECOND)


def nanoseconds_since_epoch(instant: datetime) -> int:
    """Count the nanoseconds from 1970 in UTC to an instant; refuses one without time zone."""
    if instant.utcoffset() is None:
        raise EncodeError(
            f"{instant!r} has no time zone: add one, as in datetime.now(UTC) or .astimezone()"
        )
    return nanoseconds_in(instant - EPOCH)


def nanoseconds_in(duration: timedelta) -> int:
    """Count the nanoseconds of a duration; refuses one beyond 64 bits."""
    nanoseconds = duration.days * _DAY + duration.seconds * _SECOND
    nanoseconds += duration.microseconds * _MICROSECOND
    if not INTEGER_MIN <= nanoseconds <= INTEGER_MAX:
        raise EncodeError("nanoseconds do not fit into 64 bits: times reach 292 years from 1970")
    return nanoseconds


Value: TypeAlias = (
    bool | int | float | str | bytes | Count | Port | Enum
    | datetime | Timestamp | timedelta | Timespan
    | IPv4Address | IPv6Address | IPv4Network | IPv6Network
    | Sequence["Value"] | AbstractSet["Value"] | Mapping[Any, "Value"] | None
)  # fmt: skip
"""Whatever can be published or stored. Of sequences only lists and tuples are taken."""


def shorten(value: object, size: int = 60) -> str:
    """Show a value in an error's text, in at most ``size`` characters."""
    try:
        text = escape(repr(value))
    except Exception:  # An error must be told, whatever the value makes of its repr.
        text = f"<{type(value).__name__}>"
    return text if len(text) <= size else text[: size - 3] + "..."
