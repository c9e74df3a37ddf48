"""The commands about the members of a store's replica group: who there is, who votes, who leads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import click

from peermesh import GroupMember, ReplicaStore
from peermesh.cli.arriving import open_replica
from peermesh.cli.command import command
from peermesh.cli.completion import STORE_NAME
from peermesh.cli.mesh import Mesh, mesh_options
from peermesh.cli.numbers import counted
from peermesh.cli.output import Output
from peermesh.cli.running import run
from peermesh.cli.values import on_a_line

MEMBER: Final = click.argument("member")

Change = Callable[[ReplicaStore, str, float], Awaitable[None]]
"""Has a group do something with a member, within so many seconds."""


@command()
@STORE_NAME
@mesh_options(listens=False)
def members(name: str, mesh: Mesh, output: Output) -> None:
    """Write who is in the group of a store, as its leader knows it.

    Replicas without a vote at endpoints without a name are left out: commands like this one have
    such a replica while they run.
    """
    tell_members(run(_members, mesh, name), output)


def tell_members(found: list[GroupMember], output: Output) -> None:
    """Write the members of a group, one a line."""
    for each in found:
        output.tell(
            _line(each),
            name=each.name,
            voter=each.is_voter,
            leader=each.is_leader,
            whole=each.is_whole,
            lag=each.lag,
            silent_seconds=each.silent_seconds,
        )


async def _members(mesh: Mesh, name: str) -> list[GroupMember]:
    async with open_replica(mesh, name) as store:
        own = store.part.core.own.name
        return [each for each in await store.members() if each.is_voter or each.name != own]


def _line(member: GroupMember) -> str:
    role = "leader" if member.is_leader else "voter" if member.is_voter else "learner"
    state = "level" if not member.lag else f"{counted(member.lag, 'entry', 'entries')} behind"
    if not member.is_whole and not member.is_leader:
        state = "not whole"
    silent = f", silent for {member.silent_seconds:.1f} s" if member.silent_seconds >= 1 else ""
    return f"{on_a_line(member.name)} {role}, {state}{silent}"


@command()
@STORE_NAME
@MEMBER
@mesh_options(listens=False)
def add(name: str, member: str, mesh: Mesh, output: Output) -> None:
    """Give the replica at the endpoint called MEMBER a vote, once it is level."""
    run(_change, mesh, name, member, ReplicaStore.add_voter)
    output.announce(f"{on_a_line(member)} votes in {on_a_line(name)}", store=name, member=member)


@command()
@STORE_NAME
@MEMBER
@mesh_options(listens=False)
def remove(name: str, member: str, mesh: Mesh, output: Output) -> None:
    """Take the vote of the replica at the endpoint called MEMBER.

    It is refused while those that stay have no healthy majority. A replica that is still declared a
    voter, and comes back, is given its vote again.
    """
    run(_change, mesh, name, member, ReplicaStore.remove_voter)
    text = f"{on_a_line(member)} votes no more in {on_a_line(name)}"
    output.announce(text, store=name, member=member)


@command()
@STORE_NAME
@MEMBER
@mesh_options(listens=False)
def transfer(name: str, member: str, mesh: Mesh, output: Output) -> None:
    """Have the voter at the endpoint called MEMBER lead."""
    run(_change, mesh, name, member, ReplicaStore.transfer)
    output.announce(f"{on_a_line(member)} leads {on_a_line(name)}", store=name, member=member)


async def _change(mesh: Mesh, name: str, member: str, change: Change) -> None:
    async with open_replica(mesh, name) as store:
        await change(store, member, mesh.wait)
