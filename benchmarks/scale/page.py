"""Renews what is measured in ``docs/scale.md``: tables in marked regions, and the pictures."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.report import markdown_table
from benchmarks.scale.measuring import Change, Figures, latencies
from benchmarks.scale.shapes import SHAPES
from peermesh import charts as picture
from peermesh.charts import Curve, Panel, Point, draw

REGION: Final = re.compile(r"(<!-- measured: ([\w-]+) -->\n).*?(<!-- measured: end -->)", re.S)
CHANGES: Final = ("subscription", "join", "loss")
TITLES: Final = {
    "subscription": "a new subscription",
    "join": "a join",
    "loss": "a lost link",
    "start": "all start at once",
}
DOTS: Final = "Dots: measured. Lines: the formulas of the paper model."


def write(path: Path, results: Sequence[Figures]) -> None:
    """Renew the regions of a page, and the pictures in the directory that has its name."""
    tables = {"messages": _messages, "paper": _paper, "endpoint": _endpoint, "when": _when}

    def renew(found: re.Match[str]) -> str:
        return f"{found[1]}{tables[found[2]](results)}\n{found[3]}"

    path.write_text(REGION.sub(renew, path.read_text("utf-8")), "utf-8")
    folder = path.with_suffix("")
    folder.mkdir(exist_ok=True)
    for name, content in pictures(results).items():
        (folder / f"{name}.svg").write_text(content, "utf-8")


# Pictures.


def pictures(results: Sequence[Figures]) -> dict[str, str]:
    """Draw all curves, by the names of their files."""
    changed = partial(_change_panels, results)
    return {
        "messages": draw(
            "Messages of the flood, in the whole mesh",
            DOTS,
            changed(lambda change: change.messages, picture.plain, paper="messages"),
        ),
        "bytes": draw(
            "Bytes of the flood, in the whole mesh",
            DOTS,
            changed(lambda change: change.size, picture.size, paper="size"),
        ),
        "convergence": draw(
            "Virtual time until the last endpoint has heard, 1 ms a link",
            DOTS,
            changed(latencies_in_seconds, picture.seconds, paper="trips"),
        ),
        "processor": draw(
            "Processor time of one endpoint",
            "One core of the machine that the page names; searches grow with endpoints and links.",
            [
                *changed(lambda change: change.cpu_seconds, picture.seconds)[1:2],
                _panel(results, "all routes anew, everybody sends", _routes, picture.seconds),
                _start_panel(results, "all start at once", lambda start: start.cpu_seconds),
            ],
        ),
        "memory": draw(
            "Memory of one endpoint",
            "Measured by tracemalloc: what the interpreter's objects take.",
            [
                _panel(results, "all that it has heard", _knowledge, picture.size),
                _panel(results, "and routes, if everybody sends", _routes_size, picture.size),
            ],
        ),
        "start": draw(
            "All endpoints start at once",
            "Every endpoint dials its peers in the same instant; meshes of up to 600 links.",
            [
                _start_panel(results, "messages", lambda start: start.messages, picture.plain),
                _start_panel(results, "bytes", lambda start: start.size, picture.size),
                _start_panel(results, "virtual time", lambda start: start.seconds),
            ],
        ),
    }


def latencies_in_seconds(change: Change) -> float:
    """Give the virtual time of a change."""
    return change.seconds


def _routes(figures: Figures) -> float:
    return figures.routes_seconds


def _knowledge(figures: Figures) -> float:
    return figures.knowledge_size


def _routes_size(figures: Figures) -> float:
    return figures.knowledge_size + figures.routes_size


def _panel(
    results: Sequence[Figures],
    title: str,
    value: Callable[[Figures], float],
    unit: Callable[[float], str],
) -> Panel:
    curves = [
        Curve(shape, [(each.size, value(each)) for each in results if each.shape == shape])
        for shape in SHAPES
    ]
    return Panel(title, [curve for curve in curves if curve.points], unit)


def _start_panel(
    results: Sequence[Figures],
    title: str,
    value: Callable[[Change], float],
    unit: Callable[[float], str] = picture.seconds,
) -> Panel:
    started = [each for each in results if each.start is not None]
    return _panel(started, title, lambda each: value(each.start) if each.start else 0, unit)


def _change_panels(
    results: Sequence[Figures],
    value: Callable[[Change], float],
    unit: Callable[[float], str],
    *,
    paper: str = "",
) -> list[Panel]:
    panels = []
    for name in CHANGES:
        curves = []
        for shape in SHAPES:
            points: list[Point] = []
            drawn: list[Point] = []
            for each in (each for each in results if each.shape == shape):
                change: Change = getattr(each, name)
                points.append((each.size, value(change)))
                if paper and change.paper:
                    scale = change.seconds / latencies(change) if paper == "trips" else 1
                    drawn.append((each.size, getattr(change.paper, paper) * scale))
            if points:
                curves.append(Curve(shape, points, drawn))
        panels.append(Panel(TITLES[name], curves, unit))
    return panels


# Tables.


def _largest(results: Sequence[Figures]) -> list[Figures]:
    return [
        max((each for each in results if each.shape == shape), key=lambda each: each.size)
        for shape in SHAPES
        if any(each.shape == shape for each in results)
    ]


def _messages(results: Sequence[Figures]) -> str:
    rows = [["mesh", "links", *(f"{TITLES[name]}" for name in CHANGES), "told to a newcomer"]]
    for each in _largest(results):
        changes = [getattr(each, name) for name in CHANGES]
        rows.append(
            [
                f"{each.shape} {each.size:,}",
                f"{each.links:,}",
                *(f"{change.messages:,}, {_bytes(change.size)}" for change in changes),
                _bytes(each.handshake_size),
            ]
        )
    return markdown_table(rows)


def _paper(results: Sequence[Figures]) -> str:
    rows = [["of all meshes", "messages", "bytes", "virtual time"]]
    for name in CHANGES:
        changes = [getattr(each, name) for each in results]
        ratios = [
            _range([change.messages / change.paper.messages for change in changes]),
            _range([change.size / change.paper.size for change in changes]),
            _range([latencies(change) / change.paper.trips for change in changes]),
        ]
        rows.append([f"{TITLES[name]}, measured / paper", *ratios])
    told = [each.handshake_size / each.handshake_paper for each in results]
    rows.append(["told to a newcomer, measured / paper", "", _range(told), ""])
    return markdown_table(rows)


def _endpoint(results: Sequence[Figures]) -> str:
    head = [
        "mesh",
        "a join",
        "one search",
        "all routes",
        "knowledge",
        "all routes",
        "within TTL 16",
    ]
    rows = [
        [
            f"{each.shape} {each.size:,}",
            _milliseconds(each.join.cpu_seconds),
            _milliseconds(each.search_seconds),
            _milliseconds(each.routes_seconds),
            _bytes(each.knowledge_size),
            _bytes(each.routes_size),
            f"{each.share_within_ttl * 100:.0f} %",
        ]
        for each in _largest(results)
    ]
    return markdown_table([head, *rows])


def _when(results: Sequence[Figures]) -> str:
    sizes = ", ".join(f"{size:,}" for size in sorted({each.size for each in results}))
    return (
        f"Measured on {datetime.now(UTC):%Y-%m-%d} with {sizes} endpoints: CPython "
        f"{platform.python_version()}, {platform.system()} {platform.machine()}."
    )


def _range(values: Sequence[float]) -> str:
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low} to {high}"


def _bytes(value: float) -> str:
    for size, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= size:
            return f"{value / size:.3g} {name}"
    return f"{value:.0f} B"


def _milliseconds(value: float) -> str:
    return f"{value * 1e3:.3g} ms"
