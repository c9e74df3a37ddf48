"""How commands end: the codes, and the errors that lead to them."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from peermesh.demo.errors import RequirementError
from wire.errors import MeshError, SettingsError


class ExitCode(IntEnum):
    """What a command's exit code means. Ended by a signal is 128 and its number, as in shells."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    MISSING = 3
    TIMEOUT = 4
    INTERRUPTED = 130


EXIT_CODES_HELP: Final = """\
\b
Exit codes:
  0    done
  1    failed, or what was asked for is not there; the reason is on stderr
  2    the command was given wrongly
  3    something is not installed: an extra of peermesh, or Java
  4    no peer, master, keeper or message answered, or not in time
  130  ended with Ctrl-C (128 and the number of the signal, for others)
"""


class CommandFailed(MeshError):
    """A command cannot do what it was asked to."""

    def __init__(
        self,
        text: str,
        code: ExitCode = ExitCode.FAILED,
        *,
        hint: str | None = None,
        kind: str | None = None,
    ) -> None:
        """Say why, and end with a code; ``hint`` is what to do next.

        ``kind`` is the name of the error for programs, the member ``error`` of ``--json``.
        """
        super().__init__(text)
        self.exit_code = code
        self.hint = hint
        self.kind = kind or code.name.lower()


def exit_code_of(error: MeshError) -> int:
    """Give the code to end with."""
    if isinstance(error, CommandFailed):
        return error.exit_code
    if isinstance(error, SettingsError):
        return ExitCode.USAGE
    if isinstance(error, RequirementError):
        return ExitCode.MISSING
    return ExitCode.TIMEOUT if isinstance(error, TimeoutError) else ExitCode.FAILED
