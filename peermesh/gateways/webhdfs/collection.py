"""Collecting what cannot be reached any more: large files, trees that were deleted, lost uploads.

Each step is one batch of limited size, and what is left to do is in the store itself: any gateway
goes on with it. Two that do the same step at once do it twice, which changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from peermesh.gateways.webhdfs.changes import discard
from peermesh.gateways.webhdfs.contents import ALL_OF, STRETCH, collect_stretch
from peermesh.gateways.webhdfs.limits import COLLECTED_COUNT
from peermesh.gateways.webhdfs.nodes import (
    GARBAGE_PREFIX,
    UPLOADS_PREFIX,
    children_key,
    chunks_prefix,
    decode_node,
    entries_prefix,
    garbage_key,
    gateway_key,
)
from peermesh.gateways.webhdfs.tree import View
from peermesh.gateways.webhdfs.uploads import abandon_upload
from stores.batch import Batch
from wire.values import Value

FILES_COUNT = COLLECTED_COUNT // 8
"""Entries that one step collects: each has up to sixteen chunks, most have one."""


def next_step(view: View) -> Batch | None:
    """Give the next batch of the collection; ``None`` if nothing is left."""
    found = view.scan(GARBAGE_PREFIX, 1)
    if not found:
        return None
    ((key, what),) = found
    number = _number(key)
    # Another gateway may have done the step already, and more may have been let go of since.
    batch = Batch().if_value(key, what)
    match what:
        case (str(kind), int(first), int(stop)) if kind == STRETCH:
            collect_stretch(batch, number, first, stop)
        case (str(kind), *numbers) if kind == ALL_OF:
            _collect_files(view, batch, key, numbers)
        case True:
            return _collect_directory(view, number)
        case _:
            _collect_files(view, batch, key, [number])
    return batch


def _collect_files(view: View, batch: Batch, key: Value, numbers: Sequence[Value]) -> None:
    """Collect some chunks of the first of these numbers, or give it up if it has none."""
    first, *others = numbers
    assert isinstance(first, int), "it was written so"
    chunks = view.scan(chunks_prefix(first), COLLECTED_COUNT)
    for chunk, _ in chunks:
        batch.erase(chunk)
    if chunks:
        return
    if others:
        batch.put(key, (ALL_OF, *others))
    else:
        batch.erase(key)


def _collect_directory(view: View, number: int) -> Batch:
    """Collect some entries. None is added meanwhile: the count of children is gone."""
    batch = Batch()
    entries = view.scan(entries_prefix(number), FILES_COUNT)
    for key, value in entries:
        batch.erase(key)
        discard(batch, decode_node(value))
    return batch if entries else batch.erase(garbage_key(number))


def lost_uploads(
    view: View, here: str, under_way: Callable[[], Collection[int]]
) -> Iterator[Batch | None]:
    """Give up uploads that have ended, or whose gateway is gone: one of each page of notes.

    ``None`` for a page without any. Of the gateway ``here`` only those are not lost that are
    ``under_way`` at that moment.
    """
    last: Value | None = None
    while notes := view.scan(UPLOADS_PREFIX, COLLECTED_COUNT, last):
        last, _ = notes[-1]
        yield _lost_upload(view, notes, here, under_way())


def _lost_upload(
    view: View, notes: Iterable[tuple[Value, Value]], here: str, under_way: Collection[int]
) -> Batch | None:
    for key, uploader in notes:
        number = _number(key)
        if uploader == here:
            is_lost = number not in under_way
        else:
            is_lost = view.get(gateway_key(str(uploader))) is None
        if is_lost:
            return abandon_upload(number)
    return None


def plant_root() -> Batch:
    """Make the root of an empty store."""
    return Batch().if_absent(children_key(0)).put(children_key(0), 0)


def _number(key: Value) -> int:
    assert isinstance(key, tuple), "the prefix is a vector"
    number = key[-1]
    assert isinstance(number, int), "keys end in the number of a node"
    return number
