"""The keeper of a log: decides about every append, and tells all followers.

The rule of the keeper: what a crash could take back is not shown. Receipts, readers and
followers are told of what is committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from stores import commands
from stores.actions import WriterId
from stores.broadcasting import CloneId
from stores.commands import InternalCommand
from stores.effects import (
    Closed,
    Deposed,
    Effect,
    IdleReached,
    QuotaCrossed,
    Resolve,
    SecondMaster,
    Unicast,
)
from stores.encoding import decode_command
from stores.inputs import Inputs
from stores.limits import UNRESOLVED_SIZE_MAX
from stores.log import messages
from stores.log.admission import Admission
from stores.log.changes import LoadedLog, LogChanges, Role
from stores.log.effects import Grown, LogEffect, PersistLog
from stores.log.encoding import (
    decode_message,
    decode_requests,
    encode_event,
    encode_message,
    is_log_message,
)
from stores.log.feed import Feed
from stores.log.judge import Judge
from stores.log.limits import RETENTION_TICKS
from stores.log.memory import Memory
from stores.log.messages import (
    Cursors,
    Fetch,
    LogMessage,
    Request,
    Requests,
    TimeQuery,
)
from stores.log.partitions import Partitions, Retention, RunInfo
from stores.log.readers import Readers
from stores.log.requests import LogRequests
from stores.log.runs import Run
from stores.log.staging import LogStage, apply_cursors
from stores.outcomes import Outcome, Refused, WriterRecord, outcomes_between
from stores.quota import Meter, Quota
from stores.replication import ReplicaGate
from stores.statistics import LogStatistics, lags_of, replicas_of
from stores.succession import Rivals
from stores.work import WithoutWork
from wire.errors import DecodeError, ErrorCode, StoreClosed, StoreError
from wire.identifiers import EndpointId, EntityId


@dataclass(frozen=True, slots=True)
class _Answers:
    """What one commit has to tell, as soon as enough followers have it."""

    outcomes: Sequence[Outcome]
    """Of the local handle."""
    told: dict[WriterId, int]
    """The last request of each other writer."""


_FENCED: Final = Refused(ErrorCode.FENCED, "the log has another keeper since a promotion")


class Keeper(WithoutWork):
    """The one that decides. Calls, messages and ticks in; effects out; no clock, no disk.

    Every method that gives effects has to have them carried out, in order, before the next call.
    ``now_ns`` is the time of the keeper's clock, in nanoseconds since 1970.
    """

    def __init__(
        self, entity: EntityId, loaded: LoadedLog, retention: Retention, replicas: int = 0
    ) -> None:
        """Start with what the backend kept; the epoch in it must never have been used.

        Receipts are given when so many followers have what they are about in their backends.
        """
        self.entity = entity
        self.epoch = loaded.epoch
        self.log_id = loaded.log_id
        self.partitions = Partitions(loaded.partitions)
        """What is committed."""
        self.cursors: dict[str, dict[int, int]] = {
            name: dict(positions) for name, positions in loaded.cursors
        }
        """Where every consumer is, as committed."""
        self._retention = retention
        self._has_more_due = False
        self._used = self.partitions.used()
        """Entries and bytes of what is committed, kept as they change."""
        self._lives = tuple(loaded.epochs)
        self._effects: list[LogEffect] = []
        self._memory = memory = Memory(loaded.writers, loaded.producers)
        self._judge = Judge(self.partitions, self.cursors, memory.producers)
        self._stage = LogStage()
        self._in_flight: LogStage | None = None
        self._token = 0
        self._now_ns = max(part.last_timestamp_ns for part in loaded.partitions)
        self._tick = 0
        self._is_closed = False
        self._deposed_by: int | None = None
        self._idle: dict[int, int | None] = {}
        self._readers = Readers(self._effects, self._answer, self._all_cursors)
        self._feed = Feed(entity, loaded.epoch, self._effects, self._admitted)
        self._joins: dict[CloneId, messages.Join] = {}
        self._admission = Admission(
            loaded.log_id, loaded.epoch, self._lives, self.partitions, memory
        )
        self._gate: ReplicaGate[_Answers] = ReplicaGate(replicas)
        if replicas:
            self._hold_back(memory)
        channel_effects: list[Effect] = self._effects  # type: ignore[assignment]  # of Effect these append only what is a LogEffect too
        self._inputs = Inputs(entity, channel_effects, self._on_payload)
        call = encode_message(entity, messages.Proclaim(loaded.epoch))
        self._rivals = Rivals(entity, loaded.epoch, channel_effects, call)
        self.requests = LogRequests(self._on_local)
        """What the local handle asks for. Call ``flush`` afterwards, once for many requests."""

    def __repr__(self) -> str:
        """Show in one line what matters when something hangs."""
        return (
            f"<Keeper {self.entity} epoch={self.epoch} ends={self.partitions.ends()}"
            f" staged={self._judge.staged_ends} followers={len(self._feed)}"
            f" waiting={len(self._readers)}>"
        )

    @property
    def size(self) -> int:
        """Bytes of all entries."""
        return self._used[1]

    def statistics(self) -> LogStatistics:
        """Give a snapshot of counts; changes nothing."""
        channel, spans = self._feed.statistics(), self.partitions.spans()
        entries, size = self._used
        return LogStatistics(
            "keeper",
            self.epoch,
            is_in_touch=True,
            spans=spans,
            sequence=self._feed.sequence,
            unacknowledged=channel.unacknowledged,
            replicas=self._gate.replicas,
            consumers=lags_of(self.cursors, spans),
            followers=replicas_of(channel.consumers),
            entries=entries,
            bytes=size,
            max_entries=self.meter.quota.max_entries,
            max_bytes=self.meter.quota.max_bytes,
        )

    @property
    def meter(self) -> Meter:
        """The quota, which its driver sets before anything is asked."""
        return self._judge.meter

    @meter.setter
    def meter(self, meter: Meter) -> None:
        self._judge.meter = meter

    def share_quota(self, meter: Meter) -> list[LogEffect]:
        """Judge by the quota of several logs from now on, and count as one of them at once."""
        self.meter = meter
        self._look_at_quota()
        return self._take_effects()

    def set_quota(self, quota: Quota) -> list[LogEffect]:
        """Judge by another quota from now on; what is there already stays."""
        self.meter.replace(quota)
        self._look_at_quota()
        return self._take_effects()

    # -- inputs ----------------------------------------------------------------------------------

    def receive(self, sender: EndpointId, payload: bytes, now_ns: int) -> list[LogEffect]:
        """Take in what came on the keeper's topic; raises ``DecodeError`` for what is bad."""
        self._see(now_ns)
        if not self._is_closed:
            if is_log_message(payload):
                entity, message = decode_message(payload)
                _check_sender(entity, sender)
                self._on_message(entity, message)
            else:
                command = decode_command(payload)
                _check_sender(command.sender, sender)
                self._on_command(command)
            self._check_idle()
        return self._take_effects()

    def flush(self, now_ns: int) -> list[LogEffect]:
        """Start to commit what was asked since the last flush: once per turn of the loop."""
        self._see(now_ns)
        if not self._is_closed:
            self.requests.seal()
            self._proceed()
            self._check_idle()
        return self._take_effects()

    def tick(self, now_ns: int) -> list[LogEffect]:
        """Let one tick (100 ms) pass; needs a flush afterwards like any other input."""
        self._see(now_ns)
        self._tick += 1
        if not self._is_closed:
            self._rivals.tick()
            self._feed.tick()
            self._inputs.tick()
            if self._tick % RETENTION_TICKS == 0 or self._has_more_due:
                self._retain()
            if self._tick % RETENTION_TICKS == 0:
                self._admission.retain(self._feed.pending())
                self._look_at_quota()
            self._readers.tick(self.partitions)
            if self._idle:
                self._feed.ask_for_acknowledgements()
            self._check_idle()
        return self._take_effects()

    def persisted(self, token: int) -> list[LogEffect]:
        """Take note that the changes of that ``PersistLog`` are durable."""
        assert token == self._token, (token, self._token)
        stage, self._in_flight = self._in_flight, None
        assert stage is not None, f"nothing is on its way to the disk, not even {token}"
        self._take_in(stage)
        if not self._is_closed:
            self._publish(stage)
            self._proceed()
            self._check_idle()
        return self._take_effects()

    def commit_failed(self, token: int, text: str) -> list[LogEffect]:
        """Close, because the backend is of no more use: nothing of what it was given is claimed."""
        assert token == self._token, (token, self._token)
        return self._close(ErrorCode.BACKEND_FAILURE, text)

    def was_read(
        self, reader: EntityId, query: Fetch | TimeQuery, runs: Sequence[Run], found: int | None
    ) -> list[LogEffect]:
        """Answer a remote reader with what the backend gave."""
        self._readers.was_read(reader, query, runs, found, self.partitions)
        return self._take_effects()

    def read_failed(
        self, reader: EntityId, query: Fetch | TimeQuery, error: StoreError
    ) -> list[LogEffect]:
        """Tell a remote reader that the backend could not give what it asked for."""
        self._readers.read_failed(reader, query, error)
        return self._take_effects()

    def close(self) -> list[LogEffect]:
        """Say goodbye. Flush, and wait until nothing is on its way to the disk, before."""
        return self._close(ErrorCode.SHUTTING_DOWN, "the log's keeper closed")

    def peer_unreachable(self, endpoint: EndpointId) -> list[LogEffect]:
        """Forget followers, writers and readers of an endpoint; those that return begin anew."""
        self._feed.discard_endpoint(endpoint)
        self._inputs.discard_endpoint(endpoint)
        self._readers.discard_endpoint(endpoint)
        self._check_idle()
        return self._take_effects()

    def endpoint_discovered(self, endpoint: EndpointId) -> list[LogEffect]:
        """Take note that there is a path to an endpoint: another keeper may be there."""
        if not self._is_closed:
            self._rivals.proclaim(endpoint)
        return self._take_effects()

    # -- the role --------------------------------------------------------------------------------

    def inherit(self, requests: LogRequests, unanswered: Iterable[bytes]) -> list[LogEffect]:
        """Go on for the handle of the follower that was promoted to this keeper.

        What the last keeper did is not done again: the memory tells.
        """
        self.requests = requests
        requests.serve(self._on_local)
        for payload in unanswered:
            asked = decode_requests(payload)
            last = asked.first_request + len(asked.requests) - 1
            record = self._memory.ledger.find(asked.writer)
            if record is None or record.last_request < last:
                self._on_local(asked.first_request, asked.requests)
            else:
                known = outcomes_between(tuple(record.outcomes), asked.first_request, last)
                self._stage.outcomes += known
        return self._take_effects()

    def legacy(self, known_epoch: int) -> LoadedLog:
        """Give what a deposed keeper has for the follower in its place.

        What was remembered is not among it: a part of it may be of what was never committed.
        """
        parts = [self.partitions[number] for number in range(len(self.partitions))]
        return LoadedLog(
            *(self.log_id, self.epoch, parts, self._all_cursors(), self._lives),
            role=Role.DEPOSED,
            known_epoch=known_epoch,
        )

    # -- idleness --------------------------------------------------------------------------------

    def begin_idle(self, token: int) -> list[LogEffect]:
        """Wait until everything that was asked is told, and acknowledged by all followers."""
        self._idle[token] = None
        if not self._is_closed:
            self.requests.seal()
            self._feed.ask_for_acknowledgements()
            self._check_idle()
        return self._take_effects()

    def cancel_idle(self, token: int) -> None:
        """Stop waiting."""
        self._idle.pop(token, None)

    def explain_idle(self) -> str:
        """Say what is missing for the log to be idle; empty if nothing is."""
        missing = [*self._feed.lagging(self._feed.sequence), *self._inputs.lagging()]
        if not self._is_settled:
            missing.append("the latest appends are not committed yet")
        if self._gate:
            missing.append(f"receipts wait for {self._gate.replicas} followers")
        return "; ".join(missing)

    def has_room(self) -> bool:
        """Tell whether the local handle may ask for more; otherwise wait for a ``Resolve``."""
        in_flight = 0 if self._in_flight is None else self._in_flight.size
        return self._stage.size + in_flight < UNRESOLVED_SIZE_MAX

    def is_stale(self, now_ns: int) -> bool:
        """Give false: what the keeper has is the log."""
        return False

    # -- steps: messages -------------------------------------------------------------------------

    def _on_command(self, command: InternalCommand) -> None:
        if (event := commands.producer_message(command)) is not None:
            self._inputs.receive(command.sender, event)
        elif isinstance(command.content, commands.DetachCommand):
            self._feed.discard_entity(command.sender)
            self._inputs.discard(command.sender)
        elif (message := commands.consumer_message(command)) is not None:
            if command.session is None:
                raise DecodeError(f"{command.sender} names no session")
            self._feed.receive(CloneId(command.sender, command.session), message)
            self._release(self._gate.acknowledge(self._feed.acknowledged()))

    def _on_message(self, sender: EntityId, message: LogMessage) -> None:
        match message:
            case messages.Hello():
                self._on_hello(sender, message)
            case messages.Join():
                self._on_join(sender, message)
            case messages.MemoryQuery():
                page = self._admission.page(CloneId(sender, message.session), message)
                self._answer(sender, page)
            case messages.Proclaim(epoch):
                self._on_proclaim(sender, epoch)
            case Fetch() | TimeQuery() | messages.StateQuery():
                self._readers.ask(sender, message, self.partitions)
            case _:
                raise DecodeError(f"{sender} sent a {type(message).__name__}, as keepers do")

    def _on_hello(self, sender: EntityId, hello: messages.Hello) -> None:
        self._introduce(sender, hello.writer)
        if self._rivals.is_fenced(hello.known_epoch):
            self._depose(sender, hello.known_epoch)
            return
        record = self._memory.ledger.find(hello.writer)
        request = 0 if record is None else record.answered_request
        resolved = hello.resolved_request
        outcomes = () if record is None else record.published(after=resolved, until=request)
        count, sequence = len(self.partitions), self._feed.sequence
        welcome = messages.Welcome(
            self.epoch, hello.number, self.log_id, count, sequence, request, outcomes
        )
        self._answer(sender, welcome)

    def _on_proclaim(self, other: EntityId, epoch: int) -> None:
        """Give way to a keeper that began later, whom everybody else follows; tell an earlier."""
        if not self._rivals.is_led_by(other, epoch):
            return
        if self._rivals.is_fenced(epoch):
            self._depose(other, epoch)
            return
        text = f"the log has another keeper, at {other}: attach a clone or a proxy here"
        self._effects.append(SecondMaster(other, epoch))
        self._end(ErrorCode.FENCED, text)

    def _depose(self, other: EntityId, epoch: int) -> None:
        """Give up: in a later term there is another keeper, and this one's word counts no more."""
        if self._deposed_by is not None:
            return
        self._deposed_by = epoch
        self._refuse_unanswered(ErrorCode.FENCED, _FENCED.text)
        self._effects.append(Deposed(other, epoch, sum(self.partitions.ends())))

    def _on_join(self, sender: EntityId, join: messages.Join) -> None:
        follower = CloneId(sender, join.session)
        self._joins[follower] = join
        self._feed.admit(follower)
        self._joins.clear()

    def _admitted(self, follower: CloneId, sequence: int, interval_ticks: int) -> bytes:
        """Write what a follower is told: what of its copy is right, and what there is."""
        join = self._joins.get(follower) or messages.Join(follower.session, 0, 0, (), 0)
        cursors = self._all_cursors()
        admitted = self._admission.admit(follower, join, sequence, interval_ticks, cursors)
        return encode_message(self.entity, admitted)

    def _all_cursors(self) -> Cursors:
        return tuple((name, tuple(at.items())) for name, at in self.cursors.items())

    def _answer(self, to: EntityId, message: LogMessage) -> None:
        self._effects.append(Unicast(to.endpoint, encode_message(self.entity, message)))

    # -- steps: requests -------------------------------------------------------------------------

    def _introduce(self, sender: EntityId, writer: WriterId) -> None:
        if writer.entity != sender:
            raise DecodeError(f"{sender} wants to write in the name of {writer.entity}")

    def _on_payload(self, sender: EntityId, payload: bytes) -> None:
        """Do what a writer asks, unless it is a repetition."""
        asked = decode_requests(payload)
        self._introduce(sender, asked.writer)
        record = self._memory.ledger.touch(asked.writer)
        record.forget(asked.resolved_request)
        last = asked.first_request + len(asked.requests) - 1
        if last <= record.last_request:
            return
        if asked.first_request <= record.last_request:
            raise DecodeError(f"{sender} repeats a part of what belongs together")
        self._perform_all(asked, record)

    def _perform_all(self, asked: Requests, record: WriterRecord) -> None:
        for number, request in enumerate(asked.requests, asked.first_request):
            outcome = Outcome(
                number, number, self._judge.perform(request, self._stage, self._now_ns)
            )
            record.add(outcome)
            self._stage.answer(asked.writer, asked.resolved_request, outcome)

    def _on_local(self, first_request: int, requests: tuple[Request, ...]) -> None:
        """Do what the local handle asks for."""
        if self._deposed_by is not None:
            last = first_request + len(requests) - 1
            self._effects.append(Resolve(Outcome(first_request, last, _FENCED)))
            return
        if self._is_closed:
            raise StoreClosed("the log is closed: attach it again")
        for number, request in enumerate(requests, first_request):
            self._stage.outcomes.append(
                Outcome(number, number, self._judge.perform(request, self._stage, self._now_ns))
            )

    def _retain(self) -> None:
        starts, self._has_more_due = self.partitions.due(self._retention, self._now_ns)
        for number, start in starts:
            self._stage.starts[number] = max(start, self._stage.starts.get(number, 0))

    # -- steps: telling --------------------------------------------------------------------------

    def _proceed(self) -> None:
        """Start to commit what was decided, if no other commit is under way."""
        if self._stage.is_empty or self._in_flight is not None:
            return
        stage, self._stage = self._stage, LogStage()
        stage.seal()
        self._in_flight = stage
        entries, size = self._judge.used
        self._judge.used = entries + stage.count, size + stage.size
        self._token += 1
        ledger, known = self._memory.ledger, self._memory.producers
        writers, gone_writers = ledger.take_touched(), ledger.take_forgotten()
        producers, gone_producers = known.take_touched(), known.take_forgotten()
        stage.remember(producers, gone_writers, gone_producers)
        changes = LogChanges(
            runs=stage.runs,
            starts=tuple(stage.starts.items()),
            cursors=stage.moved(),
            forgotten_consumers=stage.forgotten(),
            writers=writers,
            forgotten_writers=gone_writers,
            producers=producers,
            forgotten_producers=gone_producers,
        )
        self._effects.append(PersistLog(self._token, changes))

    def _take_in(self, stage: LogStage) -> None:
        touched = {run.partition for run in stage.runs}.union(stage.starts)
        entries_before, size_before = self.partitions.used(touched)
        for run in stage.runs:
            size = len(run.body)
            info = RunInfo(run.first_offset, run.count, run.timestamp_ns, size)
            self.partitions[run.partition].extend(info)
        for number, start in stage.starts.items():
            self.partitions[number].trim(start)
        apply_cursors(self.cursors, stage.forgotten(), stage.moved())
        entries_after, size_after = self.partitions.used(touched)
        entries, size = self._used
        self._used = entries + entries_after - entries_before, size + size_after - size_before
        self._judge.used = self._used
        self._look_at_quota()

    def _look_at_quota(self) -> None:
        entries, size = self._judge.used
        entries, size = entries + self._stage.count, size + self._stage.size
        level = self.meter.look(entries, size)
        if level is not None:
            self._effects.append(QuotaCrossed(level, self.meter.describe(entries, size)))

    def _publish(self, stage: LogStage) -> None:
        events = stage.events()
        if len(self._feed):
            self._feed.publish([encode_event(event) for event in events])
        else:
            self._feed.skip(len(events))
        self._memory.was_told(self._feed.sequence, stage.remembered)
        if stage.is_awaited:
            self._pass(self._feed.sequence, [_Answers(stage.outcomes, stage.told())])
            if self._gate:
                self._feed.ask_for_acknowledgements()
        if stage.runs or stage.starts:
            self._effects.append(Grown())
            self._readers.look_again(self.partitions)

    def _hold_back(self, memory: Memory) -> None:
        """Withhold what an earlier life did before enough followers have it."""
        told: dict[WriterId, int] = {}
        for record in memory.ledger.records():
            told[record.writer] = record.last_request
            record.answered_request = 0
        self._pass(self._feed.sequence, [_Answers((), told)])

    def _pass(self, sequence: int, answers: list[_Answers]) -> None:
        """Give answers as soon as enough followers have all events up to this one."""
        self._release(self._gate.pass_through(sequence, answers))

    def _release(self, answers: Iterable[_Answers]) -> None:
        for each in answers:
            for writer, request in each.told.items():
                self._tell(writer, request)
            self._effects += [Resolve(outcome) for outcome in each.outcomes]

    def _tell(self, writer: WriterId, request: int) -> None:
        record = self._memory.ledger.find(writer)
        if record is None:
            return
        after, record.answered_request = record.answered_request, request
        outcomes = record.published(after=after, until=request)
        self._answer(writer.entity, messages.Answers(self.epoch, after, outcomes))

    @property
    def _is_settled(self) -> bool:
        return self.requests.is_sealed and self._stage.is_empty and self._in_flight is None

    def _check_idle(self) -> None:
        if self._is_closed:
            return
        for token, sequence in list(self._idle.items()):
            if sequence is None:
                if not self._is_settled or self._gate:
                    continue
                sequence = self._idle[token] = self._feed.sequence
            if next(self._feed.lagging(sequence), None) is None:
                del self._idle[token]
                self._effects.append(IdleReached(token))

    def _close(self, code: ErrorCode, text: str) -> list[LogEffect]:
        self._end(code, text)
        return self._take_effects()

    def _end(self, code: ErrorCode, text: str) -> None:
        if not self._is_closed:
            self._refuse_unanswered(code, text)
            self._effects.append(Closed(code, text))

    def _refuse_unanswered(self, code: ErrorCode, text: str) -> None:
        if self._deposed_by is None:
            self.requests.seal()
        self._is_closed = True
        refused = Refused(code, f"{text}: whether the backend kept it is unknown"[:200])
        waiting = [outcome for each in self._gate.held() for outcome in each.outcomes]
        for stage in (self._in_flight, self._stage):
            waiting += [] if stage is None else stage.outcomes
        self._effects += [Resolve(replace(outcome, result=refused)) for outcome in waiting]

    def _see(self, now_ns: int) -> None:
        """Take in the time, which for a log does not go back."""
        self._now_ns = max(self._now_ns, now_ns)

    def _take_effects(self) -> list[LogEffect]:
        effects = self._effects[:]
        self._effects.clear()
        return effects


def _check_sender(entity: EntityId, sender: EndpointId) -> None:
    if entity.endpoint != sender:
        raise DecodeError(f"{sender} sent a message of a log in the name of {entity}")
