"""Completion in shells: the scripts, and names that only the mesh knows."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from peermesh.blocking import Endpoint
from peermesh.cli.application import run
from peermesh.cli.completion import SHELLS

ROOT = Path(__file__).parent.parent.parent
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith("PEERMESH_")}


def completed(*words: str, **environment: str) -> list[str]:
    """Ask as bash's script does, with the last word unfinished."""
    asked = {
        "_PEERMESH_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["peermesh", *words]),
        "COMP_CWORD": str(len(words)),
        "PEERMESH_CONFIG_DIR": "/nonexistent",
    }
    script = "import sys; sys.argv = ['peermesh']; from peermesh.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=ENVIRONMENT | asked | environment,
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.split()]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_is_written_for_each_shell(capsys, shell: str) -> None:
    assert run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"_PEERMESH_COMPLETE={shell}_complete" in script
    assert "peermesh" in script


def test_the_script_of_bash_is_read_by_bash(capsys) -> None:
    assert run(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    shell = subprocess.run(
        ["bash", "--norc", "-c", f"{script}\ncomplete -p peermesh"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (shell.returncode, shell.stderr) == (0, "")
    assert shell.stdout.rstrip().endswith("peermesh")


def test_commands_and_options_are_completed() -> None:
    assert completed("sto") == ["store"]
    assert "increment" in completed("store", "in")
    assert "erase" not in completed("store", "")
    assert "--peer" in completed("store", "get", "--pe")


def test_names_of_stores_and_logs_come_from_the_mesh() -> None:
    with (
        Endpoint() as endpoint,
        endpoint.attach_master("cities"),
        endpoint.attach_master("cinemas"),
        endpoint.attach_master("rivers"),
        endpoint.attach_log("events"),
    ):
        address = f"127.0.0.1:{endpoint.listen()}"
        assert completed("store", "get", "ci", PEERMESH_PEER=address) == ["cinemas", "cities"]
        assert completed("store", "get", "--peer", address, "r") == ["rivers"]
        assert completed("log", "read", "", PEERMESH_PEER=address) == ["events"]


def test_a_mesh_that_does_not_answer_completes_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        assert completed("store", "get", "", PEERMESH_PEER=address) == []
    assert completed("store", "get", "", PEERMESH_PEER="a/b") == []
    assert completed("store", "get", "") == []


def test_contexts_are_completed(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PEERMESH_CONFIG_DIR", str(tmp_path))
    assert run(["context", "add", "home", "--peer", "1"]) == 0
    assert completed("context", "use", "", PEERMESH_CONFIG_DIR=str(tmp_path)) == ["home"]
