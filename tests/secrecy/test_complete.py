"""What holds a secret is in the table: fields, options and variables of such names are counted."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from peermesh.cli.application import application, commands_below

PACKAGES = ("wire", "handshake", "net", "channels", "stores", "endpoint", "peermesh")
ROOT = Path(__file__).parents[2]

SUSPICIOUS = re.compile(r"secret|token|passphrase|password|ticket|credential|(^|_)keys?$", re.I)
"""Names of what may be a secret."""

HARMLESS_FIELDS = {
    "tokens": "hashes of tokens",
    "token": "a number or an id that names a request, a commit or a run",
    "ticket": "the number of a read at the leader of a replica group",
    "key": "the key of an entry of a store or log",
    "keys": "keys of entries",
    "null_keys": "what becomes of rows without a key",
    "secret_file": "a path",
    "has_credentials": "a yes or no",
}
"""What fields of these names are elsewhere, where their repr shows them."""

SECRET_FIELDS = {
    ("ClusterSecret", "key"),
    ("CredentialFiles", "passphrase"),
    ("Credentials", "key"),
    ("Issued", "key"),
    ("Settings", "passphrase"),
    ("Settings", "secret"),
    ("StorageKey", "key"),
    ("StorageKeys", "keys"),
}
"""Fields that are secrets: their class does not show them, and it is there."""

RETICENT_TYPES = {"ClusterSecret", "Credentials"}
"""Types of fields that may be shown, as they show nothing themselves."""

FILE_OPTIONS = {"--secret-file", "--token-file", "--key-file", "--certificate-key"}
"""Options that name a file: a secret among the arguments could be read by everybody (``ps``)."""

HARMLESS_OPTIONS = {
    "--key": "the key of an entry, or the field of an event that is counted",
    "--file": "accounts, of which the file has hashes alone",
}


def classes() -> Iterator[type]:
    for package in PACKAGES:
        root = importlib.import_module(package)
        for found in pkgutil.walk_packages(root.__path__, f"{package}."):
            if found.name.endswith("__main__"):
                continue
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # Spark's own, about pandas and numpy
                    module = importlib.import_module(found.name)
            except ImportError as error:
                if str(error.name).startswith(PACKAGES):
                    raise
                continue  # an extra that is not here
            for value in vars(module).values():
                homes = (module.__name__, "peermesh", "peermesh.errors")  # what is public says so
                if isinstance(value, type) and value.__module__ in homes:
                    yield value


def is_reticent(field: dataclasses.Field[object]) -> bool:
    return bool(set(re.findall(r"\w+", str(field.type))) & RETICENT_TYPES)


def test_a_dataclass_shows_no_field_that_is_a_secret():
    shown, hidden = set(), set()
    for each in classes():
        if dataclasses.is_dataclass(each):
            for field in dataclasses.fields(each):
                if (each.__name__, field.name) in SECRET_FIELDS:
                    assert not field.repr, f"{each.__name__}.{field.name} would be printed"
                    hidden.add((each.__name__, field.name))
                elif SUSPICIOUS.search(field.name) and field.repr and not is_reticent(field):
                    shown.add(field.name)
    assert hidden == SECRET_FIELDS, "another name now? say it there"
    unknown = shown - set(HARMLESS_FIELDS)
    assert not unknown, f"say field(repr=False), or in HARMLESS_FIELDS what they are: {unknown}"


@pytest.mark.parametrize(("name", "command"), list(commands_below(application, "peermesh")))
def test_no_command_takes_a_secret_as_an_argument(name, command):
    for parameter in command.params:
        for option in parameter.opts:
            if SUSPICIOUS.search(option.lstrip("-").replace("-", "_")) and option.startswith("--"):
                assert option in FILE_OPTIONS | set(HARMLESS_OPTIONS), f"{name} {option}"


def test_every_file_of_secrets_and_every_variable_is_in_the_table():
    table = (ROOT / "tests/secrecy/test_places.py").read_text()
    planted = (ROOT / "tests/secrecy/planted.py").read_text()
    options = {
        option
        for _, command in commands_below(application, "peermesh")
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--")
        and (SUSPICIOUS.search(option[2:].replace("-", "_")) or option.endswith("-file"))
    }
    secret = options - set(HARMLESS_OPTIONS)
    assert secret <= FILE_OPTIONS, "tell what they hold"
    assert all(f'"{option}"' in table for option in secret)
    sources = "".join(
        path.read_text() for package in PACKAGES for path in (ROOT / package).rglob("*.py")
    )
    variables = {
        name
        for name in re.findall(r"PEERMESH_[A-Z_]+", sources)
        if re.search(r"SECRET|KEY|TOKEN|TICKET|PASS", name) and not name.endswith("_FILE")
    }
    missing = {name for name in variables if f'"{name}"' not in planted}
    assert not missing, f"plant them: {missing}"
