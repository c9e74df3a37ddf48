"""What the page of the logs shows."""

from __future__ import annotations

from drawing.markdown import code, table
from drawing.reading import summary
from drawing.tables import classes_in, fields_of


def log_payloads(union: object) -> str:
    """Draw what handles and proxies ask, or what proxies are answered."""
    rows = [(code(each.__name__), fields_of(each), summary(each)) for each in classes_in(union)]
    return table(("payload", "carries", "says"), rows)
