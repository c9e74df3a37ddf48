"""The command about the members of the group that keeps a log."""

from __future__ import annotations

from peermesh import GroupMember
from peermesh.cli.arriving import expect_log, join, join_log_group
from peermesh.cli.command import command
from peermesh.cli.completion import LOG_NAME
from peermesh.cli.exits import CommandFailed
from peermesh.cli.members import tell_members
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
    async with mesh.endpoint() as endpoint:
        await join(endpoint, mesh)
        await expect_log(endpoint, mesh, name)
        if name not in endpoint.known_log_groups():
            raise CommandFailed(
                f"log {on_a_line(name)} has a keeper, and no group: it has no members",
                kind="no_such_group",
            )
        log = await join_log_group(endpoint, mesh, name)
        own = log.part.core.own.name
        return [each for each in await log.members() if each.is_voter or each.name != own]
