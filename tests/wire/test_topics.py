"""Topics: Broker's rules for joining, matching and minimising; the reserved segment is ours."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from wire.errors import InvalidTopic
from wire.limits import TOPIC_SIZE_MAX
from wire.topics import (
    SubscriptionCounts,
    Subscriptions,
    check_topic,
    command_name,
    is_minimal,
    is_reserved,
    join,
    minimal,
    split,
    store_name,
    store_topics,
)

topics = st.text("ab/", max_size=4)


@pytest.mark.parametrize(
    ("left", "right", "joined"),
    [
        ("/a/", "/b/c", "/a//b/c"),
        ("/b/c", "/a/", "/b/c/a"),
        ("a", "b", "a/b"),
        ("a", "/b", "a/b"),
        ("", "b", "b"),
        ("a", "", "a"),
        ("a/", "", "a"),
        ("", "", ""),
    ],
)
def test_joining_follows_broker(left, right, joined):
    assert join(left, right) == joined


def test_splitting_drops_what_is_empty():
    assert split("/a//b/") == ["a", "b"]
    assert split("") == []


@pytest.mark.parametrize("topic", ["<$>", "a/<$>", "<$>/local/data", "s/<$>/data/master"])
def test_the_reserved_segment_is_refused_to_users(topic):
    assert is_reserved(topic)
    with pytest.raises(InvalidTopic, match="reserved"):
        check_topic(topic)


@pytest.mark.parametrize(
    "topic", ["", "/", "a<$>", "<$>a/b", "a/<$", "Größe", "x" * TOPIC_SIZE_MAX]
)
def test_anything_else_is_a_topic(topic):
    assert check_topic(topic) == topic


@pytest.mark.parametrize(
    ("topic", "hint"),
    [
        (b"bytes", "text, not bytes"),
        (None, "text, not NoneType"),
        ("x" * (TOPIC_SIZE_MAX + 1), "bytes"),
        ("é" * (TOPIC_SIZE_MAX // 2 + 1), "bytes"),
        ("\ud800", "surrogate"),
    ],
)
def test_what_is_no_topic_is_refused(topic, hint):
    with pytest.raises(InvalidTopic, match=hint) as refused:
        check_topic(topic)
    assert len(str(refused.value)) < 300


def test_stores_have_topics_that_users_do_not():
    master, clone = store_topics("a/b")
    assert (master, clone) == ("a/b/<$>/data/master", "a/b/<$>/data/clone")
    assert store_name(master) == store_name(clone) == "a/b"


@pytest.mark.parametrize("name", ["", "a/<$>/b", "x" * (TOPIC_SIZE_MAX - 5)])
def test_a_store_needs_a_name_that_fits_into_its_topics(name):
    with pytest.raises(InvalidTopic):
        store_topics(name)


@pytest.mark.parametrize(
    "topic", ["a/b", "/<$>/data/master", "a/<$>/data/masters", "a/<$>/b/<$>/data/clone"]
)
def test_other_topics_belong_to_no_store(topic):
    assert store_name(topic) is None


@pytest.mark.parametrize("kind", ["data/master", "admin", "data/later-2", "k" * 64])
def test_a_topic_of_commands_is_a_name_and_a_kind_known_or_not(kind: str) -> None:
    assert command_name(f"a/b/<$>/{kind}") == "a/b"


@pytest.mark.parametrize(
    "topic",
    [
        *("a", "<$>", "<$>/data", "/<$>/data", "a/<$>", "a/<$>/", "a/<$>/Data", "a/<$>/da ta"),
        *("a/<$>/data/", "a/<$>//data", "a/<$>/b/<$>/data", "<$>/a/<$>/data"),
        *("a/<$>/data\n", "a/<$>/d\u0430ta", "a/<$>/" + "k" * 65),
    ],
)
def test_nothing_else_is_a_topic_of_commands(topic: str) -> None:
    assert command_name(topic) is None


@given(st.lists(topics), topics)
def test_the_minimal_set_matches_what_the_topics_match(wanted, topic):
    prefixes = Subscriptions(tuple(wanted))
    assert prefixes.matches(topic) == any(topic.startswith(prefix) for prefix in wanted)
    assert prefixes.matches(topic) == topic.startswith(prefixes.prefixes)


@given(st.lists(topics))
def test_the_minimal_set_is_sorted_and_nothing_in_it_covers_another(wanted):
    prefixes = minimal(wanted)
    assert list(prefixes) == sorted(set(prefixes))
    assert not any(a != b and a.startswith(b) for a in prefixes for b in prefixes)
    assert is_minimal(prefixes)
    assert set(prefixes) <= set(wanted)


def test_unsorted_repeated_or_covered_prefixes_are_not_minimal():
    assert not is_minimal(("b", "a"))
    assert not is_minimal(("a", "a"))
    assert not is_minimal(("a", "ab"))


def test_extending_is_a_new_set():
    few = Subscriptions(("/a/b",))
    assert few.extend(["/c"]).prefixes == ("/a/b", "/c")
    assert few.extend(["/a"]).prefixes == ("/a",)
    assert few.extend(["/a/b/c"]) == few
    assert few.prefixes == ("/a/b",)
    assert hash(few) == hash(Subscriptions(("/a/b", "/a/b/c")))


def test_one_topic_alone_is_a_mistake():
    with pytest.raises(InvalidTopic, match="tuple"):
        Subscriptions("abc")


@given(st.lists(st.tuples(st.booleans(), topics)))
def test_counts_shrink_when_the_last_subscriber_goes(steps):
    counts, wanted = SubscriptionCounts(), []
    for is_added, topic in steps:
        if is_added:
            wanted.append(topic)
            counts.add([topic])
        elif topic in wanted:
            wanted.remove(topic)
            counts.remove([topic])
        assert counts.minimal() == minimal(wanted)
    assert counts.counts() == {topic: wanted.count(topic) for topic in wanted}


def test_removing_what_was_never_added_is_a_bug_of_ours():
    with pytest.raises(AssertionError, match="more often"):
        SubscriptionCounts().remove(["a"])
