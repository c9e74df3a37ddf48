"""Recognises other protocols by what they say first: HTTP, as browsers speak it, and TLS. Pure.

A web page of any origin can have a browser send HTTP to a port of its user's own machine, with a
body of the page's choice. Each line of it would be a line of the dialogue, so the connection ends
at the first one. A page that has its own name lead to this machine even chooses the method: so
``BEGIN / HTTP/1.1`` is a request, too, and no message for the topics ``/`` and ``HTTP/1.1``.
"""

from __future__ import annotations

import re
from typing import Final

from wire.framing import TLS_RECORDS

_HTTP_REQUEST: Final = re.compile(
    rb"\s*[!#$%&'*+.^_`|~0-9A-Za-z-]+[ \t]+\S+[ \t]+HTTP/[0-9]+(\.[0-9]+)?\s*\Z"
)
"""``METHOD target HTTP/version``, as RFC 9112 has it, with any blanks around."""


def is_http_request(line: bytes) -> bool:
    """Tell whether a line begins a request of HTTP."""
    return _HTTP_REQUEST.match(line) is not None


def is_tls(first: bytes) -> bool:
    """Tell whether the first bytes of a connection are those of TLS: no line begins so."""
    return first[:1] in TLS_RECORDS
