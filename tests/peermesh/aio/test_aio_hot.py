"""What many messages pass in asyncio: whose turn it is, what waits, and what each end says."""

from __future__ import annotations

import asyncio
from typing import Any, Self

import pytest
import trio

from peermesh import aio
from peermesh.aio.hot import REFILLS, HostTurns, HostWakeup
from peermesh.errors import EndpointClosed, SubscriberOverflow
from peermesh.testing.time_limits import limit
from tests.doors import run_in_asyncio
from tests.peermesh.aio.conftest import Run, turn, until


class Others:
    """A task that counts its turns."""

    def __init__(self) -> None:
        self.turns = 0

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._spin())
        await turn()
        return self

    async def _spin(self) -> None:
        while True:
            self.turns += 1
            await turn()

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.wait((self._task,))


def test_a_wakeup_wakes_all_that_wait_and_no_other() -> None:
    async def main() -> None:
        wakeup = HostWakeup()
        wakeup.wake()
        waiters = [asyncio.create_task(wakeup.wait()) for _ in range(3)]
        await turn()
        waiters[1].cancel()
        await turn()
        await turn()
        assert [each.done() for each in waiters] == [False, True, False]
        assert len(wakeup._waiters) == 2
        wakeup.wake()
        waiters[0].cancel()  # Woken, and then cancelled in the same round.
        await asyncio.wait(waiters, timeout=limit())
        assert [each.cancelled() for each in waiters] == [True, True, False]
        assert wakeup._waiters == []
        later = asyncio.create_task(wakeup.wait())
        await turn()
        await turn()
        assert not later.done(), "what was before does not wake it"
        later.cancel()
        wakeup.wake()  # Its future is cancelled, and still there.
        await asyncio.wait((later,), timeout=limit())
        assert later.cancelled()

    run_in_asyncio(main)


def test_a_publisher_lets_others_run_if_that_is_due() -> None:
    async def main() -> None:
        async with aio.Endpoint() as endpoint, Others() as others:
            turns = HostTurns(endpoint._passage)
            before = others.turns
            await turns.pause(is_due=False)
            assert others.turns == before
            await turns.pause(is_due=True)
            assert others.turns == before + 1
            worlds: list[Any] = []

            async def wait() -> None:
                worlds.append(trio.lowlevel.in_trio_task())

            await turns.wait(wait)
            assert worlds == [True]
        with pytest.raises(EndpointClosed, match="was shut down"):
            await turns.pause(is_due=False)

    run_in_asyncio(main)


def test_a_reader_that_always_finds_messages_lets_others_run() -> None:
    async def main() -> None:
        async with aio.Endpoint() as endpoint, Others() as others:
            subscriber = endpoint.subscribe("/t", local=True)
            for number in range(2 * REFILLS + 1):
                await endpoint.publish("/t", number)
                published = others.turns
                assert (await subscriber.get(None)).data == number
                is_due = number % REFILLS == REFILLS - 1
                assert others.turns - published == is_due, number

    run_in_asyncio(main)


def test_a_get_says_how_long_it_has_waited(run: Run) -> None:
    async def main() -> None:
        async with aio.Endpoint() as endpoint:
            subscriber = endpoint.subscribe("/t", local=True)
            with pytest.raises(TimeoutError, match=r"^no message within 0\.001 s$"):
                await subscriber.get(0.001)
            with pytest.raises(
                TimeoutError, match=r"^no message within 0 s$|^no message within 0\.0 s$"
            ):
                await subscriber.get(0)
            await endpoint.publish("/t", 1)
            assert (await subscriber.get(0)).data == 1, "it was there"
            waiting = asyncio.create_task(subscriber.get(float("inf")))
            await turn()
            await endpoint.publish("/t", 2)
            assert (await asyncio.wait_for(waiting, limit())).data == 2

    run(main)


def test_a_message_that_came_as_the_time_ended_is_given() -> None:
    async def main() -> None:
        async with aio.Endpoint() as endpoint:
            subscriber = endpoint.subscribe("/t", local=True)
            waiting = asyncio.create_task(subscriber.get(0.01))
            await turn()
            loop = asyncio.get_running_loop()
            began = loop.time()
            await endpoint.publish("/t", 1)  # It is woken, and its time is over in the same round.
            while loop.time() < began + 0.02:
                pass
            assert (await asyncio.wait_for(waiting, limit())).data == 1

    run_in_asyncio(main)


def test_what_is_there_is_read_after_the_end_and_then_the_end_is_told(run: Run) -> None:
    async def main() -> None:
        async with aio.Endpoint() as endpoint:
            left = endpoint.subscribe("/t", local=True)
            stays = endpoint.subscribe("/t", local=True)
            waiting = asyncio.create_task(endpoint.subscribe("/u").get())
            await endpoint.publish("/t", 1)
            left.close()
            left.close()
            assert (await left.get()).data == 1
            for _ in range(2):
                with pytest.raises(
                    EndpointClosed, match=r"^the subscriber is closed, and was read"
                ):
                    await asyncio.wait_for(left.get(), limit())
            with pytest.raises(EndpointClosed):
                await left.get(limit())
        assert (await stays.get()).data == 1
        with pytest.raises(EndpointClosed, match="was shut down"):
            await stays.get()
        with pytest.raises(EndpointClosed, match="was shut down"):
            await asyncio.wait_for(waiting, limit())
        assert [each async for each in stays] == []

    run(main)


def test_a_reader_that_waits_is_told_that_its_subscriber_was_closed(run: Run) -> None:
    async def main() -> None:
        async with aio.Endpoint() as endpoint:
            subscriber = endpoint.subscribe("/t")
            waiting = asyncio.create_task(subscriber.get())
            await turn()
            await turn()
            subscriber.close()
            with pytest.raises(EndpointClosed, match="the subscriber is closed"):
                await asyncio.wait_for(waiting, limit())

    run(main)


def test_a_queue_that_overflowed_says_so_and_is_closed(run: Run) -> None:
    async def main() -> None:
        async with aio.Endpoint() as endpoint:
            subscriber = endpoint.subscribe("/t", queue_size=2, overflow="error", local=True)
            for number in range(5):
                await endpoint.publish("/t", number)
            for _ in range(2):
                with pytest.raises(SubscriberOverflow):
                    await subscriber.get(limit())
            assert "closed" in repr(subscriber)

    run(main)


def test_publishers_that_wait_for_a_reader_go_on_when_it_has_read(run: Run) -> None:
    async def main() -> None:
        async with aio.Endpoint() as endpoint:
            subscriber = endpoint.subscribe("/t", queue_size=2, stall_seconds=None, local=True)
            written: list[int] = []

            async def write() -> None:
                for number in range(20):
                    await endpoint.publish("/t", number)
                    written.append(number)

            writer = asyncio.create_task(write())
            await until(lambda: len(written) >= 2)
            await turn()
            assert len(written) < 20
            for number in range(20):
                assert (await subscriber.get(limit())).data == number
            await asyncio.wait_for(writer, limit())

    run(main)


def test_a_wrong_loop_is_told_where_to_go() -> None:
    async def main() -> None:
        async with aio.Endpoint() as endpoint:
            subscriber = endpoint.subscribe("/t", local=True)
            found: list[BaseException] = []

            def elsewhere() -> None:
                async def ask() -> None:
                    for call in (lambda: endpoint.publish("/t", 1), subscriber.get):
                        try:
                            await call()
                        except RuntimeError as error:
                            found.append(error)

                asyncio.run(ask())

            await asyncio.to_thread(elsewhere)
            assert len(found) == 2
            assert all("another asyncio loop" in str(each) for each in found)

    run_in_asyncio(main)
