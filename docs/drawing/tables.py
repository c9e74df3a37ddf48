"""The tables that many documents have: of messages, effects, enumerators, limits and methods."""

from __future__ import annotations

from enum import Enum
from typing import get_args, get_origin

from drawing.markdown import code, table
from drawing.reading import attributes, constants, figure, methods, summary


def classes_in(union: object) -> list[type]:
    """Give the classes of a closed union, in its order."""
    return [get_origin(each) or each for each in get_args(union)]


def fields_of(thing: type) -> str:
    """Name the fields of a message."""
    return ", ".join(code(field.name) for field in attributes(thing))


def messages_table(*unions: object) -> str:
    """Draw messages: the name, what it carries, what it says."""
    found = dict.fromkeys(each for union in unions for each in classes_in(union))
    rows = [(code(each.__name__), fields_of(each), summary(each)) for each in found]
    return table(("message", "carries", "says"), rows)


def effects_table(union: object) -> str:
    """Draw effects: the name and what the driver has to do."""
    rows = [(code(each.__name__), summary(each)) for each in classes_in(union)]
    return table(("effect", "asks the driver to"), rows)


def members_table(kind: type[Enum], *, is_numbered: bool = False) -> str:
    """Draw enumerators, with their numbers if those travel."""
    rows = [
        (*((str(each.value.value),) if is_numbered else ()), code(each.name), each.text)
        for each in attributes(kind)
    ]
    return table((*(("number",) if is_numbered else ()), "name", "means"), rows)


def limits_table(*modules: str) -> str:
    """Draw the constants of modules that are numbers, with their reasons."""
    rows = []
    for module in modules:
        part = "" if len(modules) == 1 else module.rpartition(".")[2] + "."
        rows += [
            (code(part + each.name), figure(each), each.text)
            for each in constants(module)
            if isinstance(each.value, (int, float))
        ]
    return table(("limit", "is", "of what, and why"), rows)


def methods_table(thing: type, title: str) -> str:
    """Draw the methods of a class or a protocol."""
    return table((title, "means"), [(code(each.name), each.text) for each in methods(thing)])


def settings_table(thing: type) -> str:
    """Draw the fields of a dataclass of numbers, with their defaults."""
    rows = [
        (code(each.name), f"{getattr(thing(), each.name):g}", each.text)
        for each in attributes(thing)
    ]
    return table(("setting", "is", "of what"), rows)


def counters_table(thing: type) -> str:
    """Draw the fields of a class that counts."""
    return table(
        ("counter", "counts"), [(code(each.name), each.text) for each in attributes(thing)]
    )
