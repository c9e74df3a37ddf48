"""Results as a table to read, as one line of JSON, and as a document."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from os import cpu_count
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.harness import Judgement, Outcome, Result

FOREIGN_CORES_MAX: Final = 0.3
"""Cores that others may take in a run before its figure is marked."""

PACKAGES: Final = ("trio", "cbor2", "pyzmq", "eclipse-zenoh", "paho-mqtt")

METHOD: Final = """\
Written by `python -m benchmarks --write docs/benchmarks.md`; `make bench` measures and writes
nothing.

Every figure is the median of {rounds} rounds, with the lowest and the highest in brackets. In a
round each variant of a benchmark runs once, in processes of its own on the loopback interface;
ratios are taken within a round. Absolute figures of a shared machine move by a tenth and more
from one hour to the next, so compare only what stands in one table. **foreign** is how many cores
other processes took meanwhile (median); above {foreign} the figure is marked with `!`.

A rate counts from the first call of `publish` to the moment when user code has read the last
message, on the system's monotonic clock. The publisher begins once it knows the subscription. The
reader checks the length and the order of every message, and their number; a message that is lost,
doubled or overtaken fails the run. **cpu µs out** is the publisher's processor time for a
message, **in** the subscriber's.

The floors are bare trio loops over one TCP connection that frame messages with a 32-bit length,
write and read 128 KiB at a time, and slice; they have no topics, no subscriptions, no routes, no
limits and no call for each message (`benchmarks/floors.py`). The floor of events is encoding and
decoding alone, each in a process, with nothing in between.

A call of `publish_batch` takes 1,000 messages, unless another number is in its name: what a call
costs by itself is shared by so many.

In a conversation endpoints of the trio API stay awake for the answer where that pays
(`endpoint/link/busy_poll.py`), also if nothing is set. The floors sleep; what is called **asleep**
is an endpoint that does so, too (`busy_poll_microseconds=0`).

`python -m benchmarks.against TREE NAME` runs one benchmark here and in an older checkout, round by
round, and prints the ratios.

pyzmq and Zenoh are set up to lose nothing: PUB/SUB waits at its high-water mark, Zenoh is
reliable and blocks (`benchmarks/peers.py`).

Redis, etcd and ZooKeeper are as durable as they get, and are asked over one connection to the
server that leads, in their own protocols, spoken by hand (`benchmarks/servers.py`, `etcd.py`,
`zookeeper.py`): with as many commands under way as a handle of ours has at Redis, and with 1,000 at
etcd and ZooKeeper, beyond which both hold their clients up. So neither a gateway of JSON nor a
client library in Python is in their figures. What they do not have of a mix is left out, and they
get less to do. At a group of three our caller is in the process of the leader; theirs is in one of
its own.
"""


def table(rows: Sequence[Sequence[str]]) -> str:
    """Align columns, the first to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """Write the same for a document."""
    head, *body = [f"| {' | '.join(row)} |" for row in rows]
    ruler = "|" + "---|" + "---:|" * (len(rows[0]) - 1)
    return "\n".join((head, ruler, *body))


def figure_rows(result: Result) -> list[list[str]]:
    """Give a row for each variant, under a row of headings."""
    others = list(dict.fromkeys(name for o in result.outcomes for name in o.names[1:]))
    rows = [["variant", "median", "range", "unit", *others, "foreign"]]
    rows += [[outcome.variant.name, *_figures(outcome, others)] for outcome in result.outcomes]
    return rows


def _figures(outcome: Outcome, others: Iterable[str]) -> list[str]:
    if not outcome.names:
        empty = ["" for _ in others]
        return ["-", (outcome.problem or "").partition("\n")[0], "", *empty, ""]
    values = outcome.values(outcome.names[0])
    cells = [number(median(values)), f"{number(min(values))}..{number(max(values))}"]
    cells.append(outcome.variant.unit)
    known = {name: number(median(outcome.values(name))) for name in outcome.names}
    cells += [known.get(name, "") for name in others]
    return [*cells, _foreign(outcome)]


def _foreign(outcome: Outcome) -> str:
    if not outcome.foreign_cores:
        return "?"
    cores = median(outcome.foreign_cores)
    return f"{cores:.2f}{'!' if cores > FOREIGN_CORES_MAX else ''}"


def goal_rows(result: Result) -> list[list[str]]:
    """Give a row for each comparison, under a row of headings."""
    rows = [["comparison", "median", "range", "wanted", ""]]
    for judgement in result.judgements:
        low, high = number(min(judgement.values)), number(max(judgement.values))
        goal = judgement.goal
        median_text = number(judgement.median)
        rows.append([goal.text, median_text, f"{low}..{high}", goal.wanted, _verdict(judgement)])
    return rows


def _verdict(judgement: Judgement) -> str:
    words = {True: "reached", False: "missed", None: ""}
    return words[judgement.goal.is_reached(judgement.median)]


def number(value: float) -> str:
    """Write three digits that matter, in full."""
    if value >= 1000:
        digits = len(str(int(value)))
        return f"{round(value, 3 - digits):,.0f}"
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def readable(result: Result) -> str:
    """Write a result for the terminal."""
    parts = [result.benchmark.title, table(figure_rows(result))]
    if result.judgements:
        parts.append(table(goal_rows(result)))
    return "\n\n".join(parts) + "\n"


def json_line(result: Result, *, rounds: int, quick: bool) -> str:
    """Write a result for programs, in one line."""
    return json.dumps(
        {
            "benchmark": result.benchmark.name,
            "rounds": rounds,
            "quick": quick,
            "machine": machine(),
            "variants": [_variant_facts(outcome) for outcome in result.outcomes],
            "comparisons": [_goal_facts(judgement) for judgement in result.judgements],
        }
    )


def _variant_facts(outcome: Outcome) -> dict[str, Any]:
    return {
        "name": outcome.variant.name,
        "unit": outcome.variant.unit,
        "problem": outcome.problem,
        "figures": {name: median(outcome.values(name)) for name in outcome.names},
        "rounds": outcome.rounds,
        "foreign_cores": outcome.foreign_cores,
    }


def _goal_facts(judgement: Judgement) -> dict[str, Any]:
    goal = judgement.goal
    return {
        "name": goal.text,
        "median": judgement.median,
        "values": judgement.values,
        "at_least": goal.at_least,
        "at_most": goal.at_most,
        "is_reached": goal.is_reached(judgement.median),
    }


@cache
def machine() -> dict[str, str]:
    """Name what it ran on."""
    facts = {
        "processor": _processor(),
        "cores": str(cpu_count()),
        "system": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }
    for package in PACKAGES:
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            facts[package] = "not installed"
    return facts


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def document(results: Sequence[Result], *, rounds: int) -> str:
    """Write all results as a page of Markdown."""
    facts = ", ".join(f"{name} {value}" for name, value in machine().items())
    parts = [
        "# Benchmarks",
        METHOD.format(rounds=rounds, foreign=FOREIGN_CORES_MAX).rstrip(),
        f"Measured on {datetime.now(UTC):%Y-%m-%d}: {facts}.",
    ]
    for result in results:
        parts += [f"## {result.benchmark.name}", f"{result.benchmark.title}."]
        parts.append(markdown_table(figure_rows(result)))
        if result.judgements:
            parts.append(markdown_table(goal_rows(result)))
    return "\n\n".join(parts) + "\n"


def write(path: Path, results: Sequence[Result], *, rounds: int) -> None:
    """Replace the document."""
    path.write_text(document(results, rounds=rounds), encoding="utf-8")
    print(f"wrote {path}", file=sys.stderr)
