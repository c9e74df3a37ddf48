"""Files that hold credentials: certificates, keys and roles, checked as they are read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from handshake.certificates import unreadable
from handshake.private_files import read_file, read_secret
from handshake.roles import Roles
from wire.errors import CredentialsError, RolesError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

RolesSource = Roles | Mapping[str, object] | str | os.PathLike[str]
"""Roles as users give them: a TOML file, or the same as dicts."""


def stamp_of(path: str | os.PathLike[str]) -> tuple[int, ...] | None:
    """Give what differs when a file was written or replaced; ``None`` if it cannot be found."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def load_roles(source: RolesSource) -> Roles:
    """Read a file of roles, or take roles that are no file; raises ``RolesError``."""
    if isinstance(source, Roles):
        return source
    if isinstance(source, Mapping):
        return Roles.of(source)
    try:
        return Roles.parse(read_file(source, "roles").decode())
    except (CredentialsError, UnicodeDecodeError, RolesError) as error:
        raise RolesError(f"roles of {os.fspath(source)}: {error}") from error


@contextmanager
def certificates_explained(where: str) -> Iterator[None]:
    """Raise ``CredentialsError`` for a certificate that cannot be read within the block."""
    try:
        yield
    except unreadable() as error:
        raise CredentialsError(
            f"{where} cannot be read here ({error}): issue it anew, with an Ed25519, ECDSA or RSA"
            " key"
        ) from error


def load_certificates(path: str | os.PathLike[str], what: str) -> list[x509.Certificate]:
    """Read at least one certificate in PEM form; ``what`` names the file in the error."""
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificates(read_file(path, what))
    except (ValueError, x509.InvalidVersion):
        raise CredentialsError(
            f"the {what} file {os.fspath(path)} holds no certificate in PEM form:"
            " it has to contain '-----BEGIN CERTIFICATE-----'"
        ) from None


def load_key(path: str | os.PathLike[str], passphrase: str | None) -> PrivateKeyTypes:
    """Read a private key; ``cryptography`` raises ``TypeError`` for a passphrase out of place."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    data = read_secret(path, "key")
    where = f"the key file {os.fspath(path)}"
    try:
        return load_pem_private_key(data, None if passphrase is None else passphrase.encode())
    except TypeError:
        wanted = "is locked: give its passphrase"
        unwanted = "is not locked: leave the passphrase out"
        raise CredentialsError(f"{where} {wanted if passphrase is None else unwanted}") from None
    except ValueError:
        plain = (
            "holds no private key in PEM form: it has to contain '-----BEGIN … PRIVATE KEY-----'"
        )
        locked = "does not open with this passphrase: check it, or the file is damaged"
        raise CredentialsError(f"{where} {plain if passphrase is None else locked}") from None
    except UnsupportedAlgorithm:
        raise CredentialsError(f"{where} is of an unknown kind: use an Ed25519 key") from None


def check_kind(key: PrivateKeyTypes, where: str) -> None:
    """Refuse a key that TLS 1.3 has no signatures for."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa

    kinds = (
        *(ed25519.Ed25519PrivateKey, ed448.Ed448PrivateKey),
        *(ec.EllipticCurvePrivateKey, rsa.RSAPrivateKey),
    )
    if not isinstance(key, kinds):
        raise CredentialsError(
            f"{where} is of a kind that TLS 1.3 cannot use: use an Ed25519, ECDSA or RSA key"
        )


def check_validity(certificates: Sequence[x509.Certificate], where: str) -> None:
    """Refuse if none of them is valid today; an old authority beside a new one does no harm."""
    now = datetime.now(UTC)
    first = certificates[0]
    if any(each.not_valid_before_utc <= now <= each.not_valid_after_utc for each in certificates):
        return
    if first.not_valid_after_utc < now:
        raise CredentialsError(
            f"{where} expired on {first.not_valid_after_utc:%Y-%m-%d}: issue a new one"
        )
    raise CredentialsError(
        f"{where} is not valid before {first.not_valid_before_utc:%Y-%m-%d %H:%M} UTC:"
        " check this machine's clock"
    )


def check_purpose(certificate: x509.Certificate, where: str) -> None:
    """Refuse a certificate for one direction only: either side of a peering may dial."""
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    try:
        purposes = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return
    both = {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH}
    if not both <= set(purposes):
        raise CredentialsError(
            f"{where} is for one direction only: issue it for clientAuth and serverAuth both"
        )
