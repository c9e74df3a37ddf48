"""Every limit of the HTTP side of gateways, each with its reason."""

from __future__ import annotations

from typing import Final

from wire.limits import KIB, MIB

HEAD_SIZE_MAX: Final = 64 * KIB
"""Bytes of a request's line and headers: two of the longest paths, each byte escaped, fit in."""

RECEIVE_SIZE: Final = 128 * KIB
"""Bytes read at once, as in the mesh itself."""

DRAINED_SIZE_MAX: Final = 4 * MIB
"""Bytes of a refused upload that are read and thrown away, so that the client, which does not
listen while it sends, gets to hear why. Beyond, the connection is closed."""

CONNECTIONS_MAX: Final = 1_024
"""Clients at a time, as far as files allow: a Spark executor keeps fewer than ten. One more ends
the one that has been silent for longest, which a good client dials again."""

DRAIN_SECONDS: Final = 30.0
"""How long a refused upload is read: who sends slower never hears why."""

SEND_SECONDS: Final = 60.0
"""How long a client may take nothing of an answer, at 128 KiB a step, before its connection ends: a
disk that stalls takes less."""

HEAD_SECONDS: Final = 30.0
"""How long a request's line and headers may take: they come in one packet, or from nobody good."""

IDLE_SECONDS: Final = 300.0
"""How long a connection may wait for its next request; Java closes its own after five seconds."""

KEEPALIVE_SECONDS: Final = 60
"""Silence in the middle of a request after which the system asks whether the client is there. An
upload has no other limit of time while there is room: a task writes its state for as long as it
runs."""
