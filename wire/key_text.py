"""Keys as one line of text: a prefix that says what it is, and base32 that notices typos."""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass

from wire.errors import CredentialsError


@dataclass(frozen=True, slots=True)
class KeyText:
    """How one kind of key is written. No error repeats any of a key: errors end up in logs."""

    kind: str
    """What the errors call it, with its article: ``a cluster secret``."""
    prefix: str
    """Says what the text is, to its reader and to scanners for leaked secrets."""
    size: int
    """Bytes of a key."""
    checksum_size: int
    """Bytes behind a key that notice a typo; both together make whole base32 digits."""
    source: str
    """How to make a new one."""

    def check(self, key: bytes) -> None:
        """Refuse any other size with ``CredentialsError``: what a person thinks up is too weak."""
        if len(key) != self.size:
            raise CredentialsError(
                f"{self.kind} has {self.size} bytes, not {len(key)}: make one with {self.source}"
            )

    def write(self, key: bytes) -> str:
        """Give the line, without its end: letters and digits only."""
        return self.prefix + base64.b32encode(key + self._checksum(key)).decode().lower()

    def read(self, text: str) -> bytes:
        """Read what ``write`` gave, in any case; a typo anywhere raises ``CredentialsError``."""
        text = text.strip().lower()
        if not text.startswith(self.prefix):
            raise CredentialsError(
                f"{self.kind} begins with '{self.prefix}' and this text does not:"
                f" make one with {self.source}"
            )
        try:
            both = base64.b32decode(text.removeprefix(self.prefix).upper())
        except (binascii.Error, ValueError):
            both = b""
        key, checksum = both[: self.size], both[self.size :]
        if len(key) != self.size or checksum != self._checksum(key):
            raise CredentialsError(
                f"{self.kind} was mistyped or cut off, its checksum does not match:"
                " copy it again from where it was made"
            )
        return key

    def _checksum(self, key: bytes) -> bytes:
        return hashlib.sha256(self.prefix.encode() + key).digest()[: self.checksum_size]
