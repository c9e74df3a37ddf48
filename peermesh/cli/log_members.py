"""The commands about the members of the group that keeps a log."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from peermesh.cli.arriving import expect_log, join, join_log_group
from peermesh.cli.completion import LOG_NAME
from peermesh.cli.exits import CommandFailed
from peermesh.cli.members import member_commands
from peermesh.cli.mesh import Mesh
from peermesh.cli.values import on_a_line

if TYPE_CHECKING:
    from peermesh import ReplicaLog


@asynccontextmanager
async def _open_replica(mesh: Mesh, name: str) -> AsyncIterator[ReplicaLog]:
    """Join the mesh with a replica of a log's group that has no vote."""
    async with mesh.endpoint() as endpoint:
        await join(endpoint, mesh)
        await expect_log(endpoint, mesh, name)
        if name not in endpoint.known_log_groups():
            raise CommandFailed(
                f"log {on_a_line(name)} has a keeper, and no group: it has no members",
                kind="no_such_group",
            )
        yield await join_log_group(endpoint, mesh, name)


members, add, remove, transfer, quota = member_commands("log", LOG_NAME, _open_replica)
