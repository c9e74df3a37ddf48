"""``peermesh topic``: the topics of a QoS-2 broker."""

from __future__ import annotations

from dataclasses import asdict

import click

from peermesh.brokers.qos2 import Topic, TopicContent, Topics
from peermesh.brokers.qos2.names import ConsumerName
from peermesh.cli.command import command, group
from peermesh.cli.mesh import Mesh, mesh_options
from peermesh.cli.numbers import counted
from peermesh.cli.output import Output
from peermesh.cli.qos2 import found, name_option, open_followed
from peermesh.cli.running import run
from peermesh.cli.values import on_a_line


@group()
def topic() -> None:
    """Look at the topics and consumers of a QoS-2 broker; delete or forget one.

    The broker has to run with --listen HOST:PORT: say it here with --peer.
    """


def _made_by(owner: str | None) -> str:
    return "" if owner is None else f", made by {on_a_line(owner)}"


def as_text(topic: Topic) -> str:
    """Write a topic on one line."""
    consumers = counted(len(topic.consumers), "consumer")
    return f"{on_a_line(topic.name)}: {consumers}{_made_by(topic.owner)}"


def as_lines(content: TopicContent) -> list[str]:
    """Write what a topic holds."""
    name, messages = on_a_line(content.name), counted(content.messages, "message")
    last = f", the last one is {name}/{content.last}" if content.messages else ""
    waiting = [f"  {count} for {on_a_line(each)}" for each, count in content.waiting.items()]
    return [f"{name}: {messages}{last}{_made_by(content.owner)}", *waiting]


def as_name(consumer: ConsumerName) -> str:
    """Write the name of a consumer on one line."""
    topics = counted(len(consumer.topics), "topic")
    return f"{on_a_line(consumer.name)}: {topics}{_made_by(consumer.owner)}"


@command("list")
@name_option
@mesh_options(listens=False)
def list_topics(mesh: Mesh, name: str, output: Output) -> None:
    """List the topics, each with how many consumers have had a message of it."""

    async def work() -> None:
        async with open_followed(mesh, name) as shelf:
            for each in await Topics(shelf).list():
                output.tell(as_text(each), **asdict(each))

    run(work)


@command()
@click.argument("topic")
@name_option
@mesh_options(listens=False)
def show(topic: str, mesh: Mesh, name: str, output: Output) -> None:
    """Write how many messages TOPIC holds, and how many of them wait for each consumer."""

    async def work() -> None:
        async with open_followed(mesh, name) as shelf:
            content = await found(Topics(shelf).get(topic))
            output.tell(as_lines(content), **asdict(content))

    run(work)


@command()
@click.argument("topics", nargs=-1, required=True)
@name_option
@mesh_options(listens=False)
def delete(topics: tuple[str, ...], mesh: Mesh, name: str, output: Output) -> None:
    """Delete TOPICS, with their messages, read or not, and the places of consumers.

    Who publishes or subscribes later makes a topic anew. Numbers of messages go on from there.
    """

    async def work() -> None:
        async with open_followed(mesh, name) as shelf:
            for each in topics:
                await found(Topics(shelf).delete(each))
                output.tell(f"deleted {on_a_line(each)}", event="deleted", topic=each)

    run(work)


@command()
@name_option
@mesh_options(listens=False)
def consumers(mesh: Mesh, name: str, output: Output) -> None:
    """List all names of consumers, each with how many topics it has had a message of."""

    async def work() -> None:
        async with open_followed(mesh, name) as shelf:
            for each in await Topics(shelf).consumers():
                output.tell(as_name(each), **asdict(each))

    run(work)


@command()
@click.argument("consumers", nargs=-1, required=True)
@name_option
@mesh_options(listens=False)
def forget(consumers: tuple[str, ...], mesh: Mesh, name: str, output: Output) -> None:
    """Forget what CONSUMERS have had, and whose their names are.

    Who logs in under such a name later gets all messages of its topics from the oldest one on.
    """

    async def work() -> None:
        async with open_followed(mesh, name) as shelf:
            for each in consumers:
                await found(Topics(shelf).forget(each))
                output.tell(f"forgot {on_a_line(each)}", event="forgotten", consumer=each)

    run(work)


for each in (list_topics, show, delete, consumers, forget):
    topic.add_command(each)
