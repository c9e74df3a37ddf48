"""Why TLS refused a connection, in words that say what to do: OpenSSL's reasons, and alerts."""

from __future__ import annotations

import ssl
from typing import Final

from wire.errors import PeerNotTrusted

_NOT_YET_VALID: Final = 9
_HAS_EXPIRED: Final = 10
"""X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED, which ``ssl`` has no names for."""

_THEY_REFUSE: Final = (
    "the peer does not accept our certificate: give both sides the same cluster secret, or valid"
    " certificates of the same authority"
)
_NO_CERTIFICATE: Final = "one side showed no certificate: both sides need credentials"
_NOT_TLS: Final = "the peer speaks plain TCP: give both sides credentials, or neither"
_HUNG_UP: Final = (
    "the peer hung up during the TLS handshake: it has no credentials, or too many connections at"
    " once: give it credentials, or try again"
)
_TOO_OLD: Final = "the peer has no TLS 1.3, and nothing older is accepted: update its OpenSSL"

_REFUSALS: Final = {
    "TLSV1_ALERT_UNKNOWN_CA": _THEY_REFUSE,
    "TLSV1_ALERT_DECRYPT_ERROR": _THEY_REFUSE,
    "SSLV3_ALERT_BAD_CERTIFICATE": _THEY_REFUSE,
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the peer refused our certificate, which has expired: issue"
    " a new one",
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


def peer_not_trusted(error: ssl.SSLError) -> PeerNotTrusted:
    """Say in words why a connection was refused, on our side or, by an alert, on the other."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return PeerNotTrusted(_verification(error))
    reason = error.reason or str(error)
    return PeerNotTrusted(_REFUSALS.get(reason, f"TLS failed ({reason})"))


def _verification(error: ssl.SSLCertVerificationError) -> str:
    if error.verify_code == _HAS_EXPIRED:
        return "a certificate of the peer, or our authority's, has expired: issue a new one"
    if error.verify_code == _NOT_YET_VALID:
        return "the peer's certificate is not yet valid: check the clocks of both machines"
    return (
        f"the peer's certificate is not of our mesh's authority ({error.verify_message}):"
        " give both sides the same cluster secret, or certificates of the same authority"
    )
