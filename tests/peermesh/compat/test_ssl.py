"""Endpoints with certificates."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from handshake.issuing import AUTHORITY, OwnAuthority
from peermesh.compat.broker import BrokerOptions, Configuration, Endpoint
from peermesh.errors import CredentialsError, SettingsError
from tests.peermesh.compat.conftest import HOST

NOW = datetime.now(UTC)
VALID = NOW - timedelta(days=1), NOW + timedelta(days=1)


def configuration(folder: Path, passphrase: str = "") -> Configuration:
    """Have an authority of its own, and a certificate by it; the key may be locked."""
    folder.mkdir()
    authority = OwnAuthority.create("authority", VALID)
    trusted, _ = authority.own.save(folder, AUTHORITY)
    certificate, key = authority.issue("member", VALID).save(folder, "member", passphrase or None)
    found = Configuration(BrokerOptions())
    found.openssl_cafile, found.openssl_passphrase = str(trusted), passphrase
    found.openssl_certificate, found.openssl_key = str(certificate), str(key)
    return found


def can_meet(first: Configuration | None, second: Configuration | None) -> bool:
    """Tell whether they become peers, whichever listens, and hear each other if so."""
    met = set()
    for left, right in ((first, second), (second, first)):
        with Endpoint(left) as near, Endpoint(right) as far:
            subscribers = near.make_subscriber("/test"), far.make_subscriber("/test")
            met.add(near.peer(HOST, far.listen(HOST, 0), 0))
            if True in met:
                for each, subscriber in zip((far, near), subscribers, strict=True):
                    each.publish("/test", ["ping"])
                    assert subscriber.get() == ("/test", ("ping",))
    (found,) = met
    return found


@pytest.mark.parametrize("passphrase", ["", "12345"])
def test_certificates_of_one_authority_let_both_in(tmp_path, passphrase):
    ours = configuration(tmp_path / "ours", passphrase)
    assert can_meet(ours, ours)


def test_others_are_kept_out(tmp_path):
    ours, theirs = configuration(tmp_path / "ours"), configuration(tmp_path / "theirs")
    assert not can_meet(ours, theirs)
    assert not can_meet(ours, None)
    assert not can_meet(ours, Configuration(BrokerOptions(disable_ssl=True)))


def test_a_wrong_passphrase_and_half_of_the_files_are_told_at_once(tmp_path):
    ours = configuration(tmp_path / "ours", "12345")
    ours.openssl_passphrase = "54321"
    with pytest.raises(CredentialsError):
        Endpoint(ours)
    ours.openssl_key = ""
    with pytest.raises(SettingsError, match="belong together"):
        Endpoint(ours)


def test_without_tls_an_endpoint_goes_beyond_loopback_only_when_told_to():
    with Endpoint(Configuration(BrokerOptions(disable_ssl=True))) as endpoint:
        assert endpoint.listen("0.0.0.0", 0) > 0


def test_a_configuration_shows_no_passphrase(tmp_path):
    ours = configuration(tmp_path / "ours", "12345")
    assert "12345" not in repr(ours)
    assert ours.openssl_cafile in repr(ours)
