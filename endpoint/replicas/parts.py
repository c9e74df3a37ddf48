"""What the one runner asks of every core, and of the part that each kind of core has for itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from stores.effects import Effect
from stores.group.effects import WriteMark
from stores.replica.core import GroupCore
from stores.replica.effects import GroupEffect, ToDisk
from stores.requests import Requests
from stores.statistics import LogStatistics, StoreStatistics
from wire.identifiers import EndpointId, EntityId
from wire.topics import group_topic, log_group_topic, log_topics, proxy_topic, store_topics

if TYPE_CHECKING:
    from stores.log.requests import LogRequests  # which a store does not need

AnyEffect = Effect | GroupEffect

Kind = Literal["store", "log"]
"""What is replicated, in sentences."""


class Core(Protocol):
    """What replicas of groups and proxies have in common."""

    entity: EntityId

    @property
    def requests(self) -> Requests | LogRequests:
        """What the handle asked for."""

    @property
    def size(self) -> int:
        """Bytes of the keys and values, or entries, that it holds."""

    @property
    def has_work(self) -> bool:
        """True if ``work`` has something to do."""

    def receive(self, sender: EndpointId, payload: bytes) -> Sequence[AnyEffect]:
        """Take in a command."""

    def flush(self) -> Sequence[AnyEffect]:
        """Tell what was asked."""

    def tick(self, now_ns: int) -> Sequence[AnyEffect]:
        """Let time pass."""

    def work(self) -> Sequence[AnyEffect]:
        """Take a step of what is too long for one."""

    def peer_unreachable(self, endpoint: EndpointId) -> Sequence[AnyEffect]:
        """Take note that an endpoint is gone."""

    def endpoint_discovered(self, endpoint: EndpointId) -> Sequence[AnyEffect]:
        """Take note that there is a path to an endpoint."""

    def begin_idle(self, token: int) -> Sequence[AnyEffect]:
        """Wait for idleness."""

    def cancel_idle(self, token: int) -> None:
        """Stop waiting."""

    def explain_idle(self) -> str:
        """Say what is missing."""

    def has_room(self) -> bool:
        """Tell whether more may be asked."""

    def is_stale(self) -> bool:
        """Tell whether what is read is too old; never at a leader."""

    def statistics(self) -> StoreStatistics | LogStatistics:
        """Give a snapshot of counts."""

    def close(self, text: str) -> Sequence[AnyEffect]:
        """Say goodbye."""


class Closes(Protocol):
    """A backend, as far as it is closed."""

    def close(self) -> None:
        """Let go of files and locks."""


class Keeps(Closes, Protocol):
    """What keeps a durable replica, whichever the machine is. Its methods may block."""

    def write(self, job: ToDisk) -> None:
        """Do what the member asks; raises ``BackendFailure``."""

    def write_mark(self, write: WriteMark) -> None:
        """Write a mark, without a wait for the disk; raises ``BackendFailure``."""


class NamedTopics(NamedTuple):
    """The topics of a store or log of one name."""

    group: str
    """Where its replicas speak with each other."""
    leader: str
    """What announces the one that leads alone."""
    copy: str
    """What announces a copy of that."""
    proxies: str
    """Where endpoints without a replica hear answers."""


def topics_of(kind: Kind, name: str) -> NamedTopics:
    """Give the topics of a store or log of this name; raises ``InvalidTopic``."""
    if kind == "store":
        return NamedTopics(group_topic(name), *store_topics(name), proxy_topic(name))
    keepers, readers, followers = log_topics(name)
    return NamedTopics(log_group_topic(name), keepers, followers, readers)


class Topics(NamedTuple):
    """Where a core hears commands, where it speaks, to proxies, too, and maybe hears more."""

    hears: str
    speaks: str
    proxies: str
    also_hears: str | None = None


class Part(Protocol):
    """What replicas and proxies each have for themselves."""

    @property
    def backend(self) -> Closes | None:
        """What keeps the core's state, and is closed at the end."""

    @property
    def kind(self) -> Kind:
        """What it is, in sentences: a store or a log."""

    @property
    def core(self) -> Core:
        """What decides."""

    @property
    def is_conceding(self) -> bool:
        """True while a leader that was deposed notes that, and asks for nothing more."""

    @property
    def leader(self) -> GroupCore | None:
        """The core, if it leads alone."""

    def topics(self, name: str) -> Topics:
        """Give the topics of the core in its role, for a store or log of this name."""

    def survey(self) -> None:
        """Look at who is in reach: time passed, or an endpoint came or went."""

    def carry_out(self, effect: AnyEffect) -> Sequence[AnyEffect]:
        """Do what only this kind of core asks; gives what is to be done next."""

    def was_carried_out(self) -> None:
        """Wake the tasks that wait for another state: this may be it."""

    def was_closed(self) -> None:
        """Wake all that wait: nothing comes any more."""
