"""Where the broker keeps everything: a log for each topic, and a store of cursors and marks.

The keeper's files are the broker's memory. A follower on another endpoint serves the same topics:
it asks the keeper, and reads from copies of its own where it has a folder for them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final, Unpack

from endpoint.endpoint import Endpoint
from endpoint.replicas.attaching import Backend
from endpoint.replicas.logs.log_receipts import AppendReceipt
from endpoint.replicas.logs.part import LogPart
from endpoint.replicas.options import log_quota, take_quota
from endpoint.replicas.stores.store import ReplicaStore
from endpoint.shielding import shielded
from handshake.principals import UNPROVEN, Principal
from handshake.private_files import make_directory
from peermesh.brokers.qos2.catalogue import (
    FLOOR,
    Catalogue,
    cursor_key,
    mark_key,
    topic_key,
)
from peermesh.brokers.qos2.entries import Letter, letter_value
from peermesh.brokers.qos2.errors import BrokerError, BrokerUnavailable, Refused, TakenOver
from peermesh.brokers.qos2.limits import BURIAL_TOPIC, QUOTA_EXCEEDED, TOPIC_DELETED
from peermesh.brokers.qos2.names import Names, session_key
from peermesh.brokers.qos2.open_topics import OpenTopic, OpenTopics
from peermesh.brokers.qos2.place import Place, Table, TopicLog
from peermesh.brokers.qos2.steps import Delivery, Store
from stores.batch import Batch
from stores.quota import QuotaLimits, QuotaPool
from wire.errors import GuardFailed, MeshError, QuotaExceeded, SequenceUnknown
from wire.values import Value

PATIENCE_SECONDS: Final = 10.0
"""How long a follower waits for its keeper."""


def _unavailable(error: MeshError) -> BrokerUnavailable:
    return BrokerUnavailable(str(error))


class Shelf:
    """All topics, cursors and dead letters. Use ``open_shelf``."""

    def __init__(self, endpoint: Endpoint, place: Place, table: Table) -> None:
        """Begin without topics."""
        self.place = place
        self.table = table
        self.catalogue = Catalogue(table, self.level)
        self.names = Names(table)
        self._endpoint = endpoint
        quota = take_quota(dict(place.quota), log_quota(place.backend))
        self._pool = QuotaPool(f"broker {place.name}", quota)
        self.open_topics = OpenTopics(
            place, self.catalogue, self._pool, self._attach, lambda: self.decides
        )

    @property
    def decides(self) -> bool:
        """True if this broker ends topics: the keeper does, and of several voters the leader."""
        if isinstance(self.table, ReplicaStore):
            return not self.place.is_follower and self.table.is_leader()
        return not self.place.is_follower

    async def level(self) -> None:
        """Wait until all is seen here that other brokers had answers for; raises ``MeshError``."""
        if isinstance(self.table, ReplicaStore):
            await self.table.read("linear").exists(FLOOR)
        elif self.place.is_follower:
            idle = await self.table.await_idle(timeout=PATIENCE_SECONDS)
            if not idle:
                raise BrokerUnavailable(str(idle))

    def topics(self) -> list[str]:
        """Name the topics that are open here."""
        return self.open_topics.names()

    async def follow(self) -> None:
        """Do what the catalogue says about topics, for ever."""
        if self.place.voters:
            await self.log(BURIAL_TOPIC)  # once all voters are there
        await self.open_topics.follow(self.table)

    def usage(self) -> dict[str, int]:
        """Count the messages of all topics but dead letters, their bytes, and what these may be."""
        if self.place.voters:
            found = [each.log.statistics() for each in self.open_topics.all_but_burials()]
            entries, size = sum(each.entries for each in found), sum(each.bytes for each in found)
            return {"entries": entries, "bytes": size}
        pool, quota = self._pool, self._pool.meter.quota
        limits = {"max_entries": quota.max_entries, "max_bytes": quota.max_bytes}
        set_limits = {name: limit for name, limit in limits.items() if limit is not None}
        return {"entries": pool.entries, "bytes": pool.size} | set_limits

    def set_quota(self, **limits: Unpack[QuotaLimits]) -> None:
        """Change ``max_entries`` or ``max_bytes``, or both, until the broker ends."""
        self._pool.replace(replace(self._pool.meter.quota, **limits))

    async def log(self, topic: str, principal: Principal = UNPROVEN) -> TopicLog:
        """Give the log of a topic, as ``open`` does."""
        return (await self.open(topic, principal)).log

    async def open(self, topic: str, principal: Principal = UNPROVEN) -> OpenTopic:
        """Give a topic; make it for a principal if there is none.

        Raises ``Refused`` and ``BrokerUnavailable``.
        """
        try:
            return await self.open_topics.get(topic, principal)
        except BrokerError:
            raise
        except MeshError as error:
            raise _unavailable(error) from error

    async def _attach(self, topic: str, base: int) -> TopicLog:
        name, file = self.place.log_name(topic, base), self.place.log_file(topic, base)
        backend = self.place.backend
        options: dict[str, Any] = {} if file is None else {"path": file}
        retention: Mapping[str, Any]
        retention = {} if topic == BURIAL_TOPIC else self.place.retention
        if isinstance(self.table, ReplicaStore):
            return await self._attach_replica(name, options, retention)
        if not self.place.is_follower:
            log = await self._endpoint.attach_log(name, (), 1, backend, **options, **retention)
            assert isinstance(log.part, LogPart), "a keeper has one"
            if topic != BURIAL_TOPIC:  # Consumers let go of what they cannot deal with.
                log.part.share_quota(self._pool)
            return log
        if file is None:
            return await self._endpoint.attach_log_proxy(name, patience=PATIENCE_SECONDS)
        return await self._endpoint.attach_log_clone(
            name, backend, patience=PATIENCE_SECONDS, path=file
        )

    async def _attach_replica(
        self, name: str, options: dict[str, Any], retention: Mapping[str, Any]
    ) -> TopicLog:
        if self.place.is_follower and not options:
            return await self._endpoint.attach_log_proxy(name, patience=PATIENCE_SECONDS)
        replica = await self._endpoint.attach_log_replica(
            name,
            voters=self.place.voters,
            backend=self.place.backend,
            patience=PATIENCE_SECONDS,
            **options,
        )
        try:
            await replica.await_leader(PATIENCE_SECONDS)
            if retention and not self.place.is_follower:
                await replica.set_retention(**retention)
        except BaseException:
            with shielded("a topic's log to be closed", PATIENCE_SECONDS):
                await replica.close()
            raise
        return replica

    # Messages.

    async def store(self, step: Store, principal: Principal = UNPROVEN) -> bool:
        """Make a message durable on all its topics; tell whether it was there already.

        The ids of one name count for one ``principal``: no other one's are taken for repetitions.
        Raises ``Refused`` for an id that is older than what is remembered, and at the quota: some
        of the topics may have it then, and know it again.
        """
        producer = None if step.publisher is None else _producer(step.publisher, principal)
        try:
            logs = [await self.log(topic, principal) for topic in step.topics]
            receipts: list[AppendReceipt] = [
                await log.append(step.payload, producer=producer, sequence=step.id) for log in logs
            ]
            for receipt in receipts:
                await receipt.applied()
        except SequenceUnknown as error:
            raise Refused("ID TOO OLD") from error
        except QuotaExceeded as error:
            raise Refused(QUOTA_EXCEEDED) from error
        except BrokerError:
            raise
        except MeshError as error:
            raise _unavailable(error) from error
        return all(receipt.is_repeated() for receipt in receipts)

    # Consumers.

    async def owns(self, consumer: str, principal: Principal) -> bool:
        """Tell whether a consumer's name is its own; a name without an owner gets one.

        Raises ``Refused`` where there are too many names.
        """
        try:
            await self.names.make(consumer, principal.name)
            await self.names.give(consumer, principal)
            await self.level()
            owner = await self.names.owner(consumer)
        except BrokerError:
            raise
        except MeshError as error:
            raise _unavailable(error) from error
        return owner == principal.name

    async def enter(self, consumer: str, token: bytes) -> None:
        """Make this session the only one of a consumer, on any broker."""
        await self._do(Batch().put(session_key(consumer), token))
        try:
            await self.level()  # What earlier sessions committed has to be seen here.
        except BrokerError:
            raise
        except MeshError as error:
            raise _unavailable(error) from error

    async def position(self, consumer: str, topic: str, base: int) -> int:
        """Give the offset, counted from ``base``, of the first message not dealt with."""
        found = await self.table.get(cursor_key(consumer, topic), base)
        return max(base, found) if isinstance(found, int) else base

    async def commit(self, consumer: str, token: bytes, delivery: Delivery) -> None:
        """Make durable that a consumer has a message; raises ``TakenOver``, and ``Refused``."""
        topic = delivery.topic
        await self._do_as(consumer, token, topic, self._moved(consumer, topic, delivery.offset))

    def _moved(self, consumer: str, topic: str, offset: int) -> Batch:
        return Batch().put(cursor_key(consumer, topic), offset + 1)

    async def _do_as(self, consumer: str, token: bytes, topic: str, batch: Batch) -> None:
        """Do something as a consumer's session; raises ``TakenOver``, and ``Refused``."""
        found = self.open_topics.find(topic)
        if found is None:
            raise Refused(TOPIC_DELETED)
        batch.if_value(session_key(consumer), token)
        batch.if_value(topic_key(topic), found.record.value())
        await self._do(batch, consumer, token)

    async def bury(
        self, consumer: str, token: bytes, delivery: Delivery, why: tuple[str, int]
    ) -> None:
        """Make a message a dead letter, once; raises ``TakenOver``, and ``Refused``.

        First a mark: from then on it is a dead letter, and nobody delivers it any more. What
        interrupts the rest, the next session of the consumer makes good.
        """
        topic, offset, (reason, attempts) = delivery.topic, delivery.offset, why
        mark: Value = (offset, reason, attempts, delivery.payload)
        marking = Batch().put(mark_key(consumer, topic), mark)
        await self._do_as(consumer, token, topic, marking)
        await self._finish_burial(consumer, token, topic, mark)

    async def resume_burial(self, consumer: str, token: bytes, topic: str) -> bool:
        """Finish what a crash interrupted; tell whether there was something."""
        mark = await self.table.get(mark_key(consumer, topic))
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
        moved = self._moved(consumer, topic, offset).erase(mark_key(consumer, topic))
        await self._do_as(consumer, token, topic, moved)

    async def _do(self, batch: Batch, consumer: str = "", token: bytes = b"") -> None:
        try:
            receipt = await self.table.batch(batch)
            await receipt.applied()
        except GuardFailed as error:
            raise await self._why(consumer, token) from error
        except MeshError as error:
            raise _unavailable(error) from error

    async def _why(self, consumer: str, token: bytes) -> BrokerError:
        """Say why a session could not do something: another took over, or the topic is gone."""
        try:
            await self.level()
        except MeshError as error:
            return _unavailable(error)
        if await self.table.get(session_key(consumer)) == token:
            return Refused(TOPIC_DELETED)
        return TakenOver("TAKEN OVER")


def _producer(publisher: str, principal: Principal) -> str:
    whose = "" if principal.name is None else f" {principal.name}"
    return f"publisher {publisher}{whose}"  # no publisher's name has a space


@asynccontextmanager
async def open_shelf(endpoint: Endpoint, place: Place) -> AsyncIterator[Shelf]:
    """Open what is kept there; raises ``MeshError``."""
    if place.folder is not None:
        make_directory(place.folder)
    table: Table
    file = place.file("cursors")
    if place.voters or (place.is_follower and place.name in endpoint.known_groups()):
        is_kept = place.voters and file is not None
        options: dict[str, Any] = {"backend": place.backend, "path": file} if is_kept else {}
        table = await endpoint.attach_replica(
            place.name, voters=place.voters, patience=PATIENCE_SECONDS, **options
        )
    elif place.is_follower:
        table = await endpoint.attach_clone(place.name)
    elif file is None:
        table = await endpoint.attach_master(place.name)
    else:
        table = await endpoint.attach_master(place.name, Backend.SQLite, path=file)
    shelf = Shelf(endpoint, place, table)
    try:
        if not place.is_follower and not place.voters:
            await shelf.log(BURIAL_TOPIC)  # from the start: a dead letter always has a place
        yield shelf
    finally:
        with shielded("the topics and cursors to be closed", PATIENCE_SECONDS):
            await shelf.open_topics.close()
            await table.close()
