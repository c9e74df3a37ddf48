"""What a person does about a store that was taken over: it is to have one master, that all hear."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final, TypeAlias

import trio

from peermesh.testing.simulation import HostDown
from peermesh.testing.swarm.led_holder import LedHolder
from peermesh.testing.swarm.node import Node
from peermesh.testing.swarm.plan import Plan
from peermesh.testing.swarm.records import Records
from peermesh.testing.swarm.troubles import Troubles

ALONE_SECONDS: Final = 5.0
"""How long something is wrong before a person does something about it."""

Held: TypeAlias = tuple[LedHolder, Node]


class Person:
    """Looks at the store now and then. Nothing is done before one was promoted."""

    def __init__(
        self, plan: Plan, nodes: Sequence[Node], records: Records, troubles: Troubles
    ) -> None:
        """Watch over the members that have the store."""
        self._nodes = nodes
        self._records = records
        self._troubles = troubles
        holding = [
            at for at, each in enumerate(plan.members) if each.has_clone or at == plan.master
        ]
        self._central = {
            node.index
            for node in nodes
            if all(plan.distances(node.index)[at] <= plan.ttl for at in holding)
        }
        """Members that all of them can hear."""
        self._well_at = 0.0
        """When all was seen to be well last."""

    async def look(self) -> None:
        """End what is of another store than the heir's, or have one lead where none does.

        Two masters of the same store are for the mesh to settle.
        """
        held = [(node.led, node) for node in self._nodes if node.is_there and node.led is not None]
        leaders = [(holder, node) for holder, node in held if holder.is_leader]
        surplus = self._surplus(held, leaders)
        is_led = len(leaders) < 2 and any(holder.is_in_touch for holder, _ in held)
        if self._records.heir is None or (is_led and not surplus):
            self._well_at = trio.current_time()
        if trio.current_time() - self._well_at < ALONE_SECONDS:
            return
        for holder, node in surplus:
            with suppress(HostDown):
                await node.host.run(holder.give_way)
        if not leaders:
            await self._have_one_lead(held)

    def _surplus(self, held: Sequence[Held], leaders: Sequence[Held]) -> list[Held]:
        """Give masters of another store than the heir's, and clones of a store without a master."""
        groups = {holder.group for holder, _ in leaders}
        masters = [
            (holder, node)
            for holder, node in (leaders if len(groups) > 1 else ())
            if node.index != self._records.heir
        ]
        clones = [
            (holder, node)
            for holder, node in held
            if groups and not holder.is_in_touch and holder.group not in (None, *groups)
        ]
        return masters + clones

    async def _have_one_lead(self, held: Sequence[Held]) -> None:
        """Have the clone lead that has most, or a member begin anew if nothing is left."""
        central = [(holder, node) for holder, node in held if node.index in self._central]
        shown = ((holder.table(), node) for holder, node in central)
        found = [(table[0], node.index) for table, node in shown if table is not None]
        if found:
            _, best = max(found)
            await self._troubles.promote(self._nodes[best])
        elif central:
            holder, node = central[0]
            with suppress(HostDown):
                await node.host.run(holder.begin_anew)
            self._well_at = trio.current_time()
