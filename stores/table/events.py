"""What a committed action changes, key by key, with what was there before: for a store's events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from stores.actions import Action, BatchResultCommand, ClearCommand, ExpireCommand
from stores.effects import Changed
from stores.table.overlay import Layer, Overlay, Past, entries_of
from stores.table.table import ChangeKind, Entry


def changes_of(action: Action, overlay: Overlay) -> Iterator[Changed]:
    """Tell what an action is about to change; what is missing already is not removed.

    A clear has ``removals``.
    """
    is_expiry = isinstance(action, ExpireCommand)
    writer = None if is_expiry else getattr(action, "writer", None)
    removal = ChangeKind.EXPIRE if is_expiry else ChangeKind.ERASE
    revision = overlay.revision
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


def removals(clear: ClearCommand, cleared: Layer, revision: int) -> Iterator[Changed]:
    """Tell of each key that a clear removes. What it leaves behind changes no more."""
    for key in cleared:
        yield Changed(ChangeKind.CLEAR, key, cleared.entry(key), None, clear.writer, revision)


def differences(
    old: Layer,
    new: Layer,
    keys: Sequence[bytes],
    kept: Mapping[bytes, Entry | None],
    revision: int,
) -> Iterator[Changed | None]:
    """Tell how a state differs from one before it, with ``None`` for each key that does not.

    ``keys`` are those of the new state. It may change meanwhile: ``kept`` has what stood under
    keys that did, and is looked at with each of them. Who wrote a change is not known.
    """

    def entry(key: bytes) -> Entry | None:
        return kept[key] if key in kept else new.entry(key)

    for key in old:
        change = Changed(ChangeKind.ERASE, key, old.entry(key), None, None, revision)
        yield change if entry(key) is None else None
    for key in keys:
        before, after = old.entry(key), entry(key)
        if after is None or before == after:
            yield None
            continue
        kind = ChangeKind.INSERT if before is None else ChangeKind.UPDATE
        yield Changed(kind, key, before, after, None, revision)
