"""The directory alone: who proposes, who waits, and what a new peering means for others."""

from __future__ import annotations

import pytest

from handshake.directory import Claim, Confirmation, ConnectionId, PeerDirectory, Standing
from wire.identifiers import EndpointId

LOW, HIGH, THIRD = (EndpointId(bytes(15) + bytes((last,))) for last in (1, 2, 3))
FIRST, SECOND, LATER = map(ConnectionId, (1, 2, 3))


@pytest.fixture
def originator():
    return PeerDirectory(LOW)


@pytest.fixture
def responder():
    return PeerDirectory(HIGH)


def test_the_first_connection_is_granted_and_the_others_wait(originator):
    assert originator.claim(HIGH, FIRST) is Claim.GRANTED
    assert originator.claim(HIGH, SECOND) is Claim.PENDING
    assert originator.claim(HIGH, LATER) is Claim.PENDING
    assert originator.standing(HIGH) is Standing.DECIDING


def test_claims_for_different_peers_do_not_meet(originator):
    assert originator.claim(HIGH, FIRST) is Claim.GRANTED
    assert originator.claim(THIRD, SECOND) is Claim.GRANTED


def test_asking_again_changes_nothing(originator):
    originator.claim(HIGH, FIRST)
    originator.claim(HIGH, SECOND)
    assert originator.claim(HIGH, FIRST) is Claim.GRANTED
    assert originator.claim(HIGH, SECOND) is Claim.PENDING


def test_when_the_granted_connection_fails_the_next_one_is_up(originator):
    originator.claim(HIGH, FIRST)
    originator.claim(HIGH, SECOND)
    originator.claim(HIGH, LATER)
    assert originator.release(HIGH, FIRST) == SECOND
    assert originator.claim(HIGH, LATER) is Claim.PENDING
    assert originator.claim(HIGH, SECOND) is Claim.GRANTED


def test_when_a_waiting_connection_fails_nobody_moves_up(originator):
    originator.claim(HIGH, FIRST)
    originator.claim(HIGH, SECOND)
    originator.claim(HIGH, LATER)
    assert originator.release(HIGH, SECOND) is None
    assert originator.release(HIGH, FIRST) == LATER


def test_when_the_last_claim_is_released_the_peer_is_forgotten(originator):
    originator.claim(HIGH, FIRST)
    assert originator.release(HIGH, FIRST) is None
    assert originator.standing(HIGH) is Standing.FREE


def test_a_confirmed_connection_makes_all_others_redundant(originator):
    originator.claim(HIGH, FIRST)
    originator.claim(HIGH, SECOND)
    originator.claim(HIGH, LATER)
    assert originator.confirm(HIGH, FIRST) == Confirmation(None, (SECOND, LATER))
    assert originator.claim(HIGH, SECOND) is Claim.REDUNDANT
    assert originator.release(HIGH, SECOND) is None
    assert originator.claim(HIGH, LATER) is Claim.REDUNDANT
    assert originator.release(HIGH, LATER) is None
    assert originator.standing(HIGH) is Standing.PEERED
    assert originator.connection(HIGH) == FIRST


def test_after_the_end_of_a_peering_a_new_connection_is_granted(originator):
    originator.claim(HIGH, FIRST)
    originator.confirm(HIGH, FIRST)
    assert originator.release(HIGH, FIRST) is None
    assert originator.standing(HIGH) is Standing.FREE
    assert originator.claim(HIGH, SECOND) is Claim.GRANTED


def test_a_connection_that_waits_cannot_be_confirmed(originator):
    originator.claim(HIGH, FIRST)
    originator.claim(HIGH, SECOND)
    with pytest.raises(AssertionError, match="no claim"):
        originator.confirm(HIGH, SECOND)


def test_only_the_smaller_id_claims_and_only_the_larger_answers(originator, responder):
    with pytest.raises(AssertionError):
        responder.claim(LOW, FIRST)
    with pytest.raises(AssertionError):
        originator.answer(HIGH, FIRST)


def test_an_acknowledged_proposal_replaces_the_peering_that_the_originator_has_given_up(responder):
    responder.answer(LOW, FIRST)
    assert responder.confirm(LOW, FIRST) == Confirmation(None, ())
    responder.answer(LOW, SECOND)
    assert responder.connection(LOW) == FIRST, "a proposal alone proves nothing"
    assert responder.confirm(LOW, SECOND) == Confirmation(FIRST, ())
    assert responder.connection(LOW) == SECOND


def test_the_end_of_a_replaced_peering_leaves_its_successor_alone(responder):
    responder.answer(LOW, FIRST)
    responder.confirm(LOW, FIRST)
    responder.answer(LOW, SECOND)
    responder.confirm(LOW, SECOND)
    assert responder.release(LOW, FIRST) is None
    assert responder.connection(LOW) == SECOND


def test_proposals_answered_before_the_acknowledged_one_are_void_and_later_ones_are_not(responder):
    for connection in (FIRST, SECOND, LATER):
        responder.answer(LOW, connection)
    assert responder.confirm(LOW, SECOND) == Confirmation(None, (FIRST,))
    responder.release(LOW, FIRST)
    assert responder.confirm(LOW, LATER) == Confirmation(SECOND, ())


def test_a_responder_never_moves_anybody_up(responder):
    responder.answer(LOW, FIRST)
    responder.answer(LOW, SECOND)
    assert responder.release(LOW, FIRST) is None
    assert responder.standing(LOW) is Standing.DECIDING


def test_when_a_peering_ends_while_a_proposal_is_answered_the_peer_is_being_decided(responder):
    responder.answer(LOW, FIRST)
    responder.confirm(LOW, FIRST)
    responder.answer(LOW, SECOND)
    assert responder.release(LOW, FIRST) is None
    assert responder.standing(LOW) is Standing.DECIDING
    assert responder.confirm(LOW, SECOND) == Confirmation(None, ())


def test_releasing_what_is_not_held_changes_nothing(originator):
    assert originator.release(HIGH, FIRST) is None
    originator.claim(HIGH, FIRST)
    assert originator.release(HIGH, SECOND) is None
    assert originator.standing(HIGH) is Standing.DECIDING


def test_peers_are_listed_in_the_order_of_their_ids():
    directory = PeerDirectory(HIGH)
    directory.claim(THIRD, FIRST)
    directory.confirm(THIRD, FIRST)
    directory.answer(LOW, SECOND)
    assert directory.peers() == (THIRD,)
    directory.confirm(LOW, SECOND)
    assert directory.peers() == (LOW, THIRD)


def test_each_side_keeps_to_its_part_and_nobody_peers_with_itself(originator, responder):
    for wrong, told in (
        (lambda: originator.claim(LOW, FIRST), f"{LOW} does not originate with {LOW}"),
        (lambda: responder.claim(LOW, FIRST), f"{HIGH} does not originate with {LOW}"),
        (lambda: originator.answer(LOW, FIRST), f"{LOW} does not originate with {LOW}"),
        (lambda: originator.answer(HIGH, FIRST), f"{HIGH} does not originate with {LOW}"),
    ):
        with pytest.raises(AssertionError, match=told):
            wrong()


def test_what_was_not_granted_is_no_peering(originator, responder):
    originator.claim(HIGH, FIRST)
    originator.claim(HIGH, SECOND)
    with pytest.raises(AssertionError, match="connection 2 has no claim"):
        originator.confirm(HIGH, SECOND)
    responder.answer(LOW, FIRST)
    with pytest.raises(AssertionError, match="connection 1 was answered already"):
        responder.answer(LOW, FIRST)
