"""Credentials: how an endpoint proves that it belongs to the mesh (design 5).

With them both sides of a connection show a certificate, over TLS 1.3, and take the other's if the
same authority issued it. **Membership is the identity:** there
is no host name to check, because endpoints move and are dialled by address. The authority therefore
has to be the mesh's own. Two ways lead to one:

- a cluster secret, from which every endpoint derives the same authority. Its holders trust each
  other completely: any of them may issue itself a certificate with any name;
- certificate files of the user's own authority. Here a name is worth something, since only that
  authority can write it: limits of a peer by its certificate's name need this way.
"""

from __future__ import annotations

import os
import secrets
import ssl
import tempfile
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from handshake.certificates import (
    ClusterAuthority,
    certificate_hosts,
    certificate_name,
    check_name,
)
from handshake.keyfiles import (
    certificates_explained,
    check_kind,
    check_purpose,
    check_validity,
    load_certificates,
    load_key,
    stamp_of,
)
from handshake.private_files import write_private
from handshake.secret import ClusterSecret
from wire.errors import CredentialsError
from wire.public import public

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes, PublicKeyTypes


MEMBER_NAME: Final = "peermesh"
"""What a holder of the cluster secret is called who gave no name."""

Stamp = tuple[tuple[int, ...] | None, ...]
"""Tells versions of files apart without reading them; ``None`` for one that cannot be found."""


@dataclass(frozen=True, slots=True)
class CredentialFiles:
    """Where credentials were read from, and can be read again."""

    certificate: Path
    key: Path
    authority: Path
    passphrase: str | None = field(default=None, repr=False)

    def stamp(self) -> Stamp:
        """Give what differs when a file was written or replaced."""
        return tuple(map(stamp_of, (self.certificate, self.key, self.authority)))

    def load(self) -> Credentials:
        """Read the files as they are now; raises ``CredentialsError``."""
        return Credentials.from_files(self.certificate, self.key, self.authority, self.passphrase)


@public
@dataclass(frozen=True, slots=True)
class Credentials:
    """An endpoint's certificate, its key, and the authority whose certificates it accepts.

    Build one with ``from_secret`` or ``from_files``. It can be shared by endpoints and threads.
    """

    chain: bytes = field(repr=False)
    """Certificates in PEM: the endpoint's own, then those between it and the authority."""
    key: PrivateKeyTypes = field(repr=False)
    authority: str = field(repr=False)
    """Certificates in PEM: each endpoint they issued one to is a member of the mesh."""
    name: str | None
    """What the endpoint is called in its certificate, for limits and logs."""
    can_trust_names: bool = field(default=True, repr=False)
    """False with a cluster secret, whose holders may write any name into their certificates."""
    files: CredentialFiles | None = field(default=None, repr=False)
    """Where they came from, if they may change there."""
    stamp: Stamp = field(default=(), repr=False)
    """The version of the files that was read."""

    @classmethod
    def from_secret(cls, secret: ClusterSecret | str, name: str = MEMBER_NAME) -> Credentials:
        """Derive the cluster's authority and let it issue a certificate with this name.

        A secret may be its text, as ``peermesh secret new`` prints it.

        The name is for people who read logs: printable, and at most ``NAME_SIZE_MAX`` bytes. TLS
        shows it to every dialler, before it knows its id. Each call makes a fresh key, which
        never leaves the process.
        """
        check_name(name)
        if isinstance(secret, str):
            secret = ClusterSecret.parse(secret)
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
        When the files change, new connections use the new ones, without a restart.
        """
        files = CredentialFiles(Path(certificate), Path(key), Path(authority), passphrase)
        stamp = files.stamp()
        chain = load_certificates(certificate, "certificate")
        trusted = load_certificates(authority, "authority")
        private_key = load_key(key, passphrase)
        check_kind(private_key, f"the key in {os.fspath(key)}")
        where = f"the certificate in {os.fspath(certificate)}"
        with certificates_explained(where):
            public, name = _public_bytes(chain[0].public_key()), certificate_name(chain[0])
            check_purpose(chain[0], where)
        if public != _public_bytes(private_key.public_key()):
            raise CredentialsError(
                f"the key in {os.fspath(key)} does not belong to the first certificate in"
                f" {os.fspath(certificate)}: name the pair that was made together"
            )
        check_validity(chain[:1], where)
        check_validity(trusted, f"the authority in {os.fspath(authority)}")
        authorities = _pem(*trusted).decode()
        return cls(_pem(*chain), private_key, authorities, name, files=files, stamp=stamp)

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
        if the process is killed right here, what stays on the disk can not be opened.
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


@lru_cache(64)
def _hosts(chain: bytes) -> tuple[str, ...]:
    from cryptography import x509

    return certificate_hosts(x509.load_pem_x509_certificates(chain)[0])


def hosts_of(credentials: Credentials) -> tuple[str, ...]:
    """Give the host names and addresses in an endpoint's own certificate."""
    return _hosts(credentials.chain)


def peer_name(certificate: bytes) -> str | None:
    """Give the name in a verified peer's certificate: ``getpeercert(binary_form=True)`` of it.

    ``None`` if the certificate has no name. Whether a name can be believed depends on the kind of
    credentials: see the module's docstring.
    """
    from cryptography import x509

    return certificate_name(x509.load_der_x509_certificate(certificate))


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
