"""Every limit of the stores, each with its reason. Limits of the wire stand in ``wire.limits``."""

from __future__ import annotations

from typing import Final

from stores.work import SLICE_COUNT
from wire.limits import KIB, MIB, PAYLOAD_SIZE_MAX

KEY_SIZE_MAX: Final = 64 * KIB
"""Bytes of an encoded key. A key is compared, hashed and repeated in every command about it."""

VALUE_SIZE_MAX: Final = PAYLOAD_SIZE_MAX - 256 * KIB
"""Bytes of an encoded value: with its key and the heads of two commands it fits in one payload."""

COUNT_END: Final = 1 << 64
"""Counts are below it. In CBOR more is a number of any size, which no reader of the mesh takes."""

RUN_COUNT_MAX: Final = 256
"""Mutations in one action, and actions in one message: half a millisecond's work for a master, so
that no other caller waits for longer."""

RUN_SIZE_MAX: Final = 64 * KIB
"""Bytes after which an action takes no more mutations, and a message no more actions: half of what
is written at once, so that a master works while the next is under way."""

BATCH_COUNT_MAX: Final = 1_024
"""Guards, or steps, in a batch: a master is busy with it for some milliseconds at most."""

BATCH_SIZE_MAX: Final = VALUE_SIZE_MAX
"""Bytes of a batch: it travels as one action, and so does what it changed."""

ERROR_TEXT_SIZE_MAX: Final = 200
"""Characters of an error's text: a line and a half for a person to read."""

LIFE_END: Final = 1 << 63
"""Larger numbers do not fit in what backends store: see ``stores.lives``."""

EXPIRY_END_NS: Final = LIFE_END - (1 << 56)
"""Nanoseconds: spans and instants of 290 years and more are none. The numbers up to ``LIFE_END``
stand for sessions: more than a journal will ever have entries."""

UNRESOLVED_SIZE_MAX: Final = 16 * MIB
"""Bytes that a handle may have asked for without an answer. More than any link holds; a writer
that is faster than its master waits at this point."""

UNRESOLVED_COUNT_MAX: Final = 16_384
"""Actions that a handle may have asked for without an answer (a run of puts is one): the master
may have to remember as many outcomes for it."""

OUTCOMES_MAX: Final = 2 * UNRESOLVED_COUNT_MAX
"""Outcomes kept for a writer that does not acknowledge: an honest one has no more requests under
way, and all of them fit in one payload."""

CHUNK_SIZE_MAX: Final = 256 * KIB
"""Bytes after which a chunk of a snapshot takes no more entries: other messages pass in between."""

CHUNK_COUNT_MAX: Final = SLICE_COUNT
"""Entries in a chunk, of tiny ones: one step's work for both sides."""
