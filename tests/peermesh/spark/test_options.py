"""Options: what is meant, and what is refused."""

from __future__ import annotations

import pytest

from peermesh.spark.options import (
    End,
    Explicit,
    Instant,
    MeshAddress,
    ValueFormat,
    Writing,
    read_options,
)
from wire.errors import InvalidData

LOG = {"peers": "a:1,[::1]:2", "log": "orders"}


def test_what_is_not_given_has_a_default():
    options = read_options(LOG)
    assert options.address == MeshAddress((("a", 1), ("::1", 2)))
    assert (options.starting, options.ending) == (End.EARLIEST, End.LATEST)
    assert options.fails_on_loss
    assert options.value_format is ValueFormat.STRING
    assert options.writing is Writing.UPSERT


def test_names_are_taken_in_any_case_and_sparks_own_are_let_be():
    options = read_options({**LOG, "STARTINGOFFSETS": "latest", "checkpointLocation": "x"})
    assert options.starting is End.LATEST


def test_places_are_offsets_or_times():
    assert read_options({**LOG, "startingOffsets": '{"1": 7}'}).starting == Explicit(((1, 7),))
    instant = read_options({**LOG, "endingTimestamp": "1970-01-01T00:00:01.5+00:00"}).ending
    assert instant == Instant(1_500_000_000)


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"startingOfsets": "latest"}, "no option 'startingofsets'"),
        ({"store": "x"}, "one of the options log and store"),
        ({"peers": "nowhere"}, "no address"),
        ({"peers": f"here:{'9' * 5_000}"}, "no address"),
        ({"peers": ""}, "option peers"),
        ({"maxOffsetsPerTrigger": "0"}, "more than zero"),
        ({"maxOffsetsPerTrigger": "many"}, "is a number"),
        ({"failOnDataLoss": "yes"}, "true or false"),
        ({"valueFormat": "xml"}, "binary, string, json"),
        ({"valueFormat": "json"}, "valueSchema"),
        ({"startingOffsets": "soon"}, "an offset for each partition"),
        ({"startingOffsets": '{"0": -1}'}, "an offset for each partition"),
        ({"startingTimestamp": "2026-01-01T00:00:00"}, "time zone"),
        ({"startingTimestamp": "noon"}, "is a time"),
        ({"startingTimestamp": "2026-01-01T00:00:00Z", "startingOffsets": "latest"}, "one of"),
    ],
)
def test_what_makes_no_sense_is_refused(more, text):
    with pytest.raises(InvalidData, match=text):
        read_options({**LOG, **more})
