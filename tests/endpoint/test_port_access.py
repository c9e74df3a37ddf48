"""Access control of a port: whose rules count, what is told of refusals, and of changed files."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import trio
import trio.testing

from endpoint import port_access
from endpoint.mesh.authorisation import Authorisation
from endpoint.mesh.core import EndpointCore
from endpoint.mesh.status import StatusCode, StatusEvent, rules_event
from endpoint.port_access import PortAccess
from handshake.access import Port, Right
from handshake.accounts import NO_ACCOUNTS
from handshake.principals import UNPROVEN, Proof
from handshake.roles import Roles
from handshake.rules import Rules
from net.network import REFRESH_SECONDS
from wire.errors import CredentialsError, NotAllowed
from wire.identifiers import EndpointId

PORT = Port("a port", "port.py", (Proof.TOKEN,), "plain", {"PUB": Right.PUBLISH})
HERE = EndpointId(b"h" * 16)
CLOSED = '[names]\nann = "some"\n[roles.some]\n'
OPEN = 'default = "some"\n[roles.some]\npublish = [""]\n'


class Home:
    """An endpoint with roles, which notes what it is told."""

    def __init__(self, roles: Roles | None = None) -> None:
        self.core = EndpointCore(HERE, authorisation=Authorisation(roles))
        self.events: list[StatusEvent] = []
        self.refreshed = 0
        self.change: Callable[[], None] = lambda: None

    def emit(self, event: StatusEvent) -> None:
        self.events.append(event)

    def refresh_rules(self) -> None:
        self.refreshed += 1
        self.change()


def may(port: PortAccess) -> bool:
    return port.access.may(UNPROVEN, "PUB", "/t")


def refuse(port: PortAccess, topic: str = "/t") -> str:
    with pytest.raises(NotAllowed) as raised:
        port.access.check(UNPROVEN, "PUB", topic)
    return str(raised.value)


async def elapse(clock: trio.testing.MockClock, seconds: float) -> None:
    await trio.testing.wait_all_tasks_blocked()
    clock.jump(seconds)
    await trio.testing.wait_all_tasks_blocked()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "roles.toml"
    path.write_text(CLOSED)
    return path


def test_the_rules_of_the_port_come_before_those_of_the_endpoint() -> None:
    open_home, closed_home = Home(Roles.parse(OPEN)), Home(Roles.parse(CLOSED))
    assert may(PortAccess(PORT, Rules(), None)), "without any roles everything is permitted"
    assert may(PortAccess(PORT, Rules(), open_home))
    assert not may(PortAccess(PORT, Rules(), closed_home))
    assert not may(PortAccess(PORT, Rules(Roles.parse(CLOSED)), open_home))
    assert not may(PortAccess(PORT, Rules(Roles.parse(CLOSED)), None))
    assert may(PortAccess(PORT, Rules(Roles.parse(OPEN)), closed_home))
    assert PortAccess(PORT, Rules(), open_home).accounts is None
    assert PortAccess(PORT, Rules(accounts=NO_ACCOUNTS), open_home).accounts is NO_ACCOUNTS


def test_a_refusal_is_an_event_of_the_endpoint() -> None:
    home = Home()
    text = refuse(PortAccess(PORT, Rules(Roles.parse(CLOSED)), home))
    assert text == "anonymous (without a role) may not PUB '/t' at a port"
    assert list(home.core.authorisation.refusals.take()) == [(HERE, text, 1)]


def test_without_an_endpoint_a_refusal_stands_in_the_log_once_until_the_next_look(
    caplog, monkeypatch
) -> None:
    monkeypatch.setattr(port_access, "REFUSALS_MAX", 3)
    port = PortAccess(PORT, Rules(Roles.parse(CLOSED)), None)
    first = refuse(port)
    refuse(port)
    assert [(each.levelno, each.getMessage()) for each in caplog.records] == [
        (logging.WARNING, f"not_allowed: {first}")
    ]
    for number in range(9):
        refuse(port, f"/{number}")
    assert len(caplog.records) == 3, "no more than so many in one look"


async def test_the_files_are_looked_at_while_no_client_comes(caplog, file, mock_clock) -> None:
    port = PortAccess(PORT, Rules(file), None)
    refuse(port)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(port.refresh_forever)
        file.write_text(OPEN)
        await elapse(mock_clock, REFRESH_SECONDS - 0.01)
        assert not may(port)
        await elapse(mock_clock, 0.02)
        assert may(port)
        file.write_text(CLOSED + "\n")
        await elapse(mock_clock, REFRESH_SECONDS)
        caplog.clear()
        refuse(port)
        assert len(caplog.records) == 1, "what was told before the last look is told again"
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("has_home", [True, False])
def test_a_changed_file_is_used_and_told_of_and_a_damaged_one_is_told_of_alone(
    caplog, file, has_home
) -> None:
    caplog.set_level(logging.INFO)
    home = Home() if has_home else None
    port = PortAccess(PORT, Rules(file), home)
    changes: list[bool] = []
    port.refresh()
    port.on_change.append(lambda: changes.append(may(port)))
    port.refresh()
    assert changes == []
    assert not caplog.records
    file.write_text(OPEN)
    port.refresh()
    port.refresh()
    assert changes == [True]
    file.write_text("damaged")
    port.refresh()
    port.refresh()
    assert changes == [True], "the old rules stay"
    told = home.events if home is not None else [each.args[0] for each in caplog.records]
    good, bad = told
    assert good == rules_event(None, "a port")
    assert good.status is StatusCode.RULES_RELOADED
    assert (bad.status, bad.code) == (StatusCode.RULES_REFUSED, CredentialsError.code)
    assert bad.reason.startswith("a port: changed rules are not used, the old ones stay: roles of")
    if home is None:
        assert [each.levelno for each in caplog.records] == [logging.INFO, logging.ERROR]
        assert [each.getMessage() for each in caplog.records] == [str(good), str(bad)]
    else:
        assert home.refreshed == 6
        assert not caplog.records


def test_other_roles_of_the_endpoint_are_a_change_at_each_of_its_ports() -> None:
    home = Home(Roles.parse(CLOSED))
    port, changes = PortAccess(PORT, Rules(), home), []
    port.on_change.append(lambda: changes.append(may(port)))

    def open_it() -> None:
        home.core.authorisation.roles = Roles.parse(OPEN)
        home.change = lambda: None

    home.change = open_it
    port.refresh()
    port.refresh()
    assert changes == [True]


def test_another_port_of_the_program_asks_the_same_roles_in_its_own_name(caplog) -> None:
    other = PortAccess(PORT, Rules(Roles.parse(CLOSED)), None).access_of(
        replace(PORT, name="another port")
    )
    with pytest.raises(NotAllowed, match="at another port"):
        other.check(UNPROVEN, "PUB", "/t")
    assert len(caplog.records) == 1


def test_the_error_of_a_damaged_file_says_what_is_wrong() -> None:
    event = rules_event(CredentialsError("no"), "a port")
    assert event.reason == "a port: no"
