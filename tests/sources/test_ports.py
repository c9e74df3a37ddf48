"""Every port that the sources open is known, and says what it asks.

A new listener makes the first test fail until it goes through ``Network.listen``, or asks
``handshake.exposure`` itself, and stands in the tables below and in ``DOORS``.
"""

from __future__ import annotations

import importlib
import re
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from handshake.access import Port, Right
from handshake.roles import Role
from tests.peermesh.test_listeners import DOORS

ROOT = Path(__file__).parent.parent.parent
PACKAGES = ("wire", "handshake", "net", "channels", "stores", "endpoint", "peermesh")
SIMULATED = "peermesh/testing/simulation/"

OPENS = re.compile(
    r"open_tcp_listeners|open_listeners|serve_tcp|serve_ssl|open_unix_listeners|start_server"
    r"|create_server|HTTPServer|TCPServer|\.bind\("
)
MAY_OPEN = {
    "endpoint/surroundings.py",  # names trio's function, for simulations to replace
    "endpoint/endpoint.py",  # hands it to its network
    "net/network.py",  # asks the one rule, and opens
    "peermesh/testing/links/link.py",  # asks the rule for what has no TLS of its own
    "peermesh/demo/stage.py",  # looks for free ports on loopback, and accepts no connections
}

ACCEPTS = re.compile(r"serve_listeners|serve_tcp|serve_ssl|\.accept\(\)")
MAY_ACCEPT = {
    "net/acceptor.py",  # for all of them
    "peermesh/gateways/websocket/server.py",  # a request, on a connection that the former accepted
    "peermesh/testing/links/link.py",  # a tool for tests, which limits its connections itself
}

LISTENS = re.compile(r"network\.listen\(")

REACHED = re.compile(
    rf"{OPENS.pattern}|{ACCEPTS.pattern}|{LISTENS.pattern}|Acceptor\(|socketpair\("
)
"""What makes a file one by which another program reaches this one."""
BELOW = {
    "endpoint/surroundings.py",
    "net/network.py",
    "net/acceptor.py",
    "peermesh/brokers/edge/reception.py",  # of the broker, and of its registry
    "peermesh/demo/stage.py",
}
"""What ports are made of; and the one that looks for free ports, and accepts no connection."""


def files_with(pattern: re.Pattern[str]) -> set[str]:
    found = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            name = str(path.relative_to(ROOT))
            if pattern.search(path.read_text()) and not name.startswith(SIMULATED):
                found.add(name)
    return found


def ports() -> list[Port]:
    """Give what all ports declare of themselves."""
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        found: list[Port] = importlib.import_module("drawing.doors").declared()
    finally:
        sys.path.pop(0)
    return found


def test_no_listener_is_forgotten() -> None:
    assert files_with(OPENS) == MAY_OPEN
    assert files_with(ACCEPTS) == MAY_ACCEPT
    linked = {"peermesh/testing/links/link.py"}
    assert files_with(LISTENS) | linked == {path for path, _ in DOORS.values()}


def test_each_listener_says_in_the_table_of_ports_what_it_asks() -> None:
    declared = {port.module for port in ports()}
    undeclared = files_with(REACHED) - BELOW - declared
    assert not undeclared, 'give each a PORT: Final = Port(...), as "access.py" files do'
    table = (ROOT / "docs/security.md").read_text()
    for port in ports():
        assert (ROOT / port.module).is_file(), port
        assert f"| **{port.name}**" in table, "docs/generate.py draws it"


@pytest.mark.parametrize(
    "added",
    [
        "listeners = await self._network.listen(host, port)",
        "acceptor = Acceptor(network)",
        "await trio.serve_tcp(handle, 4040)",
        "server = await asyncio.start_server(handle, port=4040)",
        "sock.bind(('127.0.0.1', 4040))",
        "listeners = await trio.open_unix_listeners('/run/socket')",
        "class Status(http.server.HTTPServer): ...",
        "ours, theirs = socket.socketpair()",
    ],
)
def test_a_listener_that_is_added_is_found(added: str) -> None:
    assert REACHED.search(added)


def test_every_right_of_a_role_answers_at_some_port() -> None:
    asked = {right for port in ports() for right in port.asks.values()}
    assert asked == set(Right)
    rights = {each.value for each in asked - {Right.ENTER}}
    assert rights == {each.name for each in fields(Role)} - {"operate"}  # which nothing takes yet
