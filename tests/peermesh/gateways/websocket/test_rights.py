"""Who may ask the WebSocket gateway, and for which topics."""

from __future__ import annotations

import base64
from contextlib import suppress
from dataclasses import replace

import pytest
import trio
from trio_websocket import ConnectionClosed, ConnectionRejected

from handshake.accounts import NO_ACCOUNTS, TOKEN
from handshake.credentials import Credentials
from handshake.secret import ClusterSecret
from peermesh import Endpoint
from peermesh.errors import CredentialsError, InsecureAddress
from peermesh.gateways import serve_websocket
from peermesh.testing.time_limits import limit
from tests.peermesh.gateways.websocket.conftest import open_client, open_line, open_socket

WRITER, READER, OTHER = (TOKEN.write(bytes([each]) * 20) for each in range(3))
ACCOUNTS = NO_ACCOUNTS.with_token("writer", WRITER).with_token("reader", READER)
ROLES = {
    "names": {"writer": "writer", "reader": "reader"},
    "roles": {
        "writer": {"publish": ["/news/"], "subscribe": ["/news/"]},
        "reader": {"subscribe": ["/news/"]},
    },
}
SECRET = ClusterSecret(bytes(range(20)))


def called(name: str, secret: ClusterSecret = SECRET) -> Credentials:
    return replace(Credentials.from_secret(secret, name), can_trust_names=True)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def rejection(gateway, **options) -> tuple[int, str]:
    """Give the status and the text with which a connection is refused."""
    with pytest.raises(ConnectionRejected) as rejected:
        async with open_socket(gateway, **options):
            pass
    return rejected.value.status_code, (rejected.value.body or b"").decode()


async def test_a_role_says_to_what_a_client_may_subscribe():
    async with open_line(roles=ROLES, accounts=ACCOUNTS) as line:
        async with open_client(line.gateway, "/news/today", **bearer(READER)):
            pass
        for topics in ([""], ["/new"], ["/news/", "/other"]):
            async with open_socket(line.gateway, **bearer(READER)) as client:
                await client.say(topics)
                told = await client.hear()
                assert told["code"] == "not_allowed"
                assert "'reader' (role reader) may not subscribe" in told["context"]
                with pytest.raises(ConnectionClosed):
                    await client.hear()


async def test_a_role_says_on_what_a_client_may_publish():
    async with open_line(roles=ROLES, accounts=ACCOUNTS) as line:
        with line.near.subscribe("", local=True) as subscriber:
            async with open_client(line.gateway, **bearer(READER)) as client:
                await client.publish("/news/today", "forged")
                told = await client.hear()
                assert told["code"] == "not_allowed"
                assert "may not publish '/news/today'" in told["context"]
            async with open_client(line.gateway, **bearer(WRITER)) as client:
                await client.publish("/other", "forged")
                assert (await client.hear())["code"] == "not_allowed"
                await client.publish("/news/today", "true")
                assert await subscriber.get(limit(20)) == ("/news/today", "true")


async def test_what_the_endpoint_itself_may_not_publish_is_refused():
    roles = {
        "names": {"core": "core"},
        "roles": {"core": {"publish": ["/mine/"], "subscribe": [""], "relay": True}},
    }
    async with (
        Endpoint(credentials=called("core"), roles=roles) as endpoint,
        serve_websocket(endpoint, credentials=endpoint.credentials) as gateway,
    ):
        async with open_client(gateway, tls=called("core").client_context()) as client:
            await client.publish("/theirs", "x")
            assert (await client.hear())["code"] == "not_allowed"


async def test_a_token_is_wanted_and_no_other_will_do():
    async with open_line(token="a-token-of-some-length") as line:
        status, text = await rejection(line.gateway)
        assert (status, "Authorization: Bearer" in text) == (401, True)
        for wrong in ("another-token-of-some-length", "x"):
            assert (await rejection(line.gateway, **bearer(wrong)))[0] == 401
        assert (await rejection(line.gateway, Authorization="Digest x"))[0] == 401
        async with open_client(line.gateway, "/t", **bearer("a-token-of-some-length")):
            pass
        refused = line.gateway.statistics().refused
    assert refused == {"request": 4}


async def test_a_password_of_the_accounts_is_a_user():
    accounts = NO_ACCOUNTS.with_user("writer", "correct horse")
    async with open_line(roles=ROLES, accounts=accounts) as line:
        for password, may in (("correct horse", True), ("wrong horse", False)):
            word = base64.b64encode(f"writer:{password}".encode()).decode()
            if may:
                async with open_client(line.gateway, "/news/", Authorization=f"Basic {word}"):
                    pass
            else:
                assert (await rejection(line.gateway, Authorization=f"Basic {word}"))[0] == 401


async def test_who_has_no_role_does_not_come_in():
    accounts = ACCOUNTS.with_token("stranger", OTHER)
    async with open_line(roles=ROLES, accounts=accounts) as line:
        status, text = await rejection(line.gateway, **bearer(OTHER))
        assert status == 403
        assert "'stranger' (without a role) may not open" in text
        assert (await rejection(line.gateway))[0] == 401


async def test_a_withdrawn_right_ends_the_connection_that_needs_it(tmp_path):
    roles = tmp_path / "roles.toml"
    text = '[names]\nreader = "r"\nwriter = "w"\n[roles.w]\nsubscribe = ["/"]\n[roles.r]\n'
    roles.write_text(f'{text}subscribe = ["/news/"]\n')
    async with open_line(roles=roles, accounts=ACCOUNTS) as line:
        async with (
            open_client(line.gateway, "/news/", **bearer(READER)) as client,
            open_client(line.gateway, "/news/", **bearer(WRITER)) as other,
        ):
            roles.write_text(f'{text}subscribe = ["/weather/"]\n')
            async with open_client(line.gateway, **bearer(WRITER)):  # The files are looked at.
                with pytest.raises(ConnectionClosed) as closed:
                    await client.hear()
                assert closed.value.reason.code == 1008
                await line.near.publish("/news/x", "still")
                assert (await other.hear())["data"] == "still"


async def test_with_tls_a_certificate_of_the_mesh_is_wanted():
    roles = {
        "names": {"core-*": "core", "guest-*": "guest"},
        "roles": {
            "core": {"relay": True, "publish": [""], "subscribe": [""]},
            "guest": {"subscribe": ["/public/"]},
        },
    }
    async with (
        Endpoint(credentials=called("core-1"), roles=roles) as endpoint,
        serve_websocket(endpoint, credentials=endpoint.credentials) as gateway,
    ):
        assert gateway.url.startswith("wss://")
        guest = called("guest-1").client_context()
        async with open_client(gateway, "/public/", tls=guest) as client:
            await endpoint.publish("/public/x", "for all")
            assert (await client.hear())["data"] == "for all"
            await client.publish("/public/x", "forged")
            assert (await client.hear())["code"] == "not_allowed"
        async with open_client(gateway, "", tls=called("core-2").client_context()):
            pass
        stranger = called("core-1", ClusterSecret(bytes(20))).client_context()
        for tls in (stranger, None):
            stream: trio.abc.Stream = await trio.open_tcp_stream(gateway.host, gateway.port)
            if tls is not None:
                stream = trio.SSLStream(stream, tls, server_hostname="peermesh")
            with suppress(trio.BrokenResourceError), trio.fail_after(limit(20)):
                await stream.send_all(b"GET /v1/messages/json HTTP/1.1\r\n\r\n")
                while found := await stream.receive_some():
                    assert found.startswith(b"\x15"), "an alert of TLS"
            await trio.aclose_forcefully(stream)
        assert gateway.statistics().refused == {"connection": 2, "input": 1}


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
async def test_beyond_loopback_it_is_tls_unless_plain_is_allowed_with_a_token(host):
    async with Endpoint() as endpoint:
        for options in (
            {},
            {"token": "a-token-of-some-length"},
            {"accounts": ACCOUNTS},
            {"allow_plain": True},
        ):
            with pytest.raises(InsecureAddress):
                async with serve_websocket(endpoint, host=host, **options):
                    pass


async def test_beyond_loopback_a_certificate_lets_in():
    async with (
        Endpoint(credentials=called("core")) as endpoint,
        serve_websocket(endpoint, host="0.0.0.0", credentials=endpoint.credentials) as gateway,
    ):
        async with open_client(gateway, "/t", tls=called("other").client_context()):
            pass


async def test_pages_are_served_from_origins_that_are_listed_alone():
    async with open_line(origins=["https://Example.org/"]) as line:
        port = line.gateway.port
        for origin in (
            "https://example.org",
            f"http://127.0.0.1:{port}",
            f"http://localhost:{port}",
            f"http://[::1]:{port}",
        ):
            async with open_client(line.gateway, "/t", Origin=origin):
                pass
        for origin in (
            "http://example.org",
            "https://example.org:8443",
            "https://example.org.evil.example",
            f"http://evil.example:{port}",
            f"https://127.0.0.1:{port}",
            "http://127.0.0.1",
            f"http://127.0.0.1:{port + 1}",
            f"http://127.0.0.1:{port}/",
            "null",
        ):
            status, text = await rejection(line.gateway, Origin=origin)
            assert (status, "Origin" in text) == (403, True), origin


async def test_one_origin_may_stand_alone():
    async with open_line(origins="https://example.org") as line:
        async with open_client(line.gateway, "/t", Origin="https://example.org"):
            pass


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"token": "short"}, CredentialsError, "at least 16"),
        ({"token": 5}, TypeError, "token"),
        ({"port": "x"}, (TypeError, ValueError), "port"),
        ({"host": 5}, TypeError, "host"),
        ({"origins": [5]}, TypeError, "origins"),
    ],
)
async def test_wrong_arguments_are_refused_at_the_call(options, error, words):
    async with Endpoint() as endpoint:
        with pytest.raises(error, match=words):
            async with serve_websocket(endpoint, **options):
                pass


async def test_only_an_endpoint_is_served():
    with pytest.raises(TypeError, match="give an endpoint"):
        async with serve_websocket("mesh"):
            pass
