"""What stands on one direction of a link: at most one fault of each kind."""

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
    Unsupported,
    check,
)

WORLD: Final = "the link proxy"

_NO_PACKETS: Final = (
    "it passes on a stream of bytes, in which TCP has undone this already; network namespaces do"
    " it to real packets, the simulation to virtual ones"
)


@dataclass(frozen=True, slots=True)
class Conditions:
    """The faults of one direction. ``None`` and false: that one does not stand."""

    delay: Delay | None = None
    loss: Loss | None = None
    rate: RateLimit | None = None
    slow_close: SlowClose | None = None
    partition: Partition | None = None

    def with_fault(self, fault: LinkFault) -> Conditions:
        """Add a fault, in place of one of its kind.

        Raises ``ValueError`` for one without sense, and ``Unsupported`` for what a proxy cannot do.
        """
        check(fault)
        match fault:
            case Delay():
                return replace(self, delay=fault)
            case Loss():
                return replace(self, loss=fault)
            case RateLimit():
                return replace(self, rate=fault)
            case SlowClose():
                return replace(self, slow_close=fault)
            case Partition():
                return replace(self, partition=fault)
            case Duplication() | Reordering():
                raise Unsupported(WORLD, fault, _NO_PACKETS)
            case Reset():
                raise Unsupported(WORLD, fault, "a connection breaks as a whole: Direction.BOTH")

    def faults(self) -> tuple[LinkFault, ...]:
        """Give what stands, as it was applied."""
        every = (self.delay, self.loss, self.rate, self.slow_close, self.partition)
        return tuple(fault for fault in every if fault is not None)

    @property
    def is_held(self) -> bool:
        """Whether nothing gets through, however long one waits."""
        return self.partition is not None or (self.loss is not None and self.loss.probability == 1)


HEALTHY: Final = Conditions()
"""Nothing stands."""
