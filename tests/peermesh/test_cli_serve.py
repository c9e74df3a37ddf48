"""``peermesh serve webhdfs``, as its users meet it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

from peermesh.cli.exits import ExitCode
from peermesh.testing.webhdfs import WebHDFSClient

COMMAND = [sys.executable, "-m", "peermesh.cli", "serve", "webhdfs"]
TOKEN = "a-token-of-some-length"


def test_a_store_on_disk_is_served_and_is_still_there_after_a_kill(tmp_path):
    (tmp_path / "token").write_text(TOKEN + "\n")
    arguments = [
        "--store", f"files:{tmp_path / 'files.db'}", "--http", "127.0.0.1:0", "--json",
        "--token-file", str(tmp_path / "token"),
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
                    server.send_signal(signal.SIGTERM)
    assert server.returncode == 128 + signal.SIGTERM


def test_strangers_are_not_let_in_by_accident():
    refused = subprocess.run(
        [*COMMAND, "--store", "files", "--http", "0.0.0.0:0"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == ExitCode.FAILED
    assert "--allow-plain" in refused.stderr
