"""What only proxies of stores have: questions about keys, and what came of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import trio

from endpoint.replicas.parts import AnyEffect, Topics
from endpoint.replicas.proxying import FindReplicas, ProxyPart
from endpoint.replicas.questions import Questions
from endpoint.replicas.stores.reading import READ_SECONDS
from stores.effects import ReadAnswered
from stores.questions import Question, ReadAnswerCommand, ReadRefusedCommand
from stores.replica.tables.outside import TableProxy
from wire.errors import NotAllowed, RevisionGone, StaleData
from wire.topics import group_topic, proxy_topic


class StoreProxyPart(ProxyPart[TableProxy]):
    """The questions of a store's proxy."""

    kind: Final = "store"

    def __init__(self, core: TableProxy, find_replicas: FindReplicas) -> None:
        """Tell ``core`` which replicas there are, from time to time."""
        super().__init__(core, find_replicas)
        self._questions: Questions[ReadAnswered] = Questions()

    # -- for the runner --------------------------------------------------------------------------

    def topics(self, name: str) -> Topics:
        """Hear on the proxies' topic, and speak to replicas on that of their group."""
        group = group_topic(name)
        return Topics(proxy_topic(name), group, group)

    def carry_out(self, effect: AnyEffect) -> Sequence[AnyEffect]:
        """Do what only proxies of stores ask."""
        if not isinstance(effect, ReadAnswered):
            return super().carry_out(effect)
        self._questions.answer(effect.token, effect)
        return ()

    def was_closed(self) -> None:
        """Wake all that wait: nothing comes any more."""
        self._questions.end()

    # -- for handles -----------------------------------------------------------------------------

    async def read(
        self, make: Callable[[int], Question], *, is_for_master: bool
    ) -> tuple[ReadAnswerCommand, int]:
        """Ask what ``make`` makes of a number, and give the answer with its revision.

        Raises ``StaleData`` if none comes in time, and ``RevisionGone``.
        """
        if self.runner.error is not None:
            raise self.runner.error
        with self._questions.ask() as question:
            try:
                with trio.move_on_after(READ_SECONDS):
                    asked = make(question.number)
                    self.runner.carry_out(self.core.ask(asked, is_for_master=is_for_master))
                    await question.wait()
                reason = self.core.explain(question.number)
            finally:
                self.core.cancel(question.number)
        return self._take(question.answer, reason)

    def _take(self, found: ReadAnswered | None, reason: str) -> tuple[ReadAnswerCommand, int]:
        name = self.runner.name
        match found:
            case ReadAnswered(_, ReadAnswerCommand() as answer, revision):
                return answer, revision
            case ReadAnswered(_, ReadRefusedCommand(_, _, text, True)):
                raise NotAllowed(f"store {name}: {text}")
            case ReadAnswered(_, ReadRefusedCommand(text=text, is_gone=True)):
                raise RevisionGone(f"store {name}: {text}")
            case ReadAnswered(_, ReadRefusedCommand(_, _, text)):
                raise StaleData(f"store {name}: no replica in reach could answer: {text}")
            case _:
                pass
        raise self.runner.error or StaleData(
            f"store {name}: no answer within {READ_SECONDS:g} s: {reason}"
        )
