"""One replica of a group, as the runner drives it: a member, its machine, and what was asked here.

It is a ``Core`` as the one runner hears, ticks, commits and closes them. What is the machine's own
comes from who inherits: ``stores.replica.tables`` for stores, ``stores.replica.logs`` for logs.
Pure: clocks come in with each tick.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Final

from handshake.access import Right
from stores.effects import MasterFound, MasterLost
from stores.group import effects as grouped
from stores.group.clock import Moment
from stores.group.codec import GroupCodec
from stores.group.member import Member
from stores.group.messages import FromFollower, HigherTerm, Message, ToFollower
from stores.group.positions import MemberId
from stores.group.words import (
    OUTSIDE,
    Answered,
    Ask,
    Barred,
    Cede,
    Declined,
    Differs,
    Errand,
    Farewell,
    Greeting,
    JournalEnd,
    Leads,
    Letter,
    Looked,
    Order,
    Seek,
    Steer,
    Steered,
    Verdict,
    Verify,
    Word,
)
from stores.quota import Quota
from stores.replica.asked.errands import Errands
from stores.replica.asked.outbox import Outbox
from stores.replica.asked.waits import Waits
from stores.replica.beginning import Beginning, World
from stores.replica.effects import News, ReplicaEffect
from stores.replica.facts import ReplicaMachine
from stores.replica.life import Life
from stores.replica.roster import Roster
from stores.statistics import LogStatistics, StoreStatistics
from stores.table.bodies import ChangeQuota
from wire.errors import ErrorCode
from wire.identifiers import EndpointId

LATE_NS: Final = 500_000_000
"""A tick that comes so late ends a pause: what came meanwhile is heard first, and no timer fires
before the next tick. Half of what an election takes."""


class GroupCore(Life):
    """A replica of a group at one endpoint."""

    def __init__(
        self,
        roster: Roster,
        machine: ReplicaMachine,
        outbox: Outbox,
        codec: GroupCodec,
        beginning: Beginning,
        world: World,
    ) -> None:
        """Start with what is stored, and with the declared names that the ``roster`` has."""
        super().__init__(roster, machine, outbox, codec, beginning, world)
        self.errands = Errands(self, self._carry_out)
        self._waits = Waits(self, self._carry_out)
        self._leader: MemberId | None = None
        self._ticked_ns = world.monotonic_ns()
        self._was_late = False

    # -- what comes in ---------------------------------------------------------------------------

    def receive(self, sender: EndpointId, payload: bytes) -> list[ReplicaEffect]:
        """Take in a command; raises ``DecodeError``."""
        letter = self._codec.decode(payload)
        is_outside = letter.sender == OUTSIDE
        is_vouched = is_outside or self._world.vouches(sender, letter.sender.name)
        if self._is_closed or self._is_paused or not is_vouched:
            return []
        if is_outside:
            self.proxies.hear(sender, letter)
        else:
            self._hear_member(sender, letter)
        return self._take()

    def _hear_member(self, sender: EndpointId, letter: Letter) -> None:
        content = letter.content
        if isinstance(content, Greeting):
            if self._manner.is_single:
                self.adoption.hear_greeting(sender, letter, content)
            self._begin(self._arrival.hear(sender, letter, content))
        elif isinstance(content, JournalEnd):
            self.adoption.hear_journal_end(sender, letter, content)
        elif isinstance(content, Barred):
            is_ours = self.group is None or letter.group in (None, self.group)
            if is_ours and content.life in (None, self.own.life):
                self._on_barred(letter.sender, content)
        elif letter.group == self.group and self.member is not None:
            self.roster.meet(sender, letter.sender, self.member.journal.voters.current)
            if not self.adoption.bars(sender, content):
                self._on_content(self.member, sender, letter.sender, content)

    def flush(self) -> list[ReplicaEffect]:
        """Propose what was asked."""
        is_over = self._is_closed or self._is_paused
        if is_over or self._desk.is_joining or not self.outbox.has_unsent:
            return []  # All else was told at the end of the step that caused it.
        self._desk.propose()
        return self._take() if self.is_leader else self.take()  # Elsewhere it leaves, no more.

    def tick(self, now_ns: int) -> list[ReplicaEffect]:
        """Let a tick pass. The ticks of a pause count as one, after all that came meanwhile."""
        monotonic_ns = self._world.monotonic_ns()
        is_pause_over = monotonic_ns - self._ticked_ns >= LATE_NS and not self._was_late
        self._ticked_ns, self._was_late = monotonic_ns, is_pause_over
        if self._is_closed or self._is_paused or is_pause_over:
            return []
        self.look_at_lead(monotonic_ns)
        self.roster.tick(self.voters)
        self.bar.tick()
        if self.member is not None:
            self._carry_out(self.member.tick(Moment(monotonic_ns, now_ns)))
            self._machine.tick()
            self.look_at_quota()
            self.look_at_vote()
            self.carrier.tend_journal(self.member)
        self._begin(self._arrival.tick())
        self.adoption.tick()
        self._desk.tick()
        self._waits.tick()
        self.errands.tick()
        self._tick()
        return self._take()

    def work(self) -> list[ReplicaEffect]:
        """Take a step of it; raises ``DecodeError``. What was asked goes first, with the commit."""
        if not self._is_closed and not self._is_paused:
            self._desk.end_turn()
        if not self._is_paused:
            self.carrier.end_turn()
        self.proxies.work()
        return self._take()

    @abstractmethod
    def statistics(self) -> StoreStatistics | LogStatistics:
        """Give a snapshot of counts."""

    def peer_unreachable(self, endpoint: EndpointId) -> list[ReplicaEffect]:
        """Take a hint: an endpoint is gone."""
        self.proxies.lose(endpoint)
        self._lose(endpoint)
        self.adoption.lose(endpoint)
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

    @property
    def shows_all_told(self) -> bool:
        """True if readers here see what came of all requests whose outcome was told here."""
        return self._desk.shows_all

    def explain_idle(self) -> str:
        """Say what is missing."""
        return self._waits.explain()

    def begin_order(self, token: int, order: Order, name: str) -> list[ReplicaEffect]:
        """Have the leader do something with a member; ``OrderDone`` tells that it is done."""
        self.errands.begin_order(token, order, name)
        return self._take()

    def begin_ask(self, token: int, request: object) -> list[ReplicaEffect]:
        """Ask the group for something in no writer's name; ``AskDone`` tells that it is done."""
        self.errands.begin_ask(token, request)
        return self._take()

    def set_quota(self, quota: Quota) -> list[ReplicaEffect]:
        """Have the group go by another quota; only at its leader."""
        if self.member is not None:
            self._carry_out(self.member.propose((None, 0), ChangeQuota(quota)))
        return self._take()

    def inherit(self, outbox: Outbox) -> None:
        """Take on what the handle of another one has asked for so far."""
        self.outbox = outbox
        outbox.rewind()

    def _pump(self) -> None:
        if not self._is_closed and not self._is_paused:
            self._desk.pump()

    # -- the end ---------------------------------------------------------------------------------

    def close(self, text: str) -> list[ReplicaEffect]:
        """Do what can be done at once, and say goodbye: another voter is to lead at once.

        What has no outcome is refused with the ``text``, which says what is closed.
        """
        self._pump()
        self._end(ErrorCode.SHUTTING_DOWN, text)
        return self._take()

    # -- letters ---------------------------------------------------------------------------------

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
            case ToFollower() | FromFollower():  # First, as there are most of them.
                self._carry_out(member.receive(other, content))
            case Ask(ticket, request):
                self._check_asker(request, sender)
                self._carry_out(member.propose((other, ticket), request))
            case Answered(ticket, answer):
                self._on_answer(ticket, answer)
                self._pump()
            case Declined(ticket):
                self._on_decline(ticket)
            case Farewell():
                self.proxies.lose(sender)
                self.roster.lose(sender)
                self._carry_out(member.farewell(other))
            case HigherTerm(term) if self._is_deposed_in(term):
                self.is_deposed = True
            case _ if isinstance(content, Errand):
                self._on_errand(sender, other, content)
            case Greeting() | Barred() | JournalEnd() | Seek() | Leads():
                pass
            case _:
                self._carry_out(member.receive(other, content))

    def _on_errand(self, sender: EndpointId, other: MemberId, content: Errand) -> None:
        match content:
            case Steer():
                self.errands.obey(sender, content)
            case Steered():
                self.errands.hear_order(content)
            case Verify() | Looked() | Verdict():
                self._on_comparison(sender, other, content)
            case Cede() | Differs():
                self.give_way(other, content)

    def _lose(self, endpoint: EndpointId) -> None:
        for member in self.roster.lose(endpoint):
            if self.member is not None:
                self._carry_out(self.member.unreachable(member))

    def _on_answer(self, ticket: int, answer: object) -> None:
        if not self.errands.hear_ask(ticket, answer=answer):
            self._desk.answered(ticket, answer)

    def _on_decline(self, ticket: int) -> None:
        self.errands.declined(ticket)
        self.outbox.declined(ticket)

    # -- the machine's own -----------------------------------------------------------------------

    @abstractmethod
    def _check_asker(self, request: object, sender: EndpointId) -> None:
        """Raise ``DecodeError`` where an endpoint asks in the name of another one's writer."""

    def _tick(self) -> None:
        """Let a tick pass."""

    def _show(self) -> None:
        """Let those that follow changes know of what is here, at the end of a step."""

    def _on_comparison(
        self, sender: EndpointId, other: MemberId, word: Verify | Looked | Verdict
    ) -> None:
        """Take in what is said of a comparison of all members."""

    # -- effects ---------------------------------------------------------------------------------

    def _take(self) -> list[ReplicaEffect]:
        if not self._is_closed:
            self.carrier.end_step()
            self._notice()
            self._show()
            self._desk.look_up()
            if self.outbox.held:
                self._desk.reveal()
            self._waits.tell_over()
        self.has_work = not self._is_closed and self._has_more()
        return self.take()

    @property
    def _is_level(self) -> bool:
        """True if all is applied here that the leader is known to have."""
        member = self.member
        if member is None or not self.is_served or member.missing_count:
            return False
        return member.state.commit == member.journal.end_index

    def _notice(self) -> None:
        """Tell of another leader, once it serves."""
        leader = self.server
        if leader == self._leader:
            return
        before, self._leader = self._leader, leader
        self.outbox.rewind()
        if leader is None:
            where = self.entity_of(before or self.own)
            is_single = self._manner.is_single
            what = "it closed, or is not heard" if is_single else "the group elects a leader"
            self.tell(MasterLost(where, what))
            return
        assert self.member is not None
        self.was_served = True
        self.tell(MasterFound(self.entity_of(leader), self.member.ballot.term))
        self.outbox.resume()
        self._pump()
        self.errands.resume()
        self._waits.rewind()

    def _is_told(self, asker: MemberId, answer: object) -> bool:
        """Tell whether the entry is all the answer that a member needs: what came of a write."""
        leading = None if self.member is None else self.member.leading
        return type(answer) is tuple and leading is not None and leading.feeding.feeds(asker)

    def _hear(self, effect: grouped.Effect) -> None:
        """Take in what the member says to those who asked, and to persons."""
        match effect:  # What members ask most goes first.
            case grouped.Replied(caller=(MemberId() as asker, int() as ticket), answer=answer):
                if not (effect.is_in_entry and self._is_told(asker, answer)):
                    self.send(asker, Answered(ticket, answer))
            case _ if self.proxies.hear_member(effect):
                pass
            case grouped.Replied(caller=(None, int() as ticket), answer=answer):
                self._on_answer(ticket, answer)
            case grouped.Failed(caller=(MemberId() as asker, int() as ticket), setback=setback):
                self.send(asker, Declined(ticket, setback))
            case grouped.Failed(caller=(None, int() as ticket)) if ticket > 0:
                self._on_decline(ticket)
            case grouped.Readable(caller=(_, int() as number)):
                self._waits.answered(-number)
            case _:
                self.tell_of(effect)
