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
    read_sink_options,
    read_source_options,
)
from wire.errors import InvalidData

LOG = {"peers": "a:1,[::1]:2", "log": "orders"}


def test_what_is_not_given_has_a_default():
    options = read_source_options(LOG)
    assert options.address == MeshAddress((("a", 1), ("::1", 2)))
    assert (options.starting, options.ending) == (End.EARLIEST, End.LATEST)
    assert options.fails_on_loss
    assert options.value_format is ValueFormat.STRING
    assert read_sink_options(LOG).writing is Writing.UPSERT


def test_names_are_taken_in_any_case_and_sparks_own_are_let_be():
    options = read_source_options({**LOG, "STARTINGOFFSETS": "latest", "checkpointLocation": "x"})
    assert options.starting is End.LATEST


def test_places_are_offsets_or_times():
    assert read_source_options({**LOG, "startingOffsets": '{"1": 7}'}).starting == Explicit(
        ((1, 7),)
    )
    signs = {**LOG, "startingOffsets": '{"1": -2, "0": -1}', "endingOffsets": '{"0": -1}'}
    assert read_source_options(signs).starting == Explicit(((0, -1), (1, -2)))
    assert read_source_options(signs).ending == Explicit(((0, -1),))
    instant = read_source_options({**LOG, "endingTimestamp": "1970-01-01T00:00:01.5+00:00"}).ending
    assert instant == Instant(1_500_000_000)


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"startingOfsets": "latest"}, "no option 'startingOfsets'"),
        ({"store": "x"}, "one of the options log and store"),
        ({"peers": "nowhere"}, "no address"),
        ({"peers": f"here:{'9' * 5_000}"}, "no address"),
        ({"peers": ""}, "option peers"),
        ({"maxOffsetsPerTrigger": "0"}, "more than zero"),
        ({"maxOffsetsPerTrigger": "1e3"}, "is a whole number, not '1e3'"),
        ({"patience": "long"}, "is a number"),
        ({"failOnDataLoss": "yes"}, "true or false"),
        ({"valueFormat": "json"}, "one of binary, string"),
        ({"valueSchema": "a BIGINT", "valueFormat": "binary"}, "leave valueFormat away"),
        ({"minPartitions": "9", "maxTasks": "8"}, "more than maxTasks"),
        ({"startingOffsets": "soon"}, "an offset for each partition"),
        ({"startingOffsets": '{"0": -3}'}, "an offset for each partition"),
        ({"startingOffsets": '{"0": true}'}, "an offset for each partition"),
        *(
            ({"startingOffsets": text}, "an offset for each partition")
            for text in ("[]", "[1]", '["ab"]', "null", "7", '""', '{"a": 1}', '{"0": null}')
        ),
        ({"startingOffsets": '{"0": 1, "0": 2}'}, "option startingOffsets names a partition twice"),
        ({"startingOffsets": '{"0": 1, "00": 2}'}, "names a partition twice"),
        ({"endingOffsets": '{"0": -2}'}, "option endingOffsets has -2, the beginning"),
        ({"startingTimestamp": "2026-01-01T00:00:00"}, "write 2026-01-01T00:00:00Z for UTC"),
        ({"startingTimestamp": "2026-01-31"}, "write 2026-01-31T00:00:00Z for UTC"),
        ({"startingTimestamp": "1969-12-31T23:59:59Z"}, "option startingTimestamp is a time bet"),
        ({"endingTimestamp": "2263-01-01T00:00:00Z"}, "option endingTimestamp is a time between"),
        ({"endingTimestamp": "0001-01-01T00:00:00+23:00"}, "option endingTimestamp is a time bet"),
        ({"consumer": ""}, "option consumer is a name of 1 to 255 characters, not of 0"),
        ({"consumer": "c" * 256}, "option consumer is a name of 1 to 255 characters, not of 256"),
        ({"startingTimestamp": "noon"}, "is a time"),
        ({"startingTimestamp": "2026-01-01T00:00:00Z", "startingOffsets": "latest"}, "one of"),
    ],
)
def test_what_makes_no_sense_is_refused(more, text):
    with pytest.raises(InvalidData, match=text):
        read_source_options({**LOG, **more})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("keyColumns", "a"), ("topicColumn", "a"), ("valueColumn", "a"), ("writeMode", "upsert"),
        ("writeId", "x"), ("nullKeys", "drop"),
    ],
)  # fmt: skip
def test_an_option_of_the_sink_is_refused_by_the_source(name, value):
    with pytest.raises(InvalidData, match=f"option {name} is of the sink"):
        read_source_options({**LOG, name: value})
    assert read_sink_options({**LOG, name.upper(): value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("startingOffsets", "latest"), ("endingTimestamp", "2026-01-01T00:00:00Z"),
        ("maxOffsetsPerTrigger", "7"), ("failOnDataLoss", "false"), ("consumer", "x"),
        ("pollTimeout", "1"), ("valueFormat", "binary"), ("minPartitions", "2"),
        ("maxTasks", "2"), ("rowsPerTask", "2"), ("valueSchema", "a BIGINT"),
    ],
)  # fmt: skip
def test_an_option_of_the_source_is_refused_by_the_sink(name, value):
    with pytest.raises(InvalidData, match=f"option {name} is of the source"):
        read_sink_options({**LOG, name: value})
    assert read_source_options({**LOG, name.upper(): value})


def test_a_stream_has_no_write_id():
    with pytest.raises(InvalidData, match=r"option writeId is of df.write: the checkpoint of a st"):
        read_sink_options({**LOG, "WRITEID": "x"}, is_stream=True)
    assert read_sink_options({**LOG, "writeId": "x"}).write_id == "x"
    assert read_sink_options(LOG, is_stream=True).write_id is None


@pytest.mark.parametrize(
    ("name", "value", "is_of_streams"),
    [
        ("endingOffsets", "latest", False), ("endingTimestamp", "2026-01-01T00:00:00Z", False),
        ("maxOffsetsPerTrigger", "7", True), ("consumer", "x", True), ("pollTimeout", "1", True),
    ],
)  # fmt: skip
def test_streams_and_tables_of_a_log_refuse_each_others_options(name, value, is_of_streams):
    given = {**LOG, name.upper(): value}
    assert read_source_options(given, is_stream=is_of_streams) == read_source_options(given)
    with pytest.raises(InvalidData, match=f"option {name} is of spark.read"):
        read_source_options(given, is_stream=not is_of_streams)


def test_what_spark_makes_reads_its_options_as_those_of_a_stream_or_of_a_table():
    types = pytest.importorskip("pyspark.sql.types")
    from peermesh.spark.source import MeshSource

    schema = types.StructType().add("value", types.StringType())
    source = MeshSource({**LOG, "writeId": "x"})
    assert source.writer(schema, overwrite=False)
    with pytest.raises(InvalidData, match="option writeId is of"):
        source.streamWriter(schema, overwrite=False)
    assert MeshSource({**LOG, "endingOffsets": "latest"}).reader(schema)
    with pytest.raises(InvalidData, match="option endingOffsets is of"):
        MeshSource({**LOG, "endingOffsets": "latest"}).streamReader(schema)
    assert MeshSource({**LOG, "consumer": "x"}).streamReader(schema)
    with pytest.raises(InvalidData, match="option consumer is of"):
        MeshSource({**LOG, "consumer": "x"}).reader(schema)


def test_an_option_of_logs_is_refused_where_a_store_is_read():
    store = {"peers": "a:1", "store": "totals"}
    with pytest.raises(InvalidData, match="startingOffsets is of logs"):
        read_source_options({**store, "startingOffsets": "latest"})
    assert read_source_options({**store, "minPartitions": "2"}).task_count(100) == 2
    assert read_source_options({**store, "valueFormat": "binary"}).store == "totals"


def test_columns_go_by_what_is_read():
    assert read_source_options(LOG).columns == (
        "key STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, value STRING"
    )
    store = {"peers": "a:1", "store": "totals", "valueFormat": "binary"}
    assert read_source_options(store).columns == "key STRING, value BINARY, revision BIGINT"
    fast = read_source_options({**LOG, "valueSchema": "a BIGINT"}).columns
    assert fast.endswith("value STRUCT<a BIGINT>, unparsed STRING")


def test_tasks_go_by_rows_between_the_least_and_the_most():
    options = read_source_options({**LOG, "minPartitions": "4", "rowsPerTask": "10"})
    assert [options.task_count(rows) for rows in (0, 3, 39, 41, 100_000)] == [0, 3, 4, 5, 64]
    many = read_source_options({**LOG, "minPartitions": "200"})
    assert many.task_count(10_000) == 200


def test_on_one_machine_no_more_tasks_are_cut_than_its_cores_have_use_for():
    local = read_source_options(LOG, 2)
    counts = [
        local.task_count(rows) for rows in (0, 1, 50_000, 50_001, 400_000, 400_001, 1_000_000)
    ]
    assert counts == [0, 1, 1, 2, 2, 4, 6], "as many as cores, as long as none has 200,000 rows"
    assert read_source_options(LOG, 16).task_count(400_000) == 8, "none has less than 50,000"
    assert read_source_options(LOG).task_count(400_000) == 8
    told = {**LOG, "rowsPerTask": "100000"}
    assert read_source_options(told, 2).task_count(400_000) == 4, "what is given counts"
    least = {**LOG, "minPartitions": "7", "maxTasks": "9"}
    assert [read_source_options(least, 2).task_count(rows) for rows in (9, 10**9)] == [7, 9]
