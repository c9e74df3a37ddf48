"""Checks of a user's arguments, before anything is done with them. Pure.

Each function takes the argument's name and value, and returns what the engine uses. It raises
``TypeError`` or ``ValueError`` that names the argument, shows the value and says what to give
instead. What can mean one thing only is taken: port and id as text, an endpoint for its id.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Final, Protocol, TypeVar

from wire.addresses import PORT_MAX, read_port
from wire.errors import InvalidData, InvalidTopic
from wire.escaping import is_whole
from wire.identifiers import ENDPOINT_ID_SIZE, EndpointId
from wire.limits import HOLD_LABEL_SIZE_MAX
from wire.scalars import shorten
from wire.topics import check_topic

NUMBER_MAX: Final = 2**63 - 1
"""The largest revision, offset or sequence number: what the wire has room for."""


_ChoiceT = TypeVar("_ChoiceT", bound=StrEnum)
_ItemT = TypeVar("_ItemT")


class HasId(Protocol):
    """An endpoint, of either API."""

    def node_id(self) -> EndpointId:
        """Give its id."""


NodeId = EndpointId | str | bytes | HasId
"""An endpoint id, its text or bytes, or an endpoint, which stands for its id."""

HEX_SIZE: Final = 2 * ENDPOINT_ID_SIZE
"""Bytes of an endpoint id that is written in hexadecimal digits."""

COUNT_MAX: Final = 2**31 - 1
"""The largest count that makes sense anywhere: two thousand million messages in one queue."""


def refuse_replicas(options: Mapping[str, object], kind: str = "store") -> None:
    """Raise ``InvalidData`` for ``replicas=``, which counted the copies of a store or log."""
    if "replicas" in options:
        attach = "attach_log_replica" if kind == "log" else "attach_replica"
        raise InvalidData(
            f"replicas={options['replicas']!r}: copies of a {kind} are counted no more:"
            f' {attach}(name, voters=("a", "b", "c")) has a majority of its voters'
            " keep what a receipt is given for"
        )


def port(name: str, value: object, *, least: int = 1) -> int:
    """Check a TCP port: an integer, or its digits as text. ``listen`` allows 0 with ``least``."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise _wrong_type(name, value, f"a port number such as 9999, from {least} to {PORT_MAX}")
    number = read_port(value) if isinstance(value, str) else value
    if number is None or not least <= number <= PORT_MAX:
        raise _wrong_value(name, value, f"a port is a number from {least} to {PORT_MAX}")
    return number


def host(name: str, value: object) -> str:
    """Check a host name or an address, which is text. Whether it exists is not looked up."""
    if not isinstance(value, str):
        raise _wrong_type(name, value, 'a host as text, such as "127.0.0.1" or "example.org"')
    return value


def endpoint_id(name: str, value: object) -> EndpointId:
    """Check an endpoint id: the id, its text, its 16 bytes, 32 hexadecimal ones, or an endpoint."""
    if isinstance(value, EndpointId):
        return value
    if callable(getattr(value, "node_id", None)) and not isinstance(value, type):
        found = value.node_id()  # type: ignore[attr-defined]  # as was just seen
        if isinstance(found, EndpointId):
            return found
    if not isinstance(value, (str, bytes)):
        raise _wrong_type(name, value, "an endpoint id: what node_id() gives, or its text")
    try:
        if isinstance(value, bytes) and len(value) != HEX_SIZE:
            return EndpointId(value)
        return EndpointId.parse(value if isinstance(value, str) else value.decode("ascii"))
    except ValueError:
        advice = "an endpoint id is what node_id() gives, or its text of 36 characters"
        raise _wrong_value(name, value, advice) from None


def receiver(name: str, value: object) -> EndpointId | None:
    """Check the one endpoint that a message is for; ``None`` is every subscriber."""
    return None if value is None else endpoint_id(name, value)


def seconds(
    name: str, value: object, *, default: float = math.inf, most: float = math.inf
) -> float:
    """Check a duration: seconds as a number, or a ``timedelta``, and not negative.

    ``None`` means ``default``, which is for ever where nothing else is said. More than ``most`` is
    taken for it: no program runs long enough to tell the difference.
    """
    if value is None:
        return min(default, most)
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        raise _wrong_type(name, value, "seconds as a number, a timedelta, or None")
    try:
        number = float(number)
    except OverflowError:
        number = math.inf
    if not number >= 0:  # Not "<": nothing can be said of NaN.
        raise _wrong_value(name, value, "seconds are 0 or more, and None means no limit")
    return min(number, most)


def count(name: str, value: object, *, least: int = 1, most: int = COUNT_MAX) -> int:
    """Check a number of things: an integer from ``least`` to ``most``."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong_type(name, value, "a whole number")
    if not least <= value <= most:
        raise _wrong_value(name, value, f"it may be {least} to {most}")
    return value


def number(name: str, value: object, *, least: int = 0) -> int:
    """Check a revision, an offset, or another number that the wire has eight bytes for."""
    return count(name, value, least=least, most=NUMBER_MAX)


_NO_LISTS: Final = (str, bytes, Mapping)
"""What can be iterated, and is no list of topics."""


def topics(name: str, value: Iterable[object]) -> list[str]:
    """Check the prefixes of a subscription: texts, or one list of them. At least one is needed."""
    given = list(value)
    if len(given) == 1 and isinstance(given[0], Iterable) and not isinstance(given[0], _NO_LISTS):
        given = list(given[0])
    if not given:
        raise TypeError(f'{name}: name at least one topic; "" is the prefix of every topic')
    return [prefix(name, each) for each in given]


def prefix(name: str, value: object) -> str:
    """Check one prefix of topics. A wildcard is refused: it would match nothing."""
    topic = check_topic(value)
    if topic.endswith("*"):
        raise InvalidTopic(
            f"{name}: {shorten(topic)} ends with a wildcard, but topics are prefixes: leave the"
            f" asterisk away, and {shorten(topic.rstrip('*'))} matches all that begins with it"
        )
    return topic


def text(name: str, value: object) -> str:
    """Check a name, or another text that can be sent."""
    if not isinstance(value, str):
        raise _wrong_type(name, value, "text")
    if not is_whole(value):
        raise _wrong_value(name, value, "it holds a lone surrogate, which UTF-8 cannot write")
    return value


def choice(name: str, value: object, choices: type[_ChoiceT]) -> _ChoiceT:
    """Check one of a few words."""
    try:
        return choices(str(value))
    except ValueError:
        words = ", ".join(repr(each.value) for each in choices)
        raise _wrong_value(name, value, f"it is one of {words}") from None


def label(name: str, value: object) -> str:
    """Check a name for people to see, on one line."""
    found = text(name, value)
    if not 0 < len(found) <= HOLD_LABEL_SIZE_MAX or not found.isprintable():
        raise _wrong_value(name, value, f"1 to {HOLD_LABEL_SIZE_MAX} characters that can be shown")
    return found


def several(name: str, value: Iterable[_ItemT]) -> Iterable[_ItemT]:
    """Check a list of things, or what else gives one after the other; text and bytes are one."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise _wrong_type(name, value, "a list, or what else gives one after the other")
    return value


def function(name: str, value: object) -> Callable[..., object]:
    """Check something to call."""
    if not callable(value):
        raise _wrong_type(name, value, "a function")
    return value


def _wrong_type(name: str, value: object, advice: str) -> TypeError:
    return TypeError(f"{name}={shorten(value)} is {type(value).__name__}: give {advice}")


def _wrong_value(name: str, value: object, advice: str) -> ValueError:
    return ValueError(f"{name}={shorten(value)} cannot be used: {advice}")
