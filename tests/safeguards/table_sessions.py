"""What keeps the promises of sessions, locks and elections: each line can be switched off."""

from __future__ import annotations

from tests.safeguards.safeguard import Safeguard

_UNIT = "tests/stores/table/test_sessions.py"
_HANDLES = "tests/endpoint/replicas/groups/test_sessions.py"
_CLOCK = "tests/endpoint/replicas/groups/test_session_clock.py"
_SIMULATED = "tests/endpoint/replicas/groups/test_locks_in_simulation.py"
_CORE = "tests/stores/replica/test_core.py"
_SESSIONS = "stores/table/sessions.py"
_SESSION = "endpoint/replicas/stores/session.py"
_LOCKS = "endpoint/replicas/stores/locks.py"


def _guard(name: str, why: str, file: str, text: str, replacement: str, *tests: str) -> Safeguard:
    return Safeguard(f"session: {name}", why, file, text, replacement, tests or (_UNIT,))


SESSIONS = [
    _guard(
        "of puts that travel together a session takes those that fit",
        "a put is refused for its session's limit, which is far off, as others were under way",
        "stores/judgement.py",
        "        if isinstance(request, PutCommand) and len(errors) > 1:\n",
        "        if False:\n",
    ),
    _guard(
        "what has no answer is asked of the next leader at once",
        "a session opens a second late, and one of two seconds is lost with its leader",
        "stores/replica/core.py",
        "        self.errands.resume()\n",
        "        pass\n",
        _CORE,
    ),
    _guard(
        "what a leader had no answer to is asked of it in the next tick",
        "a session opens a second late where its leader was asked before it was ready",
        "stores/replica/core.py",
        "        self.errands.declined(ticket)\n",
        "        pass\n",
        _CORE,
    ),
    _guard(
        "who waits for a lock that is closed waits no more",
        "a task waits for ever, as no key of its own is in the queue",
        _SESSION,
        "            self._opening.cancel()\n",
        "            pass\n",
        _HANDLES,
    ),
    _guard(
        "a session that was closed as it opened is ended",
        "a session that no holder has stands in the way for its whole time",
        _SESSION,
        "            if self._over.is_set():\n                raise self._error()\n        except",
        "        except",
        _CLOCK,
    ),
    _guard(
        "a lock that Ctrl-C overtook is given up",
        "a thread has it no more, and the endpoint renews it for ever",
        "peermesh/blocking/coordination.py",
        "        self._passage.take(lambda _: self._held.give_up(), self._held.open)\n",
        "        self._passage.call(self._held.open)\n",
        "tests/peermesh/test_blocking_taking.py",
    ),
    _guard(
        "a lock that a cancellation overtook is given up",
        "a task has it no more, and the endpoint renews it for ever",
        "peermesh/aio/coordination.py",
        "            await self._passage.end(self._held.close)  # It may be open all the same.\n",
        "            pass\n",
        "tests/peermesh/aio/test_aio_cancellation.py::test_a_lock_whose_opening_is_cancelled_is_free",
    ),
    _guard(
        "what Ctrl-C overtook as it was attached is closed",
        "the store is in use at the endpoint, and no thread has its handle",
        "peermesh/blocking/living.py",
        "        found = self.take(self._let_go, attach)\n",
        "        found = self.call(attach)\n",
        "tests/peermesh/test_blocking_taking.py",
    ),
    _guard(
        "a renewal counts from the next tick",
        "a session ends before its holder's count, after a pause of the leader",
        _SESSIONS,
        "                self._deadlines.pop(session, None)\n                return",
        "                return",
    ),
    _guard(
        "a new leader gives all their full time",
        "a leader ends sessions by what it heard in an earlier lead",
        _SESSIONS,
        "        self._deadlines.clear()\n",
        "        pass\n",
    ),
    _guard(
        "the group waits longer than the holder",
        "the lock is given away while its holder's slower clock still counts on it",
        _SESSIONS,
        "elapsed_ns + row.ttl_ns + row.ttl_ns // GRACE\n",
        "elapsed_ns + row.ttl_ns\n",
    ),
    _guard(
        "what a deposed leader says of a renewal waits for a majority",
        "a holder counts on a session that another leader has ended",
        "stores/group/leading.py",
        "            return self._rounds.add(replied, caller, self._journal.end_index)\n",
        "            return [replied]\n",
    ),
    _guard(
        "one nonce has one session",
        "a repeated request leaves a session behind that stands in the way",
        _SESSIONS,
        "        if (index := self._opening.get(request.nonce)) is not None:\n",
        "        if (index := None) is not None:\n",
    ),
    _guard(
        "two histories have no session in common",
        "after two leads by force both holders of a lock write, and one ends the other's session",
        _SESSIONS,
        "number_of(body.nonce, index) if body.is_drawn else index\n",
        "index\n",
        _UNIT,
        "tests/endpoint/replicas/stores/test_coordination.py",
    ),
    _guard(
        "two leads by force have no revision in common",
        "a guard that was read in a lost history holds in the one that goes on",
        "stores/table/overlay.py",
        "    return Skip(SKIP_MIN + term % FORCED_TERMS * SKIP_PER_TERM)\n",
        "    return Skip(SKIP_MIN)\n",
        "tests/stores/table/test_machine.py",
    ),
    _guard(
        "a session that ends takes no more keys",
        "a key outlives its session for good",
        _SESSIONS,
        "        return session in self._rows and session not in self._ending\n",
        "        return session in self._rows\n",
    ),
    _guard(
        "only keys of the last put go",
        "a key goes with a session that had it before",
        _SESSIONS,
        "(session, ()) if lives.get(key) == life]\n",
        "(session, ())]\n",
    ),
    _guard(
        "a session has so many keys",
        "one entry grows until no member takes it",
        _SESSIONS,
        "        return is_small and len(all_keys) <= SESSION_KEYS_MAX\n",
        "        return is_small\n",
    ),
    _guard(
        "keys of a session have so many bytes",
        "one entry grows until no member takes it",
        _SESSIONS,
        "        is_small = sum(map(len, all_keys)) <= SESSION_KEYS_SIZE_MAX\n",
        "        is_small = True\n",
    ),
    _guard(
        "a group has so many sessions",
        "who may write makes every member hold sessions without end",
        _SESSIONS,
        "        if len(self._rows) + len(self._opening) >= SESSIONS_MAX:\n",
        "        if False:\n",
    ),
    _guard(
        "followers forget outdated keys of sessions",
        "a follower remembers every key that a session ever had",
        _SESSIONS,
        "            if len(noted) > 2 * SESSION_KEYS_MAX:\n",
        "            if False:\n",
    ),
    _guard(
        "a staged clear forgets no keys of a session",
        "keys that come back when the clear is lost outlive their session",
        _SESSIONS,
        "        if not overlay.has_clear:\n            keys",
        "        if True:\n            keys",
    ),
    _guard(
        "an undo gives keys back to their session",
        "keys outlive their session, once a leader was deposed at the wrong moment",
        "stores/table/lifetimes.py",
        "                self._appoint((key,), expires_at_ns)\n        self.sessions.undo()\n",
        "                pass\n        self.sessions.undo()\n",
    ),
    _guard(
        "an end that was lost did not happen",
        "a session refuses its holder for ever, and never ends",
        _SESSIONS,
        "        self._ending.clear()\n",
        "        pass\n",
    ),
    _guard(
        "sessions are in snapshots",
        "a member that was away knows no session, and refuses all renewals once it leads",
        "stores/table/parts.py",
        "        parts.append(SessionsPart(rows))\n",
        "        pass\n",
    ),
    _guard(
        "the clock of the group is kept while there is a session",
        "a restart of all sets back what sessions count by",
        "stores/table/lifetimes.py",
        "columns.expiries or len(self.sessions))\n",
        "columns.expiries)\n",
    ),
    _guard(
        "a store without sessions refuses what is to live with one",
        "a master keeps keys for ever that are taken for a session's",
        "stores/judgement.py",
        "    object_to: Object = no_sessions,\n",
        "    object_to: Object = lambda session, keys: (),\n",
    ),
    _guard(
        "a holder looks at the clock",
        "a holder that was paused acts although another one holds",
        _SESSION,
        "        return is_open and not self._lost.is_set() and trio.current_time() < self._until\n",
        "        return is_open and not self._lost.is_set()\n",
        _CLOCK,
    ),
    _guard(
        "a holder counts from the sending of its renewal",
        "a holder counts on a session that the group may have ended",
        _SESSION,
        "            self._until = sent + self._ttl\n",
        "            self._until = trio.current_time() + self._ttl\n",
        _CLOCK,
    ),
    _guard(
        "the block is cancelled when its session is lost",
        "a holder works on while another one holds",
        _SESSION,
        "                scope.cancel()\n",
        "                pass\n",
        _HANDLES,
    ),
    _guard(
        "what a cancelled opening may have opened is ended",
        "a session without a holder stands in the way for its whole time to live",
        _SESSION,
        "                self._part.runner.start_task(self._take_back, request)\n",
        "                pass\n",
        _CLOCK,
    ),
    _guard(
        "an opening that is done again is another one",
        "a session that was opened at last is ended with the one that was given up",
        _SESSION,
        "            self._nonce = sha256(self._nonce).digest()[:NONCE_SIZE]\n",
        "            pass\n",
        _CLOCK,
    ),
    _guard(
        "a lock waits for those before it",
        "two hold one lock",
        _LOCKS,
        "            if not before:\n",
        "            if True:\n",
        _HANDLES,
    ),
    _guard(
        "a holder notices that its key is gone",
        "after a clear two hold one lock, and neither ever learns of it",
        _LOCKS,
        "        if self._token is None or _revision(self._part, encode(self._key)) == self._token.revision:\n",
        "        if True:\n",
        _HANDLES,
    ),
    _guard(
        "who gives up leaves the queue",
        "all that come later wait for one that wants nothing any more",
        _LOCKS,
        "            self.give_up()\n            raise\n",
        "            raise\n",
        _HANDLES,
    ),
    _guard(
        "sessions that ask together take turns",
        "thousands that were opened together hold the loop up for half a second, three times a ttl",
        "endpoint/replicas/stores/part.py",
        "        await self._pace.keep()\n",
        "",
        _HANDLES,
    ),
]
