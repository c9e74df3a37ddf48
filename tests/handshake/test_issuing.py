"""An own authority: what it issues is what the mesh and other programs take."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from handshake.credentials import Credentials
from handshake.issuing import AUTHORITY, KeyKind, OwnAuthority, describe
from wire.errors import CredentialsError

NOW = datetime(2030, 1, 1, tzinfo=UTC)
TODAY = (datetime.now(UTC) - timedelta(days=1), datetime.now(UTC) + timedelta(days=1))


@pytest.mark.parametrize("kind", KeyKind)
def test_what_is_issued_makes_credentials(tmp_path: Path, kind: KeyKind) -> None:
    authority = OwnAuthority.create("ours", TODAY, kind)
    authority.own.save(tmp_path, AUTHORITY)
    found = OwnAuthority.load(tmp_path)
    certificate, key = found.issue("sensor", TODAY, kind=kind).save(tmp_path, "sensor")
    credentials = Credentials.from_files(certificate, key, tmp_path / "authority.pem")
    assert credentials.name == "sensor"
    assert credentials.can_trust_names
    assert credentials.server_context().verify_mode is ssl.CERT_REQUIRED
    assert key.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "authority.key").stat().st_mode & 0o777 == 0o600


def test_keys_are_of_the_kind_that_was_asked_for() -> None:
    authority = OwnAuthority.create("ours", TODAY, KeyKind.P256)
    assert isinstance(authority.own.key, EllipticCurvePrivateKey)
    assert isinstance(authority.issue("a", TODAY, kind=KeyKind.P256).key, EllipticCurvePrivateKey)
    assert isinstance(authority.issue("a", TODAY).key, Ed25519PrivateKey)


def test_a_certificate_tells_what_it_says_of_itself(tmp_path: Path) -> None:
    valid = NOW, NOW + timedelta(days=30)
    authority = OwnAuthority.create("ours", valid)
    hosts = ["gateway.example", "192.0.2.7"]
    certificate, _ = authority.issue("gateway", valid, hosts).save(tmp_path, "gateway")
    (found,) = describe(certificate)
    assert (found.name, found.issuer, found.hosts) == ("gateway", "CN=ours", tuple(hosts))
    assert (found.valid_from, found.valid_until) == valid
    assert found.is_authority is False
    assert found.is_valid(NOW)
    assert not found.is_valid(NOW - timedelta(seconds=1))
    assert not found.is_valid(NOW + timedelta(days=31))
    assert found.is_valid(valid[1])
    (own, _) = authority.own.save(tmp_path, AUTHORITY)
    assert [each.is_authority for each in describe(own)] == [True]
    assert found.fingerprint == authority_fingerprint(certificate)


def authority_fingerprint(certificate: Path) -> str:
    import hashlib

    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate.read_text())).hexdigest()


def test_files_that_are_there_are_not_overwritten_unless_they_are_to_be_renewed(
    tmp_path: Path,
) -> None:
    authority = OwnAuthority.create("ours", TODAY)
    first = authority.issue("a", TODAY).save(tmp_path, "a")
    before = [path.read_bytes() for path in first]
    with pytest.raises(CredentialsError, match=r"a\.key: File exists"):
        authority.issue("a", TODAY).save(tmp_path, "a")
    assert [path.read_bytes() for path in first] == before
    authority.issue("a", TODAY).save(tmp_path, "a", replaces=True)
    assert [path.read_bytes() for path in first] != before
    assert first[1].stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.key", "a.pem"]


def test_keys_are_locked_with_a_passphrase(tmp_path: Path) -> None:
    OwnAuthority.create("ours", TODAY).own.save(tmp_path, AUTHORITY, "correct horse")
    assert b"ENCRYPTED" in (tmp_path / "authority.key").read_bytes()
    with pytest.raises(CredentialsError, match="is locked"):
        OwnAuthority.load(tmp_path)
    assert OwnAuthority.load(tmp_path, "correct horse")


def test_keys_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    OwnAuthority.create("ours", TODAY).own.save(tmp_path, AUTHORITY)
    other = OwnAuthority.create("theirs", TODAY).own.save(tmp_path, "other")
    (tmp_path / "authority.key").write_bytes(other[1].read_bytes())
    with pytest.raises(CredentialsError, match="put the pair"):
        OwnAuthority.load(tmp_path)
    rsa = generate_private_key(65537, 2048)
    pem = rsa.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "authority.key").write_bytes(pem)
    with pytest.raises(CredentialsError, match="use the program that made it"):
        OwnAuthority.load(tmp_path)


@pytest.mark.parametrize("name", ["", "a" * 65, "two\nlines"])
def test_names_that_fit_no_certificate_are_refused(name: str) -> None:
    with pytest.raises(CredentialsError, match="printable name"):
        OwnAuthority.create(name, TODAY)
    with pytest.raises(CredentialsError, match="printable name"):
        OwnAuthority.create("ours", TODAY).issue(name, TODAY)


@pytest.mark.parametrize("host", ["", "a b", "bücher.example", "192.0.2.0/24", "a..b", "a" * 254])
def test_hosts_that_fit_no_certificate_are_refused(host: str) -> None:
    authority = OwnAuthority.create("ours", TODAY)
    with pytest.raises(CredentialsError, match="is no host"):
        authority.issue("gateway", TODAY, [host])


def test_hosts_may_be_names_wildcards_and_addresses() -> None:
    hosts = ["node1", "node_1.example", "xn--bcher-kva.example", "*.example", "::1"]
    certificate = OwnAuthority.create("ours", TODAY).issue("gateway", TODAY, hosts).certificate
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert not names.critical, "RFC 5280, 4.2.1.6: it is not where there is a subject"
    assert [str(each.value) for each in names.value] == hosts


@pytest.mark.parametrize("passphrase", ["", "x" * 1_024, "\udcff"])
def test_a_passphrase_that_locks_nothing_is_refused(tmp_path: Path, passphrase: str) -> None:
    authority = OwnAuthority.create("ours", TODAY)
    with pytest.raises(CredentialsError, match="1 to 1023 bytes"):
        authority.own.save(tmp_path, AUTHORITY, passphrase)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("passphrase", ["x", "x" * 1_023])
def test_a_passphrase_of_any_length_that_locks_is_taken(tmp_path: Path, passphrase: str) -> None:
    OwnAuthority.create("ours", TODAY).own.save(tmp_path, AUTHORITY, passphrase)
    assert OwnAuthority.load(tmp_path, passphrase)


def test_a_file_that_cannot_be_read_is_named_by_what_it_should_hold(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match=r"cannot read the authority file .*authority\.pem"):
        OwnAuthority.load(tmp_path)
    with pytest.raises(CredentialsError, match=r"cannot read the certificate file .*no\.pem"):
        describe(tmp_path / "no.pem")


def test_a_certificate_that_says_nothing_of_its_use_is_no_authority_and_hosts_add_up(
    tmp_path: Path,
) -> None:
    key = Ed25519PrivateKey.generate()
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "bare")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name)
    builder = builder.not_valid_before(NOW).not_valid_after(NOW + timedelta(days=1))
    bare = builder.public_key(key.public_key()).serial_number(1).sign(key, None)
    (tmp_path / "bare.pem").write_bytes(bare.public_bytes(Encoding.PEM))
    (found,) = describe(tmp_path / "bare.pem")
    assert found.is_authority is False
    assert found.hosts == ()


def test_keys_are_not_printed(tmp_path: Path) -> None:
    assert "key" not in repr(OwnAuthority.create("ours", TODAY).own)
