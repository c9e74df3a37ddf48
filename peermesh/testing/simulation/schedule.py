"""Fault schedules: what goes wrong when, as data that can be drawn, written, read and cut. Pure."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from enum import Enum, unique
from typing import TYPE_CHECKING, Any, Final

from peermesh.testing import faults
from peermesh.testing.faults import Direction, LinkFault

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random


@unique
class Verb(Enum):
    """What may happen to a host."""

    KILL = "kill"
    CUT_POWER = "cut_power"
    RESTART = "restart"
    PAUSE = "pause"
    RESUME = "resume"
    FAIL_FSYNC = "fail_fsync"
    LIE_FSYNC = "lie_fsync"
    FULL = "full"
    HEAL_DISK = "heal_disk"


@dataclass(frozen=True, slots=True)
class Happen:
    """Something happens to a host."""

    verb: Verb
    host: str


@dataclass(frozen=True, slots=True)
class Skew:
    """The time of day of a host is off by so many seconds from now on."""

    host: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Worsen:
    """A link gets a fault."""

    near: str
    far: str
    fault: LinkFault
    direction: Direction = Direction.BOTH


@dataclass(frozen=True, slots=True)
class Mend:
    """A link is as it was in the beginning."""

    near: str
    far: str


Act = Happen | Skew | Worsen | Mend


@dataclass(frozen=True, slots=True)
class Step:
    """An act, and its time in seconds since the schedule began."""

    at: float
    act: Act


Schedule = tuple[Step, ...]

_FAULTS: Final[dict[str, type[Any]]] = {
    name: getattr(faults, name)
    for name in (
        *("Delay", "Loss", "Duplication", "Reordering", "RateLimit"),
        *("SlowClose", "Reset", "Partition"),
    )
}


def write(schedule: Schedule) -> str:
    """Write a schedule in one line, which ``read`` reads."""
    return "; ".join(f"{step.at:g} {_write_act(step.act)}" for step in schedule)


def _write_act(act: Act) -> str:
    match act:
        case Happen(verb, host):
            return f"{verb.value} {host}"
        case Skew(host, seconds):
            return f"skew {host} {seconds:g}"
        case Worsen(near, far, fault, direction):
            return f"worsen {near} {far} {direction.value} {fault!r}".replace(", ", ",")
        case Mend(near, far):
            return f"mend {near} {far}"


def read(text: str) -> Schedule:
    """Read what ``write`` wrote; raises ``ValueError`` and names the part that it cannot read."""
    return tuple(_read_step(part) for part in text.split(";") if part.strip())


def _read_step(text: str) -> Step:
    try:
        at, verb, *words = text.split()
        return Step(float(at), _read_act(verb, words))
    except (ValueError, KeyError, SyntaxError, TypeError) as error:
        example = "'1.5 pause beta' or '2 worsen alpha beta both Partition()'"
        raise ValueError(f"no step of a schedule: {text.strip()!r}; one is {example}") from error


def _read_act(verb: str, words: list[str]) -> Act:
    match verb, words:
        case "skew", [host, seconds]:
            return Skew(host, float(seconds))
        case "mend", [near, far]:
            return Mend(near, far)
        case "worsen", [near, far, direction, fault]:
            return Worsen(near, far, _read_fault(fault), Direction(direction))
        case _, [host]:
            return Happen(Verb(verb), host)
        case _:
            raise ValueError(verb)


def _read_fault(text: str) -> LinkFault:
    call = ast.parse(text, mode="eval").body
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise ValueError(text)
    options = {word.arg or "": ast.literal_eval(word.value) for word in call.keywords}
    arguments = [ast.literal_eval(argument) for argument in call.args]
    fault: LinkFault = _FAULTS[call.func.id](*arguments, **options)
    return fault


def draw(
    chance: Random,
    hosts: Sequence[str],
    *,
    seconds: float = 30.0,
    count: int = 6,
    lasting: float = 5.0,
) -> Schedule:
    """Draw ``count`` faults within ``seconds``, each undone after ``lasting`` seconds at most.

    All kinds of link faults, kills, power cuts and pauses; faults of disks and clocks are for those
    who know that their program should stand them.
    """
    steps: list[Step] = []
    for _ in range(count):
        begin = round(chance.uniform(0, seconds), 3)
        end = round(begin + chance.uniform(0, lasting), 3)
        for at, act in zip((begin, end), _draw_pair(chance, hosts), strict=True):
            steps.append(Step(at, act))
    return tuple(sorted(steps, key=lambda step: step.at))


def _draw_pair(chance: Random, hosts: Sequence[str]) -> tuple[Act, Act]:
    kind = chance.randrange(8)
    if kind < 5 and len(hosts) > 1:
        near, far = chance.sample(list(hosts), 2)
        fault = _draw_fault(chance, kind)
        return Worsen(near, far, fault, chance.choice(list(Direction))), Mend(near, far)
    host = chance.choice(list(hosts))
    if kind == 5:
        return Happen(Verb.PAUSE, host), Happen(Verb.RESUME, host)
    verb = Verb.KILL if kind == 6 else Verb.CUT_POWER
    return Happen(verb, host), Happen(Verb.RESTART, host)


def _draw_fault(chance: Random, kind: int) -> LinkFault:
    match kind:
        case 0:
            return faults.Reset()
        case 1:
            return faults.Loss(round(chance.uniform(0.01, 0.5), 3))
        case 2:
            return faults.Delay(
                round(chance.uniform(0.01, 1.0), 3), round(chance.random() / 100, 4)
            )
        case 3:
            return faults.RateLimit(chance.choice((1_000, 10_000, 100_000)))
        case _:
            return faults.Partition()
