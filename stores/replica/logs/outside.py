"""A log without a copy: the leader is asked for entries and cursors, and appends. Pure."""

from __future__ import annotations

from dataclasses import replace

from stores.group.codec import GroupCodec
from stores.log.messages import Answer, Query, QueryFailed
from stores.log.questions import Questions
from stores.log.requests import LogRequests
from stores.replica.effects import QueryAnswered, ReplicaEffect
from stores.replica.logs.outbox import LogOutbox
from stores.replica.outside import GroupProxy
from stores.statistics import LogStatistics
from wire.errors import ErrorCode
from wire.identifiers import EndpointId, EntityId


class LogProxy(GroupProxy[LogOutbox]):
    """Asks, and waits for answers. What it reads is committed, and all that is."""

    def __init__(
        self, entity: EntityId, codec: GroupCodec, incarnation: int, patience_ticks: int
    ) -> None:
        """Start without a leader; see ``GroupProxy``. Questions are as patient as requests."""
        super().__init__(LogOutbox(entity, incarnation), codec, incarnation, patience_ticks)
        self._questions = Questions(self._send_question, self._on_found)

    def __repr__(self) -> str:
        """Show in one line what matters when something hangs."""
        return (
            f"<LogProxy {self.entity} asked={len(self._questions)}"
            f" unanswered={len(self._outbox)} {self._seeker!r}>"
        )

    @property
    def requests(self) -> LogRequests:
        """What the handle asked for. Call ``flush`` afterwards, once for many requests."""
        return self._outbox.requests

    def statistics(self) -> LogStatistics:
        """Give a snapshot of counts; changes nothing."""
        return LogStatistics(
            "proxy",
            self._seeker.known_epoch,
            is_in_touch=self._seeker.is_in_touch,
            unanswered=len(self._outbox),
            trouble=self.trouble,
        )

    def ask(self, query: Query) -> list[ReplicaEffect]:
        """Ask the leader; ``QueryAnswered`` brings the answer."""
        self._questions.ask(query)
        return self._take_effects()

    def cancel(self, number: int) -> None:
        """Ask no longer."""
        self._questions.cancel(number)

    def close(self, text: str) -> list[ReplicaEffect]:
        """Refuse all that has no answer, as none will come; ``text`` says what is closed."""
        self._questions.fail_all(ErrorCode.SHUTTING_DOWN, text)
        return super().close(text)

    # -- steps -----------------------------------------------------------------------------------

    def _on_touch(self) -> None:
        self._questions.ask_again()

    def _tick_questions(self) -> None:
        is_lost = not self._seeker.is_in_touch
        self._questions.tick(is_lost=is_lost, patience_ticks=self._buffer_ticks)

    def _send_question(self, query: Query) -> None:
        leader = self.leader
        if leader is not None and self._seeker.is_in_touch:
            self._ask(leader, query.query, query)

    def _on_answer(self, sender: EndpointId, number: int, answer: object) -> None:
        if sender == self.leader and isinstance(answer, Answer):
            self._questions.receive(replace(answer, query=number))

    def _on_refusal(self, sender: EndpointId, number: int, text: str) -> None:
        self._questions.declined(number)

    def _on_denial(self, sender: EndpointId, number: int, text: str) -> None:
        self._questions.receive(QueryFailed(number, ErrorCode.NOT_AUTHORIZED, text))

    def _on_found(self, answer: Answer) -> None:
        self._effects.append(QueryAnswered(answer, self.group))
