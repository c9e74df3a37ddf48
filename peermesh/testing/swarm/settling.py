"""What has to become true of a store, and of the log, once no more is asked of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Final

import trio

from peermesh.testing.swarm.holder import AnyHolder, Books
from peermesh.testing.swarm.ledgers import JOURNAL, Broken, Stuck
from peermesh.testing.swarm.log_holder import LogHolder
from peermesh.testing.swarm.log_ledger import LogLedger
from peermesh.testing.swarm.node import Node
from peermesh.testing.swarm.plan import ClockSkew, Plan
from wire.decoding import decode
from wire.encoding import encode

HEALING_SECONDS: Final = 60.0
"""How long healing may take: the longest silence that peers bear, some dials, and room to spare."""

TOLD_SECONDS: Final = 1.0
"""How long a handle that is idle may take to call its users with what it knows."""

LOOK_SECONDS: Final = 0.25
"""How often it is looked whether something has become true."""


async def until(why_not: Callable[[], str], seconds: float) -> None:
    """Wait until there is no reason left; raises ``Stuck`` with the reason after a time."""
    deadline = trio.current_time() + seconds
    while reason := why_not():
        if trio.current_time() >= deadline:
            raise Stuck(f"after {seconds:g} s: {reason}")
        await trio.sleep(LOOK_SECONDS)


def why_unled(plan: Plan, nodes: Sequence[Node]) -> str:
    """Say which store has no state or leader somewhere, or several; or that the log has none."""
    for node in nodes:
        for holder in node.holders:
            if holder.table() is None:
                return f"{holder} has no store"
            if not holder.is_in_touch:  # It may have what a person has to decide about.
                return f"{holder} is out of touch with its leader"
        if node.log is not None and not node.log.has_log:
            return f"{node.log} has no log"
    led = [node.led for node in nodes if node.led is not None]
    leaders = [holder for holder in led if holder.is_leader]
    if len(leaders) != (plan.master is not None):
        return f"{len(leaders)} are masters"
    for holder in led:
        # A word of a leader that is gone, long on its way, may have come just now.
        if holder.group != leaders[0].group:
            return f"{holder} has a store that is not led any more"
    return "" if plan.groups is None else _why_no_group(nodes)


def _why_no_group(nodes: Sequence[Node]) -> str:
    voters = [node.voter for node in nodes if node.voter is not None]
    if (leaders := sum(voter.is_leader for voter in voters)) != 1:
        return f"{leaders} voters lead"
    for voter in voters:
        if not voter.has_vote:
            return f"{voter} has no vote"
    leaders = sum(node.log is not None and node.log.is_leader for node in nodes)
    return "" if leaders == 1 else f"{leaders} lead the log"


async def settle_store(holders: Sequence[AnyHolder], books: Books, plan: Plan) -> None:
    """See that all that was asked has its outcome, and is everywhere; raises ``Broken``."""
    for holder in holders:
        holder.is_quiet = True
    for holder in holders:
        await _await_idle(holder, books)
    # Keys expire without a request, so a store may change after its replica was seen idle.
    is_any_wrong = any(isinstance(fault.trouble, ClockSkew) for fault in plan.faults)
    await until(lambda: _why_not_expired(holders, is_any_wrong=is_any_wrong), HEALING_SECONDS)
    for holder in holders:
        await _await_idle(holder, books)
    shown = {holder: holder.table() for holder in holders}
    if len({(table and table[0]) for table in shown.values()}) > 1:
        revisions = {holder: table and table[0] for holder, table in shown.items()}
        raise Stuck(f"all are idle, at different revisions: {revisions}")
    _compare([table[1] for table in shown.values() if table is not None], books)


async def _await_idle(holder: AnyHolder, books: Books) -> None:
    assert holder.store is not None
    outcome = await holder.store.await_idle(timeout=HEALING_SECONDS)
    if not outcome:
        raise Stuck(f"{holder}: {outcome.reason}")
    open_requests = books.ledger.open(holder.author)
    if open_requests:
        raise Stuck(f"{holder} is idle, and nobody answered {open_requests[0]}")


def _why_not_expired(holders: Sequence[AnyHolder], *, is_any_wrong: bool) -> str:
    for holder in holders:
        key = holder.overdue_key(HEALING_SECONDS if is_any_wrong else inf)
        if key is not None:
            return f"{holder} has {key!r} still"
    return ""


def _compare(tables: list[dict[bytes, bytes]], books: Books) -> None:
    last = tables[-1]
    if any(table != last for table in tables):
        raise Broken("all are idle, at one revision, and show different tables")
    journal = decode(last[encode(JOURNAL)]) if encode(JOURNAL) in last else ()
    assert isinstance(journal, tuple)
    books.ledger.check_prefixes()
    if not books.ledger.is_volatile:
        books.contest.check()
    books.ledger.check_kept(last, journal)


async def settle_log(holders: Sequence[LogHolder], ledger: LogLedger) -> None:
    """See that all that was appended is there once, and was read everywhere; raises ``Broken``."""
    for holder in holders:
        holder.is_quiet = True
    for holder in holders:
        assert holder.log is not None
        outcome = await holder.log.await_idle(timeout=HEALING_SECONDS)
        if not outcome:
            raise Stuck(f"{holder}: {outcome.reason}")
        # What users are called with has a task of its own, which may come after this one.
        await until(lambda: _why_unanswered(holder, ledger), TOLD_SECONDS)  # noqa: B023 - it is waited for
    found = [await holder.log.offsets() for holder in holders if holder.log is not None]
    ends = {partition: span.end for partition, span in found[-1].items()}
    if any(each != found[-1] for each in found):
        raise Broken(f"all are idle, and the log has different ends: {found}")
    for holder in holders:
        await until(lambda: _why_unread(holder, ledger, ends), HEALING_SECONDS)  # noqa: B023 - it is waited for
    ledger.check_kept(ends)


def _why_unanswered(holder: LogHolder, ledger: LogLedger) -> str:
    waiting = ledger.open(holder.handle)
    return f"{holder} is idle, and nobody answered {waiting[0]}" if waiting else ""


def _why_unread(holder: LogHolder, ledger: LogLedger, ends: dict[int, int]) -> str:
    return "" if ledger.has_read(holder.handle, ends) else f"{holder} has not read up to {ends}"
