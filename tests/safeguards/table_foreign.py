"""The safeguards against web pages and other clients that speak another protocol."""

from __future__ import annotations

from tests.safeguards.safeguard import Safeguard

QOS2 = "tests/peermesh/brokers/qos2/test_foreign.py"
GATEWAY = "tests/peermesh/gateways/webhdfs/test_browsers.py"
HEADS = "tests/peermesh/gateways/webhdfs/test_hostile.py::test_heads_beyond_measure_are_refused"
EDGE = "tests/peermesh/brokers/edge/test_hostile.py"
QOS2_CROWDS = "tests/peermesh/brokers/qos2/test_hostile.py"

FOREIGN = [
    Safeguard(
        "a publisher's first mistake ends its connection",
        "the body of a web page's request is published",
        "peermesh/brokers/qos2/publisher_session.py",
        "        return steps if self._is_known else [*steps, STRANGER_REFUSED]\n",
        "        return steps\n",
        (QOS2 + "::test_the_first_mistake_of_a_stranger_ends_its_connection",),
    ),
    Safeguard(
        "a consumer's first mistake ends its connection",
        "the body of a web page's request takes a consumer's messages away",
        "peermesh/brokers/qos2/consumer_session.py",
        "            return steps if self._login is not None else [*steps, STRANGER_REFUSED]\n",
        "            return steps\n",
        (QOS2 + "::test_the_first_mistake_of_a_stranger_ends_its_connection",),
    ),
    Safeguard(
        "publishers never speak HTTP",
        "a web page that chooses the method of its request publishes",
        "peermesh/brokers/qos2/publisher_session.py",
        "        if is_http_request(data):\n",
        "        if False:\n",
        (QOS2,),
    ),
    Safeguard(
        "consumers never speak HTTP",
        "a web page that chooses the method of its request goes on as a consumer",
        "peermesh/brokers/qos2/consumer_session.py",
        "        if is_http_request(line):\n",
        "        if False:\n",
        (QOS2,),
    ),
    Safeguard(
        "TLS at a plain port ends at once",
        "a client that should not speak TLS waits for minutes",
        "peermesh/brokers/qos2/conversation.py",
        "        if self._is_new and is_tls(bytes(data[:1])):\n",
        "        if False:\n",
        (QOS2 + "::test_tls_at_a_plain_port_ends_at_its_first_byte_without_an_answer",),
    ),
    Safeguard(
        "a session that closes says so at once",
        "a connection that was refused stays open",
        "peermesh/brokers/qos2/conversation.py",
        "            if self.closed_because is not None:\n                break\n",
        "            if self.closed_because is not None:\n                return\n",
        (QOS2 + "::test_a_web_page_publishes_nothing_and_takes_no_messages_away",),
    ),
    Safeguard(
        "an unfinished message is one buffer",
        "a body of two-byte lines takes thirty times its size",
        "peermesh/brokers/qos2/publisher_session.py",
        "        self._body += line\n        return []\n",
        '        self._body += line\n        self.__dict__.setdefault("_lines", []).append(line)\n'
        "        return []\n",
        (QOS2_CROWDS + "::test_a_body_of_tiny_lines_takes_no_more_memory_than_its_bytes",),
    ),
    Safeguard(
        "unfinished messages share a budget",
        "a thousand connections that never end their messages fill the memory",
        "peermesh/brokers/unfinished.py",
        "        if self._total <= self._size_max:\n",
        "        if True:\n",
        (QOS2_CROWDS, "tests/peermesh/brokers/test_unfinished.py"),
    ),
    Safeguard(
        "a connection that is cut keeps no memory",
        "clients that do not read keep more than the budget",
        "peermesh/brokers/qos2/conversation.py",
        "        self._session.abandon()\n",
        "",
        (QOS2_CROWDS + "::test_who_is_cut_frees_its_memory_though_it_does_not_hear_of_it",),
    ),
    Safeguard(
        "thousands of lines leave turns to others",
        "twenty connections of two-byte lines silence the broker for a minute",
        "peermesh/brokers/qos2/conversation.py",
        "                if not count % LINES_AT_ONCE:\n",
        "                if False:\n",
        (QOS2_CROWDS + "::test_thousands_of_lines_at_once_leave_turns_to_others",),
    ),
    Safeguard(
        "unfinished frames share a budget",
        "clients of an edge broker that never end their frames fill the memory",
        "peermesh/brokers/edge/line.py",
        "        if largest is not None:\n",
        "        if False:\n",
        (EDGE + "::test_unfinished_frames_share_a_budget_and_the_largest_makes_room",),
    ),
    Safeguard(
        "requests that wait at the registry share a budget",
        "a thousand clients of the registry fill the memory with requests",
        "peermesh/brokers/edge/desk.py",
        "        self._requests.add(expect(message, Ask))\n"
        "        self.line.note_waiting(self._requests.size)\n",
        "        self._requests.add(expect(message, Ask))\n",
        (EDGE + "::test_requests_that_wait_at_the_registry_share_the_budget",),
    ),
    Safeguard(
        "thousands of frames leave turns to others",
        "some connections of small frames silence an edge broker",
        "peermesh/brokers/edge/line.py",
        "                    if not frames % FRAMES_AT_ONCE:\n",
        "                    if False:\n",
        (EDGE + "::test_thousands_of_frames_at_once_leave_turns_to_others",),
    ),
    Safeguard(
        "a gateway answers to its own names",
        "a web page has its own name lead to the gateway, and reads and writes all files",
        "peermesh/gateways/access.py",
        "        if not self._names.know(host, certified):\n",
        "        if False:\n",
        (GATEWAY + "::test_a_page_of_another_site_gets_nothing",),
    ),
    Safeguard(
        "a gateway asks for the origin",
        "a web page writes files",
        "peermesh/gateways/access.py",
        '        if not is_own_origin(headers.get("origin"), scheme, host):\n',
        "        if False:\n",
        (GATEWAY + "::test_a_certificate_opens_no_gateway_to_pages",),
    ),
    Safeguard(
        "tokens are told to own pages only",
        "a web page has its own name lead to the gateway, and tries tokens",
        "peermesh/gateways/webhdfs/serving.py",
        "            host = self._access.host(head.headers, self.scheme, self._certified_hosts())\n"
        '            if head.method == "POST" and head.target == TOKEN_PATH:\n'
        "                await self._grant(connection, client)\n"
        "                return\n",
        '            if head.method == "POST" and head.target == TOKEN_PATH:\n'
        "                await self._grant(connection, client)\n"
        "                return\n"
        "            host = self._access.host(head.headers, self.scheme, self._certified_hosts())\n",
        (GATEWAY + "::test_a_page_of_another_site_gets_nothing",),
    ),
    Safeguard(
        "answers are inert",
        "a file that is a page runs in the name of the gateway",
        "peermesh/gateways/http.py",
        '        lines = [*headers, *INERT, ("Content-Length", str(length))]\n',
        '        lines = [*headers, ("Content-Length", str(length))]\n',
        (GATEWAY + "::test_answers_are_never_run_by_a_browser",),
    ),
    Safeguard(
        "one length of a body",
        "behind a proxy the rest of a body is another client's request",
        "peermesh/gateways/http.py",
        '        if "content-length" in headers and "transfer-encoding" in headers:\n',
        "        if False:\n",
        (HEADS,),
    ),
    Safeguard(
        "thousands of a peer's frames leave turns to others",
        "some peers that send small frames hold up all others",
        "endpoint/link/connection.py",
        "                    if frames == FRAMES_AT_ONCE:\n",
        "                    if False:\n",
        (
            "tests/endpoint/test_hostile_floods.py"
            "::test_thousands_of_frames_at_once_leave_turns_to_others",
        ),
    ),
]
