"""Accounts: tokens and passwords as hashes, in a file that is its owner's alone."""

from __future__ import annotations

import os
import re

import pytest

from handshake import accounts as accounts_module
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


def test_a_hash_is_that_of_scrypt_and_a_new_one_has_a_salt_of_128_bits() -> None:
    """RFC 7914, section 12; it has 64 bytes there, of which the first half is the same."""
    found = Recipe(b"SodiumChloride", 14, 8, 1).derive("pleaseletmein")
    assert found.hex() == "7023bdcb3afd7348461c06cd81fd38ebfda8fbba904f8e3ea9b543f6545da1f2"
    assert len(Recipe.new().salt) == 16


def test_the_dearest_hash_that_a_file_may_name_can_be_tried() -> None:
    assert len(Recipe(b"a" * 16, 16, 8, 1).derive(PASSWORD)) == 32


def test_what_is_no_text_is_a_wrong_password() -> None:
    accounts = Accounts({}, {"ann": Hash.of(PASSWORD, Recipe(b"a" * 16, 4, 2, 1))})
    assert accounts.find_user("ann", "\ud800") is None


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
    salted = [Hash(Recipe(bytes([each]) * 16, 4, 2, 1), bytes(32)) for each in range(SALTS_MAX + 1)]
    assert Accounts({str(at): (each,) for at, each in enumerate(salted[1:])}, {})
    with pytest.raises(CredentialsError, match="salts"):
        Accounts({str(at): (each,) for at, each in enumerate(salted)}, {})


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


KEY = "A" * 43
GOOD = f"$scrypt$ln=4,r=2,p=1$AAAA${KEY}"
NO_HASH = "has no hash of scrypt: make it with peermesh access, which writes one"
LIMITS = "is not possible: a try takes up to 64 MiB, and p is at most 4"
NAME = (
    "cannot be the name of an account: it has 1 to 256 printable characters, no colon, no blanks"
    " around it, and is not 'anonymous'"
)


def costs(cost: int, size: int, lanes: int) -> str:
    return GOOD.replace("ln=4,r=2,p=1", f"ln={cost},r={size},p={lanes}")


MISTAKES = {
    "plain": ("[tokens]\nci = 'plain'", f"token 'ci' {NO_HASH}"),
    "a number": ("[users]\nann = 3", f"user 'ann' {NO_HASH}"),
    "no hashes": ("[tokens]\nci = []", "token 'ci' has 0 hashes: one or two are possible"),
    "three hashes": (
        f"[tokens]\nci = {[GOOD] * 3}",
        "token 'ci' has 3 hashes: one or two are possible",
    ),
    "a list for a user": (f"[users]\nann = ['{GOOD}']", f"user 'ann' {NO_HASH}"),
    "no cost": (f"[users]\nann = '{costs(0, 8, 1)}'", f"user 'ann': ln=0,r=8,p=1 {LIMITS}"),
    "no size": (f"[users]\nann = '{costs(4, 0, 1)}'", f"user 'ann': ln=4,r=0,p=1 {LIMITS}"),
    "no lanes": (f"[users]\nann = '{costs(4, 8, 0)}'", f"user 'ann': ln=4,r=8,p=0 {LIMITS}"),
    "many lanes": (f"[users]\nann = '{costs(4, 8, 5)}'", f"user 'ann': ln=4,r=8,p=5 {LIMITS}"),
    "much memory": (f"[tokens]\nci = '{costs(16, 9, 1)}'", f"token 'ci': ln=16,r=9,p=1 {LIMITS}"),
    "a damaged salt": (
        f"[tokens]\nci = '{GOOD.replace('AAAA', 'A', 1)}'",
        "token 'ci': its hash is damaged: make it anew",
    ),
    "a name of nobody": (f"[users]\nanonymous = '{GOOD}'", f"'anonymous' {NAME}"),
    "a name with a colon": (f"[tokens]\n'a:b' = '{GOOD}'", f"'a:b' {NAME}"),
    "a name of blanks": (f"[tokens]\n' ' = '{GOOD}'", f"' ' {NAME}"),
    "no name": (f"[tokens]\n'' = '{GOOD}'", f"'' {NAME}"),
    "tokens that are none": ("tokens = 3", "tokens is no table: write [tokens]"),
    "users that are none": ("users = []", "users is no table: write [users]"),
    "an unknown table": ("[others]\n[zzz]", "unknown key 'others'; there are [tokens] and [users]"),
    "no TOML": (
        "no toml",
        "the accounts are no TOML: Expected '=' after a key in a key/value pair"
        " (at line 1, column 4)",
    ),
}


@pytest.mark.parametrize(("text", "said"), MISTAKES.values(), ids=MISTAKES)
def test_what_is_no_table_of_accounts_is_refused(text, said) -> None:
    with pytest.raises(CredentialsError) as raised:
        Accounts.parse(text)
    assert str(raised.value) == said


@pytest.mark.parametrize("limits", [(1, 1, 1), (16, 8, 4), (4, 1, 4)])
def test_every_cost_that_is_possible_is_taken(limits) -> None:
    ((made,),) = Accounts.parse(f"[tokens]\nci = '{costs(*limits)}'").tokens.values()
    assert (made.recipe.cost_log2, made.recipe.block_size, made.recipe.lanes) == limits
    assert made.recipe.salt == bytes(3)
    assert made.key == bytes(32)
    assert made.text() == costs(*limits)


def test_a_token_has_one_hash_or_two_and_a_file_may_leave_either_table_out() -> None:
    for text, count in ((f"'{GOOD}'", 1), (f"['{GOOD}']", 1), (f"['{GOOD}', '{GOOD}']", 2)):
        found = Accounts.parse(f"[tokens]\nci = {text}")
        assert (len(found.tokens["ci"]), found.users) == (count, {})
    assert Accounts.parse(f"[users]\nann = '{GOOD}'").tokens == {}
    two = Accounts.parse(f"[tokens]\nci = ['{GOOD}', '{GOOD}']")
    assert Accounts.parse(two.to_text()) == two


def test_a_file_that_cannot_be_used_is_named(tmp_path) -> None:
    file = tmp_path / "accounts.toml"
    with pytest.raises(CredentialsError) as raised:
        Accounts.load(file)
    missing = f"cannot read the accounts file {file}: No such file or directory"
    assert str(raised.value) == f"accounts of {file}: {missing}"
    NO_ACCOUNTS.save(file)
    file.write_bytes(b"\xff")
    with pytest.raises(CredentialsError) as raised:
        Accounts.load(file)
    assert str(raised.value) == f"accounts of {file}: they are no text in UTF-8"
    nowhere = tmp_path / "no" / "accounts"
    with pytest.raises(CredentialsError) as raised:
        NO_ACCOUNTS.save(nowhere)
    assert str(raised.value) == f"cannot write the accounts to {nowhere}: No such file or directory"


def test_a_token_a_user_and_a_name_are_removed_by_what_they_are() -> None:
    cheap = Hash(Recipe(b"a" * 16, 4, 2, 1), bytes(32))
    accounts = Accounts({"a": (cheap,), "b": (cheap, cheap)}, {"a": cheap, "c": cheap})
    assert accounts.without("a") == Accounts({"b": (cheap, cheap)}, {"c": cheap})
    assert accounts.without("c").users.keys() == {"a"}
    assert accounts.without("b", oldest=True).tokens["b"] == (cheap,)
    for name, oldest, said in (
        ("x", False, "there is no account 'x'"),
        ("x", True, "'x' has 0 tokens: there is no older one"),
        ("a", True, "'a' has 1 tokens: there is no older one"),
    ):
        with pytest.raises(CredentialsError) as raised:
            accounts.without(name, oldest=oldest)
        assert str(raised.value) == said


@pytest.mark.parametrize("password", ["x" * 7, "x" * 1_025, "two\nlines", ""])
def test_a_password_that_protects_little_is_refused(password) -> None:
    with pytest.raises(CredentialsError, match=r"8 to 1024 characters|one line of printable"):
        NO_ACCOUNTS.with_user("ann", password)


@pytest.mark.parametrize("password", ["x" * 8, "x" * 1_024])
def test_a_password_of_any_length_that_is_possible_proves_its_user(password) -> None:
    accounts = NO_ACCOUNTS.with_user("ann", password)
    assert accounts.find_user("ann", password) is not None
    assert accounts.find_user("ann", password[:-1]) is None


def test_as_many_names_as_are_possible_are_taken(monkeypatch) -> None:
    monkeypatch.setattr(accounts_module, "ACCOUNTS_MAX", 2)
    cheap = Hash(Recipe(b"a" * 16, 4, 2, 1), bytes(32))
    two, three = dict.fromkeys("ab", cheap), dict.fromkeys("abc", cheap)
    assert Accounts(dict.fromkeys("ab", (cheap,)), two)
    for table, given in (("users", ({}, three)), ("tokens", (dict.fromkeys("abc", (cheap,)), {}))):
        with pytest.raises(CredentialsError) as raised:
            Accounts(*given)
        assert str(raised.value) == f"[{table}] has 3 names, up to 2"
    assert Accounts({"x" * 256: (cheap,)}, {})
    with pytest.raises(CredentialsError, match="1 to 256 printable"):
        Accounts({"x" * 257: (cheap,)}, {})


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
