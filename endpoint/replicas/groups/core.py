"""One replica of a group, as the runner drives it: a member, its machine, and what was asked here.

It is a ``Core`` like those of masters and clones, so that the one runner hears, ticks, commits and
closes for it. What differs is inside: a member of a group in the place of a channel's end. Pure:
clocks come in with each tick.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from endpoint.replicas.driving import AskDone, Begin, News, OrderDone, Told
from endpoint.replicas.groups.asking import FIRST_TICKET, Asking
from endpoint.replicas.groups.bar import Bar
from endpoint.replicas.groups.lazy import KEPT_ENTRIES, RowKeeper
from endpoint.replicas.groups.outbox import Outbox
from endpoint.replicas.groups.roster import SILENT_TICKS, Roster
from endpoint.replicas.groups.steering import Steering, obey
from endpoint.replicas.groups.waits import Waits
from endpoint.replicas.groups.write_queue import Write, WriteQueue
from endpoint.replicas.parts import AnyEffect
from handshake.access import Right
from stores.effects import (
    Closed,
    IdleReached,
    MasterFound,
    MasterLost,
    Multicast,
    QuotaCrossed,
    Resolve,
    Unicast,
)
from stores.group import effects as grouped
from stores.group.clock import NO_TIMES, Moment
from stores.group.codec import GroupCodec
from stores.group.effects import Failed
from stores.group.entries import Entry, VotersEntry
from stores.group.member import Member, Stored
from stores.group.membership import MemberStatus, Wanted
from stores.group.messages import Message
from stores.group.positions import MemberId, Voters
from stores.group.roles import DEFAULT_TIMING, Draw
from stores.group.words import (
    Answered,
    Ask,
    Barred,
    Declined,
    Greeting,
    Letter,
    Order,
    Steer,
    Steered,
    Word,
)
from stores.outcomes import Outcome
from stores.requests import Requests
from stores.statistics import StoreStatistics
from stores.table.bodies import TableRequest
from stores.table.machine import TableMachine
from wire.errors import ErrorCode
from wire.identifiers import EndpointId, EntityId

GREETING_TICKS: Final = 5
"""Ticks between two questions to all who else there is, while a voter's endpoint is unknown."""

PATIENCE_TICKS: Final = 50
"""Ticks for which what was asked waits for an answer of the group, before it fails: 5 s."""

LATE_NS: Final = 500_000_000
"""A tick that comes so late ends a pause: what came meanwhile is heard first, and no timer fires
before the next tick. Half of what an election takes."""

COMPACT_TICKS: Final = 10
"""Ticks between two looks at what the journal may forget."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a replica starts with."""

    stored: Stored
    group: bytes | None
    """``None`` until it founds or joins one."""
    reached: int = 0
    """The machine's rows may have changes up to this entry: all up to it are committed."""


@dataclass(frozen=True, slots=True)
class World:
    """What a core takes from outside, all of it harmless to call."""

    draw: Draw
    monotonic_ns: Callable[[], int]
    now_ns: Callable[[], int]
    new_group: Callable[[], bytes]
    vouches: Callable[[EndpointId, str], bool]
    """Tells whether an endpoint may have a member of that name."""


class GroupCore:
    """A replica of a group at one endpoint."""

    def __init__(
        self,
        entity: EntityId,
        roster: Roster,
        machine: TableMachine,
        codec: GroupCodec,
        beginning: Beginning,
        world: World,
    ) -> None:
        """Start with what is stored, and with the declared names that the ``roster`` has."""
        self.entity = entity
        self.machine = machine
        self.group = beginning.group
        self.outbox = Outbox(entity, world.now_ns())
        self.member: Member | None = None
        self._roster = roster
        self._codec = codec
        self._beginning = beginning
        self._world = world
        self._floor = beginning.stored.floor.index
        self._effects: list[AnyEffect] = []
        self._queue = WriteQueue()
        self._is_carrying = False
        self._waits = Waits()
        self._steering = Steering()
        self._asking = Asking()
        self.bar = Bar()
        self._leader: MemberId | None = None
        self._ticks = self._leaderless_ticks = 0
        self._ticked_ns = world.monotonic_ns()
        self._was_late = self._is_closed = self._is_beginning = False
        self._is_conflict_told = False

    # -- what is so ------------------------------------------------------------------------------

    @property
    def own(self) -> MemberId:
        """The member that is here."""
        return self._roster.own

    @property
    def requests(self) -> Requests:
        """What the handle asked for."""
        return self.outbox.requests

    @property
    def size(self) -> int:
        """Bytes of the keys and values."""
        return self.machine.size

    @property
    def has_work(self) -> bool:
        """False: nothing here takes long."""
        return False

    @property
    def revision(self) -> int:
        """How many mutations made what readers see."""
        return self.machine.revision

    @property
    def leader(self) -> MemberId | None:
        """The leader, if one is known."""
        return None if self.member is None else self.member.leader

    @property
    def is_leader(self) -> bool:
        """True if this replica leads, and serves."""
        member = self.member
        return member is not None and member.leading is not None and member.leading.is_ready

    @property
    def is_served(self) -> bool:
        """True if this replica knows a leader that has committed something."""
        member = self.member
        if member is None or member.leader is None:
            return False
        return self.is_leader if member.leading is not None else member.state.commit > 0

    @property
    def voters(self) -> Voters:
        """The voters in force, as far as this replica knows."""
        return () if self.member is None else self.member.journal.voters.current

    @property
    def voter_names(self) -> frozenset[str]:
        """The names of the voters in force, and the declared ones."""
        return frozenset([*self._roster.declared, *(voter.name for voter in self.voters)])

    @property
    def epoch_ns(self) -> int:
        """When the group's elapsed time was nought, as a time of Unix."""
        times = NO_TIMES if self.member is None else self.member.state.clock.times
        return times.stamp_ns - times.elapsed_ns

    def observe(self, *, is_observed: bool) -> None:
        """Give each change as an effect, or do so no more."""
        self.machine.observer = self._add if is_observed else None

    def members(self) -> list[MemberStatus]:
        """Give what a leader knows of all members; nothing elsewhere."""
        return [] if self.member is None else self.member.members()

    def has_room(self) -> bool:
        """Tell whether more may be asked."""
        return self.outbox.has_room

    def is_stale(self, now_ns: int) -> bool:
        """Tell that a local read is never too old: it promises no time."""
        return False

    def statistics(self) -> StoreStatistics:
        """Give a snapshot of counts."""
        quota = self.machine.meter.quota
        return StoreStatistics(
            role="leader" if self.is_leader else "replica",
            epoch=0 if self.member is None else self.member.ballot.term,
            entries=len(self.machine),
            revision=self.machine.revision,
            is_in_touch=self.is_served,
            sequence=0 if self.member is None else self.member.journal.end.index,
            unanswered=len(self.outbox),
            bytes=self.size,
            max_entries=quota.max_entries,
            max_bytes=quota.max_bytes,
        )

    def explain(self) -> str:
        """Say in a sentence why no leader serves this replica."""
        if self.bar.text is not None:
            return self.bar.text
        if self.group is None:
            return self._roster.explain_founding()
        return self._roster.explain_silence(self.voters)

    # -- letters ---------------------------------------------------------------------------------

    def read(self, payload: bytes) -> Letter:
        """Read a letter; raises ``DecodeError``."""
        return self._codec.decode(payload)

    def write(self, content: Message | Word) -> Iterable[bytes]:
        """Write a letter of this replica's."""
        return self._codec.encode(self._roster.own, self.group, content)

    # -- what comes in ---------------------------------------------------------------------------

    def start(self) -> list[AnyEffect]:
        """Start: as the member that there is, or with the question who else is there."""
        if self.group is not None:
            self._start_member(self._beginning.stored)
        else:
            self._found()
        self._greet(None, is_question=True)
        return self._take()

    def receive(self, sender: EndpointId, payload: bytes, now_ns: int) -> list[AnyEffect]:
        """Take in a command; raises ``DecodeError``."""
        letter = self.read(payload)
        if self._is_closed or not self._world.vouches(sender, letter.sender.name):
            return []
        content = letter.content
        if isinstance(content, Greeting):
            self._on_greeting(sender, letter, content)
        elif isinstance(content, Barred):
            if self.group is None or letter.group in (None, self.group):
                self._on_barred(letter.sender, content)
        elif letter.group == self.group and self.member is not None:
            self._roster.meet(sender, letter.sender)
            self._on_content(sender, letter.sender, content)
        return self._take()

    def flush(self, now_ns: int) -> list[AnyEffect]:
        """Propose what was asked."""
        self._pump()
        return self._take()

    def tick(self, now_ns: int) -> list[AnyEffect]:
        """Let a tick pass. The ticks of a pause count as one, after all that came meanwhile."""
        monotonic_ns = self._world.monotonic_ns()
        is_late = monotonic_ns - self._ticked_ns >= LATE_NS
        self._ticked_ns = monotonic_ns
        if self._is_closed or (is_late and not self._was_late):
            self._was_late = is_late
            return []
        self._was_late = False
        self._ticks += 1
        self._roster.tick()
        self.bar.tick()
        if self.member is not None:
            self._carry_out(self.member.tick(Moment(monotonic_ns, now_ns)))
            self.machine.tick()
            self._look_at_quota()
            self._tend_journal(self.member)
        is_lacking = self.group is None or self._roster.lacks(self.voters)
        if self._ticks % GREETING_TICKS == 0 and is_lacking:
            self._greet(None, is_question=True)
        self._leaderless_ticks = 0 if self.is_served else self._leaderless_ticks + 1
        self._wait_a_tick()
        return self._take()

    def _look_at_quota(self) -> None:
        """Tell at the leader when the store comes close to its quota, or is well below it again."""
        level = self.machine.look_at_quota() if self.is_leader else None
        if level is not None:
            text = self.machine.meter.describe(len(self.machine), self.size)
            self._effects.append(QuotaCrossed(level, text))

    def _tend_journal(self, member: Member) -> None:
        """Have rows follow the journal, and forget what of it is needed no more."""
        if self.keeper is not None:
            self.keeper.tick(member)
            self._add(self._queue.put_rows())
        elif self._ticks % COMPACT_TICKS == 0:
            member.compact(member.state.commit - KEPT_ENTRIES)

    def _wait_a_tick(self) -> None:
        outbox = self.outbox
        outbox.tick()
        if len(outbox) and self.bar.text is not None and not self.is_served:
            self._resolve(outbox.give_up(ErrorCode.NOT_AUTHORIZED, self.bar.text))
        is_hopeless = self._leaderless_ticks >= SILENT_TICKS
        if len(outbox) and (is_hopeless or outbox.silent_ticks >= PATIENCE_TICKS):
            text = f"no majority answers: {self.explain()}"[:150]
            self._resolve(outbox.give_up(ErrorCode.NO_QUORUM, text))
        self._pump()
        for token in self._waits.tick():
            self._begin_read(token)
        for steer in self._steering.tick():
            self._steer(steer)
        for asked in self._asking.tick():
            self._ask(*asked)

    def work(self, now_ns: int) -> list[AnyEffect]:
        """Have nothing to do."""
        return []

    def peer_unreachable(self, endpoint: EndpointId) -> list[AnyEffect]:
        """Take a hint: an endpoint is gone."""
        for member in self._roster.lose(endpoint):
            if self.member is not None:
                self._carry_out(self.member.unreachable(member))
        return self._take()

    def endpoint_discovered(self, endpoint: EndpointId) -> list[AnyEffect]:
        """Ask an endpoint what it knows."""
        self._greet(endpoint, is_question=True)
        return self._take()

    # -- the disk --------------------------------------------------------------------------------

    @property
    def keeper(self) -> RowKeeper | None:
        """What follows the machine's changes for its file, if there is one."""
        return self._queue.keeper

    @keeper.setter
    def keeper(self, keeper: RowKeeper) -> None:
        self._queue.keeper = keeper

    def persisted(self, token: int) -> list[AnyEffect]:
        """Take note that the write under way is on the disk."""
        self._wrote(self._queue.written(token))
        following = self._queue.next()
        if not self._is_closed:
            self._add(following)
        return self._take()

    def commit_failed(self, token: int, text: str) -> list[AnyEffect]:
        """Take note that a write failed: the replica ends, and another one leads."""
        if not self._is_closed:
            self._effects.append(Told(News.DISK_FAILED, text))
        self._end(ErrorCode.BACKEND_FAILURE, text)
        return self._take()

    def _add(self, effect: AnyEffect | None) -> None:
        if effect is not None:
            self._effects.append(effect)

    def _to_disk(self, write: Write) -> None:
        self._add(self._queue.put(write))
        if not self._is_carrying:
            self._carry_out(())

    def _wrote(self, write: Write | None) -> None:
        if self._is_closed:
            return
        if isinstance(write, Begin):
            self.group = write.group
            self._start_member(replace(self._beginning.stored, entries=write.entries))
            self._greet(None, is_question=True)
            return
        assert self.member is not None, write
        match write:
            case grouped.Persist(token=token):
                self._carry_out(self.member.persisted(token))
            case grouped.SavePromises(token=token):
                self._carry_out(self.member.promises_saved(token))
            case grouped.SyncMarks(number=number):
                self._carry_out(self.member.marks_synced(number))
            case None:
                pass

    # -- idleness and reads ----------------------------------------------------------------------

    def begin_idle(self, token: int) -> list[AnyEffect]:
        """Wait until all that was asked here has its outcome, and this replica is level."""
        self._waits.begin(token, is_idle=True)
        self._begin_read(token)
        return self._take()

    def begin_read(self, token: int) -> list[AnyEffect]:
        """Wait until a read here sees all that was committed before."""
        self._waits.begin(token, is_idle=False)
        self._begin_read(token)
        return self._take()

    def cancel_idle(self, token: int) -> None:
        """Stop waiting."""
        self._waits.cancel(token)
        if self.member is not None:
            self.member.forget_read((None, -token))

    def explain_idle(self) -> str:
        """Say what is missing."""
        if not self.is_served:
            return self.explain()
        if len(self.outbox):
            return f"{len(self.outbox)} requests have no answer of the group"
        lagging = [str(each.member.name) for each in self.members() if not self._is_level(each)]
        return f"not level: {', '.join(lagging)}" if lagging else ""

    def _begin_read(self, token: int) -> None:
        if self.member is not None:
            self._carry_out(self.member.read((None, -token)))

    def _is_level(self, status: MemberStatus) -> bool:
        assert self.member is not None
        is_gone = status.silent_ticks > DEFAULT_TIMING.timeout_ticks_max
        return is_gone or status.match >= self.member.state.commit

    def _is_idle(self) -> bool:
        return not len(self.outbox) and all(map(self._is_level, self.members()))

    # -- the end ---------------------------------------------------------------------------------

    def close(self) -> list[AnyEffect]:
        """Say goodbye: another voter is to lead at once, if this one does."""
        self._end(ErrorCode.SHUTTING_DOWN, "the store's replica closed")
        return self._take()

    def _end(self, code: ErrorCode, text: str) -> None:
        if self._is_closed:
            return
        if self.member is not None and self.member.leading is not None:
            for effect in self.member.leading.pass_on():
                if isinstance(effect, grouped.Send):
                    self._send(effect.to, effect.message)
        self._resolve(self.outbox.give_up(code, text))
        self._is_closed = True
        self._effects.append(Closed(code, text))

    # -- who is there ----------------------------------------------------------------------------

    def _greet(self, to: EndpointId | None, *, is_question: bool) -> None:
        greeting = Greeting(self._roster.declared, is_question=is_question)
        for payload in self.write(greeting):
            self._effects.append(Multicast(payload) if to is None else Unicast(to, payload))

    def _on_greeting(self, sender: EndpointId, letter: Letter, greeting: Greeting) -> None:
        if greeting.is_question:
            self._greet(sender, is_question=False)
        if self.group is None:
            self._roster.hear(sender, letter, greeting)
            self._found()
        elif letter.group == self.group:
            self._roster.meet(sender, letter.sender)
        elif letter.group is not None and not self._is_conflict_told:
            self._is_conflict_told = True
            text = f"{letter.sender.name} has a replica of another group of this name"
            self._effects.append(Told(News.CONFLICT, text))

    def _on_barred(self, sender: MemberId, barred: Barred) -> None:
        """Learn that a right is missing: what was asked fails, and a copy ends.

        A voter stays, as it may be given its right again; it is not heard until then.
        """
        if barred.ticket is not None:
            if barred.ticket > FIRST_TICKET:
                self._hear_ask(barred.ticket, barred.text)
            elif self.outbox.awaits(barred.ticket):
                self._resolve(self.outbox.give_up(ErrorCode.NOT_AUTHORIZED, barred.text))
        elif barred.right is Right.VOTE:
            if self.bar.set(barred.text):
                self._effects.append(Told(News.BARRED, barred.text))
        elif not self.is_served or sender == self.leader:
            self._end(ErrorCode.NOT_AUTHORIZED, barred.text)

    def _found(self) -> None:
        """Join the group that is there, or found it, once that is certain."""
        if self._is_beginning:
            return
        entries: tuple[Entry, ...] = ()
        group = self._roster.group
        if group is None and (founders := self._roster.founders) is not None:
            group, entries = self._world.new_group(), (VotersEntry(1, founders),)
        if group is not None:
            self._is_beginning = True
            self._to_disk(Begin(group, entries))

    def _start_member(self, stored: Stored) -> None:
        wanted = Wanted(frozenset(self._roster.declared))
        self.member = Member(stored, self.machine, self._world.draw, wanted=wanted)
        self.member.state.advance(max(self._beginning.reached, stored.applied))
        moment = Moment(self._world.monotonic_ns(), self._world.now_ns())
        self._carry_out(self.member.start(moment))

    # -- messages --------------------------------------------------------------------------------

    def _on_content(self, sender: EndpointId, member: MemberId, content: Message | Word) -> None:
        assert self.member is not None
        match content:
            case Ask(ticket, request):
                self._carry_out(self.member.propose((sender, ticket), request))
            case Answered(ticket) if ticket > FIRST_TICKET:
                self._hear_ask(ticket)
            case Answered(ticket, answer):
                self._resolve(self.outbox.answered(ticket, answer))
                self._pump()
            case Declined(ticket):
                self.outbox.declined(ticket)
            case Steer():
                self._obey(sender, content)
            case Steered():
                self._hear_order(content)
            case Greeting() | Barred():
                pass
            case _:
                self._carry_out(self.member.receive(member, content))

    # -- orders ----------------------------------------------------------------------------------

    def begin_order(self, token: int, order: Order, name: str) -> list[AnyEffect]:
        """Have the leader do something with a member; ``OrderDone`` tells that it is done."""
        self._steer(self._steering.begin(token, order, name))
        return self._take()

    def end_order(self, token: int) -> str:
        """Give an order no more; says what was in the way last."""
        return self._steering.end(token)

    def begin_ask(self, token: int, request: TableRequest) -> list[AnyEffect]:
        """Ask the group for something in no writer's name; ``AskDone`` tells that it is done."""
        self._ask(*self._asking.begin(token, request))
        return self._take()

    def end_ask(self, token: int) -> None:
        """Ask no more."""
        self._asking.end(token)

    def _ask(self, ticket: int, request: TableRequest) -> None:
        leader = self.leader
        if leader is None or self.member is None:
            return
        if leader == self._roster.own:
            self._carry_out(self.member.propose((None, ticket), request))
        else:
            self._send(leader, Ask(ticket, request))

    def _hear_ask(self, ticket: int, refusal: str = "") -> None:
        token = self._asking.answered(ticket)
        if token is not None:
            self._effects.append(AskDone(token, refusal))

    def force(self) -> list[AnyEffect]:
        """Lead alone: a person says that the other voters are gone."""
        if self.member is not None:
            self._carry_out(self.member.force())
        return self._take()

    def _steer(self, steer: Steer) -> None:
        leader = self.leader
        if leader == self._roster.own:
            self._obey(None, steer)
        elif leader is not None:
            self._send(leader, steer)

    def _obey(self, where: EndpointId | None, steer: Steer) -> None:
        assert self.member is not None
        answer, effects = obey(self.member, steer)
        self._carry_out(effects)
        if where is None:
            self._hear_order(answer)
        else:
            self._send_to(where, answer)

    def _hear_order(self, answer: Steered) -> None:
        if self._steering.hear(answer):
            self._effects.append(OrderDone(answer.ticket, answer.members))

    def _send(self, to: MemberId, content: Message | Word) -> None:
        where = self._roster.endpoint_of(to)
        if where is not None:
            self._send_to(where, content)

    def _send_to(self, where: EndpointId, content: Message | Word) -> None:
        for payload in self.write(content):
            self._effects.append(Unicast(where, payload))

    def _pump(self) -> None:
        """Propose what was asked here, to the leader."""
        if self._is_closed:
            return
        member, leader = self.member, self.leader
        if member is None or leader is None:
            self.outbox.requests.seal()
            return
        is_local = leader == self._roster.own
        if is_local and not self.is_leader:
            return
        while self.outbox.has_unsent:
            if is_local and (outcomes := self.outbox.perform(member.decide)):
                self._resolve(outcomes)
                if effects := member.settle():
                    self._carry_out(effects)
            elif not self._propose(member, leader, is_local=is_local):
                return

    def _propose(self, member: Member, leader: MemberId, *, is_local: bool) -> bool:
        """Send the leader what has room under way; tells whether there was anything."""
        asked: list[tuple[int, TableRequest]] = []
        self.outbox.pump(lambda *each: asked.append(each), is_local=is_local)
        for ticket, request in asked:
            if is_local:
                self._carry_out(member.propose((None, ticket), request))
            else:
                self._send(leader, Ask(ticket, request))
        return bool(asked)

    # -- effects ---------------------------------------------------------------------------------

    def _take(self) -> list[AnyEffect]:
        if not self._is_closed:
            self._notice()
            if self._waits:
                self._effects += map(IdleReached, self._waits.take_over(self._is_idle))
        effects, self._effects = self._effects, []
        return effects

    def _notice(self) -> None:
        """Tell of another leader, once it serves."""
        leader = self.leader if self.is_served else None
        if leader == self._leader:
            return
        before, self._leader = self._leader, leader
        self.outbox.rewind()
        if leader is None:
            where = self._entity_of(before or self._roster.own)
            self._effects.append(MasterLost(where, "the group elects a leader"))
            return
        assert self.member is not None
        self._effects.append(MasterFound(self._entity_of(leader), self.member.ballot.term))
        self.outbox.resume()
        self._pump()
        for token in self._waits.unanswered:
            self._begin_read(token)

    def _entity_of(self, member: MemberId) -> EntityId:
        return EntityId(self._roster.endpoint_of(member) or self.entity.endpoint, 0)

    def _carry_out(self, effects: Iterable[grouped.Effect]) -> None:
        was_carrying, self._is_carrying = self._is_carrying, True
        self._do(effects)
        self._is_carrying = was_carrying
        while not was_carrying and (write := self._queue.take_instant()) is not None:
            self._wrote(write)

    def _do(self, effects: Iterable[grouped.Effect]) -> None:
        for effect in effects:
            match effect:
                case grouped.Send(to=to, message=message):
                    self._send(to, message)
                case grouped.Broadcast(message=message):
                    for payload in self.write(message):
                        self._effects.append(Multicast(payload))
                case grouped.Persist() | grouped.SavePromises() | grouped.SyncMarks():
                    self._to_disk(effect)
                case grouped.WriteMark():
                    if self.keeper is not None:
                        self._effects.append(effect)
                case grouped.Committed(last=last):
                    self._look_at_floor(last)
                case _:
                    self._tell(effect)

    def _look_at_floor(self, last: int) -> None:
        """Notice that the commit was a snapshot: then the journal begins behind it."""
        if self.keeper is not None and self.member is not None:
            floor = self.member.journal.floor.index
            if floor == last > self._floor:
                self.keeper.restart(last)
            self._floor = floor

    def _tell(self, effect: grouped.Effect) -> None:
        match effect:
            case grouped.Replied(caller=(None, int() as ticket)) if ticket > FIRST_TICKET:
                self._hear_ask(ticket)
            case grouped.Replied(caller=(None, int() as ticket), answer=answer):
                self._resolve(self.outbox.answered(ticket, answer))
            case grouped.Replied(caller=(EndpointId() as where, int() as ticket), answer=answer):
                self._send_to(where, Answered(ticket, answer))
            case Failed(caller=(EndpointId() as where, int() as ticket), setback=setback):
                self._send_to(where, Declined(ticket, setback))
            case Failed(caller=(None, int() as ticket)) if ticket > 0:
                self.outbox.declined(ticket)
            case grouped.Readable(caller=(_, int() as number)):
                self._waits.answered(-number)
            case grouped.WholenessChanged(is_whole=is_whole):
                news = News.WHOLE if is_whole else News.REGRESSED
                self._effects.append(Told(news, news.value))
            case grouped.HistoryConflict(leader=leader, agreed=agreed, commit=commit):
                text = (
                    f"the leader {leader.name} has entries up to {agreed} in common with this"
                    f" replica, which knows {commit} to be committed"
                )
                self._effects.append(Told(News.CONFLICT, text))
            case _:
                pass

    def _resolve(self, outcomes: Iterable[Outcome]) -> None:
        self._effects += [Resolve(outcome) for outcome in outcomes]
