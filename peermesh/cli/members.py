"""The commands about the members of a replica group: who there is, who votes, who leads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

import click

from peermesh import GroupMember, ReplicaLog, ReplicaStore
from peermesh.cli.arriving import open_replica
from peermesh.cli.command import command
from peermesh.cli.completion import STORE_NAME
from peermesh.cli.mesh import Mesh, mesh_options
from peermesh.cli.numbers import counted
from peermesh.cli.output import Output
from peermesh.cli.running import run
from peermesh.cli.values import on_a_line

Replica = ReplicaStore | ReplicaLog

Opens = Callable[[Mesh, str], AbstractAsyncContextManager[Replica]]
"""Joins the mesh with a replica of a group that has no vote."""

Change = Callable[[Replica, str, float], Awaitable[None]]
"""Has a group do something with a member, within so many seconds."""


def member_commands(
    what: str, argument: Callable[[Callable[..., None]], Callable[..., None]], opens: Opens
) -> tuple[click.Command, ...]:
    """Make ``members``, ``add``, ``remove`` and ``transfer`` for groups of stores, or of logs."""

    def changes(name: str, text: str, told: str, change: Change) -> click.Command:
        async def work(mesh: Mesh, group: str, member: str) -> None:
            async with opens(mesh, group) as replica:
                await change(replica, member, mesh.wait)

        @command(name, help=text)
        @argument
        @click.argument("member")
        @mesh_options(listens=False)
        def act(name: str, member: str, mesh: Mesh, output: Output) -> None:
            run(work, mesh, name, member)
            said = told.format(member=on_a_line(member), group=on_a_line(name))
            output.announce(said, **{what: name, "member": member})

        return act

    async def found(mesh: Mesh, name: str) -> list[GroupMember]:
        async with opens(mesh, name) as replica:
            own = replica.part.core.own.name
            return [each for each in await replica.members() if each.is_voter or each.name != own]

    @command(
        help=f"""Write who is in the group of a {what}, as its leader knows it.

        Replicas without a vote at endpoints without a name are left out: commands like this one
        have such a replica while they run.
        """
    )
    @argument
    @mesh_options(listens=False)
    def members(name: str, mesh: Mesh, output: Output) -> None:
        _tell_members(run(found, mesh, name), output)

    add = changes(
        "add",
        f"Give the replica of a {what} at the endpoint called MEMBER a vote, once it is level.",
        "{member} votes in {group}",
        lambda replica, member, wait: replica.add_voter(member, wait),
    )
    remove = changes(
        "remove",
        f"""Take the vote of the replica of a {what} at the endpoint called MEMBER.

        It is refused while those that stay have no healthy majority. The replica has no vote
        until it is added, though it is declared a voter, comes back, or begins anew.
        """,
        "{member} votes no more in {group}",
        lambda replica, member, wait: replica.remove_voter(member, wait),
    )
    transfer = changes(
        "transfer",
        f"Have the voter of a {what} at the endpoint called MEMBER lead.",
        "{member} leads {group}",
        lambda replica, member, wait: replica.transfer(member, wait),
    )
    return members, add, remove, transfer


def _tell_members(found: list[GroupMember], output: Output) -> None:
    """Write the members of a group, one a line."""
    for each in found:
        output.tell(
            _line(each),
            name=each.name,
            voter=each.is_voter,
            leader=each.is_leader,
            removed=each.is_removed,
            whole=each.is_whole,
            lag=each.lag,
            silent_seconds=each.silent_seconds,
        )


def _line(member: GroupMember) -> str:
    learner = "removed" if member.is_removed else "learner"
    role = "leader" if member.is_leader else "voter" if member.is_voter else learner
    state = "level" if not member.lag else f"{counted(member.lag, 'entry', 'entries')} behind"
    if not member.is_whole and not member.is_leader:
        state = "not whole"
    silent = f", silent for {member.silent_seconds:.1f} s" if member.silent_seconds >= 1 else ""
    return f"{on_a_line(member.name)} {role}, {state}{silent}"


members, add, remove, transfer = member_commands("store", STORE_NAME, open_replica)
