"""What the clients of the line protocol may say, and how it is read (seed: Telnet Use Case).

Everything beyond the seed begins with options at LOGIN: ``ids`` puts a message's id into every
line about it, ``stuffed`` and ``lengths`` frame bodies so that any bytes can be sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from peermesh.brokers.qos2.errors import DialogueError
from peermesh.brokers.qos2.limits import (
    ID_MAX,
    MESSAGE_SIZE_MAX,
    NAME_SIZE_MAX,
    REASON_SIZE_MAX,
    TOPICS_OF_MESSAGE_MAX,
)
from wire.errors import InvalidTopic
from wire.topics import check_topic

IDS: Final = "ids"
STUFFED: Final = "stuffed"
LENGTHS: Final = "lengths"
OPTIONS: Final = (IDS, STUFFED, LENGTHS)

INVALID: Final = "INVALID COMMAND"
"""What the seed's consumer server says to all that it does not know."""


@dataclass(frozen=True, slots=True)
class Login:
    """Who I am, and what I can do."""

    name: str
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Begin:
    """A message follows."""

    topics: tuple[str, ...]
    id: int | None = None
    length: int | None = None


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Send me what is, and will be, published there."""

    topic: str


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """Send me nothing more of that."""

    topic: str


@dataclass(frozen=True, slots=True)
class PubRec:
    """I have the message with this MD5."""

    digest: str
    id: str | None = None


@dataclass(frozen=True, slots=True)
class PubRel:
    """You may have it now (publisher); you will not get it again (broker)."""

    id: str | None = None


@dataclass(frozen=True, slots=True)
class PubComp:
    """That was all about this message."""

    id: str | None = None


@dataclass(frozen=True, slots=True)
class Nack:
    """I could not deal with the message: again later, or never."""

    id: str
    is_final: bool
    reason: str


PublisherCommand = Login | Begin | PubRel
ConsumerCommand = Login | Subscribe | Unsubscribe | PubRec | PubComp | Nack


def check_name(name: str) -> str:
    """Let the name of a topic or client pass; raises ``DialogueError``."""
    if not name or len(name.encode("utf-8", "surrogatepass")) > NAME_SIZE_MAX:
        raise DialogueError("INVALID NAME")
    if not name.isprintable() or any(letter.isspace() for letter in name):
        raise DialogueError("INVALID NAME")
    try:
        return check_topic(name)
    except InvalidTopic:
        raise DialogueError("INVALID NAME") from None


def words_of(line: bytes) -> list[str]:
    """Cut a line into words; raises ``DialogueError`` for what is no text."""
    try:
        return line.decode("utf-8").split()
    except UnicodeDecodeError:
        raise DialogueError(INVALID) from None


def parse_publisher_line(line: bytes, *, has_ids: bool) -> PublisherCommand:
    """Read what a publisher says outside of a body; raises ``DialogueError``."""
    match words_of(line):
        case ["BEGIN", *words]:
            return _begin(words, has_ids=has_ids)
        case ["PUBREL"]:
            return PubRel()
        case ["PUBREL", word] if has_ids:
            return PubRel(_attribute(word, "id"))
        case ["LOGIN", name, *options]:
            return _login(name, (IDS, *options))
        case _:
            raise DialogueError(INVALID)


def parse_consumer_line(line: bytes, *, has_ids: bool) -> ConsumerCommand:
    """Read what a consumer says; raises ``DialogueError``."""
    match words_of(line):
        case ["PUBREC", found] if not has_ids:
            return PubRec(found.lower())
        case ["PUBREC", found, word] if has_ids:
            return PubRec(found.lower(), _attribute(word, "id"))
        case ["PUBCOMP"] if not has_ids:
            return PubComp()
        case ["PUBCOMP", word] if has_ids:
            return PubComp(_attribute(word, "id"))
        case ["NACK", word, *reason] if has_ids:
            return _nack(word, reason)
        case ["SUBSCRIBE", topic]:
            return Subscribe(check_name(topic))
        case ["UNSUBSCRIBE", topic]:
            return Unsubscribe(check_name(topic))
        case ["LOGIN", name, *options]:
            return _login(name, options)
        case _:
            raise DialogueError(INVALID)


def _login(name: str, options: tuple[str, ...] | list[str]) -> Login:
    for option in options:
        if option not in OPTIONS:
            raise DialogueError(f"UNKNOWN OPTION: {' '.join(OPTIONS)}")
    wanted = tuple(option for option in OPTIONS if option in options)
    if wanted and IDS not in wanted:
        wanted = (IDS, *wanted)
    return Login(check_name(name), wanted)


def _begin(words: list[str], *, has_ids: bool) -> Begin:
    found: dict[str, int] = {}
    if has_ids:
        # From behind, each once, in any order: what is left are topics, whatever they are called.
        while words and (key := words[-1].partition("=")[0]) in ("id", "length"):
            if "=" not in words[-1] or key in found:
                break
            found[key] = _number(words.pop(), key)
        if "id" not in found:
            raise DialogueError("BEGIN TOPIC... id=NUMBER [length=NUMBER]")
    topics = tuple(dict.fromkeys(map(check_name, words)))
    if not 0 < len(topics) <= TOPICS_OF_MESSAGE_MAX:
        raise DialogueError(f"ONE TO {TOPICS_OF_MESSAGE_MAX} TOPICS")
    if found.get("length", 0) > MESSAGE_SIZE_MAX:
        raise DialogueError("MESSAGE TOO LARGE")
    return Begin(topics, found.get("id"), found.get("length"))


def _nack(word: str, reason: list[str]) -> Nack:
    is_final = reason[:1] == ["final"]
    text = " ".join(reason[is_final:])[:REASON_SIZE_MAX]
    return Nack(_attribute(word, "id"), is_final, text or "not acknowledged")


def _attribute(word: str, key: str) -> str:
    found, _, value = word.partition("=")
    if found != key or not value:
        raise DialogueError(INVALID)
    return value


def _number(word: str, key: str) -> int:
    text = _attribute(word, key)
    # int() would take spaces, signs, underscores, the digits of other scripts, and any length.
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(ID_MAX))):
        raise DialogueError(INVALID)
    value = int(text)
    if value > ID_MAX or (key == "id" and not value):
        raise DialogueError(INVALID)
    return value
