"""Accounts: tokens and users of gateways, as scrypt hashes in a file of their own.

The file is TOML: ``[tokens]`` and ``[users]`` give each name a hash; a token's name may have a list
of two hashes, while one token replaces another. All tokens of a file share a salt: a token has no
name in it, and so costs one hash however many there are. They are as random as cluster secrets: a
salt of their own would protect none of them better.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import os
import re
import secrets
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from handshake.principals import ANONYMOUS, Principal, Proof
from handshake.private_files import read_secret, write_private
from wire.errors import CredentialsError
from wire.key_text import KeyText
from wire.limits import MIB

TOKEN_SIZE: Final = 20
"""Bytes of a token, as of a cluster secret: it cannot be guessed."""

TOKEN: Final = KeyText(
    "a token", "peermesh-token-", TOKEN_SIZE, 5, "peermesh access token NAME --file FILE"
)

ACCOUNTS_MAX: Final = 4_096
"""Names in each table of a file: a token is compared with all of them."""

HASHES_MAX: Final = 2
"""Tokens of one name: the one in use, and the one that replaces it."""

SALTS_MAX: Final = 4
"""Different salts of all tokens together: each costs a hash for every token that is tried."""

NAME_SIZE_MAX: Final = 256
"""Characters of a name, as of one in a certificate."""

PASSWORD_SIZE_MIN: Final = 8
"""Characters of a new password: scrypt makes each guess cost, and eight make them many."""

PASSWORD_SIZE_MAX: Final = 1_024
"""Characters of a password or token that are looked at; more are no password."""

COST_LOG2: Final = 14
BLOCK_SIZE: Final = 8
LANES: Final = 1
"""What scrypt's authors proposed for logins: 16 MiB and some 50 ms of a core for each try."""

MEMORY_MAX: Final = 64 * MIB
"""Bytes that one try may take, whatever parameters a hash in the file names."""

LANES_MAX: Final = 4

SALT_SIZE: Final = 16
KEY_SIZE: Final = 32

_HASH: Final = re.compile(
    r"\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d)\$([A-Za-z0-9+/]{1,86})\$([A-Za-z0-9+/]{43})", re.A
)

HEADER: Final = "# Accounts of peermesh gateways: docs/security.md. Written by peermesh access.\n"


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a hash is made: parameters of scrypt, and the salt."""

    salt: bytes
    cost_log2: int = COST_LOG2
    block_size: int = BLOCK_SIZE
    lanes: int = LANES

    @classmethod
    def new(cls) -> Recipe:
        """Make one with a salt from the system's random source."""
        return cls(secrets.token_bytes(SALT_SIZE))

    def memory(self) -> int:
        """Give the bytes that a try takes."""
        return 128 * self.block_size * (1 << self.cost_log2)

    def derive(self, text: str) -> bytes:
        """Hash a token or password; this takes some 50 ms of a core."""
        return hashlib.scrypt(
            text.encode("utf-8", "surrogatepass"),
            salt=self.salt,
            n=1 << self.cost_log2,
            r=self.block_size,
            p=self.lanes,
            maxmem=2 * MEMORY_MAX,
            dklen=KEY_SIZE,
        )


@dataclass(frozen=True, slots=True)
class Hash:
    """The hash of a token or password, with all that it takes to check one."""

    recipe: Recipe
    key: bytes = field(repr=False)

    @classmethod
    def of(cls, text: str, recipe: Recipe | None = None) -> Hash:
        """Hash a token or password."""
        recipe = recipe or Recipe.new()
        return cls(recipe, recipe.derive(text))

    @classmethod
    def parse(cls, text: object, where: str) -> Hash:
        """Read what ``text`` wrote; raises ``CredentialsError``, which repeats none of it."""
        found = _HASH.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise CredentialsError(
                f"{where} has no hash of scrypt: make it with peermesh access, which writes one"
            )
        cost, block_size, lanes = (int(found[each]) for each in (1, 2, 3))
        recipe = Recipe(_decode(found[4], where), cost, block_size, lanes)
        is_possible = cost > 0 and block_size > 0 and 0 < lanes <= LANES_MAX
        if not is_possible or recipe.memory() > MEMORY_MAX:
            raise CredentialsError(
                f"{where}: ln={cost},r={block_size},p={lanes} is not possible: a try takes"
                f" up to {MEMORY_MAX // MIB} MiB, and p is at most {LANES_MAX}"
            )
        return cls(recipe, _decode(found[5], where))

    def text(self) -> str:
        """Write it as one line, in the format of password hashes (PHC)."""
        each = self.recipe
        costs = f"ln={each.cost_log2},r={each.block_size},p={each.lanes}"
        return f"$scrypt${costs}${_encode(each.salt)}${_encode(self.key)}"


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode().rstrip("=")


def _decode(text: str, where: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error:
        raise CredentialsError(f"{where}: its hash is damaged: make it anew") from None


@dataclass(frozen=True, slots=True)
class Accounts:
    """Who may prove what: tokens and users by name. ``load`` reads a file."""

    tokens: Mapping[str, tuple[Hash, ...]]
    users: Mapping[str, Hash]
    _decoy: Recipe = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check names and limits; raises ``CredentialsError``."""
        for table, names in (("tokens", self.tokens), ("users", self.users)):
            if len(names) > ACCOUNTS_MAX:
                raise CredentialsError(f"[{table}] has {len(names)} names, up to {ACCOUNTS_MAX}")
            for name in names:
                check_account_name(name)
        if len(self._recipes()) > SALTS_MAX:
            raise CredentialsError(
                f"the tokens have more than {SALTS_MAX} different salts: make them with peermesh"
                " access token, which gives all tokens of a file the same"
            )
        # A name that is unknown costs as much as one that is there, and tells nothing by its time.
        first = next(iter(self.users.values()), None)
        object.__setattr__(self, "_decoy", Recipe.new() if first is None else first.recipe)

    def _recipes(self) -> dict[Recipe, list[tuple[str, bytes]]]:
        found: dict[Recipe, list[tuple[str, bytes]]] = {}
        for name, hashes in self.tokens.items():
            for each in hashes:
                found.setdefault(each.recipe, []).append((name, each.key))
        return found

    def find_token(self, text: str) -> Principal | None:
        """Give the principal of a token; ``None`` if it is none. Takes some 50 ms of a core.

        What has not the form of a token costs nothing.
        """
        try:
            text = TOKEN.write(TOKEN.read(text[:PASSWORD_SIZE_MAX]))
        except CredentialsError:
            return None
        found = None
        for recipe, keys in self._recipes().items():
            derived = recipe.derive(text)
            for name, key in keys:  # All of them: the time tells nothing.
                if hmac.compare_digest(derived, key):
                    found = name
        return None if found is None else Principal(found, Proof.TOKEN)

    def find_user(self, name: str, password: str) -> Principal | None:
        """Give the principal of a user; ``None`` for a wrong password. Takes some 50 ms."""
        known = self.users.get(name)
        recipe = self._decoy if known is None else known.recipe
        derived = recipe.derive(password[:PASSWORD_SIZE_MAX])
        is_right = hmac.compare_digest(derived, bytes(KEY_SIZE) if known is None else known.key)
        return Principal(name, Proof.PASSWORD) if is_right and known is not None else None

    # Changes, for the command line.

    def with_token(self, name: str, text: str) -> Accounts:
        """Add a token, and keep the newest of those that the name had; raises as ``load`` does."""
        recipe = next(iter(self._recipes()), None)
        hashes = (*self.tokens.get(name, ()), Hash.of(text, recipe))
        return Accounts({**self.tokens, name: hashes[-HASHES_MAX:]}, self.users)

    def with_user(self, name: str, password: str) -> Accounts:
        """Add a user, or change its password; raises ``CredentialsError``."""
        if not PASSWORD_SIZE_MIN <= len(password) <= PASSWORD_SIZE_MAX:
            raise CredentialsError(
                f"a password has {PASSWORD_SIZE_MIN} to {PASSWORD_SIZE_MAX} characters: choose"
                " another one"
            )
        if not password.isprintable():
            raise CredentialsError("a password is one line of printable characters")
        return Accounts(self.tokens, {**self.users, name: Hash.of(password)})

    def without(self, name: str, *, oldest: bool = False) -> Accounts:
        """Remove a name, its tokens and its password; with ``oldest`` the older of two tokens.

        Raises ``CredentialsError`` if there is nothing to remove.
        """
        hashes = self.tokens.get(name, ())
        if oldest and len(hashes) < HASHES_MAX:
            raise CredentialsError(f"{name!r} has {len(hashes)} tokens: there is no older one")
        if not oldest and not hashes and name not in self.users:
            raise CredentialsError(f"there is no account {name!r}")
        if oldest:
            return Accounts({**self.tokens, name: hashes[1:]}, self.users)
        tokens = {each: hashes for each, hashes in self.tokens.items() if each != name}
        users = {each: found for each, found in self.users.items() if each != name}
        return Accounts(tokens, users)

    # Files.

    @classmethod
    def parse(cls, text: str) -> Accounts:
        """Read TOML, as ``docs/security.md`` describes it; raises ``CredentialsError``."""
        try:
            table = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise CredentialsError(f"the accounts are no TOML: {error}") from None
        unknown = sorted(set(table) - {"tokens", "users"})
        if unknown:
            raise CredentialsError(f"unknown key {unknown[0]!r}; there are [tokens] and [users]")
        tokens = {name: tuple(_hashes(name, body)) for name, body in _table(table, "tokens")}
        users = {name: Hash.parse(body, f"user {name!r}") for name, body in _table(table, "users")}
        return cls(tokens, users)

    def to_text(self) -> str:
        """Write what ``parse`` reads."""
        lines = [HEADER, "[tokens]"]
        for name, hashes in self.tokens.items():
            texts = [_quoted(each.text()) for each in hashes]
            lines.append(f"{_quoted(name)} = [{', '.join(texts)}]")
        lines += ["", "[users]"]
        lines += [f"{_quoted(name)} = {_quoted(h.text())}" for name, h in self.users.items()]
        return "\n".join(lines) + "\n"

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Accounts:
        """Read a file; raises ``CredentialsError``, also for one that others may read."""
        where = os.fspath(path)
        try:
            return cls.parse(read_secret(path, "accounts").decode())
        except UnicodeDecodeError:
            raise CredentialsError(f"accounts of {where}: they are no text in UTF-8") from None
        except CredentialsError as error:
            raise CredentialsError(f"accounts of {where}: {error}") from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Replace a file as a whole, for its owner alone; raises ``CredentialsError``."""
        try:
            write_private(path, self.to_text().encode(), replaces=True)
        except OSError as error:
            raise CredentialsError(
                f"cannot write the accounts to {os.fspath(path)}: {error.strerror}"
            ) from error


NO_ACCOUNTS: Final = Accounts({}, {})

AccountsSource = Accounts | str | os.PathLike[str]
"""Accounts as users give them: a file, or what ``Accounts.parse`` gave."""


def load_accounts(source: AccountsSource) -> Accounts:
    """Read a file of accounts, or take accounts that are no file; raises ``CredentialsError``."""
    return source if isinstance(source, Accounts) else Accounts.load(source)


def check_account_name(name: str) -> None:
    """Raise ``CredentialsError`` for what cannot be the name of an account."""
    is_name = 0 < len(name) <= NAME_SIZE_MAX and name.isprintable() and ":" not in name
    if not is_name or name == ANONYMOUS or name != name.strip():
        raise CredentialsError(
            f"{name!r:.60} cannot be the name of an account: it has 1 to {NAME_SIZE_MAX} printable"
            f" characters, no colon, no blanks around it, and is not {ANONYMOUS!r}"
        )


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # which TOML reads alike


def _table(table: Mapping[str, object], key: str) -> Iterator[tuple[str, object]]:
    found = table.get(key, {})
    if not isinstance(found, dict):
        raise CredentialsError(f"{key} is no table: write [{key}]")
    yield from found.items()


def _hashes(name: str, body: object) -> Iterator[Hash]:
    texts = body if isinstance(body, list) else [body]
    if not 0 < len(texts) <= HASHES_MAX:
        raise CredentialsError(f"token {name!r} has {len(texts)} hashes: one or two are possible")
    for text in texts:
        yield Hash.parse(text, f"token {name!r}")
