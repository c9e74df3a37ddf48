"""Where the broker keeps everything: a log for each topic, and a store of cursors and marks.

The keeper's files are the broker's memory. A follower on another endpoint serves the same topics:
it asks the keeper, and reads from copies of its own where it has a folder for them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Unpack
from urllib.parse import quote

import trio

from endpoint import arguments
from endpoint.endpoint import Endpoint
from endpoint.replicas.attaching import Backend
from endpoint.replicas.backends import take_quota
from endpoint.replicas.logs.log import Log
from endpoint.replicas.logs.log_backends import log_quota
from endpoint.replicas.logs.log_receipts import AppendReceipt
from endpoint.replicas.stores.reading import Entry
from endpoint.replicas.stores.store import Store as Table
from endpoint.replicas.stores.watching import Commit
from endpoint.shielding import shielded
from handshake.principals import UNPROVEN, Principal
from handshake.private_files import make_directory
from peermesh.brokers.qos2.entries import Letter, letter_value
from peermesh.brokers.qos2.errors import BrokerUnavailable, Refused, TakenOver
from peermesh.brokers.qos2.limits import BURIAL_TOPIC, QUOTA_EXCEEDED, TOPICS_MAX
from peermesh.brokers.qos2.steps import Delivery, Store
from peermesh.brokers.qos2.supervision import supervise
from stores.batch import Batch
from stores.quota import QuotaLimits, QuotaPool
from wire.errors import GuardFailed, MeshError, QuotaExceeded, SequenceUnknown
from wire.values import Value

PATIENCE_SECONDS: Final = 10.0
"""How long a follower waits for its keeper."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where topics are kept, and how much of them."""

    name: str = "qos2"
    """Of the store; logs are called ``NAME/TOPIC``. Brokers of one mesh with one name are one."""
    folder: Path | None = None
    """For files; ``None`` keeps the keeper's in memory only, and a follower without copies."""
    is_follower: bool = False
    retention: Mapping[str, float] = field(default_factory=dict)
    """``keep_seconds``, ``keep_count`` and ``keep_bytes`` of every topic but that of dead letters;
    without any, everything stays."""
    quota: Mapping[str, int | None] = field(default_factory=dict)
    """``max_entries`` and ``max_bytes`` of all topics together but that of dead letters: beyond, no
    message is taken. Those of one log without other word; ``None`` sets no limit."""

    def __post_init__(self) -> None:
        """Check the arguments."""
        arguments.text("name", self.name)
        if self.folder is not None:
            object.__setattr__(self, "folder", Path(self.folder))

    @property
    def backend(self) -> Backend:
        """Where logs and cursors are."""
        return Backend.Memory if self.folder is None else Backend.SQLite

    def log_name(self, topic: str) -> str:
        """Name the log of a topic."""
        return f"{self.name}/{topic}"

    def file(self, stem: str) -> Path | None:
        """Name a file; its name tells every stem from every other."""
        return None if self.folder is None else self.folder / f"{quote(stem, safe='')}.db"


def _unavailable(error: MeshError) -> BrokerUnavailable:
    return BrokerUnavailable(str(error))


class Shelf:
    """All topics, cursors and dead letters. Use ``open_shelf``."""

    def __init__(self, endpoint: Endpoint, place: Place, table: Table) -> None:
        """Begin without topics."""
        self.place = place
        self.table = table
        self._endpoint = endpoint
        self._logs: dict[str, Log] = {}
        quota = take_quota(dict(place.quota), log_quota(place.backend))
        self._pool = QuotaPool(f"broker {place.name}", quota)
        self._opening = trio.Lock()

    def topics(self) -> list[str]:
        """Name the topics that are open here."""
        return list(self._logs)

    def logs(self) -> list[Log]:
        """Give the logs that are open here."""
        return list(self._logs.values())

    def usage(self) -> dict[str, int]:
        """Count the messages of all topics but dead letters, their bytes, and what these may be."""
        pool, quota = self._pool, self._pool.meter.quota
        limits = {"max_entries": quota.max_entries, "max_bytes": quota.max_bytes}
        set_limits = {name: limit for name, limit in limits.items() if limit is not None}
        return {"entries": pool.entries, "bytes": pool.size} | set_limits

    def set_quota(self, **limits: Unpack[QuotaLimits]) -> None:
        """Change ``max_entries`` or ``max_bytes``, or both, until the broker ends."""
        self._pool.replace(replace(self._pool.meter.quota, **limits))

    async def log(self, topic: str) -> Log:
        """Give the log of a topic; make it if there is none. Raises ``Refused`` and others."""
        if topic not in self._logs:
            async with self._opening:
                if topic not in self._logs:
                    self._logs[topic] = await self._open(topic)
        return self._logs[topic]

    async def _open(self, topic: str) -> Log:
        if len(self._logs) >= TOPICS_MAX:
            raise Refused(f"{TOPICS_MAX} TOPICS AT MOST")
        try:
            if await self.table.get(f"topic/{topic}") is None:  # to look takes no right to write
                await self.table.put_unique(f"topic/{topic}", value=True)
            log = await self._attach(topic)
            await log.partition_count()
        except MeshError as error:
            raise _unavailable(error) from error
        return log

    async def _attach(self, topic: str) -> Log:
        name, file = self.place.log_name(topic), self.place.file(f"topic-{topic}")
        backend = self.place.backend
        options: dict[str, Any] = {} if file is None else {"path": file}
        if not self.place.is_follower:
            retention: Mapping[str, Any]
            retention = {} if topic == BURIAL_TOPIC else self.place.retention
            log = await self._endpoint.attach_log(name, (), 1, backend, **options, **retention)
            if topic != BURIAL_TOPIC:  # Consumers let go of what they cannot deal with.
                log.part.share_quota(self._pool)
            return log
        if file is None:
            return await self._endpoint.attach_log_proxy(name, patience=PATIENCE_SECONDS)
        return await self._endpoint.attach_log_clone(
            name, backend, patience=PATIENCE_SECONDS, path=file
        )

    async def follow(self) -> None:
        """Open what other brokers make topics; only the keeper can."""
        async with trio.open_nursery() as nursery:

            def follow(key: Value) -> None:
                topic = str(key).removeprefix("topic/")
                # On its own: a topic that cannot be opened does not hold up the others.
                nursery.start_soon(supervise, f"topic {topic}", partial(self.log, topic))

            async for item in self.table.watch(prefix="topic/"):
                match item:
                    case Entry():
                        follow(item.key)
                    case Commit():
                        for change in item.changes:
                            follow(change.key)
                    case _:
                        pass  # A mark: nothing has changed.

    # Messages.

    async def store(self, step: Store, principal: Principal = UNPROVEN) -> bool:
        """Make a message durable on all its topics; tell whether it was there already.

        The ids of one name count for one ``principal``: no other one's are taken for repetitions.
        Raises ``Refused`` for an id that is older than what is remembered, and at the quota: some
        of the topics may have it then, and know it again.
        """
        producer = None if step.publisher is None else _producer(step.publisher, principal)
        try:
            logs = [await self.log(topic) for topic in step.topics]
            receipts: list[AppendReceipt] = [
                await log.append(step.payload, producer=producer, sequence=step.id) for log in logs
            ]
            for receipt in receipts:
                await receipt.applied()
        except SequenceUnknown as error:
            raise Refused("ID TOO OLD") from error
        except QuotaExceeded as error:
            raise Refused(QUOTA_EXCEEDED) from error
        except (Refused, BrokerUnavailable):
            raise
        except MeshError as error:
            raise _unavailable(error) from error
        return all(receipt.is_repeated() for receipt in receipts)

    # Consumers.

    async def owns(self, consumer: str, principal: Principal) -> bool:
        """Tell whether a consumer's name is its own; a name without an owner gets one.

        A principal that has proven no name owns nothing: what it makes has no owner until a
        principal with a name logs in under it.
        """
        key = f"owner/{consumer}"
        try:
            if principal.name is not None:
                await self.table.put_unique(key, principal.name)
            if self.place.is_follower:
                await self.table.await_idle(timeout=PATIENCE_SECONDS)
            owner = await self.table.get(key)
        except MeshError as error:
            raise _unavailable(error) from error
        return owner == principal.name

    async def enter(self, consumer: str, token: bytes) -> None:
        """Make this session the only one of a consumer, on any broker."""
        await self._do(Batch().put(f"session/{consumer}", token))
        if self.place.is_follower:
            # What earlier sessions committed has to be seen here.
            idle = await self.table.await_idle(timeout=PATIENCE_SECONDS)
            if not idle:
                raise BrokerUnavailable(str(idle))

    async def position(self, consumer: str, topic: str) -> int:
        """Give the offset of the first message that a consumer has not dealt with."""
        found = await self.table.get(_cursor(consumer, topic), 0)
        return found if isinstance(found, int) else 0

    async def commit(self, consumer: str, token: bytes, delivery: Delivery) -> None:
        """Make durable that a consumer has a message; raises ``TakenOver``."""
        await self._do(self._moved(consumer, token, delivery.topic, delivery.offset))

    def _moved(self, consumer: str, token: bytes, topic: str, offset: int) -> Batch:
        fenced = Batch().if_value(f"session/{consumer}", token)
        return fenced.put(_cursor(consumer, topic), offset + 1)

    async def bury(
        self, consumer: str, token: bytes, delivery: Delivery, why: tuple[str, int]
    ) -> None:
        """Make a message a dead letter, once; raises ``TakenOver``.

        First a mark: from then on it is a dead letter, and nobody delivers it any more. What
        interrupts the rest, the next session of the consumer makes good.
        """
        topic, offset, (reason, attempts) = delivery.topic, delivery.offset, why
        mark: Value = (offset, reason, attempts, delivery.payload)
        fenced = Batch().if_value(f"session/{consumer}", token)
        await self._do(fenced.put(_mark(consumer, topic), mark))
        await self._finish_burial(consumer, token, topic, mark)

    async def resume_burial(self, consumer: str, token: bytes, topic: str) -> bool:
        """Finish what a crash interrupted; tell whether there was something."""
        mark = await self.table.get(_mark(consumer, topic))
        if mark is None:
            return False
        await self._finish_burial(consumer, token, topic, mark)
        return True

    async def _finish_burial(self, consumer: str, token: bytes, topic: str, mark: Value) -> None:
        match mark:
            case (int(offset), str(reason), int(attempts), bytes(payload)):
                pass
            case _:
                raise BrokerUnavailable(f"{mark!r} is no mark")
        letter = Letter(0, topic, consumer, offset + 1, reason, attempts, payload, 0)
        log = await self.log(BURIAL_TOPIC)
        # A consumer's offsets only grow, so the log tells a repetition.
        producer = f"consumer {consumer} {topic}"
        try:
            receipt = await log.append(letter_value(letter), producer=producer, sequence=offset + 1)
            await receipt.applied()
        except MeshError as error:
            raise _unavailable(error) from error
        await self._do(self._moved(consumer, token, topic, offset).erase(_mark(consumer, topic)))

    async def _do(self, batch: Batch) -> None:
        try:
            receipt = await self.table.batch(batch)
            await receipt.applied()
        except GuardFailed as error:
            raise TakenOver("TAKEN OVER") from error
        except MeshError as error:
            raise _unavailable(error) from error


def _producer(publisher: str, principal: Principal) -> str:
    whose = "" if principal.name is None else f" {principal.name}"
    return f"publisher {publisher}{whose}"  # no publisher's name has a space


def _cursor(consumer: str, topic: str) -> str:
    return f"cursor/{consumer} {topic}"  # neither name has a space


def _mark(consumer: str, topic: str) -> str:
    return f"mark/{consumer} {topic}"


@asynccontextmanager
async def open_shelf(endpoint: Endpoint, place: Place) -> AsyncIterator[Shelf]:
    """Open what is kept there; raises ``MeshError``."""
    if place.folder is not None:
        make_directory(place.folder)
    if place.is_follower:
        table = await endpoint.attach_clone(place.name)
    elif (file := place.file("cursors")) is None:
        table = await endpoint.attach_master(place.name)
    else:
        table = await endpoint.attach_master(place.name, Backend.SQLite, path=file)
    shelf = Shelf(endpoint, place, table)
    try:
        yield shelf
    finally:
        with shielded("the topics and cursors to be closed", PATIENCE_SECONDS):
            for log in shelf.logs():
                await log.close()
            await table.close()
