"""Roles: what a principal may do, by its name (design section 5).

A table of roles and a table of names, read from TOML or given as dicts. Whatever a role does not
permit is forbidden. Nothing here knows how a name was proven, nor what happens to offenders.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Final

from handshake.principals import ANONYMOUS
from wire.errors import InvalidTopic, RolesError
from wire.topics import (
    CLONE_SUFFIX,
    GROUP_SUFFIXES,
    KEEPER_SUFFIX,
    MASTER_SUFFIX,
    PROXY_SUFFIX,
    READER_SUFFIX,
    check_topic,
    command_name,
    minimal,
    store_name,
)

ROLES_MAX: Final = 1_024
"""Roles of one table: more could not be kept in view."""

NAMES_MAX: Final = 65_536
"""Names of one table: six times as many as endpoints of a mesh."""

ITEMS_MAX: Final = 1_024
"""Topics or stores in one list of a role: each message's topic is compared with all of them once
for each header."""

ANY: Final = "*"
"""Ends a name or a store that stands for all that begin with what is before it."""


PATH_MARK: Final = ":/"
"""Parts the name of a store from a path of the files in it."""

Names = tuple[str, ...]
"""A path of a file: the names from the root on, without slashes; the root itself is empty."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A name, or the beginning of one with a star behind it; of a store, maybe a path in it."""

    beginning: str
    is_whole: bool
    path: Names | None = None
    """The file or directory that is meant, with all below it; ``None`` for the whole store."""

    @classmethod
    def parse(cls, text: str) -> Pattern:
        """Read it; raises ``RolesError`` for a star anywhere but at the end."""
        beginning = text.removesuffix(ANY)
        if not text or ANY in beginning:
            raise RolesError(f"{text!r} is no name: a star stands at the end, or nowhere")
        return cls(beginning, is_whole=beginning == text)

    @classmethod
    def parse_store(cls, text: str) -> Pattern:
        """Read a store, or ``STORE:/PATH`` for its files there; raises ``RolesError``."""
        store, mark, below = text.partition(PATH_MARK)
        found = cls.parse(store)
        if not mark:
            return found
        path = tuple(name for name in below.split("/") if name)
        if ANY in below or any(name in (".", "..") for name in path):
            raise RolesError(f"{text!r}: a path means all that is below it: no star, and no dots")
        return replace(found, path=path)

    def matches(self, name: str) -> bool:
        """Tell whether the name is meant."""
        return name == self.beginning if self.is_whole else name.startswith(self.beginning)

    def covers(self, store: str, path: Names) -> bool:
        """Tell whether a file of a store is meant; by whole names, so that /ab is not below /a."""
        if not self.matches(store):
            return False
        return self.path is None or path[: len(self.path)] == self.path


@dataclass(frozen=True, slots=True)
class Rights:
    """What an endpoint may do with one store or log."""

    read: bool = False
    """Have a clone, or ask as a proxy."""
    write: bool = False
    """Change it, through a clone or a proxy."""
    lead: bool = False
    """Lead it, as its master or by promotion; answer others as a replica; and all above."""
    vote: bool = False
    """Have a replica of its group: vote, and lead if a majority votes for it; read and write."""


ALL_RIGHTS: Final = Rights(read=True, write=True, lead=True, vote=True)
VOTERS_RIGHTS: Final = Rights(read=True, write=True, vote=True)


@dataclass(frozen=True, slots=True)
class Role:
    """What a certificate's name may do. The fields are the keys of a role in the file."""

    publish: tuple[str, ...] = ()
    """Topics that it publishes on begin with one of these; ``""`` is every topic."""
    subscribe: tuple[str, ...] = ()
    """Topics that it hears begin with one of these."""
    read: tuple[Pattern, ...] = ()
    """Stores and logs that it may read; with a path, files of a store, at gateways alone."""
    write: tuple[Pattern, ...] = ()
    """Stores and logs that it may change. To have a clone it has to read, too. With a path, files
    of a store that it may write and delete, at gateways alone."""
    lead: tuple[Pattern, ...] = ()
    """Stores and logs whose master it may be, or become; that includes reading and writing."""
    vote: tuple[Pattern, ...] = ()
    """Stores and logs of whose group it may have a replica, which may be elected to lead; that
    includes reading and writing. Who may lead may do this, too."""
    relay: bool = False
    """Whether others' messages may pass through it. Without it, it is a leaf, and heard about
    itself alone."""
    observe: bool = False
    """Whether other endpoints describe themselves to it: names and counts, no content."""
    operate: bool = False
    """Whether it may change how other endpoints run."""
    hold: bool = True
    """Whether publishers elsewhere wait for a full queue there: without it, the queue drops."""

    def may_publish(self, topic: str) -> bool:
        """Tell whether messages on a topic are taken from it."""
        return topic.startswith(self.publish)

    def permitted(self, wanted: Sequence[str]) -> tuple[str, ...]:
        """Give the part of a minimal set of prefixes that it may hear: minimal and sorted."""
        if "" in self.subscribe:
            return tuple(wanted)
        narrowed = (narrow for prefix in wanted for narrow in self._narrow(prefix))
        return minimal(narrowed)

    def _narrow(self, wanted: str) -> Iterable[str]:
        if wanted.startswith(self.subscribe):
            return (wanted,)
        return (allowed for allowed in self.subscribe if allowed.startswith(wanted))

    def rights(self, store: str) -> Rights:
        """Say what it may do with a store or log of that name."""
        if _match(self.lead, store):
            return ALL_RIGHTS
        if _match(self.vote, store):
            return VOTERS_RIGHTS
        return Rights(_match(self.read, store), _match(self.write, store))

    def may_read_file(self, store: str, path: Names) -> bool:
        """Tell whether it may read, or list, this file or directory of a store."""
        return any(each.covers(store, path) for each in (*self.read, *self.lead, *self.vote))

    def may_write_file(self, store: str, path: Names) -> bool:
        """Tell whether it may write, or delete, this file or directory of a store."""
        return any(each.covers(store, path) for each in (*self.write, *self.lead, *self.vote))

    def may_command(self, topic: str) -> bool:
        """Tell whether commands on a reserved topic are taken from it at all.

        A master looks at each, as a replica of a group does, and says so to a sender without the
        right: its answer is the error that the user sees. Services do the same, and so do the
        receivers of commands of a kind that is not known here: of a sender with any right these
        are passed on.
        """
        if topic.endswith((MASTER_SUFFIX, KEEPER_SUFFIX, *GROUP_SUFFIXES)):
            return True
        name = store_name(topic)
        if name is None:
            return self != NOTHING
        rights = self.rights(name)
        # Proxies ask clones; all else that goes there speaks for a master, or for a replica.
        if topic.endswith((PROXY_SUFFIX, READER_SUFFIX)):
            return rights.vote
        return rights.lead or (rights.read and topic.endswith(CLONE_SUFFIX))

    def may_hear(self, topic: str) -> bool:
        """Tell whether commands on a reserved topic are sent to it, if it announces that topic."""
        rights = self.rights(command_name(topic) or "")
        if topic.endswith((MASTER_SUFFIX, KEEPER_SUFFIX)):
            return rights.lead
        # A writer without a copy hears what became of its writes; so does one of a log.
        return rights.read or (rights.write and not topic.endswith(_COPIES))


_COPIES: Final = (CLONE_SUFFIX, *GROUP_SUFFIXES, "/<$>/log/follower")

EVERYTHING: Final = Role(
    publish=("",),
    subscribe=("",),
    read=(Pattern("", is_whole=False),),
    write=(Pattern("", is_whole=False),),
    lead=(Pattern("", is_whole=False),),
    vote=(Pattern("", is_whole=False),),
    relay=True,
    observe=True,
    operate=True,
)
"""What everybody who is in may do where no roles are given."""

NOTHING: Final = Role(hold=False)
"""Rights of a sender without a role that is not a peer: the endpoint it peered with answers."""


@dataclass(frozen=True, slots=True)
class Roles:
    """Who may do what: roles by the names in certificates. ``parse`` reads a file's text."""

    roles: Mapping[str, Role]
    names: Mapping[str, str]
    """Names, whole or with a star, and the role that each has. The longest that fits counts."""
    default: str | None = None
    """The role of everybody else; ``None`` refuses them."""
    _patterns: tuple[tuple[Pattern, str], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check that every role that is named exists; raises ``RolesError``."""
        if len(self.roles) > ROLES_MAX or len(self.names) > NAMES_MAX:
            raise RolesError(f"up to {ROLES_MAX} roles and {NAMES_MAX} names are possible")
        for name, role in self.names.items():
            self._check_known(role, f"names: {name!r}")
        if self.default is not None:
            self._check_known(self.default, "default")
        patterns = [(Pattern.parse(name), role) for name, role in self.names.items()]
        starred = [each for each in patterns if not each[0].is_whole]
        starred.sort(key=lambda each: len(each[0].beginning), reverse=True)
        object.__setattr__(self, "_patterns", tuple(starred))

    def _check_known(self, role: str, where: str) -> None:
        if role not in self.roles:
            known = ", ".join(sorted(self.roles)) or "none"
            raise RolesError(f"{where}: there is no role {role!r}; there are: {known}")

    def role_name(self, name: str | None) -> str | None:
        """Say which role a principal's name has; ``None`` if it has none, and is refused.

        No name is ``anonymous``, which has a role only if that is named whole, or by default: what
        has proven nothing fits no star.
        """
        if name is None:
            return self.names.get(ANONYMOUS, self.default)
        whole = self.names.get(name)
        if whole is not None:
            return whole
        for pattern, role in self._patterns:
            if pattern.matches(name):
                return role
        return self.default

    def find(self, name: str | None) -> Role | None:
        """Give the role of a principal's name; ``None`` if it has none, and is refused."""
        role = self.role_name(name)
        return None if role is None else self.roles[role]

    @classmethod
    def parse(cls, text: str) -> Roles:
        """Read TOML, as ``docs/security.md`` describes it; raises ``RolesError``."""
        try:
            return cls.of(tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            raise RolesError(f"the roles are no TOML: {error}") from None
        except RecursionError:
            raise RolesError("these are no roles: they are nested too deep") from None

    @classmethod
    def of(cls, table: Mapping[str, object]) -> Roles:
        """Take the same as dicts; raises ``RolesError``."""
        _check_keys(table, ("default", "names", "roles"), "the roles")
        roles = {name: _role(name, body) for name, body in _table(table, "roles").items()}
        names = _table(table, "names")
        for name, role in (*names.items(), ("default", table.get("default", ""))):
            if not isinstance(role, str):
                raise RolesError(f"{name!r} has the role {role!r}: give the name of a role")
        return cls(roles, {name: str(role) for name, role in names.items()}, _default(table))


def _default(table: Mapping[str, object]) -> str | None:
    return str(table["default"]) if "default" in table else None


def _table(table: Mapping[str, object], key: str) -> Mapping[str, object]:
    found = table.get(key, {})
    if not isinstance(found, Mapping):
        raise RolesError(f"{key} is {found!r}: write a table [{key}]")
    return found


def _check_keys(table: Mapping[str, object], known: Sequence[str], where: str) -> None:
    unknown = sorted(set(table) - set(known))
    if unknown:
        raise RolesError(f"{where}: unknown key {unknown[0]!r}; there are {', '.join(known)}")


def _role(name: str, body: object) -> Role:
    where = f"role {name!r}"
    if not isinstance(body, Mapping):
        raise RolesError(f"{where} is {body!r}: write a table [roles.{name}]")
    _check_keys(body, [each.name for each in fields(Role)], where)
    return Role(
        publish=_topics(body, "publish", where),
        subscribe=_topics(body, "subscribe", where),
        read=_stores(body, "read", where),
        write=_stores(body, "write", where),
        lead=_led(body, "lead", where),
        vote=_led(body, "vote", where),
        relay=_flag(body, "relay", where),
        observe=_flag(body, "observe", where),
        operate=_flag(body, "operate", where),
        hold=_flag(body, "hold", where, default=True),
    )


def _flag(body: Mapping[str, object], key: str, where: str, *, default: bool = False) -> bool:
    found = body.get(key, default)
    if not isinstance(found, bool):
        raise RolesError(f"{where}: {key} is {found!r}; say true or false")
    return found


def _texts(body: Mapping[str, object], key: str, where: str) -> list[str]:
    found = body.get(key, ())
    is_list = isinstance(found, Sequence) and not isinstance(found, str)
    if not is_list or not all(isinstance(item, str) for item in found):  # type: ignore[attr-defined]  # a list, then
        raise RolesError(f'{where}: {key} is {found!r}; write a list of texts, as ["a", "b"]')
    items = [str(item) for item in found]  # type: ignore[attr-defined]  # with the other
    if len(items) > ITEMS_MAX:
        raise RolesError(f"{where}: {key} has {len(items)} items; {ITEMS_MAX} are possible")
    return items


def _topics(body: Mapping[str, object], key: str, where: str) -> tuple[str, ...]:
    try:
        return minimal(check_topic(topic) for topic in _texts(body, key, where))
    except InvalidTopic as error:
        raise RolesError(f"{where}: {key}: {error}") from None


def _stores(body: Mapping[str, object], key: str, where: str) -> tuple[Pattern, ...]:
    texts = _texts(body, key, where)
    try:
        return tuple(Pattern.parse_store(text) for text in texts)
    except RolesError as error:
        raise RolesError(f"{where}: {key}: {error}") from None


def _led(body: Mapping[str, object], key: str, where: str) -> tuple[Pattern, ...]:
    found = _stores(body, key, where)
    if any(each.path is not None for each in found):
        raise RolesError(f"{where}: {key}: a store is led as a whole: leave the path out")
    return found


def _match(patterns: Iterable[Pattern], name: str) -> bool:
    return any(pattern.path is None and pattern.matches(name) for pattern in patterns)
