"""Mistakes of a caller, for tests of both APIs: each raises at the call, and ends nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

from stores.batch import Batch
from tests.odd import Evil

NOWHERE = "no.such.host.invalid"


class Double:
    """Gives itself, whatever it is asked for, as mocks do."""

    def node_id(self) -> object:
        return self


class Mistake(NamedTuple):
    """A call with a wrong argument."""

    name: str
    call: Callable[[SimpleNamespace], Any]
    """Makes the mistake with the handles that a test has: ``a``, peered with ``b``, and so on."""
    says: str
    """What the error names, as a regular expression."""


def _of_messages() -> list[Mistake]:
    return [
        Mistake("publish to text", lambda k: k.a.publish("/t", 1, to="x" * 36), "to="),
        Mistake("publish to a number", lambda k: k.a.publish("/t", 1, to=5), "to="),
        Mistake("publish to a list", lambda k: k.a.publish("/t", 1, to=[k.b]), "to="),
        Mistake("publish bytes to bytes", lambda k: k.a.publish("/t", b"x", to=b"short"), "to="),
        Mistake("publish_nowait to", lambda k: k.a.publish_nowait("/t", 1, to="abc"), "to="),
        Mistake("publisher to", lambda k: k.publisher.publish(1, to="x"), "to="),
        Mistake("publisher nowait to", lambda k: k.publisher.publish_nowait(1, to=5), "to="),
        Mistake("publish on a number", lambda k: k.a.publish(5, 1), "topic"),
        Mistake("publish on a list", lambda k: k.a.publish(["/t"], 1), "topic"),
        Mistake("publish an object", lambda k: k.a.publish("/t", object()), "object"),
        Mistake("publish too much", lambda k: k.a.publish("/t", bytes(2**24 + 1)), "allowed"),
        Mistake("publish_batch of a pair", lambda k: k.a.publish_batch(("/t", 1)), "pair"),
        Mistake("publish_batch with text", lambda k: k.a.publish_batch([("/t", 1), "ab"]), "pair"),
        Mistake("publish to a class", lambda k: k.a.publish("/t", 1, to=type(k.a)), "to="),
        Mistake("publish to a double", lambda k: k.a.publish("/t", 1, to=Double()), "to="),
        Mistake("subscribe to tables", lambda k: k.a.subscribe({"/t": 1}), "topic"),
        Mistake("publish_batch of text", lambda k: k.a.publish_batch(["/t"]), "pair"),
        Mistake("publish_batch of a number", lambda k: k.a.publish_batch(5), "batch="),
        Mistake("publish_batch alone", lambda k: k.a.publish_batch("ab"), "batch="),
        Mistake("publisher batch", lambda k: k.publisher.publish_batch(b"ab"), "batch="),
        Mistake("publisher on a number", lambda k: k.a.publisher(5), "topic"),
        Mistake("subscribe to nothing", lambda k: k.a.subscribe(), "at least one"),
        Mistake("subscribe to a number", lambda k: k.a.subscribe(5), "topic"),
        Mistake("subscribe to a wildcard", lambda k: k.a.subscribe("/a/*"), "prefixes"),
        Mistake("queue_size of text", lambda k: k.a.subscribe("/t", queue_size="x"), "queue_size"),
        Mistake("queue_size of 0", lambda k: k.a.subscribe("/t", queue_size=0), "queue_size"),
        Mistake("forward nothing", lambda k: k.a.forward(), "at least one"),
        Mistake("add_topic", lambda k: k.subscriber.add_topic(5), "topic"),
        Mistake("remove_topic", lambda k: k.subscriber.remove_topic(5), "topic"),
        Mistake("get for text", lambda k: k.subscriber.get("x"), "timeout="),
        Mistake("get for less than nothing", lambda k: k.subscriber.get(-1), "timeout="),
        Mistake("get_batch for text", lambda k: k.subscriber.get_batch("x"), "timeout="),
        Mistake("status get", lambda k: k.status.get("x"), "timeout="),
        Mistake("get without an end", lambda k: k.subscriber.get(math.nan), "timeout="),
    ]


def _of_the_mesh() -> list[Mistake]:
    stranger = b"\x05" * 16
    return [
        Mistake("peer without a port", lambda k: k.a.peer("127.0.0.1"), "ticket|port"),
        Mistake("peer at text", lambda k: k.a.peer("127.0.0.1", "99x", 0), "port="),
        Mistake("peer at a fraction", lambda k: k.a.peer("127.0.0.1", 9999.0), "port="),
        Mistake("peer at 0", lambda k: k.a.peer("127.0.0.1", 0), "port="),
        Mistake("peer at 70000", lambda k: k.a.peer("127.0.0.1", 70_000, 0), "port="),
        Mistake("peer with no host", lambda k: k.a.peer(None, 1, 0), "address="),
        Mistake("peer with text as retry", lambda k: k.a.peer("127.0.0.1", 1, "x"), "retry="),
        Mistake("peer with a negative retry", lambda k: k.a.peer("127.0.0.1", 1, -1), "retry="),
        Mistake("peer for text", lambda k: k.a.peer("127.0.0.1", 1, timeout="1"), "timeout="),
        Mistake("unpeer nothing", lambda k: k.a.unpeer(None, None), "address="),
        Mistake("unpeer text", lambda k: k.a.unpeer("127.0.0.1", "x"), "port="),
        Mistake("listen at 70000", lambda k: k.a.listen("127.0.0.1", 70_000), "port="),
        Mistake("listen at a number", lambda k: k.a.listen(5), "address="),
        Mistake("listen nowhere", lambda k: k.a.listen(NOWHERE), "."),
        Mistake("peer with two ports", lambda k: k.a.peer("127.0.0.1:1", 2), "give one"),
        Mistake("await_peer with no repr", lambda k: k.a.await_peer(Evil()), "node_id="),
        Mistake(
            "await_peer twice", lambda k: k.a.await_peer(stranger, 5, timeout=3), "one timeout"
        ),
        Mistake("await_peer a number", lambda k: k.a.await_peer(5, timeout=0.2), "node_id="),
        Mistake("await_peer text", lambda k: k.a.await_peer("xx", 1), "node_id="),
        Mistake("await_peer for text", lambda k: k.a.await_peer(stranger, timeout="x"), "timeout="),
        Mistake("await_peer no callback", lambda k: k.a.await_peer(stranger, callback=5), "callb"),
        Mistake("await_subscribed nothing", lambda k: k.a.await_subscribed(None), "topic"),
        Mistake("await_subscribed by 0", lambda k: k.a.await_subscribed("/t", 0), "count="),
        Mistake("await_subscribed for text", lambda k: k.a.await_subscribed("/t", 1, "x"), "time"),
        Mistake("shutdown for text", lambda k: k.a.shutdown("x"), "grace="),
    ]


def _of_stores() -> list[Mistake]:
    return [
        Mistake("master with no name", lambda k: k.a.attach_master(5), "name="),
        Mistake(
            "master of text", lambda k: k.a.attach_master("s", "postgres"), "memory and sqlite"
        ),
        Mistake("master replicas", lambda k: k.a.attach_master("s", replicas=1), "attach_replica"),
        Mistake("clone stale", lambda k: k.a.attach_clone("s", stale_interval="x"), "stale_inter"),
        Mistake(
            "clone buffer", lambda k: k.a.attach_clone("s", mutation_buffer_interval=-1), "mutation"
        ),
        Mistake("proxy name", lambda k: k.a.attach_proxy(None), "name="),
        Mistake("put for text", lambda k: k.store.put("k", 1, "x"), "expiry"),
        Mistake("put for no number", lambda k: k.clone.put("k", 1, math.nan), "expiry"),
        Mistake("put for ever", lambda k: k.proxy.put("k", 1, math.inf), "expiry"),
        Mistake("put beyond all time", lambda k: k.store.put("k", 1, 1e300), "expiry"),
        Mistake("put for true", lambda k: k.store.put("k", 1, True), "expiry"),
        Mistake("put an object", lambda k: k.store.put("k", object()), "object"),
        Mistake("compare with text", lambda k: k.store.compare_and_set("k", 1, "x"), "revision"),
        Mistake("a batch that is a list", lambda k: k.store.batch([("put", "a", 1)]), "batch="),
        Mistake("a guard of text", lambda k: Batch().if_revision("k", "x"), "revision"),
        Mistake("scan no limit", lambda k: k.store.scan(limit=0), "limit="),
        Mistake("scan after text", lambda k: k.clone.scan(after="x"), "after="),
        Mistake("scan a number", lambda k: k.proxy.scan(prefix=5), "."),
        Mistake("events of a number", lambda k: k.store.events(prefix=5), "."),
        Mistake("events queue", lambda k: k.store.events(queue_size=0), "queue_size="),
        Mistake("events get", lambda k: k.events.get("x"), "timeout="),
        Mistake("watch from text", lambda k: k.store.watch(from_revision="x"), "from_revision="),
        Mistake("watch a number", lambda k: k.store.watch(keys=5), "keys="),
        Mistake("watch one key", lambda k: k.store.watch(keys="ab"), "keys="),
        Mistake("watch get", lambda k: k.watch.get("x"), "timeout="),
        Mistake("not_before text", lambda k: k.store.not_before("x"), "revision"),
        Mistake("idle for text", lambda k: k.clone.await_idle("x"), "timeout="),
        Mistake("verify for text", lambda k: k.store.verify("x"), "timeout="),
        Mistake("promote to text", lambda k: k.clone.promote("postgres"), "memory and sqlite"),
        Mistake("receipt for text", lambda k: k.receipt.result("x"), "timeout="),
        Mistake("receipt callback", lambda k: k.receipt.when_resolved(5), "callback="),
    ]


def _of_logs() -> list[Mistake]:
    return [
        Mistake("log with no name", lambda k: k.a.attach_log(5), "name="),
        Mistake("log of numbers", lambda k: k.a.attach_log("l", [5]), "topic"),
        Mistake("log in parts", lambda k: k.a.attach_log("l", partitions="2"), "partitions="),
        Mistake("log copies", lambda k: k.a.attach_log("l", replicas=-1), "replicas="),
        Mistake("log clone", lambda k: k.a.attach_log_clone("l", patience="x"), "patience="),
        Mistake("log voters", lambda k: k.a.attach_log_replica("l", voters=[5]), "voters="),
        Mistake("log of parts", lambda k: k.a.attach_log_replica("l", partitions=0), "partitions="),
        Mistake("log proxy", lambda k: k.a.attach_log_proxy("l", patience=-1), "patience="),
        Mistake("append to text", lambda k: k.log.append(1, partition="a"), "partition="),
        Mistake("append to nowhere", lambda k: k.log.append(1, partition=7), "partitions"),
        Mistake(
            "append in sequence", lambda k: k.log.append(1, producer="p", sequence="x"), "sequence="
        ),
        Mistake("append_batch of text", lambda k: k.log.append_batch("abc"), "values="),
        Mistake("append_batch alone", lambda k: k.log.append_batch(5), "values="),
        Mistake("append_entries", lambda k: k.log.append_entries(5, partition=0), "entries="),
        Mistake("append an object", lambda k: k.log.append(object()), "object"),
        Mistake("read text", lambda k: k.log.read("x", "y"), "partition="),
        Mistake("read before it begins", lambda k: k.log.read(0, -1), "offset="),
        Mistake("read for text", lambda k: k.log.read(0, 0, timeout="x"), "timeout="),
        Mistake("trim text", lambda k: k.log.trim(0, "x"), "offset="),
        Mistake("offset at text", lambda k: k.log.offset_at(0, "now"), "when="),
        Mistake("commit for nothing", lambda k: k.log.commit(None, {0: 1}), "name"),
        Mistake("commit a list", lambda k: k.log.commit("c", [1]), "positions="),
        Mistake("commit text", lambda k: k.log.commit("c", {0: "x"}), "positions="),
        Mistake("lag of a number", lambda k: k.log.lag(5), "name"),
        Mistake("consume from text", lambda k: k.log.consume(start="earliest"), "Start.EARLIEST"),
        Mistake("consume as a number", lambda k: k.log.consume(5), "name"),
        Mistake("consume parts", lambda k: k.log.consume(partitions=["x"]), "partitions="),
        Mistake("consume a part", lambda k: k.log.consume(partitions=1), "partitions="),
        Mistake("consumer get", lambda k: k.consumer.get("x"), "timeout="),
        Mistake("consumer get_batch", lambda k: k.consumer.get_batch(0), "limit="),
        Mistake("consumer seek", lambda k: k.consumer.seek("x", 0), "partition="),
        Mistake("log idle for text", lambda k: k.log.await_idle("x"), "timeout="),
    ]


MISTAKES = [*_of_messages(), *_of_the_mesh(), *_of_stores(), *_of_logs()]
