"""What a query does, in a few figures: as it is published, kept in a store, and shown. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from peermesh.spark.offsets import SKIPPED
from peermesh.spark.records import RESERVED
from wire.values import Value

if TYPE_CHECKING:
    from endpoint.replicas.stores.reading import Entry

TOPIC: Final = "spark/progress/"
"""What the topics of progress begin with; the job follows."""

STATES: Final = ("started", "running", "idle", "failed", "stopped")

_NO_READER: Final = re.compile("UnboundLocalError: .*'reader'")
"""How Spark's own error begins that has no reader to stop."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What a query did last."""

    job: str
    query: str
    """Its name, or its id."""
    state: str
    """One of ``STATES``."""
    batch: int = -1
    rows: int = 0
    """In this batch."""
    rows_per_second: float = 0.0
    """That came in."""
    processed_per_second: float = 0.0
    """That Spark could process."""
    seconds: float = 0.0
    """Which the batch took."""
    lag: int | None = None
    """Entries that are there and not processed; ``None`` if the source does not tell."""
    reason: str = ""
    """Why it failed."""
    skipped: int = 0
    """Entries that the batch skipped, as they were gone before they were read."""

    def to_value(self) -> Value:
        """Give what is published."""
        return asdict(self)

    @classmethod
    def of(cls, value: Value) -> Progress | None:
        """Read what was published, by whomever; ``None`` if it is something else."""
        if not isinstance(value, Mapping):
            return None
        table: dict[str, Any] = {"skipped": 0, **value}  # Earlier releases do not say it.
        if set(table) != set(_KINDS):
            return None
        if not all(isinstance(table[name], kind) for name, kind in _KINDS.items()):
            return None
        return cls(**table)

    def line(self) -> str:
        """Say it in a line."""
        if self.state != "running":
            return f"{self.job} {self.query} {self.state} {self.reason}".rstrip()
        lag = "?" if self.lag is None else f"{self.lag:,}"
        return (
            f"{self.job} {self.query} batch {self.batch}: {self.rows:,} rows"
            f" in {self.seconds:.2f} s, {self.rows_per_second:,.0f} rows/s in,"
            f" {self.processed_per_second:,.0f} rows/s processed, lag {lag}"
        ) + (f", {self.skipped:,} skipped" if self.skipped else "")


_KINDS: Final = {
    "job": str, "query": str, "state": str, "batch": int, "rows": int, "rows_per_second": float,
    "processed_per_second": float, "seconds": float, "lag": int | None, "reason": str,
    "skipped": int,
}  # fmt: skip
"""What the fields have to be: whoever is in the mesh may publish."""


def summarize(job: str, text: str) -> Progress:
    """Read the JSON of Spark's own report."""
    report: dict[str, Any] = json.loads(text)
    return Progress(
        job=job,
        query=report.get("name") or report["id"],
        state="running",
        batch=report["batchId"],
        rows=report["numInputRows"],
        rows_per_second=_number(report.get("inputRowsPerSecond")),
        processed_per_second=_number(report.get("processedRowsPerSecond")),
        seconds=report["batchDuration"] / 1_000,
        lag=_lag(report["sources"]),
        skipped=sum(map(_skipped, report["sources"])),
    )


def _number(found: Any) -> float:  # noqa: ANN401 - whatever Spark reports
    """Take a rate: Spark leaves it out, or says NaN, where there was no time to measure."""
    number = float(found) if isinstance(found, int | float) else 0.0
    return number if number == number and abs(number) != float("inf") else 0.0


def _lag(sources: Iterable[Mapping[str, Any]]) -> int | None:
    lags = []
    for source in sources:
        latest, end = _offsets(source.get("latestOffset")), _offsets(source.get("endOffset"))
        if latest is None or end is None:
            return None
        lags.append(sum(max(0, offset - end.get(name, 0)) for name, offset in latest.items()))
    return sum(lags) if lags else None


def _skipped(source: Mapping[str, Any]) -> int:
    """Count what a batch skipped: what each query has skipped in its life is beside its offsets."""
    start, end = _offsets(source.get("startOffset")), _offsets(source.get("endOffset"))
    return max(0, (end or {}).get(SKIPPED, 0) - (start or {}).get(SKIPPED, 0))


def _offsets(found: Any) -> dict[str, int] | None:  # noqa: ANN401 - whatever Spark reports
    if not isinstance(found, Mapping):
        return None
    return {name: offset for name, offset in found.items() if type(offset) is int}


def reason_of(text: str) -> str:
    """Give the line of Spark's text of an error that says why.

    What Python has raised stands behind Spark's own words, at the end of a traceback; otherwise it
    is the first line. Of several tracebacks the last one counts, but for Spark's own: where a
    stream is refused, it falls over the reader that there is none of.
    """
    traces = text.split("Traceback (most recent call last):\n")
    lines = [next((line for line in each.splitlines() if line[:1].strip()), "") for each in traces]
    return lines[-2 if _NO_READER.match(lines[-1]) else -1]


# What a store knows of jobs.


@dataclass(slots=True)
class JobOverview:
    """What a store knows of a job."""

    began: datetime | None = None
    """Its latest run."""
    batches: dict[str, int] = field(default_factory=dict)
    """The last batch that is done, by query."""
    units: dict[str, int] = field(default_factory=dict)
    """How many are done, by fingerprint."""
    progress: dict[str, Progress] = field(default_factory=dict)
    """What a listener saw last, by query."""


@dataclass(slots=True)
class Overview:
    """What a store knows of Spark."""

    jobs: dict[str, JobOverview] = field(default_factory=dict)
    sinks: dict[str, int] = field(default_factory=dict)
    """The last batch that is published, by query."""
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    """What became of the rows of all its batches, by query: the fields of ``Counts``."""


def overview(entries: Iterable[Entry]) -> Overview:
    """Gather what the entries under ``RESERVED`` say; others, and what is none, are passed over."""
    found = Overview()
    for entry in entries:
        match entry.key:
            case (str(first), "sink", str(query)) if first == RESERVED:
                mark = entry.value
                if isinstance(mark, tuple) and mark and isinstance(mark[0], int):
                    found.sinks[query] = mark[0]
            case (str(first), "count", str(query), str(what)) if first == RESERVED:
                if isinstance(entry.value, int):
                    found.counts.setdefault(query, {})[what] = entry.value
            case (str(first), "count" | "staged", *_) if first == RESERVED:
                pass
            case (str(first), str(kind), str(job), *rest) if first == RESERVED:
                _add(found.jobs.setdefault(job, JobOverview()), kind, rest, entry.value)
            case _:
                pass
    return found


def _add(job: JobOverview, kind: str, rest: list[Any], value: Any) -> None:  # noqa: ANN401 - as stored
    match kind, rest, value:
        case "job", [], {"began": datetime() as began}:
            job.began = began
        case "query", [str() as query], {"batch": int() as batch}:
            job.batches[query] = batch
        case "unit", [str() as fingerprint, _], _:
            job.units[fingerprint] = job.units.get(fingerprint, 0) + 1
        case "progress", [str() as query], _:
            progress = Progress.of(value)
            if progress is not None:
                job.progress[query] = progress
        case _:
            pass
