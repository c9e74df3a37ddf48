"""What pip-audit's report means: a package that was not looked at is not one without faults."""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known of a list of packages."""

    audited: tuple[str, ...]
    """Names of those that were looked at."""
    skipped: tuple[str, ...]
    """Names of those that the advisory service did not know, or that it was not asked about."""
    faults: tuple[str, ...]
    """A line for each known vulnerability."""


def verdict(report: str) -> Verdict | None:
    """Read a report in JSON; ``None`` if there is none, as the service could not be reached."""
    try:
        rows = json.loads(report)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return None
    faults = [
        f"{row['name']} {row['version']}: {fault['id']} ({', '.join(fault.get('aliases', []))});"
        f" fixed in {', '.join(fault.get('fix_versions', [])) or 'no version yet'}"
        for row in rows
        for fault in row.get("vulns", [])
    ]
    return Verdict(
        tuple(row["name"] for row in rows if "skip_reason" not in row),
        tuple(row["name"] for row in rows if "skip_reason" in row),
        tuple(faults),
    )


def is_good(found: Verdict | None, *, is_required: bool) -> bool:
    """Tell whether a check may pass: without the service it may, unless it is required."""
    if found is None or not found.audited:
        return not is_required
    return not found.faults and not (is_required and found.skipped)
