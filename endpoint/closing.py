"""What is used within a ``with`` or ``async with`` block, and closed at its end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from endpoint.bound import Bound


class Closing(Bound, ABC):
    """A base: the end of the block calls ``close``."""

    __slots__ = ()

    @abstractmethod
    def close(self) -> None:
        """Close it; once more does nothing."""

    def __enter__(self) -> Self:
        """Use it within the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()


class EitherClosing(Closing):
    """A base of handles for trio whose ``close`` waits for nothing: both kinds of block do."""

    __slots__ = ()

    async def __aenter__(self) -> Self:
        """Use it within the block."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()


class AsyncClosing(Bound, ABC):
    """A base: the end of the asynchronous block calls ``close``, and waits for it."""

    __slots__ = ()

    @abstractmethod
    async def close(self) -> None:
        """Close it; once more does nothing."""

    async def __aenter__(self) -> Self:
        """Use it within the block."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""
        await self.close()
