"""The commands about the members of the group that keeps a log."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from peermesh import GroupMember, ReplicaLog
from peermesh.cli.arriving import expect_log, join, join_log_group
from peermesh.cli.command import command
from peermesh.cli.completion import LOG_NAME
from peermesh.cli.exits import CommandFailed
from peermesh.cli.members import MEMBER, tell_members
from peermesh.cli.mesh import Mesh, mesh_options
from peermesh.cli.output import Output
from peermesh.cli.running import run
from peermesh.cli.values import on_a_line


@command()
@LOG_NAME
@mesh_options(listens=False)
def members(name: str, mesh: Mesh, output: Output) -> None:
    """Write who is in the group of a log, as its leader knows it.

    Replicas without a vote at endpoints without a name are left out: commands like this one have
    such a replica while they run.
    """
    tell_members(run(_members, mesh, name), output)


async def _members(mesh: Mesh, name: str) -> list[GroupMember]:
    async with _open_replica(mesh, name) as log:
        own = log.part.core.own.name
        return [each for each in await log.members() if each.is_voter or each.name != own]


@command()
@LOG_NAME
@MEMBER
@mesh_options(listens=False)
def add(name: str, member: str, mesh: Mesh, output: Output) -> None:
    """Give the replica of a log at the endpoint called MEMBER a vote, once it is level."""
    run(_change, mesh, name, member, ReplicaLog.add_voter)
    output.announce(f"{on_a_line(member)} votes in {on_a_line(name)}", log=name, member=member)


@command()
@LOG_NAME
@MEMBER
@mesh_options(listens=False)
def remove(name: str, member: str, mesh: Mesh, output: Output) -> None:
    """Take the vote of the replica of a log at the endpoint called MEMBER.

    It is refused while those that stay have no healthy majority. A replica that is still declared a
    voter, and comes back, is given its vote again.
    """
    run(_change, mesh, name, member, ReplicaLog.remove_voter)
    text = f"{on_a_line(member)} votes no more in {on_a_line(name)}"
    output.announce(text, log=name, member=member)


@command()
@LOG_NAME
@MEMBER
@mesh_options(listens=False)
def transfer(name: str, member: str, mesh: Mesh, output: Output) -> None:
    """Have the voter of a log at the endpoint called MEMBER lead."""
    run(_change, mesh, name, member, ReplicaLog.transfer)
    output.announce(f"{on_a_line(member)} leads {on_a_line(name)}", log=name, member=member)


Change = Callable[[ReplicaLog, str, float], Awaitable[None]]
"""Has a group do something with a member, within so many seconds."""


async def _change(mesh: Mesh, name: str, member: str, change: Change) -> None:
    async with _open_replica(mesh, name) as log:
        await change(log, member, mesh.wait)


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
