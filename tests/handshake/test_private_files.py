"""Files with data are made with mode 600; a secret that others can read or write is refused."""

from __future__ import annotations

import fcntl
import io
import os
import sqlite3
import stat
import struct
import subprocess
import sys
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from endpoint.mesh.status import StatusCode
from endpoint.settings import Settings
from handshake import private_files
from handshake.credentials import Credentials
from handshake.issuing import AUTHORITY, OwnAuthority
from handshake.private_files import (
    DATABASE_SUFFIXES,
    FILE_SIZE_MAX,
    check_private,
    loose_files,
    make_directory,
    make_private_database,
    open_private,
    read_file,
    read_secret,
    replacing_private,
    tighten,
    tighten_database,
    write_private,
    write_public,
)
from handshake.secret import ClusterSecret
from peermesh import Backend, Endpoint
from peermesh.cli.arguments import read_token
from peermesh.cli.context_file import Contexts, load, save
from peermesh.testing.time_limits import limit
from stores.disk.log_replica import SQLiteLogReplica
from stores.disk.store_keys import keys_from_file, write_new_key
from tests.stores.disk.files import FOUNDING, StoreFile
from wire.errors import BackendFailure, CredentialsError, SettingsError

ROOT = Path(__file__).parent.parent.parent

ANOTHER = 4_321
"""A user that no system has."""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")


def mode_of(path) -> int:
    return os.stat(path).st_mode & 0o777


@pytest.fixture
def loose():
    """The usual umask, under which files are readable for all; of this process alone."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def secret(tmp_path) -> Path:
    path = tmp_path / "secret"
    path.write_text(ClusterSecret.generate().text())
    path.chmod(0o600)
    return path


# Secrets.


@pytest.mark.parametrize("mode", [0o400, 0o600, 0o700])
def test_a_secret_that_is_its_owner_s_alone_is_read(secret, mode):
    secret.chmod(mode)
    assert ClusterSecret.from_file(secret)


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o620, 0o660, 0o601, 0o666, 0o644])
def test_a_secret_that_others_can_read_or_write_is_refused_with_what_mends_it(secret, mode):
    secret.chmod(mode)
    with pytest.raises(CredentialsError) as refused:
        ClusterSecret.from_file(secret)
    command = f"chmod 600 {secret}"
    assert command in str(refused.value)
    subprocess.run(command, shell=True, check=True)
    assert ClusterSecret.from_file(secret)


@needs_root
@pytest.mark.parametrize("mode", [0o440, 0o640])
def test_a_mounted_secret_of_root_and_a_group_is_read(secret, mode):
    os.chown(secret, 0, ANOTHER)
    secret.chmod(mode)
    assert ClusterSecret.from_file(secret)


READ = 4
ACL = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", tag, rights, who)
    for tag, rights, who in (
        (0x01, READ, 2**32 - 1),  # the owner
        (0x02, READ, ANOTHER),
        (0x04, 0, 2**32 - 1),  # the group
        (0x10, READ, 2**32 - 1),  # the mask, which is what a mode shows of the group
        (0x20, 0, 2**32 - 1),  # others
    )
)
"""What systemd sets for the user of a service, as Linux keeps it: see acl(5)."""


@needs_root
@pytest.mark.parametrize("has_acl", [True, False])
def test_a_credential_is_read_as_systemd_gives_it(secret, tmp_path, has_acl):
    """``LoadCredential=``: root's file with an entry for the user, or the user's own file."""
    tmp_path.chmod(0o711)
    secret.chmod(0o400)
    if has_acl:
        try:
            os.setxattr(secret, "system.posix_acl_access", ACL)
        except OSError as error:
            pytest.skip(f"no ACLs here: {error}")
        assert stat.S_IMODE(secret.stat().st_mode) == 0o440
    else:
        os.chown(secret, ANOTHER, -1)
    child = os.fork()
    if child == 0:
        os.chdir(tmp_path)  # The directories above are root's alone.
        os.setgroups([])
        os.setgid(ANOTHER)
        os.setuid(ANOTHER)
        try:
            os._exit(0 if ClusterSecret.from_file(secret.name) else 1)
        except BaseException:
            os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@needs_root
@pytest.mark.parametrize(
    ("mode", "is_read"), [("0444", False), ("0644", False), ("0440", True), ("0400", True)]
)
def test_a_mounted_secret_that_all_may_read_is_refused_with_the_option_that_mends_it(
    tmp_path, mode, is_read
):
    """As containers mount them: root's, in a file system in memory that cannot be written."""
    code = f"from handshake.secret import ClusterSecret as s; s.from_file({str(tmp_path)!r} + '/s')"
    text = ClusterSecret.generate().text()
    steps = [
        f"mount -t tmpfs none {tmp_path} || exit 77",
        f"echo {text} > {tmp_path}/s",
        f"chmod {mode} {tmp_path}/s",
        f"mount -o remount,ro {tmp_path}",
        f'{sys.executable} -c "{code}"',
    ]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", "\n".join(steps)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"nothing can be mounted here: {done.stderr}")
    assert (done.returncode == 0) is is_read, done.stderr
    assert is_read or "mount it with mode 0400, or 0440 and a group" in done.stderr


@pytest.mark.parametrize(
    ("flags", "remedy"),
    [
        (os.ST_RDONLY | os.ST_NOSUID, "it is mounted read-only: mount it with mode 0400"),
        (os.ST_NOSUID, "chmod 600"),
        (None, "chmod 600"),
    ],
    ids=["read-only", "writable", "closed to us"],
)
def test_what_mends_a_file_depends_on_how_it_is_mounted(secret, monkeypatch, flags, remedy):
    def tell(path):
        assert path == secret
        if flags is None:
            raise PermissionError(13, "its directory is closed")
        return SimpleNamespace(f_flag=flags)

    secret.chmod(0o644)
    monkeypatch.setattr(os, "statvfs", tell)
    with pytest.raises(CredentialsError, match=f"than its owner: {remedy}"):
        ClusterSecret.from_file(secret)


@needs_root
@pytest.mark.parametrize("mode", [0o600, 0o640])
def test_a_secret_of_another_user_is_refused_with_what_mends_it(secret, mode):
    os.chown(secret, ANOTHER, ANOTHER)
    secret.chmod(mode)
    with pytest.raises(CredentialsError, match=f"another user, {ANOTHER}") as refused:
        ClusterSecret.from_file(secret)
    command = str(refused.value).rpartition(f"{ANOTHER}: ")[2]
    assert command == f"chown root {secret} && chmod 600 {secret}"
    subprocess.run(command, shell=True, check=True)
    assert ClusterSecret.from_file(secret)


@needs_root
def test_who_is_not_root_reads_a_mounted_secret_and_no_other_user_s(secret):
    """In a process of another user, with the group of the file."""
    check_private(secret, "cluster secret")
    answers = []
    for owner, mode in ((0, 0o440), (0, 0o644), (ANOTHER, 0o600), (ANOTHER, 0o640), (99, 0o644)):
        os.chown(secret, owner, ANOTHER)
        secret.chmod(mode)
        found = secret.stat()
        child = os.fork()
        if child == 0:
            os.setgid(ANOTHER)
            os.setuid(ANOTHER)
            try:
                check_private(secret, "cluster secret", found)
            except CredentialsError as error:
                os._exit(3 if "chmod 640" in str(error) else 2 if "chown" in str(error) else 1)
            except BaseException:
                os._exit(9)
            os._exit(0)
        answers.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    assert answers == [0, 3, 0, 1, 2]


def test_the_command_that_mends_it_can_be_pasted(tmp_path):
    path = tmp_path / "a name; with $signs"
    path.write_text("x")
    path.chmod(0o644)
    with pytest.raises(CredentialsError) as refused:
        read_secret(path, "token")
    assert f"chmod 600 '{path}'" in str(refused.value)


def test_a_file_is_named_as_it_was_given(tmp_path, secret):
    link = tmp_path / "link"
    link.symlink_to(secret)
    secret.chmod(0o604)
    with pytest.raises(CredentialsError, match=f"the token file {link} can .*chmod 600 {link},"):
        read_secret(link, "token")


@pytest.mark.parametrize("folder", ["/dev/fd", "/proc/self/fd"])
def test_a_file_that_was_given_as_a_number_is_named_as_a_command_can_use_it(secret, folder):
    secret.chmod(0o604)
    with secret.open() as file:
        with pytest.raises(CredentialsError, match=f"token file {secret} can .*chmod 600 {secret}"):
            read_secret(f"{folder}/{file.fileno()}", "token")


def test_of_a_file_that_is_too_large_no_more_is_read_than_shows_that(tmp_path, monkeypatch):
    path, asked = tmp_path / "file", []

    class File(io.FileIO):
        def read(self, size=-1, /):
            asked.append(size)
            return super().read(size)

    monkeypatch.setattr(private_files, "open", File, raising=False)
    path.write_bytes(bytes(FILE_SIZE_MAX))
    assert read_file(path, "roles") == bytes(FILE_SIZE_MAX)
    path.write_bytes(bytes(FILE_SIZE_MAX + 1))
    with pytest.raises(CredentialsError, match=f"larger than {FILE_SIZE_MAX} bytes"):
        read_file(path, "roles")
    assert asked == [FILE_SIZE_MAX + 1] * 2


def test_until_a_new_file_is_whole_the_old_one_stays(tmp_path, monkeypatch):
    path, found = tmp_path / "file", []
    for write in (write_private, write_public):
        write(path, b"old")
        monkeypatch.setattr(os, "fsync", lambda _: found.append(path.read_bytes()))
        write(path, b"new", replaces=True)
        assert path.read_bytes() == b"new"
        path.unlink()
    assert found == [b"old", b"old"]


def test_a_pipe_gives_a_secret_as_a_shell_does_it():
    text = ClusterSecret.generate().text()
    reading, writing = os.pipe()
    os.write(writing, text.encode())
    os.close(writing)
    assert ClusterSecret.from_file(f"/dev/fd/{reading}").text() == text
    os.close(reading)


def test_stdin_of_a_process_gives_a_secret(secret):
    program = (
        "from handshake.secret import ClusterSecret\n"
        "print(ClusterSecret.from_file('/dev/stdin').fingerprint())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=secret.read_text(), text=True,
        cwd=ROOT, capture_output=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == ClusterSecret.from_file(secret).fingerprint()


def test_a_named_pipe_that_others_can_open_is_refused(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path, 0o600)
    check_private(path, "token")
    path.chmod(0o644)
    with pytest.raises(CredentialsError, match="chmod 600"):
        check_private(path, "token")


def test_a_file_without_a_name_is_read_whatever_its_mode():
    file = os.memfd_create("secret")
    os.write(file, b"x")
    assert os.fstat(file).st_mode & 0o077
    assert read_secret(f"/dev/fd/{file}", "token") == b"x"
    os.close(file)


def _authority(folder):
    now = datetime.now(UTC)
    valid = (now - timedelta(hours=1), now + timedelta(days=1))
    authority = OwnAuthority.create("mine", valid)
    authority.own.save(folder, AUTHORITY)
    authority.issue("node", valid).save(folder, "node")


def _key_of_an_authority(folder):
    _authority(folder)
    return folder / "authority.key", lambda: OwnAuthority.load(folder)


def _key_of_a_certificate(folder):
    _authority(folder)
    return folder / "node.key", lambda: Credentials.from_files(
        folder / "node.pem", folder / "node.key", folder / "authority.pem"
    )


def _key_of_stores(folder):
    write_new_key(folder / "keys")
    return folder / "keys", lambda: keys_from_file(folder / "keys")


def _token(folder):
    (folder / "token").write_text("t")
    (folder / "token").chmod(0o600)
    return folder / "token", lambda: read_token(folder / "token")


def _contexts(folder):
    environment = {"PEERMESH_CONFIG_DIR": str(folder)}
    save(environment, Contexts())
    return folder / "contexts.json", lambda: load(environment)


def _settings(folder):
    path = folder / "settings.toml"
    path.write_text(f'secret = "{ClusterSecret.generate().text()}"')
    path.chmod(0o600)
    return path, lambda: Settings.load({}, {}, path)


@pytest.mark.parametrize(
    "make",
    [
        _key_of_an_authority, _key_of_a_certificate, _key_of_stores, _token, _contexts, _settings,
    ],
)  # fmt: skip
def test_every_file_with_a_secret_is_held_to_the_same_rule(make, tmp_path):
    path, read = make(tmp_path)
    read()
    path.chmod(0o644)
    with pytest.raises((CredentialsError, SettingsError), match=f"chmod 600 {path}"):
        read()


def test_settings_without_a_secret_and_public_files_may_be_read_by_all(tmp_path):
    path = tmp_path / "settings.toml"
    path.write_text("ttl = 5")
    path.chmod(0o644)
    assert Settings.load({}, {}, path).ttl == 5
    assert read_file(path, "roles") == b"ttl = 5"


# Data.


def _store(path):
    backend = StoreFile(path)
    backend.open()
    return backend


def _log(path):
    backend = SQLiteLogReplica(path)
    backend.load(FOUNDING)
    return backend


@pytest.mark.parametrize("make", [_store, _log])
def test_a_database_and_what_sqlite_puts_beside_it_are_the_owner_s_alone(
    loose, tmp_path, make, caplog
):
    with closing(make(tmp_path / "a.db")):
        found = {path.name: mode_of(path) for path in tmp_path.iterdir()}
    assert found.keys() >= {"a.db", "a.db-wal"}
    assert set(found.values()) == {0o600}
    assert not caplog.text  # it was so from its first moment on, and not tightened later


def test_what_is_there_is_tightened_with_a_warning(loose, tmp_path, caplog):
    names = [tmp_path / f"a.db{suffix}" for suffix in DATABASE_SUFFIXES]
    for name in names:
        name.touch()
    path = str(names[0])
    make_private_database(path)
    assert [mode_of(name) for name in names] == [0o644] * 4, "it may be another's"
    told = tighten_database(path, loose_files(path))
    assert [mode_of(name) for name in names] == [0o600] * 4
    assert len(told) == 4
    assert "a.db (mode 644): now it has 600" in caplog.text
    assert tighten_database(path, loose_files(path)) == ()


@pytest.mark.parametrize("make", [_store, _log])
def test_what_is_no_file_of_ours_keeps_its_mode(loose, tmp_path, make):
    (tmp_path / "directory").mkdir(0o755)
    (tmp_path / "text").write_text("of another program")
    (tmp_path / "text").chmod(0o644)
    with closing(sqlite3.connect(tmp_path / "foreign.db")) as foreign:
        foreign.execute("CREATE TABLE a (b)")
    content = (tmp_path / "foreign.db").read_bytes()
    for name in ("directory", "text", "foreign.db"):
        before = mode_of(tmp_path / name)
        assert before & 0o077
        with pytest.raises(BackendFailure):
            make(tmp_path / name)
        assert mode_of(tmp_path / name) == before
    assert (tmp_path / "foreign.db").read_bytes() == content, "its journal is as it was"


async def test_an_endpoint_tells_of_a_file_that_others_could_read(loose, tmp_path):
    store, log = tmp_path / "store.db", tmp_path / "log.db"
    async with Endpoint() as endpoint:
        async with endpoint.attach_master("s", Backend.SQLite, path=store):
            pass
        _log(log).close()
        for path in (store, log):
            path.chmod(0o644)
        with endpoint.subscribe_status() as status:
            async with endpoint.attach_master("s", Backend.SQLite, path=store):
                event = await status.get()
                assert (event.status, event.store) == (StatusCode.FILE_EXPOSED, "s")
            async with endpoint.attach_log("l", backend=Backend.SQLite, path=log):
                event = await status.get()
                assert (event.status, event.store) == (StatusCode.FILE_EXPOSED, "l")
    assert mode_of(store) == mode_of(log) == 0o600


def test_looking_at_a_database_keeps_the_locks_that_this_process_has_on_it(tmp_path):
    """To close any descriptor of a file takes all of a process' locks off it."""
    path = tmp_path / "a.db"
    path.touch(0o644)
    with path.open("r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        make_private_database(str(path))
        program = (
            "import fcntl, sys\n"
            "with open(sys.argv[1], 'r+b') as file:\n"
            "    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)"
        )
        done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True)
    assert b"BlockingIOError" in done.stderr


def test_a_link_to_where_nothing_is_makes_a_private_file(loose, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "data.db")
    make_private_database(str(link))
    assert mode_of(tmp_path / "data.db") == 0o600


@pytest.mark.parametrize("mode", ["w", "a", "wb", "ab"])
def test_files_of_data_are_the_owner_s_alone_and_tightened(loose, tmp_path, mode, caplog):
    path = tmp_path / "file"
    open_private(path, mode).close()
    assert mode_of(path) == 0o600
    path.chmod(0o664)
    open_private(path, mode).close()
    assert mode_of(path) == 0o600
    assert "mode 664" in caplog.text


def test_a_file_that_is_written_in_place_is_tightened_and_not_made(loose, tmp_path):
    path = tmp_path / "file"
    with pytest.raises(FileNotFoundError):
        open_private(path, "r+b")
    path.write_bytes(b"old")
    path.chmod(0o664)
    with open_private(path, "r+b") as file:
        assert file.read() == b"old"
    assert mode_of(path) == 0o600


def test_a_file_that_is_replaced_is_private_and_stays_until_the_new_one_is_whole(loose, tmp_path):
    path, link = tmp_path / "dump", tmp_path / "link"
    link.symlink_to(path)

    def break_off() -> None:
        with replacing_private(link) as file:
            file.write(b"a part")
            raise KeyError

    with pytest.raises(KeyError):
        break_off()
    assert not path.exists()
    for content in (b"all", b"all of it"):
        with replacing_private(link) as file:
            file.write(content)
        assert mode_of(path) == 0o600
        with pytest.raises(KeyError):
            break_off()
        assert path.read_bytes() == content
        path.chmod(0o644)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["dump", "link"]
    assert link.is_symlink()
    with replacing_private(os.devnull) as file:
        file.write(b"all")
    for no_file in ("", f"{tmp_path}/new/", f"{tmp_path}/"):
        with pytest.raises((FileNotFoundError, IsADirectoryError)), replacing_private(no_file):
            pass


WRITER = """
import sys
from handshake.private_files import replacing_private

with replacing_private(sys.argv[1]) as file:
    file.write(sys.argv[2].encode())
    print("writing", flush=True)
    sys.stdin.read()
"""


def test_what_a_killed_writer_left_is_removed_and_no_file_of_a_living_one(tmp_path):
    path = tmp_path / "dump"
    others = {f"dump.{end}" for end in ("20261128.new", "peermesh-new", "peermesh-too-long.new")}
    for name in others:
        (tmp_path / name).touch()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with ExitStack() as stack:
        living, killed = (
            stack.enter_context(
                subprocess.Popen([sys.executable, "-c", WRITER, path, name], cwd=ROOT, **pipes)
            )
            for name in ("living", "killed")
        )
        for each in (living, killed):
            assert each.stdout.readline() == b"writing\n"
        killed.kill()
        killed.wait(limit())
        assert len(list(tmp_path.iterdir())) == len(others) + 2
        with replacing_private(path) as file:
            file.write(b"ours")
        (_,) = {each.name for each in tmp_path.iterdir()} - others - {"dump"}
        assert path.read_bytes() == b"ours"
        living.stdin.close()
        assert living.wait(limit()) == 0
    assert path.read_bytes() == b"living"
    assert {each.name for each in tmp_path.iterdir()} == {*others, "dump"}


def test_a_new_file_that_another_one_took_for_left_is_made_again(tmp_path, monkeypatch):
    made, lock = [], fcntl.flock

    def locked(number, how):
        if not made:
            made.extend(tmp_path.iterdir())
            made[0].unlink()
        lock(number, how)

    monkeypatch.setattr(fcntl, "flock", locked)
    with replacing_private(tmp_path / "dump") as file:
        file.write(b"all")
    assert (tmp_path / "dump").read_bytes() == b"all"
    assert made


@pytest.fixture
def done(monkeypatch):
    """What was synced, by its name, and "replaced" where a file took its name, in order."""
    done, sync, replace = [], os.fsync, os.replace

    def synced(number):
        sync(number)
        done.append(os.path.basename(os.readlink(f"/proc/self/fd/{number}")))

    def replaced(source, target):
        replace(source, target)
        done.append("replaced")

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    return done


def test_a_file_that_took_its_name_keeps_it_through_a_power_cut(tmp_path, done):
    with replacing_private(tmp_path / "dump") as file:
        file.write(b"all")
    assert done[0].startswith("dump.")
    assert done[1:] == ["replaced", tmp_path.name]


def test_a_device_keeps_its_mode():
    before = mode_of(os.devnull)
    open_private(os.devnull, "w").close()
    assert mode_of(os.devnull) == before


def test_directories_are_the_owner_s_alone_and_those_that_are_there_stay(loose, tmp_path):
    make_directory(tmp_path / "new")
    assert mode_of(tmp_path / "new") == 0o700
    (tmp_path / "open").mkdir()
    make_directory(tmp_path / "open")
    assert mode_of(tmp_path / "open") == 0o755


def test_text_is_utf_8_whatever_the_locale(tmp_path):
    with open_private(tmp_path / "text", "w") as file:
        assert file.encoding == "utf-8"
        file.write("\u2713")
    assert (tmp_path / "text").read_bytes() == "\u2713".encode()
    with open_private(tmp_path / "bytes", "wb") as file:
        file.write(b"\xff")


def test_a_file_is_private_from_its_first_moment_and_told_of_only_if_it_was_not(
    tmp_path, loose, caplog
):
    path = tmp_path / "data"
    open_private(path, "w").close()
    assert mode_of(path) == 0o600
    assert not caplog.records, "it was never open to others"
    path.chmod(0o640)
    text = tighten(path)
    assert text == f"others could read or write {path} (mode 640): now it has 600"
    assert [each.getMessage() for each in caplog.records] == [text]
    assert tighten(path) is None
    assert tighten(tmp_path / "nothing") is None


def test_a_file_whose_mode_cannot_be_changed_is_told_of_with_what_mends_it(
    tmp_path, monkeypatch, caplog
):
    def refuse(path, mode):
        raise PermissionError(1, "not yours")

    monkeypatch.setattr(os, "chmod", refuse)
    path = tmp_path / "a name"
    with open(os.open(path, os.O_CREAT | os.O_WRONLY), "w") as file:
        os.fchmod(file.fileno(), 0o644)
    text = tighten(path)
    assert text == (
        f"others can read or write {path}, and its mode cannot be changed (not yours):"
        f" chmod 600 '{path}'"
    )
    assert [each.getMessage() for each in caplog.records] == [text]


def test_directories_above_are_made_too(tmp_path):
    make_directory(tmp_path / "a" / "b")
    make_directory(tmp_path / "a" / "b")
    assert mode_of(tmp_path / "a" / "b") == 0o700


def test_a_new_key_is_on_the_disk_before_anything_is_under_it(tmp_path, done):
    path = tmp_path / "keys"
    for _ in range(2):
        write_new_key(path)
        assert done == ["keys.new", "replaced", tmp_path.name]
        done.clear()
    assert len(keys_from_file(path).keys) == 2
    (tmp_path / "keys.new").touch()  # Another one is at it, or was interrupted.
    with pytest.raises(CredentialsError, match=r"remove .*keys\.new if another one is not"):
        write_new_key(path)
    assert len(keys_from_file(path).keys) == 2


def test_an_error_names_what_the_file_should_hold(tmp_path, secret):
    for read in (read_file, read_secret):
        with pytest.raises(CredentialsError, match=f"cannot read the token file {tmp_path}/no:"):
            read(tmp_path / "no", "token")
    secret.chmod(0o604)
    assert read_file(secret, "token"), "it may be public"
    with pytest.raises(CredentialsError, match=f"the token file {secret} can be read or written"):
        read_secret(secret, "token")


def test_what_is_looked_at_is_what_is_read(secret, tmp_path, monkeypatch):
    """Not what has the name a moment later."""
    other = tmp_path / "other"
    other.write_bytes(b"x")
    other.chmod(0o600)

    def swap_behind(path, mode):
        file = open(path, mode)  # noqa: SIM115 - given to the caller
        os.replace(other, path)
        return file

    os.link(secret, tmp_path / "kept")
    secret.chmod(0o604)
    monkeypatch.setattr(private_files, "open", swap_behind, raising=False)
    with pytest.raises(CredentialsError, match="can be read or written by others"):
        read_secret(secret, "token")
