"""What stands on one direction of a link, in any world: at most one fault of each kind."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from peermesh.testing.faults import (
    Delay,
    Duplication,
    LinkFault,
    Loss,
    Partition,
    RateLimit,
    Reordering,
    Reset,
    SlowClose,
    check,
)


@dataclass(frozen=True, slots=True)
class Conditions:
    """The faults of one direction; ``None`` for those that do not stand."""

    delay: Delay | None = None
    loss: Loss | None = None
    duplication: Duplication | None = None
    reordering: Reordering | None = None
    rate: RateLimit | None = None
    slow_close: SlowClose | None = None
    partition: Partition | None = None

    def with_fault(self, fault: LinkFault) -> Conditions:
        """Add a fault, in place of one of its kind; raises ``ValueError`` for one without sense."""
        check(fault)
        match fault:
            case Delay():
                return replace(self, delay=fault)
            case Loss():
                return replace(self, loss=fault)
            case Duplication():
                return replace(self, duplication=fault)
            case Reordering():
                return replace(self, reordering=fault)
            case RateLimit():
                return replace(self, rate=fault)
            case SlowClose():
                return replace(self, slow_close=fault)
            case Partition():
                return replace(self, partition=fault)
            case Reset():
                raise ValueError("a reset strikes connections; it does not stand on a direction")

    def faults(self) -> tuple[LinkFault, ...]:
        """Give what stands, as it was applied."""
        every = (
            self.delay,
            self.loss,
            self.duplication,
            self.reordering,
            self.rate,
            self.slow_close,
            self.partition,
        )
        return tuple(fault for fault in every if fault is not None)

    @property
    def is_held(self) -> bool:
        """Whether nothing gets through, however long one waits."""
        return self.partition is not None or (self.loss is not None and self.loss.probability == 1)


HEALTHY: Final = Conditions()
"""Nothing stands."""
