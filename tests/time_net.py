"""pytest-timeout as a net below tests that hang: it ends one test, and judges none.

What a test waits for has a limit (``peermesh.testing.time_limits``), at which the test fails in
order and says what did not come true. The net is for a test that waits without one, or turns in
circles. It is far above what any test needs, and as much further as the machine is slow.

It is there while a test is set up, runs and is torn down, and gone while pytest reports: an alarm
that strikes inside of a report ends the whole run, and with it the results of all other tests. A
test in trio is cancelled, and cleans up: an exception out of nowhere inside of trio leaves sockets
and tasks behind, for which the next tests would fail.
"""

from __future__ import annotations

import signal
from collections.abc import Generator

import pytest
import pytest_timeout
import trio

from peermesh.testing.time_limits import limit

CLEANING_SECONDS = 30.0
"""How long a test that was cancelled may take to end on an idle machine, before it is cut off."""

CUT_AT = pytest.StashKey[float]()
"""After how many seconds a test in trio was cancelled, if it was."""


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: pytest_timeout.Settings) -> bool:
    """Hang the net lower on a slow machine, and know how to end a test in trio."""
    settings = settings._replace(timeout=limit(settings.timeout), method="signal")
    pytest_timeout.pytest_timeout_set_timer(item, settings)

    def strike(*_: object) -> None:
        if CUT_AT in item.stash or not trio.lowlevel.in_trio_run():
            pytest_timeout.timeout_sigalrm(item, settings)
        item.stash[CUT_AT] = settings.timeout
        signal.setitimer(signal.ITIMER_REAL, limit(CLEANING_SECONDS))
        trio.lowlevel.current_trio_token().run_sync_soon(_cancel_main_task)

    signal.signal(signal.SIGALRM, strike)
    return True


def _cancel_main_task() -> None:
    root = trio.lowlevel.current_root_task()
    assert root is not None
    root.child_nurseries[-1].cancel_scope.cancel()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test that was cancelled; with "timeout_func_only", the timer runs within this."""
    try:
        result = yield
    except BaseException as error:
        _fail_if_cut(item, error)
        raise
    _fail_if_cut(item, None)
    return result


def _fail_if_cut(item: pytest.Item, error: BaseException | None) -> None:
    if CUT_AT in item.stash:
        text = f"cancelled after {item.stash[CUT_AT]:.0f} s: it waits for what never comes true"
        raise pytest.fail.Exception(text) from error


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """Hold the net below the fixtures of a test."""
    return (yield from _above_the_net(item))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Hold the net below the end of the fixtures of a test."""
    return (yield from _above_the_net(item))


def _above_the_net(item: pytest.Item) -> Generator[None, object, object]:
    marker = item.get_closest_marker("timeout")
    of_all = item.config.getoption("timeout") or item.config.getini("timeout") or 0
    seconds = float(marker.args[0] if marker is not None and marker.args else of_all)
    if not seconds:
        return (yield)
    settings = pytest_timeout.Settings(
        seconds, "signal", func_only=True, disable_debugger_detection=False
    )
    item.ihook.pytest_timeout_set_timer(item=item, settings=settings)
    try:
        return (yield)
    finally:
        item.ihook.pytest_timeout_cancel_timer(item=item)
