"""Secrets that are planted wherever one can be given, and how one is recognised in a text."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from handshake.credentials import Credentials
from handshake.secret import ClusterSecret
from handshake.ticket import JoinTicket
from stores.disk.store_keys import generate_key
from stores.sealing import StorageKey, StorageKeys, keys_text

SIZE_MIN = 12
"""Bytes of a form from which on it is not found by chance."""


@dataclass(frozen=True)
class Planted:
    """One secret of each kind, where they are, and all the forms that they can take."""

    cluster: ClusterSecret
    credentials: Credentials
    key: StorageKey
    token: str
    passphrase: str
    directory: Path
    forms: dict[str, str]
    """What must not be anywhere, by what it is."""

    @property
    def ring(self) -> StorageKeys:
        return StorageKeys((self.key,))

    @property
    def key_file(self) -> Path:
        return self.directory / "keys"

    @property
    def secret_file(self) -> Path:
        return self.directory / "secret"

    @property
    def token_file(self) -> Path:
        return self.directory / "token"

    @property
    def ticket(self) -> JoinTicket:
        return JoinTicket("127.0.0.1", 1, self.cluster)

    @property
    def certificate(self) -> tuple[Path, Path, Path]:
        """Files of a certificate, its locked key, and its authority."""
        return tuple(self.directory / name for name in ("cert.pem", "key.pem", "ca.pem"))

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PEERMESH_SECRET": self.cluster.text(),
            "PEERMESH_STORE_KEYS": self.key.text(),
            "PEERMESH_AUTHORITY_PASSPHRASE": self.passphrase,
        }

    @property
    def environment_of_certificate(self) -> dict[str, str]:
        return {"PEERMESH_STORE_KEYS": self.key.text(), "PEERMESH_PASSPHRASE": self.passphrase}

    def find_in(self, text: str) -> list[str]:
        """Name what is there and must not be."""
        return [name for name, form in self.forms.items() if form in text]


def forms_of(name: str, raw: bytes) -> Iterator[tuple[str, str]]:
    """Give every form that a secret may appear in."""
    yield f"{name} as it is", raw.decode("latin-1")
    yield f"{name} in hex", raw.hex()
    yield f"{name} in HEX", raw.hex().upper()
    yield f"{name} in Python", repr(raw)[2:-1]
    yield f"{name} as numbers", ", ".join(map(str, raw))
    yield f"{name} in base32", base64.b32encode(raw[: len(raw) // 5 * 5]).decode()
    for letters in (base64.b64encode, base64.urlsafe_b64encode):
        # In a longer text it may begin at any of three places within four letters.
        for shift in range(3):
            inner = raw[(3 - shift) % 3 :]
            whole = inner[: len(inner) // 3 * 3]
            yield f"{name} in {letters.__name__}, shifted by {shift}", letters(whole).decode()


def plant(folder: Path) -> Planted:
    """Make a secret of each kind, and put those that belong in files there."""
    cluster, key, token = ClusterSecret.generate(), generate_key(), secrets.token_hex(20)
    passphrase = secrets.token_urlsafe(20)
    credentials = Credentials.from_secret(cluster, "planted")
    private = credentials.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    pem = credentials.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    forms: dict[str, str] = {}
    for name, raw in (
        ("the cluster secret", cluster.key),
        ("the cluster secret's text", cluster.text().encode()),
        ("the store key", key.key),
        ("the store key's text", key.text().encode()),
        ("the token", token.encode()),
        ("the passphrase", passphrase.encode()),
        ("the private key", private[-32:]),
        ("the private key's PEM", pem.splitlines()[1]),
    ):
        forms.update(forms_of(name, raw))
    for name, text in (("the cluster secret", cluster.text()), ("the store key", key.text())):
        forms[f"{name} without its prefix"] = text.rpartition("-")[2]
        forms[f"{name} without its prefix, in capitals"] = text.rpartition("-")[2].upper()
    assert min(map(len, forms.values())) >= SIZE_MIN
    directory = folder / "planted"
    directory.mkdir()
    made = Planted(cluster, credentials, key, token, passphrase, directory, forms)
    made.key_file.write_text(keys_text([key]))
    made.secret_file.write_text(cluster.text())
    made.token_file.write_text(token)
    locked = credentials.key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(passphrase.encode())
    )
    contents = (credentials.chain, locked, credentials.authority.encode())
    for file, content in zip(made.certificate, contents, strict=True):
        file.write_bytes(content)
    for file in directory.iterdir():
        file.chmod(0o600)
    return made
