"""How an endpoint is set up: arguments, then ``PEERMESH_*`` variables, then a TOML file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import inf
from pathlib import Path
from typing import Final

from endpoint.core import ENDPOINTS_MAX
from endpoint.gauge import Rates
from endpoint.mailbox import QUEUE_SIZE_DEFAULT, Shape
from endpoint.outbox import OverflowPolicy
from wire.errors import MeshError
from wire.limits import (
    FRAME_SIZE_MAX,
    HEADER_SIZE_MAX,
    KIB,
    KNOWLEDGE_MAX,
    LINKS_MAX,
    SUBSCRIPTIONS_MAX,
    TTL_DEFAULT,
    TTL_MAX,
    VALUE_DEPTH_MAX,
    VALUE_ENTRIES_MAX,
)

PREFIX: Final = "PEERMESH_"

HANDSHAKES_MAX: Final = 1_024
"""Connections that may be in TLS's handshake, and in ours, at once. More are closed unheard in the
one; in the other the oldest makes room, since who means well is done in milliseconds."""

PEERS_MAX: Final = LINKS_MAX // 2
"""Peers beyond which nobody is accepted any more: with all that are in handshake they are still
fewer than an announcement may name."""

ANNOUNCEMENTS_PER_SECOND_MAX: Final = 2_000
"""Twice as many as a mesh of a thousand has endpoints: each of them wants something else twice a
second. Every one is passed on to everybody, so that a flood is everybody's."""

OTHER_VARIABLES: Final = ("PEERMESH_SECRET",)
"""Variables with our prefix that are no settings of an endpoint."""


class SettingsError(MeshError, ValueError):
    """A setting that does not exist, or that does not make sense."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What can be set once for an endpoint. ``load`` reads it from outside."""

    ttl: int = TTL_DEFAULT
    """Links that a message from here may cross."""
    forwarding: bool = True
    """False makes a leaf: messages begin or end here, none passes through."""
    overflow_policy: OverflowPolicy = OverflowPolicy.DISCONNECT
    """What happens to a peer that has taken nothing for the stall time."""
    queue_size: int = QUEUE_SIZE_DEFAULT
    """Messages that wait for a subscriber before its publishers do."""
    allow_plain: bool = False
    """Plain TCP beyond the loopback interface, for networks of which you trust everything."""
    handshakes_max: int = HANDSHAKES_MAX
    """Connections in handshake at once; beyond, the one that takes longest makes room."""
    connections_max: int = PEERS_MAX
    """Peers that are let in. Whom this endpoint dials itself is welcome beyond."""
    endpoints_max: int = ENDPOINTS_MAX
    """Endpoints of the mesh that are remembered; news of more is ignored."""
    subscriptions_max: int = SUBSCRIPTIONS_MAX
    """Topics that this endpoint wants at once: everybody else keeps them all."""
    frame_size_max: int = FRAME_SIZE_MAX
    """Bytes of a frame. All endpoints of a mesh need the same: who passes on more is cut off."""
    value_depth_max: int = VALUE_DEPTH_MAX
    """Nesting of a value that is delivered here; deeper ones count as malformed."""
    value_entries_max: int = VALUE_ENTRIES_MAX
    """Values within a value that is delivered here; larger ones count as malformed."""
    bytes_per_second_max: int = 0
    """Bytes that one peer may send a second on average: beyond, it has to wait. 0 sets no limit."""
    messages_per_second_max: int = 0
    """Messages that one peer may send a second on average, likewise."""
    announcements_per_second_max: int = ANNOUNCEMENTS_PER_SECOND_MAX
    """Announcements that one peer may bring, or ask for, a second on average: beyond, it is heard
    later. News of twice ``endpoints_max`` endpoints may always come at once."""

    def __post_init__(self) -> None:
        """Refuse what does not make sense."""
        for name, (least, most) in _RANGES.items():
            value = getattr(self, name)
            if not least <= value <= most:
                raise SettingsError(f"{name} is {value}; it has to be {_between(least, most)}")

    def shape(self) -> Shape:
        """Give how deep a value may be that is delivered here, and how many it may hold."""
        return self.value_depth_max, self.value_entries_max

    def rates(self) -> Rates:
        """Give what one peer may send a second."""
        return Rates(
            self.bytes_per_second_max,
            self.messages_per_second_max,
            self.announcements_per_second_max,
            2 * self.endpoints_max,
        )

    @classmethod
    def load(
        cls,
        arguments: Mapping[str, object],
        environment: Mapping[str, str],
        file: Path | None = None,
    ) -> Settings:
        """Put the sources together; raises ``SettingsError`` for unknown names and bad values."""
        values: dict[str, object] = {}
        if file is not None:
            values.update(_read_file(file))
        names = {field.name for field in fields(cls)}
        for variable, text in environment.items():
            if variable.startswith(PREFIX) and variable not in OTHER_VARIABLES:
                values[variable.removeprefix(PREFIX).lower()] = text
        values.update(arguments)
        unknown = sorted(set(values) - names)
        if unknown:
            raise SettingsError(
                f"unknown setting {unknown[0]!r}; there are {', '.join(sorted(names))}"
            )
        return cls(**{name: _convert(name, value) for name, value in values.items()})  # type: ignore[arg-type]  # each is converted by its name


_RANGES: Final = {
    "ttl": (1, TTL_MAX),
    "queue_size": (1, inf),
    "handshakes_max": (1, HANDSHAKES_MAX * 16),
    "connections_max": (1, LINKS_MAX - 1),
    "endpoints_max": (1, KNOWLEDGE_MAX),
    "subscriptions_max": (1, SUBSCRIPTIONS_MAX),
    "frame_size_max": (HEADER_SIZE_MAX + KIB, FRAME_SIZE_MAX),
    "value_depth_max": (1, VALUE_DEPTH_MAX),
    "value_entries_max": (1, VALUE_ENTRIES_MAX),
    "bytes_per_second_max": (0, inf),
    "messages_per_second_max": (0, inf),
    "announcements_per_second_max": (0, inf),
}
"""The least and the most that each number may be. What the wire has no room for is no setting."""


def _between(least: int, most: float) -> str:
    return f"at least {least}" if most == inf else f"between {least} and {most}"


def _read_file(file: Path) -> dict[str, object]:
    try:
        return dict(tomllib.loads(file.read_text()))
    except OSError as error:
        raise SettingsError(f"cannot read {file}: {error.strerror}; check the path") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file} is no TOML: {error}") from error


def _convert(name: str, value: object) -> object:
    default = getattr(Settings(), name, None) if name in Settings.__slots__ else None
    try:
        if isinstance(default, bool):
            return _convert_bool(value)
        if isinstance(default, OverflowPolicy):
            return OverflowPolicy(str(value))
        if isinstance(default, int):
            return int(str(value))
    except ValueError as error:
        raise SettingsError(f"setting {name} cannot be {value!r}: {error}") from error
    return value


def _convert_bool(value: object) -> bool:
    words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    text = str(value).lower()
    if text not in words:
        raise ValueError("say true or false")
    return words[text]
