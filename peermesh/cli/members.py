"""The commands about the members of a replica group: who there is, who votes, who leads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

import click

from peermesh import GroupMember, ReplicaLog, ReplicaStore
from peermesh.cli.arriving import open_replica
from peermesh.cli.command import command
from peermesh.cli.completion import STORE_NAME
from peermesh.cli.exits import CommandFailed, ExitCode
from peermesh.cli.mesh import Mesh, mesh_options
from peermesh.cli.numbers import counted
from peermesh.cli.output import Output
from peermesh.cli.quotas import NAMES, given_quota, quota_options
from peermesh.cli.running import run
from peermesh.cli.values import on_a_line

if TYPE_CHECKING:
    from stores.statistics import LogStatistics, StoreStatistics

Replica = ReplicaStore | ReplicaLog

Opens = Callable[[Mesh, str], AbstractAsyncContextManager[Replica]]
"""Joins the mesh with a replica of a group that has no vote."""

Change = Callable[[Replica, str, float], Awaitable[str]]
"""Has a group do something with a member, within so many seconds, and gives what to say then."""


def member_commands(
    what: str, argument: Callable[[Callable[..., None]], Callable[..., None]], opens: Opens
) -> tuple[click.Command, ...]:
    """Make the commands about groups of stores, or of logs.

    They are ``members``, ``add``, ``remove``, ``transfer`` and ``quota``.
    """

    def changes(name: str, text: str, change: Change) -> click.Command:
        async def work(mesh: Mesh, group: str, member: str) -> str:
            async with opens(mesh, group) as replica:
                return await change(replica, member, mesh.wait)

        @command(name, help=text)
        @argument
        @click.argument("member")
        @mesh_options(listens=False)
        def act(name: str, member: str, mesh: Mesh, output: Output) -> None:
            told = run(work, mesh, name, member)
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
        _add,
    )
    remove = changes(
        "remove",
        f"""Take the vote of the replica of a {what} at the endpoint called MEMBER.

        It is refused while those that stay have no healthy majority. The replica has no vote
        until it is added, though it is declared a voter, comes back, or begins anew.
        """,
        _remove,
    )
    transfer = changes(
        "transfer",
        f"Have the voter of a {what} at the endpoint called MEMBER lead.",
        _transfer,
    )

    async def limit(
        mesh: Mesh, name: str, limits: dict[str, Any]
    ) -> StoreStatistics | LogStatistics:
        async with opens(mesh, name) as replica:
            await _catch_up(replica, mesh)  # It knows the limit that is not to be changed.
            if limits:
                await replica.set_quota(mesh.wait, **limits)
                await _catch_up(replica, mesh)
            return replica.statistics()

    @command(
        help=f"""Write what the group of a {what} holds, and may hold; change that if it is given.

        It is of the group, whichever node leads, now and after restarts.
        """
    )
    @argument
    @quota_options
    @mesh_options(listens=False)
    def quota(name: str, mesh: Mesh, output: Output, **limits: int | None) -> None:
        held = run(limit, mesh, name, given_quota(limits))
        entries, size = _of(held.entries, held.max_entries), _of(held.bytes, held.max_bytes)
        told = {each: getattr(held, each) for each in ("entries", "bytes", *NAMES)}
        output.tell(f"{entries} entries, {size} bytes", **{what: name}, **told)

    return members, add, remove, transfer, quota


async def _add(replica: Replica, member: str, wait: float) -> str:
    await replica.add_voter(member, wait)
    return "{member} votes in {group}"


async def _remove(replica: Replica, member: str, wait: float) -> str:
    had_vote = any(each.name == member and each.is_voter for each in await replica.members())
    await replica.remove_voter(member, wait)
    if had_vote:
        return "{member} votes no more in {group}"
    return "{member} had no vote in {group}, and gets none until it is added"


async def _transfer(replica: Replica, member: str, wait: float) -> str:
    await replica.transfer(member, wait)
    return "{member} leads {group}"


def _of(used: int, most: int | None) -> str:
    return f"{used:,}, of any number of" if most is None else f"{used:,} of {most:,}"


async def _catch_up(replica: Replica, mesh: Mesh) -> None:
    idle = await replica.await_idle(timeout=mesh.wait)
    if not idle:
        raise CommandFailed(f"{on_a_line(replica.name())} is not level: {idle}", ExitCode.TIMEOUT)


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


members, add, remove, transfer, quota = member_commands("store", STORE_NAME, open_replica)
