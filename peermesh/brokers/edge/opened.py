"""What lives in an ``async with`` block: written as one generator, used as an object."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Self


class Opened(ABC):
    """A base: ``async with`` opens it, and its end leaves no task behind. Enter it once."""

    _life: AbstractAsyncContextManager[None] | None = None

    @abstractmethod
    def _live(self) -> AsyncIterator[None]:
        """Open, yield once, and close. An error that ends the block is raised at the yield."""

    async def __aenter__(self) -> Self:
        """Open it."""
        self._life = asynccontextmanager(self._live)()
        await self._life.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        """Close it."""
        assert self._life is not None
        return await self._life.__aexit__(kind, value, traceback)
