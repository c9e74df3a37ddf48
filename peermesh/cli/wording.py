"""How errors are told: in the words of the command line, as text or as JSON."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import click

from peermesh.cli.exits import CommandFailed, ExitCode, exit_code_of
from peermesh.cli.output import json_line
from wire.errors import (
    AddressInUse,
    AddressInvalid,
    BackendFailure,
    CredentialsError,
    EncodeError,
    EndpointClosed,
    Fenced,
    GuardFailed,
    InsecureAddress,
    InvalidData,
    InvalidTopic,
    KeeperUnreachable,
    LimitExceeded,
    MasterExists,
    MeshError,
    NoQuorum,
    NoSuchKey,
    NoSuchMaster,
    NoSuchPartition,
    NotAllowed,
    OffsetOutOfRange,
    OutboxFull,
    PeerIncompatible,
    PeerNotTrusted,
    PeerUnavailable,
    PromotionRefused,
    ProtocolError,
    QuotaExceeded,
    ReplicaRegressed,
    RequestTimeout,
    RevisionGone,
    RolesError,
    SequenceUnknown,
    SessionExpired,
    SettingsError,
    StaleData,
    StoreClosed,
    StoreConflict,
    SubscriberOverflow,
    TypeClash,
)

WAYS_IN: Final = "--secret-file, --certificate, PEERMESH_SECRET_FILE or PEERMESH_SECRET"
"""How a command gets credentials."""

WORDS: Final = (
    (
        "credentials (Endpoint(secret=...), credentials=Credentials.from_secret(...) or from_files"
        "(...); commands take --secret-file, --certificate, PEERMESH_SECRET_FILE or"
        " PEERMESH_SECRET)",
        WAYS_IN,
    ),
    ("allow_plain=True (--allow-plain)", "--allow-plain"),
    (", then Credentials.from_files", ", then --certificate, --certificate-key and --authority"),
    (": attach one with attach_log, and peer with its mesh", ""),
    ("; give attach_clone a longer stale_interval to read on", ""),
    (
        "attach it with attach_replica",
        'start it with "peermesh node --replica NAME:PATH --voters ..."',
    ),
    (
        "attach it with attach_log_replica",
        'start it with "peermesh log replica NAME --voters ..."',
    ),
    ("promote(force=True)", '"promote NAME --force"'),
    ("ask one that has a copy", "name one that has a copy, with --at NODE"),
    ("give Endpoint(name=...)", "give --name"),
    ("with found=True", "with --found"),
    ("be given found=True", "be given --found"),
    ("fresh=True", "--fresh"),
    (
        "raise it with set_quota() at its master, await set_quota() in a group",
        'raise it: --max-entries and --max-bytes where it is led, "peermesh store quota NAME" or'
        ' "peermesh log quota NAME" for a group',
    ),
    ("attach it with attach_log, or", 'start it with "peermesh log keep", or'),
    (
        "attach it with attach_log_clone",
        'start it with "peermesh log follow"',
    ),
    (
        "give one way into the mesh: secret, or secret_file, or certificate, key and authority",
        "give one way into the mesh: --secret-file, PEERMESH_SECRET_FILE or PEERMESH_SECRET, or"
        " --certificate, --certificate-key and --authority",
    ),
    (
        "certificate, key and authority belong together",
        "--certificate, --certificate-key and --authority belong together",
    ),
)
"""What errors of the library say to programmers, and what that is for users of commands."""


HINTS: Final[Mapping[type[MeshError], str]] = {
    AddressInUse: "name another port, or 0 for any that is free",
    AddressInvalid: "check the host and the port",
    BackendFailure: "is there room on the disk, and is the file yours? then try again",
    CredentialsError: "peermesh secret show, or peermesh certs show, says what a file holds",
    EncodeError: "--text takes it as text",
    EndpointClosed: "run the command again",
    Fenced: "read what is there now, then try again",
    GuardFailed: "read what is there now, then try again",
    InsecureAddress: "use 127.0.0.1, or give a secret: peermesh secret new makes one",
    InvalidData: "the command with --help says what it takes",
    InvalidTopic: "a topic is text such as news/today",
    KeeperUnreachable: 'is "peermesh log keep" running in this mesh? --wait SECONDS waits longer',
    LimitExceeded: "send less at once",
    MasterExists: "use that store, or choose another name",
    NoSuchKey: "peermesh store keys NAME lists the keys",
    NoSuchMaster: 'is "peermesh node --master NAME" running in this mesh?',
    NoQuorum: "start the voters that the text calls silent, or mend the way to them",
    NoSuchPartition: "peermesh log offsets NAME lists the partitions",
    NotAllowed: "--roles on the other endpoint, or --port-roles at a broker, says who may do that",
    OffsetOutOfRange: "peermesh log offsets NAME says where each partition begins",
    OutboxFull: "send less at once",
    PeerIncompatible: "does another program listen there, or another release of peermesh?",
    PeerNotTrusted: "peermesh secret show says on both machines whether their secrets are equal",
    PeerUnavailable: "check the address, and that an endpoint listens there",
    PromotionRefused: "--force promotes it nevertheless, and may lose entries",
    ProtocolError: "does another program listen there, or another release of peermesh?",
    RevisionGone: "read again from the start",
    SessionExpired: "run it again: what it held may be another's by now",
    QuotaExceeded: "peermesh store delete makes room; --max-bytes at the master allows more",
    ReplicaRegressed: "put back the latest copy of the file, with the .ballot beside it",
    RequestTimeout: "--wait SECONDS waits longer",
    RolesError: "repair the file that --roles names",
    SequenceUnknown: "continue with the number after the last one that was acknowledged",
    SettingsError: "peermesh help connection lists where settings come from",
    StaleData: "is its master reachable, or a majority of its group? then try again",
    StoreClosed: "run the command again",
    StoreConflict: "close the clones that are not wanted, then try again",
    SubscriberOverflow: "read faster, or publish less at once",
    TypeClash: "peermesh store get NAME KEY shows what is stored",
}
"""What to do next where an error does not say it itself. The nearest class of an error counts."""

_ORDER: Final = re.compile(
    r"(?s)(.+?)[:;] ((?:ask|attach|call|check|choose|copy|get|give|install|join|keep|make|name|"
    r"open|peer|pip|put|raise|read|remove|repair|run|say|send|set|start|try|use|wait|write)\b.+)"
)
"""What happened, and after a colon or semicolon what to do about it."""


@dataclass(frozen=True, slots=True)
class Told:
    """An error as it is told."""

    kind: str
    """Its name for programs."""
    message: str
    hint: str | None
    exit_code: int

    def json(self) -> str:
        """Write it as a line of JSON."""
        return json_line({"error": self.kind, "message": self.message, "hint": self.hint})

    def text(self) -> str:
        """Write it as a sentence."""
        return f"peermesh: {self.message}" + ("" if self.hint is None else f"; {self.hint}")


def _split(text: str) -> tuple[str, str | None]:
    """Split the text of an error into what happened, and what to do if it says so."""
    found = _ORDER.fullmatch(text)
    return (text, None) if found is None else (found[1], found[2])


def _hint_for(error: MeshError) -> str | None:
    if type(error) is BackendFailure and error.__cause__ is None:
        return None  # It was found in what the file holds, and not told by the system.
    return next((HINTS[each] for each in type(error).__mro__ if each in HINTS), None)


def told(error: MeshError | OSError | click.ClickException) -> Told:
    """Say an error in the words of the command line."""
    if isinstance(error, click.ClickException):
        return Told("usage", error.format_message(), _usage_of(error), error.exit_code)
    if isinstance(error, CommandFailed):
        message, hint = in_words(str(error)), error.hint
        if hint is None:
            message, hint = _split(message)
        return Told(error.kind, message, hint, error.exit_code)
    if isinstance(error, MeshError):
        message, hint = _split(in_words(str(error)))
        return Told(_kind_of(error), message, hint or _hint_for(error), exit_code_of(error))
    return Told("system", _what_the_system_says(error), _SYSTEM_HINT, ExitCode.FAILED)


def _kind_of(error: MeshError) -> str:
    """Name an error as ``peermesh.errors`` does, in small letters; or ``system``."""
    if isinstance(error.__cause__, OSError) and not isinstance(
        error, (AddressInUse, AddressInvalid)
    ):
        return "system"
    return _WORD.sub("_", type(error).__name__).lower()


_WORD: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


def _usage_of(error: click.ClickException) -> str | None:
    ctx = getattr(error, "ctx", None)
    return None if ctx is None else f"{ctx.command_path} --help"


_SYSTEM_HINT: Final = "give another one, or make room"


def _what_the_system_says(error: OSError) -> str:
    """Say in a sentence what is no mistake of ours: a full disk, a directory that is a file."""
    what = "the input or output" if error.filename is None else os.fsdecode(error.filename)
    return f"cannot use {what}: {error.strerror or error}"


def in_words(text: str) -> str:
    """Replace what is said to programmers."""
    for api, words in WORDS:
        text = text.replace(api, words)
    return text
