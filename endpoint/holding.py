"""Who is held up by whom: links whose data found a full mailbox or a full outbox get no credit."""

from __future__ import annotations

from endpoint.connection import Connection


class Holding:
    """The links that each full target holds up, and their release."""

    def __init__(self) -> None:
        """Begin with nobody held."""
        self._held: dict[object, dict[Connection, None]] = {}

    def hold(self, connection: Connection, target: object) -> None:
        """Grant no credit to this link until the target has room."""
        if connection.inflow.block(target):
            self._held.setdefault(target, {})[connection] = None

    def is_holding(self, target: object) -> bool:
        """Tell whether somebody waits for this target."""
        return target in self._held

    def release(self, target: object) -> tuple[Connection, ...]:
        """The target has room, or is gone; give the links that it held, which may be due credit."""
        held = tuple(self._held.pop(target, ()))
        for connection in held:
            connection.inflow.unblock(target)
        return held

    def forget(self, connection: Connection) -> None:
        """The link is gone."""
        for target in [target for target, held in self._held.items() if connection in held]:
            del self._held[target][connection]
            if not self._held[target]:
                del self._held[target]
