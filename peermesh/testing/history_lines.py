"""Histories as JSON lines: one event a line, values with their types as on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any, Final

from peermesh.cli.values import NoValue, from_json, to_json
from peermesh.testing.history import Began, Ended, Ending, Event, History, HistoryError, Seen
from peermesh.testing.observations import OBSERVATIONS, Observation

LINE_SIZE_MAX: Final = 32 * 1024 * 1024
"""Characters of a line: twice the largest payload, as text takes more room than bytes."""

BEGIN: Final = "begin"

_NAMES: Final = {kind: name for name, kind in OBSERVATIONS.items()}
_ENDINGS: Final = {ending.value: ending for ending in Ending}


def to_lines(history: History) -> Iterator[str]:
    """Give one line for each event, each with its newline."""
    return map(to_line, history.events)


def to_line(event: Event) -> str:
    """Write an event as a line."""
    return json.dumps(_members_of(event), ensure_ascii=False, allow_nan=False) + "\n"


def from_lines(lines: Iterable[str]) -> History:
    """Read a history. Empty lines are left out; raises ``HistoryError``, which names the line.

    A last line without its newline was being written when the recorder died, and is left out too.
    """
    history = History()
    for number, line in enumerate(lines, start=1):
        if not line.strip() or not line.endswith("\n"):
            continue
        try:
            history.record(from_line(line))
        except HistoryError as error:
            raise HistoryError(f"line {number}: {error}") from None
    return history


def from_line(line: str) -> Event:
    """Read one event. Raises ``HistoryError``."""
    if len(line) > LINE_SIZE_MAX:
        raise HistoryError(f"{len(line)} characters in a line, {LINE_SIZE_MAX} are allowed")
    try:
        members = json.loads(line)
        if not isinstance(members, dict):
            raise NoValue("an event is a JSON object")
        return _event_of(members)
    except RecursionError:
        raise HistoryError("it is nested too deep") from None
    except ValueError as error:
        raise HistoryError(str(error)) from None


def _members_of(event: Event) -> dict[str, Any]:
    members: dict[str, Any] = {"at": event.at, "process": event.process}
    match event:
        case Began():
            members |= {"event": BEGIN, "operation": event.number, "name": event.name}
            members |= {"arguments": to_json(event.arguments)}
            members |= {"node": event.node} if event.node else {}
        case Ended():
            members |= {"event": event.ending.value, "operation": event.number}
            members |= {"result": to_json(event.result)} if event.ending is Ending.OK else {}
            members |= {"reason": event.reason} if event.reason else {}
        case Seen():
            members |= {"event": _NAMES[type(event.what)]}
            members |= {
                each.name: to_json(getattr(event.what, each.name)) for each in fields(event.what)
            }
    return members


def _event_of(members: dict[str, Any]) -> Event:
    at = members.pop("at", None)
    if isinstance(at, bool) or not isinstance(at, (int, float)):
        raise NoValue('"at" is the time in seconds')
    process = _text(members, "process")
    name = _text(members, "event")
    if name == BEGIN:
        event: Event = Began(
            float(at),
            process,
            _whole(members, "operation"),
            _text(members, "name"),
            _values(members, "arguments"),
            _text(members, "node", ""),
        )
    elif name in _ENDINGS:
        number = _whole(members, "operation")
        result = _found(members, "result")
        reason = _text(members, "reason", "")
        event = Ended(float(at), process, number, _ENDINGS[name], result, reason)
    elif name in OBSERVATIONS:
        event = Seen(float(at), process, _observation_of(OBSERVATIONS[name], members))
    else:
        known = ", ".join((BEGIN, *_ENDINGS, *OBSERVATIONS))
        raise NoValue(f"there is no event {name!r}; there are {known}")
    if members:
        raise NoValue(f"{', '.join(members)} has no place in the event {name}")
    return event


def _observation_of(kind: type[Observation], members: dict[str, Any]) -> Observation:
    read = {each.name: _READERS[str(each.type)](members, each.name) for each in fields(kind)}
    return kind(**read)


def _text(members: dict[str, Any], name: str, *default: str) -> str:
    found = members.pop(name, *(default or (None,)))
    if not isinstance(found, str):
        raise NoValue(f'"{name}" is text')
    return found


def _whole(members: dict[str, Any], name: str) -> int:
    found = members.pop(name, None)
    if type(found) is not int:
        raise NoValue(f'"{name}" is a whole number')
    return found


def _values(members: dict[str, Any], name: str) -> tuple[Any, ...]:
    found = from_json(members.pop(name, []))
    if not isinstance(found, tuple):
        raise NoValue(f'"{name}" is an array')
    return found


def _found(members: dict[str, Any], name: str) -> tuple[Any, ...]:
    found = _values(members, name)
    if len(found) > 1:
        raise NoValue(f'"{name}" is an array of one value, or of none')
    return found


def _value(members: dict[str, Any], name: str) -> Any:  # noqa: ANN401 - any value of the mesh
    if name not in members:
        raise NoValue(f'"{name}" is missing')
    return from_json(members.pop(name))


_READERS: Final[Mapping[str, Callable[[dict[str, Any], str], Any]]] = {
    "int": _whole,
    "str": lambda members, name: _text(members, name, *([""] if name == "kind" else [])),
    "Found": _found,
    "Value": _value,
}
"""How fields of observations are read, by their declared type."""
