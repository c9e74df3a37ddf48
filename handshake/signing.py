"""Signatures: what an endpoint with ``sign=True`` says can not be forged on the way.

An endpoint that signs has a key pair of its own, fresh in each life, and its id is made from the
public key: so no other key can be announced for it, and the id itself says that it signs
(a UUID of version 8). The key of its certificate endorses both, which binds them to its name. One
signature covers one frame, up to a thousand messages; relays never split a frame.

``cryptography`` is imported when the first key is made, or the first seal looked at.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from handshake.certificates import certificate_name, unreadable
from wire.codec import encode_unsigned
from wire.errors import CredentialsError
from wire.identifiers import ENDPOINT_ID_SIZE, EndpointId
from wire.limits import CERTIFICATE_SIZE_MAX, CERTIFICATES_MAX
from wire.messages import Announcement, Seal

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

    from handshake.credentials import Credentials
    from wire.framing import NodeFrame

SEED_SIZE: Final = 32
"""Bytes of a private key, from a source that can not be guessed (RFC 8032)."""

ENDORSEMENTS_MAX: Final = 10_000
"""Endorsements remembered as good, which are looked at once: as many as endpoints of a mesh."""

_ID_CONTEXT: Final = b"peermesh endpoint id 1\0"
_ENDORSEMENT_CONTEXT: Final = b"peermesh endorsement 1\0"
_ANNOUNCEMENT_CONTEXT: Final = b"peermesh announcement 2\0"
_FRAME_CONTEXT: Final = b"peermesh frame 2\0"
"""Set the uses of a key apart: a signature for one is none for another."""

_END_OF_TIME_NS: Final = 1 << 63

Piece = bytes | memoryview
Span = tuple[int, int]
"""When something begins and ends, in nanoseconds of Unix time."""
Verify = Callable[["NodeFrame"], bool]


def id_of(key: bytes) -> EndpointId:
    """Make the id of a public key's endpoint: 122 bits of its hash, as a UUID of version 8."""
    digest = bytearray(hashlib.sha256(_ID_CONTEXT + key).digest()[:ENDPOINT_ID_SIZE])
    digest[6] = digest[6] & 0x0F | 0x80
    digest[8] = digest[8] & 0x3F | 0x80
    return EndpointId(bytes(digest))


class Signer:
    """The key of one endpoint, and what proves it."""

    def __init__(self, seed: bytes, credentials: Credentials | None) -> None:
        """Make the key from random bytes; ``credentials`` endorse it, if there are any."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        public = self._key.public_key().public_bytes_raw()
        self.endpoint_id = id_of(public)
        self._seal = Seal(public, (), b"", b"")
        if credentials is not None:
            self.endorse(credentials)

    def endorse(self, credentials: Credentials) -> None:
        """Have the certificate's key vouch for ours, in all announcements from now on.

        Raises ``CredentialsError`` for a certificate that no announcement has room for.
        """
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import Encoding

        chain = x509.load_pem_x509_certificates(credentials.chain)[:CERTIFICATES_MAX]
        certificates = tuple(each.public_bytes(Encoding.DER) for each in chain)
        largest = max(map(len, certificates))
        if largest > CERTIFICATE_SIZE_MAX:
            raise CredentialsError(
                f"a certificate of {largest} bytes, and an endpoint that signs tells everybody its"
                f" own: issue one of {CERTIFICATE_SIZE_MAX} at most, with fewer names, or do not"
                " sign"
            )
        endorsement = _sign_with(credentials.key, _endorsed(self.endpoint_id, self._seal.key))
        self._seal = replace(self._seal, certificates=certificates, endorsement=endorsement)

    def seal(self, announcement: Announcement) -> Announcement:
        """Give the announcement with its proof."""
        sealed = replace(announcement, seal=self._seal)
        signature = self._key.sign(_ANNOUNCEMENT_CONTEXT + encode_unsigned(sealed))
        return replace(announcement, seal=replace(self._seal, signature=signature))

    def sign(self, pieces: Sequence[Piece]) -> bytes:
        """Sign a frame: see ``wire.framing.encode_node``."""
        return self._key.sign(_digest(pieces))


class Notary:
    """Tells true from forged: announcements, and the frames of their origins."""

    def __init__(self, authority: str | None, now_ns: Callable[[], int]) -> None:
        """Believe certificates of an ``authority`` (PEM) by the time of day; or without, none."""
        self._authority = authority
        self._now_ns = now_ns
        self._endorsed: dict[tuple[Seal, str | None], Span] = {}
        """When each endorsement counts: as long as all certificates that it rests on are valid."""

    def believe(self, authority: str | None) -> None:
        """Believe another authority from now on."""
        if authority != self._authority:
            self._authority = authority
            self._endorsed.clear()

    def objection(self, announcement: Announcement) -> str | None:
        """Say what is wrong with an announcement; ``None`` if it is its origin's."""
        seal = announcement.seal
        if seal is None:
            is_stripped = announcement.origin.is_signing
            return "the seal of an endpoint that signs is missing" if is_stripped else None
        if not announcement.origin.is_signing or id_of(seal.key) != announcement.origin:
            return "the key in its seal is not the one that the id is made from"
        if not _verify(seal.key, seal.signature, _ANNOUNCEMENT_CONTEXT, announcement):
            return "the signature in its seal is not the origin's"
        return self._objection_to_name(announcement.origin, announcement.name, seal)

    def end_of(self, announcement: Announcement) -> int | None:
        """Say when the endorsement of an accepted announcement ends, in nanoseconds of Unix time.

        ``None`` if it has no end.
        """
        seal = announcement.seal
        found = None if seal is None else self._endorsed.get(_proof(seal, announcement.name))
        return None if found is None else found[1]

    def has_ended(self, end_ns: int) -> bool:
        """Tell whether a moment that ``end_of`` gave is over."""
        return self._now_ns() > end_ns

    def _objection_to_name(self, origin: EndpointId, name: str | None, seal: Seal) -> str | None:
        proof, now_ns = _proof(seal, name), self._now_ns()
        begin, end = self._endorsed.get(proof, (_END_OF_TIME_NS, 0))
        if begin <= now_ns <= end:
            return None
        if self._authority is None:
            return None if name is None else "it has a name, and here nobody vouches for names"
        try:
            found = _judge_chain(origin, name, seal, self._authority, now_ns)
        except unreadable():
            return "what is in its seal are no certificates that can be read here"
        if isinstance(found, str):
            return found
        if len(self._endorsed) >= ENDORSEMENTS_MAX:
            self._endorsed.clear()
        self._endorsed[proof] = found
        return None

    def verifier(self, seal: Seal) -> Verify:
        """Give what tells whether a frame of the origin of an announcement is its own."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        key = Ed25519PublicKey.from_public_bytes(seal.key)

        def verify(frame: NodeFrame) -> bool:
            pieces, signature = frame.signed()
            return signature is not None and _is_signed(key, signature, _digest(pieces))

        return verify


def _digest(pieces: Sequence[Piece]) -> bytes:
    digest = hashlib.sha256(_FRAME_CONTEXT)
    for piece in pieces:
        digest.update(piece)
    return _FRAME_CONTEXT + digest.digest()


def _is_signed(key: Ed25519PublicKey, signature: bytes, data: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(signature, data)
    except InvalidSignature:
        return False
    return True


def _verify(key: bytes, signature: bytes, context: bytes, announcement: Announcement) -> bool:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    public = Ed25519PublicKey.from_public_bytes(key)
    return _is_signed(public, signature, context + encode_unsigned(announcement))


def _proof(seal: Seal, name: str | None) -> tuple[Seal, str | None]:
    """Give what an endorsement is remembered by: all that it says, and not what it stands on."""
    return replace(seal, signature=b""), name


def _endorsed(origin: EndpointId, key: bytes) -> bytes:
    return _ENDORSEMENT_CONTEXT + origin + key


# Certificates.


def _judge_chain(
    origin: EndpointId, name: str | None, seal: Seal, authority: str, now_ns: int
) -> Span | str:
    """Say how long an endorsement proves a name, or why it does not; raises what is ``unreadable``.

    The time is that of all certificates from the endpoint's own to the authority's.
    """
    from cryptography import x509

    chain = [x509.load_der_x509_certificate(each) for each in seal.certificates]
    if not chain:
        return "its seal has no certificate of our authority"
    if (called := certificate_name(chain[0])) != name:
        return f"it calls itself {name!r:.80}, and the certificate in its seal {called!r:.80}"
    if not _is_endorsed(chain[0], seal.endorsement, _endorsed(origin, seal.key)):
        return "its certificate's key has not endorsed it"
    rests_on = _path(chain, x509.load_pem_x509_certificates(authority.encode()), now_ns)
    if not rests_on:
        return "the certificate in its seal is not of our authority, or not valid now"
    spans = [_span(each) for each in rests_on]
    return max(begin for begin, _ in spans), min(end for _, end in spans)


def _path(
    chain: Sequence[x509.Certificate], trusted: Sequence[x509.Certificate], now_ns: int
) -> list[x509.Certificate]:
    """Give the certificates up to the authority's, each issued by the next one; empty if none."""
    for depth, (certificate, above) in enumerate(zip(chain, (*chain[1:], None), strict=True)):
        if not _is_valid(certificate, now_ns):
            return []
        for each in trusted:
            if _has_issued(each, certificate, depth) and _is_valid(each, now_ns):
                return [*chain[: depth + 1], each]
        if above is None or not _has_issued(above, certificate, depth):
            return []
    return []


def _is_valid(certificate: x509.Certificate, now_ns: int) -> bool:
    begin, end = _span(certificate)
    return begin <= now_ns <= end


def _span(certificate: x509.Certificate) -> Span:
    moments = (certificate.not_valid_before_utc, certificate.not_valid_after_utc)
    begin, end = (int(each.timestamp()) * 10**9 for each in moments)
    return begin, end


def _has_issued(issuer: x509.Certificate, certificate: x509.Certificate, depth: int) -> bool:
    """Tell whether ``issuer`` may issue, over so many authorities below it, and has done so."""
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature

    refusals: tuple[type[Exception], ...] = (x509.ExtensionNotFound, InvalidSignature, TypeError)
    refusals += unreadable()
    try:
        constraints = issuer.extensions.get_extension_for_class(x509.BasicConstraints).value
        certificate.verify_directly_issued_by(issuer)
    except refusals:
        return False
    is_deep = constraints.path_length is not None and constraints.path_length < depth
    return constraints.ca and not is_deep and _may_sign(issuer)


def _may_sign(issuer: x509.Certificate) -> bool:
    from cryptography import x509

    try:
        usage = issuer.extensions.get_extension_for_class(x509.KeyUsage).value
    except x509.ExtensionNotFound:
        return True
    return usage.key_cert_sign


def _sign_with(key: PrivateKeyTypes, data: bytes) -> bytes:
    from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa

    match key:
        case ed25519.Ed25519PrivateKey() | ed448.Ed448PrivateKey():
            return key.sign(data)
        case ec.EllipticCurvePrivateKey():
            return key.sign(data, ec.ECDSA(_hash()))
        case rsa.RSAPrivateKey():
            return key.sign(data, _padding(), _hash())
        case _:
            raise AssertionError("TLS takes no other keys: see Credentials")


def _is_endorsed(certificate: x509.Certificate, endorsement: bytes, data: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa

    key = certificate.public_key()
    try:
        match key:
            case ed25519.Ed25519PublicKey() | ed448.Ed448PublicKey():
                key.verify(endorsement, data)
            case ec.EllipticCurvePublicKey():
                key.verify(endorsement, data, ec.ECDSA(_hash()))
            case rsa.RSAPublicKey():
                key.verify(endorsement, data, _padding(), _hash())
            case _:
                return False
    except InvalidSignature:
        return False
    return True


def _hash() -> hashes.SHA256:
    from cryptography.hazmat.primitives import hashes

    return hashes.SHA256()


def _padding() -> padding.PSS:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding

    return padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.DIGEST_LENGTH)
