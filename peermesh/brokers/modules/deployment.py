"""Makes a broker be as a layout says, and follow it when it changes."""

from __future__ import annotations

from typing import Any

from peermesh.blocking.calls import Endpoint
from peermesh.brokers.modules.broker import ModuleBroker
from peermesh.brokers.modules.factory import make
from peermesh.brokers.modules.layout import Changes, Layout, LayoutError, ModulePlan
from peermesh.brokers.modules.mesh import MeshModule
from peermesh.brokers.modules.process import ProcessModule


class Deployment:
    """The modules and links of one broker that come from layouts."""

    def __init__(self, broker: ModuleBroker, endpoint: Endpoint | None = None) -> None:
        """Start without modules; those without a class join the bus to ``endpoint``."""
        self._broker = broker
        self._endpoint = endpoint
        self.layout = Layout.empty()

    def apply(self, layout: Layout) -> Changes:
        """Do what leads to a layout, and say what that was.

        What is new is made before anything is touched: a class that cannot be made changes nothing.
        No message is lost on its way to a module that stays or is replaced: what comes until the
        new one begins, it receives then. A module that has left by itself, or could not attach, is
        added again. Raises ``LayoutError`` and ``InvalidArgument``.
        """
        present = {each.name for each in self._broker.modules()}
        changes = layout.changes_from(self.layout.only(present))
        replaced = [(plan, self._make(plan)) for plan in changes.replace]
        added = [(plan, self._make(plan)) for plan in changes.add]
        for link in changes.unlink:
            self._broker.remove_link(*link.ends)
        for name in changes.remove:
            self._broker.remove_module(name)
        for plan, module in replaced:
            self._broker.replace_module(plan.name, module, inbox_size=plan.inbox_size, start=False)
        for plan, module in added:
            self._broker.add_module(module, plan.name, inbox_size=plan.inbox_size, start=False)
        for link in changes.change:
            self._broker.change_link(*link.ends, link.policy)
        for link in changes.link:
            self._broker.add_link(*link.ends, link.policy)
        self.layout = layout
        # With all their links: what a module publishes in attach() goes along them.
        self._broker.start()
        return changes

    def _make(self, plan: ModulePlan) -> Any:  # noqa: ANN401 - any class of the user's
        if plan.path is None:
            if self._endpoint is None:
                raise LayoutError(f"[modules.{plan.name}] joins the mesh: give an endpoint, too")
            return MeshModule(self._endpoint, publishes=plan.publishes, subscribes=plan.subscribes)
        if plan.is_process:
            return ProcessModule(plan.path, **plan.arguments)
        return make(plan.path, plan.arguments)
