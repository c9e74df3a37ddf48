"""``peermesh secret``, ``ticket`` and ``certs``, and the options that use what they make."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
import trio

from handshake.secret import ClusterSecret
from handshake.ticket import JoinTicket
from peermesh import Credentials, Endpoint
from peermesh.cli.application import run
from peermesh.testing.time_limits import limit

SECRET = ClusterSecret(bytes(range(20)))
LETTERS = SECRET.text().rpartition("-")[2]
COMMAND = [sys.executable, "-m", "peermesh.cli"]


@pytest.fixture(autouse=True)
def environment(monkeypatch) -> None:
    for name in ("SECRET", "PASSPHRASE", "AUTHORITY_PASSPHRASE"):
        monkeypatch.delenv(f"PEERMESH_{name}", raising=False)


def told(capsys, *arguments: object, code: int = 0) -> str:
    assert run(list(map(str, arguments))) == code
    found = capsys.readouterr()
    return found.err if code else found.out


def test_a_new_secret_is_printed_or_written_for_its_owner_alone(capsys, tmp_path: Path) -> None:
    printed = ClusterSecret.parse(told(capsys, "secret", "new"))
    file = tmp_path / "secret"
    said = told(capsys, "secret", "new", file)
    kept = ClusterSecret.from_file(file)
    assert kept.fingerprint() in said
    assert kept.text() not in said
    assert file.stat().st_mode & 0o777 == 0o600
    assert kept != printed
    assert "name a new file" in told(capsys, "secret", "new", file, code=1)
    assert told(capsys, "secret", "show", "--secret-file", file).strip() == kept.fingerprint()
    found = json.loads(told(capsys, "secret", "new", "--json"))
    assert ClusterSecret.parse(found["secret"]).fingerprint() == found["fingerprint"]


@pytest.mark.parametrize("days", ["0", "3000000", "99999999999"])
def test_no_certificate_is_valid_for_ever(capsys, tmp_path: Path, days: str) -> None:
    assert "--days" in told(capsys, "certs", "init", "-d", tmp_path / "ca", "--days", days, code=2)
    assert not (tmp_path / "ca").exists()


def test_a_directory_that_cannot_be_made_is_named(capsys, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    wanted = tmp_path / "file" / "ca"
    said = told(capsys, "certs", "init", "-d", wanted, code=1)
    assert said.startswith(f"peermesh: cannot make {wanted}: ")
    assert "name another directory" in said


def test_a_ticket_is_made_of_the_secret_and_shown_without_it(capsys, monkeypatch) -> None:
    assert "PEERMESH_SECRET" in told(capsys, "ticket", "new", "127.0.0.1:9", code=2)
    monkeypatch.setenv("PEERMESH_SECRET", SECRET.text())
    text = told(capsys, "ticket", "new", "127.0.0.1:9").strip()
    assert JoinTicket.parse(text) == JoinTicket("127.0.0.1", 9, SECRET)
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{text}\n"))
    for argument in (text, "-"):
        shown = told(capsys, "ticket", "show", argument)
        assert shown == f"127.0.0.1:9, secret with the fingerprint {SECRET.fingerprint()}\n"


@pytest.mark.parametrize(
    "peer", [f"peermesh://h:1/{SECRET.text()[:-1]}", f"h:1/{SECRET.text()}", SECRET.text()]
)
def test_a_mistyped_ticket_is_not_repeated(capsys, peer: str) -> None:
    said = told(capsys, "pub", "t", "1", "--peer", peer, code=2)
    assert LETTERS[:20] not in said
    assert "ticket" in said or "mistyped" in said


def test_tickets_of_two_meshes_and_two_ways_in_are_refused(capsys, tmp_path: Path) -> None:
    first = JoinTicket("127.0.0.1", 1, SECRET).text()
    other = JoinTicket("127.0.0.1", 1, ClusterSecret.generate()).text()
    for more in (["--peer", other], ["--secret-file", tmp_path / "x"]):
        assert "one way" in told(capsys, "pub", "t", "1", "--peer", first, *more, code=2)


def test_a_ticket_is_all_that_a_command_needs() -> None:
    async def main() -> int:
        async with Endpoint(secret=SECRET) as endpoint:
            port = await endpoint.listen()
            subscriber = endpoint.subscribe("t")
            ticket = JoinTicket("127.0.0.1", port, SECRET).text()
            process = await trio.run_process(
                [*COMMAND, "pub", "t", "1", "--peer", ticket, "--wait", "60"],
                check=False, capture_stderr=True,
            )  # fmt: skip
            assert b"peermesh-secret-" not in process.stderr
            assert b"ps" in process.stderr, "it is warned of"
            with trio.fail_after(limit(60)):
                assert await subscriber.get() == ("t", 1)
            return process.returncode

    assert trio.run(main) == 0


def test_an_authority_issues_certificates_with_names(capsys, tmp_path: Path) -> None:
    made = told(capsys, "certs", "init", "-d", tmp_path / "ca").split()
    assert made == [str(tmp_path / "ca" / f"authority.{kind}") for kind in ("pem", "key")]
    issued = told(
        capsys, "certs", "issue", "sensor-1", "-d", tmp_path / "ca", "--host", "a.example"
    )
    certificate, key = map(Path, issued.split())
    assert key.stat().st_mode & 0o777 == 0o600
    assert Credentials.from_files(certificate, key, made[0]).name == "sensor-1"
    shown = told(capsys, "certs", "show", certificate, made[0])
    for words in ("endpoint sensor-1, issued by CN=peermesh authority", "hosts a.example", "valid"):
        assert words in shown
    found = json.loads(told(capsys, "certs", "show", "--json", certificate))
    assert (found["name"], found["is_valid"], found["is_authority"]) == ("sensor-1", True, False)
    assert len(found["fingerprint"]) == 64


def test_files_are_replaced_only_when_they_are_to_be_renewed(capsys, tmp_path: Path) -> None:
    told(capsys, "certs", "init", "-d", tmp_path)
    before = (tmp_path / "authority.key").read_bytes()
    assert "move the old files" in told(capsys, "certs", "init", "-d", tmp_path, code=1)
    assert (tmp_path / "authority.key").read_bytes() == before
    certificate = Path(told(capsys, "certs", "issue", "a", "-d", tmp_path).split()[0])
    first = certificate.read_bytes()
    told(capsys, "certs", "issue", "a", "-d", tmp_path, code=1)
    told(capsys, "certs", "issue", "a", "-d", tmp_path, "--renew")
    assert certificate.read_bytes() != first


def test_passphrases_come_from_the_environment_and_lock_keys(
    capsys, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setenv("PEERMESH_AUTHORITY_PASSPHRASE", "correct horse")
    monkeypatch.setenv("PEERMESH_PASSPHRASE", "battery staple")
    told(capsys, "certs", "init", "-d", tmp_path)
    told(capsys, "certs", "issue", "a", "-d", tmp_path)
    for name in ("authority", "a"):
        assert b"ENCRYPTED" in (tmp_path / f"{name}.key").read_bytes()
    monkeypatch.delenv("PEERMESH_AUTHORITY_PASSPHRASE")
    said = told(capsys, "certs", "issue", "b", "-d", tmp_path, code=1)
    assert "is locked" in said
    assert "horse" not in said
    files = [tmp_path / f"a.{kind}" for kind in ("pem", "key")]
    endpoint = Endpoint(certificate=files[0], key=files[1], authority=tmp_path / "authority.pem")
    assert endpoint.credentials is not None


@pytest.mark.parametrize("name", ["../a", "a/b", ".hidden", "authority", "two\nlines"])
def test_names_that_are_no_names_of_files_are_refused(capsys, tmp_path: Path, name: str) -> None:
    told(capsys, "certs", "init", "-d", tmp_path)
    before = sorted(tmp_path.parent.rglob("*"))
    assert run(["certs", "issue", name, "-d", str(tmp_path)]) in (1, 2)
    assert sorted(tmp_path.parent.rglob("*")) == before


def test_a_certificate_that_is_not_valid_is_shown_and_fails(capsys, tmp_path: Path) -> None:
    from datetime import UTC, datetime, timedelta

    from handshake.issuing import OwnAuthority

    now = datetime.now(UTC)
    expired = OwnAuthority.create("old", (now - timedelta(days=2), now - timedelta(days=1)))
    certificate, _ = expired.own.save(tmp_path, "old")
    assert run(["certs", "show", str(certificate)]) == 1
    assert "NOT VALID NOW" in capsys.readouterr().out
