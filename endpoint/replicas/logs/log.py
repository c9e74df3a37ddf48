"""The handle of a log that one endpoint keeps, and of its followers and proxies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Unpack

from endpoint import arguments
from endpoint.replicas.attaching import Backend, topics_of
from endpoint.replicas.backends import check_replicas, take_quota
from endpoint.replicas.logs.log_backends import log_quota, take_retention
from endpoint.replicas.logs.log_handle import LogHandle
from endpoint.replicas.logs.log_part import LogPart
from endpoint.replicas.logs.log_promoting import LogPromotion, promote
from endpoint.replicas.logs.log_reading import Source
from stores.quota import QuotaLimits
from stores.statistics import LogStatistics
from wire.errors import InvalidData
from wire.public import public


@public
class Log(LogHandle):
    """An append-only store of entries, in partitions, each with offsets from zero.

    An append with a receipt is there once, in order for each handle and partition. Readers see
    what is committed: at the keeper all of it, at a follower some earlier state.
    """

    def __init__(
        self,
        part: LogPart,
        source: Source,
        close: Callable[[], Awaitable[None]],
        collect: Callable[[Log, Sequence[str]], None],
    ) -> None:
        """Use ``Endpoint.attach_log``, ``attach_log_clone`` or ``attach_log_proxy``."""
        super().__init__(part.runner, source, part.core.requests, close)
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
        replicas: int = 0,
        force: bool = False,
        **keep: object,
    ) -> LogPromotion:
        """Make this follower the keeper of its log; the handle stays as it is, and so the file.

        The last keeper is fenced: when it returns it becomes a follower. ``topics``, ``replicas``,
        ``keep_seconds``, ``keep_count``, ``keep_bytes``, ``max_entries`` and ``max_bytes`` are
        those of ``attach_log``. Raises ``PromotionRefused`` if the keeper is alive or something of
        it is known to be missing here: with ``force`` that is lost. Raises ``MasterExists`` at a
        keeper, and ``BackendFailure``.
        """
        check_replicas(arguments.count("replicas", replicas, least=0))
        wanted = topics_of(topics)
        backend = self.part.backend
        is_on_disk = backend is not None and backend.is_durable
        default = log_quota(Backend.SQLite if is_on_disk else Backend.Memory)
        retention, quota = take_retention(keep), take_quota(keep, default)
        if keep:
            raise InvalidData(f"promote has no option {next(iter(keep))!r}")
        promotion = await promote(self.part, retention, quota, replicas, force=force)
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
