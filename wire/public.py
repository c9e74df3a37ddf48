"""What users hold says that it is of ``peermesh``, wherever it is defined.

Tracebacks and pickles name the module of a class. The layers lie elsewhere in the wheel than in the
checkout, and neither place is for users; so both name the package that users import from.
"""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T", bound=Any)


def public(thing: T) -> T:
    """Make a class or function one of ``peermesh``, or of ``peermesh.errors`` if it is an error."""
    is_error = isinstance(thing, type) and issubclass(thing, BaseException)
    thing.__module__ = "peermesh.errors" if is_error else "peermesh"
    return thing
