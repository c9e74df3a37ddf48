"""What proxies of stores and logs have in common: which replicas there are to be asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from endpoint.replicas.parts import AnyEffect, Kind, Topics, topics_of
from endpoint.replicas.questions import Questions
from endpoint.replicas.runner import Runner
from wire.identifiers import EndpointId

if TYPE_CHECKING:  # A kind of proxy has no need of the other one's.
    from stores.replica.logs.outside import LogProxy
    from stores.replica.tables.outside import TableProxy

FindReplicas = Callable[[], Sequence[EndpointId]]
"""Gives the replicas that can be reached, the nearest first."""

CoreT = TypeVar("CoreT", bound="TableProxy | LogProxy")
AnswerT = TypeVar("AnswerT")


class ProxyPart(ABC, Generic[CoreT, AnswerT]):
    """The questions of a proxy."""

    kind: ClassVar[Kind]
    leader = None
    is_conceding = False
    backend = None
    runner: Runner

    def __init__(self, core: CoreT, find_replicas: FindReplicas) -> None:
        """Tell ``core`` which replicas there are, from time to time."""
        self.core = core
        """What decides."""
        self.find_replicas = find_replicas
        self._questions: Questions[AnswerT] = Questions()

    def topics(self, name: str) -> Topics:
        """Hear on the proxies' topic, and speak to replicas on that of their group."""
        topics = topics_of(self.kind, name)
        return Topics(topics.proxies, topics.group, topics.proxies)

    def survey(self) -> None:
        """Tell the proxy which replicas there are now: paths may be others, too."""
        self.runner.carry_out(self.core.survey(self.find_replicas()))

    def carry_out(self, effect: AnyEffect) -> Sequence[AnyEffect]:
        """Give the answer to a question, the one thing that only proxies ask."""
        number, answer = self.take(effect)
        self._questions.answer(number, answer)
        return ()

    @abstractmethod
    def take(self, effect: AnyEffect) -> tuple[int, AnswerT]:
        """Give the number of a question with its answer, out of what a core of this kind asks."""

    def was_carried_out(self) -> None:
        """Do nothing: answers wake those that wait."""

    def was_closed(self) -> None:
        """Wake all that wait: nothing comes any more."""
        self._questions.end()
