"""The settings with which a Spark job keeps its files at a gateway; needs no pyspark itself."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

from wire.addresses import split_address
from wire.errors import MeshError

NAME: Final = "mesh"
"""What several gateways are called together, in ``webhdfs://mesh/…``."""

SCHEME: Final = "mesh"
"""Our own scheme, ``mesh://host:port/…``: Spark then takes the shorter way to write a file."""

CONNECT_SECONDS: Final = 5
"""How long a gateway may take to accept a connection: one that is cut off does not answer."""

READ_SECONDS: Final = 60
"""How long a gateway may take to answer: Hadoop's default, as long as a large upload settles."""

RETRIES: Final = "100,50,1000,60"
"""Milliseconds between two tries, and how many: five seconds of quick ones, in which a small store
is there again, and a minute of slow ones, in which a large one is."""

FAILOVER_ATTEMPTS: Final = 1_000
"""How often gateways are tried in turns. Hadoop's client does not pause in between; a gateway
without a leader does, for two seconds: so there is half an hour for a majority to come back."""

_HADOOP: Final = "spark.hadoop."
_FAILOVER: Final = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
_SWEBHDFS: Final = "org.apache.hadoop.hdfs.web.SWebHdfsFileSystem"
_WEBHDFS: Final = "org.apache.hadoop.hdfs.web.WebHdfsFileSystem"
_TOKENS: Final = "org.apache.hadoop.hdfs.web.oauth2.ConfCredentialBasedAccessTokenProvider"
_REDACTION: Final = "(?i)secret|password|token|access[.]?key|credential"


class InvalidGateways(MeshError, ValueError):
    """Addresses from which no settings can be made."""


class SparkSettings(dict[str, str]):
    """Settings of Spark, which show no secret when printed; Spark's own pages do not either."""

    def __repr__(self) -> str:
        """Show them without values that Spark redacts."""
        shown = {
            key: "*********(redacted)" if re.search(_REDACTION, key) else value
            for key, value in self.items()
        }
        return repr(shown)

    def __or__(self, other: Any) -> SparkSettings:  # type: ignore[override]  # noqa: ANN401 - as dict's
        """Join settings, which stay as reticent."""
        return SparkSettings({**self, **other})

    def __ror__(self, other: Any) -> SparkSettings:  # type: ignore[override]  # noqa: ANN401 - as dict's
        """Join settings that another dict has, which become as reticent."""
        return SparkSettings({**other, **self})

    def copy(self) -> SparkSettings:
        """Give the same settings, as reticent."""
        return SparkSettings(self)


@dataclass(frozen=True, slots=True)
class KeyStore:
    """A file of PKCS12 with which Java shows a certificate, and knows those of the gateways.

    It has the client's key, its certificate, and as one to be trusted that of the authority. It is
    at the same path on all machines of the cluster.
    """

    path: str
    password: str = field(repr=False)


def spark_conf(
    *gateways: str,
    name: str = NAME,
    token: str | None = None,
    token_host: str | None = None,
    tls: KeyStore | None = None,
) -> SparkSettings:
    """Give the settings for ``webhdfs://{gateway}/…``, or of several ``webhdfs://{name}/…``.

    Each gateway is ``host:port``. With one, a short absence of it is waited for, and
    ``mesh://{gateway}/…`` works too. With several, one that serves is found, and another one
    when that is gone. The ``token`` is that of the gateways; of several Hadoop's client fetches it
    at ``token_host``, ``host:port`` of a name that has the addresses of all. With ``tls`` it is
    ``swebhdfs://``. Raises ``InvalidGateways``.
    """
    _check(gateways, name)
    settings = _patience()
    settings.update(_one() if len(gateways) == 1 else _several(gateways, name, tls))
    if token is not None:
        settings.update(_credential(_token_place(gateways, token_host), token, tls))
    elif token_host is not None:
        raise InvalidGateways(f"token_host={token_host!r} without a token: give both, or neither")
    if tls is not None:
        settings.update(_key_store(tls))
    found = SparkSettings((_HADOOP + key, value) for key, value in settings.items())
    if token is not None or tls is not None:
        found["spark.redaction.regex"] = _REDACTION
    return found


def _token_place(gateways: tuple[str, ...], token_host: str | None) -> str:
    """Say where the token is fetched: Hadoop's client asks one URL, but all addresses of a name."""
    if token_host is None and len(gateways) > 1:
        raise InvalidGateways(
            "several gateways with a token need token_host=, host:port of a name with the addresses"
            f" of all: from {gateways[0]} alone no token comes once that is gone"
        )
    place = gateways[0] if token_host is None else token_host
    if split_address(place) is None:
        raise InvalidGateways(f"token_host={place!r}: write host:port, as in gateways.local:9870")
    return place


def _check(gateways: tuple[str, ...], name: str) -> None:
    if not gateways:
        raise InvalidGateways("name the gateways of the job, each as host:port")
    for gateway in gateways:
        if split_address(gateway) is None:
            raise InvalidGateways(
                f"{gateway!r} is no gateway: write host:port, as in 10.0.0.1:9870"
            )
    if not (name.isascii() and name.isalnum()):
        raise InvalidGateways(f"name={name!r}: it is part of addresses, so use letters and digits")


def _patience() -> dict[str, str]:
    return {
        "dfs.webhdfs.socket.connect-timeout": f"{CONNECT_SECONDS}s",
        "dfs.webhdfs.socket.read-timeout": f"{READ_SECONDS}s",
    }


def _one() -> dict[str, str]:
    return {
        "dfs.http.client.retry.policy.enabled": "true",
        "dfs.http.client.retry.policy.spec": RETRIES,
        f"fs.{SCHEME}.impl": _WEBHDFS,
    }


def _several(gateways: tuple[str, ...], name: str, tls: KeyStore | None) -> dict[str, str]:
    scheme = "http" if tls is None else "https"
    members = [f"gateway{number}" for number in range(1, len(gateways) + 1)]
    addresses = zip(members, gateways, strict=True)
    return {
        "dfs.nameservices": name,
        f"dfs.ha.namenodes.{name}": ",".join(members),
        f"dfs.client.failover.proxy.provider.{name}": _FAILOVER,
        "dfs.http.client.failover.max.attempts": str(FAILOVER_ATTEMPTS),
        "dfs.http.client.retry.max.attempts": str(FAILOVER_ATTEMPTS),
    } | {f"dfs.namenode.{scheme}-address.{name}.{member}": address for member, address in addresses}


def _credential(place: str, token: str, tls: KeyStore | None) -> dict[str, str]:
    scheme = "http" if tls is None else "https"
    return {
        "dfs.webhdfs.oauth2.enabled": "true",
        "dfs.webhdfs.oauth2.access.token.provider": _TOKENS,
        "dfs.webhdfs.oauth2.client.id": "spark",
        "dfs.webhdfs.oauth2.credential": token,
        "dfs.webhdfs.oauth2.refresh.url": f"{scheme}://{place}/token",
    }


def _key_store(tls: KeyStore) -> dict[str, str]:
    """Give the settings of Hadoop's client that are else in a file ``ssl-client.xml``."""
    settings = {f"fs.{SCHEME}.impl": _SWEBHDFS, "hadoop.ssl.require.client.cert": "true"}
    for kind in ("keystore", "truststore"):
        settings[f"ssl.client.{kind}.location"] = tls.path
        settings[f"ssl.client.{kind}.type"] = "pkcs12"
        settings[f"ssl.client.{kind}.password"] = tls.password
    settings["ssl.client.keystore.keypassword"] = tls.password
    return settings
