"""One replica of a group, as the runner drives it: a member, its machine, and what was asked here.

It is a ``Core`` like those of masters and clones, so that the one runner hears, ticks, commits and
closes for it. What differs is inside: a member of a group in the place of a channel's end. Pure:
clocks come in with each tick.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from handshake.access import Right
from stores.effects import Closed, MasterFound, MasterLost
from stores.group import effects as grouped
from stores.group.ballot import NEW_SLOTS
from stores.group.clock import Moment
from stores.group.codec import GroupCodec
from stores.group.effects import Snapshot
from stores.group.member import Member, Stored
from stores.group.membership import Wanted
from stores.group.messages import Message
from stores.group.positions import MemberId
from stores.group.words import (
    Answered,
    Ask,
    Barred,
    Declined,
    Farewell,
    Greeting,
    Order,
    Steer,
    Steered,
    Word,
)
from stores.quota import Quota
from stores.replica.arrival import Arrival
from stores.replica.asked.desk import Desk
from stores.replica.asked.errands import Errands
from stores.replica.asked.outbox import Outbox
from stores.replica.asked.waits import Waits
from stores.replica.beginning import Beginning, World
from stores.replica.carrying import Carrier
from stores.replica.effects import Begin, News, ReplicaEffect
from stores.replica.facts import Facts
from stores.replica.lazy import RowKeeper
from stores.replica.roster import Roster
from stores.table.bodies import ChangeQuota, TableRequest
from stores.table.machine import TableMachine
from wire.errors import ErrorCode
from wire.identifiers import EndpointId, EntityId

LATE_NS: Final = 500_000_000
"""A tick that comes so late ends a pause: what came meanwhile is heard first, and no timer fires
before the next tick. Half of what an election takes."""


class GroupCore(Facts):
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
        super().__init__(entity, roster, codec, machine, beginning, world.now_ns())
        floor = beginning.stored.floor.index
        self.carrier = Carrier(self, self._hear, self._begun, floor)
        self._carry_out = self.carrier.carry_out
        self.errands = Errands(self, self._carry_out)
        self._beginning = beginning
        self._world = world
        self._arrival = Arrival(self, self._carry_out, world.new_group)
        self._desk = Desk(self, self._carry_out, beginning.manner)
        self._waits = Waits(self, self._carry_out)
        self._leader: MemberId | None = None
        self._ticked_ns = world.monotonic_ns()
        self._was_late = self._is_closed = self._is_paused = False

    # -- what comes in ---------------------------------------------------------------------------

    def start(self) -> list[ReplicaEffect]:
        """Start: as the member that there is, or with the question who else is there."""
        if self.group is not None:
            self._start_member(self._beginning.stored)
        else:
            self._begin(self._arrival.begin())
        self._arrival.greet()
        return self._take()

    def receive(self, sender: EndpointId, payload: bytes, now_ns: int) -> list[ReplicaEffect]:
        """Take in a command; raises ``DecodeError``."""
        letter = self.read(payload)
        if self._is_closed or not self._world.vouches(sender, letter.sender.name):
            return []
        if self._is_paused:
            return []
        content = letter.content
        if isinstance(content, Greeting):
            self._begin(self._arrival.hear(sender, letter, content))
        elif isinstance(content, Barred):
            if self.group is None or letter.group in (None, self.group):
                self._on_barred(letter.sender, content)
        elif letter.group == self.group and self.member is not None:
            self.roster.meet(sender, letter.sender)
            self._on_content(self.member, sender, letter.sender, content)
        return self._take()

    def flush(self, now_ns: int) -> list[ReplicaEffect]:
        """Propose what was asked."""
        self._pump()
        return self._take()

    def tick(self, now_ns: int) -> list[ReplicaEffect]:
        """Let a tick pass. The ticks of a pause count as one, after all that came meanwhile."""
        monotonic_ns = self._world.monotonic_ns()
        is_late = monotonic_ns - self._ticked_ns >= LATE_NS
        self._ticked_ns = monotonic_ns
        if self._is_closed or (is_late and not self._was_late):
            self._was_late = is_late
            return []
        self._was_late = False
        if self._is_paused:
            return []
        if self.is_served:
            self._touched_ns = now_ns
        self.roster.tick()
        self.bar.tick()
        if self.member is not None:
            self._carry_out(self.member.tick(Moment(monotonic_ns, now_ns)))
            self.machine.tick()
            self.look_at_quota()
            self.carrier.tend_journal(self.member)
        self._arrival.tick()
        self._desk.tick()
        self._waits.tick()
        self.errands.tick()
        return self._take()

    def work(self, now_ns: int) -> list[ReplicaEffect]:
        """Have nothing to do."""
        return []

    def peer_unreachable(self, endpoint: EndpointId) -> list[ReplicaEffect]:
        """Take a hint: an endpoint is gone."""
        for member in self.roster.lose(endpoint):
            if self.member is not None:
                self._carry_out(self.member.unreachable(member))
        return self._take()

    def endpoint_discovered(self, endpoint: EndpointId) -> list[ReplicaEffect]:
        """Ask an endpoint what it knows."""
        self._arrival.ask(endpoint)
        return self._take()

    # -- the disk --------------------------------------------------------------------------------

    def persisted(self, token: int) -> list[ReplicaEffect]:
        """Take note that the write under way is on the disk."""
        following = self.carrier.persisted(token)
        if following is not None and not self._is_closed:
            self.tell(following)
        return self._take()

    def commit_failed(self, token: int, text: str) -> list[ReplicaEffect]:
        """Take note that a write failed: the replica ends, and another one leads."""
        if not self._is_closed:
            self.tell_news(News.DISK_FAILED, text)
        self._end(ErrorCode.BACKEND_FAILURE, text)
        return self._take()

    # -- what is asked ---------------------------------------------------------------------------

    def begin_idle(self, token: int) -> list[ReplicaEffect]:
        """Wait until all that was asked here has its outcome, and this replica is level."""
        self._waits.begin(token, is_idle=True)
        return self._take()

    def begin_read(self, token: int) -> list[ReplicaEffect]:
        """Wait until a read here sees all that was committed before."""
        self._waits.begin(token, is_idle=False)
        return self._take()

    def cancel_idle(self, token: int) -> None:
        """Stop waiting."""
        self._waits.cancel(token)

    def explain_idle(self) -> str:
        """Say what is missing."""
        return self._waits.explain()

    def begin_order(self, token: int, order: Order, name: str) -> list[ReplicaEffect]:
        """Have the leader do something with a member; ``OrderDone`` tells that it is done."""
        self.errands.begin_order(token, order, name)
        return self._take()

    def begin_ask(self, token: int, request: TableRequest) -> list[ReplicaEffect]:
        """Ask the group for something in no writer's name; ``AskDone`` tells that it is done."""
        self.errands.begin_ask(token, request)
        return self._take()

    def set_quota(self, quota: Quota) -> list[ReplicaEffect]:
        """Have the group go by another quota; only at its leader."""
        if self.member is not None:
            self._carry_out(self.member.propose((None, 0), ChangeQuota(quota)))
        return self._take()

    def force(self) -> list[ReplicaEffect]:
        """Lead alone: a person says that the other voters are gone."""
        if self.member is not None:
            self._carry_out(self.member.force())
        return self._take()

    def _pump(self) -> None:
        if not self._is_closed and not self._is_paused:
            self._desk.pump()

    # -- the role --------------------------------------------------------------------------------

    def pause(self) -> Snapshot:
        """Stand still, and give what is applied; until ``settle_in``, or ``go_on``."""
        assert self.member is not None, "it has a state"
        self._is_paused = True
        return self.member.state.freeze()

    def go_on(self) -> list[ReplicaEffect]:
        """Stand still no more."""
        self._is_paused = False
        return self._take()

    def settle_in(self, snapshot: Snapshot, keeper: RowKeeper) -> list[ReplicaEffect]:
        """Go on with a file, which has this state, and the promises of this member."""
        assert self.member is not None, "it has a state"
        promises = self.member.ballot.promises
        position = snapshot.position
        stored = Stored(
            promises, NEW_SLOTS, position, snapshot.voters, (), position.index, snapshot.times
        )
        self._beginning = replace(self._beginning, stored=stored, reached=0)
        self.carrier.use(keeper, position.index)
        self._is_paused = False
        self._start_member(stored)
        return self._take()

    def bequeath(self, text: str) -> list[ReplicaEffect]:
        """End without a word to others: what has no outcome is refused, as it may be lost."""
        self._desk.give_up(ErrorCode.FENCED, text)
        self._is_closed = True
        return self.take()

    def inherit(self, outbox: Outbox) -> None:
        """Take on what a handle has asked for so far."""
        self.outbox = outbox
        outbox.rewind()

    # -- the end ---------------------------------------------------------------------------------

    def close(self) -> list[ReplicaEffect]:
        """Say goodbye: another voter is to lead at once, if this one does."""
        self._end(ErrorCode.SHUTTING_DOWN, "the store's replica closed")
        return self._take()

    def _end(self, code: ErrorCode, text: str) -> None:
        if self._is_closed:
            return
        if self.member is not None and self.member.leading is not None:
            for effect in self.member.leading.pass_on():
                if isinstance(effect, grouped.Send):
                    self.send(effect.to, effect.message)
        if self.group is not None:
            self.send_all(Farewell())
        self._desk.give_up(code, text)
        self._is_closed = True
        self.tell(Closed(code, text))

    # -- letters ---------------------------------------------------------------------------------

    def _begin(self, begin: Begin | None) -> None:
        if begin is not None:
            self.carrier.begin(begin)

    def _begun(self, begin: Begin) -> None:
        if not self._is_closed:
            self.group = begin.group
            self._start_member(replace(self._beginning.stored, entries=begin.entries))
            self._arrival.greet()

    def _start_member(self, stored: Stored) -> None:
        wanted = Wanted(frozenset(self.roster.declared))
        self.member = Member(stored, self.machine, self._world.draw, wanted=wanted)
        self.member.state.advance(max(self._beginning.reached, stored.applied))
        moment = Moment(self._world.monotonic_ns(), self._world.now_ns())
        self._carry_out(self.member.start(moment))

    def _on_barred(self, sender: MemberId, barred: Barred) -> None:
        """Learn that a right is missing: what was asked fails, and a copy ends.

        A voter stays, as it may be given its right again; it is not heard until then.
        """
        if barred.ticket is not None:
            is_errand = self.errands.hear_ask(barred.ticket, barred.text)
            if not is_errand and self.outbox.awaits(barred.ticket):
                self._desk.give_up(ErrorCode.NOT_AUTHORIZED, barred.text)
        elif barred.right is Right.VOTE:
            if self.bar.set(barred.text):
                self.tell_news(News.BARRED, barred.text)
        elif not self.is_served or sender == self.leader:
            self._end(ErrorCode.NOT_AUTHORIZED, barred.text)

    def _on_content(
        self, member: Member, sender: EndpointId, other: MemberId, content: Message | Word
    ) -> None:
        match content:
            case Ask(ticket, request):
                self._carry_out(member.propose((sender, ticket), request))
            case Answered(ticket, answer):
                self._on_answer(ticket, answer)
                self._pump()
            case Declined(ticket):
                self.outbox.declined(ticket)
            case Steer():
                self.errands.obey(sender, content)
            case Steered():
                self.errands.hear_order(content)
            case Farewell():
                self._carry_out(member.unreachable(other))
            case Greeting() | Barred():
                pass
            case _:
                self._carry_out(member.receive(other, content))

    def _on_answer(self, ticket: int, answer: object) -> None:
        if not self.errands.hear_ask(ticket, answer=answer):
            self._desk.answered(ticket, answer)

    # -- effects ---------------------------------------------------------------------------------

    def _take(self) -> list[ReplicaEffect]:
        if not self._is_closed:
            self._notice()
            self._waits.tell_over()
        return self.take()

    def _notice(self) -> None:
        """Tell of another leader, once it serves."""
        leader = self.leader if self.is_served else None
        if leader == self._leader:
            return
        before, self._leader = self._leader, leader
        self.outbox.rewind()
        if leader is None:
            where = self._entity_of(before or self.own)
            self.tell(MasterLost(where, "the group elects a leader"))
            return
        assert self.member is not None
        self.tell(MasterFound(self._entity_of(leader), self.member.ballot.term))
        self.outbox.resume()
        self._pump()
        self._waits.rewind()

    def _entity_of(self, member: MemberId) -> EntityId:
        if self._manner.is_single and member == self.own:
            return self.entity
        return EntityId(self.roster.endpoint_of(member) or self.entity.endpoint, 0)

    def _hear(self, effect: grouped.Effect) -> None:
        """Take in what the member says to those who asked, and to persons."""
        match effect:
            case grouped.Replied(caller=(None, int() as ticket), answer=answer):
                self._on_answer(ticket, answer)
            case grouped.Replied(caller=(EndpointId() as where, int() as ticket), answer=answer):
                self.send_to(where, Answered(ticket, answer))
            case grouped.Failed(caller=(EndpointId() as where, int() as ticket), setback=setback):
                self.send_to(where, Declined(ticket, setback))
            case grouped.Failed(caller=(None, int() as ticket)) if ticket > 0:
                self.outbox.declined(ticket)
            case grouped.Readable(caller=(_, int() as number)):
                self._waits.answered(-number)
            case grouped.WholenessChanged(is_whole=is_whole):
                news = News.WHOLE if is_whole else News.REGRESSED
                self.tell_news(news, news.value)
            case grouped.HistoryConflict(leader=leader, agreed=agreed, commit=commit):
                self.tell_news(
                    News.CONFLICT,
                    f"the leader {leader.name} has entries up to {agreed} in common with this"
                    f" replica, which knows {commit} to be committed",
                )
            case _:
                pass
