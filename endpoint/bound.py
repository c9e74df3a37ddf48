"""What belongs to one endpoint of one process, and can not be taken out of it."""

from __future__ import annotations

from typing import ClassVar, NoReturn, SupportsIndex


class Bound:
    """A base of handles and receipts: refuses to be copied, and to be pickled."""

    __slots__ = ()

    _instead: ClassVar[str] = (
        "use the object itself in this process, and make one with an endpoint of its own in another"
    )
    """What to do in the place of a copy."""

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """Raise ``TypeError``; ``copy`` and ``pickle`` both ask this."""
        raise TypeError(
            f"{type(self).__name__} belongs to an endpoint in this process, and is neither copied"
            f" nor pickled: {self._instead}"
        )
