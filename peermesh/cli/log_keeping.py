"""The commands for those who have a log: its keeper, followers, and who is promoted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import click
import trio

from peermesh.cli.arriving import stay_joined
from peermesh.cli.asking import LEAD_LOG, ask_for_promotion, promotion_options
from peermesh.cli.command import command
from peermesh.cli.completion import LOG_NAME
from peermesh.cli.holding import GIVEN_UP, end_with, in_file
from peermesh.cli.mesh import Mesh, mesh_options
from peermesh.cli.numbers import Seconds, Whole, counted
from peermesh.cli.offering import offer_log, offer_log_replica
from peermesh.cli.output import Output
from peermesh.cli.quotas import NAMES, given_quota, quota_options
from peermesh.cli.running import run
from peermesh.cli.values import on_a_line
from peermesh.cli.voters import given_voters, voters_options
from peermesh.errors import NoQuorum

if TYPE_CHECKING:
    from peermesh import ReplicaLog

CommandT = TypeVar("CommandT", bound=Callable[..., object])

_KEEPER_OPTIONS = (
    click.option(
        "--topic", "topics", multiple=True, metavar="TOPIC",
        help="Collect what is published on topics that begin with TOPIC. May be repeated.",
    ),
    click.option("--path", metavar="FILE", help="Keep it in this SQLite file, not in memory."),
)  # fmt: skip

_RETENTION_OPTIONS = (
    click.option(
        "--keep-seconds", type=Seconds(is_open=True), help="Keep so long."
    ),
    click.option("--keep-count", type=Whole(1), help="Keep so many per partition."),
    click.option("--keep-bytes", type=Whole(1), help="Keep so much per partition."),
)  # fmt: skip


def _limit_options(command: CommandT) -> CommandT:
    """Add how much a log keeps, and how much it may hold."""
    command = quota_options(command)
    for option in reversed(_RETENTION_OPTIONS):
        command = option(command)
    return command


def _keeper_options(command: CommandT) -> CommandT:
    """Add what a keeper can be told, now or by its promotion."""
    command = _limit_options(command)
    for option in reversed(_KEEPER_OPTIONS):
        command = option(command)
    return command


def _kept(limits: dict[str, float | None]) -> dict[str, Any]:
    return {key: each for key, each in limits.items() if key not in NAMES and each is not None}


def _given(limits: dict[str, float | None]) -> dict[str, Any]:
    return _kept(limits) | given_quota(limits)


@command()
@click.argument("name")
@click.option("--partitions", type=Whole(1), help="How many partitions a new log has.")
@click.option(
    "--fresh", is_flag=True,
    help="Lead with what FILE has, this once: its ballot is lost, or it lacks what it had"
    " acknowledged. What followers have beyond that is lost.",
)  # fmt: skip
@_keeper_options
@mesh_options(listens=True)
def keep(  # noqa: PLR0913 - an option each
    name: str,
    topics: tuple[str, ...],
    partitions: int | None,
    path: str | None,
    mesh: Mesh,
    output: Output,
    *,
    fresh: bool,
    **limits: float | None,
) -> None:
    """Run the keeper of a log until Ctrl-C; peers that do not answer are tried again, for ever.

    Without a limit everything is kept. What is appended with a receipt survives a power cut, if
    there is a FILE; what is collected from topics, so far as it arrived. If another node is
    promoted meanwhile, this one follows it, and leaves its FILE as it is.
    """
    given = in_file(path) | {"partitions": partitions, "fresh": fresh}
    run(_keep, mesh, name, topics, given, _given(limits), output)


async def _keep(
    mesh: Mesh,
    name: str,
    topics: Sequence[str],
    given: dict[str, Any],
    options: dict[str, Any],
    output: Output,
) -> None:
    async with mesh.endpoint() as endpoint, trio.open_nursery() as nursery:
        kept = await endpoint.attach_log(name, topics, **given, **options)
        offer_log(endpoint, name, kept, options | {"topics": topics})
        await stay_joined(endpoint, mesh, nursery, output.announce)
        count = await kept.partition_count()
        text = f"keeping {on_a_line(name)} in {counted(count, 'partition')}"
        text += GIVEN_UP if given["fresh"] else ""
        told = {"log": name, "partitions": count, "fresh": given["fresh"]}
        output.announce(text, event="keeping", **told)
        await end_with(endpoint, [kept])


@command()
@click.argument("name")
@voters_options()
@click.option("--partitions", type=Whole(1), help="How many partitions a new log has.")
@click.option("--path", metavar="FILE", help="Keep it in this SQLite file, not in memory.")
@_limit_options
@mesh_options(listens=True)
def replica(  # noqa: PLR0913 - an option each
    name: str,
    voters: str | None,
    partitions: int | None,
    path: str | None,
    mesh: Mesh,
    output: Output,
    *,
    found: bool,
    **limits: float | None,
) -> None:
    """Have a replica of a log whose group elects its leader, until Ctrl-C.

    It has a vote if --voters names this node (--name). A majority of the voters has every append
    that was acknowledged. Without a FILE all entries are in memory.

    --keep-… and --max-… are the group's, and take the place of what it went by: give all nodes the
    same.
    """
    given = in_file(path) | {"partitions": partitions} | given_voters(voters, found=found)._asdict()
    run(_replica, mesh, name, given, (_kept(limits), given_quota(limits)), output)


async def _replica(
    mesh: Mesh,
    name: str,
    given: dict[str, Any],
    limits: tuple[dict[str, Any], dict[str, Any]],
    output: Output,
) -> None:
    async with mesh.endpoint() as endpoint, trio.open_nursery() as nursery:
        held = await endpoint.attach_log_replica(name, **given)
        nursery.start_soon(_limit, held, *limits)
        offer_log_replica(endpoint, name, held)
        await stay_joined(endpoint, mesh, nursery, output.announce)
        text = f"replica of {on_a_line(name)}"
        output.announce(text, event="replica", log=name, path=given.get("path"))
        await end_with(endpoint, [held])


async def _limit(replica: ReplicaLog, retention: dict[str, Any], quota: dict[str, Any]) -> None:
    """Have a group keep so much, and hold no more, as soon as it is led."""
    for limits, change in ((retention, replica.set_retention), (quota, replica.set_quota)):
        is_done = not limits
        while not is_done:
            with suppress(NoQuorum):
                await replica.catch_up()  # It knows the limits that are not to be changed.
                await change(**limits)
                is_done = True


@command()
@click.argument("name")
@_keeper_options
@mesh_options(listens=True)
def follow(
    name: str,
    topics: tuple[str, ...],
    path: str | None,
    mesh: Mesh,
    output: Output,
    **limits: float | None,
) -> None:
    """Have a copy of a log until Ctrl-C, and be promoted if it comes to that.

    --topic, --keep-… and --max-… are for the keeper that it becomes by "peermesh log promote".
    """
    run(_follow, mesh, name, path, _given(limits) | {"topics": topics}, output)


async def _follow(
    mesh: Mesh, name: str, path: str | None, options: dict[str, Any], output: Output
) -> None:
    async with mesh.endpoint() as endpoint, trio.open_nursery() as nursery:
        copy = await endpoint.attach_log_clone(name, **in_file(path))
        offer_log(endpoint, name, copy, options)
        await stay_joined(endpoint, mesh, nursery, output.announce)
        output.announce(f"following {on_a_line(name)}", event="following", log=name)
        await end_with(endpoint, [copy])


@command()
@LOG_NAME
@promotion_options
@mesh_options(listens=False)
def promote(name: str, node: str | None, mesh: Mesh, output: Output, *, force: bool) -> None:
    """Make a node that follows a log its keeper, or a replica the leader of its group.

    The node has to be one of "peermesh log follow NAME". The last keeper is fenced: when it returns
    it follows. What it had acknowledged and this node does not have is lost.

    A node of a group ("peermesh log replica NAME") is handed the lead. With --force it leads
    without a majority, and without the other voters from then on: for voters that are gone for
    good. What a majority of them had and this node does not have is lost.
    """
    done = run(ask_for_promotion, mesh, name, node, force, LEAD_LOG)
    output.tell(done.text, log=name, node=str(done.node), message=done.text)
