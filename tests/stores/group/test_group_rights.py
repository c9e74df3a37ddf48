"""What each letter of a group takes of its sender: the table, and what counts as a voter's."""

from __future__ import annotations

from typing import get_args

import pytest

from handshake.access import Right
from handshake.roles import ALL_RIGHTS, VOTERS_RIGHTS, Rights
from stores.group.messages import ElectionMessage, FollowerMessage, Join, LeaderMessage, Message
from stores.group.positions import START, MemberId
from stores.group.rights import RIGHTS, GroupGuard, right_to
from stores.group.words import Aim, Ask, Barred, Farewell, Greeting, Letter, Looked, Seek, Word
from stores.table.bodies import ChangeQuota, Compare, Read, Register, TableRequest, Write
from stores.table.rights import REQUESTS, right_of
from tests.stores.group.test_group_codec import CONTENTS, GROUP, PUT
from tests.stores.table.lab import writer_id

VOTERS = frozenset({MemberId("a", 1), MemberId("b", 1)})
LEARNER = MemberId("d", 7)
READING, WRITING = Rights(read=True), Rights(read=True, write=True)
REFUSING = Rights()


def is_voter(member: MemberId) -> bool:
    return member in VOTERS


READERS = (Greeting, Farewell, Looked, Seek)


def letter(content: object, sender: MemberId = LEARNER) -> Letter:
    return Letter(sender, GROUP, content)


def guard(rights: Rights) -> GroupGuard:
    return GroupGuard("s", "'d' (role some)", rights)


def test_every_letter_and_every_request_is_in_the_table() -> None:
    assert set(RIGHTS) == {*get_args(Message), *get_args(Word)}
    assert set(REQUESTS) == set(get_args(TableRequest))


@pytest.mark.parametrize("content", CONTENTS, ids=repr)
def test_a_voter_may_say_all_and_a_stranger_nothing(content: object) -> None:
    for rights in (VOTERS_RIGHTS, ALL_RIGHTS):
        for sender in (LEARNER, MemberId("a", 1)):
            assert guard(rights).examine(letter(content, sender), is_voter, right_of) is None
    barred = guard(REFUSING).examine(letter(content), is_voter, right_of)
    if isinstance(content, Seek):
        assert barred is None, "who leads is announced to all"
        return
    assert barred is not None
    assert barred.text == f"'d' (role some) may not {barred.right} s"


@pytest.mark.parametrize("content", CONTENTS, ids=repr)
def test_a_reader_says_what_followers_say_and_asks_for_no_change(content: object) -> None:
    barred = guard(READING).examine(letter(content), is_voter, right_of)
    is_plain = not isinstance(content, Greeting) or content.aim is Aim.JOIN
    is_question = isinstance(content, Ask) and isinstance(content.request, Read)
    readers = (*get_args(FollowerMessage), *READERS)
    if is_question or (isinstance(content, readers) and is_plain):
        assert barred is None
    elif isinstance(content, Ask):
        assert barred == Barred(Right.WRITE, content.ticket, "'d' (role some) may not write s", 7)
    else:
        assert barred == Barred(Right.VOTE, None, "'d' (role some) may not vote s", 7)
        assert isinstance(content, (*get_args(ElectionMessage | LeaderMessage), *get_args(Word)))


def test_to_ask_for_a_vote_takes_the_right_to_vote() -> None:
    join = Join(3, 4, (START,), wants_vote=True)
    barred = guard(WRITING).examine(letter(join), is_voter, right_of)
    assert barred == Barred(Right.VOTE, None, "'d' (role some) may not vote s", 7)
    assert guard(VOTERS_RIGHTS).examine(letter(join), is_voter, right_of) is None


@pytest.mark.parametrize("content", CONTENTS, ids=repr)
def test_what_is_said_in_the_name_of_a_voter_takes_the_right_to_vote(content: object) -> None:
    said = letter(content, MemberId("a", 1))
    barred = guard(WRITING).examine(said, is_voter, right_of)
    if isinstance(content, Seek):
        assert barred is None
    elif isinstance(content, Ask):
        assert barred is None, "its answer is for the endpoint that asks, whatever its name is"
    else:
        assert barred is not None
        assert barred.right is Right.VOTE


@pytest.mark.parametrize("request_", [Register(writer_id(2)), Write(8, PUT, 2)], ids=repr)
def test_a_writer_asks_for_changes(request_: TableRequest) -> None:
    assert guard(WRITING).examine(letter(Ask(4, request_)), is_voter, right_of) is None
    only = guard(Rights(write=True))
    assert only.examine(letter(Ask(4, request_)), is_voter, right_of) is None
    assert only.examine(letter(Greeting((), is_question=True)), is_voter, right_of) is not None


@pytest.mark.parametrize("kind", [ChangeQuota, Compare])
def test_what_concerns_all_of_the_store_takes_the_right_to_vote(kind: type) -> None:
    assert right_to(letter(Ask(4, kind.__new__(kind))), is_voter, right_of) is Right.VOTE


def test_an_endpoint_that_has_less_than_before_learns_the_first_right_that_it_lacks() -> None:
    assert guard(READING).dismiss().right is Right.VOTE
    assert guard(Rights(write=True)).dismiss().right is Right.READ
