"""The operations besides those of Spark's checkpoints, in plain HTTP over real sockets."""

from __future__ import annotations

import hashlib
import http.client
import json
import random
import socket
import struct
import threading
import zlib
from contextlib import closing
from dataclasses import replace

import pytest

from peermesh import blocking
from peermesh.gateways.webhdfs import contents, inquiries, joining, limits, walking
from peermesh.gateways.webhdfs.changes import Content
from peermesh.gateways.webhdfs.limits import CHUNK_SIZE, ERASED_CHUNKS_MAX
from peermesh.gateways.webhdfs.nodes import (
    Node,
    chunk_key,
    decode_node,
    encode_node,
    entry_key,
    garbage_key,
)
from peermesh.gateways.webhdfs.requests import Append
from peermesh.gateways.webhdfs.tree import Tree
from peermesh.testing.time_limits import limit
from peermesh.testing.webhdfs import URL_PREFIX, RemoteException, WebHDFSClient, url
from stores.actions import GuardKind
from tests.peermesh.gateways.webhdfs.test_gateway import await_keys, await_more
from wire.encoding import encode
from wire.scalars import INTEGER_MAX


def some_bytes(size: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)


# What is appended, cut and joined.


@pytest.mark.parametrize("first", [0, 5, CHUNK_SIZE, CHUNK_SIZE + 5, 3 * CHUNK_SIZE])
@pytest.mark.parametrize("more", [1, CHUNK_SIZE - 4, CHUNK_SIZE, 2 * CHUNK_SIZE + 9])
def test_what_is_appended_comes_behind_what_was_there(client, first, more):
    begun, rest, last = some_bytes(first), some_bytes(more, 1), some_bytes(7, 2)
    client.create("/file", begun, overwrite=False)
    client.append("/file", rest)
    client.append("/file", b"")
    client.append("/file", iter([last]))
    whole = begun + rest + last
    assert client.open("/file") == whole
    assert client.open("/file", offset=first, length=more) == rest
    assert client.status("/file")["length"] == len(whole)


def test_small_appends_fill_chunks_and_are_no_parts(store, client):
    client.create("/log", b"line", overwrite=False)
    for _ in range(20):
        client.append("/log", bytes(CHUNK_SIZE // 4))
    assert client.status("/log")["length"] == 4 + 5 * CHUNK_SIZE
    kinds = [kind for _, kind, *_ in store.keys()]  # noqa: SIM118 - a store is no dict
    assert kinds.count("chunk") == 6


def test_an_append_that_is_cut_leaves_the_file_as_it_was(store, gateway, client):
    client.create("/file", b"old", overwrite=False)
    before = client.status("/file")
    count = len(store.keys())
    with closing(socket.create_connection((gateway.host, gateway.port))) as raw:
        raw.sendall(
            f"POST {url('/file', 'APPEND', data='true')} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"Content-Length: {50 * CHUNK_SIZE}\r\n\r\n".encode()
        )
        raw.sendall(bytes(20 * CHUNK_SIZE))
        await_more(store, count + 3)
        assert client.open("/file") == b"old"
    await_keys(store, count)
    assert client.status("/file") == before
    assert client.open("/file") == b"old"


def test_of_many_that_append_at_once_none_is_lost(gateway, client):
    client.create("/file", b"", overwrite=False)
    pieces = [bytes([number]) * (5 if number % 2 else CHUNK_SIZE + 5) for number in range(8)]

    def append(piece):
        with WebHDFSClient(gateway.host, gateway.port) as own:
            own.append("/file", piece)

    threads = [threading.Thread(target=append, args=(piece,)) for piece in pieces]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(limit())
    whole = client.open("/file")
    assert len(whole) == sum(map(len, pieces))
    for piece in pieces:
        assert piece in whole


@pytest.mark.parametrize("length", [0, 1, CHUNK_SIZE, 30 * CHUNK_SIZE + 1, 40 * CHUNK_SIZE])
def test_a_file_is_cut_and_goes_on_and_its_space_is_given_back(store, client, length):
    whole = some_bytes(40 * CHUNK_SIZE)
    client.create("/file", whole, overwrite=False)
    client.append("/file", whole)
    assert client.truncate("/file", length)
    client.append("/file", b"more")
    assert client.open("/file") == whole[:length] + b"more"
    client.append("/file", bytes(3 * CHUNK_SIZE))
    assert client.open("/file") == whole[:length] + b"more" + bytes(3 * CHUNK_SIZE)
    assert client.delete("/file")
    await_keys(store, 1)


def test_a_file_is_not_cut_to_more_than_it_has(client):
    client.create("/file", b"some", overwrite=False)
    with pytest.raises(RemoteException, match="larger file size"):
        client.truncate("/file", 5)
    with pytest.raises(RemoteException, match="newlength"):
        client.ask("POST", url("/file", "TRUNCATE"))
    assert client.open("/file") == b"some"


def test_files_are_joined_and_become_one(store, client):
    pieces = [some_bytes(size, size) for size in (CHUNK_SIZE + 1, 0, 5, 20 * CHUNK_SIZE)]
    for number, piece in enumerate(pieces):
        client.create(f"/d/{number}", piece, overwrite=False)
    client.concat("/d/0", ["/d/1", "/d/2", "/d/3"])
    assert client.names("/d") == ["0"]
    assert client.status("/d")["childrenNum"] == 1
    assert client.open("/d/0") == b"".join(pieces)
    for wrong in (["/d/0"], ["/d/1"], ["/d"]):
        with pytest.raises(RemoteException):
            client.concat("/d/0", wrong)
    assert client.delete("/d", recursive=True)
    await_keys(store, 1)


def test_more_parts_than_a_file_may_have_are_refused(client, monkeypatch):
    monkeypatch.setattr(contents, "PARTS_MAX", 3)
    client.create("/file", b"some", overwrite=False)
    large = bytes(CHUNK_SIZE + 1)
    for _ in range(2):
        client.append("/file", large)
    with pytest.raises(RemoteException, match="at most 3 uploads"):
        client.append("/file", large)
    client.append("/file", b"a little")
    assert client.status("/file")["length"] == 4 + 2 * len(large) + 8


def test_a_file_that_is_missing_or_a_directory_is_not_appended_to(client):
    client.make_directories("/d")
    for path in ("/d", "/missing", "/"):
        with pytest.raises(RemoteException) as refused:
            client.append(path, b"some")
        assert refused.value.name == "FileNotFoundException"


# The two steps.


@pytest.mark.parametrize(("method", "operation"), [("PUT", "CREATE"), ("POST", "APPEND")])
def test_who_follows_no_redirection_is_told_the_address(client, method, operation):
    client.create("/file", b"", overwrite=False)
    more = {"overwrite": "true", "noredirect": "true"}
    status, _, body = client.exchange(method, url("/file", operation, **more))
    assert status == 200
    place = json.loads(body)["Location"]
    client.ask(method, place[place.index(URL_PREFIX) :], b"some")
    told = json.loads(client.ask("GET", url("/file", "OPEN", noredirect="true")))
    assert client.ask("GET", told["Location"][place.index(URL_PREFIX) :]) == b"some"


def test_head_is_get_without_the_body(client):
    client.create("/file", b"some", overwrite=False)
    for target in (url("/file", "GETFILESTATUS"), url("/file", "OPEN", data="true")):
        _, shown, body = client.exchange("GET", target)
        status, headers, nothing = client.exchange("HEAD", target)
        assert (status, nothing) == (200, b"")
        assert headers["Content-Length"] == str(len(body)) == shown["Content-Length"]
    status, headers, _ = client.exchange("HEAD", url("/file", "OPEN"))
    assert status == 307
    assert "data=true" in headers["Location"]
    assert client.exchange("HEAD", url("/missing", "GETFILESTATUS"))[0] == 404


def test_bytes_beyond_ascii_are_a_path_as_java_sends_it(gateway, client):
    name = "K\u00f6ln".encode()
    request = (
        b"PUT " + URL_PREFIX.encode() + b"/" + name + b"?op=%s HTTP/1.1\r\nHost: localhost\r\n"
    )
    with closing(socket.create_connection((gateway.host, gateway.port), timeout=limit())) as raw:
        # Three at once: what comes behind a body is a first line again, too.
        upload = request % b"CREATE&data=true" + b"Content-Length: 3\r\n\r\n\xff\n\xc3"
        again = upload.replace(name, name + b"2")
        raw.sendall(upload + again + request.replace(name, name + b"3") % b"MKDIRS" + b"\r\n")
        raw.shutdown(socket.SHUT_WR)
        answer = b""
        while data := raw.recv(65_536):
            answer += data
    assert answer.count(b"HTTP/1.1 20") == 3
    assert client.names("/") == ["K\u00f6ln", "K\u00f6ln2", "K\u00f6ln3"]
    assert client.open("/K\u00f6ln2") == b"\xff\n\xc3"


def test_empty_lines_ahead_of_a_request_are_no_request(gateway, client):
    """Old clients end a body with one; RFC 9112 has servers look past it."""
    request = (
        b"PUT "
        + URL_PREFIX.encode()
        + "/\u00fc%d?op=MKDIRS HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    )
    with closing(socket.create_connection((gateway.host, gateway.port), timeout=limit())) as raw:
        raw.sendall(b"\r\n" + request % 1 + b"\r\n\n" + request % 2 + b"\r\n")
        raw.shutdown(socket.SHUT_WR)
        answer = b""
        while data := raw.recv(65_536):
            answer += data
    assert answer.count(b"HTTP/1.1 ") == answer.count(b"HTTP/1.1 200") == 2
    assert client.names("/") == ["\u00fc1", "\u00fc2"]


def test_a_first_line_may_come_byte_by_byte(gateway, client):
    client.make_directories("/\u00fc")
    line = b"GET " + URL_PREFIX.encode() + "/\u00fc?op=GETFILESTATUS HTTP/1.0\r\n\r\n".encode()
    with closing(socket.create_connection((gateway.host, gateway.port), timeout=limit())) as raw:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for each in line.replace(b"1.0\r\n", b"1.1\r\nHost: localhost\r\nConnection: close\r\n"):
            raw.sendall(bytes([each]))
        response = http.client.HTTPResponse(raw)
        response.begin()
        assert response.status == 200


# Questions.


def test_a_directory_is_listed_in_pages(client, monkeypatch):
    monkeypatch.setattr(inquiries, "PAGE_COUNT", 3)
    names = sorted(["a", "b", "\u00fc", "a b", "ab", "z" * 200, "b,c"], key=str.encode)
    for name in names:
        client.create(f"/d/{name}", b"", overwrite=False)
    found, last, pages = [], "", 0
    while True:
        more = {"startAfter": last} if last else {}
        told = client.ask_json("GET", "/d", "LISTSTATUS_BATCH", **more)["DirectoryListing"]
        page = [each["pathSuffix"] for each in told["partialListing"]["FileStatuses"]["FileStatus"]]
        found, pages = found + page, pages + 1
        if not told["remainingEntries"]:
            break
        assert len(page) == 3
        last = page[-1]
        client.delete(f"/d/{last}")  # The name need not be there any more.
    assert sorted(found, key=str.encode) == names
    assert pages == 3
    one = client.ask_json("GET", f"/d/{names[0]}", "LISTSTATUS_BATCH")["DirectoryListing"]
    (status,) = one["partialListing"]["FileStatuses"]["FileStatus"]
    assert (status["pathSuffix"], status["type"]) == ("", "FILE")


def test_what_is_in_a_directory_is_counted_all_the_way_down(client, monkeypatch):
    monkeypatch.setattr(walking, "PAGE_COUNT", 2)
    for number in range(5):
        client.create(f"/d/{number}/deep/file", bytes(number), overwrite=False)
        client.create(f"/d/{number}.txt", b"x", overwrite=False)
    told = client.ask_json("GET", "/d", "GETCONTENTSUMMARY")["ContentSummary"]
    assert (told["directoryCount"], told["fileCount"], told["length"]) == (11, 10, 15)
    assert told["spaceConsumed"] == 15
    usage = client.ask_json("GET", "/d", "GETQUOTAUSAGE")["QuotaUsage"]
    assert usage["fileAndDirectoryCount"] == 21
    one = client.ask_json("GET", "/d/4.txt", "GETCONTENTSUMMARY")["ContentSummary"]
    assert (one["directoryCount"], one["fileCount"], one["length"]) == (0, 1, 1)
    monkeypatch.setattr(walking, "WALKED_COUNT_MAX", 20)
    with pytest.raises(RemoteException, match="one by one"):
        client.ask_json("GET", "/d", "GETCONTENTSUMMARY")


def test_the_space_is_that_of_the_store():
    with (
        blocking.Endpoint() as endpoint,
        endpoint.attach_master("files", max_bytes=1_000_000) as store,
        blocking.serve_webhdfs(store) as gateway,
        WebHDFSClient(gateway.host, gateway.port) as client,
    ):
        client.create("/file", bytes(1_000), overwrite=False)
        told = client.ask_json("GET", "/", "GETSTATUS")["FsStatus"]
        assert told["capacity"] == 1_000_000
        assert 1_000 < told["used"] < 2_000
        assert told["remaining"] == told["capacity"] - told["used"]


def test_what_clients_note_is_kept_and_told(client):
    client.create("/d/file", b"some", overwrite=False)
    for operation, wanted in (
        ("SETPERMISSION", {"permission": "640"}),
        ("SETOWNER", {"owner": "ada", "group": "staff"}),
        ("SETOWNER", {"group": "crew"}),
        ("SETTIMES", {"modificationtime": 1_000, "accesstime": 2_000}),
        ("SETTIMES", {"modificationtime": -1, "accesstime": 3_000}),
    ):
        assert client.ask("PUT", url("/d/file", operation, **wanted)) == b""
    assert client.ask_json("PUT", "/d/file", "SETREPLICATION", replication=3) == {"boolean": True}
    assert client.ask_json("PUT", "/d", "SETREPLICATION", replication=3) == {"boolean": True}
    for _ in range(2):
        told = client.status("/d/file")
        assert (told["permission"], told["owner"], told["group"]) == ("640", "ada", "crew")
        assert (told["modificationTime"], told["accessTime"]) == (1_000, 3_000)
        assert told["replication"] == 3
        client.rename("/d/file", "/d/other", "NONE")
        client.rename("/d/other", "/d/file", "NONE")
    assert client.open("/d/file") == b"some"
    assert client.status("/d")["replication"] == 0
    acl = client.ask_json("GET", "/d/file", "GETACLSTATUS")["AclStatus"]
    assert (acl["entries"], acl["owner"], acl["group"]) == ([], "ada", "crew")
    with pytest.raises(RemoteException, match="root"):
        client.ask("PUT", url("/", "SETPERMISSION", permission="700"))


def test_a_file_of_the_latest_time_is_changed_as_any_other(client):
    client.create("/file", b"some", overwrite=False)
    client.create("/other", b" more", overwrite=False)
    latest = limits.TIME_MS_MAX
    client.ask("PUT", url("/file", "SETTIMES", modificationtime=latest))
    client.append("/file", b" things")
    assert client.truncate("/file", 4)
    client.concat("/file", ["/other"])
    assert client.open("/file") == b"some more"
    assert client.status("/file")["modificationTime"] == latest + 3


def test_a_file_that_an_earlier_release_gave_the_largest_number_as_its_time_is_changed(
    store, client
):
    client.create("/file", b"some", overwrite=False)
    key = entry_key(0, "file")
    node = replace(decode_node(store.get(key)), modified_ms=INTEGER_MAX)
    store.put(key, encode_node(node)).result(limit())
    client.append("/file", b" more")
    assert client.open("/file") == b"some more"
    assert client.status("/file")["modificationTime"] < limits.TIME_MS_MAX


def test_a_digest_is_that_of_hdfs_whatever_the_file_is_made_of(client):
    content = some_bytes(3 * CHUNK_SIZE + 777)
    client.create("/whole", content, overwrite=False)
    client.create("/joined", content[:1_000], overwrite=False)
    client.append("/joined", content[1_000:])
    found = [client.ask_json("GET", each, "GETFILECHECKSUM") for each in ("/whole", "/joined")]
    crcs = b"".join(
        zlib.crc32(content[at : at + 512]).to_bytes(4, "big") for at in range(0, len(content), 512)
    )
    block = hashlib.md5(crcs).digest()
    told = found[0]["FileChecksum"]
    assert told["algorithm"] == "MD5-of-0MD5-of-512CRC32"
    assert bytes.fromhex(told["bytes"]) == struct.pack(">iq", 512, 0) + hashlib.md5(block).digest()
    assert found[0] == found[1]
    client.append("/joined", b"x")
    assert client.ask_json("GET", "/joined", "GETFILECHECKSUM") != found[0]


def test_a_digest_of_several_blocks_is_one_of_each(client):
    content, size = some_bytes(10_000), 4_096
    target = url("/file", "CREATE", data="true", blocksize=size)
    client.ask("PUT", target, content)
    told = client.ask_json("GET", "/file", "GETFILECHECKSUM")["FileChecksum"]
    blocks = [content[at : at + size] for at in range(0, len(content), size)]
    digests = [
        hashlib.md5(
            b"".join(
                zlib.crc32(block[at : at + 512]).to_bytes(4, "big")
                for at in range(0, len(block), 512)
            )
        ).digest()
        for block in blocks
    ]
    assert told["algorithm"] == "MD5-of-8MD5-of-512CRC32"
    assert told["bytes"].endswith(hashlib.md5(b"".join(digests)).hexdigest())


def test_access_attributes_and_trash_are_asked_for(client):
    client.create("/file", b"", overwrite=False)
    assert client.ask("GET", url("/file", "CHECKACCESS", fsaction="r-x")) == b""
    assert client.ask_json("GET", "/file", "GETXATTRS") == {"XAttrs": []}
    assert client.ask_json("GET", "/", "GETTRASHROOT") == {"Path": "/user/spark/.Trash"}
    assert client.ask_json("GET", "/", "GETTRASHROOTS") == {"Paths": []}
    client.make_directories("/user/spark/.Trash/Current")
    (found,) = client.ask_json("GET", "/", "GETTRASHROOTS")["Paths"]
    assert (found["path"], found["isdir"]) == ("/user/spark/.Trash", True)
    for operation in ("CHECKACCESS", "GETXATTRS", "GETACLSTATUS", "GETFILECHECKSUM"):
        with pytest.raises(RemoteException) as refused:
            client.ask("GET", url("/missing", operation))
        assert refused.value.name == "FileNotFoundException"


@pytest.mark.parametrize(
    ("method", "operation", "more"),
    [
        ("GET", "CHECKACCESS", {"fsaction": "yes"}),
        ("GET", "LISTSTATUS_BATCH", {"startAfter": "x" * 256}),
        ("PUT", "SETPERMISSION", {"permission": "rw"}),
        ("PUT", "SETOWNER", {}),
        ("PUT", "SETOWNER", {"owner": "x" * (limits.USER_SIZE_MAX + 1)}),
        ("PUT", "SETTIMES", {"modificationtime": "soon"}),
        ("PUT", "SETTIMES", {"modificationtime": limits.TIME_MS_MAX + 1}),
        ("PUT", "SETTIMES", {"accesstime": 2**63 - 1}),
        ("PUT", "SETREPLICATION", {"replication": 0}),
        ("PUT", "SETREPLICATION", {"replication": limits.REPLICATION_MAX + 1}),
        ("POST", "CONCAT", {}),
        ("POST", "CONCAT", {"sources": "relative"}),
        ("POST", "CONCAT", {"sources": ",".join(["/x"] * (limits.SOURCES_MAX + 1))}),
        ("POST", "TRUNCATE", {"newlength": "-1"}),
    ],
)
def test_parameters_that_make_no_sense_are_refused(client, method, operation, more):
    client.create("/file", b"some", overwrite=False)
    with pytest.raises(RemoteException) as refused:
        client.ask(method, url("/file", operation, **more))
    assert refused.value.name == "IllegalArgumentException"


def test_what_has_no_more_than_before_is_stored_as_before():
    node = Node(7, False, 4, 1, 5, "ada", "644", 512, "/from")
    assert encode_node(node) == (7, False, 4, 1, 5, "ada", "644", 512, "/from")
    assert decode_node(encode_node(node)) == node
    joined = contents.with_parts(node, [(7, 4), (8, CHUNK_SIZE)])
    assert decode_node(encode_node(joined)) == joined
    assert contents.with_parts(joined, [(7, 4)]) == node


def test_large_parts_that_were_let_go_are_collected_by_any_gateway(store):
    with (
        blocking.serve_webhdfs(store) as gateway,
        WebHDFSClient(gateway.host, gateway.port) as client,
    ):
        large = bytes((ERASED_CHUNKS_MAX + 300) * CHUNK_SIZE)
        client.create("/file", large, overwrite=False)
        client.append("/file", large)
        client.truncate("/file", len(large) + 1)
        client.truncate("/file", 1)
        client.append("/file", bytes(2 * CHUNK_SIZE))
        client.append("/file", b"end")
        # The root's count, an entry, and chunks: of the start, of the upload, and the end.
        await_keys(store, 2 + 1 + 2 + 1)
        assert client.open("/file") == bytes(1 + 2 * CHUNK_SIZE) + b"end"


class DictView:
    """What a store holds, as a dict: one file in the root, which is cut, and not collected yet."""

    def __init__(self, node: Node, *, is_collected: bool) -> None:
        self._node = node
        garbage = {} if is_collected else {garbage_key(7): (contents.STRETCH, 1, 400)}
        self._values = {chunk_key(7, 0): bytes(CHUNK_SIZE), **garbage}

    def get(self, key):
        return self._values.get(key)

    def node(self, directory, name):
        return self._node

    def scan(self, prefix, limit, after=None):
        raise AssertionError("nothing is listed")


@pytest.mark.parametrize("is_collected", [True, False])
def test_what_is_appended_does_not_come_where_chunks_are_still_collected(is_collected):
    node = Node(7, False, CHUNK_SIZE, 1, 5, "ada", "644", 512)
    tree = Tree(DictView(node, is_collected=is_collected))
    content = Content(8, 4, 1, b"more")
    batch = joining.append(tree, Append(("file",), True), content, [9], 6)
    (put,) = [step.key for step in batch.steps if step.key != encode(entry_key(0, "file"))]
    assert put == encode(chunk_key(7, 1) if is_collected else chunk_key(9, 0))
    guarded = [guard.key for guard in batch.guards if guard.kind is GuardKind.ABSENT]
    assert guarded == ([encode(garbage_key(7))] if is_collected else [])
