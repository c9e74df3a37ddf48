"""A clone of a store: follows one master, serves reads, passes writes on (seed 7.5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from stores import answering, commands
from stores.actions import Action, DigestCommand, ExpireCommand, PutCommand, WriterId
from stores.commands import AckCloneCommand, InternalCommand
from stores.digests import Digest, DigestWalk
from stores.effects import Changed, Closed, Effect, IdleReached, ToProxy, Verified
from stores.encoding import decode_action, decode_command
from stores.following import Following
from stores.history import History
from stores.outcomes import Ledger, outcome_of
from stores.persistence import Loaded
from stores.questions import in_steps
from stores.recalling import Recall
from stores.replication import Answer, HeldAnswers
from stores.requests import Requests
from stores.scanning import Page, Span, scan
from stores.seeker import LeaderId, State
from stores.snapshots import SnapshotSink
from stores.stages import size_of
from stores.statistics import StoreStatistics
from stores.succession import Assessment, Inheritance
from stores.table import ChangeKind, Columns, Entry, Table
from stores.verification import Comparison
from stores.work import SLICE_COUNT, Job, WorkQueue
from stores.writing import Writing
from wire.errors import DecodeError, ErrorCode, StoreClosed
from wire.identifiers import EndpointId, EntityId

STALE_INTERVAL_NS: Final = 300 * 10**9
"""How long a clone that is out of touch calls its data good enough: Broker's five minutes."""

BUFFER_TICKS: Final = 1_200
"""Ticks for which a mutation waits for a master before it fails: Broker's two minutes."""


@dataclass(slots=True)
class _Waiter:
    """A caller that waits for idleness."""

    token: int
    request: int
    """Everything up to it that was asked for has to have an outcome."""
    barrier: int
    """The answer to this barrier, or a later one, says how far to read."""
    sequence: int | None = None


class Clone:
    """A copy that is always some past state of its master's, and never goes back in time.

    Only another master can take it elsewhere, to a history that may be shorter: one that kept
    nothing, or has another file.

    Every method that gives effects has to have them carried out, in order, before the next call.
    ``now_ns`` is any clock that does not stand still, in nanoseconds.
    """

    position: None = None
    """Entries have no position: what a master sends is no journal."""

    def __init__(
        self,
        entity: EntityId,
        incarnation: int,
        *,
        stale_interval_ns: int | None = STALE_INTERVAL_NS,
        buffer_ticks: int = BUFFER_TICKS,
        is_observed: bool = False,
        inheritance: Inheritance | None = None,
    ) -> None:
        """Start empty; call ``start`` next.

        No earlier clone of this entity may have had the ``incarnation``: a clock in nanoseconds
        will do. Data is never called stale if the interval is ``None``. Mutations that find no
        master for ``buffer_ticks`` fail. A deposed master leaves an ``inheritance``.
        """
        requests = None if inheritance is None else inheritance.requests
        self.entity = entity
        self.has_data = False
        """True since the first snapshot was there; until then reads find nothing."""
        self._effects: list[Effect] = []
        self._writer = WriterId.of(entity, incarnation) if requests is None else requests.writer
        self._stale_interval_ns = stale_interval_ns
        self._table = Table()
        self.history = History(0)
        """The latest of the master's mutations, for watches."""
        self.observe(is_observed=is_observed)
        self._following = Following(self, self._writer, self._effects, incarnation)
        self._seeker = self._following.seeker
        self._ledger = Ledger()
        self._replicas = 0
        self._held = HeldAnswers()
        self._unique: PutCommand | None = None
        self._buffer_ticks = buffer_ticks
        self._state_epoch = 0  # of the master that made what readers see
        self._barrier = 0
        self._recall: Recall | None = None
        self._comparison: Comparison | None = None
        self._work = WorkQueue()
        self._waiters: list[_Waiter] = []
        self._is_closed = False
        self._is_paused = False
        self.requests = Requests(self._writer, self._on_request) if requests is None else requests
        """What the local handle asks for. Call ``flush`` afterwards, once for many requests."""
        if requests is not None:
            requests.serve(self._on_request)
        self._writing = Writing(
            self._writer,
            self._effects,
            incarnation=incarnation,
            last_request=self.requests.last_request,
        )
        if inheritance is not None:
            self._seeker.hint(inheritance.known_epoch)
            self._table.columns = inheritance.columns
            self._table.revision = inheritance.revision
            self.history.restart(inheritance.revision)

    def __repr__(self) -> str:
        """Show in one line what matters when something hangs."""
        return (
            f"<Clone {self.entity} revision={self._table.revision} entries={len(self._table)}"
            f" unanswered={self._writing.pending_count} {self._following!r}>"
        )

    @property
    def size(self) -> int:
        """Bytes of all keys and values."""
        return self._table.columns.size

    def statistics(self) -> StoreStatistics:
        """Give a snapshot of counts; changes nothing."""
        return StoreStatistics(
            "clone",
            self._seeker.known_epoch,
            len(self._table),
            self._table.revision,
            is_in_touch=self._seeker.is_in_touch,
            unanswered=self._writing.pending_count,
            bytes=self._table.columns.size,
        )

    # -- reads -----------------------------------------------------------------------------------

    def get(self, key: bytes) -> bytes | None:
        """Give the encoded value of an encoded key, or ``None`` if the key is missing."""
        return self._table.get(key)

    def entry(self, key: bytes) -> Entry | None:
        """Give the value with its revision and expiry."""
        return self._table.columns.entry(key)

    def keys(self) -> list[bytes]:
        """Give all keys, encoded."""
        return list(self._table.columns)

    def scan(self, span: Span, limit: int) -> Page:
        """Give the first entries of a span in the order of keys; raises ``InvalidData``."""
        table = self._table
        return scan(table.index(), table.columns, table.revision, span, limit)

    def prepare_scan(self, count: int) -> int:
        """Put so many keys in order, at most, before a scan; says how many it were."""
        return self._table.catch_up(count)

    def snapshot(self) -> Columns:
        """Copy what readers see."""
        return self._table.columns.copy()

    @property
    def revision(self) -> int:
        """How many of the master's mutations are in what readers see."""
        return self._table.revision

    @property
    def is_lost(self) -> bool:
        """True while the master that the data came from is out of touch."""
        return self.has_data and not self._seeker.is_in_touch

    def is_stale(self, now_ns: int) -> bool:
        """Tell whether the master has been out of touch for longer than the stale interval."""
        if self._stale_interval_ns is None or not self.is_lost:
            return False
        return now_ns - self._seeker.heard_ns > self._stale_interval_ns

    def observe(self, *, is_observed: bool) -> None:
        """Give ``Changed`` effects from now on, or no longer."""
        self._table.observer = self._on_changed if is_observed else None

    # -- inputs ----------------------------------------------------------------------------------

    def start(self) -> list[Effect]:
        """Search for a master."""
        self._following.start()
        return self._take_effects()

    def receive(self, sender: EndpointId, payload: bytes, now_ns: int) -> list[Effect]:
        """Take in a command from the clones' topic; raises ``DecodeError`` for a bad one."""
        command = decode_command(payload)
        if command.sender.endpoint != sender:
            raise DecodeError(f"{sender} sent a store command in the name of {command.sender}")
        if self._is_closed or self._is_paused:
            return []
        if isinstance(command.content, commands.NotAllowedCommand):
            self._on_not_allowed(command, command.content)
        elif isinstance(command.content, commands.Question):
            self._on_question(command, now_ns)
        elif (answer := commands.consumer_message(command)) is not None:
            self._writing.receive(command.sender, answer)
        elif self._following.receive(command, now_ns):
            self._on_answer(command)
        if self._waiters:
            self._check_idle()
        return self._take_effects()

    def flush(self, now_ns: int) -> list[Effect]:
        """Send what was asked since the last flush: once per turn of the loop."""
        if not self._is_closed and not self._is_paused:
            self.requests.seal()
            if self._following.is_level and self._seeker.leader is not None:
                self._writing.flush(self._seeker.leader.entity)
        return self._take_effects()

    def tick(self, now_ns: int) -> list[Effect]:
        """Let one tick (100 ms) pass."""
        if not self._is_closed and not self._is_paused:
            self._following.tick()
            self._writing.tick()
            if self._seeker.is_in_touch:
                self._resume()
                if self._recall is not None and self._recall.tick():
                    self._following.send_to_master(self._recall.request())
            else:
                self.requests.seal()
                self._writing.give_up(self._buffer_ticks)
        return self._take_effects()

    @property
    def has_work(self) -> bool:
        """True if ``work`` has something to do: call it once for each turn of the loop."""
        return bool(self._work) and not self._is_closed and not self._is_paused

    def work(self, now_ns: int) -> list[Effect]:
        """Take a step of what is too long for one; raises ``DecodeError`` if the state is bad."""
        if self.has_work:
            self._work.step()
        return self._take_effects()

    def peer_unreachable(self, endpoint: EndpointId) -> list[Effect]:
        """Take note that there is no path to an endpoint any more."""
        self._work.discard(endpoint)
        if not self._is_paused:
            self._following.endpoint_unreachable(endpoint)
        return self._take_effects()

    def endpoint_discovered(self, endpoint: EndpointId) -> list[Effect]:
        """Take note that there is a path to an endpoint: the master may be there."""
        if not self._is_closed and not self._is_paused:
            self._following.endpoint_discovered()
        return self._take_effects()

    def close(self) -> list[Effect]:
        """Say goodbye; requests without an outcome are refused, as none will come."""
        if not self._is_closed:
            self._end(ErrorCode.SHUTTING_DOWN, "the store's clone closed")
        return self._take_effects()

    def _end(self, code: ErrorCode, text: str) -> None:
        self.requests.seal()
        self._is_closed = True
        self._following.stop()
        self._writing.refuse_all(code, f"{text}: whether it was applied is unknown")
        self._effects.append(Closed(code, text))

    # -- promotion -------------------------------------------------------------------------------

    def assess(self, now_ns: int) -> Assessment:
        """Say how good a successor of its master the clone is."""
        following, seeker = self._following, self._seeker
        return Assessment(
            has_data=self.has_data,
            is_in_touch=seeker.is_in_touch,
            is_loading=seeker.state is State.LOADING,
            missing_count=following.missing_count if following.is_level else 0,
            silent_ns=max(0, now_ns - seeker.heard_ns) if self.has_data else 0,
            position=f"revision {self._table.revision}",
            known_epoch=seeker.known_epoch,
        )

    def pause(self) -> list[Effect]:
        """Stand still, to be promoted: follow no master, and send no requests."""
        self.requests.seal()
        self._is_paused = True
        self._following.stop()
        return self._take_effects()

    def go_on(self) -> list[Effect]:
        """Follow again, because it was not promoted."""
        if not self._is_closed:
            self._is_paused = False
            self._following.restart()
        return self._take_effects()

    def legacy(self, epoch: int) -> Loaded:
        """Give all that a master needs to lead from here; the clone is of no more use."""
        writers = self._ledger.rows(is_published=False)
        return Loaded(epoch, self._table.revision, self._table.columns, writers)

    def unanswered(self) -> list[bytes]:
        """Give the actions that the handle asked for and that have no outcome, oldest first."""
        self.requests.seal()  # what was asked while it stood still, too
        return self._writing.unanswered()

    def begin_verify(self, token: int) -> list[Effect]:
        """Have the master compare all replicas; ``Verified`` tells, if the answer comes."""
        if self._following.is_level:
            self._following.send_to_master(commands.VerifyRequestCommand(token))
        return self._take_effects()

    # -- idleness --------------------------------------------------------------------------------

    def begin_idle(self, token: int) -> list[Effect]:
        """Wait for idleness (seed 7.6.1): ``IdleReached`` comes when it is there.

        Everything asked for up to now has its outcome, and all is read that the master had told
        when it was asked, later than now.
        """
        self.requests.seal()
        return self._begin(token, self.requests.last_request)

    def begin_read(self, token: int) -> list[Effect]:
        """Wait until all is read that the master had when it was asked: ``IdleReached`` says so.

        Unlike idleness, it does not take what was asked for here.
        """
        return self._begin(token, 0)

    def begin_recall(self, after: int) -> list[Effect]:
        """Ask the master for the mutations after a revision, if the history here lacks them.

        While ``is_recalling`` it is under way; then the history reaches back so far, or never will.
        """
        is_wanted = after < self.history.floor and self._following.is_level
        if is_wanted and (self._recall is None or after < self._recall.after):
            self._recall = Recall(after, self.history.floor)
            self._following.send_to_master(self._recall.request())
        return self._take_effects()

    @property
    def is_recalling(self) -> bool:
        """True while mutations before the history are being asked for."""
        return self._recall is not None

    def cancel_idle(self, token: int) -> None:
        """Stop waiting."""
        self._waiters = [waiter for waiter in self._waiters if waiter.token != token]

    def explain_idle(self) -> str:
        """Say what is missing for the store to be idle; empty if nothing is known to be."""
        missing: list[str] = []
        if reason := self._following.explain():
            missing.append(reason)
        if count := self.requests.last_request - self._writing.resolved_request:
            missing.append(f"{count} writes have no answer from the master")
        if not reason and self._waiters:
            sequence, position = self._waiters[-1].sequence, self._following.position
            if sequence is None:
                missing.append("the master has not said how far it is")
            elif position < sequence:
                missing.append(f"read up to event {position} of {sequence}")
        return "; ".join(missing)

    def has_room(self) -> bool:
        """Tell whether the local handle may ask for more; otherwise wait for a ``Resolve``."""
        return self._writing.has_room

    # -- the follower ----------------------------------------------------------------------------

    @property
    def resolved_request(self) -> int:
        """The last request whose outcome is known, with all before it."""
        return self._writing.resolved_request

    def install(self, snapshot: SnapshotSink, welcome: InternalCommand, *, is_new: bool) -> None:
        """Replace the state by a snapshot; what is consumed next comes after it."""
        content = welcome.content
        assert isinstance(content, AckCloneCommand), welcome
        self.has_data = True
        self._comparison = None
        self._recall = None  # the history begins elsewhere now, and the master may be another one
        self._unique = None
        assert welcome.epoch is not None, welcome
        self._state_epoch = welcome.epoch
        table, columns = self._table, snapshot.take()
        if content.revision != table.revision or columns != table.columns:
            self.history.restart(content.revision)
        table.load(columns, content.revision)
        self._ledger = Ledger(snapshot.writers)
        self._replicas = content.replicas
        if is_new:
            self._writing.hang_up()
            self._held.clear()
        self._answer(welcome.sequence, (content.request, content.outcomes))
        for waiter in self._waiters:
            waiter.sequence = None  # the answer may have been another master's

    def consume(self, payload: bytes, sequence: int) -> None:
        """Do what the master did; raises ``DecodeError`` if it makes no sense."""
        action = self._writing.recognise(payload) or decode_action(payload)
        if isinstance(action, PutCommand) and action.request is None:
            self._unique = action  # One step with its answer, so that no promotion parts them.
            return
        if self._unique is not None:
            self._apply(self._unique, None)
            self._unique = None
        self._apply(action, payload)
        if isinstance(action, ExpireCommand):
            return
        if isinstance(action, DigestCommand):
            self._on_digest(action)
            return
        outcome = outcome_of(action, self._table.revision)
        if outcome is None:
            return
        self._ledger.follow(action.writer, outcome)
        if action.writer == self._writer:
            self._answer(sequence, (outcome.last_request, (outcome,)))

    def on_replicated(self, sequence: int) -> None:
        """Believe the answers about what enough clones have."""
        for request, outcomes in self._held.release(sequence):
            self._writing.catch_up(request, outcomes)

    def on_synced(self) -> None:
        """Send what the master does not know of, and ask what it has."""
        self._resume()

    # -- steps -----------------------------------------------------------------------------------

    def _apply(self, action: Action, payload: bytes | None) -> None:
        table, size = self._table, size_of(action) if payload is None else len(payload)
        self.history.add(action, payload, size, table.revision, table.columns.values)
        table.apply(action)

    def _on_not_allowed(
        self, command: InternalCommand, refusal: commands.NotAllowedCommand
    ) -> None:
        """Give up: on everything without an outcome, or altogether, if there is nothing to read.

        The master that is followed says the latter to a clone that has lost the right.
        """
        if not refusal.is_reading:
            self._writing.deny(refusal.text)
        elif not self._seeker.is_in_touch or self._is_from_leader(command):
            self._end(ErrorCode.NOT_AUTHORIZED, refusal.text)

    def _is_from_leader(self, command: InternalCommand) -> bool:
        return self._seeker.leader == LeaderId(command.epoch or 0, command.sender)

    def _on_question(self, command: InternalCommand, now_ns: int) -> None:
        """Answer a proxy: about one key at once, with a page in its turn."""
        if isinstance(command.content, commands.LookUpCommand):
            self._effects.append(self._answer_proxy(command, now_ns, 1))
            return

        def reply(limit: int) -> None:
            self._effects.append(self._answer_proxy(command, now_ns, limit))

        job = in_steps(self._table.catch_up, reply)
        if not self._work.add(command.sender.endpoint, answering.name_of(command), job):
            self._effects.append(answering.refuse_busy(self, command))

    def _answer_proxy(self, command: InternalCommand, now_ns: int, limit: int) -> ToProxy:
        if not self.has_data:
            return answering.refuse(self, command, "it has no data yet", is_stale=False)
        if self.is_stale(now_ns):
            reason = "its master has been out of touch for longer than its stale interval"
            return answering.refuse(self, command, reason, is_stale=True)
        return answering.answer(self, self._state_epoch, command, limit)

    def _begin(self, token: int, request: int) -> list[Effect]:
        self._barrier += 1
        self._waiters.append(_Waiter(token, request, self._barrier))
        if self._following.is_level:
            self._following.send_to_master(commands.BarrierRequestCommand(self._barrier))
        return self._take_effects()

    def _on_digest(self, theirs: DigestCommand) -> None:
        """Start to compare; at the second one, raise ``DecodeError`` if the states differ."""
        if theirs.total is None:
            comparison = self._comparison = Comparison(theirs.number)
            walk = self._table.walk = DigestWalk(self._table.columns, self._table.revision)
            self._work.add(None, "digest", self._walk(comparison, walk))
        elif self._comparison is not None and self._comparison.number == theirs.number:
            self._comparison.theirs = Digest(theirs.revision, theirs.entry_count, theirs.total)
            self._comparison.check()

    def _walk(self, comparison: Comparison, walk: DigestWalk) -> Job:
        while (own := walk.step(SLICE_COUNT)) is None:
            yield
        if self._table.walk is walk:
            self._table.walk = None
        if self._comparison is not comparison:
            return
        comparison.own = own
        self._following.send_to_master(commands.DigestAnswerCommand(comparison.number, own))
        try:
            comparison.check()
        except DecodeError as error:
            self._following.reject(error)

    def _answer(self, sequence: int, answer: Answer) -> None:
        if self._replicas:
            self._held.hold(sequence, answer)
        else:
            self._writing.catch_up(*answer)

    def _resume(self) -> None:
        assert self._seeker.leader is not None, self._following
        self._writing.resume(self._seeker.leader.entity)
        if any(waiter.sequence is None for waiter in self._waiters):
            self._following.send_to_master(commands.BarrierRequestCommand(self._barrier))

    def _on_answer(self, command: InternalCommand) -> None:
        match command.content:
            case commands.VerifyAnswerCommand(token, rows):
                self._effects.append(Verified(token, rows))
            case commands.BarrierAnswerCommand(number):
                self._on_barrier_answer(number, command.sequence)
            case commands.HistoryAnswerCommand() as answer:
                self._on_history_answer(answer)
            case _:
                pass

    def _on_history_answer(self, answer: commands.HistoryAnswerCommand) -> None:
        recall = self._recall
        if recall is None or not recall.receive(answer):
            return
        if not recall.is_done:
            self._following.send_to_master(recall.request())
            return
        self._recall = None
        if recall.is_known and recall.until == self.history.floor:
            self.history.prepend(recall.after, recall.commits)

    def _on_barrier_answer(self, number: int, sequence: int) -> None:
        for waiter in self._waiters:
            if waiter.barrier <= number and waiter.sequence is None:
                waiter.sequence = sequence

    def _check_idle(self) -> None:
        if not self._seeker.is_in_touch:
            return
        for waiter in list(self._waiters):
            is_answered = waiter.request <= self._writing.resolved_request
            is_read = waiter.sequence is not None and waiter.sequence <= self._following.position
            if is_answered and is_read:
                self._waiters.remove(waiter)
                self._effects.append(IdleReached(waiter.token))

    def _on_request(self, action: Action) -> None:
        if self._is_closed:
            raise StoreClosed("the store is closed: attach it again")
        self._writing.add(action)

    def _on_changed(
        self,
        kind: ChangeKind,
        key: bytes,
        before: Entry | None,
        after: Entry | None,
        writer: WriterId | None,
        revision: int,
    ) -> None:
        self._effects.append(Changed(kind, key, before, after, writer, revision))

    def _take_effects(self) -> list[Effect]:
        effects = self._effects[:]
        if effects:
            self._effects.clear()
        return effects
