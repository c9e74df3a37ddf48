"""What a checker says: the promise held, it was broken, or the checker gave up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, unique

from wire.escaping import escape


@unique
class Finding(Enum):
    """The three possible answers."""

    HELD = "held"
    BROKEN = "broken"
    GAVE_UP = "gave up"
    """The history is more than the checker can decide within its limits: that is no yes."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """An answer, true only if the promise held. As text it explains itself."""

    promise: str
    finding: Finding
    text: str
    """What was looked at if the promise held; otherwise which events contradict each other."""
    witness: tuple[str, ...] = ()
    """The events that contradict each other, as few as were found to do."""

    def __bool__(self) -> bool:
        """Tell whether the promise held: giving up is not holding."""
        return self.finding is Finding.HELD

    def __str__(self) -> str:
        """Say it to a person, the witness in lines of their own."""
        lines = [f"{self.promise}: {self.finding.value}: {self.text}"]
        return "\n".join(map(escape, [*lines, *(f"  {each}" for each in self.witness)]))


def held(promise: str, text: str) -> Verdict:
    """Say that the promise held, and what was looked at."""
    return Verdict(promise, Finding.HELD, text)


def broken(promise: str, text: str, witness: Iterable[object] = ()) -> Verdict:
    """Say that the promise was broken, and by what."""
    return Verdict(promise, Finding.BROKEN, text, tuple(map(str, witness)))


def gave_up(promise: str, text: str, witness: Iterable[object] = ()) -> Verdict:
    """Say that nobody knows, and why."""
    return Verdict(promise, Finding.GAVE_UP, text, tuple(map(str, witness)))
