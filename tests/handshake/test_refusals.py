"""Why TLS refused a connection, in words that say what to do."""

from __future__ import annotations

import ssl

import pytest

from handshake.refusals import peer_not_trusted


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("UNSUPPORTED_PROTOCOL", "the peer has no TLS 1.3"),
        ("PEER_DID_NOT_RETURN_A_CERTIFICATE", "one side showed no certificate"),
        ("SOMETHING_NEW", "TLS failed (SOMETHING_NEW)"),
        (None, "TLS failed (it broke)"),
    ],
)
def test_what_openssl_says_is_put_into_words(reason: str | None, said: str) -> None:
    error = ssl.SSLError(1, "it broke")
    error.reason = reason
    assert str(peer_not_trusted(error)).startswith(said)
