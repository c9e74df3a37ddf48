"""What a committed action changes, key by key, with what was there before: for a store's events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stores.actions import Action, BatchResultCommand, ClearCommand, ExpireCommand
from stores.effects import Changed
from stores.table.overlay import Overlay, Past, entries_of
from stores.table.table import ChangeKind, Columns

_REMOVALS: Final = {ExpireCommand: ChangeKind.EXPIRE, ClearCommand: ChangeKind.CLEAR}


def changes_of(action: Action, overlay: Overlay) -> Iterator[Changed]:
    """Tell what an action is about to change; what is missing already is not removed."""
    writer = None if isinstance(action, ExpireCommand) else getattr(action, "writer", None)
    removal = _REMOVALS.get(type(action), ChangeKind.ERASE)
    revision = overlay.revision
    if isinstance(action, ClearCommand):
        for key in overlay:
            yield Changed(removal, key, overlay.entry(key), None, writer, revision + 1)
        return
    seen: Past = {}
    is_one = isinstance(action, BatchResultCommand)
    for number, (key, after) in enumerate(entries_of(action, revision), start=1):
        before = seen[key] if key in seen else overlay.entry(key)
        seen[key] = after
        kind = ChangeKind.INSERT if before is None else ChangeKind.UPDATE
        if after is None:
            if before is None:
                continue
            kind = removal
        yield Changed(kind, key, before, after, writer, revision + (1 if is_one else number))


def differences(overlay: Overlay, columns: Columns, revision: int) -> Iterator[Changed]:
    """Tell what a snapshot is about to change; who wrote it is not known."""
    for key in overlay:
        if key not in columns.values:
            yield Changed(ChangeKind.ERASE, key, overlay.entry(key), None, None, revision)
    for key in columns:
        before, after = overlay.entry(key), columns.entry(key)
        if before != after:
            kind = ChangeKind.INSERT if before is None else ChangeKind.UPDATE
            yield Changed(kind, key, before, after, None, revision)
