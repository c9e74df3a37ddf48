"""A follower of a log: copies the keeper's entries, serves reads from them, passes appends on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from typing import Final

from channels import (
    Consumer,
    ConsumerMessage,
    CumulativeAck,
    Handshake,
    HandshakeRequest,
    UnknownConsumer,
)
from stores import commands
from stores.broadcasting import STORE_CHANNEL
from stores.commands import Content, InternalCommand, KeepaliveCommand
from stores.effects import Closed, IdleReached, MasterFound
from stores.limits import UNRESOLVED_SIZE_MAX
from stores.log import messages
from stores.log.changes import EpochEnds, LoadedLog
from stores.log.copy import Copy
from stores.log.effects import Grown, LogEffect, PersistLog
from stores.log.encoding import decode_event
from stores.log.limits import FETCH_SIZE_MAX
from stores.log.memory import Remembered
from stores.log.messages import Admitted, Fetch, Fetched, LogMessage, MemoryPage, QueryFailed
from stores.log.partitions import Partitions
from stores.log.proxy import Proxy
from stores.log.requests import LogRequests
from stores.seeker import LeaderId
from stores.statistics import LogStatistics, lags_of
from stores.succession import Assessment
from wire.errors import DecodeError, ErrorCode
from wire.identifiers import EndpointId, EntityId

JOIN_TICKS: Final = 2
"""Ticks after which a follower that was not taken in asks again."""

FETCH_TICKS: Final = 10
"""Ticks after which a fetch, or its answer, counts as lost."""


class Phase(Enum):
    """How far a follower is with its keeper."""

    SEARCHING = "searching for the keeper"
    JOINING = "waiting to be taken in"
    CATCHING_UP = "fetching what it lacks"
    SYNCED = "following"


class _Ear:
    """The backend of the channel from the keeper."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self.error: DecodeError | None = None

    def consume_run(self, consumer: Consumer[bytes], payloads: Sequence[bytes]) -> None:
        """Do what the keeper did; what makes no sense ends the channel."""
        try:
            for sequence, payload in enumerate(payloads, consumer.next_sequence):
                self._follower.copy.consume(decode_event(payload), sequence)
        except DecodeError as error:
            self.error = error
            consumer.stop()

    def send(self, consumer: Consumer[bytes], message: ConsumerMessage) -> None:
        """Put a message of the channel to the keeper in the form of a command."""
        if isinstance(message, CumulativeAck):
            self._follower.acknowledge(message.sequence)
        elif not isinstance(message, HandshakeRequest):  # we ask to join instead
            self._follower.send_to_keeper(*commands.consumer_command(message))

    def consume_nil(self, consumer: Consumer[bytes]) -> ErrorCode:
        """Give up: without that event the copy would be none that the keeper ever had."""
        return ErrorCode.BROKEN_CLONE

    def close(self, consumer: Consumer[bytes], reason: ErrorCode) -> None:
        """Wait for the owner to notice."""


class Follower(Proxy):
    """A proxy with a copy, which is always some past state of the keeper's, and grows.

    Only a keeper with another log of the same name, or one that lost its disk, can take entries
    out of it. Reads look at ``partitions`` and the backend.
    """

    def __init__(
        self,
        entity: EntityId,
        incarnation: int,
        loaded: LoadedLog,
        *,
        patience_ticks: int | None,
        stale_interval_ns: int | None,
        requests: LogRequests | None = None,
    ) -> None:
        """Start with what the backend kept; call ``start`` next.

        Data is never called stale if the interval is ``None``. A deposed keeper leaves its
        ``requests``.
        """
        super().__init__(entity, incarnation, patience_ticks, requests)
        self.contact.seeker.hint(max(loaded.epoch, loaded.known_epoch))
        self.copy = Copy(loaded)
        self.phase = Phase.SEARCHING
        self._stale_interval_ns = stale_interval_ns
        self._started_ns = self._session = incarnation
        self._joined: LeaderId | None = None
        self._ear = _Ear(self)
        self._consumer: Consumer[bytes] = Consumer(self._ear, config=STORE_CHANNEL)
        self._admitted: Admitted | None = None
        self._pages: list[Remembered] = []
        """What the keeper remembered when it took us in, as far as it has come."""
        self._floor = 0
        """The event after which we were taken in."""
        self._owed = 0
        """The event that we owe an acknowledgement of: it is on its way to the backend."""
        self._is_paused = False
        self._ticks = 0
        self._fetch: Fetch | None = None
        self._fetches = 0
        self._token = 0

    def __repr__(self) -> str:
        """Show in one line what matters when something hangs."""
        return (
            f"<Follower {self.entity} {self.phase.value} ends={self.copy.ends} {self.contact!r}"
            f" {self._consumer!r}>"
        )

    @property
    def size(self) -> int:
        """Bytes of all entries."""
        return self.partitions.used()[1]

    def statistics(self) -> LogStatistics:
        """Give a snapshot of counts; changes nothing."""
        spans = self.partitions.spans()
        entries, size = self.partitions.used()
        return replace(
            super().statistics(),
            role="follower",
            epoch=max(self.contact.seeker.known_epoch, self.copy.epoch),
            is_in_touch=self.phase is Phase.SYNCED and not self.contact.is_lost,
            spans=spans,
            consumers=lags_of(self.cursors, spans),
            entries=entries,
            bytes=size,
        )

    @property
    def partitions(self) -> Partitions:
        """What can be read here."""
        return self.copy.partitions

    @property
    def cursors(self) -> dict[str, dict[int, int]]:
        """Where consumers are, as far as is known here."""
        return self.copy.cursors

    # -- inputs ----------------------------------------------------------------------------------

    def start(self) -> list[LogEffect]:
        """Search for a keeper."""
        if self.copy.log_id:
            self._effects.append(Grown())  # what an earlier life copied can be read at once
        return super().start()

    def receive(self, sender: EndpointId, payload: bytes, now_ns: int) -> list[LogEffect]:
        """Take in what came; raises ``DecodeError`` for what is bad."""
        return [] if self._is_paused else super().receive(sender, payload, now_ns)

    def flush(self, now_ns: int) -> list[LogEffect]:
        """Send what was asked, and commit what came: once per turn of the loop."""
        if not self._is_closed:
            if not self._is_paused:
                self.contact.flush()
            self._proceed()
        return self._take_effects()

    def tick(self, now_ns: int) -> list[LogEffect]:
        """Let one tick (100 ms) pass; needs a flush afterwards like any other input."""
        if self._is_paused:
            return self._take_effects()
        if not self._is_closed:
            self._ticks += 1
            self._consumer.tick()
            self._join_if_broken()
            if self.phase is Phase.JOINING and self._ticks % JOIN_TICKS == 0:
                self._send_join()
            elif self.phase is Phase.CATCHING_UP and self._ticks % FETCH_TICKS == 0:
                self._fetch = None
                self._fetch_next()
        return super().tick(now_ns)

    def persisted(self, token: int) -> list[LogEffect]:
        """Take note that the changes of that ``PersistLog`` are durable."""
        assert token == self._token, (token, self._token)
        self.copy.finish_commit()
        self._effects.append(Grown())
        if not self._is_closed:
            if self._owed:
                self.acknowledge(self._owed)
            if self.phase is Phase.CATCHING_UP and self._fetch is None and not self._is_paused:
                self._fetch_next()
            self._proceed()
            self._check_idle()
        return self._take_effects()

    def commit_failed(self, token: int, text: str) -> list[LogEffect]:
        """Close, because the backend is of no more use."""
        return self._end(ErrorCode.BACKEND_FAILURE, text)

    def endpoint_discovered(self, endpoint: EndpointId) -> list[LogEffect]:
        """Take note that there is a path to an endpoint: the keeper may be there."""
        return [] if self._is_paused else super().endpoint_discovered(endpoint)

    def close(self) -> list[LogEffect]:
        """Say goodbye."""
        return self._end(ErrorCode.SHUTTING_DOWN, "the log's follower closed")

    def explain_idle(self) -> str:
        """Say what is missing for the log to be idle; empty if nothing is known to be."""
        missing = [super().explain_idle()]
        if self.phase is not Phase.SYNCED:
            missing.append(f"{self.phase.value}: here it ends at {self.copy.ends}")
        elif not self.copy.is_settled:
            missing.append("what came is not committed here yet")
        return "; ".join(filter(None, missing))

    def is_stale(self, now_ns: int) -> bool:
        """Tell whether the keeper has been out of touch for longer than the stale interval."""
        if self._stale_interval_ns is None or not self.contact.is_lost:
            return False
        heard_ns = max(self.contact.seeker.heard_ns, self._started_ns)
        return now_ns - heard_ns > self._stale_interval_ns

    # -- promotion -------------------------------------------------------------------------------

    def assess(self, now_ns: int) -> Assessment:
        """Say how good a successor of its keeper the follower is."""
        return Assessment(
            has_data=bool(self.copy.log_id),
            is_in_touch=not self.contact.is_lost,
            is_loading=self.phase is not Phase.SYNCED,
            missing_count=self._consumer.missing_count + self.copy.is_open,
            silent_ns=max(0, now_ns - max(self.contact.seeker.heard_ns, self._started_ns)),
            position=f"its partitions end at {', '.join(map(str, self.copy.ends))}",
            known_epoch=max(self.contact.seeker.known_epoch, self.copy.epoch),
        )

    def pause(self) -> list[LogEffect]:
        """Stand still, to be promoted: follow no keeper, and send no requests.

        What came is committed nevertheless; wait until ``copy.is_settled``.
        """
        self.requests.seal()
        self._is_paused = True
        self._consumer.stop()
        self.contact.send_command(self._session, 0, commands.DetachCommand())
        self._proceed()
        return self._take_effects()

    def go_on(self) -> list[LogEffect]:
        """Follow again, because it was not promoted."""
        if not self._is_closed:
            self._is_paused = False
            self._join("it was let go")
        return self._take_effects()

    def unanswered(self) -> list[bytes]:
        """Give the requests that the handle asked for and that have no outcome, oldest first."""
        self.requests.seal()
        return self.contact.writing.unanswered()

    # -- the channel from the keeper -------------------------------------------------------------

    def acknowledge(self, sequence: int) -> None:
        """Acknowledge events up to this one that are committed here; the others when they are."""
        committed = self.copy.committed_position
        self._owed = sequence if committed < sequence else 0
        if committed >= self._floor and self._consumer.is_connected:
            self.send_to_keeper(min(sequence, committed), commands.CumulativeAckCommand())

    def send_to_keeper(self, sequence: int, content: Content) -> None:
        """Send a command in the channel from the keeper; for the channel."""
        self.contact.send_command(self._session, sequence, content)

    # -- steps: messages -------------------------------------------------------------------------

    def _on_message(self, sender: EntityId, message: LogMessage, now_ns: int) -> None:
        is_from_keeper = self.contact.hears_from(sender)
        if isinstance(message, Admitted):
            if self._joined == LeaderId(message.epoch, sender):
                self._on_admitted(message)
        elif isinstance(message, Fetched):
            if is_from_keeper:
                self._on_fetched(message)
        elif isinstance(message, MemoryPage):
            if is_from_keeper:
                self._on_page(message)
        elif isinstance(message, QueryFailed):
            pass  # the keeper's disk does not give it: it is asked again, or another keeper is
        else:
            super()._on_message(sender, message, now_ns)

    def _on_command(self, command: InternalCommand) -> None:
        """Hand a message of the keeper's channel to its consumer, or one of ours to its writer."""
        if isinstance(command.content, commands.NotAllowedCommand):
            self._on_not_allowed(command, command.content)
            return
        if commands.consumer_message(command) is not None:
            self.contact.on_command(command)
            return
        is_ours = command.session in (None, self._session)
        if command.epoch is None or self._joined != LeaderId(command.epoch, command.sender):
            return
        message = commands.producer_message(command)
        if message is None or isinstance(message, Handshake) or not is_ours:
            return
        if isinstance(message, UnknownConsumer) and self.phase is not Phase.SYNCED:
            self._join("it does not know this follower any more")
            return
        self._consumer.receive(message)
        if isinstance(command.content, KeepaliveCommand) and command.content.is_urgent:
            self.acknowledge(self._consumer.next_sequence - 1)
        self._join_if_broken()

    def _on_keeper(self, is_new: bool) -> None:  # noqa: FBT001 - a callback has no keywords
        if is_new or self.phase is Phase.SEARCHING:
            self._join("a keeper was found")
        if self.phase is Phase.SYNCED:
            self._tell_found()

    # -- steps: joining --------------------------------------------------------------------------

    def _join(self, _reason: str) -> None:
        """Start anew: the present keeper takes us in, and says what we lack."""
        self._consumer.stop()
        self._ear = _Ear(self)
        self._consumer = Consumer(self._ear, config=STORE_CHANNEL)
        self._session += 1
        self._fetch = self._admitted = None
        self._owed = 0
        self.copy.drop_open()
        self._joined = self.contact.seeker.leader
        self.phase = Phase.SEARCHING if self._joined is None else Phase.JOINING
        self._send_join()

    def _send_join(self) -> None:
        copy = self.copy
        join = messages.Join(
            self._session, copy.log_id, copy.epoch, tuple(copy.ends), copy.position
        )
        self.contact.send(join)

    def _join_if_broken(self) -> None:
        if self._consumer.is_closed and self.phase is not Phase.SEARCHING:
            error = self._ear.error
            self._join("the channel from it broke" if error is None else str(error))
            if error is not None:
                raise error

    def _on_admitted(self, admitted: Admitted) -> None:
        if admitted.session != self._session or self.phase is Phase.SYNCED:
            return
        of_lives = [ends for _, ends in admitted.lives]
        columns = [admitted.starts, admitted.ends, admitted.agreed, *of_lives]
        if len({len(column) for column in columns}) > 1:
            raise DecodeError("a keeper that does not know how many partitions it has")
        agreed = tuple(enumerate(admitted.agreed))
        self.copy.agree(admitted.log_id, admitted.epoch, admitted.starts, agreed)
        self.copy.live(tuple(EpochEnds(epoch, ends) for epoch, ends in admitted.lives))
        self.copy.replace_cursors(admitted.cursors)
        self._admitted = admitted
        self._floor = admitted.sequence
        self.phase = Phase.CATCHING_UP
        self._fetch = None
        self._pages = []
        self._fetch_next()

    # -- steps: catching up ----------------------------------------------------------------------

    def _fetch_next(self) -> None:
        """Ask for what is missing, or go on with the events when nothing is."""
        assert self._admitted is not None, self.phase
        if self.copy.size > UNRESOLVED_SIZE_MAX:
            return  # the disk is slower than the network
        for partition, end in enumerate(self._admitted.ends):
            if self.copy.ends[partition] < end:
                self._fetches += 1
                position = (partition, self.copy.ends[partition])
                self._fetch = Fetch(self._fetches, (position,), FETCH_SIZE_MAX, 0)
                self.contact.send(self._fetch)
                return
        if self._pages and self._pages[-1].is_last:
            self._go_on(self._admitted)
            return
        sequence, page = self._admitted.sequence, len(self._pages)
        self.contact.send(messages.MemoryQuery(self._session, sequence, page))

    def _on_page(self, page: MemoryPage) -> None:
        admitted = self._admitted
        if admitted is None or (page.sequence, page.page) != (admitted.sequence, len(self._pages)):
            return
        if page.remembered is None:
            self._join("it does not know any more what it remembered")
            return
        self._pages.append(page.remembered)
        self._fetch_next()

    def _on_fetched(self, fetched: Fetched) -> None:
        fetch = self._fetch
        if fetch is None or fetched.query != fetch.query:
            return
        self._fetch = None
        ((partition, offset),) = fetch.positions
        if not fetched.runs and fetched.starts and fetched.starts[0] > offset:
            self.copy.clear(partition, fetched.starts[0])  # retention was faster
        end = -1 if self._admitted is None else self._admitted.ends[partition]
        for run in fetched.runs:
            if run.end <= end:  # what is later comes as an event, with what is remembered of it
                self.copy.add(run)
        self._proceed()
        self._fetch_next()

    def _go_on(self, admitted: Admitted) -> None:
        self.copy.remember(self._pages, admitted.sequence, is_new=admitted.is_memory_new)
        self._pages = []
        self.phase, self._admitted = Phase.SYNCED, None
        interval_ticks = admitted.heartbeat_interval_ticks
        self._consumer.receive(Handshake(admitted.epoch, admitted.sequence, interval_ticks))
        self._tell_found()
        self._join_if_broken()

    def _tell_found(self) -> None:
        keeper = self.contact.seeker.leader
        if keeper is not None:
            self._effects.append(MasterFound(keeper.entity, keeper.epoch))

    # -- steps: commits --------------------------------------------------------------------------

    def _proceed(self) -> None:
        changes = self.copy.start_commit()
        if changes is not None:
            self._token += 1
            self._effects.append(PersistLog(self._token, changes))

    def _check_idle(self) -> None:
        if self.phase is not Phase.SYNCED or not self.copy.is_settled or self.contact.is_lost:
            return
        welcome, resolved = self.contact.welcome, self.contact.writing.resolved_request
        if welcome is None or self._consumer.next_sequence - 1 < welcome.sequence:
            return
        for token, waiter in list(self._idle.items()):
            if waiter.number <= welcome.number and waiter.request <= resolved:
                del self._idle[token]
                self._effects.append(IdleReached(token))

    def _on_not_allowed(
        self, command: InternalCommand, refusal: commands.NotAllowedCommand
    ) -> None:
        """Give up: on everything without an outcome, or altogether, if there is nothing to read.

        The keeper that is followed says the latter to a follower that has lost the right.
        """
        self.contact.writing.deny(refusal.text)
        is_ours = self._joined == LeaderId(command.epoch or 0, command.sender)
        if refusal.is_reading and (is_ours or self.phase is not Phase.SYNCED):
            self._stop(ErrorCode.NOT_AUTHORIZED, refusal.text)

    def _end(self, code: ErrorCode, text: str) -> list[LogEffect]:
        self._stop(code, text)
        return self._take_effects()

    def _stop(self, code: ErrorCode, text: str) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._consumer.stop()
            self.contact.close(self._session)
            self._effects.append(Closed(code, text))
