"""Access control of one port: whether a principal may do a verb to an object. Pure.

Every port that others connect to declares itself as a ``Port``, with what each of its verbs asks
for, and asks ``Access.check`` before it carries one out. ``docs/security.md`` draws its table of
ports from these declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from handshake.principals import Principal, Proof
from handshake.roles import Names, Role, Roles
from wire.errors import NotAllowed
from wire.scalars import shorten


class Right(StrEnum):
    """What a verb asks a role for."""

    ENTER = "any role"
    """A role at all: for what tells nothing about others."""
    PUBLISH = "publish"
    SUBSCRIBE = "subscribe"
    READ = "read"
    WRITE = "write"
    LEAD = "lead"
    VOTE = "vote"
    RELAY = "relay"
    HOLD = "hold"
    OBSERVE = "observe"


@dataclass(frozen=True, slots=True)
class FileOf:
    """A file or directory of a store, as an object of a verb."""

    store: str
    path: Names

    def __str__(self) -> str:
        """Write it as roles do."""
        return f"{self.store}:/{'/'.join(self.path)}"


@dataclass(frozen=True, slots=True)
class StoreOf:
    """A store as a whole, as an object of a verb."""

    name: str

    def __str__(self) -> str:
        """Give its name."""
        return self.name


Thing = str | FileOf | StoreOf
"""The object of a verb: a topic, a file, or a store."""


@dataclass(frozen=True, slots=True)
class Port:
    """What a listener declares of itself: who is served there, and what each verb asks."""

    name: str
    """With its article, as refusals and documents call it."""
    module: str
    """The file that listens, or where what comes in is asked, from the root of the sources."""
    proofs: tuple[Proof, ...]
    """How a connection proves its principal here, besides ``anonymous``."""
    bare: str
    """What protects the port without credentials."""
    asks: Mapping[str, Right] = field(default_factory=dict)
    """Each verb, in the words of the port's protocol, and the right that it takes."""
    note: str = ""
    """What else there is to know, for the documents."""


def permits(role: Role, right: Right, thing: Thing) -> bool:
    """Tell whether a role has a right to an object."""
    match right, thing:
        case Right.ENTER, _:
            return True
        case ((Right.RELAY | Right.HOLD | Right.OBSERVE), _):
            return bool(getattr(role, right.value))
        case Right.PUBLISH, str(topic):
            return role.may_publish(topic)
        case Right.SUBSCRIBE, str(topic):
            return topic.startswith(role.subscribe)
        case Right.READ, FileOf(store, path):
            return role.may_read_file(store, path)
        case Right.WRITE, FileOf(store, path):
            return role.may_write_file(store, path)
        case ((Right.READ | Right.WRITE | Right.LEAD | Right.VOTE), StoreOf(name)):
            return bool(getattr(role.rights(name), right.value))
        case _:
            return False


class Access:
    """Asks the roles in force, and notes each refusal. One for each port that is open."""

    def __init__(
        self, port: Port, roles: Callable[[], Roles | None], note: Callable[[str], object]
    ) -> None:
        """Guard ``port``.

        ``roles`` gives those in force now; ``None`` permits everything. ``note`` is told of each
        refusal, in a sentence with principal, verb and object; it limits how often it says so.
        """
        self.port = port
        self._roles = roles
        self._note = note
        self.refused = 0
        """Refusals so far."""

    @property
    def roles(self) -> Roles | None:
        """Give the roles in force; ``None`` if everything is permitted."""
        return self._roles()

    def may(self, principal: Principal, verb: str, thing: Thing) -> bool:
        """Tell whether ``check`` would pass, without noting anything."""
        roles = self._roles()
        if roles is None:
            return True
        role = roles.find(principal.name)
        return role is not None and permits(role, self.port.asks[verb], thing)

    def check(self, principal: Principal, verb: str, thing: Thing) -> None:
        """Raise ``NotAllowed``, and note it, unless the principal may do this to the object.

        ``verb`` is one of those that the port declares: any other is a ``KeyError``.
        """
        if not self.may(principal, verb, thing):
            raise self.refuse(principal, verb, str(thing))

    def refuse(self, principal: Principal, verb: str, thing: str) -> NotAllowed:
        """Note a refusal, and give the error to raise."""
        roles = self._roles()
        role = None if roles is None else roles.role_name(principal.name)
        who = f"{principal} ({'without a role' if role is None else f'role {role}'})"
        text = f"{who} may not {verb} {shorten(thing)} at {self.port.name}"
        self.refused += 1
        self._note(text)
        return NotAllowed(text)
