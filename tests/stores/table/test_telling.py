"""A reader of what is told of a table knows the table, however little is told at a time."""

from __future__ import annotations

from collections import deque
from random import Random

import pytest

from stores.actions import (
    Action,
    BatchResultCommand,
    Change,
    ClearCommand,
    EraseCommand,
    PutCommand,
    WriterId,
)
from stores.effects import Changed
from stores.table import ChangeKind, Columns, Entry, Table
from stores.table.overlay import Overlay
from stores.table.telling import Telling
from stores.work import SLICE_COUNT
from wire.identifiers import EndpointId, EntityId

W = WriterId.of(EntityId(EndpointId(bytes(16)), 1), 1)
KEYS = [bytes((number,)) for number in range(12)]
PROGRAMS = 300
STEPS = 60


class Reader:
    """Has a copy of the table by what it is told alone."""

    def __init__(self) -> None:
        self.known: dict[bytes, Entry] = {}
        self.told = 0

    def hear(self, change: Changed) -> None:
        self.told += 1
        key, before, after = change.key, change.before, change.after
        assert self.known.get(key) == before, "all that came before was told"
        if after is None:
            assert change.kind in (ChangeKind.ERASE, ChangeKind.CLEAR)
            del self.known[key]
        else:
            assert change.kind is (ChangeKind.INSERT if before is None else ChangeKind.UPDATE)
            self.known[key] = after


class Program:
    """Random changes of a table, which its reader is told of in small steps."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.reader = Reader()
        self.telling = Telling()
        self.telling.observe(self.reader.hear)
        self.overlay = Overlay(Table())
        self.staged: deque[Action] = deque()

    def run(self) -> None:
        whats = (self.stage, self.commit, self.step, self.finish_stage, self.undo, self.replace)
        for _ in range(STEPS):
            what = self.random.choices(whats, (6, 8, 4, 2, 1, 1))[0]
            what()
        if self.telling.has_hidden:
            self.telling.reveal(self.overlay)
        while self.telling.has_more:
            self.telling.step(1)
        assert self.reader.known == {key: self.overlay.entry(key) for key in self.overlay}

    def action(self) -> Action:
        keys = self.random.choices(KEYS, k=self.random.randint(1, 4))
        match self.random.randrange(8):
            case 0:
                return ClearCommand(W, 1)
            case 1 | 2:
                return EraseCommand(W, 1, keys)
            case 3:
                values = [self.random.choice((None, b"x", b"y")) for _ in keys]
                changes = [
                    Change(key, value, None) for key, value in zip(keys, values, strict=True)
                ]
                return BatchResultCommand(W, 1, True, tuple(changes))
            case _:
                pairs = [each for key in keys for each in (key, self.random.randbytes(1))]
                return PutCommand(W, 1, None, pairs)

    def stage(self) -> None:
        action = self.action()
        self.staged.append(action)
        self.overlay.stage((action,))

    def finish_stage(self) -> None:
        self.overlay.latest()

    def commit(self) -> None:
        if self.staged:
            action = self.staged.popleft()
            self.telling.change(action, self.overlay)
            self.overlay.commit(action)

    def undo(self) -> None:
        self.overlay.undo()
        self.staged.clear()

    def step(self) -> None:
        self.telling.step(self.random.randint(1, 3))

    def replace(self) -> None:
        """Have another state come; maybe with changes before there is all of it."""
        self.telling.hide(self.overlay)
        columns = Columns()
        for key in self.random.sample(KEYS, k=self.random.randint(0, len(KEYS))):
            old = self.overlay.entry(key) if self.random.random() < 0.5 else None
            columns.set(key, old or Entry(self.random.randbytes(1), 1, None))
        self.overlay = Overlay(Table(columns, self.overlay.revision + 10))
        self.staged.clear()
        if self.random.random() < 0.5:
            self.stage()
            self.commit()
            self.step()
        self.telling.reveal(self.overlay)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_reader_knows_the_table_by_what_it_is_told(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Telling.step, "__defaults__", (size,))
    for seed in range(PROGRAMS):
        Program(seed).run()


def filled(count: int) -> Overlay:
    pairs = [each for key in range(count) for each in (key.to_bytes(4, "big"), b"1")]
    overlay = Overlay(Table())
    overlay.commit(PutCommand(W, 1, None, pairs))
    return overlay


def test_a_clear_is_told_in_slices_and_what_comes_after_it_waits() -> None:
    overlay, reader, telling = filled(3 * SLICE_COUNT), Reader(), Telling()
    reader.known = {key: overlay.shown.entry(key) for key in overlay}
    telling.observe(reader.hear)
    for action in (ClearCommand(W, 2), PutCommand(W, 3, None, [b"new", b"1"])):
        telling.change(action, overlay)
        overlay.commit(action)
    assert reader.told == SLICE_COUNT + 2, "a change takes two looks along"
    telling.step()
    assert reader.told == 2 * SLICE_COUNT + 2
    assert telling.has_more
    assert b"new" not in reader.known
    telling.step()
    assert list(reader.known) == [b"new"]
    assert not telling.has_more


def test_what_waits_is_told_however_fast_changes_come() -> None:
    overlay, reader, telling = filled(3 * SLICE_COUNT), Reader(), Telling()
    reader.known = {key: overlay.shown.entry(key) for key in overlay}
    telling.observe(reader.hear)
    telling.change(clear := ClearCommand(W, 2), overlay)
    overlay.commit(clear)
    for number in range(2 * SLICE_COUNT):
        assert telling.has_more
        put = PutCommand(W, 3 + number, None, [b"key", b"%d" % number])
        telling.change(put, overlay)
        overlay.commit(put)
    assert not telling.has_more
    assert list(reader.known) == [b"key"]


def test_nobody_is_told_what_waited_for_one_that_left() -> None:
    overlay, reader, telling = filled(2 * SLICE_COUNT), Reader(), Telling()
    reader.known = {key: overlay.shown.entry(key) for key in overlay}
    telling.observe(reader.hear)
    telling.change(ClearCommand(W, 2), overlay)
    assert telling.has_more
    telling.observe(None)
    assert not telling.has_more
    telling.observe(reader.hear)
    telling.step()
    assert reader.told == SLICE_COUNT


def test_what_is_hidden_of_one_that_left_hides_nothing_of_the_next() -> None:
    telling, overlay = Telling(), Overlay(Table())
    telling.observe(Reader().hear)
    telling.hide(overlay)
    assert telling.has_hidden
    telling.observe(None)
    assert not telling.has_hidden
