"""The safeguards against peers and clients that mean ill."""

from __future__ import annotations

from tests.safeguards.safeguard import Safeguard

FLOODS = "tests/endpoint/test_hostile_floods.py"
EDGE = "tests/peermesh/brokers/edge/test_hostile.py"
WEBHDFS = "tests/peermesh/gateways/webhdfs/test_hostile.py"

HOSTILE = [
    Safeguard(
        "entries of a value",
        "sixteen megabytes from a peer make two gigabytes of memory",
        "wire/decoding.py",
        "    if len(encoded) > VALUE_ENTRIES_MAX:  # as each takes a byte at least\n",
        "    if False:\n",
        ("tests/wire/test_value_shape.py",),
    ),
    Safeguard(
        "crumbs are joined",
        "a frame that comes in crumbs takes thirty times its size",
        "wire/framing.py",
        "            if self._chunks and len(self._chunks[-1]) < CHUNK_SIZE_MIN:\n",
        "            if False:\n",
        ("tests/wire/test_framing.py",),
    ),
    Safeguard(
        "numbers that come backwards",
        "a peer makes us remember its numbers without end",
        "endpoint/duplicates.py",
        "            self._ends.insert(run + 1, sequence)\n            self._forget_oldest()\n",
        "            self._ends.insert(run + 1, sequence)\n",
        ("tests/endpoint/test_duplicates.py",),
    ),
    Safeguard(
        "bytes of routes",
        "giant headers fill half a gigabyte",
        "endpoint/core.py",
        " or size > ROUTES_SIZE_MAX:\n",
        ":\n",
        (
            "tests/endpoint/test_core_property.py::test_routes_of_giant_headers_are_bounded_by_their_bytes",
        ),
    ),
    Safeguard(
        "bytes of strangers",
        "a thousand strangers fill four gigabytes",
        "endpoint/greeting.py",
        "        if sum(sizes.values()) > STRANGERS_SIZE_MAX:\n",
        "        if False:\n",
        (FLOODS + "::test_strangers_with_much_to_say_make_room_for_each_other",),
    ),
    Safeguard(
        "credit is withheld beyond a rate",
        "one peer sends as much as it likes",
        "endpoint/throttle.py",
        "            self._holding.hold(connection, gauge)\n",
        "            pass\n",
        (FLOODS + "::test_a_peer_beyond_its_rate_waits_for_credit_and_loses_nothing",),
    ),
    Safeguard(
        "what has no credit is read later",
        "a flood of commands or announcements takes all of an endpoint's time",
        "endpoint/gauge.py",
        "        return min(PAUSE_SECONDS_MAX, max(0.0, late))\n",
        "        return 0.0\n",
        ("tests/endpoint/test_gauge.py",),
    ),
    Safeguard(
        "connections leave files to others",
        "a crowd of connections takes all files of the process",
        "net/network.py",
        "    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)\n",
        "    soft = FILES_DEFAULT\n",
        (FLOODS + "::test_5000_idle_connections_are_no_more_than_there_is_room_for",),
    ),
    Safeguard(
        "a snapshot brings something new with each chunk",
        "a clone takes a snapshot for ever",
        "stores/snapshots.py",
        "        if len(columns.values) != size:\n",
        "        if False:\n",
        ("tests/stores/test_snapshots.py",),
    ),
    Safeguard(
        "edge: a publisher has one name",
        "one publisher has the windows of ten thousand, and numbers of others",
        "peermesh/brokers/edge/guests.py",
        "            if read_header(message.header)[1] != self.client:\n",
        "            if False:\n",
        (EDGE,),
    ),
    Safeguard(
        "edge: numbers end",
        "one frame ends the broker",
        "peermesh/brokers/edge/channel.py",
        "        if first + count > INTEGER_MAX:\n",
        "        if False:\n",
        (EDGE,),
    ),
    Safeguard(
        "edge: a mistake ends one connection",
        "whatever goes wrong in one connection is the end of all",
        "peermesh/brokers/edge/line.py",
        "        except* Exception:\n",
        "        except* BlockingIOError:\n",
        (EDGE + "::test_a_mistake_of_ours_ends_one_connection_only",),
    ),
    Safeguard(
        "edge: strangers say who they are in time",
        "one byte every four seconds holds a connection for ever",
        "peermesh/brokers/edge/line.py",
        "            self._greeted_by = trio.current_time() + GREETING_SECONDS\n",
        "            pass\n",
        (EDGE + "::test_who_does_not_say_who_it_is_in_time_is_cut_off",),
    ),
    Safeguard(
        "edge: answers that nobody reads are bounded",
        "a client that asks and never reads fills the memory",
        "peermesh/brokers/edge/line.py",
        "        if self._queue_size > self._queue_size_max:\n",
        "        if False:\n",
        (EDGE + "::test_who_asks_without_reading_the_answers_is_cut_off",),
    ),
    Safeguard(
        "edge: what waits in a topic is bounded",
        "publishers fill the memory while a subscriber stalls",
        "peermesh/brokers/edge/channel.py",
        "        if self._waiting_bytes + size > WAITING_BYTES_MAX:\n",
        "        if False:\n",
        (EDGE,),
    ),
    Safeguard(
        "edge: nodes of the tree are limited",
        "a client fills the registry, and all memory, with nodes",
        "peermesh/brokers/edge/desk.py",
        "        if ask.operation in _MAKING and await self._session.would_pass(NODES_MAX, ask.path):\n",
        "        if False:\n",
        (EDGE + "::test_nodes_without_end_are_refused_and_known_ones_are_not",),
    ),
    Safeguard(
        "WebHDFS: silent clients make room",
        "a thousand silent clients keep everybody else out",
        "peermesh/gateways/webhdfs/serving.py",
        "            if not limit.available_tokens:\n                self._make_room()\n",
        "",
        (WEBHDFS + "::test_silent_clients_make_room_for_others",),
    ),
    Safeguard(
        "WebHDFS: answers are read in time",
        "a client that does not read keeps its connection for ever",
        "peermesh/gateways/http.py",
        "                with trio.fail_after(SEND_SECONDS):\n",
        "                with trio.CancelScope():\n",
        (WEBHDFS + "::test_who_does_not_read_the_answer_is_ended_in_time",),
    ),
]
