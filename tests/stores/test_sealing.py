"""Sealed records open where they were sealed, with their key, and nowhere else."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from stores import sealing
from stores.sealing import (
    CHANCE_SIZE,
    KEY_PREFIX,
    OVERHEAD_SIZE,
    SealBroken,
    Session,
    StorageKey,
    StorageKeys,
    session_of,
)
from wire.errors import CredentialsError

KEY = StorageKey(bytes(range(32)))
OTHER = StorageKey(bytes(32))
FILE, SALT, CHANCE = b"f" * 16, b"s" * 32, b"c" * CHANCE_SIZE


def session(number=1, key=KEY, file=FILE, salt=SALT) -> Session:
    made = Session(number, key, file, salt)
    made.begin(CHANCE)
    return made


@given(st.binary(max_size=100), st.binary(max_size=30))
def test_what_is_sealed_is_opened(content, place):
    record = session().seal(place, content)
    assert session().open(place, record) == content
    assert session_of(record) == 1
    assert len(record) == len(content) + OVERHEAD_SIZE


@given(st.integers(0, 8 * (OVERHEAD_SIZE + 5) - 1))
def test_a_bit_that_flips_anywhere_but_in_the_session_s_number_breaks_the_seal(bit):
    record = bytearray(session().seal(b"place", b"hello"))
    record[bit // 8] ^= 1 << bit % 8
    if bit < 8 * sealing.SESSION_HEAD_SIZE:
        assert session_of(bytes(record)) != 1  # whose key is another one
    else:
        with pytest.raises(SealBroken):
            session().open(b"place", bytes(record))


@pytest.mark.parametrize(
    "other",
    [session(key=OTHER), session(file=b"g" * 16), session(salt=b"t" * 32)],
    ids=["key", "file", "session"],
)
def test_a_record_of_another_key_file_or_session_is_not_opened(other):
    with pytest.raises(SealBroken):
        other.open(b"place", session().seal(b"place", b"hello"))


def test_a_record_is_not_opened_in_the_place_of_another():
    with pytest.raises(SealBroken, match="in the place of another"):
        session().open(b"there", session().seal(b"here", b"hello"))


@pytest.mark.parametrize("length", [0, 3, OVERHEAD_SIZE - 1])
def test_a_record_that_is_cut_off_says_so(length):
    with pytest.raises(SealBroken, match="cut off"):
        session_of(session().seal(b"", b"")[:length])


def test_no_nonce_is_used_twice_in_a_session_though_its_chance_repeats():
    used = session()
    nonces = set()
    for _ in range(100):
        used.begin(CHANCE)
        nonces |= {used.seal(b"", b"")[4:16] for _ in range(5)}
    assert len(nonces) == 500


def test_a_session_is_spent_after_so_many_records(monkeypatch):
    monkeypatch.setattr(sealing, "SESSION_RECORDS_MAX", 2)
    counted = session()
    counted.seal(b"", b"")
    assert not counted.is_spent
    counted.seal(b"", b"")
    assert counted.is_spent


def test_a_session_is_spent_after_so_many_bytes(monkeypatch):
    monkeypatch.setattr(sealing, "SESSION_SIZE_MAX", 1_000)
    measured = session()
    measured.seal(b"", b"x" * 999)
    assert not measured.is_spent
    measured.seal(b"", b"x")
    assert measured.is_spent


# -- keys ----------------------------------------------------------------------------------------


def test_a_key_is_read_from_its_text_in_any_case():
    assert StorageKey.parse(f"  {KEY.text().upper()} \n") == KEY


@given(st.integers(0, 55), st.sampled_from("abcdefghijklmnopqrstuvwxyz234567"))
def test_a_typo_in_a_key_is_noticed_and_never_repeated(place, letter):
    text = KEY.text()
    at = len(KEY_PREFIX) + place
    typo = text[:at] + letter + text[at + 1 :]
    if typo == text:
        return
    with pytest.raises(CredentialsError, match="mistyped") as caught:
        StorageKey.parse(typo)
    assert text[-20:] not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "hunter2", "peermesh-secret-aaaa", KEY_PREFIX, KEY_PREFIX + "ä"]
)
def test_what_is_no_key_is_refused(text):
    with pytest.raises(CredentialsError):
        StorageKey.parse(text)


@pytest.mark.parametrize("key", [b"", b"hunter2", bytes(31), bytes(33)])
def test_a_key_of_another_size_is_refused(key):
    with pytest.raises(CredentialsError, match="32 bytes"):
        StorageKey(key)


def test_a_ring_is_read_with_remarks_and_has_its_first_key_for_writing():
    ring = StorageKeys.parse(f"# of May\n{OTHER.text()}  # new\n\n{KEY.text()},{KEY.text()}\n")
    assert ring.keys == (OTHER, KEY, KEY)
    assert ring.current == OTHER
    assert ring.find(KEY.fingerprint) == KEY
    assert ring.find(b"") is None


@pytest.mark.parametrize("count", [0, 65])
def test_a_ring_has_some_keys_and_not_too_many(count):
    with pytest.raises(CredentialsError, match="1 to 64 keys"):
        StorageKeys((KEY,) * count)


def test_a_fingerprint_names_a_key_and_is_no_part_of_it():
    assert KEY.fingerprint != OTHER.fingerprint
    assert KEY.fingerprint not in KEY.key
    assert str(StorageKeys((KEY, OTHER))) == f"{KEY.fingerprint.hex()}, {OTHER.fingerprint.hex()}"
