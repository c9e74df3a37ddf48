"""What a log has where it is led alone, and at its copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from endpoint.replicas.attaching import Backend
from endpoint.replicas.backends import take_quota
from endpoint.replicas.group_logs.part import LogReplicaPart
from endpoint.replicas.group_logs.source import ReplicaSource
from endpoint.replicas.groups.single import SinglePart, SingleTopics
from endpoint.replicas.logs.log import LogPromotion
from endpoint.replicas.logs.log_backends import log_quota, take_retention
from endpoint.replicas.logs.log_proxy import unreachable
from endpoint.replicas.patience import Patience
from stores.group.election import FORCED_TERMS
from stores.log.partitions import Retention
from stores.quota import Quota, QuotaPool
from stores.replica.logs.core import LogCore
from wire.errors import InvalidData, KeeperUnreachable, StoreError
from wire.topics import log_group_topic, log_topics

if TYPE_CHECKING:
    from endpoint.replicas.group_logs.files import LogReplicaFiles


class LogPart(SinglePart[LogCore], LogReplicaPart):
    """The copy of a log that is here, at its keeper or at a follower."""

    def __init__(
        self,
        core: LogCore,
        files: LogReplicaFiles | None,
        make_follower: Callable[[], LogCore],
        patience: Patience,
        *,
        is_master: bool,
    ) -> None:
        """Start in one of the two roles; reads wait for a first state with ``patience``."""
        super().__init__(core, files, make_follower, is_master=is_master)
        self.patience = patience
        self.source = CopySource(self)

    @staticmethod
    def topics_of(name: str) -> SingleTopics:
        """Give the topics of a log of this name."""
        keepers, _, followers = log_topics(name)
        return SingleTopics(log_group_topic(name), keepers, followers)

    @property
    def extent(self) -> str:
        """Say how much is here."""
        return f"{sum(self.core.machine.partitions.ends())} entries"

    def was_carried_out(self) -> None:
        """Note whether there is something to read: a keeper is found before it has come."""
        super().was_carried_out()
        self.runner.is_synced = self.has_begun

    async def await_lead(self, seconds: float) -> None:
        """Wait until the log that is led here has its partitions."""
        await super().await_lead(seconds)
        await self.await_begun(seconds)

    def no_quorum(self, seconds: float) -> StoreError:
        """Make the error of a wait that was in vain."""
        if self.core.bar.text is not None:
            return super().no_quorum(seconds)
        return KeeperUnreachable(f"{self.what}: {unreachable(seconds)}")

    def _ends(self) -> tuple[int, ...]:
        return self.core.machine.partitions.ends()

    async def promote(self, options: dict[str, object], *, is_forced: bool) -> LogPromotion:
        """Have a follower lead; see ``Log.promote``."""
        default = log_quota(Backend.Memory if self.backend is None else Backend.SQLite)
        retention, quota = take_retention(options), take_quota(options, default)
        if options:
            raise InvalidData(f"promote has no option {next(iter(options))!r}")
        ends, silent_seconds = await self.take_over(self._ends, is_forced=is_forced)
        self.keep(retention, quota)
        return LogPromotion(self.core.epoch // FORCED_TERMS, ends, silent_seconds)

    def keep(self, retention: Retention, quota: Quota) -> None:
        """Have the log that is led here keep so much, and hold no more."""
        core = self.core
        if retention != core.machine.retention:
            self.runner.carry_out(core.set_retention(retention))
        if quota != core.meter.quota:
            self.runner.carry_out(core.set_quota(quota))

    def share_quota(self, pool: QuotaPool) -> None:
        """Have the keeper that is here go by the quota of several logs; nothing elsewhere."""
        if self.leader is not None:
            self.runner.carry_out(self.leader.share_quota(pool.join(self.runner.name)))


class CopySource(ReplicaSource):
    """The keeper's log, or a follower's copy, which may be too old to be read."""

    def __init__(self, part: LogPart) -> None:
        """Read what is in ``part``."""
        super().__init__(part)
        self._copy = part

    async def partition_count(self) -> int:
        """Give the number of partitions: a follower waits for its first state."""
        await self._copy.await_begun(self._copy.patience.seconds)
        self._copy.runner.check()
        return await super().partition_count()
