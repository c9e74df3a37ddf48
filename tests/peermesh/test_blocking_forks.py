"""Forks: the child's own endpoints work, what it has inherited says so, and the parent lives on."""

from __future__ import annotations

import multiprocessing
import os
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio

from peermesh import ClusterSecret, Endpoint, blocking
from peermesh.testing.time_limits import limit
from tests.peermesh.test_blocking_walls import all_handles, complaints
from wire.errors import ForkedEndpoint

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")


def in_child(function: Callable[[], object]) -> str:
    """Run a function in a forked child; give what it says, or the text of its error."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = str(function())
        except BaseException as error:
            said = repr(error)
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    try:
        readable, _, _ = select.select([reading], [], [], limit())
        if not readable:
            os.kill(child, 9)
        return os.read(reading, 65_536).decode() if readable else "the child hangs"
    finally:
        os.close(reading)
        os.waitpid(child, 0)


def talk(port: int, word: str, **settings: object) -> str:
    """Say a word to the endpoint that listens at this port, from an endpoint of this process."""
    with blocking.Endpoint(**settings) as endpoint:
        assert endpoint.peer("127.0.0.1", port, timeout=limit())
        assert endpoint.await_subscribed("/t", timeout=limit())
        endpoint.publish("/t", word)
    return "said"


@pytest.fixture(params=["plain", "TLS"])
def settings(request: pytest.FixtureRequest) -> dict[str, object]:
    """Settings of all endpoints of a test."""
    return {} if request.param == "plain" else {"secret": ClusterSecret.generate().text()}


@pytest.fixture
def parent(settings: dict[str, object]) -> Iterator[blocking.Endpoint]:
    with blocking.Endpoint(**settings) as endpoint:
        yield endpoint


def test_a_child_talks_to_its_parent(parent: blocking.Endpoint, settings) -> None:
    subscriber, port = parent.subscribe("/t"), parent.listen()
    with blocking.Endpoint(**settings) as other:
        assert other.peer("127.0.0.1", port, timeout=limit())
        assert in_child(lambda: talk(port, "from the child", **settings)) == "said"
        assert subscriber.get(limit()).data == "from the child"
        # The child's end did not end the parent's connections.
        assert other.await_subscribed("/t", timeout=limit())
        other.publish("/t", "from the parent")
        assert subscriber.get(limit()).data == "from the parent"


def work(port: int) -> None:
    talk(port, "from a process")


def test_multiprocessing_forks(parent: blocking.Endpoint, settings) -> None:
    if settings:
        pytest.skip("once is enough")
    subscriber, port = parent.subscribe("/t"), parent.listen()
    process = multiprocessing.get_context("fork").Process(target=work, args=(port,))
    process.start()
    assert subscriber.get(limit()).data == "from a process"
    process.join(limit())
    assert process.exitcode == 0


def test_what_a_child_inherits_says_so_at_every_call() -> None:
    with blocking.Endpoint() as endpoint:
        handles = all_handles(endpoint)
        store = handles[4]
        assert isinstance(store, blocking.Store)
        clone = endpoint.attach_clone("without a master", mutation_buffer_interval=3_600)
        receipt = clone.put("k", 1)
        assert not clone.await_idle(0)  # The loop has taken it.

        def ask() -> str:
            found = complaints(handles, (ForkedEndpoint,))
            try:
                receipt.result(limit())
            except ForkedEndpoint:
                pass
            else:
                found.append("a receipt has an outcome")
            for handle in handles:
                if hasattr(handle, "close"):
                    handle.close()
            endpoint.shutdown()
            return "\n".join(found)

        assert in_child(ask) == ""
        assert store.put("k", 1).result(limit())


def test_a_child_has_none_of_its_parents_connections() -> None:
    with blocking.Endpoint() as left, blocking.Endpoint() as right:
        port = left.listen()
        assert right.peer("127.0.0.1", port, timeout=limit())
        hexadecimal = f":{port:04X}"

        def sockets() -> set[str]:
            held = set()
            for number in os.listdir("/proc/self/fd"):
                try:
                    held.add(os.readlink(f"/proc/self/fd/{number}"))
                except OSError:
                    continue
            rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
            ours = {f"socket:[{row[9]}]" for row in rows if hexadecimal in row[1] + row[2]}
            return ours & held

        assert len(sockets()) == 3  # the listener, and both ends
        assert in_child(sockets) == "set()"
        assert len(sockets()) == 3


STORE_IN_A_FILE = """
import os, sys
from pathlib import Path
from peermesh.blocking import Backend, Endpoint

folder = Path(sys.argv[1])
with Endpoint() as endpoint:
    store = endpoint.attach_master("s", Backend.SQLite, path=folder / "store.db")
    store.put("before", 1).result(20)
    child = os.fork()
    if child == 0:
        # It ends as a program does: the interpreter lets go of all objects.
        with Endpoint() as own:
            own.attach_master("s", Backend.SQLite, path=folder / "own.db").put("k", 1).result(20)
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert (folder / "store.db-wal").exists()
    store.put("after", 2).result(20)
with Endpoint() as endpoint:
    store = endpoint.attach_master("s", Backend.SQLite, path=folder / "store.db")
    print(sorted(store.items()))
"""


def test_a_store_in_a_file_stays_the_parents(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", STORE_IN_A_FILE, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[('after', 2), ('before', 1)]\n", "")


def test_a_fork_while_other_threads_are_in_calls_hangs_nothing() -> None:
    with blocking.Endpoint() as left, blocking.Endpoint() as right:
        port = left.listen()
        subscriber = left.subscribe("/t")
        assert right.peer("127.0.0.1", port, timeout=limit())
        assert right.await_subscribed("/t", timeout=limit())
        store = left.attach_master("s")
        is_over = threading.Event()

        def repeat(call: Callable[[], object]) -> Callable[[], None]:
            def run() -> None:
                while not is_over.is_set():
                    call()

            return run

        def open_and_close() -> None:
            blocking.Endpoint().shutdown()

        calls = [
            left.peers,
            open_and_close,
            subscriber.poll,
            lambda: right.publish("/u", bytes(2_000)),
            lambda: store.put("k", 1).result(limit()),
        ]
        threads = [threading.Thread(target=repeat(call)) for call in calls]
        for thread in threads:
            thread.start()

        def try_all() -> str:
            for call in (left.peers, lambda: right.publish("/u", bytes(2_000)), subscriber.get):
                try:
                    call()
                except ForkedEndpoint:
                    continue
                return "no error"
            with blocking.Endpoint() as own:
                return f"own {own.listen() > 0}"

        try:
            assert [in_child(try_all) for _ in range(20)] == ["own True"] * 20
        finally:
            is_over.set()
            for thread in threads:
                thread.join(limit())


def test_a_fork_in_a_callback() -> None:
    said: list[str] = []
    done = threading.Event()

    def ready(_: object) -> None:
        said.append(in_child(lambda: f"own {blocking.Endpoint().listen() > 0}"))
        done.set()

    with blocking.Endpoint() as endpoint:
        endpoint.await_peer(endpoint, ready, 0)
        assert done.wait(limit())
    assert said == ["own True"]


async def test_an_endpoint_of_trio_says_so_in_a_child() -> None:
    async with Endpoint() as endpoint, endpoint.attach_master("s") as store:
        await endpoint.publish("/t", 1)

        def ask() -> str:
            found = []
            for call in (
                lambda: endpoint.publish("/t", 1),
                lambda: endpoint.publish("/other", b"x"),
                lambda: endpoint.peer("127.0.0.1", 1),
                lambda: store.put("k", 1),
                lambda: store.get("k"),
            ):
                try:
                    call().send(None)
                except ForkedEndpoint:
                    found.append("forked")
            return " ".join(found)

        assert in_child(ask) == " ".join(["forked"] * 5)
        with trio.fail_after(limit()):
            assert await (await store.put("k", 1)).applied()


async def test_what_waits_in_trio_says_so_in_a_child() -> None:
    async with Endpoint() as endpoint, endpoint.attach_master("s") as store:
        subscriber, status = endpoint.subscribe("/t"), endpoint.subscribe_status()
        watch, events, log = store.watch(), store.events(), await endpoint.attach_log("l")
        consumer = log.consume()
        status.poll()

        def ask() -> str:
            found = []
            for call in (
                subscriber.get,
                lambda: subscriber.get(1),
                subscriber.get_batch,
                subscriber.__anext__,
                status.get,
                status.__anext__,
                watch.get,
                watch.__anext__,
                events.get,
                events.__anext__,
                consumer.get,
                lambda: endpoint.await_peer(endpoint),
                lambda: endpoint.await_subscribed("/t"),
                store.await_idle,
                log.await_idle,
            ):
                try:
                    call().send(None)
                except ForkedEndpoint:
                    continue
                except BaseException as error:  # It is shown.
                    found.append(f"{call}: {error!r}")
                else:
                    found.append(f"{call}: it waits")
            for close in (store.close, log.close, endpoint.shutdown):
                with pytest.raises(StopIteration):  # Nothing is to be closed here.
                    close().send(None)
            return "\n".join(found)

        assert in_child(ask) == ""
        with trio.fail_after(limit()):
            await endpoint.publish("/t", 1)
            subscriber.close()


async def test_a_follower_of_a_log_leaves_no_other_endpoint_open_in_a_child() -> None:
    async with Endpoint() as left, Endpoint() as right, Endpoint() as other:
        assert await right.peer("127.0.0.1", await left.listen(), timeout=limit())
        async with left.attach_log("events"), right.attach_log_clone("events"):

            def ask() -> str:
                found = []
                for endpoint in (left, right, other):
                    try:
                        endpoint.publish_nowait("/t", 1)
                    except ForkedEndpoint:
                        found.append("forked")
                return " ".join(found)

            assert in_child(ask) == "forked forked forked"


def test_a_descriptor_is_the_parents() -> None:
    with blocking.Endpoint() as endpoint, endpoint.subscribe("/t", local=True) as subscriber:
        descriptor = subscriber.fileno()

        def ask() -> str:
            try:
                os.fstat(descriptor)
            except OSError:
                return "closed"
            return "open"

        assert in_child(ask) == "closed"
        endpoint.publish("/t", 1)
        assert select.select([subscriber], [], [], limit())[0]


IN_TASK = """
import os, sys, trio
from peermesh import Backend, Endpoint

async def main():
    async with Endpoint() as endpoint:
        store = await endpoint.attach_master("s", Backend.SQLite, path=sys.argv[1])
        await (await store.put("k", "v")).applied()
        child = os.fork()
        if child == 0:
            sys.exit()  # and not os._exit: the interpreter ends in all order
        os.waitpid(child, 0)
        print(os.path.exists(f"{sys.argv[1]}-wal"), flush=True)
        os._exit(0)

trio.run(main)
"""
"""A task of trio that forks: the child leaves by way of its blocks, as the interpreter ends."""


def test_the_end_of_a_child_leaves_the_files_of_its_parent_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-c", IN_TASK, str(tmp_path / "s.db")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit())
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr
