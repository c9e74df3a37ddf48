"""Renews the figures of a sweep in a page: those between its marks."""

from __future__ import annotations

import os
import platform
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from peermesh.testing.swarm.sweep import Totals

REGION: Final = re.compile(r"(<!-- swept -->\n).*?(<!-- swept: end -->)", re.S)


def write(path: Path, first: int, totals: Totals) -> None:
    """Renew the figures; raises ``ValueError`` if the page has no place for them."""
    text = path.read_text("utf-8")
    if not REGION.search(text):
        raise ValueError(f"{path} has no place for figures: mark one with '<!-- swept -->'")
    renewed = REGION.sub(lambda found: f"{found[1]}{figures(first, totals)}\n{found[2]}", text)
    path.write_text(renewed, "utf-8")


def figures(first: int, totals: Totals) -> str:
    """Write what a sweep added up to, as a table."""
    rows = (
        ("seeds", f"{first:,} to {first + totals.seeds - 1:,}"),
        ("with voters and a log", f"{totals.grouped:,}"),
        ("failed", f"{len(totals.failures):,}"),
        ("members", f"{totals.members:,}, the largest swarm with {totals.members_max}"),
        ("faults", f"{totals.faults:,}"),
        ("messages published", f"{totals.published:,}"),
        ("messages delivered", f"{totals.delivered:,}"),
        ("clones promoted", f"{totals.successions:,}"),
        ("mutations acknowledged", f"{totals.applied:,}"),
        ("entries of logs acknowledged", f"{totals.appended:,}"),
        ("steps of tasks", f"{totals.steps:,}"),
        ("virtual time", f"{totals.virtual_seconds / 3600:,.1f} h"),
        ("longest healing", f"{totals.healing_seconds_max:.1f} s of virtual time"),
        ("processor time", f"{totals.cpu_seconds / 60:,.1f} min"),
        ("processor time of a seed", f"{totals.cpu_seconds / totals.seeds * 1000:.0f} ms"),
    )
    lines = [f"| {name} | {value} |" for name, value in rows]
    when = (
        f"{datetime.now(UTC):%Y-%m-%d}, CPython {platform.python_version()}, {platform.machine()}"
    )
    return "\n".join((f"| {when} | {os.cpu_count()} cores |", "|---|---|", *lines))
