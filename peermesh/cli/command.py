"""What every command is made with: --json, and one line for the options of the connection."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from peermesh.cli.index import Entry
from peermesh.cli.output import Output
from peermesh.cli.values import on_a_line

JSON_HELP: Final = "Write JSON: one object, or one on each line."
CONNECTION_HELP: Final = "--peer, --context, … (see: peermesh help connection)"

Decorate = Callable[[Callable[..., object]], "Command"]
DecorateGroup = Callable[[Callable[..., object]], "Group"]

_AS_JSON: Final = "peermesh.as_json"
"""In the ``meta`` of contexts: ``--json`` was given before the name of the command."""


class Option(click.Option):
    """An option that may have old spellings, which work and are not shown."""

    def __init__(
        self,
        declarations: Sequence[str],
        *,
        old: Iterable[str] = (),
        **settings: Any,  # noqa: ANN401 - click's own types
    ) -> None:
        """Declare it as click does; ``old`` are the spellings that are not shown."""
        self._old: Final = frozenset(old)
        super().__init__([*declarations, *self._old], **settings)

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Write it for the help, in its one spelling."""
        shown = copy.copy(self)
        shown.opts = [each for each in self.opts if each not in self._old]
        return super(Option, shown).get_help_record(ctx)


class ConnectionOption(Option):
    """An option of the connection, which the help of a command only mentions."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Write it where the options of the connection are what the command is about."""
        if getattr(ctx.command, "shows_connection", False):
            return super().get_help_record(ctx)
        return None


class Command(click.Command):
    """A command of ``peermesh``: its function is given an ``Output`` as ``output``."""

    def __init__(
        self,
        name: str | None,
        *,
        shows_connection: bool = False,
        **settings: Any,  # noqa: ANN401 - click's own types
    ) -> None:
        """Make a command as click does, with the option ``--json``."""
        super().__init__(name, **settings)
        self.shows_connection: Final = shows_connection
        self.params.append(Option(["--json", "as_json"], is_flag=True, help=JSON_HELP))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments; a number below zero is one, and no option."""
        try:
            return super().parse_args(ctx, list(args))
        except click.NoSuchOption as error:
            if not error.option_name[1:2].isdigit():
                raise
        ctx.ignore_unknown_options = True
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's own types
        """Run it."""
        _keep_as_json(ctx, None, ctx.params.pop("as_json"))
        ctx.params["output"] = output_of(ctx)
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options into the help, those of the connection on one line."""
        super().format_options(ctx, formatter)
        if not self.shows_connection and any(isinstance(o, ConnectionOption) for o in self.params):
            formatter.write_paragraph()
            formatter.write_text(f"Connection options: {CONNECTION_HELP}")


def _keep_as_json(ctx: click.Context, _: click.Parameter | None, value: bool) -> None:  # noqa: FBT001 - click hands it over
    ctx.meta[_AS_JSON] = ctx.meta.get(_AS_JSON, False) or value


def output_of(ctx: click.Context) -> Output:
    """Make the output of a command, for which it or a group above it was given ``--json``."""
    return Output(as_json=ctx.meta.get(_AS_JSON, False))


class Group(click.Group):
    """A group of commands, whose ``--json`` holds for the command after it."""

    def __init__(self, name: str | None = None, **settings: Any) -> None:  # noqa: ANN401 - click's own types
        """Make a group as click does, with the option ``--json``."""
        super().__init__(name, **settings)
        keep = Option(
            ["--json"], is_flag=True, is_eager=True, expose_value=False, help=JSON_HELP,
            callback=_keep_as_json,
        )  # fmt: skip
        self.params.append(keep)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options; ``--json`` without a command writes the help."""
        rest = super().parse_args(ctx, list(args))
        if all(each.startswith("-") for each in args) and not ctx.resilient_parsing:
            text = self.get_help(ctx)
            output_of(ctx).tell(text.split("\n"), help=text)
            ctx.exit()
        return rest

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command by its name; an error suggests a similar one."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            raise click.UsageError(unknown_command(ctx, name), ctx)
        return super().resolve_command(ctx, args)


class LazyGroup(Group):
    """A group that imports a command when it is asked for, and none to list them."""

    def __init__(
        self,
        name: str | None = None,
        *,
        index: Mapping[str, Entry],
        **settings: Any,  # noqa: ANN401 - click's own types
    ) -> None:
        """Make a group as click does; ``index`` says where its commands are."""
        super().__init__(name, **settings)
        self._index: Final = index

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name all of them, those that were added by hand among them."""
        return sorted({*self._index, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Give the one of this name, if there is one."""
        entry = self._index.get(cmd_name)
        if entry is None:
            return super().get_command(ctx, cmd_name)
        module = import_module(f"peermesh.cli.{entry.module}")
        name = cmd_name.replace("-", "_")
        # A function called "help" would hide Python's own.
        command = getattr(module, name, None) or getattr(module, f"{name}_command")
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write them into the help."""
        self._outline().format_commands(ctx, formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Give the commands that begin so, and what any command has."""
        found = [
            CompletionItem(name, help=each.get_short_help_str())
            for name, each in sorted(self._outline().commands.items())
            if name.startswith(incomplete) and not each.hidden
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def _outline(self) -> click.Group:
        """Give a group of the same names, whose commands have their lines of help alone."""
        commands = dict(self.commands)
        for name, entry in self._index.items():
            commands[name] = click.Command(name, help=entry.help, hidden=entry.is_hidden)
        return click.Group(self.name, commands)


def unknown_command(ctx: click.Context, name: str) -> str:
    """Say that a command has none of this name below it, and which one may be meant."""
    names = ctx.command.list_commands(ctx) if isinstance(ctx.command, click.Group) else []
    close = difflib.get_close_matches(name, names)
    meant = f"; did you mean {' or '.join(close)}?" if close else ""
    return f"there is no command {on_a_line(f'{ctx.command_path} {name}')}{meant}"


def group(**settings: Any) -> DecorateGroup:  # noqa: ANN401 - click's own types
    """Make a group of a function, as ``click.group`` does."""
    return click.group(cls=Group, **settings)


def lazy_group(index: Mapping[str, Entry], **settings: Any) -> DecorateGroup:  # noqa: ANN401 - click's own types
    """Make a group of a function, whose commands are imported when they are asked for."""
    return click.group(cls=LazyGroup, index=index, **settings)


def command(name: str | None = None, **settings: Any) -> Decorate:  # noqa: ANN401 - click's own types
    """Make a command of a function, as ``click.command`` does."""
    return click.command(name, cls=Command, **settings)
