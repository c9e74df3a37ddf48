"""What benchmarks send and expect: nothing that is lost, doubled, overtaken or changed passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

import pytest

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
