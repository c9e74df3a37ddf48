"""Every limit of the WebSocket gateway, each with its reason."""

from __future__ import annotations

from typing import Final

from wire.limits import KIB, MIB

CLIENTS_MAX: Final = 256
"""Clients at a time, each with a queue of ``QUEUE_BYTES``: 2 GiB if all of them stop to read."""

TEXT_SIZE_MAX: Final = MIB
"""Characters of a message, either way. Events of Zeek have some hundreds; parsing the longest takes
a tenth of a second, for which the endpoint does nothing else."""

PREFIXES_MAX: Final = 1_024
"""Topic prefixes of a client: the whole mesh keeps each of them."""

ERRORS_MAX: Final = 100
"""Errors in a row after which a connection ends: a client that does not heed them never will."""

QUEUE_SIZE: Final = 1_024
"""Messages that wait for a client before the oldest are dropped: a fifth of a second's."""

QUEUE_BYTES: Final = 8 * MIB
"""Bytes that wait for a client before the oldest are dropped: eight of the longest messages."""

RECEIVE_SIZE: Final = 64 * KIB
"""Bytes read at once: a hundred events of Zeek."""

OPENING_SECONDS: Final = 5.0
"""How long a request may take, and again the first frame after it: each comes in one packet."""

PING_SECONDS: Final = 20.0
"""The pause between pings: below the minute after which routers forget a silent connection."""

STALL_SECONDS: Final = 30.0
"""How long a client may take none of a message, or leave a ping unanswered, before it is cut off:
longer than a pause of its garbage collector or of its network."""

CLOSE_SECONDS: Final = 2.0
"""How long a client may take to answer the end of a connection."""

SHARED_SIZE_MAX: Final = 4 * MIB
"""Characters of texts that are kept for further clients: those of one burst."""

BACKOFF_SECONDS_MIN: Final = 0.5
"""The first pause before a link dials again."""

BACKOFF_SECONDS_MAX: Final = 30.0
"""The longest pause before a link dials again: a Zeek that was restarted has its messages soon."""
