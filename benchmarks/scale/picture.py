"""Draws curves: panels side by side on logarithmic axes, one colour for each name, as SVG."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil, floor, log10
from typing import Final
from xml.sax.saxutils import escape

Point = tuple[float, float]

COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#222222")
"""Those of Okabe and Ito, which people who see colours differently can tell apart."""

PANEL_WIDTH: Final = 300
PANEL_HEIGHT: Final = 250
LEFT: Final = 62
TOP: Final = 78
GAP: Final = 74
BOTTOM: Final = 84
MARGIN: Final = 18

STYLE: Final = """\
text{font-family:system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;fill:#333}
.title{font-size:17px;font-weight:600}.panel{font-size:13px;font-weight:600}
.tick{font-size:11px;fill:#666}.axis,.legend{font-size:12px;fill:#444}
.grid{stroke:#e4e4e4}.frame{fill:none;stroke:#bbb}"""


@dataclass(frozen=True)
class Curve:
    """One name's points, and the line that theory draws for it, if there is one."""

    name: str
    points: Sequence[Point]
    paper: Sequence[Point] = field(default=())


@dataclass(frozen=True)
class Panel:
    """Curves with axes in common."""

    title: str
    curves: Sequence[Curve]
    write: Callable[[float], str]
    """Writes a figure of the upright axis, with its unit."""


def plain(value: float) -> str:
    """Write a number briefly: 1, 20, 3 k, 10 M."""
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def size(value: float) -> str:
    """Write bytes."""
    return f"{plain(value)}B" if value >= 1e3 else f"{value:g} B"


def seconds(value: float) -> str:
    """Write a time."""
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= unit * 0.999:
            return f"{value / unit:g} {name}"
    return f"{value * 1e6:g} µs"


def share(value: float) -> str:
    """Write a share of all."""
    return f"{value * 100:g} %"


class Axis:
    """Places figures on a logarithmic scale, from decade to decade."""

    def __init__(self, values: Iterable[float], begin: float, end: float) -> None:
        """Span the values; ``begin`` and ``end`` are where the axis is drawn."""
        found = [value for value in values if value > 0]
        self._low = floor(log10(min(found)) + 1e-9)
        self._high = max(ceil(log10(max(found)) - 1e-9), self._low + 1)
        self._begin, self._end = begin, end

    def place(self, value: float) -> float:
        """Give where a figure is drawn."""
        part = (log10(max(value, 10.0**self._low)) - self._low) / (self._high - self._low)
        return round(self._begin + part * (self._end - self._begin), 1)

    def decades(self) -> list[float]:
        """Give the figures that are written beside the axis."""
        return [10.0**power for power in range(self._low, self._high + 1)]


def draw(title: str, note: str, panels: Sequence[Panel]) -> str:
    """Draw a picture of some panels, with one legend for all."""
    width = LEFT + len(panels) * PANEL_WIDTH + (len(panels) - 1) * GAP + MARGIN
    height = TOP + PANEL_HEIGHT + BOTTOM
    names = list(dict.fromkeys(curve.name for panel in panels for curve in panel.curves))
    colours = dict(zip(names, COLOURS, strict=False))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img">',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        f'<rect width="{width}" height="{height}" rx="8" fill="#fff"/>',
        f'<text class="title" x="{MARGIN}" y="29">{escape(title)}</text>',
        f'<text class="tick" x="{MARGIN}" y="47">{escape(note)}</text>',
    ]
    for number, panel in enumerate(panels):
        parts += _panel(panel, LEFT + number * (PANEL_WIDTH + GAP), colours)
    return "\n".join((*parts, *_legend(colours, height - 22), "</svg>")) + "\n"


def _panel(panel: Panel, left: float, colours: dict[str, str]) -> Iterable[str]:
    points = [point for curve in panel.curves for point in (*curve.points, *curve.paper)]
    across = Axis((x for x, _ in points), left, left + PANEL_WIDTH)
    upright = Axis((y for _, y in points), TOP + PANEL_HEIGHT, TOP)
    yield f'<text class="panel" x="{left}" y="{TOP - 10}">{escape(panel.title)}</text>'
    for value in upright.decades():
        y = upright.place(value)
        yield f'<path class="grid" d="M{left} {y}h{PANEL_WIDTH}"/>'
        yield _text("tick", left - 7, y + 4, panel.write(value), "end")
    for value in across.decades():
        x = across.place(value)
        yield f'<path class="grid" d="M{x} {TOP}v{PANEL_HEIGHT}"/>'
        yield _text("tick", x, TOP + PANEL_HEIGHT + 16, plain(value), "middle")
    yield (
        f'<rect class="frame" x="{left}" y="{TOP}" width="{PANEL_WIDTH}" height="{PANEL_HEIGHT}"/>'
    )
    middle = left + PANEL_WIDTH / 2
    yield _text("axis", middle, TOP + PANEL_HEIGHT + 33, "endpoints", "middle")
    for curve in panel.curves:
        yield from _curve(curve, across, upright, colours[curve.name])


def _curve(curve: Curve, across: Axis, upright: Axis, colour: str) -> Iterable[str]:
    path = "L".join(f"{across.place(x)} {upright.place(y)}" for x, y in curve.paper or curve.points)
    yield f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.6" opacity=".8"/>'
    for x, y in curve.points:
        yield (
            f'<circle cx="{across.place(x)}" cy="{upright.place(y)}" r="3.6" fill="{colour}" '
            'stroke="#fff" stroke-width=".8"/>'
        )


def _legend(colours: dict[str, str], y: float) -> Iterable[str]:
    for number, (name, colour) in enumerate(colours.items()):
        x = LEFT + number * 88
        yield f'<path d="M{x} {y - 4}h22" stroke="{colour}" stroke-width="1.6"/>'
        yield f'<circle cx="{x + 11}" cy="{y - 4}" r="3.6" fill="{colour}"/>'
        yield _text("legend", x + 28, y, name, "start")


def _text(kind: str, x: float, y: float, text: str, anchor: str) -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'
