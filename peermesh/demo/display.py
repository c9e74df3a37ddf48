"""Shows the table as it grows: drawn in place on a terminal, line by line anywhere else."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol, Self

from peermesh.demo.view import View, describe
from wire.escaping import escape

if TYPE_CHECKING:
    from rich.console import RenderableType

LINE_SECONDS: Final = 1.0
"""The least time between two lines about the table, where it cannot be drawn."""

FRAMES_PER_SECOND: Final = 8
"""How often the table is drawn at most."""

BAR_SIZE: Final = 60
"""Characters of the progress bar: they fit on the smallest terminal."""


class Display(Protocol):
    """How a table is shown."""

    def __enter__(self) -> Self:
        """Begin."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave the terminal as it was found."""

    def mark(self, text: str) -> None:
        """Tell that something happened."""

    def show(self, view: View, now: float) -> None:
        """Show a state of the table; ``now`` is in seconds of any clock."""


class _Undecorated:
    """A display that has nothing to set up."""

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End."""


class NoDisplay(_Undecorated):
    """Shows nothing, for programs that read the reports."""

    def mark(self, text: str) -> None:
        """Say nothing."""

    def show(self, view: View, now: float) -> None:
        """Show nothing."""


class LineDisplay(_Undecorated):
    """A line a second, for logs and pipes."""

    def __init__(self) -> None:
        """Begin with the next state."""
        self._last: View | None = None
        self._said = -LINE_SECONDS

    def mark(self, text: str) -> None:
        """Tell that something happened."""
        _say(text)

    def show(self, view: View, now: float) -> None:
        """Say how far it is, unless that was said just now."""
        is_new = self._last is None or view.lines != self._last.lines
        if is_new and (now - self._said >= LINE_SECONDS or view.lines == view.total):
            self._last, self._said = view, now
            _say(describe(view))


class TableDisplay:
    """A table with a progress bar, drawn in place."""

    def __init__(self) -> None:
        """Draw on stdout."""
        from rich.live import Live

        self._live = Live(refresh_per_second=FRAMES_PER_SECOND, auto_refresh=False)

    def __enter__(self) -> Self:
        """Begin to draw."""
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave the last state there."""
        self._live.stop()

    def mark(self, text: str) -> None:
        """Tell that something happened, above the table."""
        self._live.console.print(escape(text), markup=False, highlight=False)

    def show(self, view: View, now: float) -> None:
        """Draw."""
        del now
        self._live.update(_draw(view), refresh=True)


def _draw(view: View) -> RenderableType:
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    table = Table("key", box=None, pad_edge=False)
    table.add_column("events, all windows", justify="right")
    for name, count in view.top:
        table.add_row(Text(escape(name)), f"{count:,}")
    # In a grid, since a bar by itself does not end its line.
    bar = Table.grid()
    bar.add_row(ProgressBar(total=max(view.total, 1), completed=view.lines, width=BAR_SIZE))
    return Group(table, bar, Text(escape(describe(view))))


def _say(text: str) -> None:
    sys.stdout.write(f"{escape(text)}\n")
    sys.stdout.flush()


def choose_display(*, draws: bool) -> Display:
    """Choose by where the output goes."""
    if not draws:
        return NoDisplay()
    return TableDisplay() if sys.stdout.isatty() else LineDisplay()
