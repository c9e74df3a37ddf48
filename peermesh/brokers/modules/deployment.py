"""Makes a broker be as a layout says, and follow it when it changes."""

from __future__ import annotations

from typing import Any

from peermesh.blocking.endpoint import Endpoint
from peermesh.brokers.modules.broker import ModuleBroker
from peermesh.brokers.modules.factory import make
from peermesh.brokers.modules.layout import Changes, Layout, LayoutError, ModulePlan
from peermesh.brokers.modules.mesh import MeshModule
from peermesh.brokers.modules.process import ProcessModule


class Deployment:
    """The modules and links of one broker that come from layouts."""

    def __init__(self, broker: ModuleBroker, endpoint: Endpoint | None = None) -> None:
        """Begin with none; ``endpoint`` is what modules without a class join the bus to."""
        self._broker = broker
        self._endpoint = endpoint
        self.layout = Layout.empty()

    def apply(self, layout: Layout) -> Changes:
        """Do what leads to a layout, and say what that was.

        What is new is made before anything is touched: a class that cannot be made changes nothing.
        Messages on their way to a module that stays are not lost. Raises ``LayoutError`` and
        ``InvalidArgument``.
        """
        changes = layout.changes_from(self.layout)
        made = [(plan, self._make(plan)) for plan in changes.add]
        for link in changes.unlink:
            self._broker.remove_link(link.source, link.sink)
        for name in changes.remove:
            self._broker.remove_module(name)
        for plan, module in made:
            self._broker.add_module(module, plan.name, inbox_size=plan.inbox_size)
        for link in changes.link:
            self._broker.add_link(link.source, link.sink, link.policy)
        self.layout = layout
        return changes

    def _make(self, plan: ModulePlan) -> Any:  # noqa: ANN401 - any class of the user's
        if plan.path is None:
            if self._endpoint is None:
                raise LayoutError(f"[modules.{plan.name}] joins the mesh: give an endpoint, too")
            return MeshModule(self._endpoint, publishes=plan.publishes, subscribes=plan.subscribes)
        if plan.is_process:
            return ProcessModule(plan.path, **plan.arguments)
        return make(plan.path, plan.arguments)
