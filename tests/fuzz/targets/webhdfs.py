"""Requests to the WebHDFS gateway, and forms that ask it for a token."""

from __future__ import annotations

from collections.abc import Iterator

from handshake.exposure import Protection
from peermesh.gateways.access import Access, Login
from peermesh.gateways.refusals import Refusal
from peermesh.gateways.webhdfs.access import secret_of
from peermesh.gateways.webhdfs.limits import NAME_SIZE_MAX, PATH_DEPTH_MAX, USER_SIZE_MAX
from peermesh.gateways.webhdfs.operations import OPERATIONS, parse
from peermesh.gateways.webhdfs.replies import remote_exception
from peermesh.gateways.webhdfs.requests import URL_PREFIX

TOKEN = "a-token-of-some-length"
OURS = "127.0.0.1:1"


def check(data: bytes) -> None:
    """Read it as a method and an address, as a host, and as a form: it is taken or refused."""
    method, _, target = data.decode("latin-1").partition(" ")
    try:
        request = parse(method, target)
    except Refusal as refusal:
        remote_exception(refusal)
    else:
        for name in (*getattr(request, "path", ()), *getattr(request, "destination", ())):
            assert name not in ("", ".", "..")
            assert len(name.encode()) <= NAME_SIZE_MAX
        assert len(getattr(request, "path", ())) <= PATH_DEPTH_MAX
        assert len(getattr(request, "user", "")) <= USER_SIZE_MAX
    access = Access("127.0.0.1", TOKEN, Protection.PLAIN)
    for attempt in (
        lambda: access.find_token(secret_of(data)),
        lambda: access.find_token(Login(target).token or ""),
    ):
        try:
            principal = attempt()
        except Refusal:
            continue
        assert principal is None or TOKEN.encode() in data
    for headers in ({"host": target}, {"host": OURS, "origin": target}):
        try:
            host = access.host(headers, "http", ())
        except Refusal:
            continue
        assert host == headers["host"]
        assert host.lower().startswith(("127.", "localhost", "[::1]", "[0", "[::", "127"))


def seeds() -> Iterator[bytes]:
    """Give each operation, with what it takes."""
    rest = "user.name=spark&permission=755&overwrite=true&offset=1&length=2&recursive=true"
    for operation in OPERATIONS:
        for method in ("GET", "HEAD", "PUT", "POST", "DELETE"):
            target = f"{URL_PREFIX}/a/b%20c?op={operation}&destination=/d&renameoptions=NONE&{rest}"
            yield f"{method} {target}".encode()
    yield f"client_id=x&client_secret={TOKEN}".encode()
