"""What handles have whose copy of a store is here: events, and watches."""

from __future__ import annotations

from collections.abc import Iterable

from endpoint.replicas.stores.events import QUEUE_SIZE, Events
from endpoint.replicas.stores.reading import span_of
from endpoint.replicas.stores.watching import (
    DecodedCommits,
    Watch,
    WatchedPart,
    selection_of,
    start_of,
)
from stores.watches import Bookmark
from wire.values import Value


class ObservedStore:
    """A base of handles whose copy of a store is here."""

    def __init__(self, part: WatchedPart) -> None:
        """Follow what is in ``part``."""
        self._watched = part
        self._decoded = DecodedCommits()

    def events(self, *, prefix: Value = None, queue_size: int = QUEUE_SIZE) -> Events:
        """Follow what happens to each key from now on, with old and new value, and who did it.

        It never slows writers down: a reader that is more than ``queue_size`` events behind finds
        ``Missed`` in the place of the oldest.
        """
        return Events(self._watched, span_of(None, None, prefix), queue_size)

    def watch(
        self,
        *,
        prefix: Value = None,
        keys: Iterable[Value] | None = None,
        from_revision: int | None = None,
        after: Bookmark | None = None,
    ) -> Watch:
        """Give what there is, a ``Bookmark``, and then every ``Commit``: see ``stores.watches``.

        With ``from_revision`` it begins with the first commit of at least this revision instead:
        to go on after an interruption, give the last one's plus one; or give the last bookmark as
        ``after``, of this replica or of another one, which tells whether its history is the same.
        A ``Gap`` says that not all of what happened since is known any more; then what there is
        follows.
        """
        selection = selection_of(prefix, keys)
        return Watch(self._watched, selection, start_of(from_revision, after), self._decoded)
