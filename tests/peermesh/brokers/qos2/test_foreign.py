"""What is not of the dialogue: HTTP of a web page, TLS, and mistakes of strangers."""

from __future__ import annotations

import pytest
import trio

from endpoint import Endpoint
from peermesh.brokers.qos2.broker import Ports, open_broker
from peermesh.brokers.qos2.consumer_session import ConsumerSession
from peermesh.brokers.qos2.foreign import is_http_request
from peermesh.brokers.qos2.limits import MESSAGE_SIZE_MAX, Pace
from peermesh.brokers.qos2.lines import digest
from peermesh.brokers.qos2.publisher_session import PublisherSession
from peermesh.brokers.qos2.steps import Close, Send, Store
from peermesh.testing.time_limits import limit

REQUEST = b"POST / HTTP/1.1\r\n"
CLIENT_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500)
MESSAGE = b"BEGIN orders\r\nTRANSFER 1000 TO EVIL\r\nEND\r\nPUBREL\r\n"
TAKEOVER = (
    b"LOGIN shop ids\r\nSUBSCRIBE orders\r\n"
    + b"SUBSCRIBE orders\r\n" * 60
    + b"".join(b"NACK id=orders/%d final pwned\r\n" % number for number in range(5))
)


def fetch(body: bytes) -> bytes:
    """Give what Chrome sends for ``fetch(url, {method: "POST", mode: "no-cors", body})``."""
    return (
        b"POST / HTTP/1.1\r\nHost: 127.0.0.1:4060\r\nConnection: keep-alive\r\n"
        b"Content-Length: %d\r\n"
        b'sec-ch-ua: "Chromium";v="126"\r\nContent-Type: text/plain\r\nsec-ch-ua-mobile: ?0\r\n'
        b"User-Agent: Mozilla/5.0 (X11; Linux x86_64) Chrome/126.0\r\nAccept: */*\r\n"
        b"Origin: https://evil.example\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n"
        b"Sec-Fetch-Dest: empty\r\nReferer: https://evil.example/\r\nAccept-Language: en\r\n\r\n"
    ) % len(body) + body


async def say(port: int, said: bytes) -> bytes:
    """Say something at a port; give all that comes until the connection ends."""
    heard = b""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        with trio.fail_after(limit()):
            await stream.send_all(said)
            try:
                while data := await stream.receive_some():
                    heard += data
            except trio.BrokenResourceError:
                pass  # what was not read any more
    return heard


@pytest.fixture
async def broker():
    async with Endpoint() as endpoint, open_broker(endpoint, None, Ports("127.0.0.1", 0, 0)) as it:
        yield it


async def until_heard(stream: trio.SocketStream, end: bytes) -> bytes:
    heard = b""
    with trio.fail_after(limit()):
        while not heard.endswith(end):
            data = await stream.receive_some()
            assert data, heard
            heard += data
    return heard


async def test_a_message_that_is_too_large_ends_its_connection(broker) -> None:
    stream = await trio.open_tcp_stream("127.0.0.1", broker.publisher_port)
    async with stream:
        await stream.send_all(b"LOGIN till\nBEGIN tea id=1\n")
        await until_heard(stream, b"OK ids\n")
        with trio.fail_after(limit()):
            await stream.send_all((b"x" * 999 + b"\n") * (MESSAGE_SIZE_MAX // 1_000 + 1))
        assert await until_heard(stream, b"LARGE\n") == b"ERROR MESSAGE TOO LARGE\n"
        with trio.fail_after(limit()):
            assert await stream.receive_some() == b""


async def test_a_web_page_publishes_nothing_and_takes_no_messages_away(broker) -> None:
    assert await say(broker.publisher_port, fetch(MESSAGE)) in (b"ERROR NO HTTP HERE\n", b"")
    assert broker.statistics()["published"] == 0

    publisher = await trio.open_tcp_stream("127.0.0.1", broker.publisher_port)
    shop = await trio.open_tcp_stream("127.0.0.1", broker.consumer_port)
    async with publisher, shop:
        await publisher.send_all(b"BEGIN orders\ntea\nEND\nPUBREL\n")
        await until_heard(publisher, b"PUBCOMP\n")
        await shop.send_all(b"LOGIN shop\nSUBSCRIBE orders\n")
        assert await until_heard(shop, b"END\n") == b"BEGIN orders\ntea\nEND\n"
        assert await say(broker.consumer_port, fetch(TAKEOVER)) in (b"ERROR NO HTTP HERE\n", b"")
        # It is its connection still.
        await shop.send_all(b"PUBREC %s\n" % digest(b"tea\n").encode())
        assert await until_heard(shop, b"\n") == b"PUBREL\n"
    assert broker.statistics()["buried"] == 0


@pytest.mark.parametrize("size", [1, len(CLIENT_HELLO)])
async def test_tls_at_a_plain_port_ends_at_its_first_byte_without_an_answer(broker, size) -> None:
    for port in (broker.publisher_port, broker.consumer_port):
        assert await say(port, CLIENT_HELLO[:size]) == b""


@pytest.mark.parametrize(
    "line",
    [
        b"GET / HTTP/1.1\r\n",
        b"POST /x?y=z HTTP/1.0\n",
        b"PRI * HTTP/2.0\r\n",
        b"OPTIONS http://127.0.0.1/ HTTP/1.1\r\n",
        b"BEGIN / HTTP/1.1\r\n",
        b" CONNECT 127.0.0.1:1\tHTTP/1.1 \r\n",
    ],
)
def test_lines_of_http_are_known(line) -> None:
    assert is_http_request(line)


@pytest.mark.parametrize(
    "line", [b"BEGIN tea coffee\n", b"LOGIN x lengths\n", b"BEGIN HTTP/1.1\n", b"PUBREL\n", b"\n"]
)
def test_lines_of_the_dialogue_are_not_taken_for_http(line) -> None:
    assert not is_http_request(line)


def closes(steps: list[object]) -> bool:
    return any(isinstance(step, Close) for step in steps)


def stranger(kind: type) -> PublisherSession | ConsumerSession:
    session = kind(Pace())
    session.start()
    return session


def known_publisher() -> PublisherSession:
    session = stranger(PublisherSession)
    for line in (b"BEGIN tea\n", b"green\n", b"END\n", b"PUBREL\n"):
        steps = session.receive(line)
    assert any(isinstance(step, Store) for step in steps)
    session.stored()
    return session


def named_publisher() -> PublisherSession:
    session = stranger(PublisherSession)
    session.receive(b"LOGIN till\n")
    return session


def known_consumer() -> ConsumerSession:
    session = stranger(ConsumerSession)
    session.receive(b"LOGIN billing\n")
    session.entered()
    return session


@pytest.mark.parametrize("kind", [PublisherSession, ConsumerSession])
@pytest.mark.parametrize("line", [b"HELLO\n", b"Host: 127.0.0.1:4060\r\n", b"\xff\xfe\n", REQUEST])
def test_the_first_mistake_of_a_stranger_ends_its_connection(kind, line) -> None:
    session = stranger(kind)
    assert not closes(session.receive(b"\r\n"))  # an empty line is none
    steps = session.receive(line)
    assert isinstance(steps[0], Send)
    assert closes(steps)


@pytest.mark.parametrize(
    "line",
    [b"BEGIN\n", b"PUBREL\n", b"BEGIN " + b" ".join(b"%d" % each for each in range(65)) + b"\n"],
)
def test_a_stranger_that_almost_publishes_is_ended_too(line) -> None:
    assert closes(stranger(PublisherSession).receive(line))


def test_a_stranger_is_not_known_before_its_message_is_durable() -> None:
    session = stranger(PublisherSession)
    for line in (b"BEGIN tea\n", b"green\n", b"END\n"):
        assert not closes(session.receive(line))
    assert closes(session.receive(b"HELLO\n"))


def test_a_login_that_failed_makes_nobody_known() -> None:
    session = stranger(ConsumerSession)
    session.receive(b"LOGIN billing\n")
    assert not closes(session.refused("UNAVAILABLE"))  # which is no mistake of the client
    assert closes(session.receive(b"SUBSCRIBE tea\n"))


@pytest.mark.parametrize("make", [known_publisher, named_publisher, known_consumer])
def test_who_is_known_may_mistype_but_never_speak_http(make) -> None:
    session = make()
    assert not closes(session.receive(b"HELLO\n"))
    assert not closes(session.receive(b"Host: 127.0.0.1:4060\r\n"))
    assert closes(session.receive(REQUEST))


def test_a_message_may_be_about_http() -> None:
    session = known_publisher()
    for line in (b"BEGIN tea\n", REQUEST, b"END\n"):
        assert not closes(session.receive(line))
    store = session.receive(b"PUBREL\n")[0]
    assert isinstance(store, Store)
    assert store.payload == REQUEST
