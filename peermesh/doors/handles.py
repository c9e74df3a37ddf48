"""What functions of a door are given: handles of that door, and no others."""

from __future__ import annotations


def check_handle(name: str, handle: object, *kinds: type) -> None:
    """Raise ``TypeError`` for what is none of these handles: of another door, or none at all."""
    if not isinstance(handle, kinds):
        wanted = " or ".join(f"{kind.__module__}.{kind.__name__}" for kind in kinds)
        raise TypeError(f"{name}={handle!r:.80} is {type(handle).__name__}: give a {wanted}")
