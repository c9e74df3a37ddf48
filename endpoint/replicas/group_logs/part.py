"""What only replicas of logs have: their topics, and waiting until the log has begun."""

from __future__ import annotations

import trio

from endpoint.replicas.groups.part import GroupPart
from endpoint.replicas.parts import Kind, Topics
from stores.replica.logs.core import LogCore
from wire.topics import log_group_topic, log_topics


class LogReplicaPart(GroupPart[LogCore]):
    """The replica of a log that is here."""

    kind: Kind = "log"

    @property
    def proxies_hear(self) -> str:
        """The topic that endpoints outside of the group hear answers on."""
        _, readers, _ = log_topics(self.runner.name)
        return readers

    def topics(self, name: str) -> Topics:
        """Hear, and speak, on the group's one topic."""
        topic = log_group_topic(name)
        return Topics(topic, topic, topic)

    async def await_begun(self, seconds: float) -> None:
        """Wait until the log has its partitions; raises ``NoQuorum``."""
        machine = self.core.machine
        if machine.is_blank and self.runner.error is None:
            with trio.move_on_after(seconds):
                while machine.is_blank and not self._is_over:
                    await self.moved.wait()
        if self.runner.error is not None:
            raise self.runner.error
        if machine.is_blank:
            raise self.no_quorum(seconds)
