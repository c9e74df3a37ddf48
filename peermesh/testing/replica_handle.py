"""A replica of a group that a node has attached for a test, with the names of ``ReplicaStore``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from endpoint.replicas.attaching import LEADER_SECONDS
from endpoint.replicas.handle import GroupMember
from peermesh.testing.agent import plain
from peermesh.testing.calls import StoreHandle
from peermesh.testing.handles import Handle
from peermesh.testing.time_limits import limit
from wire.values import Value

if TYPE_CHECKING:
    from peermesh.testing.node import Node


class RemoteReader(Handle):
    """Reads of one consistency."""

    def __init__(self, node: Node, number: int, consistency: str) -> None:
        """Made by ``ReplicaHandle.read``."""
        super().__init__(node, number)
        self._consistency = consistency

    async def get(self, key: Value, default: Value = None) -> Value:
        """Give the value of a key, or ``default``."""
        value: Value = await self._read("get", key, default)
        return value

    async def exists(self, key: Value) -> bool:
        """Tell whether a key is there."""
        return bool(await self._read("exists", key))

    async def keys(self) -> list[Value]:
        """Give all keys, in no order."""
        return list(await self._read("keys"))

    async def items(self) -> list[tuple[Value, Value]]:
        """Give all keys with their values, as of one moment."""
        return list(await self._read("items"))

    async def _read(self, operation: str, *arguments: Value) -> Any:  # noqa: ANN401 - what the operation gives
        return await self._call("read", self._consistency, operation, arguments)


class ReplicaHandle(StoreHandle):
    """A replica at a node: the operations of a store, and who leads its group."""

    def __init__(self, node: Node, name: str, number: int) -> None:
        """Made by ``Node.attach_replica``."""
        super().__init__(node, name, number, is_master=False)

    def read(self, consistency: str = "linear") -> RemoteReader:
        """Read as consistently; see ``ReplicaStore.read``."""
        return RemoteReader(self.node, self._number, consistency)

    async def leader(self) -> str | None:
        """Give the name of the leader, as far as this replica knows; ``None`` if it knows none."""
        name: str | None = await self._call("leader")
        return name

    async def await_leader(self, timeout: float | None = None) -> str:
        """Wait until a leader serves this replica, and give its name; raises ``NoQuorum``.

        Without a ``timeout`` it is that of a store, or longer while the machine is slow.
        """
        timeout = limit(LEADER_SECONDS) if timeout is None else timeout
        return str(await self._call("await_leader", timeout))

    async def members(self) -> list[GroupMember]:
        """Give all members, as the leader knows them; elsewhere the voters, by name alone."""
        return [plain.member_from_value(each) for each in await self._call("members")]
