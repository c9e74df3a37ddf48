"""The net below tests that hang: each run of pytest here has some that do, and others beside."""

from __future__ import annotations

import re

CONFTEST = """
import pytest, threading
from peermesh.testing.time_limits import limit
from tests import time_net

def pytest_configure(config):
    config.pluginmanager.register(time_net)

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if item.name == "test_whose_report_is_slow":
        threading.Event().wait(limit(0.2))
    return report
"""

HANGING = """
import gc, threading
from functools import partial
import pytest, trio

soon = pytest.mark.timeout(0.1)

async def keep(stream):
    async with stream:
        await trio.sleep_forever()

@soon
async def test_in_trio():
    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, keep, 0, host="127.0.0.1"))
        port = listener.socket.getsockname()[1]
        async with await trio.open_tcp_stream("127.0.0.1", port):
            await trio.sleep_forever()

def test_after_trio():
    gc.collect()  # what was left open is told of now, as an error

@soon
async def test_in_circles():
    while True:
        await trio.lowlevel.checkpoint()

def test_after_circles():
    gc.collect()

@soon
def test_in_a_thread():
    threading.Event().wait()

@pytest.fixture
def beginning():
    threading.Event().wait()

@pytest.fixture
def ending():
    yield
    threading.Event().wait()

@soon
def test_before_it_begins(beginning): ...
@soon
def test_after_it_ended(ending): ...
@soon
def test_whose_report_is_slow(): ...
def test_at_last(): ...
"""


def test_a_test_that_hangs_ends_alone(pytester):
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(HANGING)
    pytester.makeini(
        "[pytest]\nfilterwarnings = error\ntrio_mode = true\n"
        "timeout = 300\ntimeout_func_only = true"
    )
    found = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-rfE", "-n", "1")
    found.assert_outcomes(passed=5, failed=3, errors=2)
    lines = [line for line in found.outlines if line.startswith(("FAILED ", "ERROR "))]
    assert len(re.findall(r"^E +Failed: cancelled after", found.stdout.str(), re.M)) == 2
    assert {line.split("::")[1].split()[0] for line in lines} == {
        "test_in_trio",
        "test_in_circles",
        "test_in_a_thread",
        "test_before_it_begins",
        "test_after_it_ended",
    }
