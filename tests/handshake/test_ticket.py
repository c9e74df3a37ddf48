"""Join tickets: read back what was written, and say nothing of what they hold."""

from __future__ import annotations

import pytest

from handshake.secret import ClusterSecret
from handshake.ticket import JoinTicket, is_ticket
from wire.errors import CredentialsError

SECRET = ClusterSecret(bytes(range(20)))
LETTERS = SECRET.text().rpartition("-")[2]


@pytest.mark.parametrize("host", ["127.0.0.1", "mesh.example.org", "::1", "fe80::1%eth0"])
def test_what_was_written_is_read_back(host: str) -> None:
    ticket = JoinTicket(host, 9999, SECRET)
    assert is_ticket(ticket.text())
    assert JoinTicket.parse(f"  {ticket.text()}\n") == ticket


@pytest.mark.parametrize("port", [1, 65_535])
def test_every_port_has_a_ticket(port: int) -> None:
    assert JoinTicket.parse(JoinTicket("h", port, SECRET).text()).port == port


FORM = "a join ticket is peermesh://HOST:PORT/SECRET, as 'peermesh ticket new' writes it"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (SECRET.text(), f"this is no join ticket: {FORM}"),
        (f"peermesh://h:1{SECRET.text()}", f"the join ticket was cut off, or mistyped: {FORM}"),
        (f"peermesh://h:1/{SECRET.text()}/x", "a cluster secret was mistyped or cut off"),
        (f"peermesh://h:0/{SECRET.text()}", "the port of a join ticket is from 1 to 65535"),
        (f"peermesh://a b:1/{SECRET.text()}", "the host of a join ticket is a name or an address"),
    ],
)
def test_a_refusal_says_what_is_wrong(text: str, told: str) -> None:
    with pytest.raises(CredentialsError) as caught:
        JoinTicket.parse(text)
    assert str(caught.value).startswith(told)


@pytest.mark.parametrize("host", ["", "a/b", "[a", "a]", "a b", "a\n"])
def test_a_host_that_could_not_be_read_back_has_no_ticket(host: str) -> None:
    with pytest.raises(CredentialsError, match="host of a join ticket"):
        JoinTicket(host, 1, SECRET)
    assert JoinTicket("XX", 1, SECRET).host == "XX"


def test_it_is_where_scanners_for_secrets_find_it() -> None:
    assert JoinTicket("h", 1, SECRET).text() == f"peermesh://h:1/{SECRET.text()}"


def test_the_secret_is_never_printed() -> None:
    ticket = JoinTicket("127.0.0.1", 9999, SECRET)
    assert LETTERS not in repr(ticket)
    assert LETTERS not in str(ticket)


@pytest.mark.parametrize(
    "text",
    [
        "",
        SECRET.text(),
        f"peermesh://127.0.0.1/{SECRET.text()}",
        f"peermesh://127.0.0.1:x/{SECRET.text()}",
        f"peermesh://127.0.0.1:0/{SECRET.text()}",
        f"peermesh://127.0.0.1:70000/{SECRET.text()}",
        f"peermesh://127.0.0.1:{'9' * 5_000}/{SECRET.text()}",
        f"peermesh://:1/{SECRET.text()}",
        f"peermesh://a b:1/{SECRET.text()}",
        f"peermesh://127.0.0.1:1{SECRET.text()}",
        f"peermesh://127.0.0.1:1/{SECRET.text()[:-1]}",
        "peermesh://127.0.0.1:1/hunter2hunter2",
    ],
)
def test_what_is_no_ticket_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(CredentialsError) as caught:
        JoinTicket.parse(text)
    for word in (LETTERS[:20], "hunter2"):
        assert word not in str(caught.value)
