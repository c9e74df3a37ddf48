"""The credentials in force: contexts for new connections, made anew when the files change."""

from __future__ import annotations

from enum import Enum

from handshake.credentials import Credentials
from wire.errors import CredentialsError


class Refreshed(Enum):
    """What looking at the files has found."""

    UNCHANGED = "unchanged"
    RELOADED = "reloaded"


class Trust:
    """Serves the newest credentials that can be used. Connections that stand keep theirs."""

    def __init__(self, credentials: Credentials | None) -> None:
        """Start with these; ``None`` is plain TCP, for ever."""
        self._stamp = credentials.stamp if credentials is not None else ()
        self._arm(credentials)

    def _arm(self, credentials: Credentials | None) -> None:
        server = credentials.server_context() if credentials is not None else None
        client = credentials.client_context() if credentials is not None else None
        # Nothing is replaced unless all of it could be made.
        self.credentials, self.server, self.client = credentials, server, client

    def refresh(self) -> Refreshed:
        """Look whether the files have changed, and use them if so; cheap when they have not.

        Raises ``CredentialsError``, once for each change, if they cannot be used: what was in
        force stays.
        """
        if self.credentials is None or self.credentials.files is None:
            return Refreshed.UNCHANGED
        files = self.credentials.files
        stamp = files.stamp()
        if stamp == self._stamp:
            return Refreshed.UNCHANGED
        self._stamp = stamp
        try:
            self._arm(files.load())
        except (CredentialsError, OSError, ValueError) as error:
            raise CredentialsError(
                f"the changed certificate files are not used, the old ones stay: {error}"
            ) from error
        return Refreshed.RELOADED
