"""The gate before a log: which right each command takes, of all that there are."""

from __future__ import annotations

from typing import get_args

import pytest

from handshake.roles import Rights
from stores import commands
from stores.actions import WriterId
from stores.commands import Content, InternalCommand, NotAllowedCommand
from stores.encoding import decode_command, encode_command
from stores.epochs import promoted
from stores.gatekeeping import Guard, Post
from stores.log import messages
from stores.log.encoding import decode_message, encode_message, encode_requests
from stores.log.messages import Append, ForgetConsumer, MoveCursor, Requests, Trim
from wire.errors import ErrorCode
from wire.identifiers import EndpointId, EntityId

OURS, THEIRS = EntityId(EndpointId(b"m" * 16), 1), EntityId(EndpointId(b"c" * 16), 7)
WRITER = WriterId.of(THEIRS, 1)
NONE, READ, WRITE = Rights(), Rights(read=True), Rights(write=True)
BOTH = Rights(read=True, write=True)

KEEPER = Post(OURS, 5, is_master=True)
FOLLOWER = Post(OURS, 0, is_master=False)


def takes(post: Post, rights: Rights, payload: bytes) -> bool:
    return Guard("s", "'x'", rights).examine(post, payload) is None


def command(content: Content, epoch: int = 5) -> bytes:
    return encode_command(InternalCommand(1, THEIRS, 1, epoch, content))


OF_READERS = [
    commands.CumulativeAckCommand(),
    commands.NackCommand((1,)),
    commands.HandshakeRequestCommand(WRITER, 0),
]
OF_ANYBODY = [
    commands.DetachCommand(),
    commands.AttachWriterCommand(1),
    commands.KeepaliveCommand(),
    commands.RetransmitFailedCommand(),
    commands.UnknownConsumerCommand(),
]
name_of = lambda content: type(content).__name__  # noqa: E731 - it names the cases


@pytest.mark.parametrize("content", OF_READERS, ids=name_of)
def test_a_keeper_takes_this_of_readers(content):
    taken = [takes(KEEPER, rights, command(content)) for rights in (NONE, WRITE, READ, BOTH)]
    assert taken == [False, False, True, True]


@pytest.mark.parametrize("content", OF_ANYBODY, ids=name_of)
def test_a_keeper_takes_this_of_everybody(content):
    assert all(takes(KEEPER, rights, command(content)) for rights in (NONE, WRITE, READ, BOTH))


def test_only_a_leader_deposes():
    later = promoted(5, 0)
    for content in (commands.HandshakeRequestCommand(WRITER, 0), commands.DetachCommand()):
        assert takes(KEEPER, BOTH, command(content))
        assert not takes(KEEPER, BOTH, command(content, later))


SPEAKING = [
    commands.Actions([b"action"]),
    commands.KeepaliveCommand(),
    commands.NotAllowedCommand(is_reading=True, text="go"),
    commands.CumulativeAckCommand(),
]


@pytest.mark.parametrize("content", SPEAKING, ids=name_of)
def test_only_a_leader_speaks_to_copies(content):
    assert not takes(FOLLOWER, BOTH, command(content))


def test_every_content_of_a_consumer_has_a_right_that_it_takes():
    known = {type(content) for content in (*OF_READERS, *OF_ANYBODY)}
    assert set(get_args(commands.ConsumerControl)) <= known


# Answers.


def test_a_follower_without_the_right_to_read_is_told_so_in_its_session():
    payload = command(commands.HandshakeRequestCommand(WRITER, 0))
    refusal = Guard("s", "'x' (role r)", WRITE).examine(KEEPER, payload)
    assert refusal.text == "'x' (role r) may not read s"
    (effect,) = refusal.answer
    told = decode_command(effect.payload)
    assert effect.to == THEIRS.endpoint
    assert told.content == NotAllowedCommand(True, refusal.text)
    assert told.session == 1


def test_who_wants_to_lead_is_not_even_answered():
    payload = command(commands.DetachCommand(), promoted(5, 0))
    assert not Guard("s", "'x'", BOTH).examine(KEEPER, payload).answer


# Logs.


def asked(*requests) -> bytes:
    return command(commands.Actions([encode_requests(Requests(WRITER, 1, 0, requests))]))


MOVE = MoveCursor("c", ((0, 1),))


def test_cursors_are_for_readers_and_all_else_in_a_log_for_writers():
    assert [takes(KEEPER, rights, asked(MOVE, MOVE)) for rights in (NONE, READ, WRITE)] == [0, 1, 1]
    for request in (Append(0, None, 0, (b"k", b"v")), ForgetConsumer("c"), Trim(0, 1)):
        assert [takes(KEEPER, rights, asked(request)) for rights in (READ, WRITE)] == [0, 1]
        assert not takes(KEEPER, READ, asked(MOVE, request)), "nor hidden behind a cursor"


@pytest.mark.parametrize(
    "query",
    [messages.StateQuery(3), messages.TimeQuery(3, 0, 0), messages.Fetch(3, ((0, 0),), 9, 0)],
    ids=name_of,
)
def test_questions_to_a_keeper_are_for_readers(query):
    payload = encode_message(THEIRS, query)
    assert [takes(KEEPER, rights, payload) for rights in (NONE, WRITE, READ)] == [0, 0, 1]
    (answer,) = Guard("s", "'x'", WRITE).examine(KEEPER, payload).answer
    _, failed = decode_message(answer.payload)
    assert (failed.query, failed.code) == (3, ErrorCode.NOT_AUTHORIZED)


def test_followers_are_readers_and_keepers_are_leaders():
    join = encode_message(THEIRS, messages.Join(1, 1, 1, (0,), 0))
    hello = encode_message(THEIRS, messages.Hello(1, 0, WRITER, 0))
    proclaim = encode_message(THEIRS, messages.Proclaim(9))
    assert [takes(KEEPER, rights, join) for rights in (NONE, WRITE, READ)] == [0, 0, 1]
    assert takes(KEEPER, NONE, hello)
    of_a_later_term = encode_message(THEIRS, messages.Hello(1, 5 << 48, WRITER, 0))
    assert not takes(KEEPER, BOTH, of_a_later_term), "it would depose the keeper"
    assert not takes(KEEPER, BOTH, proclaim)
    assert not takes(FOLLOWER, BOTH, hello)
