"""Links of worlds with real TCP: each is a proxy in front of the port that a node dials.

All links of a cluster are proxied from the beginning, since a connection that stands cannot be led
through one later. That costs a link some microseconds a message and four descriptors in the test's
process; ``direct=True`` does without.
"""

from __future__ import annotations

import zlib

import trio

from peermesh.testing.links import Link, open_link
from peermesh.testing.worlds.world import DirectLink, LinkControl, World, loopback_address


class TcpWorld(World):
    """A world of real TCP on loopback."""

    def address(self, name: str) -> str:
        """Give a loopback address of this process's own."""
        return loopback_address()

    async def link(
        self, dials: str, listens: str, target: tuple[str, int], *, direct: bool
    ) -> tuple[LinkControl, tuple[str, int]]:
        """Put a proxy in front of the target."""
        if direct:
            return DirectLink(self.name), target
        link = await self.nursery.start(
            self._carry, dials, listens, target, name=f"link {dials}-{listens}"
        )
        return link, (link.host, link.port)

    async def _carry(
        self,
        dials: str,
        listens: str,
        target: tuple[str, int],
        *,
        task_status: trio.TaskStatus[Link],
    ) -> None:
        # Each link has its own chance, and the same one in each run.
        seed = zlib.crc32(f"{self.seed} {dials} {listens}".encode())
        async with open_link(*target, host=self.address(dials), seed=seed) as link:
            task_status.started(link)
            await self.closing.wait()
