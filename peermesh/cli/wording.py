"""How errors are told: in the words of the command line, as text or as JSON."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Final

import click

from peermesh.cli.exits import CommandFailed, ExitCode, exit_code_of
from peermesh.cli.output import json_line
from wire.errors import AddressInUse, AddressInvalid, MeshError

WORDS: Final = (
    (
        "credentials (Endpoint(secret=...), credentials=Credentials.from_secret(...) or from_files"
        "(...); commands take --secret-file, --certificate or PEERMESH_SECRET)",
        "--secret-file, --certificate or PEERMESH_SECRET",
    ),
    ("allow_plain=True (--allow-plain)", "--allow-plain"),
    (", then Credentials.from_files", ", then --certificate, --certificate-key and --authority"),
    (
        "attach one with attach_log, and peer with its mesh",
        'is "peermesh log keep" running in this mesh?',
    ),
    ("; give attach_clone a longer stale_interval to read on", ""),
    (
        "attach it with attach_log_clone",
        'start it with "peermesh log follow"',
    ),
    (
        "give one way into the mesh: secret, or secret_file, or certificate, key and authority",
        "give one way into the mesh: --secret-file or PEERMESH_SECRET, or --certificate,"
        " --certificate-key and --authority",
    ),
    (
        "certificate, key and authority belong together",
        "--certificate, --certificate-key and --authority belong together",
    ),
)
"""What errors of the library say to programmers, and what that is for users of commands."""


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


def told(error: MeshError | OSError | click.ClickException) -> Told:
    """Say an error in the words of the command line."""
    if isinstance(error, click.ClickException):
        return Told("usage", error.format_message(), _usage_of(error), error.exit_code)
    if isinstance(error, CommandFailed):
        return Told(error.kind, _in_words(str(error)), error.hint, error.exit_code)
    if isinstance(error, MeshError):
        return Told(_kind_of(error), _in_words(str(error)), None, exit_code_of(error))
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


def _in_words(text: str) -> str:
    """Replace what is said to programmers; and what does not print, which may be a peer's."""
    for api, words in WORDS:
        text = text.replace(api, words)
    return "".join(each if each.isprintable() or each == "\n" else "?" for each in text)
