"""Lives of endpoints in asyncio: their loop, its end, its delays, and worlds that are wrong."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import threading
import time
import warnings
from contextlib import suppress
from typing import Any

import pytest
import trio

import peermesh
from peermesh import aio, blocking
from peermesh.errors import EndpointClosed, EndpointFailed, SessionExpired
from peermesh.testing.time_limits import limit
from tests.doors import run_in_asyncio
from tests.peermesh.aio.conftest import Run, open_pair, until


class Boom(Exception):
    """An error that nothing expects."""


async def talk() -> None:
    """Open two peers; one says something to the other."""
    async with open_pair() as (left, right):
        subscriber = right.subscribe("/t")
        assert await left.await_subscribed("/t", timeout=limit())
        await left.publish("/t", 1)
        assert (await subscriber.get(limit())).data == 1


def test_a_loop_that_ends_with_endpoints_open_shuts_them_down(run: Run) -> None:
    async def main() -> tuple[Any, peermesh.EndpointId, aio.Endpoint]:
        endpoint = await aio.Endpoint().__aenter__()
        other = await aio.Endpoint().__aenter__()
        assert await endpoint.peer("127.0.0.1", await other.listen(), timeout=limit())
        status = watcher.subscribe_status()
        port = await endpoint.listen()
        assert await asyncio.to_thread(watcher.peer, "127.0.0.1", port, timeout=limit())
        return status, endpoint.node_id(), endpoint

    with blocking.Endpoint() as watcher, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        status, who, endpoint = run(main)
        gc.collect()
        while (event := status.get(limit())).status is not peermesh.StatusCode.PEER_LOST:
            pass
        assert (event.endpoint, event.code) == (who, peermesh.ErrorCode.SHUTTING_DOWN)
    assert not caught

    async def late() -> None:
        with pytest.raises(EndpointClosed):
            await endpoint.publish("/t", 1)

    run_in_asyncio(late)


def test_loops_of_three_threads_and_one_after_the_other(run: Run) -> None:
    done: list[int] = []

    def work(number: int) -> None:
        run(talk)
        done.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(limit(60))
    assert sorted(done) == [0, 1, 2]
    run(talk)
    run(talk)


def test_endpoints_come_and_go_while_others_end(run: Run) -> None:
    async def live() -> None:
        for _ in range(5):
            async with aio.Endpoint() as endpoint:
                await endpoint.listen()

    async def main() -> None:
        await asyncio.gather(*(live() for _ in range(4)))
        last = await aio.Endpoint().__aenter__()
        closing, guest = asyncio.create_task(last.shutdown()), last._guest
        await until(lambda: guest.is_ending)
        await live()
        await closing

    run(main)


def test_an_endpoint_lives_once(run: Run) -> None:
    async def main() -> None:
        endpoint = aio.Endpoint()
        with pytest.raises(EndpointClosed, match="not open"):
            await endpoint.listen()
        with pytest.raises(EndpointClosed, match="not open"):
            await endpoint.publish("/t", 1)
        async with endpoint:
            with pytest.raises(EndpointClosed, match="once"):
                await endpoint.__aenter__()
            assert await endpoint.listen()
        with pytest.raises(EndpointClosed, match="once"):
            await endpoint.__aenter__()

    run(main)


def test_an_opening_that_is_cancelled_leaves_nothing(run: Run) -> None:
    async def main() -> None:
        for _ in range(3):
            task = asyncio.create_task(aio.Endpoint().__aenter__())
            await asyncio.wait((task,), timeout=0)
            task.cancel()
            await asyncio.wait((task,))
            assert task.cancelled()
        assert not trio.lowlevel.in_trio_run()

    run(main)


# Walls.


def test_an_error_of_an_endpoint_ends_it_alone(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise Boom("it has a bug")

    async def main() -> None:
        async with open_pair() as (left, right), aio.Endpoint() as bad:
            store = await bad.attach_master("s")
            events = store.events()
            waiting = asyncio.create_task(events.get())
            subscriber = bad.subscribe("/t")
            reading = asyncio.create_task(subscriber.get())
            await until(lambda: not waiting.done())
            bad._endpoint.loop.start_task(fail)
            for task in (waiting, reading):
                with pytest.raises(EndpointFailed) as raised:
                    await asyncio.wait_for(task, limit())
                assert isinstance(raised.value.__cause__, Boom)
            for call in (bad.listen, lambda: bad.publish("/t", 1), lambda: store.put("k", 1)):
                with pytest.raises(EndpointFailed):
                    await call()
            with pytest.raises(EndpointFailed):
                async for _ in events:
                    pass
            heard = right.subscribe("/innocent")
            assert await left.await_subscribed("/innocent", timeout=limit())
            await left.publish("/innocent", 1)
            assert (await heard.get(limit())).data == 1

    run(main)
    assert "ended by an error of its own" in caplog.text


def test_a_session_that_is_lost_cancels_its_block(run: Run) -> None:
    async def main() -> None:
        async with aio.Endpoint(name="a") as endpoint:
            store = await endpoint.attach_replica("s", voters=["a"])
            assert await store.await_leader(limit()) == "a"
            began = asyncio.Event()

            async def hold() -> None:
                async with store.session(ttl=2) as session:
                    assert session.is_alive
                    began.set()
                    await asyncio.Event().wait()

            holding = asyncio.create_task(hold())
            await began.wait()
            await store.close()
            await asyncio.wait((holding,), timeout=limit())
            assert holding.done(), "nothing has cancelled it"
            with pytest.raises(SessionExpired):
                await holding

    run(main)


def test_a_block_of_a_session_hands_on_its_own_errors_and_cancellations(run: Run) -> None:
    async def main() -> None:
        async with aio.Endpoint(name="a") as endpoint:
            store = await endpoint.attach_replica("s", voters=["a"])
            assert await store.await_leader(limit()) == "a"
            with pytest.raises(Boom):
                async with store.session(ttl=5):
                    raise Boom
            with pytest.raises(TimeoutError):
                async with store.lock("l", ttl=5), asyncio.timeout(0.01):
                    await asyncio.Event().wait()
            async with store.lock("l", ttl=5, timeout=limit()) as lock:
                assert lock.is_alive
            assert not lock.is_alive
            async with store.session(ttl=5) as session:
                await session.close()  # It is not lost by that.

    run(main)


# The host.


def test_a_host_that_stands_still_is_measured_and_warned_of(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> float:
        async with aio.Endpoint() as endpoint:
            assert endpoint.statistics().host_lag is not None
            threading.Event().wait(1.3)  # What no program on a loop should do.
            await until(lambda: endpoint.statistics().host_lag >= 1.0)
            return endpoint.statistics().host_lag

    assert run(main) >= 1.0
    warned = [each for each in caplog.records if "stood still" in each.getMessage()]
    assert [each.levelno for each in warned] == [logging.WARNING]


def test_a_callback_may_be_asynchronous(run: Run) -> None:
    async def main() -> None:
        async with aio.Endpoint() as endpoint, endpoint.attach_master("s") as store:
            told = asyncio.get_running_loop().create_future()

            async def tell(outcome: peermesh.Outcome) -> None:
                await store.put("k", bool(outcome))
                told.set_result(await store.get("k"))

            assert await store.await_idle(tell) is None
            assert await asyncio.wait_for(told, limit()) is True

    run(main)


# Wrong worlds.


async def test_the_api_for_asyncio_in_trio_names_the_right_door() -> None:
    with pytest.raises(RuntimeError, match=r"peermesh\.Endpoint for trio"):
        await aio.Endpoint().__aenter__()


def test_the_api_for_trio_in_asyncio_names_the_right_door(run: Run) -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match=r"peermesh\.aio\.Endpoint for asyncio"):
            await peermesh.Endpoint().__aenter__()
        async with aio.Endpoint():
            with pytest.raises(RuntimeError, match=r"peermesh\.aio\.Endpoint for asyncio"):
                await peermesh.Endpoint().__aenter__()

    run(main)


def test_a_loop_that_has_a_guest_already_is_refused(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        ended = loop.create_future()
        stop = trio.Event()
        trio.lowlevel.start_guest_run(
            stop.wait,
            host_uses_signal_set_wakeup_fd=True,
            run_sync_soon_threadsafe=loop.call_soon_threadsafe,
            done_callback=ended.set_result,
        )
        with pytest.raises(RuntimeError, match="trio runs in this thread already"):
            await aio.Endpoint().__aenter__()
        stop.set()
        await ended
        await talk()

    run(main)


def test_an_endpoint_of_another_loop_is_refused(run: Run) -> None:
    async def other(endpoint: aio.Endpoint) -> None:
        for call in (endpoint.listen, lambda: endpoint.publish("/t", 1)):
            with pytest.raises(RuntimeError, match="another asyncio loop"):
                await call()

    async def main() -> None:
        async with aio.Endpoint() as endpoint:
            await asyncio.to_thread(run_in_asyncio, other, endpoint)

    run(main)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_child_process_is_told_that_the_endpoint_is_its_parents(run: Run) -> None:
    async def main() -> int:
        async with aio.Endpoint() as endpoint:
            subscriber = endpoint.subscribe("/t")
            child = os.fork()
            if child == 0:
                code = 1
                with suppress(BaseException):
                    for call in (
                        endpoint.peers,
                        lambda: endpoint.listen().send(None),
                        lambda: endpoint.publish("/t", 1).send(None),
                        lambda: subscriber.get().send(None),
                    ):
                        with pytest.raises(peermesh.errors.ForkedEndpoint):
                            call()
                    code = 0
                os._exit(code)
            _, status = await asyncio.to_thread(os.waitpid, child, 0)
            assert await endpoint.listen()
            return os.waitstatus_to_exitcode(status)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        assert run(main) == 0


def test_a_blocking_receipt_is_awaited_in_asyncio(run: Run) -> None:
    async def main() -> None:
        with blocking.Endpoint() as endpoint, endpoint.attach_master("s") as store:
            for number in range(20):
                revision = await asyncio.wait_for(store.put("k", number).applied(), limit())
            assert revision == 20
            assert time.monotonic()

    run(main)
