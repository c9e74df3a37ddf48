"""The fourteen commands of the seed, their tags, and the mapping to messages of the channel."""

from __future__ import annotations

import pytest

import channels
from stores import actions, commands
from stores.commands import CHANNEL_MESSAGES, CommandTag, InternalCommand, tag_of
from wire.identifiers import EndpointId, EntityId

SENDER = EntityId(EndpointId(bytes(16)), 1)
WRITER = actions.WriterId.of(SENDER, 1)

SEED_TAGS = {
    actions.PutCommand: CommandTag.ACTION,
    actions.PutUniqueCommand: CommandTag.ACTION,
    actions.PutUniqueResultCommand: CommandTag.ACTION,
    actions.EraseCommand: CommandTag.ACTION,
    actions.ExpireCommand: CommandTag.ACTION,
    actions.AddCommand: CommandTag.ACTION,
    actions.SubtractCommand: CommandTag.ACTION,
    actions.ClearCommand: CommandTag.ACTION,
    commands.AttachWriterCommand: CommandTag.PRODUCER_CONTROL,
    commands.KeepaliveCommand: CommandTag.PRODUCER_CONTROL,
    commands.AckCloneCommand: CommandTag.PRODUCER_CONTROL,
    commands.RetransmitFailedCommand: CommandTag.PRODUCER_CONTROL,
    commands.CumulativeAckCommand: CommandTag.CONSUMER_CONTROL,
    commands.NackCommand: CommandTag.CONSUMER_CONTROL,
}


def test_the_seed_has_fourteen_commands():
    assert len(SEED_TAGS) == 14


@pytest.mark.parametrize(("kind", "tag"), SEED_TAGS.items(), ids=lambda item: str(item))
def test_each_command_of_the_seed_has_its_tag(kind, tag):
    assert tag_of(object.__new__(kind)) is tag


def test_the_mapping_is_the_seeds():
    assert CHANNEL_MESSAGES[commands.AttachWriterCommand] is channels.Handshake
    assert CHANNEL_MESSAGES[commands.AckCloneCommand] is channels.Handshake
    assert CHANNEL_MESSAGES[commands.CumulativeAckCommand] is channels.CumulativeAck
    assert CHANNEL_MESSAGES[commands.NackCommand] is channels.Nack
    assert CHANNEL_MESSAGES[commands.KeepaliveCommand] is channels.Heartbeat
    assert CHANNEL_MESSAGES[commands.RetransmitFailedCommand] is channels.RetransmitFailed


EXAMPLES = [
    (commands.Actions((b"one",)), channels.Event(7, 5, (b"one",))),
    (commands.AttachWriterCommand(9), channels.Handshake(7, 5, 9)),
    (commands.AckCloneCommand(9, 1, 0, (), 0, None), channels.Handshake(7, 5, 9)),
    (commands.KeepaliveCommand(), channels.Heartbeat(7, 5)),
    (commands.RetransmitFailedCommand(), channels.RetransmitFailed(7, 5)),
    (commands.UnknownConsumerCommand(), channels.UnknownConsumer(7)),
    (commands.CumulativeAckCommand(), channels.CumulativeAck(7, 5)),
    (commands.NackCommand((1, 2)), channels.Nack(7, (1, 2))),
    (commands.HandshakeRequestCommand(WRITER, 3), channels.HandshakeRequest(7)),
]


@pytest.mark.parametrize(("content", "message"), EXAMPLES)
def test_a_command_becomes_the_message_that_the_mapping_names(content, message):
    command = InternalCommand(5, SENDER, None, 7, content)
    converted = commands.producer_message(command) or commands.consumer_message(command)
    assert converted == message
    assert type(converted) is CHANNEL_MESSAGES[type(content)]


def test_what_is_no_message_of_the_channel_becomes_none():
    command = InternalCommand(5, SENDER, 1, 7, commands.BarrierRequestCommand(1))
    assert commands.producer_message(command) is None
    assert commands.consumer_message(command) is None


@pytest.mark.parametrize(
    "message",
    [channels.CumulativeAck(7, 5), channels.Nack(7, (1, 2)), channels.HandshakeRequest(7)],
)
def test_messages_of_a_consumer_survive_the_way_there_and_back(message):
    sequence, content = commands.consumer_command(message)
    command = InternalCommand(sequence, SENDER, 1, message.epoch, content)
    assert commands.consumer_message(command) == message
