"""How a store or log is asked for: backend, times, voters, and the handle that is about to be."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Final, Generic, TypeVar

from endpoint import arguments
from endpoint.closing import AsyncClosing
from stores.group.membership import Declared
from wire.errors import BackendFailure, InvalidData
from wire.public import public

STALE_SECONDS: Final = 300.0
"""How long a clone serves what it has without its master, before reads raise ``StaleData``: the
interval of Broker."""

BUFFER_SECONDS: Final = 120.0
"""How long a clone keeps a mutation for a master that is not there, before it fails: the
``mutation_buffer_interval`` of Broker."""


LEADER_SECONDS: Final = 10.0
"""How long ``await_leader`` waits by default: for some elections."""

TTL_SECONDS: Final = 10.0
"""A session's time to live by default: some elections fit in it, and who waits for a dead holder's
lock waits no longer."""

ORDER_SECONDS: Final = 15.0
"""How long a change of a group's members may take: a new voter has to catch up before."""

ANSWER_SECONDS: Final = 5.0
"""How long what is asked of a replica waits for an answer of its group before it fails: two
elections fit in it."""

PATIENCE_SECONDS: Final = 10.0
"""How long a log's handle waits for a keeper before what it was asked fails: as long as peers are
waited for."""

READ_SECONDS: Final = 5.0
"""How long a read waits for a clone's first snapshot, or for the freshness that was asked for:
Broker's ``max_get_delay``."""


KEY_VARIABLES: Final = ("PEERMESH_STORE_KEYS", "PEERMESH_STORE_KEY_FILE")
"""Variables of the environment that have keys of files: what ``stores.disk.store_keys`` reads."""

TICKS_PER_SECOND: Final = 10
"""The loop's ticks, which cores count."""


@public
class Backend(Enum):
    """Where a master keeps its store; the names are the seed's."""

    Memory = "memory"
    """Nowhere but in memory. The store ends with its master."""
    SQLite = "sqlite"
    """In a file, ``path=...``. What is acknowledged survives a power cut."""


@dataclass(frozen=True, slots=True)
class Patience:
    """What a reader is attached with; a deposed leader becomes one that is as patient as usual."""

    seconds: float
    """What is asked here waits so long for a leader before it fails."""
    stale_seconds: float | None = STALE_SECONDS
    """What is here is read for so long without a leader; ``None`` is for ever."""

    @property
    def ticks(self) -> int:
        """Give the seconds as cores count them."""
        return max(0, round(self.seconds * TICKS_PER_SECOND))

    @property
    def stale_ns(self) -> int | None:
        """Give the other ones likewise."""
        return None if self.stale_seconds is None else round(self.stale_seconds * 1_000_000_000)


def backend_of(value: Backend | str) -> Backend:
    """Give the backend of this name, or the one that was given; raises as ``arguments`` does."""
    if isinstance(value, Backend):
        return value
    text = arguments.text("backend", value).lower()
    names = [each.value for each in Backend]
    if text not in names:
        raise ValueError(f"backend={value!r}: there are {' and '.join(names)}")
    return Backend(text)


def declared_voters(voters: Iterable[str] | int, *, is_founder: bool) -> Declared:
    """Check the names of voters, or their number; raises as ``arguments`` does."""
    if isinstance(voters, int):
        return Declared((), arguments.count("voters", voters), is_founder)
    if isinstance(voters, str) or not isinstance(voters, Iterable):
        raise TypeError(f"voters={voters!r}: give a list of names, or a number")
    names = tuple(arguments.text("voters", each) for each in voters)
    if is_founder:
        raise InvalidData(
            "found=True goes with a number, voters=3; of voters with names, the first one founds"
        )
    return Declared(names)


def topics_of(topics: str | Iterable[str]) -> list[str]:
    """Check the topics that a log collects: none, one, or several."""
    given = [topics] if isinstance(topics, str) else list(topics)
    return [arguments.prefix("topics", each) for each in given]


@contextmanager
def first_use() -> Iterator[None]:
    """Read the code of stores, or of logs, within the block; raises ``BackendFailure``."""
    try:
        yield
    except OSError as error:
        raise BackendFailure(
            f"the code of stores and logs cannot be read ({error.strerror}): see that the process"
            " may open more files, and attach again"
        ) from error


HandleT = TypeVar("HandleT", bound=AsyncClosing)


class Attaching(Generic[HandleT]):
    """A store that is about to be attached: ``await`` it, or use it with ``async with``."""

    def __init__(self, attach: Callable[[], Awaitable[HandleT]]) -> None:
        """Attach when it is awaited or entered."""
        self._attach = attach
        self._store: HandleT | None = None

    def __await__(self) -> Generator[object, object, HandleT]:
        """Attach, and give the handle."""
        return self._attach().__await__()

    async def __aenter__(self) -> HandleT:
        """Attach for the block."""
        self._store = await self._attach()
        return self._store

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the store."""
        assert self._store is not None
        await self._store.close()
