"""Members are served while strangers fill a port with connections that prove nothing.

The strangers are a process of their own, and replace each connection as fast as it is closed. The
port's process may open 256 files, or 1,024. All figures are tried by ``make test-long``.
"""

from __future__ import annotations

from itertools import product

import pytest

from benchmarks.lockout import FILES, HOSTS, KINDS, STRANGERS, Siege, besiege
from peermesh.testing.time_limits import limit

OWN = HOSTS[:1]
"""The members' own address alone: nothing tells strangers from them but what they say."""


HALF_A_HELLO = b"\x16\x03\x01\x02\x00\x01"
"""The beginning of a handshake of TLS that never goes on; no beginning of anything else."""


SERVED_SECONDS = 3.0
"""Ten times what a member takes on an idle machine, besieged by 1,100."""


def is_everybody_served(siege: Siege) -> bool:
    return max(besiege(siege, limit())) < limit(SERVED_SECONDS)


@pytest.mark.parametrize(
    "siege",
    [
        Siege("webhdfs", 256, 300, hosts=OWN),
        Siege("qos2", 256, 1_100),
        Siege("mesh", 1_024, 1_100, hosts=OWN),
        Siege("edge", 256, 700),
        Siege("mesh", 256, 300, hosts=OWN, said=HALF_A_HELLO),
    ],
    ids=lambda siege: f"{siege.kind}-{siege.files}-{siege.strangers}-{len(siege.said)}",
)
def test_a_member_is_served_among_strangers(siege: Siege) -> None:
    assert is_everybody_served(siege)


@pytest.mark.long
@pytest.mark.parametrize("hosts", [OWN, HOSTS], ids=["own address", "nine addresses"])
@pytest.mark.parametrize(
    ("is_plain", "said"),
    [(False, b""), (True, b""), (False, HALF_A_HELLO)],
    ids=["TLS", "plain", "half a hello"],
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_member_is_served_whatever_the_number_of_strangers(kind, is_plain, said, hosts) -> None:
    missed = [
        (files, strangers)
        for files, strangers in product(FILES, STRANGERS)
        if not is_everybody_served(Siege(kind, files, strangers, is_plain, hosts, said))
    ]
    assert missed == []
