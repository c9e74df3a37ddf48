"""The plugin, in projects of its users: each test here runs pytest in a directory of its own."""

from __future__ import annotations

import importlib.util
import re

import pytest

ASYNC = """
import pytest
from peermesh.testing.faults import Partition
{mark}
async def test_ring(cluster):
    ring = await cluster(3, "ring")
    assert await ring["a"].peers() == ["b", "c"]
{mark}
async def test_store(master_with_clones):
    master, (one, two) = await master_with_clones(2)
    await (await one.put("k", 1)).applied()
    assert await master.await_idle()
    assert await two.get("k") == 1
"""


@pytest.mark.parametrize(
    ("mark", "ini"), [("@pytest.mark.trio", ""), ("", "trio_mode = true")], ids=["marked", "mode"]
)
def test_async_fixtures_work_with_and_without_trio_mode(user_pytest, mark, ini):
    assert "2 passed" in user_pytest(ASYNC.format(mark=mark), ini=ini)


def test_plain_tests_have_the_same_clusters(user_pytest):
    text = """
def test_plain(blocking_cluster):
    star = blocking_cluster(3, "star")
    a, b, c = star
    with b.subscribe("/x") as messages:
        assert star.await_converged()
        c.publish("/x", {"k": 1}, to=b)
        assert messages.get(timeout=600) == ("/x", {"k": 1})
    store = a.attach_master("s")
    b.attach_clone("s").put("k", 1).applied()
    assert store.get("k") == 1
    star.partition({"a"}, {"b", "c"})
    star.heal()
    c.restart()
    assert star.await_converged() and star["c"].peers() == ["a"]
"""
    assert "1 passed" in user_pytest(text)


def test_a_broker_of_modules_is_there_and_fails_the_test_that_a_module_fails(user_pytest):
    text = """
from peermesh.brokers.modules import Message

class Echo:
    def __init__(self):
        self.heard = []
    def receive(self, message):
        self.heard.append(message.content.decode("ascii"))

def _send(broker, content):
    echo = Echo()
    source, sink = broker.add_module(Echo(), "source"), broker.add_module(echo, "sink")
    broker.add_link(source, sink)
    broker.publish(source, Message(content))
    broker.release()
    return echo.heard

def test_good(module_broker):
    assert _send(module_broker, b"x") == ["x"]

def test_bad(module_broker):
    _send(module_broker, b"\\xff")
"""
    found = user_pytest(text)
    assert "2 passed, 1 error" in found
    assert "ModuleFailed: module sink: receive() raised" in found
    assert "UnicodeDecodeError" in found


def test_brokers_are_there_for_a_test_and_gone_with_it(user_pytest):
    text = """
import socket
import pytest
from peermesh.brokers import edge, qos2
from peermesh.brokers.edge import blocking as blocking_edge
from peermesh.brokers.qos2 import blocking as blocking_qos2

PORTS = []

@pytest.mark.trio
async def test_edge(edge_broker):
    registry = edge_broker.registry
    async with edge.Subscriber(registry) as subscriber, edge.Publisher(registry) as publisher:
        await subscriber.subscribe("greetings")
        await publisher.send("greetings", "hello")
        assert (await subscriber.get())[1] == "hello"

def test_plain_edge(blocking_edge_broker):
    where = blocking_edge_broker.registry
    with blocking_edge.Subscriber(where) as subscriber, blocking_edge.Publisher(where) as publisher:
        subscriber.subscribe("greetings")
        publisher.send("greetings", "hello")
        assert subscriber.get()[1] == "hello"

@pytest.mark.trio
async def test_qos2(qos2_broker, tmp_path):
    PORTS.append(qos2_broker.publisher_port)
    async with qos2.Publisher("till", qos2_broker.publisher_port) as publisher:
        await publisher.publish(1, "orders", b"tea")
    assert (tmp_path / "qos2").is_dir()

def test_plain_qos2(blocking_qos2_broker):
    PORTS.append(blocking_qos2_broker.publisher_port)
    with blocking_qos2.Publisher("till", blocking_qos2_broker.publisher_port) as publisher:
        publisher.publish(1, "orders", b"tea")

def test_they_are_gone():
    assert len(PORTS) == 2
    for port in PORTS:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))

def test_leaving(blocking_qos2_broker):
    PORTS.append(socket.socket())
"""
    found = user_pytest(text)
    assert "6 passed, 1 error" in found
    assert "LeakError" in found


FAILING = """
import pytest
@pytest.mark.trio
async def test_async(cluster):
    line = await cluster(2)
    await line.partition({"a"}, {"b"})
    await line["b"].attach_clone("orders")
    assert await line.await_converged(timeout=0.1)

def test_plain(blocking_cluster):
    blocking_cluster(["left", "right"])
    assert not "reached"
"""


def test_a_failure_shows_its_cluster_in_a_section_of_its_own(user_pytest, tmp_path):
    text = user_pytest(FAILING, "--peermesh-timeline=pages")
    first, _, second = text.partition("test_plain")
    for shown in (first, second):
        assert "-- peermesh cluster --" in shown
        assert "who knows whom" in shown
    assert re.search(
        r"at b: store orders is not idle after [\d.]+ s: no master and no group", first
    )
    assert "right dials left" in second
    pages = sorted(path.name for path in (tmp_path / "pages").iterdir())
    assert pages == ["test_it.py-test_async-loopback.html", "test_it.py-test_plain-loopback.html"]


def test_a_test_that_hangs_and_is_stopped_shows_its_cluster_too(user_pytest):
    pytest.importorskip("pytest_timeout")
    text = user_pytest(
        """
import signal
import pytest, trio
@pytest.mark.trio
@pytest.mark.timeout(1_000)
async def test_hangs(cluster):
    await cluster(2)
    signal.raise_signal(signal.SIGALRM)  # as pytest-timeout does in the end
    await trio.sleep_forever()
"""
    )
    assert re.search(r"b  running, [\d.:]+, peers with a", text)


def test_worlds_are_chosen_by_markers_and_by_an_option(user_pytest):
    text = """
import pytest
def test_any(blocking_cluster, world):
    blocking_cluster(1)
@pytest.mark.worlds("process")
def test_process(blocking_cluster):
    blocking_cluster(1)
@pytest.mark.worlds("loopback", "process")
def test_both(world): ...
"""
    assert sorted(re.findall(r"(\w+\[\w+\]) PASSED", user_pytest(text, "-v"))) == [
        "test_any[loopback]",
        "test_both[loopback]",
        "test_both[process]",
        "test_process[process]",
    ]
    both = user_pytest(text, "-v", "--peermesh-world=loopback,process")
    assert "test_any[loopback] PASSED" in both
    assert "test_any[process] PASSED" in both
    assert "test_process[process] PASSED" in both
    assert "there is no 'moon'" in user_pytest(text, "--peermesh-world=moon")


def test_what_a_world_cannot_do_skips_the_test_with_the_reason(user_pytest):
    text = """
import pytest
@pytest.mark.trio
async def test_async(cluster):
    (a,) = await cluster(1)
    await a.pause()
def test_plain(blocking_cluster):
    blocking_cluster(1)["a"].skew_clock(1.0)
@pytest.mark.worlds("netns")
def test_world(world): ...
"""
    found = user_pytest(text, "-rs", "-k", "not world")
    assert "2 skipped" in found
    assert "loopback cannot do pause: its nodes share one process" in found


def test_what_is_left_behind_fails_the_test_and_is_named(user_pytest):
    text = """
import pytest, socket
kept = []
@pytest.mark.trio
async def test_async(cluster):
    await cluster(1)
    kept.append(socket.create_server(("127.0.0.1", 0)))
def test_plain(blocking_cluster):
    blocking_cluster(1)
    kept.append(open("left.txt", "w"))
@pytest.mark.leaks_allowed
def test_allowed(blocking_cluster):
    kept.append(open("left.txt", "w"))
"""
    found = user_pytest(text)
    assert re.search(r"LeakError: left behind:\s+descriptor \d+: socket at 127.0.0.1:", found)
    assert re.search(r"descriptor \d+: .*left.txt", found)
    assert "1 failed, 2 passed, 1 error" in found


@pytest.mark.skipif(importlib.util.find_spec("xdist") is None, reason="needs pytest-xdist")
def test_workers_of_xdist_have_clusters_of_their_own(user_pytest):
    passed = user_pytest(ASYNC.format(mark="@pytest.mark.trio"), "-n", "2")
    assert "2 passed" in passed
    failed = user_pytest(FAILING, "-n", "2", "--peermesh-timeline=pages")
    assert failed.count("-- peermesh cluster --") == 2


def test_who_does_not_use_it_imports_nothing_of_the_mesh(user_pytest):
    text = """
import sys
def test_imports():
    loaded = {name.partition(".")[0] for name in sys.modules}
    assert sorted(loaded & {"trio", "endpoint", "stores", "channels", "wire", "cbor2"}) == []
"""
    # Without other plugins: pytest-trio and Hypothesis import trio themselves.
    assert "1 passed" in user_pytest(
        text, "-p", "no:trio", "-p", "no:hypothesispytest", "-p", "no:anyio"
    )


def test_the_options_explain_themselves(user_pytest):
    text = user_pytest("", "--help")
    assert "--peermesh-world=NAMES" in text
    assert "sim, loopback, process, netns" in " ".join(text.split())
    assert "@pytest.mark.worlds(*names)" in user_pytest("", "--markers")
