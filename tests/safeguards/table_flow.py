"""The safeguards of flow control that whole endpoints and processes show."""

from __future__ import annotations

from tests.safeguards.safeguard import Safeguard

_PAUSES = ("tests/endpoint/flow/test_pausing_readers.py",)
_STOPPED = ("tests/endpoint/flow/test_stopped_peer.py",)
_CANCELLED = ("tests/endpoint/flow/test_cancelled_publishes.py",)
_HELD = ("tests/endpoint/flow/test_held_messages.py",)
_EVENTS = ("tests/endpoint/flow/test_events_of_flow.py",)
_MEMORY = ("tests/endpoint/flow/test_control_memory.py",)
_LONE = ("tests/endpoint/flow/test_lone_messages.py",)
_LEGAL = ("tests/endpoint/flow/test_legal_publishes.py",)

FLOW = [
    Safeguard(
        "flow: a reader may pause for half a minute",
        "a reader that writes a batch to a slow disk loses what comes meanwhile",
        "endpoint/pubsub/queueing.py",
        "    stall_seconds: float | None = 30.0\n",
        "    stall_seconds: float | None = 5.0\n",
        _PAUSES,
    ),
    Safeguard(
        "flow: other topics than the held ones go on",
        "one slow reader stops all that its publishers send by the same link",
        "endpoint/link/holds.py",
        "            if (hold.word.is_all or header in hold.headers) and self._passes(endpoint, header)\n",
        "            if self._passes(endpoint, header)\n",
        _PAUSES,
    ),
    Safeguard(
        "flow: relays pass on what holds",
        "a slow reader behind a relay fills its reserve, and then stops the link",
        "endpoint/link/backpressure.py",
        "            if onward is not None:\n",
        "            if False:\n",
        _PAUSES,
    ),
    Safeguard(
        "flow: a publisher waits for its own next hops",
        "a peer that is stopped holds up what goes to all others",
        "endpoint/pubsub/publishing.py",
        'for connection in cast("tuple[Connection, ...]", way.hops):\n            if connection.link',
        "for connection in [each.connection for each in self._host.peerings.values()]:\n"
        "            if connection.link",
        _STOPPED,
    ),
    Safeguard(
        "flow: a message is published last of all",
        "a publish that was cancelled has sent its message, and repeating it sends two",
        "endpoint/pubsub/publishing.py",
        "        else:\n            self._put(way, payload)\n\n    async def _pause(",
        "        else:\n            self._put(way, payload)\n            await trio.lowlevel.checkpoint()\n\n"
        "    async def _pause(",
        _CANCELLED,
    ),
    Safeguard(
        "flow: what goes in spite of a hold is marked",
        "a full queue cannot tell what did not wait, and grows with it",
        "endpoint/pubsub/publishing.py",
        "        self._journal.add(way, payload)\n        self.cut(forced=True)\n",
        "        self._journal.add(way, payload)\n        self.cut()\n",
        _HELD,
    ),
    Safeguard(
        "flow: a queue without the right to hold makes no publisher wait",
        "an endpoint whose role says that publishers do not wait for it stops them by their link",
        "endpoint/endpoint.py",
        "            may_hold=self._core.permissions.may_hold(self._id),\n",
        "            may_hold=True,\n",
        _HELD,
    ),
    Safeguard(
        "flow: a word of one that may not hold is not believed",
        "an endpoint whose role says that publishers do not wait for it has them wait",
        "endpoint/link/backpressure.py",
        "        self.holds = Holds(core.routing.passes, core.permissions.may_hold, hold_seconds_max)\n",
        "        self.holds = Holds(core.routing.passes, lambda origin: True, hold_seconds_max)\n",
        _HELD,
    ),
    Safeguard(
        "flow: a publisher is told whom it waits for",
        "a publisher stands still, and nothing at its end says why",
        "endpoint/loop.py",
        "            self.emit(slow_holder_event(holder.endpoint, holder.label, topics))\n",
        "            pass\n",
        _EVENTS,
    ),
    Safeguard(
        "flow: where a reader is slow is told there",
        "a subscriber holds up its publishers or loses messages, and its own endpoint says nothing",
        "endpoint/loop.py",
        "            self.emit(slow_reader_event(self.core.local, mailbox.label, topics, is_lossy=is_lossy))\n",
        "            pass\n",
        _EVENTS,
    ),
    Safeguard(
        "flow: a slow peer is told of",
        "a link slows down what is published, and nothing says why",
        "endpoint/loop.py",
        "                self.emit(peer_slow_event(peering.peer, is_withheld=is_withheld))\n",
        "                pass\n",
        _EVENTS,
    ),
    Safeguard(
        "flow: the latest news of an endpoint replace earlier ones",
        "a program that subscribes in a loop fills the memory of its peers, and is removed",
        "endpoint/loop.py",
        "                connection.say(Announcements((each,)), each.origin)\n",
        "                connection.say(Announcements((each,)), each.origin, each.time)\n",
        _MEMORY,
    ),
    Safeguard(
        "flow: frames are no larger than the next hop takes",
        "messages that were taken end the peering with an endpoint that takes small frames",
        "endpoint/pubsub/journal.py",
        "        fitting = [hop for hop in hops if size <= hop.frame_size_max]\n",
        "        fitting = list(hops)\n",
        _LEGAL,
    ),
    Safeguard(
        "flow: relays make frames no larger than the next hop takes",
        "messages that were taken end the peering of a relay with an endpoint of small frames",
        "endpoint/loop.py",
        "        if size > onward.frame_size_max:\n",
        "        if False:\n",
        _LEGAL,
    ),
    Safeguard(
        "flow: a message alone is no larger than the next hop takes",
        "one large message ends the peering with an endpoint that takes small frames",
        "endpoint/pubsub/publishing.py",
        "        if len(frame) > hop.frame_size_max or len(payload) > PAYLOAD_SIZE_MAX:\n",
        "        if len(payload) > PAYLOAD_SIZE_MAX:\n",
        _LEGAL,
    ),
    Safeguard(
        "flow: a frame has room for the longest topic and the largest payload",
        "a message that was taken ends the peering",
        "wire/limits.py",
        "FRAME_SIZE_MAX: Final = PAYLOAD_SIZE_MAX + HEADER_SIZE_MAX + COLUMNS_SIZE_MAX\n",
        "FRAME_SIZE_MAX: Final = PAYLOAD_SIZE_MAX + COLUMNS_SIZE_MAX\n",
        _LEGAL,
    ),
    Safeguard(
        "flow: messages that do not fit are told of",
        "messages to an endpoint that takes small frames vanish without a word",
        "endpoint/loop.py",
        "        self.core.too_large.note(hop, reason, count)\n",
        "        pass\n",
        _LEGAL,
    ),
    Safeguard(
        "flow: one that may not hold has no reason to grant nothing",
        "an endpoint whose role says that publishers do not wait for it has them wait by its link",
        "endpoint/link/backpressure.py",
        "        if self._core.permissions.may_hold(peer):\n",
        "        if True:\n",
        _HELD,
    ),
    Safeguard(
        "flow: a lone message waits for no task",
        "each message of a publisher that pauses costs a change of tasks, or every other one",
        "endpoint/link/connection.py",
        "            and self.is_open\n"
        "            and (self._alone_at < 0.0 or self._now() - self._alone_at >= LONE_SECONDS)\n",
        "            and self.is_open\n"
        "            and (self._alone_at < 0.0 or self._now() - self._alone_at >= 1.0)\n",
        _LONE,
    ),
    Safeguard(
        "flow: nothing waits at a relay that may not hold",
        "a relay whose word is not believed stops the links that feed it for one slow peer",
        "endpoint/mesh/rights.py",
        "        return self.may_hold(peer) and self.may_hold(self._local)\n",
        "        return self.may_hold(peer)\n",
        _HELD,
    ),
    Safeguard(
        "flow: what a batch holds past a hold is marked",
        "a full queue grows with each batch that has waited for it as long as it may",
        "endpoint/pubsub/publishing.py",
        "            if verdict is Verdict.FORCED:\n                forced.add(key)\n",
        "            del verdict\n",
        _HELD,
    ),
    Safeguard(
        "flow: a batch waits for room",
        "batches fill a link without end",
        "endpoint/pubsub/publishing.py",
        '        if None in among or not self.has_room(cast("Iterable[Way]", among)):\n',
        "        if None in among:\n",
        ("tests/endpoint/test_mesh.py", "tests/endpoint/pubsub/test_publishing.py", *_HELD),
    ),
    Safeguard(
        "flow: what goes past a hold is heard at its own endpoint",
        "a local subscriber misses what had to wait for another endpoint",
        "endpoint/pubsub/publishing.py",
        "        self.cut(forced=True)\n        if way.here:\n",
        "        self.cut(forced=True)\n        if False:\n",
        _HELD,
    ),
]
