"""Which of the two processes with the stores leads, whoever dies when. Pure.

One has the masters, the other one clones that have all that is acknowledged. When the first one
dies, the other is promoted, and the first one comes back with clones. If the other one cannot be
promoted, because it has just died itself, the first one comes back with the masters, from its
files. Only if both die within a promotion nobody can say which files are the later ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from peermesh.demo.errors import DemoError


@dataclass(frozen=True, slots=True)
class Promote:
    """Tell a process to lead."""

    process: int


class Leading:
    """Decides; processes are 0 and 1."""

    def __init__(self) -> None:
        """Begin with process 0."""
        self.leader = 0
        self.files = [0, 0]
        """Which files each of them leads from, or would; files are used once."""
        self._is_ready = [True, False]
        self._is_promoting = False

    def leads(self, process: int) -> bool:
        """Tell how a process has to start: with masters, or with clones."""
        return process == self.leader and not self._is_promoting

    def on_following(self, process: int) -> None:
        """A process has all that its master has."""
        self._is_ready[process] = True

    def on_promoted(self, process: int) -> None:
        """A process leads."""
        assert process == self.leader, (process, self.leader)
        self._is_promoting = False

    def on_death(self, process: int) -> Promote | None:
        """A process is dead, and will be started again; raises ``DemoError``."""
        if self._is_promoting and process == self.leader:
            raise DemoError(
                "both processes with the stores died within a second: nobody knows which of them"
                " has the later files"
            )
        other = 1 - process
        self._is_ready[process] = False
        if process != self.leader or not self._is_ready[other]:
            self._is_ready[process] = process == self.leader
            return None
        self.leader, self._is_promoting = other, True
        self.files[process] += 1
        return Promote(other)
