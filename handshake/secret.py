"""The cluster secret: what the endpoints of one mesh share, as text that notices its own typos."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from handshake.certificates import ClusterAuthority
from handshake.keyfiles import read_file, write_private
from wire.errors import CredentialsError

SECRET_PREFIX: Final = "peermesh-secret-"
"""Says what the text is, to its reader and to scanners for leaked secrets."""

SECRET_VARIABLE: Final = "PEERMESH_SECRET"

SECRET_SIZE: Final = 20
"""Bytes of a secret, 160 bits: more than the 128 of Ed25519, which cannot be guessed."""

CHECKSUM_SIZE: Final = 5
"""Bytes behind a secret that notice a typo, so that both make whole base32 digits: 40 of them."""


@dataclass(frozen=True, slots=True)
class ClusterSecret:
    """What all endpoints of one mesh share and nobody else knows. It is never printed by itself."""

    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        """Take exactly ``SECRET_SIZE`` bytes: anything a person thinks up is too weak."""
        if len(self.key) != SECRET_SIZE:
            raise CredentialsError(
                f"a cluster secret has {SECRET_SIZE} bytes, not {len(self.key)}:"
                " make one with ClusterSecret.generate()"
            )

    @classmethod
    def generate(cls) -> ClusterSecret:
        """Make a new one from the system's random source."""
        return cls(secrets.token_bytes(SECRET_SIZE))

    @classmethod
    def parse(cls, text: str) -> ClusterSecret:
        """Read what ``text()`` wrote; a typo anywhere raises ``CredentialsError``.

        No error repeats any of it, since errors end up in logs.
        """
        text = text.strip().lower()
        if not text.startswith(SECRET_PREFIX):
            raise CredentialsError(
                f"a cluster secret begins with '{SECRET_PREFIX}' and this text does not:"
                " make one with ClusterSecret.generate().text()"
            )
        try:
            both = base64.b32decode(text.removeprefix(SECRET_PREFIX).upper())
        except (binascii.Error, ValueError):
            both = b""
        key, checksum = both[:SECRET_SIZE], both[SECRET_SIZE:]
        if len(key) != SECRET_SIZE or checksum != _checksum(key):
            raise CredentialsError(
                "the cluster secret was mistyped or cut off, its checksum does not match:"
                " copy it again from where it was made"
            )
        return cls(key)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> ClusterSecret:
        """Read the text form from a file."""
        try:
            text = read_file(path, "cluster secret").decode()
        except UnicodeDecodeError:
            raise CredentialsError(f"the file {os.fspath(path)} holds no cluster secret") from None
        return cls.parse(text)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> ClusterSecret | None:
        """Read the text form from ``PEERMESH_SECRET``; ``None`` if that is not set, or empty."""
        text = (os.environ if environment is None else environment).get(SECRET_VARIABLE, "")
        return cls.parse(text) if text.strip() else None

    def text(self) -> str:
        """Write it as one line of letters and digits, to be kept as safe as a password."""
        return SECRET_PREFIX + base64.b32encode(self.key + _checksum(self.key)).decode().lower()

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


def _checksum(key: bytes) -> bytes:
    return hashlib.sha256(SECRET_PREFIX.encode() + key).digest()[:CHECKSUM_SIZE]
