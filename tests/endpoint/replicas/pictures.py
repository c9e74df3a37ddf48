"""What a folder holds before each step that writes to it: what a kill there leaves."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stores.disk.medium import PrivateMedium
from stores.disk.sqlite import SQLiteFile


class Pictures:
    """Copies of a folder, one before each step that writes to it: a kill there leaves just that."""

    def __init__(self, place: Path) -> None:
        self.folder, self._into = place / "here", place / "pictures"
        self.folder.mkdir()
        self._into.mkdir()
        self._lock = threading.Lock()
        self.taken: list[Path] = []

    def take(self) -> None:
        with self._lock:
            picture = self._into / f"{len(self.taken)}"
            shutil.copytree(self.folder, picture)
            self.taken.append(picture)

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        """Take one before each statement of SQL, and each call that moves, removes or writes."""
        connect = SQLiteFile.connect

        def watched(file: SQLiteFile) -> sqlite3.Connection:
            connection = connect(file)
            connection.set_trace_callback(lambda _: self.take())
            return connection

        patch.setattr(SQLiteFile, "connect", watched)
        for place, name in [(os, "replace"), (os, "unlink"), (os, "pwrite")]:
            patch.setattr(place, name, self._before(getattr(place, name)))
        for name in ("replace", "sync"):
            patch.setattr(PrivateMedium, name, self._before(getattr(PrivateMedium, name)))

    def _before(self, step: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            self.take()
            return step(*arguments, **options)

        return run
