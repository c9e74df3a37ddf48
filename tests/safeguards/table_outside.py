"""The safeguards of what stands beside the mesh: brokers, gateways, and Spark."""

from __future__ import annotations

from tests.safeguards.safeguard import Safeguard

EDGE_BROKER = "tests/peermesh/brokers/edge/test_broker.py"

BROKERS = [
    Safeguard(
        "edge: a topic's numbers go on after a stop",
        "messages are acknowledged and dropped as repetitions of others",
        "peermesh/brokers/edge/publisher.py",
        "        self._stopped[topic] = outgoing.last\n",
        "",
        (f"{EDGE_BROKER}::test_what_is_sent_after_a_stop_is_new_to_a_broker_that_knows_the_topic",),
    ),
    Safeguard(
        "edge: the stopped topics of a publisher are limited",
        "a program that stops topic after topic has its publisher fill the memory",
        "peermesh/brokers/edge/publisher.py",
        "        if len(self._stopped) >= STOPPED_MAX:\n",
        "        if False:\n",
        (f"{EDGE_BROKER}::test_there_is_an_end_to_stopped_topics",),
    ),
    Safeguard(
        "edge: the registry answers many requests at once",
        "on a busy machine a thousand topics wait for their own channel for minutes",
        "peermesh/brokers/edge/request_queue.py",
        "self._running >= AT_ONCE_MAX or",
        "self._running >= 1 or",
        ("tests/peermesh/brokers/edge/test_request_queue.py",),
    ),
    Safeguard(
        "edge: requests for one node are in order",
        "a node that was removed comes back, because its registration was overtaken",
        "peermesh/brokers/edge/request_queue.py",
        " or ask.path in self._changing:\n",
        ":\n",
        ("tests/peermesh/brokers/edge/test_request_queue.py",),
    ),
    Safeguard(
        "edge: a suspended process reads before it judges",
        "a client that gets no time for some seconds loses all its connections",
        "peermesh/brokers/edge/line.py",
        "        for _ in range(LOOKS):\n",
        "        for _ in range(1):\n",
        (
            "tests/peermesh/brokers/edge/test_hostile.py"
            "::test_a_process_that_was_suspended_reads_before_it_takes_a_client_for_dead",
        ),
    ),
    Safeguard(
        "edge: a reader lets others run",
        "the broker takes a client that reads a lot for dead",
        "peermesh/brokers/edge/subscriber.py",
        "            if self._since_yield >= YIELD_COUNT:\n",
        "            if False:\n",
        (EDGE_BROKER + "::test_a_reader_that_has_much_to_read_lets_others_run",),
    ),
    Safeguard(
        "edge: connections are opened a few at a time",
        "on a busy machine a client's connections all time out together, again and again",
        "peermesh/brokers/edge/client.py",
        "        held = [self._opening] if topic != DEFAULT else []\n",
        "        held: list[trio.Semaphore] = []\n",
        (EDGE_BROKER + "::test_a_client_opens_so_many_connections_at_once_and_no_more",),
    ),
    Safeguard(
        "nobody waits in a circle",
        "two modules that publish to each other stop for ever",
        "peermesh/brokers/modules/switchboard.py",
        "            if seat is worker:\n                return False\n",
        "            if seat is worker:\n                return True\n",
        ("tests/peermesh/brokers/modules/test_switchboard.py",),
    ),
    Safeguard(
        "a length alone makes no room",
        "four bytes of a module's process take 16 MiB of its broker",
        "peermesh/brokers/modules/pipe.py",
        "self._input.read(min(size, PIECE_SIZE))",
        "self._input.read(size)",
        ("tests/peermesh/brokers/modules/test_pipe.py",),
    ),
    Safeguard(
        "full inboxes hold publishers up",
        "the inbox of a slow module fills the memory",
        "peermesh/brokers/modules/switchboard.py",
        "            elif self._must_wait(sink, worker):\n                return Verdict.WAIT\n",
        "",
        ("tests/peermesh/brokers/modules/test_broker.py",),
    ),
    Safeguard(
        "PUBREL waits for the disk",
        "a consumer is told that a message never comes again, and a crash brings it again",
        "peermesh/brokers/qos2/consumer_session.py",
        "        self._phase = Phase.COMMITTING\n        return [Wait(None), Commit(delivery)]",
        "        return [Commit(delivery), *self.committed()]",
        ("tests/peermesh/brokers/qos2/test_consumer_session.py",),
    ),
    Safeguard(
        "cursors are fenced by the login",
        "a connection that was taken over moves the cursor of its successor",
        "peermesh/brokers/qos2/shelf.py",
        """        fenced = Batch().if_value(f"session/{consumer}", token)
        return fenced""",
        """        fenced = Batch()
        return fenced""",
        ("tests/peermesh/brokers/qos2/test_broker.py",),
    ),
    Safeguard(
        "burials are marked first",
        "a message is a dead letter, and delivered too",
        "peermesh/brokers/qos2/shelf.py",
        "        await self._do(fenced.put(_mark(consumer, topic), mark))\n",
        "",
        ("tests/peermesh/brokers/qos2/test_broker.py",),
    ),
    Safeguard(
        "lines of a body are stuffed",
        "a payload ends where it says END",
        "peermesh/brokers/qos2/lines.py",
        "line.startswith(DOT) or is_end(line)",
        "line.startswith(DOT)",
        ("tests/peermesh/brokers/qos2/test_lines.py",),
    ),
]

GATEWAYS = [
    Safeguard(
        "a rename refuses to overwrite",
        "two drivers of Spark on one checkpoint both believe that they were first",
        "peermesh/gateways/webhdfs/changes.py",
        "        batch.if_absent(key)\n",
        "        pass\n",
        ("tests/peermesh/gateways/webhdfs/test_gateway.py",),
    ),
    Safeguard(
        "a rename whose answer was lost may be asked again",
        "a query of Spark fails when a gateway dies between a rename and its answer",
        "peermesh/gateways/webhdfs/changes.py",
        "        if target is not None and target.came_from == path_text(path):\n",
        "        if False:\n",
        ("tests/peermesh/gateways/webhdfs/test_gateway.py",),
    ),
    Safeguard(
        "directories do not move into each other",
        "two moves at once cut a whole tree of files off from the root",
        "peermesh/gateways/webhdfs/changes.py",
        "        _guard_way(batch, destination, above)\n",
        "        pass\n",
        ("tests/peermesh/gateways/webhdfs/test_gateway.py",),
    ),
    Safeguard(
        "uploads that are cut are given up",
        "each broken connection leaves the chunks of a file in the store for ever",
        "peermesh/gateways/webhdfs/service.py",
        "            self._abandon(upload)\n",
        "            pass\n",
        ("tests/peermesh/gateways/webhdfs/test_gateway.py",),
    ),
    Safeguard(
        "a gateway reads what any gateway has answered",
        "Spark reads a checkpoint that is older than what it was told",
        "peermesh/gateways/webhdfs/service.py",
        "            return await self._store.at_master().get(children_key(0))\n",
        "            return self.tree.view.get(children_key(0))\n",
        ("tests/peermesh/gateways/webhdfs/test_groups.py",),
    ),
    Safeguard(
        "uploads of a gateway that lives are left to it",
        "a second gateway collects the chunks of a file that the first one still takes in",
        "peermesh/gateways/webhdfs/collection.py",
        "        if view.get(gateway_key(str(uploader))) is None:\n",
        "        if True:\n",
        ("tests/peermesh/gateways/webhdfs/test_gateway.py",),
    ),
]

SPARK = [
    Safeguard(
        "a table of Spark is of one moment",
        "a query adds up what was moved from one account to another twice, or not at all",
        "peermesh/spark/tables.py",
        "        if page.revision != first.revision:\n            return None\n",
        "",
        ("tests/peermesh/spark/test_tables.py",),
    ),
    Safeguard(
        "a table of Spark is level with the master",
        "a query reads what was there before its own job wrote",
        "peermesh/spark/tables.py",
        "    reader = membership.store(name).not_before(since)\n",
        "    reader = membership.store(name).not_before(0)\n",
        ("tests/peermesh/spark/test_tables.py",),
    ),
    Safeguard(
        "a sink publishes a batch once",
        "a batch that Spark repeats appends its rows again",
        "peermesh/spark/publication.py",
        "    if batch <= publisher.mark.batch:\n        return False\n",
        "",
        ("tests/peermesh/spark/test_publication.py",),
    ),
    Safeguard(
        "a sink completes what was decided on",
        "of a large batch whose writer was killed some pieces never appear",
        "peermesh/spark/publication.py",
        "    publisher = _Publisher(store, query, seconds)\n    publisher.complete()\n",
        "    publisher = _Publisher(store, query, seconds)\n",
        ("tests/peermesh/spark/test_killed_writers.py",),
    ),
    Safeguard(
        "each partition of a log has a producer of the sink's own",
        "a batch that was cut between two partitions is not completed, or doubled",
        "peermesh/spark/publication.py",
        """(f"{query}/{partition}", partition)""",
        """(query, partition)""",
        ("tests/peermesh/spark/test_publication.py",),
    ),
    Safeguard(
        "a ledger does a batch once",
        "a driver that is killed before Spark notes a batch counts it twice",
        "peermesh/spark/ledger.py",
        "        if batch <= last_batch(last):\n            return\n",
        "",
        ("tests/peermesh/spark/test_killed_writers.py",),
    ),
]
