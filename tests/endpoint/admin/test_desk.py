"""Requests at the desk: rights, arguments, rates, and what is remembered. The clock is ours."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from endpoint.admin.desk import (
    BUSY,
    CACHE_SECONDS,
    REQUESTS_PER_ASKER,
    REQUESTS_PER_SECOND,
    UNDER_WAY_MAX,
    VERBS,
    Desk,
    Perform,
    Reply,
)
from endpoint.admin.protocol import Failed, Request, decode_answer
from handshake.roles import EVERYTHING, NOTHING, Role, Roles
from wire.errors import ErrorCode
from wire.identifiers import EndpointId

PARSED = Roles.parse(
    """
[roles.observer]
observe = true
[roles.operator]
operate = true
publish = [""]
subscribe = [""]
read = ["*"]
write = ["*"]
relay = true
[roles.leader]
lead = ["cities", "log-*"]
"""
).roles
ROLES = {"everything": EVERYTHING, "nothing": NOTHING, **PARSED}


def asker(number: int) -> EndpointId:
    return EndpointId(number.to_bytes(16))


class Rights:
    """Gives everybody one role."""

    def __init__(self, role: Role) -> None:
        self._role = role

    def role(self, origin: EndpointId) -> Role:
        return self._role

    def who(self, origin: EndpointId) -> str:
        return "'it' (role some)"


def desk(role: str = "everything") -> Desk:
    return Desk(Rights(ROLES[role]))


def failure(reply: Reply | Perform) -> Failed:
    assert isinstance(reply, Reply)
    found = decode_answer(reply.payload).result
    assert isinstance(found, Failed)
    return found


PERMITTED = {
    ("describe",): {"everything", "observer"},
    ("promote", "cities", False): {"everything", "leader"},
    ("lead-log", "log-1", True): {"everything", "leader"},
    ("promote", "other", True): {"everything"},
}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("asked", PERMITTED, ids=str)
def test_each_verb_takes_its_right_and_a_refusal_names_it(asked, role) -> None:
    verb, *arguments = asked
    found = desk(role).take(asker(1), Request(7, verb, tuple(arguments)), 0)
    if role in PERMITTED[asked]:
        assert found == Perform(asker(1), Request(7, verb, tuple(arguments)))
        return
    refused = failure(found)
    assert refused.code is ErrorCode.NOT_AUTHORIZED
    right = "observe = true" if verb == "describe" else f"{arguments[0]!r} in lead"
    assert refused.text == f"'it' (role some) may not {verb}: its role needs {right}"
    assert (found.to, found.refusal) == (asker(1), refused.text)


scalars = st.none() | st.booleans() | st.integers() | st.text() | st.binary()


@given(st.sampled_from([*VERBS, "", "shutdown"]), st.lists(scalars, max_size=3).map(tuple))
def test_whatever_is_asked_of_any_verb_is_carried_out_or_answered(verb, arguments) -> None:
    found = desk().take(asker(1), Request(7, verb, arguments), 0)
    known = VERBS.get(verb)
    if known is not None and tuple(map(type, arguments)) == known.arguments:
        assert isinstance(found, Perform)
    else:
        assert failure(found).code is ErrorCode.INVALID_DATA
        assert found.to == asker(1)


def describe(desk: Desk, now: float, sender: int = 1) -> str:
    found = desk.take(asker(sender), Request(1, "describe", ()), now)
    if isinstance(found, Perform):
        desk.finish(found, {"v": 1}, now)
        return "performed"
    answer = decode_answer(found.payload).result
    if isinstance(answer, Failed):
        assert answer == Failed(ErrorCode.LIMIT_EXCEEDED, BUSY)
        return "busy"
    return "cached"


def test_an_asker_has_so_many_requests_a_second_and_others_are_busy() -> None:
    here = desk()
    answers = [describe(here, 100.0) for _ in range(4 * REQUESTS_PER_ASKER)]
    assert answers.count("busy") == 3 * REQUESTS_PER_ASKER
    assert answers[:REQUESTS_PER_ASKER] == ["performed", *["cached"] * (REQUESTS_PER_ASKER - 1)]
    assert describe(here, 100.0, sender=2) == "cached", "another asker is not held up"
    later = [describe(here, 101.0) for _ in range(2 * REQUESTS_PER_ASKER)]
    assert later.count("busy") == REQUESTS_PER_ASKER


def test_an_endpoint_answers_so_many_requests_a_second_to_all_askers() -> None:
    here = desk()
    answers = [
        describe(here, 100.0, sender)
        for sender in range(1, 11)
        for _ in range(REQUESTS_PER_ASKER // 2)
    ]
    assert len(answers) - answers.count("busy") == REQUESTS_PER_SECOND
    assert describe(here, 100.1, sender=99) != "busy", "room comes back at once"


def test_many_askers_are_not_remembered_for_ever() -> None:
    here = desk()
    for number in range(5_000):
        describe(here, 100.0 + number, sender=number)
    assert len(here._askers) <= 1_024


def test_a_snapshot_is_made_once_in_a_quarter_of_a_second_for_all_askers() -> None:
    here = desk()
    times = (0.0, 0.1, CACHE_SECONDS, CACHE_SECONDS + 0.01, CACHE_SECONDS + 0.1)
    found = [describe(here, 50 + at, sender) for sender, at in enumerate(times)]
    assert found == ["performed", "cached", "cached", "performed", "cached"]


def test_who_may_not_see_it_is_not_given_what_is_remembered() -> None:
    here = desk()
    assert describe(here, 0) == "performed"
    here._permissions = Rights(ROLES["leader"])
    found = here.take(asker(1), Request(1, "describe", ()), 0)
    assert failure(found).code is ErrorCode.NOT_AUTHORIZED


def test_a_failure_is_not_remembered() -> None:
    here = desk()
    found = here.take(asker(1), Request(1, "describe", ()), 0)
    assert isinstance(found, Perform)
    reply = here.finish(found, Failed.of(OSError("no memory")), 0)
    assert failure(reply).text == "OSError: no memory"
    assert describe(here, 0) == "performed"


def test_what_takes_time_is_bounded_and_does_not_keep_others_from_looking() -> None:
    here = desk()
    requests = [Request(number, "promote", (f"s{number}", True)) for number in range(20)]
    begun = [here.take(asker(1), request, 0) for request in requests]
    performed = [each for each in begun if isinstance(each, Perform)]
    assert len(performed) == UNDER_WAY_MAX
    assert {failure(each).text for each in begun[UNDER_WAY_MAX:]} == {BUSY}
    assert describe(here, 0, sender=3) == "performed"
    here.finish(performed[0], "done", 0)
    assert isinstance(here.take(asker(2), requests[19], 0), Perform)


def test_a_result_that_is_no_value_is_an_error_answer() -> None:
    here = desk()
    found = here.take(asker(1), Request(1, "describe", ()), 0)
    assert isinstance(found, Perform)
    assert failure(here.finish(found, object(), 0)).code is ErrorCode.SERIALIZATION_FAILED
