"""Credentials in force: changed files are read again, and what cannot be used changes nothing."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from handshake.credentials import CredentialFiles, Credentials
from handshake.issuing import AUTHORITY, OwnAuthority
from handshake.secret import ClusterSecret
from handshake.trust import Refreshed, Trust
from wire.errors import CredentialsError

DAY = timedelta(days=1)


def days(first: int, last: int) -> tuple[datetime, datetime]:
    now = datetime.now(UTC)
    return now + first * DAY, now + last * DAY


@pytest.fixture
def authority(tmp_path: Path) -> OwnAuthority:
    found = OwnAuthority.create("ours", days(-1, 1))
    found.own.save(tmp_path, AUTHORITY)
    return found


@pytest.fixture
def files(tmp_path: Path, authority: OwnAuthority) -> CredentialFiles:
    certificate, key = authority.issue("service", days(-1, 1)).save(tmp_path, "service")
    return CredentialFiles(certificate, key, tmp_path / f"{AUTHORITY}.pem")


def put(source: Path, target: Path) -> None:
    """Replace a file at once, as those do who rotate certificates."""
    os.replace(source, target)


def test_nothing_is_made_anew_while_the_files_stay(files: CredentialFiles) -> None:
    trust = Trust(files.load())
    before = trust.server, trust.client
    assert [trust.refresh() for _ in range(3)] == [Refreshed.UNCHANGED] * 3
    assert (trust.server, trust.client) == before


def test_a_new_certificate_is_in_force_at_once(files, authority, tmp_path) -> None:
    trust = Trust(files.load())
    issued = authority.issue("renewed", days(-1, 1)).save(tmp_path, "renewed")
    put(issued[0], files.certificate)
    put(issued[1], files.key)
    assert trust.refresh() is Refreshed.RELOADED
    assert trust.credentials is not None
    assert trust.credentials.name == "renewed"
    assert trust.refresh() is Refreshed.UNCHANGED


def test_what_changed_between_reading_and_use_is_noticed_too(files, authority, tmp_path) -> None:
    credentials = files.load()
    issued = authority.issue("renewed", days(-1, 1)).save(tmp_path, "renewed")
    put(issued[0], files.certificate)
    put(issued[1], files.key)
    trust = Trust(credentials)
    assert trust.refresh() is Refreshed.RELOADED


BROKEN = {
    "noise": lambda files: files.certificate.write_bytes(b"no PEM"),
    "gone": lambda files: files.authority.unlink(),
    "half": lambda files: files.key.write_bytes(files.key.read_bytes()[:40]),
}


@pytest.mark.parametrize("how", BROKEN)
def test_files_that_cannot_be_used_change_nothing_and_are_told_once(files, how) -> None:
    trust = Trust(files.load())
    before = trust.server, trust.client, trust.credentials
    BROKEN[how](files)
    with pytest.raises(CredentialsError, match="the old ones stay"):
        trust.refresh()
    assert (trust.server, trust.client, trust.credentials) == before
    assert trust.refresh() is Refreshed.UNCHANGED


def test_half_a_rotation_changes_nothing_until_the_other_half_comes(
    files, authority, tmp_path
) -> None:
    trust = Trust(files.load())
    issued = authority.issue("renewed", days(-1, 1)).save(tmp_path, "renewed")
    put(issued[0], files.certificate)
    with pytest.raises(CredentialsError, match="does not belong to"):
        trust.refresh()
    put(issued[1], files.key)
    assert trust.refresh() is Refreshed.RELOADED


def test_an_expired_certificate_in_place_of_a_valid_one_is_not_used(
    files, authority, tmp_path
) -> None:
    trust = Trust(files.load())
    issued = authority.issue("late", days(-3, -1)).save(tmp_path, "late")
    put(issued[0], files.certificate)
    put(issued[1], files.key)
    with pytest.raises(CredentialsError, match="expired"):
        trust.refresh()
    assert trust.credentials is not None
    assert trust.credentials.name == "service"


def test_secrets_and_nothing_never_change(files) -> None:
    for credentials in (None, Credentials.from_secret(ClusterSecret.generate())):
        assert Trust(credentials).refresh() is Refreshed.UNCHANGED


def test_a_passphrase_is_kept_for_the_next_time_and_never_shown(files, authority, tmp_path) -> None:
    issued = authority.issue("locked", days(-1, 1))
    certificate, key = issued.save(tmp_path, "locked", passphrase="correct horse")
    locked = CredentialFiles(certificate, key, files.authority, "correct horse")
    trust = Trust(locked.load())
    again = authority.issue("again", days(-1, 1)).save(tmp_path, "again", "correct horse")
    put(again[0], certificate)
    put(again[1], key)
    assert trust.refresh() is Refreshed.RELOADED
    for shown in (repr(locked), repr(trust.credentials), repr(replace(locked))):
        assert "horse" not in shown
