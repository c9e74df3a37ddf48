"""Decides which leader a proxy of a store or log follows.

Leaders compare by epoch, then by entity, at every reader in the same way. One of an earlier term is
never followed. One of the same term is followed if it is later, or if the present one is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from stores.effects import MasterFound, MasterLost, SecondMaster
from stores.epochs import term_of
from wire.identifiers import EndpointId, EntityId

HEARTBEAT_TICKS: Final = 5
"""Ticks between two words of a leader to each reader, and of a reader to its leader."""

SILENCE_TICKS: Final = 4 * HEARTBEAT_TICKS
"""Ticks without a word after which a leader counts as lost: four of its heartbeats."""

SEARCH_TICKS: Final = 2
"""Ticks between two calls for a leader, as in Broker."""

RIVALS_MAX: Final = 64
"""Other leaders of the same name that are remembered, so that each is told of once."""

RIVAL_COUNT: Final = 3
"""Heartbeats after which another leader is taken to be alive: what comes together may be late."""

RIVAL_PAUSE_TICKS: Final = HEARTBEAT_TICKS
"""Ticks between two messages that count as two heartbeats: a link that was cut brings any number of
messages of the last leader together."""


class LeaderId(NamedTuple):
    """Names a leader. One that was restarted is another one, and later ones are greater.

    One is built for every command, and compared at the speed of C.
    """

    epoch: int
    entity: EntityId


class State(Enum):
    """How far a reader is with its leader."""

    SEARCHING = "searching for a leader"
    IN_TOUCH = "taken in by a leader, and in touch with it"
    LOST = "out of touch: it searches, and goes on if the same leader comes back"


class Event(Enum):
    """What may happen to a reader. The value says so in the documents."""

    HEARD = "its leader speaks"
    HEARD_LATER = "a later leader speaks"
    HEARD_EARLIER = "an earlier leader speaks"
    OFFERED = "its leader takes it in"
    OFFERED_LATER = "a later leader takes it in"
    OFFERED_EARLIER = "an earlier leader takes it in"
    FENCED = "a leader of an earlier term speaks"
    HINTED = "a later term is known of"
    LET_GO = "its leader or its stream ended"
    SILENT = "no word for long"
    UNREACHABLE = "its leader's endpoint is unreachable"
    DISCOVERED = "an endpoint is discovered"
    DUE = "time to search"


class Action(Enum):
    """What a move does. The value says so in the documents."""

    SEARCH = "search"
    SEARCH_ONCE = "search, once a tick"
    FOLLOW = "follow it"
    DROP = "let it go"
    TELL_LOST = "say it is lost"
    TELL_FOUND = "say it is found"
    COUNT_RIVAL = "count a rival's heartbeat"
    REFUSE = "refuse it"
    DEPOSE = "depose it"


class Move(NamedTuple):
    """One cell of the table."""

    state: State
    """The next one."""
    actions: tuple[Action, ...] = ()


_DROPS: Final = Move(State.SEARCHING, (Action.DROP, Action.SEARCH))
_LOSES: Final = Move(State.SEARCHING, (Action.TELL_LOST, Action.DROP, Action.SEARCH))
_FOLLOWS: Final = Move(State.IN_TOUCH, (Action.FOLLOW, Action.TELL_FOUND))
_FINDS: Final = Move(State.IN_TOUCH, (Action.TELL_FOUND,))

_MOVES: Final[dict[State, dict[Event, Move]]] = {
    State.SEARCHING: {
        Event.HEARD_LATER: Move(State.SEARCHING, (Action.SEARCH_ONCE,)),
        Event.HEARD_EARLIER: Move(State.SEARCHING, (Action.SEARCH_ONCE,)),
        Event.OFFERED: _FOLLOWS,
        Event.OFFERED_LATER: _FOLLOWS,
        Event.OFFERED_EARLIER: _FOLLOWS,
        Event.LET_GO: _DROPS,
        Event.DISCOVERED: Move(State.SEARCHING, (Action.SEARCH,)),
        Event.DUE: Move(State.SEARCHING, (Action.SEARCH_ONCE,)),
    },
    State.IN_TOUCH: {
        Event.HEARD_EARLIER: Move(State.IN_TOUCH, (Action.COUNT_RIVAL,)),
        Event.OFFERED_EARLIER: Move(State.IN_TOUCH, (Action.REFUSE, Action.COUNT_RIVAL)),
        Event.HEARD_LATER: _LOSES,
        Event.OFFERED_LATER: Move(
            State.IN_TOUCH, (Action.TELL_LOST, Action.FOLLOW, Action.TELL_FOUND)
        ),
        Event.HINTED: _LOSES,
        Event.LET_GO: _LOSES,
        Event.SILENT: Move(State.LOST, (Action.TELL_LOST,)),
        Event.UNREACHABLE: Move(State.LOST, (Action.TELL_LOST,)),
    },
    State.LOST: {
        Event.HEARD: _FINDS,
        Event.HEARD_LATER: _DROPS,
        Event.HEARD_EARLIER: _DROPS,  # it is better than none
        Event.OFFERED: _FINDS,
        Event.OFFERED_LATER: _FOLLOWS,
        Event.OFFERED_EARLIER: _FOLLOWS,
        Event.HINTED: _DROPS,
        Event.LET_GO: _DROPS,
        Event.DISCOVERED: Move(State.LOST, (Action.SEARCH,)),
        Event.DUE: Move(State.LOST, (Action.SEARCH_ONCE,)),
    },
}
"""What happens in each state, but for what is the same in all of them."""

MOVES: Final = {
    state: {event: Move(state) for event in Event}
    | {Event.FENCED: Move(state, (Action.DEPOSE, Action.COUNT_RIVAL))}
    | moves
    for state, moves in _MOVES.items()
}
"""The whole table: what happens in each state at each event. Mostly nothing changes."""


@dataclass(frozen=True, slots=True)
class Search:
    """Call for a leader, at every endpoint."""


@dataclass(frozen=True, slots=True)
class Follow:
    """Follow a leader."""

    leader: LeaderId
    former: LeaderId | None
    """The one that was followed before, maybe the same."""


@dataclass(frozen=True, slots=True)
class Drop:
    """Expect nothing of the leader any more."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """Tell a leader that another one is followed, so that it does not wait."""

    leader: LeaderId


@dataclass(frozen=True, slots=True)
class Depose:
    """Tell a leader of the highest epoch that is known, if it spoke to this reader."""

    leader: LeaderId


SeekerEffect = Search | Follow | Drop | Refuse | Depose | MasterFound | MasterLost | SecondMaster


class Seeker:
    """Takes in what is known of leaders, and gives what to do about them, to be done in order."""

    def __init__(self, *, term_of: Callable[[int], int] = term_of) -> None:
        """Follow no leader yet. ``term_of`` gives the term of a leader's epoch."""
        self.state = State.SEARCHING
        self.leader: LeaderId | None = None
        """The one that is followed, or was last."""
        self.known_epoch = 0
        """The highest that any leader is known to have. One of an earlier term is not followed."""
        self._term_of = term_of
        self._tick = 0
        self._silent_ticks = 0
        self._search_tick: int | None = None
        self._rivals: dict[LeaderId, tuple[int, int]] = {}  # heartbeats, and the tick of the last

    def __repr__(self) -> str:
        """Show in one line what matters when something hangs."""
        return f"<Seeker {self.state.name} {self.leader} silent={self._silent_ticks}>"

    @property
    def is_in_touch(self) -> bool:
        """True if the reader has a leader, and hears it."""
        return self.state is State.IN_TOUCH

    def follows(self, sender: LeaderId) -> bool:
        """Tell whether what this leader sends counts: it is ours, and of no earlier term."""
        return sender == self.leader and not self._is_fenced(sender)

    # -- inputs ----------------------------------------------------------------------------------

    def hear(self, sender: LeaderId, *, offers: bool = False) -> Sequence[SeekerEffect]:
        """Take in that a leader spoke, or ``offers`` to have this reader follow it."""
        if sender == self.leader and self.state is State.IN_TOUCH:
            self._silent_ticks = 0
            return ()
        self.known_epoch = max(self.known_epoch, sender.epoch)
        event = self._classify(sender, offers=offers)
        effects = self._move(event, f"the master at {sender.entity} took over", sender)
        if self.follows(sender):
            self._silent_ticks = 0
        return effects

    def hint(self, epoch: int) -> Sequence[SeekerEffect]:
        """Learn that some leader has this epoch; one of an earlier term is followed no longer."""
        self.known_epoch = max(self.known_epoch, epoch)
        if self.leader is None or not self._is_fenced(self.leader):
            return ()
        return self._move(Event.HINTED, "it was deposed")

    def let_go(self, reason: str) -> Sequence[SeekerEffect]:
        """Start anew: the leader closed, forgot this reader, or sent what makes no sense."""
        return self._move(Event.LET_GO, reason)

    def unreachable(self, endpoint: EndpointId) -> Sequence[SeekerEffect]:
        """Learn that there is no path to an endpoint any more."""
        if self.leader is None or self.leader.entity.endpoint != endpoint:
            return ()
        return self._move(Event.UNREACHABLE, "its endpoint is unreachable")

    def discovered(self) -> Sequence[SeekerEffect]:
        """Learn that there is a path to another endpoint: it may have a leader."""
        return self._move(Event.DISCOVERED)

    def tick(self) -> Sequence[SeekerEffect]:
        """Let one tick (100 ms) pass."""
        self._tick += 1
        self._silent_ticks += 1
        effects: list[SeekerEffect] = []
        if self._silent_ticks >= SILENCE_TICKS:
            effects = self._move(Event.SILENT, f"silent for {self._silent_ticks} ticks")
        if self._tick % SEARCH_TICKS == 0:
            effects += self._move(Event.DUE)
        return effects

    # -- steps -----------------------------------------------------------------------------------

    def _is_fenced(self, leader: LeaderId) -> bool:
        return self._term_of(leader.epoch) < self._term_of(self.known_epoch)

    def _classify(self, sender: LeaderId, *, offers: bool) -> Event:
        if self._is_fenced(sender):
            return Event.FENCED
        if sender == self.leader:
            return Event.OFFERED if offers else Event.HEARD
        if self.leader is None or sender > self.leader:
            return Event.OFFERED_LATER if offers else Event.HEARD_LATER
        return Event.OFFERED_EARLIER if offers else Event.HEARD_EARLIER

    def _move(
        self, event: Event, reason: str = "", other: LeaderId | None = None
    ) -> list[SeekerEffect]:
        state, actions = MOVES[self.state][event]
        effects = [each for action in actions for each in self._act(action, reason, other)]
        self.state = state
        return effects

    def _act(self, action: Action, reason: str, other: LeaderId | None) -> Iterator[SeekerEffect]:
        """Do one action of a move. Only what is heard or offered has an ``other``."""
        match action:
            case Action.SEARCH_ONCE if self._search_tick == self._tick:
                pass
            case Action.SEARCH | Action.SEARCH_ONCE:
                self._search_tick = self._tick
                yield Search()
            case Action.DROP:
                yield Drop(reason)
            case Action.TELL_LOST if self.leader is not None:
                yield MasterLost(self.leader.entity, reason)
            case Action.TELL_FOUND if self.leader is not None:
                yield MasterFound(self.leader.entity, self.leader.epoch)
            case Action.FOLLOW if other is not None:
                former, self.leader = self.leader, other
                yield Follow(other, former)
            case Action.REFUSE if other is not None:
                yield Refuse(other)
            case Action.DEPOSE if other is not None:
                yield Depose(other)
            case Action.COUNT_RIVAL if other is not None:
                yield from self._count_rival(other)
            case _:
                raise AssertionError(f"{self}: nothing to {action.value}")

    def _count_rival(self, other: LeaderId) -> Iterator[SecondMaster]:
        """Count heartbeats with a pause before them, and tell of the rival at the third, once."""
        if self.leader is None or other.entity == self.leader.entity:
            return
        if other not in self._rivals and len(self._rivals) >= RIVALS_MAX:
            return
        count, last = self._rivals.get(other, (0, self._tick - RIVAL_PAUSE_TICKS))
        if self._tick - last >= RIVAL_PAUSE_TICKS:
            self._rivals[other] = (count + 1, self._tick)
            if count + 1 == RIVAL_COUNT:
                yield SecondMaster(other.entity, other.epoch)
