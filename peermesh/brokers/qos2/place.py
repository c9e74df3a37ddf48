"""Where topics are kept: in which store, logs and files, and how much of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from endpoint import arguments
from endpoint.replicas.attaching import Backend
from endpoint.replicas.logs.log import Log, ReplicaLog
from endpoint.replicas.stores.store import ReplicaStore, Store

Table = Store | ReplicaStore
"""The store of cursors and marks: of a keeper, a copy of it, or a replica."""

TopicLog = Log | ReplicaLog
"""The log of a topic, likewise."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where topics are kept, and how much of them."""

    name: str = "qos2"
    """Of the store; logs are called ``NAME/TOPIC``, and with a space and a number behind it if the
    topic was deleted before. Brokers of one mesh with one name are one."""
    folder: Path | None = None
    """For files; ``None`` keeps the keeper's in memory only, and a follower without copies."""
    is_follower: bool = False
    """Whether another broker keeps the topics, or several that vote."""
    retention: Mapping[str, float] = field(default_factory=dict)
    """``keep_seconds``, ``keep_count`` and ``keep_bytes`` of every topic but that of dead letters;
    without any, everything stays."""
    quota: Mapping[str, int | None] = field(default_factory=dict)
    """``max_entries`` and ``max_bytes`` of all topics together but that of dead letters: beyond, no
    message is taken. Those of one log without other word; ``None`` sets no limit. With ``voters``
    each topic has the quota of a log of its own."""
    voters: tuple[str, ...] = ()
    """The names of the endpoints whose brokers keep the topics together, the same at each of them:
    what is answered, a majority has, and any of them serves."""

    def __post_init__(self) -> None:
        """Check the arguments."""
        arguments.text("name", self.name)
        if isinstance(self.voters, (str, int)):
            raise TypeError(f"voters={self.voters!r}: give a list of names")
        object.__setattr__(self, "voters", tuple(self.voters))
        if self.voters and (self.is_follower or self.quota):
            what = "it is a follower" if self.is_follower else "their topics share no quota"
            raise ValueError(f"voters={self.voters!r}: {what}")
        if self.folder is not None:
            object.__setattr__(self, "folder", Path(self.folder))

    @property
    def backend(self) -> Backend:
        """Where logs and cursors are."""
        return Backend.Memory if self.folder is None else Backend.SQLite

    def log_name(self, topic: str, base: int) -> str:
        """Name the log of a topic whose numbers begin behind ``base``."""
        return f"{self.name}/{topic} {base}" if base else f"{self.name}/{topic}"

    def log_file(self, topic: str, base: int) -> Path | None:
        """Name the file of that log: no other topic, and no earlier one of the name, has it."""
        if not base:
            return self.file(f"topic-{topic}")
        digest = hashlib.sha256(topic.encode()).hexdigest()[:32]
        return None if self.folder is None else self.folder / f"again-{base}-{digest}.db"

    def file(self, stem: str) -> Path | None:
        """Name a file; its name tells every stem from every other."""
        return None if self.folder is None else self.folder / f"{quote(stem, safe='')}.db"
