"""Access control of a port beside an endpoint: by its own rules, or by those of the endpoint."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

import trio

from endpoint.mesh.authorisation import REFUSALS_MAX
from endpoint.mesh.core import EndpointCore
from endpoint.mesh.status import StatusCode, StatusEvent, rules_event
from handshake.access import Access, Port
from handshake.accounts import Accounts
from handshake.roles import Roles
from handshake.rules import Rules
from net.network import REFRESH_SECONDS
from wire.errors import CredentialsError
from wire.logs import logger_of

logger = logger_of("peermesh.access")


class Home(Protocol):
    """The endpoint that a port belongs to: whose roles it inherits, and who tells its events."""

    core: EndpointCore

    def emit(self, event: StatusEvent) -> None: ...

    def refresh_rules(self) -> None: ...


class PortAccess:
    """Keeps the rules of one port, and the ``Access`` that asks them."""

    def __init__(self, port: Port, rules: Rules, home: Home | None) -> None:
        """Guard ``port`` by ``rules``; the roles are those of ``home`` if these have none."""
        self._rules = rules
        self._home = home
        self._told: set[str] = set()
        """Refusals in the log since the last look, where no endpoint tells of them."""
        self._seen = (self.roles, self.accounts)
        self.access = self.access_of(port)
        self.on_change: list[Callable[[], object]] = []
        """Called when other roles or accounts are in force: what is open may have lost a right."""

    @property
    def roles(self) -> Roles | None:
        """Give the roles in force; ``None`` permits everything."""
        if self._rules.roles is not None or self._home is None:
            return self._rules.roles
        return self._home.core.authorisation.roles

    @property
    def accounts(self) -> Accounts | None:
        """Give the accounts in force, if the port has any."""
        return self._rules.accounts

    def access_of(self, port: Port) -> Access:
        """Have another port of the same program ask the same roles."""
        return Access(port, lambda: self.roles, self._note)

    def _note(self, text: str) -> None:
        if self._home is not None:
            self._home.core.authorisation.refusals.note(self._home.core.local, text)
        elif text not in self._told and len(self._told) < REFUSALS_MAX:
            self._told.add(text)
            logger.warning("%s: %s", StatusCode.NOT_ALLOWED, text)

    def refresh(self) -> None:
        """Use files that have changed: to be called for each connection, and from time to time."""
        try:
            is_changed = self._rules.refresh()
        except CredentialsError as error:
            self._tell(error)
        else:
            if is_changed:
                self._tell(None)
        if self._home is not None:
            self._home.refresh_rules()
        now = (self.roles, self.accounts)
        if any(new is not old for new, old in zip(now, self._seen, strict=True)):
            self._seen = now
            for heed in self.on_change:
                heed()

    def _tell(self, error: CredentialsError | None) -> None:
        event = rules_event(error, self.access.port.name)
        if self._home is None:
            logger.log(logging.INFO if error is None else logging.ERROR, "%s", event)
        else:
            self._home.emit(event)

    async def refresh_forever(self) -> None:
        """Look at the files even while no client comes."""
        while True:
            await trio.sleep(REFRESH_SECONDS)
            self._told.clear()
            self.refresh()
