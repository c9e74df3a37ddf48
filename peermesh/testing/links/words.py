"""What is typed to a link: a line is a fault, or what else can be asked of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from peermesh.testing.faults import (
    Delay,
    Direction,
    LinkFault,
    Loss,
    Partition,
    RateLimit,
    Reset,
    SlowClose,
    check,
)

WORDS_HELP: Final = """\
delay SECONDS [JITTER] [WAY]   what is sent arrives later, give or take
rate BYTES [WAY]               so many bytes a second get through
loss PROBABILITY [WAY]         packets are lost; TCP sends them again
slow-close SECONDS [WAY]       the end of a connection is seen later
partition [WAY]                nothing gets through, and no side is told
reset                          all connections break now
reset-after SECONDS            each connection breaks when it is so old
heal [WAY]                     no fault stands any more
status                         what stands, and what has passed
help                           these words
WAY is forth (to the target), back, or both, which it is if none is given."""


@dataclass(frozen=True, slots=True)
class Apply:
    """Have a fault stand, or strike."""

    fault: LinkFault
    direction: Direction


@dataclass(frozen=True, slots=True)
class Heal:
    """Let no fault stand."""

    direction: Direction


@dataclass(frozen=True, slots=True)
class Status:
    """Tell what stands."""


@dataclass(frozen=True, slots=True)
class Help:
    """Tell the words."""


Order = Apply | Heal | Status | Help
"""What may be asked of a link."""

_WAYS: Final = {way.value: way for way in Direction}


def parse_order(line: str) -> Order:
    """Read a line; raises ``ValueError`` with what to write instead."""
    words = line.split()
    way = _WAYS.get(words[-1]) if words else None
    if way is not None:
        words.pop()
    match words:
        case ["heal"]:
            return Heal(way or Direction.BOTH)
        case ["status"] if way is None:
            return Status()
        case ["help"] if way is None:
            return Help()
        case ["reset" | "reset-after", *_] if way not in (None, Direction.BOTH):
            raise ValueError("a connection breaks as a whole: leave the way out")
        case _:
            return Apply(_parse_fault(words, line), way or Direction.BOTH)


def _parse_fault(words: list[str], line: str) -> LinkFault:
    match words:
        case ["delay", seconds]:
            fault: LinkFault = Delay(_number(seconds))
        case ["delay", seconds, jitter]:
            fault = Delay(_number(seconds), _number(jitter))
        case ["rate", size]:
            fault = RateLimit(_count(size))
        case ["loss", probability]:
            fault = Loss(_number(probability))
        case ["slow-close", seconds]:
            fault = SlowClose(_number(seconds))
        case ["partition"]:
            fault = Partition()
        case ["reset"]:
            fault = Reset()
        case ["reset-after", seconds]:
            fault = Reset(_number(seconds))
        case _:
            raise ValueError(f"{line.strip()!r} is no order: write help for those that are")
    check(fault)
    return fault


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is no number, as 0.1 is") from None


def _count(text: str) -> int:
    try:
        return int(_number(text))
    except (OverflowError, ValueError):
        raise ValueError(f"{text!r} is no number of bytes") from None
