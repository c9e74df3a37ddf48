"""What a proxy has asked, of whom, and whom it asks next: the nearest replica that answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from stores.questions import Question, ReadAnswerCommand, ReadRefusedCommand, ScanCommand
from wire.identifiers import EndpointId

REPEAT_TICKS: Final = 5
"""Ticks after which a question, or its answer, counts as lost, and the next replica is asked."""

HOLDERS_MAX: Final = 16
"""Revisions of which it is known who keeps them; of others each page may ask all replicas."""

QUIET_TICKS: Final = 50
"""Ticks for which a replica that did not answer is asked only if there is no other."""


@dataclass(slots=True)
class _Asked:
    question: Question
    is_for_master: bool
    repeat_ticks: int = 0
    asked: EndpointId | None = None
    refusals: dict[EndpointId, ReadRefusedCommand] = field(default_factory=dict)
    reason: str = ""


class Questions:
    """Asks until there is an answer: reading twice does no harm."""

    def __init__(
        self,
        send: Callable[[EndpointId, Question], None],
        answered: Callable[[ReadAnswerCommand | ReadRefusedCommand, int], None],
    ) -> None:
        """Ask with ``send``; hand what came of it, with its revision, to ``answered``."""
        self.master: EndpointId | None = None
        """Where the master that is followed is; others are not asked for what is freshest."""
        self._send = send
        self._answered = answered
        self._replicas: tuple[EndpointId, ...] = ()
        self._quiet: dict[EndpointId, int] = {}
        self._asked: dict[int, _Asked] = {}
        self._holders: dict[int, EndpointId] = {}
        """By revision, who gave the last page of it."""

    def __len__(self) -> int:
        """Count what has no answer."""
        return len(self._asked)

    def survey(self, replicas: Sequence[EndpointId]) -> None:
        """Learn which replicas can be reached, the nearest first."""
        if (found := tuple(replicas)) == self._replicas:
            return
        self._replicas = found
        for asked in self._asked.values():
            if asked.asked not in found:
                self._ask_next(asked)

    def ask(self, question: Question, *, is_for_master: bool) -> None:
        """Ask something new: of the master, or of the nearest replica."""
        asked = self._asked[question.number] = _Asked(question, is_for_master)
        self._ask_next(asked)

    def cancel(self, number: int) -> None:
        """Ask no longer."""
        self._asked.pop(number, None)

    def is_for_master(self, number: int) -> bool:
        """Tell whether what has no answer is asked of the master alone."""
        return self._asked[number].is_for_master

    def explain(self, number: int) -> str:
        """Say why there is no answer yet."""
        asked = self._asked.get(number)
        if asked is None or (asked.asked is None and not asked.reason):
            return "no replica of the store is known that could be asked"
        if asked.reason:
            return asked.reason
        assert asked.asked is not None, asked
        return f"endpoint {asked.asked} has not answered"

    def expects(self, sender: EndpointId, number: int) -> bool:
        """Tell whether a question has no answer yet, and this endpoint may give one."""
        return number in self._asked and sender in self._replicas

    def answer(self, sender: EndpointId, answer: ReadAnswerCommand, revision: int) -> None:
        """Take in an answer that is expected; one that lacks values is none."""
        question = self._asked[answer.number].question
        if _wants_values(question) and len(answer.rows.values) < len(answer.rows):
            text = "its answer has no values"
            self.refuse(sender, ReadRefusedCommand(answer.number, is_stale=False, text=text))
            return
        self._quiet.pop(sender, None)
        del self._asked[answer.number]
        if isinstance(question, ScanCommand) and question.revision is not None:
            self._holders.pop(question.revision or revision, None)
            self._holders[question.revision or revision] = sender
            if len(self._holders) > HOLDERS_MAX:
                del self._holders[next(iter(self._holders))]
        self._answered(answer, revision)

    def refuse(self, sender: EndpointId, refusal: ReadRefusedCommand) -> None:
        """Take in that a replica cannot answer: ask another one."""
        asked = self._asked.get(refusal.number)
        if asked is None or sender in asked.refusals:
            return
        if refusal.is_denied:
            del self._asked[refusal.number]
            self._answered(refusal, 0)
            return
        asked.refusals[sender] = refusal
        asked.reason = f"endpoint {sender} could not answer: {refusal.text}"
        if asked.asked is not None and asked.asked == sender:
            self._ask_next(asked)

    def tick(self) -> None:
        """Let one tick pass."""
        self._quiet = {known: left - 1 for known, left in self._quiet.items() if left > 1}
        for asked in list(self._asked.values()):
            asked.repeat_ticks -= 1
            if asked.repeat_ticks <= 0:
                if asked.asked is not None and asked.asked not in asked.refusals:
                    self._quiet[asked.asked] = QUIET_TICKS
                self._ask_next(asked)

    def _ask_next(self, asked: _Asked) -> None:
        candidates = [replica for replica in self._replicas if self._is_fit(asked, replica)]
        left = [replica for replica in candidates if replica not in asked.refusals]
        refusals = asked.refusals.values()
        if candidates and not left and all(each.is_stale or each.is_gone for each in refusals):
            del self._asked[asked.question.number]
            self._answered(max(refusals, key=lambda each: each.is_gone), 0)
            return
        if asked.repeat_ticks > 0 and not left:
            return  # all of them have refused: later
        asked.repeat_ticks = REPEAT_TICKS
        if not left:
            asked.refusals.clear()
        left = left or candidates
        holder = self._holder_for(asked.question)
        asked.asked = min(
            left, key=lambda known: (known in self._quiet, known != holder), default=None
        )
        if asked.asked is not None:
            self._send(asked.asked, asked.question)

    def _holder_for(self, question: Question) -> EndpointId | None:
        revision = question.revision if isinstance(question, ScanCommand) else None
        return self._holders.get(revision) if revision else None

    def _is_fit(self, asked: _Asked, replica: EndpointId) -> bool:
        return not asked.is_for_master or replica == self.master


def _wants_values(question: Question) -> bool:
    return question.has_values if isinstance(question, ScanCommand) else question.has_value
