"""Who leads, who there is, and who votes, of replicas of groups: for threads."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from endpoint.barriers import Seconds
from endpoint.replicas.attaching import LEADER_SECONDS, ORDER_SECONDS
from peermesh.blocking.living import Passage

if TYPE_CHECKING:
    from endpoint.replicas.groups.membership import GroupHandle as Core, GroupMember


class GroupHandle:
    """A replica whose group elects its leader, as far as the group is looked at, and steered."""

    def __init__(self, passage: Passage, core: Core) -> None:
        """Ask the handle in the loop's thread."""
        self._passage = passage
        self._group = core

    def leader(self) -> str | None:
        """Give the name of the leader; ``None`` if none is known."""
        return self._passage.call_sync(self._group.leader)

    def is_leader(self) -> bool:
        """Tell whether this replica leads, and serves."""
        return self._passage.call_sync(self._group.is_leader)

    def await_leader(self, timeout: Seconds = LEADER_SECONDS) -> str:
        """Wait until a leader serves this replica; see ``peermesh.ReplicaStore.await_leader``."""
        return self._passage.call(self._group.await_leader, timeout)

    def members(self) -> list[GroupMember]:
        """Give all members; see ``peermesh.ReplicaStore.members``."""
        return self._passage.call(self._group.members)

    def add_voter(self, name: str, timeout: Seconds = ORDER_SECONDS) -> None:
        """Give a replica a vote; see ``peermesh.ReplicaStore.add_voter``."""
        self._passage.call(self._group.add_voter, name, timeout)

    def remove_voter(self, name: str, timeout: Seconds = ORDER_SECONDS) -> None:
        """Take the vote of a replica; see ``peermesh.ReplicaStore.remove_voter``."""
        self._passage.call(self._group.remove_voter, name, timeout)

    def transfer(self, name: str, timeout: Seconds = ORDER_SECONDS) -> None:
        """Have another voter lead; see ``peermesh.ReplicaStore.transfer``."""
        self._passage.call(self._group.transfer, name, timeout)

    def promote(self, *, force: bool = False, timeout: Seconds = ORDER_SECONDS) -> None:
        """Have this replica lead; see ``peermesh.ReplicaStore.promote``."""
        self._passage.call(partial(self._group.promote, force=force, timeout=timeout))
