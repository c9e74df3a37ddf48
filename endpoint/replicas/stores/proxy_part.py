"""What only proxies of stores have: questions, and who is there to be asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import trio

from endpoint.replicas.parts import AnyEffect, Core, Topics
from endpoint.replicas.questions import Questions
from endpoint.replicas.runner import Runner
from endpoint.replicas.stores.reading import READ_SECONDS
from stores.effects import Deposed, ReadAnswered
from stores.questions import Question, ReadAnswerCommand, ReadRefusedCommand
from stores.requests import Requests
from wire.errors import NotAllowed, StaleData
from wire.identifiers import EndpointId
from wire.topics import proxy_topic, store_topics


class ProxyCore(Core, Protocol):
    """What decides for a proxy."""

    def survey(self, replicas: Sequence[EndpointId]) -> Sequence[AnyEffect]:
        """Learn which replicas can be reached, the nearest first."""

    def ask(self, question: Question, *, is_for_master: bool) -> Sequence[AnyEffect]:
        """Ask the nearest replica, or the master."""

    def cancel(self, number: int) -> None:
        """Ask no longer."""

    def explain(self, number: int) -> str:
        """Say why a question has no answer yet."""

    @property
    def requests(self) -> Requests:
        """What the handle asked for."""


FindReplicas = Callable[[], Sequence[EndpointId]]
"""Gives the replicas that can be reached, the nearest first."""


class ProxyPart:
    """The questions of a store's proxy."""

    kind: Final = "store"
    leader = None
    backend = None
    runner: Runner

    def __init__(self, core: ProxyCore, find_replicas: FindReplicas) -> None:
        """Tell ``core`` which replicas there are, from time to time."""
        self._core = core
        self.find_replicas = find_replicas
        self._questions: Questions[ReadAnswered] = Questions()

    # -- for the runner --------------------------------------------------------------------------

    @property
    def core(self) -> ProxyCore:
        """What decides."""
        return self._core

    def topics(self, name: str) -> Topics:
        """Hear on a topic of the proxies' own, and speak to the master."""
        master, _ = store_topics(name)
        return Topics(proxy_topic(name), master, master)

    def survey(self) -> None:
        """Tell the proxy which replicas there are now: paths may be others, too."""
        self.runner.carry_out(self.core.survey(self.find_replicas()))

    def carry_out(self, effect: AnyEffect) -> Sequence[AnyEffect]:
        """Do what only proxies ask."""
        match effect:
            case ReadAnswered(token):
                self._questions.answer(token, effect)
            case _:
                raise AssertionError(f"no proxy asks for {effect}")
        return ()

    def was_carried_out(self) -> None:
        """Do nothing: answers wake those that wait."""

    def step_down(self, deposed: Deposed) -> None:
        """Fail: a proxy does not lead."""
        raise AssertionError(f"a proxy cannot be deposed: {deposed}")

    def was_closed(self) -> None:
        """Wake all that wait: nothing comes any more."""
        self._questions.end()

    # -- for handles -----------------------------------------------------------------------------

    async def read(
        self, make: Callable[[int], Question], *, is_for_master: bool
    ) -> tuple[ReadAnswerCommand, int]:
        """Ask what ``make`` makes of a number, and give the answer with its revision.

        Raises ``StaleData`` if none comes in time.
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
            case ReadAnswered(_, ReadRefusedCommand(_, _, text)):
                raise StaleData(f"store {name}: no replica in reach could answer: {text}")
            case _:
                pass
        raise self.runner.error or StaleData(
            f"store {name}: no answer within {READ_SECONDS:g} s: {reason}"
        )
