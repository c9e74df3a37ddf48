"""Credentials: how an endpoint proves that it belongs to the mesh, and where it has to (design 5).

Plain TCP is for loopback. Anywhere else both sides of a connection show a certificate, over
TLS 1.3, and take the other's if the same authority issued it. **Membership is the identity:** there
is no host name to check, because endpoints move and are dialled by address. The authority therefore
has to be the mesh's own. Two ways lead to one:

- a cluster secret, from which every endpoint derives the same authority. Its holders trust each
  other completely: any of them may issue itself a certificate with any name;
- certificate files of the user's own authority. Here a name is worth something, since only that
  authority can write it: limits of a peer by its certificate's name need this way.
"""

from __future__ import annotations

import ipaddress
import os
import secrets
import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from handshake.certificates import NAME_SIZE_MAX, ClusterAuthority, certificate_name
from handshake.keyfiles import (
    check_purpose,
    check_validity,
    load_certificates,
    load_key,
    write_private,
)
from handshake.secret import ClusterSecret
from wire.errors import CredentialsError, InsecureAddress, PeerNotTrusted

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes, PublicKeyTypes


@dataclass(frozen=True, slots=True)
class Credentials:
    """An endpoint's certificate, its key, and the authority whose certificates it accepts.

    Build one with ``from_secret`` or ``from_files``. It can be shared by endpoints and threads.
    """

    chain: bytes = field(repr=False)
    """Certificates in PEM: the endpoint's own, then those between it and the authority."""
    key: PrivateKeyTypes = field(repr=False)
    authority: str = field(repr=False)
    """Certificates in PEM: whoever they issued one to is a member of the mesh."""
    name: str | None
    """What the endpoint is called in its certificate, for limits and logs."""
    can_trust_names: bool = field(default=True, repr=False)
    """False with a cluster secret, whose holders may write any name into their certificates."""

    @classmethod
    def from_secret(cls, secret: ClusterSecret, name: str) -> Credentials:
        """Derive the cluster's authority and let it issue a certificate with this name.

        The name is for people who read logs, the endpoint's id for instance: printable, and at
        most ``NAME_SIZE_MAX`` bytes. Each call makes a fresh key, which never leaves the process.
        """
        if not name.isprintable() or not 0 < len(name.encode()) <= NAME_SIZE_MAX:
            raise CredentialsError(
                f"an endpoint cannot be called {name!r} in its certificate:"
                f" give it a printable name of 1 to {NAME_SIZE_MAX} bytes"
            )
        authority = ClusterAuthority(secret.key)
        certificate, key = authority.issue(name)
        trusted = _pem(authority.certificate).decode()
        return cls(_pem(certificate), key, trusted, name, can_trust_names=False)

    @classmethod
    def from_files(
        cls,
        certificate: str | os.PathLike[str],
        key: str | os.PathLike[str],
        authority: str | os.PathLike[str],
        passphrase: str | None = None,
    ) -> Credentials:
        """Read PEM files, and check now what would otherwise fail at the first peer.

        ``certificate`` holds the endpoint's own first and then any in between; every certificate
        in ``authority`` is trusted to issue members, whether it is a root or stands below one.
        """
        chain = load_certificates(certificate, "certificate")
        trusted = load_certificates(authority, "authority")
        private_key = load_key(key, passphrase)
        if _public_bytes(chain[0].public_key()) != _public_bytes(private_key.public_key()):
            raise CredentialsError(
                f"the key in {os.fspath(key)} does not belong to the first certificate in"
                f" {os.fspath(certificate)}: name the pair that was made together"
            )
        check_validity(chain[:1], f"the certificate in {os.fspath(certificate)}")
        check_validity(trusted, f"the authority in {os.fspath(authority)}")
        check_purpose(chain[0], f"the certificate in {os.fspath(certificate)}")
        return cls(_pem(*chain), private_key, _pem(*trusted).decode(), certificate_name(chain[0]))

    def server_context(self) -> ssl.SSLContext:
        """Make the context for connections that others dial. Make it once, for all of them."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # A peering resumes no session, and tickets would be written to peers that only send.
        context.num_tickets = 0
        return self._armed(context)

    def client_context(self) -> ssl.SSLContext:
        """Make the context for connections that we dial. Make it once, for all of them.

        With TLS 1.3 the dialler is done before the other side has checked its certificate: a
        refusal shows as an error of the first read.
        """
        return self._armed(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))

    def _armed(self, context: ssl.SSLContext) -> ssl.SSLContext:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False  # membership is the identity: see the module's docstring
        context.verify_mode = ssl.CERT_REQUIRED
        # The mesh's authority may stand below a company's root, which must not be trusted with it.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.load_verify_locations(cadata=self.authority)
        self._load_chain(context)
        return context

    def _load_chain(self, context: ssl.SSLContext) -> None:
        """Hand over certificate and key. ``ssl`` takes them from a file only.

        The file is ours alone, gone at once, and locked with a password that is never written:
        if the process is killed right here, what stays on the disk opens for nobody.
        """
        password = secrets.token_hex(32)
        with tempfile.TemporaryDirectory(prefix="peermesh-") as directory:
            path = Path(directory, "endpoint.pem")
            write_private(path, self.chain + _encrypted_pem(self.key, password))
            try:
                context.load_cert_chain(path, password=password)
            except ssl.SSLError as error:
                raise CredentialsError(
                    f"TLS 1.3 cannot use the certificate of {self.name} ({error.reason}):"
                    " make one with an Ed25519, ECDSA or RSA key of today's strength"
                ) from error


def check_address(host: str, credentials: Credentials | None, *, allow_plain: bool) -> None:
    """Raise ``InsecureAddress`` if plain TCP at this address would let strangers in.

    Only literal loopback addresses and ``localhost`` count as loopback. Other names are not
    resolved: what they mean now and what they mean when we connect need not be the same.
    """
    if credentials is not None or allow_plain or is_loopback(host):
        return
    raise InsecureAddress(
        f"plain TCP at {host or 'all interfaces'} would let anybody on the network read and write"
        " the mesh: give credentials (Credentials.from_secret or Credentials.from_files), use"
        " 127.0.0.1, or say allow_plain=True if you trust everything on that network"
    )


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach the address; an empty one means every interface."""
    if host.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def peer_name(certificate: bytes) -> str | None:
    """Give the name in a verified peer's certificate: ``getpeercert(binary_form=True)`` of it.

    ``None`` if the certificate has no name. Whether a name can be believed depends on the kind of
    credentials: see the module's docstring.
    """
    from cryptography import x509

    return certificate_name(x509.load_der_x509_certificate(certificate))


def peer_not_trusted(error: ssl.SSLError) -> PeerNotTrusted:
    """Say in words why a connection was refused, on our side or, by an alert, on the other."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return PeerNotTrusted(
            f"the peer's certificate is not of our mesh's authority ({error.verify_message}):"
            " give both sides the same cluster secret, or certificates of the same authority"
        )
    reason = error.reason or str(error)
    return PeerNotTrusted(_REFUSALS.get(reason, f"TLS failed ({reason})"))


_THEY_REFUSE: Final = (
    "the peer does not accept our certificate: give both sides the same cluster secret, or"
    " certificates of the same authority"
)
_NO_CERTIFICATE: Final = "one side showed no certificate: both sides need credentials"
_NOT_TLS: Final = "the peer speaks plain TCP: give both sides credentials, or neither"
_HUNG_UP: Final = "the peer hung up during the TLS handshake: does it have credentials too?"
_TOO_OLD: Final = "the peer has no TLS 1.3, and nothing older is accepted: update its OpenSSL"

_REFUSALS: Final = {
    "TLSV1_ALERT_UNKNOWN_CA": _THEY_REFUSE,
    "TLSV1_ALERT_DECRYPT_ERROR": _THEY_REFUSE,
    "SSLV3_ALERT_BAD_CERTIFICATE": _THEY_REFUSE,
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "our certificate has expired: issue a new one",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": _THEY_REFUSE,
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": _NO_CERTIFICATE,
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": _NO_CERTIFICATE,
    "WRONG_VERSION_NUMBER": _NOT_TLS,
    "HTTP_REQUEST": _NOT_TLS,
    "UNEXPECTED_EOF_WHILE_READING": _HUNG_UP,
    "UNSUPPORTED_PROTOCOL": _TOO_OLD,
    "TLSV1_ALERT_PROTOCOL_VERSION": _TOO_OLD,
}
"""OpenSSL's reasons, ours and those that the other side's alert carries, in words."""


def _pem(*certificates: x509.Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return b"".join(each.public_bytes(Encoding.PEM) for each in certificates)


def _encrypted_pem(key: PrivateKeyTypes, password: str) -> bytes:
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
    )

    lock = BestAvailableEncryption(password.encode())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock)


def _public_bytes(key: PublicKeyTypes) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
