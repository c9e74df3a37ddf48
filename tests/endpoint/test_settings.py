"""Settings: arguments before variables before a file, and nothing misspelt goes unnoticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from endpoint import Endpoint, OverflowPolicy, Settings, SettingsError
from handshake.credentials import Credentials
from handshake.secret import ClusterSecret
from wire.errors import CredentialsError, MeshError


def test_arguments_go_before_variables_and_those_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "mesh.toml"
    file.write_text('ttl = 3\nqueue_size = 7\noverflow_policy = "drop_oldest"\n')
    settings = Settings.load(
        {"ttl": 5},
        {"PEERMESH_TTL": "4", "PEERMESH_QUEUE_SIZE": "8", "PEERMESH_FORWARDING": "no", "PATH": "/"},
        file,
    )
    assert settings == Settings(
        ttl=5, queue_size=8, overflow_policy=OverflowPolicy.DROP_OLDEST, forwarding=False
    )


def test_without_any_source_there_are_defaults() -> None:
    assert Settings.load({}, {}) == Settings()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"tll": 3}, "unknown setting 'tll'; there are admin, allow_plain, .*authority"),
        ({"ttl": 0}, "between 1 and 255"),
        ({"ttl": 256}, "between 1 and 255"),
        ({"ttl": "many"}, "ttl cannot be 'many'"),
        ({"ttl": 1.5}, "ttl cannot be 1.5"),
        ({"queue_size": 0}, "at least 1"),
        ({"frame_size_max": 1_000}, "frame_size_max is 1000; it has to be between 131072 and"),
        ({"value_depth_max": 33}, "between 1 and 32"),
        ({"bytes_per_second_max": -1}, "at least 0"),
        ({"connections_max": "all"}, "connections_max cannot be 'all'"),
        ({"forwarding": "perhaps"}, "say true or false"),
        ({"overflow_policy": "explode"}, "overflow_policy cannot be 'explode'"),
        ({"secret": b"peermesh-secret-"}, "secret has to be text, not bytes"),
        ({"passphrase": 1234}, "passphrase has to be text, not int"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(arguments: dict, words: str) -> None:
    with pytest.raises(SettingsError, match=words) as raised:
        Settings.load(arguments, {})
    assert isinstance(raised.value, MeshError)
    with pytest.raises(SettingsError, match=words):
        Endpoint(**arguments)


@pytest.mark.parametrize("text", ["true", "YES", "1", "True"])
def test_yes_can_be_said_in_several_ways(text: str) -> None:
    assert Settings.load({}, {"PEERMESH_ALLOW_PLAIN": text}).allow_plain


def test_a_file_that_is_missing_or_no_toml_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="check the path"):
        Settings.load({}, {}, tmp_path / "missing.toml")
    bad = tmp_path / "bad.toml"
    bad.write_text("ttl =")
    with pytest.raises(SettingsError, match="is no TOML"):
        Settings.load({}, {}, bad)
    bad.write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="is no TOML"):
        Settings.load({}, {}, bad)
    bad.write_text("ttl = " + "[" * 5_000)
    with pytest.raises(SettingsError, match="nested too deep"):
        Settings.load({}, {}, bad)


def test_an_endpoint_reads_its_file(tmp_path: Path) -> None:
    file = tmp_path / "mesh.toml"
    file.write_text("ttl = 2")
    assert Endpoint(settings_file=file).settings.ttl == 2


# The way into the mesh.


SECRET = ClusterSecret(bytes(range(20)))


def authority_of(settings: Settings) -> str:
    credentials = settings.credentials()
    assert credentials is not None
    return credentials.authority


def test_a_secret_comes_from_an_argument_a_variable_or_a_file(tmp_path: Path) -> None:
    text, file = SECRET.text(), tmp_path / "secret"
    SECRET.save(file)
    toml = tmp_path / "mesh.toml"
    toml.write_text(f'secret_file = "{file}"\n')
    found = [
        Settings.load({"secret": text}, {}),
        Settings.load({"secret": SECRET}, {}),
        Settings.load({}, {"PEERMESH_SECRET": text}),
        Settings.load({}, {"PEERMESH_SECRET_FILE": str(file)}),
        Settings.load({}, {}, toml),
    ]
    assert {authority_of(each) for each in found} == {Credentials.from_secret(SECRET).authority}
    assert all(text not in repr(each) for each in found)


def test_without_a_secret_or_with_an_empty_one_there_are_no_credentials() -> None:
    assert Settings.load({}, {}).credentials() is None
    assert Settings.load({}, {"PEERMESH_SECRET": " "}).credentials() is None


def test_one_way_in_replaces_another_as_a_whole(tmp_path: Path) -> None:
    other = ClusterSecret.generate()
    other.save(tmp_path / "secret")
    low = {"PEERMESH_SECRET_FILE": str(tmp_path / "secret")}
    assert authority_of(Settings.load({"secret": SECRET}, low)) != authority_of(
        Settings.load({}, low)
    )
    assert Settings.load({"secret": None}, low).credentials() is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"secret": SECRET, "secret_file": "x"}, "give one way into the mesh"),
        ({"secret": SECRET, "certificate": "x"}, "give one way into the mesh"),
        ({"certificate": "x", "key": "y"}, "give all three"),
    ],
)
def test_half_a_way_in_and_two_ways_are_refused(arguments: dict, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        Settings.load(arguments, {})


@pytest.mark.parametrize("secret", ["hunter2", "peermesh-secret-abcdefgh", "peermesh-secret-"])
def test_a_weak_secret_is_refused_and_not_repeated(secret: str) -> None:
    with pytest.raises(CredentialsError) as caught:
        Endpoint(secret=secret)
    assert secret.removeprefix("peermesh-secret-") not in str(caught.value) or secret.endswith("-")
