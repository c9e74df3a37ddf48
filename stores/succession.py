"""Who leads: when a clone may be promoted, and how masters of one store find each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from stores.effects import Effect, SecondMaster, ToOwnKind
from stores.epochs import term_of
from stores.seeker import RIVALS_MAX
from wire.errors import PromotionRefused
from wire.identifiers import EndpointId, EntityId

PROCLAIM_INTERVAL_TICKS: Final = 10
"""Ticks between two calls to other masters: a second. They cost nothing while there is none."""


@dataclass(frozen=True, slots=True)
class Assessment:
    """How good a successor a clone, or a follower of a log, is, as far as it can know."""

    has_data: bool
    is_in_touch: bool
    """The master is alive."""
    is_loading: bool
    """It is being made level with its master; what can be read is older."""
    missing_count: int
    """Events that the master is known to have told, and that are not here."""
    silent_ns: int
    """How long ago the master was heard. What it did since is unknown."""
    position: str
    """How far it is, for people."""
    known_epoch: int

    def check(self, name: str, *, is_forced: bool) -> None:
        """Raise ``PromotionRefused`` if something speaks against it that force cannot overrule."""
        reason = self._objection()
        if reason and not (is_forced and self.has_data):
            raise PromotionRefused(f"{name}: {reason}")

    def _objection(self) -> str:
        if not self.has_data:
            return "this clone never had a snapshot, so that nothing would be left"
        if self.is_in_touch:
            return (
                "its master is alive: close it first, when it is idle; with force it is deposed,"
                " and what it acknowledges meanwhile is lost"
            )
        if self.is_loading:
            return (
                f"it is not level with its master yet, and what is here is older ({self.position}):"
                " promote another clone; with force everything later is lost"
            )
        if self.missing_count:
            return (
                f"{self.missing_count} events of the master are missing here"
                f" ({self.position}): promote a clone that has them; with force they are lost"
            )
        return ""


class Rivals:
    """A master's ear and voice for other masters of its store."""

    def __init__(self, entity: EntityId, epoch: int, effects: list[Effect], call: bytes) -> None:
        """Append to ``effects``; ``call`` says that we lead."""
        self._entity = entity
        self._epoch = epoch
        self._effects = effects
        self._call = call
        self._tick = 0
        self._told: set[tuple[int, EntityId]] = set()

    def tick(self) -> None:
        """Call out once in a while; for the first time at once."""
        if self._tick % PROCLAIM_INTERVAL_TICKS == 0:
            self.proclaim(None)
        self._tick += 1

    def proclaim(self, to: EndpointId | None) -> None:
        """Tell one master, or all, that we lead."""
        self._effects.append(ToOwnKind(to, self._call))

    def is_led_by(self, other: EntityId, epoch: int) -> bool:
        """Hear another master: true if it leads; it is told otherwise, and so is the user."""
        if (epoch, other) == (self._epoch, self._entity):
            return False
        if (epoch, other) > (self._epoch, self._entity):
            return True
        self.proclaim(other.endpoint)
        if (epoch, other) not in self._told and len(self._told) < RIVALS_MAX:
            self._told.add((epoch, other))
            self._effects.append(SecondMaster(other, epoch))
        return False

    def is_fenced(self, epoch: int | None) -> bool:
        """Tell whether a clone knows of a master that was promoted after us."""
        return epoch is not None and term_of(epoch) > term_of(self._epoch)
