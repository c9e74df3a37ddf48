"""What a web page can have a browser ask of a gateway: nothing, whatever proof comes with it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from handshake.credentials import Credentials
from handshake.issuing import AUTHORITY, OwnAuthority
from peermesh import blocking
from peermesh.gateways.http import INERT
from peermesh.gateways.names import Names, is_own_origin
from peermesh.testing.webhdfs import WebHDFSClient, url

TOKEN = "a-token-of-some-length"
CREATE = ("PUT", url("/file", "CREATE", data="true"), b"some")
GRANT = ("POST", "/token", f"client_secret={TOKEN}".encode())
LIST = ("GET", url("/", "LISTSTATUS"), None)
ENTRIES = [CREATE, GRANT, LIST, ("GET", url("/file", "OPEN"), None)]


def ask(client: WebHDFSClient, request: tuple, **headers: str) -> tuple[int, str]:
    """Ask, and give the status and the exception's name."""
    status, _, body = client.exchange(*request, headers=headers)
    if status < 400:
        return status, ""
    return status, json.loads(body)["RemoteException"]["exception"]


@pytest.fixture
def credentials(tmp_path: Path) -> Credentials:
    now, day = datetime.now(UTC), timedelta(days=1)
    authority = OwnAuthority.create("ours", (now - day, now + day))
    issued = authority.issue("a", (now - day, now + day), ["files.example", "*.more.example"])
    trusted, _ = authority.own.save(tmp_path, AUTHORITY)
    return Credentials.from_files(*issued.save(tmp_path, "a"), trusted)


@pytest.mark.parametrize("token", [None, TOKEN])
@pytest.mark.parametrize("request_", ENTRIES)
def test_a_page_of_another_site_gets_nothing(store, token, request_) -> None:
    with (
        blocking.serve_webhdfs(store, token=token) as gateway,
        WebHDFSClient(gateway.host, gateway.port, token=token) as client,
    ):
        own = f"127.0.0.1:{gateway.port}"
        refused = (403, "AccessControlException")
        assert ask(client, request_, Host=f"evil.example:{gateway.port}") == refused
        for origin in ("https://evil.example", "null", f"http://localhost:{gateway.port}"):
            assert ask(client, request_, Host=own, Origin=origin) == refused
        assert client.names("/") == []
        assert ask(client, CREATE, Host=own, Origin=f"http://{own}")[0] == 201


@pytest.mark.parametrize("request_", ENTRIES)
def test_a_certificate_opens_no_gateway_to_pages(store, credentials, request_) -> None:
    with (
        blocking.serve_webhdfs(store, credentials=credentials) as gateway,
        WebHDFSClient(gateway.host, gateway.port, context=credentials.client_context()) as client,
    ):
        refused = (403, "AccessControlException")
        assert ask(client, request_, Host="evil.example") == refused
        own = "files.example"
        for origin in ("https://evil.example", f"http://{own}", "null"):
            assert ask(client, request_, Host=own, Origin=origin) == refused
        assert client.names("/") == []
        assert ask(client, CREATE, Host=own, Origin=f"https://{own}")[0] == 201
        assert ask(client, LIST, Host="one.more.example") == (200, "")


def test_answers_are_never_run_by_a_browser(client) -> None:
    client.create("/page", b"<script>alert(1)</script>", overwrite=False)
    for request in (LIST, ("GET", url("/page", "OPEN", data="true"), None), ("GET", "/x", None)):
        _, headers, _ = client.exchange(*request)
        for name, value in INERT:
            assert headers[name] == value
    _, headers, _ = client.exchange("GET", url("/page", "OPEN", data="true"))
    assert headers["Content-Type"] == "application/octet-stream"


def test_further_names_are_given(store) -> None:
    with (
        blocking.serve_webhdfs(store, names=["Files.example"]) as gateway,
        WebHDFSClient(gateway.host, gateway.port) as client,
    ):
        assert ask(client, LIST, Host=f"files.example:{gateway.port}") == (200, "")
        assert ask(client, LIST, Host="other.example")[0] == 403
    with pytest.raises(TypeError, match="names="):
        with blocking.serve_webhdfs(store, names="files.example"):
            pass


@pytest.mark.parametrize(
    ("address", "host", "is_known"),
    [
        ("127.0.0.1", "127.0.0.1:9870", True),
        ("127.0.0.1", "localhost", True),
        ("127.0.0.1", "LOCALHOST.:1", True),
        ("127.0.0.1", "[::1]:9870", True),
        ("127.0.0.1", "10.0.0.7:9870", False),
        ("127.0.0.1", "localhost.evil.example", False),
        ("127.0.0.1", "127.0.0.1.nip.io", False),
        ("10.0.0.7", "10.0.0.7", True),
        ("10.0.0.7", "10.0.0.8", False),
        ("gateway", "gateway:9870", True),
        ("0.0.0.0", "10.0.0.7:1", True),
        ("::", "[fe80::1]:1", True),
        ("0.0.0.0", "evil.example", False),
        ("0.0.0.0", "10.0.0.7.nip.io", False),
        ("127.0.0.1", "given.example:1", True),
        ("127.0.0.1", "gateway.example", True),
        ("127.0.0.1", "a.more.example", True),
        ("127.0.0.1", "a.b.more.example", False),
        ("127.0.0.1", "more.example", False),
        ("127.0.0.1", "", False),
    ],
)
def test_a_gateway_knows_its_names(address, host, is_known) -> None:
    names = Names(address, ["given.example"])
    assert names.know(host, ("gateway.example", "*.more.example")) is is_known


def test_an_origin_is_scheme_host_and_port() -> None:
    assert is_own_origin(None, "http", "a:1")
    assert is_own_origin("HTTPS://A:1", "https", "a:1")
    for origin in (
        "http://a:1",
        "https://a:2",
        "https://a",
        "https://a:1.evil.example",
        "",
        "null",
    ):
        assert not is_own_origin(origin, "https", "a:1")
