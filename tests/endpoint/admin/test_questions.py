"""Which answers count: those of the endpoint that was asked, to a request that waits."""

from __future__ import annotations

from endpoint.admin.protocol import Answer
from endpoint.admin.questions import Questions
from wire.identifiers import EndpointId

ASKED, OTHER = EndpointId(b"a" * 16), EndpointId(b"o" * 16)


def test_numbers_begin_at_random_and_go_round() -> None:
    assert Questions(bytes(7) + b"\5" + b"rest").ask(ASKED, "describe", ()).number == 5
    last = Questions(b"\xff" * 32)
    numbers = [last.ask(ASKED, "describe", ()).number for _ in range(2)]
    assert numbers == [2**64 - 1, 0]


def test_an_answer_counts_from_the_endpoint_that_was_asked_alone() -> None:
    questions = Questions(bytes(32))
    request = questions.ask(ASKED, "describe", ())
    answer = Answer(request.number, "x")
    assert questions.is_asked(ASKED)
    assert questions.takes(ASKED, answer)
    assert not questions.is_asked(OTHER)
    assert not questions.takes(OTHER, answer)
    assert not questions.takes(ASKED, Answer(request.number + 1, "x"))
    questions.end(request)
    assert not questions.takes(ASKED, answer), "it waits no longer"
    assert not questions.is_asked(ASKED)
