"""Certificates of a cluster: the authority that a secret stands for, and what it issues.

Every holder of the secret derives the same authority, byte for byte, so that no one hands out
certificates. Nothing here reads a clock: both kinds are valid as long as the format can say.
An expiry would not protect, since a holder of the secret issues itself another at once, but it
would end a mesh that runs for long, and lock out a machine whose clock is wrong.

``cryptography`` is imported when the first credentials are made, here and in the modules beside
this one: loading it costs as much as all the rest of the library.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from wire.errors import CredentialsError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPublicKeyTypes

NAME_SIZE_MAX: Final = 64
"""Bytes of UTF-8 in an endpoint's name: the upper bound of X.520 for a common name."""

VALID_FROM: Final = datetime(2000, 1, 1, tzinfo=UTC)
VALID_UNTIL: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
"""What RFC 5280, 4.1.2.5, prescribes for a certificate without a well-defined end."""

_AUTHORITY_SERIAL: Final = 1
_DERIVATION: Final = b"peermesh cluster authority 1"
"""Sets this use of the secret apart from any other. Its number changes with the certificate's form:
endpoints whose authorities differ must not half understand each other."""

_AUTHORITY_USAGE: Final = frozenset({"key_cert_sign"})
_ENDPOINT_USAGE: Final = frozenset({"digital_signature"})
_USAGES: Final = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)


class ClusterAuthority:
    """The Ed25519 authority of one cluster: the same wherever the secret is the same."""

    def __init__(self, secret: bytes) -> None:
        """Derive the key and sign the authority's own certificate."""
        self._key = _derive_key(secret)
        self.fingerprint = _fingerprint(self._key)
        """Sixteen hex digits that tell clusters apart and give nothing away."""
        self.certificate = self._sign_own()

    def issue(self, name: str) -> tuple[x509.Certificate, Ed25519PrivateKey]:
        """Issue a certificate for an endpoint, with a fresh key that exists nowhere else.

        It serves both directions, because either side of a peering may have dialled.
        """
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        assert 0 < len(name.encode()) <= NAME_SIZE_MAX, f"{name!r} does not fit a common name"
        key = Ed25519PrivateKey.generate()
        builder = self._builder(name, key, x509.random_serial_number())
        return as_member(builder).sign(self._key, None), key

    def _sign_own(self) -> x509.Certificate:
        """Sign what everybody must agree on: Ed25519 signatures are deterministic."""
        builder = self._builder(self._name(), self._key, _AUTHORITY_SERIAL)
        return as_authority(builder).sign(self._key, None)

    def _builder(
        self, subject: str, key: Ed25519PrivateKey, serial: int
    ) -> x509.CertificateBuilder:
        names = common_name(self._name()), common_name(subject)
        keys = self._key.public_key(), key.public_key()
        return start_certificate(names, keys, (VALID_FROM, VALID_UNTIL)).serial_number(serial)

    def _name(self) -> str:
        return f"peermesh cluster {self.fingerprint}"


def check_name(name: str) -> None:
    """Refuse a name that fits no certificate; raises ``CredentialsError``."""
    if not name.isprintable() or not 0 < len(name.encode()) <= NAME_SIZE_MAX:
        raise CredentialsError(
            f"an endpoint cannot be called {name!r} in its certificate:"
            f" give it a printable name of 1 to {NAME_SIZE_MAX} bytes"
        )


def certificate_name(certificate: x509.Certificate) -> str | None:
    """Give the certificate's common name, else its first DNS name; ``None`` if it has neither."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    for attribute in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME):
        return str(attribute.value)
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return None
    return next(iter(names.get_values_for_type(x509.DNSName)), None)


def certificate_hosts(certificate: x509.Certificate) -> tuple[str, ...]:
    """Give the host names and addresses that clients of HTTPS compare with."""
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return tuple(str(each.value) for each in names)


def unreadable() -> tuple[type[Exception], ...]:
    """Give what ``cryptography`` raises at a certificate that it cannot read, or has no code for.

    Not all of it shows when a certificate is loaded: names, keys and extensions are read later.
    """
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm

    ours = (x509.DuplicateExtension, x509.InvalidVersion, x509.UnsupportedGeneralNameType)
    return (ValueError, UnsupportedAlgorithm, *ours)


def _derive_key(secret: bytes) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    seed = HKDF(algorithm=SHA256(), length=32, salt=None, info=_DERIVATION).derive(secret)
    return Ed25519PrivateKey.from_private_bytes(seed)


def _fingerprint(key: Ed25519PrivateKey) -> str:
    return hashlib.sha256(key.public_key().public_bytes_raw()).hexdigest()[:16]


def start_certificate(
    names: tuple[x509.Name, x509.Name],
    keys: tuple[CertificateIssuerPublicKeyTypes, CertificateIssuerPublicKeyTypes],
    valid: tuple[datetime, datetime],
) -> x509.CertificateBuilder:
    """Start a certificate; of names and keys the first is the issuer's, then the subject's."""
    from cryptography import x509

    subject_key = x509.SubjectKeyIdentifier.from_public_key(keys[1])
    issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(keys[0])
    return (
        x509.CertificateBuilder()
        .issuer_name(names[0])
        .subject_name(names[1])
        .public_key(keys[1])
        .not_valid_before(valid[0])
        .not_valid_after(valid[1])
        .add_extension(subject_key, critical=False)
        .add_extension(issuer_key, critical=False)
    )


def as_authority(builder: x509.CertificateBuilder) -> x509.CertificateBuilder:
    """Let it issue certificates, and those no others."""
    from cryptography import x509

    return builder.add_extension(
        x509.BasicConstraints(ca=True, path_length=0), critical=True
    ).add_extension(_key_usage(_AUTHORITY_USAGE), critical=True)


def as_member(builder: x509.CertificateBuilder) -> x509.CertificateBuilder:
    """Make it an endpoint's, for both directions."""
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    purposes = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
    return (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(_ENDPOINT_USAGE), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    )


def common_name(text: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _key_usage(allowed: frozenset[str]) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(**{usage: usage in allowed for usage in _USAGES})
