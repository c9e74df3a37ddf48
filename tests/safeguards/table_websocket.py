"""The safeguards of the WebSocket gateway, and of the link to a Zeek."""

from __future__ import annotations

from typing import Final

from tests.safeguards.safeguard import Safeguard

_FOLDER: Final = "tests/peermesh/gateways/websocket"
_SERVER: Final = f"{_FOLDER}/test_server.py"
_RIGHTS: Final = f"{_FOLDER}/test_rights.py"
_SLOW: Final = f"{_FOLDER}/test_slow_clients.py"
_LINK: Final = f"{_FOLDER}/test_link.py"

WEBSOCKET = [
    Safeguard(
        "WebSocket: pages come from origins that are listed",
        "a page of any site reads and publishes what its reader's machine may",
        "peermesh/gateways/websocket/server.py",
        "        if origin is not None and not self._may_ask(origin):\n",
        "        if False:\n",
        (_RIGHTS + "::test_pages_are_served_from_origins_that_are_listed_alone",),
    ),
    Safeguard(
        "WebSocket: an origin of the gateway is one by its names alone",
        "a page has its own name lead to the gateway, and is taken for it",
        "peermesh/gateways/names.py",
        "        return start == scheme and is_port and self.know(host, certified)\n",
        "        return start == scheme and is_port\n",
        (_RIGHTS + "::test_pages_are_served_from_origins_that_are_listed_alone",),
    ),
    Safeguard(
        "WebSocket: a role says to what a client subscribes",
        "a guest reads every topic of the mesh",
        "peermesh/gateways/websocket/server.py",
        '                self._guard.access.check(principal, "subscribe", topic)\n',
        "                pass\n",
        (_RIGHTS + "::test_a_role_says_to_what_a_client_may_subscribe",),
    ),
    Safeguard(
        "WebSocket: a role says on what a client publishes",
        "a reader forges messages in the name of the gateway",
        "peermesh/gateways/websocket/server.py",
        '            self._guard.access.check(principal, "publish", topic)\n',
        "            pass\n",
        (_RIGHTS + "::test_a_role_says_on_what_a_client_may_publish",),
    ),
    Safeguard(
        "WebSocket: a withdrawn right ends the connection",
        "a client hears for days what it must not hear any more",
        "peermesh/gateways/websocket/server.py",
        "        guard.on_change.append(self._recheck)\n",
        "",
        (_RIGHTS + "::test_a_withdrawn_right_ends_the_connection_that_needs_it",),
    ),
    Safeguard(
        "WebSocket: clients have a role",
        "a stranger holds a place, and a hundred megabytes of queues",
        "peermesh/gateways/websocket/server.py",
        '            self._guard.access.check(principal, "open", PATH)\n',
        "            pass\n",
        (_RIGHTS + "::test_who_has_no_role_does_not_come_in",),
    ),
    Safeguard(
        "WebSocket: there is one path",
        "a client of another version of the protocol is served wrongly",
        "peermesh/gateways/websocket/server.py",
        '        if request.path.partition("?")[0] != PATH:\n',
        "        if False:\n",
        (_SERVER + "::test_other_paths_are_not_there",),
    ),
    Safeguard(
        "WebSocket: clients have a limit",
        "connections use up the memory of the process",
        "peermesh/gateways/websocket/server.py",
        "        if len(self._clients) >= CLIENTS_MAX or not arrival.prove():\n",
        "        if not arrival.prove():\n",
        (_SERVER + "::test_one_client_too_many_is_told_to_come_later",),
    ),
    Safeguard(
        "WebSocket: a first frame comes soon",
        "connections that say nothing hold all places",
        "peermesh/gateways/websocket/server.py",
        "        opening.deadline = trio.current_time() + OPENING_SECONDS\n",
        '        opening.deadline = float("inf")\n',
        (_SERVER + "::test_a_first_frame_has_to_come_soon",),
    ),
    Safeguard(
        "WebSocket: an open connection has no limit of time",
        "each client is cut off after five seconds",
        "peermesh/gateways/websocket/server.py",
        '            opening.deadline = trio.current_time() + float("inf")\n',
        "            pass\n",
        (_SERVER + "::test_an_open_connection_outlives_the_time_of_its_opening",),
    ),
    Safeguard(
        "WebSocket: a Host that is no name is the client's fault",
        "a stranger fills the log with tracebacks",
        "peermesh/gateways/websocket/carrying.py",
        "    UnicodeError,  # of a Host that is no name; wsproto lets it through\n",
        "",
        ("tests/fuzz/test_replay.py::test_the_corpus_is_taken_well[websocket]",),
    ),
    Safeguard(
        "WebSocket: a slow client drops its oldest messages",
        "a client that is slow for a moment loses its connection",
        "peermesh/gateways/websocket/carrying.py",
        "QUEUEING = Queueing(Overflow.DROP_OLDEST, ",
        "QUEUEING = Queueing(Overflow.ERROR, ",
        (_SLOW + "::test_a_slow_client_makes_no_other_wait_and_is_told_what_it_missed",),
    ),
    Safeguard(
        "WebSocket: a client that takes nothing is cut off",
        "dead connections hold their queues for ever",
        "peermesh/gateways/websocket/carrying.py",
        "                raise trio.TooSlowError\n",
        "                pass\n",
        (_SLOW + "::test_a_client_that_takes_nothing_is_cut_off_and_its_neighbour_is_not",),
    ),
    Safeguard(
        "WebSocket: a client answers pings",
        "a client whose machine is gone stays connected",
        "peermesh/gateways/websocket/carrying.py",
        "            with trio.fail_after(STALL_SECONDS):\n                await self._socket.ping()\n",
        "            await self._socket.ping()\n",
        (_SERVER + "::test_a_client_that_answers_no_ping_is_cut_off",),
    ),
    Safeguard(
        "WebSocket: a client does not hear itself",
        "each client gets back what it says, and a link sends it in a circle",
        "endpoint/loop.py",
        "            if mailbox is skip:\n",
        "            if False:\n",
        (_SERVER + "::test_clients_of_one_gateway_hear_each_other_and_not_themselves",),
    ),
    Safeguard(
        "WebSocket: errors in a row end a connection",
        "a client that does not heed errors keeps a core busy for ever",
        "peermesh/gateways/websocket/session.py",
        "        return self._errors >= ERRORS_MAX\n",
        "        return False\n",
        (f"{_FOLDER}/test_session.py",),
    ),
    Safeguard(
        "WebSocket: a text that is too long is not written",
        "a payload of 16 MiB becomes half a gigabyte of JSON",
        "peermesh/gateways/websocket/texts.py",
        "        if len(payload) > self._size_sure:\n",
        "        if False:\n",
        (f"{_FOLDER}/test_texts.py",),
    ),
    Safeguard(
        "WebSocket: a link is not in plain over a network by accident",
        "the network reads what the mesh sends to Zeek",
        "peermesh/gateways/websocket/link.py",
        "        if not self._target.is_secure:\n",
        "        if False:\n",
        (_LINK + "::test_plain_beyond_loopback_is_refused",),
    ),
    Safeguard(
        "a subscription that is refused leaves nothing behind",
        "a client that names too many topics ends every publish of its gateway",
        "endpoint/mesh/wishes.py",
        "        self.add(added)\n",
        "        if local:\n            self._locals[subscriber] = None\n        self.add(added)\n",
        ("tests/endpoint/mesh/test_core.py",),
    ),
]
