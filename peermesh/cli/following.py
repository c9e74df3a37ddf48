"""``peermesh store watch``, ``events`` and ``scan``: many entries, and what becomes of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

import click

from endpoint.pubsub.messages import Missed
from peermesh import Bookmark, Commit, Entry, Gap, Value
from peermesh.cli.arguments import read_value
from peermesh.cli.arriving import open_copy, open_proxy
from peermesh.cli.command import command
from peermesh.cli.completion import STORE_NAME
from peermesh.cli.mesh import Mesh, mesh_options
from peermesh.cli.numbers import Whole
from peermesh.cli.output import Output, note, say
from peermesh.cli.running import run
from peermesh.cli.values import format_value, to_json

if TYPE_CHECKING:
    from endpoint.replicas.stores.events import StoreEvent
    from endpoint.replicas.stores.store import ObservedStore
    from endpoint.replicas.stores.watching import WatchItem

PREFIX_HELP: Final = "Only keys that begin so: text, or a list that begins lists."
COUNT_OPTION: Final = click.option("--count", type=Whole(1), help="End after so many changes.")


def _value(text: str | None) -> Value:
    return None if text is None else read_value(text)


def entry_members(entry: Entry) -> dict[str, Any]:
    shown = {"key": to_json(entry.key), "value": to_json(entry.value), "revision": entry.revision}
    if entry.expires_at is not None:
        shown["expires_at"] = to_json(entry.expires_at)
    return shown


@command()
@STORE_NAME
@click.option("--prefix", metavar="VALUE", help=PREFIX_HELP)
@click.option(
    "--range", "bounds", nargs=2, metavar="START STOP",
    help="Only keys from the first on, up to the second and without it.",
)  # fmt: skip
@click.option("--limit", type=Whole(1), help="Write so many entries at most.")
@mesh_options(listens=False)
def scan(
    name: str,
    prefix: str | None,
    bounds: tuple[str, str] | None,
    limit: int | None,
    mesh: Mesh,
    output: Output,
) -> None:
    """Write keys and values in the order of keys.

    Types go one after the other, numbers by value, text by its characters.
    """
    wanted = tuple(map(_value, (*(bounds or (None, None)), prefix)))
    run(_scan, mesh, name, wanted, limit, output)


async def _scan(
    mesh: Mesh,
    name: str,
    bounds: tuple[Value, Value, Value],
    limit: int | None,
    output: Output,
) -> None:
    start, stop, prefix = bounds
    async with open_proxy(mesh, name) as proxy:
        written = 0
        async for entry in proxy.at_master().entries(start, stop, prefix=prefix):
            text = f"{format_value(entry.key)} {format_value(entry.value)}"
            output.tell(text, **entry_members(entry))
            written += 1
            if written == limit:
                return


@command()
@STORE_NAME
@click.option("--prefix", metavar="VALUE", help=PREFIX_HELP)
@COUNT_OPTION
@mesh_options(listens=False)
def events(name: str, prefix: str | None, count: int | None, mesh: Mesh, output: Output) -> None:
    """Write what happens to each key from now on, until Ctrl-C.

    A line is the kind (insert, update, erase, expire, clear), the key, and the value: of an update
    the old one and the new one, of what is gone the old one. It may miss what happens while nobody
    can write it, and says so; "watch" misses nothing.
    """
    run(_events, mesh, name, _value(prefix), count, output)


async def _events(mesh: Mesh, name: str, prefix: Value, count: int | None, output: Output) -> None:
    async with open_copy(mesh, name) as copy:
        with copy.events(prefix=prefix) as found:
            say(f"following {name}", err=True)
            written = 0
            async for event in found:
                _write_event(event, output)
                written += 1
                if written == count:
                    return


def _write_event(event: StoreEvent | Missed, output: Output) -> None:
    if isinstance(event, Missed):
        note(f"{event.count} events were missed, being read too late")
        return
    values = {"insert": (event.after,), "update": (event.before, event.after)}
    shown = values.get(event.kind.value, (event.before,))
    output.tell(
        " ".join([event.kind.value, *map(format_value, (event.key, *shown))]),
        kind=event.kind.value,
        key=to_json(event.key),
        before=to_json(event.before),
        after=to_json(event.after),
        revision=event.revision,
        writer=None if event.writer is None else str(event.writer),
    )


@command()
@STORE_NAME
@click.option("--prefix", metavar="VALUE", help=PREFIX_HELP)
@click.option("--key", "keys", multiple=True, metavar="VALUE", help="Only this key; repeatable.")
@click.option(
    "--from-revision", type=Whole(1), metavar="N",
    help="Begin with the first change of at least this revision instead of with what there is.",
)  # fmt: skip
@COUNT_OPTION
@mesh_options(listens=False)
def watch(  # noqa: PLR0913 - the options of a command are its parameters
    name: str,
    prefix: str | None,
    keys: tuple[str, ...],
    from_revision: int | None,
    count: int | None,
    mesh: Mesh,
    output: Output,
) -> None:
    """Write what there is, and then every change, until Ctrl-C; nothing is left out unsaid.

    A line is the key and its value, or the key alone when it is gone. When all that there is was
    written, and from time to time, stderr tells the revision up to which nothing is missing.
    """
    if prefix is not None and keys:
        raise click.UsageError("give --prefix or --key: not both at once")
    wanted = [_value(key) for key in keys] or None
    run(_watch, mesh, name, (_value(prefix), wanted, from_revision), count, output)


async def _watch(
    mesh: Mesh,
    name: str,
    selection: tuple[Value, list[Value] | None, int | None],
    count: int | None,
    output: Output,
) -> None:
    async with open_copy(mesh, name) as copy:
        async for item in _until(count, copy, *selection):
            if output.as_json:
                output.tell(None, **_item_to_json(item))
            else:
                _write_item(item)


async def _until(
    count: int | None,
    copy: ObservedStore,
    prefix: Value,
    keys: list[Value] | None,
    from_revision: int | None,
) -> AsyncIterator[WatchItem]:
    """Give items up to so many commits."""
    with copy.watch(prefix=prefix, keys=keys, from_revision=from_revision) as items:
        told = 0
        async for item in items:
            yield item
            told += isinstance(item, Commit)
            if told == count:
                return


def _write_item(item: WatchItem) -> None:
    match item:
        case Entry(key, value):
            say(f"{format_value(key)} {format_value(value)}")
        case Bookmark(revision):
            say(f"watching: nothing is missing up to revision {revision}", err=True)
        case Gap(after):
            say(f"what happened after revision {after} is not known: begun anew", err=True)
        case Commit(_, _, changes):
            for change in changes:
                value = "" if change.entry is None else f" {format_value(change.entry.value)}"
                say(f"{format_value(change.key)}{value}")


def _item_to_json(item: WatchItem) -> dict[str, Any]:
    match item:
        case Entry():
            return {"type": "entry", **entry_members(item)}
        case Bookmark(revision):
            return {"type": "bookmark", "revision": revision}
        case Gap(after):
            return {"type": "gap", "after": after}
        case Commit(revision, writer, changes):
            shown = [
                {
                    "kind": change.kind.value,
                    "key": to_json(change.key),
                    **({} if change.entry is None else entry_members(change.entry)),
                }
                for change in changes
            ]
            author = None if writer is None else str(writer)
            return {"type": "commit", "revision": revision, "writer": author, "changes": shown}
