"""Gateways at the replicas of a group: any serves, and the leader may be killed."""

from __future__ import annotations

import http.client
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from operator import methodcaller
from pathlib import Path
from threading import Event, Thread
from typing import TypeVar

import pytest

from peermesh import blocking
from peermesh.gateways.webhdfs.limits import CHUNK_SIZE
from peermesh.testing.time_limits import limit
from peermesh.testing.webhdfs import RemoteException, WebHDFSClient
from tests.peermesh.gateways.webhdfs.processes import NAMES, Gateway, leader_of, three_gateways

T = TypeVar("T")


@pytest.fixture
def replicas() -> Iterator[dict[str, blocking.ReplicaStore]]:
    """Three replicas that vote, and a learner."""
    with ExitStack() as stack:
        endpoints = {n: stack.enter_context(blocking.Endpoint(name=n)) for n in (*NAMES, "d")}
        ports: list[int] = []
        for endpoint in endpoints.values():
            for port in ports:
                endpoint.peer("127.0.0.1", port)
            ports.append(endpoint.listen())
        found = {n: e.attach_replica("files", voters=NAMES) for n, e in endpoints.items()}
        for store in found.values():
            store.await_leader(timeout=limit())
        yield found


@pytest.fixture
def clients(replicas) -> Iterator[dict[str, WebHDFSClient]]:
    """A client of a gateway at each of them."""
    with ExitStack() as stack:
        found = {}
        for name, store in replicas.items():
            gateway = stack.enter_context(blocking.serve_webhdfs(store))
            found[name] = stack.enter_context(WebHDFSClient(gateway.host, gateway.port))
        yield found


def test_a_client_may_use_any_gateway_of_a_group(clients) -> None:
    for number, (writer, reader) in enumerate(zip("abcd", "bcda", strict=True)):
        content = bytes([number]) * (3 * CHUNK_SIZE)
        clients[writer].create(f"/d/.{number}", content, overwrite=False)
        assert clients[reader].rename(f"/d/.{number}", f"/d/{number}", "NONE")
        assert clients[writer].names("/d") == [str(each) for each in range(number + 1)]
        assert clients[reader].open(f"/d/{number}") == content


def test_of_many_that_rename_to_one_name_one_succeeds(clients) -> None:
    for name, client in clients.items():
        client.create(f"/.{name}", name.encode(), overwrite=False)
    refused: list[str] = []
    done: list[str] = []

    def rename(name: str, client: WebHDFSClient) -> None:
        try:
            client.rename(f"/.{name}", "/one", "NONE")
        except RemoteException as error:
            refused.append(error.name)
        else:
            done.append(name)

    threads = [Thread(target=rename, args=each) for each in clients.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(limit())
    (winner,) = done
    assert refused == ["FileAlreadyExistsException"] * 3
    assert clients["a"].open("/one") == winner.encode()


def test_gateways_go_on_without_a_leader_that_closed(replicas, clients) -> None:
    clients["d"].create("/before", b"some", overwrite=False)
    leader = next(name for name, store in replicas.items() if store.is_leader())
    replicas[leader].close()
    heir = next(name for name in NAMES if name != leader)
    clients[heir].create("/after", b"more", overwrite=False)
    assert clients["d"].names("/") == ["after", "before"]
    with pytest.raises(RemoteException) as refused:
        clients[leader].names("/")
    assert refused.value.name == "StandbyException"


@pytest.fixture
def gateways(tmp_path: Path) -> Iterator[dict[str, Gateway]]:
    """Three of them, whose replicas are on disk."""
    with three_gateways(tmp_path) as found:
        yield found


def anywhere(gateways: dict[str, Gateway], what: Callable[[WebHDFSClient], T]) -> T:
    """Do as Hadoop's client does: ask the next one where one is gone, or has no leader."""
    while True:
        for gateway in gateways.values():
            try:
                return gateway.ask(what)
            except (OSError, http.client.HTTPException):
                continue
            except RemoteException as error:
                if error.name != "StandbyException":
                    raise


def content_of(number: int) -> bytes:
    return number.to_bytes(4, "big") * (CHUNK_SIZE // 2)


def test_no_upload_that_was_acknowledged_is_lost_when_the_gateway_that_leads_is_killed(
    gateways,
) -> None:
    acknowledged: list[int] = []
    is_over, some = Event(), Event()

    def upload() -> None:
        while not is_over.is_set():
            number = len(acknowledged)
            create = methodcaller("create", f"/.{number}", content_of(number), overwrite=True)
            anywhere(gateways, create)
            anywhere(gateways, methodcaller("rename", f"/.{number}", f"/{number}", "NONE"))
            acknowledged.append(number)
            some.set()

    thread = Thread(target=upload)
    thread.start()
    try:
        for _ in range(2):
            leader = gateways[leader_of(gateways)]
            leader.end()
            for _ in range(3):
                some.clear()
                assert some.wait(limit()), "the other two go on"
            leader.start([each.mesh for each in gateways.values() if each is not leader])
    finally:
        is_over.set()
        thread.join(limit())
    for number in acknowledged:
        assert anywhere(gateways, methodcaller("open", f"/{number}")) == content_of(number)


class Client:
    """Writes and reads at one gateway, again and again, and bears no error at all."""

    def __init__(self, gateway: Gateway, name: str) -> None:
        self._gateway = gateway
        self._name = name
        self.done = 0
        self._has_moved = Event()
        self.errors: list[Exception] = []
        self.is_over = Event()
        self.thread = Thread(target=self._live)
        self.thread.start()

    def _live(self) -> None:
        try:
            self._gateway.ask(self._work)
        except Exception as error:
            self.errors.append(error)
            self._has_moved.set()

    def _work(self, client: WebHDFSClient) -> None:
        while not self.is_over.is_set():
            name = f"/{self._name}/{self.done}"
            client.create(f"{name}.part", content_of(self.done), overwrite=False)
            client.rename(f"{name}.part", name, "NONE")
            assert client.open(name) == content_of(self.done)
            assert str(self.done) in client.names(f"/{self._name}")
            if self.done:
                assert client.delete(f"/{self._name}/{self.done - 1}")
            self.done += 1
            self._has_moved.set()

    def await_more(self, count: int) -> None:
        """Wait until it has done so much more, or had an error."""
        wanted = self.done + count
        while self.done < wanted and not self.errors:
            self._has_moved.clear()
            if self.done < wanted and not self.errors:
                assert self._has_moved.wait(limit())


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_clients_of_the_others_see_a_wait_and_no_error_when_the_leader_is_lost(
    gateways: dict[str, Gateway], tmp_path: Path, how: signal.Signals
) -> None:
    learner = Gateway("d", tmp_path)
    learner.start([each.mesh for each in gateways.values()])
    try:
        anywhere({"d": learner}, methodcaller("names", "/"))
        leader = gateways[leader_of(gateways)]
        others = [each for each in (*gateways.values(), learner) if each is not leader]
        clients = [Client(each, f"client{number}") for number, each in enumerate(others)]
        try:
            for client in clients:
                client.await_more(2)
            leader.process.send_signal(how)
            for client in clients:
                client.await_more(3)
        finally:
            for client in clients:
                client.is_over.set()
                client.thread.join(limit())
        assert [client.errors for client in clients] == [[], [], []]
    finally:
        learner.end()


def test_a_gateway_that_is_cut_off_gives_no_answer_that_may_be_old(gateways) -> None:
    anywhere(gateways, methodcaller("make_directories", "/d"))
    *others, last = gateways.values()
    for other in others:
        other.process.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(RemoteException) as refused:
            last.ask(methodcaller("names", "/"))
        assert refused.value.name == "StandbyException"
    finally:
        for other in others:
            other.process.send_signal(signal.SIGCONT)
    assert anywhere({"c": last}, methodcaller("names", "/")) == ["d"]
