"""A client of WebHDFS in plain HTTP, for tests of gateways without Spark."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from endpoint.closing import Closing
from peermesh.testing.time_limits import limit

URL_PREFIX: Final = "/webhdfs/v1"

TIMEOUT_SECONDS: Final = 30.0


class RemoteException(Exception):
    """What the gateway refused, by the name of the Java exception."""

    def __init__(self, status: int, name: str, message: str) -> None:
        """Tell what came."""
        super().__init__(f"{status} {name}: {message}")
        self.status = status
        self.name = name


class WebHDFSClient(Closing):
    """Does what Hadoop's client does, over one connection that is kept."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        token: str | None = None,
        context: ssl.SSLContext | None = None,
    ) -> None:
        """Connect when first asked; with a ``context`` over TLS."""
        seconds = limit(TIMEOUT_SECONDS)
        self._connection = (
            http.client.HTTPConnection(host, port, timeout=seconds)
            if context is None
            else http.client.HTTPSConnection(host, port, timeout=seconds, context=context)
        )
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    # Operations.

    def status(self, path: str) -> dict[str, Any]:
        """Give what is known of a file or directory."""
        found: dict[str, Any] = self.ask_json("GET", path, "GETFILESTATUS")["FileStatus"]
        return found

    def names(self, path: str) -> list[str]:
        """Give the names in a directory."""
        found = self.ask_json("GET", path, "LISTSTATUS")["FileStatuses"]["FileStatus"]
        return [status["pathSuffix"] for status in found]

    def make_directories(self, path: str) -> bool:
        """Make a directory and those above it."""
        return self._boolean("PUT", path, "MKDIRS")

    def create(self, path: str, content: bytes | Iterable[bytes], *, overwrite: bool) -> None:
        """Write a file, in the two steps that it takes; a chunked body if it comes in pieces."""
        word = str(overwrite).lower()
        location = self._redirection("PUT", path, "CREATE", overwrite=word)
        chunked = {} if isinstance(content, bytes) else {"Transfer-Encoding": "chunked"}
        self.ask("PUT", location, content, chunked)

    def append(self, path: str, content: bytes | Iterable[bytes]) -> None:
        """Write behind the end of a file, in the two steps that it takes."""
        location = self._redirection("POST", path, "APPEND")
        chunked = {} if isinstance(content, bytes) else {"Transfer-Encoding": "chunked"}
        self.ask("POST", location, content, chunked)

    def truncate(self, path: str, length: int) -> bool:
        """Cut a file."""
        return self._boolean("POST", path, "TRUNCATE", newlength=length)

    def concat(self, path: str, sources: Iterable[str]) -> None:
        """Move the content of files behind that of another one."""
        self.ask("POST", url(path, "CONCAT", sources=",".join(sources)))

    def open(self, path: str, **stretch: int) -> bytes:
        """Read a file, or the stretch of it with this ``offset`` and ``length``."""
        return self.ask("GET", self._redirection("GET", path, "OPEN", **stretch))

    def rename(self, path: str, destination: str, options: str | None = None) -> bool:
        """Move something: true or false without options, else true or an exception."""
        if options is None:
            return self._boolean("PUT", path, "RENAME", destination=destination)
        self.ask("PUT", url(path, "RENAME", destination=destination, renameoptions=options))
        return True

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        """Delete something; false if it is not there."""
        return self._boolean("DELETE", path, "DELETE", recursive=str(recursive).lower())

    # Steps.

    def ask(
        self,
        method: str,
        target: str,
        body: bytes | Iterable[bytes] | None = None,
        headers: dict[str, str] | None = None,
    ) -> bytes:
        """Send one request, and give its answer's body; raises ``RemoteException``."""
        status, _, data = self.exchange(method, target, body, headers)
        if status >= http.HTTPStatus.BAD_REQUEST:
            told = json.loads(data)["RemoteException"]
            raise RemoteException(status, told["exception"], told["message"])
        return data

    def exchange(
        self,
        method: str,
        target: str,
        body: bytes | Iterable[bytes] | None = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, dict[str, str], bytes]:
        """Send one request, and give status, headers and body of its answer."""
        all_headers = {**self._headers, **(headers or {})}
        is_chunked = "Transfer-Encoding" in all_headers
        self._connection.request(method, target, body, all_headers, encode_chunked=is_chunked)
        response = self._connection.getresponse()
        return response.status, dict(response.headers), response.read()

    def _redirection(self, method: str, path: str, operation: str, **parameters: object) -> str:
        status, headers, data = self.exchange(method, url(path, operation, **parameters))
        if status >= http.HTTPStatus.BAD_REQUEST:
            told = json.loads(data)["RemoteException"]
            raise RemoteException(status, told["exception"], told["message"])
        place = urlsplit(headers["Location"])
        return f"{place.path}?{place.query}"

    def ask_json(self, method: str, path: str, operation: str, **parameters: object) -> Any:  # noqa: ANN401 - JSON may be anything
        """Ask for an operation, and give its answer; raises ``RemoteException``."""
        return json.loads(self.ask(method, url(path, operation, **parameters)))

    def _boolean(self, method: str, path: str, operation: str, **parameters: object) -> bool:
        answer: bool = self.ask_json(method, path, operation, **parameters)["boolean"]
        return answer

    def close(self) -> None:
        """End the connection."""
        self._connection.close()


def url(path: str, operation: str, **parameters: object) -> str:
    """Give the address of an operation, as Hadoop's client writes it."""
    query = urlencode({"op": operation, "user.name": "spark", **parameters})
    return f"{URL_PREFIX}{quote(path)}?{query}"
