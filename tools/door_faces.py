"""What the doors are written from: the classes of trio's API, and what cannot be read in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


def words(text: str) -> frozenset[str]:
    """Give the words of a text."""
    return frozenset(text.split())


@dataclass(frozen=True)
class Face:
    """One class of the trio API, and what cannot be read in it."""

    source: str
    """File and class."""
    hand: frozenset[str] = frozenset()
    """Written by hand in each door, or not part of it."""
    here: frozenset[str] = frozenset()
    """They wait only as the caller's own world does, so that they run there."""
    local: frozenset[str] = frozenset()
    """They answer from any thread, and after the end, too."""
    asks: frozenset[str] = frozenset()
    """They ask for a mutation, and wait before it only, if that is due."""
    copied: frozenset[str] = frozenset()
    """Their bodies are the same in all doors."""
    at_once: tuple[tuple[str, str], ...] = ()
    """They wait for nothing while something is true of their object."""
    first: tuple[tuple[str, str], ...] = ()
    """Another method is tried before them, which does not wait: it may find something."""
    taking: frozenset[str] = frozenset()
    """They take out what is given once; those that wait do that before, with ``await_ready``."""
    over: frozenset[str] = frozenset()
    """Properties that only the thread of trio may look at."""
    by_hand: tuple[tuple[str, frozenset[str]], ...] = ()
    """What is written by hand in one door only."""
    bases: tuple[tuple[str, str], ...] = ()
    """For a door, what of it is written by hand: the class is based on it."""
    is_served: bool = False
    """Whether functions of ``Part.opens`` take it."""
    is_alone: bool = False
    """Whether users make it themselves, with the arguments of trio's: it needs no endpoint."""
    is_whole: bool = False
    """Whether users make it themselves, and the base that is written by hand lives with trio's."""
    fields: frozenset[str] = frozenset()
    """Annotated attributes that are shown as properties."""
    written: frozenset[str] = frozenset()
    """Those of them that users may set."""

    @property
    def name(self) -> str:
        """The name of the class."""
        return self.source.partition(":")[2]


_REPLICAS: Final = "endpoint/replicas"
_LOOP: Final = words("__aiter__ __anext__")
_READY: Final = words("is_ready await_ready take give_back")
_LATE: Final = _READY | {"late"}
_VERBS: Final = words(
    "erase clear increment decrement append insert_into remove_from push pop batch compare_and_set"
    " compare_and_erase"
)

FACES: Final = {
    face.name: face
    for face in (
        Face(f"{_REPLICAS}/stores/reading.py:Reader", copied=words("entries pages")),
        Face(
            f"{_REPLICAS}/handle.py:ReplicaHandle",
            hand=words("is_due breathe rest await_room"),
            local=words("name"),
        ),
        Face(
            f"{_REPLICAS}/stores/store_handle.py:StoreHandle",
            hand=words("ask"),
            asks=_VERBS | {"put"},
            by_hand=(("blocking", words("put_unique")),),
            bases=(("blocking", "peermesh.blocking.asking:Asking"),),
        ),
        Face(f"{_REPLICAS}/stores/store.py:ObservedStore"),
        Face(f"{_REPLICAS}/handle.py:GroupHandle"),
        Face(
            f"{_REPLICAS}/stores/session.py:Session",
            hand=words("__aenter__ __aexit__ open is_alive check give_up check_end over_with"),
            bases=(
                ("aio", "peermesh.aio.coordination:SessionBlock"),
                ("blocking", "peermesh.blocking.coordination:SessionBlock"),
            ),
        ),
        Face(f"{_REPLICAS}/stores/locks.py:Lock"),
        Face(
            f"{_REPLICAS}/stores/locks.py:Elections",
            hand=_LATE | {"forget"},
            taking=words("get"),
            copied=_LOOP,
        ),
        Face(f"{_REPLICAS}/stores/locks.py:Coordinating"),
        Face(
            f"{_REPLICAS}/stores/store.py:Store",
            local=words("is_master"),
            at_once=(("get", "runner.is_settled"),),
            by_hand=(("blocking", words("get")),),
            bases=(("blocking", "peermesh.blocking.asking:CopyReads"),),
            is_served=True,
        ),
        Face(f"{_REPLICAS}/stores/store_proxy.py:StoreProxy"),
        Face(
            f"{_REPLICAS}/stores/store.py:ReplicaStore",
            at_once=(("get", "part.has_state"),),
            is_served=True,
        ),
        Face(
            f"{_REPLICAS}/stores/events.py:Events",
            hand=_LATE | words("push end"),
            taking=words("get poll"),
            copied=_LOOP,
        ),
        Face(
            f"{_REPLICAS}/stores/watching.py:Watch",
            hand=_LATE,
            taking=words("get poll"),
            copied=_LOOP,
        ),
        Face(f"{_REPLICAS}/logs/log_handle.py:LogHandle"),
        Face(f"{_REPLICAS}/logs/log.py:Log", local=words("is_keeper")),
        Face(f"{_REPLICAS}/logs/log.py:ReplicaLog"),
        Face(
            f"{_REPLICAS}/logs/log_consumer.py:LogConsumer",
            hand=_LATE | {"take_batch"},
            taking=words("get get_batch"),
            copied=_LOOP,
        ),
        Face(
            "endpoint/pubsub/stream.py:StatusSubscriber",
            hand=_READY | words("push end is_readable"),
            local=words("poll available"),
            first=(("get", "take"),),
            taking=words("get"),
            copied=_LOOP,
            by_hand=(("blocking", words("close")),),
            bases=(("blocking", "peermesh.blocking.status:StatusReading"),),
        ),
        Face(
            "endpoint/endpoint.py:Endpoint",
            hand=words("__aenter__ __aexit__ forked shutdown read_with"),
            copied=words("subscribe"),
            is_served=True,
            is_whole=True,
            here=words("publish_batch"),
            local=words("node_id"),
            by_hand=(
                (
                    "blocking",
                    words("publish_nowait publish_batch publisher __repr__"),
                ),
            ),
            bases=(
                ("aio", "peermesh.aio.living:Life"),
                ("blocking", "peermesh.blocking.endpoint:EndpointLife"),
            ),
        ),
    )
}


@dataclass(frozen=True)
class Opening:
    """A function of trio's API that gives a context manager."""

    source: str
    """File and function."""
    takes: tuple[str, ...] = ()
    """The classes of which its first argument is one; without, it needs no endpoint."""

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.source.partition(":")[2]


@dataclass(frozen=True)
class Part:
    """What one module of a door has. Its classes may be those of the first part, too."""

    modules: tuple[tuple[str, str], ...]
    """Of each door that has it, the file."""
    faces: tuple[Face, ...] = ()
    opens: tuple[Opening, ...] = ()
    purpose: str = ""
    """The first sentence of the modules, if it is not the door's."""
    passage: tuple[str, str] | None = None
    """The module and the name of the way to what is over there, if it is not the door's."""
    shown: tuple[str, ...] = ()
    """What else users find there, module and name: it is the same in all worlds."""


_WAY: Final = ("peermesh.blocking.way", "Way")
_STANDING: Final = (("blocking", "peermesh.blocking.standing:Standing"),)
_BLOCK: Final = words("close aclose __aenter__ __aexit__")
_QOS2: Final = "peermesh/brokers/qos2"
_EDGE: Final = "peermesh/brokers/edge"
_EDGE_STANDING: Final = (("blocking", "peermesh.brokers.edge.standing:EdgeStanding"),)
_LINKS: Final = "peermesh/testing/links"

PARTS: Final = (
    Part(
        (("aio", "peermesh/aio/calls.py"), ("blocking", "peermesh/blocking/calls.py")),
        tuple(FACES.values()),
    ),
    Part(
        (("aio", "peermesh/aio/gateways.py"), ("blocking", "peermesh/blocking/gateways.py")),
        opens=(
            Opening("peermesh/gateways/__init__.py:serve_webhdfs", ("Store", "ReplicaStore")),
            Opening("peermesh/gateways/__init__.py:serve_websocket", ("Endpoint",)),
            Opening("peermesh/gateways/__init__.py:link_zeek", ("Endpoint",)),
        ),
        purpose="Gateways, and links to other systems.",
    ),
    Part(
        (("blocking", f"{_QOS2}/blocking.py"),),
        (
            Face(f"{_QOS2}/client.py:Publisher", hand=_BLOCK, bases=_STANDING, is_alone=True),
            Face(f"{_QOS2}/client.py:Consumer", hand=_BLOCK, bases=_STANDING, is_alone=True),
            Face(f"{_QOS2}/letters.py:DeadLetters"),
            Face(f"{_QOS2}/topics.py:Topics"),
            Face(
                f"{_QOS2}/broker.py:QoS2Broker",
                hand=words("serve_publisher serve_consumer recheck sweep turned_away"),
                fields=words("publisher_port consumer_port"),
            ),
        ),
        (Opening(f"{_QOS2}/broker.py:open_broker", ("Endpoint",)),),
        "The QoS-2 broker and its clients for threads and the REPL.",
        _WAY,
    ),
    Part(
        (("blocking", f"{_EDGE}/blocking.py"),),
        (
            Face(f"{_EDGE}/host.py:Broker", bases=_EDGE_STANDING, is_alone=True),
            Face(f"{_EDGE}/publisher.py:Publisher", bases=_EDGE_STANDING, is_alone=True),
            Face(
                f"{_EDGE}/subscriber.py:Subscriber",
                copied=_LOOP,
                bases=_EDGE_STANDING,
                is_alone=True,
            ),
        ),
        purpose="The edge broker and its clients for threads and the REPL.",
        passage=_WAY,
        shown=("peermesh.brokers.edge.where:Where",),
    ),
    Part(
        (("blocking", f"{_LINKS}/blocking.py"),),
        (
            Face(
                f"{_LINKS}/link.py:Link",
                hand=words("start"),
                fields=words("host port target"),
                written=words("target"),
            ),
        ),
        (Opening(f"{_LINKS}/link.py:open_link"),),
        "Links for plain tests: the same names, and calls that wait, in the portal's thread.",
        _WAY,
    ),
    Part(
        (("testing", "peermesh/testing/calls.py"),),
        (
            Face(
                f"{_REPLICAS}/stores/store_handle.py:StoreHandle",
                hand=words("ask batch"),
                asks=_VERBS | {"put"},
                bases=(("testing", "peermesh.testing.handles:HeldStore"),),
            ),
        ),
        purpose="The verbs of a store that a node holds for a test.",
    ),
)
