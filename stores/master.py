"""The master of a store: decides about every request, and tells all clones (seed 7.5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from stores import answering, commands
from stores.actions import (
    Action,
    BatchResultCommand,
    ClearCommand,
    DigestCommand,
    ExpireCommand,
    PutCommand,
    WriterId,
    request_range,
    rest_of,
)
from stores.broadcasting import Broadcaster, CloneId, Welcome
from stores.commands import InternalCommand
from stores.commits import GroupCommit
from stores.digests import DigestWalk
from stores.effects import (
    Changed,
    Closed,
    Deposed,
    Effect,
    IdleReached,
    Persist,
    QuotaCrossed,
    Resolve,
    SecondMaster,
    Verified,
)
from stores.encoding import decode_action, decode_command, encode_action
from stores.expiry import ExpiryQueue
from stores.history import History
from stores.inputs import Inputs
from stores.judgement import REQUESTS, Request, judge, vet
from stores.limits import RUN_COUNT_MAX, UNRESOLVED_SIZE_MAX, WRITERS_MAX
from stores.outcomes import (
    Ledger,
    Outcome,
    Refused,
    WriterRecord,
    outcome_of,
    outcomes_between,
)
from stores.persistence import Loaded
from stores.proxies import Proxies
from stores.questions import in_steps
from stores.quota import UNLIMITED, Meter, Quota
from stores.reading import CommittedReads
from stores.recalling import recalled
from stores.replication import ReplicaGate
from stores.requests import Requests
from stores.snapshots import SnapshotSource
from stores.stages import Barrier, IdleWaiter, Stage, size_of
from stores.statistics import StoreStatistics, replicas_of
from stores.succession import Inheritance, Rivals
from stores.table import ChangeKind, Entry, Table
from stores.verification import Verifier
from stores.work import SLICE_COUNT, Job, WorkQueue
from wire.errors import DecodeError, ErrorCode, StoreClosed
from wire.identifiers import EndpointId, EntityId


class Master(CommittedReads):
    """The one that decides. Calls, commands and ticks in; effects out; no clock, no disk.

    The rule of a durable master: what a crash could take back is not shown. Reads, snapshots,
    broadcasts and receipts show what is committed. A handle that promises to read its own writes
    waits for its last request to be resolved before it reads.

    Every method that gives effects has to have them carried out, in order, before the next call.
    ``now_ns`` is the time of the master's clock, in nanoseconds since 1970.
    """

    def __init__(
        self,
        entity: EntityId,
        loaded: Loaded,
        *,
        is_durable: bool,
        is_observed: bool = False,
        replicas: int = 0,
        now_ns: int = 0,
    ) -> None:
        """Start with what the backend kept; the epoch in it must never have been used.

        Receipts are given when so many ``replicas`` have acknowledged the mutation. What the local
        handle asks for is judged at the time of the latest input, and before the first one at this
        ``now_ns``.
        """
        self.entity = entity
        self.epoch = loaded.epoch
        self._effects: list[Effect] = []
        self._table = Table(loaded.columns, loaded.revision)
        self.history = History(loaded.revision)
        """The latest mutations, for watches; those that are not durable yet included."""
        self._ledger = Ledger(loaded.writers)
        self._expiries = ExpiryQueue(loaded.columns.expiries)
        self.meter = Meter("the store", UNLIMITED)
        """The quota; its driver puts another one in this place before anything is asked."""
        self._now_ns = now_ns
        self._stage = Stage()
        self._in_flight: Stage | None = None
        self._token = 0
        self._applied_count = 0
        self._published_count = 0
        self._barriers: dict[CloneId, Barrier] = {}
        self._waiters: list[IdleWaiter] = []
        self._writers: dict[EntityId, WriterId] = {}
        self._is_closed = False
        self._commits = GroupCommit(self._table) if is_durable else None
        self.observe(is_observed=is_observed)
        self._clones = Broadcaster(entity, loaded.epoch, self._effects, self._on_acknowledged)
        self._rivals = Rivals(entity, loaded.epoch, self._effects)
        self._gate: ReplicaGate[Outcome] = ReplicaGate(replicas)
        self._verifier = Verifier(entity)
        self._work = WorkQueue()
        self._has_frozen = False  # since the last flush
        answers = self._ledger, self._gate
        self._proxies = Proxies(entity, loaded.epoch, self._effects, answers)
        self._inputs = Inputs(entity, self._effects, self._on_action, self._proxies)
        self.requests = Requests(WriterId.of(entity, loaded.epoch), self._on_request)
        """What the local handle asks for. Call ``flush`` afterwards, once for many requests."""

    def __repr__(self) -> str:
        """Show in one line what matters when something hangs."""
        return (
            f"<Master {self.entity} epoch={self.epoch} revision={self._table.revision}"
            f" entries={len(self._table)} sequence={self._clones.sequence}"
            f" clones={len(self._clones)} writers={len(self._inputs)}>"
        )

    def statistics(self) -> StoreStatistics:
        """Give a snapshot of counts; changes nothing."""
        channel = self._clones.statistics()
        return StoreStatistics(
            "master",
            self.epoch,
            len(self._table),
            self._table.revision,
            is_in_touch=True,
            sequence=self._clones.sequence,
            unacknowledged=channel.unacknowledged,
            clones=replicas_of(channel.consumers),
            bytes=self._table.columns.size,
            max_entries=self.meter.quota.max_entries,
            max_bytes=self.meter.quota.max_bytes,
        )

    # -- reads, besides those of what is committed -----------------------------------------------

    @property
    def size(self) -> int:
        """Bytes of all keys and values."""
        return self._table.columns.size

    def observe(self, *, is_observed: bool) -> None:
        """Give ``Changed`` effects from now on, or no longer."""
        self._table.observer = self._on_changed if is_observed else None

    def is_stale(self, now_ns: int) -> bool:
        """Give false: what the master has is the store."""
        return False

    # -- inputs ----------------------------------------------------------------------------------

    def receive(self, sender: EndpointId, payload: bytes, now_ns: int) -> list[Effect]:
        """Take in a command from the master's topic; raises ``DecodeError`` for a bad one."""
        self._now_ns = now_ns
        command = decode_command(payload)
        if command.sender.endpoint != sender:
            raise DecodeError(f"{sender} sent a store command in the name of {command.sender}")
        if not self._is_closed:
            self._dispatch(command)
            if self._waiters:
                self._check_idle()
        return self._take_effects()

    def flush(self, now_ns: int) -> list[Effect]:
        """Tell, or commit, what was asked since the last flush: once per turn of the loop."""
        self._now_ns = now_ns
        self._has_frozen = False
        if not self._is_closed:
            self.requests.seal()
            self._proceed()
            if self._waiters:
                self._check_idle()
        return self._take_effects()

    def tick(self, now_ns: int) -> list[Effect]:
        """Let one tick (100 ms) pass; needs a flush afterwards like any other input."""
        self._now_ns = now_ns
        if not self._is_closed:
            self._rivals.tick()
            self._clones.tick()
            self._inputs.tick()
            self._repeat_replicated()
            self._verifier.tick()
            self._tell_verified()
            self._expire_due()
            self._look_at_quota()  # for what was loaded, before anything is asked
            if self._waiters:
                self._clones.ask_for_acknowledgements()
            self._check_idle()
        return self._take_effects()

    @property
    def has_work(self) -> bool:
        """True if ``work`` has something to do: call it once for each turn of the loop."""
        return bool(self._work) and not self._is_closed

    def work(self, now_ns: int) -> list[Effect]:
        """Take a step of what is too long for one; needs a flush afterwards."""
        self._now_ns = now_ns
        if not self._is_closed:
            self._work.step()
        return self._take_effects()

    def persisted(self, token: int) -> list[Effect]:
        """Take note that the changes of that ``Persist`` are durable."""
        assert token == self._token, (token, self._token)
        if self._is_closed:
            return self._take_effects()
        stage, self._in_flight = self._in_flight, None
        assert stage is not None, f"nothing is on its way to the disk, not even {token}"
        assert self._commits is not None, "a store in memory has no commits"
        self._commits.finish()
        self._publish(stage)
        self._proceed()
        self._check_idle()
        return self._take_effects()

    def commit_failed(self, token: int, text: str) -> list[Effect]:
        """Close, because the backend is of no more use: nothing of what it was given is claimed."""
        assert token == self._token, (token, self._token)
        self._close(ErrorCode.BACKEND_FAILURE, text)
        return self._take_effects()

    def close(self) -> list[Effect]:
        """Say goodbye. Flush, and wait until nothing is on its way to the disk, before."""
        if self._commits is None and not self._is_closed:
            self.requests.seal()
            self._proceed()
        self._close(ErrorCode.SHUTTING_DOWN, "the store's master closed")
        return self._take_effects()

    def peer_unreachable(self, endpoint: EndpointId) -> list[Effect]:
        """Forget the clones and writers of an endpoint; those that return begin anew."""
        self._clones.detach_endpoint(endpoint)
        self._inputs.discard_endpoint(endpoint)
        self._proxies.discard_endpoint(endpoint)
        self._work.discard(endpoint)
        self._check_idle()
        return self._take_effects()

    def endpoint_discovered(self, endpoint: EndpointId) -> list[Effect]:
        """Take note that there is a path to an endpoint: another master may be there."""
        if not self._is_closed:
            self._rivals.proclaim(endpoint)
        return self._take_effects()

    def inherit(self, requests: Requests, unanswered: Sequence[bytes]) -> list[Effect]:
        """Serve the handle of the clone that this master was; first what is without an answer.

        What its last master applied is not applied again: the ledger tells.
        """
        self.requests = requests
        requests.serve(self._on_request)
        record = self._ledger.find(requests.writer)
        applied = 0 if record is None else record.last_request
        known = () if record is None else tuple(record.outcomes)
        answered: list[Outcome] = []
        for payload in unanswered:
            asked = request_range(action := decode_action(payload))
            assert asked is not None, action
            answered += outcomes_between(known, asked[0], min(asked[1], applied))
            if asked[0] <= applied < asked[1]:
                action = rest_of(action, applied)
            if asked[1] > applied:
                self._on_request(action)
        answered = self._gate.pass_through(self._clones.sequence, answered)
        self._effects += [Resolve(outcome) for outcome in answered]
        return self._take_effects()

    def bequeath(self, deposed: Deposed) -> Inheritance:
        """Leave what there is to the clone in this master's place; it is of no more use itself."""
        columns = self._table.columns
        if self._commits is not None:
            for key, entry in self._commits.past().items():
                columns.set(key, entry)
        return Inheritance(deposed.epoch, self.requests, columns, deposed.revision)

    def begin_verify(self, token: int) -> list[Effect]:
        """Compare all replicas as they are now in the stream; ``Verified`` tells."""
        self._verify(None, token)
        return self._take_effects()

    def set_quota(self, quota: Quota) -> list[Effect]:
        """Judge by another quota from now on; what is there already stays."""
        self.meter.replace(quota)
        self._look_at_quota()
        return self._take_effects()

    # -- idleness --------------------------------------------------------------------------------

    def begin_idle(self, token: int) -> list[Effect]:
        """Wait for idleness (seed 7.6.1): ``IdleReached`` comes when it is there.

        No clone is being taken in, all of them have acknowledged everything up to now, and no
        command of a writer waits for an earlier one.
        """
        self.requests.seal()
        self._waiters.append(IdleWaiter(token, self._applied_count))
        self._clones.ask_for_acknowledgements()
        self._check_idle()
        return self._take_effects()

    def cancel_idle(self, token: int) -> None:
        """Stop waiting."""
        self._waiters = [waiter for waiter in self._waiters if waiter.token != token]

    def explain_idle(self) -> str:
        """Say what is missing for the store to be idle; empty if nothing is."""
        missing = [*self._clones.lagging(self._clones.sequence), *self._inputs.lagging()]
        if self._gate:
            missing.append(f"{len(self._gate)} receipts wait for {self._gate.replicas} clones")
        if self._in_flight is not None:
            missing.append(f"{len(self._in_flight.actions)} actions are on their way to the disk")
        if self._stage.actions or not self.requests.is_sealed:
            missing.append("the latest actions are not sent yet")
        return "; ".join(missing)

    def has_room(self) -> bool:
        """Tell whether the local handle may ask for more; otherwise wait for a ``Resolve``."""
        in_flight = 0 if self._in_flight is None else self._in_flight.size
        return self._stage.size + in_flight < UNRESOLVED_SIZE_MAX

    # -- steps: commands -------------------------------------------------------------------------

    def _dispatch(self, command: InternalCommand) -> None:
        sender = command.sender
        if (event := commands.producer_message(command)) is not None:
            self._inputs.receive(sender, event)
        elif isinstance(command.content, commands.ProclaimCommand):
            self._on_proclaim(sender, command.epoch)
        elif self._is_fencing(command):
            assert command.epoch is not None, command
            self._depose(sender, command.epoch)
        elif command.session is None and isinstance(command.content, commands.Question):
            self._answer(command)
        elif command.session is None:
            if self._proxies.receive(sender, command.content, self._clones.sequence):
                self._inputs.discard(sender)
        else:
            self._on_clone(CloneId(sender, command.session), command)

    def _is_fencing(self, command: InternalCommand) -> bool:
        """Tell whether a clone speaks of a later term, in those commands that name a master."""
        names_a_master = isinstance(command.content, commands.NamesMaster)
        return names_a_master and self._rivals.is_fenced(command.epoch)

    def _on_clone(self, clone: CloneId, command: InternalCommand) -> None:
        match command.content:
            case commands.HandshakeRequestCommand(writer, resolved_request):
                self._on_handshake_request(clone, writer, resolved_request)
            case commands.SnapshotRequestCommand(indexes):
                for index, job in self._clones.chunk_jobs(clone, indexes):
                    self._work.add(clone.entity.endpoint, ("chunk", clone, index), job)
            case commands.BarrierRequestCommand(number):
                self._on_barrier_request(clone, number)
            case commands.HistoryRequestCommand(after, until):
                self._on_history_request(clone, after, until)
            case commands.VerifyRequestCommand(token):
                self._verify(clone, token)
            case commands.DigestAnswerCommand(number, found):
                self._verifier.answer(clone, number, found)
                self._tell_verified()
            case commands.DetachCommand():
                self._work.cancel(clone.entity.endpoint, ("attach", clone.entity))
                self._clones.detach(clone)
                self._inputs.discard(clone.entity)
            case _:
                if (message := commands.consumer_message(command)) is not None:
                    self._clones.receive(clone, message)

    def _on_handshake_request(
        self, clone: CloneId, writer: WriterId | None, resolved_request: int
    ) -> None:
        if writer is None:
            raise DecodeError(f"clone {clone.entity} does not say as whom it writes")
        self._introduce(clone.entity, writer)
        if self._clones.remind(clone):
            return
        # Freezing a table takes its time: one does not wait, others do so, each asker in its turn.
        job = self._admit(clone, writer, resolved_request)
        if self._has_frozen:
            self._work.add(clone.entity.endpoint, ("attach", clone.entity), job)
        else:
            next(job, None)

    def _admit(self, clone: CloneId, writer: WriterId, resolved_request: int) -> Job:
        """Take a clone in, with a snapshot of this moment."""
        yield from ()
        if self._clones.remind(clone):
            return
        self._has_frozen = True
        # A snapshot in memory has all that was applied, so all of it has to be told before.
        self.requests.seal()
        self._proceed()
        source = self._clones.find_source()
        if source is None:
            source = SnapshotSource(
                self._table.columns,
                revision=self.revision,
                sequence=self._clones.sequence,
                past=None if self._commits is None else self._commits.past(),
                writers=self._ledger.rows(is_published=True),
            )
        welcome = Welcome(source, 0, (), self._gate.replicas)
        if (record := self._ledger.find(writer)) is not None:
            welcome.request = record.published_request
            welcome.outcomes = record.published(after=resolved_request)
        self._clones.admit(clone, welcome)

    def _answer(self, command: InternalCommand) -> None:
        """Answer a proxy: about one key at once, with a page in its turn."""
        if isinstance(command.content, commands.LookUpCommand):
            self._effects.append(answering.answer(self, self.epoch, command))
            return

        def reply(limit: int) -> None:
            self._effects.append(answering.answer(self, self.epoch, command, limit))

        job = in_steps(self._table.catch_up, reply)
        if not self._work.add(command.sender.endpoint, answering.name_of(command), job):
            self._effects.append(answering.refuse_busy(self, command))

    def _verify(self, asker: CloneId | None, token: int) -> None:
        self._verifier.ask(asker, token)
        self._compare()

    def _compare(self) -> None:
        """Start a comparison if one is wanted and none is under way."""
        if not self._verifier.is_due:
            return
        self.requests.seal()
        number = self._verifier.begin(self._clones.loaded())
        walk = self._table.walk = DigestWalk(self._table.columns, self._table.revision)
        self._apply(DigestCommand(number, walk.revision, walk.entry_count, None), None, None)
        self._proceed()
        self._work.add(None, "digest", self._walk(number, walk))

    def _walk(self, number: int, walk: DigestWalk) -> Job:
        while (own := walk.step(SLICE_COUNT)) is None:
            yield
        if self._table.walk is walk:
            self._table.walk = None
        action = DigestCommand(number, own.revision, own.entry_count, own.total)
        self._apply(action, None, None)
        self._proceed()
        self._verifier.conclude(number, own)
        self._tell_verified()

    def _tell_verified(self) -> None:
        for finished in self._verifier.take_finished():
            if finished.asker is None:
                self._effects.append(Verified(finished.token, finished.rows))
            elif finished.asker in self._clones:
                answer = commands.VerifyAnswerCommand(finished.token, finished.rows)
                self._clones.tell(finished.asker, answer)
        self._compare()

    def _on_barrier_request(self, clone: CloneId, number: int) -> None:
        """Answer when everything that is under way now has been told."""
        if clone not in self._clones:
            self._clones.refuse(clone)
            return
        self.requests.seal()
        self._proceed()
        # The answer to a later request of the same clone answers the earlier ones too.
        self._barriers[clone] = Barrier(number, self._applied_count)
        self._answer_barriers()

    def _on_history_request(self, clone: CloneId, after: int, until: int) -> None:
        if clone not in self._clones:
            self._clones.refuse(clone)
            return
        self._work.add(clone.entity.endpoint, ("history", clone), self._recall(clone, after, until))

    def _recall(self, clone: CloneId, after: int, until: int) -> Job:
        # The revision first: asking for it may add to the history.
        known = min(until, self.revision)
        self._clones.tell(clone, recalled(self.history, after, known))
        yield from ()

    def _answer_barriers(self) -> None:
        for clone, barrier in list(self._barriers.items()):
            if barrier.action_count <= self._published_count:
                del self._barriers[clone]
                self._clones.tell(clone, commands.BarrierAnswerCommand(barrier.number))

    def _on_acknowledged(self, clone: EntityId, sequence: int) -> None:
        writer = self._writers.get(clone)
        record = None if writer is None else self._ledger.find(writer)
        if record is not None:
            record.acknowledge(sequence)
        if self._gate.replicas:
            replicated = self._gate.sequence
            released = self._gate.acknowledge(self._clones.acknowledged())
            self._effects += [Resolve(outcome) for outcome in released]
            if self._gate.sequence > replicated:
                self._clones.tell_all(commands.ReplicatedCommand(), self._gate.sequence)
                self._proxies.tell_all()

    def _repeat_replicated(self) -> None:
        """Say again what may have got lost: a loss would go unnoticed."""
        if self._gate.replicas and self._clones:
            self._clones.tell_all(commands.ReplicatedCommand(), self._gate.sequence)

    def _on_proclaim(self, other: EntityId, epoch: int | None) -> None:
        if epoch is None or not self._rivals.is_led_by(other, epoch):
            return
        if self._rivals.is_fenced(epoch):
            self._depose(other, epoch)
        else:
            text = f"another master, at {other}, leads: close this one, or attach a clone instead"
            self._effects.append(SecondMaster(other, epoch))
            self._close(ErrorCode.MASTER_EXISTS, text)

    def _depose(self, other: EntityId, epoch: int) -> None:
        """Give up: in a later term there is another master, and this one's word counts no more."""
        text = f"the store has another master since {other} was promoted"
        revision = self.revision
        self.requests.seal()
        self._refuse_unanswered(ErrorCode.FENCED, text)
        self._is_closed = True
        self._say_goodbye(ErrorCode.FENCED, text)
        self._effects.append(Deposed(other, epoch, revision))

    # -- steps: requests -------------------------------------------------------------------------

    def _on_action(self, sender: EntityId, payload: bytes) -> None:
        """Carry out what a writer asks for, unless it is a repetition."""
        request = decode_action(payload)
        asked = request_range(request)
        if not isinstance(request, REQUESTS) or asked is None:
            raise DecodeError(f"{sender} sent a {type(request).__name__}, which only masters do")
        if request.writer != self._writers.get(sender):
            self._introduce(sender, request.writer)
        record = self._ledger.touch(request.writer)
        first, last = asked
        if last <= record.last_request:
            return
        vet(request, self._table)
        if first <= record.last_request:
            rest = rest_of(request, record.last_request)
            assert isinstance(rest, REQUESTS), rest
            self._perform(rest, None, record)
        else:
            self._perform(request, payload, record)

    def _introduce(self, sender: EntityId, writer: WriterId) -> None:
        """Remember as whom an entity writes, which it alone may do."""
        if writer.entity != sender:
            raise DecodeError(f"{sender} wants to write in the name of {writer.entity}")
        self._writers.pop(sender, None)
        self._writers[sender] = writer
        if len(self._writers) > WRITERS_MAX:
            del self._writers[next(iter(self._writers))]

    def _on_request(self, request: Action) -> None:
        """Carry out what the local handle asks for."""
        if self._is_closed:
            raise StoreClosed("the store is closed: attach it again")
        assert isinstance(request, REQUESTS), request
        self._perform(request, None, None)

    def _perform(
        self, request: Request, payload: bytes | None, record: WriterRecord | None
    ) -> None:
        for action in judge(request, self._table, self._now_ns, self.meter):
            self._apply(action, payload if action is request else None, record)

    def _apply(self, action: Action, payload: bytes | None, record: WriterRecord | None) -> None:
        table, size = self._table, size_of(action) if payload is None else len(payload)
        self.history.add(action, payload, size, table.revision, table.columns.values)
        table.apply(action)
        self._applied_count += 1
        match action:
            case PutCommand(_, _, None):
                pass
            case PutCommand(_, _, int() as expires_at_ns, pairs):
                for key in pairs[::2]:
                    self._expiries.add(key, expires_at_ns, self._table.columns.expiries)
            case BatchResultCommand(_, _, _, changes):
                for change in changes:
                    if change.expiry_ns is not None:
                        expiries = self._table.columns.expiries
                        self._expiries.add(change.key, change.expiry_ns, expiries)
            case ClearCommand() if self._commits is not None:
                self._commits.mark_cleared()
        outcome = outcome_of(action, self._table.revision)
        self._stage.add(action, payload, size, outcome, record)

    def _expire_due(self) -> None:
        job = self._expire()
        if next(job, job) is not job:
            self._work.add(None, "expiry", job)

    def _expire(self) -> Job:
        """Remove what is due, a slice at a time."""
        while True:
            expiries = self._table.columns.expiries
            due = self._expiries.take_due(self._now_ns, expiries, SLICE_COUNT)
            for start in range(0, len(due), RUN_COUNT_MAX):
                self._apply(ExpireCommand(due[start : start + RUN_COUNT_MAX]), None, None)
            if len(due) < SLICE_COUNT:
                return
            yield

    # -- steps: telling --------------------------------------------------------------------------

    def _proceed(self) -> None:
        """Tell what was applied; or begin to commit it, if no other commit is under way."""
        if not self._stage.actions or self._in_flight is not None:
            return
        self._look_at_quota()
        stage, self._stage = self._stage, Stage()
        if self._commits is None:
            self._publish(stage)
            return
        self._in_flight = stage
        self._token += 1
        changes = self._commits.start(self._ledger.take_touched(), self._ledger.take_forgotten())
        self._effects.append(Persist(self._token, changes))

    def _look_at_quota(self) -> None:
        entries, size = len(self._table), self._table.columns.size
        level = self.meter.look(entries, size)
        if level is not None:
            self._effects.append(QuotaCrossed(level, self.meter.describe(entries, size)))

    def _publish(self, stage: Stage) -> None:
        if self._clones:
            payloads = [payload or encode_action(action) for action, payload in stage.actions]
            self._clones.publish(payloads)
        else:
            self._clones.skip(len(stage.actions))
        self._published_count += len(stage.actions)
        sequence = self._clones.sequence
        for writer, request in stage.told.items():
            if (record := self._ledger.find(writer)) is not None:
                record.publish(request, sequence)
        self._proxies.tell(stage.told)
        self._effects += stage.changes
        if stage.outcomes:
            ready = self._gate.pass_through(sequence, stage.outcomes)
            self._effects += [Resolve(outcome) for outcome in ready]
        if self._gate.replicas:
            self._clones.ask_for_acknowledgements()
        if self._barriers:
            self._answer_barriers()

    def _on_changed(
        self,
        kind: ChangeKind,
        key: bytes,
        before: Entry | None,
        after: Entry | None,
        writer: WriterId | None,
        revision: int,
    ) -> None:
        self._stage.changes.append(Changed(kind, key, before, after, writer, revision))

    def _check_idle(self) -> None:
        for waiter in list(self._waiters):
            if waiter.action_count > self._published_count or self._gate:
                continue
            if waiter.sequence is None:
                waiter.sequence = self._clones.sequence
            missing = chain(self._clones.lagging(waiter.sequence), self._inputs.lagging())
            if next(missing, None) is None:
                self._waiters.remove(waiter)
                self._effects.append(IdleReached(waiter.token))

    def _close(self, code: ErrorCode, text: str) -> None:
        if self._is_closed:
            return
        self.requests.seal()
        self._is_closed = True
        self._refuse_unanswered(code, text)
        self._say_goodbye(code, text)
        self._effects.append(Closed(code, text))

    def _say_goodbye(self, code: ErrorCode, text: str) -> None:
        goodbye = commands.MasterClosedCommand(code, text)
        self._clones.tell_all(goodbye)
        self._proxies.say_goodbye(goodbye)

    def _refuse_unanswered(self, code: ErrorCode, text: str) -> None:
        refused = Refused(code, f"{text}: whether the mutation was kept is unknown")
        waiting = [*self._gate.held()]
        for stage in (self._in_flight, self._stage):
            waiting += [] if stage is None else stage.outcomes
            if stage is not None:
                stage.outcomes = []
        self._gate = ReplicaGate(0)
        self._effects += [Resolve(replace(outcome, result=refused)) for outcome in waiting]

    def _take_effects(self) -> list[Effect]:
        effects = self._effects[:]
        if effects:
            self._effects.clear()
        return effects
