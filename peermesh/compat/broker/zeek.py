"""Events of Zeek: the data that stands for one in a message, made and read."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import ClassVar

from peermesh import Count, Timestamp
from peermesh.compat.broker.data import Data, Given, ImmutableData


class MetadataType:
    """Keys of metadata: Zeek's own, and the first one that is free for users."""

    NetworkTimestamp = Count(1)
    UserMetadataStart = Count(200)


class Event:
    """An event: ``Event("ping", 1, metadata={...})``, or ``Event(data)`` of a message.

    What is asked of one that is not valid raises ``ValueError``.
    """

    _form: ClassVar[type[Data]] = Data

    def __init__(self, *args: Given, metadata: Given = None) -> None:
        if len(args) == 1 and not isinstance(args[0], str):
            self._data = Data(args[0])
            return
        content = [args[0], args[1:]]
        if metadata is not None:
            pairs = metadata.items() if isinstance(metadata, Mapping) else metadata
            content.append([(k if isinstance(k, Count) else Count(k), value) for k, value in pairs])
        # The format of the message, and its kind among those of Zeek.
        self._data = Data((Count(1), Count(1), content))

    def as_data(self) -> Data:
        return self._data

    def valid(self) -> bool:
        match self._data.value:
            case (Count(1), Count(1), (str(), tuple(), tuple(metadata))):
                return all(map(_is_metadata, metadata))
            case (Count(1), Count(1), (str(), tuple())):
                return True
            case _:
                return False

    def name(self) -> Given:
        return self._content()[0]

    def args(self) -> list[Given]:
        return [self._form.to_py(each) for each in self._content()[1]]

    def metadata(self) -> list[Given] | None:
        return [Data.to_py(pair) for pairs in self._content()[2:] for pair in pairs] or None

    def _content(self) -> Given:
        if not self.valid():
            raise ValueError(f"this is no event of Zeek: {self._data}")
        return self._data.value[2]


class SafeEvent(Event):
    """The same, with arguments that can be hashed."""

    _form: ClassVar[type[Data]] = ImmutableData


def _is_metadata(pair: Given) -> bool:
    match pair:
        case (MetadataType.NetworkTimestamp, value):
            return isinstance(value, (datetime, Timestamp))
        case (Count(), _):
            return True
        case _:
            return False
