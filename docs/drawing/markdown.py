"""Puts rows into Markdown tables, and moves into Mermaid diagrams."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Move = tuple[str, str, str]
"""From a state, by a trigger, to a state."""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Draw a table; an empty one would hide a mistake, and is refused."""
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    assert cells, f"a table of {', '.join(head)} without rows"
    assert all(len(row) == len(head) for row in cells), (head, cells)
    lines = [head, ["---"] * len(head), *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def state_diagram(moves: Iterable[Move], *, first: str, last: Sequence[str]) -> str:
    """Draw a state diagram; triggers of the same two states share an arrow."""
    arrows: dict[tuple[str, str], dict[str, None]] = {}
    for source, trigger, target in moves:
        arrows.setdefault((source, target), {})[trigger] = None
    lines = [f"[*] --> {first}"]
    for (source, target), triggers in arrows.items():
        lines.append(f"{source} --> {target}: {', '.join(triggers)}")
    lines += [f"{state} --> [*]" for state in last]
    return fence("mermaid", "stateDiagram-v2", *(f"    {line}" for line in lines))


def sequence_diagram(participants: Sequence[str], steps: Iterable[str]) -> str:
    """Draw who sends what to whom."""
    lines = [*(f"participant {name}" for name in participants), *steps]
    return fence("mermaid", "sequenceDiagram", *(f"    {line}" for line in lines))


def fence(language: str, *lines: str) -> str:
    """Draw a fenced block."""
    return "\n".join((f"```{language}", *lines, "```"))


def code(text: str) -> str:
    """Mark a name of the code."""
    return f"`{text}`"
