"""What readers of a master see: at a durable one, only what no crash can take back."""

from __future__ import annotations

from stores.commits import GroupCommit
from stores.requests import Requests
from stores.scanning import Page, Span, scan
from stores.table import Columns, Entry, Table


class CommittedReads:
    """The reads of a master: what its handle has gathered is taken in before each."""

    requests: Requests
    _table: Table
    _commits: GroupCommit | None
    position: None = None
    """Entries of a master have no position: its stream is no journal."""

    def get(self, key: bytes) -> bytes | None:
        """Give the encoded value of an encoded key, or ``None`` if the key is missing."""
        if not self.requests.is_sealed:
            self.requests.seal()
        return self._table.get(key) if self._commits is None else self._commits.get(key)

    def entry(self, key: bytes) -> Entry | None:
        """Give the value with its revision and expiry."""
        self.requests.seal()
        return (self._table.columns if self._commits is None else self._commits).entry(key)

    def keys(self) -> list[bytes]:
        """Give all keys, encoded."""
        self.requests.seal()
        return list(self._table.columns if self._commits is None else self._commits.keys())

    def scan(self, span: Span, limit: int) -> Page:
        """Give the first entries of a span in the order of keys; raises ``InvalidData``."""
        self.requests.seal()
        table, commits = self._table, self._commits
        if commits is None:
            return scan(table.index(), table.columns, table.revision, span, limit)
        hidden = commits.hidden_keys()
        return scan(table.index(), commits, commits.revision, span, limit, hidden)

    def prepare_scan(self, count: int) -> int:
        """Put so many keys in order, at most, before a scan; says how many it were."""
        return self._table.catch_up(count)

    def snapshot(self) -> Columns:
        """Copy what readers see."""
        self.requests.seal()
        return self._table.columns.copy() if self._commits is None else self._commits.copy()

    @property
    def revision(self) -> int:
        """How many mutations made what readers see."""
        self.requests.seal()
        return self._table.revision if self._commits is None else self._commits.revision
