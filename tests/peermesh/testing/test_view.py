"""What is missing until nodes agree: each sentence names who lacks what."""

from __future__ import annotations

from peermesh.testing import view
from peermesh.testing.view import View, components, missing
from wire.clocks import LamportTime
from wire.decoding import decode
from wire.encoding import encode
from wire.identifiers import EndpointId
from wire.messages import Announcement

A, B, C = (EndpointId(letter * 16) for letter in (b"a", b"b", b"c"))


def said(origin: EndpointId, time: int, *links: EndpointId, topics: tuple[str, ...] = ()):
    return Announcement(origin, LamportTime(time), links, topics, (), True)


def seen(here: Announcement, *heard: Announcement) -> View:
    return View(here, heard, (("s", ""),), 2**63 + 1)


def test_nodes_agree_when_links_stand_and_news_is_the_latest():
    one, two = said(A, 3, B), said(B, 4, A)
    views = {"a": seen(one, two), "b": seen(two, one)}
    assert missing(views, [("b", "a")]) == []


def test_a_link_that_does_not_stand_is_named_with_who_misses_it():
    views = {"a": seen(said(A, 3, B)), "b": seen(said(B, 4))}
    assert missing(views, [("b", "a")])[0] == "the link b-a does not stand, as b see it"


def test_who_is_unknown_and_what_has_not_come_is_named():
    one, two, three = said(A, 3, B), said(B, 4, A, C), said(C, 5, B, topics=("/x",))
    views = {
        "a": seen(one, two, said(C, 4, B)),
        "b": seen(two, one, three),
        "c": seen(three, two),
    }
    assert missing(views, [("b", "a"), ("c", "b")]) == [
        "a has old news of c (of 4, not 5): topic '/x' has not come",
        "c does not know a",
    ]


def test_whom_no_link_connects_need_not_know_each_other():
    views = {"a": seen(said(A, 3)), "b": seen(said(B, 4))}
    assert missing(views, []) == []
    assert components(["a", "b", "c"], [("c", "a")]) == [["a", "c"], ["b"]]


def test_links_that_should_not_stand_are_named():
    views = {"a": seen(said(A, 3, B, C)), "b": seen(said(B, 4, A))}
    assert missing(views, [], gone={C: "c"}) == [
        "the link a-b stands still, as a sees it",
        "a has not noticed the end of c",
        "the link b-a stands still, as b sees it",
    ]
    assert missing(views, [], loose=[("b", "a")]) == []


def test_a_view_travels_as_a_value():
    sent = seen(said(A, 3, B), said(B, 4, A))
    assert view.from_value(decode(encode(view.to_value(sent)))) == sent
