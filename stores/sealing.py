"""Sealing records at rest: the keys, what is derived from them, and how a record is closed.

A record is sealed with AES-256-GCM. What makes that safe is that **no nonce is used twice with one
key**, and that holds whatever happens to a file:

- Records are never sealed with a key of the user, but with that of a **session**: HKDF-SHA256 of
  the user's key, the file's random id and a random salt of 256 bits, drawn whenever a file is
  opened for writing. So two files, two lives of one file, and the two futures of a file that was
  copied or put back have different keys, though they have one key of the user.
- Within a session the last half of the nonce counts the records. Nothing about the counter has to
  be stored, and so nothing can put it back: a process that dies takes the session with it.
- The first half is drawn anew for each commit. The counter needs no help from it; but a virtual
  machine that is copied while it runs has two processes in one session with one counter, and those
  draw different numbers, unless the copies commit within the same instant and with the same
  randomness.

Random nonces alone would do with one key for 2^32 records (NIST SP 800-38D, 8.3), which a busy
store writes in a working day. Each session holds itself to that number nevertheless; then it is
followed by another one, which costs 20 µs.

Everything here is pure: salts and nonces come from the caller.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from wire.errors import CredentialsError
from wire.key_text import KeyText
from wire.public import public

KEY_PREFIX: Final = "peermesh-store-key-"
"""Says what the text is, to its reader and to scanners for leaked secrets."""

KEY_SIZE: Final = 32
"""Bytes of a key: AES-256."""

TEXT: Final = KeyText("a key of stores", KEY_PREFIX, KEY_SIZE, 3, "peermesh store new-key FILE")
"""Three bytes of a checksum make it 56 digits."""

KEYS_MAX: Final = 64
"""Keys in a ring: one a month for five years, and nobody would find the right one among more."""

SALT_SIZE: Final = 32
"""Bytes of a session's salt: no two sessions ever have the same."""

FILE_ID_SIZE: Final = 16
"""Bytes of a file's id."""

CHANCE_SIZE: Final = 6
"""Bytes of a nonce that are drawn anew for each commit; the other six are the counter."""

SESSION_RECORDS_MAX: Final = 1 << 32
"""Records sealed in one session, as many as NIST allows for nonces that are random; ours count."""

SESSION_SIZE_MAX: Final = 1 << 40
"""Bytes sealed in one session: 2^36 blocks of 128 bits, far from the 2^64 where blocks repeat. The
chance to tell them from noise stays below 2^-56."""

SESSION_HEAD_SIZE: Final = 4
"""Bytes before the nonce: the number of the session."""

_COUNTER_SIZE: Final = 6
_NONCE_END: Final = SESSION_HEAD_SIZE + CHANCE_SIZE + _COUNTER_SIZE
_TAG_SIZE: Final = 16

OVERHEAD_SIZE: Final = _NONCE_END + _TAG_SIZE
"""Bytes by which a sealed record is longer than what is in it."""


class SealBroken(ValueError):
    """A record is not what was sealed here, or not for this place."""


@dataclass(frozen=True, slots=True)
class StorageKey:
    """A key of the user. It is never printed by itself."""

    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        """Take exactly ``KEY_SIZE`` bytes: anything a person thinks up is too weak."""
        TEXT.check(self.key)

    @classmethod
    def parse(cls, text: str) -> StorageKey:
        """Read what ``text()`` wrote. No error repeats any of it, since errors end up in logs."""
        return cls(TEXT.read(text))

    def text(self) -> str:
        """Write it as one line of letters and digits, to be kept as safe as a password."""
        return TEXT.write(self.key)

    def authentication_key(self) -> bytes:
        """Give a key for MACs over what is no secret, and must not be altered."""
        return _derive(self.key, b"", b"authentication", KEY_SIZE)

    @property
    def fingerprint(self) -> bytes:
        """Eight bytes that name the key, in files and error texts, and tell nothing about it."""
        return _derive(self.key, b"", b"fingerprint", 8)


@public
@dataclass(frozen=True, slots=True)
class StorageKeys:
    """A ring of keys: the first one is for what is written, all of them for what is read."""

    keys: tuple[StorageKey, ...] = field(repr=False)

    def __post_init__(self) -> None:
        """Have one key at least."""
        if not 0 < len(self.keys) <= KEYS_MAX:
            raise CredentialsError(
                f"a ring has 1 to {KEYS_MAX} keys of stores, not {len(self.keys)}:"
                " make one with peermesh store new-key FILE"
            )

    @classmethod
    def parse(cls, text: str) -> StorageKeys:
        """Read keys with space, commas or line ends between them; # begins a remark."""
        lines = (line.partition("#")[0] for line in text.splitlines())
        words = " ".join(lines).replace(",", " ").split()
        return cls(tuple(map(StorageKey.parse, words)))

    @property
    def current(self) -> StorageKey:
        """The key for what is written from now on."""
        return self.keys[0]

    def find(self, fingerprint: bytes) -> StorageKey | None:
        """Give the key of this name, if it is there."""
        return next((key for key in self.keys if key.fingerprint == fingerprint), None)

    def __str__(self) -> str:
        """Name the keys, without a byte of them."""
        return ", ".join(key.fingerprint.hex() for key in self.keys)


class Session:
    """What seals and opens the records of one life of a file."""

    def __init__(self, number: int, key: StorageKey, file_id: bytes, salt: bytes) -> None:
        """Derive the session's key; nothing of it is kept elsewhere."""
        self._head: Final = number.to_bytes(SESSION_HEAD_SIZE, "big")
        self._cipher: Final = AESGCM(_derive(key.key, salt, b"session" + file_id, KEY_SIZE))
        self._chance = b""
        self._count = 0
        self._size = 0

    @property
    def is_spent(self) -> bool:
        """True when no other commit may be sealed in it. A commit is far smaller than the rest."""
        return self._count >= SESSION_RECORDS_MAX or self._size >= SESSION_SIZE_MAX

    def begin(self, chance: bytes) -> None:
        """Begin a commit, with ``CHANCE_SIZE`` random bytes for its nonces."""
        assert len(chance) == CHANCE_SIZE, chance
        self._chance = chance

    def seal(self, place: bytes, content: bytes) -> bytes:
        """Close a record, for this place alone."""
        nonce = self._chance + self._count.to_bytes(_COUNTER_SIZE, "big")
        self._count += 1
        self._size += len(content)
        return self._head + nonce + self._cipher.encrypt(nonce, content, place)

    def open(self, place: bytes, record: bytes) -> bytes:
        """Give the content; raises ``SealBroken`` for whatever was not sealed for this place."""
        try:
            nonce = record[SESSION_HEAD_SIZE:_NONCE_END]
            return self._cipher.decrypt(nonce, record[_NONCE_END:], place)
        except (InvalidTag, ValueError):
            raise SealBroken("a sealed record was altered, or is in the place of another") from None


def session_of(record: bytes) -> int:
    """Give the number of the session that a record was sealed in."""
    if len(record) < OVERHEAD_SIZE:
        raise SealBroken("a sealed record was cut off")
    return int.from_bytes(record[:SESSION_HEAD_SIZE], "big")


def keys_text(keys: Iterable[StorageKey]) -> str:
    """Write a ring as the text of a file: the current key first."""
    return "".join(f"{key.text()}\n" for key in keys)


def _derive(key: bytes, salt: bytes, purpose: bytes, size: int) -> bytes:
    return HKDF(SHA256(), size, salt, b"peermesh at rest 1 " + purpose).derive(key)
