"""Snapshots in chunks: they arrive whole, whatever is lost, repeated or late."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from stores.actions import WRITER_ID_SIZE, WriterId
from stores.limits import CHUNK_COUNT_MAX, CHUNK_SIZE_MAX, SNAPSHOT_WINDOW_CHUNKS, WRITERS_MAX
from stores.outcomes import WriterRow
from stores.snapshots import REQUEST_TIMEOUT_TICKS, Chunk, SnapshotSink, SnapshotSource
from stores.table import Columns, Entry
from wire.errors import DecodeError

WRITER = WriterRow(WriterId(bytes(WRITER_ID_SIZE)), 1, ())


def columns_of(sizes: list[int]) -> Columns:
    columns = Columns()
    for number, size in enumerate(sizes):
        expires_at_ns = number if number % 3 == 0 else None
        columns.set(b"%d" % number, Entry(b"v" * size, number + 1, expires_at_ns))
    return columns


def source_of(columns: Columns) -> SnapshotSource:
    return SnapshotSource(columns, revision=1, sequence=1)


def transfer(source: SnapshotSource, sink: SnapshotSink) -> list[Chunk]:
    """Carry chunks over a link that loses nothing; gives them in order of arrival."""
    chunks: list[Chunk] = []
    asked = list(sink.ask())
    while asked:
        chunk = source.chunk(asked.pop(0))
        if chunk is not None:
            chunks.append(chunk)
            asked += sink.receive(chunk)
    return chunks


def test_an_empty_table_is_one_chunk():
    chunk = source_of(Columns()).chunk(0)
    assert chunk is not None
    assert chunk.is_last
    sink = SnapshotSink()
    sink.receive(chunk)
    assert sink.is_complete
    assert sink.take() == Columns()


@given(st.lists(st.sampled_from([0, 100, CHUNK_SIZE_MAX // 3, CHUNK_SIZE_MAX * 2]), max_size=30))
def test_a_snapshot_arrives_whole_in_chunks_of_limited_size(sizes):
    columns, sink = columns_of(sizes), SnapshotSink()
    chunks = transfer(source_of(columns.copy()), sink)
    assert sink.take() == columns
    for chunk in chunks:
        assert chunk.size <= CHUNK_SIZE_MAX or len(chunk.revisions) == 1


def test_tiny_entries_are_limited_by_their_number():
    columns, sink = columns_of([0] * (CHUNK_COUNT_MAX + 1)), SnapshotSink()
    chunks = transfer(source_of(columns), sink)
    assert [len(chunk.revisions) for chunk in chunks] == [CHUNK_COUNT_MAX, 1]


def test_a_chunk_that_is_sent_again_is_the_same():
    source = source_of(columns_of([CHUNK_SIZE_MAX // 2] * 9))
    assert source.chunk(2) == source.chunk(2)
    assert source.chunk(99) is None


def test_a_sink_asks_for_a_window_only():
    sink = SnapshotSink()
    assert sink.ask() == tuple(range(SNAPSHOT_WINDOW_CHUNKS))
    assert sink.ask() == ()
    chunk = Chunk(0, is_last=False, pairs=(b"k", b"v"), revisions=(1,), expiries=())
    assert sink.receive(chunk) == (SNAPSHOT_WINDOW_CHUNKS,)


def test_what_did_not_come_is_asked_for_again_after_a_while():
    source, sink = source_of(columns_of([CHUNK_SIZE_MAX] * 3)), SnapshotSink()
    sink.ask()
    last = source.chunk(2)
    assert last is not None
    sink.receive(last)
    asked = [sink.tick() for _ in range(REQUEST_TIMEOUT_TICKS)]
    assert asked == [()] * (REQUEST_TIMEOUT_TICKS - 1) + [(0, 1)]
    assert sink.progress == "0 of 3 chunks, 0 entries"


@settings(max_examples=30)
@given(st.data())
def test_loss_repetition_and_disorder_do_no_harm(data):
    columns = columns_of([CHUNK_SIZE_MAX // 2] * data.draw(st.integers(0, 40)))
    source, sink = source_of(columns.copy()), SnapshotSink()
    requests, chunks = list(sink.ask()), []
    for _ in range(400):
        if sink.is_complete:
            break
        action = data.draw(st.sampled_from(["serve", "deliver", "lose", "repeat", "tick"]))
        if action == "serve" and requests:
            chunk = source.chunk(requests.pop(data.draw(st.integers(0, len(requests) - 1))))
            chunks += [] if chunk is None else [chunk]
        elif action in ("deliver", "repeat") and chunks:
            index = data.draw(st.integers(0, len(chunks) - 1))
            requests += sink.receive(chunks[index] if action == "repeat" else chunks.pop(index))
        elif action == "lose" and chunks:
            chunks.pop()
        elif action == "tick":
            requests += sink.tick()
    while not sink.is_complete:
        requests += sink.tick()
        for index in requests:
            if (chunk := source.chunk(index)) is not None:
                sink.receive(chunk)
        requests = []
    assert sink.take() == columns


def test_entries_that_came_later_leave_no_empty_chunks():
    columns = columns_of([0] * 5 * CHUNK_COUNT_MAX)
    there = (b"0", b"%d" % (3 * CHUNK_COUNT_MAX))
    past = dict.fromkeys(columns.values.keys() - set(there))
    source = SnapshotSource(columns, revision=1, sequence=1, past=past, writers=[WRITER])
    sink = SnapshotSink()
    transfer(source, sink)
    assert set(sink.take().values) == set(there)
    assert len(sink.writers) == 1


def test_a_snapshot_that_would_never_end_is_refused():
    again = [b"k", b"v"]
    for pairs, words in (((), "nothing"), (again, "twice")):
        sink = SnapshotSink()
        sink.receive(Chunk(0, False, again, [1], []))
        sink.receive(Chunk(1, False, (), (), ()))  # One may be: there was nothing there.
        with pytest.raises(DecodeError, match=words):
            sink.receive(Chunk(2, False, pairs, [1] * (len(pairs) // 2), []))


def test_a_snapshot_has_no_more_writers_than_a_master():
    sink, rows = SnapshotSink(), (None,) * (WRITERS_MAX // 2)
    for index in range(2):
        sink.receive(Chunk(index, False, (), (), (), rows))
    with pytest.raises(DecodeError, match="writers"):
        sink.receive(Chunk(2, True, (), (), (), rows[:1]))


def test_chunks_far_beyond_what_was_asked_for_are_not_kept():
    sink = SnapshotSink()
    for index in range(10**6, 10**6 + 500):
        assert sink.receive(Chunk(index, False, [b"k", b"v"], [1], [])) == ()
    assert not sink._waiting
