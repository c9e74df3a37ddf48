"""``peermesh serve websocket`` and ``peermesh link zeek``, as their users meet them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from peermesh.cli.application import run
from peermesh.cli.exits import ExitCode
from peermesh.testing.time_limits import limit

client_module = pytest.importorskip("websockets.sync.client")
exceptions = pytest.importorskip("websockets.exceptions")

COMMAND = [sys.executable, "-m", "peermesh.cli"]
TOKEN = "a-token-of-some-length"


@contextmanager
def running(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], object]]:
    """A command that runs, and a function that gives its next event of a kind."""
    with subprocess.Popen(
        [*COMMAND, *arguments, "--json"], stdout=subprocess.PIPE, text=True
    ) as process:

        def event(kind: str) -> dict[str, object]:
            for line in process.stdout:
                found = json.loads(line)
                if found["event"] == kind:
                    return found
            raise AssertionError(f"it ended without {kind}")

        try:
            yield process, event
        finally:
            process.kill()


def test_a_link_joins_two_meshes_with_gateways_and_all_end_in_order():
    """A client at a gateway; a link to that, as if it was a Zeek; another gateway behind it."""
    serving = ("serve", "websocket", "--http", "127.0.0.1:0")
    with running(*serving) as (first, event):
        url = event("serving")["url"]
        linking = ("link", "zeek", url.removesuffix("/v1/messages/json"), "--listen", "127.0.0.1:0")
        with running(*linking, "--from-zeek", "/t") as (link, link_event):
            address = f"127.0.0.1:{link_event('listening')['port']}"
            assert link_event("connected")["text"]
            with running(*serving, "--peer", address) as (second, second_event):
                other = second_event("serving")["url"]
                with client_module.connect(url) as near, client_module.connect(other) as far:
                    for client in (near, far):
                        client.send('["/t"]')
                        assert json.loads(client.recv(limit(20)))["type"] == "ack"
                    heard = None
                    while heard is None:  # Until the subscription is known two hops away.
                        near.send('{"topic": "/t/x", "@data-type": "count", "data": 5}')
                        with suppress(TimeoutError):
                            heard = far.recv(0.2)
                assert json.loads(heard)["data"] == 5
                for process in (first, link, second):
                    process.send_signal(signal.SIGTERM)
                    assert process.wait(limit(30)) == 128 + signal.SIGTERM


def test_a_gateway_asks_for_its_token_and_serves_the_pages_that_are_listed(tmp_path):
    (tmp_path / "token").touch(mode=0o600)
    (tmp_path / "token").write_text(TOKEN + "\n")
    options = ("--token-file", str(tmp_path / "token"), "--origin", "https://example.org")
    with running("serve", "websocket", "--http", "127.0.0.1:0", *options) as (_, event):
        url = event("serving")["url"]
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        with client_module.connect(url, additional_headers=bearer, origin="https://example.org"):
            pass
        for headers, origin, status in (({}, None, 401), (bearer, "https://example.net", 403)):
            with pytest.raises(exceptions.InvalidStatus) as refused:
                client_module.connect(url, additional_headers=headers, origin=origin).__enter__()
            assert refused.value.response.status_code == status


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("serve", "websocket", "--http", "0.0.0.0:0", "--allow-plain"), "give a token"),
        (("link", "zeek", "ws://127.0.0.1:1", "--listen", "127.0.0.1:0"), "say which topics"),
        (("link", "zeek", "127.0.0.1:1", "--to-zeek", "/t", "--listen", "127.0.0.1:0"),
         "is no address of Zeek: write ws://127.0.0.1:27759"),
        (("link", "zeek", "ws://127.0.0.1:1", "--to-zeek", "/t"), "--peer HOST:PORT"),
        (("link",), "Missing argument 'LISTEN'"),
        (("link", "zeek"), "Missing argument 'URL'"),
    ],
)  # fmt: skip
def test_what_is_missing_is_said(arguments, words, capsys):
    assert run(list(arguments)) != 0
    assert words in capsys.readouterr().err


def test_a_certificate_that_is_none_is_said(tmp_path, capsys):
    (tmp_path / "ca").write_text("nonsense")
    arguments = ["link", "zeek", "wss://127.0.0.1:1", "--to-zeek", "/t", "--listen", "127.0.0.1:0"]
    assert run([*arguments, "--zeek-ca", str(tmp_path / "ca")]) == ExitCode.FAILED
    assert "give files in PEM" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [("serve", "websocket"), ("link", "zeek", "ws://127.0.0.1:1", "--to-zeek", "/t", "--listen",
                              "127.0.0.1:0")],
)  # fmt: skip
def test_without_the_extra_it_says_what_to_install(arguments, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "trio_websocket", None)
    for name in [each for each in sys.modules if each.startswith("peermesh.gateways.websocket.")]:
        monkeypatch.delitem(sys.modules, name)
    assert run(list(arguments)) == ExitCode.MISSING
    assert "pip install 'peermesh[websocket]'" in capsys.readouterr().err
