"""Answers that explain themselves: true when reached, and otherwise false with the reason."""

from __future__ import annotations

from wire.errors import MeshError
from wire.public import public


@public
class Outcome:
    """What ``peer``, ``await_peer`` and ``await_idle`` give: a truth with its text.

    ``if not outcome: print(outcome)`` tells what is missing.
    """

    __slots__ = ("error", "reached", "reason")

    def __init__(self, reached: bool, reason: str, error: MeshError | None = None) -> None:  # noqa: FBT001 - it is what this is
        """Hold the truth, a sentence for people, and the error behind it if there is one."""
        self.reached = reached
        self.reason = reason
        self.error = error

    def __bool__(self) -> bool:
        """Tell whether it was reached."""
        return self.reached

    def __eq__(self, other: object) -> bool:
        """Compare like the boolean that it stands for."""
        if isinstance(other, (bool, Outcome)):
            return bool(self) == bool(other)
        return NotImplemented

    def __hash__(self) -> int:
        """Hash like the boolean that it stands for."""
        return hash(self.reached)

    def __str__(self) -> str:
        """Give the sentence."""
        return self.reason

    def __repr__(self) -> str:
        """Show truth and sentence."""
        return f"<{'reached' if self.reached else 'not reached'}: {self.reason}>"
