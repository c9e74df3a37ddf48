"""Values as Broker's bindings have them: ``Data`` with its type and text, and Python's forms."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from types import NoneType
from typing import Any, ClassVar, Final, Self, TypeAlias

import peermesh as mesh

Given: TypeAlias = Any
"""Whatever Broker's bindings take, or give."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def Timespan(value: float = 0) -> timedelta | mesh.Timespan:  # noqa: N802 - Broker's name
    """Give a duration: of so many nanoseconds as an ``int``, of seconds as a ``float``."""
    return mesh.Timespan.of(value if isinstance(value, int) else round(value * 1e9))


def Timestamp(seconds: float = 0) -> datetime | mesh.Timestamp:  # noqa: N802 - Broker's name
    """Give the instant that is so many seconds after 1970 in UTC."""
    return mesh.Timestamp.of(round(seconds * 1e9))


def now() -> datetime | mesh.Timestamp:
    """Give the time of the system's clock."""
    return mesh.Timestamp.of(time.time_ns())


@dataclass(frozen=True, order=True)
class Port:
    """A port with its protocol: ``Port(80, Port.TCP)``."""

    _number: int = 0
    _protocol: mesh.PortProtocol = mesh.Port.UNKNOWN

    TCP: ClassVar = mesh.Port.TCP
    UDP: ClassVar = mesh.Port.UDP
    ICMP: ClassVar = mesh.Port.ICMP
    Unknown: ClassVar = mesh.Port.UNKNOWN

    def number(self) -> int:
        return self._number

    def get_type(self) -> mesh.PortProtocol:
        return self._protocol

    def __str__(self) -> str:
        return str(to_mesh(self))


def to_mesh(value: Given) -> Given:
    """Give what the mesh has for a value of Python or Broker; raises ``TypeError``."""
    match value:
        case Element():
            return value.value
        case Port():
            return mesh.Port(value.number(), value.get_type())
        case datetime():
            return value.astimezone(UTC)  # One without a zone is local time.
        case bytes():
            text = value.decode(errors="replace")
            return text if text.encode() == value else value
        case list() | tuple():
            return tuple(map(to_mesh, value))
        case AbstractSet():
            return mesh.Set(map(to_mesh, value))
        case Mapping():
            return mesh.Table((to_mesh(key), to_mesh(each)) for key, each in value.items())
        case _ if hasattr(value, "as_data"):  # such as an event of Zeek
            return to_mesh(value.as_data())
        case _:
            Type.of(value)  # It raises the error.
            return value


def to_py(value: Given) -> Given:
    """Give what Broker's bindings have for what the mesh gives, in containers of Python."""
    match value:
        case tuple():
            return tuple(map(to_py, value))
        case mesh.Set():
            return set(map(to_py, value))
        case mesh.Table():
            return {to_py(key): to_py(each) for key, each in value.items()}
        case mesh.Port(number, protocol):
            return Port(number, protocol)
        case mesh.Timespan(nanoseconds):
            return timedelta(microseconds=nanoseconds // 1000)
        case mesh.Timestamp(nanoseconds):
            return _EPOCH + timedelta(microseconds=nanoseconds // 1000)
        case mesh.Outcome():
            return bool(value)
        case mesh.EndpointId():
            return str(value)
        case _:
            return value


def _time(value: Given) -> str:
    since: Given = value - _EPOCH if isinstance(value, datetime) else value
    is_whole = isinstance(since, timedelta)
    return f"{since // timedelta(microseconds=1) * 1000 if is_whole else since.nanoseconds}ns"


def _text(value: Given) -> str:
    return Type.of(value).text(value)


def _joined(values: Iterable[Given]) -> str:
    return ", ".join(map(_text, values))


def _pair(pair: tuple[Given, Given]) -> str:
    return " -> ".join(map(_text, pair))


class Type(Enum):
    """Broker's types: what each is in the mesh, and how its text is made."""

    Nil = (NoneType,), lambda _: "nil"
    Boolean = (bool,), lambda value: "FT"[value]
    Count = (mesh.Count,), str
    Integer = (int,), lambda value: f"{value:d}"
    Real = (float,), "{:f}".format
    String = (str, bytes), lambda value: value if isinstance(value, str) else repr(value)[2:-1]
    Address = (IPv4Address, IPv6Address), str
    Subnet = (IPv4Network, IPv6Network), str
    Port = (mesh.Port,), str
    Timestamp = (datetime, mesh.Timestamp), _time
    Timespan = (timedelta, mesh.Timespan), _time
    EnumValue = (mesh.Enum,), str
    Set = (mesh.Set,), lambda value: f"{{{_joined(value)}}}"
    Table = (mesh.Table,), lambda value: f"{{{', '.join(map(_pair, value.items()))}}}"
    Vector = (tuple,), lambda value: f"({_joined(value)})"

    def __init__(self, kinds: tuple[type, ...], text: Callable[[Given], str]) -> None:
        self.kinds, self.text = kinds, text

    @classmethod
    def of(cls, value: object) -> Type:
        """Give the first type that fits a value of the mesh: a ``bool`` is an ``int`` as well."""
        for each in cls:
            if isinstance(value, each.kinds):
                return each
        raise TypeError(f"unsupported data type: {type(value)}")


class Element:
    """A value with Broker's type and text: ``Data`` is one, and containers hold others."""

    Type: ClassVar[type[Type]] = Type

    def __init__(self, value: Given = None) -> None:
        self.value = to_mesh(value)

    def get_type(self) -> Enum:
        return Type.of(self.value)

    def as_set(self) -> Set:
        return Set(map(Element, self.value))

    def as_table(self) -> dict[Element, Element]:
        return {Element(key): Element(each) for key, each in self.value.items()}

    def as_vector(self) -> list[Element]:
        return list(map(Element, self.value))

    def __str__(self) -> str:
        return _text(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Element) and mesh.Set([self.value]) == mesh.Set([other.value])

    def __hash__(self) -> int:
        return hash(mesh.Set([self.value]))


class Set(set[Element]):
    """Elements in Broker's order."""

    def __iter__(self) -> Iterator[Element]:
        return map(Element, mesh.Set(each.value for each in set.__iter__(self)))

    def __str__(self) -> str:
        return f"Set{Element(self)}"


class Data(Element):
    """A value that Broker takes; ``to_py`` gives it in containers that can be changed."""

    @classmethod
    def from_py(cls, value: Given) -> Self:
        return cls(value)

    @classmethod
    def to_py(cls, value: Given) -> Given:
        return to_py(to_mesh(value))


class ImmutableData(Data):
    """The same, but ``to_py`` gives the values of the mesh, which can be hashed."""

    @classmethod
    def to_py(cls, value: Given) -> Given:
        return to_mesh(value)
