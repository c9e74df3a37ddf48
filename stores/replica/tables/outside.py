"""A store without a copy: reads ask the nearest replica, writes go to the leader. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from stores.asking import Questions
from stores.effects import ReadAnswered
from stores.group.codec import GroupCodec
from stores.outcomes import Applied, Outcome
from stores.questions import Question, ReadAnswerCommand, ReadRefusedCommand
from stores.replica.effects import ReplicaEffect
from stores.replica.outside import GroupProxy
from stores.replica.tables.outbox import TableOutbox
from stores.requests import Requests
from stores.statistics import StoreStatistics
from stores.table.bodies import Found, Read, Stamp
from wire.identifiers import EndpointId, EntityId

_NOTHING_SEEN: Final = Stamp(0, 0)


class TableProxy(GroupProxy[TableOutbox]):
    """Asks, and waits for answers.

    What it reads never goes back: each question names the state that was seen last, and a replica
    that is not so far is no use. Receipts count as seen.
    """

    def __init__(
        self, entity: EntityId, codec: GroupCodec, incarnation: int, buffer_ticks: int
    ) -> None:
        """Start without a leader; see ``GroupProxy``."""
        super().__init__(TableOutbox(entity, incarnation), codec, incarnation, buffer_ticks)
        self._questions = Questions(self._send_question, self._on_found)
        self._seen = _NOTHING_SEEN

    def __repr__(self) -> str:
        """Show in one line what matters when something hangs."""
        return (
            f"<TableProxy {self.entity} asked={len(self._questions)} seen={self._seen}"
            f" unanswered={len(self._outbox)} {self._seeker!r}>"
        )

    @property
    def requests(self) -> Requests:
        """What the handle asked for. Call ``flush`` afterwards, once for many requests."""
        return self._outbox.requests

    def statistics(self) -> StoreStatistics:
        """Give a snapshot of counts; changes nothing."""
        return StoreStatistics(
            "proxy",
            self._seeker.known_epoch,
            0,
            self._seen.revision,
            is_in_touch=self._seeker.is_in_touch,
            unanswered=len(self._outbox),
            trouble=self.trouble,
        )

    def ask(self, question: Question, *, is_for_master: bool) -> list[ReplicaEffect]:
        """Ask the nearest replica, or the leader; ``ReadAnswered`` brings what came of it."""
        self._questions.ask(question, is_for_master=is_for_master)
        return self._take_effects()

    def cancel(self, number: int) -> None:
        """Ask no longer."""
        self._questions.cancel(number)

    def explain(self, number: int) -> str:
        """Say why a question has no answer yet."""
        return self._questions.explain(number)

    # -- steps -----------------------------------------------------------------------------------

    def _on_survey(self, replicas: Sequence[EndpointId]) -> None:
        self._questions.survey(replicas)

    def _on_leader(self, endpoint: EndpointId) -> None:
        self._questions.master = endpoint

    def _tick_questions(self) -> None:
        self._questions.tick()

    def _send_question(self, replica: EndpointId, question: Question) -> None:
        is_linear = self._questions.is_for_master(question.number)
        self._ask(replica, question.number, Read(self._seen, is_linear, question))

    def _on_answer(self, sender: EndpointId, number: int, answer: object) -> None:
        match answer:
            case ReadRefusedCommand():
                self._questions.refuse(sender, replace(answer, number=number))
            case Found(stamp, found) if self._questions.expects(sender, number):
                self._seen = max(self._seen, stamp)
                self._questions.answer(sender, replace(found, number=number), stamp.revision)
            case _:
                pass

    def _on_refusal(self, sender: EndpointId, number: int, text: str) -> None:
        refusal = ReadRefusedCommand(number, is_stale=False, text=text)
        self._questions.refuse(sender, refusal)

    def _on_denial(self, sender: EndpointId, number: int, text: str) -> None:
        refusal = ReadRefusedCommand(number, is_stale=False, text=text, is_denied=True)
        self._questions.refuse(sender, refusal)

    def _on_found(self, answer: ReadAnswerCommand | ReadRefusedCommand, revision: int) -> None:
        self._effects.append(ReadAnswered(answer.number, answer, revision))

    def _see(self, term: int, outcome: Outcome) -> None:
        if isinstance(outcome.result, Applied):
            count = outcome.last_request - outcome.first_request
            self._seen = max(self._seen, Stamp(term, outcome.result.revision + count))

    def _forget_seen(self) -> None:
        self._seen = _NOTHING_SEEN
