"""The handles of a log: a keeper's, a follower's and a proxy's, and that of a group's replica."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Unpack

from endpoint import arguments
from endpoint.barriers import Seconds
from endpoint.replicas.attaching import ORDER_SECONDS, READ_SECONDS, topics_of
from endpoint.replicas.handle import GroupHandle, order_seconds
from endpoint.replicas.logs.log_handle import LogHandle
from endpoint.replicas.logs.log_proxy import LogProxyPart
from endpoint.replicas.logs.log_receipts import LogPromotion
from endpoint.replicas.logs.part import LogPart
from endpoint.replicas.options import take_retention
from stores.log.bodies import ChangeRetention
from stores.quota import QuotaLimits
from stores.statistics import LogStatistics
from wire.public import public


@public
class Log(LogHandle):
    """An append-only store of entries, in partitions, each with offsets from zero.

    An append with a receipt is there once, in order for each handle and partition. Readers see
    what is committed: at the keeper all of it, at a follower some earlier state.
    """

    def __init__(
        self, part: LogPart | LogProxyPart, collect: Callable[[Log, Sequence[str]], None]
    ) -> None:
        """Use ``Endpoint.attach_log``, ``attach_log_clone`` or ``attach_log_proxy``."""
        super().__init__(part)
        self.part = part
        self._collect = collect

    def __repr__(self) -> str:
        """Show the log's name, and its role here."""
        role = "keeper" if self.runner.is_master else "follower or proxy"
        return f"<Log {self.name()} {role if self.runner.error is None else 'closed'}>"

    # The role.

    def is_keeper(self) -> bool:
        """Tell whether the log's keeper is here now: promotions change it."""
        return self.runner.is_master

    async def promote(
        self,
        topics: str | Iterable[str] = (),
        *,
        force: bool = False,
        **keep: object,
    ) -> LogPromotion:
        """Make this follower the keeper of its log; the handle stays as it is, and so the file.

        The last keeper is fenced: when it returns it becomes a follower. ``topics``,
        ``keep_seconds``, ``keep_count``, ``keep_bytes``, ``max_entries`` and ``max_bytes`` are
        those of ``attach_log``. Raises ``PromotionRefused`` if the keeper is alive or something of
        it is known to be missing here: with ``force`` that is lost. Raises ``MasterExists`` at a
        keeper, and ``BackendFailure``.
        """
        arguments.refuse_replicas(keep, "log")
        wanted = topics_of(topics)
        promotion = await self.part.promote(keep, is_forced=force)
        self._collect(self, wanted)
        return promotion

    def statistics(self) -> LogStatistics:
        """Count what this handle has; at the keeper, the quota is among it."""
        return self.part.core.statistics()

    def set_quota(self, **limits: Unpack[QuotaLimits]) -> None:
        """Change ``max_entries``, ``max_bytes`` or both, at once; ``None`` sets no limit.

        What is there stays, even if it is more. It holds until the keeper ends: give
        ``attach_log`` the same. Raises ``NoSuchMaster`` where the keeper is not, and
        ``InvalidData``.
        """
        self.runner.set_quota(**limits)


@public
class ReplicaLog(GroupHandle, LogHandle):
    """A replica of a log whose group elects its leader.

    An append's receipt is given once a majority of the voters has it, on the disk where they keep
    it there. Whichever endpoint it is asked at, the leader gives it its offset, and after a change
    of the leader it is there once. Reads and consumers see what is committed and has come here,
    never going back; after ``catch_up`` that is all that was acknowledged before.
    """

    def __init__(self, part: LogPart) -> None:
        """Use ``Endpoint.attach_log_replica``."""
        self.part = part
        GroupHandle.__init__(self, part)
        LogHandle.__init__(self, part)

    def __repr__(self) -> str:
        """Show the log's name, what this replica is, and where its partitions end."""
        runner = self.runner
        ends = self.part.core.machine.partitions.ends()
        state = f"ends={ends}" if runner.error is None else "closed"
        role = "leader" if self.is_leader() else f"leader={self.leader()}"
        return f"<ReplicaLog {runner.name} {role} {state}>"

    async def catch_up(self, timeout: Seconds = READ_SECONDS) -> None:
        """Wait until reads here see all that was acknowledged, anywhere, before this call.

        Without a majority it raises ``NoQuorum`` after ``timeout`` seconds.
        """
        await self.part.await_linear(order_seconds(timeout))

    async def set_retention(
        self,
        timeout: Seconds = ORDER_SECONDS,
        *,
        keep_seconds: float | timedelta | None = None,
        keep_count: int | None = None,
        keep_bytes: int | None = None,
    ) -> None:
        """Have each partition keep so much at least; ``None`` sets no limit.

        It is of the group, now and after restarts, and takes the place of what was said before.
        Entries age while the group has a leader. Raises ``InvalidData``, ``NoQuorum`` and
        ``NotAllowed``.
        """
        retention = take_retention(
            {"keep_seconds": keep_seconds, "keep_count": keep_count, "keep_bytes": keep_bytes}
        )
        await self.part.ask(ChangeRetention(retention), order_seconds(timeout))

    def statistics(self) -> LogStatistics:
        """Count what this replica has."""
        return self.part.core.statistics()
