"""Writes the tracebacks of errors that no command expected, with escapes for what others chose."""

from __future__ import annotations

import sys
import threading
import traceback
from types import TracebackType

from peermesh.cli.stderr import STDERR
from wire.escaping import escape


def install() -> None:
    """Take over from Python's own hooks, which write the text of an error as it is."""
    sys.excepthook = _tell
    threading.excepthook = _tell_of_thread
    sys.unraisablehook = _tell_unraisable


def tell(error: BaseException) -> None:
    """Write the traceback of an error that a program of the user's has raised."""
    _tell(type(error), error, error.__traceback__)


def _tell(
    kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
) -> None:
    _write("".join(traceback.format_exception(kind, error, frames)))


def _tell_of_thread(told: threading.ExceptHookArgs) -> None:
    if told.exc_type is SystemExit:
        return  # As Python's own hook does.
    if told.thread is not None:
        _write(f"Exception in thread {told.thread.name}:\n")
    _tell(told.exc_type, told.exc_value, told.exc_traceback)


def _tell_unraisable(told: sys.UnraisableHookArgs) -> None:
    _write(f"{told.err_msg or 'Exception ignored in'}: {told.object!r}\n")
    _tell(told.exc_type, told.exc_value, told.exc_traceback)


def _write(text: str) -> None:
    STDERR.write(escape(text, kept="\n"))
