"""Accounts: tokens and passwords as hashes, in a file that is its owner's alone."""

from __future__ import annotations

import os
import re

import pytest

from handshake.accounts import (
    COST_LOG2,
    HASHES_MAX,
    NO_ACCOUNTS,
    SALTS_MAX,
    TOKEN,
    Accounts,
    Hash,
    Recipe,
)
from handshake.principals import Principal, Proof
from handshake.rules import Rules
from wire.errors import CredentialsError

FIRST, SECOND, THIRD = (TOKEN.write(bytes([each]) * 20) for each in range(3))
PASSWORD = "correct horse"


def test_a_token_is_its_name_and_another_is_none() -> None:
    accounts = NO_ACCOUNTS.with_token("ci", FIRST).with_token("spark", SECOND)
    assert accounts.find_token(FIRST) == Principal("ci", Proof.TOKEN)
    assert accounts.find_token(SECOND.upper()) == Principal("spark", Proof.TOKEN)
    assert accounts.find_token(THIRD) is None
    assert accounts.find_token("no token at all") is None


def test_two_tokens_share_a_name_while_one_replaces_the_other() -> None:
    both = NO_ACCOUNTS.with_token("ci", FIRST).with_token("ci", SECOND)
    assert {both.find_token(each) for each in (FIRST, SECOND)} == {Principal("ci", Proof.TOKEN)}
    rotated = both.without("ci", oldest=True)
    assert rotated.find_token(FIRST) is None
    assert rotated.find_token(SECOND) is not None
    assert len(both.with_token("ci", THIRD).tokens["ci"]) == HASHES_MAX
    assert both.with_token("ci", THIRD).find_token(FIRST) is None


def test_a_user_is_known_by_the_password_alone() -> None:
    accounts = NO_ACCOUNTS.with_user("ann", PASSWORD)
    assert accounts.find_user("ann", PASSWORD) == Principal("ann", Proof.PASSWORD)
    assert accounts.find_user("ann", "wrong horse") is None
    assert accounts.find_user("eve", PASSWORD) is None


def test_each_user_has_a_recipe_of_its_own_and_a_stranger_costs_as_much() -> None:
    cheap, dear = Recipe(b"a" * 16, 4, 2, 1), Recipe(b"b" * 16, 5, 2, 1)
    users = {"ann": Hash.of(PASSWORD, cheap), "bob": Hash.of(PASSWORD, dear)}
    accounts = Accounts({}, users)
    assert [accounts.find_user(name, PASSWORD) is not None for name in ("ann", "bob", "eve")] == [
        True, True, False,
    ]  # fmt: skip
    assert accounts._decoy == cheap
    assert NO_ACCOUNTS._decoy.cost_log2 == COST_LOG2


@pytest.mark.parametrize("name", ["ann", "\U0001f600", "a b", 'quo"te', "back\\slash", "\u00fc"])
@pytest.mark.parametrize("fill", [b"\x5d\x75\xd7", b"\x00", b"\xff"])
def test_any_name_and_any_hash_is_read_as_it_was_written(name, fill) -> None:
    recipe = Recipe((fill * 16)[:15], 4, 2, 1)
    made = Hash(recipe, (fill * 32)[:32])
    accounts = Accounts({name: (made,)}, {name: made})
    assert Accounts.parse(accounts.to_text()) == accounts


def test_all_tokens_of_a_file_cost_one_hash() -> None:
    accounts = NO_ACCOUNTS.with_token("a", FIRST).with_token("b", SECOND)
    assert len({each.recipe for hashes in accounts.tokens.values() for each in hashes}) == 1
    many = {str(number): (Hash.of(FIRST),) for number in range(SALTS_MAX + 1)}
    with pytest.raises(CredentialsError, match="salts"):
        Accounts(many, {})


def test_a_file_is_read_as_it_was_written_and_names_no_secret(tmp_path) -> None:
    file = tmp_path / "accounts.toml"
    accounts = NO_ACCOUNTS.with_token("ci", FIRST).with_user("ann ü", PASSWORD)
    accounts.save(file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert Accounts.load(file) == accounts
    assert FIRST not in file.read_text()
    assert PASSWORD not in file.read_text()


@pytest.mark.parametrize("mode", [0o644, 0o660, 0o602])
def test_a_file_that_others_may_use_is_refused_with_what_mends_it(tmp_path, mode) -> None:
    file = tmp_path / "accounts.toml"
    NO_ACCOUNTS.save(file)
    os.chmod(file, mode)
    with pytest.raises(CredentialsError, match=f"chmod 600 {file}"):
        Accounts.load(file)


@pytest.mark.parametrize(
    "text",
    [
        "[tokens]\nci = 'plain'",
        "[tokens]\nci = []",
        "[tokens]\nci = ['$scrypt$ln=30,r=8,p=1$AAAA$" + "A" * 43 + "']",
        "[users]\nann = '$scrypt$ln=14,r=8,p=9$AAAA$" + "A" * 43 + "'",
        "[users]\nanonymous = '$scrypt$ln=14,r=8,p=1$AAAA$" + "A" * 43 + "'",
        "tokens = 3",
        "[others]",
        "no toml",
    ],
)
def test_what_is_no_table_of_accounts_is_refused(text) -> None:
    with pytest.raises(CredentialsError):
        Accounts.parse(text)


def test_a_changed_file_is_used_and_a_damaged_one_changes_nothing(tmp_path) -> None:
    file = tmp_path / "accounts.toml"
    NO_ACCOUNTS.with_token("ci", FIRST).save(file)
    rules = Rules(accounts=file)
    assert not rules.refresh()
    file.write_text("[tokens")
    with pytest.raises(CredentialsError, match="old ones stay"):
        rules.refresh()
    assert not rules.refresh()
    assert rules.accounts is not None
    assert rules.accounts.find_token(FIRST) is not None
    NO_ACCOUNTS.with_token("ci", SECOND).save(file)
    assert rules.refresh()
    assert rules.accounts.find_token(FIRST) is None


def test_two_damaged_files_are_both_told_of(tmp_path) -> None:
    roles, accounts = tmp_path / "roles", tmp_path / "accounts"
    roles.write_text("")
    NO_ACCOUNTS.save(accounts)
    rules = Rules(roles, accounts)
    assert (rules.refresh(), rules.is_refreshable) == (False, True)
    for each in (roles, accounts):
        each.write_text("damaged")
    with pytest.raises(CredentialsError) as raised:
        rules.refresh()
    told = "changed rules are not used, the old ones stay: roles of {}: .*; accounts of {}: .*"
    assert re.fullmatch(told.format(roles, accounts), str(raised.value))
