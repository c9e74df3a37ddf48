"""The registry on ZooKeeper, through kazoo; only this module imports it (extra ``zookeeper``)."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import trio

from endpoint import arguments
from endpoint.shielding import shielded
from peermesh.brokers.edge.errors import RegistryError
from peermesh.brokers.edge.opened import Opened
from peermesh.brokers.edge.registry import Registry
from peermesh.brokers.edge.tree import (
    BROKER,
    NULL,
    ROOT,
    parents,
    receiver_path,
    sender_path,
    topic_of,
)
from wire.logs import logger_of

try:
    from kazoo.client import KazooClient, KazooState
    from kazoo.exceptions import (
        ConnectionClosedError,
        ConnectionLoss,
        KazooException,
        NodeExistsError,
        NoNodeError,
        NotEmptyError,
        OperationTimeoutError,
        SessionExpiredError,
    )
except ImportError as error:
    raise ImportError("ZooKeeper needs kazoo: pip install 'peermesh[zookeeper]'") from error

logger = logger_of("peermesh.brokers.edge")

SESSION_SECONDS: Final = 6.0
"""How long ZooKeeper keeps the ephemeral nodes of somebody it does not hear."""

AGAIN_SECONDS: Final = 0.1
"""The pause before a request that a lost connection has cut off is made again."""

END_SECONDS: Final = 5.0
"""How long the end waits for kazoo's threads."""

CLEARED_AT_ONCE: Final = 128
"""Nodes in a transaction: with the longest topics, quoted, half of what ZooKeeper reads at once."""

_LOST: Final = (
    ConnectionClosedError,
    ConnectionLoss,
    OperationTimeoutError,
    SessionExpiredError,
)


@contextmanager
def _refusals() -> Iterator[None]:
    """Raise ``RegistryError`` for what ZooKeeper refuses."""
    try:
        yield
    except KazooException as error:
        raise RegistryError(f"ZooKeeper refused: {error!r}") from error


class _Quiet(logging.LoggerAdapter[logging.Logger]):
    """Lets kazoo log for those who debug: a connection that is lost heals, and is no warning."""

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:  # noqa: ANN401 - as logging has it
        super().log(logging.DEBUG, msg, *args, **kwargs)


class ZooKeeperRegistry(Opened, Registry):
    """A tree in ZooKeeper: ``async with ZooKeeperRegistry("host:2181,host:2181") as registry``.

    ``hosts`` is what kazoo takes; a path after it is the root, which has to exist. Everything else
    (``use_ssl``, ``auth_data``, ...) goes to ``KazooClient``.
    """

    def __init__(
        self, hosts: str, *, session_seconds: float = SESSION_SECONDS, **options: object
    ) -> None:
        """Set up, doing nothing yet; raises ``RegistryError`` for hosts that are none."""
        super().__init__()
        arguments.text("hosts", hosts)
        session_seconds = arguments.seconds("session_seconds", session_seconds)
        forever = {"max_tries": -1, "delay": AGAIN_SECONDS, "backoff": 2, "max_delay": 1.0}
        try:
            self._client: Any = KazooClient(
                hosts,
                timeout=session_seconds,
                connection_retry=forever,
                logger=_Quiet(logger_of("peermesh.brokers.edge.zookeeper"), {}),
                **options,
            )
        except ValueError as error:
            text = f"{hosts!r} is no place of ZooKeeper ({error}): write HOST:PORT[,HOST:PORT]"
            raise RegistryError(text) from error
        self._hosts = hosts
        self._was_lost = False
        self._token: trio.lowlevel.TrioToken | None = None
        self._restoring: trio.MemorySendChannel[None] | None = None

    @property
    def last_error(self) -> str | None:
        """Say that ZooKeeper cannot be reached; ``None`` while it can."""
        return None if self._client.connected else f"ZooKeeper at {self._hosts} does not answer"

    async def _live(self) -> AsyncIterator[None]:
        """Begin to connect. End the session; our ephemeral nodes go with it."""
        self._token = trio.lowlevel.current_trio_token()
        self._restoring, restore = trio.open_memory_channel[None](1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._restore_forever, restore)
            self._client.add_listener(self._on_state)
            self._client.start_async()
            try:
                yield
            finally:
                nursery.cancel_scope.cancel()
                with shielded("ZooKeeper to end the session", END_SECONDS):
                    await trio.to_thread.run_sync(self._end, abandon_on_cancel=True)

    def _end(self) -> None:
        self._client.remove_listener(self._on_state)
        self._client.stop()
        self._client.close()

    # What kazoo's threads tell us.

    def _on_state(self, state: str) -> None:
        self._soon(self._heed_state, state)

    def _on_event(self, event: Any) -> None:  # noqa: ANN401 - kazoo has no types
        self._soon(self._watchers.push, event.path)

    def _soon(self, function: Callable[..., object], *arguments: object) -> None:
        assert self._token is not None
        try:
            self._token.run_sync_soon(function, *arguments)
        except trio.RunFinishedError:
            logger.debug("ZooKeeper had something to say after the end")

    def _heed_state(self, state: str) -> None:
        if state == KazooState.LOST:
            self._was_lost = True
        elif state == KazooState.CONNECTED:
            assert self._restoring is not None
            try:
                self._restoring.send_nowait(None)
            except trio.WouldBlock:
                logger.debug("the session is being restored already")

    async def _restore_forever(self, restore: trio.MemoryReceiveChannel[None]) -> None:
        """After each connection: write what a lost session took, and look at everything again."""
        async for _ in restore:
            if self._was_lost:
                self._was_lost = False
                await self.register_again()
            self._watchers.push_all()

    # Requests.

    async def _call(
        self,
        method: Callable[..., Any],
        *arguments: object,
        **options: object,
    ) -> Any:  # noqa: ANN401 - kazoo has no types
        """Make a request until it is answered; raises what ZooKeeper answers."""
        while True:
            try:
                return await self._call_once(method, *arguments, **options)
            except _LOST as error:
                logger.debug("ZooKeeper is asked again: %r", error)
                await trio.sleep(AGAIN_SECONDS)

    async def _call_once(
        self, method: Callable[..., Any], *arguments: object, **options: object
    ) -> Any:  # noqa: ANN401 - kazoo has no types
        done = trio.Event()
        result = method(*arguments, **options)
        result.rawlink(lambda _: self._soon(done.set))
        await done.wait()
        return result.get_nowait()

    async def _do(self, operation: str, path: str, data: str) -> str:
        with _refusals():
            match operation:
                case "read":
                    return await self._read(path)
                case "children":
                    return "\n".join(await self._names(path))
                case "write":
                    await self._write(path, data)
                case "remove" | "unregister":
                    await self._remove(path)
                case "register":
                    await self._register(path, data)
                case "claim":
                    is_ours = await self._create(path, data, ephemeral=True)
                    return "=" if is_ours or await self._read(path) == f"={data}" else ""
                case other:
                    raise RegistryError(f"ZooKeeper does not know how to {other!r}")
        return ""

    async def _read(self, path: str) -> str:
        watch = self._on_event if path in self._watchers else None
        while True:
            try:
                data, _ = await self._call(self._client.get_async, path, watch=watch)
            except NoNodeError:
                # The watch on what is not there yet needs another request.
                if watch is None:
                    return ""
                if await self._call(self._client.exists_async, path, watch=watch) is None:
                    return ""
            else:
                return "=" + bytes(data).decode(errors="replace")

    async def _names(self, path: str) -> list[str]:
        try:
            return sorted(await self._call(self._client.get_children_async, path))
        except NoNodeError:
            return []

    async def _write(self, path: str, data: str) -> None:
        for above in parents(path):
            await self._create(above, NULL)
        if not await self._create(path, data):
            await self._call(self._client.set_async, path, data.encode())

    async def _create(self, path: str, data: str, *, ephemeral: bool = False) -> bool:
        try:
            await self._call(self._client.create_async, path, data.encode(), ephemeral=ephemeral)
        except NodeExistsError:
            return False
        return True

    async def _remove(self, path: str) -> None:
        while True:
            for name in await self._names(path):
                await self._remove(f"{path}/{name}")
            try:
                await self._call(self._client.delete_async, path)
            except NotEmptyError:  # Somebody was faster: once more.
                continue
            except NoNodeError:
                pass
            return

    async def _register(self, path: str, data: str) -> None:
        try:
            if not await self._create(path, data, ephemeral=True):
                await self._remove(path)  # An older session's, which would go soon.
                await self._create(path, data, ephemeral=True)
        except NoNodeError:
            logger.debug("%s is not registered: what it belonged to is gone", path)

    async def clear(self) -> None:
        """Null the addresses that a dead broker has left, unless another one serves.

        ``/topics`` is never removed, and a reign changes it before anything else. So its version
        guards all addresses: what a broker wrote that came meanwhile stays.
        """
        with _refusals():
            guards = await self._left([ROOT])
            if not guards or await self.read(BROKER) is not None:
                return
            topics = [topic_of(name) for name in await self.children(ROOT)]
            paths = (of(topic) for topic in topics for of in (receiver_path, sender_path))
            addresses = await self._left(paths)
            for start in range(0, len(addresses), CLEARED_AT_ONCE):
                if not await self._null(guards[0], addresses[start : start + CLEARED_AT_ONCE]):
                    return
            await self._null(guards[0], guards)

    async def _left(self, paths: Iterable[str]) -> list[tuple[str, int]]:
        """Give those of some nodes that hold anything, with their versions."""
        found: list[tuple[str, int]] = []
        for path in paths:
            with suppress(NoNodeError):
                data, node = await self._call(self._client.get_async, path)
                if data != NULL.encode():
                    found.append((path, node.version))
        return found

    async def _null(self, guard: tuple[str, int], nodes: list[tuple[str, int]]) -> bool:
        """Null some nodes, or none if one of them, or the guard, has changed."""

        def commit() -> Any:  # noqa: ANN401 - kazoo has no types
            transaction = self._client.transaction()
            transaction.check(*guard)
            for path, version in nodes:
                transaction.set_data(path, NULL.encode(), version)
            return transaction.commit_async()

        results = await self._call(commit)
        return not any(isinstance(result, Exception) for result in results)
