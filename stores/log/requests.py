"""What a log's handle asks: numbered requests, gathered into as few payloads as possible."""

from __future__ import annotations

from collections.abc import Callable

from stores.limits import RUN_COUNT_MAX, RUN_SIZE_MAX
from stores.log.limits import APPEND_COUNT_MAX, APPEND_SIZE_MAX, NAME_SIZE_MAX, OFFSET_END
from stores.log.messages import Append, ForgetConsumer, MoveCursor, Positions, Request, Trim
from stores.log.runs import Flat, size_of
from wire.errors import InvalidData
from wire.escaping import is_whole


class LogRequests:
    """Numbers requests, and hands them over in runs.

    All raise ``InvalidData`` for what is too large, before anything is numbered.
    """

    def __init__(self, perform: Callable[[int, tuple[Request, ...]], None]) -> None:
        """Hand the number of the first, and the requests, to ``perform``."""
        self.last_request = 0
        self.is_sealed = True
        """True if nothing is being gathered."""
        self.size = 0
        """Bytes of the run that was handed over last, roughly."""
        self._perform = perform
        self._gathered: list[Request] = []
        self._size = 0

    def serve(self, perform: Callable[[int, tuple[Request, ...]], None]) -> None:
        """Hand what is gathered, and what comes, to another owner: the log changed its role."""
        self._perform = perform

    def append(
        self, partition: int, entries: Flat, producer: str | None = None, sequence: int = 0
    ) -> int:
        """Append entries: keys and values in turn."""
        size = size_of(entries)
        if not 0 < len(entries) <= 2 * APPEND_COUNT_MAX or size > APPEND_SIZE_MAX:
            raise InvalidData(
                f"{len(entries) // 2} entries of {size} bytes: an append takes 1 to"
                f" {APPEND_COUNT_MAX} of at most {APPEND_SIZE_MAX} bytes together"
            )
        if producer is not None:
            check_name(producer)
        return self._ask(Append(partition, producer, sequence, entries), size)

    def move_cursor(self, consumer: str, positions: Positions) -> int:
        """Commit where a consumer is."""
        for _, offset in positions:
            _check_offset(offset)
        return self._ask(MoveCursor(check_name(consumer), positions), 32 * len(positions))

    def forget_consumer(self, consumer: str) -> int:
        """Forget a consumer."""
        return self._ask(ForgetConsumer(check_name(consumer)), 0)

    def trim(self, partition: int, offset: int) -> int:
        """Let entries before an offset go."""
        _check_offset(offset)
        return self._ask(Trim(partition, offset), 0)

    def seal(self) -> None:
        """Hand over what was gathered."""
        if self._gathered:
            gathered, self._gathered = tuple(self._gathered), []
            self.is_sealed = True
            self.size, self._size = self._size, 0
            self._perform(self.last_request + 1 - len(gathered), gathered)

    def _ask(self, request: Request, size: int) -> int:
        if self._size + size > RUN_SIZE_MAX or len(self._gathered) == RUN_COUNT_MAX:
            self.seal()
        self._gathered.append(request)
        self.is_sealed = False
        self._size += size
        self.last_request += 1
        return self.last_request


def check_name(name: str) -> str:
    """Give the name of a consumer or producer back; raises ``InvalidData`` if it is none."""
    if not isinstance(name, str) or not 0 < len(name) <= NAME_SIZE_MAX:
        raise InvalidData(f"a name has 1 to {NAME_SIZE_MAX} characters: {name!r:.40}")
    if not is_whole(name):
        raise InvalidData(f"a name holds a lone surrogate, which UTF-8 cannot write: {name!r:.40}")
    return name


def _check_offset(offset: int) -> None:
    if not 0 <= offset < OFFSET_END:
        raise InvalidData(f"an offset is between 0 and 2**52, not {offset}")
