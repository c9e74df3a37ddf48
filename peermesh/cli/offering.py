"""What a node offers to lead when an endpoint with the right to say so asks for it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from peermesh import Endpoint
from peermesh.cli.holding import in_file
from peermesh.cli.numbers import counted

if TYPE_CHECKING:
    from peermesh import Log, ReplicaLog, ReplicaStore, Store

PROMOTION_SECONDS: Final = 8.0
"""How long a replica tries to lead, before it says why not: less than a command waits for it."""


def offer_store(
    endpoint: Endpoint,
    name: str,
    clone: Store,
    path: str | None,
    **options: Any,  # noqa: ANN401 - those of promote
) -> None:
    """Offer a clone; as a master it is in the file, or in memory without a path.

    ``options`` are others of ``promote``.
    """
    options |= in_file(path)
    endpoint.admin.offer_store(name, partial(_promote_store, endpoint, clone, options))


def offer_log(endpoint: Endpoint, name: str, log: Log, options: dict[str, Any]) -> None:
    """Offer a follower of a log; ``options`` are those of ``promote``."""
    endpoint.admin.offer_log(name, partial(_promote_log, endpoint, log, options))


def offer_store_replica(endpoint: Endpoint, name: str, replica: ReplicaStore) -> None:
    """Offer the replica of a group, which is handed the lead, or takes it by force."""
    endpoint.admin.offer_store(name, partial(_promote_replica, endpoint, replica))


def offer_log_replica(endpoint: Endpoint, name: str, replica: ReplicaLog) -> None:
    """Offer the replica of a log's group likewise."""
    endpoint.admin.offer_log(name, partial(_promote_replica, endpoint, replica))


async def _promote_replica(
    endpoint: Endpoint,
    replica: ReplicaStore | ReplicaLog,
    force: bool,  # noqa: FBT001 - partial hands it on
) -> str:
    await replica.promote(force=force, timeout=PROMOTION_SECONDS)
    return f"node {endpoint.names.full(endpoint.node_id())} leads {replica.name()}"


async def _promote_store(
    endpoint: Endpoint,
    clone: Store,
    options: dict[str, Any],
    force: bool,  # noqa: FBT001 - partial hands it on
) -> str:
    done = await clone.promote(force=force, **options)
    who = endpoint.names.full(endpoint.node_id())
    text = (
        f"node {who} leads {clone.name()} in term {done.term}, from revision {done.revision};"
        f" the last master was heard {done.silent_seconds:.1f} s ago"
    )
    if "path" not in options:
        text += "; it is in memory, and ends with this node: --clone NAME:PATH keeps a file"
    return text


async def _promote_log(
    endpoint: Endpoint,
    log: Log,
    options: dict[str, Any],
    force: bool,  # noqa: FBT001 - partial hands it on
) -> str:
    done = await log.promote(force=force, **options)
    who = endpoint.names.full(endpoint.node_id())
    entries = counted(sum(done.ends), "entry", "entries")
    return (
        f"node {who} leads {log.name()} in term {done.term}, from {entries}; the"
        f" last keeper was heard {done.silent_seconds:.1f} s ago"
    )
