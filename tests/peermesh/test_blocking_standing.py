"""What stands in the portal's loop by itself: how it is entered and left, whatever goes wrong."""

from __future__ import annotations

import signal
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio

from peermesh import blocking
from peermesh.blocking.standing import PortalPassage, Standing, standing
from peermesh.errors import EndpointClosed, StaleData
from peermesh.testing.time_limits import limit


class Service:
    """Something of trio's, and what became of it."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.is_opening = threading.Event()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Service]:
        self.told.append("entered")
        try:
            yield self
        finally:
            self.told.append("left")

    @asynccontextmanager
    async def never(self) -> AsyncIterator[Service]:
        self.is_opening.set()
        try:
            await trio.sleep_forever()
        finally:
            self.told.append("cancelled")
        yield self

    @asynccontextmanager
    async def broken(self, *, is_opened: bool) -> AsyncIterator[Service]:
        if is_opened:
            yield self
        raise ArithmeticError("of the service")

    async def double(self, number: int) -> int:
        await trio.lowlevel.checkpoint()
        return 2 * number


class Stand(Standing):
    def __init__(self, service: Service) -> None:
        self._passage, self._service = self._stand(service.opened())

    def double(self, number: int) -> int:
        return self._passage.call(self._service.double, number)


def loops() -> int:
    return sum(each.name == "peermesh" for each in threading.enumerate())


@pytest.fixture(autouse=True)
def nothing_left():
    yield
    assert loops() == 0


def test_what_stands_is_entered_at_once_and_left_once():
    service = Service()
    with Stand(service) as stand:
        assert service.told == ["entered"]
        assert stand.double(2) == 4
        stand.close()
        assert service.told == ["entered", "left"]
    stand.close()
    assert service.told == ["entered", "left"]
    with pytest.raises(EndpointClosed, match="it is closed: make a new one"):
        stand.double(2)


@pytest.mark.parametrize("closed_error", [EndpointClosed, StaleData])
def test_closing_what_is_closed_does_nothing_and_calls_say_so(closed_error):
    passage = PortalPassage(closed_error)
    done: list[str] = []

    async def end() -> None:
        done.append("end")

    passage.close(lambda: done.append("close"))
    passage.end(end)
    passage.leave()
    passage.leave()
    passage.close(lambda: done.append("again"))
    passage.end(end)
    assert done == ["close", "end"]
    with pytest.raises(closed_error, match="it is closed"):
        passage.call_sync(lambda: 1)


@pytest.mark.parametrize("is_opened", [False, True])
def test_an_error_over_there_is_raised_here_and_leaves_nothing(is_opened):
    entered = []
    with pytest.raises(ArithmeticError, match="of the service"), standing() as passage:
        with passage.hosted(Service().broken(is_opened=is_opened)):
            entered.append(loops())
    assert entered == [1] * is_opened


def test_an_error_of_the_block_is_its_own():
    service = Service()
    with pytest.raises(ZeroDivisionError), standing() as passage, passage.hosted(service.opened()):
        raise ZeroDivisionError
    assert service.told == ["entered", "left"]


def test_ctrl_c_ends_an_opening_that_would_last_for_ever():
    service = Service()
    main = threading.get_ident()

    def interrupt() -> None:
        assert service.is_opening.wait(limit())
        signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt), standing() as passage:
        with passage.hosted(service.never()):
            raise AssertionError("it never opens")
    thread.join()
    assert service.told == ["cancelled"]


@pytest.mark.parametrize(("is_sent", "told"), [(False, []), (True, ["cancelled"])])
def test_ctrl_c_while_the_task_over_there_starts_leaves_nothing(monkeypatch, is_sent, told):
    service = Service()

    def interrupted(self: PortalPassage, function: Callable[[], None]) -> None:
        if is_sent:
            self._portal.call_sync(function)
        raise KeyboardInterrupt

    monkeypatch.setattr(PortalPassage, "call_sync", interrupted)
    with pytest.raises(KeyboardInterrupt), standing() as passage:
        with passage.hosted(service.never()):
            raise AssertionError("it never opens")
    assert service.told == told


def test_an_endpoint_that_ends_meanwhile_ends_what_is_opening():
    service = Service()
    with blocking.Endpoint() as endpoint:
        passage, _ = endpoint.inside()

        def end() -> None:
            assert service.is_opening.wait(limit())
            endpoint.shutdown(0)

        thread = threading.Thread(target=end)
        thread.start()
        with pytest.raises(EndpointClosed), passage.hosted(service.never()):
            raise AssertionError("it never opens")
        thread.join()
    assert service.told == ["cancelled"]
