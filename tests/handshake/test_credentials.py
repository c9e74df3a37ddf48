"""Who is let in and who is not, over real TLS: two endpoints, and memory instead of a network."""

from __future__ import annotations

import base64
import ssl
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
import trio
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import dsa, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from handshake import keyfiles
from handshake.credentials import Credentials, hosts_of, peer_name
from handshake.issuing import describe
from handshake.private_files import FILE_SIZE_MAX
from handshake.refusals import peer_not_trusted
from handshake.secret import ClusterSecret
from peermesh.testing.time_limits import limit
from wire.errors import CredentialsError, PeerNotTrusted

SECRET = ClusterSecret(bytes(range(20)))
OTHER_SECRET = ClusterSecret(bytes(range(1, 21)))
ENOUGH_ROUNDS = 6  # TLS 1.3 is done after two


class Side:
    """One end of a TLS connection over memory: it steps, and remembers how it failed."""

    def __init__(self, context: ssl.SSLContext, *, is_server: bool) -> None:
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_side=is_server)
        self.error: ssl.SSLError | None = None

    def step(self) -> None:
        """Shake hands, then read: a refusal may come after the dialler's handshake."""
        try:
            self.tls.do_handshake()
            self.tls.read(1)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self.error = self.error or error

    def is_ready(self) -> bool:
        return self.error is None and self.tls.version() is not None


def meet(client: ssl.SSLContext, server: ssl.SSLContext) -> tuple[Side, Side]:
    """Let two contexts shake hands as far as they get."""
    dialler, acceptor = Side(client, is_server=False), Side(server, is_server=True)
    for _ in range(ENOUGH_ROUNDS):
        dialler.step()
        acceptor.incoming.write(dialler.outgoing.read())
        acceptor.step()
        dialler.incoming.write(acceptor.outgoing.read())
    return dialler, acceptor


def assert_both_refuse(dialler: Side, acceptor: Side) -> None:
    assert dialler.error is not None
    assert acceptor.error is not None


def seen_name(side: Side) -> str | None:
    certificate = side.tls.getpeercert(binary_form=True)
    assert certificate is not None
    return peer_name(certificate)


# The cluster secret.


def test_the_same_secret_lets_both_sides_in_and_tells_their_names():
    left = Credentials.from_secret(SECRET, "left")
    right = Credentials.from_secret(SECRET, "dépôt 4")
    dialler, acceptor = meet(left.client_context(), right.server_context())
    assert dialler.is_ready()
    assert acceptor.is_ready()
    assert dialler.tls.version() == "TLSv1.3"
    assert seen_name(dialler) == "dépôt 4"
    assert seen_name(acceptor) == "left"


def test_a_wrong_secret_is_refused_on_both_sides():
    left = Credentials.from_secret(SECRET, "left")
    right = Credentials.from_secret(OTHER_SECRET, "right")
    dialler, acceptor = meet(left.client_context(), right.server_context())
    assert_both_refuse(dialler, acceptor)
    assert isinstance(dialler.error, ssl.SSLCertVerificationError)
    assert "same cluster secret" in str(peer_not_trusted(dialler.error))
    assert acceptor.error is not None
    assert "same cluster secret" in str(peer_not_trusted(acceptor.error))


def test_an_acceptor_refuses_a_stranger_who_would_take_anybody():
    stranger = Credentials.from_secret(OTHER_SECRET, "stranger").client_context()
    stranger.verify_mode = ssl.CERT_NONE
    acceptor_context = Credentials.from_secret(SECRET, "right").server_context()
    dialler, acceptor = meet(stranger, acceptor_context)
    assert isinstance(acceptor.error, ssl.SSLCertVerificationError)
    assert dialler.error is not None
    assert "does not accept our certificate" in str(peer_not_trusted(dialler.error))


def test_a_dialler_without_a_certificate_is_refused_on_both_sides():
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.check_hostname = False
    bare.verify_mode = ssl.CERT_NONE
    dialler, acceptor = meet(bare, Credentials.from_secret(SECRET, "right").server_context())
    assert_both_refuse(dialler, acceptor)
    for side in (dialler, acceptor):
        assert side.error is not None
        assert "no certificate" in str(peer_not_trusted(side.error))


def test_a_certificate_from_elsewhere_with_the_authority_s_name_is_refused():
    genuine = Credentials.from_secret(SECRET, "right")
    authority = x509.load_pem_x509_certificate(genuine.authority.encode())
    key = Ed25519PrivateKey.generate()
    forged = _issue(authority.subject, key, (authority.subject, key))
    forger = Credentials(_pem(forged), key, genuine.authority, "forger")
    dialler, acceptor = meet(forger.client_context(), genuine.server_context())
    assert_both_refuse(dialler, acceptor)


def test_an_endpoint_cannot_pass_its_membership_on():
    """What an endpoint signs with its own key is no member: it is no authority."""
    member = Credentials.from_secret(SECRET, "member")
    certificate = x509.load_pem_x509_certificate(member.chain)
    key = Ed25519PrivateKey.generate()
    assert isinstance(member.key, Ed25519PrivateKey)
    friend = _issue(_named("friend"), key, (certificate.subject, member.key))
    friendly = Credentials(_pem(friend) + member.chain, key, member.authority, "friend")
    dialler, acceptor = meet(friendly.client_context(), member.server_context())
    assert_both_refuse(dialler, acceptor)


@pytest.mark.parametrize("is_old_server", [False, True], ids=["old client", "old server"])
def test_nothing_older_than_tls_1_3_is_spoken(is_old_server):
    old, new = Credentials.from_secret(SECRET, "old"), Credentials.from_secret(SECRET, "new")
    server = (old if is_old_server else new).server_context()
    client = (new if is_old_server else old).client_context()
    changed = server if is_old_server else client
    changed.minimum_version = changed.maximum_version = ssl.TLSVersion.TLSv1_2
    dialler, acceptor = meet(client, server)
    assert_both_refuse(dialler, acceptor)
    updated = dialler if is_old_server else acceptor
    assert updated.error is not None
    assert "TLS 1.3" in str(peer_not_trusted(updated.error))


@pytest.mark.parametrize("is_server", [False, True], ids=["we dial", "we accept"])
@pytest.mark.parametrize("first_bytes", [b"peermesh\x01\x01", b"GET / HTTP/1.1\r\n\r\n"])
def test_plain_bytes_are_refused_and_named(is_server, first_bytes):
    credentials = Credentials.from_secret(SECRET, "left")
    context = credentials.server_context() if is_server else credentials.client_context()
    side = Side(context, is_server=is_server)
    side.step()
    side.incoming.write(first_bytes)
    side.step()
    assert side.error is not None
    assert "plain TCP" in str(peer_not_trusted(side.error))


def test_a_peer_that_hangs_up_is_suspected_of_having_no_credentials():
    side = Side(Credentials.from_secret(SECRET, "left").client_context(), is_server=False)
    side.step()
    side.incoming.write_eof()
    side.step()
    assert side.error is not None
    assert "hung up" in str(peer_not_trusted(side.error))


async def test_a_peering_over_sockets_carries_bytes_both_ways():
    left = Credentials.from_secret(SECRET, "left").client_context()
    right = Credentials.from_secret(SECRET, "right").server_context()

    async def echo(stream: trio.SocketStream) -> None:
        async with trio.SSLStream(stream, right, server_side=True) as tls:
            await tls.send_all(await tls.receive_some(100))

    with trio.fail_after(limit()):
        async with trio.open_nursery() as nursery:
            listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
            nursery.start_soon(trio.serve_listeners, echo, listeners)
            port = listeners[0].socket.getsockname()[1]
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            async with trio.SSLStream(stream, left) as tls:
                await tls.send_all(b"hello")
                assert await tls.receive_some(100) == b"hello"
            nursery.cancel_scope.cancel()


def test_no_key_stays_on_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    seen: list[bytes] = []
    load_cert_chain = ssl.SSLContext.load_cert_chain

    def observe(context, certfile, **options):
        assert certfile.parent.name.startswith("peermesh-"), "whose it is, if it is found after all"
        assert certfile.name.split(".") == ["endpoint", "pem"]
        assert len(options["password"]) == 64, "256 bits in hex"
        assert certfile.stat().st_mode & 0o777 == 0o600
        assert certfile.parent.stat().st_mode & 0o777 == 0o700
        seen.append(certfile.read_bytes())
        load_cert_chain(context, certfile, **options)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", observe)
    Credentials.from_secret(SECRET, "left").server_context()
    (content,) = seen
    assert b"-----BEGIN ENCRYPTED PRIVATE KEY-----" in content
    assert b"-----BEGIN PRIVATE KEY-----" not in content
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "a" * 65, "é" * 33, "two\nlines", "nul\0", "\ud800"])
def test_a_name_that_fits_no_certificate_is_refused(name):
    with pytest.raises(CredentialsError, match="printable name"):
        Credentials.from_secret(SECRET, name)


def test_contexts_keep_what_python_has_by_default_and_servers_write_no_tickets():
    credentials = Credentials.from_secret(SECRET, "left")
    server, client = credentials.server_context(), credentials.client_context()
    for context, protocol in (
        (server, ssl.PROTOCOL_TLS_SERVER),
        (client, ssl.PROTOCOL_TLS_CLIENT),
    ):
        usual = ssl.SSLContext(protocol).verify_flags
        assert context.verify_flags == usual | ssl.VERIFY_X509_PARTIAL_CHAIN
    assert server.num_tickets == 0


def test_credentials_print_neither_key_nor_certificates():
    assert repr(Credentials.from_secret(SECRET, "left")) == "Credentials(name='left')"


def test_an_unknown_refusal_still_says_its_reason():
    strange = ssl.SSLError(1, "strange")
    strange.reason = "STRANGE"
    error = peer_not_trusted(strange)
    assert isinstance(error, PeerNotTrusted)
    assert "STRANGE" in str(error)


# Certificate files of the user's own authority.


@dataclass(frozen=True)
class Authority:
    """A user's authority, with its certificate in a file."""

    key: Ed25519PrivateKey
    name: x509.Name
    file: Path

    @property
    def issuer(self) -> tuple[x509.Name, Ed25519PrivateKey]:
        return self.name, self.key

    def member(self, folder: Path, name: str = "service-a", **options) -> tuple[Path, Path, Path]:
        """Write what an endpoint needs: its certificate, its key, and the authority."""
        key = options.pop("key", None) or Ed25519PrivateKey.generate()
        lock = options.pop("lock", None) or NoEncryption()
        certificate = _issue(_named(name), key, self.issuer, **options)
        paths = folder / f"{name}.crt", folder / f"{name}.key"
        paths[0].write_bytes(_pem(certificate))
        paths[1].touch(mode=0o600)
        paths[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock))
        return *paths, self.file


@pytest.fixture
def authority(tmp_path) -> Authority:
    return _make_authority(tmp_path, "our authority")


def _make_authority(folder: Path, name: str, above: Authority | None = None) -> Authority:
    key = Ed25519PrivateKey.generate()
    issuer = above.issuer if above else (_named(name), key)
    file = folder / f"{name}.crt"
    file.write_bytes(_pem(_issue(_named(name), key, issuer, is_authority=True)))
    return Authority(key, _named(name), file)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)] if name else [])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)


def _issue(
    subject: x509.Name,
    key: Ed25519PrivateKey | rsa.RSAPrivateKey,
    issuer: tuple[x509.Name, Ed25519PrivateKey],
    *,
    is_authority: bool = False,
    valid_days: tuple[int, int] = (-1, 1),
    extensions: tuple[x509.ExtensionType, ...] = (),
) -> x509.Certificate:
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer[0])
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + timedelta(days=valid_days[0]))
        .not_valid_after(now + timedelta(days=valid_days[1]))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(issuer[1], None)


def test_certificates_of_one_authority_let_both_sides_in(tmp_path, authority):
    left = Credentials.from_files(*authority.member(tmp_path, "service-a"))
    right = Credentials.from_files(*authority.member(tmp_path, "service-b"))
    dialler, acceptor = meet(left.client_context(), right.server_context())
    assert dialler.is_ready()
    assert acceptor.is_ready()
    assert left.name == seen_name(acceptor) == "service-a"
    assert right.name == seen_name(dialler) == "service-b"


def test_certificates_of_two_authorities_refuse_each_other(tmp_path, authority):
    other = _make_authority(tmp_path, "their authority")
    left = Credentials.from_files(*authority.member(tmp_path, "service-a"))
    right = Credentials.from_files(*other.member(tmp_path, "service-b"))
    assert_both_refuse(*meet(left.client_context(), right.server_context()))


def test_an_authority_below_a_company_root_is_trusted_without_the_root(tmp_path, authority):
    ours = _make_authority(tmp_path, "mesh authority", above=authority)
    member = Credentials.from_files(*ours.member(tmp_path, "service-a"))
    colleague = Credentials.from_files(*authority.member(tmp_path, "payroll"))
    dialler, acceptor = meet(member.client_context(), member.server_context())
    assert dialler.is_ready()
    assert acceptor.is_ready()
    assert_both_refuse(*meet(colleague.client_context(), member.server_context()))


def test_certificates_in_between_travel_along(tmp_path, authority):
    between = _make_authority(tmp_path, "department", above=authority)
    certificate, key, _ = between.member(tmp_path, "service-a")
    certificate.write_bytes(certificate.read_bytes() + between.file.read_bytes())
    left = Credentials.from_files(certificate, key, authority.file)
    right = Credentials.from_files(*authority.member(tmp_path, "service-b"))
    dialler, acceptor = meet(left.client_context(), right.server_context())
    assert dialler.is_ready()
    assert acceptor.is_ready()


def test_a_locked_key_opens_with_its_passphrase(tmp_path, authority):
    files = authority.member(tmp_path, lock=BestAvailableEncryption("schlüssel".encode()))
    member = Credentials.from_files(*files, passphrase="schlüssel")
    dialler, acceptor = meet(member.client_context(), member.server_context())
    assert dialler.is_ready()
    assert acceptor.is_ready()


@pytest.mark.parametrize(
    ("lock", "passphrase", "advice"),
    [
        (b"right", None, "is locked: give its passphrase"),
        (b"right", "wrong", "does not open with this passphrase"),
        (None, "unneeded", "is not locked: leave the passphrase out"),
    ],
)
def test_a_passphrase_out_of_place_is_named(tmp_path, authority, lock, passphrase, advice):
    locked = BestAvailableEncryption(lock) if lock else None
    files = authority.member(tmp_path, lock=locked)
    with pytest.raises(CredentialsError, match=advice) as caught:
        Credentials.from_files(*files, passphrase=passphrase)
    assert str(files[1]) in str(caught.value)
    assert "unneeded" not in str(caught.value)


@pytest.mark.parametrize(
    ("valid_days", "advice"),
    [((-3, -1), r"expired on \d{4}-\d\d-\d\d: issue a new one"), ((1, 2), "machine's clock")],
)
def test_a_certificate_that_is_not_valid_today_is_refused(tmp_path, authority, valid_days, advice):
    files = authority.member(tmp_path, valid_days=valid_days)
    with pytest.raises(CredentialsError, match=advice):
        Credentials.from_files(*files)


@pytest.mark.parametrize(
    ("seconds_before", "seconds_after", "said"),
    [(0, None, ""), (1, None, "is not valid before"), (None, 0, ""), (None, 1, "expired on")],
)
def test_a_certificate_is_valid_from_its_first_second_to_its_last(
    tmp_path, authority, monkeypatch, seconds_before, seconds_after, said
):
    own = x509.load_pem_x509_certificate(authority.member(tmp_path)[0].read_bytes())

    class Clock:
        @staticmethod
        def now(zone):
            if seconds_after is None:
                return own.not_valid_before_utc - timedelta(seconds=seconds_before)
            return own.not_valid_after_utc + timedelta(seconds=seconds_after)

    monkeypatch.setattr(keyfiles, "datetime", Clock)
    with pytest.raises(CredentialsError, match=said) if said else nullcontext():
        keyfiles.check_validity([own], "it")


def test_a_certificate_that_expired_is_refused_whatever_stands_below_it(tmp_path, authority):
    between = _make_authority(tmp_path, "department", above=authority)
    certificate, key, _ = between.member(tmp_path, valid_days=(-3, -1))
    certificate.write_bytes(certificate.read_bytes() + between.file.read_bytes())
    told = rf"the certificate in {certificate} expired"
    with pytest.raises(CredentialsError, match=told):
        Credentials.from_files(certificate, key, authority.file)


def test_an_authority_that_expired_is_refused_unless_a_valid_one_stands_beside_it(
    tmp_path, authority
):
    certificate, key, valid = authority.member(tmp_path)
    old = _issue(authority.name, authority.key, authority.issuer, valid_days=(-3, -1))
    bundle = tmp_path / "bundle.crt"
    bundle.write_bytes(_pem(old))
    with pytest.raises(CredentialsError, match=r"authority in .* expired"):
        Credentials.from_files(certificate, key, bundle)
    bundle.write_bytes(_pem(old) + valid.read_bytes())
    assert Credentials.from_files(certificate, key, bundle).name == "service-a"


def test_a_key_of_another_certificate_is_refused(tmp_path, authority):
    certificate, _, trusted = authority.member(tmp_path, "service-a")
    _, key, _ = authority.member(tmp_path, "service-b")
    with pytest.raises(CredentialsError, match="does not belong to the first certificate"):
        Credentials.from_files(certificate, key, trusted)


@pytest.mark.parametrize("index", [0, 1, 2], ids=["certificate", "key", "authority"])
def test_a_file_that_cannot_be_used_is_named(tmp_path, authority, index):
    files = list(authority.member(tmp_path))
    bad = files[index] = tmp_path / "bad.pem"
    what = ("certificate", "key", "authority")[index]
    with pytest.raises(CredentialsError, match=rf"read the {what} file .*bad\.pem: No such file"):
        Credentials.from_files(*files)
    bad.touch(mode=0o600)
    bad.write_bytes(b"not PEM at all")
    with pytest.raises(CredentialsError, match=r"bad\.pem holds no .* in PEM form"):
        Credentials.from_files(*files)
    bad.write_bytes(bytes(FILE_SIZE_MAX + 1))
    with pytest.raises(CredentialsError, match=r"bad\.pem is larger than"):
        Credentials.from_files(*files)


UNREADABLE = {
    "a key of an unknown kind": (b"\x2b\x65\x70\x03\x21", b"\x2b\x65\x7f\x03\x21", "Unknown key"),
    "an extension that is there twice": (b"\x55\x1d\x11", b"\x55\x1d\x13", "Duplicate"),
}


@pytest.mark.parametrize(("known", "unknown", "why"), UNREADABLE.values(), ids=UNREADABLE)
def test_a_certificate_that_cannot_be_read_is_named(tmp_path, authority, known, unknown, why):
    extensions = (x509.SubjectAlternativeName([x509.DNSName("a.example")]),)
    certificate, key, trusted = authority.member(tmp_path, extensions=extensions)
    whole = x509.load_pem_x509_certificate(certificate.read_bytes()).public_bytes(Encoding.DER)
    assert known in whole
    pem = ssl.DER_cert_to_PEM_cert(whole.replace(known, unknown))
    certificate.write_text(pem)
    with pytest.raises(CredentialsError, match=rf"service-a\.crt cannot be read here \({why}"):
        Credentials.from_files(certificate, key, trusted)
    if why == "Duplicate":
        with pytest.raises(CredentialsError, match=rf"service-a\.crt cannot be read here \({why}"):
            describe(certificate)


def test_a_key_of_an_unknown_kind_is_named(tmp_path, authority):
    files = authority.member(tmp_path)
    key = Ed25519PrivateKey.generate()
    data = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    unknown = base64.b64encode(data.replace(b"\x2b\x65\x70", b"\x2b\x65\x7f")).decode()
    files[1].write_text(f"-----BEGIN PRIVATE KEY-----\n{unknown}\n-----END PRIVATE KEY-----\n")
    with pytest.raises(CredentialsError, match=rf"key file {files[1]} is of an unknown kind"):
        Credentials.from_files(*files)


def test_a_key_that_tls_has_no_signatures_for_is_named(tmp_path, authority):
    files = authority.member(tmp_path, key=dsa.generate_private_key(1024))
    with pytest.raises(CredentialsError, match=r"service-a\.key is of a kind that TLS 1\.3 cannot"):
        Credentials.from_files(*files)


@pytest.mark.parametrize("purpose", ["CLIENT_AUTH", "SERVER_AUTH"])
def test_a_certificate_for_one_direction_is_refused(tmp_path, authority, purpose):
    usage = x509.ExtendedKeyUsage([getattr(ExtendedKeyUsageOID, purpose)])
    files = authority.member(tmp_path, extensions=(usage,))
    with pytest.raises(
        CredentialsError, match=rf"the certificate in {files[0]} is for one direction"
    ):
        Credentials.from_files(*files)


def test_a_certificate_without_a_common_name_is_called_by_its_dns_name(tmp_path, authority):
    certificate, key, trusted = authority.member(tmp_path, "x")
    private_key = Ed25519PrivateKey.generate()
    for extensions, name in (
        ((x509.SubjectAlternativeName([x509.DNSName("a.example")]),), "a.example"),
        ((x509.SubjectAlternativeName([x509.IPAddress(ip_address("192.0.2.1"))]),), None),
        ((), None),
    ):
        nameless = _issue(_named(""), private_key, authority.issuer, extensions=extensions)
        certificate.write_bytes(_pem(nameless))
        key.write_bytes(
            private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        )
        assert Credentials.from_files(certificate, key, trusted).name == name


def test_the_hosts_of_credentials_are_those_of_their_own_certificate(tmp_path, authority):
    """And not of one above it."""
    names = x509.SubjectAlternativeName([x509.DNSName("a.example"), x509.DNSName("b.example")])
    certificate, key, trusted = authority.member(tmp_path, extensions=(names,))
    certificate.write_bytes(certificate.read_bytes() + authority.file.read_bytes())
    assert hosts_of(Credentials.from_files(certificate, key, trusted)) == ("a.example", "b.example")
    assert hosts_of(Credentials.from_secret(SECRET)) == ()


def test_a_key_too_weak_for_tls_is_named(tmp_path, authority):
    weak = rsa.generate_private_key(65537, 1024)
    credentials = Credentials.from_files(*authority.member(tmp_path, key=weak))
    with pytest.raises(CredentialsError, match=r"service-a \(EE_KEY_TOO_SMALL\)"):
        credentials.server_context()


def test_a_name_that_the_holder_of_a_secret_has_chosen_is_not_trusted() -> None:
    secret = ClusterSecret.generate()
    for given in (secret, secret.text()):
        found = Credentials.from_secret(given, "core-1")
        assert found.can_trust_names is False
        assert found.name == "core-1"
        assert found.authority == Credentials.from_secret(secret).authority
