"""The gateway as its clients meet it, in plain HTTP over real sockets."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import Counter
from contextlib import asynccontextmanager, closing

import pytest

from endpoint.replicas import freed_memory
from peermesh import blocking
from peermesh.gateways.limits import HEAD_SIZE_MAX
from peermesh.gateways.webhdfs.limits import CHUNK_SIZE, ERASED_CHUNKS_MAX, UPLOAD_BATCH_CHUNKS
from peermesh.gateways.webhdfs.nodes import Node, children_key, encode_node, entry_key
from peermesh.testing.time_limits import limit
from peermesh.testing.webhdfs import RemoteException, WebHDFSClient, url
from stores.disk import sqlite
from stores.replica.kept import KEPT_SIZE
from stores.scanning import PAGE_COUNT_MAX
from wire.errors import AddressInUse, CredentialsError, InsecureAddress
from wire.limits import MIB

TOKEN = "a token of some length".replace(" ", "-")
LARGE = 48 * MIB
"""More than a store's history keeps, or its process of what was freed."""


def await_keys(store, count):
    """Wait until the store has only so many keys left, besides the word that a gateway lives."""
    for _ in store.watch():
        kinds = [kind for _, kind, *_ in store.keys()]  # noqa: SIM118 - a store is no dict
        if len(kinds) - kinds.count("gateway") == count:
            return


@pytest.mark.parametrize(
    "size", [0, 1, CHUNK_SIZE - 1, CHUNK_SIZE, CHUNK_SIZE + 1, 20 * CHUNK_SIZE + 7]
)
def test_a_file_is_read_as_it_was_written(client, size):
    content = bytes(range(251)) * (size // 251 + 1)
    content = content[:size]
    pieces = [content[at : at + 10_000] for at in range(0, size, 10_000)]
    client.create("/a/file", iter(pieces), overwrite=False)
    assert client.status("/a/file")["length"] == size
    assert client.open("/a/file") == content
    assert client.open("/a/file", offset=size // 3) == content[size // 3 :]
    assert client.open("/a/file", offset=size // 3, length=100) == content[size // 3 :][:100]


def test_a_directory_of_several_pages_is_listed_whole(store, client):
    assert client.make_directories("/d")
    number = next(key[2] for key in store.keys() if key[1] == "children" and key[2])  # noqa: SIM118 - a store is no dict
    count = 2 * PAGE_COUNT_MAX + 7
    for start in range(0, count, 500):
        batch = blocking.Batch()
        for index in range(start, min(start + 500, count)):
            node = Node(index + 1, False, 0, 0, 0, "spark", "644", 0)
            batch.put(entry_key(number, f"{index:06}"), encode_node(node))
        store.batch(batch).result(limit())
    store.put(children_key(number), count).result(limit())
    assert client.names("/d") == [f"{index:06}" for index in range(count)]


def test_no_answer_has_a_content_type_that_hadoop_cannot_read(client):
    client.create("/file", b"some", overwrite=False)
    for path in ("/file", "/missing"):
        _, headers, _ = client.exchange("GET", url(path, "GETFILESTATUS"))
        assert "content-type" not in {name.lower() for name in headers}


def test_other_operations_are_refused_by_name(client):
    for method, operation in (
        ("GET", "GETDELEGATIONTOKEN"),
        ("PUT", "CREATESYMLINK"),
        ("PUT", "MODIFYACLENTRIES"),
        ("POST", "SETPERMISSION"),
        ("GET", ""),
        ("GET", "CREATE"),
    ):
        with pytest.raises(RemoteException, match=operation or "without op") as refused:
            client.ask(method, url("/", operation))
        assert refused.value.name == "UnsupportedOperationException"


def test_the_answers_about_the_server_are_typed_as_the_client_reads_them(client):
    defaults = json.loads(client.ask("GET", url("/", "GETSERVERDEFAULTS")))["FsServerDefaults"]
    assert defaults["encryptDataTransfer"] is False
    assert json.loads(client.ask("GET", url("/", "GETHOMEDIRECTORY"))) == {"Path": "/user/spark"}
    client.create("/file", b"some", overwrite=False)
    found = json.loads(client.ask("GET", url("/file", "GETFILEBLOCKLOCATIONS")))
    assert found == {"BlockLocations": {"BlockLocation": []}}


def test_a_rename_refuses_to_overwrite_in_both_styles(client):
    client.create("/.tmp", b"second", overwrite=False)
    client.create("/0", b"first", overwrite=False)
    assert client.rename("/.tmp", "/0") is False
    with pytest.raises(RemoteException) as refused:
        client.rename("/.tmp", "/0", "NONE")
    assert refused.value.name == "FileAlreadyExistsException"
    assert client.open("/0") == b"first"
    assert client.rename("/.tmp", "/0", "OVERWRITE")
    assert client.open("/0") == b"second"
    assert client.names("/") == ["0"]


def test_a_file_may_be_renamed_to_itself_as_in_hdfs_and_a_directory_may_not(client):
    client.create("/d/file", b"some", overwrite=False)
    before = client.status("/d/file")
    assert client.rename("/d/file", "/d/file") is True
    assert client.rename("/d/file", "/d") is True
    assert client.rename("/d", "/d") is False
    for options in ("NONE", "OVERWRITE"):
        with pytest.raises(RemoteException) as refused:
            client.rename("/d/file", "/d/file", options)
        assert refused.value.name == "FileAlreadyExistsException"
    assert client.status("/d/file") == before
    assert client.names("/d") == ["file"]


@pytest.mark.parametrize("options", [None, "NONE"])
def test_a_rename_whose_answer_was_lost_may_be_asked_again(client, options):
    client.create("/d/.tmp", b"some", overwrite=False)
    assert client.rename("/d/.tmp", "/d/0", options)
    assert client.rename("/d/.tmp", "/d/0", options)
    assert client.rename("/d", "/e", options)
    assert client.rename("/d", "/e", options)
    assert client.open("/e/0") == b"some"
    for missing in ("/d/other", "/e/.tmp"):
        if options is None:
            assert client.rename(missing, "/e/0") is False
        else:
            with pytest.raises(RemoteException, match="not found"):
                client.rename(missing, "/e/0", options)


@pytest.fixture
def slow_client(tmp_path):
    """Give two gateways of a store on disk, and a client: a change is decided before it is seen.

    At one gateway those of one path take turns.
    """
    with (
        blocking.Endpoint() as endpoint,
        endpoint.attach_master(
            "disk", blocking.Backend.SQLite, path=str(tmp_path / "disk.db")
        ) as store,
        blocking.serve_webhdfs(store) as gateway,
        blocking.serve_webhdfs(store) as other,
        WebHDFSClient(gateway.host, gateway.port) as client,
    ):
        yield (gateway, other), client


def attempt_all(gateways, attempts):
    """Make all attempts at the same time, each with a connection of its own; give the results."""
    results = [None] * len(attempts)
    start = threading.Barrier(len(attempts))

    def run(number):
        gateway = gateways[number % len(gateways)]
        with WebHDFSClient(gateway.host, gateway.port) as own:
            own.status("/")
            start.wait()
            try:
                results[number] = attempts[number](own)
            except RemoteException as error:
                results[number] = error.name

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(attempts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.mark.parametrize("options", [None, "NONE"])
def test_of_many_that_rename_to_one_name_one_wins(slow_client, options):
    gateways, client = slow_client
    for number in range(16):
        client.create(f"/.tmp{number}", b"%d" % number, overwrite=False)
    attempts = [
        lambda own, number=number: own.rename(f"/.tmp{number}", "/offsets", options)
        for number in range(16)
    ]
    results = attempt_all(gateways, attempts)
    assert results.count(True) == 1
    assert set(results) == {True, False if options is None else "FileAlreadyExistsException"}
    assert client.open("/offsets") == b"%d" % results.index(True)
    assert len(client.names("/")) == 16


def test_of_many_that_append_at_two_gateways_none_is_lost(slow_client):
    gateways, client = slow_client
    client.create("/file", b"", overwrite=False)
    pieces = [bytes([number]) * 5 for number in range(16)]
    attempts = [lambda own, piece=piece: own.append("/file", piece) for piece in pieces]
    attempt_all(gateways, attempts)
    whole = client.open("/file")
    assert sorted(whole[at : at + 5] for at in range(0, len(whole), 5)) == pieces


def test_two_directories_that_move_into_each_other_are_not_lost(slow_client):
    gateways, client = slow_client
    for number in range(8):
        a, b = f"/{number}/a", f"/{number}/b"
        client.make_directories(a)
        client.make_directories(b)
        attempts = [
            lambda own, a=a, b=b: own.rename(a, f"{b}/a", "NONE"),
            lambda own, a=a, b=b: own.rename(b, f"{a}/b", "NONE"),
        ]
        results = attempt_all(gateways, attempts)
        assert sorted(map(str, results)) == ["FileNotFoundException", "True"]
        (kept,) = client.names(f"/{number}")
        assert len(client.names(f"/{number}/{kept}")) == 1


def test_nothing_is_made_in_a_directory_while_it_is_deleted(slow_client):
    gateways, client = slow_client
    for number in range(8):
        client.make_directories(f"/{number}/d")
        attempts = [
            lambda own, number=number: own.delete(f"/{number}/d"),
            lambda own, number=number: own.make_directories(f"/{number}/d/e"),
        ]
        deleted, made = attempt_all(gateways, attempts)
        assert made is True, "it makes the directory anew, if it has to"
        assert client.names(f"/{number}/d") == ["e"]
        assert deleted in (True, "PathIsNotEmptyDirectoryException")


def test_a_directory_is_deleted_as_a_whole_and_its_space_is_given_back(store, client):
    client.create("/keep", b"some", overwrite=False)
    await_keys(store, 3)
    large = (ERASED_CHUNKS_MAX + 2) * CHUNK_SIZE
    for number in range(40):
        client.create(f"/d/{number % 3}/{number}", b"some", overwrite=False)
    client.create("/d/large", bytes(large), overwrite=False)
    with pytest.raises(RemoteException, match="non empty"):
        client.delete("/d")
    assert client.delete("/d", recursive=True)
    assert client.delete("/d", recursive=True) is False
    assert client.names("/") == ["keep"]
    await_keys(store, 3)


def test_eight_chunks_of_an_upload_are_one_batch(store, client):
    sizes = [UPLOAD_BATCH_CHUNKS, UPLOAD_BATCH_CHUNKS, 5]
    client.create("/large", bytes(sum(sizes) * CHUNK_SIZE), overwrite=False)
    chunks = [entry for entry in store.entries() if entry.key[1] == "chunk"]
    by_batch = Counter(entry.revision for entry in chunks)
    assert [by_batch[revision] for revision in sorted(by_batch)] == sizes == [8, 8, 5]


def test_memory_and_disk_of_what_is_deleted_are_given_back(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite, "FREE_PAGES_MAX", 256)
    is_trimmed = threading.Event()
    monkeypatch.setattr(freed_memory, "trim", is_trimmed.set)
    path = tmp_path / "files.db"
    with (
        blocking.Endpoint() as endpoint,
        endpoint.attach_master("files", blocking.Backend.SQLite, path=path) as store,
        blocking.serve_webhdfs(store) as gateway,
        WebHDFSClient(gateway.host, gateway.port) as client,
    ):
        client.create("/large", bytes(LARGE), overwrite=False)
        full = path.stat().st_size
        assert full > LARGE
        assert client.delete("/large")
        await_keys(store, 1)
        # So much has to come since for the journal to drop what was deleted, and then little: a
        # journal that is written at a hundred megabytes a second is as large by what came since.
        for _ in range(KEPT_SIZE // MIB + 2):
            client.create("/small", bytes(MIB), overwrite=True)
        until = time.monotonic() + limit()
        while path.stat().st_size >= full // 2:
            assert time.monotonic() < until, path.stat().st_size
            client.create("/small", b"less", overwrite=True)
        assert is_trimmed.wait(limit())


def test_an_upload_that_is_cut_leaves_no_file_and_no_chunks(store, gateway, client):
    client.create("/d/file", b"old", overwrite=False)
    before = len(store.keys())
    target = url("/d/file", "CREATE", overwrite="true", data="true")
    with closing(socket.create_connection((gateway.host, gateway.port))) as raw:
        raw.sendall(
            f"PUT {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"Content-Length: {3 * UPLOAD_BATCH_CHUNKS * CHUNK_SIZE}\r\n\r\n".encode()
        )
        raw.sendall(bytes((UPLOAD_BATCH_CHUNKS + 1) * CHUNK_SIZE))
        await_more(store, before + UPLOAD_BATCH_CHUNKS)
    await_keys(store, before)
    assert client.open("/d/file") == b"old"


def await_more(store, count):
    for _ in store.watch():
        if len(store.keys()) >= count:
            return


def test_uploads_of_a_gateway_that_died_are_collected_by_the_next(store):
    store.put(("webhdfs", "upload", 77), "another process").result(limit())
    store.put(("webhdfs", "chunk", 77, 0), b"some").result(limit())
    with blocking.serve_webhdfs(store):
        await_keys(store, 0)


def test_uploads_of_a_gateway_that_lives_are_left_to_it(store):
    store.put(("webhdfs", "gateway", "another process"), True).result(limit())
    store.put(("webhdfs", "upload", 77), "another process").result(limit())
    store.put(("webhdfs", "upload", 78), "a process that died").result(limit())
    with blocking.serve_webhdfs(store):
        await_keys(store, 1)
    assert store.get(("webhdfs", "upload", 77)) == "another process"


def test_what_makes_no_sense_is_refused_and_costs_nothing_else(client):
    for method, target in (
        ("GET", url("/../etc", "LISTSTATUS")),
        ("GET", url("/" + "x" * 256, "GETFILESTATUS")),
        ("PUT", url("/" + "d/" * 201, "MKDIRS")),
        ("PUT", url("/a", "RENAME", destination="relative")),
        ("PUT", url("/a", "RENAME", destination="/b", renameoptions="MAYBE")),
        ("PUT", url("/a", "CREATE", overwrite="perhaps")),
        ("PUT", url("/a", "MKDIRS", permission="999")),
        ("GET", url("/a", "OPEN", offset="-1")),
        ("GET", "/webhdfs/v1/%ff?op=GETFILESTATUS"),
    ):
        with pytest.raises(RemoteException) as refused:
            client.ask(method, target)
        assert refused.value.name == "IllegalArgumentException", target
    client.create("/a", b"some", overwrite=False)
    for wrong, name in (
        (lambda: client.create("/a/b", b"", overwrite=False), "ParentNotDirectoryException"),
        (lambda: client.create("/a", b"", overwrite=False), "FileAlreadyExistsException"),
        (lambda: client.make_directories("/a/b"), "ParentNotDirectoryException"),
        (lambda: client.open("/a", offset=5), "IOException"),
        (lambda: client.open("/"), "FileNotFoundException"),
        (lambda: client.rename("/a", "/x/y", "NONE"), "FileNotFoundException"),
        (lambda: client.ask("GET", "/elsewhere"), "FileNotFoundException"),
        (lambda: client.ask("GET", "//[elsewhere"), "FileNotFoundException"),
    ):
        with pytest.raises(RemoteException) as refused:
            wrong()
        assert refused.value.name == name
    assert client.open("/a") == b"some"


def test_a_directory_does_not_move_into_itself(client):
    client.make_directories("/a/b")
    with pytest.raises(RemoteException, match="into itself"):
        client.rename("/a", "/a/b/c", "NONE")
    assert client.rename("/a", "/a/b") is False
    assert client.names("/a") == ["b"]


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /webhdfs/v1/ HTTP/1.1\r\nHost: \xc3\xa9\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET /" + b"x" * (HEAD_SIZE_MAX + 1),
        b"PUT /webhdfs/v1/f?op=CREATE&data=true HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"",
    ],
)
def test_what_is_no_http_ends_its_own_connection_only(gateway, client, garbage):
    with closing(socket.create_connection((gateway.host, gateway.port), timeout=limit())) as raw:
        raw.sendall(garbage)
        raw.shutdown(socket.SHUT_WR)
        while raw.recv(65_536):
            pass
    assert client.names("/") == []


def test_plain_http_beyond_loopback_has_to_be_allowed_and_needs_a_token(store):
    for token in (None, TOKEN):
        with pytest.raises(InsecureAddress, match="allow_plain"):
            with blocking.serve_webhdfs(store, host="0.0.0.0", token=token):
                pass
    with pytest.raises(InsecureAddress, match="token"):
        with blocking.serve_webhdfs(store, host="0.0.0.0", allow_plain=True):
            pass
    with pytest.raises(CredentialsError):
        with blocking.serve_webhdfs(store, token="short"):
            pass
    with blocking.serve_webhdfs(store, host="0.0.0.0", token=TOKEN, allow_plain=True) as gateway:
        for token in (None, "another-token-of-some-length"):
            with WebHDFSClient("127.0.0.1", gateway.port, token=token) as stranger:
                with pytest.raises(RemoteException) as refused:
                    stranger.names("/")
                assert refused.value.status == 401
        with WebHDFSClient("127.0.0.1", gateway.port, token=TOKEN) as known:
            assert known.names("/") == []
            form = f"grant_type=client_credentials&client_id=x&client_secret={TOKEN}".encode()
            _, _, granted = known.exchange("POST", "/token", form)
            assert json.loads(granted)["access_token"] == TOKEN
            status, _, _ = known.exchange("POST", "/token", b"client_secret=wrong")
            assert status == 401


def test_an_address_that_is_taken_is_named(store, gateway):
    with pytest.raises(AddressInUse, match=str(gateway.port)):
        with blocking.serve_webhdfs(store, port=gateway.port):
            pass


def test_a_gateway_that_broke_is_no_secret(store, monkeypatch):
    @asynccontextmanager
    async def breaks(_store, **_options):
        yield None
        raise OSError("the listener is gone")

    monkeypatch.setattr("peermesh.blocking.gateways.core_serve_webhdfs", breaks)
    with pytest.raises(OSError, match="the listener is gone"), blocking.serve_webhdfs(store):
        pass


def test_a_gateway_counts_what_it_does(gateway, client):
    client.make_directories("/a")
    with pytest.raises(RemoteException):
        client.status("/b")
    counted = gateway.statistics()
    assert counted.is_active
    assert counted.connections == 1
    assert counted.requests == {"MakeDirectories": 1, "GetFileStatus": 1}
    assert counted.refusals == {"FileNotFoundException": 1}


def test_a_gateway_at_a_clone_serves_while_a_master_is_heard(store):
    with (
        blocking.Endpoint() as here,
        blocking.Endpoint() as there,
        there.attach_master("fs", blocking.Backend.Memory) as master,
        here.attach_clone("fs") as clone,
        blocking.serve_webhdfs(master) as first,
        blocking.serve_webhdfs(clone) as second,
        WebHDFSClient(first.host, first.port) as near,
        WebHDFSClient(second.host, second.port) as far,
    ):
        with pytest.raises(RemoteException) as refused:
            far.names("/")
        assert refused.value.name == "StandbyException"
        here.peer("127.0.0.1", there.listen())
        near.create("/d/.tmp", b"some", overwrite=False)
        assert clone.await_idle(timeout=limit())
        far.rename("/d/.tmp", "/d/0", "NONE")
        assert near.open("/d/0") == far.open("/d/0") == b"some"
        near.delete("/d/0")
        assert far.names("/d") == []


def test_a_mistake_in_one_request_is_told_to_it_and_ends_no_other(
    gateway, client, monkeypatch, caplog
):
    async def fall(*_):
        raise ZeroDivisionError

    client.create("/file", b"some", overwrite=False)
    with monkeypatch.context() as patch:
        patch.setattr(gateway._service, "answer", fall)
        status, _, body = client.exchange("GET", url("/file", "GETFILESTATUS"))
        assert status == 500
        assert "ZeroDivisionError" in json.loads(body)["RemoteException"]["message"]
        assert client.open("/file") == b"some"
    assert client.status("/file")["length"] == 4
    assert any(each.exc_info for each in caplog.records)
