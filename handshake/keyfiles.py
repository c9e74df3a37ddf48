"""Files that hold credentials: read with a limit, checked at once, written for the owner alone."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from handshake.certificates import unreadable
from handshake.roles import Roles
from wire.errors import CredentialsError, RolesError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

RolesSource = Roles | Mapping[str, object] | str | os.PathLike[str]
"""Roles as users give them: a TOML file, or the same as dicts."""

FILE_SIZE_MAX: Final = 1024 * 1024
"""Bytes of a file that we read: a bundle of certificates is smaller by far, a wrong path is not."""


def read_file(path: str | os.PathLike[str], what: str) -> bytes:
    """Read a small file; ``what`` names its content in the error."""
    try:
        with open(path, "rb") as file:
            data = file.read(FILE_SIZE_MAX + 1)
    except OSError as error:
        raise CredentialsError(
            f"cannot read the {what} file {os.fspath(path)}: {error.strerror}"
        ) from error
    if len(data) > FILE_SIZE_MAX:
        raise CredentialsError(
            f"the {what} file {os.fspath(path)} is larger than {FILE_SIZE_MAX} bytes:"
            " is it the right one?"
        )
    return data


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


def write_private(path: str | os.PathLike[str], data: bytes, *, replaces: bool = False) -> None:
    """Create a file that is its owner's alone from its first moment on."""
    _write(path, data, 0o600, replaces=replaces)


def write_new(path: str | os.PathLike[str], data: bytes, *, replaces: bool = False) -> None:
    """Create a file that everybody may read; one that is there is left alone, unless told."""
    _write(path, data, 0o644, replaces=replaces)


def _write(path: str | os.PathLike[str], data: bytes, mode: int, *, replaces: bool) -> None:
    target = f"{os.fspath(path)}.new" if replaces else path
    if replaces:
        Path(target).unlink(missing_ok=True)
    with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(data)
        if replaces:
            file.flush()
            os.fsync(file.fileno())
    if replaces:
        os.replace(target, path)


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

    data = read_file(path, "key")
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
