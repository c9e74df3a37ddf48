"""Masters and clones as what they are to become: a group of one voter, and its learners."""

from __future__ import annotations

from endpoint import Endpoint
from endpoint.replicas.groups.single import SingleAttachments


def single_attachments(endpoint: Endpoint) -> SingleAttachments:
    """Make the masters and clones of an endpoint as groups, once."""
    made = endpoint._attachments
    if not isinstance(made, SingleAttachments):
        made = SingleAttachments(endpoint.loop, endpoint._around, endpoint._groups())
        endpoint._attachments = made  # type: ignore[assignment]  # it attaches the same
    return made


def use_groups() -> None:
    """Have every endpoint of this process attach them so."""
    Endpoint._stores = single_attachments  # type: ignore[assignment,method-assign]  # likewise
