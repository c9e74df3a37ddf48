"""Handles and receipts belong to one endpoint of one process: none is copied or pickled."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest
import trio

from peermesh import Endpoint, blocking
from peermesh.testing.time_limits import limit

WAYS = [copy.copy, copy.deepcopy, pickle.dumps]


def refused(handles: list[object], way: Callable[[object], object]) -> None:
    for handle in handles:
        with pytest.raises(TypeError) as told:
            way(handle)
        assert str(told.value).startswith(f"{type(handle).__name__} belongs to an endpoint")


@pytest.mark.parametrize("way", WAYS)
async def test_no_handle_of_trio_is_copied(way: Callable[[object], object]) -> None:
    with trio.fail_after(limit()):
        async with Endpoint() as endpoint:
            store = await endpoint.attach_master("s")
            log = await endpoint.attach_log("l")
            handles = [
                endpoint,
                endpoint.publisher("/t"),
                endpoint.subscribe("/t"),
                endpoint.subscribe_status(),
                store,
                store.not_before(0),
                store.watch(),
                store.events(),
                await store.put("k", 1),
                log,
                log.consume(),
                await log.append(1),
            ]
            refused(handles, way)


@pytest.mark.parametrize("way", WAYS)
def test_no_handle_for_threads_is_copied(way: Callable[[object], object]) -> None:
    with blocking.Endpoint() as endpoint:
        store = endpoint.attach_master("s")
        log = endpoint.attach_log("l")
        handles = [
            endpoint,
            endpoint.publisher("/t"),
            endpoint.subscribe("/t"),
            endpoint.subscribe_status(),
            store,
            store.not_before(0),
            store.watch(),
            store.events(),
            store.put("k", 1),
            log,
            log.consume(),
            log.append(1),
        ]
        refused(handles, way)


@pytest.mark.parametrize("way", WAYS)
def test_a_receipt_says_what_to_hand_on(way: Callable[[object], object]) -> None:
    with blocking.Endpoint() as endpoint:
        receipt = endpoint.attach_master("s").put("k", 1)
        with pytest.raises(TypeError, match="hand on the revision that it gives"):
            way(receipt)
