"""Requests and answers as bytes: what comes out is what went in, and anything else is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from endpoint.admin.protocol import (
    ANSWER_SIZE_MAX,
    REQUEST_SIZE_MAX,
    REQUEST_VALUES_MAX,
    Answer,
    Failed,
    Request,
    decode_answer,
    decode_request,
    encode_answer,
    encode_request,
    is_answer,
)
from wire.encoding import encode
from wire.errors import (
    DecodeError,
    EncodeError,
    ErrorCode,
    LimitExceeded,
    MeshError,
    NotAllowed,
    PromotionRefused,
)
from wire.limits import TOPIC_SIZE_MAX
from wire.plain import plain
from wire.scalars import COUNT_MAX, Count

numbers = st.integers(0, COUNT_MAX)
scalars = (
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5) | st.binary(max_size=5)
)
ONE = Count(1)


@given(numbers, st.text(max_size=9), st.lists(scalars, max_size=8).map(tuple))
def test_a_request_comes_out_as_it_went_in(number, verb, arguments) -> None:
    request = Request(number, verb, arguments)
    payload = encode_request(request)
    assert decode_request(payload) == request
    assert not is_answer(payload)


@given(numbers, scalars, st.sampled_from(ErrorCode), st.text(max_size=20))
def test_an_answer_comes_out_as_it_went_in(number, result, code, text) -> None:
    for answer in (Answer(number, result), Answer(number, Failed(code, text))):
        payload = encode_answer(answer)
        assert is_answer(payload)
        assert decode_answer(payload) == answer


def test_the_longest_name_of_a_store_fits() -> None:
    request = Request(COUNT_MAX, "promote", ("s" * TOPIC_SIZE_MAX, True))
    assert decode_request(encode_request(request)) == request


@pytest.mark.parametrize(
    "arguments",
    [(b"x" * REQUEST_SIZE_MAX,), tuple(range(REQUEST_VALUES_MAX)), (((((1,),),),),)],
    ids=["too long", "too many", "too deep"],
)
def test_what_no_endpoint_takes_is_not_sent_and_not_taken(arguments) -> None:
    with pytest.raises(EncodeError):
        encode_request(Request(1, "describe", arguments))
    with pytest.raises(DecodeError) as caught:
        decode_request(encode((0, ONE, "describe", arguments)))
    assert caught.value.code is ErrorCode.LIMIT_EXCEEDED


BAD = [
    (0, 1, "describe", ()),
    (0, ONE, b"describe", ()),
    (0, ONE, "describe", 1),
    (0, ONE, "describe"),
    (0, ONE, "describe", (), ()),
    (False, ONE, "describe", ()),
    (1, ONE, "describe", ()),
    (1, 1, True, None),
    (1, ONE, 1, None),
    (1, ONE, False, "text"),
    (1, ONE, False, (1, b"text")),
    (1, ONE, False, ("1", "text")),
    (True, ONE, True, None),
    (2, ONE, True, None),
    "text",
    None,
]


@pytest.mark.parametrize("parts", BAD, ids=repr)
def test_anything_else_is_refused(parts) -> None:
    for read in (decode_request, decode_answer):
        with pytest.raises(DecodeError):
            read(encode(parts))


@given(st.binary(max_size=40))
def test_noise_is_refused(noise) -> None:
    for read in (decode_request, decode_answer):
        try:
            found = read(b"\x84" + noise)
        except DecodeError:
            continue
        assert isinstance(found, Request | Answer)


def test_lists_are_cut_where_an_answer_would_be_too_large_and_say_so() -> None:
    large = {"v": 1, "peers": ["p" * 1_000] * 5_000, "stores": ["s"] * 100, "none": []}
    payload = encode_answer(Answer(1, large))
    assert len(payload) <= ANSWER_SIZE_MAX
    found = plain(decode_answer(payload).result)
    assert found["stores"] == ["s"] * 100, "what is small stays whole"
    assert len(found["peers"]) == 625
    assert found["cut"] == {"peers": 4_375}
    one = {"a": ["x" * ANSWER_SIZE_MAX], "b": ["y" * ANSWER_SIZE_MAX]}
    found = plain(decode_answer(encode_answer(Answer(1, one))).result)
    assert found == {"a": [], "b": [], "cut": {"a": 1, "b": 1}}


@pytest.mark.parametrize("result", ["x" * ANSWER_SIZE_MAX, {"a": "x" * ANSWER_SIZE_MAX}, object()])
def test_what_cannot_be_cut_is_an_error(result) -> None:
    with pytest.raises(EncodeError):
        encode_answer(Answer(1, result))


def test_an_answer_that_is_too_large_is_not_decoded() -> None:
    with pytest.raises(DecodeError):
        decode_answer(encode((1, ONE, True, "x" * ANSWER_SIZE_MAX)))


def test_errors_arrive_as_what_they_were_and_their_text_has_a_limit() -> None:
    for error in (NotAllowed("no"), LimitExceeded("busy"), PromotionRefused("alive")):
        again = Failed.of(error).error()
        assert (type(again), str(again)) == (type(error), str(error))
    unknown = Failed.of(ZeroDivisionError("by zero"))
    assert unknown == Failed(ErrorCode.UNSPECIFIED, "ZeroDivisionError: by zero")
    assert type(unknown.error()) is MeshError
    long = decode_answer(encode_answer(Answer(1, Failed(ErrorCode.NONE, "\ud800" * 9_999))))
    assert isinstance(long.result, Failed)
    assert long.result.text == "?" * 1_024
    later = decode_answer(encode((1, ONE, False, (9_999, "of a later version"))))
    assert later.result == Failed(ErrorCode.UNSPECIFIED, "of a later version")
