"""Commands on the wire, and the messages of the channel that they are."""

from __future__ import annotations

import pytest

import channels
from stores import actions, commands
from stores.commands import InternalCommand
from wire.identifiers import EndpointId, EntityId

SENDER = EntityId(EndpointId(bytes(16)), 1)
WRITER = actions.WriterId.of(SENDER, 1)

EXAMPLES = [
    (commands.Actions((b"one",)), channels.Event(7, 5, (b"one",))),
    (commands.AttachWriterCommand(9), channels.Handshake(7, 5, 9)),
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


def test_what_is_no_message_of_the_channel_becomes_none():
    command = InternalCommand(5, SENDER, 1, 7, commands.DetachCommand())
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
