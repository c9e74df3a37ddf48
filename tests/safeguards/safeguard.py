"""What a safeguard is, and how it is switched off in a copy of the tree."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


class Stale(Exception):
    """A safeguard's text is not in its file exactly once: the code went on, the table did not."""


@dataclass(frozen=True, slots=True)
class Safeguard:
    """One thing that keeps a promise, and what the code would be without it."""

    name: str
    why: str
    """What goes wrong without it."""
    file: str
    text: str
    """Occurs in the file exactly once."""
    replacement: str
    tests: tuple[str, ...]
    """What pytest is given; some of these tests have to fail without it."""

    def without(self) -> str:
        """Give the file's content with the safeguard switched off; raises ``Stale``."""
        content = (ROOT / self.file).read_text(encoding="utf-8")
        count = content.count(self.text)
        if count != 1:
            raise Stale(f"{self.name}: its text occurs {count} times in {self.file}, not once")
        return content.replace(self.text, self.replacement)
