"""What of a table ends by time: keys that expire, and sessions with their keys. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stores.actions import Action, BatchResultCommand, ExpireCommand, PutCommand
from stores.expiry import ExpiryQueue
from stores.judgement import bound_keys
from stores.lives import Objections, session_of
from stores.table.bodies import SessionRow, SessionsEnded
from stores.table.overlay import Overlay
from stores.table.sessions import Sessions
from stores.work import SLICE_COUNT


class Lifetimes:
    """The appointments of one member's table."""

    def __init__(self, overlay: Overlay, sessions: Iterable[SessionRow] = ()) -> None:
        """Start with what the table has, and with the sessions of a snapshot."""
        expiries = overlay.committed.columns.expiries
        self.sessions = Sessions(sessions, expiries)
        self._overlay = overlay
        self._expiries = ExpiryQueue(expiries)

    def __bool__(self) -> bool:
        """Tell whether anything ends by time."""
        return bool(self._overlay.committed.columns.expiries or len(self.sessions))

    def due(self, elapsed_ns: int) -> ExpireCommand | SessionsEnded | None:
        """End what is over by the group's elapsed time, a slice at a time."""
        overlay = self._overlay
        ended = self.sessions.due(elapsed_ns)
        if not ended and not self._expiries.is_due(elapsed_ns):
            return None
        expiries = overlay.latest().columns.expiries
        # After a staged clear nothing could be told of what comes back if that is undone.
        if overlay.has_clear:
            return None
        if ended:
            return self.sessions.end(ended, overlay)
        keys = self._expiries.take_due(elapsed_ns, expiries, SLICE_COUNT)
        return ExpireCommand(keys) if keys else None

    def object_to(self, session: int, keys: Sequence[bytes]) -> Objections:
        """Say for each of some keys why it cannot live with a session; nothing if all can."""
        return self.sessions.object_to(session, keys, self._overlay)

    def tie(self, actions: Iterable[Action]) -> None:
        """Note which keys live with sessions, once their puts are judged or staged."""
        for action in actions:
            if isinstance(action, PutCommand):
                if action.expiry_ns is None:
                    continue
            elif not isinstance(action, BatchResultCommand):
                continue
            self.sessions.tie(bound_keys(action), self._overlay)

    def note(self, action: Action) -> None:
        """Note when what was put expires, or with what it ends."""
        if isinstance(action, PutCommand):
            if (expires_at_ns := action.expiry_ns) is not None:
                self._appoint(action.pairs[::2], expires_at_ns)
        elif isinstance(action, BatchResultCommand):
            for change in action.changes:
                if change.value is not None and change.expiry_ns is not None:
                    self._appoint((change.key,), change.expiry_ns)

    def undo(self, keys: Iterable[bytes]) -> None:
        """Take in that all that was staged is undone, and that these keys are as they were."""
        expiries = self._overlay.committed.columns.expiries
        for key in keys:
            if (expires_at_ns := expiries.get(key)) is not None:
                self._appoint((key,), expires_at_ns)
        self.sessions.undo()

    def _appoint(self, keys: Sequence[bytes], life: int) -> None:
        session = session_of(life)
        if session is not None:
            self.sessions.tie({session: keys}, self._overlay)
            return
        expiries = self._overlay.committed.columns.expiries
        for key in keys:
            self._expiries.add(key, life, expiries)
