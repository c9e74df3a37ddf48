"""Which right each request of the log's machine takes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from handshake.access import Right
from stores.log.bodies import ChangeRetention, LogRequest, Write
from stores.log.messages import CountQuery, Fetch, StateQuery, TimeQuery
from stores.table.bodies import ChangeQuota, Register

REQUESTS: Final[Mapping[type[LogRequest], Right]] = {
    Register: Right.WRITE,
    Write: Right.WRITE,
    ChangeQuota: Right.VOTE,
    ChangeRetention: Right.VOTE,
    Fetch: Right.READ,
    StateQuery: Right.READ,
    CountQuery: Right.WRITE,
    TimeQuery: Right.READ,
}
"""Quota and retention are the leader's to set: they let entries of all writers go."""


def right_of(request: object) -> Right:
    """Give the right that a request takes."""
    assert isinstance(request, LogRequest), request
    return REQUESTS[type(request)]
