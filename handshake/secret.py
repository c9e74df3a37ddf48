"""The cluster secret: what the endpoints of one mesh share, as text that notices its own typos."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from handshake.certificates import ClusterAuthority
from handshake.private_files import read_secret, write_private
from wire.errors import CredentialsError
from wire.key_text import KeyText
from wire.public import public

SECRET_PREFIX: Final = "peermesh-secret-"
"""Says what the text is, to its reader and to scanners for leaked secrets."""

SECRET_VARIABLE: Final = "PEERMESH_SECRET"
SECRET_FILE_VARIABLE: Final = "PEERMESH_SECRET_FILE"

SECRET_SIZE: Final = 20
"""Bytes of a secret, 160 bits: more than the 128 of Ed25519, which cannot be guessed."""

TEXT: Final = KeyText(
    "a cluster secret", SECRET_PREFIX, SECRET_SIZE, 5, "ClusterSecret.generate().text()"
)
"""Five bytes of a checksum make it 40 digits."""


@public
@dataclass(frozen=True, slots=True)
class ClusterSecret:
    """What the endpoints of one mesh share, and no other knows. It is never printed by itself."""

    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        """Take exactly ``SECRET_SIZE`` bytes: anything a person thinks up is too weak."""
        TEXT.check(self.key)

    @classmethod
    def generate(cls) -> ClusterSecret:
        """Make a new one from the system's random source."""
        return cls(secrets.token_bytes(SECRET_SIZE))

    @classmethod
    def parse(cls, text: str) -> ClusterSecret:
        """Read what ``text()`` wrote; a typo anywhere raises ``CredentialsError``.

        No error repeats any of it, since errors end up in logs.
        """
        return cls(TEXT.read(text))

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> ClusterSecret:
        """Read the text form from a file."""
        try:
            text = read_secret(path, "cluster secret").decode()
        except UnicodeDecodeError:
            raise CredentialsError(f"the file {os.fspath(path)} holds no cluster secret") from None
        return cls.parse(text)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> ClusterSecret | None:
        """Read ``PEERMESH_SECRET``, else the file that ``PEERMESH_SECRET_FILE`` names.

        ``None`` if both are not set, or empty.
        """
        variables = os.environ if environment is None else environment
        text = variables.get(SECRET_VARIABLE, "")
        if text.strip():
            return cls.parse(text)
        path = variables.get(SECRET_FILE_VARIABLE)
        return cls.from_file(path) if path else None

    def text(self) -> str:
        """Write it as one line of letters and digits, to be kept as safe as a password."""
        return TEXT.write(self.key)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the text form to a new file that only its owner can read."""
        try:
            write_private(path, f"{self.text()}\n".encode())
        except OSError as error:
            raise CredentialsError(
                f"cannot write the cluster secret to {os.fspath(path)}: {error.strerror};"
                " name a new file in a directory of yours"
            ) from error

    def fingerprint(self) -> str:
        """Give sixteen hex digits that are safe to print: equal on endpoints that can peer."""
        return ClusterAuthority(self.key).fingerprint
