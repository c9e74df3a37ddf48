"""Every limit of the WebHDFS gateway, each with its reason."""

from __future__ import annotations

from typing import Final

from wire.limits import KIB, MIB

CHUNK_SIZE: Final = 256 * KIB
"""Bytes of a file under one key: as large as a chunk of a snapshot, so that other messages of the
store pass in between. Smaller files are one mutation."""

FILE_SIZE_MAX: Final = 64 * 1024 * MIB
"""Bytes of a file, and of all unfinished uploads together, where the store has no quota: it keeps
all of it in memory, so that no machine of today has room for more."""

UPLOADS_SHARE: Final = 0.5
"""Share of the store's quota that all unfinished uploads of a gateway may take together: clients
that begin and never end leave room for those that end. One of up to a chunk takes nothing of it: it
is in the store when it is a file, and there are no more of them than connections."""

STALLED_SECONDS: Final = 60.0
"""An upload of which no whole chunk came for so long ends when others need its room: that is less
than 5 KB a second. While there is room it may take as long as it likes."""

UPLOAD_BATCH_CHUNKS: Final = 8
"""Chunks of one upload that become one batch, 2 MiB, while as many are under way to the disk and
the replicas: fewer are mostly waits, and more hold up other requests for longer."""

ERASED_CHUNKS_MAX: Final = 16
"""Chunks that are erased together with their file; those of a larger one are collected later."""

COLLECTED_COUNT: Final = 256
"""Keys that one step of the collection erases: a millisecond's work for the store's leader."""

PARTS_MAX: Final = 4_096
"""Uploads that one file is put together of, by APPEND and CONCAT: 20 GiB in the 5 MiB that fsspec
sends at once. The list is read and written with the file's entry, 70 KiB then."""

SOURCES_MAX: Final = 256
"""Files that one CONCAT joins: three steps and guards each, of a thousand that a batch takes."""

PATH_SIZE_MAX: Final = 8_000
"""Characters of a path, as in HDFS."""

PATH_DEPTH_MAX: Final = 200
"""Names of a path. Each new directory is three steps of a batch, which takes a thousand."""

NAME_SIZE_MAX: Final = 255
"""Bytes of a name, as in HDFS and in most file systems."""

USER_SIZE_MAX: Final = 255
"""Characters of a user's name, which is stored with each file."""

REPLICATION_MAX: Final = 32_767
"""Copies that a client may wish for: what Java's ``short`` holds. How many there are, the store's
group decides."""

TIME_MS_MAX: Final = 253_402_300_799_999
"""Milliseconds since 1970 that a client may note as a time: the end of the year 9999, where the
dates of most programs end. Each change of a file has a later time than the one before, so there has
to be room behind."""

LISTED_COUNT_MAX: Final = 50_000
"""Entries of a directory that LISTSTATUS gives: the answer is one JSON text of some 15 MB."""

PAGE_COUNT: Final = 1_000
"""Entries in an answer of LISTSTATUS_BATCH, as in HDFS: 300 KB, and some milliseconds' work. Other
listings are written in as long pages, and of those that are longer one is made at a time."""

WALKED_COUNT_MAX: Final = 100_000
"""Files and directories that are counted for one GETCONTENTSUMMARY: half a second's work, of which
other requests have their turn after each page."""

ATTEMPTS_MAX: Final = 32
"""How often a listing begins anew because what it was at is older than the store remembers."""

WAIT_SECONDS: Final = 30.0
"""How long a request waits, all in all: while a leader is being elected, for its turn among the
changes of one file, and to be decided anew as other gateways were faster. It is half of what
Hadoop's client gives an answer. An upload has as long again once all of it has come. Where machines
are so busy that elections come to nothing, the next one may succeed."""

KEPT_SECONDS: Final = 15.0
"""How long a change that began in time may take to be kept beyond that: what was sent to the leader
is better waited for than asked again. With it an answer takes 45 s, where a client waits for 60."""

PAUSE_SECONDS: Final = 0.01
"""Up to this for each time that other gateways were faster, a change waits before it is decided
anew, by chance: it is what a change takes, so that each gateway meets another moment."""

TOKEN_REQUEST_SIZE_MAX: Final = 4 * KIB
"""Bytes of a request for a token: it is a form of four short fields."""

LEADER_SECONDS: Final = 2.0
"""How long a gateway without a leader counts as active: an election takes so long at most. One that
is cut off waits for as long before it sends a client elsewhere, as Hadoop's client asks all
addresses in turns without a pause, and gives up after so many tries."""

LOOK_AGAIN_SECONDS: Final = 0.1
"""How often a waiting request looks whether its gateway is cut off, which no event tells."""

PRESENCE_SECONDS: Final = 60.0
"""Other gateways go by it that one with uploads under way lives, for so long after it last said
so. Then what it had begun is collected: a wait or a change of the leader is much shorter."""

PRESENT_SECONDS: Final = 15.0
"""How often a gateway with uploads under way says so: three of these words may fail."""

LOOK_SECONDS: Final = 60.0
"""How often a gateway looks for what was left behind, by others or while the store had no leader:
it is a scan of two prefixes."""
