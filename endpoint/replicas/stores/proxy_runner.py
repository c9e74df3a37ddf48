"""Drives the core of a store's proxy: what other stores have not, which is questions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

import trio

from endpoint.replicas.hosting import StoreHost
from endpoint.replicas.stores.reading import READ_SECONDS
from endpoint.replicas.stores.store_runner import StoreCore, StoreRunner
from stores.asking import KnownReplica
from stores.commands import Question, ReadAnswerCommand, ReadRefusedCommand
from stores.effects import ReadAnswered
from wire.errors import NotAllowed, StaleData, StoreError
from wire.identifiers import EndpointId
from wire.topics import proxy_topic

if TYPE_CHECKING:
    from stores.proxy import Proxy

FindReplicas = Callable[[], Sequence[KnownReplica]]
"""Gives the replicas that can be reached, the nearest first."""


class ProxyRunner(StoreRunner):
    """One proxy of an endpoint at work."""

    def __init__(
        self,
        host: StoreHost,
        proxy: Proxy,
        find_replicas: FindReplicas,
        *,
        name: str,
        now_ns: Callable[[], int],
    ) -> None:
        """Run ``proxy``, and tell it which replicas there are."""
        core = cast("StoreCore", proxy)
        super().__init__(host, core, name=name, now_ns=now_ns, backend=None)
        self.proxy = proxy
        self.hears = proxy_topic(name)
        self._find_replicas = find_replicas
        self._asked: dict[int, trio.Event] = {}
        self._answers: dict[int, ReadAnswered] = {}
        self._questions = 0

    def survey(self) -> None:
        """Tell the proxy which replicas there are now."""
        self.carry_out(self.proxy.survey(self._find_replicas()))

    def tick(self) -> None:
        """Let a tenth of a second pass: paths may be others, though nobody came or went."""
        if self.error is None:
            self.survey()
        super().tick()

    def unreachable(self, endpoint: EndpointId) -> None:
        """An endpoint is gone: ask others what it was asked."""
        if self.error is None:
            self.survey()
        super().unreachable(endpoint)

    def discovered(self, endpoint: EndpointId) -> None:
        """There is a path to an endpoint, and maybe to a replica there."""
        if self.error is None:
            self.survey()
        super().discovered(endpoint)

    async def read(
        self, make: Callable[[int], Question], *, is_for_master: bool
    ) -> tuple[ReadAnswerCommand, int]:
        """Ask what ``make`` makes of a number, and give the answer with its revision.

        Raises ``StaleData`` if none comes in time.
        """
        if self.error is not None:
            raise self.error
        self._questions += 1
        number = self._questions
        event = self._asked[number] = trio.Event()
        try:
            with trio.move_on_after(READ_SECONDS):
                question = make(number)
                self.carry_out(self.proxy.ask(question, is_for_master=is_for_master))
                await event.wait()
            reason = self.proxy.explain(number)
        finally:
            del self._asked[number]
            self.proxy.cancel(number)
            found = self._answers.pop(number, None)
        return self._take(found, reason)

    def _take(self, found: ReadAnswered | None, reason: str) -> tuple[ReadAnswerCommand, int]:
        match found:
            case ReadAnswered(_, ReadAnswerCommand() as answer, revision):
                return answer, revision
            case ReadAnswered(_, ReadRefusedCommand(_, _, text, True)):
                raise NotAllowed(f"store {self.name}: {text}")
            case ReadAnswered(_, ReadRefusedCommand(_, _, text)):
                raise StaleData(f"store {self.name}: no replica in reach could answer: {text}")
            case _:
                pass
        raise self.error or StaleData(
            f"store {self.name}: no answer within {READ_SECONDS:g} s: {reason}"
        )

    def _on_read(self, effect: ReadAnswered) -> None:
        event = self._asked.get(effect.token)
        if event is not None:
            self._answers[effect.token] = effect
            event.set()

    def _on_closed(self, error: StoreError) -> None:
        super()._on_closed(error)
        for event in self._asked.values():
            event.set()
