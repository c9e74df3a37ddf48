"""Topics: text, matched by plain prefix, joined and minimised as Broker does.

A subscription to ``/te`` hears ``/test``: prefixes know nothing of segments. Segments matter in two
places only: where topics are joined, and for the reserved segment ``<$>``, which belongs to us.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from wire.errors import InvalidTopic
from wire.limits import TOPIC_SIZE_MAX
from wire.scalars import shorten

SEPARATOR: Final = "/"
RESERVED_SEGMENT: Final = "<$>"
"""Marks topics of the mesh itself; refused to users, from the API and from peers."""

MASTER_SUFFIX: Final = "/<$>/data/master"
CLONE_SUFFIX: Final = "/<$>/data/clone"
PROXY_SUFFIX: Final = "/<$>/data/proxy"
GROUP_SUFFIX: Final = "/<$>/data/group"
KEEPER_SUFFIX: Final = "/<$>/log/keeper"
READER_SUFFIX: Final = "/<$>/log/reader"
FOLLOWER_SUFFIX: Final = "/<$>/log/follower"
LOG_GROUP_SUFFIX: Final = "/<$>/log/group"
GROUP_SUFFIXES: Final = (GROUP_SUFFIX, LOG_GROUP_SUFFIX)
"""Where the replicas of a group hear each other."""
ADMIN_TOPIC: Final = "mesh/<$>/admin"
"""Where an endpoint hears what others ask of it: the topic of no store, announced by none."""

_SUFFIXES: Final = (
    *(MASTER_SUFFIX, CLONE_SUFFIX, PROXY_SUFFIX, GROUP_SUFFIX),
    *(KEEPER_SUFFIX, READER_SUFFIX, FOLLOWER_SUFFIX, LOG_GROUP_SUFFIX),
)

KIND_SIZE_MAX: Final = 64
"""Characters behind the reserved segment: twice what any kind of command needs today."""

_KIND: Final = re.compile(r"[a-z0-9-]+(/[a-z0-9-]+)*")


def join(left: str, right: str) -> str:
    """Join two topics with one separator, unless ``right`` brings its own.

    One separator at the end of the result is removed: ``join("/b/c", "/a/")`` is ``"/b/c/a"``.
    """
    is_separated = not left or not right or right.startswith(SEPARATOR)
    joined = left + right if is_separated else left + SEPARATOR + right
    return joined.removesuffix(SEPARATOR)


def split(topic: str) -> list[str]:
    """Give the segments of a topic; empty ones are left out."""
    return [segment for segment in topic.split(SEPARATOR) if segment]


def is_reserved(topic: str) -> bool:
    """Tell whether a topic belongs to the mesh itself: one of its segments is ``<$>``."""
    return RESERVED_SEGMENT in topic and RESERVED_SEGMENT in topic.split(SEPARATOR)


def check_topic(topic: object) -> str:
    """Give the topic back if users may publish on it or subscribe to it.

    Raises ``InvalidTopic`` if it is not text, has more than ``TOPIC_SIZE_MAX`` bytes of UTF-8,
    cannot be written in UTF-8, or holds the reserved segment.
    """
    text = _check_text(topic)
    if is_reserved(text):
        raise InvalidTopic(
            f"the segment {RESERVED_SEGMENT} of topic {shorten(text)} is reserved: "
            "choose another name for it"
        )
    return text


def store_topics(name: str) -> tuple[str, str]:
    """Give the topics that the master and the clones of a store hear commands on.

    Raises ``InvalidTopic`` if the name is empty, or not fit for a topic.
    """
    if not name:
        raise InvalidTopic("a store, or log, needs a name: the empty text is none")
    check_topic(name)
    return _check_text(name + MASTER_SUFFIX), name + CLONE_SUFFIX


def proxy_topic(name: str) -> str:
    """Give the topic that the proxies of a store hear answers on."""
    store_topics(name)
    return name + PROXY_SUFFIX


def group_topic(name: str) -> str:
    """Give the topic that all replicas of a store's group hear each other on."""
    store_topics(name)
    return name + GROUP_SUFFIX


def log_topics(name: str) -> tuple[str, str, str]:
    """Give the topics that a log's keeper hears, that all others do, and only its followers.

    Raises ``InvalidTopic`` if the name is empty, or not fit for a topic.
    """
    store_topics(name)
    return name + KEEPER_SUFFIX, name + READER_SUFFIX, _check_text(name + FOLLOWER_SUFFIX)


def log_group_topic(name: str) -> str:
    """Give the topic that all replicas of a log's group hear each other on."""
    log_topics(name)
    return name + LOG_GROUP_SUFFIX


def store_name(topic: str) -> str | None:
    """Give the name of the store or log that hears this topic, if it is a topic of one."""
    for suffix in _SUFFIXES:
        name = topic.removesuffix(suffix)
        if name and name != topic:
            return None if is_reserved(name) else name
    return None


def command_name(topic: str) -> str | None:
    """Give what is before the reserved segment in a topic of commands; ``None`` if it is no such.

    Commands go to ``NAME/<$>/KIND``. Later versions have kinds that this one does not know, and
    need endpoints of this version to pass them on: so a kind is any words of small letters, digits
    and ``-``, with ``/`` between them.
    """
    name, _, kind = topic.partition(f"{SEPARATOR}{RESERVED_SEGMENT}{SEPARATOR}")
    is_kind = len(kind) <= KIND_SIZE_MAX and _KIND.fullmatch(kind) is not None
    return name if name and is_kind and not is_reserved(name) else None


def minimal(topics: Iterable[str]) -> tuple[str, ...]:
    """Give the fewest prefixes that match what these topics match, sorted.

    Sorting puts every topic right behind the prefixes that cover it.
    """
    kept: list[str] = []
    for topic in sorted(topics):
        if not kept or not topic.startswith(kept[-1]):
            kept.append(topic)
    return tuple(kept)


def is_minimal(prefixes: tuple[str, ...]) -> bool:
    """Tell whether ``minimal`` would change nothing."""
    return minimal(prefixes) == prefixes


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """A minimal set of topic prefixes, whatever it is made from. Immutable."""

    prefixes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Reduce what was given to the minimal set; text alone is refused as a likely mistake."""
        if isinstance(self.prefixes, str):
            raise InvalidTopic(f"give a tuple of topics: ({self.prefixes!r},)")
        object.__setattr__(self, "prefixes", minimal(self.prefixes))

    def extend(self, topics: Iterable[str]) -> Subscriptions:
        """Give the set that also matches these topics."""
        return Subscriptions((*self.prefixes, *topics))

    def matches(self, topic: str) -> bool:
        """Tell whether a prefix of the topic is in the set.

        In a minimal set only the greatest prefix that does not sort behind the topic can match.
        """
        place = bisect_right(self.prefixes, topic)
        return place > 0 and topic.startswith(self.prefixes[place - 1])


class SubscriptionCounts:
    """How many subscribers want each topic, so that the set shrinks when the last one goes."""

    __slots__ = ("_counts", "_minimal")

    def __init__(self) -> None:
        """Start without subscribers."""
        self._counts: dict[str, int] = {}
        self._minimal: tuple[str, ...] | None = ()

    def add(self, topics: Iterable[str]) -> None:
        """Count one more subscriber for each of these topics."""
        for topic in topics:
            count = self._counts.get(topic, 0)
            self._counts[topic] = count + 1
            if not count:
                self._minimal = None

    def remove(self, topics: Iterable[str]) -> None:
        """Count one subscriber less for each of these topics, which were added before."""
        for topic in topics:
            count = self._counts.get(topic, 0)
            assert count > 0, f"topic {topic!r} is removed more often than it was added"
            if count > 1:
                self._counts[topic] = count - 1
            else:
                del self._counts[topic]
                self._minimal = None

    def counts(self) -> Mapping[str, int]:
        """Give a copy of the number of subscribers of each topic."""
        return dict(self._counts)

    def minimal(self) -> tuple[str, ...]:
        """Give the fewest prefixes that match everything that is wanted, sorted."""
        if self._minimal is None:
            self._minimal = minimal(self._counts)
        return self._minimal


def _check_text(topic: object) -> str:
    if not isinstance(topic, str):
        raise InvalidTopic(f"a topic is text, not {type(topic).__name__}: {shorten(topic)}")
    try:
        size = len(topic) if topic.isascii() else len(topic.encode())
    except UnicodeEncodeError:
        raise InvalidTopic(
            f"topic {shorten(topic)} holds a lone surrogate, which UTF-8 cannot write: "
            "decode its source with errors='strict' to find where it comes from"
        ) from None
    if size > TOPIC_SIZE_MAX:
        raise InvalidTopic(
            f"topic {shorten(topic)} has {size} bytes, {TOPIC_SIZE_MAX} are allowed: "
            "put the details into the data"
        )
    return topic
