"""Which right each request of the table's machine takes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from handshake.access import Right
from stores.table.bodies import (
    ChangeQuota,
    Compare,
    EndSession,
    OpenSession,
    Read,
    Register,
    RenewSession,
    TableRequest,
    Write,
)

REQUESTS: Final[Mapping[type[TableRequest], Right]] = {
    Register: Right.WRITE,
    Write: Right.WRITE,
    ChangeQuota: Right.VOTE,
    Compare: Right.VOTE,
    Read: Right.READ,
    OpenSession: Right.WRITE,
    RenewSession: Right.WRITE,
    EndSession: Right.WRITE,
}
"""A quota is the leader's to set, and a comparison has every member read all that it has."""


def right_of(request: object) -> Right:
    """Give the right that a request takes."""
    assert isinstance(request, TableRequest), request
    return REQUESTS[type(request)]
