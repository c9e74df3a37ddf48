"""Modules and links as a TOML file says them, and what leads from one file to another. Pure.

::

    [modules.sensor]
    class = "my_gateway:Sensor"
    arguments = { interval = 0.5 }

    [modules.filter]
    class = "my_gateway:Filter"
    process = true
    inbox_size = 100

    [modules.mesh]
    publishes = "gateway/readings"
    subscribes = ["gateway/orders"]

    [[links]]
    source = "sensor"
    sink = "filter"
    policy = "drop_oldest"
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Self

from peermesh.brokers.modules.errors import BrokerError
from peermesh.brokers.modules.seat import LinkPolicy
from peermesh.brokers.modules.switchboard import (
    INBOX_SIZE,
    INBOX_SIZE_MAX,
    LINKS_MAX,
    MODULES_MAX,
    NAME_SIZE_MAX,
)


class LayoutError(BrokerError, ValueError):
    """A file that does not describe modules and links; the text says where."""


@dataclass(frozen=True, slots=True)
class ModulePlan:
    """One module: a class of the user's, or a way to the mesh if it has none."""

    name: str
    path: str | None
    arguments: Mapping[str, Any]
    is_process: bool
    inbox_size: int
    publishes: str | None
    subscribes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LinkPlan:
    """One link."""

    source: str
    sink: str
    policy: LinkPolicy

    @property
    def ends(self) -> tuple[str, str]:
        """The modules that it joins."""
        return self.source, self.sink


@dataclass(frozen=True, slots=True)
class Changes:
    """What leads from one layout to another, to be done in the order of these fields."""

    unlink: tuple[LinkPlan, ...]
    """Links between modules that stay, or are replaced; those of others go with them."""
    remove: tuple[str, ...]
    replace: tuple[ModulePlan, ...]
    """Modules that have changed at all."""
    add: tuple[ModulePlan, ...]
    change: tuple[LinkPlan, ...]
    """Links that have another policy."""
    link: tuple[LinkPlan, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """All modules and links of a broker."""

    modules: Mapping[str, ModulePlan]
    links: tuple[LinkPlan, ...]

    @classmethod
    def empty(cls) -> Self:
        """Give the layout of a broker that has just begun."""
        return cls({}, ())

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a file's text; raises ``LayoutError``, which names the place."""
        try:
            document = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise LayoutError(f"it is no TOML: {error}") from error
        except RecursionError:
            raise LayoutError("it is no layout: it is nested too deep") from None
        _only(document, "the file", "modules", "links")
        tables = _typed(document, "the file", "modules", dict, {})
        modules = {name: _module(name, table) for name, table in tables.items()}
        links: dict[tuple[str, str], LinkPlan] = {}
        for table in _typed(document, "the file", "links", list, []):
            link = _link(table, modules)
            if link.ends in links:
                raise LayoutError(f"the link from {link.source!r} to {link.sink!r} stands twice")
            links[link.ends] = link
        for what, count, most in (
            ("modules", len(modules), MODULES_MAX),
            ("links", len(links), LINKS_MAX),
        ):
            if count > most:
                raise LayoutError(f"it has {count} {what}; {most} are allowed")
        return cls(modules, tuple(links.values()))

    def only(self, names: Collection[str]) -> Layout:
        """Give the layout without modules that are not among ``names``, and without their links."""
        return Layout(
            {name: plan for name, plan in self.modules.items() if name in names},
            tuple(link for link in self.links if set(names).issuperset(link.ends)),
        )

    def changes_from(self, old: Layout) -> Changes:
        """Say what leads from ``old`` to this."""
        before = {link.ends: link for link in old.links}
        after = {link.ends: link for link in self.links}
        both = old.modules.keys() & self.modules.keys()
        return Changes(
            unlink=tuple(
                link for link in old.links if link.ends not in after and both.issuperset(link.ends)
            ),
            remove=tuple(name for name in old.modules if name not in both),
            replace=tuple(
                plan
                for name, plan in self.modules.items()
                if name in both and plan != old.modules[name]
            ),
            add=tuple(plan for name, plan in self.modules.items() if name not in both),
            change=tuple(
                link for link in self.links if before.get(link.ends, link).policy != link.policy
            ),
            link=tuple(link for link in self.links if link.ends not in before),
        )


def _module(name: str, table: object) -> ModulePlan:
    where = f"[modules.{name}]"
    if not isinstance(table, dict):
        raise LayoutError(f"{where} is no table")
    _only(table, where, "class", "arguments", "process", "inbox_size", "publishes", "subscribes")
    if not 0 < len(name) <= NAME_SIZE_MAX:
        raise LayoutError(f"{where}: a module's name has 1 to {NAME_SIZE_MAX} characters")
    inbox_size = _typed(table, where, "inbox_size", int, INBOX_SIZE)
    if not 1 <= inbox_size <= INBOX_SIZE_MAX:
        raise LayoutError(f"{where} inbox_size = {inbox_size}; 1 to {INBOX_SIZE_MAX} are allowed")
    path = _typed(table, where, "class", str, None)
    publishes = _typed(table, where, "publishes", str, None)
    subscribes = tuple(_typed(table, where, "subscribes", list, []))
    if (path is None) == (publishes is None and not subscribes):
        raise LayoutError(
            f'{where} needs either class = "package.module:Class", or publishes or subscribes, '
            "which make it a way to the mesh"
        )
    return ModulePlan(
        name,
        path,
        _typed(table, where, "arguments", dict, {}),
        _typed(table, where, "process", bool, default=False),
        inbox_size,
        publishes,
        subscribes,
    )


def _link(table: object, modules: Mapping[str, ModulePlan]) -> LinkPlan:
    where = "[[links]]"
    if not isinstance(table, dict):
        raise LayoutError(f"{where} holds something that is no table")
    _only(table, where, "source", "sink", "policy")
    ends = []
    for end in ("source", "sink"):
        name = _typed(table, where, end, str, None)
        if name not in modules:
            raise LayoutError(f"{where} {end} = {name!r}: there is no such module in the file")
        ends.append(name)
    policy = _typed(table, where, "policy", str, LinkPolicy.WAIT)
    if policy not in tuple(LinkPolicy):
        raise LayoutError(f"{where} policy = {policy!r}; there are {', '.join(LinkPolicy)}")
    return LinkPlan(ends[0], ends[1], LinkPolicy(policy))


def _only(table: Mapping[str, object], where: str, *names: str) -> None:
    unknown = sorted(set(table) - set(names))
    if unknown:
        raise LayoutError(f"{where} has {unknown[0]!r}; there are {', '.join(names)}")


def _typed(table: Mapping[str, object], where: str, name: str, kind: type, default: object) -> Any:  # noqa: ANN401 - what the file holds, or the default
    value = table.get(name, default)
    if value is not default and type(value) is not kind:
        raise LayoutError(f"{where} {name} = {value!r} is no {kind.__name__}")
    return value
