"""The recount of ``make spark-kills``: what it leaves out, and what it brings together."""

from __future__ import annotations

import random
from datetime import timedelta
from decimal import Decimal

from tests.spark_kills.counting import START, make_events, recount


def order(number, seconds, user="u", amount="1.50"):
    at = (START + timedelta(seconds=seconds)).isoformat()
    return {"kind": "order", "id": f"o{number}", "user": user, "at": at, "amount": amount}


def payment(number, seconds, of=None):
    at = (START + timedelta(seconds=seconds)).isoformat()
    return {"kind": "payment", "id": f"p{number}", "at": at, "order": of or f"o{number}"}


def test_sessions_are_of_orders_that_were_paid_in_time_and_each_counts_once():
    events = [
        order(1, 0), order(1, 0), payment(1, 600), payment(1, 600),
        order(2, 30), payment(2, 31),  # thirty seconds later: the same session
        order(3, 61), payment(3, 61),  # and this is another one
        order(4, 62), payment(4, 662.5),  # too late
        order(5, 63), payment(5, 62),  # before it was ordered
        order(6, 64), payment(6, 70, of="none"),
        order(7, 5, user="v"), payment(7, 6),
    ]  # fmt: skip
    assert recount(events).sessions == {
        ("u", START): (2, Decimal("3.00"), "p2"),
        ("u", START + timedelta(seconds=61)): (1, Decimal("1.50"), "p3"),
        ("v", START + timedelta(seconds=5)): (1, Decimal("1.50"), "p7"),
    }
    assert len(recount(events).lines) == len(events), "the copy has what came twice, twice"


def test_events_that_are_made_have_all_that_is_to_be_told_apart():
    events = make_events("job", 2_000, random.Random(1))
    ids = [event["id"] for event in events]
    sessions = recount(events).sessions
    assert len(set(ids)) < len(ids)
    assert {found[0] for found in sessions.values()} >= {1, 2, 3}
    paid = sum(found[0] for found in sessions.values())
    assert 0 < paid < sum(event["kind"] == "order" for event in events)
    assert all(user != "end" for user, _ in sessions)
