"""How fast a member is served while strangers fill a port: ``python -m benchmarks.lockout``.

Strangers are a process of their own. They open connections, say nothing, and open another for each
one that is closed. Meanwhile a member with credentials connects again and again. The goal is one
second. The tests in ``tests/net`` use the same processes.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import resource
import select
import socket
import statistics
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Final

import trio

from endpoint import Endpoint
from handshake.credentials import Credentials
from handshake.secret import ClusterSecret
from net.network import Network
from peermesh import Backend
from peermesh.brokers.edge import open_edge_broker
from peermesh.brokers.edge.desk import HERE
from peermesh.brokers.edge.line import Line
from peermesh.brokers.edge.messages import CLIENT_SIZE, Hello, Welcome
from peermesh.brokers.edge.tree import NULL, ROOT, parse_addresses
from peermesh.brokers.qos2 import Ports, open_broker
from peermesh.gateways import serve_webhdfs

TREE: Final = Path(__file__).parent.parent
SECRET: Final = ClusterSecret(bytes(range(20)))
HOST: Final = "127.0.0.1"
HOSTS: Final = [f"127.0.0.{number}" for number in range(1, 10)]
"""Where strangers come from. The first is the address of the members, too."""

STRANGERS: Final = (70, 300, 700, 1_100)
FILES: Final = (256, 1_024)
KINDS: Final = ("mesh", "qos2", "webhdfs", "edge", "registry")
VISITS: Final = 5
"""Of members, one after another, for one figure."""

ATTEMPTS: Final = 2
"""How often a member tries to get in: all clients of ours try again, most of them for ever."""

SECONDS_MAX: Final = 20.0
"""After so long a member has not been served."""

SETTLING_SECONDS: Final = 1.0
"""How long strangers refill before the first member comes."""

CLIENT_ID: Final = b"m" * CLIENT_SIZE

_UNDER_WAY: Final = (0, errno.EINPROGRESS)


# The process that is attacked.


async def serve(kind: str, *, is_plain: bool) -> None:
    """Open a port, and serve until the standard input ends."""
    credentials = None if is_plain else Credentials.from_secret(SECRET)
    async with open_port(kind, credentials) as port:
        print(port, flush=True)
        await trio.to_thread.run_sync(sys.stdin.read)


@asynccontextmanager
async def open_port(kind: str, credentials: Credentials | None) -> AsyncIterator[int]:
    """Open a port of this kind for the block."""
    if kind == "mesh":
        async with Endpoint(secret=None if credentials is None else SECRET) as endpoint:
            yield await endpoint.listen()
    elif kind == "edge":
        async with open_edge_broker(credentials=credentials) as host:
            await host.broker.active()
            addresses = parse_addresses(await host.registry.read(ROOT) or NULL)
            assert addresses is not None
            yield addresses.receiver.port
    elif kind == "registry":
        async with open_edge_broker(credentials=credentials) as host:
            assert host.registry_address is not None
            yield host.registry_address[1]
    elif kind == "qos2":
        ports = Ports(publishers=0, consumers=0, credentials=credentials)
        async with Endpoint() as endpoint, open_broker(endpoint, None, ports) as broker:
            yield broker.publisher_port
    else:
        async with (
            Endpoint() as endpoint,
            endpoint.attach_master("s", Backend.Memory) as store,
            serve_webhdfs(store, credentials=credentials) as gateway,
        ):
            yield gateway.port


# The process that attacks.


def be_strangers(port: int, count: int, said: bytes, hosts: Sequence[str]) -> None:
    """Hold so many connections that say this and no more, until the standard input ends."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    poll, crowd = select.epoll(), dict[int, socket.socket]()
    opened = connected = 0
    poll.register(sys.stdin, select.EPOLLIN | select.EPOLLHUP)
    while True:
        while len(crowd) < count:
            stranger = socket.socket()
            stranger.settimeout(0)
            stranger.bind((hosts[opened % len(hosts)], 0))
            if stranger.connect_ex((HOST, port)) not in _UNDER_WAY:
                stranger.close()
                break
            crowd[stranger.fileno()] = stranger
            poll.register(stranger, select.EPOLLIN | select.EPOLLOUT)
            opened += 1
        for descriptor, events in poll.poll(1.0):
            if descriptor == sys.stdin.fileno():
                return
            if events & ~select.EPOLLOUT:
                poll.unregister(descriptor)
                crowd.pop(descriptor).close()
                continue
            poll.modify(descriptor, select.EPOLLIN)
            if said:
                with contextlib.suppress(OSError):
                    crowd[descriptor].send(said)
            connected += 1
            if connected == count:
                print("all are here", flush=True)


# Members.


async def visit(kind: str, port: int, credentials: Credentials | None) -> None:
    """Connect as a member once, and be served."""
    if kind == "mesh":
        async with Endpoint(secret=None if credentials is None else SECRET) as endpoint:
            reached = await endpoint.peer(HOST, port, retry=0, timeout=SECONDS_MAX)
            if not reached:
                raise ConnectionError(str(reached))
        return
    network = Network(credentials, allow_plain=False)
    if kind in ("edge", "registry"):
        line = Line(await network.connect(HOST, port))
        await _greet(line, HERE if kind == "registry" else "")
        return
    said, answer = (
        (b"GET /webhdfs/v1/?op=LISTSTATUS HTTP/1.1\r\nHost: localhost\r\n\r\n", b"HTTP/1.1 200")
        if kind == "webhdfs"
        else (b"BEGIN a\nx\nEND\nPUBREL\n", b"PUBCOMP")
    )
    stream = await network.open(HOST, port)
    try:
        await stream.send_all(said)
        heard = b""
        while answer not in heard:
            chunk = await stream.receive_some(4096)
            if not chunk:
                raise ConnectionError(f"closed after {heard!r}")
            heard += chunk
    finally:
        await trio.aclose_forcefully(stream)


async def _greet(line: Line, topic: str) -> None:
    welcome = trio.Event()

    def handle(message: object) -> None:
        if isinstance(message, Welcome):
            welcome.set()

    async with trio.open_nursery() as nursery:

        async def serve_line() -> None:
            await line.serve(handle)
            if not welcome.is_set():
                raise ConnectionError(str(line.error))

        nursery.start_soon(serve_line)
        line.tell(Hello(CLIENT_ID, topic))
        await welcome.wait()
        nursery.cancel_scope.cancel()


# Both together.


@contextmanager
def _role(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "benchmarks.lockout", *map(str, arguments)]
    with subprocess.Popen(
        command, cwd=TREE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=2)
            process.kill()


@dataclass(frozen=True, slots=True)
class Siege:
    """What is besieged, and by whom."""

    kind: str
    files: int
    """That the process with the port may open."""
    strangers: int
    is_plain: bool = False
    hosts: Sequence[str] = tuple(HOSTS)
    """Where strangers come from."""
    said: bytes = b""
    """What each of them says."""


def besiege(siege: Siege, seconds_max: float = SECONDS_MAX) -> list[float]:
    """Give the seconds after which a member was served, each time; ``inf`` if it was not."""
    plain = ["--plain"] if siege.is_plain else []
    with _role("serve", siege.kind, "--files", siege.files, *plain) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        with _role("strangers", port, siege.strangers, siege.said.hex(), *siege.hosts) as crowd:
            assert crowd.stdout is not None
            assert crowd.stdout.readline() == "all are here\n"
            credentials = None if siege.is_plain else Credentials.from_secret(SECRET)
            member = partial(visit, siege.kind, port, credentials)
            return trio.run(_visit_often, member, seconds_max)


async def _visit_often(one: Callable[[], Awaitable[None]], seconds_max: float) -> list[float]:
    await trio.sleep(SETTLING_SECONDS)
    found = []
    for _ in range(VISITS):
        began = trio.current_time()
        is_served = False
        with trio.move_on_after(seconds_max):
            for _ in range(ATTEMPTS):
                with contextlib.suppress(Exception):
                    await one()
                    is_served = True
                    break
        found.append(trio.current_time() - began if is_served else float("inf"))
    return found


def _print_all(options: argparse.Namespace) -> None:
    print("port             files  strangers   median s   longest s")
    sieges = product(options.kinds, (False, True), options.files, options.strangers)
    for kind, is_plain, files, count in sieges:
        said = bytes.fromhex(options.said)
        found = besiege(Siege(kind, files, count, is_plain, options.hosts, said))
        name = f"{kind}{', plain' if is_plain else ', TLS'}"
        middle, longest = statistics.median(found), max(found)
        print(f"{name:16} {files:5} {count:10} {middle:10.3f} {longest:11.3f}", flush=True)


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lockout", description=__doc__)
    roles = parser.add_subparsers(dest="role")
    server = roles.add_parser("serve")
    server.add_argument("kind", choices=KINDS)
    server.add_argument("--files", type=int, required=True)
    server.add_argument("--plain", action="store_true")
    crowd = roles.add_parser("strangers")
    crowd.add_argument("port", type=int)
    crowd.add_argument("count", type=int)
    crowd.add_argument("said")
    crowd.add_argument("hosts", nargs="+")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--files", nargs="+", type=int, default=FILES)
    parser.add_argument("--strangers", nargs="+", type=int, default=STRANGERS)
    parser.add_argument("--said", default="", help="bytes that each stranger sends, in hex")
    parser.add_argument("--hosts", nargs="+", default=HOSTS, help="addresses of the strangers")
    options = parser.parse_args()
    if options.role == "serve":
        resource.setrlimit(resource.RLIMIT_NOFILE, (options.files, options.files))
        trio.run(lambda: serve(options.kind, is_plain=options.plain))
    elif options.role == "strangers":
        be_strangers(options.port, options.count, bytes.fromhex(options.said), options.hosts)
    else:
        _print_all(options)


if __name__ == "__main__":
    main()
