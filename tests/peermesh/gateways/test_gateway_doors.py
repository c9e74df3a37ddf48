"""Gateways and the link to Zeek, from each door: the same functions, and the same mesh behind."""

from __future__ import annotations

from typing import Any

import pytest

from peermesh import aio, blocking
from peermesh.errors import InsecureAddress
from peermesh.testing.time_limits import limit
from tests.doors import DOORS, Block, Door, Raised, Steps, Try


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest) -> Door:
    return DOORS[request.param]


def test_two_meshes_are_joined_by_a_websocket(door: Door) -> None:
    told: list[Any] = []

    def script(api: Any) -> Steps:
        zeek = yield Block(api.Endpoint())
        here = yield Block(api.Endpoint())
        gateway = yield Block(api.serve_websocket(zeek))
        theirs = yield Block(zeek.subscribe("/out", local=True))
        mine = yield Block(here.subscribe("/in", local=True))
        status = yield Block(here.subscribe_status())
        join = api.link_zeek(
            here, gateway.url, to_zeek=["/out"], from_zeek=["/in"], callback=told.append
        )
        link = yield Block(join)
        while not told:
            yield Try(lambda: status.get(0.01))
        assert (told[0].kind, told[0].text) == ("connected", str(zeek.node_id()))
        yield here.publish("/out/1", "from here")
        assert (yield theirs.get(limit())) == ("/out/1", "from here")
        yield zeek.publish("/in/1", "from zeek")
        assert (yield mine.get(limit())) == ("/in/1", "from zeek")
        assert link.counts

    door.run(script)


def test_what_cannot_be_opened_says_why_and_the_endpoint_goes_on(door: Door) -> None:
    def script(api: Any) -> Steps:
        endpoint = yield Block(api.Endpoint())
        for manager, kind, words in (
            (lambda: api.link_zeek(endpoint, "ws://192.0.2.1:1"), InsecureAddress, "192.0.2.1"),
            (lambda: api.link_zeek(endpoint, "http://here"), ValueError, "no address of Zeek"),
            (lambda: api.link_zeek(endpoint, 5), TypeError, "url"),
            (lambda: api.link_zeek(endpoint, "ws://h:1", to_zeek=["a*"]), ValueError, "prefixes"),
            (lambda: api.serve_websocket(endpoint, host="192.0.2.1"), InsecureAddress, "192"),
            (lambda: api.serve_websocket(endpoint, port="http"), ValueError, "port"),
            (lambda: api.serve_websocket(5), TypeError, "endpoint=5 is int"),
            (lambda: api.serve_webhdfs(endpoint), TypeError, "store="),
        ):

            def enter(manager: Any = manager) -> Any:
                opened = manager()
                return getattr(opened, "__enter__", None) or opened.__aenter__

            found = yield Try(lambda: enter()())
            assert isinstance(found, Raised)
            assert isinstance(found.error, kind), found
            assert words in str(found.error)
        assert (yield endpoint.listen())

    door.run(script)


def test_an_endpoint_that_ends_ends_its_gateway(door: Door) -> None:
    def script(api: Any) -> Steps:
        endpoint = yield Block(api.Endpoint())
        yield Block(api.serve_websocket(endpoint))
        yield endpoint.shutdown(0)

    if door.api in (aio, blocking):  # In trio the block of the gateway ends first.
        door.run(script)
