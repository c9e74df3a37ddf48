"""Roles and signing from the command line, and in the endpoint for threads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from uuid import UUID

import pytest

from handshake.credentials import Credentials
from handshake.secret import ClusterSecret
from peermesh import blocking
from wire.errors import NotAllowed

ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith("PEERMESH_")}


def first_line(*arguments: str, **environment: str) -> dict[str, object]:
    """Give the first line of a node, which is stopped then."""
    with subprocess.Popen(
        [sys.executable, "-m", "peermesh.cli", "node", "--json", "-l", "127.0.0.1:0", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT | environment,
    ) as process:
        try:
            return json.loads(process.stdout.readline())
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("arguments", "environment"), [(["--sign"], {}), ([], {"PEERMESH_SIGN": "true"})]
)
def test_a_node_that_signs_shows_it_in_its_id(arguments, environment) -> None:
    assert UUID(str(first_line(*arguments, **environment)["id"])).version == 8


def test_roles_without_names_end_the_command_with_what_to_do(tmp_path) -> None:
    path = tmp_path / "roles.toml"
    path.write_text('default = "all"\n[roles.all]\npublish = [""]\n')
    for arguments, variable in ((["--roles", str(path)], {}), ([], {"PEERMESH_ROLES": str(path)})):
        found = subprocess.run(
            [sys.executable, "-m", "peermesh.cli", "node", "-l", "127.0.0.1:0", *arguments],
            capture_output=True,
            text=True,
            env=ENVIRONMENT | variable,
            check=False,
        )
        assert found.returncode != 0
        assert "nobody vouches for those here" in found.stderr
        assert "Traceback" not in found.stderr


def test_the_endpoint_for_threads_has_roles_and_signs() -> None:
    mine = Credentials.from_secret(ClusterSecret.generate(), "sensor-1")
    roles = {
        "names": {"sensor-*": "sensor"},
        "roles": {"sensor": {"publish": ["/s"], "subscribe": ["/s"]}},
    }
    with blocking.Endpoint(
        credentials=replace(mine, can_trust_names=True), roles=roles, sign=True
    ) as endpoint:
        assert endpoint.node_id().is_signing
        with pytest.raises(NotAllowed, match=r"'sensor-1' \(role sensor\) may not subscribe"):
            endpoint.subscribe("/t")
