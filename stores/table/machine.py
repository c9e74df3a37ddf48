"""The machine of a store: what a replica group agrees on is a table, and the ledger of its writers.

The leader judges: it turns a request into absolute actions, so that members that apply them need no
clock and decide nothing. All that decides about later requests is in the applied state, the same at
every member: entries with their expiries, writers with what they were answered, the quota.
"""

from __future__ import annotations

from stores.actions import (
    Action,
    ClearCommand,
    EraseCommand,
    ExpireCommand,
    PutCommand,
    size_of,
)
from stores.digests import DigestWalk
from stores.group.clock import Times
from stores.group.machine import Answer, Append, Done, Judgement, Machine, Staged
from stores.group.positions import Position
from stores.group.terms import is_forced
from stores.judgement import judge, vet
from stores.outcomes import Outcome, add_outcome
from stores.table.bodies import (
    Answered,
    ChangeQuota,
    Compare,
    Compared,
    EndSession,
    OpenSession,
    Performed,
    QuotaChanged,
    Register,
    Registered,
    RenewSession,
    SessionOpened,
    SessionsEnded,
    Write,
)
from stores.table.overlay import keys_of, skip_of
from stores.table.state import TableState
from wire.errors import DecodeError
from wire.limits import PAYLOAD_SIZE_MAX


class TableMachine(TableState, Machine):
    """A store as a replica group's machine: see ``stores.group.machine``."""

    # -- judgement, at the leader ----------------------------------------------------------------

    def judge(self, request: object, now: Times) -> Judgement:
        """Decide what a request comes to, with all that is staged.

        Raises ``DecodeError`` for one that no honest writer sends; then nothing has changed.
        """
        if isinstance(request, Write):
            return self._judge_write(request, now)
        match request:
            case Register():
                return self._writers.judge_registration(request)
            case OpenSession() | RenewSession() | EndSession():
                return self._lifetimes.sessions.judge(request, self._overlay)
            case ChangeQuota(quota):
                return Append(QuotaChanged(quota))
            case Compare(number):
                return Append(Compared(number))
            case _:
                raise DecodeError(
                    f"a {type(request).__name__} is nothing that a store can be asked for"
                )

    def due(self, now: Times) -> ExpireCommand | SessionsEnded | None:
        """End what is over by the group's elapsed time, sessions and keys, a slice at a time."""
        return self._lifetimes.due(now.elapsed_ns)

    def has_deadlines(self) -> bool:
        """Tell whether anything expires."""
        return bool(self._lifetimes)

    def lead(self, now: Times, term: int) -> None:
        """Give sessions their full time; keys have what was left of it under the last leader."""
        self._stage_term(term)
        self._lifetimes.sessions.lead()

    def stage(self, position: Position, body: object) -> None:
        """Have later requests judged as if this were applied."""
        index = position.index
        self._stage_term(position.term)
        match body:
            case Performed(_, actions):
                if body is not self._judged:
                    self._overlay.stage(actions)
                self._judged = None
                self._writers.stage_request(index, *body.asked)
                self._lifetimes.tie(actions)
            case SessionOpened() | SessionsEnded():
                self._lifetimes.sessions.stage(index, body)
                if isinstance(body, SessionsEnded) and body.removal is not None:
                    self._overlay.stage((body.removal,))
            case ExpireCommand():
                self._overlay.stage((body,))
            case Registered():
                self._writers.stage_registration(index, body)
            case QuotaChanged(quota):
                self._staged_quotas += 1
                self.meter.replace(quota)
            case _:
                pass  # judged by nothing

    def size_of(self, body: object) -> int:
        """Give the bytes of keys and values in an action, and something for each change."""
        match body:
            case Performed(_, actions):
                return sum(map(size_of, actions))
            case SessionsEnded(removal=ExpireCommand() as removal):
                return size_of(removal)
            case ExpireCommand():
                return size_of(body)
            case _:
                return 0

    def changes_of(self, body: object) -> int:
        """Count the keys that an action names."""
        match body:
            case Performed(_, actions):
                return sum(len(keys_of(action)) for action in actions)
            case SessionsEnded(removal=ExpireCommand(keys)) | ExpireCommand(keys):
                return len(keys)
            case _:
                return 0

    def undo(self) -> None:
        """Forget all that is staged."""
        self._lifetimes.undo(self._overlay.undo())
        self._judged = None
        self._writers.undo()
        self._staged_term = self.position.term
        if self._staged_quotas:
            self._staged_quotas = 0
            self.meter.replace(self._quota)

    # -- what is committed -----------------------------------------------------------------------

    def apply(self, position: Position, body: object) -> Answered:
        """Apply a committed action, and give the answer to the request that it came from."""
        self._advance(position)
        if isinstance(body, Performed):
            outcomes = list[Outcome]()
            for action in body.actions:
                self._change(action, outcomes)
            self._writers.perform(*body.asked, body.resolved, outcomes)
            return tuple(outcomes)
        match body:
            case ExpireCommand():
                self._change(body, [])
            case Registered():
                return self._writers.register(position.index, body)
            case SessionOpened() | SessionsEnded():
                if isinstance(body, SessionsEnded) and body.removal is not None:
                    self._change(body.removal, [])
                return self._lifetimes.sessions.apply(position.index, body)
            case QuotaChanged(quota):
                self._quota = quota
                if self._staged_quotas:
                    self._staged_quotas -= 1
                else:
                    self.meter.replace(quota)
            case Compared(number):
                overlay = self._overlay
                table = overlay.committed
                table.walk = walk = DigestWalk(table.columns, overlay.revision, overlay.past)
                self._comparison = number, walk
            case _:
                raise AssertionError(f"a table has no {type(body).__name__} in its journal")
        return None

    def perform(self, position: Position, request: object, now: Times) -> Done | Answer:
        """Judge a request and apply what it comes to, where nothing is staged."""
        if not isinstance(request, Write):
            return super().perform(position, request, now)
        known = self._look(request)
        if known is not None:
            assert isinstance(known, Answer), "nothing is staged"
            return known
        self._advance(position)
        actions: list[Action] = []
        outcomes: list[Outcome] = []
        overlay, now_ns, object_to = self._overlay, now.elapsed_ns, self._lifetimes.object_to
        for each in request.requests:
            judged = judge(each, overlay.committed, now_ns, self.meter, object_to)
            for action in judged:
                self._change(action, outcomes)
            actions += judged
        body = Performed(request.resolved, tuple(actions))
        last = outcomes[-1].last_request
        self._writers.perform(request.requests[0].writer, last, request.resolved, outcomes)
        return Done(body, tuple(outcomes))

    # -- steps -----------------------------------------------------------------------------------

    def _judge_write(self, write: Write, now: Times) -> Judgement:
        known = self._look(write)
        if known is not None:
            return known
        overlay, requests = self._overlay, write.requests
        object_to = self._lifetimes.object_to
        actions = list[Action]()
        for request in requests:
            is_blind = self._is_blind(request)
            table = overlay.unfinished if is_blind else overlay.latest()
            judged = judge(request, table, now.elapsed_ns, self.meter, object_to)
            actions += judged
            if len(requests) > 1:  # Those after it are judged with it.
                self._lifetimes.tie(judged)
                stage = overlay.stage if is_blind else overlay.do
                stage(judged)
        body = Performed(write.resolved, tuple(actions))
        self._judged = body if len(requests) > 1 else None
        return Append(body)

    def _stage_term(self, term: int) -> None:
        """Judge what comes by another term. One taken by force leaves revisions out, ahead of it.

        That is before the first judgement in it, which may stage what it decides.
        """
        if _is_forced(term, self._staged_term):
            self._overlay.stage((skip_of(term),))
        self._staged_term = term

    def _look(self, write: Write) -> Answer | Staged | None:
        """Answer what is not the writer's next request; ``None`` if it is to be judged.

        Raises ``DecodeError``; then nothing has changed, as judging raises none.
        """
        requests = write.requests
        asked = write.asked
        writer = requests[0].writer
        known = self._writers.judge_request(writer, write.number, asked, write.resolved)
        if known is None and not write.is_vetted:
            vet(requests, self._overlay.unfinished)
        return known

    def _advance(self, position: Position) -> None:
        """Note that the next entry is applied."""
        last = self._lineage.position.term
        if position.term != last:
            if _is_forced(position.term, last):
                # What the lost history had shown is not taken for what comes now.
                self._overlay.commit(skip_of(position.term))
                self.history.skip(self.revision)
            self._staged_term = max(self._staged_term, position.term)
        self._lineage.advance(position)

    def _is_blind(self, request: Action) -> bool:
        """Tell whether the judgement is the same, whatever the table has."""
        if isinstance(request, PutCommand):
            entries, size = self._overlay.size_bound
            return self.meter.holds(entries + len(request.pairs) // 2, size + PAYLOAD_SIZE_MAX)
        return isinstance(request, (EraseCommand, ClearCommand))

    def _change(self, action: Action, outcomes: list[Outcome]) -> None:
        """Do the next action, and add what became of the request that it answers."""
        overlay = self._overlay
        revision, size = overlay.revision, size_of(action)
        self.traffic += size
        self.history.add(action, None, size, revision, overlay, self._lineage.position)
        if self.telling.observer is not None:
            self.telling.change(action, overlay)
        if self.before is not None:
            self.before(action)
        if self._pins:
            self._remember(action)
        overlay.commit(action)
        self._lifetimes.note(action)
        add_outcome(outcomes, action, overlay.revision)

    def _remember(self, action: Action) -> None:
        if isinstance(action, ClearCommand):
            self._pins.clear()
        else:
            is_removal = not isinstance(action, PutCommand)
            self._pins.remember(keys_of(action), is_removal=is_removal)


def _is_forced(term: int, last: int) -> bool:
    """Tell whether a term began with a lead that was taken by force, and may have lost entries."""
    return last > 0 and is_forced(term, last)
