"""What a node holds for a test: subscriptions, stores and receipts, with the endpoint's names."""

from __future__ import annotations

from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar

import trio

from endpoint.mailbox import Message, Missed
from endpoint.outcome import Outcome
from endpoint.status import StatusCode, StatusEvent
from endpoint.store_handle import AWAIT_IDLE_SECONDS
from wire.errors import EndpointClosed, ErrorCode, MeshError
from wire.identifiers import EndpointId
from wire.values import Value

if TYPE_CHECKING:
    from peermesh.testing.node import Node
    from stores.batch import Batch

Item = TypeVar("Item")

GIVE_UP_SECONDS: Final = 5.0
"""How long closing a handle waits for a node that does not answer: it is about to end anyway."""


class NodeDown(MeshError):
    """The node was killed, is paused, or has ended. ``restart`` or ``resume`` it first."""

    code = ErrorCode.SHUTTING_DOWN


class _Handle:
    """Something that a node holds for the test, in its present life."""

    def __init__(self, node: Node, number: int) -> None:
        self.node = node
        self._host = node.host
        self._number = number

    async def _call(self, method: str, *arguments: Any) -> Any:  # noqa: ANN401 - plain values
        if self.node.host is not self._host:
            raise NodeDown(
                f"node {self.node.name} was started anew, and knows nothing of this: ask it again"
            )
        return await self.node.call(method, self._number, *arguments)

    async def _close(self, method: str) -> None:
        is_there = self.node.is_running and self.node.host is self._host
        if is_there:
            with trio.move_on_after(GIVE_UP_SECONDS):
                await self._call(method)


class Subscription(_Handle, Generic[Item]):
    """What a node receives on some topics: ``get``, ``poll``, or ``async for``."""

    def __init__(self, node: Node, number: int) -> None:
        """Made by ``Node.subscribe``."""
        super().__init__(node, number)
        self._ready: deque[Item] = deque()

    async def get(self, timeout: float | None = None) -> Item:
        """Wait for the next one, for ``timeout`` seconds at most; then ``TimeoutError``."""
        while not self._ready:
            await self._call("wait", timeout)
            await self._refill()
        return self._ready.popleft()

    async def poll(self) -> list[Item]:
        """Take all that are there, without waiting for more."""
        await self._refill()
        ready, self._ready = self._ready, deque()
        return list(ready)

    async def _refill(self) -> None:
        # Shielded, since what a poll has taken is nowhere else.
        with trio.CancelScope(shield=True):
            self._ready.extend(map(self._read, await self._call("poll")))

    @staticmethod
    def _read(item: Any) -> Any:  # noqa: ANN401 - values in, messages or events out
        raise NotImplementedError

    async def close(self) -> None:
        """Want nothing any more."""
        await self._close("close_queue")

    def __aiter__(self) -> Self:
        """Iterate until it, or its node, is closed."""
        return self

    async def __anext__(self) -> Item:
        """Wait for the next one."""
        try:
            return await self.get()
        except EndpointClosed:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        """Use it within the block."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""
        await self.close()


class Messages(Subscription[Message]):
    """Messages on topics."""

    async def add_topic(self, topic: str) -> None:
        """Want messages whose topic begins with this, too."""
        await self._call("add_topic", topic)

    async def remove_topic(self, topic: str) -> None:
        """No longer want messages for the sake of this prefix."""
        await self._call("remove_topic", topic)

    @staticmethod
    def _read(item: Any) -> Message:  # noqa: ANN401 - see ``Servant``
        topic, data, is_missed = item
        return (topic, Missed(data) if is_missed else data)


class Events(Subscription[StatusEvent]):
    """Status events."""

    @staticmethod
    def _read(item: Any) -> StatusEvent:  # noqa: ANN401 - see ``Servant``
        status, endpoint, address, code, reason = item
        return StatusEvent(
            StatusCode(status),
            None if endpoint is None else EndpointId(endpoint),
            None if address is None else (address[0], address[1]),
            ErrorCode(code),
            reason,
        )


class RemoteReceipt(_Handle):
    """One mutation on its way."""

    async def applied(self) -> int:
        """Wait until the master has applied it; gives the revision, or raises the error."""
        return int(await self._call("applied"))


class StoreHandle(_Handle):
    """A store at a node, with the operations of ``peermesh.Store``."""

    def __init__(self, node: Node, name: str, number: int, *, is_master: bool) -> None:
        """Made by ``Node.attach_master`` and ``Node.attach_clone``."""
        super().__init__(node, number)
        self._name = name
        self.is_master = is_master
        node.stores[self] = None

    def name(self) -> str:
        """Give the store's name."""
        return self._name

    # Reads.

    async def get(self, key: Value, default: Value = None) -> Value:
        """Give the value of a key, or ``default``."""
        value: Value = await self._do("get", key, default)
        return value

    async def exists(self, key: Value) -> bool:
        """Tell whether a key is there."""
        return bool(await self._do("exists", key))

    async def keys(self) -> list[Value]:
        """Give all keys, in no order."""
        return list(await self._do("keys"))

    async def items(self) -> list[tuple[Value, Value]]:
        """Give all keys with their values, as of one moment."""
        return list(await self._do("items"))

    # Mutations.

    async def put(self, key: Value, value: Value, expiry: float | None = None) -> RemoteReceipt:
        """Set a key."""
        return await self._ask("put", key, value, expiry=expiry)

    async def put_unique(self, key: Value, value: Value, expiry: float | None = None) -> bool:
        """Set a key if it is missing; tell whether it was."""
        return bool(await self._do("put_unique", key, value, expiry=expiry))

    async def erase(self, key: Value) -> RemoteReceipt:
        """Remove a key, present or not."""
        return await self._ask("erase", key)

    async def clear(self) -> RemoteReceipt:
        """Remove everything."""
        return await self._ask("clear")

    async def increment(
        self, key: Value, amount: Value = 1, expiry: float | None = None
    ) -> RemoteReceipt:
        """Add to a number or an instant."""
        return await self._ask("increment", key, amount, expiry=expiry)

    async def decrement(
        self, key: Value, amount: Value = 1, expiry: float | None = None
    ) -> RemoteReceipt:
        """Take away from a number or an instant."""
        return await self._ask("decrement", key, amount, expiry=expiry)

    async def append(self, key: Value, text: Value, expiry: float | None = None) -> RemoteReceipt:
        """Append to a string."""
        return await self._ask("append", key, text, expiry=expiry)

    async def insert_into(
        self, key: Value, index: Value, *value: Value, expiry: float | None = None
    ) -> RemoteReceipt:
        """Insert an element into a set; or with a value, an entry into a table."""
        return await self._ask("insert_into", key, index, *value, expiry=expiry)

    async def remove_from(
        self, key: Value, index: Value, expiry: float | None = None
    ) -> RemoteReceipt:
        """Remove an element from a set, or an entry from a table."""
        return await self._ask("remove_from", key, index, expiry=expiry)

    async def push(self, key: Value, value: Value, expiry: float | None = None) -> RemoteReceipt:
        """Append an element to a vector."""
        return await self._ask("push", key, value, expiry=expiry)

    async def pop(self, key: Value, expiry: float | None = None) -> RemoteReceipt:
        """Remove the last element of a vector."""
        return await self._ask("pop", key, expiry=expiry)

    async def batch(self, batch: Batch) -> RemoteReceipt:
        """Do all of a batch as one mutation, if its guards hold."""
        from peermesh.testing.agent.servant import batch_to_value

        return RemoteReceipt(self.node, await self._call("batch", *batch_to_value(batch)))

    async def _do(self, operation: str, *arguments: Value, expiry: float | None = None) -> Any:  # noqa: ANN401 - what the operation gives
        return await self._call("store", operation, arguments, expiry)

    async def _ask(
        self, operation: str, *arguments: Value, expiry: float | None = None
    ) -> RemoteReceipt:
        return RemoteReceipt(self.node, await self._do(operation, *arguments, expiry=expiry))

    # Barriers.

    async def await_idle(self, timeout: float = AWAIT_IDLE_SECONDS) -> Outcome:
        """Wait until the store is idle; false after ``timeout`` seconds, with the reason."""
        return Outcome(*await self._call("await_idle", timeout))

    async def close(self) -> None:
        """Let go of the store."""
        self.node.stores.pop(self, None)
        await self._close("close_store")

    async def __aenter__(self) -> Self:
        """Use it within the block."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""
        await self.close()
