"""Odd calls: any method of any handle with any values, for tests that nothing else is harmed."""

from __future__ import annotations

import inspect
import math
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, NamedTuple

from hypothesis import strategies as st

INTERNAL = {
    *("end", "ended", "fail", "forked", "lose"),
    *("push", "ready_count", "resolve", "take", "wake", "wake_when_resolved"),
}
"""Methods of handles that the mesh itself calls, and says so."""


class Evil:
    """A value whose every operation is a mistake of its author."""

    def __eq__(self, other: object) -> bool:
        raise ArithmeticError("an equality that raises")

    def __hash__(self) -> int:
        raise ArithmeticError("a hash that raises")

    def __repr__(self) -> str:
        raise ArithmeticError("a repr that raises")


def raises(*values: object) -> None:
    """Fail as a user's callback may."""
    raise ArithmeticError("a callback that raises")


ODD = [
    *(None, True, False, 0, 1, -1, 2**70, 0.5, -0.5, math.nan, math.inf),
    *(
        "",
        "x",
        "/t",
        "9999",
        "*",
        "\ud800",
        "a\0b",
        "<$>/x",
        "00000000-0000-0000-0000-000000000007",
    ),
    *(b"", b"short", bytes(16), bytes(32), [], {}, (), [1], ["/t"], {"a": 1}, {0: -1}),
    *(object(), Evil(), raises, int, ..., timedelta(-1), timedelta(seconds=0), frozenset()),
]
"""What a caller may hand over by mistake."""


class OddCall(NamedTuple):
    """One call: of which handle, which method, with what."""

    handle: str
    method: str
    values: tuple[int, ...]
    """Places in ``ODD``: some of what stands there cannot even be shown."""

    def on(self, handles: SimpleNamespace) -> Any:
        """Make the call."""
        values = [ODD[place] for place in self.values]
        return getattr(getattr(handles, self.handle), self.method)(*values)


def methods_of(kind: type) -> list[str]:
    """Name the public methods of a kind of handle."""
    names = [name for name, _ in inspect.getmembers(kind, callable) if not name.startswith("_")]
    is_endpoint = "publish_nowait" in names and "publish" not in names
    return [*sorted(set(names) - INTERNAL), *(["publish"] if is_endpoint else [])]


@st.composite
def odd_calls(draw: st.DrawFn, handles: dict[str, list[str]]) -> OddCall:
    """Give a call of a method, by the names of handles and of their methods."""
    handle = draw(st.sampled_from(sorted(handles)))
    method = draw(st.sampled_from(handles[handle]))
    places = draw(st.lists(st.integers(0, len(ODD) - 1), max_size=3))
    return OddCall(handle, method, tuple(places))
