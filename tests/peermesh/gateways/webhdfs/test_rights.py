"""Who asks the WebHDFS gateway, and what each may do there."""

from __future__ import annotations

import base64
import http.client
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest
import trio

from handshake.accounts import NO_ACCOUNTS, TOKEN
from handshake.credentials import Credentials
from handshake.secret import ClusterSecret
from peermesh import Endpoint, blocking
from peermesh.gateways import serve_webhdfs
from peermesh.gateways.verifying import WAITING_OF_ADDRESS_MAX, Verifier
from peermesh.gateways.webhdfs import operations
from peermesh.gateways.webhdfs.access import PORT
from peermesh.testing.time_limits import limit
from peermesh.testing.webhdfs import RemoteException, WebHDFSClient, url
from wire.errors import LimitExceeded

WRITER, READER, OTHER = (TOKEN.write(bytes([each]) * 20) for each in range(3))
ACCOUNTS = NO_ACCOUNTS.with_token("writer", WRITER).with_token("reader", READER)
ROLES = {
    "names": {"writer": "writer", "reader": "reader", "guest-*": "guest"},
    "roles": {
        "writer": {"read": ["files"], "write": ["files:/mine"]},
        "reader": {"read": ["files:/mine/"]},
        "guest": {"subscribe": ["/public/"]},
    },
}
SECRET = ClusterSecret(bytes(range(20)))


def called(name: str) -> Credentials:
    return replace(Credentials.from_secret(SECRET, name), can_trust_names=True)


OPERATIONS = [
    ("GET", "GETFILESTATUS", {}),
    ("GET", "GETFILELINKSTATUS", {}),
    ("GET", "LISTSTATUS", {}),
    ("GET", "OPEN", {"data": "true"}),
    ("GET", "GETFILEBLOCKLOCATIONS", {}),
    ("PUT", "MKDIRS", {}),
    ("PUT", "CREATE", {"data": "true", "overwrite": "true"}),
    ("PUT", "RENAME", {"destination": "/mine/other"}),
    ("DELETE", "DELETE", {"recursive": "true"}),
    ("GET", "LISTSTATUS_BATCH", {}),
    ("GET", "GETFILECHECKSUM", {}),
    ("GET", "GETCONTENTSUMMARY", {}),
    ("GET", "GETQUOTAUSAGE", {}),
    ("GET", "GETSTATUS", {}),
    ("GET", "CHECKACCESS", {}),
    ("GET", "GETACLSTATUS", {}),
    ("GET", "GETXATTRS", {}),
    ("POST", "APPEND", {"data": "true"}),
    ("POST", "TRUNCATE", {"newlength": "1"}),
    ("POST", "CONCAT", {"sources": "/mine/other"}),
    ("PUT", "SETPERMISSION", {"permission": "600"}),
    ("PUT", "SETOWNER", {"owner": "me"}),
    ("PUT", "SETTIMES", {"modificationtime": "1"}),
    ("PUT", "SETREPLICATION", {"replication": "2"}),
]


def refused(client: WebHDFSClient, method: str, operation: str, path: str, **more: str) -> int:
    """Give the status of an operation that is not permitted, or 0 for any other."""
    try:
        client.ask(
            method, url(path, operation, **more), b"x" if method in {"PUT", "POST"} else None
        )
    except RemoteException as error:
        return error.status if error.name == "AccessControlException" else 0
    return 0


def test_every_operation_is_asked_for_below() -> None:
    free = {"GETSERVERDEFAULTS", "GETHOMEDIRECTORY", "GETTRASHROOT", "GETTRASHROOTS"}
    asked = {operation for _, operation, _ in OPERATIONS}
    assert asked | free == set(operations.OPERATIONS)
    assert asked | free == {*PORT.asks, "GETFILELINKSTATUS"}


def test_every_operation_asks_the_role(store) -> None:
    with blocking.serve_webhdfs(store, roles=ROLES, accounts=ACCOUNTS) as gateway:
        where = gateway.host, gateway.port
        with (
            WebHDFSClient(*where, token=WRITER) as writer,
            WebHDFSClient(*where, token=READER) as reader,
            WebHDFSClient(*where) as stranger,
        ):
            writer.create("/mine/file", b"some", overwrite=False)
            assert reader.open("/mine/file") == b"some"
            assert writer.status("/mine/file")["owner"] == "writer"
            for method, operation, more in OPERATIONS:
                is_change = method != "GET"
                assert refused(stranger, method, operation, "/mine/file", **more) == 401
                assert refused(reader, method, operation, "/theirs", **more) == 403
                assert refused(reader, method, operation, "/minetoo", **more) == 403
                told = refused(reader, method, operation, "/mine/file", **more)
                assert told == (403 if is_change else 0)
                told = refused(writer, method, operation, "/theirs", **more)
                assert told == (403 if is_change else 0)
            assert refused(writer, "PUT", "RENAME", "/mine/file", destination="/theirs") == 403
            assert refused(writer, "POST", "CONCAT", "/mine/file", sources="/theirs") == 403
            assert reader.open("/mine/file") == b"some"
            for token in (OTHER, "nonsense"):
                with WebHDFSClient(*where, token=token) as wrong:
                    assert refused(wrong, "GET", "LISTSTATUS", "/mine") == 401


def test_a_password_is_a_user(store) -> None:
    accounts = NO_ACCOUNTS.with_user("writer", "correct horse")
    with blocking.serve_webhdfs(store, roles=ROLES, accounts=accounts) as gateway:
        with WebHDFSClient(gateway.host, gateway.port) as client:
            for password, status in (("correct horse", 200), ("wrong horse", 401)):
                word = base64.b64encode(f"writer:{password}".encode()).decode()
                target = url("/", "LISTSTATUS")
                found, _, _ = client.exchange(
                    "GET", target, headers={"Authorization": f"Basic {word}"}
                )
                assert found == status


def test_no_name_of_a_url_becomes_an_owner(client) -> None:
    target = url("/file", "CREATE", data="true").replace("user.name=spark", "user.name=root")
    client.ask("PUT", target, b"some")
    assert client.status("/file")["owner"] == "anonymous"


def test_changed_roles_and_accounts_hold_for_the_next_request(store, tmp_path) -> None:
    roles, accounts = tmp_path / "roles.toml", tmp_path / "accounts.toml"
    rights = '[names]\nwriter = "w"\n[roles.w]\nread = ["files"]\nwrite = ["files"]\n'
    roles.write_text(rights)
    ACCOUNTS.save(accounts)
    with blocking.serve_webhdfs(store, roles=roles, accounts=accounts) as gateway:
        with WebHDFSClient(gateway.host, gateway.port, token=WRITER) as client:
            client.create("/file", b"some", overwrite=False)
            roles.write_text("[names")
            assert client.open("/file") == b"some"
            roles.write_text(rights.replace('write = ["files"]', ""))
            assert refused(client, "DELETE", "DELETE", "/file") == 403
            ACCOUNTS.with_token("writer", OTHER).without("writer", oldest=True).save(accounts)
            assert refused(client, "GET", "LISTSTATUS", "/") == 401


RIGHTS = '[names]\nwriter = "w"\n[roles.w]\nread = ["files"]\nwrite = ["files"]\n'


def test_an_upload_ends_with_the_right_to_write(store, tmp_path) -> None:
    roles = tmp_path / "roles.toml"
    roles.write_text(RIGHTS)
    with blocking.serve_webhdfs(store, roles=roles, accounts=ACCOUNTS) as gateway:
        where = gateway.host, gateway.port
        with (
            WebHDFSClient(*where, token=WRITER) as client,
            WebHDFSClient(*where, token=WRITER) as other,
        ):

            def pieces() -> Iterator[bytes]:
                yield b"first"
                roles.write_text(RIGHTS.replace('write = ["files"]', ""))
                assert other.names("/") == []
                yield b"last"

            with pytest.raises(RemoteException, match=r"'writer' .*may not CREATE") as refusal:
                client.create("/file", pieces(), overwrite=False)
            assert refusal.value.status == 403
            assert other.names("/") == []


def test_a_download_ends_with_the_right_to_read(store, tmp_path) -> None:
    roles = tmp_path / "roles.toml"
    roles.write_text(RIGHTS)
    size = 2**24  # more than the sockets take
    with blocking.serve_webhdfs(store, roles=roles, accounts=ACCOUNTS) as gateway:
        where = gateway.host, gateway.port
        reading = http.client.HTTPConnection(*where, timeout=limit(30))
        with WebHDFSClient(*where, token=WRITER) as client, closing(reading):
            client.create("/file", bytes(size), overwrite=False)
            headers = {"Authorization": f"Bearer {WRITER}"}
            reading.request("GET", url("/file", "OPEN", data="true"), headers=headers)
            response = reading.getresponse()
            assert response.read(1) == b"\0"
            roles.write_text(RIGHTS.replace('read = ["files"]', ""))
            assert refused(client, "GET", "LISTSTATUS", "/") == 403
            with pytest.raises(http.client.IncompleteRead):
                response.read()


async def test_a_gateway_goes_by_the_changed_roles_of_its_mesh(tmp_path) -> None:
    roles = tmp_path / "roles.toml"
    core = '[names]\n"core-*" = "core"\n[roles.core]\nrelay = true\nlead = ["*"]\n'
    guest = '[roles.guest]\nread = ["files"]\n'
    roles.write_text(f'default = "guest"\n{core}{guest}')

    def use(port: int) -> None:
        context = called("guest-1").client_context()
        with WebHDFSClient("127.0.0.1", port, context=context) as client:
            assert refused(client, "GET", "LISTSTATUS", "/") == 0
            roles.write_text(f'default = "guest"\n{core}[roles.guest]\n')
            assert refused(client, "GET", "LISTSTATUS", "/") == 403
            roles.write_text(f'default = "guest"\n{core}{guest}')
            assert refused(client, "GET", "LISTSTATUS", "/") == 0

    with trio.fail_after(limit(60)):
        async with (
            Endpoint(credentials=called("core-1"), roles=roles) as endpoint,
            endpoint.attach_master("files") as store,
            serve_webhdfs(store, credentials=endpoint.credentials) as gateway,
        ):
            await trio.to_thread.run_sync(use, gateway.port)


async def test_a_guest_of_the_mesh_is_a_guest_at_its_gateway() -> None:
    mesh = {
        "names": {"core-*": "core", "guest-*": "guest"},
        "roles": {
            "core": {"relay": True, "publish": [""], "subscribe": [""], "lead": ["*"]},
            "guest": {"subscribe": ["/public/"]},
        },
    }

    def use(port: int) -> None:
        def open_as(name: str) -> WebHDFSClient:
            return WebHDFSClient("127.0.0.1", port, context=called(name).client_context())

        with open_as("core-2") as member, open_as("guest-1") as guest:
            member.create("/file", b"some", overwrite=False)
            assert member.status("/file")["owner"] == "core-2"
            for method, operation, more in OPERATIONS:
                assert refused(guest, method, operation, "/file", **more) == 403
            assert member.open("/file") == b"some"

    with trio.fail_after(limit(60)):
        async with (
            Endpoint(credentials=called("core-1"), roles=mesh) as endpoint,
            endpoint.attach_master("files") as store,
            serve_webhdfs(store, credentials=endpoint.credentials) as gateway,
        ):
            await trio.to_thread.run_sync(use, gateway.port)


async def test_guesses_of_one_address_wait_for_each_other_alone() -> None:
    verifier, refusals = Verifier(), list[LimitExceeded]()

    async def guess() -> None:
        try:
            assert await verifier.token(ACCOUNTS, OTHER, "192.0.2.1") is None
        except LimitExceeded as error:
            refusals.append(error)

    with trio.fail_after(limit(60)):
        async with trio.open_nursery() as nursery:
            for _ in range(WAITING_OF_ADDRESS_MAX + 3):
                nursery.start_soon(guess)
            found = await verifier.token(ACCOUNTS, WRITER, "192.0.2.2")
        assert found is not None
        assert len(refusals) == 3
        hashed = verifier.hashed
        assert await verifier.token(ACCOUNTS, WRITER, "192.0.2.2") == found
        assert verifier.hashed == hashed
