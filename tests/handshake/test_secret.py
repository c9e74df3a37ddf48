"""The text of a cluster secret survives the trip through files, variables and tired eyes."""

from __future__ import annotations

import string

import pytest
from hypothesis import given, strategies

from handshake.secret import SECRET_PREFIX, SECRET_SIZE, ClusterSecret
from wire.errors import CredentialsError

GOLDEN_KEY = bytes(range(20))
GOLDEN_TEXT = "peermesh-secret-aaaqeayeaudaocajbifqydiob4ibceqtlse3rij4"
GOLDEN_FINGERPRINT = "6934cec3e125fce3"
"""Written down once: endpoints of different releases must read the same text alike."""

keys = strategies.binary(min_size=SECRET_SIZE, max_size=SECRET_SIZE)


@given(keys)
def test_a_secret_survives_its_text_form(key):
    secret = ClusterSecret(key)
    assert ClusterSecret.parse(secret.text()) == secret
    assert ClusterSecret.parse(f"  {secret.text().upper()}\n") == secret


@given(keys, strategies.data())
def test_a_typo_anywhere_is_noticed(key, data):
    text = ClusterSecret(key).text()
    place = data.draw(strategies.integers(0, len(text) - 1))
    typo = data.draw(strategies.sampled_from(string.ascii_lowercase + string.digits + "-é "))
    damaged = text[:place] + typo + text[place + 1 :]
    if damaged.strip() != text:
        with pytest.raises(CredentialsError):
            ClusterSecret.parse(damaged)


@given(keys, strategies.data())
def test_swapped_and_lost_letters_are_noticed(key, data):
    text = ClusterSecret(key).text()
    place = data.draw(strategies.integers(len(SECRET_PREFIX), len(text) - 2))
    swapped = text[:place] + text[place + 1] + text[place] + text[place + 2 :]
    if swapped != text:
        with pytest.raises(CredentialsError, match="mistyped or cut off"):
            ClusterSecret.parse(swapped)
    with pytest.raises(CredentialsError, match="mistyped or cut off"):
        ClusterSecret.parse(text[:place])


@given(strategies.text())
def test_any_other_text_is_refused(text):
    with pytest.raises(CredentialsError):
        ClusterSecret.parse(text)


def test_an_error_never_repeats_the_secret():
    text = ClusterSecret.generate().text()
    with pytest.raises(CredentialsError) as caught:
        ClusterSecret.parse(text[:-1])
    assert text[len(SECRET_PREFIX) : -1] not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_secret_does_not_print_itself():
    secret = ClusterSecret.generate()
    assert f"{secret} {secret!r}" == "ClusterSecret() ClusterSecret()"


def test_generated_secrets_differ_and_are_long_enough():
    assert ClusterSecret.generate() != ClusterSecret.generate()
    assert len(ClusterSecret.generate().key) * 8 >= 128


@pytest.mark.parametrize("key", [b"", b"hunter2", bytes(SECRET_SIZE + 1)])
def test_a_secret_that_somebody_thought_up_is_refused(key):
    with pytest.raises(CredentialsError, match=r"ClusterSecret\.generate"):
        ClusterSecret(key)


def test_the_text_and_the_fingerprint_stay_what_they_were():
    assert ClusterSecret(GOLDEN_KEY).text() == GOLDEN_TEXT
    assert ClusterSecret(GOLDEN_KEY).fingerprint() == GOLDEN_FINGERPRINT
    assert ClusterSecret(GOLDEN_KEY[::-1]).fingerprint() != GOLDEN_FINGERPRINT


def test_a_saved_secret_is_its_owner_s_alone_and_is_read_back(tmp_path):
    secret, path = ClusterSecret.generate(), tmp_path / "secret"
    secret.save(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert ClusterSecret.from_file(path) == secret


def test_saving_never_overwrites(tmp_path):
    path = tmp_path / "secret"
    ClusterSecret(GOLDEN_KEY).save(path)
    with pytest.raises(CredentialsError, match="name a new file"):
        ClusterSecret.generate().save(path)
    assert ClusterSecret.from_file(path) == ClusterSecret(GOLDEN_KEY)


def test_a_file_that_holds_no_secret_is_refused(tmp_path):
    path = tmp_path / "secret"
    with pytest.raises(CredentialsError, match="cannot read the cluster secret file"):
        ClusterSecret.from_file(path)
    path.touch(mode=0o600)
    for content, said in (
        (b"", "a cluster secret"),
        (b"hunter2", "a cluster secret"),
        (b"\xff\xfe\x00", f"the file {path} holds no cluster secret"),
    ):
        path.write_bytes(content)
        with pytest.raises(CredentialsError, match=said):
            ClusterSecret.from_file(path)


def test_the_environment_gives_a_secret_or_none(monkeypatch):
    secret = ClusterSecret.generate()
    assert ClusterSecret.from_environment({"PEERMESH_SECRET": secret.text()}) == secret
    assert ClusterSecret.from_environment({}) is None
    assert ClusterSecret.from_environment({"PEERMESH_SECRET": ""}) is None
    monkeypatch.setenv("PEERMESH_SECRET", secret.text())
    assert ClusterSecret.from_environment() == secret


def test_the_environment_names_a_file_where_it_holds_no_secret(tmp_path):
    secret, other = ClusterSecret.generate(), ClusterSecret.generate()
    secret.save(tmp_path / "secret")
    variables = {"PEERMESH_SECRET": " ", "PEERMESH_SECRET_FILE": str(tmp_path / "secret")}
    assert ClusterSecret.from_environment(variables) == secret
    variables["PEERMESH_SECRET"] = other.text()
    assert ClusterSecret.from_environment(variables) == other
    assert ClusterSecret.from_environment({"PEERMESH_SECRET_FILE": ""}) is None
    with pytest.raises(CredentialsError, match="cannot read the cluster secret file"):
        ClusterSecret.from_environment({"PEERMESH_SECRET_FILE": str(tmp_path / "none")})


def test_a_mistyped_secret_in_the_environment_is_an_error_and_not_none():
    with pytest.raises(CredentialsError):
        ClusterSecret.from_environment({"PEERMESH_SECRET": "hunter2"})
