"""Ballots on a disk: a power cut takes back no promise, and no damaged byte makes another one."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from peermesh.testing.simulation.disk import SECTOR_SIZE, Disk
from peermesh.testing.simulation.medium import DiskMedium
from stores.disk.ballot import (
    BLOCK_SIZE,
    FILE_SIZE,
    PROMISE_SLOTS,
    SLOT_SIZE,
    BallotFile,
    LoadedBallot,
)
from stores.disk.medium import PrivateMedium
from stores.group.ballot import NEW_SLOTS, Ballot, Marks, new_promises
from stores.group.effects import Promises, SyncMarks, WriteMark
from stores.group.positions import START, MemberId, Position
from stores.sealing import StorageKey, StorageKeys
from wire.errors import BackendFailure

A, B = MemberId("a" * 255, 1 << 63), MemberId("b", 2)
GROUP = b"g" * 16
OLD = StorageKey(bytes(32))
BOUNDARIES = (0, 1, 8, 511, 512, BLOCK_SIZE - 1, BLOCK_SIZE, BLOCK_SIZE + 1, SLOT_SIZE - 1)


@pytest.fixture(params=["plain", "sealed"])
def ring(request: pytest.FixtureRequest, keys: StorageKeys) -> StorageKeys | None:
    return keys if request.param == "sealed" else None


def promises(term: int) -> Promises:
    return Promises(A, term, term, B if term % 2 else None, is_whole=term % 3 != 0)


class PowerCut(Exception):
    """The machine is dark."""


@dataclass
class TornMedium:
    """A file in memory. Power fails at one step; what had no sync is then torn in one way."""

    path: str = "memory"
    content: bytes | None = None
    pending: list[tuple[int, bytes]] = field(default_factory=list)
    cut_at: int | None = None
    steps: int = 0

    def _step(self) -> None:
        if self.steps == self.cut_at:
            raise PowerCut
        self.steps += 1

    def read(self) -> bytes | None:
        assert not self.pending
        return self.content

    def replace(self, content: bytes) -> None:
        self._step()
        self.content, self.pending = content, []

    def write(self, offset: int, data: bytes) -> None:
        self.pending.append((offset, data))  # the cut may be anywhere from here on
        self._step()

    def sync(self) -> None:
        self._step()
        for offset, data in self.pending:
            self._put(offset, data)
        self.pending.clear()

    def close(self) -> None:
        pass

    def _put(self, offset: int, data: bytes) -> None:
        assert self.content is not None
        self.content = self.content[:offset] + data + self.content[offset + len(data) :]

    def torn(self, cut: Tear) -> TornMedium:
        """Give what is left of it: of each write that had no sync, what ``cut`` says."""
        left = TornMedium(content=self.content)
        for at, (offset, data) in enumerate(self.pending):
            for start, part in cut(at, data):
                left._put(offset + start, part)
        return left


Tear = Callable[[int, bytes], Iterator[tuple[int, bytes]]]


def tears() -> Iterator[Tear]:
    """Give ways to tear: the beginning or the end of each write, of every other one, or sectors."""
    for boundary in BOUNDARIES:
        for keeps_end in (False, True):
            for odd in (None, 0, 1):
                yield tear(boundary, keeps_end=keeps_end, odd=odd)
    yield from map(every_other_sector, (0, 1))


def tear(boundary: int, *, keeps_end: bool, odd: int | None) -> Tear:
    def cut(at: int, data: bytes) -> Iterator[tuple[int, bytes]]:
        if odd is not None and at % 2 == odd:
            yield 0, data
        elif keeps_end:
            yield boundary, data[boundary:]
        else:
            yield 0, data[:boundary]

    return cut


def every_other_sector(first: int) -> Tear:
    def cut(_: int, data: bytes) -> Iterator[tuple[int, bytes]]:
        for start in range(first * SECTOR_SIZE, len(data), 2 * SECTOR_SIZE):
            yield start, data[start : start + SECTOR_SIZE]

    return cut


class Life:
    """A ballot that is driven as a member drives it, and what it may say after a power cut."""

    def __init__(self, medium: TornMedium, ring: StorageKeys | None) -> None:
        self.file = BallotFile(medium, ring)
        self.synced_term = 0
        self.latest_term = 0
        self.synced_number = 0
        self.written = {0: START}
        """By number: the marks that were written."""
        self.is_created = False

    def live(self) -> None:
        loaded = self.file.load()
        if loaded is None:
            loaded = self.file.create(A, GROUP)
        self.is_created = True
        marks, chance = Marks(loaded.slots), Random(1)
        for step in range(1, 7):
            self.save(step)
            for index in range(chance.randrange(1, 5)):
                self.carry(marks.write(Position(step, 10 * step + index)))
            (sync,) = marks.sync()
            assert isinstance(sync, SyncMarks)
            if step % 2:  # marks are written while a sync is under way, and may be synced with it
                self.carry(marks.write(Position(step, 10 * step + 9)))
            self.file.sync_marks()
            marks.synced(sync.number)
            self.synced_number = sync.number

    def save(self, term: int) -> None:
        self.latest_term = term
        self.file.save(promises(term))
        self.synced_term = term

    def carry(self, effects: list[object]) -> None:
        for effect in effects:
            assert isinstance(effect, WriteMark)
            self.written[effect.number] = effect.mark
            self.file.write_mark(effect.slot, effect.number, effect.mark)

    def check(self, loaded: LoadedBallot | None) -> None:
        if loaded is None:
            assert not self.is_created, "a member that spoke has no ballot"
            return
        term = loaded.promises.term
        assert term in (self.synced_term, self.latest_term)
        assert loaded.promises == (promises(term) if term else new_promises(A))
        assert loaded.group == GROUP
        latest = max((slot for slot in loaded.slots if slot), key=lambda slot: slot.number)
        assert latest.number >= self.synced_number
        assert self.written[latest.number] == latest.mark


def test_after_a_power_cut_at_any_step_it_is_what_was_synced_or_later(
    ring: StorageKeys | None,
) -> None:
    whole = TornMedium()
    life = Life(whole, ring)
    life.live()
    life.check(BallotFile(whole.torn(lambda _, __: iter(())), ring).load())
    found = 0
    for cut_at in range(whole.steps):
        medium = TornMedium(cut_at=cut_at)
        life = Life(medium, ring)
        with pytest.raises(PowerCut):
            life.live()
        for tear in tears():
            found += 1
            left = medium.torn(tear) if medium.content is not None else TornMedium()
            life.check(BallotFile(left, ring).load())
    assert found > 30 * len(BOUNDARIES)


def test_on_the_simulated_disk_too(ring: StorageKeys | None) -> None:
    for seed in range(60):
        chance, disk = Random(seed), Disk()
        number, mark = 0, START
        with closing(BallotFile(DiskMedium(disk, "x.ballot"), ring)) as file:
            marks = Marks(file.create(A, GROUP).slots)
            for term in range(1, chance.randrange(2, 6)):
                file.save(promises(term))
                for _ in range(chance.randrange(4)):
                    mark = Position(term, mark.index + 1)
                    (write,) = marks.write(mark)
                    assert isinstance(write, WriteMark)
                    file.write_mark(write.slot, write.number, write.mark)
                for sync in marks.sync():
                    file.sync_marks()
                    assert isinstance(sync, SyncMarks)
                    marks.synced(sync.number)
                    number = sync.number
        disk.cut_power(chance)
        loaded = BallotFile(DiskMedium(disk, "x.ballot"), ring).load()
        assert loaded is not None
        assert loaded.promises == promises(term)
        assert max(slot.number for slot in loaded.slots if slot) >= number


def written(ring: StorageKeys | None, path: str = "memory") -> bytes:
    """Give a file in which the promise and the mark that count are the latest ones."""
    medium = TornMedium(path)
    file = BallotFile(medium, ring)
    file.create(A, GROUP)
    for term in range(1, 4):
        file.save(promises(term))
    for slot in range(3):
        file.write_mark(slot, slot + 1, Position(3, slot))
    file.sync_marks()
    assert medium.content is not None
    assert len(medium.content) == FILE_SIZE
    return medium.content


def test_one_damaged_byte_is_noticed_and_changes_nothing(ring: StorageKeys | None) -> None:
    content, chance = written(ring), Random(1)
    expected = BallotFile(TornMedium(content=content), ring).load()
    assert expected is not None
    assert expected.promises == promises(3)
    heads = [block + at for block in range(0, FILE_SIZE, BLOCK_SIZE) for at in range(40)]
    ends = [block - at for block in range(BLOCK_SIZE, FILE_SIZE + 1, BLOCK_SIZE) for at in (1, 33)]
    for at in [*heads, *ends, *(chance.randrange(FILE_SIZE) for _ in range(300))]:
        damaged = bytearray(content)
        damaged[at] ^= 1 << chance.randrange(8)
        found = BallotFile(TornMedium(content=bytes(damaged)), ring).load()
        assert found is not None
        assert (found.promises, found.slots) == (expected.promises, expected.slots), at
        copy, slot = at % SLOT_SIZE // BLOCK_SIZE + 1, at // SLOT_SIZE
        assert found.damaged == (f"memory: copy {copy} of slot {slot} cannot be read",)


def test_a_block_that_is_gone_takes_nothing_along(ring: StorageKeys | None) -> None:
    content = written(ring)
    for start in range(0, FILE_SIZE, BLOCK_SIZE):
        damaged = content[:start] + bytes(BLOCK_SIZE) + content[start + BLOCK_SIZE :]
        found = BallotFile(TornMedium(content=damaged), ring).load()
        assert found is not None
        assert found.promises == promises(3)
        assert [slot.number for slot in found.slots if slot] == [1, 2, 3]


def test_blocks_that_changed_places_are_not_taken(ring: StorageKeys | None) -> None:
    content = written(ring)
    swapped = content[SLOT_SIZE : 2 * SLOT_SIZE] + content[:SLOT_SIZE] + content[2 * SLOT_SIZE :]
    with pytest.raises(BackendFailure, match="is damaged"):
        BallotFile(TornMedium(content=swapped), ring).load()


def test_without_a_readable_mark_the_member_is_regressed(ring: StorageKeys | None) -> None:
    content = written(ring)[: PROMISE_SLOTS * SLOT_SIZE]
    loaded = BallotFile(TornMedium(content=content), ring).load()
    assert loaded is not None
    assert loaded.slots == (None, None, None)
    assert not Ballot(loaded.promises, loaded.slots, Position(9, 9)).is_whole


def test_a_slot_that_cannot_be_read_stays_so_when_it_is_written_anew(
    ring: StorageKeys | None,
) -> None:
    medium = TornMedium(content=written(ring)[: FILE_SIZE - SLOT_SIZE])
    for _ in range(2):
        loaded = BallotFile(medium, ring).load()
        assert loaded is not None
        assert loaded.slots[2] is None
        assert len(loaded.damaged) == 2


def test_without_a_readable_promise_it_is_refused(ring: StorageKeys | None) -> None:
    content = bytes(PROMISE_SLOTS * SLOT_SIZE) + written(ring)[PROMISE_SLOTS * SLOT_SIZE :]
    with pytest.raises(BackendFailure, match=r"it joins .* What leads alone goes on with fresh"):
        BallotFile(TornMedium(content=content), ring).load()


def test_a_ballot_that_has_lost_its_group_is_refused(ring: StorageKeys | None) -> None:
    medium = TornMedium()
    file = BallotFile(medium, ring)
    file.create(A, None)
    file.join(GROUP)
    file.write_mark(0, 1, Position(1, 4))
    file.sync_marks()
    assert medium.content is not None
    lost = 1 * SLOT_SIZE  # of the record that names the group
    content = medium.content[:lost] + bytes(SLOT_SIZE) + medium.content[lost + SLOT_SIZE :]
    with pytest.raises(BackendFailure, match="is damaged"):
        BallotFile(TornMedium(content=content), ring).load()


def test_a_ballot_without_a_mac_is_not_taken_for_a_sealed_one(keys: StorageKeys) -> None:
    for written_with, read_with in ((None, keys), (StorageKeys((OLD,)), keys)):
        content = written(written_with)
        with pytest.raises(BackendFailure, match=r"is damaged, or was written with another key"):
            BallotFile(TornMedium(content=content), read_with).load()


def test_a_sealed_ballot_beside_a_plain_file_tells_of_an_encryption_that_was_interrupted(
    keys: StorageKeys,
) -> None:
    content = written(keys)
    with pytest.raises(BackendFailure, match=r"peermesh store rekey \S+ was interrupted"):
        BallotFile(TornMedium(content=content)).load()
    for damaged in (bytes(BLOCK_SIZE) + content[BLOCK_SIZE:], content[:BLOCK_SIZE], b""):
        with pytest.raises(BackendFailure, match="is damaged, or needs a key"):
            BallotFile(TornMedium(content=damaged)).load()


def test_it_is_put_under_the_current_key_when_it_is_loaded(keys: StorageKeys) -> None:
    medium = TornMedium(content=written(StorageKeys((OLD,))))
    assert BallotFile(medium, StorageKeys((*keys.keys, OLD))).load() is not None
    loaded = BallotFile(medium, keys).load()
    assert loaded is not None
    assert loaded.promises == promises(3)


def test_a_file_of_a_later_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("stores.disk.ballot.VERSION", 2)
        content = written(None)
    with pytest.raises(BackendFailure, match=r"has the format 2, and this version reads 1"):
        BallotFile(TornMedium(content=content)).load()


# -- in a file system --------------------------------------------------------------------------


def test_it_outlives_its_process(tmp_path: Path, ring: StorageKeys | None) -> None:
    path = tmp_path / "store.db.ballot"
    with closing(BallotFile(PrivateMedium(str(path)), ring)) as file:
        assert file.load() is None
        created = file.create(A, None)
        assert created == LoadedBallot(None, new_promises(A), NEW_SLOTS)
        file.join(GROUP)
        file.save(promises(5))
        file.write_mark(1, 7, Position(5, 6))
        file.sync_marks()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.stat().st_size == FILE_SIZE
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    with closing(BallotFile(PrivateMedium(str(path)), ring)) as file:
        loaded = file.load()
        assert loaded is not None
        assert (loaded.group, loaded.promises) == (GROUP, promises(5))
        assert [slot.number for slot in loaded.slots if slot] == [0, 7, 0]
        file.save(promises(6))
    with closing(BallotFile(PrivateMedium(str(path)), ring)) as file:
        loaded = file.load()
        assert loaded is not None
        assert loaded.promises == promises(6)


def test_after_a_sync_that_failed_nothing_more_is_promised() -> None:
    disk = Disk()
    file = BallotFile(DiskMedium(disk, "x.ballot"))
    file.create(A, GROUP)
    file.save(promises(1))
    disk.fail_fsync()
    with pytest.raises(BackendFailure, match="start the replica anew"):
        file.save(promises(2))
    disk.heal()
    for again in (file.sync_marks, lambda: file.save(promises(3))):
        with pytest.raises(BackendFailure):
            again()
    with pytest.raises(BackendFailure):
        file.write_mark(0, 1, START)


def test_what_is_read_after_a_sync_that_failed_is_synced_before_it_counts() -> None:
    disk = Disk()
    file = BallotFile(DiskMedium(disk, "x.ballot"))
    file.create(A, GROUP)
    file.save(promises(1))
    disk.fail_fsync()
    with pytest.raises(BackendFailure):
        file.save(promises(2))
    disk.heal()
    loaded = BallotFile(DiskMedium(disk, "x.ballot")).load()
    assert loaded is not None
    assert loaded.promises == promises(2), "the system's memory has it"
    disk.cut_power(Random(1))
    again = BallotFile(DiskMedium(disk, "x.ballot")).load()
    assert again is not None
    assert again.promises == promises(2)


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(BallotFile(PrivateMedium(str(tmp_path / "x.ballot")))) as file:
        file.create(A, GROUP)

        def full(*_: object) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr("stores.disk.medium.os.pwrite", full)
        with pytest.raises(BackendFailure, match=r"cannot write it \(No space left on device\)"):
            file.save(promises(1))
