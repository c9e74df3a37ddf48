"""What nodes ask of each other beside the protocol: promotions."""

from __future__ import annotations

import trio

from peermesh import Endpoint
from peermesh.cli.control import CONTROL_TOPIC, Promoter
from peermesh.testing.time_limits import limit


async def test_who_asks_for_an_answer_where_none_can_be_ends_no_node(caplog):
    async with Endpoint() as node, Endpoint() as asking, trio.open_nursery() as nursery:
        port = await node.listen()
        nursery.start_soon(Promoter(node).serve, node.subscribe(CONTROL_TOPIC))
        with asking.subscribe("answers") as answers:
            await asking.peer("127.0.0.1", port)
            for topic in ("<$>/answers", "answers"):
                await asking.publish(CONTROL_TOPIC, ("table", False, topic))
            _, answer = await answers.get(timeout=limit())
        assert answer == (False, f"node {node.node_id()} has no copy of table")
        assert "reserved" in caplog.text
        nursery.cancel_scope.cancel()
