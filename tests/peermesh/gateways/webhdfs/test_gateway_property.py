"""The gateway against a second view of a file system: a plain dict of paths, over plain HTTP."""

from __future__ import annotations

from contextlib import ExitStack

from hypothesis import settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from peermesh import blocking
from peermesh.gateways.webhdfs.limits import CHUNK_SIZE
from peermesh.testing.webhdfs import RemoteException, WebHDFSClient

NAMES = st.sampled_from(["a", "b", ".c.tmp", "d e+%&=?#", "\u00fc"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(tuple)
CONTENTS = st.one_of(
    st.binary(max_size=20),
    st.sampled_from([b"x" * CHUNK_SIZE, b"y" * (CHUNK_SIZE + 1), b"z" * (20 * CHUNK_SIZE)]),
)
ADDITIONS = st.one_of(
    st.binary(max_size=20), st.sampled_from([b"x" * CHUNK_SIZE, b"y" * (2 * CHUNK_SIZE + 1)])
)
LENGTHS = st.one_of(
    st.integers(0, 30),
    st.builds(
        lambda chunks, more: chunks * CHUNK_SIZE + more, st.integers(0, 40), st.integers(0, 2)
    ),
)
REFUSED = object()


def text(path):
    return "/" + "/".join(path)


class Model:
    """What has to be where: bytes for a file, ``None`` for a directory."""

    def __init__(self):
        self.nodes = {(): None}
        self.origins = {}

    def is_file(self, path):
        return self.nodes.get(path) is not None

    def is_directory(self, path):
        return path in self.nodes and self.nodes[path] is None

    def is_below_file(self, path):
        return any(self.is_file(path[:depth]) for depth in range(len(path)))

    def children(self, path):
        return sorted(node[-1] for node in self.nodes if node and node[:-1] == path)

    def make_directories(self, path):
        if self.is_below_file((*path, "")):
            return REFUSED
        for depth in range(len(path)):
            self.nodes.setdefault(path[: depth + 1], None)
        return True

    def create(self, path, content, overwrite):
        if self.is_directory(path) or self.is_below_file(path):
            return REFUSED
        if self.is_file(path) and not overwrite:
            return REFUSED
        self.make_directories(path[:-1])
        self.nodes[path] = content
        self.origins.pop(path, None)
        return True

    def append(self, path, content):
        if not self.is_file(path):
            return REFUSED
        self.nodes[path] += content
        return True

    def truncate(self, path, length):
        if not self.is_file(path) or length > len(self.nodes[path]):
            return REFUSED
        self.nodes[path] = self.nodes[path][:length]
        return True

    def concat(self, path, sources):
        names = {path, *sources}
        if len(names) <= len(sources) or not all(map(self.is_file, names)):
            return REFUSED
        for source in sources:
            self.nodes[path] += self.nodes.pop(source)
            self.origins.pop(source, None)
        return True

    def delete(self, path, recursive):
        if path not in self.nodes:
            return False
        if self.children(path) and not recursive:
            return REFUSED
        self._forget(path)
        return True

    def _forget(self, path):
        for node in [node for node in self.nodes if node[: len(path)] == path]:
            del self.nodes[node]
            self.origins.pop(node, None)

    def may_move(self, path, to, options):
        if path not in self.nodes or to[: len(path)] == path:
            return False
        if to in self.nodes and (
            options != "OVERWRITE" or self.children(to) or self.is_file(to) != self.is_file(path)
        ):
            return False
        return self.is_directory(to[:-1])

    def rename(self, path, to, options):
        refused = False if options is None else REFUSED
        if options is None and self.is_directory(to) and to != path:
            is_repeated = path not in self.nodes and self.origins.get(to) == path
            if to[: len(path)] == path:
                return refused
            to = to if is_repeated else (*to, path[-1])
        if options is None and to == path and self.is_file(path):
            return True
        if path not in self.nodes and to[: len(path)] != path:
            return True if to in self.nodes and self.origins.get(to) == path else refused
        if not self.may_move(path, to, options):
            return refused
        moved = {node: self.nodes[node] for node in self.nodes if node[: len(path)] == path}
        origins = {node: self.origins[node] for node in moved if node in self.origins}
        self._forget(path)
        for node, content in moved.items():
            self.nodes[to + node[len(path) :]] = content
        for node, origin in origins.items():
            self.origins[to + node[len(path) :]] = origin
        self.origins[to] = path
        return True


def outcome(operation, *arguments, **options):
    try:
        done = operation(*arguments, **options)
    except RemoteException as error:
        return REFUSED if error.status < 500 else error
    return True if done is None else done


class Comparison(RuleBasedStateMachine):
    """Do the same to both, and look whether they agree."""

    client: WebHDFSClient
    store: blocking.Store
    used = 0

    def __init__(self):
        super().__init__()
        Comparison.used += 1
        self.base = (f"case{Comparison.used}",)
        self.model = Model()
        self.model.make_directories(self.base)
        self.client.make_directories(text(self.base))

    def at(self, path):
        return self.base + path

    @rule(path=PATHS)
    def make_directories(self, path):
        path = self.at(path)
        expected = self.model.make_directories(path)
        assert outcome(self.client.make_directories, text(path)) == expected

    @rule(path=PATHS, content=CONTENTS, overwrite=st.booleans(), size=st.integers(1, 100_000))
    def create(self, path, content, overwrite, size):
        path = self.at(path)
        pieces = [content[at : at + size] for at in range(0, len(content), max(size, 5_000))]
        content = b"".join(pieces)
        expected = self.model.create(path, content, overwrite)
        done = outcome(self.client.create, text(path), iter(pieces), overwrite=overwrite)
        assert done == expected

    @rule(path=PATHS, content=ADDITIONS)
    def append(self, path, content):
        path = self.at(path)
        expected = self.model.append(path, content)
        assert outcome(self.client.append, text(path), content) == expected

    @rule(path=PATHS, length=LENGTHS)
    def truncate(self, path, length):
        path = self.at(path)
        expected = self.model.truncate(path, length)
        assert outcome(self.client.truncate, text(path), length) == expected

    @rule(path=PATHS, sources=st.lists(PATHS, min_size=1, max_size=3))
    def concat(self, path, sources):
        path, sources = self.at(path), [self.at(source) for source in sources]
        expected = self.model.concat(path, sources)
        assert outcome(self.client.concat, text(path), map(text, sources)) == expected

    @rule(path=PATHS, to=PATHS, options=st.sampled_from([None, "NONE", "OVERWRITE"]))
    def rename(self, path, to, options):
        path, to = self.at(path), self.at(to)
        expected = self.model.rename(path, to, options)
        assert outcome(self.client.rename, text(path), text(to), options) == expected

    @rule(path=PATHS, recursive=st.booleans())
    def delete(self, path, recursive):
        path = self.at(path)
        expected = self.model.delete(path, recursive)
        assert outcome(self.client.delete, text(path), recursive=recursive) == expected

    @invariant()
    def both_hold_the_same(self):
        for path, content in self.model.nodes.items():
            if path[:1] != self.base:
                continue
            if content is None:
                assert sorted(self.client.names(text(path))) == self.model.children(path)
                assert self.client.status(text(path))["childrenNum"] == len(
                    self.model.children(path)
                )
            else:
                assert self.client.open(text(path)) == content

    def teardown(self):
        self.client.delete(text(self.base), recursive=True)


def test_the_gateway_agrees_with_a_plain_dict_of_paths():
    with ExitStack() as stack:
        endpoint = stack.enter_context(blocking.Endpoint())
        store = stack.enter_context(endpoint.attach_master("files", blocking.Backend.Memory))
        gateway = stack.enter_context(blocking.serve_webhdfs(store))
        Comparison.client = stack.enter_context(WebHDFSClient(gateway.host, gateway.port))
        run_state_machine_as_test(
            Comparison, settings=settings(max_examples=8, stateful_step_count=25)
        )
        # Nothing is left of all that was deleted: the root alone, in one key.
        for _ in store.watch():
            if len(store.keys()) == 1:
                break
