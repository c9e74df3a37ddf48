"""``peermesh broker modules``: a bus of modules, until Ctrl-C."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import click

from peermesh import blocking
from peermesh.brokers.modules import Failure, Layout, LayoutError, ModuleBroker
from peermesh.brokers.modules.deployment import Deployment
from peermesh.brokers.modules.layout import Changes
from peermesh.cli.arguments import INPUT_FILE
from peermesh.cli.command import command
from peermesh.cli.exits import CommandFailed, ExitCode
from peermesh.cli.mesh import Mesh, mesh_options
from peermesh.cli.numbers import Seconds
from peermesh.cli.output import Output, note, say
from peermesh.cli.running import Signals, Stopped
from peermesh.cli.tracebacks import tell
from wire.addresses import join_address
from wire.errors import MeshError

_SIGNALS: Final = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})

FIRST_WAIT_SECONDS: Final = 2.0
"""After so long the modules begin, with or without peers, which are tried on."""


@command()
@click.argument("layout", type=INPUT_FILE)
@click.option("--check", "only_checks", is_flag=True, help="Say what the file asks for, and end.")
@click.option(
    "--every", type=Seconds(0.1), metavar="SECONDS",
    help="Write how much each link has carried, so often.",
)  # fmt: skip
@mesh_options(listens=True, is_optional=True)
def modules(
    layout: Path, mesh: Mesh, every: float | None, output: Output, *, only_checks: bool
) -> None:
    """Run the modules of the TOML file LAYOUT, and carry messages along its links.

    \b
      [modules.sensor]
      class = "my_gateway:Sensor"       # has receive(message); plain, or async
      arguments = { interval = 0.5 }
      process = true                    # in a process of its own
      [modules.mesh]
      publishes = "gateway/readings"    # a way to the mesh: see --peer
      [[links]]
      source = "sensor"
      sink = "mesh"
      policy = "wait"                   # or refuse, drop_oldest, drop_newest

    SIGHUP reads the file again: what is new is added, what is gone removed, while the rest goes on.
    """
    bus = _Bus(layout, output)
    if only_checks:
        bus.say_changes(bus.read().changes_from(Layout.empty()))
    else:
        bus.run(mesh, every)


class _Bus:
    """A module broker that follows a file."""

    def __init__(self, path: Path, output: Output) -> None:
        """Write what happens to ``output``."""
        self._path = path
        self._output = output
        self._has_read = False

    def _say(self, event: str, text: str, **details: object) -> None:
        self._output.tell(text, event=event, **details)

    def read(self) -> Layout:
        """Read the file; raises ``CommandFailed``."""
        try:
            if self._has_read and not self._path.is_file():
                raise LayoutError("it came from a pipe, and cannot be read again")
            self._has_read = True
            return Layout.parse(self._path.read_text())
        except (OSError, UnicodeDecodeError, LayoutError) as error:
            raise CommandFailed(f"{self._path}: {error}", ExitCode.USAGE) from error

    def run(self, mesh: Mesh, every: float | None) -> None:
        """Carry messages until a signal ends it."""
        first = self.read()
        # Before there are threads, so that all of them leave the signals to this one.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        with ExitStack() as stack:
            signals = stack.enter_context(Signals())
            endpoint = self._join(stack, mesh) if mesh.peers or mesh.listen else None
            bus = stack.enter_context(ModuleBroker(on_failure=self._on_failure))
            deployment = Deployment(bus, endpoint)
            self.say_changes(deployment.apply(first))
            while True:
                found = signal.sigtimedwait(_SIGNALS, every if every is not None else 3600)
                if found is None:
                    if every is not None:
                        self._say_links(bus)
                elif found.si_signo == signal.SIGHUP:
                    self._follow(deployment)
                else:
                    # From here on the second one is not for this loop, but for the handler.
                    signals.note_first(found.si_signo)
                    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
                    raise Stopped(found.si_signo)

    def _join(self, stack: ExitStack, mesh: Mesh) -> blocking.Endpoint:
        endpoint = stack.enter_context(mesh.blocking_endpoint())
        for host, port in mesh.listen:
            bound = endpoint.listen(host, port)
            say(f"listening on {join_address(host, bound)}", err=True)
        for host, port in mesh.peers:
            seconds = FIRST_WAIT_SECONDS if mesh.waits is None else mesh.waits
            outcome = endpoint.peer(host, port, timeout=seconds)
            if not outcome and mesh.waits is not None:
                text = f"{outcome}: does an endpoint listen there?"
                raise CommandFailed(text, ExitCode.TIMEOUT)
            if not outcome:
                note(f"{outcome}: it is tried on, for ever; Ctrl-C ends it")
        return endpoint

    def _follow(self, deployment: Deployment) -> None:
        """Do as the file says now; a bad one changes nothing."""
        try:
            self.say_changes(deployment.apply(self.read()))
        except MeshError as error:
            note(f"{error}; nothing was changed")

    def _on_failure(self, failure: Failure) -> None:
        say(f"module {failure.module}: {failure.method}() raised", err=True)
        tell(failure.error)

    def say_changes(self, changes: Changes) -> None:
        """Write what was done, or is to be done."""
        for name in changes.remove:
            self._say("removed", f"- module {name}", module=name)
        for sign, event, plans in (
            ("~", "replaced", changes.replace),
            ("+", "added", changes.add),
        ):
            for plan in plans:
                what = plan.path or "the mesh"
                text = f"{sign} module {plan.name}: {what}"
                self._say(event, text, module=plan.name, made_of=what)
        for sign, event, links in (
            ("-", "unlinked", changes.unlink),
            ("~", "changed", changes.change),
            ("+", "linked", changes.link),
        ):
            for link in links:
                self._say(
                    event,
                    f"{sign} link {link.source} -> {link.sink} ({link.policy})",
                    source=link.source,
                    sink=link.sink,
                    policy=link.policy,
                )

    def _say_links(self, bus: ModuleBroker) -> None:
        for link in bus.links():
            self._say(
                "carried",
                f"  {link.source} -> {link.sink}: {link.delivered} delivered, "
                f"{link.dropped} dropped",
                source=link.source,
                sink=link.sink,
                delivered=link.delivered,
                dropped=link.dropped,
            )
