"""Keys, ids and seals: what a notary believes, and what of a frame a signature covers."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa, x25519
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from hypothesis import given, strategies as st

from handshake import signing
from handshake.credentials import Credentials
from handshake.secret import ClusterSecret
from handshake.signing import Notary, Signer, id_of
from wire.clocks import LamportTime
from wire.errors import CredentialsError, DecodeError
from wire.framing import (
    BITMAP_SIZE,
    EVEN,
    FORCED,
    FRONT_SIZE,
    SCATTERED_SIZE_MIN,
    SIGNED,
    SPARSE,
    FrameDecoder,
    encode_node,
    encode_preamble,
)
from wire.identifiers import EndpointId
from wire.limits import FRAME_SIZE_MAX, PAYLOAD_SIZE_MAX, SIGNATURE_SIZE
from wire.messages import Announcement, Preamble

SECRET = ClusterSecret.generate()
CREDENTIALS = Credentials.from_secret(SECRET, "left")
NOW = datetime(2030, 1, 1, tzinfo=UTC)


def now_ns(moment: datetime = NOW) -> int:
    return int(moment.timestamp()) * 10**9


def news(signer: Signer, name: str | None = "left") -> Announcement:
    return signer.seal(Announcement(signer.endpoint_id, LamportTime(1), (), ("/",), (), True, name))


def notary(credentials: Credentials | None = CREDENTIALS, moment: datetime = NOW) -> Notary:
    authority = None if credentials is None else credentials.authority
    return Notary(authority, lambda: now_ns(moment))


# Ids.


def test_an_id_is_made_from_the_key_and_says_so() -> None:
    assert id_of(b"k" * 32) == EndpointId.parse("667c104c-d31c-8379-abf4-0f22fdefea68")
    assert id_of(b"k" * 32).is_signing
    assert id_of(b"j" * 32)[8] & 0xC0 == 0x80
    assert {id_of(bytes((n,)) * 32)[8] & 1 for n in range(20)} == {0, 1}
    assert id_of(b"k" * 32) != id_of(b"l" * 32)


@given(st.uuids(version=4))
def test_a_random_id_is_not_that_of_somebody_who_signs(drawn) -> None:
    assert not EndpointId(drawn.bytes).is_signing


# Seals.


def test_a_true_announcement_has_no_objection_with_or_without_certificates() -> None:
    assert notary().objection(news(Signer(bytes(32), CREDENTIALS))) is None
    assert notary(None).objection(news(Signer(bytes(32), None), None)) is None
    plain = Announcement(EndpointId(b"p" * 16), LamportTime(1), (), (), (), True)
    assert notary().objection(plain) is None


TRUE = news(Signer(bytes(32), CREDENTIALS))
OTHER = Signer(b"o" * 32, CREDENTIALS)
LIES = {
    "no seal": (replace(TRUE, seal=None), "missing"),
    "another's seal": (replace(TRUE, seal=news(OTHER).seal), "not the one that the id"),
    "a seal for a random id": (replace(TRUE, origin=EndpointId(b"p" * 16)), "not the one that"),
    "another time": (replace(TRUE, time=LamportTime(2)), "signature"),
    "another wish": (replace(TRUE, subscriptions=("/a",)), "signature"),
    "another name": (replace(TRUE, name="core"), "signature"),
    "another chain": (
        replace(TRUE, seal=replace(TRUE.seal, certificates=(b"c",))),
        "signature",
    ),
}


@pytest.mark.parametrize(("lie", "said"), LIES.values(), ids=LIES)
def test_what_was_changed_on_the_way_has_an_objection(lie, said) -> None:
    assert said in notary().objection(lie)


def test_a_name_is_that_of_the_certificate_and_the_certificate_of_our_authority() -> None:
    signer = Signer(bytes(32), CREDENTIALS)
    assert "calls itself 'core'" in notary().objection(news(signer, "core"))
    stranger = Credentials.from_secret(ClusterSecret.generate(), "left")
    assert "not of our authority" in notary().objection(news(Signer(bytes(32), stranger)))
    assert "no certificate" in notary().objection(news(Signer(bytes(32), None), None))
    assert "nobody vouches" in notary(None).objection(news(signer))


UNREADABLE = {
    "a version that there is not": (b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x3a"),
    "a key of an unknown kind": (b"\x06\x03\x2b\x65\x70\x03\x21", b"\x06\x03\x2b\x65\x7f\x03\x21"),
}


@pytest.mark.parametrize(("known", "unknown"), UNREADABLE.values(), ids=UNREADABLE)
def test_a_certificate_that_cannot_be_read_is_an_objection_and_no_error(known, unknown) -> None:
    signer = Signer(bytes(32), CREDENTIALS)
    (certificate,) = signer._seal.certificates
    assert known in certificate
    changed = certificate.replace(known, unknown)
    signer._seal = replace(signer._seal, certificates=(changed,))
    assert "are no certificates" in notary().objection(news(signer))


def test_an_endorsement_is_for_one_key_alone() -> None:
    thief, owner = Signer(b"t" * 32, None), Signer(bytes(32), CREDENTIALS)
    stolen = owner.seal(news(owner)).seal
    thief._seal = replace(stolen, key=thief._seal.key)
    assert "has not endorsed it" in notary().objection(news(thief))
    thief._seal = replace(thief._seal, certificates=(b"noise",))
    assert "are no certificates" in notary().objection(news(thief))


# Authorities of the user's own, with all kinds of keys.


def issue(subject, key, issuer, issuer_key, constraints, days=3650):
    name = lambda text: x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])  # noqa: E731 - a short name for a long one
    builder = (
        x509.CertificateBuilder()
        .subject_name(name(subject))
        .issuer_name(name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - timedelta(days=1))
        .not_valid_after(NOW + timedelta(days=days))
        .add_extension(constraints, critical=True)
    )
    is_edwards = isinstance(issuer_key, ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey)
    return builder.sign(issuer_key, None if is_edwards else SHA256())


MEMBER = x509.BasicConstraints(ca=False, path_length=None)
AUTHORITY = x509.BasicConstraints(ca=True, path_length=None)


def pem(*certificates) -> bytes:
    return b"".join(each.public_bytes(Encoding.PEM) for each in certificates)


KEYS = {
    "ed25519": ed25519.Ed25519PrivateKey.generate,
    "ed448": ed448.Ed448PrivateKey.generate,
    "ecdsa": lambda: ec.generate_private_key(ec.SECP256R1()),
    "rsa": lambda: rsa.generate_private_key(65537, 2048),
}


@pytest.mark.parametrize("make", KEYS.values(), ids=KEYS)
def test_keys_of_every_kind_endorse(make) -> None:
    root_key, key = make(), make()
    root = issue("root", root_key, "root", root_key, AUTHORITY)
    own = issue("left", key, "root", root_key, MEMBER)
    credentials = Credentials(pem(own), key, pem(root).decode(), "left")
    sealed = news(Signer(bytes(32), credentials))
    assert notary(credentials).objection(sealed) is None
    wrong = replace(sealed.seal, endorsement=b"?" * len(sealed.seal.endorsement))
    signer = Signer(bytes(32), credentials)
    signer._seal = wrong
    assert "has not endorsed it" in notary(credentials).objection(news(signer))


def chain_of(root_constraints=AUTHORITY, middle_constraints=AUTHORITY) -> Credentials:
    root_key, middle_key, key = (ed25519.Ed25519PrivateKey.generate() for _ in range(3))
    root = issue("root", root_key, "root", root_key, root_constraints)
    middle = issue("middle", middle_key, "root", root_key, middle_constraints)
    own = issue("left", key, "middle", middle_key, MEMBER)
    return Credentials(pem(own, middle), key, pem(root).decode(), "left")


def test_a_chain_is_followed_as_far_as_its_authorities_allow() -> None:
    def objection(credentials: Credentials) -> str | None:
        return notary(credentials).objection(news(Signer(bytes(32), credentials)))

    assert objection(chain_of()) is None
    over_one, over_none = (x509.BasicConstraints(ca=True, path_length=far) for far in (1, 0))
    assert objection(chain_of(over_one)) is None
    assert "not of our authority" in objection(chain_of(over_none))
    by_a_member = chain_of(middle_constraints=MEMBER)
    assert "not of our authority" in objection(by_a_member)


@pytest.mark.parametrize("days", [-3, 3660], ids=["not yet", "no longer"])
def test_a_certificate_counts_while_it_is_valid(days) -> None:
    credentials = chain_of()
    late = notary(credentials, NOW + timedelta(days=days))
    assert "not valid now" in late.objection(news(Signer(bytes(32), credentials)))


def test_an_authority_over_none_issues_what_stands_right_below_it() -> None:
    over_none = x509.BasicConstraints(ca=True, path_length=0)
    credentials = chain_of(middle_constraints=over_none)
    assert notary(credentials).objection(news(Signer(bytes(32), credentials))) is None


def test_what_is_no_authority_at_all_is_an_objection_and_no_error() -> None:
    """Without constraints, with a key that has no signatures, or that has not signed."""
    root_key, key, other = (ed25519.Ed25519PrivateKey.generate() for _ in range(3))
    own = issue("left", key, "root", root_key, MEMBER)
    bare = issue("root", root_key, "root", root_key, x509.OCSPNoCheck())
    wrong = issue("root", other, "root", other, AUTHORITY)
    no_signer = issue("root", x25519.X25519PrivateKey.generate(), "root", root_key, AUTHORITY)
    for root in (bare, wrong, no_signer):
        credentials = Credentials(pem(own), key, pem(root).decode(), "left")
        told = notary(credentials).objection(news(Signer(bytes(32), credentials)))
        assert told == "the certificate in its seal is not of our authority, or not valid now"


def test_a_key_that_signs_nothing_endorses_nothing() -> None:
    root_key, key = ed25519.Ed25519PrivateKey.generate(), x25519.X25519PrivateKey.generate()
    root = issue("root", root_key, "root", root_key, AUTHORITY)
    own = issue("left", key, "root", root_key, MEMBER)
    signer = Signer(bytes(32), CREDENTIALS)
    signer._seal = replace(signer._seal, certificates=(own.public_bytes(Encoding.DER),))
    there = Notary(pem(root).decode(), now_ns)
    assert there.objection(news(signer)) == "its certificate's key has not endorsed it"
    with pytest.raises(AssertionError, match="TLS takes no other keys"):
        signing._sign_with(key, b"")


def test_what_is_beside_the_path_to_the_authority_does_not_end_an_endorsement() -> None:
    root_key, key = (ed25519.Ed25519PrivateKey.generate() for _ in range(2))
    root = issue("root", root_key, "root", root_key, AUTHORITY, 900)
    own = issue("left", key, "root", root_key, MEMBER, 90)
    beside = issue("beside", key, "root", root_key, AUTHORITY, 30)
    credentials = Credentials(pem(own, beside), key, pem(root).decode(), "left")
    signer, here = Signer(bytes(32), credentials), notary(credentials)
    assert here.objection(news(signer)) is None
    assert here.end_of(news(signer)) == now_ns(NOW + timedelta(days=90))


def test_a_certificate_that_fits_no_announcement_is_refused(monkeypatch) -> None:
    (certificate,) = Signer(bytes(32), CREDENTIALS)._seal.certificates
    monkeypatch.setattr(signing, "CERTIFICATE_SIZE_MAX", len(certificate))
    assert Signer(bytes(32), CREDENTIALS)
    monkeypatch.setattr(signing, "CERTIFICATE_SIZE_MAX", len(certificate) - 1)
    told = f"a certificate of {len(certificate)} bytes, .* of {len(certificate) - 1} at most"
    with pytest.raises(CredentialsError, match=told):
        Signer(bytes(32), CREDENTIALS)


def test_without_a_certificate_a_seal_endorses_nothing() -> None:
    seal = news(Signer(bytes(32), None), None).seal
    assert (seal.certificates, seal.endorsement) == ((), b"")


def short_lived(key, root_key, *, days: int, root_days: int) -> Credentials:
    root = issue("root", root_key, "root", root_key, AUTHORITY, root_days)
    own = issue("left", key, "root", root_key, MEMBER, days)
    return Credentials(pem(own), key, pem(root).decode(), "left")


@pytest.mark.parametrize("ends", [{"days": 30, "root_days": 90}, {"days": 90, "root_days": 30}])
def test_an_endorsement_ends_with_the_first_certificate_that_it_rests_on(ends) -> None:
    key, root_key = (ed25519.Ed25519PrivateKey.generate() for _ in range(2))
    credentials = short_lived(key, root_key, **ends)
    signer, now = Signer(bytes(32), credentials), [now_ns()]
    lasting = Notary(credentials.authority, lambda: now[0])
    end = now_ns(NOW + timedelta(days=30))
    assert lasting.objection(news(signer)) is None
    assert lasting.end_of(news(signer)) == end
    for moment, is_valid in (
        (end, True), (end + 1, False), (now_ns(NOW - timedelta(days=2)), False), (end - 1, True)
    ):  # fmt: skip
        now[0] = moment
        assert lasting.has_ended(end) == (moment > end)
        for each in (lasting, Notary(credentials.authority, lambda: now[0])):
            objection = each.objection(news(signer))
            assert objection is None if is_valid else "not valid now" in objection


def test_a_renewed_certificate_endorses_the_same_key_again() -> None:
    key, root_key = (ed25519.Ed25519PrivateKey.generate() for _ in range(2))
    first = short_lived(key, root_key, days=30, root_days=900)
    signer, now = Signer(bytes(32), first), [now_ns()]
    lasting = Notary(first.authority, lambda: now[0])
    assert lasting.objection(news(signer)) is None
    signer.endorse(short_lived(key, root_key, days=90, root_days=900))
    now[0] = now_ns(NOW + timedelta(days=60))
    assert lasting.objection(news(signer)) is None
    assert lasting.end_of(news(signer)) == now_ns(NOW + timedelta(days=90))


def test_another_authority_is_believed_from_now_on_and_what_the_old_one_vouched_for_no_more() -> (
    None
):
    signer, other = (
        Signer(bytes(32), CREDENTIALS),
        Credentials.from_secret(ClusterSecret.generate()),
    )
    here = notary()
    assert here.objection(news(signer)) is None
    assert here.end_of(replace(news(signer), seal=None)) is None
    here.believe(CREDENTIALS.authority)
    assert here.end_of(news(signer)) is not None, "it is the same authority"
    here.believe(other.authority)
    assert here.end_of(news(signer)) is None
    assert "not of our authority" in here.objection(news(signer))
    here.believe(CREDENTIALS.authority)
    assert here.objection(news(signer)) is None


def test_an_endorsement_is_looked_at_once_and_few_are_remembered(monkeypatch) -> None:
    looked: list[EndpointId] = []
    judge = signing._judge_chain

    def count(origin, *rest):
        looked.append(origin)
        return judge(origin, *rest)

    monkeypatch.setattr(signing, "_judge_chain", count)
    monkeypatch.setattr(signing, "ENDORSEMENTS_MAX", 2)
    one, two, three = (Signer(bytes((n,)) * 32, CREDENTIALS) for n in range(3))
    here = notary()
    for each in (one, one, two, one, two):
        assert here.objection(news(each)) is None
    assert len(looked) == 2, "also with other news of the same endpoint"
    later = replace(news(one), time=LamportTime(9), seal=None)
    assert here.objection(one.seal(later)) is None
    assert len(looked) == 2
    assert here.objection(news(three)) is None
    assert here.objection(news(one)) is None
    assert len(looked) == 4, "there was no room for a third"


def test_an_endorsement_counts_from_its_certificate_s_first_second_to_the_last() -> None:
    key, root_key = (ed25519.Ed25519PrivateKey.generate() for _ in range(2))
    credentials = short_lived(key, root_key, days=30, root_days=90)
    (own, *_) = x509.load_pem_x509_certificates(credentials.chain)
    signer, now = Signer(bytes(32), credentials), [now_ns()]
    lasting = Notary(credentials.authority, lambda: now[0])
    assert lasting.objection(news(signer)) is None
    first = now_ns(own.not_valid_before_utc)
    for moment, is_valid in ((first, True), (first - 1, False)):
        now[0] = moment
        for each in (lasting, Notary(credentials.authority, lambda: now[0])):
            assert (each.objection(news(signer)) is None) == is_valid


# Frames.

SIGNER = Signer(bytes(32), None)


def is_genuine(frame) -> bool:
    return notary(None).verifier(news(SIGNER, None).seal)(frame)


def frame_of(data: bytes, *more: bytes):
    decoder = FrameDecoder(size_max=FRAME_SIZE_MAX)
    decoder.feed(encode_preamble(Preamble(1, 1)) + data)
    decoder.next_frame()
    for chunk in more:
        decoder.feed(chunk)
    return decoder.next_frame()


SENDER = SIGNER.endpoint_id


def signed(*payloads: bytes, ttl: int = 16, **said) -> bytearray:
    names = said.pop("headers", (b"header",)), said.pop("numbers", b"")
    pieces, _ = encode_node(SENDER, ttl, 7, *names, payloads, sign=SIGNER.sign, **said)
    return bytearray(b"".join(pieces))


payload_lists = st.lists(st.binary(max_size=40), min_size=1, max_size=4)


@given(payload_lists, st.booleans(), st.sampled_from([None, 1 << 1000]), st.booleans())
def test_a_signed_frame_is_genuine_whatever_is_in_it_and_however_far_it_came(
    payloads, forced, gap, is_mixed
) -> None:
    said = {"forced": forced}
    if gap is not None and len(payloads) > 1:
        said["mask"] = (1 << len(payloads) - 1) - 1 | gap
    if is_mixed:
        said |= {"headers": (b"one", b"two"), "numbers": bytes(len(payloads))}
    for ttl in (16, 1):
        frame = frame_of(signed(*payloads, ttl=ttl, **said))
        assert is_genuine(frame)
        assert list(frame.payloads()) == payloads


def test_a_large_signed_frame_is_genuine_in_whatever_chunks_it_came():
    payloads = [bytes((mark,)) * 9_000 for mark in range(11)]
    said = bytes(signed(*payloads))
    assert len(said) > SCATTERED_SIZE_MIN
    for cut in (1_000, 50_000, len(said) - SIGNATURE_SIZE // 2):
        frame = frame_of(said[:cut], said[cut:])
        assert is_genuine(frame)
        assert b"".join(frame.forwarded()) == said[:5] + b"\x0f" + said[6:]
        assert list(frame.payloads()) == payloads


FRAMES = (
    signed(b"some", b"payloads"),
    signed(b"even", b"ones"),
    signed(b"with", b"gaps", mask=0b101, forced=True),
    signed(b"on", b"two", b"topics", headers=(b"tea", b"cup"), numbers=b"\0\1\0"),
)


@given(st.sampled_from(FRAMES), st.data())
def test_no_bit_of_a_signed_frame_can_be_changed_but_its_hops(whole, data) -> None:
    said = bytearray(whole)
    at = data.draw(st.integers(min_value=6, max_value=len(said) - 1), label="byte")
    said[at] ^= 1 << data.draw(st.integers(0, 7), label="bit")
    try:
        frame = frame_of(said)
    except DecodeError:
        return
    assert frame is None or not is_genuine(frame)


def forged(signature: bytes, *payloads: bytes, first: int = 7, sender: bytes = SENDER, **said):
    names = said.pop("headers", (b"tea", b"cup")), said.pop("numbers", b"\0\1\0")
    pieces, _ = encode_node(sender, 1, first, *names, payloads, sign=lambda _: signature, **said)
    return frame_of(b"".join(pieces))


def test_each_thing_that_a_signature_covers_is_noticed() -> None:
    three = (b"one", b"two", b"333")
    for said in ({}, {"mask": 0b1011}, {"forced": True}):
        names = {"headers": (b"tea", b"cup"), "numbers": b"\0\1\0"}
        signature = bytes(signed(*three, **names, **said)[-SIGNATURE_SIZE:])
        assert is_genuine(forged(signature, *three, **said))
        changed = (
            {"first": 8},
            {"sender": bytes(16)},
            {"forced": not said.get("forced")},
            {"mask": 0b1101},
            {"numbers": b"\0\1\1"},
            {"headers": (b"cup", b"tea")},
            {"headers": (b"te", b"acup")},
            {"headers": (b"tea", b"cup", b"pot")},
        )
        for change in changed:
            assert not is_genuine(forged(signature, *three, **(said | change))), change
        for payloads in ((b"one", b"two"), (b"one", b"two", b"334"), (b"on", b"etwo", b"333")):
            change = {"mask": 0b1001} if "mask" in said and len(payloads) == 2 else {}
            change |= {"numbers": b"\0\1\0"[: len(payloads)]}
            assert not is_genuine(forged(signature, *payloads, **(said | change))), payloads


@pytest.mark.parametrize("flag", [EVEN, SPARSE, FORCED])
def test_a_flag_that_a_relay_has_changed_is_noticed_where_the_frame_can_still_be_read(flag) -> None:
    # Without its flag the bitmap of 1 is the length of the largest payload.
    payload = bytes(PAYLOAD_SIZE_MAX - BITMAP_SIZE) if flag == SPARSE else b""
    said = signed(payload, mask=1 if flag == SPARSE else None)
    assert is_genuine(frame_of(said))
    said[6] ^= flag >> 8
    frame = frame_of(said)
    assert not is_genuine(frame)


def test_a_frame_whose_signature_was_cut_off_is_not_genuine() -> None:
    cut = bytearray(b"".join(encode_node(SENDER, 1, 7, (b"tea",), b"", (b"one",))[0]))
    assert not is_genuine(frame_of(cut))
    said = signed(b"one")
    said[6] ^= SIGNED >> 8
    with pytest.raises(DecodeError, match="add up"):
        frame_of(said)


def test_payloads_cannot_be_moved_within_a_frame_nor_the_header_into_them() -> None:
    for header, payloads in ((b"header", (b"ab", b"c")), (b"heade", (b"rab", b"c"))):
        signature = bytes(signed(*payloads, headers=(header,))[-SIGNATURE_SIZE:])
        frame = forged(signature, b"a", b"bc", headers=(b"header",), numbers=b"")
        assert not is_genuine(frame)
    assert FRONT_SIZE == 20, "the six bytes before are size and kind and hops"
