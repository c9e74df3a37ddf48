"""How commands join the mesh, and find the store or log that they are about."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Literal

import trio

from endpoint.mesh.status import StatusCode
from endpoint.pubsub.stream import StatusSubscriber
from peermesh import Endpoint
from peermesh.cli.addresses import Address
from peermesh.cli.exits import CommandFailed, ExitCode
from peermesh.cli.mesh import Mesh
from peermesh.cli.output import note, say
from peermesh.cli.unled import no_leader
from peermesh.cli.values import on_a_line
from wire.addresses import join_address
from wire.errors import ErrorCode, InsecureAddress, NoQuorum

if TYPE_CHECKING:
    from endpoint.replicas.logs.log import ReplicaLog
    from endpoint.replicas.stores.store import ReplicaStore
    from endpoint.replicas.stores.store_handle import StoreHandle
    from endpoint.replicas.stores.store_proxy import StoreProxy
    from peermesh import Store

TELL_SECONDS: Final = 2.0
"""How often a command says that it still tries."""

RETRY_SECONDS: Final = 1.0
"""The longest pause between two attempts of a command for which a person waits."""

NEWS_SECONDS: Final = 0.5
"""How long a store may be unknown at first: a peer that has just started hears of it by then."""

NEWS_LOOK_SECONDS: Final = 0.05
"""How often to look whether a store is known by now."""

RESOLVE_SECONDS: Final = 2.0
"""How long to look for a host before it counts as there."""

NAMES_SHOWN_MAX: Final = 10
"""Names of stores that an error lists: enough to see one's own mistake."""

_HOPELESS: Final = (
    "connection refused", "network is unreachable", "no route to host",
    "name or service not known", "nodename nor servname", "no address associated",
)  # fmt: skip
"""What the system says of an attempt that the next second will not change. Lower case."""

_HOPELESS_CODES: Final = (
    ErrorCode.NOT_AUTHORIZED, ErrorCode.PEER_INCOMPATIBLE, ErrorCode.WRONG_MAGIC_NUMBER,
    ErrorCode.SELF_PEERING,
)  # fmt: skip


# Peers.


async def join(endpoint: Endpoint, mesh: Mesh) -> None:
    """Listen, and peer with the addresses that were given; raises ``CommandFailed``.

    It ends at once when all of them refuse, unless ``--wait`` says to wait. One peer is enough: of
    the others it is told that they are not there, and they are tried on.
    """
    for address in await listen(endpoint, mesh):
        say(f"listening on {join_address(*address)}", err=True)
    if mesh.peers:
        await _Arrival(endpoint, mesh).complete()


async def _unknown_host(host: str) -> str | None:
    """Say that there is no such host, if so: then its safety is not what matters."""
    with trio.move_on_after(RESOLVE_SECONDS):
        try:
            await trio.socket.getaddrinfo(host, None)
        except (OSError, UnicodeError):
            return f"there is no host {on_a_line(host)}"
    return None


class _Arrival:
    """Waits for peers, as long as there is hope."""

    def __init__(self, endpoint: Endpoint, mesh: Mesh) -> None:
        """Keep what each address answers; none has yet."""
        self._endpoint = endpoint
        self._mesh = mesh
        self._waiting = dict.fromkeys(mesh.peers, "no answer yet")
        self._count = len(self._waiting)
        self._hopeless: set[Address] = set()

    async def complete(self) -> None:
        """Peer with all that can be reached; raises ``CommandFailed`` if there is none."""
        with self._endpoint.subscribe_status() as status, trio.move_on_after(self._mesh.wait):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._hear, status, nursery.cancel_scope)
                nursery.start_soon(_report, lambda: _as_tried(self._pending()))
                async with trio.open_nursery() as attempts:
                    for address in list(self._waiting):
                        attempts.start_soon(self._peer, address, nursery.cancel_scope)
                nursery.cancel_scope.cancel()
        reasons = list(self._waiting.values())
        if len(reasons) < self._count:
            for reason in reasons:
                note(f"{reason}; going on without it")
            return
        hint = None if self._mesh.waits is not None else "--wait SECONDS waits for it"
        is_late = not self._is_hopeless()
        late = f" within {self._mesh.wait:g} s" if is_late else ""
        where = ", ".join(join_address(*address) for address in self._waiting)
        raise CommandFailed(
            f"no peering with {where}{late}: {'; '.join(dict.fromkeys(reasons))}",
            ExitCode.TIMEOUT,
            hint=hint,
            kind="timeout" if is_late else "peer_unavailable",
        )

    def _is_hopeless(self) -> bool:
        return self._mesh.waits is None and self._waiting.keys() <= self._hopeless

    async def _peer(self, address: Address, scope: trio.CancelScope) -> None:
        while not await self._reach(address):
            if self._is_hopeless():
                scope.cancel()
            await trio.sleep(RETRY_SECONDS)
        del self._waiting[address]
        if self._is_hopeless():
            scope.cancel()

    async def _reach(self, address: Address) -> bool:
        """Try to peer; an address whose host does not exist is one that does not answer."""
        try:
            return bool(await self._endpoint.peer(*address, retry=RETRY_SECONDS))
        except InsecureAddress:
            unknown = await _unknown_host(address[0])
            if unknown is None:
                raise
            self._waiting[address] = unknown
            self._hopeless.add(address)
            return False

    async def _hear(self, status: StatusSubscriber, scope: trio.CancelScope) -> None:
        async for event in status:
            address = event.address
            if event.status is StatusCode.PEER_UNAVAILABLE and address in self._waiting:
                assert address is not None
                self._waiting[address] = event.reason
                if is_hopeless(event.code, event.reason):
                    self._hopeless.add(address)
                if self._is_hopeless():
                    scope.cancel()

    def _pending(self) -> Iterator[str]:
        for address, reason in self._waiting.items():
            yield f"{join_address(*address)}: {_in_short(reason)}"


@asynccontextmanager
async def telling(pending: Callable[[], Iterable[str]]) -> AsyncIterator[None]:
    """Write what the block waits for, every ``TELL_SECONDS``."""
    async with reporting(lambda: _as_tried(pending())):
        yield


@asynccontextmanager
async def reporting(lines: Callable[[], Iterable[str]]) -> AsyncIterator[None]:
    """Write how far the block has come, every ``TELL_SECONDS``."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_report, lines)
        yield
        nursery.cancel_scope.cancel()


async def _report(lines: Callable[[], Iterable[str]]) -> None:
    while True:
        await trio.sleep(TELL_SECONDS)
        for line in lines():
            note(line)


def _as_tried(pending: Iterable[str]) -> Iterator[str]:
    for each in pending:
        yield f"still trying {each}; Ctrl-C ends it"


async def stay_joined(
    endpoint: Endpoint, mesh: Mesh, nursery: trio.Nursery, tell: Callable[..., None]
) -> None:
    """Listen, and peer for as long as the nursery is open, however late the others come."""
    stay_peered(endpoint, mesh, nursery, tell, await listen(endpoint, mesh))


async def listen(endpoint: Endpoint, mesh: Mesh) -> list[Address]:
    """Listen wherever ``--listen`` says; gives the addresses, with the ports that came of it."""
    return [(host, await endpoint.listen(host, port)) for host, port in mesh.listen]


def stay_peered(
    endpoint: Endpoint,
    mesh: Mesh,
    nursery: trio.Nursery,
    tell: Callable[..., None],
    listening: list[Address],
) -> None:
    """Tell where the endpoint listens, and peer for as long as the nursery is open."""
    for host, bound in listening:
        text = f"listening on {join_address(host, bound)}"
        tell(text, event="listening", host=host, port=bound)
    if mesh.peers:
        nursery.start_soon(_tell_first_failures, endpoint.subscribe_status(), set(mesh.peers))
        for address in mesh.peers:
            nursery.start_soon(endpoint.peer, *address)


async def _tell_first_failures(status: StatusSubscriber, waiting: set[Address]) -> None:
    with status:
        async for event in status:
            if event.status is StatusCode.PEER_UNAVAILABLE and event.address in waiting:
                waiting.remove(event.address)
                where = join_address(*event.address)
                note(f"still trying {where}: {_in_short(event.reason)}; Ctrl-C ends it")


def is_hopeless(code: ErrorCode | None, reason: str) -> bool:
    """Tell whether the next second will not change why an address cannot be reached."""
    reason = reason.lower()
    return code in _HOPELESS_CODES or any(words in reason for words in _HOPELESS)


def _in_short(reason: str) -> str:
    return next((words for words in _HOPELESS if words in reason.lower()), reason)


# Stores and logs.


@asynccontextmanager
async def open_copy(mesh: Mesh, name: str) -> AsyncIterator[Store | ReplicaStore]:
    """Join the mesh with a clone of a store, or with a replica of a group that has no vote."""
    async with mesh.endpoint() as endpoint:
        yield await join_as_copy(endpoint, mesh, name)


async def join_as_copy(endpoint: Endpoint, mesh: Mesh, name: str) -> Store | ReplicaStore:
    """Join the mesh, and attach a clone of a store, or a replica of its group without a vote."""
    await join(endpoint, mesh)
    await expect_store(endpoint, mesh, name)
    if name in endpoint.known_groups():
        return await _join_group(endpoint, mesh, name)
    store = await endpoint.attach_clone(name)
    await _meet_master(endpoint, store, mesh)
    return store


@asynccontextmanager
async def open_proxy(mesh: Mesh, name: str) -> AsyncIterator[StoreProxy]:
    """Join the mesh with a proxy of a store that has a leader: no copy of all is fetched."""
    async with mesh.endpoint() as endpoint:
        await join(endpoint, mesh)
        await expect_store(endpoint, mesh, name)
        store = await endpoint.attach_proxy(name)
        await _meet_master(endpoint, store, mesh)
        yield store


@asynccontextmanager
async def open_replica(mesh: Mesh, name: str) -> AsyncIterator[ReplicaStore]:
    """Join the mesh with a replica of a group that has no vote; raises ``CommandFailed``."""
    async with mesh.endpoint() as endpoint:
        await join(endpoint, mesh)
        await expect_store(endpoint, mesh, name)
        if name not in endpoint.known_groups():
            raise CommandFailed(
                f"store {on_a_line(name)} has a master, and no group: it has no members",
                hint="peermesh store verify lists its replicas",
                kind="no_such_group",
            )
        yield await _join_group(endpoint, mesh, name)


async def _join_group(endpoint: Endpoint, mesh: Mesh, name: str) -> ReplicaStore:
    store = await endpoint.attach_replica(name)
    async with _patiently(endpoint, mesh, "store", name):
        await store.await_leader(timeout=mesh.wait)
    return store


async def join_log_group(endpoint: Endpoint, mesh: Mesh, name: str) -> ReplicaLog:
    """Attach a replica of a log's group without a vote, which has all that was acknowledged."""
    log = await endpoint.attach_log_replica(name)
    async with _patiently(endpoint, mesh, "log", name):
        await log.await_leader(timeout=mesh.wait)
        await log.catch_up(timeout=mesh.wait)
    return log


@asynccontextmanager
async def _patiently(
    endpoint: Endpoint, mesh: Mesh, kind: Literal["store", "log"], name: str
) -> AsyncIterator[None]:
    """Have the block wait for a leader; raises ``CommandFailed``, which says what is missing.

    The replica of a command knows no voters before a leader tells it: the others have to say it.
    """
    async with telling(lambda: [f"{kind} {on_a_line(name)}: no leader of its group answers"]):
        try:
            yield
        except NoQuorum:
            raise await no_leader(endpoint, kind, name, mesh.wait) from None


async def expect_store(endpoint: Endpoint, mesh: Mesh, name: str) -> None:
    """Wait until a store is known, if ``--wait`` says so; raises ``CommandFailed``."""
    await _expect("store", name, endpoint.known_stores, mesh)


async def expect_log(endpoint: Endpoint, mesh: Mesh, name: str) -> None:
    """Wait until a log is known, if ``--wait`` says so; raises ``CommandFailed``."""
    await _expect("log", name, endpoint.known_logs, mesh)


_MAKERS: Final = {
    "store": '"peermesh node --master NAME" makes one, "peermesh node --replica NAME" a group',
    "log": '"peermesh log keep NAME" makes one, "peermesh log replica NAME" a group',
}
"""What to run where there is no store or log at all."""


async def _expect(what: str, name: str, known: Callable[[], tuple[str, ...]], mesh: Mesh) -> None:
    with trio.move_on_after(NEWS_SECONDS if mesh.waits is None else mesh.waits):
        async with telling(lambda: [f"{what} {on_a_line(name)}: the mesh has none yet"]):
            while name not in known():  # noqa: ASYNC110 - no event tells of a store
                await trio.sleep(NEWS_LOOK_SECONDS)
        return
    names = known()
    shown = ", ".join(map(on_a_line, names[:NAMES_SHOWN_MAX])) or "none"
    more = f" and {len(names) - NAMES_SHOWN_MAX} more" if len(names) > NAMES_SHOWN_MAX else ""
    late = "" if mesh.waits is None else f" within {mesh.waits:g} s"
    raise CommandFailed(
        f"no {what} {on_a_line(name)} here{late}; {what}s: {shown}{more}",
        ExitCode.FAILED if mesh.waits is None else ExitCode.TIMEOUT,
        hint=None if names else _MAKERS[what],
        kind=f"no_such_{what}",
    )


async def _meet_master(endpoint: Endpoint, store: StoreHandle, mesh: Mesh) -> None:
    async with telling(lambda: [f"store {on_a_line(store.name())}: its master is silent"]):
        idle = await store.await_idle(timeout=mesh.wait)
    if not idle and store.name() in endpoint.known_groups():
        raise await no_leader(endpoint, "store", store.name(), mesh.wait)
    if not idle:
        raise CommandFailed(
            f"{idle}: does an endpoint of this mesh have its master?", ExitCode.TIMEOUT
        )
