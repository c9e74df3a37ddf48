"""An authority of the user's own, and the certificates that it issues, as PEM files.

For those who have no authority yet, and want names in certificates that mean something: a holder of
the authority's key decides which. Any other authority's certificates do as well.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from handshake.certificates import (
    as_authority,
    as_member,
    certificate_hosts,
    certificate_name,
    check_name,
    common_name,
    start_certificate,
)
from handshake.keyfiles import (
    certificates_explained,
    load_certificates,
    load_key,
)
from handshake.private_files import write_private, write_public
from wire.errors import CredentialsError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.hashes import SHA256

AUTHORITY: Final = "authority"
"""What the authority's two files are called."""

PASSPHRASE_SIZE_MAX: Final = 1_023
"""Bytes: OpenSSL locks with no more."""

HOST_SIZE_MAX: Final = 253
"""Characters of a host name: the DNS knows none that is longer."""

_HOST_NAME: Final = re.compile(rf"(?=.{{1,{HOST_SIZE_MAX}}}$)(\*\.)?[\w-]+(\.[\w-]+)*", re.ASCII)

Validity = tuple[datetime, datetime]


class KeyKind(StrEnum):
    """Keys that are made here."""

    ED25519 = "ed25519"
    P256 = "p256"
    """For programs that do TLS without Ed25519, such as Java's."""


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate and its key, nowhere written yet."""

    certificate: x509.Certificate
    key: Ed25519PrivateKey | EllipticCurvePrivateKey = field(repr=False)

    def save(
        self, directory: Path, stem: str, passphrase: str | None = None, *, replaces: bool = False
    ) -> tuple[Path, Path]:
        """Write ``STEM.pem``, and ``STEM.key`` for its owner alone; raises ``CredentialsError``.

        Both have to be new, unless it ``replaces`` them: then each is replaced at once.
        """
        from cryptography.hazmat.primitives.serialization import (
            BestAvailableEncryption,
            Encoding,
            NoEncryption,
            PrivateFormat,
        )

        lock = (
            NoEncryption()
            if passphrase is None
            else BestAvailableEncryption(_encoded_passphrase(passphrase))
        )
        key = self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock)
        paths = directory / f"{stem}.pem", directory / f"{stem}.key"
        try:
            write_private(paths[1], key, replaces=replaces)
            write_public(paths[0], self.certificate.public_bytes(Encoding.PEM), replaces=replaces)
        except OSError as error:
            raise CredentialsError(
                f"cannot write {os.fspath(error.filename or directory)}: {error.strerror}; name"
                " another directory, or move the old files away"
            ) from error
        return paths


class OwnAuthority:
    """Issues certificates: made once with ``create``, found again with ``load``."""

    def __init__(self, own: Issued) -> None:
        """Use a certificate that may issue others, and its key."""
        self.own = own

    @classmethod
    def create(cls, name: str, valid: Validity, kind: KeyKind = KeyKind.ED25519) -> OwnAuthority:
        """Make a new authority, which is valid between the two times; raises for a bad name."""
        from cryptography import x509

        check_name(name)
        key = _make_key(kind)
        names = common_name(name), common_name(name)
        builder = start_certificate(names, (key.public_key(), key.public_key()), valid)
        builder = as_authority(builder.serial_number(x509.random_serial_number()))
        return cls(Issued(builder.sign(key, _hash_for(key)), key))

    @classmethod
    def load(cls, directory: Path, passphrase: str | None = None) -> OwnAuthority:
        """Read the two files that ``own.save(directory, AUTHORITY)`` wrote.

        Raises ``CredentialsError``.
        """
        from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        (certificate, *_) = load_certificates(directory / f"{AUTHORITY}.pem", "authority")
        key = load_key(directory / f"{AUTHORITY}.key", passphrase)
        if not isinstance(key, Ed25519PrivateKey | EllipticCurvePrivateKey):
            raise CredentialsError(
                f"the authority's key in {directory} is of a kind that is not issued with here:"
                " use the program that made it"
            )
        if key.public_key() != certificate.public_key():
            raise CredentialsError(
                f"{AUTHORITY}.key does not belong to {AUTHORITY}.pem in {directory}: put the pair"
                " there that was made together"
            )
        return cls(Issued(certificate, key))

    def issue(
        self,
        name: str,
        valid: Validity,
        hosts: Sequence[str] = (),
        kind: KeyKind = KeyKind.ED25519,
    ) -> Issued:
        """Issue an endpoint's certificate, with a fresh key.

        ``hosts`` are for clients that compare names, such as those of HTTPS; the mesh does not.
        Raises ``CredentialsError`` for a name or a host that fits into no certificate.
        """
        from cryptography import x509

        check_name(name)
        key, authority = _make_key(kind), self.own
        builder = start_certificate(
            (authority.certificate.subject, common_name(name)),
            (authority.key.public_key(), key.public_key()),
            valid,
        )
        builder = as_member(builder.serial_number(x509.random_serial_number()))
        if hosts:
            names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        return Issued(builder.sign(authority.key, _hash_for(authority.key)), key)


@dataclass(frozen=True, slots=True)
class Description:
    """What a certificate says of itself."""

    name: str | None
    issuer: str
    valid_from: datetime
    valid_until: datetime
    fingerprint: str
    """SHA-256 of the certificate, in hex, as ``openssl x509 -fingerprint -sha256`` has it."""
    is_authority: bool
    hosts: tuple[str, ...]

    def is_valid(self, now: datetime) -> bool:
        """Tell whether it is neither early nor expired."""
        return self.valid_from <= now <= self.valid_until


def describe(path: str | os.PathLike[str]) -> list[Description]:
    """Tell of each certificate in a file; raises ``CredentialsError``."""
    with certificates_explained(f"a certificate in {os.fspath(path)}"):
        return [_describe(each) for each in load_certificates(path, "certificate")]


def _describe(certificate: x509.Certificate) -> Description:
    from cryptography import x509
    from cryptography.hazmat.primitives.hashes import SHA256

    is_authority = False
    for extension in certificate.extensions:
        if isinstance(extension.value, x509.BasicConstraints):
            is_authority = extension.value.ca
    return Description(
        certificate_name(certificate),
        certificate.issuer.rfc4514_string(),
        certificate.not_valid_before_utc,
        certificate.not_valid_after_utc,
        certificate.fingerprint(SHA256()).hex(),
        is_authority,
        certificate_hosts(certificate),
    )


def _make_key(kind: KeyKind) -> Ed25519PrivateKey | EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    if kind is KeyKind.P256:
        return ec.generate_private_key(ec.SECP256R1())
    return Ed25519PrivateKey.generate()


def _hash_for(key: Ed25519PrivateKey | EllipticCurvePrivateKey) -> SHA256 | None:
    """Give the hash that goes with a signature; Ed25519 has its own."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.hashes import SHA256

    return None if isinstance(key, Ed25519PrivateKey) else SHA256()


def _general_name(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    if _HOST_NAME.fullmatch(host) is None:
        raise CredentialsError(
            f"{host[:HOST_SIZE_MAX]!r} is no host: give a name such as node1.example, with letters"
            " beyond ASCII as xn--..., or an address"
        )
    return x509.DNSName(host)


def _encoded_passphrase(passphrase: str) -> bytes:
    try:
        encoded = passphrase.encode()
    except UnicodeEncodeError:
        encoded = b""
    if not 0 < len(encoded) <= PASSPHRASE_SIZE_MAX:
        raise CredentialsError(
            f"a passphrase has 1 to {PASSPHRASE_SIZE_MAX} bytes of UTF-8: choose another one"
        ) from None
    return encoded
