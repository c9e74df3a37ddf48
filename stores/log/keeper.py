"""The keeper of a log: decides about every append, and tells all followers.

The rule of the keeper: what a crash could take back is seen by nobody. Receipts, readers and
followers are told of what is committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, assert_never

from stores import commands
from stores.actions import WriterId
from stores.broadcasting import CloneId
from stores.commands import InternalCommand
from stores.effects import Closed, Effect, IdleReached, Resolve, SecondMaster, ToOwnKind, Unicast
from stores.encoding import decode_command
from stores.inputs import Inputs
from stores.limits import UNRESOLVED_SIZE_MAX
from stores.log import messages
from stores.log.changes import LoadedLog, LogChanges
from stores.log.effects import Grown, LogEffect, PersistLog, ReadFor
from stores.log.encoding import (
    decode_message,
    decode_requests,
    encode_event,
    encode_message,
    is_log_message,
)
from stores.log.feed import Feed
from stores.log.limits import CONSUMERS_MAX, CURSORS_MAX, FETCH_SIZE_MAX, WAIT_TICKS_MAX
from stores.log.messages import (
    Append,
    Cursors,
    Fetch,
    ForgetConsumer,
    LogMessage,
    MoveCursor,
    Positions,
    Request,
    Requests,
    TimeQuery,
    Trim,
)
from stores.log.partitions import Partitions, Retention, RunInfo
from stores.log.producers import Producers
from stores.log.requests import LogRequests
from stores.log.runs import Run
from stores.log.staging import LogStage
from stores.log.waiting import WaitingFetches, is_ready
from stores.outcomes import Applied, Ledger, Outcome, Refused, WriterRecord
from wire.errors import DecodeError, ErrorCode, InvalidData, StoreClosed, StoreError
from wire.identifiers import EndpointId, EntityId

PROCLAIM_TICKS: Final = 10
"""Ticks between two calls to other keepers: a second. They cost nothing while there is none."""

RETENTION_TICKS: Final = 5
"""Ticks between two looks at what retention lets go."""


class Keeper:
    """The one that decides. Calls, messages and ticks in; effects out; no clock, no disk.

    Every method that gives effects has to have them carried out, in order, before the next call.
    ``now_ns`` is the time of the keeper's clock, in nanoseconds since 1970.
    """

    def __init__(self, entity: EntityId, loaded: LoadedLog, retention: Retention) -> None:
        """Start with what the backend kept; the epoch in it has to be one that nobody had."""
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
        self._epochs = list(loaded.epochs)
        self._effects: list[LogEffect] = []
        self._staged_ends = list(self.partitions.ends())
        self._ledger = Ledger(loaded.writers)
        self._producers = Producers(loaded.producers)
        self._writers: dict[EntityId, WriterId] = {}
        self._stage = LogStage()
        self._in_flight: LogStage | None = None
        self._token = 0
        self._now_ns = max(part.last_timestamp_ns for part in loaded.partitions)
        self._tick = 0
        self._is_closed = False
        self._idle: dict[int, int | None] = {}
        self._waiting = WaitingFetches()
        self._feed = Feed(entity, loaded.epoch, self._effects, self._admitted)
        self._joins: dict[CloneId, messages.Join] = {}
        channel_effects: list[Effect] = self._effects  # type: ignore[assignment]  # of Effect it appends Unicast alone
        self._inputs = Inputs(entity, channel_effects, self._on_payload)
        self.requests = LogRequests(self._on_local)
        """What the local handle asks for. Call ``flush`` afterwards, once for many requests."""

    def __repr__(self) -> str:
        """Show in one line what matters when something hangs."""
        return (
            f"<Keeper {self.entity} epoch={self.epoch} ends={self.partitions.ends()}"
            f" staged={self._staged_ends} followers={len(self._feed)} waiting={len(self._waiting)}>"
        )

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
        """Begin to commit what was asked since the last flush: once per turn of the loop."""
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
            if self._tick % PROCLAIM_TICKS == 1:
                self._proclaim(None)
            self._feed.tick()
            self._inputs.tick()
            if self._tick % RETENTION_TICKS == 0:
                self._retain()
            for reader, fetch in self._waiting.take_late():
                self._answer(reader, self._fetched(fetch, ()))
            if self._idle:
                self._feed.ask_for_acknowledgements()
            self._check_idle()
        return self._take_effects()

    def persisted(self, token: int) -> list[LogEffect]:
        """Take note that the changes of that ``PersistLog`` are durable."""
        assert token == self._token, (token, self._token)
        stage, self._in_flight = self._in_flight, None
        assert stage is not None, f"nothing is on its way to the disk, not even {token}"
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
        """Answer somebody elsewhere with what the backend gave."""
        if isinstance(query, TimeQuery):
            end = self.partitions[query.partition].end
            start = self.partitions[query.partition].start
            offset = end if found is None else max(found, start)
            self._answer(reader, messages.Found(query.query, offset))
        else:
            self._answer(reader, self._fetched(query, tuple(runs)))
        return self._take_effects()

    def close(self) -> list[LogEffect]:
        """Say goodbye. Flush, and wait until nothing is on its way to the disk, before."""
        return self._close(ErrorCode.SHUTTING_DOWN, "the log's keeper closed")

    def peer_unreachable(self, endpoint: EndpointId) -> list[LogEffect]:
        """Forget followers, writers and readers of an endpoint; those that return begin anew."""
        self._feed.discard_endpoint(endpoint)
        self._inputs.discard_endpoint(endpoint)
        self._waiting.discard_endpoint(endpoint)
        self._check_idle()
        return self._take_effects()

    # -- idleness --------------------------------------------------------------------------------

    def begin_idle(self, token: int) -> list[LogEffect]:
        """Wait until everything that was asked is told, and acknowledged by all followers."""
        self.requests.seal()
        self._idle[token] = None
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

    def _on_message(self, sender: EntityId, message: LogMessage) -> None:
        match message:
            case messages.Hello():
                self._on_hello(sender, message)
            case messages.Join():
                self._on_join(sender, message)
            case messages.Proclaim(epoch):
                self._on_proclaim(sender, epoch)
            case Fetch() | TimeQuery() | messages.StateQuery():
                self._on_query(sender, message)
            case _:
                raise DecodeError(f"{sender} sent a {type(message).__name__}, as keepers do")

    def _on_hello(self, sender: EntityId, hello: messages.Hello) -> None:
        self._introduce(sender, hello.writer)
        record = self._ledger.find(hello.writer)
        request = 0 if record is None else record.published_request
        outcomes = () if record is None else record.published(after=hello.resolved_request)
        count, sequence = len(self.partitions), self._feed.sequence
        welcome = messages.Welcome(
            self.epoch, hello.number, self.log_id, count, sequence, request, outcomes
        )
        self._answer(sender, welcome)

    def _on_proclaim(self, other: EntityId, epoch: int) -> None:
        """Give way to a keeper that began later, whom everybody else follows; tell an earlier."""
        if (epoch, other) < (self.epoch, self.entity):
            self._proclaim(other.endpoint)
            return
        text = f"the log has another keeper, at {other}: attach a clone or a proxy here"
        self._effects.append(SecondMaster(other, epoch))
        self._end(ErrorCode.FENCED, text)

    def _proclaim(self, to: EndpointId | None) -> None:
        payload = encode_message(self.entity, messages.Proclaim(self.epoch))
        self._effects.append(ToOwnKind(to, payload))

    def _on_join(self, sender: EntityId, join: messages.Join) -> None:
        follower = CloneId(sender, join.session)
        self._joins[follower] = join
        self._feed.admit(follower)
        self._joins.clear()

    def _admitted(self, follower: CloneId, sequence: int, interval_ticks: int) -> bytes:
        """Write what a follower is told: what of its copy is right, and what there is."""
        join = self._joins.get(follower)
        agreed = (0,) * len(self.partitions) if join is None else self._agreed(join)
        starts, ends = self.partitions.starts(), self.partitions.ends()
        admitted = messages.Admitted(
            self.epoch,
            follower.session,
            sequence,
            interval_ticks,
            self.log_id,
            starts,
            ends,
            agreed,
            self._all_cursors(),
        )
        return encode_message(self.entity, admitted)

    def _agreed(self, join: messages.Join) -> tuple[int, ...]:
        """Say up to where a copy is right, by what later lives of the keeper began with."""
        ends = self.partitions.ends()
        if join.log_id != self.log_id or len(join.ends) != len(ends):
            return (0,) * len(ends)
        known = [life.epoch for life in self._epochs]
        if join.epoch not in known:
            return (0,) * len(ends)
        later = [life.ends for life in self._epochs if life.epoch > join.epoch]
        limits = [ends, join.ends, *later[:1]]
        return tuple(map(min, zip(*limits, strict=True)))

    def _on_query(self, reader: EntityId, query: messages.Query) -> None:
        try:
            self._look_up(reader, query)
        except StoreError as error:
            self._answer(reader, messages.QueryFailed(query.query, error.code, str(error)[:200]))

    def _look_up(self, reader: EntityId, query: messages.Query) -> None:
        match query:
            case messages.StateQuery(number):
                starts, ends = self.partitions.starts(), self.partitions.ends()
                state = messages.State(number, starts, ends, self._all_cursors())
                self._answer(reader, state)
            case TimeQuery(_, partition, _):
                _ = self.partitions[partition]  # it raises if there is none
                self._effects.append(ReadFor(reader, query))
            case Fetch(number, positions, size_max, wait_ticks):
                size, ticks = min(size_max, FETCH_SIZE_MAX), min(wait_ticks, WAIT_TICKS_MAX)
                query = Fetch(number, positions, size, ticks)
                if is_ready(query, self.partitions):
                    self._effects.append(ReadFor(reader, query))
                elif not query.wait_ticks or not self._waiting.add(reader, query):
                    self._answer(reader, self._fetched(query, ()))
            case _:
                assert_never(query)

    def _fetched(self, fetch: Fetch, runs: tuple[Run, ...]) -> messages.Fetched:
        spans = [self.partitions[partition].span for partition, _ in fetch.positions]
        starts, ends = tuple(span.start for span in spans), tuple(span.end for span in spans)
        return messages.Fetched(fetch.query, runs, starts, ends)

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
        record = self._ledger.touch(asked.writer)
        record.forget(asked.resolved_request)
        last = asked.first_request + len(asked.requests) - 1
        if last <= record.last_request:
            return
        if asked.first_request <= record.last_request:
            raise DecodeError(f"{sender} repeats a part of what belongs together")
        self._perform_all(asked, record)

    def _perform_all(self, asked: Requests, record: WriterRecord) -> None:
        for number, request in enumerate(asked.requests, asked.first_request):
            record.add(Outcome(number, number, self._perform(request)))
        self._stage.told[asked.writer] = record.last_request

    def _on_local(self, first_request: int, requests: tuple[Request, ...]) -> None:
        """Do what the local handle asks for."""
        if self._is_closed:
            raise StoreClosed("the log is closed: attach it again")
        for number, request in enumerate(requests, first_request):
            self._stage.outcomes.append(Outcome(number, number, self._perform(request)))

    def _perform(self, request: Request) -> Applied | Refused:
        try:
            match request:
                case Append():
                    return self._append(request)
                case MoveCursor(consumer, positions):
                    return self._move_cursor(consumer, positions)
                case ForgetConsumer(consumer):
                    self._stage.forget_consumer(consumer)
                    return Applied(0)
                case Trim(partition, offset):
                    return self._trim(partition, offset)
                case _:
                    assert_never(request)
        except StoreError as error:
            return Refused(error.code, str(error)[:200])

    def _append(self, request: Append) -> Applied:
        partition, producer = request.partition, request.producer
        _ = self.partitions[partition]  # it raises if there is none
        if producer is not None:
            found = self._producers.find(producer, request.sequence)
            if found is not None:
                if found[0] != partition:
                    raise InvalidData(
                        f"producer {producer} appended {request.sequence} to partition {found[0]}"
                    )
                return Applied(found[1], answer=False)
        offset = self._staged_ends[partition]
        self._staged_ends[partition] = offset + len(request.entries) // 2
        self._stage.append(partition, offset, request.entries, self._now_ns)
        if producer is not None:
            self._producers.add(producer, request.sequence, partition, offset)
        return Applied(offset)

    def _move_cursor(self, consumer: str, positions: Positions) -> Applied:
        for partition, offset in positions:
            _ = self.partitions[partition]  # it raises if there is none
            if offset > self._staged_ends[partition]:
                raise InvalidData(
                    f"partition {partition} ends at {self._staged_ends[partition]}: a consumer"
                    f" cannot be done with what is before {offset}"
                )
        count = len(self.cursors) + len(self._stage.cursors)
        is_known = consumer in self.cursors or consumer in self._stage.cursors
        if not is_known and count >= CONSUMERS_MAX:
            raise InvalidData(f"a log has up to {CONSUMERS_MAX} consumers: forget some")
        if not is_known and (count + 1) * len(self.partitions) > CURSORS_MAX:
            raise InvalidData(f"a log has up to {CURSORS_MAX} cursors: forget some consumers")
        self._stage.move_cursor(consumer, positions)
        return Applied(0)

    def _trim(self, partition: int, offset: int) -> Applied:
        start = max(self.partitions[partition].start, min(offset, self._staged_ends[partition]))
        self._stage.starts[partition] = max(start, self._stage.starts.get(partition, 0))
        return Applied(start)

    def _retain(self) -> None:
        for number in range(len(self.partitions)):
            partition = self.partitions[number]
            start = partition.due(self._retention, self._now_ns)
            if start > partition.start:
                self._stage.starts[number] = max(start, self._stage.starts.get(number, 0))

    # -- steps: telling --------------------------------------------------------------------------

    def _proceed(self) -> None:
        """Begin to commit what was decided, if no other commit is under way."""
        if self._stage.is_empty or self._in_flight is not None:
            return
        stage, self._stage = self._stage, LogStage()
        stage.seal()
        self._in_flight = stage
        self._token += 1
        changes = LogChanges(
            runs=stage.runs,
            starts=tuple(stage.starts.items()),
            cursors=stage.moved(),
            forgotten_consumers=stage.forgotten(),
            writers=self._ledger.take_touched(),
            forgotten_writers=self._ledger.take_forgotten(),
            producers=self._producers.take_touched(),
            forgotten_producers=self._producers.take_forgotten(),
        )
        self._effects.append(PersistLog(self._token, changes))

    def _publish(self, stage: LogStage) -> None:
        for run in stage.runs:
            size = len(run.body)
            info = RunInfo(run.first_offset, run.count, run.timestamp_ns, size)
            self.partitions[run.partition].extend(info)
        for number, start in stage.starts.items():
            self.partitions[number].trim(start)
        apply_cursors(self.cursors, stage.forgotten(), stage.moved())
        if events := stage.events():
            self._feed.publish([encode_event(event) for event in events])
        for writer, request in stage.told.items():
            self._tell(writer, request)
        self._effects += [Resolve(outcome) for outcome in stage.outcomes]
        if stage.runs or stage.starts:
            self._effects.append(Grown())
            for reader, fetch in self._waiting.take_ready(self.partitions):
                self._effects.append(ReadFor(reader, fetch))

    def _tell(self, writer: WriterId, request: int) -> None:
        record = self._ledger.find(writer)
        if record is None:
            return
        after, record.published_request = record.published_request, request
        answers = messages.Answers(self.epoch, after, record.published(after=after))
        self._answer(writer.entity, answers)

    @property
    def _is_settled(self) -> bool:
        return self.requests.is_sealed and self._stage.is_empty and self._in_flight is None

    def _check_idle(self) -> None:
        for token, sequence in list(self._idle.items()):
            if sequence is None:
                if not self._is_settled:
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
            self.requests.seal()
            self._is_closed = True
            refused = Refused(code, f"{text}: whether the backend kept it is unknown"[:200])
            for stage in (self._in_flight, self._stage):
                for outcome in [] if stage is None else stage.outcomes:
                    number = outcome.first_request
                    self._effects.append(Resolve(Outcome(number, number, refused)))
            self._effects.append(Closed(code, text))

    def _see(self, now_ns: int) -> None:
        """Take in the time, which for a log does not go back."""
        self._now_ns = max(self._now_ns, now_ns)

    def _take_effects(self) -> list[LogEffect]:
        effects = self._effects[:]
        self._effects.clear()
        return effects


def apply_cursors(
    cursors: dict[str, dict[int, int]], forgotten: Sequence[str], moved: Cursors
) -> None:
    """Take in where consumers are now."""
    for consumer in forgotten:
        cursors.pop(consumer, None)
    for consumer, positions in moved:
        cursors.setdefault(consumer, {}).update(positions)


def _check_sender(entity: EntityId, sender: EndpointId) -> None:
    if entity.endpoint != sender:
        raise DecodeError(f"{sender} sent a message of a log in the name of {entity}")
