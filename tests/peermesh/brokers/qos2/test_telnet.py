"""The transcripts of the seed, word for word, over raw sockets."""

from __future__ import annotations

import hashlib

import pytest
import trio

from endpoint import Endpoint
from peermesh.brokers.qos2.broker import Ports, open_broker
from peermesh.brokers.qos2.limits import Pace

DATA = "message data\nmessage data\nmessage data\n"
ANY_PORTS = Ports(publishers=0, consumers=0)


class Telnet:
    """A person: says lines, and sees everything that comes."""

    def __init__(self, stream: trio.SocketStream, line_end: str) -> None:
        self.stream = stream
        self.line_end = line_end
        self.seen = ""

    async def type(self, text: str) -> None:
        await self.stream.send_all(text.replace("\n", self.line_end).encode())

    async def see(self, text: str) -> None:
        """Wait until exactly this has come, and nothing else."""
        while len(self.seen) < len(text):
            data = await self.stream.receive_some()
            assert data, f"the connection ended after {self.seen!r}"
            self.seen += data.decode()
        assert self.seen[: len(text)] == text
        self.seen = self.seen[len(text) :]

    async def see_end(self) -> None:
        assert not self.seen
        assert await self.stream.receive_some() == b""


@pytest.fixture
async def telnet():
    """Open connections, all closed at the end."""
    opened = []

    async def connect(port, line_end="\n"):
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        opened.append(stream)
        return Telnet(stream, line_end)

    yield connect
    for stream in opened:
        await trio.aclose_forcefully(stream)


@pytest.fixture
async def broker():
    pace = Pace(resend_seconds=0.001)
    async with Endpoint() as endpoint, open_broker(endpoint, None, ANY_PORTS, pace) as running:
        yield running


async def publish(person: Telnet, topics: str = "topic_name", data: str = DATA) -> None:
    await person.type(f"BEGIN {topics}\n{data}END\n")
    await person.see("PUBREC\n")
    await person.type("PUBREL\n")
    await person.see("PUBCOMP\n")


async def consume(person: Telnet, topic: str = "topic_name", data: str = DATA) -> None:
    await person.see(f"BEGIN {topic}\n{data}END\n")
    await person.type(f"PUBREC {hashlib.md5(data.encode()).hexdigest()}\n")
    await person.see("PUBREL\n")
    await person.type("PUBCOMP\n")


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
async def test_the_transcript_of_the_document(broker, telnet, line_end):
    """With telnet's line ends too: there the person finds the MD5 of the text as it was typed."""
    publisher = await telnet(broker.publisher_port, line_end)
    consumer = await telnet(broker.consumer_port, line_end)
    await consumer.type("LOGIN consumer_name\n\nSUBSCRIBE topic_name\n")

    await publisher.type("BEGIN topic_name\nmessage data\nmessage data\nmessage data\nEND\n\n")
    await publisher.see("PUBREC\n")
    await publisher.type("\nPUBREL\n\n")
    await publisher.see("PUBCOMP\n")

    data = DATA.replace("\n", line_end)
    await consumer.see(f"BEGIN topic_name\n{data}END\n")
    message_data_md5_hash = hashlib.md5(DATA.encode()).hexdigest()
    await consumer.type(f"\nPUBREC {message_data_md5_hash}\n\n")
    await consumer.see("PUBREL\n")
    await consumer.type("\nPUBCOMP\n")

    # Nothing else came: what comes next is the next message.
    await publish(publisher)
    await consume(consumer, data=data)
    assert broker.statistics()["published"] == 2


async def test_one_begin_publishes_on_several_topics(broker, telnet):
    publisher = await telnet(broker.publisher_port)
    await publish(publisher, "tea coffee tea")
    for name in ("tea", "coffee"):
        consumer = await telnet(broker.consumer_port)
        await consumer.type(f"LOGIN {name}\nSUBSCRIBE {name}\n")
        await consume(consumer, name)


async def test_one_message_is_in_flight_and_the_next_comes_after_pubcomp(broker, telnet):
    publisher = await telnet(broker.publisher_port)
    consumer = await telnet(broker.consumer_port)
    await consumer.type("LOGIN billing\nSUBSCRIBE tea\nSUBSCRIBE coffee\n")
    await publish(publisher, "tea", "first\n")
    await consumer.see("BEGIN tea\nfirst\nEND\n")
    await publish(publisher, "coffee", "second\n")
    await consumer.type("SUBSCRIBE milk\nPUBREC 8b04d5e3775d298e78455efc5ca404d5\n")
    await consumer.see("PUBREL\n")
    await consumer.type("PUBCOMP\n")
    await consume(consumer, "coffee", "second\n")


async def test_a_consumer_that_comes_back_finds_its_backlog(broker, telnet):
    publisher = await telnet(broker.publisher_port)
    for text in ("one\n", "two\n", "three\n"):
        await publish(publisher, "tea", text)
    first = await telnet(broker.consumer_port)
    await first.type("LOGIN billing\nSUBSCRIBE tea\n")
    await consume(first, "tea", "one\n")
    await first.see("BEGIN tea\ntwo\nEND\n")
    await first.stream.aclose()

    again = await telnet(broker.consumer_port)
    await again.type("LOGIN billing\nSUBSCRIBE tea\n")
    await consume(again, "tea", "two\n")
    await consume(again, "tea", "three\n")
    other = await telnet(broker.consumer_port)
    await other.type("LOGIN shipping\nSUBSCRIBE tea\n")
    await other.see("BEGIN tea\none\nEND\n")


async def test_who_unsubscribes_finishes_what_is_in_flight_and_gets_nothing_more(broker, telnet):
    publisher = await telnet(broker.publisher_port)
    await publish(publisher, "tea", "one\n")
    await publish(publisher, "tea", "two\n")
    await publish(publisher, "coffee", "three\n")
    consumer = await telnet(broker.consumer_port)
    await consumer.type("LOGIN billing\nSUBSCRIBE tea\n")
    await consumer.see("BEGIN tea\none\nEND\n")
    await consumer.type("UNSUBSCRIBE tea\nPUBREC 5bbf5a52328e7439ae6e719dfe712200\n")
    await consumer.see("PUBREL\n")
    await consumer.type("PUBCOMP\nSUBSCRIBE coffee\n")
    await consume(consumer, "coffee", "three\n")
    await consumer.type("SUBSCRIBE tea\n")
    await consume(consumer, "tea", "two\n")


async def test_three_resends_and_then_the_dead_letter_topic(broker, telnet):
    publisher = await telnet(broker.publisher_port)
    consumer = await telnet(broker.consumer_port)
    await consumer.type("LOGIN billing\nSUBSCRIBE tea\n")
    await publish(publisher, "tea", "poison\n")
    for _ in range(4):
        await consumer.see("BEGIN tea\npoison\nEND\n")
        await consumer.type("PUBREC 00000000000000000000000000000000\n")
    await publish(publisher, "tea", "good\n")
    await consume(consumer, "tea", "good\n")
    undertaker = await telnet(broker.consumer_port)
    await undertaker.type("LOGIN undertaker\nSUBSCRIBE dead_letter\n")
    await consume(undertaker, "dead_letter", "poison\n")
    assert broker.statistics()["buried"] == 1


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("SUBSCRIBE tea\n", "ERROR LOGIN FIRST\n"),
        ("UNSUBSCRIBE tea\n", "ERROR LOGIN FIRST\n"),
        ("HELLO\n", "ERROR INVALID COMMAND\n"),
        ("LOGIN\n", "ERROR INVALID COMMAND\n"),
        ("PUBREC 5bbf5a52328e7439ae6e719dfe712200\n", "ERROR NO MESSAGE\n"),
        ("PUBCOMP\n", "ERROR INVALID COMMAND\n"),
        ("LOGIN a\nLOGIN b\n", "ERROR LOGGED IN ALREADY\n"),
        ("\xff\n", "ERROR INVALID COMMAND\n"),
    ],
)
async def test_a_consumer_is_told_of_its_mistakes(broker, telnet, said, answer):
    consumer = await telnet(broker.consumer_port)
    await consumer.stream.send_all(said.encode("latin-1"))
    await consumer.see(answer)


@pytest.mark.parametrize("said", ["HELLO\n", "BEGIN\n", "PUBREL\n", "BEGIN t\nx\nEND\nPUBCOMP\n"])
async def test_a_publisher_that_is_known_is_told_of_its_mistakes_and_may_go_on(
    broker, telnet, said
):
    publisher = await telnet(broker.publisher_port)
    await publish(publisher)
    await publisher.type(said)
    await publisher.see("PUBREC\nERROR\n" if "END" in said else "ERROR\n")
    await publish(publisher)
    assert broker.statistics()["published"] == 2


async def test_the_later_login_of_a_name_ends_the_earlier_connection(broker, telnet):
    first = await telnet(broker.consumer_port)
    await first.type("LOGIN billing ids\n")
    await first.see("OK ids\n")
    second = await telnet(broker.consumer_port)
    await second.type("LOGIN billing\n")
    await first.see("ERROR TAKEN OVER\n")
    await first.see_end()


async def test_a_line_without_end_closes_its_connection_and_no_other(broker, telnet):
    endless = await telnet(broker.publisher_port)
    other = await telnet(broker.publisher_port)
    await endless.type("x" * 70_000)
    await endless.see("ERROR LINE TOO LONG\n")
    await publish(other)
