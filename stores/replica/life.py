"""How one replica lives: its member begins, stands still, begins anew, and ends. Pure.

What it hears meanwhile, and what is asked of it, is the core's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

from stores.effects import Closed
from stores.group import effects as grouped
from stores.group.ballot import NEW_SLOTS
from stores.group.clock import Moment
from stores.group.codec import GroupCodec
from stores.group.effects import Snapshot
from stores.group.member import Member
from stores.group.member_parts import Stored
from stores.group.positions import START, MemberId
from stores.group.words import Aim, Cede, Differs, Farewell
from stores.replica.adopting import Adoption
from stores.replica.arrival import Arrival
from stores.replica.asked.desk import Desk
from stores.replica.asked.outbox import Outbox
from stores.replica.beginning import Beginning, World
from stores.replica.carrying import Carrier
from stores.replica.effects import Begin, News, ReplicaEffect
from stores.replica.facts import Facts, ReplicaMachine, conflict_text
from stores.replica.outsiders import Answering
from stores.replica.roster import Roster
from stores.replica.write_queue import Keeper
from wire.errors import ErrorCode


class Life(Facts, ABC):
    """A replica with its member, from its first to its last step."""

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
        super().__init__(roster, codec, machine, outbox, beginning, world)
        floor = beginning.stored.floor.index
        self.carrier = Carrier(self, self._hear, self._begun, machine, floor)
        self._carry_out = self.carrier.carry_out
        self._beginning = beginning
        self._arrival = Arrival(self, self._carry_out, world, beginning.manner)
        self.adoption = Adoption(self, self, self._carry_out)
        self._desk = Desk(self, self._carry_out, beginning.manner)
        self._made: Member | None = None
        """What the files have, until it is known whether it leads."""
        self.is_conceding = False
        """True once another one leads in the place of the master here."""
        self.proxies = self._outsiders()
        self._is_closed = self._is_paused = False
        self.has_work = False
        """True where the last step left something that is too long for one, or is to be done at the
        end of the turn."""

    @abstractmethod
    def _hear(self, effect: grouped.Effect) -> None:
        """Take in what the member says to those who asked, and to persons."""

    @abstractmethod
    def _take(self) -> list[ReplicaEffect]:
        """End a step: give what it came to."""

    @abstractmethod
    def _outsiders(self) -> Answering:
        """Make what answers endpoints outside of the group."""

    # -- the beginning ---------------------------------------------------------------------------

    def start(self) -> list[ReplicaEffect]:
        """Start: as the member that there is, or with the question who else is there."""
        if self._manner.aim is not Aim.JOIN:
            self._made = None if self.group is None else self._make_member(self._beginning.stored)
        if self._manner.aim is Aim.CLAIM:
            self.adoption.begin(self._manner.announced, self._made)
        elif self._manner.aim is Aim.ANEW:
            self.lead_alone()
        elif self.group is not None:
            self._start_member(self._make_member(self._beginning.stored))
        else:
            self._begin(self._arrival.begin())
        self._arrival.greet()
        return self._take()

    def _begin(self, begin: Begin | None) -> None:
        if begin is not None:
            self.carrier.begin(begin)

    def _begun(self, begin: Begin) -> None:
        if not self._is_closed:
            self.group = begin.group
            stored = replace(self._beginning.stored, entries=begin.entries)
            member = self._make_member(stored)
            if self.adoption.is_under_way and not self.is_volatile:
                member.ballot.doubt()  # Its file knows of a part only, if it ends meanwhile.
            self._start_member(member)
            self._arrival.greet()

    def _make_member(self, stored: Stored) -> Member:
        draw, ack_entries = self._world.draw, self._manner.ack_entries
        member = Member(
            stored, self._machine, draw, wanted=self.roster.wanted, ack_entries=ack_entries
        )
        if self._beginning.reached > stored.applied:
            member.state.advance(self._beginning.reached)
            # The rows had some of it already, so that its changes cannot all be told.
            self._machine.restart_history()
        return member

    def _start_member(self, member: Member) -> None:
        self.member = member
        moment = Moment(self._world.monotonic_ns(), self._world.now_ns())
        self._carry_out(self.member.start(moment))

    # -- what clones hold ------------------------------------------------------------------------

    def lead_alone(self) -> None:
        """Lead with what is here, as the only voter."""
        made, self._made = self._made, None
        if self.group is None:
            self._begin(self._arrival.found())
            return
        if self.member is None:
            assert made is not None, "the files have it"
            self._start_member(made)
        if self.member is not None and self.member.leading is None:
            self._carry_out(self.member.force())

    def follow(self, group: bytes) -> None:
        """Join a group as one that knows too little to lead."""
        made, self._made = self._made, None
        if self.group is None:
            self._begin(Begin(group, ()))
        elif self.member is None:
            assert made is not None, "the files have it"
            made.ballot.doubt()
            self._start_member(made)

    def begin_anew(self) -> None:
        """Leave the group, and drop all that is held; a file is of one group, and stays."""
        if not self.is_volatile:
            self._end(ErrorCode.STORE_CONFLICT, self._anew_text())
            return
        if self.held() > START:
            self.tell_news(News.ANEW, "its master begins anew, and so does this clone")
        self._forget()
        self.group = None
        self.roster.restart()
        self._arrival.restart()

    def _anew_text(self) -> str:
        words = self.outbox.words
        return (
            f"its {words.leader} begins another {words.kind}, and the file of this {words.copy} is"
            f" of the one before: move it and its ballot away, and attach the {words.copy} again"
        )

    def give_way(self, other: MemberId, content: Cede | Differs) -> None:
        """Have another one lead with what is here; or take all from a leader that has other."""
        if isinstance(content, Cede):
            self.adoption.obey(other)
        else:
            self._on_difference(other)

    def _on_difference(self, leader: MemberId) -> None:
        """Take all anew from the leader, which holds something else; a voter only tells of it."""
        text = f"what it holds is not what its leader {leader.name} holds"
        if leader != self.leader or self.member is None:
            return
        if not self.is_volatile or self.own in self.voters:
            self.tell_news(News.CONFLICT, text)
            return
        self.tell_news(News.ANEW, f"{text}: it takes all of it anew")
        self._forget()
        self._start_member(self._make_member(self._beginning.stored))

    def _forget(self) -> None:
        """Hold nothing, in a life that no earlier session of this member reaches into."""
        stored = self._beginning.stored
        if self.member is not None:
            starts = self.member.ballot.starts
            promises = replace(stored.promises, starts=starts)
            self._beginning = replace(self._beginning, stored=replace(stored, promises=promises))
        self.member = None
        self._machine.begin_anew()
        self.carrier.restart()

    def refuse(self, code: ErrorCode, text: str) -> None:
        """End, as this store cannot be led here."""
        self._end(code, text)

    def may_vote(self) -> bool:
        """Tell whether the roles of the mesh let others believe what is held here."""
        return self._world.may_vote()

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

    def settle_in(self, snapshot: Snapshot, keeper: Keeper) -> list[ReplicaEffect]:
        """Go on with a file, which has this state, and the promises of this member."""
        assert self.member is not None, "it has a state"
        promises = self.member.ballot.promises
        position = snapshot.position
        stored = Stored(
            promises,
            NEW_SLOTS,
            position,
            snapshot.voters,
            (),
            position.index,
            snapshot.times,
            dismissed=snapshot.dismissed,
        )
        self._beginning = replace(self._beginning, stored=stored, reached=0)
        self.carrier.use(keeper, position.index)
        self.is_volatile = self._is_paused = False
        self._start_member(self._make_member(stored))
        return self._take()

    def force(self) -> list[ReplicaEffect]:
        """Lead alone: a person says that the other voters are gone."""
        if self.member is not None:
            self._carry_out(self.member.force())
        return self._take()

    def concede(self) -> list[ReplicaEffect]:
        """Stand still: another one leads, and its history may be another one.

        A restart leads no more with what is here, until it has what others have.
        """
        self._is_paused = self.is_conceding = True
        if self.member is not None:
            self._carry_out(self.member.concede())
        return self.take()

    def bequeath(self, text: str) -> list[ReplicaEffect]:
        """End without a word to members: what has no outcome is refused, as it may be lost."""
        self._desk.give_up(ErrorCode.FENCED, text)
        self.proxies.say_goodbye()
        self._is_closed = True
        return self.take()

    def _has_more(self) -> bool:
        """Tell whether something is too long for one step, or waits for the end of the turn."""
        leading = None if self.member is None else self.member.leading
        waits = self._desk.is_joining or (leading is not None and leading.has_word)
        return not self._is_paused and (waits or self.proxies.has_work)

    # -- the end ---------------------------------------------------------------------------------

    def tell_of(self, effect: grouped.Effect) -> None:
        """Have a person know of it; a master that would take over another history ends."""
        is_adopting = self.adoption.is_under_way
        if isinstance(effect, grouped.WholenessChanged) and is_adopting:
            return  # It is what a master that takes over comes to, and no matter for a person.
        super().tell_of(effect)
        if isinstance(effect, grouped.HistoryConflict) and is_adopting:
            advice = (
                f"fresh=True leads with them, promote(force=True) at {effect.leader.name} without"
            )
            self._end(ErrorCode.STORE_CONFLICT, f"{conflict_text(effect)}: {advice}")

    def _end(self, code: ErrorCode, text: str) -> None:
        if self._is_closed:
            return
        if self.member is not None and self.member.leading is not None:
            for effect in self.member.leading.electorate.pass_on():
                if isinstance(effect, grouped.Send):
                    self.send(effect.to, effect.message)
        if self.group is not None:
            self.send_all(Farewell())
            self.proxies.say_goodbye()
        self._desk.give_up(code, text)
        self.outbox.close()
        self._is_closed = True
        self.tell(Closed(code, text))
