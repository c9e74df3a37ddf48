"""Roles and accounts in force: read from files, and read again whenever these change."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from handshake.accounts import Accounts, AccountsSource, load_accounts
from handshake.keyfiles import RolesSource, load_roles, stamp_of
from handshake.roles import Roles
from wire.errors import CredentialsError, MeshError

Content = TypeVar("Content")
Source = TypeVar("Source")


class Watched(Generic[Source, Content]):
    """What a file says, as long as it can be used; anything else stays as it was given."""

    def __init__(self, source: Source, load: Callable[[Source], Content]) -> None:
        """Load ``source``, which is a path, or no file at all; raises what ``load`` raises."""
        self._source = source
        self._load = load
        self.path = Path(source) if isinstance(source, str | os.PathLike) else None
        self._stamp = self._look()
        self.value = load(source)

    def _look(self) -> tuple[int, ...] | None:
        return None if self.path is None else stamp_of(self.path)

    def refresh(self) -> bool:
        """Tell whether the file has changed, and is used as it is now.

        Raises what ``load`` raises, once for each change, if it cannot be: what was in force stays.
        """
        stamp = self._look()
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        self.value = self._load(self._source)
        return True


class Rules:
    """The roles and accounts of one port, or of a mesh. None of them need be given."""

    def __init__(
        self, roles: RolesSource | None = None, accounts: AccountsSource | None = None
    ) -> None:
        """Load them; raises ``RolesError`` and ``CredentialsError``."""
        self._roles = None if roles is None else Watched(roles, load_roles)
        self._accounts = None if accounts is None else Watched(accounts, load_accounts)

    @property
    def roles(self) -> Roles | None:
        """Give the roles in force; ``None`` if none were given."""
        return None if self._roles is None else self._roles.value

    @property
    def accounts(self) -> Accounts | None:
        """Give the accounts in force; ``None`` if none were given."""
        return None if self._accounts is None else self._accounts.value

    @property
    def is_refreshable(self) -> bool:
        """Tell whether any of them is from a file."""
        given = (self._roles, self._accounts)
        return any(each is not None and each.path is not None for each in given)

    def refresh(self) -> bool:
        """Use files that have changed; tell whether there were any. Cheap when there are none.

        Raises ``CredentialsError``, once for each change, if one cannot be used: then what was in
        force stays, of that file.
        """
        found, errors = False, list[MeshError]()
        for each in (self._roles, self._accounts):
            try:
                found |= each is not None and each.refresh()
            except MeshError as error:
                errors.append(error)
        if errors:
            text = "; ".join(map(str, errors))
            raise CredentialsError(f"changed rules are not used, the old ones stay: {text}")
        return found
