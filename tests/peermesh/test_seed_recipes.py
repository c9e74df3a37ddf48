"""The recipes of seed 7.6, word for word but for the module's name."""

import threading
import unittest
from collections.abc import Callable

from peermesh import blocking as broker
from peermesh.testing.time_limits import limit

# fmt: off


class Recipes(unittest.TestCase):
    """Seed 7.6, word for word but for the module's name."""

    def run_tri_setup(self, f: Callable[..., None]) -> None:
        with broker.Endpoint() as ep0, \
             broker.Endpoint() as ep1, \
             broker.Endpoint() as ep2, \
             ep0.attach_master("test", broker.Backend.Memory) as m, \
             ep1.attach_clone("test") as c1, \
             ep2.attach_clone("test") as c2:

            # connect the nodes
            port = ep0.listen("127.0.0.1", 0)
            self.assertTrue(ep1.peer("127.0.0.1", port))
            self.assertTrue(ep2.peer("127.0.0.1", port))

            # wait until the nodes are fully connected
            self.assertTrue(ep0.await_peer(ep1.node_id()))
            self.assertTrue(ep0.await_peer(ep2.node_id()))
            self.assertTrue(ep1.await_peer(ep0.node_id()))
            self.assertTrue(ep2.await_peer(ep0.node_id()))

            # wait until the clones have connected to the master
            self.assertTrue(c1.await_idle())
            self.assertTrue(c2.await_idle())

            f(m, c1, c2)

    def test_the_recipe_runs_as_written(self) -> None:
        def f(m: broker.Store, c1: broker.Store, c2: broker.Store) -> None:
            m.put("e", "master")
            self.assertTrue(m.await_idle())
            self.assertEqual(c1.get("e"), "master")
            self.assertEqual(c2.get("e"), "master")

        self.run_tri_setup(f)

    def test_put_and_await_idle_put_everything_in_sync(self) -> None:
        def f(m: broker.Store, c0: broker.Store, c1: broker.Store) -> None:
            c0.put("foo", "bar")
            if not c0.await_idle():
                self.fail("timeout")
            if not m.await_idle():
                self.fail("timeout")
            for store in (m, c0, c1):
                self.assertEqual(store.get("foo"), "bar")

        self.run_tri_setup(f)

    def test_await_idle_calls_back(self) -> None:
        def f(m: broker.Store, c0: broker.Store, c1: broker.Store) -> None:
            told: list[bool] = []
            done = threading.Event()
            c0.put("foo", "bar")
            c0.await_idle(lambda outcome: (told.append(bool(outcome)), done.set()))
            self.assertTrue(done.wait(limit()))
            self.assertEqual(told, [True])

        self.run_tri_setup(f)

    def test_one_of_all_puts_of_a_unique_key_succeeds(self) -> None:
        def f(m: broker.Store, c1: broker.Store, c2: broker.Store) -> None:
            won: list[int] = []

            def attempt(number: int, store: broker.Store) -> None:
                if store.put_unique("u", number):
                    won.append(number)

            threads = [
                threading.Thread(target=attempt, args=(number, store))
                for number, store in enumerate([m, c1, c2] * 9)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(limit())
            self.assertEqual(len(won), 1)
            self.assertEqual(m.get("u"), won[0])

        self.run_tri_setup(f)
