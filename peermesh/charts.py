"""Draws curves as SVG: panels with axes, one colour for each name. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil, floor, log10
from typing import Final, Protocol
from xml.sax import saxutils

from wire.escaping import escape

Point = tuple[float, float]
Write = Callable[[float], str]
"""Writes a figure of an axis, with its unit."""

COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#222222")
"""Those of Okabe and Ito, which people who see colours differently can tell apart."""

LEFT: Final = 62
TOP: Final = 78
GAP: Final = 74
BOTTOM: Final = 84
MARGIN: Final = 18

TICKS: Final = 5
"""Figures beside a linear axis, about."""

RIGHT_SHARE: Final = 0.85
"""From here on the text of a moment is on its left: there is no room on the right."""

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
class Moment:
    """Something that happened somewhere on the axis across."""

    at: float
    text: str
    colour: str


@dataclass(frozen=True)
class Panel:
    """Curves with axes in common."""

    title: str
    curves: Sequence[Curve]
    write: Write
    """Writes a figure of the upright axis, with its unit."""
    moments: Sequence[Moment] = field(default=())


@dataclass(frozen=True)
class Layout:
    """How panels are drawn."""

    width: int = 300
    height: int = 250
    is_stacked: bool = False
    """Whether they are above each other, instead of side by side."""
    is_linear: bool = False
    """Whether axes are linear, from zero on, instead of logarithmic."""
    has_dots: bool = True
    """Whether each point has a dot."""
    across: str = "endpoints"
    """What the axis across is of."""


SIDE_BY_SIDE: Final = Layout()


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


class Axis(Protocol):
    """Places figures between where an axis begins and where it ends."""

    def place(self, value: float) -> float:
        """Give where a figure is drawn."""

    def ticks(self) -> list[float]:
        """Give the figures that are written beside the axis."""


class LogarithmicAxis:
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

    def ticks(self) -> list[float]:
        """Give the decades."""
        return [10.0**power for power in range(self._low, self._high + 1)]


class LinearAxis:
    """Places figures on a linear scale, from zero on."""

    def __init__(self, values: Iterable[float], begin: float, end: float) -> None:
        """Span the values; ``begin`` and ``end`` are where the axis is drawn."""
        highest = max([*values, 0.0]) or 1.0
        decade = 10.0 ** floor(log10(highest / TICKS))
        self._step = next(
            step * decade for step in (1, 2, 5, 10) if step * decade * TICKS >= highest
        )
        self._high = highest
        self._begin, self._end = begin, end

    def place(self, value: float) -> float:
        """Give where a figure is drawn."""
        return round(self._begin + value / self._high * (self._end - self._begin), 1)

    def ticks(self) -> list[float]:
        """Give round figures."""
        return [round(self._step * number, 9) for number in range(int(self._high / self._step) + 1)]


def draw(title: str, note: str, panels: Sequence[Panel], layout: Layout = SIDE_BY_SIDE) -> str:
    """Draw a picture of some panels, with one legend for all."""
    columns, rows = (1, len(panels)) if layout.is_stacked else (len(panels), 1)
    width = LEFT + columns * layout.width + (columns - 1) * GAP + MARGIN
    height = TOP + rows * layout.height + (rows - 1) * GAP + BOTTOM
    names = list(dict.fromkeys(curve.name for panel in panels for curve in panel.curves))
    colours = dict(zip(names, COLOURS, strict=False))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img">',
        f"<title>{_words(title)}</title><style>{STYLE}</style>",
        f'<rect width="{width}" height="{height}" rx="8" fill="#fff"/>',
        f'<text class="title" x="{MARGIN}" y="29">{_words(title)}</text>',
        f'<text class="tick" x="{MARGIN}" y="47">{_words(note)}</text>',
    ]
    for number, panel in enumerate(panels):
        column, row = (0, number) if layout.is_stacked else (number, 0)
        left, top = LEFT + column * (layout.width + GAP), TOP + row * (layout.height + GAP)
        parts += _Drawing(panel, layout, left, top, colours).parts()
    return "\n".join((*parts, *_legend(colours, height - 22), "</svg>")) + "\n"


class _Drawing:
    """One panel at its place."""

    def __init__(
        self, panel: Panel, layout: Layout, left: float, top: float, colours: dict[str, str]
    ) -> None:
        self._panel, self._layout, self._colours = panel, layout, colours
        self._left, self._top, self._foot = left, top, top + layout.height
        points = [point for curve in panel.curves for point in (*curve.points, *curve.paper)]
        kind = LinearAxis if layout.is_linear else LogarithmicAxis
        across = [*(x for x, _ in points), *(moment.at for moment in panel.moments)]
        self._across: Axis = kind(across, left, left + layout.width)
        self._upright: Axis = kind((y for _, y in points), self._foot, top)

    def parts(self) -> Iterable[str]:
        left, top, foot, layout = self._left, self._top, self._foot, self._layout
        yield f'<text class="panel" x="{left}" y="{top - 10}">{_words(self._panel.title)}</text>'
        for value in self._upright.ticks():
            y = self._upright.place(value)
            yield f'<path class="grid" d="M{left} {y}h{layout.width}"/>'
            yield _text("tick", left - 7, y + 4, self._panel.write(value), "end")
        for value in self._across.ticks():
            x = self._across.place(value)
            yield f'<path class="grid" d="M{x} {top}v{layout.height}"/>'
            yield _text("tick", x, foot + 16, plain(value), "middle")
        yield (
            f'<rect class="frame" x="{left}" y="{top}" width="{layout.width}"'
            f' height="{layout.height}"/>'
        )
        yield _text("axis", left + layout.width / 2, foot + 33, layout.across, "middle")
        for number, moment in enumerate(self._panel.moments):
            yield from self._moment(moment, number)
        for curve in self._panel.curves:
            yield from self._curve(curve, self._colours[curve.name])

    def _moment(self, moment: Moment, number: int) -> Iterable[str]:
        x = self._across.place(moment.at)
        yield (
            f'<path d="M{x} {self._top}v{self._layout.height}" stroke="{moment.colour}"'
            ' stroke-dasharray="4 3"/>'
        )
        if moment.text:
            is_right = x > self._left + self._layout.width * RIGHT_SHARE
            place, anchor = (x - 4, "end") if is_right else (x + 4, "start")
            yield _text("tick", place, self._top + 14 + 13 * (number % 3), moment.text, anchor)

    def _curve(self, curve: Curve, colour: str) -> Iterable[str]:
        across, upright = self._across, self._upright
        drawn = curve.paper or curve.points
        path = "L".join(f"{across.place(x)} {upright.place(y)}" for x, y in drawn)
        yield f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.6" opacity=".8"/>'
        for x, y in curve.points if self._layout.has_dots else ():
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


def _words(text: str) -> str:
    """Write text into XML, which cannot hold control characters at all."""
    return saxutils.escape(escape(text))


def _text(kind: str, x: float, y: float, text: str, anchor: str) -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{_words(text)}</text>'
