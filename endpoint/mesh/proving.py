"""The signatures of one endpoint: its own, if it signs, and those of all others."""

from __future__ import annotations

from collections.abc import Callable

from handshake.credentials import Credentials
from handshake.signing import Notary, Signer
from wire.errors import SettingsError
from wire.identifiers import EndpointId
from wire.messages import Announcement


class Proving(Notary):
    """What a core makes and checks signatures with: everybody checks, whether it signs or not."""

    def __init__(
        self, credentials: Credentials | None, now_ns: Callable[[], int], signer: Signer | None
    ) -> None:
        """Believe what the authority of these ``credentials`` vouches for; sign as ``signer``."""
        super().__init__(None if credentials is None else credentials.authority, now_ns)
        self._signer = signer

    def renew(self, credentials: Credentials | None) -> None:
        """Go by other credentials from now on, and have them endorse our own key."""
        self.believe(None if credentials is None else credentials.authority)
        if self._signer is not None and credentials is not None:
            self._signer.endorse(credentials)

    def seal(self, announcement: Announcement) -> Announcement:
        """Give an announcement of ours as it is sent."""
        return announcement if self._signer is None else self._signer.seal(announcement)


def make_signer(
    new_seed: Callable[[], bytes] | None,
    credentials: Credentials | None,
    endpoint_id: EndpointId | None,
) -> Signer | None:
    """Make what an endpoint signs with; without a source of seeds it does not sign.

    Raises ``SettingsError`` for an ``endpoint_id`` that does not go with that.
    """
    if new_seed is None:
        if endpoint_id is not None and endpoint_id.is_signing:
            raise SettingsError(
                f"the id {endpoint_id} says that its endpoint signs, and without that nobody"
                " believes it: give an id that is no UUID of version 8"
            )
        return None
    if endpoint_id is not None:
        raise SettingsError(
            "the id of an endpoint that signs is made from its key: give no endpoint_id"
        )
    return Signer(new_seed(), credentials)
