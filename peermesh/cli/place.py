"""Where the mesh is: --peer, PEERMESH_PEER, --context or its variable, the current context."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import click

from peermesh.cli.addresses import read_peer, why_no_address
from peermesh.cli.context_file import Context, Peer, load
from peermesh.cli.output import note
from wire.errors import CredentialsError

PEER_VARIABLE: Final = "PEERMESH_PEER"
CONTEXT_VARIABLE: Final = "PEERMESH_CONTEXT"


@dataclass(frozen=True, slots=True)
class Place:
    """Where to look for the mesh, and the options of the context that said so."""

    peers: tuple[Peer, ...] = field(default=(), repr=False)
    options: Mapping[str, str | bool] = field(default_factory=dict)


def find_place(
    peers: tuple[Peer, ...],
    context: str | None,
    environment: Mapping[str, str],
    *,
    uses_current: bool,
) -> Place:
    """Say where the mesh is. Raises ``UsageError``, and ``CommandFailed`` for contexts.

    Peers that are given go before those of a context; a context that was typed still gives its
    options. Without either the current context says, except where ``uses_current`` is false: no
    command that can do without peers joins a mesh by surprise.
    """
    text = environment.get(PEER_VARIABLE, "").strip()
    given = peers or (_peers_of(text) if text else ())
    if context is not None:
        found = load(environment).find(context)
        if given and not peers:
            note(
                f"{PEER_VARIABLE} goes before the peers of context {context}; unset it to use them"
            )
        return Place(given or found.peers, found.options)
    if given:
        return Place(given)
    contexts = load(environment)
    name = environment.get(CONTEXT_VARIABLE) or (contexts.current if uses_current else None)
    chosen = Context((), {}) if name is None else contexts.find(name)
    return Place(chosen.peers, chosen.options)


def _peers_of(text: str) -> tuple[Peer, ...]:
    """Read the variable: addresses or tickets, with blanks or commas between them."""
    found = []
    for each in text.replace(",", " ").split():
        try:
            peer = read_peer(each)
        except CredentialsError as error:
            raise click.UsageError(f"{PEER_VARIABLE}: {error}") from None
        if peer is None:
            raise click.UsageError(f"{PEER_VARIABLE}: {why_no_address(each)}")
        found.append(peer)
    return tuple(found)
