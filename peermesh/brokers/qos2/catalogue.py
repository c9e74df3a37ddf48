"""Which topics there are, as the broker's store has it: who made each, and where its numbers begin.

Numbers of a topic only grow, also when it is deleted and made again: consumers tell repetitions by
them. So the store keeps one number, the floor, that is not below any number of a deleted topic.
What is made later counts from there, in a log and a file of its own.

A deletion has two stages, which survive a crash: ``ENDING`` until the log is closed and the floor
is known, ``ENDED`` until the file and the places of consumers are gone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import trio

from peermesh.brokers.qos2.errors import Refused
from peermesh.brokers.qos2.limits import BURIAL_TOPIC, TOPICS_MAX, TOPICS_OF_PRINCIPAL_MAX
from peermesh.brokers.qos2.place import Table
from stores.batch import Batch
from stores.limits import BATCH_COUNT_MAX
from wire.errors import GuardFailed
from wire.values import Value

TOPICS: Final = "topic/"
"""What the keys of topics begin with."""

CURSORS: Final = "cursor/"
MARKS: Final = "mark/"
FLOOR: Final = "floor"


class Stage(StrEnum):
    """How far the deletion of a topic is."""

    LIVE = "live"
    ENDING = "ending"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Record:
    """What the store has of one topic."""

    owner: str | None = None
    """The principal that made it; ``None`` for a client without a name, or an earlier release."""
    base: int = 0
    """What is added to an offset of its log: the floor when it was made."""
    stage: Stage = Stage.LIVE

    @classmethod
    def of(cls, value: Value) -> Record:
        """Read a value. Earlier releases wrote ``True``."""
        match value:
            case (str(stage), (str() | None) as owner, int(base)):
                return cls(owner, base, Stage(stage))
            case _:
                return cls()

    def value(self) -> Value:
        """Write it."""
        if self == Record():
            return True
        return (self.stage.value, self.owner, self.base)


def topic_key(topic: str) -> str:
    """Name the key of a topic."""
    return TOPICS + topic


def cursor_key(consumer: str, topic: str) -> str:
    """Name the key of what a consumer has not had yet."""
    return f"{CURSORS}{consumer} {topic}"  # neither name has a space


def mark_key(consumer: str, topic: str) -> str:
    """Name the key of a message that is being made a dead letter."""
    return f"{MARKS}{consumer} {topic}"


async def erase_all(table: Table, keys: Sequence[str]) -> None:
    """Erase keys in their order, in as few batches as may be."""
    for start in range(0, len(keys), BATCH_COUNT_MAX):
        batch = Batch()
        for key in keys[start : start + BATCH_COUNT_MAX]:
            batch.erase(key)
        receipt = await table.batch(batch)
        await receipt.applied()


class Catalogue:
    """The topics of a broker, over its store: the keeper's own, a follower's copy, or a replica."""

    def __init__(self, table: Table, level: Callable[[], Awaitable[None]]) -> None:
        """Look at nothing yet; ``level`` waits until writes of other brokers are seen."""
        self._table = table
        self._level = level
        self._making = trio.Lock()

    async def find(self, topic: str) -> Record | None:
        """Look a topic up; ``None`` if there is none."""
        value = await self._table.get(topic_key(topic))
        return None if value is None else Record.of(value)

    async def records(self) -> dict[str, Record]:
        """Give all topics, by name."""
        entries = self._table.entries(prefix=TOPICS)
        return {str(each.key).removeprefix(TOPICS): Record.of(each.value) async for each in entries}

    async def make(self, topic: str, owner: str | None) -> Record:
        """Give a topic; make it if there is none. Raises ``Refused``, and ``MeshError``.

        Brokers of one mesh that make topics at one moment may exceed a limit by one each.
        """
        while (record := await self.find(topic)) is None:
            async with self._making:
                if await self.find(topic) is None:
                    await self._make(topic, owner)
        return record

    async def _make(self, topic: str, owner: str | None) -> None:
        if topic != BURIAL_TOPIC:
            _check_room(await self.records(), owner)
        floor = await self._floor()
        batch = self._at_floor(floor).if_absent(topic_key(topic))
        batch.put(topic_key(topic), Record(owner, floor).value())
        try:
            receipt = await self._table.batch(batch)
            await receipt.applied()
        except GuardFailed:
            await self._level()  # Another broker made it, or ended a topic, which is not seen yet.

    async def _floor(self) -> int:
        found = await self._table.get(FLOOR, 0)
        return found if isinstance(found, int) else 0

    def _at_floor(self, floor: int) -> Batch:
        return Batch().if_value(FLOOR, floor) if floor else Batch().if_absent(FLOOR)

    async def begin_end(self, topic: str, record: Record) -> bool:
        """Decide that a topic ends; false if it is not the same any more."""
        ending = replace(record, stage=Stage.ENDING)
        batch = Batch().if_value(topic_key(topic), record.value())
        try:
            receipt = await self._table.batch(batch.put(topic_key(topic), ending.value()))
            await receipt.applied()
        except GuardFailed:
            return False
        return True

    async def note_end(self, topic: str, record: Record, end: int) -> None:
        """Note the number that the last message of a topic had: its log is closed for good."""
        floor = await self._floor()
        batch = self._at_floor(floor)
        if end > floor:
            batch.put(FLOOR, end)
        batch.put(topic_key(topic), replace(record, stage=Stage.ENDED).value())
        receipt = await self._table.batch(batch)
        await receipt.applied()

    async def forget(self, topic: str) -> None:
        """Remove a topic, with the places of its consumers: its log and file are gone."""
        keys = [key for kind in (CURSORS, MARKS) for key in await self._of_topic(kind, topic)]
        keys.append(topic_key(topic))  # the last one: a crash before it repeats the rest
        await erase_all(self._table, keys)

    async def _of_topic(self, kind: str, topic: str) -> list[str]:
        keys = [str(each.key) async for each in self._table.entries(prefix=kind)]
        return [key for key in keys if key.endswith(f" {topic}")]

    async def has_consumers(self, topic: str) -> bool:
        """Tell whether a consumer has had a message of a topic."""
        return bool(await self._of_topic(CURSORS, topic))

    async def positions(self) -> dict[str, dict[str, int]]:
        """Give the offset that each consumer wants next, by topic and consumer."""
        found: dict[str, dict[str, int]] = {}
        async for each in self._table.entries(prefix=CURSORS):
            consumer, _, topic = str(each.key).removeprefix(CURSORS).partition(" ")
            if isinstance(each.value, int):
                found.setdefault(topic, {})[consumer] = each.value
        return found


def _check_room(records: dict[str, Record], owner: str | None) -> None:
    """Raise ``Refused`` if there are too many topics, or too many of this principal."""
    records.pop(BURIAL_TOPIC, None)
    if len(records) >= TOPICS_MAX:
        raise Refused(f"{TOPICS_MAX} TOPICS AT MOST")
    if sum(each.owner == owner for each in records.values()) >= TOPICS_OF_PRINCIPAL_MAX:
        raise Refused(f"{TOPICS_OF_PRINCIPAL_MAX} TOPICS OF ONE PRINCIPAL AT MOST")
