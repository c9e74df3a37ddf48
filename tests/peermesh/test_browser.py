"""A real browser, whose page tries all it can at every port of ours, and changes nothing.

The page reaches a port of the test's own with the same bytes, which shows that the browser lets it.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trio

from peermesh import Endpoint
from peermesh.brokers import edge, qos2
from peermesh.brokers.edge import desk, messages
from peermesh.brokers.edge.tree import parse_addresses
from peermesh.brokers.qos2.lines import digest
from peermesh.gateways import WebHDFSGateway, serve_webhdfs
from peermesh.testing.time_limits import limit
from peermesh.testing.webhdfs import WebHDFSClient
from tests.chromium import find_chromium
from tests.peermesh.brokers.qos2.test_foreign import MESSAGE, until_heard
from wire.framing import VERSION_MAX, VERSION_MIN, encode_preamble
from wire.messages import Preamble

pytestmark = pytest.mark.browser

PREAMBLE = encode_preamble(Preamble(VERSION_MIN, VERSION_MAX))
CLIENT = b"\x55" * 16
WRITE = messages.write(messages.Ask(1, "write", "/topics/evil", "null"))
FILES = "/webhdfs/v1"
TAKEOVER = b"LOGIN shop ids\r\nSUBSCRIBE orders\r\nNACK id=orders/1 final evil\r\n"
"""Chromium sends a body of up to a kilobyte together with the headers, before it sees an answer."""

TIMES = 30
"""How often the page posts each body: the browser ends a connection at an answer that is no HTTP,
which may be before a port that obeys comes to the body."""

SEEN = ("fetch", "rebound", "form", "socket", "picture", "script", "frame")
"""Ways by which the page asks. ``rebound``: by its own name, which leads to this machine."""

PAGE = """<!doctype html><title>evil</title><body><script>
const plans = PLANS, own = 'evil.example', tries = [];
const bytes = (text) => Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
const ended = (thing) => new Promise((resolve) => { thing.onload = thing.onerror = resolve; });
function add(kind, fields) {
  const thing = Object.assign(document.createElement(kind), fields);
  document.body.append(thing);
  return thing;
}
for (const {port, path, body} of plans) {
  const at = (host, way) => `http://${host}:${port}${path}${path.includes('?') ? '&' : '?'}${way}`;
  const simple = {method: 'POST', mode: 'no-cors', body: bytes(body)};
  for (let n = 0; n < TIMES; n++)
    tries.push(fetch(at('127.0.0.1', 'fetch'), simple), fetch(at(own, 'rebound'), simple));
  for (const method of ['GET', 'PUT', 'DELETE']) {
    const asked = {method, body: method === 'PUT' ? bytes(body) : null};
    tries.push(fetch(at('127.0.0.1', method), asked), fetch(at(own, method), asked));
  }
  const frame = add('iframe', {name: `frame${tries.length}`});
  const form = add('form', {method: 'POST', enctype: 'text/plain', target: frame.name,
                            action: at('127.0.0.1', 'form')});
  add('textarea', {name: 'x', value: `\\r\\n${atob(body)}`});
  form.append(document.body.lastChild);
  tries.push(ended(frame));
  form.submit();
  const socket = new WebSocket(at('127.0.0.1', 'socket').replace('http', 'ws'));
  tries.push(new Promise((resolve) => { socket.onclose = socket.onopen = resolve; }));
  tries.push(ended(add('img', {src: at('127.0.0.1', 'picture')})));
  tries.push(ended(add('script', {src: at('127.0.0.1', 'script')})));
  add('iframe', {src: at('127.0.0.1', 'frame')});  // A download never ends for its page.
}
Promise.allSettled(tries).then((all) => fetch('/done', {method: 'POST', body: `${all.length}`}));
</script>"""


@dataclass
class Site:
    """An HTTP server of the test's own, which remembers what it was asked.

    As a control it shows that the browser speaks to a port of this machine, and runs its pages.
    """

    awaited: str
    """How the request begins that ``was_asked`` waits for."""
    page: bytes = b""
    """What it answers to every request."""
    asked: list[tuple[str, bytes]] = field(default_factory=list)
    """Head and body of each request."""
    was_asked: trio.Event = field(default_factory=trio.Event)
    port: int = 0

    async def serve(self, task_status: trio.TaskStatus[None]) -> None:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = listener.socket.getsockname()[1]
        task_status.started()
        await trio.serve_listeners(self._answer, [listener])

    async def _answer(self, stream: trio.SocketStream) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            if not (chunk := await stream.receive_some()):
                return
            data += chunk
        head, _, body = data.partition(b"\r\n\r\n")
        lines = [line.lower().partition(b":") for line in head.split(b"\r\n")]
        size = next((int(value) for name, _, value in lines if name == b"content-length"), 0)
        while len(body) < size:
            if not (chunk := await stream.receive_some()):
                return
            body += chunk
        self.asked.append((head.decode(), body))
        if head.decode().startswith(self.awaited):
            self.was_asked.set()
        answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/html\r\n"
        answer += b"Content-Length: %d\r\n\r\n" % len(self.page) + self.page
        try:
            await stream.send_all(answer)
            await stream.aclose()
        except trio.BrokenResourceError:
            pass  # The browser was content with less.


@contextmanager
def browse(url: str, folder: Path) -> Iterator[None]:
    """Have Chromium show a page; the profile is in a folder."""
    options = (
        "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        "--no-first-run", "--no-proxy-server", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", f"--user-data-dir={folder}",
        "--host-resolver-rules=MAP evil.example 127.0.0.1",
        # It would ask the user before a page reaches this machine; older ones do not.
        "--disable-features=LocalNetworkAccessChecks,LocalNetworkAccessChecksWebSockets,"
        "PrivateNetworkAccessRespectPreflightResults,HttpsUpgrades",
    )  # fmt: skip
    chromium = find_chromium()
    assert chromium is not None
    said = (folder / "said").open("wb")
    process = subprocess.Popen(
        [chromium, *options, url], stdout=said, stderr=said, start_new_session=True
    )
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        said.close()


@dataclass
class Ours:
    """One of everything that listens."""

    endpoint: Endpoint
    lines: qos2.QoS2Broker
    host: edge.Host
    registry: edge.RemoteRegistry
    gateway: WebHDFSGateway
    mesh_port: int

    async def plans(self) -> list[tuple[int, str, bytes]]:
        """Say what the page tries where: port, path, body."""
        addresses = parse_addresses(await self.registry.read("/topics") or "null")
        assert addresses is not None
        hello, wave = messages.Hello(CLIENT, ""), messages.Hello(CLIENT, desk.HERE)
        greeting = PREAMBLE + messages.write(hello)
        attach = messages.write(messages.Attach("evil", is_known=False))
        files = self.gateway.port
        return [
            (self.mesh_port, "/", PREAMBLE),
            (self.lines.publisher_port, "/", MESSAGE),
            (self.lines.consumer_port, "/", TAKEOVER),
            (addresses.receiver.port, "/", greeting),
            (addresses.sender.port, "/", greeting + attach),
            (self.host.registry_address[1], "/", PREAMBLE + messages.write(wave) + WRITE),
            (files, f"{FILES}/evil?op=CREATE&data=true", b"evil"),
            (files, f"{FILES}/evil?op=MKDIRS", b""),
            (files, f"{FILES}/page?op=DELETE", b""),
            (files, f"{FILES}/page?op=OPEN&data=true", b""),
            (files, f"{FILES}/code?op=OPEN&data=true", b""),
            (files, "/token", b"client_secret=guess"),
        ]

    async def content(self) -> object:
        """Give all that a page could have changed."""

        def files() -> list[str]:
            with WebHDFSClient(self.gateway.host, self.gateway.port) as client:
                return client.names("/")

        counted = self.lines.statistics()
        return (
            {name: counted[name] for name in ("published", "delivered", "buried", "topics")},
            sorted(await self.registry.children("/topics")),
            [each.topic for each in self.host.broker.statistics().channels],
            await trio.to_thread.run_sync(files),
            self.endpoint.peers(),
        )


@asynccontextmanager
async def ours() -> AsyncIterator[Ours]:
    ports = qos2.Ports("127.0.0.1", 0, 0)
    async with (
        Endpoint() as endpoint,
        endpoint.attach_master("files") as store,
        qos2.open_broker(endpoint, ports=ports) as lines,
        edge.open_edge_broker() as host,
        edge.RemoteRegistry([host.registry_address]) as registry,
        serve_webhdfs(store) as gateway,
    ):
        await host.broker.active()
        yield Ours(endpoint, lines, host, registry, gateway, await endpoint.listen())


def store_scripts(gateway: WebHDFSGateway, script: str) -> None:
    """Store a file that is a page, and one that is a script."""
    with WebHDFSClient(gateway.host, gateway.port) as client:
        client.create("/page", f"<script>{script}</script>".encode(), overwrite=False)
        client.create("/code", script.encode(), overwrite=False)


@asynccontextmanager
async def message_in_flight(lines: qos2.QoS2Broker) -> AsyncIterator[trio.SocketStream]:
    """Give a consumer that is logged in, and has a message that it has not acknowledged."""
    publisher = await trio.open_tcp_stream("127.0.0.1", lines.publisher_port)
    shop = await trio.open_tcp_stream("127.0.0.1", lines.consumer_port)
    async with publisher, shop:
        await publisher.send_all(b"BEGIN orders\ntea\nEND\nPUBREL\n")
        await until_heard(publisher, b"PUBCOMP\n")
        await shop.send_all(b"LOGIN shop\nSUBSCRIBE orders\n")
        await until_heard(shop, b"END\n")
        yield shop


async def test_a_page_that_reaches_this_machine_changes_nothing(tmp_path: Path) -> None:
    with trio.fail_after(limit(120)):
        async with ours() as found, trio.open_nursery() as nursery:
            control, site = Site("GET /here "), Site("POST /done ")
            for each in (control, site):
                await nursery.start(each.serve)
            control.page = b"<script>fetch('/here')</script>"
            ran = f"fetch('http://127.0.0.1:{control.port}/ran', {{mode: 'no-cors'}})"
            await trio.to_thread.run_sync(store_scripts, found.gateway, ran)
            async with message_in_flight(found.lines) as shop:
                before, plans = await found.content(), await found.plans()
                site.page = page([*plans, (control.port, "/", MESSAGE)])
                with found.endpoint.subscribe("") as heard:
                    with browse(f"http://evil.example:{site.port}/", tmp_path):
                        await site.was_asked.wait()
                        await control.was_asked.wait()  # It runs what the last frame is.
                    assert not heard.available()

                check_reached(control)
                assert found.lines.statistics()["cut"] >= 2 * len(SEEN)
                refused = found.gateway.statistics().refusals["AccessControlException"]
                assert refused >= len(SEEN)
                assert await found.content() == before
                await shop.send_all(b"PUBREC %s\n" % digest(b"tea\n").encode())
                assert await until_heard(shop, b"\n") == b"PUBREL\n"
            nursery.cancel_scope.cancel()


def page(plans: list[tuple[int, str, bytes]]) -> bytes:
    """Write the page."""
    listed = [
        {"port": port, "path": path, "body": base64.b64encode(body).decode()}
        for port, path, body in plans
    ]
    return PAGE.replace("PLANS", json.dumps(listed)).replace("TIMES", str(TIMES)).encode()


def check_reached(control: Site) -> None:
    """See that the browser lets the page speak to a port of this machine, in each way."""
    by_way = {way: [body for head, body in control.asked if f"?{way} " in head] for way in SEEN}
    assert all(by_way.values()), by_way
    for way in ("fetch", "rebound"):
        assert MESSAGE in by_way[way]
    assert MESSAGE in by_way["form"][0]
    assert not [head for head, _ in control.asked if head.startswith("GET /ran")]
