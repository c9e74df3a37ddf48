"""Collecting: what is published on the topics of a log becomes its entries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from endpoint.pubsub.messages import Missed
from wire.errors import StoreError
from wire.logs import logger_of

if TYPE_CHECKING:
    from endpoint.pubsub.subscriber import Subscriber
    from endpoint.replicas.logs.log import Log

logger = logger_of("peermesh.log")


async def collect(log: Log, subscriber: Subscriber) -> None:
    """Append what comes, until the log or the endpoint ends, or the log has another keeper.

    That one collects, if it is told to: what both collect would be there twice. While the disk is
    busy the subscriber fills, and slows the publishers down.
    """
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_end_with, log, nursery.cancel_scope)
        try:
            await _append_all(log, subscriber)
        except StoreError as error:
            logger.warning("log %s collects no longer: %s", log.name(), error)
        nursery.cancel_scope.cancel()


async def _append_all(log: Log, subscriber: Subscriber) -> None:
    with subscriber:
        async for topic, value in subscriber:
            if isinstance(value, Missed):
                logger.warning("log %s: %d messages were missed", log.name(), value.count)
            else:
                await log.append(value, key=topic)


@trio.lowlevel.enable_ki_protection  # As the task that it belongs to.
async def _end_with(log: Log, scope: trio.CancelScope) -> None:
    while log.runner.error is None and log.is_keeper():
        await log.runner.changed.park()
    scope.cancel()
