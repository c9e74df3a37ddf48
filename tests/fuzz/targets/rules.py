"""Rules that people write, and proofs that clients send: roles, accounts, tickets, tokens."""

from __future__ import annotations

from collections.abc import Iterator

from handshake.accounts import MEMORY_MAX, TOKEN, Accounts, Hash, Recipe
from handshake.principals import ANONYMOUS
from handshake.roles import NOTHING, Roles
from handshake.secret import TEXT, ClusterSecret
from handshake.ticket import JoinTicket, is_ticket
from peermesh.gateways.access import Login
from peermesh.gateways.refusals import NotAuthorized
from wire.errors import CredentialsError, RolesError

KINDS = range(5)
ROLES, ACCOUNTS, TICKET, TOKEN_TEXT, HEADER = KINDS
SECRET = ClusterSecret(bytes(20))
DIGITS_SHOWN = 24
"""A text so long may be most of a secret; a shorter one may be a word of the error."""


def check(data: bytes) -> None:
    """Read a text of the kind that the first byte says: taken as it is meant, or refused."""
    kind, text = (data[0] % len(KINDS) if data else ROLES), data[1:].decode("utf-8", "replace")
    try:
        (_check_roles, _check_accounts, _check_ticket, _check_token, _check_header)[kind](text)
    except (CredentialsError, RolesError, NotAuthorized) as error:
        str(error).encode()


def _check_roles(text: str) -> None:
    roles = Roles.parse(text)
    for name in (*roles.names, ANONYMOUS, None, "nobody else", "*"):
        role = roles.find(name)
        if role is None:
            assert roles.default is None
            continue
        # What a role may hear of everything is what it may subscribe to.
        assert role.permitted(("",)) == role.subscribe
        assert role == NOTHING or role.may_command("mesh/<$>/other")
        for pattern in (*role.read, *role.write, *role.lead):
            assert pattern.matches(pattern.beginning)
            assert pattern.covers(pattern.beginning, pattern.path or ())


def _check_accounts(text: str) -> None:
    accounts = Accounts.parse(text)
    for hashes in (*accounts.tokens.values(), tuple(accounts.users.values())):
        for each in hashes:
            assert each.recipe.memory() <= MEMORY_MAX
    assert ANONYMOUS not in {*accounts.tokens, *accounts.users}
    assert Accounts.parse(accounts.to_text()) == accounts


def _check_ticket(text: str) -> None:
    ticket = JoinTicket.parse(text)
    assert is_ticket(text)
    assert JoinTicket.parse(ticket.text()) == ticket


def _check_token(text: str) -> None:
    for form in (TOKEN, TEXT):
        try:
            key, told = form.read(text), ""
        except CredentialsError as error:
            key, told = None, str(error)
        assert key is None or form.write(key) == text.strip().lower()
        body = text.strip().removeprefix(form.prefix)
        assert len(body) < DIGITS_SHOWN or body not in told


def _check_header(text: str) -> None:
    login = Login(text)
    assert login.token is None or login.user is None
    assert login.user is None or ":" not in login.user[0]


def seeds() -> Iterator[bytes]:
    """Give a text of each kind."""
    one = Hash(Recipe(b"salt", 4, 2, 1), bytes(32))
    texts = (
        (ROLES, 'default = "r"\n[names]\n"a*" = "r"\n[roles.r]\npublish = ["/a/", ""]\n'
                'subscribe = ["/b"]\nread = ["s", "t*", "f:/a/b"]\nlead = ["l"]\nrelay = true\n'),
        (ACCOUNTS, Accounts({"t": (one, one)}, {"u": one}).to_text()),
        (TICKET, JoinTicket("127.0.0.1", 9999, SECRET).text()),
        (TICKET, JoinTicket("::1", 9999, SECRET).text()),
        (TOKEN_TEXT, TOKEN.write(bytes(20))),
        (TOKEN_TEXT, SECRET.text()),
        (HEADER, "Bearer a-token"),
        (HEADER, "Basic dXNlcjpwYXNzd29yZA=="),
    )  # fmt: skip
    for kind, text in texts:
        yield bytes((kind,)) + text.encode()
