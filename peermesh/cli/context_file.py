"""The file of contexts: meshes that commands find by name, with what lets them in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from handshake.private_files import make_directory, read_secret, write_private
from handshake.ticket import JoinTicket
from peermesh.cli.addresses import Address, read_peer
from peermesh.cli.exits import CommandFailed, ExitCode
from wire.addresses import join_address
from wire.errors import CredentialsError

DIRECTORY_VARIABLE: Final = "PEERMESH_CONFIG_DIR"
FILE_NAME: Final = "contexts.json"
VERSION: Final = 1

PATH_OPTIONS: Final = (
    "secret_file", "certificate", "certificate_key", "authority", "settings", "roles",
)  # fmt: skip
FLAG_OPTIONS: Final = ("allow_plain", "sign")

Peer = Address | JoinTicket


@dataclass(frozen=True, slots=True)
class Context:
    """Where a mesh is, and the options that let a command in."""

    peers: tuple[Peer, ...] = field(repr=False)
    options: Mapping[str, str | bool]
    """By the names of ``PATH_OPTIONS`` and ``FLAG_OPTIONS``."""

    def shown(self) -> dict[str, Any]:
        """Give what may be seen by anybody: of a ticket, where it leads."""
        places = [(p.host, p.port) if isinstance(p, JoinTicket) else p for p in self.peers]
        has_ticket = any(isinstance(peer, JoinTicket) for peer in self.peers)
        ticket = {"ticket": True} if has_ticket else {}
        return {"peers": [join_address(*place) for place in places], **self.options, **ticket}


@dataclass(frozen=True, slots=True)
class Contexts:
    """All contexts, and the name of the one that is used when no other is asked for."""

    all: Mapping[str, Context] = field(default_factory=dict)
    current: str | None = None

    def find(self, name: str, *, hint: str | None = None) -> Context:
        """Give the context of this name; raises ``CommandFailed``, with a hint."""
        if name not in self.all:
            known = ", ".join(self.all) or "none"
            raise CommandFailed(
                f"there is no context {name}; contexts: {known}",
                ExitCode.USAGE,
                hint=hint or f"peermesh context add {name} --peer HOST:PORT makes it",
                kind="no_such_context",
            )
        return self.all[name]


def path_of(environment: Mapping[str, str]) -> Path:
    """Say where the file is: as the variables say, else in the user's directory of settings."""
    if directory := environment.get(DIRECTORY_VARIABLE):
        return Path(directory) / FILE_NAME
    # The standard of freedesktop.org says that a relative path is to be ignored.
    base = Path(environment.get("XDG_CONFIG_HOME") or "")
    base = base if base.is_absolute() else Path.home() / ".config"
    return base / "peermesh" / FILE_NAME


def load(environment: Mapping[str, str]) -> Contexts:
    """Read the file; without one there is no context.

    Raises ``CommandFailed``, and ``CredentialsError`` for one that others can read.
    """
    path = path_of(environment)
    if not path.exists():
        return Contexts()
    data = read_secret(path, "context")  # A ticket may be in it.
    try:
        return _parsed(json.loads(data))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CommandFailed(
            f"{path} is no file of contexts ({type(error).__name__})", hint="repair or remove it"
        ) from None


def save(environment: Mapping[str, str], contexts: Contexts) -> None:
    """Write the file anew, for its owner alone: a reader sees all of it, or what was before."""
    path = path_of(environment)
    make_directory(path.parent)
    written = {
        name: {"peers": [_peer_text(peer) for peer in each.peers], **each.options}
        for name, each in contexts.all.items()
    }
    found = {"v": VERSION, "current": contexts.current, "contexts": written}
    write_private(path, json.dumps(found, indent=2).encode() + b"\n", replaces=True)


def _parsed(found: dict[str, Any]) -> Contexts:
    if found["v"] != VERSION:
        raise ValueError("another version")
    contexts = {str(name): _context_of(each) for name, each in found["contexts"].items()}
    current = found["current"]
    return Contexts(contexts, current if current in contexts else None)


def _context_of(found: dict[str, Any]) -> Context:
    peers = tuple(map(_peer_of, found["peers"]))
    paths = {name: str(found[name]) for name in PATH_OPTIONS if found.get(name)}
    flags = {name: True for name in FLAG_OPTIONS if found.get(name) is True}
    return Context(peers, {**paths, **flags})


def _peer_of(text: str) -> Peer:
    try:
        found = read_peer(text)
    except CredentialsError:
        found = None  # The error of the whole file repeats none of it.
    if found is None:
        raise ValueError("no address")
    return found


def _peer_text(peer: Peer) -> str:
    return peer.text() if isinstance(peer, JoinTicket) else join_address(*peer)
