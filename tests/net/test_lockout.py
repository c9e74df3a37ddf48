"""Members are served while strangers fill a port with connections that say nothing.

The strangers are a process of their own, and replace each connection as fast as it is closed. The
port's process may open 256 files, or 1,024. All figures are tried by ``make test-long``.
"""

from __future__ import annotations

from itertools import product

import pytest

from benchmarks.lockout import FILES, HOSTS, KINDS, STRANGERS, besiege
from peermesh.testing.time_limits import limit

OWN = HOSTS[:1]
"""The members' own address alone: nothing tells strangers from them but what they say."""


def is_everybody_served(
    kind: str, files: int, strangers: int, hosts: list[str], **how: bool
) -> bool:
    found = besiege(kind, files, strangers, hosts=hosts, seconds_max=limit(), **how)
    return max(found) < limit()


@pytest.mark.parametrize(
    ("kind", "files", "strangers", "hosts"),
    [
        ("webhdfs", 256, 300, OWN),
        ("qos2", 256, 1_100, HOSTS),
        ("mesh", 1_024, 1_100, OWN),
        ("edge", 256, 700, HOSTS),
    ],
)
def test_a_member_is_served_by_tls_among_strangers(kind, files, strangers, hosts) -> None:
    assert is_everybody_served(kind, files, strangers, hosts, is_plain=False)


@pytest.mark.long
@pytest.mark.parametrize("hosts", [OWN, HOSTS], ids=["own address", "nine addresses"])
@pytest.mark.parametrize("is_plain", [False, True], ids=["TLS", "plain"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_member_is_served_whatever_the_number_of_strangers(kind, is_plain, hosts) -> None:
    missed = [
        (files, strangers)
        for files, strangers in product(FILES, STRANGERS)
        if not is_everybody_served(kind, files, strangers, hosts, is_plain=is_plain)
    ]
    assert missed == []
