"""Limits of a group, each with its reason, and the parameters of its channel."""

from __future__ import annotations

from typing import Final

from channels import ChannelConfig
from wire.limits import MIB

JOURNAL_CHANNEL: Final = ChannelConfig(
    heartbeat_interval_ticks=5, connection_timeout_factor=20, nack_timeout_ticks=2
)
"""The leader's keepalives are its heartbeats; a follower that is silent for 10 s begins anew."""

UNCOMMITTED_MAX: Final = 65_536
"""Entries that wait for a majority. A leader without one takes no more; each may be a whole run."""

UNCOMMITTED_SIZE_MAX: Final = 16 * MIB
"""Bytes of them: as much as a handle may have asked for without an answer. It is in memory, and is
what a majority that comes back has to be sent first."""

READS_MAX: Final = 16_384
"""Reads that wait for one round, as many as a handle has requests under way."""

FOLLOWERS_MAX: Final = 1_024
"""Members that follow one leader: each echoes every round. Voters follow beyond it, too: an
endpoint that may read could have so many learners that no majority would be heard."""

VOTERS_MAX: Final = 31
"""Voters of a group. Each commit waits for more than half of them; five are many already."""

DISMISSED_MAX: Final = 64
"""Names whose vote a person took, which each configuration carries; twice as many as there may be
voters. One more takes the place of the first one that its leader was not given as a voter: fleets
in which each machine has a name of its own would never come to an end otherwise."""

JOURNAL_MAX: Final = 1_000_000
"""Entries that are kept for a follower in session that is behind; beyond, it takes a snapshot."""

WRITE_ENTRIES: Final = 64
"""Entries that share an fsync, at most: all are applied once it is over."""

WRITE_CHANGES: Final = 4_096
"""Changes that share an fsync, but for those of a single entry: so no step of the loop takes more
than some hundredths of a second to apply them and to tell of them."""

WRITE_SIZE: Final = UNCOMMITTED_SIZE_MAX
"""Bytes that share an fsync, but for those of a single entry: as many as wait at a leader. Of one
that catches up, entries could be a gigabyte, which its log would have to hold at once."""

CATCH_UP_ENTRIES: Final = 1_024
"""Entries sent to a joining member ahead of its acknowledgement; it asks for what gets lost."""

CATCH_UP_RUN: Final = 256
"""Entries in one message of these."""

SNAPSHOT_PARTS_MAX: Final = 1 << 22
"""Parts of a snapshot: of 256 KiB each they are a tebibyte, more than any member has in memory. No
leader has a follower take parts for ever."""
