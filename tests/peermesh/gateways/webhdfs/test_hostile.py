"""Hostile clients of a gateway: slow, silent, endless; others get their answers."""

from __future__ import annotations

import socket
import tracemalloc
from contextlib import ExitStack, suppress
from itertools import repeat

import pytest
import trio

from net import acceptor
from peermesh import blocking
from peermesh.gateways import limits
from peermesh.gateways.http import Disconnected, HttpConnection, Reply
from peermesh.gateways.webhdfs import serving
from peermesh.gateways.webhdfs.requests import URL_PREFIX
from peermesh.testing.scripted import ScriptedStream
from peermesh.testing.time_limits import limit
from peermesh.testing.webhdfs import WebHDFSClient

HOST = b"Host: localhost:1\r\n"
GET = f"GET {URL_PREFIX}/?op=LISTSTATUS HTTP/1.1\r\n".encode() + HOST
PUT = f"PUT {URL_PREFIX}/a?op=CREATE&data=true HTTP/1.1\r\n".encode() + HOST


def dial(gateway) -> socket.socket:
    return socket.create_connection((gateway.host, gateway.port), timeout=limit())


def read_all(sock: socket.socket) -> bytes:
    answer = b""
    with suppress(ConnectionResetError):
        while data := sock.recv(65_536):
            answer += data
    return answer


def test_a_number_that_no_store_can_hold_is_refused(gateway, client):
    target = f"{URL_PREFIX}/a?op=CREATE&data=true&blocksize={2**63}"
    with dial(gateway) as bad:
        bad.sendall(f"PUT {target} HTTP/1.1\r\n".encode() + HOST + b"Content-Length: 0\r\n\r\n")
        assert bad.recv(65_536).startswith(b"HTTP/1.1 400 ")
    assert client.names("/") == []


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (GET + b"X: " + b"x" * 4 * limits.HEAD_SIZE_MAX + b"\r\n\r\n", 431),
        (GET + b"X: y\r\n" * 4 * limits.HEAD_SIZE_MAX + b"\r\n", 431),
        (b"GET /" + b"x" * limits.HEAD_SIZE_MAX, 431),
        (PUT + b"Content-Length: -1\r\n\r\n", 400),
        (PUT + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (PUT + b"Content-Length: 5\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (PUT + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + GET, 400),
        (GET + HOST + b"\r\n", 400),
    ],
    ids=["a huge header", "many headers", "a huge line", "a negative length", "two lengths",
         "a strange encoding", "a length and an encoding", "two hosts"],
)  # fmt: skip
def test_heads_beyond_measure_are_refused(gateway, client, said, status):
    with dial(gateway) as bad:
        with suppress(BrokenPipeError, ConnectionResetError):
            bad.sendall(said)
        answer = read_all(bad)
        # What is long is not read to its end, and then the system may cut off the answer.
        is_cut_off = not answer and len(said) > limits.HEAD_SIZE_MAX
        assert answer.startswith(f"HTTP/1.1 {status} ".encode()) or is_cut_off
        assert answer.count(b"HTTP/1.1 ") <= 1
    assert client.names("/") == []


CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("first", [b"", b"3\r\nabc\r\n"], ids=["at once", "behind another one"])
@pytest.mark.parametrize(
    "chunk",
    [b"no number\r\n", b"-1\r\n", b"3\r\nabcd\r\n", b"1" * 21 + b"\r\n", b"0\r\n: no name\r\n\r\n"],
    ids=["no size", "a negative size", "more than its size", "a huge size", "a bad trailer"],
)
def test_a_malformed_chunk_is_answered_and_ends_the_connection(gateway, client, chunk, first):
    with dial(gateway) as bad:
        bad.sendall(PUT + CHUNKED + first + chunk + GET + b"\r\n")
        answer = read_all(bad)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"Connection: close" in answer
    assert b"the body is malformed" in answer
    assert answer.count(b"HTTP/1.1 ") == 1
    assert client.names("/") == []


def test_a_refused_upload_with_a_malformed_chunk_is_told_of_its_refusal(gateway, client):
    client.create("/a", b"here already", overwrite=False)
    with dial(gateway) as bad:
        bad.sendall(PUT + CHUNKED + b"no number\r\n")
        answer = read_all(bad)
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b"already exists" in answer


def test_an_upload_that_ends_within_a_chunk_has_no_answer(gateway, client):
    with dial(gateway) as cut:
        cut.sendall(PUT + CHUNKED + b"5\r\nab")
        cut.shutdown(socket.SHUT_WR)
        assert read_all(cut) == b""
    assert client.names("/") == []


@pytest.mark.parametrize("place", ["http://localhost:1", "HTTPS://a.example"])
def test_a_target_may_name_scheme_and_host_as_for_a_proxy(gateway, client, place):
    client.make_directories("/a")
    with dial(gateway) as other:
        line = f"GET {place}{URL_PREFIX}/?op=LISTSTATUS HTTP/1.1\r\n"
        other.sendall(line.encode() + HOST + b"Connection: close\r\n\r\n")
        answer = read_all(other)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b'"pathSuffix":"a"' in answer


def test_requests_that_do_not_wait_for_answers_are_answered_in_order(gateway, client):
    names = [f"/{number}" for number in range(50)]
    with dial(gateway) as hasty:
        for name in names:
            target = f"PUT {URL_PREFIX}{name}?op=MKDIRS HTTP/1.1\r\n"
            hasty.sendall(target.encode() + HOST + b"\r\n")
        hasty.shutdown(socket.SHUT_WR)
        assert read_all(hasty).count(b"HTTP/1.1 200") == len(names)
    assert len(client.names("/")) == len(names)


def test_silent_clients_make_room_for_others(store, monkeypatch):
    monkeypatch.setattr(serving, "CONNECTIONS_MAX", 2)
    monkeypatch.setattr(acceptor, "NEWCOMERS_MAX", 2)
    with blocking.serve_webhdfs(store) as gateway, ExitStack() as stack:
        for said in (b"", GET, PUT + b"Content-Length: 9\r\n\r\nx") * 4:
            stack.enter_context(dial(gateway)).sendall(said)
        with WebHDFSClient(gateway.host, gateway.port) as client:
            for _ in range(3):
                assert client.names("/") == []
        assert gateway.statistics().connections <= 4


def endless_body(first: bytes, piece: bytes):
    yield first
    yield from repeat(piece)


async def refuse_all(stream: ScriptedStream) -> None:
    """Answer each request without a look at its body, as to a stranger."""
    connection = HttpConnection(stream)
    with suppress(Disconnected):
        while await connection.next_head() is not None:
            await connection.reply(Reply(401, b"no"))
    await connection.close()


@pytest.mark.parametrize(
    "stream",
    [
        ScriptedStream(endless_body(b"", b"x"), seconds=1.0),
        ScriptedStream(endless_body(GET, b"X: y\r\n"), seconds=1.0),
        ScriptedStream(endless_body(PUT + b"Content-Length: 9999999\r\n\r\n", b"x"), seconds=1.0),
        ScriptedStream(endless_body(PUT + b"Content-Length: 9999999\r\n\r\n", b"x"), seconds=1e9),
        ScriptedStream((), seconds=1e9),
    ],
    ids=["a slow line", "slow headers", "a slow body", "no body", "nothing"],
)
async def test_who_is_slow_or_silent_is_ended_in_time(autojump_clock, stream) -> None:
    began = trio.current_time()
    await refuse_all(stream)
    assert stream.socket.is_closed
    longest = limits.IDLE_SECONDS + limits.HEAD_SECONDS + limits.DRAIN_SECONDS
    assert trio.current_time() - began <= longest


async def test_who_does_not_read_the_answer_is_ended_in_time(autojump_clock) -> None:
    stream = ScriptedStream(repeat(GET + b"\r\n"))
    stream.socket.is_stuck = True
    began = trio.current_time()
    await refuse_all(stream)
    assert trio.current_time() - began <= limits.SEND_SECONDS + 1


async def test_a_body_without_end_is_read_for_a_while_and_takes_no_memory(autojump_clock) -> None:
    chunk = b"10000\r\n" + bytes(65_536) + b"\r\n"
    stream = ScriptedStream(endless_body(PUT + b"Transfer-Encoding: chunked\r\n\r\n", chunk))
    tracemalloc.start()
    await refuse_all(stream)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < limits.DRAINED_SIZE_MAX
    assert stream.sent.startswith(b"HTTP/1.1 401")
