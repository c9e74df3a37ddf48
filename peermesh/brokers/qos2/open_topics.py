"""The topics whose logs are open at a broker: opens them when they are asked for, and ends them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

import trio

from endpoint.replicas.logs.log import ReplicaLog
from endpoint.replicas.logs.part import LogPart
from endpoint.replicas.stores.reading import Entry
from endpoint.replicas.stores.watching import Commit
from handshake.principals import Principal
from handshake.private_files import DATABASE_SUFFIXES, sync_path
from peermesh.brokers.qos2.catalogue import TOPICS, Catalogue, Record, Stage, topic_key
from peermesh.brokers.qos2.errors import BrokerUnavailable
from peermesh.brokers.qos2.limits import BURIAL_TOPIC
from peermesh.brokers.qos2.place import Place, Table, TopicLog
from peermesh.brokers.qos2.supervision import supervise
from stores.disk.ballot import SUFFIX as BALLOT_SUFFIX
from stores.quota import STORE_QUOTA, Quota, QuotaPool
from stores.watches import Gap
from wire.values import Value

IDLE_SECONDS: Final = 10.0
"""How long what followers lack may hold up the end of a topic."""

SHUT_QUOTA: Final = Quota(max_bytes=1)
"""That of a log which takes nothing: no message has so little."""

Attach = Callable[[str, int], Awaitable[TopicLog]]
"""Opens the log of a topic whose numbers begin behind a base."""


@dataclass(slots=True)
class OpenTopic:
    """A topic whose log is open here."""

    log: TopicLog
    record: Record
    used: float
    """When it was asked for last, by trio's clock."""


class OpenTopics:
    """The topics that are open at one broker, each opened and ended under a lock of its own."""

    def __init__(
        self,
        place: Place,
        catalogue: Catalogue,
        pool: QuotaPool,
        attach: Attach,
        decides: Callable[[], bool],
    ) -> None:
        """Open none yet. What ``attach`` opens counts in ``pool`` at a keeper.

        ``decides`` tells whether this broker ends topics now.
        """
        self._place = place
        self._decides = decides
        self._catalogue = catalogue
        self._attach = attach
        self._topics: dict[str, OpenTopic] = {}
        self._pool = pool
        # The log of a topic that ends is moved into this one, where nothing has room.
        self._shut_pool = QuotaPool(f"broker {place.name}", SHUT_QUOTA)
        self._locks: WeakValueDictionary[str, trio.Lock] = WeakValueDictionary()
        self._in_background = trio.CapacityLimiter(1)

    def __contains__(self, topic: str) -> bool:
        """Tell whether a topic is open here."""
        return topic in self._topics

    def names(self) -> list[str]:
        """Name all of them."""
        return list(self._topics)

    def all_but_burials(self) -> list[OpenTopic]:
        """Give all of them but that of dead letters."""
        return [found for name, found in self._topics.items() if name != BURIAL_TOPIC]

    def find(self, topic: str) -> OpenTopic | None:
        """Give a topic if it is open here."""
        return self._topics.get(topic)

    async def get(self, topic: str, principal: Principal) -> OpenTopic:
        """Give a topic; make it for a principal if there is none.

        It waits for no other topic. Raises ``Refused`` and ``MeshError``.
        """
        if topic not in self._topics:
            async with self._lock(topic):
                if topic not in self._topics:
                    await self._make(topic, principal.name)
        found = self._topics[topic]
        found.used = trio.current_time()
        return found

    def _lock(self, topic: str) -> trio.Lock:
        return self._locks.setdefault(topic, trio.Lock())

    async def _make(self, topic: str, owner: str | None) -> None:
        record = await self._catalogue.make(topic, owner)
        if record.stage is not Stage.LIVE:
            if not self._decides():
                raise BrokerUnavailable(f"topic {topic} is being deleted")
            await self._end(topic, record)
            record = await self._catalogue.make(topic, owner)
        await self._open(topic, record)

    async def _open(self, topic: str, record: Record) -> None:
        log = await self._attach(topic, record.base)
        await log.partition_count()
        self._topics[topic] = OpenTopic(log, record, trio.current_time())

    async def close(self) -> None:
        """Close the logs of all."""
        for topic in self._topics.values():
            await topic.log.close()

    # What the catalogue says.

    async def follow(self, table: Table) -> None:
        """End what is deleted, for ever; a keeper also opens all, for followers and the quota.

        One after the other, so that clients do not wait for what they do not ask for.
        """
        async with trio.open_nursery() as nursery:

            def follow(key: Value, value: Value) -> None:
                topic = str(key).removeprefix(TOPICS)
                # On its own: a topic that cannot be opened does not hold up the others.
                part = partial(self.keep_up, topic, None if value is None else Record.of(value))
                nursery.start_soon(supervise, f"topic {topic}", part)

            async for item in table.watch(prefix=TOPICS):
                match item:
                    case Entry():
                        follow(item.key, item.value)
                    case Commit():
                        for change in item.changes:
                            follow(change.key, None if change.entry is None else change.entry.value)
                    case Gap():
                        for topic in self._topics:
                            follow(topic_key(topic), None)
                    case _:
                        pass  # A mark: nothing has changed.

    async def keep_up(self, topic: str, seen: Record | None = None) -> None:
        """Do what the catalogue says about a topic, of which ``seen`` was the latest news."""
        async with self._in_background, self._lock(topic):
            record = await self._catalogue.find(topic)
            if self._place.is_follower:
                await self._keep_up_copy(topic, record, seen)
            elif self._place.voters and not self._decides():
                await self._keep_up_replica(topic, record, seen)
            elif record is None:
                pass  # Its end is over.
            elif record.stage is not Stage.LIVE:
                await self._end(topic, record)
            elif topic not in self._topics:
                await self._open(topic, record)

    async def _keep_up_replica(
        self, topic: str, record: Record | None, seen: Record | None
    ) -> None:
        """Have a majority keep what is not at its end, and let go of what is."""
        if record is None or record.stage is Stage.ENDED:
            await self._keep_up_copy(topic, None, record or seen)
        elif topic not in self._topics:
            await self._open(topic, record)

    async def resume_ends(self) -> None:
        """Go on with what another broker began to end, which led then."""
        for topic, record in (await self._catalogue.records()).items():
            if record.stage is not Stage.LIVE:
                await self.keep_up(topic)

    async def _keep_up_copy(self, topic: str, record: Record | None, seen: Record | None) -> None:
        if topic in self._topics and record != self._topics[topic].record:
            await self._close(topic)
        # A keeper that has lost its disk deletes nothing: then a copy may be all that is left.
        if seen is not None and seen.stage is not Stage.LIVE:
            await self._remove_files(topic, seen)

    # The end of a topic, at its keeper.

    def idle(self, seconds: float) -> list[str]:
        """Name the topics that were not asked for in so many seconds; not that of dead letters."""
        since = trio.current_time() - seconds
        found = [name for name, topic in self._topics.items() if topic.used <= since]
        return [name for name in found if name != BURIAL_TOPIC]

    async def end_if_empty(self, topic: str) -> bool:
        """End a topic that has neither messages nor consumers; tell whether it was so."""
        async with self._lock(topic):
            found = self._topics.get(topic)
            if found is None or not self._decides() or await _end_of_empty(found.log) is None:
                return False
            if await self._catalogue.has_consumers(topic):
                return False
            end = await self._shut(found.log)
            if end is None or not await self._catalogue.begin_end(topic, found.record):
                await self._reopen(found.log)
                return False
            await self._end(topic, replace(found.record, stage=Stage.ENDING))
            return True

    async def _end(self, topic: str, record: Record) -> None:
        """Carry a deletion to its end, from wherever it was interrupted."""
        if record.stage is Stage.ENDING:
            if topic not in self._topics:
                await self._open(topic, record)
            end = await self._empty(self._topics[topic].log)
            await self._close(topic)
            await self._catalogue.note_end(topic, record, record.base + end)
        await self._remove_files(topic, record)
        await self._catalogue.forget(topic)

    async def _empty(self, log: TopicLog) -> int:
        """Have a log take nothing more and hold nothing; give its end."""
        end: int | None = None
        while end is None:
            trimmed = await log.trim(0, (await log.offsets())[0].end)
            await trimmed.applied()
            end = await self._shut(log)
        return end

    async def _shut(self, log: TopicLog) -> int | None:
        """Have a log take nothing more; give its end if it is empty, and ``None`` otherwise."""
        if isinstance(log, ReplicaLog):
            await log.set_quota(max_bytes=SHUT_QUOTA.max_bytes)
        else:
            _part(log).share_quota(self._shut_pool)
            self._pool.leave(log.name())
        await log.await_idle(timeout=IDLE_SECONDS)  # What was on its way has its outcome.
        return await _end_of_empty(log)

    async def _reopen(self, log: TopicLog) -> None:
        """Have a log take messages again."""
        if isinstance(log, ReplicaLog):
            await log.set_quota(max_bytes=STORE_QUOTA.max_bytes)
        else:
            _part(log).share_quota(self._pool)
            self._shut_pool.leave(log.name())

    async def _close(self, topic: str) -> None:
        """Let go of a topic's log; its readers are told that it is closed."""
        log = self._topics.pop(topic).log
        await log.close()
        self._shut_pool.leave(log.name())

    async def _remove_files(self, topic: str, record: Record) -> None:
        file = self._place.log_file(topic, record.base)
        if file is not None:
            await trio.to_thread.run_sync(_remove, file)


def _part(log: TopicLog) -> LogPart:
    assert isinstance(log.part, LogPart), "only topics that are kept here end"
    return log.part


async def _end_of_empty(log: TopicLog) -> int | None:
    """Give the end of a log that is empty; ``None`` for another."""
    span = (await log.offsets())[0]
    return span.end if span.start == span.end else None


def _remove(file: Path) -> None:
    """Remove a database for good: after a power cut it is not there again."""
    for suffix in (*DATABASE_SUFFIXES, BALLOT_SUFFIX):
        Path(f"{file}{suffix}").unlink(missing_ok=True)
    sync_path(str(file.parent))
