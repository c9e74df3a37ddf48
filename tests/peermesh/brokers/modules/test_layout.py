"""Layouts in TOML: what they say, what is wrong with them, and what leads from one to another."""

from __future__ import annotations

import itertools
import threading

import pytest

from peermesh.brokers.modules import InvalidArgument, LayoutError, Message
from peermesh.brokers.modules.deployment import Deployment
from peermesh.brokers.modules.factory import make
from peermesh.brokers.modules.layout import Changes, Layout

PLAIN = """
[modules.a]
class = "collections:deque"
[modules.b]
class = "gateway:Collector"
arguments = { name = "b" }
inbox_size = 5
[[links]]
source = "a"
sink = "b"
policy = "drop_oldest"
"""


def test_a_layout_says_modules_and_links() -> None:
    layout = Layout.parse(PLAIN)
    assert layout.modules["b"].arguments == {"name": "b"}
    assert layout.modules["b"].inbox_size == 5
    (link,) = layout.links
    assert (link.source, link.sink, link.policy) == ("a", "b", "drop_oldest")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("modules", "no TOML"),
        ("modules = " + "[" * 5_000, "nested too deep"),
        ("module = 1", "'module'"),
        ("modules = 1", "modules = 1"),
        ("modules = { a = 1 }", r"\[modules.a\] is no table"),
        ("[modules.a]", "class"),
        ("[modules.a]\nclass = 1", "class = 1 is no str"),
        ("[modules.a]\nclass = 'm:C'\npublishes = 't'", "either"),
        ("[modules.a]\nclass = 'm:C'\nproces = true", "'proces'"),
        ("[modules.a]\nclass = 'm:C'\ninbox_size = true", "inbox_size"),
        ("[modules.a]\nclass = 'm:C'\ninbox_size = 0", "inbox_size = 0"),
        ("[modules.a]\nclass = 'm:C'\ninbox_size = 2000000", "inbox_size = 2000000"),
        ("[modules.'']\nclass = 'm:C'", "1 to 256 characters"),
        ("".join(f"[modules.a{n}]\nclass = 'm:C'\n" for n in range(1_025)), "1025 modules"),
        ("[[links]]\nsource = 'a'\nsink = 'a'", "no such module"),
        ("links = [1]", "no table"),
        (PLAIN + "[[links]]\nsource = 'a'\nsink = 'b'", "twice"),
        (PLAIN.replace("drop_oldest", "best"), "policy = 'best'"),
    ],
)
def test_a_bad_layout_names_the_place(text: str, place: str) -> None:
    with pytest.raises(LayoutError, match=place):
        Layout.parse(text)


def test_changes_touch_only_what_differs() -> None:
    old = Layout.parse(PLAIN)
    assert old.changes_from(old) == Changes((), (), (), (), (), ())
    new = Layout.parse(PLAIN.replace("drop_oldest", "wait").replace('name = "b"', 'name = "c"'))
    changes = new.changes_from(old)
    assert changes == Changes((), (), (new.modules["b"],), (), new.links, ())
    other = Layout.parse(PLAIN.replace('source = "a"', 'source = "b"'))
    assert other.changes_from(old) == Changes(old.links, (), (), (), (), other.links)
    gone = Layout.empty().changes_from(new)
    assert gone == Changes((), ("a", "b"), (), (), (), ())  # their links go with them
    assert new.changes_from(Layout.empty()) == Changes(
        (), (), (), tuple(new.modules.values()), (), new.links
    )


@pytest.mark.parametrize(
    "path", ["nothing", "m:", ":C", "no_such_module:C", "collections:nothing", "sys:version"]
)
def test_a_class_that_cannot_be_made_says_why(path: str) -> None:
    with pytest.raises(InvalidArgument, match=r"package\.module:Class|imported|no class"):
        make(path, {})
    with pytest.raises(InvalidArgument, match="arguments"):
        make("fractions:Fraction", {"colour": 1})


GATEWAY = """
from peermesh.brokers.modules import Message

received = []

class Source:
    def attach(self, port):
        self.port = port
    def receive(self, message):
        self.port.publish(message)

class First(Source):
    def attach(self, port):
        for number in range(5):
            port.publish(Message(number))

class Sink:
    def __init__(self, name):
        self.name = name
    def receive(self, message):
        received.append((self.name, message.content))
"""

LAYOUT = """
[modules.source]
class = "{0}:Source"
[modules.one]
class = "{0}:Sink"
arguments = {{ name = "one" }}
[[links]]
source = "source"
sink = "one"
"""


def test_a_broker_follows_its_layout_while_it_runs(kit, tmp_path, monkeypatch) -> None:
    name = f"gateway_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(GATEWAY)
    monkeypatch.syspath_prepend(str(tmp_path))
    deployment = Deployment(kit.broker)
    text = LAYOUT.format(name)
    deployment.apply(Layout.parse(text))
    kit.broker.publish("source", Message(1))
    more = text + f"[modules.two]\nclass = '{name}:Sink'\narguments = {{ name = 'two' }}\n"
    more += "[[links]]\nsource = 'source'\nsink = 'two'\n"
    changes = deployment.apply(Layout.parse(more))
    assert ([plan.name for plan in changes.add], changes.remove) == (["two"], ())
    kit.broker.publish("source", Message(2))
    with pytest.raises(InvalidArgument):
        deployment.apply(Layout.parse(more.replace(f"'{name}:Sink'", "'nothing:Sink'")))
    with pytest.raises(LayoutError, match="endpoint"):
        deployment.apply(Layout.parse(more + "[modules.mesh]\npublishes = 't'\n"))
    kit.broker.publish("source", Message(3))
    deployment.apply(Layout.empty())
    received = __import__(name).received
    assert sorted(received) == [("one", 1), ("one", 2), ("one", 3), ("two", 2), ("two", 3)]


def test_what_a_module_publishes_when_it_begins_goes_along_the_links_of_the_file(
    kit, tmp_path, monkeypatch
) -> None:
    name = f"first_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(GATEWAY)
    monkeypatch.syspath_prepend(str(tmp_path))
    layout = Layout.parse(LAYOUT.format(name).replace(":Source", ":First"))
    for _ in range(10):
        deployment = Deployment(kit.broker)
        deployment.apply(layout)
        deployment.apply(Layout.empty())
    received = __import__(name).received
    assert [content for _, content in received] == list(range(5)) * 10


def test_a_module_that_could_not_attach_or_has_left_is_made_anew(
    kit, tmp_path, monkeypatch
) -> None:
    name = f"anew_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(GATEWAY)
    monkeypatch.syspath_prepend(str(tmp_path))
    text = LAYOUT.format(name)
    deployment = Deployment(kit.broker)
    deployment.apply(Layout.parse(text))
    assert kit.broker.remove_module("one")  # as if it had left
    assert [plan.name for plan in deployment.apply(Layout.parse(text)).add] == ["one"]
    kit.broker.publish("source", Message("again"))
    assert kit.broker.remove_module("source")
    deployment.apply(Layout.empty())
    assert kit.broker.modules() == []
    assert __import__(name).received == [("one", "again")]


def test_a_sink_that_is_made_anew_gets_all_that_is_published_meanwhile_in_order(
    kit, tmp_path, monkeypatch
) -> None:
    name = f"replaced_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(GATEWAY)
    monkeypatch.syspath_prepend(str(tmp_path))
    text, over, count = LAYOUT.format(name), threading.Event(), 0
    deployment = Deployment(kit.broker)
    deployment.apply(Layout.parse(text))

    def publish() -> None:
        nonlocal count
        while not over.is_set():
            kit.broker.publish("source", Message(count))
            count += 1

    def follow() -> None:
        try:
            for version in range(20):
                deployment.apply(Layout.parse(text.replace('"one" }', f'"{version}" }}')))
                kit.until(lambda seen=count: count > seen)
        finally:
            over.set()

    kit.in_threads(publish, follow)
    deployment.apply(Layout.empty())
    received = __import__(name).received
    assert [content for _, content in received] == list(range(count))
    assert [each for each, _ in itertools.groupby(who for who, _ in received)][-1] == "19"
    assert not kit.failures


def test_a_filter_that_leaves_the_file_passes_on_what_it_was_sent_before(
    kit, tmp_path, monkeypatch
) -> None:
    name = f"leaving_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(GATEWAY)
    monkeypatch.syspath_prepend(str(tmp_path))
    modules, links = LAYOUT.format(name).split("[[links]]")
    first = f"[modules.first]\nclass = '{name}:Source'\n"
    to_filter = "[[links]]\nsource = 'first'\nsink = 'source'\n"
    deployment = Deployment(kit.broker)
    deployment.apply(Layout.parse(f"{modules}{first}{to_filter}[[links]]{links}"))
    for number in range(500):
        kit.broker.publish("first", Message(number))
    deployment.apply(Layout.parse(modules[modules.index("[modules.one]") :] + first))
    kit.broker.remove_module("one")
    assert [content for _, content in __import__(name).received] == list(range(500))
