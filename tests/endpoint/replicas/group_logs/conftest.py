"""Replicas of a log at endpoints of one process, over real sockets."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import pytest

from endpoint.replicas.logs.log import ReplicaLog
from tests.endpoint.replicas.groups.conftest import Group, Life, open_group, until


class LogGroup(Group):
    """Endpoints by name, all of them peers, each with a replica of the log ``l``."""

    async def attach(self, life: Life, voters: tuple[str, ...]) -> ReplicaLog:
        life.store = await life.endpoint.attach_log_replica(
            "l", voters=voters, partitions=2, **self.options_of(life)
        )
        return life.store


@pytest.fixture
def logs() -> SimpleNamespace:
    return SimpleNamespace(open=partial(open_group, kind=LogGroup), until=until)
