"""The safeguards of trust: who is let in, and where plain TCP may be."""

from __future__ import annotations

from tests.safeguards.safeguard import Safeguard

_TRUST_TESTS = ("tests/endpoint/test_trust.py",)

TRUST = [
    Safeguard(
        "diallers show a certificate",
        "whoever has none is a member",
        "handshake/credentials.py",
        "        context.verify_mode = ssl.CERT_REQUIRED\n",
        "        context.verify_mode = ssl.CERT_NONE\n",
        _TRUST_TESTS,
    ),
    Safeguard(
        "nothing older than TLS 1.3",
        "a dialler talks both sides down to what can be broken",
        "handshake/credentials.py",
        "        context.minimum_version = ssl.TLSVersion.TLSv1_3\n",
        "        context.minimum_version = ssl.TLSVersion.TLSv1_2\n",
        _TRUST_TESTS,
    ),
    Safeguard(
        "time limit of TLS's handshake",
        "silent connections hold their places for ever",
        "net/network.py",
        "            with trio.fail_after(TLS_TIMEOUT_SECONDS):\n",
        '            with trio.fail_after(float("inf")):\n',
        _TRUST_TESTS,
    ),
    Safeguard(
        "who is refused is told why",
        "an expired certificate looks like a network that drops connections",
        "net/tls.py",
        "        alert = self.session.take_outgoing() or alert\n",
        '        alert = b""\n',
        _TRUST_TESTS,
    ),
    Safeguard(
        "changed certificate files are used",
        "an endpoint shows an expired certificate until it is restarted",
        "handshake/trust.py",
        "        if stamp == self._stamp:\n",
        "        if True:\n",
        ("tests/handshake/test_trust.py",),
    ),
    Safeguard(
        "a ticket leads into its own mesh only",
        "an endpoint of one mesh dials into another one",
        "net/network.py",
        "        elif self.credentials is None or self.credentials.authority != fresh.authority:\n",
        "        elif False:\n",
        _TRUST_TESTS,
    ),
    Safeguard(
        "keys are for their owner alone",
        "everybody on the machine reads the secret",
        "handshake/private_files.py",
        "    _write(path, data, PRIVATE_MODE, replaces=replaces)\n",
        "    _write(path, data, PUBLIC_MODE, replaces=replaces)\n",
        ("tests/handshake/test_issuing.py",),
    ),
    Safeguard(
        "a mistyped ticket is not repeated",
        "the secret stands in the log of a command",
        "peermesh/cli/addresses.py",
        '    if is_ticket(text) or "peermesh-secret-" in text:\n',
        "    if is_ticket(text):\n",
        ("tests/peermesh/test_cli_trust.py",),
    ),
    Safeguard(
        "plain HTTP beyond loopback needs a token",
        "anybody on the network writes checkpoints",
        "peermesh/gateways/access.py",
        "        if is_open and protection is Protection.PLAIN and not is_local:\n",
        "        if False:\n",
        ("tests/peermesh/gateways/webhdfs/test_gateway.py",),
    ),
    Safeguard(
        "links are not exposed by accident",
        "the network reaches a service that trusts its own machine",
        "peermesh/testing/links/link.py",
        "    check_plain(host, allow_plain=allow_plain, stakes="
        '"reach the service behind the link")\n',
        "",
        ("tests/peermesh/test_listeners.py",),
    ),
]
