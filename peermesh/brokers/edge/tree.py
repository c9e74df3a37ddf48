"""The registry's tree: its paths, and what the nodes hold (seed: Discovery Service).

::

    /topics                 "null", or the default channel: receiver line, sender line
    /topics/T               "null"
    /topics/T/pub           the receiver address of T's channel
    /topics/T/pub/ID        one publisher, ephemeral: the address it sends from
    /topics/T/sub           the sender address of T's channel
    /topics/T/sub/ID        one subscriber, ephemeral: the address it receives at
    /broker                 beside the seed's tree: the broker that serves, ephemeral

A topic is one segment: what a path cannot hold is quoted as in a URL.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Self
from urllib.parse import quote, unquote

from peermesh.brokers.edge.errors import RegistryError
from wire.addresses import join_address, split_address
from wire.topics import check_topic

ROOT: Final = "/topics"
BROKER: Final = "/broker"
NULL: Final = "null"
"""No valid information yet."""

TOPIC_SIZE_MAX: Final = 1024
"""Bytes of UTF-8 in a topic here: it stands quoted in a path of the registry, thrice as long."""


class Address(NamedTuple):
    """Where somebody listens."""

    host: str
    port: int

    def __str__(self) -> str:
        """Write ``IP_ADDRESS:PORT_NUMBER``; IPv6 in brackets."""
        return join_address(*self)


class Addresses(NamedTuple):
    """The two ports of a channel: publishers connect to one, subscribers to the other."""

    receiver: Address
    sender: Address

    @classmethod
    def at(cls, host: str, ports: tuple[int, int]) -> Self:
        """Give those of two ports of a host."""
        return cls(Address(host, ports[0]), Address(host, ports[1]))


def parse_address(data: str) -> Address | None:
    """Read the data of ``pub``, ``sub`` and their children; ``None`` for ``null``.

    Raises ``RegistryError``.
    """
    if data == NULL:
        return None
    found = split_address(data)
    if found is None or found[1] == 0 or "\n" in data:
        raise RegistryError(f"{data!r} is no address: IP_ADDRESS:PORT_NUMBER was expected")
    return Address(*found)


def format_addresses(addresses: Addresses) -> str:
    """Write the data of ``/topics``: the receiver's line, and the sender's."""
    return f"{addresses.receiver}\n{addresses.sender}"


def parse_addresses(data: str) -> Addresses | None:
    """Read the data of ``/topics``; ``None`` for ``null``. Raises ``RegistryError``."""
    if data == NULL:
        return None
    lines = data.split("\n")
    found = [parse_address(line) for line in lines]
    if len(found) != 2 or found[0] is None or found[1] is None:
        raise RegistryError(f"{data!r} is not two lines of addresses")
    return Addresses(found[0], found[1])


def check_edge_topic(topic: object) -> str:
    """Give the topic back if it can be used here; raises ``InvalidTopic`` or ``RegistryError``."""
    text = check_topic(topic)
    if not text or len(text.encode()) > TOPIC_SIZE_MAX:
        raise RegistryError(f"a topic has 1 to {TOPIC_SIZE_MAX} bytes here; {text[:40]!r} has not")
    return text


def topic_path(topic: str) -> str:
    """Give the node of a topic."""
    quoted = quote(topic, safe="")
    if not quoted.strip("."):  # A path may have no segments of dots.
        quoted = quoted.replace(".", "%2E")
    return f"{ROOT}/{quoted}"


def topic_of(segment: str) -> str:
    """Give the topic whose node is called so."""
    return unquote(segment)


def receiver_path(topic: str) -> str:
    """Give the node with the address that publishers connect to."""
    return f"{topic_path(topic)}/pub"


def sender_path(topic: str) -> str:
    """Give the node with the address that subscribers connect to."""
    return f"{topic_path(topic)}/sub"


def parents(path: str) -> list[str]:
    """Give the nodes above a path, from the top."""
    parts = path.split("/")[1:-1]
    return ["/" + "/".join(parts[: end + 1]) for end in range(len(parts))]
