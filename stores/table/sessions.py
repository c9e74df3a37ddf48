"""The sessions of a table: how long each lives without a word, and which keys end with it. Pure.

Which sessions there are is applied state, the same at every member. How long each has left, only
the leader knows: a renewal is no journal entry, and each new leader gives all their full time. So
a session ends late, and never early. A leader that is deposed ends nothing any more, and what it
says of a renewal is held back until a majority has confirmed that it leads.

A session's number is drawn, by all members alike, from what its holder drew and where its entry is.
Two histories of one store, after a lead that was taken by force, have entries of the same indexes,
and no number in common. So whatever the holder of a lost session asks for finds no session: a
renewal, an end, a put in it; and no guard of its locks holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Final

from stores.actions import ExpireCommand
from stores.group.machine import Answer, Append, Judgement, Staged
from stores.limits import EXPIRY_END_NS
from stores.lives import Objections, life_of, session_of
from stores.table.bodies import (
    EndSession,
    OpenSession,
    RenewSession,
    SessionGranted,
    SessionHeard,
    SessionOpened,
    SessionRequest,
    SessionRow,
    SessionsEnded,
)
from stores.table.overlay import Overlay
from stores.work import SLICE_COUNT
from wire.errors import DecodeError, QuotaExceeded, SessionExpired, StoreError
from wire.limits import KIB

SECOND_NS: Final = 1_000_000_000

SESSIONS_MAX: Final = 4_096
"""Sessions of a group: the leader looks at each in every tick, in half a millisecond for all, and
all of them fit in one part of a snapshot."""

SESSION_KEYS_MAX: Final = 1_000
"""Keys of a session: they go in one step, which others wait for."""

SESSION_KEYS_SIZE_MAX: Final = 256 * KIB
"""Bytes of a session's keys: the entry that ends it names them all, and travels in one piece."""

TTL_NS_MIN: Final = 2 * SECOND_NS
"""The shortest time to live: an election takes as long, and a renewal waits for it."""

TTL_NS_MAX: Final = 3_600 * SECOND_NS
"""The longest time to live, an hour: for so long what was left behind stands in the way."""

GRACE: Final = 8
"""The group ends a session this part of its time later than it has to: the holder's clock may be
slower than the leader's by that."""

DRAWN_NUMBERS: Final = 1 << 55
"""As many numbers are drawn from, and they begin there: below are those of earlier builds."""


def number_of(nonce: bytes, index: int) -> int:
    """Draw a session's number from its holder's nonce, and from the index of its entry.

    One nonce has another session after the end of the last one, and so another number.
    """
    drawn = sha256(nonce + index.to_bytes(8)).digest()
    return DRAWN_NUMBERS + int.from_bytes(drawn[:8]) % DRAWN_NUMBERS


def _no_room(session: int, count: int) -> QuotaExceeded:
    return QuotaExceeded(
        f"session {session} has {count} keys: a session has up to"
        f" {SESSION_KEYS_MAX} keys, of {SESSION_KEYS_SIZE_MAX} bytes together"
    )


class Sessions:
    """The sessions of one member, and what is staged of them."""

    def __init__(self, rows: Iterable[SessionRow], lives: Mapping[bytes, int]) -> None:
        """Start with those of a snapshot, and the lives of its keys."""
        self._rows = {row.session: row for row in rows}
        self._numbers = {row.nonce: row.session for row in self._rows.values()}
        self._keys: dict[int, dict[bytes, None]] = {}
        """Keys by session: outdated ones among them, and none missing."""
        self._deadlines: dict[int, int] = {}
        """By the elapsed time. A session without one has its full time from the next tick on."""
        self._opening: dict[bytes, int] = {}
        self._ending: dict[int, int] = {}
        """Indexes of entries that are not applied, by nonce and by session."""
        if lives and max(lives.values()) >= EXPIRY_END_NS:
            for key, life in lives.items():
                if (session := session_of(life)) is not None:
                    self._keys.setdefault(session, {})[key] = None

    def __len__(self) -> int:
        """Count the sessions."""
        return len(self._rows)

    def rows(self) -> Iterator[SessionRow]:
        """Give all sessions, the oldest first."""
        return iter(self._rows.values())

    # -- judgement, at the leader ----------------------------------------------------------------

    def judge(self, request: SessionRequest, overlay: Overlay) -> Judgement:
        """Decide what a request about a session comes to; raises ``DecodeError``."""
        match request:
            case OpenSession():
                return self._judge_opening(request)
            case RenewSession(session):
                if not self._is_alive(session):
                    return Answer(SessionHeard(is_alive=False))
                # Not from the last tick on, as the leader may have paused since.
                self._deadlines.pop(session, None)
                return Answer(SessionHeard(is_alive=True))
            case EndSession(session):
                if (index := self._ending.get(session)) is not None:
                    return Staged(index)
                if session not in self._rows:
                    return Answer(SessionHeard(is_alive=False))
                return Append(self.end([session], overlay))

    def object_to(self, session: int, keys: Sequence[bytes], overlay: Overlay) -> Objections:
        """Say for each of some keys why it cannot live with a session; nothing if all can."""
        if not self._is_alive(session):
            ended = SessionExpired(f"session {session} has ended: what it had is gone")
            return [ended] * len(keys)
        if self._has_room(session, keys):
            return ()
        self._prune(session, overlay)
        had = set(self._keys.get(session, ()))
        size = sum(map(len, had))
        objections: list[StoreError | None] = []
        for key in keys:
            added = 0 if key in had else len(key)
            if added and (len(had) >= SESSION_KEYS_MAX or size + added > SESSION_KEYS_SIZE_MAX):
                objections.append(_no_room(session, len(had)))
                continue
            had.add(key)
            size += added
            objections.append(None)
        return objections

    def due(self, elapsed_ns: int) -> list[int]:
        """Give those whose time is over; the time of the others begins no earlier than now."""
        ended: list[int] = []
        for session, row in self._rows.items():
            deadline_ns = self._deadlines.get(session)
            if deadline_ns is None:
                self._deadlines[session] = elapsed_ns + row.ttl_ns + row.ttl_ns // GRACE
            elif deadline_ns <= elapsed_ns and session not in self._ending:
                ended.append(session)
        return ended

    def end(self, sessions: Sequence[int], overlay: Overlay) -> SessionsEnded:
        """Make the entry that ends sessions, the first of them at least, with their keys."""
        lives = overlay.latest().columns.expiries
        ended: list[int] = []
        all_keys: list[bytes] = []
        all_size = 0
        for session in sessions:
            life = life_of(session)
            keys = [key for key in self._keys.get(session, ()) if lives.get(key) == life]
            all_size += sum(map(len, keys))
            is_much = len(all_keys) + len(keys) > SLICE_COUNT or all_size > SESSION_KEYS_SIZE_MAX
            if ended and is_much:
                break
            ended.append(session)
            all_keys += keys
        return SessionsEnded(tuple(ended), ExpireCommand(all_keys) if all_keys else None)

    def lead(self) -> None:
        """Give all their full time: no renewal could be heard meanwhile."""
        self._deadlines.clear()

    # -- staging ---------------------------------------------------------------------------------

    def stage(self, index: int, body: SessionOpened | SessionsEnded) -> None:
        """Judge by what is not applied yet."""
        if isinstance(body, SessionOpened):
            self._opening[body.nonce] = index
        else:
            self._ending.update(dict.fromkeys(body.sessions, index))

    def undo(self) -> None:
        """Forget all that is staged."""
        self._opening.clear()
        self._ending.clear()

    # -- what is applied -------------------------------------------------------------------------

    def apply(
        self, index: int, body: SessionOpened | SessionsEnded
    ) -> SessionGranted | SessionHeard:
        """Have another session; or some no more, nor their keys."""
        if isinstance(body, SessionOpened):
            self._opening.pop(body.nonce, None)
            session = number_of(body.nonce, index) if body.is_drawn else index
            if session in self._rows:  # Two drew the same, once in a very long time.
                return SessionGranted(None)
            self._rows[session] = SessionRow(session, body.nonce, body.ttl_ns)
            self._numbers[body.nonce] = session
            return SessionGranted(session)
        for session in body.sessions:
            self._ending.pop(session, None)
            self._deadlines.pop(session, None)
            self._keys.pop(session, None)
            if (row := self._rows.pop(session, None)) is not None:
                self._numbers.pop(row.nonce, None)
        return SessionHeard(is_alive=False)

    def tie(self, bound: Mapping[int, Sequence[bytes]], overlay: Overlay) -> None:
        """Note which keys live with which sessions now."""
        for session, keys in bound.items():
            noted = self._keys.setdefault(session, {})
            noted.update(dict.fromkeys(keys))
            if len(noted) > 2 * SESSION_KEYS_MAX:
                self._prune(session, overlay)

    # -- steps -----------------------------------------------------------------------------------

    def _is_alive(self, session: int) -> bool:
        return session in self._rows and session not in self._ending

    def _judge_opening(self, request: OpenSession) -> Judgement:
        if not TTL_NS_MIN <= request.ttl_ns <= TTL_NS_MAX:
            raise DecodeError(f"a session lives for {request.ttl_ns} ns")
        if (index := self._opening.get(request.nonce)) is not None:
            return Staged(index)
        session = self._numbers.get(request.nonce)
        if session is not None and session not in self._ending:
            return Answer(SessionGranted(session))
        if len(self._rows) + len(self._opening) >= SESSIONS_MAX:
            return Answer(SessionGranted(None))
        return Append(SessionOpened(request.nonce, request.ttl_ns))

    def _has_room(self, session: int, keys: Sequence[bytes]) -> bool:
        all_keys = {*self._keys.get(session, ()), *keys}
        is_small = sum(map(len, all_keys)) <= SESSION_KEYS_SIZE_MAX
        return is_small and len(all_keys) <= SESSION_KEYS_MAX

    def _prune(self, session: int, overlay: Overlay) -> None:
        """Forget the keys that live with it no more; not while an undo could bring back others."""
        lives, life = overlay.latest().columns.expiries, life_of(session)
        if not overlay.has_clear:
            keys = self._keys.get(session, {})
            self._keys[session] = {key: None for key in keys if lives.get(key) == life}
