"""Draws which ports there are, and what each asks, from what they declare of themselves."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Final

from drawing.markdown import code, table
from handshake.access import Port, Right

ROOT: Final = Path(__file__).resolve().parent.parent.parent

PACKAGES: Final = ("endpoint", "peermesh")

_DECLARES: Final = re.compile(r"^[A-Z_]+: Final = Port\($", re.MULTILINE)


def declared() -> list[Port]:
    """Give every ``Port`` that a module of the product declares, in the order of their files."""
    found: list[Port] = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if _DECLARES.search(path.read_text("utf-8")):
                name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
                values = vars(import_module(name)).values()
                found += [each for each in values if isinstance(each, Port)]
    return found


def ports() -> str:
    """Draw the table of ports: what protects each, what a verb asks, and which right answers."""
    rows = []
    for port in declared():
        proofs = ", ".join(port.proofs) or "none"
        name = f"**{port.name}**" + (f": {port.note}" if port.note else "")
        front = (name, proofs, port.bare)
        for right in dict.fromkeys(port.asks.values()):
            verbs = ", ".join(code(verb) for verb, asked in port.asks.items() if asked is right)
            answer = right.value if right is Right.ENTER else code(right.value)
            rows.append((*front, verbs, answer))
            front = ("", "", "")
        if not port.asks:
            rows.append((*front, "nothing", ""))
    return table(("port", "proven by", "without credentials", "asks", "answered by"), rows)
