"""What users import: the same names in both colours, all errors in one place, alike in the wheel.

Pickles and tracebacks name the module of a class. In a checkout the layers are packages of their
own, in the wheel they lie below another: so what is public names ``peermesh``.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pickle
import pkgutil
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields
from importlib import metadata
from pathlib import Path

import pytest

import channels
import endpoint
import handshake
import peermesh
import stores
import wire
from endpoint.link.link import OutboxStatistics
from endpoint.statistics import EndpointStatistics, PeerInfo
from peermesh import aio, blocking, errors, names
from peermesh.names import AIO, BLOCKING, COLOURED, SHARED, TRIO
from stores.statistics import StoreStatistics

ROOT = Path(__file__).parent.parent.parent
PACKAGES = (wire, handshake, channels, stores, endpoint, peermesh)
LAYERS = ("wire", "handshake", "net", "channels", "stores", "endpoint")
ID = peermesh.EndpointId(b"p" * 16)
OUTBOX = OutboxStatistics(*range(len(inspect.signature(OutboxStatistics).parameters)))

INTERNAL_ERRORS = {
    "peermesh.cli": "the command line says it, and exits: nothing that a program could catch",
    "peermesh.demo": "the demo's own, which its command says",
    "peermesh.gateways": "answers of the gateway, which travel as HTTP",
    "peermesh.brokers.qos2.errors.DialogueError": "an answer of the broker, as a line of its",
}
"""Modules and classes whose errors leave no call of a user's, and why."""

PACKAGES_WITH_ERRORS = ("peermesh.brokers", "peermesh.spark", "peermesh.testing")
"""Where users import what raises them, and so the errors, too."""


def classes() -> Iterator[type]:
    """Give every class that is defined in any module of ours that can be imported here."""
    for package in PACKAGES:
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if found.name.endswith("__main__"):
                continue
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # Spark's own, about pandas and numpy
                    module = importlib.import_module(found.name)
            except ImportError as error:
                if str(error.name).partition(".")[0] in {*LAYERS, "peermesh"}:
                    raise
                continue  # an extra that is not here
            yield from (value for value in vars(module).values() if isinstance(value, type))


def test_all_doors_have_the_same_names():
    assert peermesh.__all__ == blocking.__all__ == aio.__all__
    for name in SHARED:
        assert getattr(peermesh, name) is getattr(blocking, name) is getattr(aio, name)
    for name in COLOURED:
        assert getattr(peermesh, name) is not getattr(blocking, name)
        assert getattr(peermesh, name) is not getattr(aio, name) or name == "Publisher"
    assert set(peermesh.__all__) <= set(dir(peermesh))


@pytest.mark.parametrize(("package", "homes"), [("", TRIO), ("blocking", BLOCKING), ("aio", AIO)])
def test_type_checkers_see_the_names_that_are_there(package, homes):
    """They read no table, but what is imported for them, each name as itself."""
    path = ROOT / "peermesh" / package / "typed.py"
    if not path.is_file():
        pytest.skip("the tests of the wheel have no sources beside them")
    told = {}
    for block in ast.parse(path.read_text("utf-8")).body:
        for node in block.body if isinstance(block, ast.If) else []:
            assert isinstance(node, ast.ImportFrom)
            assert all(alias.name == alias.asname for alias in node.names)
            told |= {alias.name: node.module for alias in node.names}
    told = {name: home for name, home in told.items() if home != "peermesh"}
    assert told == dict(homes)


@pytest.mark.parametrize("name", sorted({*peermesh.__all__, *errors.__all__}))
def test_what_is_public_names_the_package_it_comes_from(name):
    thing = getattr(peermesh, name, None) or getattr(errors, name)
    if isinstance(thing, type) or inspect.isfunction(thing):
        is_error = isinstance(thing, type) and issubclass(thing, Exception)
        home = "peermesh.errors" if is_error else "peermesh"
        assert thing.__module__ == home, f"write @public above {name}"


def test_every_error_of_the_mesh_has_a_public_home():
    homeless = {}
    for each in classes():
        if not issubclass(each, errors.MeshError) or each.__name__.startswith("_"):
            continue
        where = f"{each.__module__}.{each.__name__}"
        if each.__name__ in errors.__all__ and getattr(errors, each.__name__) is each:
            continue
        if any(where == name or where.startswith(f"{name}.") for name in INTERNAL_ERRORS):
            continue
        if not each.__module__.startswith(PACKAGES_WITH_ERRORS):
            homeless[where] = each
    assert not homeless, "list it in peermesh/errors.py"


@pytest.mark.parametrize(
    ("package", "some"),
    [
        ("peermesh.brokers.edge", ["EdgeClosed", "EdgeError", "RegistryError"]),
        ("peermesh.brokers.modules", ["BrokerError", "InboxFull", "LayoutError"]),
        ("peermesh.brokers.qos2", ["BrokerError", "BrokerUnavailable", "Refused", "TakenOver"]),
        ("peermesh.spark", ["DataLoss", "InvalidGateways", "JobFenced", "ReplayConflict"]),
    ],
)
def test_errors_of_the_packages_beside_the_mesh_are_where_users_import_from(package, some):
    home = importlib.import_module(package)
    assert set(some) <= set(home.__all__)
    assert all(issubclass(getattr(home, name), errors.MeshError) for name in some)


SAMPLES = [
    peermesh.Backend.SQLite,
    peermesh.Bookmark(3),
    peermesh.ChangeKind.INSERT,
    peermesh.ClusterSecret(b"s" * 20),
    peermesh.Count(3),
    peermesh.Entry("key", 1, 2, None),
    ID,
    peermesh.Enum("red"),
    peermesh.ErrorCode.TYPE_CLASH,
    peermesh.JoinTicket("localhost", 9999, peermesh.ClusterSecret(b"s" * 20)),
    peermesh.Missed(2),
    peermesh.Outcome(False, "no such peer"),
    peermesh.Overflow.DROP_NEWEST,
    peermesh.OverflowPolicy.DROP_OLDEST,
    OUTBOX,
    peermesh.Page((peermesh.Entry("key", 1, 2, None),), 3, None),
    peermesh.PeerInfo(ID, "store-a", ("::1", 1), None, True, 1, 2, 3, OUTBOX),
    peermesh.Port(80, peermesh.PortProtocol.TCP),
    peermesh.PortProtocol.UDP,
    peermesh.Set([1, "two", b"three"]),
    peermesh.Settings(),
    peermesh.Start.EARLIEST,
    peermesh.StatusCode.PEER_ADDED,
    peermesh.Table({"a": 1, 2: (3,)}),
    peermesh.Timespan(5),
    peermesh.Timestamp(5),
]


@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_value_is_pickled_by_its_public_name(sample, protocol):
    data = pickle.dumps(sample, protocol)
    assert pickle.loads(data) == sample
    assert b"peermesh" in data
    for layer in LAYERS:
        assert f"{layer}.".encode() not in data
    assert b"_mesh" not in data


@pytest.mark.parametrize("name", errors.__all__)
def test_an_error_is_pickled_by_its_public_name(name):
    kind = getattr(errors, name)
    numbers = {errors.OffsetOutOfRange: (1, 2, 3), errors.SubscriberOverflow: (1, 2)}
    arguments = numbers.get(kind, ("what happened",))
    if not issubclass(kind, Exception):
        return  # the codes
    error = kind(*arguments)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == str(error)
    assert vars(again) == vars(error)
    assert again.code == error.code


def test_oversize_is_an_error_that_can_be_named():
    with pytest.raises(errors.EncodeError) as raised:
        peermesh.Table({"a": b"." * (1 << 25)})
    assert type(raised.value) is errors.EncodeError


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_a_pickle_is_read_where_nothing_was_imported_before():
    data = pickle.dumps([peermesh.Count(3), peermesh.Table({"a": 1}), errors.TypeClash("no")])
    found = run(f"import pickle; print(pickle.loads({data!r}))")
    assert found.stdout.startswith("[Count(3), Table("), found.stderr


def test_a_star_needs_no_extra():
    code = "import sys; sys.modules['h11'] = None\nfrom {} import *\nprint(serve_webhdfs, Endpoint)"
    for package in ("peermesh", "peermesh.aio", "peermesh.blocking"):
        found = run(code.format(package))
        assert found.returncode == 0, found.stderr


def test_the_packages_of_errors_and_threads_come_with_the_name():
    found = run("import peermesh; print(peermesh.errors.MeshError, peermesh.blocking.Endpoint)")
    assert found.stdout.startswith("<class 'peermesh.errors.MeshError'>"), found.stderr


def test_the_version_is_that_of_the_metadata():
    assert peermesh.__version__ == metadata.version("peermesh")


def words_of_the_seed() -> dict[str, str]:
    """Give the rows of the table that says where Broker's words are here."""
    path = ROOT / "docs" / "coming-from-broker.md"
    if not path.is_file():
        pytest.skip("the tests of the wheel have no documents beside them")
    section = path.read_text("utf-8").partition("\n## The seed's words\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.+?) \| (.+) \|$", section, re.MULTILINE)
    return dict(rows)


def is_here(said: str, row: str) -> bool:
    """Tell whether what the table names by this is in the code: a module, a part of one, a call.

    What is in ``row`` says whose a single name is: a setting for a configuration, or a figure.
    """
    if said.endswith("()"):
        return any(hasattr(kind, said[:-2]) for kind in (peermesh.Endpoint, peermesh.Store))
    if said.startswith("peermesh "):
        return f"| `{said}` |" in (ROOT / "docs" / "commands.md").read_text("utf-8")
    if said.startswith("--"):
        options = (ROOT / "peermesh" / "cli").glob("*.py")
        return any(f'"{said}"' in each.read_text("utf-8") for each in options)
    kinds: tuple[type, ...] = (peermesh.Settings,)
    if row.startswith("`broker_"):
        kinds = (EndpointStatistics, PeerInfo, StoreStatistics)
    if any(said in {field.name for field in fields(kind)} for kind in kinds):
        return True
    for name in (said, f"peermesh.{said}"):
        with suppress(ImportError, AttributeError):
            pkgutil.resolve_name(name)
            return True
    return False


def test_what_stands_for_the_words_of_the_seed_is_there():
    rows = words_of_the_seed()
    said = [(row, each) for row, here in rows.items() for each in re.findall(r"`(.+?)`", here)]
    assert len(said) > 40
    assert [each for row, each in said if not is_here(each, row)] == []


def test_a_name_that_is_not_there_is_an_attribute_error():
    for module in (peermesh, blocking, aio):
        with pytest.raises(AttributeError, match="has no attribute 'Broker'"):
            _ = module.Broker
    assert not hasattr(names, "Broker")
