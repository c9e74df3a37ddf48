"""Lines that publishers and consumers of the QoS-2 broker send, cut anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from peermesh.brokers.qos2.commands import Login
from peermesh.brokers.qos2.consumer_session import ConsumerSession
from peermesh.brokers.qos2.errors import DialogueError
from peermesh.brokers.qos2.limits import ID_MAX, MESSAGE_SIZE_MAX, NAME_SIZE_MAX, Pace
from peermesh.brokers.qos2.lines import LineDecoder
from peermesh.brokers.qos2.publisher_session import PublisherSession
from peermesh.brokers.qos2.steps import (
    Bury,
    Close,
    Commit,
    Delivery,
    Enter,
    Fetch,
    Open,
    Send,
    Steps,
    Store,
)  # fmt: skip

KINDS = range(2)
PUBLISHER, CONSUMER = KINDS
HEAD_SIZE = 2
Session = PublisherSession | ConsumerSession


def check(data: bytes) -> None:
    """Say it to a session of the kind that the first byte says, in pieces as the second says."""
    if len(data) < HEAD_SIZE:
        return
    kind, size, data = data[0] % len(KINDS), data[1] or len(data), data[HEAD_SIZE:]
    whole = _hear(kind, [data])
    ends = [*range(0, len(data), size), len(data)]
    assert _hear(kind, [data[begin:end] for begin, end in pairwise(ends)]) == whole


def _hear(kind: int, pieces: list[bytes]) -> list[object]:
    session = PublisherSession(Pace()) if kind == PUBLISHER else ConsumerSession(Pace())
    decoder, seen = LineDecoder(), list[object](session.start())
    for piece in pieces:
        decoder.feed(piece)
        while not any(isinstance(step, Close) for step in seen):
            try:
                taken = decoder.take(session.body_size)
            except DialogueError:
                return [*seen, "too long"]
            if taken is None:
                break
            _follow(session, session.receive(taken), seen)
            assert not session.is_busy
    return seen


def _follow(session: Session, steps: Steps, seen: list[object]) -> None:
    """Do at once whatever is asked."""
    for step in steps:
        seen.append(step)
        if isinstance(session, PublisherSession):
            _for_publisher(session, step, seen)
        else:
            _for_consumer(session, step, seen)


def _for_publisher(session: PublisherSession, step: object, seen: list[object]) -> None:
    match step:
        case Store(publisher, number, topics, payload):
            assert (publisher is None) == (number is None)
            assert number is None or 0 < number <= ID_MAX
            assert topics
            assert all(0 < len(topic.encode()) <= NAME_SIZE_MAX for topic in topics)
            assert len(payload) <= MESSAGE_SIZE_MAX
            _follow(session, session.stored(), seen)
        case Send(data):
            assert data.endswith(b"\n")


def _for_consumer(session: ConsumerSession, step: object, seen: list[object]) -> None:
    match step:
        case Enter(Login()):
            _follow(session, session.entered(), seen)
        case Open():
            _follow(session, session.opened(), seen)
        case Fetch(number, topics) if topics:
            payload = b"" if number % 2 else b"text\nEND\n"  # which not all can be sent
            delivery = Delivery(topics[0], number - 1, payload)
            _follow(session, session.fetched(number, delivery), seen)
        case Commit():
            _follow(session, session.committed(), seen)
        case Bury():
            _follow(session, session.buried(), seen)


def seeds() -> Iterator[bytes]:
    """Give a dialogue for everything that can be said."""
    empty = "d41d8cd98f00b204e9800998ecf8427e"
    yield b"\x00\x05BEGIN tea coffee\nmessage data\nEND\n\nPUBREL\n"
    yield b"\x00\x00LOGIN till stuffed lengths\nBEGIN t id=1\n.END\nEND\nPUBREL id=1\n"
    yield b"\x00\x03LOGIN till lengths\nBEGIN t id=1 length=4\nEND\n\nEND\nPUBREL id=1\nPUBREL\n"
    yield b"\x00\x00HELLO\nBEGIN\nBEGIN tea\nx\nEND\nPUBCOMP\n"
    plain = f"LOGIN billing\nSUBSCRIBE tea\nPUBREC {empty}\nPUBCOMP\nUNSUBSCRIBE tea\n"
    yield b"\x01\x00" + plain.encode()
    yield (
        f"\x01\x07LOGIN billing lengths\nSUBSCRIBE t\nPUBREC {empty} id=t/1\nPUBCOMP id=t/1\n"
        "NACK id=t/2 final no\nNACK id=t/3 no\n"
    ).encode()
