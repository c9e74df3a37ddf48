"""What benchmarks send and expect: nothing that is lost, doubled, overtaken or changed passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice, starmap

import pytest

from benchmarks.mixes import HALVES, Reader, mixed
from benchmarks.role import Task
from benchmarks.workload import MARKS, TOPIC, Disorder, Expected, messages
from wire.values import Value

SIZE = 10
Messages = list[tuple[str, Value]]


def batches(sizes: list[int]) -> Iterator[Messages]:
    source = messages(sum(sizes), SIZE)
    for size in sizes:
        yield [(TOPIC, payload) for payload in islice(source, size)]


def test_batches_of_any_size_follow_each_other() -> None:
    expected = Expected(SIZE)
    for batch in batches([1, 256, 1_000, 3, MARKS, 5_000]):
        expected.check(batch)


def lose(batch: Messages) -> None:
    del batch[100]


def double(batch: Messages) -> None:
    batch.insert(100, batch[100])


def swap(batch: Messages) -> None:
    batch[100], batch[101] = batch[101], batch[100]


def change(batch: Messages) -> None:
    batch[100] = (TOPIC, b"\x64\x64xxxxxxxy")


def test_a_wrong_topic_is_found_even_if_it_is_the_first() -> None:
    (batch,) = batches([50])
    with pytest.raises(Disorder, match="message 0 "):
        Expected(SIZE).check([("benchmark/other", payload) for _, payload in batch])


@pytest.mark.parametrize("spoil", [lose, double, swap, change])
def test_what_goes_wrong_is_found_in_its_place(spoil: Callable[[Messages], None]) -> None:
    first, second = batches([50, 200])
    expected = Expected(SIZE)
    expected.check(first)
    spoil(second)
    with pytest.raises(Disorder, match=r"message 15[01] "):
        expected.check(second)


MIXES = ("turn 1", "turn 3", "random 64", "zipf 1000")


def mixed_task(mix: str) -> Task:
    return Task(count=5_000, size=SIZE, seconds_max=1, options={"mix": mix})


@pytest.mark.parametrize("mix", MIXES)
def test_a_mix_is_read_as_it_is_published(mix: str) -> None:
    reader = Reader(mixed_task(mix))
    ends = [reader.take(topic, data) for topic, data in mixed(mix, 5_000, SIZE)]
    assert ends == [False] * 4_999 + [True]


def test_readers_of_different_prefixes_get_all_of_a_mix_together() -> None:
    readers = [Reader(mixed_task("turn 3"), prefix) for prefix in HALVES]
    for topic, data in mixed("turn 3", 5_000, SIZE):
        (reader,) = (each for each, half in zip(readers, HALVES, strict=True) if half in topic)
        reader.take(topic, data)
    assert sum(reader.taken for reader in readers) == 5_000


@pytest.mark.parametrize("mix", ["turn 3", "random 64"])
@pytest.mark.parametrize("spoil", [lose, double, swap])
def test_what_goes_wrong_in_a_mix_is_found(spoil: Callable[[Messages], None], mix: str) -> None:
    messages_of_mix: Messages = list(mixed(mix, 200, SIZE))
    spoil(messages_of_mix)
    reader = Reader(mixed_task(mix))
    with pytest.raises(Disorder, match=r"message 10[01] "):
        list(starmap(reader.take, messages_of_mix))
