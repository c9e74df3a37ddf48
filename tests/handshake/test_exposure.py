"""Where plain TCP may be: on loopback, and nowhere else unless it is said by name."""

from __future__ import annotations

import re

import pytest

from handshake.exposure import Protection, check_plain, decide_protection, is_loopback
from wire.errors import InsecureAddress

LOOPBACK = ["127.0.0.1", "127.8.9.10", "::1", "localhost", "LocalHost", "::ffff:127.0.0.1"]

ELSEWHERE = [
    "",
    "0.0.0.0",
    "::",
    "192.168.1.5",
    "::ffff:192.168.1.5",
    "fe80::1",
    "example.org",
    "localhost.example.org",
    "127.1",
    "2130706433",
    " 127.0.0.1",
    "127.0.0.1.example.org",
]


@pytest.mark.parametrize("host", LOOPBACK)
def test_plain_tcp_is_accepted_on_loopback(host: str) -> None:
    found = decide_protection(host, has_credentials=False, allow_plain=False)
    assert found is Protection.PLAIN
    check_plain(host, allow_plain=False, stakes="look")


@pytest.mark.parametrize("host", ELSEWHERE)
def test_plain_tcp_is_refused_anywhere_else_unless_it_is_allowed_by_name(host: str) -> None:
    assert not is_loopback(host)
    where = re.escape(host or "all interfaces")
    told = rf"\Aplain TCP at {where} .*steal it: .*secret=.* allow_plain=True"
    with pytest.raises(InsecureAddress, match=told):
        decide_protection(host, has_credentials=False, allow_plain=False, stakes="steal it")
    found = decide_protection(host, has_credentials=False, allow_plain=True)
    assert found is Protection.PLAIN
    with pytest.raises(InsecureAddress, match=rf"\Aat {where} .*steal it: .* allow_plain=True"):
        check_plain(host, allow_plain=False, stakes="steal it")
    check_plain(host, allow_plain=True, stakes="steal it")


@pytest.mark.parametrize("host", [*LOOPBACK, *ELSEWHERE])
@pytest.mark.parametrize("allow_plain", [True, False])
def test_credentials_are_used_everywhere(host: str, allow_plain: bool) -> None:
    found = decide_protection(host, has_credentials=True, allow_plain=allow_plain)
    assert found is Protection.TLS
