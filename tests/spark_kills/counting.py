"""What goes into the job, and what has to come out of it: a recount that knows no Spark.

Orders are paid within ten minutes, or later, or never; a payment may be of no order. Both come
twice now and then, and out of order by seconds. What is asked for is the sessions of paid orders of
each user.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TypeAlias

Event: TypeAlias = dict[str, str]
Session: TypeAlias = tuple[int, Decimal, str]
"""Its orders, their sum, and the largest id among their payments."""

GAP = timedelta(seconds=30)
PAY_WITHIN = timedelta(minutes=10)
USERS = 4
START = datetime(2026, 1, 1, tzinfo=UTC)
END_USER = "end"
"""Of an order a day later, which moves the watermark past everything else."""


def make_events(job: str, count: int, chance: random.Random) -> list[Event]:
    """Make about so many events, in the order in which they come."""
    found: list[Event] = []
    for number in range(count // 2):
        at = START + timedelta(seconds=10 * number + chance.uniform(-5, 5))
        order = {
            "kind": "order", "id": f"{job}-o{number}", "user": f"ü{chance.randrange(USERS)}",
            "at": at.isoformat(), "amount": f"{Decimal(chance.randrange(1, 99_999)) / 100}",
        }  # fmt: skip
        found.append(order)
        if chance.random() < 0.9:
            late = chance.random() < 0.1
            delay = timedelta(seconds=chance.uniform(700, 900) if late else chance.uniform(0, 500))
            paid = {
                "kind": "payment", "id": f"{job}-p{number}", "at": (at + delay).isoformat(),
                "order": order["id"] if chance.random() < 0.95 else f"{job}-none{number}",
            }  # fmt: skip
            found.append(paid)
        if chance.random() < 0.1:
            found.append(chance.choice(found[-100:]))
    last = (START + timedelta(days=1)).isoformat()
    end = {"user": END_USER, "order": f"{job}-end", "at": last, "amount": "0"}
    for number in range(2):  # after the last of each kind, in each partition
        for kind, name in (("order", f"{job}-end"), ("payment", f"{job}-end{number}")):
            found.append({**end, "kind": kind, "id": name})
    return found


@dataclass
class Expected:
    """What a job has to have written."""

    sessions: dict[tuple[str, datetime], Session] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)


def to_line(event: Event) -> str:
    return json.dumps(event, ensure_ascii=False)


def recount(events: list[Event]) -> Expected:
    """Count plainly: each id once, each payment joined to its order, sessions by user."""
    once = {event["id"]: event for event in events}
    orders = {each["id"]: each for each in once.values() if each["kind"] == "order"}
    paid: dict[str, list[tuple[datetime, Decimal, str]]] = {}
    for event in once.values():
        order = orders.get(event["order"]) if event["kind"] == "payment" else None
        if order is not None and order["user"] != END_USER:
            at, when = (datetime.fromisoformat(each["at"]) for each in (order, event))
            if timedelta() <= when - at <= PAY_WITHIN:
                row = (at, Decimal(order["amount"]), event["id"])
                paid.setdefault(order["user"], []).append(row)
    expected = Expected(lines=sorted(map(to_line, events)))
    for user, rows in paid.items():
        for session in _sessions(sorted(rows)):
            total = sum((amount for _, amount, _ in session), Decimal())
            last = max(name for _, _, name in session)
            expected.sessions[user, session[0][0]] = (len(session), total, last)
    return expected


def _sessions(
    rows: list[tuple[datetime, Decimal, str]],
) -> list[list[tuple[datetime, Decimal, str]]]:
    found: list[list[tuple[datetime, Decimal, str]]] = []
    for row in rows:
        if found and row[0] <= found[-1][-1][0] + GAP:
            found[-1].append(row)
        else:
            found.append([row])
    return found
