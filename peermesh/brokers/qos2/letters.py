"""Dead letters, for people: what there is, and what becomes of it."""

from __future__ import annotations

from typing import Final

from endpoint import arguments
from peermesh.brokers.qos2.entries import Letter, letter_of, replayed_value
from peermesh.brokers.qos2.errors import Refused
from peermesh.brokers.qos2.limits import BURIAL_TOPIC
from peermesh.brokers.qos2.place import TopicLog
from peermesh.brokers.qos2.shelf import Shelf
from stores.batch import Batch
from stores.limits import BATCH_COUNT_MAX
from wire.errors import OffsetOutOfRange

PAGE: Final = 256
"""Letters read at a time."""


class DeadLetters:
    """The dead letters of a broker, over its shelf: the broker's own, or a follower's."""

    def __init__(self, shelf: Shelf) -> None:
        """Look at nothing yet."""
        self._shelf = shelf

    async def list(self) -> list[Letter]:
        """Give all that were neither replayed nor purged, the oldest first."""
        log = await self._log()
        span = (await log.offsets())[0]
        gone = await self._gone()
        found: list[Letter] = []
        offset = span.start
        while offset < span.end:
            entries = await log.read(0, offset, PAGE)
            if not entries:
                break
            offset = entries[-1].offset + 1
            letters = (letter_of(each.value, each.offset, each.timestamp_ns) for each in entries)
            found += [letter for letter in letters if letter.number not in gone]
        return found

    async def get(self, number: int) -> Letter:
        """Give one; raises ``Refused`` if there is none of this number."""
        arguments.count("number", number, least=0)
        log = await self._log()
        try:
            entries = await log.read(0, number - 1, 1) if number > 0 else []
        except OffsetOutOfRange:
            entries = []
        if not entries or entries[0].offset != number - 1 or number in await self._gone():
            raise Refused(f"there is no dead letter {number}: see the list")
        return letter_of(entries[0].value, entries[0].offset, entries[0].timestamp_ns)

    async def replay(self, number: int, *, to_all: bool = False) -> Letter:
        """Publish one on its topic again, for the consumer that it failed at, or for all.

        Once, however often this is interrupted and repeated. Raises ``Refused``.
        """
        letter = await self.get(number)
        if not letter.topic:
            raise Refused(f"dead letter {number} came from no topic: publish it where you want it")
        log = await self._shelf.log(letter.topic)
        value = letter.payload if to_all else replayed_value(letter.payload, letter.consumer)
        receipt = await log.append(value, producer=f"letter {number}", sequence=1)
        await receipt.applied()
        await self._let_go(number, "replayed")
        return letter

    async def purge(self, number: int) -> Letter:
        """Remove one; raises ``Refused``. Its bytes go with the oldest ones."""
        letter = await self.get(number)
        await self._let_go(number, "purged")
        return letter

    async def _log(self) -> TopicLog:
        return await self._shelf.log(BURIAL_TOPIC)

    async def _gone(self) -> set[int]:
        table = self._shelf.table
        keys = [str(key) for key in await table.keys()]
        return {int(key[len("letter/") :]) for key in keys if key.startswith("letter/")}

    async def _let_go(self, number: int, how: str) -> None:
        """Mark one as gone; then trim all that are gone from the front, and forget their marks."""
        table, log = self._shelf.table, await self._log()
        receipt = await table.put(f"letter/{number}", how)
        await receipt.applied()
        await self._shelf.level()
        gone = await self._gone()
        start = (await log.offsets())[0].start
        end = start
        while end + 1 in gone:
            end += 1
        if end == start:
            return
        trimmed = await log.trim(0, end)
        await trimmed.applied()
        batch = Batch()
        for each in sorted(number for number in gone if number <= end)[:BATCH_COUNT_MAX]:
            batch.erase(f"letter/{each}")
        receipt = await table.batch(batch)
        await receipt.applied()
