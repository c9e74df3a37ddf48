"""The handle of a log that one endpoint keeps, and of its followers and proxies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, Unpack

from endpoint import arguments
from endpoint.replicas.attaching import topics_of
from endpoint.replicas.logs.log_handle import LogHandle
from endpoint.replicas.logs.log_reading import Source
from endpoint.replicas.runner import Runner
from stores.log.requests import LogRequests
from stores.quota import QuotaLimits
from stores.statistics import LogStatistics
from wire.public import public


@public
@dataclass(frozen=True, slots=True)
class LogPromotion:
    """What came of the promotion of a log's follower."""

    term: int
    """How many promotions the log has seen: keepers of earlier terms are fenced."""
    ends: tuple[int, ...]
    """Each partition goes on from here. What the last keeper appended beyond is lost."""
    silent_seconds: float
    """How long ago the last keeper was heard: what it did since is unknown here."""


class Counted(Protocol):
    """The core of a keeper, a follower or a proxy, as far as its handle needs it."""

    @property
    def requests(self) -> LogRequests:
        """What the handle asks with."""

    def statistics(self) -> LogStatistics:
        """Give a snapshot of counts."""


class LogHere(Protocol):
    """The part of a keeper, a follower or a proxy."""

    @property
    def runner(self) -> Runner:
        """What drives it."""

    @property
    def core(self) -> Counted:
        """What decides."""

    @property
    def source(self) -> Source:
        """Where to read."""


class Promote(Protocol):
    """Has a follower lead."""

    async def __call__(self, options: dict[str, object], *, is_forced: bool) -> LogPromotion:
        """Do it with these of the options of ``attach_log``."""


@public
class Log(LogHandle):
    """An append-only store of entries, in partitions, each with offsets from zero.

    An append with a receipt is there once, in order for each handle and partition. Readers see
    what is committed: at the keeper all of it, at a follower some earlier state.
    """

    def __init__(
        self,
        part: LogHere,
        close: Callable[[], Awaitable[None]],
        promote: Promote,
        collect: Callable[[Log, Sequence[str]], None],
    ) -> None:
        """Use ``Endpoint.attach_log``, ``attach_log_clone`` or ``attach_log_proxy``."""
        super().__init__(part.runner, part.source, part.core.requests, close)
        self.part = part
        self._promote = promote
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
        promotion = await self._promote(keep, is_forced=force)
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
