"""What the documents show of the house: settings, commands, modules, and where time comes in."""

from __future__ import annotations

import re
from configparser import ConfigParser
from pathlib import Path
from typing import Final

from drawing import reading
from drawing.markdown import code, table
from drawing.reading import attributes
from endpoint import Settings
from endpoint.settings import PREFIX
from peermesh.cli.application import application, commands_below

ROOT: Final = Path(__file__).resolve().parent.parent.parent
PACKAGES: Final = ("wire", "handshake", "net", "channels", "stores", "endpoint", "peermesh")


def settings(*, are_limits: bool = False) -> str:
    """Draw what can be set for an endpoint, and how; limits stand in a table of their own."""
    defaults = Settings()
    rows = [
        (
            code(field.name),
            code(PREFIX + field.name.upper()),
            code(str(getattr(defaults, field.name)).lower()),
            field.text,
        )
        for field in attributes(Settings)
        if field.name.endswith("_max") is are_limits
    ]
    return table(("argument and TOML key", "variable", "default", "meaning"), rows)


def make_targets() -> str:
    """Draw what the Makefile offers, in its own words."""
    text = (ROOT / "Makefile").read_text("utf-8")
    found = re.findall(r"^\t@echo 'make ([\w-]+) +(.*)'$", text, re.M)
    return table(("command", "does"), [(code(f"make {name}"), what) for name, what in found])


def cli_commands() -> str:
    """Draw the commands of the command line, in their own words."""
    found = commands_below(application, "peermesh")
    rows = [(code(name), reading.words(each.get_short_help_str(limit=200))) for name, each in found]
    return table(("command", "does"), rows)


def cores() -> tuple[str, ...]:
    """Name the pure modules and packages, as the lint contract does."""
    contracts = ConfigParser()
    contracts.read(ROOT / ".importlinter")
    return tuple(contracts["importlinter:contract:pure"]["source_modules"].split())


def house(package: str) -> str:
    """Draw the modules of a package: what each is for, and whether it is pure."""
    pure = cores()

    def kind(module: str) -> str:
        is_core = any(module == core or module.startswith(f"{core}.") for core in pure)
        return "core" if is_core else ""

    rows = []
    for module in reading.modules(package):
        text = reading.words(docstring_line(module))
        is_core = kind(module) == "core"
        rows.append((code(module), kind(module), text.removesuffix(" Pure.") if is_core else text))
    return table(("module", "kind", "is for"), rows)


def example() -> str:
    """Show the example that a job of Spark can be copied from, as it stands."""
    text = (ROOT / "examples" / "windowed_counts.py").read_text("utf-8")
    return f"```python\n{text}```"


SOURCES: Final = {
    "monotonic time": ("trio.current_time", "time.monotonic"),
    "time of day": ("time.time", "time.time_ns", "datetime.now"),
    "waiting for time to pass": ("trio.sleep", "time.sleep"),
    "ids": ("uuid.uuid4",),
    "chance": ("random.random", "random.Random", "secrets.token_bytes", "secrets.token_hex"),
    "threads": ("threading.Thread", "trio.to_thread.run_sync"),
}
"""What cores may not have, and the names by which drivers get it."""


def sources() -> str:
    """Draw where time, chance and threads come in, for all that is not the demo."""
    users: dict[tuple[str, str], dict[str, None]] = {}
    for package in PACKAGES:
        for module in reading.modules(package):
            names = set(reading.dotted_names(module))
            for what, sources in SOURCES.items():
                for source in sources:
                    if source in names and not module.startswith("peermesh.demo"):
                        users.setdefault((what, source), {})[module] = None
    rows = [
        (what, code(source), ", ".join(map(code, users[what, source])))
        for what, sources in SOURCES.items()
        for source in sources
        if (what, source) in users
    ]
    return table(("what", "by the name", "in"), rows)


def docstring_line(module: str) -> str:
    """Give the first paragraph of a module's docstring."""
    tree = reading.tree(module)
    first = tree.body[0] if tree.body else None
    text = getattr(getattr(first, "value", None), "value", "")
    assert isinstance(text, str), f"{module} has no docstring"
    return text.partition("\n\n")[0]
