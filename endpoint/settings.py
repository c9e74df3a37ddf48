"""How an endpoint is set up: arguments, then ``PEERMESH_*`` variables, then a TOML file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import inf
from pathlib import Path
from types import NoneType
from typing import Final

from endpoint.link.busy_poll import BUSY_POLL_MICROSECONDS, BUSY_POLL_MICROSECONDS_MAX
from endpoint.link.data_queue import OverflowPolicy
from endpoint.link.limits import LinkLimits
from endpoint.link.rates import Rates
from endpoint.mesh.authorisation import Authorisation
from endpoint.mesh.memory import ENDPOINTS_MAX
from endpoint.pubsub.messages import Shape
from endpoint.pubsub.queueing import Overflow, Queueing
from endpoint.replicas.attaching import KEY_VARIABLES
from handshake.credentials import MEMBER_NAME, Credentials
from handshake.private_files import check_private
from handshake.roles import Roles
from handshake.secret import ClusterSecret
from wire.errors import CredentialsError, RolesError, SettingsError
from wire.identifiers import CERTIFIED_MARK, DIGITS_MARK, is_label
from wire.limits import (
    FRAME_SIZE_MAX,
    FRAME_SIZE_MIN,
    KNOWLEDGE_MAX,
    LABEL_SIZE_MAX,
    LINKS_MAX,
    NAME_SIZE_MAX,
    SUBSCRIPTIONS_MAX,
    TTL_DEFAULT,
    TTL_MAX,
    VALUE_DEPTH_MAX,
    VALUE_ENTRIES_MAX,
)
from wire.public import public
from wire.scalars import shorten

PREFIX: Final = "PEERMESH_"

_QUEUEING: Final = Queueing()
_LIMITS: Final = LinkLimits()

HANDSHAKES_MAX: Final = 1_024
"""Connections that may be in TLS's handshake, and in ours, at once: honest ones are done in
milliseconds. For more, one of the address that has most makes room."""

PEERS_MAX: Final = LINKS_MAX // 2
"""Peers beyond which nobody is accepted any more: with all that are in handshake they are still
fewer than an announcement may name."""

ANNOUNCEMENTS_PER_SECOND_MAX: Final = 2_000
"""Twice as many as a mesh of a thousand has endpoints: each of them wants something else twice a
second. Every one is passed on to everybody, so that a flood is everybody's."""

COMMAND_LINE_VARIABLES: Final = ("PEERMESH_PEER", "PEERMESH_CONTEXT", "PEERMESH_CONFIG_DIR")
"""Where commands find the mesh: an endpoint does not look at them."""

OTHER_VARIABLES: Final = frozenset(
    {"PEERMESH_AUTHORITY_PASSPHRASE", *KEY_VARIABLES, *COMMAND_LINE_VARIABLES}
)
"""Variables with our prefix that are no settings of an endpoint."""

TRUST: Final = frozenset({"secret", "secret_file", "certificate", "key", "authority"})
"""The settings that say how to get into the mesh."""

SECRETS: Final = frozenset({"secret", "passphrase"})
"""A file with one of these is its owner's alone."""

_PATHS: Final = TRUST - {"secret"}
_SECRETS: Final = frozenset({"secret", "passphrase"})
_MAY_BE_EMPTY: Final = frozenset(PREFIX + name.upper() for name in (*TRUST, "passphrase"))


@public
@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What can be set once for an endpoint. ``load`` reads it from outside."""

    name: str = ""
    """What the endpoint calls itself, for people to read: up to 64 printable bytes without blanks,
    ``*`` and ``~``. It gives no right. Empty is the name of the program."""
    ttl: int = TTL_DEFAULT
    """Links that a message from here may cross."""
    forwarding: bool = True
    """False makes a leaf: messages begin or end here, none passes through."""
    overflow_policy: OverflowPolicy = OverflowPolicy.DISCONNECT
    """What happens to a peer that has taken nothing for the stall time."""
    overflow: Overflow = Overflow.WAIT
    """What a full queue of a subscriber means: see ``Endpoint.subscribe``."""
    queue_size: int = _QUEUEING.queue_size
    """Messages that wait for a subscriber before its publishers do."""
    queue_bytes: int = _QUEUEING.queue_bytes
    """Bytes that wait for a subscriber before its publishers do."""
    stall_seconds: float | None = _QUEUEING.stall_seconds
    """How long a full queue makes publishers wait without being read at all; then it drops its
    oldest messages. ``None`` (``never``) is for as long as it takes."""
    hold_seconds_max: float | None = None
    """How long a message waits for a full queue elsewhere before it goes all the same, and may be
    dropped there. ``None`` (``never``) is for as long as it takes."""
    link_stall_seconds: float = _LIMITS.stall_seconds
    """How long a peer may take nothing while something waits for it, until ``overflow_policy``."""
    busy_poll_microseconds: int = BUSY_POLL_MICROSECONDS
    """How long to look for an answer before sleeping, where requests and answers follow each other
    closely. They take a fraction of the time then, and keep a core busy. 0 always sleeps."""
    roles: str = ""
    """The file that says who may do what; empty lets everybody who is in do everything."""
    sign: bool = False
    """Sign everything that is sent, so that no relay can forge or change it."""
    admin: bool = True
    """Answer what other endpoints ask, as far as their roles permit; False answers nothing."""
    allow_plain: bool = False
    """Plain TCP beyond the loopback interface, for networks of which you trust everything."""
    handshakes_max: int = HANDSHAKES_MAX
    """Accepted connections in handshake at once; beyond, the oldest of the address that has most
    makes room."""
    connections_max: int = PEERS_MAX
    """Peers that are let in. Whom this endpoint dials itself is welcome beyond."""
    endpoints_max: int = ENDPOINTS_MAX
    """Endpoints of the mesh that are remembered; news of more is ignored."""
    subscriptions_max: int = SUBSCRIPTIONS_MAX
    """Topics that this endpoint wants at once: everybody else keeps them all."""
    frame_size_max: int = FRAME_SIZE_MAX
    """Bytes of a frame that is taken here. Peers are told, and send smaller frames: of a message
    that does not fit, the event ``MESSAGE_TOO_LARGE`` tells at the last peer that had it."""
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

    secret: ClusterSecret | str | None = field(default=None, repr=False)
    """The cluster secret, or its text, for TLS. Given as ``None`` it turns TLS off, whatever the
    sources below say."""
    secret_file: Path | None = None
    """A file with the text of the cluster secret."""
    certificate: Path | None = None
    """The endpoint's certificate of an own authority, in PEM; needs ``key`` and ``authority``."""
    key: Path | None = None
    """The private key of ``certificate``."""
    authority: Path | None = None
    """The certificates of the authority that issues those of members."""
    passphrase: str | None = field(default=None, repr=False)
    """Opens ``key``, if that is locked."""

    def __post_init__(self) -> None:
        """Refuse what does not make sense."""
        if not isinstance(self.name, str) or (self.name and not is_label(self.name)):
            raise SettingsError(
                f"name cannot be {shorten(self.name)}: give up to {LABEL_SIZE_MAX} printable bytes"
                f" without blanks, {CERTIFIED_MARK} and {DIGITS_MARK}, and no id"
            )
        for name, (least, most) in _RANGES.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                raise SettingsError(f"{name} is {value}; it has to be {_between(least, most)}")
        files = (self.certificate, self.key, self.authority)
        ways = (self.secret is not None, self.secret_file is not None, any(files))
        if sum(ways) > 1:
            raise SettingsError(
                "give one way into the mesh: secret, or secret_file, or certificate, key and"
                " authority"
            )
        if any(files) and not all(files):
            raise SettingsError("certificate, key and authority belong together: give all three")

    def credentials(self, name: str = MEMBER_NAME) -> Credentials | None:
        """Make the credentials that these settings ask for; ``None`` is plain TCP.

        ``name`` stands in the certificate that a holder of the secret issues itself, and is shown
        to whoever dials. Raises ``CredentialsError``.
        """
        if self.certificate and self.key and self.authority:
            files = (self.certificate, self.key, self.authority)
            return Credentials.from_files(*files, passphrase=self.passphrase)
        secret = self.secret
        if self.secret_file is not None:
            secret = ClusterSecret.from_file(self.secret_file)
        return None if secret is None else Credentials.from_secret(secret, name)

    def queueing(self) -> Queueing:
        """Give how much may wait for a subscriber, unless it says otherwise."""
        return Queueing(self.overflow, self.queue_size, self.queue_bytes, self.stall_seconds)

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
        names = {each.name for each in fields(cls)}
        for source in (_read_file(file), _read_environment(environment), arguments):
            if source.keys() & TRUST:
                # One way in replaces another as a whole: half of each would be neither.
                values = {name: value for name, value in values.items() if name not in TRUST}
            values.update(source)
        unknown = sorted(set(values) - names)
        if unknown:
            raise SettingsError(
                f"unknown setting {unknown[0]!r}; there are {', '.join(sorted(names))}"
            )
        return cls(**{name: _convert(name, value) for name, value in values.items()})  # type: ignore[arg-type]  # each is converted by its name


_SECONDS: Final = frozenset({"stall_seconds", "hold_seconds_max", "link_stall_seconds"})

_RANGES: Final = {
    "ttl": (1, TTL_MAX),
    "queue_size": (1, inf),
    "queue_bytes": (1, inf),
    "stall_seconds": (0, inf),
    "hold_seconds_max": (0, inf),
    "link_stall_seconds": (1, 3600),
    "busy_poll_microseconds": (0, BUSY_POLL_MICROSECONDS_MAX),
    "handshakes_max": (1, HANDSHAKES_MAX * 16),
    "connections_max": (1, LINKS_MAX - 1),
    "endpoints_max": (1, KNOWLEDGE_MAX),
    "subscriptions_max": (1, SUBSCRIPTIONS_MAX),
    "frame_size_max": (FRAME_SIZE_MIN, FRAME_SIZE_MAX),
    "value_depth_max": (1, VALUE_DEPTH_MAX),
    "value_entries_max": (1, VALUE_ENTRIES_MAX),
    "bytes_per_second_max": (0, inf),
    "messages_per_second_max": (0, inf),
    "announcements_per_second_max": (0, inf),
}
"""The least and the most that each number may be. What the wire has no room for is no setting."""


def _between(least: int, most: float) -> str:
    return f"at least {least}" if most == inf else f"between {least} and {most}"


def authorise(
    roles: Roles | None, credentials: Credentials | None, settings: Settings
) -> Authorisation:
    """Put together who may do what; raises ``RolesError`` where names would prove nothing.

    An endpoint that signs believes the names of others only as far as those sign.
    """
    sign = settings.sign
    name = None if credentials is None else credentials.name
    if name is not None and len(name.encode()) > NAME_SIZE_MAX:
        raise RolesError(
            f"the name in the certificate has more than {NAME_SIZE_MAX} bytes: use another"
        )
    if roles is None:
        are_proven = credentials is not None and credentials.can_trust_names
        return Authorisation(None, name, is_wary=sign, are_names_proven=are_proven)
    if credentials is None or not credentials.can_trust_names:
        raise RolesError(
            "roles go by the names in certificates, and nobody vouches for those here: without TLS"
            " there are none, and whoever has the cluster secret gives itself any; use certificates"
            " of an authority of your own (peermesh certs init, then Credentials.from_files)"
        )
    if roles.find(name) is None:
        raise RolesError(
            f"the roles have none for this endpoint itself, which is called {name!r}: add it to"
            " [names], or give a default"
        )
    return Authorisation(roles, name, is_wary=sign, are_names_proven=True)


def _read_environment(environment: Mapping[str, str]) -> dict[str, object]:
    return {
        variable.removeprefix(PREFIX).lower(): text
        for variable, text in environment.items()
        if variable.startswith(PREFIX)
        and variable not in OTHER_VARIABLES
        and (text.strip() or variable not in _MAY_BE_EMPTY)
    }


def _read_file(file: Path | None) -> dict[str, object]:
    if file is None:
        return {}
    try:
        found = dict(tomllib.loads(file.read_text()))
        if found.keys() & SECRETS:
            check_private(file, "settings")
        return found
    except OSError as error:
        raise SettingsError(f"cannot read {file}: {error.strerror}; check the path") from error
    except CredentialsError as error:
        raise SettingsError(str(error)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file} is no TOML: {error}") from error
    except RecursionError:
        raise SettingsError(f"{file} holds no settings: it is nested too deep") from None


def _convert(name: str, value: object) -> object:
    if name in _PATHS:
        return None if value is None else Path(str(value))
    if name in _SECRETS and not isinstance(value, (str, ClusterSecret, NoneType)):
        raise SettingsError(f"{name} has to be text, not {type(value).__name__}")
    default = getattr(Settings(), name, None) if name in Settings.__slots__ else None
    try:
        if isinstance(default, bool):
            return _convert_bool(value)
        if isinstance(default, (OverflowPolicy, Overflow)):
            return type(default)(str(value))
        if name in _SECONDS:
            return _convert_seconds(name, value)
        if isinstance(default, int):
            return int(str(value))
    except ValueError as error:
        raise SettingsError(f"setting {name} cannot be {value!r}: {error}") from error
    return value


def _convert_seconds(name: str, value: object) -> float | None:
    is_never = value is None or str(value).lower() == "never"
    if is_never and name != "link_stall_seconds":
        return None
    return float(str(value))


def _convert_bool(value: object) -> bool:
    words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    text = str(value).lower()
    if text not in words:
        raise ValueError("say true or false")
    return words[text]
