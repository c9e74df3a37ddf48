"""Loggers whose lines hold no character that a terminal obeys, whatever a peer has sent."""

from __future__ import annotations

import logging
import traceback
from typing import Final

from wire.escaping import escape, is_plain


class EscapingFilter(logging.Filter):
    """Escapes what a record says: its text, its arguments, and its traceback."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Escape in place; lets every record pass.

        Arguments that write plain text stay what they are, so that handlers can look at them.
        """
        if isinstance(record.args, tuple) and record.args:
            record.args = tuple(map(_escaped, record.args))
        else:  # No arguments, or a lone mapping, which logging unpacks.
            record.msg, record.args = escape(record.getMessage()), ()
        if record.exc_info and not record.exc_text:
            told = "".join(traceback.format_exception(*record.exc_info))
            record.exc_text = escape(told, kept="\n").rstrip("\n")
        return True


ESCAPING: Final = EscapingFilter()


def logger_of(name: str) -> logging.Logger:
    """Give the logger of a part of the product. All of them come from here."""
    logger = logging.getLogger(name)
    logger.addFilter(ESCAPING)  # A filter that is there already is not added again.
    return logger


def _escaped(argument: object) -> object:
    """Give an argument as it is, or its text with escapes if %s or %r would write others' words."""
    try:
        text = str(argument)
        return argument if is_plain(text) and is_plain(repr(argument)) else escape(text)
    except Exception:  # A line must be logged, whatever the argument makes of its text.
        return f"<{type(argument).__name__}>"
