"""``peermesh serve webhdfs``, as its users meet it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from peermesh.cli.application import run
from peermesh.cli.exits import ExitCode
from peermesh.testing.webhdfs import RemoteException, WebHDFSClient, url

COMMAND = [sys.executable, "-m", "peermesh.cli", "serve", "webhdfs"]
TOKEN = "a-token-of-some-length"


def test_a_store_on_disk_is_served_and_is_still_there_after_a_kill(tmp_path):
    (tmp_path / "token").touch(mode=0o600)
    (tmp_path / "token").write_text(TOKEN + "\n")
    arguments = [
        "--store", f"files:{tmp_path / 'files.db'}", "--http", "127.0.0.1:0", "--json",
        "--token-file", str(tmp_path / "token"), "--name", "files.example",
    ]  # fmt: skip
    for is_first in (True, False):
        with subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, text=True) as server:
            serving = json.loads(server.stdout.readline())
            assert serving["event"] == "serving"
            assert serving["active"] is True
            host, _, port = serving["address"].rpartition(":")
            with WebHDFSClient(host, int(port), token=TOKEN) as client:
                if is_first:
                    client.create("/d/file", b"some", overwrite=False)
                    server.kill()
                else:
                    assert client.open("/d/file") == b"some"
                    for name, status in (("files.example", 200), ("other.example", 403)):
                        target = url("/", "LISTSTATUS")
                        assert client.exchange("GET", target, headers={"Host": name})[0] == status
                    server.send_signal(signal.SIGTERM)
    assert server.returncode == 128 + signal.SIGTERM


def test_a_gateway_takes_a_quota_for_its_store():
    arguments = ["--store", "files", "--http", "127.0.0.1:0", "--json", "--max-bytes", "2KiB"]
    with subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, text=True) as server:
        try:
            host, _, port = json.loads(server.stdout.readline())["address"].rpartition(":")
            with WebHDFSClient(host, int(port)) as client:
                client.create("/file", bytes(1_000), overwrite=False)
                with pytest.raises(RemoteException, match="files is full") as refused:
                    client.create("/other", bytes(1_000), overwrite=False)
                assert refused.value.name == "DSQuotaExceededException"
        finally:
            server.kill()


def test_a_gateway_founds_a_group_with_a_number_of_voters():
    arguments = ["--store", "files", "--http", "127.0.0.1:0", "--json"]
    voters = ["--voters", "1", "--found", "--node", "a"]
    with subprocess.Popen(
        [*COMMAND, *arguments, *voters], stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            found = map(json.loads, server.stdout)
            serving = next(each for each in found if each["event"] == "serving")
            host, _, port = serving["address"].rpartition(":")
            with WebHDFSClient(host, int(port)) as client:
                client.create("/file", b"some", overwrite=False)
        finally:
            server.kill()


@pytest.mark.parametrize("broker", ["edge", "qos2"])
def test_the_voters_of_a_broker_have_names(broker, capsys):
    assert run(["broker", broker, "--voters", "3"]) == ExitCode.USAGE
    assert "a broker's voters have names: --voters a,b,c" in capsys.readouterr().err


def test_strangers_are_not_let_in_by_accident():
    refused = subprocess.run(
        [*COMMAND, "--store", "files", "--http", "0.0.0.0:0"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == ExitCode.FAILED
    assert "--allow-plain" in refused.stderr


def fail(*arguments: str, code: ExitCode) -> str:
    failed = subprocess.run(
        [*COMMAND, "--store", "files", "--http", "127.0.0.1:0", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (failed.returncode, failed.stdout) == (code, "")
    assert failed.stderr.count("\n") == 1, "one sentence"
    return failed.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--replicas", "1"), "--voters a,b,c"),
        (("--voters", "a,b,c", "--clone"), "give one of them"),
        (("--voters", "a,b,c", "--max-entries", "5"), "the quota of a group is its own"),
        (("--voters", "a,,c", "--node", "a"), "has an empty name"),
    ],
)
def test_what_does_not_go_with_a_group_is_told(capsys, arguments, words):
    assert run(["serve", "webhdfs", "--store", "files", *arguments]) == ExitCode.USAGE
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("token", [b"", b"short", b"\xff" * 32, b"with a blank in it\n"])
def test_a_file_without_a_token_is_one_sentence_without_it(tmp_path, token):
    (tmp_path / "token").touch(mode=0o600)
    (tmp_path / "token").write_bytes(token)
    said = fail("--token-file", str(tmp_path / "token"), code=ExitCode.FAILED)
    assert "16 characters" in said
    assert "blank in" not in said


def test_missing_http_is_told_by_the_code(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "peermesh.gateways.webhdfs.serving", None)
    assert run(["serve", "webhdfs", "--store", "files"]) == ExitCode.MISSING
    assert "peermesh[http]" in capsys.readouterr().err
