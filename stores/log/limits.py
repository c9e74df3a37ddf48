"""Every limit of the logs, each with its reason. Limits of stores and wire stand in theirs."""

from __future__ import annotations

from typing import Final

from stores.limits import VALUE_SIZE_MAX
from wire.limits import KIB, MIB

PARTITIONS_MAX: Final = 1_024
"""Partitions of a log: ten bits of a run's number on disk, and every answer about offsets names
all of them."""

OFFSET_END: Final = 1 << 52
"""Offsets are below: 140 years at a million entries a second. The rest of a run's number on disk
is for the partition."""

NAME_SIZE_MAX: Final = 255
"""Characters of a consumer's or producer's name: as long as the name of a file."""

APPEND_COUNT_MAX: Final = 4_096
"""Entries of one batch: some milliseconds' work for a keeper, so that no other waits longer."""

APPEND_SIZE_MAX: Final = VALUE_SIZE_MAX
"""Bytes of one batch with its keys: it travels as one payload, and is read as one."""

RUN_COUNT_MAX: Final = 1_024
"""Entries after which a run takes no more appends: a reader of one of them decodes all."""

RUN_SIZE_MAX: Final = 256 * KIB
"""Bytes after which a run takes no more appends: other messages pass between two of them."""

FETCH_SIZE_MAX: Final = MIB
"""Bytes after which an answer to a reader takes no more runs; one run always fits."""

FETCH_POSITIONS_MAX: Final = PARTITIONS_MAX
"""Places that are read at once: one in every partition."""

FETCHES_MAX: Final = 4_096
"""Readers that wait at a keeper at a time; one more is told at once that there is nothing."""

WAIT_TICKS_MAX: Final = 50
"""Ticks that a keeper waits at a time for something to read: within five seconds it has forgotten
who went away, and who is still there asks again."""

PRODUCER_WINDOW: Final = 1_024
"""Sequence numbers remembered of every named producer, with their offsets. A producer that was
restarted repeats what it had under way, which is far less."""

PRODUCERS_MAX: Final = 10_000
"""Named producers remembered: with full windows they take 165 MiB or so, and 120 MiB of a file, in
which each that appends has its 12 KiB written once a second. Beyond, the one that was idle longest
is retired."""

RETIRED_PRODUCERS_MAX: Final = 100_000
"""Retired producers, of which the last number alone is remembered, some 30 MB: what they repeat is
refused, as it may be there. Beyond, the one that was idle longest is forgotten, and what it repeats
is appended again: to refuse what may be of a forgotten one would refuse each new one."""

CONSUMERS_MAX: Final = 10_000
"""Named consumers of a log."""

CURSORS_MAX: Final = 65_536
"""Cursors of a log, one for each consumer and partition: all fit in one message to a follower."""

BLOCK_COUNT_MAX: Final = 256
"""Entries of a block of the index that retention counts by."""

BLOCK_SIZE_MAX: Final = 64 * KIB
"""Bytes of a block of the index that retention counts by."""

BLOCK_SPAN_NS: Final = 1_000_000_000
"""Nanoseconds between a block's first and last run: age is kept to the second."""

RETENTION_TICKS: Final = 5
"""Ticks between two looks at what retention lets go."""

RETAINED_BLOCKS_MAX: Final = 1_024
"""Blocks that retention lets go in one step, of 256 runs each at most: some milliseconds' work for
a keeper. One that has more to let go does so in the next tick: ten times as much in a second."""
