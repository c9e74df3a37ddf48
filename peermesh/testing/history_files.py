"""Histories in files: whole ones, and one that grows line by line while its recorder may die."""

from __future__ import annotations

from pathlib import Path

from endpoint.closing import Closing
from handshake.private_files import open_private
from peermesh.testing.history import Event, History
from peermesh.testing.history_lines import from_lines, to_line, to_lines


def write_history(history: History, path: Path) -> None:
    """Write a whole history."""
    with open_private(path, "w") as file:
        file.writelines(to_lines(history))


def read_history(path: Path) -> History:
    """Read a history; raises ``HistoryError``, which names the line."""
    # Only the newline ends a line: other separators may stand inside of text.
    with path.open(encoding="utf-8", newline="\n") as file:
        return from_lines(file)


class GrowingHistory(History, Closing):
    """A history whose events are in a file as soon as they are recorded.

    What a killed process had recorded is there to read; of its last line, all or nothing.
    """

    def __init__(self, path: Path) -> None:
        """Begin a new file."""
        self._file = open_private(path, "w")
        super().__init__()

    def record(self, event: Event) -> None:
        """Take in an event, and write it."""
        super().record(event)
        self._file.write(to_line(event))
        self._file.flush()

    def close(self) -> None:
        """Write no more."""
        self._file.close()
