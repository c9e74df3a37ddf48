"""The picture of a run: how far and how fast it was, who led, and who was killed when. Pure."""

from __future__ import annotations

from typing import Final

from peermesh.charts import Curve, Layout, Moment, Panel, draw, plain
from peermesh.demo.plan import VOTERS
from peermesh.demo.record import Record, lags, rates, stairs

LAYOUT: Final = Layout(
    width=760, height=170, is_stacked=True, is_linear=True, has_dots=False, across="seconds"
)

KILL_COLOUR: Final = "#cc0033"
OTHER_COLOUR: Final = "#999999"

STRETCHES_MAX: Final = 60
"""Over how many stretches of the run the throughput is taken: of a second, or longer ones."""


def _voter(number: float) -> str:
    """Name a process with the log and the stores; the first one is number one."""
    names = dict(enumerate(VOTERS, start=1))
    return names.get(int(number), "") if number == int(number) else ""


def draw_run(record: Record) -> str:
    """Draw a run as SVG."""
    count = min(STRETCHES_MAX, int(record.end) or 1)
    named = [
        Moment(mark.at, mark.text, KILL_COLOUR if mark.is_kill else OTHER_COLOUR)
        for mark in record.marks
    ]
    unnamed = [Moment(moment.at, "", moment.colour) for moment in named]
    appended, processed = record.appended, record.processed
    return draw(
        f"{record.lines:,} lines in {record.end:.0f} seconds",
        "From a sensor through a log, Spark and a store to a replica. Dashed: what happened.",
        [
            Panel(
                "lines",
                [Curve("in the log", stairs(appended)), Curve("counted", stairs(processed))],
                plain,
                named,
            ),
            Panel(
                "throughput, lines a second",
                [
                    Curve("in the log", rates(appended, record.end, count)),
                    Curve("counted", rates(processed, record.end, count)),
                ],
                plain,
                unnamed,
            ),
            Panel(
                "lag: lines in the log that are not counted",
                [Curve("lag", stairs(lags(record)))],
                plain,
                unnamed,
            ),
            Panel(
                "who leads",
                [Curve(what, stairs(points)) for what, points in record.leaders().items()],
                _voter,
                unnamed,
            ),
        ],
        LAYOUT,
    )
