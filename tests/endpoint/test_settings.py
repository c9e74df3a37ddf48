"""Settings: arguments go before variables, these before the file, and unknown names are errors."""

from pathlib import Path

import pytest

from endpoint.outbox import OverflowPolicy
from endpoint.settings import Settings, SettingsError


def test_arguments_go_before_variables_and_these_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "peermesh.toml"
    file.write_text('ttl = 3\nqueue_size = 30\noverflow_policy = "drop_oldest"\n')
    environment = {"PEERMESH_TTL": "4", "PEERMESH_QUEUE_SIZE": "40", "PATH": "/bin"}
    settings = Settings.load({"ttl": 5}, environment, file)
    assert settings == Settings(ttl=5, queue_size=40, overflow_policy=OverflowPolicy.DROP_OLDEST)


def test_a_secret_in_the_environment_is_no_setting() -> None:
    assert Settings.load({}, {"PEERMESH_SECRET": "x"}) == Settings()


@pytest.mark.parametrize(
    ("arguments", "environment", "text"),
    [
        ({"tll": 3}, {}, "tll"),
        ({}, {"PEERMESH_TLL": "3"}, "tll"),
        ({"ttl": 0}, {}, "between 1 and 255"),
        ({"ttl": "many"}, {}, "ttl"),
        ({}, {"PEERMESH_FORWARDING": "perhaps"}, "true or false"),
        ({"overflow_policy": "explode"}, {}, "overflow_policy"),
        ({"queue_size": 0}, {}, "at least 1"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(arguments, environment, text) -> None:
    with pytest.raises(SettingsError, match=text):
        Settings.load(arguments, environment)


def test_a_file_that_is_missing_or_no_toml_says_so(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="check the path"):
        Settings.load({}, {}, tmp_path / "nothing.toml")
    (tmp_path / "bad.toml").write_text("ttl = = 3")
    with pytest.raises(SettingsError, match="no TOML"):
        Settings.load({}, {}, tmp_path / "bad.toml")
