"""Everybody who knows the secret derives the same authority, and it issues what TLS accepts."""

from __future__ import annotations

import hashlib

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding

from handshake.certificates import ClusterAuthority, certificate_name, check_name

GOLDEN_SECRET = bytes(range(20))
GOLDEN_CERTIFICATE_SHA256 = "96b1cfcca87294a3a887af2c2fa3695e7eaa9f48936a91edb2ce91ba3f375beb"
"""Written down once: a change here splits meshes of different releases from each other."""


def test_the_authority_is_the_same_everywhere_byte_for_byte():
    one, two = ClusterAuthority(GOLDEN_SECRET), ClusterAuthority(GOLDEN_SECRET)
    assert one.certificate == two.certificate
    der = one.certificate.public_bytes(Encoding.DER)
    assert hashlib.sha256(der).hexdigest() == GOLDEN_CERTIFICATE_SHA256


def test_another_secret_gives_another_authority():
    ours, theirs = ClusterAuthority(GOLDEN_SECRET), ClusterAuthority(GOLDEN_SECRET[::-1])
    assert ours.fingerprint != theirs.fingerprint
    assert ours.certificate.subject != theirs.certificate.subject
    assert ours.certificate.public_key() != theirs.certificate.public_key()


def test_what_an_authority_issues_carries_its_signature_and_a_fresh_key():
    authority = ClusterAuthority(GOLDEN_SECRET)
    first, first_key = authority.issue("a")
    second, _ = authority.issue("a")
    first.verify_directly_issued_by(authority.certificate)
    assert first.public_key() == first_key.public_key()
    assert first.public_key() != second.public_key()
    assert first.serial_number != second.serial_number
    with pytest.raises((InvalidSignature, ValueError)):
        first.verify_directly_issued_by(ClusterAuthority(GOLDEN_SECRET[::-1]).certificate)


def test_only_the_authority_may_issue():
    authority = ClusterAuthority(GOLDEN_SECRET)
    for certificate, may_issue in ((authority.certificate, True), (authority.issue("a")[0], False)):
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
        usage = certificate.extensions.get_extension_for_class(x509.KeyUsage)
        assert constraints.critical
        assert constraints.value.ca is may_issue
        assert usage.value.key_cert_sign is may_issue
        assert usage.value.digital_signature is not may_issue


def test_what_a_verifier_has_to_understand_is_marked_as_critical():
    """As RFC 5280, 4.2.1, has it; purposes are for those who look at them."""
    issued, _ = ClusterAuthority(GOLDEN_SECRET).issue("a")
    critical = {type(each.value): each.critical for each in issued.extensions}
    assert critical == {
        x509.SubjectKeyIdentifier: False,
        x509.AuthorityKeyIdentifier: False,
        x509.BasicConstraints: True,
        x509.KeyUsage: True,
        x509.ExtendedKeyUsage: False,
    }


@pytest.mark.parametrize("name", ["x", "x" * 64, "\u00fc" * 32])
def test_every_name_that_fits_is_issued(name: str) -> None:
    check_name(name)
    certificate, _ = ClusterAuthority(bytes(20)).issue(name)
    assert certificate_name(certificate) == name


@pytest.mark.parametrize("name", ["", "x" * 65, "\u00fc" * 33])
def test_a_name_that_does_not_fit_is_a_mistake_of_the_caller(name: str) -> None:
    with pytest.raises(AssertionError, match="does not fit a common name"):
        ClusterAuthority(bytes(20)).issue(name)
