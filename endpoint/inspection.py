"""What an endpoint says about itself: one snapshot of counts that it keeps anyway."""

from __future__ import annotations

import os
import resource
import socket
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from endpoint.pubsub.queueing import MailboxStatistics
from endpoint.statistics import EndpointStatistics
from stores.statistics import LogStatistics, StoreStatistics
from wire.identifiers import EndpointId
from wire.plain import plain
from wire.public import public

if TYPE_CHECKING:
    from endpoint.loop import EndpointLoop
    from endpoint.replicas.runner import Runner

VERSION: Final = 1
"""Of the form of ``Snapshot.to_dict``: fields may come, and none changes its meaning."""

_STATM: Final = Path("/proc/self/statm")


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """The process that an endpoint lives in, with all else that runs there."""

    pid: int
    host: str
    version: str
    """Of peermesh."""
    cpu_seconds: float
    """Processor time that it has used, of all its threads."""
    rss_bytes: int
    """Memory that it has in use now."""


@dataclass(frozen=True, slots=True)
class ReaderInfo:
    """One subscriber of an endpoint."""

    topics: tuple[str, ...]
    """Beginnings of the topics that it wants."""
    queue: MailboxStatistics


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """One store that an endpoint has a part in."""

    name: str
    statistics: StoreStatistics


@dataclass(frozen=True, slots=True)
class LogInfo:
    """One log that an endpoint has a part in."""

    name: str
    statistics: LogStatistics


@public
@dataclass(frozen=True, slots=True)
class Snapshot:
    """An endpoint at one moment, in names and counts; no value of a store, no message."""

    id: EndpointId
    name: str
    """How it is called: see ``Endpoint.name_of``."""
    certificate_name: str | None
    """What its certificate calls it; ``None`` without one."""
    uptime_seconds: float
    """Since it was opened."""
    process: ProcessInfo
    statistics: EndpointStatistics
    readers: tuple[ReaderInfo, ...]
    stores: tuple[StoreInfo, ...]
    logs: tuple[LogInfo, ...]

    def to_dict(self) -> dict[str, Any]:
        """Give it as dicts, lists, text and numbers, which ``json`` can write; ids become text."""
        members: dict[str, Any] = plain(self)
        for name in ("process", "statistics"):
            members |= members.pop(name)
        for name in ("peers", "readers", "stores", "logs"):
            members[name] = [_flat(each) for each in members.pop(name)]
        return {"v": VERSION, **members}


def inspect(
    loop: EndpointLoop, statistics: EndpointStatistics, *, uptime_seconds: float
) -> Snapshot:
    """Read all counts of an endpoint, which changes none of them."""
    stores: list[StoreInfo] = []
    logs: list[LogInfo] = []
    for replica in loop.stores.values():
        match _counted(replica):
            case StoreStatistics() as found:
                stores.append(StoreInfo(replica.name, found))
            case LogStatistics() as found:
                logs.append(LogInfo(replica.name, found))
    return Snapshot(
        id=loop.core.local,
        name=loop.core.names.short(loop.core.local),
        certificate_name=loop.core.authorisation.name,
        uptime_seconds=uptime_seconds,
        process=_process(),
        statistics=statistics,
        readers=tuple(
            ReaderInfo(loop.topics_of(mailbox), mailbox.statistics()) for mailbox in loop.readers
        ),
        stores=tuple(stores),
        logs=tuple(logs),
    )


def _counted(replica: Runner) -> StoreStatistics | LogStatistics:
    """Give the counts of a replica; of one that has ended, as it was then."""
    found = replica.statistics()
    if replica.error is None:
        return found
    return replace(found, role="ended", is_in_touch=False, trouble=str(replica.error))


def _flat(item: dict[str, Any]) -> dict[str, Any]:
    """Put what was counted beside what it is counted of."""
    for name in ("outbox", "queue", "statistics"):
        item |= item.pop(name, {})
    return item


def _process() -> ProcessInfo:
    used = resource.getrusage(resource.RUSAGE_SELF)
    resident = int(_STATM.read_text().split()[1]) * resource.getpagesize()
    return ProcessInfo(
        os.getpid(), socket.gethostname(), version(), used.ru_utime + used.ru_stime, resident
    )


@cache
def version() -> str:
    """Give the version of peermesh; empty if it is not installed."""
    from importlib import metadata  # slow, and only this needs it

    try:
        return metadata.version("peermesh")
    except metadata.PackageNotFoundError:
        return ""
