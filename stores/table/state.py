"""The applied state of a store as a whole: frozen, installed, compared, and made known.

What is staged is not in it. All that decides about later requests is: entries with their expiries,
writers with what they were answered, sessions, the quota.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256

from stores.actions import Action
from stores.digests import Digest, DigestWalk
from stores.history import History
from stores.quota import UNLIMITED, Meter, Quota, QuotaLevel
from stores.table.bodies import Performed, SessionRow
from stores.table.lifetimes import Lifetimes
from stores.table.lineage import Lineage
from stores.table.overlay import Overlay
from stores.table.parts import EntriesPart, Frozen, HeadPart, Part, Thawed, small_parts, thaw
from stores.table.pins import Pins
from stores.table.reads import AppliedReads
from stores.table.table import Table
from stores.table.telling import Telling
from stores.table.writers import Writers
from stores.work import SLICE_COUNT
from wire.errors import DecodeError


class TableState(AppliedReads):
    """What one member has applied, with room for what is staged on it."""

    def __init__(self, name: str = "the store", quota: Quota = UNLIMITED) -> None:
        """Start empty. The ``name`` stands in errors; all members start with one ``quota``."""
        self.meter = Meter(name, quota)
        """The quota that requests are judged by, with changes of it that are staged."""
        self.telling = Telling()
        """Tells of each change before it is applied, for a store's events."""
        self.before: Callable[[Action], None] | None = None
        """Called with each action before it is applied, for a file whose rows follow."""
        self.traffic = 0
        """Bytes of all actions that were applied."""
        self.history = History(0)
        self._thawing: Thawed | None = None
        """The first parts of a snapshot that is under way."""
        self._comparison: tuple[int, DigestWalk] | None = None
        self._first_quota = quota
        self._begin(Table(), Lineage(), Writers(), quota)

    def _begin(
        self,
        table: Table,
        lineage: Lineage,
        writers: Writers,
        quota: Quota,
        sessions: Iterable[SessionRow] = (),
    ) -> None:
        """Take a state in which all is applied, and nothing is staged."""
        self._overlay = Overlay(table)
        self._lineage = lineage
        self._writers = writers
        self._pins = Pins(self._overlay)
        self._lifetimes = Lifetimes(self._overlay, sessions)
        self._quota = quota
        self._staged_quotas = 0
        self._staged_term = lineage.position.term
        self._judged: Performed | None = None
        self.meter.replace(quota)
        self._comparison = None

    def __repr__(self) -> str:
        """Show in one line what matters when something hangs."""
        return (
            f"<TableMachine at {self.position} revision={self.revision}"
            f" entries={len(self)} writers={len(self._writers)} pins={len(self._pins)}>"
        )

    # -- what is used, and what is compared -----------------------------------------------------

    def look_at_quota(self) -> QuotaLevel | None:
        """Give how close the store is to its quota, if that has changed; for a leader's events."""
        columns = self._overlay.committed.columns
        return self.meter.look(len(columns), columns.size)

    def count_expiring(self) -> int:
        """Count the keys that expire."""
        return len(self._overlay.committed.columns.expiries)

    def compare(self, count: int = SLICE_COUNT) -> tuple[int, Digest] | None:
        """Look at some entries of a comparison under way; gives its number, and the end of it."""
        if self._comparison is None:
            return None
        number, walk = self._comparison
        found = walk.step(count)
        if found is None:
            return None
        self._comparison = None
        if self._overlay.committed.walk is walk:
            self._overlay.committed.walk = None
        return number, found

    @property
    def is_comparing(self) -> bool:
        """True while ``compare`` has something to do."""
        return self._comparison is not None

    @property
    def has_steps(self) -> bool:
        """True while ``compare`` has something to do, or ``telling.step``."""
        return self._comparison is not None or self.telling.has_more

    def tick(self) -> None:
        """Let one tick (100 ms) pass: pinned revisions age."""
        self._pins.tick()

    # -- in parts -------------------------------------------------------------------------------

    def freeze(self, after: int = 0) -> Frozen:
        """Give the applied state in parts, nothing left out; they are built when asked for."""
        overlay, lineage = self._overlay, self._lineage
        head = HeadPart(
            overlay.revision, lineage.position, len(overlay), self._quota, tuple(lineage.reigns)
        )
        small = small_parts(self._writers.rows(), self._lifetimes.sessions.rows())
        return Frozen(head, overlay.committed.columns, overlay.past, small)

    def beside_rows(self) -> list[Part]:
        """Give the applied state but for its entries, which a file has as rows."""
        lineage = self._lineage
        reigns = tuple(lineage.reigns)
        head = HeadPart(self.revision, lineage.position, len(self), self._quota, reigns)
        return [head, *small_parts(self._writers.rows(), self._lifetimes.sessions.rows())]

    def prepare(self, number: int, part: object) -> object:
        """Put a snapshot together as its parts come, so that ``install`` has little to do."""
        if isinstance(part, HeadPart):
            self._thawing = Thawed(part) if number == 0 else None
        elif self._thawing is not None and self._thawing.part_count == number:
            try:
                self._thawing.take(part)
            except DecodeError:
                self._thawing = None  # ``install`` says so again.
        if isinstance(part, EntriesPart):
            self.telling.step(2 * len(part.revisions))  # It ends before there is another state.
        return part

    def install(self, parts: Sequence[object]) -> None:
        """Replace the whole state; watches begin anew. Raises ``DecodeError`` for a bad one."""
        begun, self._thawing = self._thawing, None
        thawed = thaw(parts, begun)
        head = thawed.head
        lineage = Lineage(head.position, head.reigns)
        is_hidden = self.telling.has_hidden
        self.telling.hide(self._overlay)
        table = Table(thawed.columns, head.revision)
        self._begin(table, lineage, Writers(thawed.writers), head.quota, thawed.sessions)
        if not is_hidden:
            self.reveal()
        self.history.restart(head.revision)

    # -- another state in the place of one ---------------------------------------------------------

    def restart_history(self) -> None:
        """Have watches begin anew: not all of the latest changes can be told."""
        self.history.restart(self.revision)

    def begin_anew(self) -> None:
        """Drop all. Observers learn what is different once there is a state again: ``reveal``."""
        self.telling.hide(self._overlay)
        self._begin(Table(), Lineage(), Writers(), self._first_quota)
        self.history.restart(0)

    def carry_over(self, before: TableState) -> None:
        """Take on what observers know of the machine that was here before, likewise."""
        self.telling = before.telling
        self.telling.hide(before._overlay)

    def reveal(self) -> None:
        """Tell observers what is different now from what they know of."""
        self.telling.reveal(self._overlay)

    def digest(self) -> bytes:
        """Give a hash of the applied state. It looks at every entry: for tests, not for a loop."""
        overlay = self._overlay
        table = overlay.committed
        walk = DigestWalk(table.columns, overlay.revision, overlay.past)
        while (found := walk.step(SLICE_COUNT)) is None:
            pass
        rows = (*self._writers.rows(), *self._lifetimes.sessions.rows())
        state = (found, self.position, self._quota, self._lineage.reigns, *rows)
        return sha256(repr(state).encode()).digest()
