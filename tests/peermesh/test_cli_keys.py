"""Encrypted stores on the command line: a key file, a node that uses it, and other keys later."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from peermesh.blocking import Endpoint
from peermesh.cli import application, keys
from peermesh.testing.time_limits import limit
from tests.peermesh import commands

COMMAND = [sys.executable, "-m", "peermesh.cli"]
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith("PEERMESH_")}
VARIABLE = "PEERMESH_STORE_KEY_FILE"


def run(*arguments: object, code: int = 0, **environment: str) -> str:
    """Run a command to its end; gives stdout, or stderr if it is to fail."""
    found = commands.run(*arguments, **environment)
    assert found.returncode == code, found.stderr
    return found.stderr if code else found.stdout


@contextmanager
def node(*arguments: object, **environment: str) -> Iterator[str]:
    """Run a node; gives its address."""
    options = ("node", "--listen", "127.0.0.1:0", "--json", *map(str, arguments))
    with subprocess.Popen(
        [*COMMAND, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT | environment,
    ) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if (event := json.loads(line))["event"] == "listening":
                    yield f"127.0.0.1:{event['port']}"
                    break
        finally:
            process.terminate()


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "keys"
    run("store", "new-key", path)
    return path


def test_a_key_file_is_its_owner_s_alone_and_grows_at_the_front(key_file):
    first = key_file.read_text()
    fingerprint = run("store", "new-key", key_file).strip()
    lines = key_file.read_text().splitlines()
    assert lines[1:] == first.splitlines()
    assert len(set(lines)) == 2
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
    assert len(fingerprint) == 16
    assert fingerprint not in key_file.read_text()


def test_a_node_encrypts_with_the_key_file_of_its_environment(key_file, tmp_path):
    store = tmp_path / "cities.db"
    environment = {VARIABLE: str(key_file)}
    with node("--master", f"cities:{store}", **environment) as address:
        run("store", "put", "cities", '"vienna"', '"a thing to look for"', "--peer", address)
    assert b"vienna" not in store.read_bytes()
    assert b"a thing to look for" not in store.read_bytes()
    plain = run("node", "--listen", "127.0.0.1:0", "--master", f"cities:{store}", code=1)
    assert "is encrypted, and there is no key" in plain
    assert "is there room on the disk" not in plain
    run("store", "new-key", key_file)
    told = json.loads(run("store", "rekey", store, "--json", **environment))
    assert told["file"] == str(store)
    new_alone = tmp_path / "new"
    new_alone.write_text(key_file.read_text().splitlines()[0])
    new_alone.chmod(0o600)
    with node("--master", f"cities:{store}", **{VARIABLE: str(new_alone)}) as address:
        assert "look for" in run("store", "get", "cities", '"vienna"', "--peer", address)


def test_a_file_that_takes_long_says_how_far_it_is(key_file, tmp_path, monkeypatch, capsys):
    store = tmp_path / "cities.db"
    with Endpoint() as endpoint, endpoint.attach_master("cities", "sqlite", path=store) as master:
        master.put("vienna", 1).result(timeout=limit())
    monkeypatch.setattr(keys, "PROGRESS_SECONDS", 0)
    assert application.run(["store", "rekey", str(store), "--key-file", str(key_file)]) == 0
    out, err = capsys.readouterr()
    assert f"peermesh: {store}: 4 rows done\n" in err
    assert out.startswith(f"{store} is under key ")


@pytest.mark.parametrize("mode", [0o660, 0o604, 0o666])
def test_a_key_file_that_others_can_read_is_refused(key_file, tmp_path, mode):
    key_file.chmod(mode)
    text = run("store", "rekey", tmp_path / "any", "--key-file", key_file, code=1)
    assert f"chmod 600 {key_file}" in text
    assert "peermesh-store-key-" not in text


def test_without_a_key_it_says_where_to_give_one(tmp_path):
    assert "PEERMESH_STORE_KEY_FILE" in run("store", "rekey", tmp_path / "any", code=1)
    missing = tmp_path / "missing"
    assert "cannot read" in run("store", "rekey", "any", "--key-file", missing, code=1)
